/*
 * What the files behind forward.h share: forward.c is the life of a question, forward_use.c changes
 * the upstreams beneath open ones. One worker's loop.
 */
#ifndef EDGEWAY_DNS_FORWARD_FORWARD_PRIVATE_H
#define EDGEWAY_DNS_FORWARD_FORWARD_PRIVATE_H

#include "dns/forward/forward.h"

struct question;

/* How a question goes to an upstream. */
enum ask_how {
	ASK_MIXED, /* by UDP, letters in random case (0x20), which an answer must keep */
	ASK_TCP, /* the same by TCP, since an answer by UDP did not: any case will do */
	ASK_PLAIN, /* by UDP in lower case: any case will do */
};

/* One upstream being asked one question; outlives the question when another was faster. */
struct ask {
	struct ask *next; /* of the same question */
	struct question *question; /* NULL: settled */
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
	unsigned asked; /* bit per upstream */
	unsigned waiting; /* asks without an outcome */
	bool bad; /* somebody said no */
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

/* One more upstream, or wait for those asked. */
void forward_go_on(struct question *q);
/* The next pulse of an upstream is due in so many ms at the latest. */
void forward_beat_within(struct forward *f, uint64_t ms);
/* Of u in f->up, where it is. */
unsigned forward_index(const struct forward *f, const struct upstream *u);

#endif
