/*
 * Two sessions that face each other, over a pair of sockets or over TLS on loopback, on one loop;
 * and a list of the streams that the server's side has been offered. Nothing is left when bed_fini
 * returns: descriptors are counted.
 */
#ifndef EDGEWAY_TESTS_UNIT_TUNNEL_H2_TUNNEL_BED_H
#define EDGEWAY_TESTS_UNIT_TUNNEL_H2_TUNNEL_BED_H

#include "base/core/sock.h"
#include "tests/unit/patience.h"
#include "tunnel/h2/session.h"

enum { BED_STREAMS = 2048 };

struct end { /* of one stream, as its owner */
	struct bed *bed;
	struct stream *st;
	char authority[300], field[64], reason[256];
	unsigned status, code;
	size_t got;
	uint64_t sum;
	bool stalled; /* never consumes */
	bool echo; /* writes back what comes, and ends when the other has */
	bool eof, reset;
	bool close_on_reset;
};

struct bed {
	struct loop *loop;
	struct session_budget near_budget, far_budget;
	struct session_limits limits;
	struct session *near, *far; /* client and server of HTTP/2 */
	int near_rc, far_rc; /* 1: not ended */
	char near_why[128], far_why[128];
	unsigned drains, asks;
	struct end *ends[BED_STREAMS]; /* the server's, in the order of their coming */
	unsigned n_ends;
	unsigned refuse_with; /* status for what comes */
	bool silent; /* no answer is given */
	int descriptors;
	/* Instead of making an end of one's own */
	bool (*take)(struct bed *b, struct stream *st);
};

extern unsigned bed_resets_per_s; /* a limit of the next server; 0: none */

/* Plain sockets; tls: with the roles turned (the server of HTTP/2 has dialled). */
void bed_init(struct bed *b, bool tls);
/* How many streams each end takes. */
void bed_init_limits(struct bed *b, bool tls, unsigned near, unsigned far);
/* Over TLS, and both ends want clear text smaller. */
void bed_init_squeezed(struct bed *b);
void bed_fini(struct bed *b);
/* The client's streams that are still there go as well. */
void bed_fini_open(struct bed *b, struct end *ends, unsigned n);
void bed_open(struct bed *b, struct end *e, const char *authority);
void bed_write(struct end *e, size_t n);
/* Takes what has come, as on `readable`: for an end that is stalled no more. */
void bed_move(struct end *e);
#define bed_until(b, condition) patience_until(bed_wait(b), condition)
/* One turn, and a pause. */
void bed_wait(struct bed *b);
int bed_descriptors(void);
/* A connection on loopback: who dialled, who accepted. */
void bed_tcp_pair(int fd[2]);

#endif
