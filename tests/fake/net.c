#include "tests/fake/net.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "meta/state/writer.h"

enum {
	CONNS_MAX = 64,
	NODES_MAX = 8,
	LATENCY_MS = 200,
	NOTICE_MS = 9000, /* a silent line is noticed within 2 heartbeats and 1 s */
	COMMIT_MS = 80,
	RETRY_MS = 250, /* of a database that cannot be written */
};

struct loop {
	uint64_t now, seq;
	TAILQ_HEAD(, timer) timers;
};

struct timer {
	TAILQ_ENTRY(timer) entry;
	struct loop *loop;
	loop_fn *fn;
	void *arg;
	bool active;
	uint64_t at, repeat, seq;
};

enum frame_kind { FRAME_OPEN, FRAME_TEXT, FRAME_CLOSE };

struct frame {
	TAILQ_ENTRY(frame) entry;
	enum frame_kind kind;
	uint64_t at;
	char *text;
	size_t len;
};

struct ws {
	struct ws_config config;
};

struct ws_conn {
	struct ws *ws; /* NULL: the hub's end */
	struct ws_conn *peer;
	struct timer *timer;
	TAILQ_HEAD(, frame) frames; /* on their way to this end */
	uint64_t last_at;
	bool deaf, closing;
	char node[64];
	void *arg;
};

static struct {
	struct loop loop;
	uint64_t random, frames, wall_at_start_ms;
	struct net_hub hub;
	void *arg;
	bool up, crash, full;
	uint64_t n_refused;
	char cut[NODES_MAX][64];
	char eaten[64]; /* node, "" none */
	net_eat_fn *eat;
	struct ws_conn *conns[CONNS_MAX];
} net;

uint64_t __wrap_mono_ms(void);
uint64_t __wrap_wall_ms(void);
uint64_t __real_wall_ms(void);
void __wrap_random_bytes(void *p, size_t n);

uint64_t
__wrap_mono_ms(void)
{
	return net.loop.now;
}

uint64_t
__wrap_wall_ms(void)
{
	return net.wall_at_start_ms + net.loop.now;
}

uint32_t
net_random(uint32_t below)
{
	net.random ^= net.random << 13;
	net.random ^= net.random >> 7;
	net.random ^= net.random << 17;
	return (uint32_t)(net.random >> 16) % below;
}

void
__wrap_random_bytes(void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)p)[i] = (uint8_t)net_random(256);
}

/* --- clock ---------------------------------------------------------------------------------- */

uint64_t
loop_now_ms(const struct loop *loop)
{
	return loop->now;
}

struct timer *
timer_new(struct loop *loop, loop_fn *fn, void *arg)
{
	struct timer *t = xcalloc(1, sizeof(*t));

	t->loop = loop;
	t->fn = fn;
	t->arg = arg;
	TAILQ_INSERT_TAIL(&loop->timers, t, entry);
	return t;
}

void
timer_start(struct timer *t, uint64_t delay_ms, uint64_t repeat_ms)
{
	t->active = true;
	t->at = t->loop->now + delay_ms;
	t->repeat = repeat_ms;
	t->seq = t->loop->seq++;
}

void
timer_cancel(struct timer *t)
{
	t->active = false;
}

bool
timer_active(const struct timer *t)
{
	return t->active;
}

void
timer_free(struct timer **out)
{
	struct timer *t = take_ptr(out);

	if (t == NULL)
		return;
	TAILQ_REMOVE(&t->loop->timers, t, entry);
	free(t);
}

/* Posts go to other threads' loops, and there are none here. */
void
loop_post(struct loop *loop, loop_fn *fn, void *arg)
{
	assert(loop == NULL && fn == NULL && arg == NULL);
}

/* There are no descriptors here: no connection of ours fails with WS_REFUSED_OR_UNREACHABLE, which
 * meta asks the kernel about. */
struct watch *
watch_start(struct loop *loop, int fd, unsigned events, watch_fn *fn, void *arg)
{
	assert(loop == NULL && fd < 0 && events == 0 && fn == NULL && arg == NULL);
	return NULL;
}

void
watch_stop(struct watch **out)
{
	assert(*out == NULL);
}

void
watch_set(struct watch *w, unsigned events)
{
	(void)w;
	(void)events;
}

static struct timer *
next_timer(struct loop *loop)
{
	struct timer *t, *best = NULL;

	TAILQ_FOREACH(t, &loop->timers, entry) {
		if (t->active &&
			(best == NULL || t->at < best->at ||
				(t->at == best->at && t->seq < best->seq)))
			best = t;
	}
	return best;
}

