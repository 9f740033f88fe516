/*
 * TLS towards endpoints (model/backend_tls.h): the handshake after a connection was made. Nothing
 * is sent to an endpoint before it has proved to be one of those that the policy means.
 *
 *	rc = upstream_tls_shake(w, &b->peer, &how, why);	// at once, and on each event
 *	if (rc == 0)
 *		...	// the peer can be read and written
 */
#ifndef EDGEWAY_LB_PROXY_UPSTREAM_TLS_H
#define EDGEWAY_LB_PROXY_UPSTREAM_TLS_H

#include "lb/proxy/worker.h"

enum { UPSTREAM_TLS_WHY = 256 };

enum upstream_protocol { UPSTREAM_ANY, UPSTREAM_HTTP1, UPSTREAM_HTTP2 };

struct upstream_tls {
	struct backend_tls *tls;
	struct ssl_session_st **session; /* outlives the connection; NULL: none is resumed */
	enum upstream_protocol
		protocol; /* offered by ALPN; to HTTP/2 the server may prefer HTTP/1 */
	watch_fn *fn; /* of the peer */
	void *arg;
};

/* 0: the handshake is over; -EAGAIN; -EPROTO: it has failed, `why` says why. */
int upstream_tls_shake(struct worker *w, struct peer *p, const struct upstream_tls *how,
	char why[UPSTREAM_TLS_WHY]);
/* Keeps the reason in t->tls_why, and logs it. */
void upstream_tls_report(struct target *t, const char *why);
/* worker_connected() for a peer, and then the handshake if the target wants TLS. After -EPROTO
 * the reason is reported. */
int upstream_tls_connected(
	struct worker *w, struct target *t, struct peer *p, const struct upstream_tls *how);

#endif
