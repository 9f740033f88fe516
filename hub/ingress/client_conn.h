/*
 * A client connection of the ingress, between ingress.c (listeners), client_conn.c (life cycle),
 * client_conn_http.c (headers, CONNECT) and client_conn_exchange.c (requests that are forwarded one
 * by one). No other file includes it.
 */
#ifndef EDGEWAY_HUB_INGRESS_CLIENT_CONN_H
#define EDGEWAY_HUB_INGRESS_CLIENT_CONN_H

#include <sys/queue.h>

#include "base/core/preauth.h"
#include "base/http/http1.h"
#include "hub/ingress/bridge_worker.h"
#include "hub/ingress/ingress.h"
#include "hub/port/listen.h"
#include "hub/replicas/relay_worker.h"

enum {
	/* more than a request's header section, less than a stream takes at once */
	CLIENT_CONN_IN_MAX = 48 * 1024,
	/* the first window of a client that does not wait, and its header sections */
	CLIENT_CONN_H2_MAX = 96 * 1024,
	CLIENT_CONN_OUT_FULL = 64 * 1024, /* responses are paused while this much is unsent */
	CLIENT_CONN_HEAD_MS = 10 * 1000,
	CLIENT_CONN_IDLE_MS = 60 * 1000,
	CLIENT_CONN_LINGER_MS = 2000,
	CLIENT_CONN_HOLD_MS = 1,
};

enum client_conn_state {
	CLIENT_CONN_HEAD, /* waits for a request's header section */
	CLIENT_CONN_REACHING, /* the target is being dialled */
	/* the 200 is being sent; the client must read it before any other byte */
	CLIENT_CONN_GREETING,
	CLIENT_CONN_EXCHANGE,
	CLIENT_CONN_RELAY,
	CLIENT_CONN_LINGER, /* the last response is being sent; further input is dropped */
};

struct way_in { /* a listener */
	TAILQ_ENTRY(way_in) entry;
	struct ingress *ingress;
	struct door door;
	char *name, *host, *dest;
	struct listen *listen;
	uint64_t visits;
};

/* A TLS bridge: TLS of a client, or TLS towards a target. */
struct leg {
	TAILQ_ENTRY(leg) entry;
	struct ingress *ingress;
	const struct door *door;
	struct caller caller;
	struct bridge_worker *bridge;
	struct preauth_conn place; /* during the client's TLS handshake */
	struct client_conn *visit; /* NULL: not yet, or no longer */
	bool over; /* the bridge has broken; the leg is kept until the connection's relay knows */
	int fd; /* the plain side, until a client connection takes it; -1 */
};

struct exchange;

struct client_conn {
	TAILQ_ENTRY(client_conn) entry;
	struct ingress *ingress;
	const struct door *door;
	struct caller_kept *caller;
	int fd; /* -1: the relay has it */
	struct watch *watch;
	struct timer *timer; /* NULL: none is needed */
	enum client_conn_state state;
	struct buf in, out;
	size_t scanned; /* of `in`, by http1_find_end */
	bool talked; /* an HTTP/1 header section has come */
	bool h2; /* HTTP/2 with prior knowledge */
	struct h2_preface *preface; /* of that, as far as it has come; NULL: none has */
	bool h2_settings; /* and we have sent it our SETTINGS */
	bool eof; /* the client has half-closed */
	bool shut; /* and so has this side */
	bool held; /* connector_request: a relay takes the stream on its worker */
	struct connect_op *reaching;
	unsigned passes; /* hop count of the current request, from its CDN-Loop */
	struct stream *stream;
	struct relay_worker *relay;
	struct exchange *exchange;
	/* SNI of a client whose TLS ends here, "": it sent none; NULL: TLS does not end here */
	char *sni;
	struct leg *near, *far; /* TLS bridges to the client and to the target; NULL: none */
	char *target; /* for the audit */
	struct preauth_conn *place; /* until a rule has admitted it; then NULL */
	struct grant grant; /* while a request is open */
	uint64_t started_ms;
	uint64_t fed; /* bytes written to the stream before the relay began */
	struct trace_span *span; /* NULL: not recorded */
};

struct ingress {
	struct ingress_config config;
	TAILQ_HEAD(, way_in) ways_in;
	TAILQ_HEAD(, client_conn) visits;
	TAILQ_HEAD(, leg) legs;
	size_t n_legs;
	size_t n_visits;
	size_t visits_most; /* including TLS bridges */
	bool draining, held; /* held: no connections are accepted yet */
	uint64_t requests, refused, full, handshakes_failed, bytes_to_edge, bytes_from_edge;
	/* for the connection being read: none keeps more than has come */
	struct http1_head head;
	char input[CLIENT_CONN_H2_MAX];
};

/* --- client_conn.c -------------------------------------------------------------------------- */
/* fd: taken. leg, sni: of a client whose TLS ends here; else NULL. The connection runs by itself
 * and may already be gone, except for a DOOR_REDIRECT, which needs client_conn_reach next. NULL:
 * there is no room. */
struct client_conn *ingress_begin(struct ingress *i, const struct door *door, int fd,
	const struct caller *caller, struct leg *leg, const char *sni);
