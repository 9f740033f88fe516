/*
 * The node's load balancer: accepts what nftables redirects to the mesh address, finds service and
 * port by the original destination, and proxies HTTP/1.x per request or relays TCP. This is the
 * public interface of lb/, called on loop 0 (config.main). Each worker loop owns a listener
 * (SO_REUSEPORT), its connections, its pool of upstream connections and its view of the endpoints'
 * load.
 */
#ifndef EDGEWAY_LB_LB_H
#define EDGEWAY_LB_LB_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "model/dial_guard.h"
#include "model/fake6.h"
#include "model/pod_ask.h"
#include "model/snapshot.h"
#include "model/span.h"

struct lb;

enum lb_access_mode { ACCESS_OFF, ACCESS_ERRORS, ACCESS_ALL };

/* Which requests are recorded as spans: those whose traceparent says so, and `below` in 2^32 of the
 * others; no more than per_s a second. */
struct lb_tracing {
	uint64_t below;
	uint32_t per_s;
};

struct lb_forward { /* a connection to an endpoint VIA_TUNNEL */
	const struct service *service; /* the service that names the endpoint; NULL: any may */
	struct in6_addr ip;
	uint16_t port;
	/* base/core/hops.h; 0: a connection for successive requests, which carry their own hop
	 * count */
	unsigned hops;
};

struct lb_config { /* copied */
	struct loop *main;
	struct loop *const *workers;
	size_t n_workers;
	/* One for each worker, borrowed until lb_stop has ended; NULL: each send is a call. */
	struct send_ring *const *rings;
	uint16_t port; /* listenPort: the port to try first */
	enum lb_policy policy; /* for services that name none */
	/* range of fake IPs, host byte order: other original destinations are refused (loops) */
	struct fake6 subnet6; /* of the IPv6 fake addresses */
	uint32_t subnet, mask;
	size_t metric_services; /* number of services that have metrics of their own */
	/* adds our name to Via (RFC 9110 section 7.6.3); many servers do not compress then */
	bool via;
	uint32_t mark; /* SO_MARK of upstream connections */
	const struct dial_guard
		*guard; /* asked at each dial; referenced. NULL: only the static rules */
	/* Most bytes held for clients, in our buffers and in the kernel's socket buffers; 0:
	 * derived from the control group's limit or the machine's memory (memory.h). */
	uint64_t memory_bytes, socket_bytes;
	/* Opens a connection to an endpoint VIA_TUNNEL: returns 0 and *fd, or -errno. On *fd one
	 * byte arrives when the connection is made; if it fails, the other end closes *fd. Called
	 * on a worker's thread. NULL: there is no tunnel. */
	int (*forward)(void *arg, const struct lb_forward *to, int *fd);
	void *forward_arg;
	/* Asked for pods by their own address, and for ports of theirs, that the snapshot lacks; on
	 * a worker's thread. NULL: nobody. */
	pod_ask_fn *ask_pod;
	void *ask_pod_arg;
	/* On loop 0: finished spans, a list that the callee owns (may be NULL), and how many were
	 * dropped before. NULL: no request is recorded, whatever lb_trace says. */
	void (*take_spans)(void *arg, struct trace_span *spans, unsigned dropped);
	void *spans_arg;
	uint32_t connect_ms, head_ms, answer_ms, idle_ms, upstream_idle_ms,
		tunnel_idle_ms; /* 0: the defaults in worker.c */
};

int lb_open(struct lb **lb, const struct lb_config *config, struct err *err);
void lb_use(struct lb *lb, const struct snapshot *snapshot); /* takes a reference of its own */
/* Uses another guard at each dial from now on: this machine's addresses have changed. */
void lb_guard(struct lb *lb, const struct dial_guard *guard);
/* Listens on address:port on every worker; call it again when the address changes (open connections
 * stay); 0: stop listening. If another process has the port, a free port is used, which the log and
 * lb_state report. */
int lb_listen(struct lb *lb, uint32_t address, struct err *err);
/* Listens on an IPv6 address as well, at the same port; the address need not exist yet. ::: stop.
 * Only while lb_listen's address is listened on. */
int lb_listen6(struct lb *lb, const struct in6_addr *address, struct err *err);
bool lb_listening(const struct lb *lb);
/* The port that it listens on. */
uint16_t lb_port(const struct lb *lb);
/* The workers' listening sockets of a family, to hand them to a successor; the lb keeps owning
 * them. Returns how many: all, or 0 while it does not listen. */
