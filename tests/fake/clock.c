#include "tests/fake/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CALLS_A_PAUSE = 2, S_US = 1000 * 1000 };

static _Atomic uint64_t passed_us;

static int
real_time(clockid_t id, struct timespec *to)
{
	return (int)syscall(SYS_clock_gettime, id, to);
}

/* What the clock showed when it was asked first. Libraries ask before main. */
static uint64_t
start_us(bool wall)
{
	static _Atomic uint64_t starts[2];
	uint64_t start = atomic_load(&starts[wall]), none = 0;
	struct timespec ts;

	if (start != 0)
		return start;
	real_time(wall ? CLOCK_REALTIME : CLOCK_MONOTONIC, &ts);
	start = (uint64_t)ts.tv_sec * S_US + (uint64_t)ts.tv_nsec / 1000;
	return atomic_compare_exchange_strong(&starts[wall], &none, start) ? start : none;
}

void
clock_pass(uint64_t us)
{
	atomic_fetch_add(&passed_us, us);
}

int
clock_gettime(clockid_t id, struct timespec *to)
{
	bool wall = id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
	uint64_t us;

	if (!wall && id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE)
		return real_time(id, to);
	us = start_us(wall) + atomic_load(&passed_us);
	*to = (struct timespec){.tv_sec = (time_t)(us / S_US), .tv_nsec = (long)(us % S_US) * 1000};
	return 0;
}

time_t
time(time_t *to)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (to != NULL)
		*to = ts.tv_sec;
	return ts.tv_sec;
}

int
usleep(useconds_t us)
{
	static _Atomic unsigned calls;
	const struct timespec shortest = {.tv_nsec = 1};

	clock_pass(us);
	return atomic_fetch_add(&calls, 1) % CALLS_A_PAUSE == 0 ? nanosleep(&shortest, NULL) : 0;
}
