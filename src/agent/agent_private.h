/*
 * What the agent's files share: agent.c (start), agent_stop.c, agent_succeed.c (from one agent to
 * the next), agent_reload.c (SIGHUP), agent_mesh.c (following the mesh address), agent_admin.c
 * (what is told outside), agent_ready.c (may it be relied upon), agent_access.c (who may call
 * whom), agent_debug.c (single requests), agent_health.c (what the hub asks), agent_tunnel.c (the
 * cloud's way in). Loop 0 only.
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

struct agent {
	struct agent_options *options;
	struct loop *loop;
	struct addresses *addresses; /* of this machine */
	struct dial_guard *guard; /* which addresses endpoints may have, with those */
	struct workers *workers;
	struct ws_tunnels *carriers; /* of every connection to the hub; NULL: none */
	struct meta *meta;
	struct dns *dns;
	struct lb *lb;
	struct tracing *tracing; /* NULL: no spans */
	struct span_source spans; /* of the tunnel's end here: loop 0 */
	struct iptables *ipt;
	struct admin *admin, *metrics; /* metrics: NULL without metrics.listen */
	struct service_state *announce; /* NULL: no service manager listens */
	struct agent_tunnel *tunnel; /* NULL: none is wanted */
	struct snapshot *snapshot; /* the newest one */
	struct dns_selfcheck *canary; /* NULL: nothing is captured */
	struct pod_canary *pods; /* tries the mesh as pods have it */
	struct timer *retry; /* until every step of the address has worked */
	struct sigwatch *term, *intr, *hup;
	struct addr *upstreams; /* configured */
	size_t n_upstreams;
	uint32_t address; /* of the mesh, host byte order; 0: none yet */
	uint64_t started_ms;
	uint64_t mesh_failures;
	char mesh_error[512]; /* why the mesh does not serve, "" when it does */
	char resolv_left[512]; /* why resolv.conf waits for room on a disk, "" when it does not */
	int argc;
	char **argv;
	int lock;
	int network_lock;
	int status;
	bool stopping;
	bool handed_over; /* a successor serves: nothing of the host is undone */
	struct buf estate; /* of iptables_leave(), while a successor comes */
	char *noted; /* of it, in the database; NULL: nothing */
	struct socket_store *sockets; /* at the service manager */
	struct takeover *takeover; /* until the one before us has let go; NULL: there was none */
	struct handover *handover; /* to the next one */
	/* after that: until the tunnel is the next one's, then until DNS has answered */
	struct timer *given;
	uint64_t answers_until_ms; /* on the loop's clock; 0: nobody is waited for */
	struct spawner *starter; /* of the next one; NULL: there is no process for that */
	struct confine *confine;
	struct timer *admin_retry;
	unsigned admin_tries;
	struct timer *look; /* at itself */
	struct findings findings, findings_seen; /* what is told; of the last look */
	LIST_HEAD(, agent_answer) answers; /* to the hub's questions, while the workers are asked */
};

/* agent.c */
int agent_open_meta(struct agent *a, struct err *err);
int agent_open_iptables(struct agent *a, struct err *err);
/* The hub is optional for serving: what is wrong there is said, and the node goes on from its
 * database. */
void agent_connect_hub(struct agent *a);

/* agent_stop.c: each part ends once what hangs on it has */
void agent_stop(void *agent);
/* A successor serves: what is in progress ends. */
void agent_give(void *agent);

/* agent_succeed.c: from one agent to the next */
void agent_follow(struct agent *a);
/* admin_take_fn */
void agent_takeover(void *agent, int fd, const char *query);
void agent_upgrade(void *agent, int fd, const char *query);
/* The locks, or those of the agent that runs, with its sockets. */
int agent_take_locks(struct agent *a, struct err *err);
/* What an agent that was killed has left is found, and what this one would leave noted; nothing is
 * left any more. */
void agent_find_estate(struct agent *a);
void agent_note_estate(struct agent *a);
void agent_forget_estate(struct agent *a);
/* Those that the agent before gave, before they listen. */
void agent_use_sockets(struct agent *a);
/* It goes on, with what is on the host, in the database and at the hub. */
void agent_leave_to_predecessor(struct agent *a);
/* The mesh is served: the one before us may let go. */
void agent_served(struct agent *a);
/* It was tried, and cannot be yet. */
void agent_tried(struct agent *a);

/* agent_reload.c */
void agent_reload(void *agent); /* SIGHUP */
void agent_use_access_log(struct agent *a); /* lb.accessLog, as it is now */

/* agent_mesh.c */
void agent_address(void *agent, uint32_t address);
void agent_mesh_retry(void *agent);
/* Our DNS has answered: for a while pods' queries to the upstreams come to us. */
void agent_capture(void *agent);
void agent_upstreams(void *agent); /* they are others now */
void agent_capture_end(struct agent *a);

