#include "tracing/tracing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/tls/pki.h"
#include "model/json.h"
#include "tracing/body.h"
#include "tracing/collector.h"
#include "tracing/post.h"

enum {
	AGAIN_MS = 1000, /* after the first failure, then doubled each time */
	AGAIN_MAX_MS = 30000,
	LINES_PER_MINUTE = 2, /* log lines about failures */
	/* spans written and compressed in one turn of the loop: a millisecond on a slow core */
	SLICE = 32,
};

enum result { EXPORTED, DROPPED, FAILED, RESULTS };

struct tracing {
	struct loop *loop;
	struct collector collector;
	char *endpoint;
	uint64_t delay_ms;
	struct post *post;
	struct timer *timer; /* for the next batch, or for a retry */
	struct trace_span *first, **last; /* queued spans */
	unsigned waiting;
	struct body *made;
	/* of the batch; NULL: there is none, or it is still being written */
	const struct buf *body;
	unsigned batch; /* spans in it, 0: there is none */
	unsigned to_come; /* spans still to be added, by `slice` */
	struct timer *slice;
	bool sending;
	unsigned attempt;
	uint64_t batch_since_ms;
	uint64_t total[RESULTS];
	uint64_t reached_ms; /* 0: never */
	char error[320]; /* of the last request; "" if it succeeded */
	struct timer *end; /* limits the stop */
	loop_fn *stopped;
	void *stopped_arg;
};

/* --- batches -------------------------------------------------------------------------------- */

static void
drop_first(struct tracing *t)
{
	struct trace_span *s = t->first;

	t->first = s->next;
	if (t->first == NULL)
		t->last = &t->first;
	t->waiting--;
	free(s);
}

static void
send_batch(struct tracing *t)
{
	t->sending = true;
	post_send(t->post, t->body, t->attempt);
}

/* Writes a slice of the batch; each slice is a turn of its own, so that nothing waits for the whole
 * batch. */
static void
on_slice(void *arg)
{
	struct tracing *t = arg;

	for (unsigned i = 0; i < SLICE && t->to_come > 0; i++, t->to_come--) {
		body_add(t->made, t->first);
		drop_first(t);
		t->batch++;
	}
	if (t->to_come > 0) {
		timer_start(t->slice, 0, 0);
		return;
	}
	t->body = body_end(t->made);
	t->attempt = 0;
	t->batch_since_ms = loop_now_ms(t->loop);
	send_batch(t);
}

static void
next_batch(struct tracing *t)
{
	t->to_come = MIN(t->waiting, (unsigned)TRACING_BATCH);
	t->body = NULL;
	body_begin(t->made, t->to_come);
	on_slice(t);
}

static void
tracing_free(struct tracing *t)
{
	while (t->first != NULL)
		drop_first(t);
	post_free(&t->post);
	collector_fini(&t->collector);
	timer_free(&t->timer);
	timer_free(&t->slice);
	timer_free(&t->end);
	body_free(&t->made);
	free(t->endpoint);
	free(t);
}

static void
stop_now(void *arg)
{
	struct tracing *t = arg;
	loop_fn *stopped = t->stopped;
	void *stopped_arg = t->stopped_arg;
	unsigned left = t->batch + t->waiting;

	if (left > 0)
		log_warn("tracing", "spans are lost at the end spans=%u endpoint=%s%s%s", left,
			t->endpoint, t->error[0] != '\0' ? " error=" : "", t->error);
	tracing_free(t);
	stopped(stopped_arg);
}

/* Starts what is due if nothing is being sent. */
static void
go_on(struct tracing *t)
{
	if (t->sending || t->batch > 0)
		return;
	if (t->waiting >= TRACING_BATCH || (t->stopped != NULL && t->waiting > 0))
		next_batch(t);
	else if (t->stopped != NULL)
		timer_start(t->end, 0, 0); /* not from within the caller */
	else if (t->waiting > 0 && !timer_active(t->timer))
		timer_start(t->timer, t->delay_ms, 0);
}

