/*
 * The objects of a worker and their ownership; everything here lives on one worker's loop.
 *
 *	worker ──► downstreams (clients' connections) ──► exchange (a request, or a relay) ──► upstream_conn
 *	       └─► targets (endpoints' state) ──► idle upstream_conns
 *
 * Objects that end are closed at once and freed at the worker's next entry from the loop
 * (worker_enter), so a function whose callee ended the object may still look at it: fd is -1, or
 * `ended` is set.
 */
#ifndef EDGEWAY_LB_PROXY_WORKER_H
#define EDGEWAY_LB_PROXY_WORKER_H

#include "base/core/fair_share.h"
#include "base/core/heap.h"
#include "base/core/log_queue.h"
#include "base/http/h2.h"
#include "lb/balance/fair_queue.h"
#include "lb/balance/targets.h"
#include "lb/conn/expiry.h"
#include "lb/conn/peer.h"
#include "lb/lb.h"
#include "lb/proxy/session.h"
#include "model/http_route.h"

enum {
	SCRATCH_BYTES = 64 * 1024,
	EMIT_BYTES = HTTP1_HEAD_MAX + 8 * 1024,
	TRIES_MAX = 11, /* most endpoints tried for one request or connection */
	READ_ROUNDS = 4, /* scratch buffers read for one event */
};

/* Responses that the proxy generates itself. */
#define OWN_ANSWERS(X)                                                                             \
	X(own_400, NULL, NULL, NULL)                                                               \
	X(own_403, NULL, NULL, NULL)                                                               \
	X(own_404, NULL, NULL, NULL)                                                               \
	X(own_405, NULL, NULL, NULL)                                                               \
	X(own_408, NULL, NULL, NULL)                                                               \
	X(own_414, NULL, NULL, NULL)                                                               \
	X(own_431, NULL, NULL, NULL)                                                               \
	X(own_500, NULL, NULL, NULL)                                                               \
	X(own_501, NULL, NULL, NULL)                                                               \
	X(own_502, NULL, NULL, NULL)                                                               \
	X(own_503, NULL, NULL, NULL)                                                               \
	X(own_504, NULL, NULL, NULL)                                                               \
	X(own_505, NULL, NULL, NULL)                                                               \
	X(own_508, NULL, NULL, NULL)

#define EVICTIONS_HELP                                                                             \
	"Connections closed because those of their client held more memory than its share."

/* What the memory budget counts: memory.h. */
enum memory_kind { MEMORY_OWN, MEMORY_SOCKETS, MEMORY_KINDS };

/* Counters: name, also that in the JSON; metric, labels and help as in a figure
 * (base/core/figures.h). Only their worker writes them; any thread may read them. */
