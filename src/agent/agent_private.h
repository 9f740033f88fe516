/*
 * What the agent's files share: agent.c (start), agent_stop.c, agent_succeed.c (from one agent to
 * the next), agent_reload.c (SIGHUP), agent_mesh.c (following the mesh address), agent_admin.c
 * (state and metrics), agent_ready.c (readiness), agent_access.c (who may call whom), agent_debug.c
 * (single requests), agent_health.c (the hub's questions), agent_tunnel.c (access from the cloud).
 * Loop 0 only.
 */
#ifndef EDGEWAY_SRC_AGENT_AGENT_PRIVATE_H
#define EDGEWAY_SRC_AGENT_AGENT_PRIVATE_H

#include <sys/queue.h>

#include "base/http/admin.h"
#include "base/os/addresses.h"
#include "dns/dns.h"
#include "iptables/iptables.h"
#include "lb/lb.h"
#include "meta/meta.h"
#include "src/agent/agent.h"
#include "src/agent/dns_selfcheck.h"
#include "src/agent/pod_canary.h"
#include "src/common/confine.h"
#include "src/common/findings.h"
#include "src/common/handover.h"
#include "src/common/service_state.h"
#include "src/common/socket_store.h"
#include "src/common/spawner.h"
#include "src/common/takeover.h"
#include "src/common/workers.h"
#include "tracing/tracing.h"

enum { AGENT_ADDRESSES_HAD = 4 };

struct stream;

struct agent {
	struct agent_options *options;
	struct loop *loop;
	struct addresses *addresses; /* of this machine */
	struct dial_guard *guard; /* with those addresses: which addresses endpoints may have */
	struct workers *workers;
	struct ws_tunnels *carriers; /* for every connection to the hub; NULL: none */
	struct liveness *liveness; /* of hubs, by address */
	struct meta *meta;
	struct dns *dns;
	struct lb *lb;
	struct tracing *tracing; /* NULL: no spans */
	struct span_source spans; /* of the streams that this node serves: loop 0 */
	struct iptables *ipt;
	struct admin *admin, *metrics; /* metrics: NULL without metrics.listen */
	struct service_state *announce; /* NULL: there is no service manager */
	struct agent_tunnel *tunnel; /* NULL: not configured */
	struct agent_peers *peers; /* NULL: mesh.peerPort is 0, or there is no tunnel */
	struct snapshot *snapshot; /* the newest one */
	struct dns_selfcheck *canary; /* NULL: no DNS queries are captured */
	struct pod_canary *pods; /* tests the mesh from the pods' side */
	struct timer *retry; /* runs until every step for the address has worked */
	struct sigwatch *term, *intr, *hup;
	struct addr *upstreams; /* from the configuration */
	size_t n_upstreams;
	uint32_t address; /* of the mesh, host byte order; 0: none yet */
	/* the last addresses of the mesh, newest first, 0: none; kept in the database, except the
	 * newest and that of edgeway0 until the next reboot */
	LIST_HEAD(, health_port) health_ports;
	size_t health_ports_left; /* of Services, beyond as many as are served */
	uint64_t apiserver_look_ms; /* when to look again for a pod that calls it in vain */
	char apiserver_asker[IP_TEXT_MAX]; /* "": none */
	uint32_t addresses_had[AGENT_ADDRESSES_HAD];
	uint64_t started_ms;
	char mesh_error[512]; /* why the mesh does not serve; "" if it does */
	char error6[512]; /* why IPv6 is not listened at; "" if it is, or is not wanted */
	char resolv_left[512]; /* why resolv.conf waits for disk space; "" if it does not */
	int argc;
	char **argv;
	int lock;
	int network_lock;
	int status;
	bool takes6; /* the successor takes sockets of IPv6 */
	bool stopping;
	bool handed_over; /* a successor serves: nothing on the host is undone */
	struct buf estate; /* of iptables_leave(), during a hand-over */
	char *noted; /* the part of it noted in the database; NULL: nothing */
	struct socket_store *sockets; /* those kept by the service manager */
	struct takeover *takeover; /* until our predecessor has let go; NULL: there was none */
	struct handover *handover; /* to our successor */
	/* after the hand-over: until the successor has the tunnel, then until DNS answers are
	 * sent */
	struct timer *given;
	uint64_t answers_until_ms; /* on the loop's clock; 0: no answers are awaited */
	struct spawner *starter; /* starts the successor; NULL: there is no process for that */
	struct confine *confine;
	size_t n_workers;
	struct send_ring **rings; /* one for each worker; NULL: mesh.io is epoll */
	char rings_why[512]; /* mesh.io auto: why there are none */
	struct timer *admin_retry;
	unsigned admin_tries;
	struct timer *look; /* for the agent's checks of itself */
	unsigned look_every_ms;
	struct findings findings, findings_seen; /* what is reported; what the last check found */
	struct findings of_services; /* if they are checked: a walk over all, once for a snapshot */
	bool services_checked;
	LIST_HEAD(, agent_answer) answers; /* to the hub's questions, while the workers are asked */
};

