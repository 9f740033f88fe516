/*
 * One HTTP/2 session (RFC 9113, nghttp2) over a wire, with one CONNECT stream (section 8.5) per
 * connection that is carried. Who is client of HTTP/2 is told at the start and has nothing to do
 * with who has dialled: a node dials the hub, and the hub opens streams towards the node.
 * Everything on the loop's thread; callbacks come from the loop's turns, never from within a call
 * of this header, but for session_free, which tells what is left of its streams.
 *
 * Who opens or accepts a stream owns it until stream_close. Bytes that have come wait in the stream
 * until they are consumed, and the other end gets no new window before: one stalled reader holds up
 * nobody else. What is written waits within STREAM_OUT_BYTES (less while memory is short);
 * `writable` tells when there is room again. stream_end is half-close, stream_close with a code a
 * reset that the other end sees. `reset` is the last that is told of a stream.
 *
 * A turn of the loop is bounded for each session, by bytes and by time, and so are frames that
 * carry nothing: who sends too many is cut off.
 *
 * A peer that may be gone is found out long before it counts as dead: when nothing is heard for
 * probe_ms after a stream was opened, or bytes were sent, it is sent a ping, and when that is not
 * answered for probe_ms either the session is silent. Its owner is told (`silent`), opens streams
 * elsewhere, and goes on with those that are there: one that was only slow is heard again.
 *
 * Memory: all sessions of a budget together hold its `limit`, beyond a base window per stream.
 * Windows grow to the bandwidth-delay product while the budget lasts and shrink when it is short;
 * then new streams are refused (retry elsewhere).
 *
 *	rc = session_new(&(struct session_setup){.loop = loop, .role = SESSION_CLIENT, .wire = transport_tls(&tls),
 *		.budget = &budget, .events = &events, .arg = me}, &session);
 *	rc = session_open(session, &(struct stream_request){.authority = "127.0.0.1:10250"}, &on_stream, c, &c->stream);
 */
#ifndef EDGEWAY_TUNNEL_H2_SESSION_H
#define EDGEWAY_TUNNEL_H2_SESSION_H

#include "base/core/buf.h"
#include "tunnel/h2/chain.h"
#include "tunnel/h2/wire.h"

struct session;
struct stream;

enum session_role { SESSION_CLIENT, SESSION_SERVER };

enum {
	STREAM_OUT_BYTES =
		8 * WIRE_PAYLOAD_BYTES, /* written and not yet taken by the wire, per stream */
	STREAM_OUT_SHORT = WIRE_PAYLOAD_BYTES, /* the same while the budget is short */
	STREAM_WINDOW_BASE = 64 * 1024,
	STREAM_WINDOW_MAX = 32 * 1024 * 1024, /* 640 MB/s at 50 ms */
	STREAM_FIELDS_MAX = 8,
	STREAM_REASON_MAX = 200,
};

/* Codes of RFC 9113 section 7 that we use, and one that never is on the wire. */
enum stream_code {
	STREAM_DONE = 0x0,
	STREAM_REFUSED = 0x7, /* nothing was done: may be tried again */
	STREAM_CANCELLED = 0x8,
	STREAM_BROKEN = 0xa, /* CONNECT_ERROR: the TCP connection was reset */
	STREAM_LOST = 0x10000, /* the session has ended */
};

struct stream_field {
	const char *name, *value; /* name in lower case */
};

struct stream_request {
	const char *authority; /* host:port, at most 255 + 6 bytes */
	/* datagrams are carried, as capsules (tunnel/udp/dgram.h): CONNECT-UDP of RFC 9298 */
	bool udp;
	const struct stream_field *fields;
	size_t n_fields; /* <= STREAM_FIELDS_MAX; further ones that come are dropped */
};

struct stream_events {
	/* Client: 200, or a refusal with its one-line reason ("" when none came): close the
	 * stream. */
	void (*answered)(void *arg, unsigned status, const char *reason);
	void (*readable)(void *arg);
	void (*writable)(void *arg);
	void (*reset)(void *arg, unsigned code);
};

struct session_events {
	/* Server: a stream was opened. 0: taken, by stream_accept before returning; else the status
	 * to refuse it with and the reason (static text). */
	unsigned (*opened)(void *arg, struct stream *st, const struct stream_request *request,
		const char **reason);
	/* The other end will take no new streams; those that are there go on. May be NULL. */
	void (*draining)(void *arg);
	/* Client: the server wants to be asked what it has to say (session_ask_anew). May be
	 * NULL. */
	void (*asked)(void *arg);
	/* The peer answers neither the opening of a stream nor a ping; false: it is heard again.
	 * May be NULL. */
	void (*silent)(void *arg, bool is_silent);
	/* The end, after every stream was told: 0 when drained, else -errno; -EDQUOT: the other end
	 * sent too many frames that carry nothing (tunnel/h2/frame_budget.h). Call session_free,
	 * now or later. */
	void (*ended)(void *arg, int rc, const char *why);
};

struct session_budget {
	size_t limit; /* bytes */
	size_t held; /* bytes that wait for a reader */
	size_t granted; /* windows beyond their base */
	size_t queued; /* bytes that wait for the wire */
	unsigned late; /* sessions whose turn was too short: they share the time of one */
	/* buffers that its sessions hand to one another; none while all are silent */
	struct spare spare;
};

