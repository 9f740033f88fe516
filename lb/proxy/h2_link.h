/*
 * The socket of an HTTP/2 connection with its codec (base/http/h2.h), of a client or an endpoint.
 * Whoever has given the codec something to send says h2_link_touch; all connections that were
 * touched are written once, after all events of this turn of the loop, so that what comes from
 * several clients for one endpoint goes out together. On the worker's loop.
 */
#ifndef EDGEWAY_LB_PROXY_H2_LINK_H
#define EDGEWAY_LB_PROXY_H2_LINK_H

#include "lb/proxy/worker.h"

struct h2_link {
	struct node touched; /* in worker->h2_touched */
	struct worker *worker;
	struct peer *peer;
	struct h2 *h2;
	/* What can be written now is written. `over`: nothing else will be; the owner may free
	 * it. */
	void (*flushed)(struct h2_link *l, bool over);
};

void h2_link_open(struct h2_link *l, struct worker *w, struct peer *peer,
	const struct h2_setup *setup, void (*flushed)(struct h2_link *, bool));
void h2_link_close(struct h2_link *l);
void h2_link_touch(struct h2_link *l);
/* Reads what has come. Returns 0; or -errno, 0 at EOF as -ECONNRESET: nothing else comes. */
int h2_link_read(struct h2_link *l, unsigned events);
/* Bytes that were read before. */
int h2_link_input(struct h2_link *l, const char *bytes, size_t n);
/* Its socket takes bytes again. Returns -errno if the connection is broken. */
int h2_link_writable(struct h2_link *l);
void h2_links_flush(void *worker);

#endif
