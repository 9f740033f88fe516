/*
 * State shared by the files of the hub itself: hub.c (start, reload, drain, stop), hub_source.c
 * (from the source to the nodes), hub_explain.c and hub_service.c (problems reported on Services),
 * hub_nodes.c (authority and nodes), hub_ways.c (listeners and routes for clients), hub_peers.c
 * (other replicas), hub_ask.c and hub_access.c (operators' questions) and hub_tell.c (state,
 * metrics). No other file includes it.
 */
#ifndef EDGEWAY_HUB_HUB_PRIVATE_H
#define EDGEWAY_HUB_HUB_PRIVATE_H

#include <sys/queue.h>

#include "base/core/heap.h"
#include "base/core/preauth.h"
#include "base/os/addresses.h"
#include "base/tls/tls_handshake.h"
#include "hub/hub.h"
#include "hub/identity/authority.h"
#include "hub/ingress/egress.h"
#include "hub/ingress/listeners.h"
#include "hub/ingress/redirect.h"
#include "hub/kube/kubernetes.h"
#include "hub/kube/route_status.h"
#include "hub/manifests/manifests.h"
#include "hub/names/naming.h"
#include "hub/page/web.h"
#include "hub/port/self_guard.h"
#include "hub/replicas/peers.h"
#include "hub/replicas/rendezvous.h"
#include "hub/replicas/tunnel_session.h"
#include "hub/routing/neighbour_query.h"
#include "hub/sync/fanout.h"
#include "hub/sync/node_sites.h"
#include "hub/sync/nodes.h"
#include "model/cluster/cluster.h"

/* What the hub reports about a Service: enum cluster_problem, and what only the hub knows. */
enum hub_service_kind {
	HUB_SERVICE_WELL = CLUSTER_WELL,
	HUB_SERVICE_NO_WAY, /* pods without hostPort, and no tunnel to their node */
	HUB_SERVICE_NOT_READY, /* it has endpoints, none of which is ready */
	HUB_SERVICE_THROUGH_HUB, /* pods without hostPort, reached through the hub */
	HUB_SERVICE_KINDS,
};

struct hub_service {
	enum finding_class class;
	enum hub_service_kind kind;
	/* "": nothing; borrowed until the next change of the cluster, unless it points to `own` */
	const char *text;
	char own[640];
};

/* What the log has reported about a service, or is about to report. */
struct hub_service_said {
	uint8_t kind, rounds;
};

struct hub {
	struct loop *loop;
	LIST_HEAD(, hub_ask) asks; /* operators' requests to agents: hub_ask.c */
	unsigned n_asks;
	struct addresses *addresses; /* of this machine */
	struct authority *authority;
	struct cluster *cluster;
	struct fanout *fanout;
	struct manifests *manifests; /* one of these two is the source */
	struct kubernetes *kubernetes;
	struct node_sites *sites; /* with Kubernetes */
	struct route_status *route_status; /* with Kubernetes */
	struct nodes *nodes; /* NULL until the authority is ready */
	struct floods *floods;
	struct liveness *liveness; /* of nodes, by name */
	struct tls_workers *workers; /* do handshakes and the ingress' TLS; NULL: `loop` does */
	/* have the sessions of tunnels and outward_tunnels; NULL: `loop` has */
	struct session_workers *sessions, *outward_sessions;
	struct tunnels *tunnels; /* accepts none before the authority is ready */
	struct peers *peers;
	struct rendezvous *rendezvous; /* introduces nodes to each other */
	struct presence *presence; /* of nodes, here and at other replicas */
	struct tunnels *outward_tunnels; /* tunnels in which nodes open streams to `outward` */
	struct egress *outward;
	/* how many of tunnels, peers and outward_tunnels have not finished draining */
	unsigned draining;
	void (*drained)(void *arg);
	void *drained_arg;
	struct neighbour_queries *neighbour_queries; /* owns the answers of neighbours */
	struct grants grants; /* the rules and the accounts */
	struct self_guard *guard;
	struct preauth *preauth; /* of all listeners except the page's */
	struct routes_finder *ways;
	struct local_dial *cloud;
	struct connector *reach;
	struct ingress *ingress;
	struct redirect *redirect; /* NULL until start_ingress */
	struct udp_maps *udp_maps;
	struct naming *naming; /* NULL: none */
	struct web *web; /* NULL: none */
	struct nodes_config nodes_config;
	char listen_host[INET6_ADDRSTRLEN];
	struct timer *again; /* retries listening */
	struct timer *look;
	struct heap_peak heap;
	uint64_t began_ms;
	struct hub_service_said *said; /* by fanout_item's index; hub_explain.c */
	size_t n_said;
	struct hub_way_kept *ways_kept; /* hub_service.c */
	uint64_t explain_round;
	size_t service_counts[HUB_SERVICE_KINDS]; /* as of the last hub_explain */
	struct timer *settle; /* runs during a hand-over */
	uint64_t settle_until_ms;
	bool held; /* until hub_open: another hub uses the disk */
	bool leaves; /* another hub serves in its place */
	bool ready; /* the source has been read, and nodes were notified */
	uint64_t n_changes;
	struct hub_ways_in ways_in;
	/* selector of Nodes whose names a token for any name may give; NULL: all */
	struct selector *join_nodes;
	char *join_nodes_text;
	char *data_dir;
	char *disk_problem; /* why data_dir cannot be written; NULL: it can. hub_disk.c */
	uint64_t disk_tried_ms; /* mono_ms; 0: never */
	bool thread_silent; /* at the last look: hub_thread_trouble */
	uint64_t crl_told; /* hash of the revocations that nodes were told last */
};

