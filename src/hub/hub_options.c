#include "src/hub/hub_options.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/sock.h"
#include "model/check.h"
#include "model/selector.h"
#include "src/common/option_checks.h"

#define ROW(type, member, ...) OPT_ROW(struct hub_options, type, member, __VA_ARGS__)
static const struct opt table[] = {HUB_OPTIONS(ROW)};
#undef ROW

const struct opt_program hub_program = {
	.name = "edgeway-hub",
	.summary = "Tells the edge nodes of a cluster about its Services, and carries cloud "
		   "traffic to the nodes.",
	.table = table,
	.n = ARRAY_LEN(table),
};

#define complain(o, key, err, ...) opt_complain(o, key, NULL, err, __VA_ARGS__)

static const struct shape egress_shape[] = {
	{"listen", SHAPE_ADDRESS, true},
	{"cert", SHAPE_TEXT, false},
	{"key", SHAPE_TEXT, false},
	{"clientCA", SHAPE_TEXT, false},
};
static const struct shape tls_shape[] = {
	{"listen", SHAPE_ADDRESS, true},
	{"target", SHAPE_TEXT, true},
	{"cert", SHAPE_TEXT, false},
	{"key", SHAPE_TEXT, false},
	{"clientCA", SHAPE_TEXT, false},
	{"clientCert", SHAPE_TEXT, false},
	{"clientKey", SHAPE_TEXT, false},
	{"serverCA", SHAPE_TEXT, false},
};
static const struct shape port_shape[] = {
	{"listen", SHAPE_ADDRESS, true},
	{"node", SHAPE_TEXT, false},
	{"service", SHAPE_TEXT, false},
	{"target", SHAPE_TEXT, false},
};
static const struct shape redirect_shape[] = {
	{"listen", SHAPE_ADDRESS, true},
	{"ports", SHAPE_PORTS, false},
};
static const struct shape access_shape[] = {
	{"from", SHAPE_TEXT, true},
	{"tokenSHA256", SHAPE_TEXT, false},
	{"to", SHAPE_TEXTS, true},
};

static int
check_source(const struct hub_options *o, struct err *err)
{
	bool kubernetes = opt_given(o, "source.kubernetes.kubeconfig") ||
		opt_given(o, "source.kubernetes.silence") ||
		opt_given(o, "source.kubernetes.namespace") ||
		opt_given(o, "source.kubernetes.share") ||
		opt_given(o, "source.kubernetes.sites") ||
		opt_given(o, "source.kubernetes.destinationRules") ||
		opt_given(o, "source.kubernetes.networkPolicies") ||
		opt_given(o, "source.kubernetes.gatewayAPI");

	if (o->source_manifests[0] != '\0' && kubernetes)
		return complain(o, "source.manifests", err,
			"Services come from one source: leave out source.manifests or "
			"source.kubernetes");
	if (o->source_manifests[0] == '\0' && !kubernetes)
		return complain(o, "source.manifests", err,
			"say where Services come from: source.manifests: FOLDER, or "
			"source.kubernetes: {}");
	if (o->source_kubernetes_namespace[0] != '\0' &&
		!check_label(
			o->source_kubernetes_namespace, strlen(o->source_kubernetes_namespace)))
		return complain(o, "source.kubernetes.namespace", err,
			"\"%.80s\" is not the name of a namespace", o->source_kubernetes_namespace);
	return 0;
}

static int
check_join_nodes(const struct hub_options *o, struct err *err)
{
	struct selector *selector = NULL;
	struct err why = {0};
	int rc = selector_parse(&selector, o->join_nodes, &why);

	selector_free(&selector);
	return rc < 0 ? complain(o, "join.nodes", err, "%s", why.text) : 0;
}

static int
check_tls(const struct hub_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	int rc = option_pair(&c, "tls.cert", o->tls_cert, "tls.key", o->tls_key);

	if (rc == 0 && o->tls_ca_key[0] != '\0')
		rc = option_pair(&c, "tls.ca", o->tls_ca, "tls.caKey", o->tls_ca_key);
	if (rc == 0 && o->tls_service[0] != '\0' && o->source_manifests[0] != '\0')
		rc = complain(o, "tls.service", err, "needs source.kubernetes");
	if (rc == 0 && o->join_approval && o->source_manifests[0] != '\0')
		rc = complain(o, "join.approval", err,
			"needs source.kubernetes: nodes ask by CertificateSigningRequests");
	if (rc == 0 && o->join_approval && o->tls_ca[0] != '\0' && o->tls_ca_key[0] == '\0')
		rc = complain(o, "join.approval", err, "needs tls.caKey: this hub signs nothing");
	if (rc == 0)
		rc = check_join_nodes(o, err);
	for (char **at = o->tls_names; *at != NULL && rc == 0; at++) {
		struct in6_addr a;

		if (!option_is_dns_name(strncmp(*at, "*.", 2) == 0 ? *at + 2 : *at) &&
			inet_pton(AF_INET6, *at, &a) != 1)
			rc = complain(o, "tls.names", err,
				"\"%.80s\" is neither a DNS name in lower case nor an address",
				*at);
	}
	return rc;
}

