#include "base/core/loop.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <unistd.h>
#include <uv.h>

#include "base/core/slab.h"

struct post {
	struct post *next;
	loop_fn *fn;
	void *arg;
};

struct timer {
	uv_timer_t uv;
	TAILQ_ENTRY(timer) soon;
	bool is_soon; /* is in its loop's `soon` list, not in libuv */
	uint64_t repeat_ms; /* 0: once */
	loop_fn *fn;
	void *arg;
};

TAILQ_HEAD(timer_ring, timer);

struct loop {
	uv_loop_t uv;
	uv_async_t wake;
	pthread_mutex_t lock; /* guards first, last */
	struct post *first;
	struct post **last;
	struct timer_ring soon; /* timers without delay: see run_soon */
	struct timer soon_end; /* marker after those of this turn */
	uv_idle_t running_soon;
	uv_prepare_t before_wait;
	uv_check_t after_wait;
	_Atomic uint64_t slow[LOOP_SLOW], worst_ms;
	int parked_fd; /* an epoll set of parked watches; -1: there was none yet */
	struct watch *parked_watch; /* of parked_fd */
	struct slab watches;
};

struct watch {
	watch_fn *fn;
	void *arg;
	int fd;
	unsigned events : 8;
	bool parked : 1;
};

struct polled_watch {
	struct watch watch; /* must be first */
	uv_poll_t uv;
};

struct parked_watch {
	struct watch watch; /* must be first */
	struct watch **owner;
	struct loop *loop;
};

struct sigwatch {
	uv_signal_t uv;
	loop_fn *fn;
	void *arg;
};

static void
loop_must(int rc, const char *what)
{
	if (rc < 0) {
		fprintf(stderr, "edgeway: %s: %s\n", what, uv_strerror(rc));
		abort();
	}
}

static void
run_posts(uv_async_t *wake)
{
	struct loop *loop = wake->data;
	struct post *all;

	pthread_mutex_lock(&loop->lock);
	all = loop->first;
	loop->first = NULL;
	loop->last = &loop->first;
	pthread_mutex_unlock(&loop->lock);
	while (all != NULL) {
		struct post *p = all;

		all = p->next;
		p->fn(p->arg);
		free(p);
	}
}

/* Timers without delay do not use libuv's timers: before 1.48, libuv runs a timer that restarts
 * itself in its own callback over and over, and serves no descriptor until that ends (libuv issue
 * 4245). Timers started meanwhile wait for the next turn. */
static void
run_soon(uv_idle_t *h)
{
	struct loop *loop = h->data;
	struct timer *t;

	TAILQ_INSERT_TAIL(&loop->soon, &loop->soon_end, soon);
	while ((t = TAILQ_FIRST(&loop->soon)) != &loop->soon_end) {
		uint64_t repeat_ms = t->repeat_ms;

		timer_cancel(t);
		if (repeat_ms > 0)
			timer_start(t, repeat_ms, repeat_ms);
		t->fn(t->arg);
	}
	TAILQ_REMOVE(&loop->soon, &loop->soon_end, soon);
	if (TAILQ_EMPTY(&loop->soon))
		uv_idle_stop(h);
}

/* uv_now was set when the part of the turn that ends now began. */
static void
loop_measure(struct loop *loop)
{
	static const uint64_t bounds[LOOP_SLOW] = {10, 100, 1000};
	uint64_t now = uv_hrtime() / 1000000, began = uv_now(&loop->uv);
	uint64_t took = now > began ? now - began : 0;

	if (took <= bounds[0])
		return;
	for (size_t i = 0; i < LOOP_SLOW; i++)
		if (took > bounds[i])
			atomic_fetch_add_explicit(&loop->slow[i], 1, memory_order_relaxed);
	if (took > atomic_load_explicit(&loop->worst_ms, memory_order_relaxed))
		atomic_store_explicit(&loop->worst_ms, took, memory_order_relaxed);
}

static void
on_before_wait(uv_prepare_t *h)
{
	loop_measure(h->data);
}

static void
on_after_wait(uv_check_t *h)
{
	loop_measure(h->data);
}

/* Timers run before the wait, descriptors and posts at its end. */
static void
start_measuring(struct loop *loop)
{
	loop->before_wait.data = loop->after_wait.data = loop;
	uv_prepare_init(&loop->uv, &loop->before_wait);
	uv_prepare_start(&loop->before_wait, on_before_wait);
	uv_unref((uv_handle_t *)&loop->before_wait);
	uv_check_init(&loop->uv, &loop->after_wait);
	uv_check_start(&loop->after_wait, on_after_wait);
	uv_unref((uv_handle_t *)&loop->after_wait);
}

void
loop_lag(struct loop *loop, struct loop_lag *to)
{
	for (size_t i = 0; i < LOOP_SLOW; i++)
		to->slow[i] = atomic_load_explicit(&loop->slow[i], memory_order_relaxed);
	to->worst_ms = atomic_exchange_explicit(&loop->worst_ms, 0, memory_order_relaxed);
}

