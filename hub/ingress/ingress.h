/*
 * The ways into the hub for those who want to reach the edge: listeners, and the callers that come
 * in by them. What they ask for goes through hub/routing/connector.c; bytes are carried by
 * tunnel/h2/relay. On the hub's loop.
 *
 *	DOOR_HTTP      CONNECT, absolute form, Host: NODE[:PORT], Yurt's X-Tunnel-Proxy-Host and -Dest
 *	DOOR_EGRESS    kube-apiserver's HTTPConnect: CONNECT alone, and no byte in the same read as the 200
 *	DOOR_FIXED     every connection goes to one target
 *	DOOR_SNI       the node's name stands in the ClientHello, and the node's TLS goes through as it is; with a
 *	               certificate of our own TLS ends here, and the rest goes on with TLS of ours (`onward`)
 *	DOOR_REDIRECT  the kernel has led the connection here (hub/ingress/redirect.c, which has the listener) and says where to
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
struct ssl_ctx_st;

struct door {
	enum door_kind kind;
	struct addr listen;
	const char *name; /* key of the configuration, for messages */
	const char *host; /* DOOR_FIXED; copied */
	uint16_t port;
	/* not DOOR_HTTP: IP:port as the node sees it, in place of port; NULL none; copied */
	const char *dest;
	struct ssl_ctx_st *tls; /* of callers; NULL: plain. These two are taken, also on failure */
	struct ssl_ctx_st *onward; /* to targets; NULL: what comes goes on as it is */
	bool proven; /* callers must have a certificate, and may then come in */
	bool onward_proven; /* the same of targets, by the node's name */
};

struct ingress;

struct ingress_config {
	struct loop *loop;
	struct connector *reach; /* outlives it, as do access and quota */
	const struct acl *access;
	struct self_guard *guard; /* outlives it */
	struct quota *quota;
	/* places of callers that no rule has let in yet; outlives it; NULL: any number */
	struct preauth *preauth;
	struct span_source *spans; /* of visits; NULL: none */
	/* Is the hub known by this Host, besides addresses and localhost? NULL: by none. */
	bool (*known_as)(void *arg, struct http1_str host);
	void *arg;
};

struct ingress *ingress_new(const struct ingress_config *config);
/* Ends all visits. */
void ingress_free(struct ingress **i);
/* Its contexts are taken, also on failure. */
int ingress_listen(struct ingress *i, const struct door *door, struct err *err);
struct ingress_led {
	int fd; /* taken, unless false is returned */
	const struct caller *caller;
	const char *host;
	uint16_t port;
};
/* A caller that came by another's listener (DOOR_REDIRECT). The door must outlive the ingress.
 * False: turned away. */
bool ingress_lead(struct ingress *i, const struct door *door, const struct ingress_led *led);
/* The nth listener of this name gets other contexts, which are taken; connections that are there
 * keep theirs. */
void ingress_renew(struct ingress *i, const char *name, unsigned nth, struct ssl_ctx_st *tls,
	struct ssl_ctx_st *onward);
/* Cuts what the rules, as they are now, would not open. How many visits. */
unsigned ingress_recheck(struct ingress *i);
/* Spans of visits that go on are handed over as they are. */
void ingress_end_spans(struct ingress *i);
/* Who comes waits in the kernel's queue, at the listeners that there are and those to come, until
 * it is not held any more. */
void ingress_hold(struct ingress *i, bool held);
/* Ends connections that wait for another request, and tells how many wait for their first
 * target. */
unsigned ingress_settle(struct ingress *i);
/* No new callers; those that are there go on. */
void ingress_drain(struct ingress *i);
/* What was asked for until now, and what of it was not answered with a stream. */
void ingress_count(const struct ingress *i, uint64_t *requests, uint64_t *refused);
void ingress_metrics(const struct ingress *i, struct metrics *m);
/* [{"door","caller","target","age_ms",...}] of the visits that carry bytes. */
void ingress_state(const struct ingress *i, struct buf *out);

#endif
