#include "tunnel/h2/session_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/state.h"

enum {
	MAX_STREAMS = 4096,
	PING_MS = 4000,
	DEAD_MS = 9000,
	PROBE_MS = 1000,
	HEAD_MAX = 8 * 1024,
	HEAD_FREE = 2 * 1024, /* ours are below 1 KB */
	QUEUE_PER_STREAM = 16, /* frames: an answer, window updates in eighths, a reset */
};

const uint8_t session_parting[H2_PING_BYTES] = "parting";
const uint8_t session_leaving[H2_PING_BYTES] = "leaving";
const uint8_t session_asking[H2_PING_BYTES] = "reach";

static const char *const state_names[] = {
	[SESSION_HANDSHAKE] = "handshake",
	[SESSION_OPEN] = "open",
	[SESSION_PEER_FAILED] = "peer_failed",
	[SESSION_PEER_DRAINING] = "peer_draining",
	[SESSION_DRAINING] = "draining",
	[SESSION_PARTING] = "parting",
	[SESSION_PARTED] = "parted",
	[SESSION_ENDED] = "ended",
};
static const uint32_t state_next[] = {
	[SESSION_HANDSHAKE] =
		STATE_TO(SESSION_OPEN) | STATE_TO(SESSION_DRAINING) | STATE_TO(SESSION_ENDED),
	[SESSION_OPEN] = STATE_TO(SESSION_PEER_FAILED) | STATE_TO(SESSION_PEER_DRAINING) |
		STATE_TO(SESSION_DRAINING) | STATE_TO(SESSION_ENDED),
	[SESSION_PEER_FAILED] = STATE_TO(SESSION_DRAINING) | STATE_TO(SESSION_ENDED),
	[SESSION_PEER_DRAINING] = STATE_TO(SESSION_PEER_FAILED) | STATE_TO(SESSION_DRAINING) |
		STATE_TO(SESSION_PARTING) | STATE_TO(SESSION_ENDED),
	[SESSION_DRAINING] = STATE_TO(SESSION_PARTING) | STATE_TO(SESSION_ENDED),
	[SESSION_PARTING] = STATE_TO(SESSION_PARTED) | STATE_TO(SESSION_ENDED),
	[SESSION_PARTED] = STATE_TO(SESSION_ENDED),
	[SESSION_ENDED] = 0,
};
static const struct state_machine states = {"session", "tunnel", state_names, state_next};

void
session_go(struct session *s, enum session_state to)
{
	s->state = state_go(&states, s->state, to);
	s->settled |= to == SESSION_OPEN;
}

void
session_kick(struct session *s)
{
	if (s->state != SESSION_ENDED && !s->collecting && !timer_active(s->kick))
		timer_start(s->kick, 0, 0);
}

/* --- life ----------------------------------------------------------------------------------- */

static void
session_release(struct session *s)
{
	h2_free(&s->h2);
	buf_fini(&s->out);
	free(s);
}

static void
session_leave(struct session *s)
{
	if (--s->busy == 0 && s->freed)
		session_release(s);
}

/* Both ends have finished, and the owner has been told everything: ending the session loses
 * nothing. */
static bool
is_whole(const struct stream *st)
{
	return st->id == 0 && st->far_ended && st->ended && st->out.len == 0 && st->notes == 0 &&
		st->code == STREAM_DONE;
}

/* Reports the loss to the owners of the streams; frees streams without an owner. */
static void
lose_streams(struct session *s)
{
	struct stream *st;

	while ((st = TAILQ_FIRST(&s->streams)) != NULL) {
		const struct stream_events *events = st->events;
		bool whole = is_whole(st);

		if (events == NULL) {
			stream_destroy(st);
			continue;
		}
		stream_unbudget(st);
		frames_forget(st);
		TAILQ_REMOVE(&s->streams, st, link);
		if (st->notes != 0)
			TAILQ_REMOVE(&s->noted, st, noted);
		s->stats.streams--;
		st->notes = 0;
		st->session = NULL;
		st->id = 0;
		if (whole)
			continue;
		st->code = STREAM_LOST;
		events->reset(st->arg, STREAM_LOST);
	}
}

static void
session_set_late(struct session *s, bool late)
{
	s->budget->late += late;
	s->budget->late -= s->late;
	s->late = late;
}

static void
session_shut(struct session *s)
{
	if (s->state != SESSION_ENDED)
		session_go(s, SESSION_ENDED);
	session_set_late(s, false);
	s->line = NULL; /* the owner may leave */
	spare_release(&s->budget->spare);
	if (s->kick != NULL)
		timer_free(&s->kick);
	timer_free(&s->rest);
	if (s->life != NULL)
		timer_free(&s->life);
	if (s->wire != NULL)
		s->wire->ops->free(take_ptr(&s->wire));
}

static void
session_end(struct session *s, int rc)
{
	if (s->why[0] == '\0')
		snprintf(s->why, sizeof s->why, "%s", rc == 0 ? "drained" : strerror(-rc));
	session_shut(s);
	lose_streams(s);
	if (!s->freed)
		s->events->ended(s->arg, rc, s->why);
}

