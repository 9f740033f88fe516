/*
 * The hub's configuration, made like the agent's (see agent_options.h).
 *
 * `source` is one of a folder of manifests and Kubernetes: source_manifests is "" when it is the
 * latter, and source_kubernetes_kubeconfig is "" for the credentials of the pod. The structured
 * keys (ingress.tls, access, ...) are checked in shape here and stay trees, NULL when empty.
 */
#ifndef EDGEWAY_SRC_HUB_HUB_OPTIONS_H
#define EDGEWAY_SRC_HUB_HUB_OPTIONS_H

#include "base/conf/opt.h"
#include "base/conf/tree.h"
#include "hub/hub.h"
#include "src/common/tracing_options.h"

enum { HUB_NODE_ADDRESSES_MAX = 32 };

/* clang-format off */
#define HUB_OPTIONS(X) \
	X(ADDRESS, listen, "listen", "0.0.0.0:10000", "where agents connect: websocket and tunnel") \
	X(STRING, source_manifests, "source.manifests", "", "folder of Kubernetes manifests to serve") \
	X(STRING, source_kubernetes_kubeconfig, "source.kubernetes.kubeconfig", "", \
		"or a Kubernetes API; given but empty: in-cluster") \
	X(DURATION, source_kubernetes_silence, "source.kubernetes.silence", "130s", \
		"a watch that says nothing for so long is asked anew", .min = 1000, .max = 3600000) \
	X(STRING, source_kubernetes_namespace, "source.kubernetes.namespace", "", \
		"namespace of the Secrets that replicas share; default that of the pod") \
	X(BOOL, source_kubernetes_share, "source.kubernetes.share", "true", \
		"keep CA, tokens and revocations in Secrets, for all replicas") \
	X(BOOL, source_kubernetes_sites, "source.kubernetes.sites", "false", \
		"note where nodes behind NAT come from on their Nodes: their site") \
	X(BOOL, source_kubernetes_destination_rules, "source.kubernetes.destinationRules", "false", \
		"honour Istio's DestinationRules, as far as annotations say the same") \
	X(BOOL, source_kubernetes_network_policies, "source.kubernetes.networkPolicies", "false", \
		"honour the ingress rules of NetworkPolicies for calls of services") \
	X(ENUM, source_kubernetes_gateway_api, "source.kubernetes.gatewayAPI", "auto", \
		"honour HTTPRoutes and GRPCRoutes of Services; auto: where the server has them", .words = "auto|true|false") \
	X(STRING, tls_cert, "tls.cert", "", "certificate of the hub (PEM); default from its own CA") \
	X(STRING, tls_key, "tls.key", "", "its key (PEM)") \
	X(STRING, tls_ca, "tls.ca", "", "CA that signs nodes (PEM); default its own under dataDir") \
	X(STRING, tls_ca_key, "tls.caKey", "", "its key (PEM)") \
	X(BOOL, tls_ca_force, "tls.caForce", "false", "start with another CA whatever nodes that cuts off") \
	X(DURATION, tls_node_lifetime, "tls.nodeLifetime", "365d", \
		"life of nodes' certificates; they renew at two thirds", .min = 5000) \
	X(LIST, tls_names, "tls.names", "", "DNS names and addresses for the hub's own certificate") \
	X(STRING, tls_service, "tls.service", "", \
		"NAMESPACE/NAME of the hub's Service in Kubernetes: its addresses as well") \
	X(BOOL, join_approval, "join.approval", "false", \
		"nodes without a token may ask; an operator approves with kubectl") \
	X(STRING, join_nodes, "join.nodes", "node-role.kubernetes.io/edge", \
		"label selector of the Nodes that a token for any name, or an approval, may become; \"\": all") \
	X(STRING, data_dir, "dataDir", "/var/lib/edgeway-hub", "folder of CA, tokens and lists") \
	X(UINT, workers, "workers", "0", \
		"threads for the nodes' tunnels, and as many for TLS of handshakes and ingress; 1: the main one; 0: number of cores, at most 4", .max = 64) \
	X(BOOL, tunnel_compress, "tunnel.compress", "false", \
		"clear text in streams is sent deflated between hub and nodes") \
	X(ADDRESS, ingress_http, "ingress.http", "127.0.0.1:10080", \
		"HTTP way in: CONNECT, absolute form, Host: NODE[:PORT]; \"\": off") \
	X(TREE, ingress_egress, "ingress.egress", "{}", \
		"HTTPConnect for kube-apiserver: {listen, cert, key, clientCA}") \
	X(TREE, ingress_tls, "ingress.tls", "[]", "TLS ways in: [{listen, target, cert, key, clientCert}]") \
	X(TREE, ingress_tcp, "ingress.tcp", "[]", "TCP ways in: [{listen, node | service, target}]") \
	X(TREE, ingress_udp, "ingress.udp", "[]", "UDP ways in: [{listen, node | service, target}]") \
	X(DURATION, ingress_udp_idle, "ingress.udpIdle", "60s", \
		"a flow of a UDP map ends when no datagram went for so long", .min = 100, .max = 3600000) \
	X(UINT, ingress_udp_flows, "ingress.udpFlows", "1024", \
		"flows of a UDP map; a quarter of them from one address", .min = 1, .max = 1000000) \
	X(TREE, ingress_redirect, "ingress.redirect", "{}", \
		"DNAT of nodeIP:ports on this very host: {listen, ports}", .reload = true) \
	X(UINT, ingress_limits_caller_streams, "ingress.limits.callerStreams", "0", "streams of a caller at a time; 0: any number", \
		.max = 1000000, .reload = true) \
	X(UINT, ingress_limits_caller_bytes, "ingress.limits.callerBytesPerSecond", "0", \
		"what a caller's streams carry, both ways together; 0: no bound", .reload = true) \
	X(UINT, ingress_limits_node_streams, "ingress.limits.nodeStreams", "0", "streams to a node at a time; 0: any number", \
		.max = 1000000, .reload = true) \
	X(UINT, ingress_limits_node_bytes, "ingress.limits.nodeBytesPerSecond", "0", \
		"what a node's streams carry, both ways together; 0: no bound", .reload = true) \
	X(STRING, ingress_dns, "ingress.dns", "", "zone of the node names") \
	X(ADDRESS, ingress_dns_listen, "ingress.dnsListen", "127.0.0.1:10053", \
		"where the zone is served; \"\": it is a suffix of names alone") \
	X(UINT, ingress_dns_ttl, "ingress.dnsTtl", "10", "seconds that resolvers may keep an answer", \
		.min = 1, .max = 3600) \
	X(LIST, ingress_node_addresses, "ingress.nodeAddresses", "", \
		"what names of edge nodes mean: addresses of the ingress, or its Service NAMESPACE/NAME") \
	X(STRING, ingress_hosts_config_map, "ingress.hostsConfigMap", "", "namespace/name of a ConfigMap of node names") \
	X(STRING, ingress_hosts_key, "ingress.hostsKey", "tunnel-nodes", "its key: lines of a hosts file") \
	X(TREE, access, "access", "[]", "who may reach what: [{from, to: [...]}]", .reload = true) \
	X(LIST, peers, "peers", "", "other replicas, HOST[:PORT], or one name of them all", .reload = true) \
	TRACING_OPTIONS(X) \
	X(ADDRESS, admin_listen, "admin.listen", "127.0.0.1:10012", "health, metrics and state over HTTP; \"\": off") \
	X(STRING, admin_socket, "admin.socket", "/run/edgeway/hub.sock", "the same for edgewayctl; \"\": off") \
	X(LIST, admin_names, "admin.names", "", "more names by which that port and metrics.listen may be asked; addresses, localhost, tls.names and the host name always are") \
	X(ADDRESS, metrics_listen, "metrics.listen", "", "metrics, health and readiness alone, for others than this machine") \
	X(ADDRESS, web_listen, "web.listen", "", "a page that shows nodes, tunnels and services to browsers; \"\": off") \
	X(STRING, web_cert, "web.cert", "", "certificate of the page (PEM); a must beyond this machine") \
	X(STRING, web_key, "web.key", "", "its key (PEM)") \
	X(STRING, web_client_ca, "web.clientCA", "", "CA (PEM) that has signed the certificates of those who may look") \
	X(LIST, web_names, "web.names", "", "names by which browsers ask for the page; addresses and localhost always are") \
	X(UINT, web_viewers, "web.viewers", "16", "who may look at a time", .min = 1, .max = 100) \
	X(BOOL, takeover, "takeover", "false", "take the sockets over from the hub that runs, if one does") \
	X(ENUM, log_level, "log.level", "info", "how much is said", .words = "error|warn|info|debug", .reload = true) \
	X(ENUM, log_format, "log.format", "text", "lines for people or for machines", .words = "text|json", \
		.reload = true) \
	X(ENUM, seccomp, "seccomp", "enforce", "system calls that are not known to be needed: refused, or only told", \
		.words = "enforce|log|off") \
	X(DURATION, drain_timeout, "drainTimeout", "10s", "longest wait for open streams at the end", \
		.max = 3600000, .reload = true)
/* clang-format on */

struct hub_options {
	struct opt_head head;
	HUB_OPTIONS(OPT_MEMBER)
	/* ingress.nodeAddresses or, without it, the address that the ingress listens on; ended by
	 * NULL. */
	char *node_addresses[HUB_NODE_ADDRESSES_MAX + 1];
	char *listened; /* NULL: none */
};

extern const struct opt_program hub_program;

enum opt_result hub_options_load(
	struct hub_options *o, int argc, char **argv, bool *check, struct err *err);
/* Is the address one that this machine alone can reach? "" is. */
bool hub_options_is_loopback(const char *address);
/* What types cannot say. Part of hub_options_load. */
int hub_options_check(struct hub_options *o, struct err *err);
/* ingress.redirect as plain data. -EINVAL: what is wrong, and where. */
int hub_options_redirect(const struct hub_options *o, struct hub_redirect *to, struct err *err);
/* The page: another part. */
int hub_options_check_web(const struct hub_options *o, struct err *err);
/* The names of nodes, and what they mean: a part of it. */
int hub_options_check_naming(struct hub_options *o, struct err *err);
void hub_options_free(struct hub_options *o);

#endif
