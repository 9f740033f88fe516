/*
 * One caller's connection, between ingress.c (listeners), visit.c (its life), visit_http.c (heads,
 * CONNECT) and visit_exchange.c (requests that are forwarded one by one). Nothing outside of these
 * includes it.
 */
#ifndef EDGEWAY_HUB_INGRESS_CLIENT_CONN_H
#define EDGEWAY_HUB_INGRESS_CLIENT_CONN_H

#include <sys/queue.h>

#include "base/core/preauth.h"
#include "base/http/http1.h"
#include "hub/ingress/ingress.h"
#include "hub/ingress/tls_bridge.h"
#include "hub/port/listen.h"
#include "hub/port/quota.h"

enum {
	CLIENT_CONN_IN_MAX = 48 * 1024, /* more than a head, less than a stream takes at once */
	CLIENT_CONN_H2_MAX =
		96 * 1024, /* the first window of a client that does not wait, and its heads */
	CLIENT_CONN_OUT_FULL = 64 * 1024, /* an answer waits while so much is unsent */
	CLIENT_CONN_HEAD_MS = 10 * 1000,
	CLIENT_CONN_IDLE_MS = 60 * 1000,
	CLIENT_CONN_LINGER_MS = 2000,
	CLIENT_CONN_HOLD_MS = 1,
};

enum client_conn_state {
	CLIENT_CONN_HEAD, /* a request's head is awaited */
	CLIENT_CONN_REACHING, /* the target is being dialled */
	/* the 200 goes out, and the caller must have read it before anything else does */
	CLIENT_CONN_GREETING,
	CLIENT_CONN_EXCHANGE,
	CLIENT_CONN_RELAY,
	CLIENT_CONN_LINGER, /* the last answer goes out; what still comes is dropped */
};

struct way_in { /* a listener */
	TAILQ_ENTRY(way_in) entry;
	struct ingress *ingress;
	struct door door;
	char *name, *host, *dest;
	struct listen *listen;
	uint64_t visits;
};

/* A caller's TLS, or TLS onward to a target. */
struct leg {
	TAILQ_ENTRY(leg) entry;
	struct ingress *ingress;
	const struct door *door;
	struct caller caller;
	struct tls_bridge *bridge;
	struct preauth_conn place; /* while the caller shakes hands */
	struct client_conn *visit; /* NULL: not yet, or no more */
	int fd; /* the plain end, until a visit has it; -1 */
};

struct exchange;

struct client_conn {
	TAILQ_ENTRY(client_conn) entry;
	struct ingress *ingress;
	const struct door *door;
	struct caller caller;
	int fd; /* -1: the relay has it */
	struct watch *watch;
	struct timer *timer;
	enum client_conn_state state;
	struct buf in, out;
	size_t scanned; /* of `in`, by http1_find_end */
	bool talked; /* a head of HTTP/1 has come */
	bool h2; /* HTTP/2 with prior knowledge */
	bool h2_settings; /* and it has got SETTINGS of ours */
	bool eof; /* the caller has half-closed */
	bool shut; /* and so have we */
	struct reaching *reaching;
	unsigned passes; /* of the request that is read, by its CDN-Loop */
	struct stream *stream;
	struct relay *relay;
	struct exchange *exchange;
	/* what the ClientHello named of a caller whose TLS has ended here, "" nothing; NULL:
	 * else */
	char *sni;
	struct leg *near, *far; /* TLS of the caller and to the target; NULL: none */
	char *target; /* for the audit */
	struct preauth_conn place; /* until a rule has let it in */
	struct account *caller_account, *node_account; /* while something is asked for */
	bool let_in; /* the rules have opened `where`, whose texts follow */
	struct acl_target where;
	char *where_text[2];
	uint64_t started_ms;
	uint64_t fed; /* bytes that went to the stream before the relay began */
	struct trace_span *span; /* NULL: it is not recorded */
};

struct ingress {
	struct ingress_config config;
	TAILQ_HEAD(, way_in) ways_in;
	TAILQ_HEAD(, client_conn) visits;
	TAILQ_HEAD(, leg) legs;
	size_t n_legs;
	size_t n_visits;
	size_t visits_most; /* with legs */
	bool draining, held; /* held: no callers are accepted yet */
	uint64_t requests, repeated, refused, full, handshakes_failed, bytes_to_edge,
		bytes_from_edge;
	struct http1_head head; /* of whoever is being read: 10 kB that no visit keeps */
};

/* --- visit.c -------------------------------------------------------------------------------- */
/* fd: taken. leg, sni: of a caller whose TLS ends here; else NULL. The visit goes its own way and
 * may be gone already, but for a DOOR_REDIRECT, of which client_conn_reach must be told. NULL:
 * there is no place for it. */
struct client_conn *ingress_begin(struct ingress *i, const struct door *door, int fd,
	const struct caller *caller, struct leg *leg, const char *sni);
