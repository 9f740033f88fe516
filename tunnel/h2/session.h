/*
 * One HTTP/2 session (RFC 9113, nghttp2) over a transport, with one CONNECT stream (section 8.5)
 * per carried connection. The HTTP/2 role is set at the start and does not depend on who dialled: a
 * node dials the hub, and the hub opens streams towards the node. Everything on the loop's thread.
 * Callbacks come from loop turns, never from within a call of this header, except session_free,
 * which reports the end of the remaining streams.
 *
 * Whoever opens or accepts a stream owns it until stream_close. Received bytes wait in the stream
 * until they are consumed, and the other end gets no new window before that: one stalled reader
 * holds up nobody else. Written bytes wait within STREAM_OUT_BYTES (less while memory is short);
 * `writable` comes when there is room again. stream_end is half-close; stream_close with a code is
 * a reset that the other end sees. `reset` is the last event of a stream.
 *
 * Each session's loop turn is bounded by bytes and by time. Frames that carry nothing are bounded
 * as well: a peer that sends too many is disconnected.
 *
 * A peer that may be gone is noticed long before it counts as dead. If nothing is heard for
 * probe_ms after a stream was opened or bytes were sent, the session sends a ping; if that is not
 * answered within another probe_ms, the session is silent. Its owner is told (`silent`), opens new
 * streams elsewhere, and keeps the existing ones: a peer that was only slow is heard again.
 *
 * Memory: all sessions of a budget together hold at most `limit` bytes, beyond a base window per
 * stream. Windows grow to the bandwidth-delay product while the budget lasts and the reader keeps
 * up. They shrink to what a slow reader needs, and when the budget is short; then new streams are
 * refused (retry elsewhere), with `shares` only those of whoever holds more than an eighth of it.
 * The base windows of streams that were opened before may hold more: with `shares`, from twice the
 * limit on, streams of these are reset in which more comes.
 *
 *	rc = session_new(&(struct session_setup){.loop = loop, .role = SESSION_CLIENT, .wire = transport_tls(&tls),
 *		.budget = &budget, .events = &events, .arg = me}, &session);
 *	rc = session_open(session, &(struct stream_request){.authority = "127.0.0.1:10250"}, &on_stream, c, &c->stream);
 */
#ifndef EDGEWAY_TUNNEL_H2_SESSION_H
#define EDGEWAY_TUNNEL_H2_SESSION_H

#include "base/core/buf.h"
#include "base/core/fair_share.h"
#include "base/core/liveness.h"
#include "tunnel/h2/chain.h"
#include "tunnel/h2/wire.h"

struct session;
struct stream;

enum session_role { SESSION_CLIENT, SESSION_SERVER };

enum {
	STREAM_OUT_BYTES =
		8 * WIRE_PAYLOAD_BYTES, /* written and not yet taken by the transport, per stream */
	STREAM_OUT_SHORT = WIRE_PAYLOAD_BYTES, /* the same while the budget is short */
	STREAM_WINDOW_BASE = 64 * 1024,
	STREAM_WINDOW_MAX = 96 * 1024 * 1024, /* 2 GB/s at 50 ms */
	/* bytes read, and bytes written, before other sessions get their turn; and bytes that an
	 * owner takes from a stream, for what is compressed may expand a thousandfold */
	SESSION_TURN = 256 * 1024,
	STREAM_FIELDS_MAX = 8,
	STREAM_REASON_MAX = 200,
};

/* The codes of RFC 9113 section 7 that are in use, and one that only the hub sends, to itself. */
enum stream_code {
	STREAM_DONE = 0x0,
	STREAM_REFUSED = 0x7, /* nothing was done: safe to retry */
	STREAM_CANCELLED = 0x8,
	STREAM_BROKEN = 0xa, /* CONNECT_ERROR: the TCP connection was reset */
	STREAM_LOST = 0x10000, /* the session has ended */
};

struct stream_field {
	const char *name, *value; /* name in lower case */
};

struct stream_request {
	const char *authority; /* host:port, at most 255 + 6 bytes */
	/* within the hub alone (hub/replicas/tunnel_session.h); not sent */
	bool held;
	/* carries datagrams as capsules (tunnel/udp/dgram.h): CONNECT-UDP of RFC 9298 */
	bool udp;
	const struct stream_field *fields;
	size_t n_fields; /* <= STREAM_FIELDS_MAX; further received fields are dropped */
};

/* The value of the first field of this name, borrowed; "": there is none. */
const char *stream_field_of(const struct stream_request *request, const char *name);

struct stream_events { /* NULL: of no interest; not `reset` */
	/* Client: 200, or a refusal with a one-line reason ("" when none came); after a refusal,
	 * close the stream. */
	void (*answered)(void *arg, unsigned status, const char *reason);
	void (*readable)(void *arg);
	void (*writable)(void *arg);
	void (*reset)(void *arg, unsigned code);
};

