/* Rules of tokens, and what of them is in the file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/tokens.h"

enum { NOW = 1700000000 };

struct bed {
	char dir[64];
	char *path;
	struct tokens *tokens;
	char secret[TOKEN_SECRET_LEN + 1];
};

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	const char *tmp = getenv("TMPDIR");
	struct err err = {0};

	snprintf(b->dir, sizeof b->dir, "%.40s/tokens-XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(b->dir));
	b->path = xasprintf("%s/tokens.json", b->dir);
	assert_int_equal(tokens_open(&b->tokens, b->path, &err), 0);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	tokens_close(&b->tokens);
	unlink(b->path);
	rmdir(b->dir);
	free(b->path);
	free(b);
	return 0;
}

static void
make(struct bed *b, const char *node, uint64_t ttl_s)
{
	struct err err = {0};

	assert_int_equal(tokens_create(b->tokens, node, ttl_s, NOW, b->secret, &err), 0);
	assert_int_equal(strlen(b->secret), TOKEN_SECRET_LEN);
}

static int
check(struct bed *b, const char *secret, const char *node, bool taken, int64_t now)
{
	return tokens_check(b->tokens, secret, node, taken, now, NULL);
}

static void
a_token_serves_its_node_alone_and_again(void **state)
{
	struct bed *b = *state;

	make(b, "edge-1", 60);
	assert_int_equal(check(b, b->secret, "edge-1", false, NOW), 0);
	assert_int_equal(check(b, b->secret, "edge-1", true, NOW), 0);
	assert_int_equal(check(b, b->secret, "edge-2", false, NOW), -EACCES);
	assert_int_equal(check(b, b->secret, "edge-11", false, NOW), -EACCES);
}

static void
a_token_without_a_name_takes_no_name_away(void **state)
{
	struct bed *b = *state;

	make(b, "", 60);
	assert_int_equal(check(b, b->secret, "edge-1", false, NOW), 0);
	assert_int_equal(check(b, b->secret, "edge-2", false, NOW), 0);
	assert_int_equal(check(b, b->secret, "edge-1", true, NOW), -EEXIST);
}

static void
a_token_ends(void **state)
{
	struct bed *b = *state;

	make(b, "", 60);
	assert_int_equal(check(b, b->secret, "edge-1", false, NOW + 59), 0);
	assert_int_equal(check(b, b->secret, "edge-1", false, NOW + 60), -EACCES);
	assert_int_equal(tokens_create(b->tokens, "", 0, NOW, b->secret, NULL), -EINVAL);
	assert_int_equal(tokens_create(b->tokens, "", UINT64_MAX, NOW, b->secret, NULL), -EINVAL);
}

static void
every_other_secret_is_refused(void **state)
{
	struct bed *b = *state;
	char wrong[2 * TOKEN_SECRET_LEN];

	make(b, "", 60);
	for (size_t i = 0; i < TOKEN_SECRET_LEN; i++) {
		snprintf(wrong, sizeof wrong, "%s", b->secret);
		wrong[i] = wrong[i] == '0' ? '1' : '0';
		assert_int_equal(check(b, wrong, "edge-1", false, NOW), -EACCES);
	}
	snprintf(wrong, sizeof wrong, "%s0", b->secret);
	assert_int_equal(check(b, wrong, "edge-1", false, NOW), -EACCES);
	snprintf(wrong, sizeof wrong, "%.8s", b->secret);
	assert_int_equal(check(b, wrong, "edge-1", false, NOW), -EACCES);
	assert_int_equal(check(b, "", "edge-1", false, NOW), -EACCES);
}

static void
a_revoked_token_is_gone(void **state)
{
	struct bed *b = *state;
	char id[TOKEN_ID_LEN + 1];

	make(b, "", 60);
	snprintf(id, sizeof id, "%.8s", b->secret);
	assert_int_equal(tokens_revoke(b->tokens, "", NULL), -ENOENT);
	assert_int_equal(tokens_revoke(b->tokens, "zzzzzzzz", NULL), -ENOENT);
	assert_int_equal(tokens_revoke(b->tokens, id, NULL), 0);
	assert_int_equal(tokens_revoke(b->tokens, id, NULL), -ENOENT);
	assert_int_equal(check(b, b->secret, "edge-1", false, NOW), -EACCES);
	assert_int_equal(tokens_count(b->tokens), 0);
}

static void
the_file_keeps_all_but_the_secret(void **state)
{
	struct bed *b = *state;
	auto_free char *text = NULL;
	auto_buf struct buf out;
	struct err err = {0};
	struct stat st;

	make(b, "edge-1", 60);
	assert_int_equal(file_read(b->path, 1 << 20, &text, NULL), 0);
	assert_null(strstr(text, b->secret + TOKEN_ID_LEN));
	assert_int_equal(stat(b->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	tokens_close(&b->tokens);
	assert_int_equal(tokens_open(&b->tokens, b->path, &err), 0);
	assert_int_equal(check(b, b->secret, "edge-1", true, NOW), 0);
	assert_int_equal(check(b, b->secret, "edge-2", true, NOW), -EACCES);
	buf_init(&out, BUF_UNLIMITED);
	tokens_list(b->tokens, NOW, &out);
	assert_non_null(
		strstr(buf_str(&out), "\"node\":\"edge-1\",\"expires\":\"2023-11-14T22:14:20Z\""));
	buf_consume(&out, buf_len(&out));
	tokens_list(b->tokens, NOW + 60, &out);
	assert_string_equal(buf_str(&out), "[]");
}

static void
a_damaged_file_is_an_error(void **state)
{
	static const char *const damaged[] = {"{", "{\"tokens\":[{\"id\":\"12\"}]}",
		"{\"tokens\":[{\"id\":\"01234567\",\"sha256\":\"00\",\"expires\":1}]}"};
	struct bed *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(damaged); i++) {
		struct err err = {0};

		tokens_close(&b->tokens);
		assert_int_equal(file_write(b->path, damaged[i], strlen(damaged[i]), 0600), 0);
		assert_true(tokens_open(&b->tokens, b->path, &err) < 0);
		assert_null(b->tokens);
		assert_non_null(strstr(err.text, "tokens.json"));
	}
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(a_token_serves_its_node_alone_and_again),
		case_of(a_token_without_a_name_takes_no_name_away),
		case_of(a_token_ends),
		case_of(every_other_secret_is_refused),
		case_of(a_revoked_token_is_gone),
		case_of(the_file_keeps_all_but_the_secret),
		case_of(a_damaged_file_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
