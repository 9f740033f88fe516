/*
 * The hub's ingress: listeners for callers that want to reach the edge, and the callers'
 * connections. Requests go through hub/routing/connector.c; tunnel/h2/relay carries the bytes. On
 * the hub's loop.
 *
 *	DOOR_HTTP      CONNECT, absolute form, Host: NODE[:PORT], Yurt's X-Tunnel-Proxy-Host and -Dest
 *	DOOR_EGRESS    kube-apiserver's HTTPConnect: CONNECT alone, and no byte in the same read as the 200
 *	DOOR_FIXED     every connection goes to one target
 *	DOOR_SNI       the node's name stands in the ClientHello, and the node's TLS goes through as it is; with a
 *	               certificate of our own TLS ends here, and the rest goes on with TLS of ours (`onward`)
 *	DOOR_REDIRECT  the kernel has redirected the connection here (hub/ingress/redirect.c has the listener); conntrack has its target
 *
 *	rc = ingress_listen(ingress, &(struct door){.kind = DOOR_HTTP, .listen = addr, .name = "ingress.http"}, &err);
 */
#ifndef EDGEWAY_HUB_INGRESS_INGRESS_H
#define EDGEWAY_HUB_INGRESS_INGRESS_H

#include "base/core/metric.h"
#include "base/http/http1.h"
#include "hub/routing/connector.h"
#include "model/span.h"

enum { INGRESS_VISITS_MAX = 20000 };

enum door_kind { DOOR_HTTP, DOOR_EGRESS, DOOR_FIXED, DOOR_SNI, DOOR_REDIRECT };

struct preauth;
struct tls_workers;
struct session_workers;
struct ssl_ctx_st;

struct door {
	enum door_kind kind;
	struct addr listen;
	const char *name; /* configuration key, for messages */
	const char *host; /* DOOR_FIXED; copied */
	enum routes_names names; /* what that, or an SNI, may be */
	uint16_t port;
	/* not DOOR_HTTP: IP:port as the node sees it, replaces port; NULL: none; copied */
	const char *dest;
	struct ssl_ctx_st *tls; /* for callers; NULL: plain. These two are taken, also on failure */
	struct ssl_ctx_st *onward; /* for targets; NULL: bytes are forwarded as they are */
	bool proven; /* callers must present a certificate, and are then admitted */
	bool onward_proven; /* the same for targets, by the node's name */
};

struct ingress;

struct ingress_config {
	struct loop *loop;
	struct connector *reach; /* these three outlive it */
	const struct grants *grants;
	struct self_guard *guard;
	/* limits callers that no rule has admitted yet; outlives it; NULL: no limit */
	struct preauth *preauth;
	/* do the TLS of callers and targets; outlive it; NULL: `loop` does */
	struct tls_workers *workers;
	/* have the tunnels' sessions; outlive it; NULL: `loop` has them */
	struct session_workers *sessions;
	struct span_source *spans; /* for client connections; NULL: none */
	/* True if the hub is known by this Host, in addition to addresses and localhost. NULL: by
	 * no name. */
	bool (*known_as)(void *arg, struct http1_str host);
	void *arg;
};

struct ingress *ingress_new(const struct ingress_config *config);
/* Ends all client connections. */
void ingress_free(struct ingress **i);
/* Its contexts are taken, also on failure. */
int ingress_listen(struct ingress *i, const struct door *door, struct err *err);
struct ingress_led {
	int fd; /* taken, unless false is returned */
	const struct caller *caller;
	const char *host;
	uint16_t port;
};
/* A caller that came by another module's listener (DOOR_REDIRECT). The door must outlive the
 * ingress. False: refused. */
bool ingress_lead(struct ingress *i, const struct door *door, const struct ingress_led *led);
/* Replaces the contexts of the nth listener of this name; the new ones are taken; existing
 * connections keep theirs. */
void ingress_renew(struct ingress *i, const char *name, unsigned nth, struct ssl_ctx_st *tls,
	struct ssl_ctx_st *onward);
/* Cuts connections that the present rules would not admit; returns how many. */
unsigned ingress_recheck(struct ingress *i);
/* Exports the spans of open connections as they are. */
void ingress_end_spans(struct ingress *i);
/* While held, callers wait in the kernel's queue, at present and future listeners. */
void ingress_hold(struct ingress *i, bool held);
/* Closes connections that wait for another request; returns how many still wait for their first
 * target. */
unsigned ingress_settle(struct ingress *i);
/* No new callers; existing connections go on. */
void ingress_drain(struct ingress *i);
/* Number of requests so far, and of those not answered with a stream. */
void ingress_count(const struct ingress *i, uint64_t *requests, uint64_t *refused);
void ingress_metrics(const struct ingress *i, struct metrics *m);
/* [{"door","caller","target","age_ms",...}] of the connections that carry bytes. */
void ingress_state(const struct ingress *i, struct buf *out);

#endif
