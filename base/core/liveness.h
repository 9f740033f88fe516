/*
 * One judgement on a peer for all connections to it. Connections that lead to the same peer share
 * what is known: when the peer's kernel was last heard, be it by a keep-alive probe or an
 * acknowledgement alone, and when its program was. So one connection asks for all, and none is
 * given up while another one lives.
 *
 * An idle connection costs a keep-alive probe of the kernel and its answer (104 bytes of IP with
 * timestamps) where a ping of ours costs 235 with TLS and acknowledgements. Probes tell nothing
 * about the program; a ping does that, rarely, and whenever an answer is awaited.
 *
 * One end keeps the connections: it probes after silence_ms. The other end looks for the probes,
 * which the kernel answers unseen, by counting segments: from `silence_ms - LIVENESS_EARLY_MS` on,
 * every LIVENESS_LOOK_MS. Plain TCP from end to end only: a proxy would answer the probes itself.
 *
 * Joining and leaving are on one loop. Until it leaves, a connection may be on another one: of what
 * the connections share that changes only times, which are atomic, and may be later than the
 * reader's clock: subtract them from nothing. The table outlives the lines.
 *
 *	liveness_join(table, "192.0.2.1:10000", &line, now);
 *	liveness_look(&line, fd, now);	// then: liveness_link_ago_ms(&line, now)
 */
#ifndef EDGEWAY_BASE_CORE_LIVENESS_H
#define EDGEWAY_BASE_CORE_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

struct liveness;
struct liveness_peer;

enum {
	LIVENESS_EARLY_MS = 300, /* before a probe is expected */
	LIVENESS_LOOK_MS = 200,
	/* each connection itself carries something so often, or NATs forget it (RFC 5382: hours;
	 * of those in use some forget after five minutes and more) */
	LIVENESS_NAT_MS = 290 * 1000,
	LIVENESS_PROGRAM_BEATS = 15, /* heartbeats after which the peer's program is asked */
};

/* One connection. All zero: it has not joined, and nothing but liveness_leave may be called. */
struct liveness_line {
	struct liveness_peer *peer;
	uint64_t heard_ms; /* on this connection, bytes or not */
	uint64_t looked_ms;
	uint64_t probing_ms; /* since when the kernel probes; 0: it does not */
	uint32_t segments;
};

struct liveness *liveness_new(void);
void liveness_free(struct liveness **l);
/* The connection was opened now. */
void liveness_join(
	struct liveness *l, const char *peer, struct liveness_line *line, uint64_t now_ms);
void liveness_leave(struct liveness_line *line);

/* Bytes of the peer's program have come. */
void liveness_heard(struct liveness_line *line, uint64_t now_ms);
/* Asks the kernel what it has received; ends the probing once there is something. */
void liveness_look(struct liveness_line *line, int fd, uint64_t now_ms);
/* For a while nobody looked: the peer counts as heard at this time at the latest. */
void liveness_doubt(struct liveness_line *line, uint64_t at_ms);
/* Has the kernel probe the peer now, and each second until something comes. False: this socket
 * cannot. */
bool liveness_probe(struct liveness_line *line, int fd, uint64_t now_ms);
/* When something came on any connection of this peer: anything; bytes of its program. */
uint64_t liveness_link_ms(const struct liveness_line *line);
uint64_t liveness_program_ms(const struct liveness_line *line);
/* How long ago that was. 0: another loop, whose clock was read later, has heard it since now_ms. */
uint64_t liveness_link_ago_ms(const struct liveness_line *line, uint64_t now_ms);
uint64_t liveness_program_ago_ms(const struct liveness_line *line, uint64_t now_ms);
/* Returns true if the peer has no other connection that has joined. */
bool liveness_alone(const struct liveness_line *line);

#endif