#define LB_COUNTERS(X)                                                                             \
	X(accepted_http, "edgeway_lb_connections_total", "mode=\"http\"", "Connections accepted.") \
	X(accepted_tcp, "", "mode=\"tcp\"", NULL)                                                  \
	X(refused, "", "mode=\"refused\"", NULL)                                                   \
	X(over_quota, "", "mode=\"crowded\"", NULL)                                                \
	X(http2, "edgeway_lb_http2_connections_total", NULL,                                       \
		"Connections of clients that speak HTTP/2, which mode=\"http\" counts as well.")   \
	X(grpc_ok, "edgeway_lb_grpc_calls_total", "class=\"ok\"",                                  \
		"Calls of gRPC, by class of their status: ok; refused, which is the caller's "     \
		"doing; failed, which is the server's.")                                           \
	X(grpc_refused, "", "class=\"refused\"", NULL)                                             \
	X(grpc_failed, "", "class=\"failed\"", NULL)                                               \
	X(status_1xx, "edgeway_lb_requests_total", "class=\"1xx\"",                                \
		"Answers sent to clients, by class of status.")                                    \
	X(status_2xx, "", "class=\"2xx\"", NULL)                                                   \
	X(status_3xx, "", "class=\"3xx\"", NULL)                                                   \
	X(status_4xx, "", "class=\"4xx\"", NULL)                                                   \
	X(status_5xx, "", "class=\"5xx\"", NULL)                                                   \
	X(bad_request, "edgeway_lb_errors_total", "reason=\"bad_request\"",                        \
		"Requests and connections that failed here.")                                      \
	X(bad_response, "", "reason=\"bad_response\"", NULL)                                       \
	X(no_endpoints, "", "reason=\"no_endpoints\"", NULL)                                       \
	X(no_service, "", "reason=\"no_service\"", NULL)                                           \
	X(denied, "", "reason=\"allow_from\"", NULL)                                               \
	X(not_connected, "", "reason=\"connect\"", NULL)                                           \
	X(upstream_lost, "", "reason=\"upstream_lost\"", NULL)                                     \
	X(client_lost, "", "reason=\"client_lost\"", NULL)                                         \
	X(timeouts, "", "reason=\"timeout\"", NULL)                                                \
	X(overloaded, "", "reason=\"max_connections\"", NULL)                                      \
	X(loops, "", "reason=\"loop\"", NULL)                                                      \
	X(floods, "", "reason=\"http2_flood\"", NULL)                                              \
	OWN_ANSWERS(X)                                                                             \
	X(server_first, NULL, NULL,                                                                \
		"Times that a port called http was found to greet its clients.")                   \
	X(dials, NULL, NULL, "Connections made to endpoints.")                                     \
	X(reuses, NULL, NULL, "Connections of the pool that were used again.")                     \
	X(retries, "edgeway_lb_retries_total", NULL,                                               \
		"Attempts after the first, for one request or connection.")                        \
	X(out_of_resources, "edgeway_lb_shortages_total", NULL,                                    \
		"Dials not made for want of descriptors, ports or memory on this node.")           \
	X(dials_refused, NULL, NULL,                                                               \
		"Endpoints that were not dialled because their address has become one that is "    \
		"refused (lb.allow).")                                                             \
	X(over_budget, NULL, NULL, "Attempts not made, because too many requests needed one.")     \
	X(hedges, NULL, NULL,                                                                      \
		"Connections made because another one to an endpoint took too long.")              \
	X(silent, NULL, NULL,                                                                      \
		"Requests sent to another endpoint because the first acknowledged no byte.")       \
	X(waits, "edgeway_lb_waits_total", NULL,                                                   \
		"Requests and connections that waited for room at an endpoint.")                   \
	X(ejections, "edgeway_lb_ejections_total", NULL,                                           \
		"Endpoints taken out for a while after failures.")                                 \
	X(probes, NULL, NULL, "Connections made to see whether an endpoint is back.")              \
	X(returns, NULL, NULL, "Endpoints back in use: a probe or a request got through.")         \
	X(checks, NULL, NULL, "Health checks made.")                                               \
	X(checks_bad, NULL, NULL, "Health checks that failed.")                                    \
	X(tls_handshakes, "edgeway_lb_tls_handshakes_total", NULL,                                 \
		"TLS handshakes with endpoints that succeeded (BackendTLSPolicy).")                \
	X(tls_resumed, "edgeway_lb_tls_resumed_total", NULL,                                       \
		"Those of them that resumed a session.")                                           \
	X(tls_failed, "edgeway_lb_tls_failures_total", NULL,                                       \
		"TLS handshakes with endpoints that failed: nothing was sent.")                    \
	X(mirrors, NULL, NULL, "Copies of requests sent for the mirrors of routes.")               \
	X(mirrors_dropped, NULL, NULL,                                                             \
		"Copies not sent: a large body, too many at once, or no endpoint.")                \
	X(evicted, "edgeway_lb_evictions_total", "memory=\"own\"", EVICTIONS_HELP)                 \
	X(evicted_sockets, "", "memory=\"sockets\"", NULL)                                         \
	X(trace_limited, "edgeway_lb_traces_limited_total", NULL,                                  \
		"Requests and connections that were not recorded as spans because of "             \
		"tracing.limit.")                                                                  \
	X(access_dropped, "edgeway_lb_access_log_dropped_total", NULL,                             \
		"Lines of the access log that were lost because nobody took them.")                \
	X(bytes_up, "edgeway_lb_bytes_total", "direction=\"upstream\"", "Payload relayed.")        \
	X(bytes_down, "", "direction=\"client\"", NULL)

