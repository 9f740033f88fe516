#include "src/agent/agent_options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "base/http/proxy.h"
#include "base/tls/pki.h"
#include "model/dial_guard.h"
#include "model/mesh.h"
#include "src/common/option_checks.h"
#include "src/common/option_files.h"
#include "tunnel/tunnel.h"

enum { HUB_PORT = 10000, CERT_BYTES_MAX = 64 * 1024 };

#define ROW(type, member, ...) OPT_ROW(struct agent_options, type, member, __VA_ARGS__)
static const struct opt table[] = {AGENT_OPTIONS(ROW)};
#undef ROW

const struct opt_program agent_program = {
	.name = "edgeway-agent",
	.summary = "Connects the pods of an edge node to Kubernetes Services, and the cloud to the "
		   "node.",
	.table = table,
	.n = ARRAY_LEN(table),
	.action = "restore",
	.action_help = "undo what an agent that was killed left on the host, and exit",
};

#define complain(o, key, err, ...) opt_complain(o, key, NULL, err, __VA_ARGS__)

static void
agent_options_lower(char *text)
{
	for (; *text != '\0'; text++) {
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text | 0x20);
	}
}

/* The key, $NODE_NAME (as a DaemonSet sets it), or the host name (in lower case, as Kubernetes
 * does). */
static int
settle_node(struct agent_options *o, struct err *err)
{
	char host[256] = "";
	const char *name = getenv("NODE_NAME");

	if (o->node[0] == '\0') {
		if ((name == NULL || name[0] == '\0') && gethostname(host, sizeof host - 1) == 0) {
			agent_options_lower(host);
			name = host;
		}
		free(o->node);
		o->node = xstrdup(name != NULL ? name : "");
	}
	if (option_is_dns_name(o->node))
		return 0;
	return complain(o, "node", err,
		"\"%.80s\" cannot name a node: letters a-z, digits, '-' and '.' only; set node to "
		"what kubectl get nodes shows",
		o->node);
}

static int
check_subnet(struct agent_options *o, struct err *err)
{
	const struct opt_cidr *c = &o->mesh_subnet;
	unsigned first = c->address >> 24;
	struct err why;

	if (c->bits < 8 || c->bits > 24)
		return complain(o, "mesh.subnet", err,
			"the prefix must be from /8 to /24, such as 9.251.0.0/16");
	if (first == 0 || first == 127 || first >= 224)
		return complain(o, "mesh.subnet", err,
			"this range cannot be routed (0/8, 127/8, 224/3): take one that the node "
			"never calls, such as 9.251.0.0/16");
	if (fake6_parse(&o->subnet6, o->mesh_subnet6, &why) < 0)
		return complain(o, "mesh.subnet6", err, "%s", why.text);
	return 0;
}

static void
settle_interfaces(struct agent_options *o)
{
	static const char *const known[] = {MESH_POD_INTERFACES};
	bool automatic = strcmp(o->mesh_interface, "auto") == 0;
	size_t n = 0;
	bool own = strcmp(o->mesh_interface, "own") == 0;

	/* With a fixed address auto has nothing to choose: it is on the node, or will be. */
	o->own = own                                      ? IPTABLES_OWN_ALWAYS
		: automatic && o->mesh_address[0] == '\0' ? IPTABLES_OWN_INSTEAD
							  : IPTABLES_OWN_NEVER;
	o->bridge = own || automatic ? MESH_BRIDGE : o->mesh_interface;
	o->own_address =
		ntohl(inet_addr(o->mesh_address[0] != '\0' ? o->mesh_address : MESH_OWN_ADDRESS));
	while (o->mesh_interfaces[n] != NULL)
		n++;
	free(o->pod_interfaces);
	o->pod_interfaces = xcalloc(n + ARRAY_LEN(known) + 1, sizeof *o->pod_interfaces);
	for (size_t i = 0; i < n; i++)
		o->pod_interfaces[i] = o->mesh_interfaces[i];
	o->n_pod_bridges = n;
	if (!own && !automatic)
		return;
	o->n_pod_bridges += MESH_POD_BRIDGES - 1;
	for (size_t i = 1; i < ARRAY_LEN(known); i++)
		o->pod_interfaces[n++] = known[i];
}

