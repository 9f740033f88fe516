/*
 * A client's connection that has opened with HTTP/2's preface (RFC 9113 section 3.4): its streams
 * are requests of their own (h2_stream.h), each balanced by itself. On the worker's loop.
 *
 * An idle connection ends as with HTTP/1, after SPAN_IDLE, with GOAWAY. When the worker drains, the
 * client is told first (GOAWAY with the highest id), then, DRAIN_MS later, from which stream on
 * nothing is served; the connection ends when the streams before that have ended.
 */
#ifndef EDGEWAY_LB_PROXY_H2_CLIENT_H
#define EDGEWAY_LB_PROXY_H2_CLIENT_H

#include "lb/proxy/h2_link.h"

struct h2_client {
	struct h2_link link;
	struct downstream *downstream;
	struct node streams;
	unsigned n_streams;
	bool draining; /* GOAWAY was announced */
	bool rested; /* it was idle for a while, and has given memory back */
	bool leaving; /* GOAWAY was sent, or has come: it ends with its streams */
};

/* The preface is among the client's first bytes, which h2_client_on_input takes from f->base.in. */
void h2_client_open(struct downstream *f);
void h2_client_on_input(struct downstream *f);
void h2_client_on_event(struct downstream *f, unsigned events);
void h2_client_on_time(struct downstream *f);
void h2_client_drain(struct downstream *f);
/* Ends its streams; downstream_close calls it. */
void h2_client_free(struct downstream *f);
/* A stream has come or gone. */
void h2_client_count(struct h2_client *c, int by);
/* Bytes held for its streams. */
size_t h2_client_held(const struct downstream *f);
/* Ends the streams for which `denied` gives a reason. */
void h2_client_recheck(struct downstream *f, bool (*denied)(struct h2_stream *st, char *reason));

#endif
