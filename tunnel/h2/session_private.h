/*
 * What the files of a session share: session.c (life), session_wire.c (reading and writing the
 * wire), session_frames.c (what nghttp2 calls), session_life.c (is the peer there), session_notes.c
 * (what owners are told), session_stream.c (what they call), session_window.c (how much may come),
 * and session_coding.c. Nothing outside of these includes it.
 *
 * A stream leaves when both have let go: its owner by stream_close, and HTTP/2 by on_stream_close
 * (`id` is 0 then). Owners are told of what has happened by `notes`, after nghttp2 has returned,
 * never from inside it.
 */
#ifndef EDGEWAY_TUNNEL_H2_SESSION_PRIVATE_H
#define EDGEWAY_TUNNEL_H2_SESSION_PRIVATE_H

#include <sys/queue.h>

#include <nghttp2/nghttp2.h>

#include "base/core/buf.h"
#include "base/tls/deflate_stream.h"
#include "tunnel/h2/chain.h"
#include "tunnel/h2/conn_window.h"
#include "tunnel/h2/frame_budget.h"
#include "tunnel/h2/session.h"
#include "tunnel/h2/session_memory.h"

enum {
	SESSION_FADING = 0xf1, /* a type of frame (doc/protocol.md) */
	SESSION_FADING_DOUBTED = 0x1, /* its flag */
	SESSION_OUT_HIGH =
		8 * TLS_RECORD_BYTES, /* frames are made until so much waits for the wire */
	STREAM_AUTHORITY_MAX = 255 + 6, /* a DNS name, a colon and a port */
	SESSION_PING_BYTES = 9 + 8, /* a PING with its head */
	SESSION_TURN = 256 * 1024, /* of reading, and of writing, before others have their turn */
	SESSION_TURN_US =
		/* of reading and of telling owners, the same, for all of a budget that are late */
	300,
	SESSION_BULK = 4 * 1024, /* so much at a time is not copied */
};

/* In the order in which they are told. */
enum note {
	NOTE_OPENED = 1,
	NOTE_ANSWERED = 2,
	NOTE_READABLE = 4,
	NOTE_WRITABLE = 8,
	NOTE_FADING = 16,
	NOTE_RESET = 32,
};

struct head { /* of a request or a response, until it is told */
	char *authority;
	char *reason;
	char *path; /* of a request for datagrams */
	char *names[STREAM_FIELDS_MAX], *values[STREAM_FIELDS_MAX];
	size_t n, bytes;
	unsigned status;
	bool connect; /* :method */
	bool protocol, udp; /* :protocol was said, and it is connect-udp */
	bool deflate; /* edgeway-encoding */
};

struct stream {
	struct session *session; /* NULL: ended, the owner alone is left */
	TAILQ_ENTRY(stream) link, noted, waits;
	int32_t id; /* 0: HTTP/2 is done with it */
	unsigned notes;
	const struct stream_events *events; /* NULL: nobody owns it */
	void *arg;
	struct head *head;
	char *target; /* what was asked for, to be told; NULL: not known yet */
	uint64_t since_ms, bytes_in, bytes_out;
	struct chain in, out;
	struct coding *coding; /* NULL: bytes go as they are */
	size_t window, consumed; /* of what comes; consumed since `mark_ms` */
	uint64_t mark_ms;
	unsigned code; /* of the reset */
	bool answered;
	bool udp;
	bool offered; /* to be coded, if both want it */
	bool refused; /* answered with something else than 200 */
	bool ended; /* stream_end */
	bool deferred; /* nghttp2 waits for bytes */
	bool waits_turn; /* to send */
	bool wants_room;
	bool far_ended; /* the other end has half-closed */
	bool fading; /* the other end has said so, or this one has */
	bool doubted; /* the same, for where it leads does not answer */
	loop_fn *on_fading; /* NULL: nobody wants to know */
	void *fading_arg;
};

TAILQ_HEAD(stream_ring, stream);

