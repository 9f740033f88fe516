/*
 * Shared by the files behind forward.h: forward.c is the life cycle of a question, forward_use.c
 * changes the upstreams while questions are open. One worker's loop.
 */
#ifndef EDGEWAY_DNS_FORWARD_FORWARD_PRIVATE_H
#define EDGEWAY_DNS_FORWARD_FORWARD_PRIVATE_H

#include "dns/forward/forward.h"

struct question;

/* How a question goes to an upstream. */
enum ask_how {
	ASK_MIXED, /* by UDP, letters in random case (0x20), which an answer must keep */
	ASK_TCP, /* the same by TCP, because a UDP answer did not keep it: any case is accepted */
	ASK_PLAIN, /* by UDP in lower case: any case is accepted */
};

/* One upstream being asked one question; outlives the question if another upstream was faster. */
struct ask {
	struct ask *next; /* of the same question */
	struct question *question; /* NULL: the question has ended */
	struct forward *f;
	struct upstream *u;
	uint64_t start_ms;
	enum ask_how how;
	bool wanted; /* the question ended without an answer */
	size_t len;
	uint8_t sent[];
};

struct question {
	struct question *prev, *next;
	struct forward *f;
	forward_fn *fn;
	void *arg;
	struct timer *timer;
	uint64_t start_ms;
	struct ask *asks;
	unsigned asked; /* one bit per upstream */
	unsigned waiting; /* asks without an outcome */
	bool bad; /* an upstream sent an error or an unusable answer */
	size_t len;
	uint8_t bytes[];
};

struct forward {
	struct loop *loop;
	uint32_t mark;
	struct upstream *up[FORWARD_UPSTREAMS_MAX];
	size_t n;
	struct timer *beat;
	uint64_t beat_at_ms;
	struct question *questions;
	size_t n_open;
	forward_late_fn *late;
	void *late_arg;
	struct forward_counters *count;
};

/* Asks one more upstream, or waits for those already asked. */
void forward_go_on(struct question *q);
/* Makes sure that the next pulse check of the upstreams runs within so many ms. */
void forward_beat_within(struct forward *f, uint64_t ms);
/* Index of u in f->up, which must hold it. */
unsigned forward_index(const struct forward *f, const struct upstream *u);

#endif
