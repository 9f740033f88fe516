/*
 * The connection to the hub (doc/protocol.md): joins if it must, resolves, connects, stays
 * connected, reports what this node holds, passes changes to meta/state/apply, and acknowledges
 * them. One connection at a time. Loop 0 only.
 *
 *   WAITING ─timer─► RESOLVING ─► DIALLING ─► GREETING ─hello─► SYNCING ─synced─► SYNCED
 *      ▲                 │            │           │                │                │
 *      └──── back-off: 100 ms doubling to 30 s, full jitter; addresses and hub.url take turns
 *            (meta/client/hub_addresses)
 *
 * A join passes through the same states up to GREETING, with the other path, and ends in WAITING
 * with a certificate.
 */
#ifndef EDGEWAY_META_CLIENT_HUB_CLIENT_H
#define EDGEWAY_META_CLIENT_HUB_CLIENT_H

#include "base/core/buf.h"
#include "base/core/loop.h"
#include "base/core/sock.h"
#include "meta/client/clock_skew.h"
#include "meta/client/question.h"
#include "model/mesh.h"

struct apply;
struct ws_tunnels;
struct hub_client;
struct ssl_ctx_st;

#define HUB_CLIENT_REFUSED_NOTE                                                                    \
	"revoked_hubs" /* serial numbers of hubs' certificates, separated by commas */

#define HUB_CLIENT_REVOKED_NOTE "revoked_nodes" /* as message_revoked writes it */

struct hub_client_config { /* copied */
	struct loop *loop;
	loop_fn *hub_changed; /* hub_client_hub has changed; may be NULL */
	void *hub_arg;
	meta_asked_fn *asked; /* the hub asks a question; NULL: none is answered */
	void *asked_arg;
	/* the hub's answer to hub_client_ask_pod; len 0: it refuses */
	void (*pod_answered)(void *arg, const char *id, const char *json, size_t len);
	/* the ranges of pods' addresses: -errno with the reason when they cannot be read */
	int (*pod_ranges)(void *arg, const char *json, size_t len, struct err *err);
	void *pod_arg; /* of both */
	bool find_hubs; /* hub_client_known_hub is wanted */
	bool no_tunnel; /* tunnels are switched off: the hub does not wait for one */
	struct apply *apply;
	bool cloudhub; /* hub.protocol: the hub is a KubeEdge CloudHub */
	const char *node, *node_id; /* node_id "" = node */
	const char *data_dir, *ca, *cert, *key, *token, *token_file;
	int64_t floor_s; /* the latest time stored, seconds since 1970 */
	const char *refused_hubs; /* the stored note HUB_CLIENT_REFUSED_NOTE, NULL: none */
	const char *revoked_nodes; /* the stored note HUB_CLIENT_REVOKED_NOTE, NULL: none */
	const char *cluster_domain;
	uint32_t subnet, mask; /* of fake IPs, host byte order: a hub cannot be there */
	const char *const *urls; /* NULL-terminated */
	/* For each of urls, or NULL: address of the last connection as text; addresses the hub
	 * reported. */
	const char *const *last_good, *const *told;
	const char *proxy; /* hub.proxy, "" none */
	struct ws_tunnels *carriers; /* every connection goes through them; NULL: none */
	const char *proxy_good; /* the proxy's address of the last connection as text, or NULL */
	uint64_t heartbeat_ms;
	/* what is known of hubs, by address; outlives it; NULL: heartbeats alone tell */
	struct liveness *liveness;
	uint32_t mark;
	const struct addr *upstreams;
	size_t n_upstreams;
};

struct hub_client_status {
	bool connected, synced, joined;
	const char *url;
	const char *address; /* "" when not connected; the proxy's if there is one */
	const char *proxy; /* host of hub.proxy, "" none */
	const char *error; /* why the last attempt failed, "" none */
	const char *untold; /* what a CloudHub does not report, with the remedy; "" nothing */
	/* the cause of the error as a label, and what helps; "" none */
	const char *problem, *remedy;
	unsigned ends; /* of established connections, in FLAPPING_WINDOW_MS */
	const char *end; /* why the last one ended; "" none has */
	int64_t certificate_not_before, certificate_not_after; /* seconds since 1970, 0: none */
	size_t refused_hubs; /* revoked certificates of hubs */
	const char *certificate_error; /* why it was not renewed, "" none */
	uint64_t renewals, renewal_failures;
	uint64_t last_contact_ms; /* loop's clock; 0: never */
	struct clock_skew hubtime;
	uint64_t comparisons[2]; /* with the hub: [0] all equal, [1] something differed */
	uint64_t connects, failures, messages, refused;
	uint64_t told_to_wait; /* times that a busy hub asked to come later */
};

