/*
 * Public interface of hub/, the cloud side. The hub reads the source (a folder of manifests, or
 * Kubernetes), joins the objects into service views, keeps every connected node at the newest state
 * and issues the nodes' certificates. It runs on the loop that it is given; call every function
 * below only on that loop. The terms are those of doc/protocol.md.
 *
 *	struct hub_config config = {.listen = "0.0.0.0:10000",
 *		.manifests = "/etc/edgeway/manifests", .data_dir = "/var/lib/edgeway-hub"};
 *	hub_start(&hub, loop, &config, &err);
 *	hub_token_create(hub, &(struct hub_token){"edge-1", 1, 86400}, &out, &err);
 *	loop_run(loop);
 *	hub_stop(&hub);
 *
 * Texts of the config may be NULL for "". The caller must hold the lock of data_dir.
 */
#ifndef EDGEWAY_HUB_HUB_H
#define EDGEWAY_HUB_HUB_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/core/sock.h"
#include "hub/port/quota.h"
#include "model/span.h"

struct hub;

struct tree_node;

enum { HUB_REDIRECT_PORTS_MAX = 256, HUB_OTHERS_MAX = 4 };
/* `ingress.redirect` */
struct hub_redirect {
	bool on;
	struct addr listen;
	uint32_t ports[HUB_REDIRECT_PORTS_MAX]; /* in order, none twice */
	size_t n_ports;
};

/* `ingress`, `access` and `peers` of the configuration; the caller owns the trees. */
struct hub_ways_in {
	struct quota_limits limits;
	const char *const *peers; /* other replicas, HOST[:PORT], ended by NULL; NULL: none */
	/* tracing spans of forwarded traffic; outlives the hub; NULL: none */
	struct span_source *spans;
	const char *http; /* address and port; "": none */
	const struct tree_node *egress, *tls, *tcp, *udp, *access; /* NULL: none */
	struct hub_redirect redirect;
	const char *zone; /* DNS zone of the node names; "": none */
	uint64_t udp_idle_ms; /* idle timeout of a flow of a UDP map; 0: the default */
	unsigned udp_flows; /* most flows of one map; 0: the default */
	const char *dns_listen; /* address that serves the zone; "": the zone is not served */
	unsigned dns_ttl_s;
	/* what names of edge nodes resolve to: addresses, or a Service; ended by NULL */
	const char *const *addresses;
	/* Other addresses on which this program listens, which the hub must not dial; ended by
	 * NULL. */
	const char *others[HUB_OTHERS_MAX];
	const char *hosts_map,
		*hosts_key; /* namespace/name of a ConfigMap, and its key; "": none */
};

/* `web` of the configuration; see hub/page/web.h. */
struct web_options {
	const char *listen; /* "" or NULL: none */
	const char *cert, *key, *client_ca; /* PEM files; "": none */
	const char *const *names; /* names beyond addresses and localhost, ended by NULL */
	unsigned viewers; /* most viewers at a time */
};

struct hub_config {
	const char *listen; /* address and port; without a port it is 10000 */
	const char *manifests; /* folder; it may appear later; "": Kubernetes */
	const char *kubeconfig; /* of Kubernetes; "": in-cluster */
	uint64_t kubernetes_silence_ms; /* timeout of a silent watch; 0: the default */
	bool kubernetes_alone; /* CA, tokens and revocations are not shared by Secrets */
	bool kubernetes_rules; /* also read DestinationRules */
	bool kubernetes_policies; /* also read NetworkPolicies */
	int kubernetes_gateway; /* 0: HTTPRoutes and so on where they are; 1: always; 2: never */
	/* write source addresses to Node objects, see hub/sync/node_sites.h */
	bool kubernetes_sites;
	const char *kubernetes_namespace; /* of these Secrets; "": of the pod or the kubeconfig */
	const char *data_dir; /* made when missing */
	const char *cert, *key, *ca,
		*ca_key; /* PEM files of the operator's own, see hub/identity/certs.h */
	const char *const *names; /* additional names for the hub's certificate, ended by NULL */
	/* namespace/name of the hub's own Service in Kubernetes; its addresses are added, too */
	const char *service;
	/* selector of the Nodes whose names a token for any name, or an approval, may give; "":
	 * any */
	const char *join_nodes;
	bool approval; /* nodes may join by a CertificateSigningRequest, with Kubernetes */
	const char *cluster_domain; /* "": cluster.local */
	uint64_t node_life_s; /* lifetime of nodes' certificates; 0: a year */
	bool ca_force; /* tls.caForce: start with another CA even if that cuts off nodes */
	uint64_t heartbeat_ms; /* 0: 4000 */
	bool compress; /* deflate the clear text in the tunnels */
	/* n_workers loops for TLS handshakes and all TLS of the ingress, then as many for the
	 * nodes' tunnels; they outlive the hub, and run after hub_start */
	struct loop *const *workers;
	size_t n_workers; /* 0: everything runs on the hub's loop */
	struct hub_ways_in ways_in;
	struct web_options web; /* must stay valid until hub_stop */
	/* connections wait in the kernel's accept queues, and no node may join, until hub_open:
	 * another hub still serves here */
	bool held;
};

int hub_start(
	struct hub **hub, struct loop *loop, const struct hub_config *config, struct err *err);
void hub_stop(struct hub **hub);
/* Returns true if these rules, which hub_check_access accepts, name the page. */
bool hub_names_web(const struct tree_node *rules);
/* Checks whether hub_start would accept these access rules. Returns NULL if so; otherwise the
 * faulty part of the tree, and err says what is wrong, without the position. */
