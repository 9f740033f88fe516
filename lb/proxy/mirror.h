/*
 * Copies of requests, for the mirrors of a rule of an HTTPRoute: each goes to an endpoint of the
 * mirror's Service by a connection of its own, and its answer is read and dropped. The original
 * never waits for one, and learns nothing of it; nor does the endpoint's health.
 *
 * A copy goes by the version of HTTP of its original once that is whole: what has no body, or one
 * of up to MIRROR_BODY_MAX; no trailers, and no requests for another protocol. A worker has at most
 * MIRRORS_MAX of them, each for at most MIRROR_MS; what goes beyond that is not copied
 * (mirrors_dropped). Who may not call the mirror's Service is not copied to it. On the worker's
 * loop.
 *
 *	mirror_begin(ex, head);		// ex->head is written, and an endpoint will be looked for
 *	mirror_body(ex, data, n);	// payload of its body
 *	mirror_done(ex);		// it is whole
 *	mirror_drop(ex);		// it ends: what is not whole is forgotten
 */
#ifndef EDGEWAY_LB_PROXY_MIRROR_H
#define EDGEWAY_LB_PROXY_MIRROR_H

#include "lb/proxy/worker.h"

enum {
	MIRRORS_MAX = 64,
	MIRROR_BODY_MAX = 16 * 1024,
	MIRROR_ANSWER_MAX = 1024 * 1024,
	MIRROR_MS = 10000,
};

void mirror_begin(struct exchange *ex, const struct http1_head *h);
void mirror_body(struct exchange *ex, const char *data, size_t n);
/* The same of bytes as an HTTP/1 client frames them, before ex->http.up has read them; what follows
 * the body is left out. */
void mirror_body_http1(struct exchange *ex, const char *data, size_t n);
void mirror_done(struct exchange *ex);
void mirror_drop(struct exchange *ex);
/* Before the worker ends. */
void mirror_stop(struct worker *w);

#endif
