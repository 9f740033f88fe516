#include "hub/ingress/listeners.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/tree.h"
#include "base/core/util.h"
#include "base/tls/pki.h"

enum { PEM_MAX = 256 * 1024 };

/* --- certificates --------------------------------------------------------------------------- */

/* Reads the file that a member of `entry` names; NULL if it names none. */
static int
read_pem(const struct tree_node *entry, const char *member, char **pem, struct err *err)
{
	const char *path = tree_text(tree_get(entry, member), "");
	int rc;

	*pem = NULL;
	if (*path == '\0')
		return 0;
	rc = file_read(path, PEM_MAX, pem, NULL);
	return rc < 0 ? err_set(err, rc, "%s %s: %s", member, path, strerror(-rc)) : 0;
}

/* For callers: cert, key, clientCA. */
static int
read_tls(const struct tree_node *entry, struct door *door, struct err *err)
{
	auto_free char *cert = NULL, *key = NULL, *ca = NULL;
	int rc = read_pem(entry, "cert", &cert, err);

	if (rc == 0)
		rc = read_pem(entry, "key", &key, err);
	if (rc == 0)
		rc = read_pem(entry, "clientCA", &ca, err);
	if (rc < 0 || cert == NULL || key == NULL)
		return rc;
	door->proven = ca != NULL;
	return pki_listener_ctx(cert, key, ca, &door->tls, err);
}

/* For targets: clientCert, clientKey (or both in one file), serverCA. */
static int
read_onward(const struct tree_node *entry, struct door *door, struct err *err)
{
	auto_free char *cert = NULL, *key = NULL, *ca = NULL;
	int rc = read_pem(entry, "clientCert", &cert, err);

	if (rc == 0)
		rc = read_pem(entry, "clientKey", &key, err);
	if (rc == 0)
		rc = read_pem(entry, "serverCA", &ca, err);
	if (rc < 0)
		return rc;
	door->onward_proven = ca != NULL;
	return pki_client_ctx(ca, cert, key != NULL ? key : cert, &door->onward, err);
}

/* --- listeners ------------------------------------------------------------------------------ */

static int
open_at(struct ingress *i, struct door *door, const char *listen, struct err *err)
{
	int rc = addr_parse(&door->listen, listen, 0, err);

	if (rc == 0)
		return ingress_listen(i, door, err);
	pki_ctx_free(&door->tls);
	pki_ctx_free(&door->onward);
	return err_wrap(err, rc, "%s", door->name);
}

static int
open_egress(struct ingress *i, const struct tree_node *egress, struct err *err)
{
	struct door door = {.kind = DOOR_EGRESS, .name = "ingress.egress"};
	int rc = read_tls(egress, &door, err);

	if (rc < 0)
		return err_wrap(err, rc, "ingress.egress");
	return open_at(i, &door, tree_text(tree_get(egress, "listen"), ""), err);
}

/* "22", "127.0.0.1:22" or, for a service, "80": reads host and port of a map's target. */
static int
read_target(const struct tree_node *entry, struct door *door, char host[256], struct err *err)
{
	const char *node = tree_text(tree_get(entry, "node"), "");
	const char *service = tree_text(tree_get(entry, "service"), "");
	const char *target = tree_text(tree_get(entry, "target"), "");
	const char *name = *node != '\0' ? node : service, *port = target, *colon;
	char *end;
	unsigned long n;

	colon = strrchr(*target != '\0' ? target : service, ':');
	if (colon != NULL)
		port = colon + 1;
	n = strtoul(port, &end, 10);
	if (*port < '0' || *port > '9' || *end != '\0' || n == 0 || n > 65535)
		return err_set(err, EINVAL,
			"line %u: %s: the port is missing: target: PORT, target: IP:PORT, or "
			"service: "
			"NAME.NAMESPACE:PORT",
			entry->line, door->name);
	door->port = (uint16_t)n;
	snprintf(host, 256, "%.*s",
		(int)(*target == '\0' && colon != NULL ? colon - name : (ptrdiff_t)strlen(name)),
		name);
	door->host = host;
	door->names = *node != '\0' ? ROUTES_NODES : ROUTES_SERVICES;
	return 0;
}

static int
read_map(const struct tree_node *entry, struct door *door, char host[256], struct err *err)
{
	const char *target = tree_text(tree_get(entry, "target"), "");

	/* For a node, the target may be an address as the node sees it. */
	if (strchr(target, ':') != NULL && !tree_is_null(tree_get(entry, "node")))
		door->dest = target;
	return read_target(entry, door, host, err);
}