struct counters {
#define COUNTER_MEMBER(name, metric, labels, help) _Atomic uint64_t name;
	LB_COUNTERS(COUNTER_MEMBER)
#undef COUNTER_MEMBER
	_Atomic uint64_t active; /* open client connections */
	_Atomic uint64_t ejected; /* endpoints ejected now */
};

static inline void
count(_Atomic uint64_t *c, uint64_t n)
{
	uint64_t now = atomic_load_explicit(c, memory_order_relaxed);

	atomic_store_explicit(c, now + n, memory_order_relaxed);
}

/* Head of every object that may end before it can be freed (deferred free). */
struct conn_base {
	struct conn_base *next;
	/* bytes received and not yet used; callers up the stack may be reading them */
	struct buf in;
	bool ended;
};

struct worker {
	struct lb *lb;
	struct loop *loop;
	struct send_ring *ring; /* NULL: sends are made at once */
	struct snapshot *snapshot; /* never NULL */
	struct dial_guard *guard;
	uint64_t epoch; /* of the snapshot: changes with each */
	uint64_t now_ms, rng;
	struct targets *targets;
	uint32_t connect_ms; /* longest time that a dial may take */
	struct node probes, checks; /* of probe.c and health.c, in progress */
	unsigned n_probes;
	struct node mirrors; /* copies of requests: mirror.h */
	unsigned n_mirrors;
	struct node h2_touched; /* HTTP/2 connections with something to write: h2_link.h */
	struct timer *h2_kick; /* writes them, after all events of this turn of the loop */
	struct node h2_woken; /* requests whose dial by another one is over: h2_upstream.h */
	struct node turns; /* groups with a wait queue: wait_queue.c */
	bool turns_due;
	/* an exchange waits here; read by the other workers (wait_queue_freed) */
	_Atomic bool has_waiters;
	_Atomic bool woken; /* another worker has signalled that there may be room */
	struct expiries expiries;
	struct timer *tick;
	struct timer *silence_timer; /* server_first_tick */
	bool tick_soon; /* within EXPIRY_TICK_MS */
	bool stirred; /* what it holds has changed since memory.c last looked at the heap */
	uint64_t sweep_ms; /* of unused groups; UINT64_MAX: there is none */
	struct watch *listen_watch[2]; /* IPv4, IPv6 */
	int listen_fd[2];
	int pipe[2]; /* splice.h; -1: none */
	bool no_splice;
	bool listen_paused; /* out of descriptors */
	uint64_t evict_ms; /* for memory.c */
	bool draining, stopped;
	bool has_successor; /* while draining: another process accepts now */
	uint64_t drain_until_ms;
	unsigned calls_waiting; /* connections whose service is not known yet: listener.c */
	struct node downstreams; /* oldest first */
	/* in downstreams, or their head: memory.c continues behind it */
	struct node *looked_at;
	struct conn_base *dead; /* connections to be freed */
	struct exchange *dead_exchanges, *spare;
	unsigned n_spare;
	enum lb_access_mode access_mode;
	uint32_t access_sample,
		/* one in so many successful requests is logged; how many are still to be skipped */
		access_skip;
	struct tap *tap; /* tap.h; NULL: no tap */
	_Atomic unsigned tap_parcels; /* for tap.c: on their way to loop 0 */
	struct log_queue *lines; /* owned by the lb */
	struct buf access; /* collected log lines */
	unsigned access_lines;
	bool traces; /* some requests are recorded: trace.h */
	struct lb_tracing tracing;
	struct trace_span *spans, **spans_last; /* collected spans */
	unsigned n_spans;
	struct counters counters;
	struct http1_head head;
	struct h2_fields fields;
	struct route_regex_scratch *regex_scratch; /* NULL: no route has been asked yet */
	char target[HTTP1_TARGET_MAX]; /* of a request, rewritten by its route */
	/* why its route refuses it, or where that redirects it; or its session */
	char own_text[HTTP1_TARGET_MAX];
	struct buf h2_out; /* frames on their way to a socket */
	char scratch[SCRATCH_BYTES];
	char emit[EMIT_BYTES];
};

