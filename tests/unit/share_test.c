/* What replicas merge: tokens, the roll of nodes and the revocations end alike, in whatever order they hear of each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/log.h"
#include "hub/revoked.h"
#include "hub/roll.h"
#include "hub/tokens.h"

enum { NOW = 1800000000 };

struct bed {
	char dir[64];
	char *path[2];
};

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	const char *tmp = getenv("TMPDIR");

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	snprintf(b->dir, sizeof b->dir, "%.40s/share-XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(b->dir));
	for (int i = 0; i < 2; i++)
		b->path[i] = xasprintf("%s/%d.json", b->dir, i);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	for (int i = 0; i < 2; i++) {
		unlink(b->path[i]);
		free(b->path[i]);
	}
	rmdir(b->dir);
	free(b);
	return 0;
}

/* --- tokens ----------------------------------------------------------------------- */

static void
hear_tokens(struct tokens *to, const struct tokens *from, bool news, bool lacks)
{
	auto_buf struct buf text;
	bool got_news, got_lacks;

	buf_init(&text, BUF_UNLIMITED);
	tokens_text(from, &text);
	assert_int_equal(tokens_merge(to, buf_str(&text), NOW, &got_news, &got_lacks, NULL), 0);
	assert_int_equal(got_news, news);
	assert_int_equal(got_lacks, lacks);
}

static void
tokens_meet(void **state)
{
	struct bed *b = *state;
	char one[TOKEN_SECRET_LEN + 1], two[TOKEN_SECRET_LEN + 1], old[TOKEN_SECRET_LEN + 1];
	struct tokens *t[2];
	struct err err = {0};
	bool news, lacks;

	for (int i = 0; i < 2; i++)
		assert_int_equal(tokens_open(&t[i], b->path[i], &err), 0);
	assert_int_equal(tokens_create(t[0], "edge-1", 100, NOW, one, &err), 0);
	assert_int_equal(tokens_create(t[1], "", 100, NOW, two, &err), 0);
	assert_int_equal(tokens_create(t[1], "", 100, NOW - 200, old, &err), 0);
	hear_tokens(t[0], t[1], true, true);
	hear_tokens(t[1], t[0], true, false);
	hear_tokens(t[0], t[1], false, false);
	assert_int_equal(tokens_check(t[1], one, "edge-1", false, NOW, &err), 0);
	assert_int_equal(tokens_check(t[0], two, "edge-2", false, NOW, &err), 0);
	assert_true(tokens_serves_any(t[0], two));
	assert_false(tokens_serves_any(t[0], one));
	assert_int_equal(tokens_check(t[0], old, "edge-2", false, NOW, &err), -EACCES);
	/* Revoked at one: the other, which has it still, does not bring it back. */
	two[TOKEN_ID_LEN] = '\0';
	assert_int_equal(tokens_revoke(t[0], two, &err), 0);
	assert_int_equal(tokens_revoke(t[0], two, &err), -ENOENT);
	hear_tokens(t[0], t[1], false, true);
	hear_tokens(t[1], t[0], true, false);
	assert_int_equal(tokens_count(t[0]), 1);
	/* Also not from its file. */
	tokens_close(&t[1]);
	assert_int_equal(tokens_open(&t[1], b->path[1], &err), 0);
	hear_tokens(t[1], t[0], false, false);
	assert_int_equal(tokens_revoke(t[1], two, &err), -ENOENT);
	assert_int_equal(tokens_merge(t[1], "", NOW, &news, &lacks, &err), 0);
	assert_true(!news && lacks);
	assert_true(tokens_merge(t[1], "{\"tokens\":[{}]}", NOW, &news, &lacks, &err) < 0);
	for (int i = 0; i < 2; i++)
		tokens_close(&t[i]);
}

/* --- revocations --------------------------------------------------------------------- */

static void
hear_revoked(struct revoked *to, const struct revoked *from, bool news, bool lacks)
{
	auto_buf struct buf text;
	bool got_news, got_lacks;

	buf_init(&text, BUF_UNLIMITED);
	revoked_text(from, &text);
	assert_int_equal(revoked_merge(to, buf_str(&text), &got_news, &got_lacks, NULL), 0);
	assert_int_equal(got_news, news);
	assert_int_equal(got_lacks, lacks);
}

