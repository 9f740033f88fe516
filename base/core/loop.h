/*
 * The event loop (libuv behind it; no other file includes uv.h). One loop, one thread. Everything
 * here may be called only on the loop's own thread, except loop_new, loop_free, loop_post and,
 * before the loop runs, the functions that create watches and timers.
 *
 * A watch reports readiness of one descriptor, level-triggered. Leave WATCH_READ on; request
 * WATCH_WRITE only after EAGAIN. On WATCH_HUP read SO_ERROR. WATCH_HUP is always reported;
 * requested alone, it reports that the connection broke although nobody reads from it. WATCH_END
 * comes with WATCH_READ when the other side has sent its FIN: EOF follows what can be read. After
 * watch_stop / timer_free no callback comes, and the descriptor may be closed at once; both set the
 * owner's pointer to NULL.
 *
 *	struct watch *w = watch_start(loop, fd, WATCH_READ, on_ready, conn);
 *	watch_set(w, WATCH_READ | WATCH_WRITE);
 *	watch_stop(&w);
 */
#ifndef EDGEWAY_BASE_CORE_LOOP_H
#define EDGEWAY_BASE_CORE_LOOP_H

#include "base/core/err.h"

struct loop;
struct watch;
struct timer;
struct sigwatch;

enum { WATCH_READ = 1, WATCH_WRITE = 2, WATCH_HUP = 4, WATCH_END = 16 };

typedef void loop_fn(void *arg);
typedef void watch_fn(void *arg, int fd, unsigned events);

int loop_new(struct loop **loop, struct err *err);
/* The loop must not be running. Closes the remaining handles and runs their close callbacks. */
void loop_free(struct loop **loop);
/* Returns after loop_stop; at once if that came in a loop_turn before. */
void loop_run(struct loop *loop);
/* One turn without waiting, also within a callback: for tests and for shutting libraries down. */
void loop_turn(struct loop *loop);
void loop_stop(struct loop *loop);
/* Runs fn(arg) on the loop, in the order posted. Any thread. Posting after loop_free is a bug. */
void loop_post(struct loop *loop, loop_fn *fn, void *arg);
/* fn(arg) before each wait and after the watches that it has told, with none of their callbacks on
 * the stack; NULL: nothing any more. */
void loop_at_turn_end(struct loop *loop, loop_fn *fn, void *arg);
/* How long the loop's turns took: every event waits for the current turn to end. Any thread. */
enum { LOOP_SLOW = 3 };
struct loop_lag {
	uint64_t slow[LOOP_SLOW]; /* turns of more than 10 ms, 100 ms, 1 s */
	uint64_t worst_ms; /* the longest since the last call */
	uint64_t unwatched; /* times that the kernel had no room to watch a descriptor */
};
void loop_lag(struct loop *loop, struct loop_lag *to);
/* CLOCK_MONOTONIC in ms, read once per turn. */
uint64_t loop_now_ms(const struct loop *loop);
/* Counts the loop's looks for events: what a watch is told while this stays the same was so before
 * whatever was done meanwhile. */
uint64_t loop_looks(const struct loop *loop);
/* uv_loop_t *, for base/http/ws alone. */
void *loop_backend(struct loop *loop);

/* A descriptor that cannot be polled (a regular file) is a programming error. It does not block
 * from then on; with WATCH_UNBLOCKED it did not before, which saves a system call. The kernel is
 * told of all changes before the next wait. Stop a watch before its descriptor is closed: the
 * number may be another's by the next turn. */
enum { WATCH_UNBLOCKED = 8 };
struct watch *watch_start(struct loop *loop, int fd, unsigned events, watch_fn *fn, void *arg);
void watch_set(struct watch *w, unsigned events);
/* Watches on after a WATCH_HUP that did not end the descriptor: a netlink socket that has overrun
 * has an error until it is read. */
void watch_renew(struct watch *w);
/* on: its owner expects to stop it soon, so the kernel, if it has not been told of the watch yet,
 * is told up to 10 ms later: mostly never, which saves two system calls. Ends with watch_set. */
void watch_defer(struct watch *w, bool on);
void watch_stop(struct watch **w);

struct timer *timer_new(struct loop *loop, loop_fn *fn, void *arg);
/* Calls fn after delay_ms, then every repeat_ms (0: once; whole seconds: with others of the loop,
 * so the first period is 0.5 to 1.5 as long). Starting it again reschedules it. With
 * delay 0 it runs in the next turn of the loop, also when started in its own callback, so
 * descriptors are served in between. */
void timer_start(struct timer *t, uint64_t delay_ms, uint64_t repeat_ms);
void timer_cancel(struct timer *t);
bool timer_active(const struct timer *t);
void timer_free(struct timer **t);

struct sigwatch *signal_start(struct loop *loop, int signum, loop_fn *fn, void *arg);
void signal_stop(struct sigwatch **s);

#endif
