#include "hub/doors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/tree.h"

static int
open_at(struct ingress *i, struct door *door, const char *listen, struct err *err)
{
	int rc = addr_parse(&door->listen, listen, 0, err);

	if (rc < 0)
		return err_wrap(err, rc, "%s", door->name);
	return ingress_listen(i, door, err);
}

/* Without certificates only callers of this machine can come in. */
static int
open_egress(struct ingress *i, const struct tree_node *egress, struct err *err)
{
	struct door door = {.kind = DOOR_EGRESS, .name = "ingress.egress"};

	return open_at(i, &door, tree_text(tree_get(egress, "listen"), ""), err);
}

/* "22", "127.0.0.1:22" or, for a service, "80": host and port of a map's target. */
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
	return 0;
}

static int
open_maps(struct ingress *i, const struct tree_node *maps, struct err *err)
{
	int rc = 0;

	tree_each(maps, entry)
	{
		struct door door = {.kind = DOOR_FIXED, .name = "ingress.tcp"};
		const char *target = tree_text(tree_get(entry, "target"), "");
		char host[256];

		rc = read_target(entry, &door, host, err);
		/* On a node, an address of its own choice may be meant. */
		if (rc == 0 && strchr(target, ':') != NULL &&
			!tree_is_null(tree_get(entry, "node")))
			door.dest = target;
		if (rc == 0)
			rc = open_at(i, &door, tree_text(tree_get(entry, "listen"), ""), err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int
doors_open(struct ingress *i, const struct hub_ways_in *config, struct err *err)
{
	struct door http = {.kind = DOOR_HTTP, .name = "ingress.http"};
	int rc = 0;

	if (config->http != NULL && *config->http != '\0')
		rc = open_at(i, &http, config->http, err);
	if (rc == 0 && config->egress != NULL)
		rc = open_egress(i, config->egress, err);
	if (rc == 0)
		rc = open_maps(i, config->tcp, err);
	return rc;
}