void
net_run(uint64_t ms)
{
	struct loop *loop = &net.loop;
	uint64_t end = loop->now + ms;
	struct timer *t;

	while ((t = next_timer(loop)) != NULL && t->at <= end) {
		loop->now = MAX(loop->now, t->at);
		t->active = t->repeat != 0;
		t->at += t->repeat;
		t->seq = loop->seq++;
		t->fn(t->arg);
	}
	loop->now = end;
}

uint64_t
net_now_ms(void)
{
	return net.loop.now;
}

struct loop *
net_loop(void)
{
	return &net.loop;
}

uint64_t
net_frames(void)
{
	return net.frames;
}

/* --- lines ---------------------------------------------------------------------------------- */

static bool
is_cut(const char *node)
{
	for (int i = 0; i < NODES_MAX; i++)
		if (strcmp(net.cut[i], node) == 0)
			return true;
	return false;
}

static void
wake(struct ws_conn *c)
{
	struct frame *f = TAILQ_FIRST(&c->frames);

	if (f != NULL)
		timer_start(c->timer, f->at > net.loop.now ? f->at - net.loop.now : 0, 0);
}

static void
push(struct ws_conn *c, enum frame_kind kind, const char *text, size_t len, uint64_t delay_ms)
{
	struct frame *f = xcalloc(1, sizeof(*f));

	f->kind = kind;
	f->at = c->last_at = MAX(c->last_at, net.loop.now + delay_ms);
	f->text = text != NULL ? xstrndup(text, len) : NULL;
	f->len = len;
	TAILQ_INSERT_TAIL(&c->frames, f, entry);
	wake(c);
}

static void
drop_frames(struct ws_conn *c)
{
	struct frame *f;

	while ((f = TAILQ_FIRST(&c->frames)) != NULL) {
		TAILQ_REMOVE(&c->frames, f, entry);
		free(f->text);
		free(f);
	}
	c->last_at = 0;
}

static void
break_end(struct ws_conn *c, uint64_t delay_ms)
{
	drop_frames(c);
	c->deaf = true;
	push(c, FRAME_CLOSE, NULL, 0, delay_ms);
}

static void on_frame(void *arg);

static struct ws_conn *
new_conn(struct ws *ws, const char *node)
{
	struct ws_conn *c = xcalloc(1, sizeof(*c));
	int i = 0;

	c->ws = ws;
	TAILQ_INIT(&c->frames);
	c->timer = timer_new(&net.loop, on_frame, c);
	snprintf(c->node, sizeof(c->node), "%s", node);
	while (net.conns[i] != NULL)
		i++;
	net.conns[i] = c;
	return c;
}

static void
free_conn(struct ws_conn *c)
{
	for (int i = 0; i < CONNS_MAX; i++)
		if (net.conns[i] == c)
			net.conns[i] = NULL;
	if (c->peer != NULL)
		c->peer->peer = NULL;
	drop_frames(c);
	timer_free(&c->timer);
	free(c);
}

static void
close_end(struct ws_conn *c)
{
	if (c->peer != NULL && !c->peer->deaf)
		push(c->peer, FRAME_CLOSE, NULL, 0, net_random(LATENCY_MS));
	if (c->ws != NULL)
		c->ws->config.events->closed(c->ws->config.arg, c, "the line broke");
	else
		net.hub.closed(net.arg, c);
	free_conn(c);
}

static void
on_frame(void *arg)
{
	struct ws_conn *c = arg;
	struct frame *f = TAILQ_FIRST(&c->frames);
	enum frame_kind kind = f->kind;
	auto_free char *text = f->text;
	size_t len = f->len;

	TAILQ_REMOVE(&c->frames, f, entry);
	free(f);
	wake(c);
	if (kind == FRAME_CLOSE) {
		close_end(c);
	} else if (kind == FRAME_OPEN) {
		if (!net.up || is_cut(c->node)) {
			break_end(c, net_random(10000));
			return;
		}
		c->peer = new_conn(NULL, c->node);
		c->peer->peer = c;
		c->ws->config.events->open(c->ws->config.arg, c);
		net.hub.open(net.arg, c->peer, c->node);
	} else if (!c->closing && c->ws != NULL) {
		c->ws->config.events->text(c->ws->config.arg, c, text, len);
	} else if (!c->closing) {
		net.hub.text(net.arg, c, text, len);
	}
}

void
net_cut(const char *node, bool cut)
{
	int i = 0;

	while (strcmp(net.cut[i], cut ? "" : node) != 0)
		if (++i == NODES_MAX)
			return;
	snprintf(net.cut[i], sizeof(net.cut[i]), "%s", cut ? node : "");
	for (i = 0; i < CONNS_MAX && cut; i++) {
		struct ws_conn *c = net.conns[i];

		if (c != NULL && strcmp(c->node, node) == 0)
			break_end(c, net_random(NOTICE_MS));
	}
}