/* agent_tunnel.c */
int agent_tunnel_start(struct agent *a, struct err *err);
/* The hub, or our certificate, is another now. */
void agent_tunnel_hub(struct agent *a);
void agent_tunnel_use(struct agent *a); /* a new snapshot */
/* tunnel.reach, as it is now. */
void agent_tunnel_reach(struct agent *a, const struct agent_options *o);
/* Of the mesh, host byte order: where UDP for endpoints that only the hub reaches is taken; 0:
 * nowhere. */
void agent_tunnel_listen(struct agent *a, uint32_t address);
/* A new snapshot is there: before iptables_use and after. old NULL: none before. */
void agent_tunnel_adopt(struct agent *a, const struct snapshot *old);
void agent_tunnel_settle(struct agent *a);
/* iptables_config's `relay`. */
uint16_t agent_tunnel_relay(void *agent, const struct service *s, const struct service_port *p);
/* lb_config's `forward`. On any thread. */
int agent_tunnel_forward(void *agent, const struct lb_forward *to, int *fd);
/* Does the hub reach for this node what it cannot dial? */
bool agent_tunnel_wanted(const struct agent_options *o);
/* A successor opens a tunnel of its own; or has not come. */
void agent_tunnel_hold(struct agent *a, bool held);
/* No new streams from now on; what is open may finish until drainTimeout. */
void agent_tunnel_drain(struct agent *a);
/* Spans of what goes on: the last that is told of it. */
void agent_tunnel_end_spans(struct agent *a);
/* `ended` comes once nothing is left of it, perhaps at once. */
void agent_tunnel_end(struct agent *a, loop_fn *ended);
void agent_tunnel_metrics(const struct agent *a, struct metrics *m);
void agent_tunnel_streams(const struct agent *a, struct buf *out); /* JSON object */
void agent_tunnel_state(const struct agent *a, struct buf *out); /* JSON object */
/* Does tunnel.allow let the hub's callers reach host:port? JSON object. */
void agent_tunnel_judge(const struct agent *a, const char *authority, struct buf *out);

/* agent_carrier.c: with tunnel.carrier websocket all connections to the hub go inside of
 * websockets */
int agent_carriers_open(struct agent *a, struct err *err);
void agent_carriers_state(const struct agent *a, struct buf *out); /* JSON object, or null */

/* agent_tracing.c: spans of requests, where tracing.endpoint is given */
int agent_tracing_open(struct agent *a, struct err *err);
void agent_tracing_use(struct agent *a); /* tracing.sample and tracing.limit, as they are now */
/* What is left goes out, for a moment at most; then `ended`. */
void agent_tracing_end(struct agent *a, loop_fn *ended);

/* agent_health.c: how a service's endpoints do here, for the hub */
void agent_asked(void *agent, const struct meta_question *question); /* meta_config's `asked` */
void agent_health_end(struct agent *a); /* what is asked now is not answered */

/* agent_admin.c */
int agent_admin_start(struct agent *a, struct err *err);
int agent_metrics_start(struct agent *a, struct err *err);
/* The same, again and again for a while: the agent before us lets its address go. */
void agent_admin_open(void *agent);
/* The state as a JSON object without its closing brace. Unless it is to be whole, what costs time
 * is there only where something is wrong that it explains: the workers' lists of endpoints, others'
 * rules. */
void agent_state_write(struct agent *a, struct buf *out, bool whole);

/* agent_findings.c: what is wrong, by agent_checks.h */
void agent_findings_start(struct agent *a);
void agent_findings_end(struct agent *a);
/* state: as of agent_state_write; adds the list as JSON. */
void agent_findings_write(const struct agent *a, struct buf *state);

/* agent_access.c: admin_fn, with the agent */
void agent_access_check(void *agent, const struct admin_request *req, struct admin_reply *reply);

/* agent_debug.c: admin_fn, with the agent */
void agent_debug_tap(void *agent, const struct admin_request *req, struct admin_reply *reply);
void agent_debug_flow(void *agent, const struct admin_request *req, struct admin_reply *reply);

/* agent_ready.c */
bool agent_ready(const struct agent *a, struct buf *why);
/* It serves, and something is left undone or would be lost with a restart: lines that say what. */
bool agent_degraded(const struct agent *a, struct buf *what);
/* It was looked for, and the bridge that it serves on is not there or has no address. */
bool agent_waits_for_bridge(const struct agent *a);
/* What is ordered after the agent need not wait for it: it serves, or lacks nothing but what comes
 * after it, the bridge. See service_state_fn. */
bool agent_announces(void *agent, struct buf *status);
/* How many endpoints are refused because of their addresses (model/dial_guard.h), by class. */
void agent_refused(const struct agent *a, size_t by_class[SPECIAL_CLASSES]);
void agent_ready_metrics(const struct agent *a, struct metrics *m);

#endif