int
loop_new(struct loop **out, struct err *err)
{
	struct loop *loop = xcalloc(1, sizeof *loop);
	int rc = uv_loop_init(&loop->uv);

	if (rc < 0) {
		free(loop);
		return err_set(err, rc, "event loop: %s", uv_strerror(rc));
	}
	pthread_mutex_init(&loop->lock, NULL);
	loop->last = &loop->first;
	loop->parked_fd = -1;
	loop->watches.size = sizeof(struct polled_watch);
	loop->wake.data = loop;
	loop_must(uv_async_init(&loop->uv, &loop->wake, run_posts), "uv_async_init");
	TAILQ_INIT(&loop->soon);
	loop->running_soon.data = loop;
	uv_idle_init(&loop->uv, &loop->running_soon);
	start_measuring(loop);
	*out = loop;
	return 0;
}

static void
on_freed(uv_handle_t *h)
{
	free(h->data);
}

static void
close_left_over(uv_handle_t *h, void *arg)
{
	(void)arg;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

void
loop_free(struct loop **out)
{
	struct loop *loop = take_ptr(out);

	if (loop == NULL)
		return;
	run_posts(&loop->wake);
	watch_stop(&loop->parked_watch);
	cleanup_fd(&loop->parked_fd);
	uv_walk(&loop->uv, close_left_over, NULL);
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	loop_must(uv_loop_close(&loop->uv), "uv_loop_close");
	slab_fini(&loop->watches);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

void
loop_run(struct loop *loop)
{
	uv_run(&loop->uv, UV_RUN_DEFAULT);
}

void
loop_turn(struct loop *loop)
{
	uv_run(&loop->uv, UV_RUN_NOWAIT);
}

void
loop_stop(struct loop *loop)
{
	uv_stop(&loop->uv);
}

void
loop_post(struct loop *loop, loop_fn *fn, void *arg)
{
	struct post *p = xmalloc(sizeof *p);
	bool first;

	*p = (struct post){.fn = fn, .arg = arg};
	pthread_mutex_lock(&loop->lock);
	first = loop->first == NULL;
	*loop->last = p;
	loop->last = &p->next;
	pthread_mutex_unlock(&loop->lock);
	if (first)
		loop_must(uv_async_send(&loop->wake), "uv_async_send");
}

uint64_t
loop_now_ms(const struct loop *loop)
{
	return uv_now(&loop->uv);
}

void *
loop_backend(struct loop *loop)
{
	return &loop->uv;
}

/* --- watches --------------------------------------------------------------------------------- */

static void
on_watch_closed(uv_handle_t *h)
{
	slab_give(&container_of(h->loop, struct loop, uv)->watches, h->data);
}

static uv_poll_t *
watch_uv(struct watch *w)
{
	return &container_of(w, struct polled_watch, watch)->uv;
}

/* A watch with WATCH_HUP alone reports only errors. A connection that both sides have closed
 * cleanly, or an urgent byte, also wakes it; then it is stopped until its events change. */
static void
on_broken(struct watch *w)
{
	struct pollfd p = {.fd = w->fd};

	if (poll(&p, 1, 0) > 0 && p.revents & POLLERR) {
		w->fn(w->arg, w->fd, WATCH_HUP);
		return;
	}
	uv_poll_stop(watch_uv(w));
}

static void
on_poll(uv_poll_t *uv, int status, int events)
{
	struct watch *w = uv->data;
	unsigned told = 0;

	if (status < 0) {
		w->fn(w->arg, w->fd, WATCH_HUP);
		return;
	}
	if (events & UV_PRIORITIZED) {
		on_broken(w);
		return;
	}
	if (events & UV_READABLE)
		told |= WATCH_READ;
	if (events & UV_WRITABLE)
		told |= WATCH_WRITE;
	w->fn(w->arg, w->fd, told);
}

struct watch *
watch_start(struct loop *loop, int fd, unsigned events, watch_fn *fn, void *arg)
{
	struct polled_watch *w = slab_take(&loop->watches);

	w->watch = (struct watch){.fn = fn, .arg = arg, .fd = fd};
	w->uv.data = &w->watch;
	loop_must(uv_poll_init(&loop->uv, &w->uv, fd), "uv_poll_init");
	watch_set(&w->watch, events);
	return &w->watch;
}

/* --- parked watches -------------------------------------------------------------------------- */

/*
 * Nearly all of a watch is libuv's. Thousands of idle connections have theirs in an epoll set of
 * the loop's own instead, which libuv polls as one descriptor; with the first byte each gets a
 * whole watch again, and that reports the byte on the next turn. Whole watches are in blocks of
 * their own, so that those of parked ones go back to the system.
 */
static struct watch *
watch_unpark(struct watch *w)
{
	struct parked_watch *p = container_of(w, struct parked_watch, watch);
	struct watch *whole;

	(void)epoll_ctl(p->loop->parked_fd, EPOLL_CTL_DEL, w->fd, NULL);
	whole = watch_start(p->loop, w->fd, w->events, w->fn, w->arg);
	*p->owner = whole;
	free(p);
	return whole;
}

static void
on_parked(void *arg, int fd, unsigned events)
{
	struct epoll_event list[64];
	int n = epoll_wait(fd, list, (int)ARRAY_LEN(list), 0);

	(void)arg;
	(void)events;
	for (int i = 0; i < n; i++)
		watch_unpark(list[i].data.ptr);
}

void
watch_park(struct watch **out)
{
	struct watch *w = *out;
	struct parked_watch *p;
	struct epoll_event e = {.events = EPOLLIN};

	if (w == NULL || w->parked || w->events != WATCH_READ)
		return;
	p = xcalloc(1, sizeof *p);
	p->watch = *w;
	p->watch.parked = true;
	p->owner = out;
	p->loop = container_of(watch_uv(w)->loop, struct loop, uv);
	e.data.ptr = &p->watch;
	if (p->loop->parked_fd < 0) {
		p->loop->parked_fd = epoll_create1(EPOLL_CLOEXEC);
		if (p->loop->parked_fd >= 0)
			p->loop->parked_watch = watch_start(
				p->loop, p->loop->parked_fd, WATCH_READ, on_parked, NULL);
	}
	if (epoll_ctl(p->loop->parked_fd, EPOLL_CTL_ADD, w->fd, &e) < 0) {
		free(p); /* the kernel has no room for it: it stays as it is */
		return;
	}
	watch_stop(out);
	*out = &p->watch;
}

void
watch_set(struct watch *w, unsigned events)
{
	int uv = 0;

	if (events == w->events)
		return;
	if (w->parked)
		w = watch_unpark(w);
	w->events = (uint8_t)events;
	if (events & WATCH_READ)
		uv |= UV_READABLE;
	if (events & WATCH_WRITE)
		uv |= UV_WRITABLE;
	if (events == WATCH_HUP)
		uv = UV_PRIORITIZED; /* libuv reports errors with any event */
	if (uv == 0)
		uv_poll_stop(watch_uv(w));
	else
		loop_must(uv_poll_start(watch_uv(w), uv, on_poll), "uv_poll_start");
}

void
watch_stop(struct watch **out)
{
	struct watch *w = take_ptr(out);

	if (w != NULL && w->parked) {
		struct parked_watch *p = container_of(w, struct parked_watch, watch);

		(void)epoll_ctl(p->loop->parked_fd, EPOLL_CTL_DEL, w->fd, NULL);
		free(p);
	} else if (w != NULL) {
		uv_close((uv_handle_t *)watch_uv(w), on_watch_closed);
	}
}

static void
on_timer(uv_timer_t *uv)
{
	struct timer *t = uv->data;

	t->fn(t->arg);
}

struct timer *
timer_new(struct loop *loop, loop_fn *fn, void *arg)
{
	struct timer *t = xcalloc(1, sizeof *t);

	t->fn = fn;
	t->arg = arg;
	t->uv.data = t;
	loop_must(uv_timer_init(&loop->uv, &t->uv), "uv_timer_init");
	return t;
}

static struct loop *
loop_of(struct timer *t)
{
	return container_of(t->uv.loop, struct loop, uv);
}

void
timer_start(struct timer *t, uint64_t delay_ms, uint64_t repeat_ms)
{
	struct loop *loop = loop_of(t);

	timer_cancel(t);
	if (delay_ms > 0) {
		loop_must(uv_timer_start(&t->uv, on_timer, delay_ms, repeat_ms), "uv_timer_start");
		return;
	}
	if (TAILQ_EMPTY(&loop->soon))
		uv_idle_start(&loop->running_soon, run_soon);
	TAILQ_INSERT_TAIL(&loop->soon, t, soon);
	t->is_soon = true;
	t->repeat_ms = repeat_ms;
}

void
timer_cancel(struct timer *t)
{
	uv_timer_stop(&t->uv);
	if (t->is_soon)
		TAILQ_REMOVE(&loop_of(t)->soon, t, soon);
	t->is_soon = false;
}

bool
timer_active(const struct timer *t)
{
	return t->is_soon || uv_is_active((const uv_handle_t *)&t->uv) != 0;
}

void
timer_free(struct timer **out)
{
	struct timer *t = take_ptr(out);

	if (t == NULL)
		return;
	timer_cancel(t);
	uv_close((uv_handle_t *)&t->uv, on_freed);
}

static void
on_signal(uv_signal_t *uv, int signum)
{
	struct sigwatch *s = uv->data;

	(void)signum;
	s->fn(s->arg);
}

struct sigwatch *
signal_start(struct loop *loop, int signum, loop_fn *fn, void *arg)
{
	struct sigwatch *s = xcalloc(1, sizeof *s);

	s->fn = fn;
	s->arg = arg;
	s->uv.data = s;
	loop_must(uv_signal_init(&loop->uv, &s->uv), "uv_signal_init");
	loop_must(uv_signal_start(&s->uv, on_signal, signum), "uv_signal_start");
	return s;
}

void
signal_stop(struct sigwatch **out)
{
	struct sigwatch *s = take_ptr(out);

	if (s != NULL)
		uv_close((uv_handle_t *)&s->uv, on_freed);
}