static int
open_maps(struct ingress *i, const struct tree_node *maps, struct err *err)
{
	int rc = 0;

	tree_each(maps, entry) {
		struct door door = {.kind = DOOR_FIXED, .name = "ingress.tcp"};
		char host[256];

		rc = read_map(entry, &door, host, err);
		if (rc == 0)
			rc = open_at(i, &door, tree_text(tree_get(entry, "listen"), ""), err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int
open_udp(struct udp_maps *udp, const struct tree_node *maps, struct err *err)
{
	tree_each(maps, entry) {
		struct door door = {.name = "ingress.udp"};
		struct udp_map_setup setup = {0};
		char host[256];
		int rc = read_map(entry, &door, host, err);

		if (rc < 0)
			return rc;
		setup.host = door.host;
		setup.names = door.names;
		setup.port = door.port;
		setup.dest = door.dest;
		rc = addr_parse(&setup.listen, tree_text(tree_get(entry, "listen"), ""), 0, err);
		if (rc == 0)
			rc = udp_maps_open(udp, &setup, err);
		if (rc < 0)
			return err_wrap(err, rc, "line %u: %s", entry->line, door.name);
	}
	return 0;
}

/* "10250" or "127.0.0.1:10250": the target at the node that the client's SNI names. */
static int
read_node_target(const struct tree_node *entry, struct door *door, struct err *err)
{
	const char *target = tree_text(tree_get(entry, "target"), "");
	struct addr addr;
	char *end;
	unsigned long port = strtoul(target, &end, 10);

	if (*target >= '0' && *target <= '9' && *end == '\0' && port > 0 && port <= 65535) {
		door->port = (uint16_t)port;
		return 0;
	}
	if (addr_parse(&addr, target, 0, NULL) < 0 || addr.sa.sa_family == AF_UNIX ||
		(door->port = addr_port(&addr)) == 0)
		return err_set(err, EINVAL,
			"line %u: %s: target: expected the port at the node, or IP:PORT as the "
			"node sees it",
			entry->line, door->name);
	door->dest = target;
	return 0;
}

/* Both contexts, if TLS ends here. */
static int
read_contexts(const struct tree_node *entry, struct door *door, struct err *err)
{
	int rc = read_tls(entry, door, err);

	if (rc == 0 && door->tls != NULL)
		rc = read_onward(entry, door, err);
	if (rc == 0)
		return 0;
	pki_ctx_free(&door->tls);
	return err_wrap(err, rc, "line %u: ingress.tls", entry->line);
}

static int
open_tls(struct ingress *i, const struct tree_node *list, struct err *err)
{
	tree_each(list, entry) {
		struct door door = {.kind = DOOR_SNI, .name = "ingress.tls", .names = ROUTES_NODES};
		int rc = read_node_target(entry, &door, err);

		if (rc < 0)
			return rc;
		if ((rc = read_contexts(entry, &door, err)) < 0)
			return rc;
		rc = open_at(i, &door, tree_text(tree_get(entry, "listen"), ""), err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int
listeners_open(
	struct ingress *i, struct udp_maps *udp, const struct hub_ways_in *config, struct err *err)
{
	struct door http = {.kind = DOOR_HTTP, .name = "ingress.http"};
	int rc = 0;

	if (config->http != NULL && *config->http != '\0')
		rc = open_at(i, &http, config->http, err);
	if (rc == 0 && config->egress != NULL)
		rc = open_egress(i, config->egress, err);
	if (rc == 0)
		rc = open_tls(i, config->tls, err);
	if (rc == 0)
		rc = open_maps(i, config->tcp, err);
	if (rc == 0)
		rc = open_udp(udp, config->udp, err);
	return rc;
}

int
listeners_renew(struct ingress *i, const struct hub_ways_in *config, struct err *err)
{
	struct door egress = {0}, *tls = NULL;
	unsigned n = 0, read = 0;
	int rc = config->egress != NULL ? read_tls(config->egress, &egress, err) : 0;

	if (rc < 0)
		return err_wrap(err, rc, "ingress.egress");
	tree_each(config->tls, counted)
		n += counted != NULL;
	tls = xcalloc(n + 1, sizeof *tls);
	tree_each(config->tls, entry) {
		if ((rc = read_contexts(entry, &tls[read], err)) < 0)
			break;
		read++;
	}
	if (rc == 0)
		ingress_renew(i, "ingress.egress", 0, take_ptr(&egress.tls), NULL);
	for (unsigned k = 0; k < read && rc == 0; k++)
		ingress_renew(i, "ingress.tls", k, take_ptr(&tls[k].tls), take_ptr(&tls[k].onward));
	pki_ctx_free(&egress.tls);
	for (unsigned k = 0; k < read; k++) {
		pki_ctx_free(&tls[k].tls);
		pki_ctx_free(&tls[k].onward);
	}
	free(tls);
	return rc;
}