static void
on_timer(void *arg)
{
	struct tracing *t = arg;

	if (t->sending || t->to_come > 0)
		return;
	if (t->batch > 0)
		send_batch(t);
	else if (t->waiting > 0)
		next_batch(t);
}

/* --- the collector's response --------------------------------------------------------------- */

static void
batch_over(struct tracing *t, uint64_t failed)
{
	failed = MIN(failed, (uint64_t)t->batch);
	t->total[FAILED] += failed;
	t->total[EXPORTED] += t->batch - failed;
	t->batch = 0;
}

/* OTLP/HTTP, "Retryable Response Codes". */
static bool
tracing_retryable(int status)
{
	return status == 0 || status == 429 || status == 502 || status == 503 || status == 504;
}

static uint64_t
pause_ms(const struct tracing *t, unsigned retry_after_s)
{
	uint64_t ms = MIN((uint64_t)AGAIN_MS << MIN(t->attempt, 5u), (uint64_t)AGAIN_MAX_MS);
	uint32_t chance;

	random_bytes(&chance, sizeof chance);
	ms = ms / 2 + chance % (ms / 2 + 1); /* spreads the retries of all nodes */
	return retry_after_s > 0 ? retry_after_s * 1000ull + chance % 1000 : ms;
}

static void
went_wrong(struct tracing *t, const struct post_result *r)
{
	uint64_t ms = pause_ms(t, r->retry_after_s);
	bool again = tracing_retryable(r->status) && t->stopped == NULL &&
		loop_now_ms(t->loop) + ms - t->batch_since_ms < TRACING_GIVE_UP_MS;

	if (r->status == 0)
		snprintf(t->error, sizeof t->error, "%s", r->why);
	else
		snprintf(t->error, sizeof t->error, "the collector answers %d", r->status);
	log_limited(LOG_LEVEL_WARN, LINES_PER_MINUTE, "tracing",
		"spans cannot be exported: %s endpoint=%s spans=%u%s", t->error, t->endpoint,
		t->batch, again ? "" : " dropped=true");
	if (again) {
		t->attempt++;
		timer_start(t->timer, ms, 0);
		return;
	}
	if (t->stopped != NULL) {
		stop_now(t);
		return;
	}
	batch_over(t, t->batch);
	go_on(t);
}

static void
on_done(void *arg, const struct post_result *r)
{
	struct tracing *t = arg;
	char why[256];
	uint64_t rejected;

	t->sending = false;
	if (r->status / 100 != 2) {
		went_wrong(t, r);
		return;
	}
	if (t->error[0] != '\0')
		log_info("tracing", "spans are exported again endpoint=%s", t->endpoint);
	t->error[0] = '\0';
	t->reached_ms = loop_now_ms(t->loop);
	rejected = otlp_rejected(r->body, r->len, why, sizeof why);
	if (rejected > 0) {
		log_limited(LOG_LEVEL_WARN, LINES_PER_MINUTE, "tracing",
			"the collector has refused spans spans=%llu reason=\"%s\"",
			(unsigned long long)rejected, why);
		snprintf(t->error, sizeof t->error, "the collector refuses spans: %s", why);
	}
	batch_over(t, rejected);
	go_on(t);
}

/* --- public interface ----------------------------------------------------------------------- */

int
tracing_check(const char *endpoint, const char *const *headers, struct err *err)
{
	struct collector c;
	int rc = collector_parse(&c, endpoint, headers, err);

	if (rc == 0)
		collector_fini(&c);
	return rc;
}