static void
revocations_meet(void **state)
{
	struct bed *b = *state;
	struct revoked *r[2];
	struct err err = {0};

	for (int i = 0; i < 2; i++)
		assert_int_equal(revoked_open(&r[i], b->path[i], &err), 0);
	assert_int_equal(revoked_add(r[0], "edge-1", NOW, &err), 0);
	assert_int_equal(revoked_sign(r[0], "edge-1", "01", &err), 0);
	hear_revoked(r[1], r[0], true, false);
	assert_false(revoked_refuses(r[1], "edge-1", "01"));
	/* Each signs one: both are good. */
	assert_int_equal(revoked_sign(r[0], "edge-1", "02", &err), 0);
	assert_int_equal(revoked_sign(r[1], "edge-1", "03", &err), 0);
	hear_revoked(r[0], r[1], true, true);
	hear_revoked(r[1], r[0], true, false);
	for (int i = 0; i < 2; i++) {
		assert_false(revoked_refuses(r[i], "edge-1", "02"));
		assert_false(revoked_refuses(r[i], "edge-1", "03"));
	}
	/* Revoked again, by a clock that is behind: nothing of before is good, whoever says it. */
	assert_int_equal(revoked_add(r[1], "edge-1", NOW - 500, &err), 0);
	hear_revoked(r[1], r[0], false, true);
	hear_revoked(r[0], r[1], true, false);
	assert_true(revoked_refuses(r[0], "edge-1", "02"));
	/* The newest of many is known to the other, which is behind and full. */
	for (int i = 0; i < REVOKED_GOOD_MAX; i++)
		assert_int_equal(
			revoked_sign(r[0], "edge-1", (char[]){'a', (char)('0' + i), 0}, &err), 0);
	hear_revoked(r[1], r[0], true, false);
	assert_int_equal(revoked_sign(r[0], "edge-1", "ff", &err), 0);
	hear_revoked(r[1], r[0], true, false);
	assert_false(revoked_refuses(r[1], "edge-1", "ff"));
	assert_true(revoked_refuses(r[1], "edge-1", "a0"));
	hear_revoked(r[0], r[1], false, false);
	for (int i = 0; i < 2; i++)
		revoked_close(&r[i]);
}

/* --- the roll ---------------------------------------------------------------------------- */

static void
rolls_meet(void **state)
{
	struct roll *r[2] = {roll_new(), roll_new()};
	struct roll_entry e = {.serial = "aa", .signed_s = NOW, .expires_s = NOW + 9};
	auto_buf struct buf text;
	bool news, lacks;
	struct err err = {0};
	size_t at = 0;

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	roll_add(r[0], "edge-1", &e);
	roll_add(r[0], "edge-2", &e);
	e.signed_s++;
	strcpy(e.serial, "bb");
	roll_add(r[1], "edge-1", &e);
	roll_text(r[1], &text);
	assert_int_equal(roll_merge(r[0], buf_str(&text), &news, &lacks, &err), 0);
	assert_true(news && lacks);
	assert_string_equal(roll_find(r[0], "edge-1")->serial, "bb");
	assert_string_equal(roll_find(r[0], "edge-2")->serial, "aa");
	assert_int_equal(roll_merge(r[0], buf_str(&text), &news, &lacks, &err), 0);
	assert_true(!news && lacks);
	roll_remove(r[0], "edge-2");
	assert_null(roll_find(r[0], "edge-2"));
	assert_int_equal(roll_merge(r[0], buf_str(&text), &news, &lacks, &err), 0);
	assert_true(!news && !lacks);
	assert_string_equal(roll_walk(r[0], &at), "edge-1");
	assert_null(roll_walk(r[0], &at));
	assert_true(roll_merge(r[0],
			    "{\"nodes\":[{\"node\":\"../x\",\"serial\":\"aa\",\"signed\":1,"
			    "\"expires\":2}]}",
			    &news, &lacks, &err) < 0);
	assert_int_equal(roll_count(r[0]), 1);
	roll_free(&r[0]);
	roll_free(&r[1]);
}

/* Two certificates of one second, and one by a clock that is behind: the last one signed counts, at the other replica too. */
static void
rolls_keep_their_order(void **state)
{
	static const struct roll_entry signed_in_order[] = {
		{.serial = "cc", .signed_s = NOW, .expires_s = NOW + 9},
		{.serial = "bb", .signed_s = NOW, .expires_s = NOW + 9},
		{.serial = "aa", .signed_s = NOW - 60, .expires_s = NOW + 9},
	};
	struct roll *r[2] = {roll_new(), roll_new()};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(signed_in_order); i++) {
		const char *serial = signed_in_order[i].serial;
		auto_buf struct buf text;
		bool news, lacks;
		struct err err = {0};

		buf_init(&text, BUF_UNLIMITED);
		roll_sign(r[0], "edge-1", &signed_in_order[i]);
		assert_string_equal(roll_find(r[0], "edge-1")->serial, serial);
		roll_sign(r[0], "edge-1", &signed_in_order[i]); /* told again: nothing new */
		assert_int_equal(roll_find(r[0], "edge-1")->signed_s, NOW + (int64_t)i);
		roll_text(r[0], &text);
		assert_int_equal(roll_merge(r[1], buf_str(&text), &news, &lacks, &err), 0);
		assert_true(news && !lacks);
		assert_string_equal(roll_find(r[1], "edge-1")->serial, serial);
	}
	roll_free(&r[0]);
	roll_free(&r[1]);
}

/* RFC 4648 section 10. */
static void
base64_there_and_back(void **state)
{
	static const char *const pairs[][2] = {{"f", "Zg=="}, {"fo", "Zm8="}, {"foo", "Zm9v"},
		{"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		auto_free char *text = base64_text(pairs[i][1]);
		auto_buf struct buf b;

		buf_init(&b, BUF_UNLIMITED);
		base64_add(&b, pairs[i][0], strlen(pairs[i][0]));
		assert_string_equal(buf_str(&b), pairs[i][1]);
		assert_string_equal(text, pairs[i][0]);
	}
	assert_null(base64_text(""));
	assert_null(base64_text("Zg!="));
	assert_null(base64_text("AAAA"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tokens_meet, setup, teardown),
		cmocka_unit_test_setup_teardown(revocations_meet, setup, teardown),
		cmocka_unit_test(rolls_meet),
		cmocka_unit_test(rolls_keep_their_order),
		cmocka_unit_test(base64_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
