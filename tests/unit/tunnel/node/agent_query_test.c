/* Questions of operators for the agent, which come by the tunnel. */
#include "tunnel/node/agent_query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fake/clock.h"
#include "tests/unit/tunnel/h2/tunnel_bed.h"

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)arg;
	(void)status;
	(void)reason;
}

static void
on_move(void *arg)
{
	(void)arg;
}

static void
on_reset(void *arg, unsigned code)
{
	(void)arg;
	(void)code;
}

static const struct stream_events stream_events = {on_answered, on_move, on_move, on_reset};

static struct agent_queries *queries;
static unsigned asked;
static size_t answer_bytes; /* 0: a short one */

static unsigned
on_asked(void *arg, const char *target, struct buf *out)
{
	static const char piece[1 << 16];

	(void)arg;
	assert_string_equal(target, "/debug/state");
	buf_adds(out, "{}");
	while (buf_len(out) < answer_bytes)
		assert_int_equal(buf_add(out, piece, sizeof piece), 0);
	asked++;
	return 200;
}

static bool
on_question(struct bed *b, struct stream *st)
{
	const struct stream_field field = {AGENT_QUERY_TARGET, "/debug/state"};
	const struct stream_request request = {.fields = &field, .n_fields = 1};
	const char *reason = "";
	unsigned status = agent_query_opened(queries, st, &request, &reason);

	(void)b;
	if (status != 0) {
		stream_accept(st, &stream_events, NULL);
		stream_answer(st, status, reason);
		stream_close(&st, STREAM_DONE);
	}
	return true;
}

static unsigned
ask_once(struct bed *b)
{
	struct end e = {0};
	unsigned status;

	bed_open(b, &e, "edgeway-ask:1");
	bed_until(b, e.status != 0);
	status = e.status;
	stream_close(&e.st, STREAM_CANCELLED);
	bed_until(b, session_stats(b->far)->streams == 0);
	return status;
}

/* Each answer is made on the loop that does the agent's other work. */
static void
test_questions_have_a_rate(void **state)
{
	struct bed b;

	(void)state;
	bed_init(&b, false);
	b.take = on_question;
	queries = agent_queries_new(b.loop, on_asked, NULL);
	asked = 0;
	for (int i = 0; i < AGENT_QUERY_BURST; i++)
		assert_int_equal(ask_once(&b), 200);
	assert_int_equal(ask_once(&b), 429);
	assert_int_equal(asked, AGENT_QUERY_BURST);
	clock_pass(AGENT_QUERY_EVERY_MS * 1000);
	assert_int_equal(ask_once(&b), 200);
	assert_int_equal(ask_once(&b), 429);
	agent_queries_free(&queries);
	bed_fini(&b);
}

/* A hub that asks and does not read makes the agent hold no more than a bound. */
static void
test_answers_have_a_bound(void **state)
{
	struct bed b;
	struct end e[AGENT_QUERIES_MOST] = {0};

	(void)state;
	bed_init(&b, false);
	b.take = on_question;
	queries = agent_queries_new(b.loop, on_asked, NULL);
	answer_bytes = AGENT_QUERIES_BYTES / 3;
	for (int i = 0; i < AGENT_QUERIES_MOST; i++) {
		bed_open(&b, &e[i], "edgeway-ask:1");
		e[i].stalled = true;
		bed_until(&b, e[i].status != 0);
		assert_int_equal(e[i].status, i < 2 ? 200 : 503);
	}
	assert_non_null(strstr(e[2].reason, "16 MiB"));
	stream_close(&e[0].st, STREAM_CANCELLED);
	bed_until(&b, session_stats(b.far)->streams == 1);
	assert_int_equal(ask_once(&b), 200);
	answer_bytes = 0;
	bed_fini_open(&b, e, AGENT_QUERIES_MOST);
	agent_queries_free(&queries);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_questions_have_a_rate),
		cmocka_unit_test(test_answers_have_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