void
net_hub_up(bool up)
{
	net.up = up;
	for (int i = 0; i < CONNS_MAX && !up; i++) {
		struct ws_conn *c = net.conns[i];

		if (c == NULL)
			continue;
		if (c->ws != NULL)
			break_end(c, net_random(NOTICE_MS));
		else
			free_conn(c);
	}
}

int
ws_new(struct ws **ws, struct loop *loop, const struct ws_config *config, struct err *err)
{
	(void)loop;
	(void)err;
	*ws = xcalloc(1, sizeof(**ws));
	(*ws)->config = *config;
	return 0;
}

void
ws_free(struct ws **out)
{
	struct ws *ws = take_ptr(out);

	for (int i = 0; i < CONNS_MAX && ws != NULL; i++)
		if (net.conns[i] != NULL && net.conns[i]->ws == ws)
			close_end(net.conns[i]);
	free(ws);
}

struct ws_conn *
ws_dial(struct ws *ws, const struct ws_dial *dial, struct err *err)
{
	static const char header[] = "node_id: ";
	struct ws_conn *c;

	(void)err;
	c = new_conn(ws, dial->headers[0] + strlen(header));
	c->arg = dial->arg;
	push(c, FRAME_OPEN, NULL, 0, net_random(LATENCY_MS));
	return c;
}

int
ws_send(struct ws_conn *c, const char *text, size_t len)
{
	int times = net_random(16) == 0 ? 2 : 1;

	if (c->peer == NULL || c->closing)
		return -ENOTCONN;
	assert(c->peer->ws == NULL || len <= c->peer->ws->config.message_limit);
	net.frames++;
	if (c->ws == NULL && net.eat != NULL && strcmp(c->node, net.eaten) == 0 &&
		net.eat(net.arg, c, text, len))
		return 0;
	for (int i = 0; i < times && !c->peer->deaf; i++)
		push(c->peer, FRAME_TEXT, text, len, net_random(LATENCY_MS));
	return 0;
}

size_t
ws_queued(const struct ws_conn *c)
{
	(void)c;
	return 0;
}

void
ws_close(struct ws_conn *c, unsigned code, const char *reason)
{
	(void)code;
	(void)reason;
	c->closing = true;
	if (!c->deaf)
		break_end(c, net_random(LATENCY_MS));
}

void
ws_give_up(struct ws_conn *c, const char *why)
{
	(void)why;
	break_end(c, 0);
}

void
ws_drop(struct ws_conn *c, const char *why)
{
	ws_give_up(c, why);
}

int
ws_fd(const struct ws_conn *c)
{
	(void)c;
	return -1;
}

const char *
ws_peer_addr(const struct ws_conn *c)
{
	(void)c;
	return "192.0.2.9";
}

void *
ws_arg(const struct ws_conn *c)
{
	return c->arg;
}

/* Nobody pings here: messages alone are heard. */
uint64_t
ws_heard_ms(const struct ws_conn *c)
{
	(void)c;
	return 0;
}

void
ws_share_life(struct ws_conn *c, struct liveness *all, const char *peer, bool keeps)
{
	(void)c;
	(void)all;
	(void)peer;
	(void)keeps;
}

void
ws_ask(struct ws_conn *c)
{
	(void)c;
}

void
ws_ask_to_wait(struct ws_conn *c, unsigned seconds)
{
	(void)c;
	(void)seconds;
}

uint64_t
ws_asked_to_wait_ms(const struct ws_conn *c)
{
	(void)c;
	return 0;
}

bool
ws_resumed(const struct ws_conn *c)
{
	(void)c;
	return false;
}

void
ws_set_arg(struct ws_conn *c, void *arg)
{
	c->arg = arg;
}

const char *
ws_header(const struct ws_conn *c, const char *name)
{
	(void)c;
	(void)name;
	return "";
}

/* --- the database's thread ------------------------------------------------------------------ */

struct job {
	TAILQ_ENTRY(job) entry;
	const struct store_batch *batch; /* NULL: a scan */
	writer_done_fn *done;
	writer_rows_fn *rows;
	void *arg;
	char *after;
	size_t limit;
	bool told; /* that it is not committed yet */
};

struct writer {
	struct store *store;
	struct timer *timer;
	TAILQ_HEAD(, job) jobs;
};

static void
must(int rc, const struct err *err)
{
	if (rc == 0)
		return;
	fprintf(stderr, "# database: %s\n", err->text);
	abort();
}

struct rows {
	struct store_row *list;
	size_t n;
};

static void
keep_row(void *arg, const struct store_row *row)
{
	struct rows *r = arg;

	r->list = xrealloc(r->list, (r->n + 1) * sizeof(*r->list));
	r->list[r->n] = *row;
	r->list[r->n].key = xstrdup(row->key);
	r->list[r->n++].view = xstrndup(row->view, row->len);
}

