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
	HEADER_LIST_MAX = 8 * 1024,
	/* cancelled dials are normal: no limit that a well-behaved peer reaches */
	RESET_BURST = 1000000,
	RESET_RATE = 100000,
	QUEUE_PER_STREAM = 16, /* frames: an answer, window updates in eighths, a reset */
	QUEUE_LEAST = 4096, /* plus frames of streams that are gone */
};

const uint8_t session_parting[8] = "parting";
const uint8_t session_leaving[8] = "leaving";
const uint8_t session_asking[8] = "reach";

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
	nghttp2_session_del(s->ng);
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
	liveness_leave(&s->line);
	spare_release(&s->budget->spare);
	if (s->kick != NULL)
		timer_free(&s->kick);
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
			nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, session_parting);
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
	bool idle = buf_len(&s->out) == 0 && !s->out_waits && !nghttp2_session_want_write(s->ng);

	if (session_drained(s) && (rc == -ECONNRESET || (session_parted(s) && idle))) {
		s->why[0] = '\0';
		session_end(s, 0);
	} else if (rc < 0) {
		session_end(s, s->flooded ? -EDQUOT : rc);
	} else if (idle && !session_drains(s) && !nghttp2_session_want_read(s->ng)) {
		snprintf(s->why, sizeof s->why, "%s broke the rules of HTTP/2 (code %u)",
			s->peer_code != 0 ? "the peer says that we" : "the peer", s->peer_code);
		session_end(s, -EPROTO);
	}
}

/* A peer that reads nothing, and makes us send answers without end by streams that it resets, would
 * fill our memory: frames queued in nghttp2 count in no window. No well-behaved peer comes near the
 * limit: one that takes nothing for DEAD_MS is lost anyway. */
static int
bound_queue(struct session *s)
{
	size_t most = (size_t)s->limits.max_streams * QUEUE_PER_STREAM + QUEUE_LEAST;

	if (!s->out_waits || nghttp2_session_get_outbound_queue_size(s->ng) <= most)
		return 0;
	snprintf(s->why, sizeof s->why, "the peer takes none of more than %zu frames", most);
	return -EPROTO;
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
	if (s->unread && !s->behind) {
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
		session_set_late(s, rc >= 0 && (s->unread || s->behind));
		if (s->late)
			session_kick(s);
		if (rc >= 0 && sent == 0)
			sent = bound_queue(s);
		session_conclude(s, rc < 0 ? rc : sent);
	}
	session_leave(s);
}

static void
on_wire(void *arg)
{
	struct session *s = arg;

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

static int
make_http2(struct session *s)
{
	nghttp2_session_callbacks *callbacks = NULL;
	nghttp2_option *option = NULL;
	int rc = -ENOMEM;

	if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0)
		goto out;
	frames_set(callbacks);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	nghttp2_option_set_peer_max_concurrent_streams(option, s->limits.max_streams);
	nghttp2_option_set_user_recv_extension_type(option, SESSION_FADING);
	nghttp2_option_set_stream_reset_rate_limit(option, RESET_BURST, RESET_RATE);
	/* our header sections are few */
	nghttp2_option_set_max_deflate_dynamic_table_size(option, 0);
	session_memory_init(&s->memory);
	if ((s->server ? nghttp2_session_server_new3 : nghttp2_session_client_new3)(
		    &s->ng, callbacks, s, option, &s->memory.calls) == 0)
		rc = 0;
out:
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
	return rc;
}

static int
say_hello(struct session *s, bool says_beat)
{
	nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, s->limits.max_streams},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BASE},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_MAX},
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0}, /* section 6.5.2: only clients send it */
	};
	size_t n = ARRAY_LEN(settings);

	if (s->server && s->udp)
		settings[n - 1] =
			(nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1};
	else if (s->server)
		n--;

	if (nghttp2_submit_settings(s->ng, NGHTTP2_FLAG_NONE, settings, n) != 0 ||
		session_window_init(s) < 0)
		return -EINVAL;
	/* measures the first round trip early */
	if (says_beat)
		session_say_beat(s);
	else
		nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, NULL);
	session_ping_sent(s);
	return 0;
}

int
session_new(const struct session_setup *setup, struct session **out)
{
	static const struct session_limits usual = {MAX_STREAMS, PING_MS, DEAD_MS, PROBE_MS};
	struct session *s = xcalloc(1, sizeof *s);
	int rc;

	s->loop = setup->loop;
	s->server = setup->role == SESSION_SERVER;
	s->wire = setup->wire;
	s->budget = setup->budget;
	s->squeeze = setup->squeeze;
	s->udp = setup->udp;
	s->limits = setup->limits != NULL ? *setup->limits : usual;
	if (s->limits.probe_ms == 0)
		s->limits.probe_ms = PROBE_MS;
	s->events = setup->events;
	s->arg = setup->arg;
	s->heard_ms = loop_now_ms(s->loop);
	if (setup->liveness != NULL)
		liveness_join(setup->liveness, setup->peer, &s->line, s->heard_ms);
	if (setup->liveness != NULL && setup->says_beat)
		s->part = setup->follows ? LIFE_FOLLOWS : LIFE_KEEPS;
	TAILQ_INIT(&s->streams);
	TAILQ_INIT(&s->noted);
	TAILQ_INIT(&s->waiting);
	frame_budget_init(&s->frames, s->server ? NGHTTP2_CLIENT_MAGIC_LEN : 0, s->heard_ms);
	buf_init(&s->out, BUF_UNLIMITED); /* one frame beyond OUT_HIGH */
	rc = make_http2(s);
	if (rc == 0)
		rc = say_hello(s, setup->says_beat);
	if (rc < 0) {
		session_shut(s);
		session_release(s);
		return rc;
	}
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
		nghttp2_submit_shutdown_notice(s->ng);
	session_kick(s);
}

void
session_send_away(struct session *s)
{
	if (s->server || s->state >= SESSION_DRAINING)
		return;
	/* As a ping: after a client's GOAWAY nghttp2 no longer answers pings, but the end of the
	 * session waits for one. */
	nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, session_leaving);
	session_drain(s);
}

void
session_ask_anew(struct session *s)
{
	if (!s->server || s->state == SESSION_ENDED)
		return;
	nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, session_asking);
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
	to->streams += s->streams;
}
