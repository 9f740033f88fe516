/*
 * The agent's configuration: one table gives the struct, the parser, --help, the environment names
 * and the dump. Members carry the key's name with underscores: dns.ttl is dns_ttl. Strings are
 * never NULL, "" is "not given"; lists end with NULL. Times are milliseconds.
 *
 *	struct agent_options o = { 0 };
 *	switch (agent_options_load(&o, argc, argv, &check, &err)) ...
 *	agent_options_free(&o);
 *
 * After agent_options_load everything is checked, `node` is filled in, and every hub_url is
 * wss://host:port; there is none only with --restore.
 */
#ifndef EDGEWAY_SRC_AGENT_AGENT_OPTIONS_H
#define EDGEWAY_SRC_AGENT_AGENT_OPTIONS_H

#include "base/conf/opt.h"
#include "iptables/iptables.h"
#include "model/fake6.h"
#include "model/service.h"
#include "src/common/tracing_options.h"

/* Values of the enums, in the order of the words in the table. */
enum { CATCH_AUTO, CATCH_TRUE, CATCH_FALSE };
enum { MESH_IO_AUTO, MESH_IO_EPOLL, MESH_IO_URING };
enum { MESH_DATAPATH_PROXY, MESH_DATAPATH_KERNEL };
enum { DIRECT_OFF, DIRECT_SITE, DIRECT_NAT };
enum { CAPTURE_UPSTREAMS, CAPTURE_OFF };
enum { HOST_FILE, HOST_RESOLVED };
enum { PROTOCOL_EDGEWAY, PROTOCOL_CLOUDHUB };
enum { CARRIER_TLS, CARRIER_WEBSOCKET };
enum { ON_STOP_RESTORE, ON_STOP_KEEP };