static void
run_scan(struct writer *w, struct job *j)
{
	struct rows r = {0};
	struct err err = {0};

	must(store_scan(w->store, j->after, j->limit, keep_row, &r, &err), &err);
	j->rows(j->arg, 0, r.list, r.n);
	for (size_t i = 0; i < r.n; i++) {
		free((void *)(uintptr_t)r.list[i].key);
		free((void *)(uintptr_t)r.list[i].view);
	}
	free(r.list);
}

/* As meta/state/writer does it: the head stays, and everyone who waits hears once that it is not on
 * the disk yet. */
static void
disk_is_full(struct writer *w)
{
	struct job *j;

	timer_start(w->timer, RETRY_MS, 0);
	TAILQ_FOREACH(j, &w->jobs, entry) {
		if (j->batch == NULL || j->told)
			continue;
		j->told = true;
		net.n_refused++;
		j->done(j->arg, -ENOSPC);
	}
}

static void
on_job(void *arg)
{
	struct writer *w = arg;
	struct job *j = TAILQ_FIRST(&w->jobs);
	struct err err = {0};

	if (net.full && j->batch != NULL) {
		disk_is_full(w);
		return;
	}
	TAILQ_REMOVE(&w->jobs, j, entry);
	if (!TAILQ_EMPTY(&w->jobs))
		timer_start(w->timer, net_random(COMMIT_MS), 0);
	if (j->batch != NULL) {
		must(store_commit(w->store, j->batch, &err), &err);
		j->done(j->arg, 0);
	} else {
		run_scan(w, j);
	}
	free(j->after);
	free(j);
}

static struct job *
new_job(struct writer *w, void *arg)
{
	struct job *j = xcalloc(1, sizeof(*j));

	j->arg = arg;
	if (TAILQ_EMPTY(&w->jobs))
		timer_start(w->timer, net_random(COMMIT_MS), 0);
	TAILQ_INSERT_TAIL(&w->jobs, j, entry);
	return j;
}

int
writer_start(struct writer **writer, const struct writer_config *config, struct store **store,
	struct err *err)
{
	struct writer *w = *writer = xcalloc(1, sizeof(*w));

	(void)err;
	w->store = take_ptr(store);
	w->timer = timer_new(config->loop, on_job, w);
	TAILQ_INIT(&w->jobs);
	return 0;
}

void
writer_commit(struct writer *w, const struct store_batch *batch, writer_done_fn *done, void *arg)
{
	struct job *j = new_job(w, arg);

	j->batch = batch;
	j->done = done;
}

void
writer_scan(struct writer *w, const char *after, size_t limit, writer_rows_fn *fn, void *arg)
{
	struct job *j = new_job(w, arg);

	j->after = xstrdup(after);
	j->limit = limit;
	j->rows = fn;
}

bool
writer_stop(struct writer **out)
{
	struct writer *w = take_ptr(out);
	struct job *j;

	while ((j = TAILQ_FIRST(&w->jobs)) != NULL) {
		TAILQ_REMOVE(&w->jobs, j, entry);
		if (j->batch != NULL && !net.crash && !net.full)
			store_commit(w->store, j->batch, NULL);
		free(j->after);
		free(j);
	}
	timer_free(&w->timer);
	store_close(&w->store);
	free(w);
	return true;
}

struct writer_counts
writer_count(struct writer *w)
{
	(void)w;
	return (struct writer_counts){0};
}

int
writer_keep_get(struct writer *w, const char *key, char **data, size_t *len)
{
	return store_keep_get(w->store, key, data, len);
}

int
writer_keep_put(struct writer *w, const char *key, const void *data, size_t len)
{
	return store_keep_put(w->store, key, data, len);
}

int
writer_keep_del(struct writer *w, const char *key)
{
	return store_keep_del(w->store, key);
}

int
writer_read(struct writer *w, writer_read_fn *fn, void *arg)
{
	return fn(arg, w->store);
}

int
writer_discard(struct writer *w)
{
	(void)w;
	return -ENOSYS;
}

void
net_crash(bool crash)
{
	net.crash = crash;
}

void
net_disk_full(bool full)
{
	net.full = full;
}

uint64_t
net_refused(void)
{
	return net.n_refused;
}

void
net_eat(const char *node, net_eat_fn *eat)
{
	snprintf(net.eaten, sizeof(net.eaten), "%s", node);
	net.eat = eat;
}

void
net_start(uint64_t seed, const struct net_hub *hub, void *arg)
{
	memset(&net, 0, sizeof(net));
	net.random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	net.wall_at_start_ms = __real_wall_ms(); /* certificates are good now */
	net.loop.now = 1000;
	TAILQ_INIT(&net.loop.timers);
	net.hub = *hub;
	net.arg = arg;
}
