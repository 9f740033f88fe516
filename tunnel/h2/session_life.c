/*
 * Detects a peer that is gone. Any byte from it is a sign of life. An idle peer gets a ping each
 * heartbeat; a peer that owes the answer to the opening of a stream gets one sooner. A ping that is
 * not answered within probe_ms makes the session silent: streams are then opened elsewhere if there
 * is another route, but nothing is cut before dead_ms, since a path may stall for some seconds and
 * recover. A session that is behind reads nothing, so its peer cannot be heard: it is then neither
 * silent nor dead.
 */
#include "tunnel/h2/session_private.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/core/sock.h"

enum {
	BEAT_LEAST_MS = 100,
	BEAT_MOST_MS = 5 * 60 * 1000,
	RTT_TIMES = 4, /* times the round trip: a path with a long one is not silent */
};

/* Marks a ping that carries a server's heartbeat, ms in network byte order. */
static const uint8_t beat[4] = {'b', 'e', 'a', 't'};

void
session_heed_beat(struct session *s, const uint8_t payload[8])
{
	uint32_t ms;

	memcpy(&ms, payload + sizeof ms, sizeof ms);
	ms = ntohl(ms);
	if (s->server || memcmp(payload, beat, sizeof beat) != 0 || ms < BEAT_LEAST_MS ||
		ms > BEAT_MOST_MS)
		return;
	/* longer than the server's, or both would ping at the same moment */
	s->limits.ping_ms = ms + ms / 8;
	s->limits.dead_ms = 2 * ms + 1000;
	session_look(s);
}

void
session_say_beat(const struct session *s, uint8_t payload[8])
{
	uint32_t ms = htonl(s->limits.ping_ms);

	memcpy(payload, beat, sizeof beat);
	memcpy(payload + sizeof beat, &ms, sizeof ms);
}

/* How long to wait for an answer that takes no work. */
static uint64_t
life_patience_ms(const struct session *s)
{
	return MAX(
		(uint64_t)s->limits.probe_ms, (uint64_t)RTT_TIMES * conn_window_rtt(&s->reception));
}

/* When an outstanding ping should have been answered, and when the next one is due; UINT64_MAX:
 * never. A peer that has not sent its SETTINGS yet is not silent: after a hub was lost, the next
 * hub may have a thousand handshakes to do first. */
static uint64_t
life_silent_at(const struct session *s)
{
	if (s->ping_ms == 0 || s->silent || s->state == SESSION_HANDSHAKE)
		return UINT64_MAX;
	return MAX(MAX(s->ping_ms, s->heard_ms), s->drained_ms) + life_patience_ms(s);
}

static uint64_t
life_ping_at(const struct session *s)
{
	if (s->ping_ms != 0)
		return UINT64_MAX;
	return MIN(s->heard_ms + s->limits.ping_ms,
		s->asked_ms != 0 ? s->asked_ms + life_patience_ms(s) : UINT64_MAX);
}

static int
life_fd(const struct session *s)
{
	return s->wire != NULL && s->wire->ops->fd != NULL ? s->wire->ops->fd(s->wire) : -1;
}

bool
session_is_rerouted(const struct session *s)
{
	return sock_rerouted(life_fd(s));
}

bool
session_is_dead(const struct session *s)
{
	return !s->behind && loop_now_ms(s->loop) - s->heard_ms >= s->limits.dead_ms;
}

bool
session_is_due(const struct session *s)
{
	uint64_t now = loop_now_ms(s->loop);

	return session_is_dead(s) || now >= life_silent_at(s) || now >= life_ping_at(s);
}

static void
life_fall_silent(struct session *s)
{
	struct stream *st;

	s->silent = true;
	TAILQ_FOREACH(st, &s->streams, link)
		frames_hear_fading(st, true);
}

void
session_look(struct session *s)
{
	uint64_t now = loop_now_ms(s->loop), next;

	if (now >= life_ping_at(s))
		session_ping(s);
	if (now >= life_silent_at(s)) {
		if (s->unread || s->behind || /* input waits for its turn here */
			sock_drains(life_fd(s), (unsigned)life_patience_ms(s)))
			s->drained_ms = now;
		else
			life_fall_silent(s);
	}
	if (s->state == SESSION_PARTING)
		session_kick(s);
	next = (s->behind ? now : s->heard_ms) + s->limits.dead_ms;
	next = MIN(MIN(life_ping_at(s), life_silent_at(s)), next);
	next = MIN(
		next, now + s->limits.ping_ms); /* the outstanding ping may be answered meanwhile */
	s->look_ms = MAX(next, now + 1);
	timer_start(s->life, s->look_ms - now, 0);
}

void
session_heard(struct session *s)
{
	s->heard_ms = loop_now_ms(s->loop);
	s->asked_ms = 0;
	s->silent = false;
}

void
session_asked(struct session *s)
{
	if (s->asked_ms != 0)
		return;
	s->asked_ms = MAX(loop_now_ms(s->loop), (uint64_t)1);
	if (life_ping_at(s) < s->look_ms)
		session_look(s);
}