/* clang-format off */
#define AGENT_OPTIONS(X) \
	X(STRING, node, "node", "", "name of this node; default $NODE_NAME, then the host name") \
	X(STRING, data_dir, "dataDir", "/var/lib/edgeway", "folder of the database and the certificates") \
	X(STRING, mesh_interface, "mesh.interface", "auto", \
		"bridge whose address is the mesh's; auto: docker0, else own; own: an interface edgeway0") \
	X(LIST, mesh_interfaces, "mesh.interfaces", "", "more bridges and interfaces of pods, with globs: br-*; with auto and own the usual ones are known") \
	X(STRING, mesh_address, "mesh.address", "", "fixed address instead of the interface's; of edgeway0 169.254.96.16") \
	X(CIDR, mesh_subnet, "mesh.subnet", "9.251.0.0/16", "range of the fake IPs, /8 to /24") \
	X(STRING, mesh_subnet6, "mesh.subnet6", "", "give services IPv6 addresses too, from this range: fd09:251::/64") \
	X(STRING, mesh_cluster_domain, "mesh.clusterDomain", "cluster.local", "domain of the cluster's names") \
	X(UINT, mesh_listen_port, "mesh.listenPort", "40001", "port of the proxy on the mesh address", \
		.min = 1, .max = 65535) \
	X(ENUM, mesh_catch_cluster_ips, "mesh.catchClusterIPs", "auto", \
		"serve ClusterIPs too: auto where nothing else does", .words = "auto|true|false") \
	X(ENUM, mesh_node_ports, "mesh.nodePorts", "auto", \
		"serve NodePorts and externalIPs at this node: auto where nothing else does", .words = "auto|true|false") \
	X(ENUM, mesh_datapath, "mesh.datapath", "proxy", "who carries TCP that is not HTTP", .words = "proxy|kernel") \
	X(UINT, mesh_peer_port, "mesh.peerPort", "10001", "port at which other nodes' agents are dialled, and this one is; 0: none", \
		.max = 65535) \
	X(ENUM, mesh_direct, "mesh.direct", "site", "which nodes' agents are dialled without the hub", \
		.words = "off|site|nat") \
	X(ENUM, mesh_encrypt, "mesh.encrypt", "off", "calls to other nodes that never go in clear text", \
		.words = "off|site|always") \
	X(BOOL, mesh_canary, "mesh.canary", "true", "try the mesh from the pods' side all the time") \
	X(UINT, mesh_workers, "mesh.workers", "0", "threads for traffic; 0: number of cores, at most 4", .max = 64) \
	X(ENUM, mesh_io, "mesh.io", "auto", "how traffic is sent: with io_uring where the kernel allows it, never, or not without", \
		.words = "auto|epoll|uring") \
	X(UINT, dns_port, "dns.port", "53", "port of the DNS server on the mesh address", .min = 1, .max = 65535) \
	X(UINT, dns_ttl, "dns.ttl", "30", "seconds that clients may keep an answer", .max = 86400) \
	X(LIST, dns_upstreams, "dns.upstreams", "", "servers for other names, IP[:PORT]; default those of resolv.conf") \
	X(STRING, dns_resolv_conf, "dns.resolvConf", "/etc/resolv.conf", "the file that pods and host resolve with") \
	X(BOOL, dns_manage_resolv_conf, "dns.manageResolvConf", "true", "put this server into it") \
	X(ENUM, dns_host, "dns.host", "file", \
		"how programs of the host find the cluster's names: resolv.conf, or a route of systemd-resolved", \
		.words = "file|resolved") \
	X(ENUM, dns_capture, "dns.capture", "upstreams", "take the pods' queries to the upstreams too", \
		.words = "upstreams|off") \
	X(BOOL, dns_serve_cluster_dns, "dns.serveClusterDNS", "false", \
		"answer pods at the address of kube-system/kube-dns, which kubelet gives them") \
	X(ENUM, lb_policy, "lb.policy", "least-request", "how an endpoint is picked", \
		.words = "round-robin|random|least-request|ewma|consistent-hash") \
	X(ENUM, lb_access_log, "lb.accessLog", "off", "a line on stderr for each request and connection", \
		.words = "off|errors|all", .reload = true) \
	X(UINT, lb_access_log_sample, "lb.accessLogSample", "1", "with accessLog all: one line for so many good ones, and one for each other", \
		.min = 1, .max = 1000000, .reload = true) \
	X(UINT, lb_metric_services, "lb.metricServices", "100", "services with metrics of their own; the others are told together", \
		.max = 10000) \
	X(BOOL, lb_via, "lb.via", "false", "name this proxy in the requests' Via; many servers send answers uncompressed then") \
	X(LIST, lb_allow, "lb.allow", "", \
		"addresses and networks that endpoints may have although they are refused otherwise: loopback, link-local, metadata, this node's own") \
	X(UINT, lb_memory, "lb.memory", "0", "MiB that may be held for clients of the proxy; 0: by the memory that the agent may use, at most 48", \
		.max = 65536) \
	X(LIST, hub_url, "hub.url", "", "the hub, one or several: wss://HOST:PORT; must be set") \
	X(STRING, hub_ca, "hub.ca", "", "CA certificate of the hub (PEM); default the one got by joining") \
	X(STRING, hub_cert, "hub.cert", "", "certificate of this node (PEM); default the one got by joining") \
	X(STRING, hub_key, "hub.key", "", "its key (PEM)") \
	X(STRING, hub_token, "hub.token", "", "token to join with: <sha256 of the CA>.<secret>, or .approval") \
	X(STRING, hub_token_file, "hub.tokenFile", "", "file of the token instead, or a folder; read at each attempt") \
	X(STRING, hub_node_id, "hub.nodeId", "", "name towards the hub; default the node's name") \
	X(DURATION, hub_heartbeat, "hub.heartbeat", "4s", "a dead link is found within two of these and 2 s", \
		.min = 100, .max = 300000) \
	X(UINT, hub_tunnels, "hub.tunnels", "1", "2: a second tunnel to another hub, for when the first one falls silent", \
		.min = 1, .max = 2) \
	X(STRING, hub_proxy, "hub.proxy", "", "HTTP proxy on the way to the hub: http://[user:password@]host:port") \
	X(STRING, hub_proxy_file, "hub.proxyFile", "", "file of the proxy's URL instead") \
	X(STRING, hub_carrier_ca, "hub.carrierCA", "", "CAs of what is in front of the hub (PEM), with tunnel.carrier websocket; default the system's") \
	X(ENUM, hub_protocol, "hub.protocol", "edgeway", "what the hub speaks", .words = "edgeway|cloudhub") \
	X(BOOL, tunnel_enabled, "tunnel.enabled", "true", "let the cloud reach this node") \
	X(ENUM, tunnel_carrier, "tunnel.carrier", "tls", "websocket: all that goes to the hub passes what lets only those through", \
		.words = "tls|websocket") \
	X(LIST, tunnel_allow, "tunnel.allow", "node,pods,services,agent", \
		"what the cloud may reach: node, node:PORTS, pods, services; ! in front denies") \
	X(BOOL, tunnel_apiserver, "tunnel.apiserver", "false", \
		"pods' calls of default/kubernetes, at its ClusterIP too, go through the hub, whose access has to open it") \
	X(LIST, tunnel_reach, "tunnel.reach", "", "nodes and networks beside this one that the cloud may reach through it: edge-2, 192.168.1.0/24:9100", \
		.reload = true) \
	TRACING_OPTIONS(X) \
	X(ADDRESS, admin_listen, "admin.listen", "127.0.0.1:40002", "health, metrics and state over HTTP; \"\": off") \
	X(STRING, admin_socket, "admin.socket", "/run/edgeway/agent.sock", "the same for edgewayctl; \"\": off") \
	X(LIST, admin_names, "admin.names", "", "more names by which that port and metrics.listen may be asked; addresses, localhost, node and the host name always are") \
	X(ADDRESS, metrics_listen, "metrics.listen", "", "metrics, health and readiness alone, for others than this machine") \
	X(ENUM, log_level, "log.level", "info", "how much is said", .words = "error|warn|info|debug", .reload = true) \
	X(ENUM, log_format, "log.format", "text", "lines for people or for machines", .words = "text|json", \
		.reload = true) \
	X(ENUM, seccomp, "seccomp", "enforce", "system calls that are not known to be needed: refused, or only told", \
		.words = "enforce|log|off") \
	X(DURATION, drain_timeout, "drainTimeout", "10s", "longest wait for open requests at the end", \
		.max = 3600000, .reload = true) \
	X(ENUM, on_stop, "onStop", "restore", "what happens to the host's settings at the end", \
		.words = "restore|keep", .reload = true) \
	X(BOOL, takeover, "takeover", "false", "take the sockets over from the agent that runs, if one does")