int hub_client_new(
	struct hub_client **feed, const struct hub_client_config *config, struct err *err);
/* The data folder was removed: writes certificate, key and CA again if they are gone, too. */
void hub_client_save_identity(struct hub_client *feed);
void hub_client_free(struct hub_client **feed);
/* What hub_client_config could not say, since the database was not open; NULL: as there. */
void hub_client_take_notes(struct hub_client *feed, const char *refused_hubs,
	const char *revoked_nodes, int64_t floor_s);
/* The DNS servers that resolve the hub's name from now on. */
void hub_client_use_upstreams(struct hub_client *feed, const struct addr *upstreams, size_t n);
/* The hub may be reachable again: do not wait for the next attempt. */
void hub_client_kick(struct hub_client *feed);
/* The network has changed: kicks as above, and reconnects if the connection's route now has another
 * source address. */
void hub_client_network(struct hub_client *feed);
/* Asks the hub for a sign of life; the connection ends if none comes. */
void hub_client_doubt(struct hub_client *feed);
/* The hub does not answer: connects to another one at once, if there is one, trying the last one
 * last. Rate-limited. */
void hub_client_move(struct hub_client *feed);
/* Whether an EdgeCore on this machine uses this node id; a CloudHub would then disconnect one of
 * the two. -EEXIST with the reason. */
int hub_client_check_id(const char *node_id, struct err *err);
/* The change is committed. Acknowledged only on the connection that it came by. */
void hub_client_ack(
	struct hub_client *feed, unsigned connection, const char *id, const char *resource);
/* The services in use may have changed: reports to the hub those that this node cannot serve, if
 * they differ from the last report. */
void hub_client_tell_unserved(struct hub_client *feed);
/* json: model/health.h. Sent only on the connection that the question came by. */
void hub_client_answer(
	struct hub_client *feed, const struct meta_question *question, const char *json);
/* Asks the hub for a pod by its address (doc/protocol.md); id gets the question's. False: there is
 * no hub now that answers. */
bool hub_client_ask_pod(struct hub_client *feed, const char *json, char id[37]);
/* Compare with the hub now. */
void hub_client_resync(struct hub_client *feed);
struct hub_client_status hub_client_status(const struct hub_client *feed);

/* See pki_node_ctx, with this node's certificate: 0; -ENOENT: it has none yet. */
int hub_client_node_ctx(
	const struct hub_client *feed, bool server, struct ssl_ctx_st **ctx, struct err *err);
/* Changes with each new certificate; 0: none yet. */
uint64_t hub_client_certificate(const struct hub_client *feed);
/* The revoked certificates of other nodes, as far as a hub has said, as message_revoked writes
 * them; borrowed. */
const char *hub_client_revoked_nodes(const struct hub_client *feed);
/* Whether such a list has this certificate. */
bool hub_client_refuses_node(const char *revoked_nodes, const char *node, const char *serial);
/* The hub's access has rules for nodes, as far as a hub has said: they do not ask each other. */
bool hub_client_has_node_rules(const struct hub_client *feed);

/* The hub that sent a hello last, for a second connection to it. */
struct hub_client_hub {
	struct addr addr;
	const char *host; /* name in its certificate; borrowed */
	struct ssl_ctx_st *tls; /* client context with our certificate; borrowed */
	uint64_t certificate; /* changes with each new certificate of ours */
	bool rendezvous; /* it introduces nodes to each other */
	/* the proxy to it, addr is then the proxy's; NULL: none; owned by the hub client */
	const struct proxy *proxy;
	char target[MESH_NODE_MAX + 16]; /* host:port to request from the proxy */
};
/* False: no hub has sent a hello yet. */
bool hub_client_hub(const struct hub_client *feed, struct hub_client_hub *to);
/* The same for the i-th address of all known hubs, this one among them; false: there are not so
 * many. hub_changed tells when there are others. */
bool hub_client_known_hub(const struct hub_client *feed, size_t i, struct hub_client_hub *to);
/* Looks their names up again. */
void hub_client_find_hubs(struct hub_client *feed);
/* JSON list: hub.url with the stored addresses. */
void hub_client_places(const struct hub_client *feed, struct buf *out);

#endif