int
tracing_new(struct tracing **out, const struct tracing_config *config, struct err *err)
{
	struct tracing *t = xcalloc(1, sizeof *t);
	struct post_config post = {
		.loop = config->loop,
		.to = &t->collector,
		.mark = config->mark,
		.find = config->find,
		.find_arg = config->find_arg,
		.done = on_done,
		.arg = t,
	};
	int rc = collector_parse(&t->collector, config->endpoint, config->headers, err);

	if (rc == 0 && t->collector.tls)
		rc = pki_web_ctx(config->ca_pem, &post.tls, err);
	if (rc < 0) {
		collector_fini(&t->collector);
		free(t);
		return rc;
	}
	t->loop = config->loop;
	t->endpoint = xstrdup(config->endpoint);
	t->made = body_new(&config->who);
	t->delay_ms = config->delay_ms;
	t->last = &t->first;
	t->slice = timer_new(t->loop, on_slice, t);
	t->timer = timer_new(t->loop, on_timer, t);
	t->end = timer_new(t->loop, stop_now, t);
	post_new(&t->post, &post);
	*out = t;
	return 0;
}

void
tracing_upstreams(struct tracing *t, const struct addr *upstreams, size_t n)
{
	if (t != NULL)
		post_use_upstreams(t->post, upstreams, n);
}

void
tracing_take(void *arg, struct trace_span *spans, unsigned dropped)
{
	struct tracing *t = arg;

	t->total[DROPPED] += dropped;
	while (spans != NULL) {
		struct trace_span *s = spans;

		spans = s->next;
		s->next = NULL;
		if (t->waiting >= TRACING_QUEUE) {
			t->total[DROPPED]++;
			free(s);
			continue;
		}
		*t->last = s;
		t->last = &s->next;
		t->waiting++;
	}
	go_on(t);
}

void
tracing_stop(struct tracing **out, uint64_t within_ms, loop_fn *stopped, void *arg)
{
	struct tracing *t = take_ptr(out);

	if (t == NULL) {
		stopped(arg);
		return;
	}
	t->stopped = stopped;
	t->stopped_arg = arg;
	timer_start(t->end, within_ms, 0);
	timer_cancel(t->timer);
	if (t->batch > 0 && !t->sending && t->to_come == 0)
		send_batch(t); /* it waited for a retry: try once more only */
	go_on(t);
}

void
tracing_metrics(const struct tracing *t, const struct span_source *from, struct metrics *m)
{
	static const char name[] = "edgeway_tracing_spans_total",
			  help[] = "Spans, by what became of them.";
	static const char *const results[RESULTS] = {
		[EXPORTED] = "result=\"exported\"",
		[DROPPED] = "result=\"dropped\"",
		[FAILED] = "result=\"failed\"",
	};

	if (t == NULL)
		return;
	for (size_t i = 0; i < RESULTS; i++)
		metric_counter(m, name, help, results[i], t->total[i]);
	metric_gauge(m, "edgeway_tracing_queue_spans", "Spans that wait for the collector.", NULL,
		t->waiting + t->batch);
	metric_counter(m, "edgeway_tracing_limited_total",
		"What the tunnel carries that was not recorded as spans because of tracing.limit.",
		NULL, from->limited);
	metric_gauge(m, "edgeway_tracing_up", "1 unless the last request to the collector failed.",
		NULL, t->error[0] == '\0');
}

void
tracing_state(const struct tracing *t, struct buf *out)
{
	if (t == NULL) {
		buf_adds(out, "null");
		return;
	}
	buf_adds(out, "{\"endpoint\":");
	json_add_text(out, t->endpoint);
	buf_printf(out,
		",\"waiting\":%u,\"exported\":%llu,\"dropped\":%llu,\"failed\":%llu,\"reached_s_"
		"ago\":",
		t->waiting + t->batch, (unsigned long long)t->total[EXPORTED],
		(unsigned long long)t->total[DROPPED], (unsigned long long)t->total[FAILED]);
	if (t->reached_ms != 0)
		buf_printf(out, "%llu",
			(unsigned long long)((loop_now_ms(t->loop) - t->reached_ms) / 1000));
	else
		buf_adds(out, "null");
	buf_adds(out, ",\"error\":");
	json_add_text(out, t->error);
	buf_adds(out, "}");
}