/* clang-format on */

struct agent_options {
	struct opt_head head;
	AGENT_OPTIONS(OPT_MEMBER)
	/* From mesh.interface and mesh.interfaces: the bridge that is to have the address, the
	 * other interfaces of pods, and the address of one of our own (host byte order). */
	const char *bridge;
	const char **pod_interfaces;
	size_t n_pod_bridges; /* the first of them: what the tunnel takes for pods' networks */
	enum iptables_own own;
	uint32_t own_address;
	struct fake6 subnet6; /* mesh.subnet6 */
};

extern const struct opt_program agent_program;

enum opt_result agent_options_load(
	struct agent_options *o, int argc, char **argv, bool *check, struct err *err);
/* What types cannot say; fills in what is derived. Part of agent_options_load. */
int agent_options_check(struct agent_options *o, struct err *err);
void agent_options_free(struct agent_options *o);

/* Whether the host is led to us, by resolv.conf or by systemd-resolved. */
static inline bool
agent_options_host(const struct agent_options *o)
{
	return o->dns_manage_resolv_conf || o->dns_host == HOST_RESOLVED;
}

static inline enum lb_policy
agent_options_policy(const struct agent_options *o)
{
	return (enum lb_policy)(LB_ROUND_ROBIN + o->lb_policy);
}

#endif