struct session_limits {
	unsigned max_streams; /* open at a time, either way */
	unsigned ping_ms; /* silence after which a ping is sent */
	unsigned dead_ms; /* silence after which the peer counts as dead */
	/* until something is heard after a stream was opened, and then a ping is answered; 0: 1
	 * s */
	unsigned probe_ms;
};

struct session_setup {
	struct loop *loop;
	enum session_role role;
	struct transport *wire; /* taken, also on failure */
	struct session_budget *budget; /* outlives the session */
	/* clear text is to be smaller on the wire: the client of HTTP/2 asks for it, the server
	 * agrees */
	bool squeeze;
	const struct session_limits *limits; /* NULL: 4096 streams, 4 s, 9 s */
	bool udp; /* server: takes streams of datagrams, and says so (RFC 8441 section 3) */
	bool says_beat; /* server: the other end is to take over ping_ms, where each byte costs */
	const struct session_events *events;
	void *arg;
};

struct session_stats {
	uint64_t opened, accepted, refused;
	uint64_t resets_sent, resets_received;
	uint64_t bytes_in, bytes_out; /* payload */
	uint64_t stalls; /* times a writer found no room */
	uint64_t pings;
	uint64_t saved; /* bytes that squeezing kept off the wire, both ways */
	uint64_t useless; /* frames that came and carried nothing */
	unsigned streams; /* now */
	unsigned rtt_ms; /* of the last ping */
};

int session_new(const struct session_setup *setup, struct session **out);
/* Streams are told STREAM_LOST; they stay with their owners until stream_close. Allowed in
 * callbacks. */
void session_free(struct session **s);
/* No new streams either way (those that come are STREAM_REFUSED); `ended` once the last is
 * closed. */
void session_drain(struct session *s);
/* Client: the same, and the server is told (`draining`): it had better open another session,
 * elsewhere. */
void session_send_away(struct session *s);
/* Server: tells the client by a ping that there is something to be asked for. */
void session_ask_anew(struct session *s);
/* Is the peer there? It has probe_ms to answer. */
void session_probe(struct session *s);
bool session_is_silent(const struct session *s);
/* As sock_rerouted. */
bool session_is_rerouted(const struct session *s);
const struct session_stats *session_stats(const struct session *s);
/* Every stream as a JSON object behind the others of a list, with `node` in it: target, age, bytes,
 * windows and what waits. *comma is "" before the first one. */
void session_streams(
	const struct session *s, const char *node, const char **comma, struct buf *out);
/* Everything but the round trip. */
void session_stats_add(struct session_stats *to, const struct session_stats *s);

/* 0; -ESHUTDOWN: draining or ended; -EAGAIN: too many streams; -EINVAL: the server's side, or a bad
 * request; udp: -EPROTONOSUPPORT: the other end takes no datagrams, -EINPROGRESS: it has not said
 * yet whether it does. */
int session_open(struct session *s, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);
void stream_accept(struct stream *st, const struct stream_events *events, void *arg);
/* From now on somebody else is told. What has happened meanwhile is not told again: look. */
void stream_use(struct stream *st, const struct stream_events *events, void *arg);
/* Server, once: 200, or a refusal with a reason, after which stream_close is all that is left to
 * do. */
void stream_answer(struct stream *st, unsigned status, const char *reason);
/* Bytes that stream_write takes now; when 0, `writable` comes later. */
size_t stream_room(struct stream *st);
/* Written, and not yet taken by the wire. */
size_t stream_queued(const struct stream *st);
/* At most stream_room bytes. */
void stream_write(struct stream *st, const void *data, size_t n);
/* The same without a copy: where at most `most` bytes may be put, how many places of CHAIN_MOST (0:
 * none now), and then how many were. */
int stream_reserve(struct stream *st, size_t most, struct iovec *v);
void stream_commit(struct stream *st, size_t n);
/* Half-close: nothing more will be written. */
void stream_end(struct stream *st);
/* What has come and is not consumed: its start and length. */
size_t stream_peek(struct stream *st, const void **data);
/* The same of several pieces, CHAIN_MOST at most: how many. */
int stream_peek_all(struct stream *st, struct iovec *v);
void stream_consume(struct stream *st, size_t n);
/* The other end has half-closed and everything is consumed. */
bool stream_eof(const struct stream *st);
/* Server: where the stream leads will stop soon, so a client that holds it idle had better let go
 * of it. doubted: or it does not answer now, and what was asked by it may not be either. Clients
 * that do not know the word pass over it. */
void stream_fade(struct stream *st, bool doubted);
/* Client: has that been said, with `doubted`, or is its own session silent? */
bool stream_is_doubted(const struct stream *st);
/* Client: fn is told so, or that the session's other end drains; at once (from a turn) where it was
 * so before. NULL: nobody is. Goes on whoever uses the stream, until stream_close. */
void stream_on_fading(struct stream *st, loop_fn *fn, void *arg);
/* As session_is_silent, of the stream's session. */
bool stream_is_silent(const struct stream *st);
/* The session has ended, and what it left cannot be read: no `reset` tells of it any more, and no
 * stream_eof. */
bool stream_spoilt(const struct stream *st);
/* The other end has half-closed; there may be something to consume yet. */
bool stream_far_ended(const struct stream *st);
/* Lets go. STREAM_DONE after both halves ended: what was written still goes out. Else a reset with
 * the code. */
void stream_close(struct stream **st, unsigned code);

#endif
