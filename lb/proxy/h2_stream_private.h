/*
 * The two parts of a stream's way: h2_stream.c has its life and what passes, h2_attempt.c which
 * endpoint is asked next when one was lost, refused or has answered with an error.
 */
#ifndef EDGEWAY_LB_PROXY_H2_STREAM_PRIVATE_H
#define EDGEWAY_LB_PROXY_H2_STREAM_PRIVATE_H

#include "lb/proxy/h2_client.h"
#include "lb/proxy/h2_stream.h"

#define STREAM_HTTP1 "the endpoint speaks HTTP/1 alone, and the request is HTTP/2"

static inline struct worker *
stream_worker(const struct h2_stream *st)
{
	return st->client->link.worker;
}

/* There was progress: restarts its time. */
void h2_stream_touch(struct h2_stream *st);
/* The exchange is over; the stream may still have bytes for the client. */
void h2_stream_end(struct h2_stream *st, uint32_t code);
/* What the endpoint has answered is no answer. */
void h2_stream_bad_answer(struct h2_stream *st, const char *why);
void h2_stream_dial_failed(struct exchange *ex);

/* Its time is over; another attempt may have more. As exchange_try_again(). */
bool h2_stream_try_again(struct h2_stream *st);
/* As exchange_may_ask_another(). */
bool h2_stream_may_ask_another(struct h2_stream *st, unsigned status);
void h2_stream_ask_another(struct h2_stream *st);
/* At once: the wait of a route's retry.backoff is over. */
void h2_stream_ask_now(struct h2_stream *st);

#endif
