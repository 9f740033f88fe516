/*
 * Shared by the files of a session: session.c (life cycle), session_wire.c (reads and writes the
 * transport), session_frames.c (the codec's events), session_life.c (is the peer alive),
 * session_notes.c (events to owners), session_stream.c (calls by owners), session_window.c (receive
 * windows), session_coding.c (compression). No other file includes it.
 *
 * A stream is freed when both sides have released it: its owner by stream_close, and HTTP/2 by
 * on_closed (then `id` is 0). Events are collected in `notes` and reported to owners after the
 * codec (base/http/h2) has returned, never from inside it.
 */
#ifndef EDGEWAY_TUNNEL_H2_SESSION_PRIVATE_H
#define EDGEWAY_TUNNEL_H2_SESSION_PRIVATE_H

#include <sys/queue.h>

#include "base/core/buf.h"
#include "base/core/rate.h"
#include "base/core/sock_paths.h"
#include "base/http/h2.h"
#include "base/tls/deflate_stream.h"
#include "tunnel/h2/chain.h"
#include "tunnel/h2/conn_window.h"
#include "tunnel/h2/session.h"

enum {
	SESSION_FADING = 0xf1, /* a frame type of our own (doc/protocol.md) */
	SESSION_FADING_DOUBTED = 0x1, /* its flag */
	/* frames are built until this many bytes wait for the transport */
	SESSION_OUT_HIGH = 8 * TLS_RECORD_BYTES,
	STREAM_AUTHORITY_MAX = 255 + 6, /* a DNS name, a colon and a port */
	SESSION_PING_BYTES = H2_FRAME_HEAD + H2_PING_BYTES,
	/* time for reading and reporting events; all late sessions of a budget share one
	 * such turn */
	SESSION_TURN_US = 300,
	SESSION_QUEUE = 4096, /* streams that were given up and whose frames wait for the
				 transport; with as many none is opened */
	SESSION_BULK = 4 * 1024, /* payload from this size on is not copied */
};

/* States of a session: doc/states/session.dot. Those from PEER_DRAINING on open no stream. */
enum session_state {
	SESSION_HANDSHAKE, /* until the other end's SETTINGS have come */
	SESSION_OPEN,
	SESSION_PEER_FAILED, /* its GOAWAY has an error code */
	SESSION_PEER_DRAINING, /* the other end takes no new streams */
	SESSION_DRAINING, /* this one takes none either */
	SESSION_PARTING, /* everything was carried: session_parts */
	SESSION_PARTED, /* client: the ping sent after that was answered */
	SESSION_ENDED,
};

/* In the order in which they are reported. */
enum note {
	NOTE_OPENED = 1,
	NOTE_ANSWERED = 2,
	NOTE_READABLE = 4,
	NOTE_WRITABLE = 8,
	NOTE_FADING = 16,
	NOTE_RESET = 32,
};

struct stream {
	struct session *session; /* NULL: HTTP/2 has ended it, only the owner still holds it */
	TAILQ_ENTRY(stream) link, noted, waits;
	int32_t id; /* 0: HTTP/2 has closed it */
	unsigned notes;
	const struct stream_events *events; /* NULL: it has no owner */
	void *arg;
	struct h2_section *head; /* of the request or the response, until it is reported */
	char *target; /* the requested target, for diagnostics; NULL: not known yet */
	uint64_t since_ms, bytes_in, bytes_out;
	struct chain in, out;
	struct coding *coding; /* NULL: no compression */
	size_t window, consumed; /* receive window; bytes consumed since `mark_ms` */
	uint64_t mark_ms;
	unsigned code; /* of the reset */
	uint16_t slot; /* of the budget's shares */
	bool answered;
	bool waited; /* more than half a window waited for the reader since `mark_ms` */
	bool udp;
	bool offered; /* compress, if both ends want it */
	bool refused; /* answered with a status other than 200 */
	bool given_up; /* reset at this end; the frame waits for the transport */
	bool ended; /* stream_end */
	bool deferred; /* the codec waits for bytes */
	bool waits_turn; /* waits for its turn to send */
	bool wants_room;
	bool far_ended; /* the other end has half-closed */
	bool fading; /* announced by the other end, or by this one */
	bool doubted; /* the same, because the target does not answer */
	loop_fn *on_fading; /* NULL: no callback */
	void *fading_arg;
};

