#include "base/core/loop.h"

/*
 * Watches have an epoll set of the loop's own, of which libuv's set is a member: libuv runs only
 * when one of its descriptors or timers is due. A uv_poll_t would cost six epoll_ctl and an ioctl
 * where a connection needs two, and four times the memory of a watch.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <unistd.h>
#include <uv.h>

#include "base/core/log.h"

enum {
	EVENTS = 128, /* told by one epoll_wait */
	DEFER_MS = 10,
	SECOND_MS = 1000,
	SHORT_PERIOD_MS = 5000,
};

struct post {
	struct post *next;
	loop_fn *fn;
	void *arg;
};

struct timer {
	uv_timer_t uv;
	TAILQ_ENTRY(timer) soon;
	uint64_t soon_turn; /* when it was put into its loop's `soon` list; 0: it is not there */
	uint64_t repeat_ms; /* 0: once; libuv is not told of it */
	loop_fn *fn;
	void *arg;
};

TAILQ_HEAD(timer_ring, timer);

struct loop {
	uv_loop_t uv;
	uv_async_t wake;
	int epoll;
	bool stopping;
	unsigned telling; /* calls of watches on the stack */
	struct watch *changed; /* what epoll is to be told; or to be freed */
	uint64_t defer_until; /* then it is told of the deferred ones among them */
	pthread_mutex_t lock; /* guards first, last */
	struct post *first;
	struct post **last;
	struct timer_ring soon; /* timers without delay, by turn: see run_soon */
	uint64_t turn; /* counts the calls of run_soon */
	uint64_t looks; /* the calls of epoll_wait */
	uv_prepare_t before_wait;
	uv_check_t after_wait;
	loop_fn *at_turn_end;
	void *at_turn_end_arg;
	_Atomic uint64_t slow[LOOP_SLOW], worst_ms, unwatched;
};

struct watch {
	struct loop *loop;
	watch_fn *fn;
	void *arg;
	struct watch *next; /* in loop->changed */
	int fd;
	uint8_t wanted, events; /* by the owner; told to epoll */
	bool added : 1; /* to the epoll set */
	bool changed : 1; /* is in loop->changed */
	bool deferred : 1;
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

/* How long until a timer that repeats fires again. Those of whole seconds meet, at multiples of a
 * short period and at whole seconds of the clock, so that an idle program looks at all it has to in
 * few wake-ups: one costs more than most of the looks. */
static uint64_t
timer_again_ms(const struct timer *t)
{
	const uint64_t period = t->repeat_ms, again_at = uv_now(t->uv.loop) + period;
	uint64_t step = 1;

	if (period % SECOND_MS == 0)
		step = period <= SHORT_PERIOD_MS ? period : SECOND_MS;
	return (again_at + step / 2) / step * step - (again_at - period);
}

static void
timer_repeat(struct timer *t)
{
	if (t->repeat_ms > 0)
		timer_start(t, timer_again_ms(t), t->repeat_ms);
}

/* Timers without delay do not use libuv's timers: before 1.48, libuv runs a timer that restarts
 * itself in its own callback over and over, and serves no descriptor until that ends (libuv issue
 * 4245). Timers started meanwhile wait for the next turn, which may be one within a callback. */
static void
run_soon(struct loop *loop)
{
	const uint64_t turn = ++loop->turn;
	struct timer *t;

	while ((t = TAILQ_FIRST(&loop->soon)) != NULL && t->soon_turn < turn) {
		timer_cancel(t);
		timer_repeat(t);
		t->fn(t->arg);
	}
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
	to->unwatched = atomic_load_explicit(&loop->unwatched, memory_order_relaxed);
	to->worst_ms = atomic_exchange_explicit(&loop->worst_ms, 0, memory_order_relaxed);
}

int
loop_new(struct loop **out, struct err *err)
{
	struct loop *loop = xcalloc(1, sizeof *loop);
	struct epoll_event uv = {.events = EPOLLIN};
	int rc = uv_loop_init(&loop->uv);

	loop->epoll = rc < 0 ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (rc == 0 && loop->epoll < 0) {
		rc = -errno;
		uv_loop_close(&loop->uv);
	}
	if (rc < 0) {
		free(loop);
		return err_set(err, rc, "event loop: %s", uv_strerror(rc));
	}
	if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, uv_backend_fd(&loop->uv), &uv) < 0)
		loop_must(-errno, "epoll_ctl");
	pthread_mutex_init(&loop->lock, NULL);
	loop->last = &loop->first;
	loop->wake.data = loop;
	loop_must(uv_async_init(&loop->uv, &loop->wake, run_posts), "uv_async_init");
	TAILQ_INIT(&loop->soon);
	loop->turn = 1;
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
	struct watch *w;

	if (loop == NULL)
		return;
	run_posts(&loop->wake);
	uv_walk(&loop->uv, close_left_over, NULL);
	uv_run(&loop->uv, UV_RUN_DEFAULT);
	loop_must(uv_loop_close(&loop->uv), "uv_loop_close");
	while ((w = loop->changed) != NULL) {
		loop->changed = w->next;
		if (w->fn == NULL)
			free(w);
	}
	close(loop->epoll);
	pthread_mutex_destroy(&loop->lock);
	free(loop);
}

