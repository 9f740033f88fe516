/*
 * The node's load balancer: takes what nftables sends to the mesh address, finds service and port
 * by the original destination, and proxies HTTP/1.x per request or relays TCP. The folder's door;
 * called on loop 0 (config.main). Each worker loop owns a listener (SO_REUSEPORT), its connections,
 * its pool of upstream connections and its view of the endpoints' load.
 */
#ifndef EDGEWAY_LB_LB_H
#define EDGEWAY_LB_LB_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "model/dial_guard.h"
#include "model/snapshot.h"
#include "model/span.h"

struct lb;

enum lb_access_mode { ACCESS_OFF, ACCESS_ERRORS, ACCESS_ALL };

/* Which requests are recorded as spans: those whose traceparent says so, of others `below` in 2^32,
 * and no more than per_s a second. */
struct lb_tracing {
	uint64_t below;
	uint32_t per_s;
};

struct lb_forward { /* a connection to an endpoint VIA_TUNNEL */
	const struct service *service; /* that names the endpoint; NULL: any may */
	struct in6_addr ip;
	uint16_t port;
	unsigned hops; /* base/core/hops.h; 0: it has requests by turns, which count themselves */
};

struct lb_config { /* copied */
	struct loop *main;
	struct loop *const *workers;
	size_t n_workers;
	uint16_t port; /* listenPort: the first choice */
	enum lb_policy policy; /* of services that name none */
	uint32_t subnet, mask; /* fake range, host byte order: other original destinations are
				  refused (loops) */
	size_t metric_services; /* that have metrics of their own */
	/* we name ourselves in Via (RFC 9110 section 7.6.3); many servers compress nothing then */
	bool via;
	uint32_t mark; /* SO_MARK of upstream connections */
	const struct dial_guard
		*guard; /* asked at each dial; referenced. NULL: static rules alone */
	/* Most that is held for clients, in buffers and by the kernel in their sockets; 0: by the
	 * control group's limit or the machine's memory (memory.h). */
	uint64_t memory_bytes, socket_bytes;
	/* A connection to an endpoint VIA_TUNNEL: 0 and *fd, on which one byte comes when it is
	 * made, or that is closed; or -errno. On a worker's thread. NULL: there is no such way. */
	int (*forward)(void *arg, const struct lb_forward *to, int *fd);
	void *forward_arg;
	/* On loop 0: spans that are over, a list of the callee's (perhaps NULL), and how many were
	 * dropped before. NULL: no request is recorded, whatever lb_trace says. */
	void (*take_spans)(void *arg, struct trace_span *spans, unsigned dropped);
	void *spans_arg;
	uint32_t connect_ms, head_ms, answer_ms, idle_ms, upstream_idle_ms,
		tunnel_idle_ms; /* 0: the defaults of CHECKLISTS section 1 */
};

int lb_open(struct lb **lb, const struct lb_config *config, struct err *err);
void lb_use(struct lb *lb, const struct snapshot *snapshot); /* takes a reference of its own */
/* Another guard at each dial from now on: this machine's addresses are others. */
void lb_guard(struct lb *lb, const struct dial_guard *guard);
/* Listens on address:port on every worker; again when the address changes (open connections stay);
 * 0: stop listening. Where another process has the port: on one that is free, which the log and
 * lb_state tell. */
int lb_listen(struct lb *lb, uint32_t address, struct err *err);
bool lb_listening(const struct lb *lb);
/* Where it listens. */
uint16_t lb_port(const struct lb *lb);
/* The workers' listening sockets, to hand them to a successor; they stay the lb's. How many: all
 * or, while it does not listen, 0. */
size_t lb_sockets(const struct lb *lb, int *fds);
/* A predecessor's: lb_listen uses them when they are bound to its address, else closes them. Taken;
 * n is n_workers. */
void lb_adopt(struct lb *lb, const int *fds, size_t n);
/* The access log, on stderr: off in the beginning. Of those that went well ACCESS_ALL writes one in
 * `sample` (at least 1), on each worker. lb NULL, as from lb_stop on: nothing. */