void client_conn_free(struct client_conn *v);
/* Starts its timer, which means something else in each state. */
void client_conn_timer(struct client_conn *v, uint64_t ms);
/* Breaks the connection off: the client sees a reset. */
void client_conn_abort(struct client_conn *v);
/* One of its TLS bridges has broken; `why` is static text. */
void client_conn_break(struct client_conn *v, const char *why);
/* Reads and writes what is possible now, and sets the watched events. */
void client_conn_update(struct client_conn *v);
/* Only sets the watched events. */
void client_conn_wait(struct client_conn *v);
/* Writes as much of the output as possible. False: the connection is gone. */
bool client_conn_flush(struct client_conn *v);
/* Sends `out`, and closes once the client has received it. */
void client_conn_linger(struct client_conn *v);
/* No further request is expected: the same, or closes at once if there is nothing to send. */
void client_conn_part(struct client_conn *v);
/* Sends `out` to the client, then joins client and stream; bytes waiting in `in` go first. */
void client_conn_greet(struct client_conn *v, struct stream *stream);
/* False: a request has a kept stream (connector_reuse), and the connection may be gone; only where
 * exchange_may_reuse. */
bool client_conn_reach(struct client_conn *v, const char *host, uint16_t port, const char *dest);
/* Writes the audit line. */
void client_conn_audit(struct client_conn *v, unsigned status, uint64_t to_edge, uint64_t from_edge,
	const char *end);

/* --- client_conn_trace.c -------------------------------------------------------------------- */
struct client_conn_end { /* as in the audit */
	unsigned status;
	uint64_t to_edge, from_edge;
	const char *why;
};
/* Only if client_conn_traces. h: header section of the request; NULL: there is none. */
void client_conn_trace_begin(
	struct client_conn *v, const struct http1_head *h, const char *host, uint16_t port);
/* Only if there is a span; also for client_conn_trace_end. */
void client_conn_trace_reached(struct client_conn *v, const struct connector_answer *answer);
void client_conn_trace_end(struct client_conn *v, const struct client_conn_end *end);

/* The client has half-closed, and nothing of what it has sent is left. */
static inline bool
client_conn_over(const struct client_conn *v)
{
	return v->eof && buf_len(&v->in) == 0;
}

static inline bool
client_conn_timed(const struct client_conn *v)
{
	return v->timer != NULL && timer_active(v->timer);
}

static inline bool
client_conn_traces(const struct client_conn *v)
{
	return v->ingress->config.spans != NULL && v->ingress->config.spans->on;
}

/* --- client_conn_tls.c ---------------------------------------------------------------------- */
/* For a client whose TLS ends here: its connection begins once the handshake is done. fd: taken. */
void leg_take(struct ingress *i, const struct door *door, int fd, const struct caller *caller);
/* Puts TLS between the client and a target that must prove to be `host`. Returns the descriptor to
 * join with the stream in place of `plain`, which is taken; or -errno. */
int leg_onward(struct client_conn *v, int plain, const char *host);
/* Breaks it off. */
void leg_free(struct leg *l);
/* DOOR_SNI: looks for the server name in `in`, and connects to the node. */
void client_conn_sni_input(struct client_conn *v);
/* Refuses a client of a DOOR_SNI: by a TLS alert, or by HTTP if its TLS has ended here or it does
 * not speak TLS. */
void client_conn_sni_refuse(struct client_conn *v, unsigned status, const char *line);

/* --- client_conn_http.c --------------------------------------------------------------------- */
/* Processes `in` as far as the state allows. The connection may be gone afterwards. */
void client_conn_http_input(struct client_conn *v);
void client_conn_http_reached(struct client_conn *v, const struct connector_answer *answer);
/* HOST[:PORT], port 80 if absent. False: invalid. */
bool client_conn_http_authority(const char *text, char host[CALLER_HOST_MAX + 1], uint16_t *port);
/* Sends a response of our own with a one-line body. */
void client_conn_http_refuse(struct client_conn *v, unsigned status, const char *line, bool close);

/* --- client_conn_h2.c ----------------------------------------------------------------------- */
/* False: `in` does not begin with HTTP/2. */
bool client_conn_h2_input(struct client_conn *v);
/* Answers the first request, or else ends the connection, and lingers. */
void client_conn_h2_refuse(struct client_conn *v, unsigned status, const char *line);

/* --- client_conn_exchange.c ----------------------------------------------------------------- */
/* Begins a request whose header section was parsed into ingress->head; its bytes are still in
 * `in`. */
void exchange_begin(struct client_conn *v, const char *via_client, const char *host, uint16_t port,
	const char *dest);
/* Takes both. */
void exchange_reached(struct client_conn *v, struct stream *stream, struct stream_use *use);
/* It may be sent in a stream that has served another request, and again if that has ended. */
bool exchange_may_reuse(const struct client_conn *v);
/* Called when there is more of the request body or room in `out`, and at the end of the client's
 * input. */
void exchange_pump(struct client_conn *v);
/* With the bytes that the exchange has carried so far. */
void exchange_audit(struct client_conn *v, unsigned status, const char *why);
bool exchange_request_done(const struct client_conn *v);
/* The same, and the client wants to keep this connection. */
bool exchange_keeps(const struct client_conn *v);
bool exchange_is_head(const struct client_conn *v);
void exchange_free(struct client_conn *v);

#endif
