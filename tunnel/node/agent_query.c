#include "tunnel/node/agent_query.h"

#include <string.h>
#include <sys/queue.h>

#include "base/core/log.h"

struct agent_query {
	LIST_ENTRY(agent_query) link;
	struct agent_queries *of;
	struct stream *stream;
	struct timer *deadline;
	struct buf out; /* rest of the answer */
	size_t bytes; /* size of the whole answer */
	bool ended;
};

struct agent_queries {
	struct loop *loop;
	agent_answer_fn *answer;
	void *arg;
	LIST_HEAD(, agent_query) all;
	unsigned n;
	size_t bytes; /* of all answers, until they have been sent */
	uint64_t spent_ms; /* the queries so far have used up the rate until this time */
};

static void
query_free(struct agent_query *q, unsigned code)
{
	LIST_REMOVE(q, link);
	q->of->n--;
	q->of->bytes -= q->bytes;
	timer_free(&q->deadline);
	stream_close(&q->stream, code);
	buf_fini(&q->out);
	free(q);
}

static void
on_query_late(void *arg)
{
	query_free(arg, STREAM_CANCELLED);
}

static void
query_flush(struct agent_query *q)
{
	size_t n;

	while ((n = MIN(stream_room(q->stream), buf_len(&q->out))) > 0) {
		stream_write(q->stream, buf_at(&q->out), n);
		buf_consume(&q->out, n);
	}
	if (buf_len(&q->out) > 0)
		return;
	if (!q->ended)
		stream_end(q->stream);
	q->ended = true;
	if (stream_far_ended(q->stream))
		query_free(q, STREAM_DONE);
}

static void
on_query_readable(void *arg)
{
	struct agent_query *q = arg;
	const void *data;
	size_t n;

	while ((n = stream_peek(q->stream, &data)) > 0)
		stream_consume(q->stream, n); /* the client has nothing to send here */
	query_flush(q);
}

static void
on_query_writable(void *arg)
{
	query_flush(arg);
}

static void
on_query_reset(void *arg, unsigned code)
{
	(void)code;
	query_free(arg, STREAM_CANCELLED);
}

static const struct stream_events query_events = {
	.readable = on_query_readable, .writable = on_query_writable, .reset = on_query_reset};

static bool
query_may_come(struct agent_queries *all)
{
	uint64_t now = loop_now_ms(all->loop), spent = MAX(all->spent_ms, now);

	if (spent - now > (AGENT_QUERY_BURST - 1) * AGENT_QUERY_EVERY_MS)
		return false;
	all->spent_ms = spent + AGENT_QUERY_EVERY_MS;
	return true;
}

static unsigned
query_answer(struct agent_query *q, const char *target)
{
	struct agent_queries *all = q->of;
	unsigned status = all->answer(all->arg, target, &q->out);

	if (all->bytes + buf_len(&q->out) > AGENT_QUERIES_BYTES) {
		buf_consume(&q->out, buf_len(&q->out));
		buf_printf(&q->out,
			"with this answer more than %d MiB of this agent's answers would wait for "
			"the hub",
			AGENT_QUERIES_BYTES >> 20);
		status = 503;
	}
	q->bytes = buf_len(&q->out);
	all->bytes += q->bytes;
	return status;
}

unsigned
agent_query_opened(struct agent_queries *all, struct stream *st,
	const struct stream_request *request, const char **reason)
{
	const char *target = stream_field_of(request, AGENT_QUERY_TARGET);
	char clean[STREAM_REASON_MAX];
	struct agent_query *q;
	unsigned status;

	*reason = "too many ask this agent at the same time";
	if (all->n >= AGENT_QUERIES_MOST)
		return 503;
	*reason = "this agent is asked too often: four times a second at most";
	if (!query_may_come(all)) {
		log_limited(LOG_LEVEL_WARN, 6, "tunnel",
			"the hub asks this agent too often: refused per_s=%d",
			1000 / AGENT_QUERY_EVERY_MS);
		return 429;
	}
	q = xcalloc(1, sizeof *q);
	q->of = all;
	q->stream = st;
	q->deadline = timer_new(all->loop, on_query_late, q);
	buf_init(&q->out, BUF_UNLIMITED);
	LIST_INSERT_HEAD(&all->all, q, link);
	all->n++;
	stream_accept(st, &query_events, q);
	timer_start(q->deadline, AGENT_QUERY_MS, 0);
	status = query_answer(q, target);
	log_limited(LOG_LEVEL_INFO, 6, "tunnel",
		"the hub has asked this agent target=\"%s\" status=%u bytes=%zu",
		log_clean(clean, sizeof clean, target), status, buf_len(&q->out));
	if (status == 200) {
		stream_answer(st, 200, "");
		query_flush(q);
	} else {
		stream_answer(st, status, log_clean(clean, sizeof clean, buf_str(&q->out)));
		query_free(q, STREAM_DONE);
	}
	return 0;
}

struct agent_queries *
agent_queries_new(struct loop *loop, agent_answer_fn *answer, void *arg)
{
	struct agent_queries *all = xcalloc(1, sizeof *all);

	all->loop = loop;
	all->answer = answer;
	all->arg = arg;
	LIST_INIT(&all->all);
	return all;
}

void
agent_queries_free(struct agent_queries **out)
{
	struct agent_queries *all = take_ptr(out);

	if (all == NULL)
		return;
	while (!LIST_EMPTY(&all->all))
		query_free(LIST_FIRST(&all->all), STREAM_CANCELLED);
	free(all);
}
