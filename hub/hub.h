/*
 * Door of hub/: the cloud's side. Reads the source (a folder of manifests, or Kubernetes), joins
 * the objects into service views and keeps every connected node at the newest state; issues the
 * nodes' certificates. One loop, the one given; every function below only on it. Where the words
 * come from: doc/protocol.md.
 *
 *	struct hub_config config = {.listen = "0.0.0.0:10000", .manifests = "/etc/edgeway/manifests",
 *		.data_dir = "/var/lib/edgeway-hub"};
 *	hub_start(&hub, loop, &config, &err);
 *	hub_token_create(hub, &(struct hub_token){"edge-1", 1, 86400}, &out, &err);
 *	loop_run(loop);
 *	hub_stop(&hub);
 *
 * Texts of the config may be NULL for "". The caller holds the lock of data_dir.
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
	struct addr listen; /* IPv4 */
	uint32_t ports[HUB_REDIRECT_PORTS_MAX]; /* in order, none twice */
	size_t n_ports;
};

/* `ingress`, `access` and `peers` of the configuration; trees stay the caller's. */
struct hub_ways_in {
	struct quota_limits limits;
	const char *const *peers; /* other replicas, HOST[:PORT], ended by NULL; NULL: none */
	struct span_source *spans; /* of what is carried; outlives the hub; NULL: none */
	const char *http; /* address and port; "": none */
	const struct tree_node *egress, *tls, *tcp, *udp, *access; /* NULL: none */
	struct hub_redirect redirect;
	const char *zone; /* of the node names; "": none */
	uint64_t udp_idle_ms; /* of a flow of a UDP map; 0: the default */
	unsigned udp_flows; /* of one map; 0: the default */
	const char *dns_listen; /* where the zone is served; "": it is not */
	unsigned dns_ttl_s;
	const char *const
		*addresses; /* that names of edge nodes mean, or a Service; ended by NULL */
	/* Where the program listens besides, that the hub is not to dial there; ended by NULL. */
	const char *others[HUB_OTHERS_MAX];
	const char *hosts_map,
		*hosts_key; /* namespace/name of a ConfigMap, and its key; "": none */
};

/* `web` of the configuration; see hub/page/web.h. */
struct web_options {
	const char *listen; /* "" or NULL: none */
	const char *cert, *key, *client_ca; /* PEM files; "": none */
	const char *const *names; /* other names than addresses and localhost, ended by NULL */
	unsigned viewers; /* at a time */
};

struct hub_config {
	const char *listen; /* address and port; the port is 10000 where it says none */
	const char *manifests; /* folder; it may appear later; "": Kubernetes */
	const char *kubeconfig; /* of Kubernetes; "": in-cluster */
	uint64_t kubernetes_silence_ms; /* of its watches; 0: the default */
	bool kubernetes_alone; /* CA, tokens and revocations are not shared by Secrets */
	bool kubernetes_rules; /* read DestinationRules, too */
	bool kubernetes_policies; /* and NetworkPolicies */
	bool kubernetes_sites; /* note source addresses on Nodes, see hub/sync/node_sites.h */
	const char *kubernetes_namespace; /* of these Secrets; "": of the pod or the kubeconfig */
	const char *data_dir; /* made when missing */
	const char *cert, *key, *ca,
		*ca_key; /* PEM files of the operator's own, see hub/identity/certs.h */
	const char *const *names; /* more names for the hub's certificate, ended by NULL */
	/* namespace/name of the hub's own Service in Kubernetes: its addresses, too */
	const char *service;
	/* selector of Nodes that a token for any name, or an approval, may become; "": any */
	const char *join_nodes;
	bool approval; /* nodes may join by a CertificateSigningRequest, with Kubernetes */
	const char *cluster_domain; /* "": cluster.local */
	uint64_t node_life_s; /* of nodes' certificates; 0: a year */
	bool ca_force; /* tls.caForce: start with another CA whatever nodes that cuts off */
	uint64_t heartbeat_ms; /* 0: 4000 */
	bool compress; /* clear text in the tunnels is sent deflated */
	struct hub_ways_in ways_in;
	struct web_options web; /* good until hub_stop */
	/* callers wait in the kernel's queues, and nobody joins, until hub_open: another hub still
	 * serves here */
	bool held;
};

int hub_start(
	struct hub **hub, struct loop *loop, const struct hub_config *config, struct err *err);
void hub_stop(struct hub **hub);
/* Do these rules, which hub_check_access takes, name the page? */
bool hub_names_web(const struct tree_node *rules);
/* Would hub_start take these rules of access? NULL: yes; else what is wrong, and err without the
 * place. */
