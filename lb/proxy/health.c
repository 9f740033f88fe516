#include "lb/proxy/health.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/grpc_call.h"
#include "lb/proxy/upstream_tls.h"
#include "model/backend_tls.h"

enum { CHECKS_MAX = 32, LINE_BYTES = sizeof "HTTP/1.1 200" - 1, REQUEST_BYTES = 2048 };

struct check {
	struct node node; /* in worker->checks */
	struct expiry expiry;
	struct worker *worker;
	struct shared *of; /* with a reference */
	struct peer peer;
	struct backend_tls *tls; /* with a reference; NULL: plain */
	uint64_t since_ms;
	unsigned check; /* of->check when it began */
	bool grpc;
	size_t n;
	bool sent, second; /* second: the endpoint's other address is being tried */
	char line[LINE_BYTES];
	struct grpc_call *call; /* NULL: a GET */
};

/* Returns whether the health state has changed. */
static bool
health_judge(struct shared *s, bool good, uint64_t now_ms)
{
	bool ill = atomic_load(&s->ill);

	s->good = good ? s->good + 1 : 0;
	s->bad = good ? 0 : s->bad + 1;
	if (ill ? s->good < HEALTH_RISE : s->bad < HEALTH_FALL)
		return false;
	if (ill)
		atomic_store(&s->well_ms, now_ms);
	atomic_store(&s->ill, !ill);
	return true;
}

static void
health_end_check(struct check *c, bool good, const char *why)
{
	struct worker *w = c->worker;
	struct shares *all = &w->lb->shares;
	struct shared *s = c->of;
	char text[ADDR_TEXT_MAX];

	expiry_cancel(&c->expiry);
	list_del(&c->node);
	peer_close(&c->peer, false);
	backend_tls_unref(&c->tls);
	count(&w->counters.checks_bad, good ? 0 : 1);
	pthread_mutex_lock(&all->lock);
	s->running = false;
	if (s->check == c->check)
		s->due_ms =
			c->since_ms + s->interval_ms - worker_random(w) % (s->interval_ms / 8 + 1);
	if (s->check == c->check && health_judge(s, good, w->now_ms))
		log_limited(good ? LOG_LEVEL_INFO : LOG_LEVEL_WARN, 20, "lb",
			"a health check %s address=%s host=%s path=%s reason=\"%s\"",
			good ? "found an endpoint well again"
			     : "took an endpoint out: see what it answers to this check",
			addr_text(s->at_other ? &s->other : &s->addr, text), s->host, s->path, why);
	pthread_mutex_unlock(&all->lock);
	shares_put(all, &c->of);
	grpc_call_free(&c->call);
	free(c);
}

static bool
health_send_call(struct check *c)
{
	auto_buf struct buf out = {.limit = BUF_UNLIMITED};

	grpc_call_output(c->call, &out);
	return buf_len(&out) == 0 || peer_send_bytes(&c->peer, buf_at(&out), buf_len(&out)) == 0;
}

static void
health_read_call(struct check *c)
{
	struct worker *w = c->worker;
	ssize_t n = peer_read(&c->peer, w->scratch, sizeof w->scratch);
	const struct grpc_result *r = grpc_call_result(c->call);
	int rc;

	if (n == -EAGAIN)
		return;
	rc = n > 0 ? grpc_call_input(c->call, w->scratch, (size_t)n, w->now_ms) : -ECONNRESET;
	if (rc == 1)
		health_end_check(c, r->serving,
			r->status == GRPC_OK ? "the service's status" : "the call's status");
	else if (rc < 0)
		health_end_check(
			c, false, n > 0 ? "the answer is not HTTP/2" : "closed without an answer");
	else if (!health_send_call(c))
		health_end_check(c, false, "it takes no request");
}

static bool
send_request(struct check *c)
{
	struct shares *all = &c->worker->lb->shares;
	const struct shared *s = c->of;
	char request[REQUEST_BYTES];
	const char *service = NULL;
	int n = 0;

	pthread_mutex_lock(&all->lock);
	if (s->check == c->check)
		service = grpc_health_service(s->path);
	if (service != NULL)
		c->call = grpc_call_new(s->host, service, c->worker->now_ms);
	else if (s->check == c->check)
		n = snprintf(request, sizeof request,
			"GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: edgeway\r\nConnection: "
			"close\r\n\r\n",
			s->path, s->host);
	pthread_mutex_unlock(&all->lock);
	c->sent = true;
	if (c->call != NULL)
		return health_send_call(c);
	return n > 0 && n < (int)sizeof request &&
		peer_send_bytes(&c->peer, request, (size_t)n) == 0;
}

static void
read_answer(struct check *c)
{
	ssize_t n = peer_read(&c->peer, c->line + c->n, sizeof c->line - c->n);
	const char *status = c->line + sizeof "HTTP/1.1 " - 1;

	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		health_end_check(c, false, n == 0 ? "closed without an answer" : strerror((int)-n));
		return;
	}
	c->n += (size_t)n;
	if (c->n < sizeof c->line)
		return;
	if (memcmp(c->line, "HTTP/1.", sizeof "HTTP/1." - 1) != 0)
		health_end_check(c, false, "the answer is not HTTP");
	else
		health_end_check(c, status[0] == '2' || status[0] == '3', "the answer's status");
}

static void on_check(void *arg, int fd, unsigned events);