bool
hub_options_is_loopback(const char *text)
{
	struct addr a;

	if (text[0] == '\0' || addr_parse(&a, text, 0, NULL) < 0 || a.sa.sa_family == AF_UNIX)
		return true;
	if (a.sa.sa_family == AF_INET)
		return ntohl(a.in.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&a.in6.sin6_addr);
}

/* If callers from other machines can connect, somebody must be allowed by name. */
static int
check_open(const struct hub_options *o, const char *key, const struct tree_node *entry,
	const char *listen, struct err *err)
{
	if (hub_options_is_loopback(listen) || o->access != NULL ||
		!tree_is_null(tree_get(entry, "clientCA")))
		return 0;
	return opt_complain(o, key, entry, err,
		"%s can be reached by others: say in access who may come in, or listen on "
		"127.0.0.1",
		listen);
}

/* Checks the files of one entry, and who may use it, which `struct shape` cannot express. */
static int
check_entry(const struct option_check *c, const char *key, const struct tree_node *entry)
{
	bool cert = !tree_is_null(tree_get(entry, "cert")),
	     pem = !tree_is_null(tree_get(entry, "key"));
	static const char *const needs_cert[] = {"clientCA", "clientCert", "clientKey", "serverCA"};

	if (cert != pem)
		return opt_complain(
			c->values, key, entry, c->err, "cert and key: set both or neither");
	for (size_t i = 0; i < ARRAY_LEN(needs_cert) && !cert; i++)
		if (!tree_is_null(tree_get(entry, needs_cert[i])))
			return opt_complain(c->values, key, entry, c->err,
				"%s: needs cert and key as well, since TLS ends here then",
				needs_cert[i]);
	return check_open(c->values, key, entry, tree_text(tree_get(entry, "listen"), ""), c->err);
}