static int
check_mesh(struct agent_options *o, struct err *err)
{
	struct in_addr a;
	uint32_t host;

	if (o->mesh_interface[0] == '\0' || strlen(o->mesh_interface) > 15 ||
		strchr(o->mesh_interface, '/') != NULL)
		return complain(o, "mesh.interface", err,
			"expected the name of an interface, 1 to 15 characters, such as docker0");
	if (!option_is_dns_name(o->mesh_cluster_domain))
		return complain(o, "mesh.clusterDomain", err,
			"\"%.80s\" is not a domain in lower case without a dot at the end, such as "
			"cluster.local",
			o->mesh_cluster_domain);
	if (o->mesh_address[0] != '\0') {
		if (inet_pton(AF_INET, o->mesh_address, &a) != 1)
			return complain(o, "mesh.address", err,
				"expected an IPv4 address such as 172.17.0.1, not \"%.64s\"",
				o->mesh_address);
		host = ntohl(a.s_addr);
		if ((host & o->mesh_subnet.mask) == o->mesh_subnet.address)
			return complain(o, "mesh.address", err,
				"%s lies in mesh.subnet: fake IPs are sent to this address, so it "
				"must be another",
				o->mesh_address);
	}
	if (o->mesh_listen_port == o->dns_port)
		return complain(o, "mesh.listenPort", err,
			"is the same as dns.port: both need a TCP port of their own");
	if (o->mesh_peer_port != 0 &&
		(o->mesh_peer_port == o->mesh_listen_port || o->mesh_peer_port == o->dns_port))
		return complain(o, "mesh.peerPort", err,
			"is the same as mesh.listenPort or dns.port: it needs a TCP port of its "
			"own");
	if (o->dns_serve_cluster_dns && o->dns_capture == CAPTURE_OFF)
		return complain(o, "dns.serveClusterDNS", err,
			"needs dns.capture: upstreams, by which those queries come here");
	settle_interfaces(o);
	return check_subnet(o, err);
}

static int
check_dns(const struct agent_options *o, struct err *err)
{
	struct err why = {0};
	struct addr a;

	for (char **at = o->dns_upstreams; *at != NULL; at++) {
		if (addr_parse(&a, *at, 53, &why) < 0 || a.sa.sa_family == AF_UNIX ||
			addr_port(&a) == 0)
			return complain(o, "dns.upstreams", err,
				"\"%.64s\" is not a server: expected IP or IP:PORT, such as "
				"192.0.2.53",
				*at);
	}
	if (o->dns_manage_resolv_conf && o->dns_resolv_conf[0] != '/')
		return complain(o, "dns.resolvConf", err,
			"expected a full path such as /etc/resolv.conf (or dns.manageResolvConf: "
			"false)");
	return 0;
}

static bool
ends_in_domain(const char *host, size_t len, const char *domain)
{
	size_t n = strlen(domain);

	if (len > 0 && host[len - 1] == '.')
		len--;
	return len > n && strncasecmp(host + len - n, domain, n) == 0 && host[len - n - 1] == '.';
}

/* Checks one URL and writes it as wss://host:port. */
static int
settle_url(const struct agent_options *o, char **url, struct err *err)
{
	const char *at = *url + strlen("wss://");
	size_t len, host;
	char *full;

	if (strncmp(*url, "wss://", 6) != 0)
		return complain(o, "hub.url", err,
			"\"%.80s\": expected wss://HOST[:PORT], such as wss://hub:10000", *url);
	len = strlen(at);
	if (len > 0 && at[len - 1] == '/')
		len--;
	if (!option_is_host_port(at, len))
		return complain(o, "hub.url", err,
			"\"%.80s\": expected wss://HOST[:PORT] without a path, such as "
			"wss://hub:10000",
			*url);
	host = at[0] == '[' ? strcspn(at, "]") + 1 : MIN(strcspn(at, ":"), len);
	if (ends_in_domain(at, host, o->mesh_cluster_domain))
		return complain(o, "hub.url", err,
			"\"%.80s\" lies in the cluster domain %.80s, which is not known before the "
			"hub is reached: "
			"give a name or address outside of it",
			*url, o->mesh_cluster_domain);
	if (host == len)
		full = xasprintf("wss://%.*s:%d", (int)len, at, HUB_PORT);
	else
		full = xasprintf("wss://%.*s", (int)len, at);
	free(*url);
	*url = full;
	return 0;
}

static bool
is_token(const char *token)
{
	const char *dot = token + strspn(token, "0123456789abcdef");

	return dot - token == 64 && *dot == '.' && dot[1] != '\0' &&
		strpbrk(dot, " \t\r\n\"") == NULL;
}