/* One of the two ends takes no new streams any more. */
static bool
session_drains(const struct session *s)
{
	return s->state >= SESSION_PEER_DRAINING;
}

/* Everything has been carried. */
static bool
session_drained(const struct session *s)
{
	return s->stats.streams == 0 && session_drains(s);
}

/* The same, but for what owners have yet to read: it stays with them. */
static bool
session_is_carried(const struct session *s)
{
	const struct stream *st;

	TAILQ_FOREACH(st, &s->streams, link) {
		if (!is_whole(st))
			return false;
	}
	return session_drains(s);
}

/* Closing a socket with unread input makes the kernel drop output that the peer has not received
 * yet. So the client closes, after its last ping was answered: everything that it sent has arrived
 * by then. The server waits for that, at most dead_ms. */
static bool
session_parted(struct session *s)
{
	if (s->state < SESSION_PARTING) {
		session_go(s, SESSION_PARTING);
		s->parting_ms = loop_now_ms(s->loop);
		if (!s->server)
			h2_ping(s->h2, session_parting);
		session_kick(s);
	}
	if (s->server)
		return loop_now_ms(s->loop) - s->parting_ms >= s->limits.dead_ms;
	return s->state == SESSION_PARTED;
}

/* Decides whether the session ends now. */
static void
session_conclude(struct session *s, int rc)
{
	bool idle = buf_len(&s->out) == 0 && !s->out_waits && !h2_wants_output(s->h2);

	if (rc == -ECONNRESET ? session_is_carried(s)
			      : session_drained(s) && session_parted(s) && idle) {
		s->why[0] = '\0';
		session_end(s, 0);
	} else if (rc < 0) {
		session_end(s, h2_code(s->h2) == H2_ENHANCE_YOUR_CALM ? -EDQUOT : rc);
	} else if (idle && !session_drains(s) && h2_is_over(s->h2)) {
		snprintf(s->why, sizeof s->why, "%s broke the rules of HTTP/2 (code %u)",
			s->peer_code != 0 ? "the peer says that we" : "the peer", s->peer_code);
		session_end(s, -EPROTO);
	}
}

/*
 * One turn: read, report, write. What owners do in response goes out in the same turn. A turn is
 * bounded in bytes and in time: the rest, to be reported or read, waits for the next turn, and all
 * other sessions run before it. Sessions that are late share the time of one turn, so that a node
 * with many connections does not get many turns.
 */
static void
session_turn(struct session *s, bool reading)
{
	int rc = 0, sent = 0;

	s->busy++;
	s->collecting = true;
	s->turn_ends_us = mono_us() + SESSION_TURN_US / MAX(s->budget->late, 1u);
	s->unread |= reading;
	if (s->unread && !s->behind && !session_rests(s)) {
		rc = session_read_wire(s);
		s->unread = rc > 0;
	}
	session_tell(s, rc < 0);
	s->collecting = false;
	if (!s->freed)
		sent = session_write_wire(s); /* a GOAWAY with the reason, when reading failed */
	if (!s->freed && !s->behind)
		session_tell(s, rc < 0); /* writable events, and streams that have ended */
	if (!s->freed) {
		session_set_late(s, rc >= 0 && ((s->unread && !session_rests(s)) || s->behind));
		if (s->late)
			session_kick(s);
		session_conclude(s, rc < 0 ? rc : sent);
		if (s->beaten && s->stats.streams == 0) {
			s->beaten = false;
			h2_rest(s->h2);
		}
	}
	session_leave(s);
}

static void
on_wire(void *arg)
{
	struct session *s = arg;

	if (session_rests(s) && !s->out_waits) { /* no event was asked for: the connection broke */
		s->busy++;
		session_end(s, -ECONNRESET);
		session_leave(s);
		return;
	}
	/* A session that is behind has one turn per loop turn, and no additional one for input that
	 * waits in the socket. */
	if (s->state != SESSION_ENDED && !(timer_active(s->kick) && (s->unread || s->behind)))
		session_turn(s, true);
}

static void
on_kick(void *arg)
{
	struct session *s = arg;

	if (s->state != SESSION_ENDED)
		session_turn(s, false);
}

static void
on_life(void *arg)
{
	struct session *s = arg;

	spare_release(&s->budget->spare);
	s->busy++;
	if (session_is_due(s))
		session_turn(s, true); /* data may have come while this program was stopped */
	if (s->state != SESSION_ENDED && session_is_dead(s)) {
		session_say_dead(s);
		session_end(s, -ETIMEDOUT);
	} else if (s->state != SESSION_ENDED) {
		if (s->bulk && s->ping_ms == 0)
			session_ping(s);
		session_look(s);
		if (s->silent != s->silent_told)
			session_kick(s);
	}
	session_leave(s);
}

