/*
 * A clock that goes on only while a test pauses, for programs on one thread: a busy machine makes a
 * test take longer, and nothing in it late. Linking this file is all that it takes. Its
 * clock_gettime, time and usleep come before libc's for our code and for the libraries beside it
 * (libuv, c-ares, OpenSSL): CLOCK_MONOTONIC and CLOCK_REALTIME begin with what they really are, and
 * then stand still but for usleep, which lets its time pass and really pauses now and then only, so
 * that the kernel has a turn too. A wait of so many milliseconds is therefore one of so many turns
 * of the test's loop, and takes a small part of the time.
 *
 * Not for what waits for time in the kernel (epoll_wait with a time-out, SO_RCVTIMEO, timed locks),
 * which goes by the real clock, nor for libwebsockets, which asks gettimeofday too.
 *
 *	while (mono_ms() < until) {
 *		loop_turn(loop);
 *		usleep(500);
 *	}
 */
#ifndef EDGEWAY_TESTS_FAKE_CLOCK_H
#define EDGEWAY_TESTS_FAKE_CLOCK_H

#include <stdint.h>

/* Without any pause. Any thread. */
void clock_pass(uint64_t us);

#endif