static int
check_proxy(struct agent_options *o, struct err *err)
{
	struct proxy proxy;
	struct err why = {0};
	bool inside;

	if (o->hub_proxy[0] == '\0')
		return 0;
	if (proxy_parse(&proxy, o->hub_proxy, &why) < 0)
		return complain(o, "hub.proxy", err, "%s", why.text);
	inside = ends_in_domain(proxy.host, strlen(proxy.host), o->mesh_cluster_domain);
	proxy_fini(&proxy);
	return !inside ? 0
		       : complain(o, "hub.proxy", err,
				 "its name lies in the cluster domain, which is not known before "
				 "the hub is reached: give a name or address outside of it");
}

static int
check_lb(const struct agent_options *o, struct err *err)
{
	struct err why = {0};
	struct dial_guard *guard;

	if (dial_guard_new((const char *const *)o->lb_allow, &guard, &why) < 0)
		return complain(o, "lb.allow", err, "%s", why.text);
	dial_guard_unref(&guard);
	return 0;
}

static int
check_hub(struct agent_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	int rc;

	for (char **at = o->hub_url; *at != NULL; at++) {
		if ((rc = settle_url(o, at, err)) < 0)
			return rc;
	}
	if ((rc = option_pair(&c, "hub.cert", o->hub_cert, "hub.key", o->hub_key)) < 0)
		return rc;
	if (o->hub_node_id[0] != '\0' && !option_is_dns_name(o->hub_node_id))
		return complain(
			o, "hub.nodeId", err, "expected letters a-z, digits, '-' and '.' only");
	if (o->hub_protocol == PROTOCOL_CLOUDHUB && o->hub_node_id[0] == '\0')
		return complain(o, "hub.nodeId", err,
			"a CloudHub serves one connection a node id and cuts the older one off: "
			"give "
			"this agent an id of its own, not that of the EdgeCore");
	if (o->hub_protocol == PROTOCOL_CLOUDHUB &&
		(o->hub_ca[0] == '\0' || o->hub_cert[0] == '\0'))
		return complain(o, "hub.cert", err,
			"a CloudHub gives no certificate to this agent: set hub.ca, hub.cert and "
			"hub.key to files that its CA signed");
	return check_proxy(o, err);
}

static int
check_tunnel(const struct agent_options *o, struct err *err)
{
	struct err why = {0};
	struct reachable_nets *vicinity;
	struct tunnel_acl *allow;
	size_t n = 0;

	while (o->tunnel_allow[n] != NULL)
		n++;
	if (tunnel_acl_new((const char *const *)o->tunnel_allow, n, &allow, &why) < 0)
		return complain(o, "tunnel.allow", err, "%s", why.text);
	tunnel_acl_free(&allow);
	if (reachable_nets_new((const char *const *)o->tunnel_reach, &vicinity, &why) < 0)
		return complain(o, "tunnel.reach", err, "%s", why.text);
	reachable_nets_free(&vicinity);
	if (o->tunnel_apiserver && (!o->tunnel_enabled || o->hub_protocol == PROTOCOL_CLOUDHUB))
		return complain(o, "tunnel.apiserver", err,
			"needs tunnel.enabled and a hub of ours (hub.protocol: edgeway), which "
			"dials the API server");
	if (o->mesh_encrypt != 0 && (!o->tunnel_enabled || o->hub_protocol == PROTOCOL_CLOUDHUB))
		return complain(o, "mesh.encrypt", err,
			"needs tunnel.enabled and a hub of ours (hub.protocol: edgeway), since "
			"calls "
			"are encrypted by sessions with other nodes and by the tunnel");
	if (o->mesh_direct == DIRECT_NAT &&
		(o->mesh_peer_port == 0 || !o->tunnel_enabled ||
			o->hub_protocol == PROTOCOL_CLOUDHUB))
		return complain(o, "mesh.direct", err,
			"nat needs mesh.peerPort, tunnel.enabled and a hub of ours "
			"(hub.protocol: edgeway), which introduces the nodes to each other");
	if (o->mesh_direct == DIRECT_NAT &&
		(o->hub_proxy[0] != '\0' || o->tunnel_carrier == CARRIER_WEBSOCKET))
		return complain(o, "mesh.direct", err,
			"nat needs a way to the hub without hub.proxy and tunnel.carrier: "
			"websocket, which hide from the hub by which address this node is seen; "
			"write site");
	return 0;
}

static int
check_tracing(const struct agent_options *o, struct err *err)
{
	const struct tracing_keys keys = TRACING_KEYS(o);

	return tracing_keys_check(o, &keys, err);
}

