/* The files of a node's identity: what a crash between two of them leaves, and whose CA is
 * believed. */
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

#include "base/tls/pki.h"
#include "meta/client/join.h"
#include "model/json.h"

struct bed {
	char dir[64];
	struct join_files files;
	char *ca, *ca_key, *other_ca;
};

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	auto_free char *key = NULL;
	const char *tmp = getenv("TMPDIR");

	snprintf(b->dir, sizeof b->dir, "%.40s/join-XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(b->dir));
	join_files_init(&b->files, b->dir, "", "", "");
	assert_int_equal(pki_ca_new("one", 10, &b->ca, &b->ca_key, NULL), 0);
	assert_int_equal(pki_ca_new("two", 10, &b->other_ca, &key, NULL), 0);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bed *b = *state;
	auto_free char *command = xasprintf("rm -rf %s", b->dir);

	assert_int_equal(system(command), 0);
	join_files_fini(&b->files);
	free(b->ca);
	free(b->ca_key);
	free(b->other_ca);
	free(b);
	return 0;
}

/* What a hub with these CAs answers to the key. */
static char *
answer_for(struct bed *b, const char *key, const char *cas)
{
	struct pki_issue issue = {.ca_cert_pem = b->ca,
		.ca_key_pem = b->ca_key,
		.common_name = "edge-1",
		.client = true,
		.life_s = 3000};
	auto_free char *cert = NULL;
	auto_buf struct buf out;

	assert_int_equal(pki_sign_key(&issue, key, &cert, NULL), 0);
	buf_init(&out, BUF_UNLIMITED);
	buf_adds(&out, "{\"cert\":");
	json_add_text(&out, cert);
	buf_adds(&out, ",\"ca\":");
	json_add_text(&out, cas);
	buf_adds(&out, "}");
	return xstrdup(buf_str(&out));
}

static int
accept_answer(
	struct bed *b, const char *key, const char *cas, const char *hash, enum join_key_kind kind)
{
	auto_free char *json = answer_for(b, key, cas);
	const struct join_answer answer = {.json = json,
		.len = strlen(json),
		.node = "edge-1",
		.key_pem = key,
		.ca_hash = hash,
		.kind = kind};
	struct identity id = {0};
	struct err err = {0};
	int rc = join_accept(&b->files, &answer, &id, &err);

	identity_fini(&id);
	return rc;
}

static void
assert_key(struct bed *b, const char *key)
{
	struct identity id = {0};
	struct err err = {0};

	if (join_load(&b->files, "edge-1", &id, &err) < 0)
		fail_msg("%s", err.text);
	assert_string_equal(id.key, key);
	identity_fini(&id);
}