struct session {
	struct loop *loop;
	struct transport *wire;
	nghttp2_session *ng;
	struct session_memory memory; /* of ng */
	struct session_budget *budget;
	struct session_limits limits;
	const struct session_events *events;
	void *arg;
	bool server;
	bool squeeze;
	bool udp;
	bool settled; /* the other end's SETTINGS have come */
	struct timer *kick; /* something to write, at the next turn */
	struct timer *life;
	struct stream_ring streams, noted;
	struct buf out; /* frames for the wire; no memory while empty */
	size_t made; /* bytes of DATA in this turn */
	struct stream_ring waiting; /* for their turn to send, and whose it is */
	struct stream *sending;
	size_t sending_left, turn_bytes; /* a frame at least */
	uint64_t paced, pace_ms; /* bytes of DATA since then */
	bool out_waits;
	bool held_up; /* DATA waits for the wire, or for the next turn */
	int failed; /* what the wire said then: -errno */
	bool bulk; /* whole records came last */
	struct piece *reading; /* what is read into, when it is bulk */
	size_t read_bytes;
	uint64_t parting_ms; /* when all was carried that is to be; 0: not yet */
	bool parted; /* client: the ping that it sent then was answered */
	uint8_t parting_heard[SESSION_PING_BYTES]; /* what came last since then */
	uint64_t heard_ms, ping_ms; /* ping_ms: when the one that is out was sent, 0: none */
	/* when a stream was opened, or bytes were sent, first since anything was heard; 0: none
	 * were */
	uint64_t asked_ms;
	uint64_t look_ms; /* when `life` is due */
	/* when the line was seen to take bytes that wait in front of the ping */
	uint64_t drained_ms;
	bool silent, silent_told;
	uint64_t dry_ms; /* since when there is nothing to read, 0: there may be */
	uint64_t idle_ms; /* since that ping: for how long there was not */
	struct conn_window reception;
	struct frame_budget frames;
	unsigned large_heads; /* beyond all limits, in the bytes that are being read */
	bool flooded; /* the budget is used up */
	uint64_t turn_ends_us; /* mono_us */
	/* not all that happened was told within the last turn; nothing is read before that */
	bool behind;
	bool late; /* its turn was over before it was done */
	bool draining, peer_draining, peer_draining_told, ended;
	unsigned busy; /* callbacks on the stack */
	bool freed; /* while busy */
	/* client: the ping of session_ask_anew has come, and the owner was not told yet */
	bool asked;
	bool collecting; /* what is to be sent goes out at the end of this turn */
	bool unread; /* the wire may hold bytes that no event announces */
	unsigned peer_code; /* of its GOAWAY */
	char why[128];
	struct session_stats stats;
};

/* Payload of a client's last ping, and what comes after that is sent: is its answer in there? */
extern const uint8_t session_parting[8];
/* Of one that says that it opens no more streams. */
extern const uint8_t session_leaving[8];
void session_hear_parting(struct session *s, const uint8_t *bytes, size_t n);
/* Payload of session_ask_anew. */
extern const uint8_t session_asking[8];
/* Something waits to be sent or told. */
void session_kick(struct session *s);
void stream_note(struct stream *st, enum note note);
/* Bytes of the budget that are taken. */
size_t budget_used(const struct session_budget *b);
/* Both have let go, or the session has. */
void stream_destroy(struct stream *st);
/* Its share of the budget is given back. */
void stream_unbudget(struct stream *st);
struct stream *stream_create(struct session *s);
void head_free(struct head **h);

/* Others have their turn now. */
static inline bool
session_turn_is_over(const struct session *s)
{
	return mono_us() >= s->turn_ends_us;
}

/* In session_notes.c: owners are told of what has been noted, as much as a turn may, or `all` of
 * it. They may free the session. */
void session_tell(struct session *s, bool all);

/* In session_wire.c. Reads as much as a turn may: 0; 1: there may be more; or the end: -errno. */
int session_read_wire(struct session *s);
/* Makes frames and writes them, as much as a turn may; wakes the session when there is more: 0, or
 * the end: -errno. */
int session_write_wire(struct session *s);
/* The wire takes what was made, where it gathers: 0, -EAGAIN or another -errno. */
int session_gather_out(struct session *s);

/* In session_window.c. */
int session_window_init(struct session *s);
/* So much of DATA was read off the wire. */
void session_received(struct session *s, size_t n);
void session_ping(struct session *s);
/* The one that is out was sent, by whatever call, and was answered; there is nothing to read in
 * between, and there is. */
void session_ping_sent(struct session *s);
void session_wire_dry(struct session *s, bool dry);
void session_ping_answered(struct session *s);
/* So much of what came is not held any more: window for the other end. */
void stream_took(struct stream *st, size_t n);

/* In session_life.c. A ping came: with its server's heartbeat in it a client takes that over. */
void session_heed_beat(struct session *s, const uint8_t payload[8]);
/* What a server's first ping says of its heartbeat. */
void session_say_beat(const struct session *s, uint8_t payload[8]);
/* Something has come; and a stream was opened, or bytes were sent. */
void session_heard(struct session *s);
void session_asked(struct session *s);
/* Is something due, a ping or an answer to one? */
bool session_is_due(const struct session *s);
bool session_is_dead(const struct session *s);
/* Pings if it is time, finds out that the peer is silent, and looks again when it is time. */
void session_look(struct session *s);

/* In session_coding.c: what owners write and read, when the stream is coded. */
void coding_start(struct stream *st);
void coding_unbudget(struct stream *st);
void coding_free(struct stream *st);
void coding_write(struct stream *st, const void *data, size_t n);
int coding_reserve(struct stream *st, size_t room, struct iovec *v);
void coding_commit(struct stream *st, size_t n);
size_t coding_peek(struct stream *st, const void **data);
void coding_consume(struct stream *st, size_t n);
/* What came cannot be expanded. */
bool coding_bad(const struct stream *st);
bool coding_empty(const struct stream *st);

/* In session_frames.c. What a stream may send in one turn is found anew, each millisecond. */
void frames_pace(struct session *s);
/* nghttp2 has nothing more to send: does another stream have a turn now? */
bool frames_next_turn(struct session *s);
/* The server has said so, or is silent itself. */
void frames_hear_fading(struct stream *st, bool doubted);
void frames_forget(struct stream *st);
void frames_set(nghttp2_session_callbacks *callbacks);
ssize_t frames_source(nghttp2_session *ng, int32_t id, uint8_t *to, size_t size, uint32_t *flags,
	nghttp2_data_source *source, void *arg);

#endif