const struct tree_node *hub_check_access(const struct tree_node *rules, struct err *err);
/* SIGHUP: adopts other rules of access, limits, peers and ingress.redirect, and reads the
 * certificates of the ingress's listeners again. All or, with an error, nothing. What the new rules
 * would not open is cut. */
int hub_reload(struct hub *hub, const struct hub_ways_in *ways_in, struct err *err);
/* Before rights are given up: removes rules of the kernel that an earlier run with ingress.redirect
 * has left. */
void hub_sweep(void);
/* With `held`: callers are taken from now on; joins: nodes may join, too, for the other hub has let
 * go of the disk. */
void hub_open(struct hub *hub, bool joins);
/* Another hub has this one's dataDir, or not any more: nothing is written, so nobody joins, and the
 * kernel's rules of ingress.redirect are left as they are. */
void hub_hold(struct hub *hub, bool held);
/* The next hub_drain sends the nodes away, too, for another hub serves at this one's address; it
 * takes new callers. */
void hub_leave(struct hub *hub);
/* Nodes get no new streams; `done` once the last has ended, not from within this call. */
void hub_drain(struct hub *hub, void (*done)(void *arg), void *arg);

/* Spans of what goes on are handed over as they are. */
void hub_end_spans(struct hub *hub);

/* Has the source been read, and can nodes come? They are told nothing before. */
bool hub_ready(const struct hub *hub);
/* What it waits for, "" when it is ready. */
const char *hub_waits(const struct hub *hub);
struct addr hub_addr(const struct hub *hub); /* where it listens */
void hub_metrics(const struct hub *hub, struct metrics *m);
/* {"peers":[{"peer","address","state","nodes",...}]} */
void hub_peers(const struct hub *hub, struct buf *out);
/* An object with services, source, nodes, certificates. */
void hub_state(const struct hub *hub, struct buf *out);
/* {"nodes":[{"node","connected","address","pending",...,"serial","expires","revoked"}]} */
void hub_nodes(const struct hub *hub, struct buf *out);
/* The agents of all nodes that have joined and are not revoked, as Prometheus' http_sd_config takes
 * it: they are scraped at `port` through ingress.http as a proxy. */
void hub_targets(const struct hub *hub, unsigned port, struct buf *out);
/* {"tunnels":[{"node","address","state","streams","rtt_ms",...}]} */
void hub_tunnels(const struct hub *hub, struct buf *out);
/* {"streams":[...]}: every stream of the nodes' tunnels, those that the hub has opened and those
 * that they have. */
void hub_streams(const struct hub *hub, struct buf *out);

/* Passes what an operator asks of a node's agent on, and the answer back: query:
 * node=NAME&target=PATH; fd, with a request of HTTP that waits for its reply, is taken
 * (admin_take_fn). */
void hub_ask_agent(struct hub *hub, int fd, const char *query);
/* May this caller reach the target, by the rules that are in force now, and which of them says so?
 * from: an address, local, cert:NAME, token:NAME or node:NAME; to: HOST:PORT as at the ingress,
 * NAMESPACE/SERVICE:PORT, or hub:web. A JSON object. -EINVAL. */
int hub_access(struct hub *hub, const char *from, const char *to, struct buf *out, struct err *err);

struct hub_token {
	const char *node; /* "": for any name that is free */
	uint64_t uses; /* joins that it is good for; 0: any number */
	uint64_t ttl_s;
};
/* The whole token, `<sha256 of the CA>.<secret>`. */
int hub_token_create(
	struct hub *hub, const struct hub_token *token, struct buf *out, struct err *err);
/* {"tokens":[{"id","node","uses","used","expires"}]} */
void hub_token_list(const struct hub *hub, struct buf *out);
int hub_token_revoke(struct hub *hub, const char *id, struct err *err);

/* Refuses the node's certificates of until now, ends its connections and the tokens made for it. */
int hub_node_revoke(struct hub *hub, const char *node, struct err *err);
/* The same, and the name is free: the next one that asks for it is a new node. */
int hub_node_forget(struct hub *hub, const char *node, struct err *err);
/* As authority_ca_use and authority_ca_list. */
int hub_ca_use(struct hub *hub, bool force, struct err *err);
void hub_ca_list(const struct hub *hub, struct buf *out);
/* What was revoked, is in force and could not be written to the disk yet: a sentence; ""
 * nothing. */
const char *hub_unwritten(const struct hub *hub);
/* Refuses a hub's certificate, and has other replicas and all nodes refuse it: name as in hub_hubs,
 * or a serial number; out: the serial number. One that this hub shows itself is replaced. */
int hub_hub_revoke(struct hub *hub, const char *name, struct buf *out, struct err *err);
/* {"hubs":[{"hub","address","state","serial","since"}]}: this hub, those that it is connected to,
 * and what is revoked. */
void hub_hubs(const struct hub *hub, struct buf *out);

#endif