static void
session_greet(struct session *s, bool says_beat)
{
	const struct h2_limits limits = {
		.streams = s->limits.max_streams,
		.window = STREAM_WINDOW_BASE,
		.head = HEAD_MAX,
		.head_free = HEAD_FREE,
		.table = 0, /* our header sections are few */
		.reset = 0, /* cancelled dials are normal */
		/* a peer that takes nothing for DEAD_MS is lost before it comes near this */
		.frames = (size_t)s->limits.max_streams * QUEUE_PER_STREAM + SESSION_QUEUE,
		.protocols = s->udp,
		.trusted = s->within,
		.extension = SESSION_FADING,
	};
	const struct h2_setup setup = {.role = s->server ? H2_SERVER : H2_CLIENT,
		.events = &frames_events,
		.arg = s,
		.limits = &limits};

	s->h2 = h2_new(&setup, s->heard_ms);
	session_window_init(s);
	/* measures the first round trip early */
	if (says_beat)
		session_say_beat(s);
	else
		h2_ping(s->h2, NULL);
	session_ping_sent(s);
}

int
session_new(const struct session_setup *setup, struct session **out)
{
	static const struct session_limits usual = {
		.max_streams = MAX_STREAMS, .ping_ms = PING_MS, .dead_ms = DEAD_MS};
	struct session *s = xcalloc(1, sizeof *s);

	s->loop = setup->loop;
	s->server = setup->role == SESSION_SERVER;
	s->wire = setup->wire;
	s->budget = setup->budget;
	s->squeeze = setup->squeeze;
	s->udp = setup->udp;
	s->patient = setup->patient;
	s->within = setup->within;
	s->slot = setup->slot;
	s->limits = setup->limits != NULL ? *setup->limits : usual;
	if (s->limits.probe_ms == 0)
		s->limits.probe_ms = PROBE_MS;
	s->events = setup->events;
	s->arg = setup->arg;
	s->heard_ms = loop_now_ms(s->loop);
	s->line = setup->line;
	if (setup->line != NULL && setup->says_beat)
		s->part = setup->follows ? LIFE_FOLLOWS : LIFE_KEEPS;
	TAILQ_INIT(&s->streams);
	TAILQ_INIT(&s->noted);
	TAILQ_INIT(&s->waiting);
	buf_init(&s->out, BUF_UNLIMITED); /* one frame beyond OUT_HIGH */
	session_greet(s, setup->says_beat);
	s->kick = timer_new(s->loop, on_kick, s);
	s->life = timer_new(s->loop, on_life, s);
	session_look(s);
	s->wire->arg = s;
	s->wire->on = on_wire;
	s->unread = true; /* data may have come before the watch started */
	session_kick(s);
	*out = s;
	return 0;
}

void
session_free(struct session **session)
{
	struct session *s = take_ptr(session);

	if (s == NULL)
		return;
	s->busy++;
	s->freed = true;
	session_shut(s);
	lose_streams(s);
	session_leave(s);
}

void
session_probe(struct session *s)
{
	if (s->state == SESSION_ENDED || s->silent || s->ping_ms != 0)
		return;
	session_ping(s);
	session_look(s);
}

bool
session_is_silent(const struct session *s)
{
	return s->silent;
}

bool
session_is_settled(const struct session *s)
{
	return s->settled;
}

int32_t
stream_id(const struct stream *st)
{
	return st->id;
}

bool
session_has(const struct session *s, const struct stream *st)
{
	return st->session == s;
}

bool
stream_is_within(const struct stream *st)
{
	return st->session != NULL && st->session->within;
}

bool
stream_is_udp(const struct stream *st)
{
	return st->udp;
}

bool
stream_is_silent(const struct stream *st)
{
	return st->session != NULL && st->session->silent;
}

void
session_drain(struct session *s)
{
	if (s->state >= SESSION_DRAINING)
		return;
	session_go(s, SESSION_DRAINING);
	/* A server announces it before it refuses a stream (RFC 9113 section 6.8); a client simply
	 * opens none. */
	if (s->server)
		h2_drain(s->h2);
	session_kick(s);
}

void
session_send_away(struct session *s)
{
	if (s->server || s->state >= SESSION_DRAINING)
		return;
	/* As a ping: after a client's GOAWAY nghttp2 no longer answers pings, but the end of the
	 * session waits for one. */
	h2_ping(s->h2, session_leaving);
	session_drain(s);
}

void
session_ask_anew(struct session *s)
{
	if (s->state == SESSION_ENDED)
		return;
	h2_ping(s->h2, session_asking);
	session_kick(s);
}

const struct session_stats *
session_stats(const struct session *s)
{
	return &s->stats;
}

void
session_stats_add(struct session_stats *to, const struct session_stats *s)
{
	to->opened += s->opened;
	to->accepted += s->accepted;
	to->refused += s->refused;
	to->resets_sent += s->resets_sent;
	to->resets_received += s->resets_received;
	to->bytes_in += s->bytes_in;
	to->bytes_out += s->bytes_out;
	to->stalls += s->stalls;
	to->pings += s->pings;
	to->saved += s->saved;
	to->useless += s->useless;
	to->rests += s->rests;
	to->streams += s->streams;
}