void client_conn_free(struct client_conn *v);
/* Broken off: the caller sees a reset. */
void client_conn_abort(struct client_conn *v);
/* A leg of it has broken; `why` is static text. */
void client_conn_break(struct client_conn *v, const char *why);
/* Reads what may be read and writes what waits; sets what is waited for. */
void client_conn_update(struct client_conn *v);
/* The last of it alone. */
void client_conn_wait(struct client_conn *v);
/* Writes what waits, as far as it goes. False: the visit is gone. */
bool client_conn_flush(struct client_conn *v);
/* Sends `out` and ends, when the caller has taken it. */
void client_conn_linger(struct client_conn *v);
/* `out` goes to the caller; then caller and stream are joined, and what waits in `in` goes
 * first. */
void client_conn_greet(struct client_conn *v, struct stream *stream);
void client_conn_reach(struct client_conn *v, const char *host, uint16_t port, const char *dest);
/* The line of the audit. */
void client_conn_audit(struct client_conn *v, unsigned status, uint64_t to_edge, uint64_t from_edge,
	const char *end);

/* --- visit_where.c -------------------------------------------------------------------------- */
/* Opens the caller's account for a request. False: it has as many streams as it may. */
bool client_conn_account(struct client_conn *v);
/* The same of the node that the stream goes through; "": none. */
bool client_conn_account_node(struct client_conn *v, const char *node);
/* Nothing is asked for any more. */
void client_conn_settle(struct client_conn *v);
/* How many bytes may be moved now. */
size_t client_conn_allowed(struct client_conn *v);
void client_conn_spend(struct client_conn *v, size_t n);
/* Do the rules, as they are now, open this to the caller? It is kept for ingress_recheck. */
bool client_conn_let_in(struct client_conn *v, const struct acl_target *where);
void client_conn_forget_target(struct client_conn *v);

/* --- visit_trace.c -------------------------------------------------------------------------- */
struct client_conn_end { /* as the audit has it */
	unsigned status;
	uint64_t to_edge, from_edge;
	const char *why;
};
/* Only where client_conn_traces. h: the head that asks; NULL: none does. */
void client_conn_trace_begin(
	struct client_conn *v, const struct http1_head *h, const char *host, uint16_t port);
/* These two only with a span. */
void client_conn_trace_reached(struct client_conn *v, const struct connector_answer *answer);
void client_conn_trace_end(struct client_conn *v, const struct client_conn_end *end);

static inline bool
client_conn_traces(const struct client_conn *v)
{
	return v->ingress->config.spans != NULL && v->ingress->config.spans->on;
}

/* --- visit_tls.c ---------------------------------------------------------------------------- */
/* A caller whose TLS ends here: the visit begins once the handshake is done. fd: taken. */
void leg_take(struct ingress *i, const struct door *door, int fd, const struct caller *caller);
/* Puts TLS between the caller and a target, which has to prove that it is `host`: the descriptor to
 * join with the stream in place of `plain`, which is taken; -errno. */
int leg_onward(struct client_conn *v, int plain, const char *host);
/* Breaks it off. */
void leg_free(struct leg *l);
/* DOOR_SNI: looks for the name in `in`, and reaches for the node. */
void client_conn_sni_input(struct client_conn *v);
/* Refuses a caller of a DOOR_SNI: by an alert of TLS, or, where its TLS has ended here or it speaks
 * none, by HTTP. */
void client_conn_sni_refuse(struct client_conn *v, unsigned status, const char *line);

/* --- visit_http.c --------------------------------------------------------------------------- */
/* Takes what `in` holds, as far as the state allows. The visit may be gone afterwards. */
void client_conn_http_input(struct client_conn *v);
void client_conn_http_reached(struct client_conn *v, const struct connector_answer *answer);
/* HOST[:PORT], 80 when it says none. False: neither. */
bool client_conn_http_authority(const char *text, char host[CALLER_HOST_MAX + 1], uint16_t *port);
/* An answer of our own with a one-line body. */
void client_conn_http_refuse(struct client_conn *v, unsigned status, const char *line, bool close);

/* --- visit_h2.c ----------------------------------------------------------------------------- */
/* False: what `in` begins with is not HTTP/2. */
bool client_conn_h2_input(struct client_conn *v);
/* Answers the first request, or ends the connection, and lingers. */
void client_conn_h2_refuse(struct client_conn *v, unsigned status, const char *line);

/* --- visit_exchange.c ----------------------------------------------------------------------- */
/* A request whose head was parsed into ingress->head; its bytes are still in `in`. */
void exchange_begin(struct client_conn *v, const char *via_client, const char *host, uint16_t port,
	const char *dest);
void exchange_reached(struct client_conn *v, struct stream *stream);
/* More of the request's body, or room in `out`, or the caller's end. */
void exchange_pump(struct client_conn *v);
bool exchange_request_done(const struct client_conn *v);
/* The same, and the caller wants to go on with this connection. */
bool exchange_keeps(const struct client_conn *v);
bool exchange_is_head(const struct client_conn *v);
void exchange_free(struct client_conn *v);

#endif