/* States of a client's connection: see proxy.h. */
enum downstream_state {
	DOWNSTREAM_IDLE,
	DOWNSTREAM_HEAD,
	DOWNSTREAM_EXCHANGE,
	DOWNSTREAM_HTTP2,
	DOWNSTREAM_RELAY,
	DOWNSTREAM_LINGER,
};

struct downstream {
	struct conn_base base; /* must be first */
	struct peer peer;
	struct node node; /* in worker->downstreams */
	struct expiry expiry;
	struct worker *worker;
	struct group *group;
	struct exchange *ex; /* NULL between requests, and with HTTP/2 */
	struct h2_client *h2; /* NULL: HTTP/1, or a relay */
	uint32_t scanned; /* how far base.in was searched for the end of the head */
	uint64_t moved_ms; /* when bytes last moved, in either direction */
	uint32_t charged[MEMORY_KINDS]; /* to its client's budget: memory.h */
	/* the client as a number, for shares and hashes: its IPv4 address, or a hash of its IPv6
	 * address */
	uint32_t client_ip;
	struct in6_addr client;
	uint16_t client_port;
	uint16_t slot; /* of the client: base/core/fair_share.h */
	uint8_t state; /* enum downstream_state */
	bool silent; /* in SPAN_SILENCE */
	bool taking; /* downstream_take is on the stack */
	bool not_first; /* a request has been read: no more protocol guessing */
	bool unread; /* the next request waits until the client has read its responses */
	bool own_tls; /* it speaks TLS itself, with the endpoint: nothing is added to that */
};

/* What the access log and taps (tap.h) record of an exchange: access_log.h. */
struct access_log {
	uint64_t begin_us, connected_us, first_us; /* 0: not (yet), or not recorded */
	struct target *endpoint; /* with a reference */
	bool at_other; /* the connection is to its other address */
	uint16_t status;
	char end[3];
};

/* States of an exchange: doc/states/request.dot. */
enum exchange_state {
	EXCHANGE_DIALLING, /* waits for an endpoint, or dials */
	EXCHANGE_CONNECTED, /* the head waits for the first bytes of the body, to go with them */
	EXCHANGE_SENDING, /* the head is on its way */
	EXCHANGE_ANSWERING, /* the final response's head was sent to the client */
	/* a relay that waits for the endpoint's greeting: server_first.h */
	EXCHANGE_GREETING,
	EXCHANGE_RELAYING, /* bytes in both directions, no HTTP (any more); or dials for that */
	EXCHANGE_ENDED,
};

struct exchange;

/* What differs between HTTP/1, HTTP/2 and a relay, for what they have in common. */
struct exchange_kind {
	/* An endpoint can be written to: ex->upstream, or the session of ex->h2. */
	void (*connected)(struct exchange *ex);
	/* No endpoint is left to try. */
	void (*dial_failed)(struct exchange *ex);
	/* Sends a response of our own with a one-line body, and ends the exchange. Not for a
	 * relay. */
	void (*refuse)(struct exchange *ex, int status, const char *line);
};

