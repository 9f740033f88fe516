/*
 * Detects a peer that is gone. Any byte from it is a sign of life. A peer that owes the answer to
 * the opening of a stream gets a ping soon. One that is not answered within probe_ms makes the
 * session silent: streams are then opened elsewhere if there is another route, but nothing is cut
 * before dead_ms, since a path may stall for some seconds and recover. A session that is behind
 * reads nothing, so its peer cannot be heard: it is then neither silent nor dead.
 *
 * A peer that sends nothing is asked in one of two ways. By pings alone (LIFE_PINGS): one each
 * heartbeat; dead after dead_ms without a byte. Or, where no stream is open and none was used for
 * USED_MS, on plain TCP between two ends that agree on it
 * (base/core/liveness.h): one end has the kernel probe (LIFE_KEEPS; LIFE_FOLLOWS a moment later,
 * so usually not at all), the other one sees the probes (LIFE_WATCHES); where a probe is missing
 * both ping, and without an answer the link is dead 900 ms after dead_ms. A ping asks the program
 * every LIVENESS_PROGRAM_BEATS heartbeats; it is dead as without probes.
 *
 *	ms since the peer was heard, with a heartbeat of 4 s
 *	8600 probe   9000 watcher's ping   9200 keeper's ping   9900 dead
 */
#include "tunnel/h2/session_private.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/core/sock.h"

enum {
	BEAT_LEAST_MS = 100,
	BEAT_MOST_MS = 5 * 60 * 1000,
	RTT_TIMES = 4, /* times the round trip: a path with a long one is not silent */
	/* of a kept connection, relative to dead_ms */
	PROBE_BEFORE_MS = 400,
	FOLLOW_BEFORE_MS = 50,
	KEEPER_PINGS_MS = 200,
	LINK_DEAD_MS = 900,
	STALL_MS = 500,
	USED_MS = 60 * 1000,
	PROBED_LOOK_MS = 100, /* until a probe is answered */
};

/* Mark a ping that carries the heartbeat of its sender, ms in network byte order; and that it keeps
 * the connection by probes. */
static const uint8_t beat[4] = {'b', 'e', 'a', 't'};
static const uint8_t kept[4] = {'k', 'e', 'p', 't'};

void
session_heed_beat(struct session *s, const uint8_t payload[8])
{
	const bool is_kept = memcmp(payload, kept, sizeof kept) == 0;
	uint32_t ms;

	memcpy(&ms, payload + sizeof ms, sizeof ms);
	ms = ntohl(ms);
	if ((!is_kept && memcmp(payload, beat, sizeof beat) != 0) || ms < BEAT_LEAST_MS ||
		ms > BEAT_MOST_MS || s->part == LIFE_KEEPS || s->part == LIFE_FOLLOWS)
		return;
	/* longer than the sender's, or both would ping at the same moment */
	s->limits.ping_ms = ms + ms / 8;
	s->limits.dead_ms = 2 * ms + 1000;
	if (is_kept && s->line != NULL)
		s->part = LIFE_WATCHES;
	session_look(s);
}

static void
life_say(struct session *s, const uint8_t mark[4])
{
	uint32_t ms = htonl(s->limits.ping_ms);
	uint8_t payload[H2_PING_BYTES];

	memcpy(payload, mark, sizeof ms);
	memcpy(payload + sizeof ms, &ms, sizeof ms);
	h2_ping(s->h2, payload);
}

void
session_say_beat(struct session *s)
{
	life_say(s, beat);
	if (s->part != LIFE_PINGS)
		life_say(s, kept);
}

/* How long to wait for an answer that takes no work. */
static uint64_t
life_patience_ms(const struct session *s)
{
	return MAX(
		(uint64_t)s->limits.probe_ms, (uint64_t)RTT_TIMES * conn_window_rtt(&s->reception));
}

/* When an outstanding ping should have been answered, and when the next one is due; UINT64_MAX:
 * never. To a patient session a peer that has not sent its SETTINGS yet is not silent: after a hub
 * was lost, the next hub may have a thousand handshakes to do first. */
static uint64_t
life_silent_at(const struct session *s)
{
	if (s->ping_ms == 0 || s->silent || (s->patient && s->state == SESSION_HANDSHAKE))
		return UINT64_MAX;
	return MAX(MAX(s->ping_ms, s->heard_ms), s->drained_ms) + life_patience_ms(s);
}

static bool
life_keeps(const struct session *s)
{
	return s->part == LIFE_KEEPS || s->part == LIFE_FOLLOWS;
}

/* Callers that are there, or were a moment ago, find a lost peer sooner. */
static bool
life_is_in_use(const struct session *s)
{
	return s->stats.streams > 0 ||
		(s->used_ms != 0 && loop_now_ms(s->loop) - s->used_ms < USED_MS);
}

/* When a ping is due on a connection that waits for nothing. */
static uint64_t
life_idle_ping_at(const struct session *s)
{
	uint64_t at;

	if (s->part == LIFE_PINGS || life_is_in_use(s))
		return s->heard_ms + s->limits.ping_ms;
	at = liveness_link_ms(s->line) + s->limits.dead_ms + (life_keeps(s) ? KEEPER_PINGS_MS : 0);
	at = MIN(at,
		liveness_program_ms(s->line) +
			(uint64_t)LIVENESS_PROGRAM_BEATS * s->limits.ping_ms +
			(s->part == LIFE_FOLLOWS ? LIVENESS_LOOK_MS : 0));
	/* link and program times are shared with other connections, this one's NAT entry is not */
	return life_keeps(s) ? MIN(at, s->line->heard_ms + LIVENESS_NAT_MS) : at;
}

