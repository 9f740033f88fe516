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

#include "base/core/log.h"
#include "base/tls/pki.h"
#include "hub/identity/joins.h"
#include "hub/identity/tokens.h"

enum { NOW = 1700000000 };

struct bed {
	char dir[64];
	char *path;
	struct registry *registry;
	char secret[TOKEN_SECRET_LEN + 1];
	struct tokens_terms terms;
};

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	const char *tmp = getenv("TMPDIR");
	struct err err = {0};

	snprintf(b->dir, sizeof b->dir, "%.40s/tokens-XXXXXX", tmp != NULL ? tmp : "/tmp");
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	assert_non_null(mkdtemp(b->dir));
	b->path = xasprintf("%s/tokens.json", b->dir);
	assert_int_equal(registry_open(&b->registry, b->dir, &err), 0);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	registry_close(&b->registry);
	unlink(b->path);
	rmdir(b->dir);
	free(b->path);
	free(b);
	return 0;
}

static void
make(struct bed *b, const char *node, uint64_t ttl_s)
{
	const struct tokens_wish wish = {.node = node, .uses = 1, .ttl_s = ttl_s};
	struct err err = {0};

	assert_int_equal(tokens_create(b->registry, &wish, NOW, b->secret, &err), 0);
	assert_int_equal(strlen(b->secret), TOKEN_SECRET_LEN);
}

static int
check(struct bed *b, const char *secret, const char *node, int64_t now)
{
	return tokens_check(b->registry, secret, node, now, &b->terms, NULL);
}

static void
a_token_serves_its_node_alone(void **state)
{
	struct bed *b = *state;

	make(b, "edge-1", 60);
	assert_int_equal(check(b, b->secret, "edge-1", NOW), 0);
	assert_false(b->terms.any_name);
	assert_int_equal(b->terms.uses, 1);
	assert_int_equal(b->terms.expires_s, NOW + 60);
	assert_memory_equal(b->terms.id, b->secret, TOKEN_ID_LEN);
	assert_int_equal(check(b, b->secret, "edge-2", NOW), -EACCES);
	assert_int_equal(check(b, b->secret, "edge-11", NOW), -EACCES);
}

static void
a_token_without_a_name_serves_any(void **state)
{
	struct bed *b = *state;

	make(b, "", 60);
	assert_int_equal(check(b, b->secret, "edge-1", NOW), 0);
	assert_true(b->terms.any_name);
	assert_int_equal(check(b, b->secret, "edge-2", NOW), 0);
}

/* Files of before uses were counted: for a node one join, for any name as many as there are. */
static void
tokens_of_before_have_uses(void **state)
{
	static const char text[] =
		"{\"tokens\":[{\"id\":\"%.8s\",\"sha256\":\"%s\",\"expires\":%d,\"node\":\"%s\"}]}";
	struct bed *b = *state;
	char secret[TOKEN_SECRET_LEN + 1], hash[PKI_HASH_TEXT];
	struct err err = {0};

	memset(secret, 'a', sizeof secret - 1);
	secret[sizeof secret - 1] = '\0';
	pki_sha256_hex(secret, strlen(secret), hash);
	for (int named = 0; named < 2; named++) {
		auto_free char *json =
			xasprintf(text, secret, hash, NOW + 60, named ? "edge-1" : "");

		registry_close(&b->registry);
		assert_int_equal(file_write(b->path, json, strlen(json), 0600), 0);
		assert_int_equal(registry_open(&b->registry, b->dir, &err), 0);
		assert_int_equal(check(b, secret, "edge-1", NOW), 0);
		assert_int_equal(b->terms.uses, named);
	}
}

/* A folder in the way stands for a full disk: what is revoked is so at once, is told, and is
 * written as soon as that is possible. */