struct session_events {
	/* Server: a stream was opened; the request is without the fields that sessions add. 0:
	 * taken, with stream_accept called before returning; else the status to refuse it with, and
	 * the reason (static text). */
	unsigned (*opened)(void *arg, struct stream *st, const struct stream_request *request,
		const char **reason);
	/* The other end takes no new streams, or this one has used up the ids of all that it can
	 * open; existing ones go on. May be NULL. */
	void (*draining)(void *arg);
	/* The other end has called session_ask_anew: a node has something to report to a query of
	 * the hub's, or the node's websocket with the hub has ended. May be NULL. */
	void (*asked)(void *arg);
	/* The peer is read later from now on, for a while: session_limits.resets_per_s. The session
	 * stays. May be NULL. */
	void (*slowed)(void *arg);
	/* The peer answers neither the opening of a stream nor a ping; false: it is heard again.
	 * May be NULL. */
	void (*silent)(void *arg, bool is_silent);
	/* The session has ended, after every stream was told: 0 when drained, else -errno; -EDQUOT:
	 * the other end sent too many frames that carry nothing (base/http/frame_budget.h) or that
	 * are to be answered. Call session_free, now or later. */
	void (*ended)(void *arg, int rc, const char *why);
};

struct session_budget {
	size_t limit; /* bytes */
	size_t held; /* bytes received that wait for a reader */
	size_t granted; /* windows beyond their base size */
	size_t queued; /* bytes that wait for the transport */
	/* sessions whose turn ended before their work: together they get the time of one turn */
	unsigned late;
	/* Whose bytes are held and queued: the session's peer's, or those of stream_charge. Its
	 * limit counts for new streams, and several budgets may have the same one. NULL: they are
	 * nobody's. Outlives the sessions. */
	struct fair_share *shares;
	/* buffers that the sessions pass to each other; none while all are idle */
	struct spare spare;
};

/* A limit that leaves most of the memory to others: a sixteenth of what this process may take, but
 * at least `least` and at most `most`. */
size_t session_budget_limit(size_t least, size_t most);

struct session_limits {
	unsigned max_streams; /* open at a time, both directions */
	unsigned ping_ms; /* idle time after which a ping is sent */
	/* time without a byte after which the peer counts as dead. Where the connection is kept by
	 * keep-alive probes: without a segment, and 900 ms more */
	unsigned dead_ms;
	/* time to hear something after a stream was opened, and then to get a ping answered; 0: 1
	 * s */
	unsigned probe_ms;
	/* streams that the peer may give up, or open above max_streams: from four times as many on
	 * it is read later, so that TCP slows it down; 0: any number */
	unsigned resets_per_s;
};

struct session_setup {
	struct loop *loop;
	enum session_role role;
	struct transport *wire; /* taken, also on failure */
	struct session_budget *budget; /* outlives the session */
	uint16_t slot; /* the peer's, of budget->shares */
	/* compress payload that is clear text: the HTTP/2 client offers it, the server agrees */
	bool squeeze;
	const struct session_limits *limits; /* NULL: 4096 streams, 4 s, 9 s */
	bool udp; /* server: accepts datagram streams, and announces it (RFC 8441 section 3) */
	/* tells the other end to adopt ping_ms, for paths where each byte costs */
	bool says_beat;
	/* The peer, as all connections to it know it (base/core/liveness.h): the owner has joined,
	 * and leaves after session_free. NULL: only pings tell whether it lives. With says_beat
	 * this end keeps the connection by keep-alive probes. */
	struct liveness_line *line;
	bool follows; /* another session with says_beat probes first */
	/* the peer may have a thousand handshakes to do before it greets: not silent before */
	bool patient;
	/* Both ends are in this program, and others' streams cross: new ones are taken while memory
	 * is short, too, and no frames count, as what limits them is elsewhere (stream_exceeds);
	 * the server takes datagram streams, and need not have said so; STREAM_LOST is told as
	 * such. */
	bool within;
	const struct session_events *events;
	void *arg;
};

struct session_stats {
	uint64_t opened, accepted, refused;
	uint64_t resets_sent, resets_received;
	uint64_t bytes_in, bytes_out; /* payload */
	uint64_t stalls; /* times a writer found no room */
	uint64_t pings;
	uint64_t saved; /* bytes that compression saved, both directions */
	uint64_t useless; /* received frames that carried nothing */
	uint64_t rests; /* times that the peer was read later: resets_per_s */
	unsigned streams; /* now */
	unsigned rtt_ms; /* of the last ping */
};

int session_new(const struct session_setup *setup, struct session **out);
/* Streams get STREAM_LOST and stay with their owners until stream_close. Allowed in callbacks. */
void session_free(struct session **s);
/* No new streams in either direction (incoming ones get STREAM_REFUSED); `ended` comes once the
 * last one is closed. */
void session_drain(struct session *s);
/* Client: the same, and the server is told (`draining`), so that it opens another session
 * elsewhere. */