static uint64_t
life_ping_at(const struct session *s)
{
	if (s->ping_ms != 0)
		return UINT64_MAX;
	return MIN(life_idle_ping_at(s),
		s->asked_ms != 0 ? s->asked_ms + life_patience_ms(s) : UINT64_MAX);
}

/* When nothing can be expected any more: of the link, of the program. */
static uint64_t
life_dead_at(const struct session *s)
{
	uint64_t at = s->heard_ms + s->limits.dead_ms;

	if (s->part == LIFE_PINGS)
		return at;
	/* the time between a ping and the end, as it is without probes */
	at = s->ping_ms == 0
		? UINT64_MAX
		: MAX(at, MAX(s->ping_ms, s->heard_ms) + s->limits.dead_ms - s->limits.ping_ms);
	return MIN(at, liveness_link_ms(s->line) + s->limits.dead_ms + LINK_DEAD_MS);
}

static int
life_fd(const struct session *s)
{
	return s->wire != NULL && s->wire->ops->fd != NULL ? s->wire->ops->fd(s->wire) : -1;
}

unsigned
session_paths(const struct session *s)
{
	return sock_paths(life_fd(s));
}

bool
session_paths_use(const struct session *s, const struct in6_addr *local)
{
	return sock_paths_use(life_fd(s), local);
}

bool
session_paths_lost(struct session *s, struct in6_addr *local)
{
	const bool lost = sock_paths_lost(&s->paths, life_fd(s), loop_now_ms(s->loop), local);

	if (s->paths.stopped && s->state != SESSION_ENDED) {
		h2_ping(s->h2, NULL); /* also while another one is not answered */
		session_kick(s);
	}
	return lost;
}

bool
session_is_rerouted(const struct session *s)
{
	return sock_rerouted(life_fd(s));
}

bool
session_is_dead(const struct session *s)
{
	return !s->behind && loop_now_ms(s->loop) >= life_dead_at(s);
}

void
session_say_dead(struct session *s)
{
	uint64_t now = loop_now_ms(s->loop);
	const uint64_t link_ago = s->part != LIFE_PINGS ? liveness_link_ago_ms(s->line, now) : 0;
	const bool link = link_ago >= (uint64_t)s->limits.dead_ms + LINK_DEAD_MS;

	snprintf(s->why, sizeof s->why, "nothing was heard for %llu ms%s",
		(unsigned long long)(link ? link_ago : now - s->heard_ms),
		s->part == LIFE_PINGS ? ""
			: link        ? ", not even by its kernel"
				      : ", though its machine acknowledges what is sent to it");
}

bool
session_is_due(struct session *s)
{
	uint64_t now = loop_now_ms(s->loop);

	/* Probes came unseen while this program was stopped. */
	if (s->part != LIFE_PINGS && s->look_ms != 0 && now > s->look_ms + STALL_MS)
		liveness_doubt(s->line, now - MIN(now, (uint64_t)s->limits.dead_ms));
	return session_is_dead(s) || now >= life_silent_at(s) || now >= life_ping_at(s);
}

/* Looks what the kernel has received, and has it probe when it is time. Returns when to look
 * again. */
static uint64_t
life_look_at_link(struct session *s, uint64_t now)
{
	uint64_t at;

	if (s->part == LIFE_PINGS)
		return UINT64_MAX;
	liveness_look(s->line, life_fd(s), now);
	at = liveness_link_ms(s->line) + s->limits.dead_ms - PROBE_BEFORE_MS;
	if (s->part == LIFE_FOLLOWS)
		at += PROBE_BEFORE_MS - FOLLOW_BEFORE_MS;
	if (s->part == LIFE_WATCHES)
		return MAX(at - LIVENESS_EARLY_MS, now + LIVENESS_LOOK_MS);
	if (now < at)
		return at;
	if (s->line->probing_ms == 0 && s->ping_ms == 0 && !s->behind &&
		!liveness_probe(s->line, life_fd(s), now))
		session_ping(s);
	return now + PROBED_LOOK_MS;
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
	uint64_t now = loop_now_ms(s->loop), next = life_look_at_link(s, now);

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
	next = MIN(next, s->behind ? now + s->limits.dead_ms : life_dead_at(s));
	next = MIN(MIN(life_ping_at(s), life_silent_at(s)), next);
	/* A ping that is outstanding may be answered meanwhile, and bulk is measured by them. */
	if (s->ping_ms != 0 || s->bulk || life_is_in_use(s))
		next = MIN(next, now + s->limits.ping_ms);
	s->look_ms = MAX(next, now + 1);
	timer_start(s->life, s->look_ms - now, 0);
}

void
session_heard(struct session *s)
{
	s->heard_ms = loop_now_ms(s->loop);
	if (s->line != NULL)
		liveness_heard(s->line, s->heard_ms);
	s->asked_ms = 0;
	s->silent = false;
}

void
session_look_sooner(struct session *s)
{
	if (life_ping_at(s) < s->look_ms)
		session_look(s);
}

void
session_asked(struct session *s)
{
	s->used_ms = MAX(loop_now_ms(s->loop), (uint64_t)1);
	if (s->asked_ms != 0)
		return;
	s->asked_ms = MAX(loop_now_ms(s->loop), (uint64_t)1);
	session_look_sooner(s);
}