static void
watch_leave(struct watch *w)
{
	if (w->added) /* fails if the descriptor was closed before, as libcurl does */
		epoll_ctl(w->loop->epoll, EPOLL_CTL_DEL, w->fd, NULL);
	w->added = false;
}

static void
watch_change(struct watch *w)
{
	if (w->changed)
		return;
	w->changed = true;
	w->next = w->loop->changed;
	w->loop->changed = w;
}

/* A user has a number of watches on all epoll sets together, containers' root included. */
static void
watch_register_later(struct watch *w, int error)
{
	struct loop *loop = w->loop;

	log_limited(LOG_LEVEL_ERROR, 10, "loop",
		"a descriptor cannot be watched yet: what comes there waits; a larger "
		"fs.epoll.max_user_watches may help, or to end the program of the same user that "
		"has so many error=\"epoll_ctl: %s\"",
		strerror(error));
	loop->unwatched++;
	w->deferred = true;
	if (uv_now(&loop->uv) >= loop->defer_until)
		loop->defer_until = uv_now(&loop->uv) + DEFER_MS;
	watch_change(w);
}

static void
watch_register(struct watch *w)
{
	struct epoll_event ev = {.data.ptr = w,
		.events = (w->wanted & WATCH_READ ? EPOLLIN | EPOLLRDHUP : 0u) |
			(w->wanted & WATCH_WRITE ? EPOLLOUT : 0u)};
	int op = w->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (epoll_ctl(w->loop->epoll, op, w->fd, &ev) < 0) {
		if (errno != ENOSPC && errno != ENOMEM)
			loop_must(-errno, "epoll_ctl");
		watch_register_later(w, errno);
		return;
	}
	w->added = true;
	w->events = w->wanted;
	w->deferred = false;
}

/* Before the wait: much of what changes in a turn is changed back in it, or stopped. */
static void
watch_apply(struct loop *loop)
{
	struct watch *w, *next = take_ptr(&loop->changed);
	const bool defer = uv_now(&loop->uv) < loop->defer_until;

	while ((w = next) != NULL) {
		next = w->next;
		w->changed = false;
		if (w->fn == NULL ? loop->telling > 0 : w->deferred && defer)
			watch_change(w);
		else if (w->fn == NULL)
			free(w);
		else if (w->wanted == 0)
			watch_leave(w);
		else if (!w->added || w->wanted != w->events)
			watch_register(w);
	}
}

/* Tells what is ready and still wanted, as an earlier call of this turn may have changed that.
 * epoll would tell an end over and over: then the watch sleeps until its events change. */
static void
watch_tell(struct watch *w, uint32_t ready)
{
	const unsigned all = WATCH_READ | WATCH_WRITE, wanted = w->wanted;
	unsigned told = (ready & EPOLLIN ? WATCH_READ : 0) | (ready & EPOLLOUT ? WATCH_WRITE : 0);

	if (!w->added || wanted == 0)
		return;
	if (ready & EPOLLERR) {
		if (wanted != WATCH_HUP)
			watch_leave(w);
		w->fn(w->arg, w->fd, WATCH_HUP);
		return;
	}
	told = wanted & (told == 0 && ready & EPOLLHUP ? all : told);
	if (told & WATCH_READ && ready & EPOLLRDHUP)
		told |= WATCH_END;
	if (told != 0)
		w->fn(w->arg, w->fd, told);
	else if (ready & EPOLLHUP) /* nobody reads, and both sides have closed it cleanly */
		watch_leave(w);
}

static void
loop_end_turn(struct loop *loop)
{
	if (loop->at_turn_end != NULL)
		loop->at_turn_end(loop->at_turn_end_arg);
}