size_t lb_sockets(const struct lb *lb, bool six, int *fds);
/* The access log, on stderr: off at first. With ACCESS_ALL each worker writes one of `sample` (at
 * least 1) successful requests. Does nothing if lb is NULL, as it is after lb_stop. Fails if the
 * first log finds no thread to write it. */
int lb_access_log(struct lb *lb, enum lb_access_mode mode, uint32_t sample, struct err *err);
/* Live view of requests and relayed connections (lb/proxy/tap.h): returns what happened since the
 * last call, as a JSON object. The tap lasts while calls follow each other within a few seconds. */
struct lb_tap_ask {
	const char *id; /* chosen by the caller, the same in each call */
	const char *service; /* "namespace/name"; "": all */
	uint16_t client_port; /* of the client's connection; 0: all */
	uint64_t after; /* `next` of the previous result; 0: from the beginning */
	bool last; /* the tap ends with this call */
};
/* 0; -EBUSY: too many taps exist already; -EINVAL: a text is too long; -ENOENT: lb is NULL. */
int lb_tap(struct lb *lb, const struct lb_tap_ask *ask, struct buf *out);
/* Off at first. lb NULL: does nothing. */
void lb_trace(struct lb *lb, const struct lb_tracing *tracing);
void lb_metrics(struct lb *lb, struct metrics *m); /* lb NULL: does nothing */
/* State of an endpoint: by requests, and by active checks (LB_ILL). */
enum lb_health { LB_UNUSED /* no worker used it within a minute */, LB_UP, LB_ILL, LB_EJECTED };
const char *lb_health_name(enum lb_health health); /* "unused", "up", ... */
struct lb_seen {
	struct in6_addr ip; /* as in struct endpoint */
	uint16_t port;
	uint8_t health; /* enum lb_health */
	bool at_other; /* a worker dials its other address */
};
struct lb_question {
	const char *ns, *name; /* of the service */
};
/* By address and port, for qsort and bsearch of struct lb_seen. */
int lb_seen_order(const void *a, const void *b);
/* Gets an lb_seen for each endpoint of the service that a worker uses, in lb_seen_order, with the
 * worst state that any worker reports; `seen` is valid during the call. */
typedef void lb_asked_fn(void *arg, const struct lb_seen *seen, size_t n);
struct lb_asking;
/* Asks the workers without blocking: `asked` is called once, later, on loop 0. A worker that does
 * not reply within a second is left out. `asked` is also called if the lb is stopped meanwhile.
 * Returns NULL if there is no lb. */
struct lb_asking *lb_ask(
	struct lb *lb, const struct lb_question *question, lb_asked_fn *asked, void *arg);
/* Cancels: `asked` is not called any more. */
void lb_unask(struct lb_asking **asking);
/* From now on the listener itself responds to a connection to a service from this address and port
 * (host byte order): with the number in hexadecimal and a line feed, then it closes. So the
 * self-check from the pods' side loads no endpoint. 0: none. lb NULL: does nothing. */
void lb_canary(struct lb *lb, uint32_t client, uint16_t port, uint64_t number);
/* JSON object; null if lb is NULL. lists: also the state of services and endpoints in use, for
 * which it waits briefly for each worker. */
void lb_state(struct lb *lb, struct buf *out, bool lists);
/* How many endpoints are ejected now, or fail their health check; each is counted once by every
 * worker that knows it. lb NULL: 0. */
uint64_t lb_down(struct lb *lb);
/* Existing connections to the endpoint (as in struct endpoint) are not kept idle any more; new ones
 * are. doubted: the route of those connections may be lost as well, so treat them as in
 * lb_reroute. */
void lb_let_go(struct lb *lb, const struct in6_addr *ip, uint16_t port, bool doubted);
/* `forward` uses another route now, and the endpoints may never respond over the former one:
 * requests to such endpoints whose responses have not begun are sent again, if they may be sent
 * twice. */
void lb_reroute(struct lb *lb);
/* Stops accepting, finishes what is in progress within drain_ms, then frees *lb and calls
 * on_stopped on loop 0. */
void lb_stop(struct lb **lb, uint64_t drain_ms, loop_fn *on_stopped, void *arg);
/* The same when a successor has the sockets: pending connections in them are left to it. A client
 * that is silent between two requests is not disconnected; its next response tells it to
 * reconnect. */
void lb_hand_over(struct lb **lb, uint64_t drain_ms, loop_fn *on_stopped, void *arg);

#endif
