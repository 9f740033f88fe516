/* The node's end of the hub's question, before hubs that answer well and badly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"
#include "tunnel/node/reachability.h"

static struct reachability *declaration;
static unsigned taken;

static bool
take(struct bed *b, struct stream *st)
{
	const struct stream_field field = {REACHABILITY_ASK, REACHABILITY_REACH};
	const struct stream_request request = {.authority = "", .fields = &field, .n_fields = 1};
	const char *reason;

	(void)b;
	taken++;
	assert_int_equal(reachability_opened(declaration, st, &request, &reason), 0);
	return true;
}

static void
use(const char *first, const char *second)
{
	const char *const list[] = {first, second, NULL};
	struct reachable_nets *v;

	assert_int_equal(reachable_nets_new(list, &v, NULL), 0);
	reachability_use(declaration, &v);
}

static void
begin(struct bed *b)
{
	bed_init(b, false);
	b->take = take;
	declaration = reachability_new(b->loop);
	use("edge-2", "192.168.1.0/24:9100");
	taken = 0;
}

static void
finish(struct bed *b, struct end *e)
{
	reachability_free(&declaration);
	bed_fini_open(b, e, 1);
}

/* The hub's side: asks, reads to the end, and says `answer`. */
static void
ask(struct bed *b, struct end *e, const char *answer, bool end)
{
	bed_open(b, e, REACHABILITY_AUTHORITY);
	bed_until(b, e->eof);
	assert_int_equal(e->status, 200);
	stream_write(e->st, answer, strlen(answer));
	if (end)
		stream_end(e->st);
}

static const char *
state(void)
{
	static char text[2000];
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	reachability_state(declaration, &b);
	snprintf(text, sizeof text, "%s", buf_str(&b));
	return text;
}

#define FIRST(hub, problem)                                                                        \
	"[{\"entry\":\"edge-2\",\"hub\":\"" hub "\",\"problem\":\"" problem "\"},"
#define SECOND(hub, problem)                                                                       \
	"{\"entry\":\"192.168.1.0/24:9100\",\"hub\":\"" hub "\",\"problem\":\"" problem "\"}]"
#define UNSAID FIRST("has not answered", "") SECOND("has not answered", "")

static void
it_says_and_hears(void **state_)
{
	struct end e = {0};
	struct bed b;

	(void)state_;
	begin(&b);
	assert_string_equal(state(), UNSAID);
	ask(&b, &e, "that node is of another site\nok\n", true);
	assert_int_equal(e.got, strlen("edge-2\n192.168.1.0/24:9100\n"));
	bed_until(&b, strstr(state(), "refused") != NULL);
	assert_string_equal(
		state(), FIRST("refused", "that node is of another site") SECOND("accepted", ""));
	/* Something else is to be said: what was heard of the former is void. */
	use("edge-2", NULL);
	assert_string_equal(
		state(), "[{\"entry\":\"edge-2\",\"hub\":\"has not answered\",\"problem\":\"\"}]");
	finish(&b, &e);
}

static void
bad_answers(void **state_)
{
	static const char *const answers[] = {"", "ok", "\n", "\x01\x02\n\xff\n", "ok\nok\nok\n"};

	(void)state_;
	for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
		struct end e = {0}, again = {0};
		struct bed b;

		begin(&b);
		ask(&b, &e, answers[i], true);
		bed_until(&b, session_stats(b.far)->streams == 0);
		assert_string_equal(reachability_vicinity(declaration)->list[0].text, "edge-2");
		stream_close(&e.st, STREAM_DONE);
		/* It can be asked again, and is told. */
		ask(&b, &again, "ok\nok\n", true);
		bed_until(&b, strcmp(state(), FIRST("accepted", "") SECOND("accepted", "")) == 0);
		assert_int_equal(taken, 2);
		finish(&b, &again);
	}
}

/* More than there can be to say, and one that never ends: the stream is broken off. */
static void
answers_without_end(void **state_)
{
	static char many[REACHABILITY_ANSWER_MAX + 2];
	struct end e = {0};
	struct bed b;

	(void)state_;
	memset(many, 'x', sizeof many - 1);
	begin(&b);
	ask(&b, &e, many, false);
	bed_until(&b, e.reset);
	assert_int_equal(e.code, STREAM_CANCELLED);
	assert_string_equal(state(), UNSAID);
	finish(&b, &e);
}

/* A second question takes the place of one that is not answered. */
static void
asked_twice(void **state_)
{
	struct end ends[2] = {0};
	struct bed b;

	(void)state_;
	begin(&b);
	ask(&b, &ends[0], "", false);
	ask(&b, &ends[1], "ok\nok\n", true);
	bed_until(&b, ends[0].reset && strstr(state(), "accepted") != NULL);
	reachability_free(&declaration);
	bed_fini_open(&b, ends, 2);
}

static void
another_question(void **state_)
{
	const struct stream_field field = {REACHABILITY_ASK, "the time"};
	const struct stream_request request = {.authority = "", .fields = &field, .n_fields = 1};
	const char *reason = NULL;
	struct loop *loop;

	(void)state_;
	assert_int_equal(loop_new(&loop, NULL), 0);
	declaration = reachability_new(loop);
	assert_int_equal(reachability_opened(declaration, NULL, &request, &reason), 404);
	assert_non_null(reason);
	reachability_free(&declaration);
	loop_free(&loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_says_and_hears),
		cmocka_unit_test(bad_answers),
		cmocka_unit_test(answers_without_end),
		cmocka_unit_test(asked_twice),
		cmocka_unit_test(another_question),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