/* A text of hub_config that may be NULL. */
static inline const char *
or_empty(const char *s)
{
	return s != NULL ? s : "";
}

/* --- hub_source.c --------------------------------------------------------------------------- */
int hub_source_start(struct hub *hub, const struct hub_config *config, struct err *err);
/* Returns true once all of the source has been read. */
/* Passes what has changed in the cluster to the nodes. arg: the hub. */
void hub_source_settle(void *arg);
bool hub_source_ready(const struct hub *hub);
/* The rules of access have changed: nodes are told which endpoints the hub dials for them. */
void hub_source_use_access(struct hub *hub);

/* --- hub_explain.c -------------------------------------------------------------------------- */
/* Passes the reports on its Services and Nodes to the Kubernetes source; called by a timer. */
void hub_explain(struct hub *hub);

/* --- hub_gateway.c -------------------------------------------------------------------------- */
/* Called by a timer: tells route_status which addresses gateways are to have. */
void hub_gateway_settle(struct hub *hub);

/* --- hub_disk.c ----------------------------------------------------------------------------- */
/* Called by a timer: can dataDir be written? Logs when that changes. */
void hub_disk_look(struct hub *hub);
/* {"problem","remedy"} */
void hub_disk_state(const struct hub *hub, struct buf *out);

/* --- hub_service.c -------------------------------------------------------------------------- */
/* Called by a timer: makes the next look-ups ask for the state of nodes' tunnels again. */
void hub_service_begin(struct hub *hub);
void hub_service_look(
	const struct hub *hub, const char *ns, const char *name, struct hub_service *to);
const char *hub_service_word(enum hub_service_kind kind);
enum finding_class hub_service_class(enum hub_service_kind kind);
void hub_service_metrics(const struct hub *hub, struct metrics *m);

/* --- hub_nodes.c ---------------------------------------------------------------------------- */
/* Call after the source has started. Starts the nodes when the authority gets ready later. */
int hub_authority_start(struct hub *hub, const struct hub_config *config, struct err *err);
/* A join_bars_fn for this hub. */
int hub_bars_node(void *hub, const char *node, struct err *err);
/* Tells the nodes which certificates are revoked, if that is new. Once the authority is ready. */
void hub_tell_revoked(struct hub *hub);
/* Call once the authority is ready. */
int hub_nodes_start(struct hub *hub, struct err *err);

/* --- hub_ways.c ----------------------------------------------------------------------------- */
/* Starts ingress, redirect and names; call after the authority. */
int hub_ways_start(struct hub *hub, const struct hub_ways_in *config, struct err *err);

/* Returns true for an edge node without a tunnel; false also while that is not known. */
bool hub_lacks_way(const struct hub *hub, const char *node);
/* Why the node's tunnel must not be used for host:port: the node is the hub's host, and the port is
 * one of the hub's. NULL: it may be used. */
const char *hub_node_refuses(void *hub, const char *node, const char *authority);
/* Tells the guard the listeners of the configuration. */
void hub_note_listeners(struct hub *hub, const struct hub_ways_in *config);

/* --- hub_peers.c ---------------------------------------------------------------------------- */
/* As nodes_ask, for the nodes once they are started. */
int hub_ask_node(void *hub, const char *node, const char *service, struct question *q);
/* The networks that the node declares here as reachable have changed. */
void hub_declared(void *hub, const char *node);
void hub_peers_start(struct hub *hub, uint16_t port);
/* `peers` of the configuration; NULL: none. */
int hub_peers_configure(struct hub *hub, const char *const *names, struct err *err);
/* The callbacks for which the hub is `others` of tunnels_setup. */
void hub_tunnel_changed(void *hub, const char *node);
uint64_t hub_tunnel_claimed(void *hub, const char *node);

/* --- hub_ask.c ------------------------------------------------------------------------------ */
/* Ends operators' requests to agents that are still in progress. */
void hub_asks_end(struct hub *hub);

/* --- hub_tell.c ----------------------------------------------------------------------------- */
/* That a thread of tunnels stands still, which the caller frees; NULL: none does. */
char *hub_thread_trouble(const struct hub *hub);
/* `sources` of web_config. */
void hub_web_sources(void *hub, struct survey_sources *to);

#endif