/* agent.c */
int agent_open_meta(struct agent *a, struct err *err);
int agent_open_iptables(struct agent *a, struct err *err);
/* The hub is optional for serving: an error is logged, and the node continues from its database. */
void agent_connect_hub(struct agent *a);

/* agent_stop.c: each part ends once everything that depends on it has ended */
void agent_stop(void *agent);
/* A successor serves: finishes what is in progress. */
void agent_give(void *agent);

/* agent_rings.c: how the workers send. Opened before system calls are filtered. */
int agent_rings_open(struct agent *a, struct err *err);
void agent_rings_close(struct agent *a);
void agent_rings_state(const struct agent *a, struct buf *out);
void agent_rings_metrics(const struct agent *a, struct metrics *m);

/* agent_succeed.c: hand-over between agents */
void agent_follow(struct agent *a);
/* admin_take_fn */
void agent_takeover(void *agent, int fd, const char *query);
void agent_upgrade(void *agent, int fd, const char *query);
/* Takes the locks, or gets them, with its sockets, from the agent that runs. */
int agent_take_locks(struct agent *a, struct err *err);
/* What must be restored on the host (the estate): find reads what a killed agent left, note saves
 * what this one would leave, forget says that nothing is left. */
void agent_find_estate(struct agent *a);
void agent_note_estate(struct agent *a);
void agent_forget_estate(struct agent *a);
/* Appends a word that is another one after each reboot. */
void agent_add_boot(struct buf *to);
/* Gives up: the predecessor continues, with what is on the host, in the database and at the hub. */
void agent_leave_to_predecessor(struct agent *a);
/* The mesh is served: the predecessor may let go. */
void agent_served(struct agent *a);
/* Serving was tried, and is not possible yet. */
void agent_tried(struct agent *a);

/* agent_reload.c */
void agent_reload(void *agent); /* SIGHUP */
void agent_use_access_log(struct agent *a); /* applies the current lb.accessLog */

/* agent_mesh.c */
void agent_address(void *agent, uint32_t address);
/* Reads the earlier addresses from the database. The last one; 0: none. */
uint32_t agent_mesh_recall(struct agent *a);
void agent_mesh_retry(void *agent);
void agent_mesh_trouble6(void *agent); /* iptables_trouble6 has changed */
/* Why IPv4 is served alone although mesh.subnet6 is set; "": it is not. */
const char *agent_mesh_error6(const struct agent *a);
/* Our DNS has answered: for a while pods' queries to the upstreams are redirected to us. */
void agent_capture(void *agent);
void agent_upstreams(void *agent); /* the upstreams have changed */
void agent_capture_end(struct agent *a);

/* agent_peers.c: sessions with other nodes' agents; agent_tunnel.c starts and ends them */
struct stream_server;
struct egress_client;
void agent_peers_start(struct agent *a, struct stream_server *serve, struct egress_client *outlet);
/* Certificate or revocations may have changed. */
void agent_peers_use(struct agent *a);
/* As `invited` of stream_server_config. */
unsigned agent_peers_invited(
	void *agent, struct stream *st, const char *node, const char *id, const char **reason);
void agent_peers_network(struct agent *a); /* the network has changed */
/* False: there is nothing to wait for, and `done` does not come. */
bool agent_peers_drain(struct agent *a, loop_fn *done, void *arg);
/* Cuts what other nodes have open here; returns how many streams. */
unsigned agent_peers_cut(struct agent *a);
void agent_peers_end(struct agent *a); /* after the egress client's end */
/* Why other nodes cannot dial this one; "": they can. */
const char *agent_peers_error(const struct agent *a);
void agent_peers_metrics(const struct agent *a, struct metrics *m);
void agent_peers_streams(const struct agent *a, const char **comma, struct buf *out);
void agent_peers_state(const struct agent *a, struct buf *out); /* JSON object */

/* agent_tunnel.c */
int agent_tunnel_start(struct agent *a, struct err *err);
/* The hub, or our certificate, has changed. */
void agent_tunnel_hub(struct agent *a);
void agent_tunnel_use(struct agent *a); /* a new snapshot */
/* Applies the current tunnel.reach. */
void agent_tunnel_reach(struct agent *a, const struct agent_options *o);
/* Mesh address, host byte order, on which UDP for endpoints that only the hub reaches is received;
 * 0: none. */