/* What is left to tell epoll is deferred. */
static int
loop_wait_ms(const struct loop *loop)
{
	int ms = uv_backend_timeout(&loop->uv);
	uint64_t most = loop->defer_until - uv_now(&loop->uv);

	return loop->changed == NULL || (ms >= 0 && (uint64_t)ms < most) ? ms : (int)most;
}

/* In libuv's order: timers, then descriptors. */
static void
loop_once(struct loop *loop, bool wait)
{
	struct epoll_event events[EVENTS];
	bool uv = false;
	int n;

	uv_update_time(&loop->uv);
	if (uv_backend_timeout(&loop->uv) == 0) {
		uv_run(&loop->uv, UV_RUN_NOWAIT);
		uv_update_time(&loop->uv); /* it has measured what it ran */
	}
	run_soon(loop);
	loop_end_turn(loop);
	watch_apply(loop);
	loop_measure(loop);
	wait = wait && TAILQ_EMPTY(&loop->soon) && !loop->stopping;
	loop->looks++;
	n = epoll_wait(loop->epoll, events, EVENTS, wait ? loop_wait_ms(loop) : 0);
	uv_update_time(&loop->uv);
	loop->telling++;
	for (int i = 0; i < n; i++) {
		if (events[i].data.ptr == NULL)
			uv = true;
		else
			watch_tell(events[i].data.ptr, events[i].events);
	}
	loop->telling--;
	loop_end_turn(loop);
	loop_measure(loop);
	if (uv)
		uv_run(&loop->uv, UV_RUN_NOWAIT);
}

void
loop_run(struct loop *loop)
{
	while (!loop->stopping)
		loop_once(loop, true);
	loop->stopping = false;
}

void
loop_turn(struct loop *loop)
{
	loop_once(loop, false);
}

void
loop_stop(struct loop *loop)
{
	loop->stopping = true;
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

void
loop_at_turn_end(struct loop *loop, loop_fn *fn, void *arg)
{
	loop->at_turn_end = fn;
	loop->at_turn_end_arg = arg;
}

uint64_t
loop_now_ms(const struct loop *loop)
{
	return uv_now(&loop->uv);
}

uint64_t
loop_looks(const struct loop *loop)
{
	return loop->looks;
}

void *
loop_backend(struct loop *loop)
{
	return &loop->uv;
}

struct watch *
watch_start(struct loop *loop, int fd, unsigned events, watch_fn *fn, void *arg)
{
	struct watch *w = xcalloc(1, sizeof *w);

	w->loop = loop;
	w->fn = fn;
	w->arg = arg;
	w->fd = fd;
	if (!(events & WATCH_UNBLOCKED))
		loop_must(ioctl(fd, FIONBIO, &(int){1}) < 0 ? -errno : 0, "FIONBIO");
	watch_set(w, events & ~(unsigned)WATCH_UNBLOCKED);
	return w;
}

void
watch_set(struct watch *w, unsigned events)
{
	if (events == w->wanted)
		return;
	w->wanted = (uint8_t)events;
	w->deferred = false;
	watch_change(w);
}

void
watch_renew(struct watch *w)
{
	if (!w->added)
		watch_change(w);
}

void
watch_defer(struct watch *w, bool on)
{
	const uint64_t now = uv_now(&w->loop->uv);

	w->deferred = on && !w->added;
	if (w->deferred && now >= w->loop->defer_until)
		w->loop->defer_until = now + DEFER_MS;
}

void
watch_stop(struct watch **out)
{
	struct watch *w = take_ptr(out);

	if (w == NULL)
		return;
	watch_leave(w);
	w->fn = NULL;
	watch_change(w); /* freed when no event that was read can name it any more */
}

static void
on_timer(uv_timer_t *uv)
{
	struct timer *t = uv->data;

	timer_repeat(t);
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
	t->repeat_ms = repeat_ms;
	if (delay_ms > 0) {
		loop_must(uv_timer_start(&t->uv, on_timer, delay_ms, 0), "uv_timer_start");
		return;
	}
	TAILQ_INSERT_TAIL(&loop->soon, t, soon);
	t->soon_turn = loop->turn;
}

void
timer_cancel(struct timer *t)
{
	uv_timer_stop(&t->uv);
	if (t->soon_turn != 0)
		TAILQ_REMOVE(&loop_of(t)->soon, t, soon);
	t->soon_turn = 0;
}

bool
timer_active(const struct timer *t)
{
	return t->soon_turn != 0 || uv_is_active((const uv_handle_t *)&t->uv) != 0;
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