const struct tree_node *hub_check_access(const struct tree_node *rules, struct err *err);
/* SIGHUP: adopts changed access rules, limits, peers and ingress.redirect, and reads the
 * certificates of the ingress listeners again. Adopts everything or, with an error, nothing. Cuts
 * connections that the new rules would not allow. */
int hub_reload(struct hub *hub, const struct hub_ways_in *ways_in, struct err *err);
/* To be called before privileges are dropped: removes kernel rules that an earlier run with
 * ingress.redirect left behind. */
void hub_sweep(void);
/* With `held`: accepts connections from now on. joins: nodes may join, too, since the other hub has
 * released the disk. */
void hub_open(struct hub *hub, bool joins);
/* held: another hub uses this one's dataDir. This hub then writes nothing, so no node can join, and
 * it leaves the kernel's rules of ingress.redirect as they are. false: that is over. */
void hub_hold(struct hub *hub, bool held);
/* How many records hub_hold(hub, true) would wait for, where that may take long; else 0. */
size_t hub_behind(const struct hub *hub);
/* The next hub_drain also sends the nodes away, because another hub serves at this one's address;
 * that hub accepts new connections. */
void hub_leave(struct hub *hub);
/* Nodes get no new streams; calls `done` once the last stream has ended, never from within this
 * call. */
void hub_drain(struct hub *hub, void (*done)(void *arg), void *arg);

/* Exports the tracing spans of everything still in progress, unfinished. */
void hub_end_spans(struct hub *hub);

/* Returns true once the source has been read and nodes can connect. Nodes are sent nothing
 * before. */
bool hub_ready(const struct hub *hub);
/* What the hub is waiting for; "" when it is ready. */
const char *hub_waits(const struct hub *hub);
struct addr hub_addr(const struct hub *hub); /* the address it listens on */
void hub_metrics(const struct hub *hub, struct metrics *m);
/* {"peers":[{"peer","address","state","nodes",...}]} */
void hub_peers(const struct hub *hub, struct buf *out);
/* An object with source, nodes, certificates and, last, services: hub_state begins it, and each
 * call of hub_state_services adds some services, until one returns true: it has added the end. *at:
 * 0 at first. */
void hub_state(const struct hub *hub, struct buf *out);
bool hub_state_services(const struct hub *hub, uint64_t *at, struct buf *out);
/* {"nodes":[{"node","connected","address","pending",...,"serial","expires","revoked"}]} */
void hub_nodes(const struct hub *hub, struct buf *out);
/* The agents of all nodes that have joined and are not revoked, in the format of Prometheus'
 * http_sd_config: Prometheus scrapes them at `port` with ingress.http as its proxy. */
void hub_targets(const struct hub *hub, unsigned port, struct buf *out);
/* {"tunnels":[{"node","address","state","streams","rtt_ms",...}]} */
void hub_tunnels(const struct hub *hub, struct buf *out);
/* {"streams":[...]}: every stream of the nodes' tunnels, both those opened by the hub and those
 * opened by nodes. */
void hub_streams(const struct hub *hub, struct buf *out);

/* Forwards an operator's request to a node's agent, and the response back. query:
 * node=NAME&target=PATH. Takes over fd, which has an HTTP request waiting for its response
 * (admin_take_fn). */
void hub_ask_agent(struct hub *hub, int fd, const char *query);
/* Tells whether this caller may reach the target under the current rules, and which rule decides.
 * from: an address, local, cert:NAME, token:NAME or node:NAME; to: HOST:PORT as at the ingress,
 * NAMESPACE/SERVICE:PORT, or hub:web. Writes a JSON object. -EINVAL. */
int hub_access(struct hub *hub, const char *from, const char *to, struct buf *out, struct err *err);

struct hub_token {
	const char *node; /* "": for any name that is free */
	uint64_t uses; /* how many joins it is valid for; 0: any number */
	uint64_t ttl_s;
};
/* The whole token, `<sha256 of the CA>.<secret>`. */
int hub_token_create(
	struct hub *hub, const struct hub_token *token, struct buf *out, struct err *err);
/* {"tokens":[{"id","node","uses","used","expires"}]} */
void hub_token_list(const struct hub *hub, struct buf *out);
int hub_token_revoke(struct hub *hub, const char *id, struct err *err);

/* Revokes all certificates of the node issued so far, ends its connections and the tokens made for
 * it. */
int hub_node_revoke(struct hub *hub, const char *node, struct err *err);
/* The same, and frees the name: the next node that asks for it is a new node. */
int hub_node_forget(struct hub *hub, const char *node, struct err *err);
/* See authority_ca_use and authority_ca_list. */
int hub_ca_use(struct hub *hub, bool force, struct err *err);
void hub_ca_list(const struct hub *hub, struct buf *out);
/* What was revoked and is in force, but could not be written to disk yet: a sentence; "":
 * nothing. */
const char *hub_unwritten(const struct hub *hub);
/* Revokes a hub's certificate, and makes other replicas and all nodes refuse it. name: as in
 * hub_hubs, or a serial number; out: the serial number. If this hub itself uses the certificate, it
 * is replaced. */
int hub_hub_revoke(struct hub *hub, const char *name, struct buf *out, struct err *err);
/* {"hubs":[{"hub","address","state","serial","since"}]}: this hub, the hubs that it is connected
 * to, and the revoked ones. */
void hub_hubs(const struct hub *hub, struct buf *out);

#endif