void agent_tunnel_listen(struct agent *a, uint32_t address);
/* A new snapshot exists: called before iptables_use and after it. old NULL: there was none
 * before. */
void agent_tunnel_adopt(struct agent *a, const struct snapshot *old);
void agent_tunnel_settle(struct agent *a);
/* iptables_config's `relay`. */
uint16_t agent_tunnel_relay(void *agent, const struct service *s, const struct service_port *p);
/* lb_config's `forward`. On any thread. */
int agent_tunnel_forward(void *agent, const struct lb_forward *to, int *fd);
/* Returns whether the hub connects this node to endpoints that it cannot dial. */
bool agent_tunnel_wanted(const struct agent_options *o);
/* held: a successor opens a tunnel of its own; false: it did not come. */
void agent_tunnel_hold(struct agent *a, bool held);
/* Accepts no new streams from now on; open ones may finish until drainTimeout. */
void agent_tunnel_drain(struct agent *a);
/* Ends the spans of open streams; nothing more is recorded for them. */
void agent_tunnel_end_spans(struct agent *a);
/* Calls `ended` once nothing is left of the tunnel, possibly at once. */
void agent_tunnel_end(struct agent *a, loop_fn *ended);
void agent_tunnel_metrics(const struct agent *a, struct metrics *m);
void agent_tunnel_streams(const struct agent *a, struct buf *out); /* JSON object */
void agent_tunnel_state(const struct agent *a, struct buf *out); /* JSON object */
/* Whether tunnel.allow lets the hub's callers reach host:port. JSON object. */
void agent_tunnel_judge(const struct agent *a, const char *authority, struct buf *out);

/* agent_carrier.c: with tunnel.carrier websocket all connections to the hub run inside
 * websockets */
int agent_carriers_open(struct agent *a, struct err *err);
void agent_carriers_state(const struct agent *a, struct buf *out); /* JSON object, or null */

/* agent_tracing.c: spans of requests, where tracing.endpoint is given */
int agent_tracing_open(struct agent *a, struct err *err);
void agent_tracing_use(struct agent *a); /* applies the current tracing.sample and tracing.limit */
/* Sends what is left, for a moment at most; then calls `ended`. */
void agent_tracing_end(struct agent *a, loop_fn *ended);

/* agent_health.c: the health of a service's endpoints on this node, for the hub */
void agent_asked(void *agent, const struct meta_question *question); /* meta_config's `asked` */
void agent_health_end(struct agent *a); /* cancels pending answers */

/* agent_admin.c */
int agent_admin_start(struct agent *a, struct err *err);
int agent_metrics_start(struct agent *a, struct err *err);
/* The same, retried for a while: the predecessor is still releasing its address. */
void agent_admin_open(void *agent);
/* The state as a JSON object without its closing brace. Unless `whole`, costly parts are included
 * only if they explain a problem: the workers' lists of endpoints, rules of other programs. */
void agent_state_write(struct agent *a, struct buf *out, bool whole);

/* agent_health_ports.c: opens and closes listeners, as the snapshot and iptables say */
void agent_health_ports_look(struct agent *a);
void agent_health_ports_end(struct agent *a);
void agent_health_ports_state(const struct agent *a, struct buf *out);
void agent_health_ports_metrics(const struct agent *a, struct metrics *m);
/* agent_findings.c: problems found, by agent_checks.h */
void agent_findings_start(struct agent *a);
void agent_findings_end(struct agent *a);
/* The services have changed. */
void agent_findings_forget(struct agent *a);
/* state: as from agent_state_write; adds the list as JSON. */
void agent_findings_write(struct agent *a, struct buf *state);

/* agent_access.c: admin_fn, with the agent */
void agent_access_check(void *agent, const struct admin_request *req, struct admin_reply *reply);

/* agent_debug.c: admin_fn, with the agent */
void agent_debug_tap(void *agent, const struct admin_request *req, struct admin_reply *reply);
void agent_debug_flow(void *agent, const struct admin_request *req, struct admin_reply *reply);

/* agent_ready.c */
bool agent_ready(const struct agent *a, struct buf *why);
/* Returns whether it serves although something is undone or would be lost with a restart; `what`
 * gets lines that say what. */
bool agent_degraded(const struct agent *a, struct buf *what);
/* Returns whether the bridge was looked for and is missing or has no address. */
bool agent_waits_for_bridge(const struct agent *a);
/* Returns whether units ordered after the agent may start: it serves, or lacks only the bridge,
 * which is created after it. See service_state_fn. */
bool agent_announces(void *agent, struct buf *status);
void agent_ready_metrics(const struct agent *a, struct metrics *m);

#endif