/* One HTTP request and its response, or one relay. */
struct exchange {
	struct exchange *next; /* in the lists `spare` or `dead_exchanges` */
	const struct exchange_kind *kind;
	struct downstream *downstream;
	/* held; whose endpoints it gets: the client's, or what a route leads to */
	struct group *group;
	struct http_routes *routes; /* with a reference, while `rule` is set */
	const struct http_route_rule *rule; /* of a route that applies to it; NULL: none */
	const struct http_route_match *match; /* of the rule; NULL: none fits */
	const struct http_route_backend *backend; /* of the rule; NULL: none */
	struct expiry *expiry; /* its deadline: the client's, or the stream's */
	struct h2_stream *h2; /* NULL: HTTP/1, or a relay */
	/* NULL: none yet, or none any more. With HTTP/2 those that are being dialled */
	struct upstream_conn *upstream;
	struct http1_exchange http;
	struct buf head; /* the request's head as sent, for another attempt */
	uint64_t body_sent, body_received, sent_us;
	uint64_t key; /* for consistent hashing */
	uint64_t begin_us; /* when the request's head was read */
	struct access_log access;
	struct trace_span *span; /* NULL: not recorded */
	struct mirror *mirrors; /* copies that wait for the rest of the body: mirror.h */
	struct waiter waiter; /* for an endpoint: wait_queue.h */
	uint64_t want_ms; /* since when it wants the endpoint that it waits for or dials */
	struct balance_node *tried[TRIES_MAX];
	uint8_t n_tried, n_stale;
	uint8_t n_past; /* attempts before the endpoints were tried anew: pick_leave() */
	uint8_t n_again; /* attempts that were charged: pick.h */
	uint32_t step[2]; /* down, up: bytes to splice at once; 0: copy */
	uint64_t due_ms; /* in SPAN_OWN: the deadline */
	/* by its route: when the whole request must be over, and this attempt begun to be
	 * answered; 0: no limit, or not known yet */
	uint64_t whole_ms, try_ms;
	uint64_t again_ms; /* when the next attempt may be made; 0: it need not wait */
	uint64_t wait_ms; /* until when its service waits for the answer; 0: not known yet */
	struct session_token session; /* brought by the request, as far as it counts */
	/* of a redirect of our own, while kind->refuse() is called; else NULL */
	const char *location;
	bool own; /* its expiry is in SPAN_OWN */
	uint8_t hops; /* of a relay: how often we had forwarded it before (base/core/hops.h) */
	uint8_t state; /* enum exchange_state; set by exchange_go */
	/* the endpoint takes no more of the body; the rest from the client is read and dropped */
	bool discard;
	bool idempotent, has_body;
	bool timed_out; /* a dial timed out */
	bool full; /* endpoints were skipped because they were at their connection limit */
	bool no_reuse; /* only a new connection may be used */
	bool out_of_resources; /* this node had no descriptor, port or memory for a dial */
	bool over_quota; /* an endpoint was skipped because the client has its share of sessions */
	/* the last attempt failed through the fault of its endpoint, which executed nothing */
	bool free_retry;
	bool over_budget; /* an attempt was refused by the budget, and that is counted */
	bool own_tls; /* of a relay: its client speaks TLS itself */
	char *tls_why; /* why TLS with the endpoint tried last failed; NULL: it did not */
};

/* Bytes in both directions, without HTTP. */
static inline bool
exchange_is_relay(const struct exchange *ex)
{
	return ex->state == EXCHANGE_GREETING || ex->state == EXCHANGE_RELAYING;
}