void session_send_away(struct session *s);
/* Tells the other end, by a ping, that there is something to ask for: see `asked`. */
void session_ask_anew(struct session *s);
/* Checks that the peer is there: it has probe_ms to answer. */
void session_probe(struct session *s);
bool session_is_silent(const struct session *s);
/* The other end has greeted: it is one that speaks HTTP/2, and lets us in. */
bool session_is_settled(const struct session *s);
/* As sock_paths, sock_paths_use and sock_paths_lost. */
unsigned session_paths(const struct session *s);
bool session_paths_use(const struct session *s, const struct in6_addr *local);
bool session_paths_lost(struct session *s, struct in6_addr *local);
/* As sock_rerouted. */
bool session_is_rerouted(const struct session *s);
const struct session_stats *session_stats(const struct session *s);
/* Appends every stream as a JSON object to a list, with `node` in it: target, age, bytes, windows
 * and queued bytes. *comma is "" before the first one. */
void session_streams(
	const struct session *s, const char *node, const char **comma, struct buf *out);
/* Adds everything but the round-trip time. */
void session_stats_add(struct session_stats *to, const struct session_stats *s);

/* 0; -ESHUTDOWN: draining or ended, or its 2^30 streams are used up; -EAGAIN: too many streams;
 * -EINVAL: the session is a server, or the request is invalid; udp: -EPROTONOSUPPORT: the other end
 * takes no datagrams, -EINPROGRESS: it has not said yet whether it does. */
int session_open(struct session *s, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);
void stream_accept(struct stream *st, const struct stream_events *events, void *arg);
/* What waits in the stream, now and later, is of this slot of the budget's shares, and not of the
 * session's. */
void stream_charge(struct stream *st, uint16_t slot);
/* There is too little memory, and with shares: whose stream it is holds more than an eighth. */
bool stream_exceeds(const struct stream *st);
/* From now on these events are used. Earlier events are not repeated: check the stream's state. */
void stream_use(struct stream *st, const struct stream_events *events, void *arg);
/* Server, once: 200, or a refusal with a reason, after which only stream_close may follow. */
void stream_answer(struct stream *st, unsigned status, const char *reason);
/* Number of bytes that stream_write takes now; when 0, `writable` comes later. */
size_t stream_room(struct stream *st);
/* Bytes written and not yet taken by the transport. */
size_t stream_queued(const struct stream *st);
/* At most stream_room bytes. */
void stream_write(struct stream *st, const void *data, size_t n);
/* Writing without a copy: stream_reserve fills v (CHAIN_MOST entries) with room for at most `most`
 * bytes and returns the number of entries (0: no room now); stream_commit says how many bytes were
 * written. */
int stream_reserve(struct stream *st, size_t most, struct iovec *v);
void stream_commit(struct stream *st, size_t n);
/* Half-close: nothing more will be written. */
void stream_end(struct stream *st);
/* Received bytes that are not consumed yet: start and length. */
size_t stream_peek(struct stream *st, const void **data);
/* The same in several pieces, at most CHAIN_MOST; returns how many. */
int stream_peek_all(struct stream *st, struct iovec *v);
void stream_consume(struct stream *st, size_t n);
/* The other end has half-closed and everything is consumed. */
bool stream_eof(const struct stream *st);
/* Server: the target of the stream will stop soon, so a client that keeps the stream idle should
 * close it. doubted: or the target does not answer now, and pending requests on it may stay
 * unanswered. Clients that do not know this frame ignore it. */
void stream_fade(struct stream *st, bool doubted);
/* Client: true if the server said so with `doubted`, or once the stream's own session has been
 * silent. */
bool stream_is_doubted(const struct stream *st);
/* Client: calls fn when the server says so, or when the session's other end drains; immediately
 * (from a loop turn) if that was already so. fn NULL: no callback. Stays set when stream_use
 * changes the owner, until stream_close. */
void stream_on_fading(struct stream *st, loop_fn *fn, void *arg);
/* HTTP/2's number of the stream, the same at both ends; 0: it has ended. */
int32_t stream_id(const struct stream *st);
/* Is it a stream of this session? */
bool session_has(const struct session *s, const struct stream *st);
/* session_setup.within, of the stream's session. */
bool stream_is_within(const struct stream *st);
/* stream_request.udp */
bool stream_is_udp(const struct stream *st);
/* As session_is_silent, for the stream's session. */
bool stream_is_silent(const struct stream *st);
/* The session has ended and what it left cannot be read: neither `reset` nor stream_eof will report
 * it any more. */
bool stream_spoilt(const struct stream *st);
/* The other end has half-closed; there may still be bytes to consume. */
bool stream_far_ended(const struct stream *st);
/* Gives the stream up. STREAM_DONE after both halves ended: written bytes still go out. Else a
 * reset with the code. */
void stream_close(struct stream **st, unsigned code);

#endif