static int
health_dial(struct check *c)
{
	struct worker *w = c->worker;
	const struct shared *s = c->of;
	int fd = -1, rc = worker_dial(w, s->at_other ? &s->other : &s->addr, NULL, 0, false, &fd);

	if (rc == 0)
		peer_open(&c->peer, w->loop, fd, true, on_check, c);
	return rc;
}

/* The address that connected last does not: tries the endpoint's other one. */
static bool
health_other(struct check *c)
{
	if (c->sent || c->second || c->of->other.len == 0)
		return false;
	peer_close(&c->peer, false);
	c->second = true;
	c->of->at_other = !c->of->at_other;
	return health_dial(c) == 0;
}

/* It is connected: TLS first, where its service wants that. */
static void
health_begin(struct check *c)
{
	const struct upstream_tls how = {.tls = c->tls,
		.protocol = c->grpc ? UPSTREAM_HTTP2 : UPSTREAM_HTTP1,
		.fn = on_check,
		.arg = c};
	char why[UPSTREAM_TLS_WHY];
	int rc = c->tls != NULL ? upstream_tls_shake(c->worker, &c->peer, &how, why) : 0;

	if (rc == -EAGAIN)
		return;
	if (rc < 0) {
		health_end_check(c, false, why);
		return;
	}
	peer_connected(&c->peer);
	if (!send_request(c))
		health_end_check(c, false, "it takes no request");
}

static void
on_check(void *arg, int fd, unsigned events)
{
	struct check *c = arg;
	int error;

	worker_enter(c->worker);
	if (c->sent && events & WATCH_WRITE && peer_flush(&c->peer) < 0) {
		health_end_check(c, false, "it takes no request");
		return;
	}
	if (c->sent && events & (WATCH_READ | WATCH_HUP)) {
		if (c->call != NULL)
			health_read_call(c);
		else
			read_answer(c);
		return;
	}
	if (c->sent)
		return;
	error = sock_error(fd);
	if (error != 0 && health_other(c))
		return;
	if (error != 0)
		health_end_check(c, false, strerror(error));
	else
		health_begin(c);
}

static void
on_expired(void *arg)
{
	struct check *c = arg;
	struct worker *w = c->worker;

	if (w->now_ms - c->since_ms >= HEALTH_TIMEOUT_MS / 2)
		health_other(c);
	if (w->now_ms - c->since_ms < HEALTH_TIMEOUT_MS)
		expiry_set(&w->expiries, &c->expiry, SPAN_PROBE, w->now_ms);
	else
		health_end_check(c, false, "no answer in time");
}

/* A check that is due: its endpoint, with a reference, and the number of the check. */
struct due {
	struct shared *of;
	struct backend_tls *tls; /* with a reference */
	unsigned check;
	bool grpc;
};

static void
health_start(struct worker *w, const struct due *due)
{
	struct shared *s = due->of;
	struct check *c = xcalloc(1, sizeof *c);
	int rc;

	c->worker = w;
	c->of = s;
	c->check = due->check;
	c->since_ms = w->now_ms;
	c->peer.fd = -1;
	c->tls = due->tls;
	c->grpc = due->grpc;
	list_add_before(&w->checks, &c->node);
	expiry_init(&c->expiry, on_expired, c);
	count(&w->counters.checks, 1);
	rc = health_dial(c);
	if (rc < 0 && !sock_short_of(rc) && health_other(c))
		rc = 0;
	if (rc < 0) { /* a shortage on this node says nothing about the endpoint: its state stays */
		health_end_check(
			c, sock_short_of(rc) && !atomic_load(&s->ill), "it cannot be dialled");
		return;
	}
	expiry_set(&w->expiries, &c->expiry, SPAN_PROBE, w->now_ms);
}

/* At most `most` endpoints whose check is due, each with a reference. Lowers *next_ms to when the
 * next one is. */
static size_t
take_due(struct shares *all, uint64_t now_ms, struct due *due, size_t most, uint64_t *next_ms)
{
	size_t n = 0;

	pthread_mutex_lock(&all->lock);
	for (struct shared *s = all->first; s != NULL; s = s->next) {
		if (s->path == NULL || s->running)
			continue;
		if (now_ms < s->due_ms || n == most) {
			*next_ms = MIN(*next_ms, s->due_ms);
			continue;
		}
		s->running = true;
		s->refs++;
		due[n++] = (struct due){
			s, backend_tls_ref(s->tls), s->check, grpc_health_service(s->path) != NULL};
	}
	pthread_mutex_unlock(&all->lock);
	return n;
}

static void
health_on_news(void *arg)
{
	worker_enter(arg);
}

uint64_t
health_tick(struct worker *w)
{
	struct worker *first = w->lb->workers[0];
	struct shares *all = &w->lb->shares;
	uint64_t next_ms = UINT64_MAX;
	struct due due[CHECKS_MAX];
	size_t n;

	if (!w->draining && atomic_load_explicit(&all->news, memory_order_relaxed) &&
		atomic_exchange(&all->news, false) && w != first)
		loop_post(first->loop, health_on_news, first);
	if (w != first || w->draining ||
		atomic_load_explicit(&all->n_checks, memory_order_relaxed) == 0)
		return next_ms;
	n = take_due(all, w->now_ms, due, ARRAY_LEN(due), &next_ms);
	for (size_t i = 0; i < n; i++)
		health_start(w, &due[i]);
	return n > 0 ? w->now_ms : next_ms;
}

void
health_stop(struct worker *w)
{
	while (!list_empty(&w->checks))
		health_end_check(
			container_of(w->checks.next, struct check, node), true, "stopping");
}