struct upstream_conn {
	struct conn_base base; /* must be first */
	struct peer peer;
	struct node node; /* in target->idle */
	struct expiry expiry;
	struct worker *worker;
	struct target *target; /* with a reference */
	struct exchange *ex; /* NULL: in the pool, connecting for it, or HTTP/2 */
	struct h2_upstream *h2; /* NULL: HTTP/1, a relay, or not connected yet */
	struct upstream_conn *rival; /* the next older connection that ex dials */
	uint64_t since_ms; /* when the dial began, later the request */
	uint64_t from_ms; /* since when its exchange wanted this endpoint */
	unsigned pool_generation; /* of the target when it was dialled */
	uint64_t reused_at; /* loop_looks() when it was taken from the pool; 0: it is new */
	uint16_t slot; /* while it has a place: of the client that has it */
	bool placed; /* it has a place of its own in lb->connections: h2_upstream.h */
	bool connecting;
	bool filled; /* what was read last filled its buffer: more may wait in the socket */
	bool fresh; /* a dial that may still be answered soon: one of target->n_fresh */
	bool counted; /* in the client's part of the endpoint: target_end */
	bool at_other; /* to the endpoint's other address */
	bool paired; /* both addresses have been dialled */
	bool uncounted; /* the connection to the other address holds the in-flight count */
	bool for_h2; /* HTTP/2 will be spoken */
	bool own_tls; /* its client speaks TLS itself: what it sends is passed as it is */
	bool hedged; /* its exchange dials another endpoint as well */
	bool silent; /* known not to acknowledge its request */
	bool acked; /* the endpoint acknowledged the request a while ago */
	bool kept_alive; /* TCP keepalive detects when the endpoint vanishes */
};

struct lb {
	struct lb_config config;
	struct shares shares;
	struct affinity *affinity;
	uint64_t client_seed; /* for the clients' slots */
	struct fair_share *connections, *memory[MEMORY_KINDS]; /* among clients */
	struct fair_share *pods; /* calls that wait for the hub's word on a pod: listener.c */
	struct heap_peak heap; /* for memory.c */
	_Atomic uint64_t trimmed_ms;
	struct tallies *tallies;
	struct snapshot *snapshot; /* the workers' snapshot, as loop 0 knows it; NULL: none yet */
	struct worker **workers;
	struct log_queue *lines; /* of the access log; NULL: it was never on */
	struct taps *taps; /* for tap.c; NULL: there was no tap yet */
	_Atomic uint64_t trace_second, traced; /* number of requests recorded in that second */
	_Atomic unsigned spans_waiting; /* on their way to loop 0 */
	/* lb_canary's client, and 16 bits each for its port and the previous one */
	_Atomic uint64_t canary;
	_Atomic uint64_t canary_number;
	uint32_t address; /* listened on; 0: none */
	uint16_t port; /* the port listened on */
	char moved[400]; /* why that is not config.port; "" if it is */
	struct in6_addr address6; /* the same of IPv6 */
	int *sockets[2]; /* IPv4, IPv6: of the workers, which own them; set only while it listens */
	loop_fn *on_worker_gone; /* posted to loop 0 by each worker, with itself */
	loop_fn *on_stopped;
	void *stopped_arg;
	size_t n_running;
};

/* --- worker.c ------------------------------------------------------------------------------- */

struct worker *worker_new(struct lb *lb, struct loop *loop, size_t index);
void worker_start(void *worker); /* the first call on its loop */
void worker_enter(struct worker *w); /* the first call in every callback of the loop */
/* Frees what has ended: where no caller up the stack looks at any of it. */
void worker_reap(struct worker *w);
uint64_t worker_random(struct worker *w);
/* As sock_connect_hops, to an address that this node reaches itself; -EPERM: refused
 * (model/dial_guard.h), counted and logged. All dials of this folder use it. */
int worker_dial(struct worker *w, const struct addr *to, const struct service *s, unsigned hops,
	bool speaks, int *fd);
/* Begins a connection to t, or its other address, for the exchange (NULL: for no particular one),
 * as sock_connect. */
int worker_connect(
	struct worker *w, const struct target *t, bool other, const struct exchange *ex, int *fd);
/* The client's traffic is in a forwarding loop: counts and logs that; the caller ends it. */
void worker_tell_loop(const struct downstream *f);
/* Result of an event on a connection being made: 0 established, -EAGAIN not yet, else -errno. */
int worker_connected(const struct target *t, int fd);
void worker_free_later(struct worker *w, struct conn_base *g);
/* Call last in a callback: serves the wait queues, and ends the worker when it drains and nothing
 * is left. */
void worker_leave(struct worker *w);
enum lb_policy worker_policy(const struct worker *w, const struct group *g);

#endif