TAILQ_HEAD(stream_ring, stream);

struct session {
	struct loop *loop;
	struct sock_paths paths;
	struct transport *wire;
	struct h2 *h2;
	struct session_budget *budget;
	struct session_limits limits;
	const struct session_events *events;
	void *arg;
	bool server;
	bool squeeze;
	bool udp;
	enum session_state state; /* set by session_go */
	bool settled; /* it has been open, even if it has ended since */
	struct timer *kick; /* timer for pending writes, at the next loop turn */
	struct timer *life;
	struct timer *rest; /* while active nothing is read; NULL: never needed */
	struct rate_count given_up; /* streams, by the peer, or above its limit */
	uint64_t opened_in_vain; /* so many in all */
	unsigned leaving; /* streams that are given_up */
	struct stream_ring streams, noted;
	struct buf out; /* frames for the wire; no memory while empty */
	size_t made; /* bytes of DATA built in this turn */
	/* streams waiting for their turn to send, and the one whose turn it is */
	struct stream_ring waiting;
	struct stream *sending;
	/* sending_left: bytes left of that turn; turn_bytes: length of a turn, at least one
	 * frame */
	size_t sending_left, turn_bytes;
	uint64_t paced, pace_ms; /* bytes of DATA since pace_ms */
	bool out_waits;
	bool held_up; /* DATA waits for the transport, or for the next turn */
	int failed; /* error that the transport reported then: -errno */
	bool bulk; /* the last read was large */
	struct piece *reading; /* buffer for bulk reads */
	size_t read_bytes;
	uint64_t parting_ms; /* in SESSION_PARTING: since when */
	uint8_t parting_heard[SESSION_PING_BYTES]; /* the latest bytes received since then */
	uint64_t heard_ms, ping_ms; /* ping_ms: when the outstanding ping was sent; 0: none */
	/* the first time since anything was heard that a stream was opened or bytes were sent; 0:
	 * none */
	uint64_t asked_ms;
	uint64_t look_ms; /* when `life` is due */
	bool beaten; /* a ping or an answer has come: it is time for h2_rest */
	uint64_t used_ms; /* when session_asked was called last; 0: never */
	struct liveness_line *line; /* the owner's; NULL: only pings tell whether it lives */
	enum life_part { LIFE_PINGS, LIFE_KEEPS, LIFE_FOLLOWS, LIFE_WATCHES } part;
	/* when the socket was last seen to take bytes queued in front of the ping */
	uint64_t drained_ms;
	uint16_t slot; /* session_setup, as the next two */
	bool patient, within;
	bool silent, silent_told;
	uint64_t dry_ms; /* since when there is nothing to read; 0: there may be something */
	uint64_t idle_ms; /* total time since that ping without anything to read */
	struct conn_window reception;
	uint64_t turn_ends_us; /* mono_us */
	/* not all events were reported within the last turn; nothing is read before they are */
	bool behind;
	bool late; /* its turn ended before its work */
	unsigned busy; /* callbacks on the call stack */
	bool freed; /* session_free was called while busy */
	/* the ping of session_ask_anew has come, and the owner has not been told yet */
	bool asked;
	bool peer_drains; /* the same for the other end's GOAWAY or session_send_away */
	bool collecting; /* output is collected and written at the end of this turn */
	bool unread; /* the transport may hold bytes that no event announces */
	unsigned peer_code; /* code of the peer's GOAWAY */
	char why[128];
	struct session_stats stats;
};

/* Payload of the client's last ping before it closes. session_hear_parting checks whether the
 * answer is among the bytes that came after it was sent. */
