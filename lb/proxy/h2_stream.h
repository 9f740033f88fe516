/*
 * One request of HTTP/2 and its response: a stream of the client's connection and, once an endpoint
 * is found, one of the endpoint's. Its exchange is that of HTTP/1 (states in
 * doc/states/request.dot); here is only what differs.
 *
 * Bytes of a body wait here until the other connection takes them; only then does the sender's
 * window open again, so a slow reader holds back its own stream alone. The beginning of a request's
 * body is kept (STREAM_KEPT) until the response begins, so that a request that the endpoint has not
 * processed (REFUSED_STREAM, GOAWAY: RFC 9113 section 8.7) can be sent again.
 *
 * The object ends with the client's stream. Everything on the worker's loop; the functions below
 * are called by the codecs' events and never free a connection.
 */
#ifndef EDGEWAY_LB_PROXY_H2_STREAM_H
#define EDGEWAY_LB_PROXY_H2_STREAM_H

#include "lb/proxy/worker.h"

enum { STREAM_KEPT = 16 * 1024 };

struct h2_client;
struct h2_upstream;

/* How far the sender of a body may be ahead. When the client's share of memory is small, what is
 * gone does not open the window again until it is as small as memory_window(); it grows no more,
 * for few streams outlive such a time. */
struct h2_flow {
	size_t window;
	size_t owed; /* bytes that are not to open it */
};

struct h2_stream {
	struct conn_base base; /* must be first: it is freed later */
	struct node node; /* in the client's streams */
	struct node up_node; /* in those of the endpoint's session, or among those that wait for
			      * one: target->h2_waiting, worker->h2_woken */
	struct h2_client *client;
	struct h2_upstream *up; /* NULL: none yet, or none any more */
	struct exchange *ex; /* NULL: it has ended */
	struct target *target; /* with a reference: the endpoint in use, or waited for */
	struct expiry expiry;
	struct buf to_endpoint, to_client; /* bodies */
	struct h2_flow flow_up, flow_down;
	struct h2_section trailers_up, trailers_down;
	int32_t id, up_id; /* up_id 0: the request is not sent yet */
	uint32_t kept_sent; /* bytes of to_endpoint that were sent, while it is kept */
	bool counted; /* in the client's part of the endpoint: target_end */
	bool kept; /* to_endpoint has the body from its first byte on */
	bool secret; /* no field of the request enters a table */
	bool grpc;
	bool has_timeout; /* grpc-timeout: ex->whole_ms is its end, or an earlier one */
	bool responded; /* the final response's head was given to the client's codec */
	bool response_done; /* all of the response is here */
	bool dial_failed; /* the dial that it waited for */
	bool widened; /* one of its windows */
	bool http1; /* an endpoint was not asked since it speaks HTTP/1 alone */
};

/* Events of the client's codec: a request, and what follows. */
struct h2_stream *h2_stream_new(struct h2_client *c, int32_t id);
void h2_stream_start(struct h2_stream *st, struct h2_section *section, bool last);
void h2_stream_from_client(struct h2_stream *st, const char *data, size_t n);
void h2_stream_client_trailers(struct h2_stream *st, struct h2_section *section);
void h2_stream_client_done(struct h2_stream *st);
/* The client's stream is over; frees st later. */
void h2_stream_client_gone(struct h2_stream *st, uint32_t code);
size_t h2_stream_for_client(struct h2_stream *st, const char **at, enum h2_rest *rest);
void h2_stream_client_took(struct h2_stream *st, size_t n);

/* Events of the endpoint's. */
void h2_stream_head(struct h2_stream *st, enum h2_part part, struct h2_section *section);
void h2_stream_from_endpoint(struct h2_stream *st, const char *data, size_t n);
void h2_stream_endpoint_done(struct h2_stream *st);
size_t h2_stream_for_endpoint(struct h2_stream *st, const char **at, enum h2_rest *rest);
void h2_stream_endpoint_took(struct h2_stream *st, size_t n);
/* How an endpoint's stream ended. */
enum h2_lost {
	H2_LOST_RESET, /* by the endpoint, with the code */
	H2_LOST_UNPROCESSED, /* nothing was done */
	H2_LOST_CONNECTION,
	H2_LOST_SILENT, /* the endpoint acknowledges nothing any more */
	H2_LOST_HTTP1, /* it answers in HTTP/1; nothing was done */
	H2_LOST_MALFORMED, /* its response is none */
};
/* The session has forgotten the stream: another endpoint, or the end. */
void h2_stream_lost(struct h2_stream *st, enum h2_lost how, uint32_t code);

/* The endpoint in use; NULL: none. */
struct target *h2_stream_target(const struct h2_stream *st);
/* May it be sent again, to another endpoint, if its session is lost now? */
bool h2_stream_may_retry(const struct h2_stream *st, enum h2_lost how);
/* Bytes held for it. */
size_t h2_stream_held(const struct h2_stream *st);
/* The client may not call the service any more. */
void h2_stream_deny(struct h2_stream *st, const char *reason);

#endif