static void
revoking_needs_no_disk(void **state)
{
	struct bed *b = *state;
	char id[TOKEN_ID_LEN + 1];
	struct err err = {0};

	make(b, "edge-1", 60);
	snprintf(id, sizeof id, "%.8s", b->secret);
	assert_int_equal(unlink(b->path), 0);
	assert_int_equal(mkdir(b->path, 0700), 0);
	assert_int_equal(tokens_revoke(b->registry, id, &err), 0);
	assert_int_equal(check(b, b->secret, "edge-1", NOW), -EACCES);
	assert_non_null(strstr(registry_problem(b->registry), "tokens.json"));
	registry_retry(b->registry);
	assert_string_not_equal(registry_problem(b->registry), "");
	assert_int_equal(rmdir(b->path), 0);
	registry_retry(b->registry);
	assert_string_equal(registry_problem(b->registry), "");
	registry_close(&b->registry);
	assert_int_equal(registry_open(&b->registry, b->dir, &err), 0);
	assert_int_equal(check(b, b->secret, "edge-1", NOW), -EACCES);
}

static void
a_token_ends(void **state)
{
	struct bed *b = *state;
	struct tokens_wish wish = {.node = ""};

	make(b, "", 60);
	assert_int_equal(check(b, b->secret, "edge-1", NOW + 59), 0);
	assert_int_equal(check(b, b->secret, "edge-1", NOW + 60), -EACCES);
	wish.ttl_s = 0;
	assert_int_equal(tokens_create(b->registry, &wish, NOW, b->secret, NULL), -EINVAL);
	wish.ttl_s = UINT64_MAX;
	assert_int_equal(tokens_create(b->registry, &wish, NOW, b->secret, NULL), -EINVAL);
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
		assert_int_equal(check(b, wrong, "edge-1", NOW), -EACCES);
	}
	snprintf(wrong, sizeof wrong, "%s0", b->secret);
	assert_int_equal(check(b, wrong, "edge-1", NOW), -EACCES);
	snprintf(wrong, sizeof wrong, "%.8s", b->secret);
	assert_int_equal(check(b, wrong, "edge-1", NOW), -EACCES);
	assert_int_equal(check(b, "", "edge-1", NOW), -EACCES);
}

static void
a_revoked_token_is_gone(void **state)
{
	struct bed *b = *state;
	char id[TOKEN_ID_LEN + 1];

	make(b, "", 60);
	snprintf(id, sizeof id, "%.8s", b->secret);
	assert_int_equal(tokens_revoke(b->registry, "", NULL), -ENOENT);
	assert_int_equal(tokens_revoke(b->registry, "zzzzzzzz", NULL), -ENOENT);
	assert_int_equal(tokens_revoke(b->registry, id, NULL), 0);
	assert_int_equal(tokens_revoke(b->registry, id, NULL), -ENOENT);
	assert_int_equal(check(b, b->secret, "edge-1", NOW), -EACCES);
	assert_int_equal(tokens_count(b->registry), 0);
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
	registry_close(&b->registry);
	assert_int_equal(registry_open(&b->registry, b->dir, &err), 0);
	assert_int_equal(check(b, b->secret, "edge-1", NOW), 0);
	assert_int_equal(check(b, b->secret, "edge-2", NOW), -EACCES);
	buf_init(&out, BUF_UNLIMITED);
	tokens_list(b->registry, NOW, &out);
	assert_non_null(strstr(buf_str(&out),
		"\"node\":\"edge-1\",\"uses\":1,\"used\":0,\"expires\":\"2023-11-14T22:14:20Z\""));
	buf_consume(&out, buf_len(&out));
	tokens_list(b->registry, NOW + 60, &out);
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

		registry_close(&b->registry);
		assert_int_equal(file_write(b->path, damaged[i], strlen(damaged[i]), 0600), 0);
		assert_true(registry_open(&b->registry, b->dir, &err) < 0);
		assert_null(b->registry);
		assert_non_null(strstr(err.text, "tokens.json"));
		assert_non_null(strstr(err.text, "move it away"));
	}
}

