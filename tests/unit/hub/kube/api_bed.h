/*
 * An API server that says what a test wrote down, on 127.0.0.1 and the test's own loop, and a
 * reflector of one resource that reads from it. Answers are given in order, whole answers with
 * their heads: recordings of a real server (tests/data/kubernetes), or made by api_json. Everything
 * asserts.
 *
 *	api_say(b, (struct said){.text = recording, .len = n, .piece = 1});
 *	api_begin(b, KUBE_SERVICE, 0);
 *	api_until(b, b->reflector lists...);
 */
#ifndef EDGEWAY_TESTS_API_BED_H
#define EDGEWAY_TESTS_API_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hub/kube/reflector.h"
#include "tests/unit/patience.h"

enum { API_ANSWERS = 64 };

struct said {
	const char *text; /* head and body; borrowed */
	size_t len;
	size_t piece; /* bytes at a time; 0: all at once */
	size_t border; /* first piece, before the others */
	/* then silent, with the connection open; else it is closed when the head says no length */
	bool hold;
	bool cut; /* then closed */
};

struct api_bed {
	char dir[64];
	struct loop *loop;
	struct cluster *cluster;
	struct kube_api *api;
	struct reflector *reflector;
	int listener, peer; /* one connection at a time; -1: none */
	struct buf in;
	struct said says[API_ANSWERS];
	size_t n_says, at; /* at: the one to be given next */
	size_t sent; /* of the answer under way */
	bool answering;
	char requests[API_ANSWERS][512]; /* request lines */
	size_t n_requests;
	size_t least; /* fewest objects ever seen once there were some */
	enum kube_kind kind;
};

/* The answer's bytes as recorded. */
char *api_recording(const char *name, size_t *len);
char *api_json(int status, const char *body);
void api_say(struct api_bed *b, struct said said);
void api_say_recorded(struct api_bed *b, const char *name, size_t piece);
/* A body of the test's own; kept until the bed ends. */
void api_say_json(struct api_bed *b, int status, const char *body);
void api_begin(struct api_bed *b, enum kube_kind kind, uint64_t silence_ms);
void api_turn(struct api_bed *b);
/* Forgets what was said and asked, and the reflector with its cluster. */
void api_reset(struct api_bed *b);
int api_setup(void **state);
int api_teardown(void **state);

#define api_until(b, condition)                                                                    \
	do {                                                                                       \
		for (unsigned turns_ = 0; !(condition) && turns_ < PATIENCE_TURNS; turns_++)       \
			api_turn(b);                                                               \
		if (!(condition))                                                                  \
			fail_msg("%s:%d: not in time: %s; problem: %s", __FILE__, __LINE__,        \
				#condition, reflector_problem((b)->reflector));                    \
	} while (0)

#endif