/* Also with a certificate that has expired: what the node knows is to be served nevertheless. */
static bool
has_joined(const struct agent_options *o)
{
	auto_free char *path = o->hub_cert[0] != '\0' ? xstrdup(o->hub_cert)
						      : xasprintf("%s/node.crt", o->data_dir),
		       *cert = NULL;

	return file_read(path, CERT_BYTES_MAX, &cert, NULL) == 0 &&
		pki_cert_info(cert, NULL, NULL, NULL, NULL) == 0;
}

/* A node that has joined does not need a token or its file any more: what is wrong with the file
 * does not stop it. */
static int
read_token(struct agent_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	auto_free char *path = file_in(o->hub_token_file, o->node, "token");
	bool optional = path[0] == '/' && o->hub_token[0] == '\0';
	int rc;

	if (optional && access(path, F_OK) < 0 && errno == ENOENT)
		return 0;
	rc = option_from_file(&c, "hub.tokenFile", path, "hub.token", &o->hub_token);
	if (rc == 0 && o->hub_token[0] != '\0' && !is_token(o->hub_token))
		rc = complain(o, optional ? "hub.tokenFile" : "hub.token", err,
			"%s%snot a token: expected the last line that `edgewayctl token create` "
			"prints on the hub (64 hex digits, a dot, a secret)",
			optional ? path : "", optional ? " is " : "");
	else if (rc == 0 && pki_is_hash_of_nothing(o->hub_token))
		rc = complain(o, optional ? "hub.tokenFile" : "hub.token", err,
			"%s%sthe hash is that of no CA: was edgeway-hub-ca there? Delete "
			"edgeway-join and make it again",
			optional ? path : "", optional ? ": " : "");
	if (rc == 0 || !optional || !has_joined(o))
		return rc;
	log_warn("agent",
		"this node has joined and goes on without the token file file=%s reason=\"%s\"",
		path, err->text);
	*err = (struct err){0};
	o->hub_token[0] = '\0';
	return 0;
}

/* Secrets may be in files of their own. */
static int
read_files(struct agent_options *o, struct err *err)
{
	struct option_check c = {.values = o, .err = err};
	int rc = read_token(o, err);

	if (rc == 0)
		rc = option_from_file(
			&c, "hub.proxyFile", o->hub_proxy_file, "hub.proxy", &o->hub_proxy);
	if (rc == 0)
		rc = tracing_keys_read(&c, o);
	return rc;
}

int
agent_options_check(struct agent_options *o, struct err *err)
{
	int rc = settle_node(o, err);

	if (rc == 0)
		rc = read_files(o, err);
	if (rc == 0 && o->data_dir[0] != '/')
		rc = complain(o, "dataDir", err, "expected a full path such as /var/lib/edgeway");
	if (rc == 0 && o->admin_socket[0] != '\0' && o->admin_socket[0] != '/')
		rc = complain(o, "admin.socket", err,
			"expected a full path such as /run/edgeway/agent.sock, or \"\"");
	if (rc == 0 && o->takeover && o->admin_socket[0] == '\0')
		rc = complain(o, "takeover", err,
			"needs admin.socket: by it the agent that runs is asked for its sockets");
	if (rc == 0)
		rc = check_mesh(o, err);
	if (rc == 0)
		rc = check_dns(o, err);
	if (rc == 0)
		rc = check_lb(o, err);
	if (rc == 0)
		rc = check_hub(o, err);
	if (rc == 0)
		rc = check_tunnel(o, err);
	if (rc == 0)
		rc = check_tracing(o, err);
	/* What an agent left is undone without a hub. Last, so that a wrong value is told first. */
	if (rc == 0 && o->hub_url[0] == NULL && !opt_action(o))
		rc = complain(o, "hub.url", err,
			"is not set: say where the hub is, such as wss://HOST:10000, in the file "
			"of --config, as --hub.url or as EDGEWAY_HUB_URL");
	return rc;
}

enum opt_result
agent_options_load(struct agent_options *o, int argc, char **argv, bool *check, struct err *err)
{
	enum opt_result result = opt_load(&agent_program, o, argc, argv, check, err);

	if (result == OPT_RUN && agent_options_check(o, err) < 0)
		return OPT_EXIT_BAD;
	return result;
}

void
agent_options_free(struct agent_options *o)
{
	free(o->pod_interfaces);
	o->pod_interfaces = NULL;
	opt_free(&agent_program, o);
}