static int
check_ports(const struct option_check *c, const char *key, const struct tree_node *list)
{
	int rc;

	if (list == NULL)
		return 0;
	if ((rc = option_list(c, key, list, port_shape, ARRAY_LEN(port_shape))) < 0)
		return rc;
	tree_each(list, entry) {
		bool node = !tree_is_null(tree_get(entry, "node")),
		     service = !tree_is_null(tree_get(entry, "service"));

		if (node == service)
			return opt_complain(c->values, key, entry, c->err,
				"an entry has either node or service");
		if (node && tree_is_null(tree_get(entry, "target")))
			return opt_complain(c->values, key, entry, c->err,
				"target is missing: which port of the node, such as 127.0.0.1:22");
		rc = check_open(
			c->values, key, entry, tree_text(tree_get(entry, "listen"), ""), c->err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Only TCP may use Unix sockets. */
static int
check_udp(const struct option_check *c, const struct tree_node *list)
{
	tree_each(list, entry) {
		if (strncmp(tree_text(tree_get(entry, "listen"), ""), "unix:", 5) == 0)
			return opt_complain(c->values, "ingress.udp", entry, c->err,
				"listen: expected IP:PORT, such as 127.0.0.1:5353");
	}
	return 0;
}

/* --- ingress.redirect ----------------------------------------------------------------------- */

static int
add_ports(const struct hub_options *o, const struct tree_node *at, struct hub_redirect *to,
	struct err *err)
{
	const char *text = tree_text(at, ""), *dash = strchr(text, '-');
	unsigned long first = strtoul(text, NULL, 10);
	unsigned long last = dash != NULL ? strtoul(dash + 1, NULL, 10) : first;

	if (last < first)
		return opt_complain(
			o, "ingress.redirect", at, err, "ports: %.20s ends before it begins", text);
	for (unsigned long port = first; port <= last; port++) {
		size_t i = 0;

		while (i < to->n_ports && to->ports[i] < port)
			i++;
		if (i < to->n_ports && to->ports[i] == port)
			continue;
		if (to->n_ports == HUB_REDIRECT_PORTS_MAX)
			return opt_complain(o, "ingress.redirect", at, err, "ports: more than %d",
				HUB_REDIRECT_PORTS_MAX);
		memmove(to->ports + i + 1, to->ports + i, (to->n_ports - i) * sizeof *to->ports);
		to->ports[i] = (uint32_t)port;
		to->n_ports++;
	}
	return 0;
}

static int
read_ports(const struct hub_options *o, const struct tree_node *at, struct hub_redirect *to,
	struct err *err)
{
	int rc = 0;

	if (at->kind != TREE_LIST)
		return add_ports(o, at, to, err);
	tree_each(at, item) {
		if (rc == 0)
			rc = add_ports(o, item, to, err);
	}
	return rc;
}

int
hub_options_redirect(const struct hub_options *o, struct hub_redirect *to, struct err *err)
{
	const struct tree_node *entry = o->ingress_redirect, *ports = tree_get(entry, "ports");
	struct in6_addr ip;

	*to = (struct hub_redirect){.ports = {10250, 10255}, .n_ports = 2};
	if (entry == NULL)
		return 0;
	to->on = true;
	if (addr_parse(&to->listen, tree_text(tree_get(entry, "listen"), ""), 0, err) < 0 ||
		!addr_ip(&to->listen, &ip))
		return opt_complain(o, "ingress.redirect", entry, err,
			"listen: expected an IP address of this host and a port, such as "
			"127.0.0.1:10260");
	to->listen = addr_of(&ip, addr_port(&to->listen));
	if (tree_is_null(ports))
		return 0;
	to->n_ports = 0;
	return read_ports(o, ports, to, err);
}

static int
check_redirect(const struct hub_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	const struct tree_node *entry = o->ingress_redirect;
	struct hub_redirect redirect;
	int rc = 0;

	if (entry != NULL)
		rc = option_map(
			&c, "ingress.redirect", entry, redirect_shape, ARRAY_LEN(redirect_shape));
	if (rc == 0)
		rc = hub_options_redirect(o, &redirect, err);
	if (rc == 0 && entry != NULL)
		rc = check_open(o, "ingress.redirect", entry,
			tree_text(tree_get(entry, "listen"), ""), err);
	return rc;
}

static int
check_ingress(const struct hub_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	int rc = 0;

	if (o->ingress_egress != NULL) {
		rc = option_map(&c, "ingress.egress", o->ingress_egress, egress_shape,
			ARRAY_LEN(egress_shape));
		if (rc == 0)
			rc = check_entry(&c, "ingress.egress", o->ingress_egress);
	}
	if (rc == 0 && o->ingress_tls != NULL)
		rc = option_list(
			&c, "ingress.tls", o->ingress_tls, tls_shape, ARRAY_LEN(tls_shape));
	if (rc == 0) {
		tree_each(o->ingress_tls, entry) {
			if ((rc = check_entry(&c, "ingress.tls", entry)) < 0)
				return rc;
		}
	}
	if (rc == 0)
		rc = check_ports(&c, "ingress.tcp", o->ingress_tcp);
	if (rc == 0)
		rc = check_ports(&c, "ingress.udp", o->ingress_udp);
	if (rc == 0)
		rc = check_udp(&c, o->ingress_udp);
	if (rc == 0)
		rc = check_redirect(o, err);
	if (rc == 0)
		rc = check_open(o, "ingress.http", NULL, o->ingress_http, err);
	return rc;
}

static int
check_access(const struct hub_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	const struct tree_node *at;
	struct err why = {0};
	int rc;

	for (char **peer = o->peers; *peer != NULL; peer++) {
		if (!option_is_host_port(*peer, strlen(*peer)))
			return complain(
				o, "peers", err, "\"%.80s\": expected HOST or HOST:PORT", *peer);
	}
	if (o->access == NULL)
		return 0;
	rc = option_list(&c, "access", o->access, access_shape, ARRAY_LEN(access_shape));
	if (rc == 0 && (at = hub_check_access(o->access, &why)) != NULL)
		rc = opt_complain(o, "access", at, err, "%s", why.text);
	return rc;
}

static int
check_tracing(struct hub_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	int rc = tracing_keys_read(&c, o);
	const struct tracing_keys keys = TRACING_KEYS(o);

	return rc == 0 ? tracing_keys_check(o, &keys, err) : rc;
}

int
hub_options_check(struct hub_options *o, struct err *err)
{
	int rc = 0;

	if (o->listen[0] == '\0' || strncmp(o->listen, "unix:", 5) == 0)
		return complain(o, "listen", err,
			"expected IP:PORT, such as 0.0.0.0:10000: agents connect there");
	if (o->data_dir[0] != '/')
		return complain(
			o, "dataDir", err, "expected a full path such as /var/lib/edgeway-hub");
	if (o->takeover && o->admin_socket[0] == '\0')
		return opt_complain(o, "takeover", NULL, err,
			"needs admin.socket: by it the hub that runs is asked for its sockets");
	if (o->admin_socket[0] != '\0' && o->admin_socket[0] != '/')
		return complain(o, "admin.socket", err,
			"expected a full path such as /run/edgeway/hub.sock, or \"\"");
	rc = check_source(o, err);
	if (rc == 0)
		rc = check_tls(o, err);
	if (rc == 0)
		rc = check_ingress(o, err);
	if (rc == 0)
		rc = check_access(o, err);
	if (rc == 0)
		rc = hub_options_check_naming(o, err);
	if (rc == 0)
		rc = hub_options_check_web(o, err);
	if (rc == 0)
		rc = check_tracing(o, err);
	return rc;
}

enum opt_result
hub_options_load(struct hub_options *o, int argc, char **argv, bool *check, struct err *err)
{
	enum opt_result result = opt_load(&hub_program, o, argc, argv, check, err);

	if (result == OPT_RUN && hub_options_check(o, err) < 0)
		return OPT_EXIT_BAD;
	return result;
}

void
hub_options_free(struct hub_options *o)
{
	opt_free(&hub_program, o);
	free(take_ptr(&o->listened));
}