/* Another replica's joins come with each write of its Secret, and the Secret keeps them. */
static void
joins_heard_are_written_later(void **state)
{
	static const char heard_text[] =
		"{\"joins\":[{\"token\":\"01234567\",\"node\":\"edge-1\",\"key\":"
		"\"0123456789abcdef0123456789abcdef\",\"until\":5}]}";
	struct bed *b = *state;
	auto_free char *path = xasprintf("%s/joins.json", b->dir);
	struct registry_heard heard = {0};
	struct err err = {0};

	assert_int_equal(
		registry_merge(b->registry, REGISTRY_JOINS, heard_text, 1, &heard, &err), 0);
	assert_true(heard.news);
	assert_int_equal(joins_count(b->registry, "01234567"), 1);
	assert_int_equal(access(path, F_OK), -1);
	registry_retry(b->registry);
	assert_return_code(unlink(path), errno);
	registry_retry(b->registry);
	assert_int_equal(access(path, F_OK), -1);
	registry_keep_later(b->registry, REGISTRY_JOINS);
	registry_close(&b->registry);
	assert_return_code(access(path, F_OK), errno);
	assert_int_equal(registry_open(&b->registry, b->dir, &err), 0);
	assert_int_equal(joins_count(b->registry, "01234567"), 1);
	assert_return_code(unlink(path), errno);
}

/* What the other replica wrote is heard. */
static void
hear(struct registry *const r[2], int to, int64_t now_s, bool news, bool lacks)
{
	struct registry_heard heard = {0};
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	registry_text(r[1 - to], REGISTRY_TOKENS, true, &text);
	assert_int_equal(
		registry_merge(r[to], REGISTRY_TOKENS, buf_str(&text), now_s, &heard, NULL), 0);
	assert_int_equal(heard.news, news);
	assert_int_equal(heard.lacks, lacks);
}

static int
check_at(const struct registry *r, const char *secret)
{
	struct tokens_terms terms;

	return tokens_check(r, secret, "edge-1", NOW, &terms, NULL);
}

/* The clock of one replica is ahead for some time: what it has ended, for which it forgets the
 * joins, the others do not bring back, also where it is the first to hear of it then. */
static void
a_token_ends_for_all(void **state)
{
	const struct tokens_wish wish = {"edge-1", 1, 100};
	struct bed *b = *state;
	auto_free char *dir = xasprintf("%s/other", b->dir);
	auto_free char *path = xasprintf("%s/tokens.json", dir);
	struct registry *r[2] = {b->registry};
	char secret[TOKEN_SECRET_LEN + 1];

	assert_return_code(mkdir(dir, 0700), errno);
	assert_int_equal(registry_open(&r[1], dir, NULL), 0);
	assert_int_equal(tokens_create(r[0], &wish, NOW, secret, NULL), 0);
	hear(r, 1, NOW, true, false);
	assert_int_equal(tokens_end(r[0], NOW + 200), 1);
	assert_int_equal(tokens_end(r[0], NOW + 200), 0);
	hear(r, 0, NOW, false, true);
	assert_int_equal(check_at(r[0], secret), -EACCES);
	hear(r, 1, NOW + 200, true, false);
	assert_int_equal(check_at(r[1], secret), -EACCES);
	assert_int_equal(tokens_end(r[1], NOW + 200), 0);
	/* Heard for the first time, while the clock is ahead. */
	assert_int_equal(tokens_create(r[1], &wish, NOW, secret, NULL), 0);
	hear(r, 0, NOW + 200, true, false);
	assert_int_equal(tokens_end(r[0], NOW + 200), 1);
	assert_int_equal(check_at(r[0], secret), -EACCES);
	hear(r, 1, NOW + 200, true, false);
	/* In the end it is forgotten, and not heard again of a replica that still has it. */
	assert_int_equal(tokens_create(r[0], &wish, NOW + 200, secret, NULL), 0);
	hear(r, 1, NOW + 200, true, false);
	hear(r, 0, NOW + 200, false, false);
	registry_close(&r[1]);
	unlink(path);
	rmdir(dir);
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(a_token_serves_its_node_alone),
		case_of(a_token_without_a_name_serves_any),
		case_of(tokens_of_before_have_uses),
		case_of(revoking_needs_no_disk),
		case_of(a_token_ends),
		case_of(every_other_secret_is_refused),
		case_of(a_revoked_token_is_gone),
		case_of(the_file_keeps_all_but_the_secret),
		case_of(a_damaged_file_is_an_error),
		case_of(joins_heard_are_written_later),
		case_of(a_token_ends_for_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
