/*
 * How long a test waits for what must come: so many turns of its own, each with a pause, which are
 * a minute and more. A busy machine makes them late and not fewer, and only what hangs waits for
 * the last of them. Beside tests/fake/clock.c a pause is a part of its time.
 *
 *	patience_until(patience_turn(loop), calls == 1);
 */
#ifndef EDGEWAY_TESTS_UNIT_PATIENCE_H
#define EDGEWAY_TESTS_UNIT_PATIENCE_H

#include <unistd.h>

#include "base/core/loop.h"

enum { PATIENCE_TURNS = 120000, PATIENCE_PAUSE_US = 500 };

static inline void
patience_turn(struct loop *loop)
{
	loop_turn(loop);
	usleep(PATIENCE_PAUSE_US);
}

/* turn: one that pauses. */
#define patience_until(turn, condition)                                                            \
	do {                                                                                       \
		unsigned turns_ = 0;                                                               \
                                                                                                   \
		while (!(condition)) {                                                             \
			assert_true(turns_++ < PATIENCE_TURNS);                                    \
			turn;                                                                      \
		}                                                                                  \
	} while (0)

#endif