void lb_access_log(struct lb *lb, enum lb_access_mode mode, uint32_t sample);
/* Requests and relayed connections as they go (lb/tap.h): what came since, as a JSON object. The
 * look lasts while it is asked for again, at least every few seconds. */
struct lb_tap_ask {
	const char *id; /* of the asker's own choice, the same each time */
	const char *service; /* "namespace/name"; "": all */
	uint16_t client_port; /* of the client's connection; 0: all */
	uint64_t after; /* `next` of the answer before; 0: from the beginning */
	bool last; /* the look ends with this answer */
};
/* 0; -EBUSY: others look on already; -EINVAL: texts that are too long; -ENOENT: lb is NULL. */
int lb_tap(struct lb *lb, const struct lb_tap_ask *ask, struct buf *out);
/* Off in the beginning. lb NULL: nothing. */
void lb_trace(struct lb *lb, const struct lb_tracing *tracing);
void lb_metrics(struct lb *lb, struct metrics *m); /* lb NULL: nothing */
/* How an endpoint does: by requests, and by active checks (LB_ILL). */
enum lb_health { LB_UNUSED /* nobody asked for it within a minute */, LB_UP, LB_ILL, LB_EJECTED };
const char *lb_health_name(enum lb_health health); /* "unused", "up", ... */
struct lb_seen {
	struct in6_addr ip; /* as in struct endpoint */
	uint16_t port;
	uint8_t health; /* enum lb_health */
};
struct lb_question {
	const char *ns, *name; /* of the service */
};
/* By address and port, for qsort and bsearch of struct lb_seen. */
int lb_seen_order(const void *a, const void *b);
/* An lb_seen for each endpoint of the service that a worker uses, in lb_seen_order, the worst that
 * one of them says; `seen` is good for the call. */
typedef void lb_asked_fn(void *arg, const struct lb_seen *seen, size_t n);
struct lb_asking;
/* Asks the workers, and holds up nobody: `asked` comes on loop 0, once, from the loop; a worker
 * that does not answer within a second is left out. Also when the lb is stopped meanwhile. NULL:
 * there is no lb. */
struct lb_asking *lb_ask(
	struct lb *lb, const struct lb_question *question, lb_asked_fn *asked, void *arg);
/* `asked` does not come any more. */
void lb_unask(struct lb_asking **asking);
/* From now on a connection from this address and port (host byte order) to a service is answered by
 * the listener itself, with the number in hexadecimal and a line feed, and closed: who tries the
 * mesh from the pods' side shall burden nobody. 0: nobody's. lb NULL: nothing. */
void lb_canary(struct lb *lb, uint32_t client, uint16_t port, uint64_t number);
/* JSON object. lb NULL: null. lists: also how services and endpoints in use do, for which each
 * worker is waited for a little. */
void lb_state(struct lb *lb, struct buf *out, bool lists);
/* How many endpoints are left out now, or fail their health check, each counted by every worker
 * that knows it. lb NULL: 0. */
uint64_t lb_down(struct lb *lb);
/* Connections to the endpoint (as in struct endpoint) are not kept idle any more, but for those
 * that are made from now on. doubted: and the way that they went by may be lost: as lb_reroute. */
void lb_let_go(struct lb *lb, const struct in6_addr *ip, uint16_t port, bool doubted);
/* `forward` goes by another way now, and what the former one carried may never be answered:
 * requests to endpoints there whose answers have not begun are sent again, where they may be sent
 * twice. */
void lb_reroute(struct lb *lb);
/* Stops accepting, finishes what is in progress for at most drain_ms, then on_stopped on loop 0 and
 * *lb is gone. */
void lb_stop(struct lb **lb, uint64_t drain_ms, loop_fn *on_stopped, void *arg);
/* The same when a successor has the sockets: what waits in them is left to it, and a client that is
 * silent between two requests is not hung up on, but asked to come anew by its next answer. */
void lb_hand_over(struct lb **lb, uint64_t drain_ms, loop_fn *on_stopped, void *arg);

#endif
