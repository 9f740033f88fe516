/* What the hub has asked a node: told once, by the answer, a refusal or the end, and not at all
 * once it was dropped. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "hub/port/questions.h"

struct asker {
	struct question q;
	unsigned told;
	int rc;
	char text[256];
};

static struct questions all;
static struct asker askers[QUESTIONS_MOST + 1];

static void
on_answered(void *arg, int rc, const char *text, size_t len)
{
	struct asker *a = arg;

	a->told++;
	a->rc = rc;
	snprintf(a->text, sizeof a->text, "%.*s", (int)len, text);
}

static int
setup(void **state)
{
	(void)state;
	memset(&all, 0, sizeof all);
	memset(askers, 0, sizeof askers);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
		askers[i].q.answered = on_answered;
		askers[i].q.arg = &askers[i];
	}
	return 0;
}

static bool
answer(const char *id, enum operation op, const char *content)
{
	struct envelope e = {.parent_id = (char *)(uintptr_t)id,
		.operation = op,
		.content = (char *)(uintptr_t)content,
		.content_len = strlen(content)};

	return questions_answer(&all, &e);
}

static void
answered(void **state)
{
	struct asker *a = &askers[0], *b = &askers[1];
	char id[37];

	(void)state;
	assert_int_equal(questions_add(&all, &a->q), 0);
	assert_int_equal(questions_add(&all, &b->q), 0);
	memcpy(id, a->q.id, sizeof id);
	assert_false(answer("", OP_RESPONSE, "{}"));
	assert_true(answer(id, OP_RESPONSE, "{\"known\":true}"));
	assert_true(a->told == 1 && a->rc == 0 && b->told == 0 && all.n == 1);
	assert_string_equal(a->text, "{\"known\":true}");
	assert_false(answer(id, OP_RESPONSE, "{}"));
	assert_true(answer(b->q.id, OP_ERROR, "\"asked too often\""));
	assert_true(b->told == 1 && b->rc == -EREMOTEIO && all.n == 0);
	assert_string_equal(b->text, "asked too often");
}

/* A reason that is none, or far too long, is not passed on. */
static void
refused_in_other_words(void **state)
{
	static const char *const reasons[] = {"", "{}", "7", "\"", NULL};
	auto_buf struct buf much;

	(void)state;
	buf_init(&much, BUF_UNLIMITED);
	buf_printf(&much, "\"%0*d\"", QUESTION_WHY_MAX + 1, 0);
	for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
		assert_int_equal(questions_add(&all, &askers[0].q), 0);
		assert_true(answer(askers[0].q.id, OP_ERROR,
			reasons[i] != NULL ? reasons[i] : buf_str(&much)));
		assert_int_equal(askers[0].rc, -EREMOTEIO);
		assert_string_equal(askers[0].text, "it refuses, and does not say why");
	}
	assert_int_equal(askers[0].told, ARRAY_LEN(reasons));
}

static void
dropped_and_ended(void **state)
{
	(void)state;
	for (size_t i = 0; i < QUESTIONS_MOST; i++)
		assert_int_equal(questions_add(&all, &askers[i].q), 0);
	assert_int_equal(questions_add(&all, &askers[QUESTIONS_MOST].q), -EBUSY);
	question_drop(&askers[3].q);
	question_drop(&askers[3].q);
	assert_int_equal(questions_add(&all, &askers[QUESTIONS_MOST].q), 0);
	questions_end(&all);
	assert_int_equal(all.n, 0);
	for (size_t i = 0; i < ARRAY_LEN(askers); i++) {
		assert_int_equal(askers[i].told, i != 3);
		assert_int_equal(askers[i].rc, i != 3 ? -ENOTCONN : 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(answered, setup),
		cmocka_unit_test_setup(refused_in_other_words, setup),
		cmocka_unit_test_setup(dropped_and_ended, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