extern const uint8_t session_parting[H2_PING_BYTES];
/* Payload of the ping by which a client announces that it opens no more streams. */
extern const uint8_t session_leaving[H2_PING_BYTES];
void session_hear_parting(struct session *s, const uint8_t *bytes, size_t n);
/* Payload of session_ask_anew. */
extern const uint8_t session_asking[H2_PING_BYTES];
/* Every change of its state. */
void session_go(struct session *s, enum session_state to);
/* Schedules a turn: something waits to be sent or reported. */
void session_kick(struct session *s);
void stream_note(struct stream *st, enum note note);
/* Bytes of the budget in use. */
size_t budget_used(const struct session_budget *b);
/* n bytes more, or fewer, of the stream wait: in `held` or `queued` of its budget. */
void stream_keeps(struct stream *st, size_t *where, size_t n);
void stream_gives(struct stream *st, size_t *where, size_t n);
/* Whoever has it holds too much memory for what comes in it to be kept: session_budget.shares. */
bool stream_overflows(const struct stream *st);
/* Resets it; its owner, if it has one, will be told. */
void stream_give_up(struct stream *st, unsigned code);
/* Called when both sides have released it, or the session has ended. */
void stream_destroy(struct stream *st);
/* Returns its share of the budget. */
void stream_unbudget(struct stream *st);
struct stream *stream_create(struct session *s);
void head_free(struct h2_section **head);
/* The value of the first field of this name; NULL: there is none. */
const char *head_find(const struct h2_section *head, const char *name);
/* Of a response. */
unsigned head_status(const struct h2_section *head);
/* It offers, or agrees to, compression. */
bool head_squeezes(const struct h2_section *head);

/* The turn is over: other sessions run now. */
static inline bool
session_turn_is_over(const struct session *s)
{
	return mono_us() >= s->turn_ends_us;
}

/* In session_notes.c: reports noted events to owners, as many as one turn allows, or `all` of them.
 * Owners may free the session. */
void session_tell(struct session *s, bool all);

/* In session_wire.c. Reads as much as one turn allows: 0; 1: there may be more; -errno: the end. */
int session_read_wire(struct session *s);
/* Nothing is read for now: session_limits.resets_per_s. */
bool session_rests(const struct session *s);
/* Builds frames and writes them, as much as one turn allows; schedules another turn when there is
 * more: 0, or -errno: the end. */
int session_write_wire(struct session *s);
/* On a transport that gathers writes, passes it the collected output: 0, -EAGAIN or another
 * -errno. */
int session_gather_out(struct session *s);

/* In session_window.c. */
void session_window_init(struct session *s);
/* n bytes of DATA were read off the wire. */
void session_received(struct session *s, size_t n);
void session_ping(struct session *s);
/* For the outstanding ping: it was sent (by any call) and answered. session_wire_dry says, in
 * between, whether there is nothing to read. */
void session_ping_sent(struct session *s);
void session_wire_dry(struct session *s, bool dry);
void session_ping_answered(struct session *s);
/* n received bytes are no longer held: reopens the window for the other end. */
void stream_took(struct stream *st, size_t n);
/* n more are held. */
void stream_holds(struct stream *st, size_t n);

/* In session_life.c. A ping came: adopts the heartbeat, or the upkeep, that it tells of. */
void session_heed_beat(struct session *s, const uint8_t payload[8]);
/* Sends the heartbeat of this end, and whether it keeps the connection. */
void session_say_beat(struct session *s);
/* session_heard: bytes have come. session_asked: a stream was opened, or bytes were sent. */
void session_heard(struct session *s);
void session_asked(struct session *s);
/* True if a ping, or the answer to one, is due. */
bool session_is_due(struct session *s);
bool session_is_dead(const struct session *s);
/* Writes why into `why`. */
void session_say_dead(struct session *s);
/* Sends a ping if it is due, detects a silent peer, and sets the timer for the next check. */
void session_look(struct session *s);
/* Something has begun, for which a ping may be due before the next look. */
void session_look_sooner(struct session *s);

/* In session_coding.c: what owners write to and read from a compressed stream. */
void coding_start(struct stream *st);
void coding_unbudget(struct stream *st);
void coding_free(struct stream *st);
void coding_write(struct stream *st, const void *data, size_t n);
int coding_reserve(struct stream *st, size_t room, struct iovec *v);
void coding_commit(struct stream *st, size_t n);
size_t coding_peek(struct stream *st, const void **data);
void coding_consume(struct stream *st, size_t n);
/* Received bytes cannot be decompressed. */
bool coding_bad(const struct stream *st);
bool coding_empty(const struct stream *st);

/* In session_frames.c. */
extern const struct h2_events frames_events;
/* Recomputes, once per millisecond, how much a stream may send in one turn. */
void frames_pace(struct session *s);
/* The codec has nothing more to send: true if another stream gets its turn now. */
bool frames_next_turn(struct session *s);
/* The server announced it, or is silent itself. */
void frames_hear_fading(struct stream *st, bool doubted);
void frames_forget(struct stream *st);

#endif