static void
a_renewal_replaces_the_key_last(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *fresh = NULL, *beside = xasprintf("%s.new", b->files.key);
	struct stat st;

	assert_int_equal(join_key(&b->files, &key, NULL), 0);
	assert_int_equal(accept_answer(b, key, b->ca, "", JOIN_KEY_FIRST), 0);
	assert_key(b, key);
	assert_int_equal(join_key_fresh(&b->files, JOIN_KEY_RENEWAL, &fresh, NULL), 0);
	assert_string_not_equal(key, fresh);
	assert_int_equal(stat(beside, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_key(b, key); /* nothing came: the old pair */
	assert_int_equal(accept_answer(b, fresh, b->ca, "", JOIN_KEY_RENEWAL), 0);
	assert_key(b, fresh);
	assert_int_equal(access(beside, F_OK), -1);
}

static void
a_crash_between_certificate_and_key_is_finished(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *fresh = NULL, *beside = xasprintf("%s.new", b->files.key);

	assert_int_equal(join_key(&b->files, &key, NULL), 0);
	assert_int_equal(accept_answer(b, key, b->ca, "", JOIN_KEY_FIRST), 0);
	assert_int_equal(join_key_fresh(&b->files, JOIN_KEY_RENEWAL, &fresh, NULL), 0);
	assert_int_equal(accept_answer(b, fresh, b->ca, "", JOIN_KEY_FIRST), 0); /* no rename */
	assert_key(b, fresh);
	assert_int_equal(access(beside, F_OK), -1);
	assert_key(b, fresh);
}

/* The hub binds the token to the key that asks: whoever lost the answer, or was restarted
 * meanwhile, asks with the same. */
static void
a_rejoin_keeps_its_key_until_it_is_answered(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *first = NULL, *second = NULL, *third = NULL;

	assert_int_equal(join_key(&b->files, &key, NULL), 0);
	assert_int_equal(accept_answer(b, key, b->ca, "", JOIN_KEY_FIRST), 0);
	assert_int_equal(join_key_fresh(&b->files, JOIN_KEY_REJOIN, &first, NULL), 0);
	assert_string_not_equal(first, key);
	assert_int_equal(join_key_fresh(&b->files, JOIN_KEY_REJOIN, &second, NULL), 0);
	assert_string_equal(first, second);
	assert_key(b, key);
	assert_int_equal(accept_answer(b, first, b->ca, "", JOIN_KEY_FIRST),
		0); /* a crash before the rename */
	assert_key(b, first);
	assert_int_equal(join_key_fresh(&b->files, JOIN_KEY_REJOIN, &third, NULL), 0);
	assert_string_not_equal(third, first);
	assert_int_equal(accept_answer(b, third, b->ca, "", JOIN_KEY_REJOIN), 0);
	assert_key(b, third);
}

static void
a_token_may_be_of_any_ca_of_the_bundle(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *both = xasprintf("%s%s", b->ca, b->other_ca);
	char one[PKI_HASH_TEXT], two[PKI_HASH_TEXT];

	assert_int_equal(pki_cert_hash(b->ca, one, NULL), 0);
	assert_int_equal(pki_cert_hash(b->other_ca, two, NULL), 0);
	assert_int_equal(join_key(&b->files, &key, NULL), 0);
	assert_int_equal(accept_answer(b, key, b->ca, two, JOIN_KEY_FIRST), -EPERM);
	assert_int_equal(access(b->files.cert, F_OK), -1);
	assert_int_equal(accept_answer(b, key, both, two, JOIN_KEY_FIRST), 0);
	assert_int_equal(accept_answer(b, key, both, one, JOIN_KEY_FIRST), 0);
	assert_true(pki_bundle_holds(both, two));
	assert_false(pki_bundle_holds(b->ca, two));
	assert_false(pki_bundle_holds("nonsense", two));
}

static void
the_hub_is_asked_once_there_is_room(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL, *again = NULL, *room = xasprintf("%s.room", b->files.cert);
	struct stat st;
	struct err err = {0};

	assert_int_equal(mkdir(room, 0700), 0); /* it cannot be written */
	assert_true(join_key(&b->files, &key, &err) < 0);
	assert_non_null(strstr(err.text, ".room"));
	assert_int_equal(rmdir(room), 0);
	assert_int_equal(join_key(&b->files, &key, NULL), 0);
	assert_int_equal(stat(room, &st), 0);
	assert_true(st.st_blocks * 512 >= 32 * 1024);
	assert_int_equal(join_key(&b->files, &again, NULL), 0);
	assert_string_equal(key, again);
	assert_int_equal(accept_answer(b, key, b->ca, "", JOIN_KEY_FIRST), 0);
	assert_int_equal(access(room, F_OK), -1);
}

/* dataDir was emptied, or replaced by another node's, while the agent runs. */
static void
what_is_in_use_is_saved_again_unless_something_else_is_there(void **state)
{
	struct bed *b = *state;
	auto_free char *key = NULL;
	struct identity id = {0};
	struct err err = {0};

	assert_int_equal(join_key(&b->files, &key, NULL), 0);
	assert_int_equal(accept_answer(b, key, b->ca, "", JOIN_KEY_FIRST), 0);
	assert_int_equal(join_load(&b->files, "edge-1", &id, &err), 0);
	assert_int_equal(join_save_again(&b->files, &id, &err), 0);
	unlink(b->files.key);
	assert_int_equal(join_save_again(&b->files, &id, &err), -EEXIST);
	unlink(b->files.cert);
	unlink(b->files.ca);
	assert_int_equal(join_save_again(&b->files, &id, &err), 0);
	assert_key(b, key);
	assert_int_equal(file_write(b->files.cert, "another", 7, 0644), 0);
	assert_int_equal(join_save_again(&b->files, &id, &err), -EEXIST);
	identity_fini(&id);
}

/* sha256sum says that where openssl was given no certificate. */
static void
a_token_with_the_hash_of_nothing_is_refused(void **state)
{
	struct join_token token;
	struct err err = {0};
	char text[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.approval";

	(void)state;
	assert_int_equal(join_token_parse(&token, text, &err), -EINVAL);
	assert_non_null(strstr(err.text, "the hash is that of no CA"));
	text[0] = 'E';
	assert_int_equal(join_token_parse(&token, text, &err), -EINVAL);
	text[0] = 'f';
	assert_int_equal(join_token_parse(&token, text, &err), 0);
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(a_renewal_replaces_the_key_last),
		case_of(a_crash_between_certificate_and_key_is_finished),
		case_of(a_rejoin_keeps_its_key_until_it_is_answered),
		case_of(a_token_may_be_of_any_ca_of_the_bundle),
		cmocka_unit_test(a_token_with_the_hash_of_nothing_is_refused),
		case_of(the_hub_is_asked_once_there_is_room),
		case_of(what_is_in_use_is_saved_again_unless_something_else_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
