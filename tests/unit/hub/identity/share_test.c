/* What replicas merge: tokens, the roll of nodes and the revocations end alike, in whatever order
 * they hear of each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/base64.h"
#include "base/core/log.h"
#include "hub/identity/ledger.h"
#include "hub/identity/name_archive.h"
#include "hub/identity/revoked.h"
#include "hub/identity/share_claims.h"
#include "hub/identity/tokens.h"

enum { NOW = 1800000000 };

struct bed {
	char dir[64];
	char *dirs[2];
};

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	const char *tmp = getenv("TMPDIR");

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	snprintf(b->dir, sizeof b->dir, "%.40s/share-XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(b->dir));
	for (int i = 0; i < 2; i++) {
		b->dirs[i] = xasprintf("%s/%d", b->dir, i);
		assert_int_equal(mkdir_p(b->dirs[i], 0700), 0);
	}
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	for (int i = 0; i < 2; i++) {
		static const char *const files[] = {
			"revoked.json", "joins.json", JOINS_JOURNAL, "tokens.json", "nodes", ""};

		for (size_t k = 0; k < ARRAY_LEN(files); k++) {
			auto_free char *path = xasprintf("%s/%s", b->dirs[i], files[k]);

			if (unlink(path) < 0)
				rmdir(path);
		}
		free(b->dirs[i]);
	}
	rmdir(b->dir);
	free(b);
	return 0;
}

/* What the other replica wrote is heard. */
static void
hear(struct registry *const r[2], int to, enum registry_list file, bool news, bool lacks)
{
	struct registry_heard heard = {0};
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	registry_text(r[1 - to], file, true, &text);
	assert_int_equal(registry_merge(r[to], file, buf_str(&text), NOW, &heard, NULL), 0);
	assert_int_equal(heard.news, news);
	assert_int_equal(heard.lacks, lacks);
}

/* --- tokens --------------------------------------------------------------------------------- */

static void
tokens_meet(void **state)
{
	struct bed *b = *state;
	char one[TOKEN_SECRET_LEN + 1], two[TOKEN_SECRET_LEN + 1], old[TOKEN_SECRET_LEN + 1];
	struct registry *t[2];
	struct registry_heard heard = {0};
	struct tokens_terms terms;
	struct err err = {0};

	for (int i = 0; i < 2; i++)
		assert_int_equal(registry_open(&t[i], b->dirs[i], &err), 0);
	assert_int_equal(
		tokens_create(t[0], &(struct tokens_wish){"edge-1", 1, 100}, NOW, one, &err), 0);
	assert_int_equal(tokens_create(t[1], &(struct tokens_wish){"", 3, 100}, NOW, two, &err), 0);
	assert_int_equal(
		tokens_create(t[1], &(struct tokens_wish){"", 1, 100}, NOW - 200, old, &err), 0);
	hear(t, 0, REGISTRY_TOKENS, true, true);
	hear(t, 1, REGISTRY_TOKENS, true, false);
	hear(t, 0, REGISTRY_TOKENS, false, false);
	assert_int_equal(tokens_check(t[1], one, "edge-1", NOW, &terms, &err), 0);
	assert_true(!terms.any_name && terms.uses == 1);
	assert_int_equal(tokens_check(t[0], two, "edge-2", NOW, &terms, &err), 0);
	assert_true(terms.any_name && terms.uses == 3);
	assert_int_equal(tokens_check(t[0], old, "edge-2", NOW, &terms, &err), -EACCES);
	/* Revoked at one: the other, which has it still, does not bring it back. */
	two[TOKEN_ID_LEN] = '\0';
	assert_int_equal(tokens_revoke(t[0], two, &err), 0);
	assert_int_equal(tokens_revoke(t[0], two, &err), -ENOENT);
	hear(t, 0, REGISTRY_TOKENS, false, true);
	hear(t, 1, REGISTRY_TOKENS, true, false);
	assert_true(tokens_end(t[0], NOW) == 1 && tokens_end(t[1], NOW) == 1);
	assert_int_equal(tokens_count(t[0]), 1);
	/* Also not from its file. */
	registry_close(&t[1]);
	assert_int_equal(registry_open(&t[1], b->dirs[1], &err), 0);
	hear(t, 1, REGISTRY_TOKENS, false, false);
	assert_int_equal(tokens_revoke(t[1], two, &err), -ENOENT);
	assert_int_equal(registry_merge(t[1], REGISTRY_TOKENS, "", NOW, &heard, &err), 0);
	assert_true(!heard.news && heard.lacks);
	assert_true(
		registry_merge(t[1], REGISTRY_TOKENS, "{\"tokens\":[{}]}", NOW, &heard, &err) < 0);
	for (int i = 0; i < 2; i++)
		registry_close(&t[i]);
}

/* --- revocations ---------------------------------------------------------------------------- */

static void
revocations_meet(void **state)
{
	struct bed *b = *state;
	struct registry *r[2];
	struct err err = {0};

	for (int i = 0; i < 2; i++)
		assert_int_equal(registry_open(&r[i], b->dirs[i], &err), 0);
	revoked_add(r[0], "edge-1", NOW);
	assert_int_equal(revoked_sign(r[0], "edge-1", "01", &err), 0);
	hear(r, 1, REGISTRY_REVOKED, true, false);
	assert_false(revoked_refuses(r[1], "edge-1", "01"));
	/* A hub's certificate, revoked at one. */
	assert_int_equal(revoked_add_hub(r[0], "ABC", NOW + 9, NOW, &err), -EINVAL);
	assert_int_equal(revoked_add_hub(r[0], "abc", NOW + 9, NOW, &err), 0);
	hear(r, 1, REGISTRY_REVOKED, true, false);
	assert_true(revoked_refuses_hub(r[1], "abc"));
	assert_false(revoked_refuses_hub(r[1], "ab"));
	hear(r, 0, REGISTRY_REVOKED, false, false);
	/* Each signs one: both are good. */
	assert_int_equal(revoked_sign(r[0], "edge-1", "02", &err), 0);
	assert_int_equal(revoked_sign(r[1], "edge-1", "03", &err), 0);
	hear(r, 0, REGISTRY_REVOKED, true, true);
	hear(r, 1, REGISTRY_REVOKED, true, false);
	for (int i = 0; i < 2; i++) {
		assert_false(revoked_refuses(r[i], "edge-1", "02"));
		assert_false(revoked_refuses(r[i], "edge-1", "03"));
	}
	/* Revoked again, by a clock that is behind: nothing of before is good, whoever says it. */
	revoked_add(r[1], "edge-1", NOW - 500);
	hear(r, 1, REGISTRY_REVOKED, false, true);
	hear(r, 0, REGISTRY_REVOKED, true, false);
	assert_true(revoked_refuses(r[0], "edge-1", "02"));
	/* The newest of many is known to the other, which is behind and full. */
	for (int i = 0; i < REVOKED_GOOD_MAX; i++)
		assert_int_equal(
			revoked_sign(r[0], "edge-1", (char[]){'a', (char)('0' + i), 0}, &err), 0);
	hear(r, 1, REGISTRY_REVOKED, true, false);
	assert_int_equal(revoked_sign(r[0], "edge-1", "ff", &err), 0);
	hear(r, 1, REGISTRY_REVOKED, true, false);
	assert_false(revoked_refuses(r[1], "edge-1", "ff"));
	assert_true(revoked_refuses(r[1], "edge-1", "a0"));
	hear(r, 0, REGISTRY_REVOKED, false, false);
	for (int i = 0; i < 2; i++)
		registry_close(&r[i]);
}

/* No more than nodes remember; what has ended by itself makes room. */
static void
revoked_hubs_are_bounded(void **state)
{
	struct bed *b = *state;
	struct registry *r;
	struct err err = {0};
	char serial[8];

	assert_int_equal(registry_open(&r, b->dirs[0], &err), 0);
	for (int i = 0; i < REVOKED_HUBS_MAX; i++) {
		snprintf(serial, sizeof serial, "%04x", i);
		assert_int_equal(revoked_add_hub(r, serial, NOW + 1 + i, NOW, &err), 0);
	}
	assert_int_equal(revoked_add_hub(r, "0000", NOW + 9, NOW, &err), 0); /* again */
	assert_int_equal(revoked_add_hub(r, "ffff", NOW + 9, NOW, &err), -ENOSPC);
	assert_int_equal(revoked_add_hub(r, "ffff", NOW + 9, NOW + 2, &err), 0);
	assert_int_equal(revoked_hubs(r)->n, REVOKED_HUBS_MAX - 1);
	assert_false(revoked_refuses_hub(r, "0000"));
	registry_close(&r);
	assert_int_equal(registry_open(&r, b->dirs[0], &err), 0);
	assert_true(revoked_refuses_hub(r, "ffff"));
	registry_close(&r);
}

/* --- files ---------------------------------------------------------------------------------- */

/* As hubs have always written them, but for a line end after the last token. */
static void
files_are_as_before(void **state)
{
	static const struct {
		const char *name;
		enum registry_list list;
		const char *text;
	} files[] = {
		{"revoked.json", REGISTRY_REVOKED,
			"{\"revoked\":[\n{\"node\":\"edge-1\",\"at\":7,\"good\":[\"01\",\"02\"],"
			"\"signed\":9},\n"
			"{\"node\":\"edge-2\",\"at\":8,\"good\":[],\"signed\":0}],\"hubs\":[\n"
			"{\"serial\":\"abc\",\"at\":1,\"until\":2}]}\n"},
		{"joins.json", REGISTRY_JOINS,
			"{\"joins\":[\n{\"token\":\"01234567\",\"node\":\"edge-1\",\"key\":"
			"\"0123456789abcdef0123456789abcdef\",\"until\":5}]}\n"},
		{"tokens.json", REGISTRY_TOKENS,
			"{\"tokens\":[\n{\"id\":\"01234567\",\"sha256\":"
			"\"0123456789abcdef0123456789abcdef"
			"0123456789abcdef0123456789abcdef\",\"expires\":5,\"uses\":3,\"node\":\"\"}"
			",\n"
			"{\"id\":\"89abcdef\",\"sha256\":\"0123456789abcdef0123456789abcdef"
			"0123456789abcdef0123456789abcdef\",\"expires\":5,\"uses\":1,\"node\":"
			"\"edge-1\",\"revoked\":true}]}\n"},
	};
	struct bed *b = *state;
	struct registry *r;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *path = xasprintf("%s/%s", b->dirs[0], files[i].name);
		auto_buf struct buf text;
		struct err err = {0};

		assert_int_equal(file_write(path, files[i].text, strlen(files[i].text), 0600), 0);
		assert_int_equal(registry_open(&r, b->dirs[0], &err), 0);
		buf_init(&text, BUF_UNLIMITED);
		registry_text(r, files[i].list, true, &text);
		assert_string_equal(buf_str(&text), files[i].text);
		registry_close(&r);
		/* One that cannot be read is never an empty list. */
		assert_int_equal(file_write(path, "{", 1, 0600), 0);
		assert_true(registry_open(&r, b->dirs[0], &err) < 0);
		assert_non_null(strstr(err.text, files[i].name));
		assert_int_equal(unlink(path), 0);
		assert_int_equal(mkdir_p(path, 0700), 0);
		assert_true(registry_open(&r, b->dirs[0], &err) < 0);
		assert_null(r);
		assert_int_equal(rmdir(path), 0);
	}
}

/* Hubs that were killed have left lines that the list has not, some of them cut off. */
static void
a_journal_counts_with_its_list(void **state)
{
	static const char list[] =
		"{\"joins\":[\n{\"token\":\"01234567\",\"node\":\"edge-1\",\"key\":"
		"\"0123456789abcdef0123456789abcdef\",\"until\":5}]}\n";
	static const char lines[] = ",{\"token\":\"01234567\",\"node\":\"edge-1\",\"key\":"
				    "\"0123456789abcdef0123456789abcdef\",\"until\":5}\n"
				    ",{\"token\":\"01234567\",\"node\":\"edge-4\",\n"
				    "\n,{\"token\":\"01234567\",\"node\":\"edge-2\",\"key\":"
				    "\"0123456789abcdef0123456789abcdef\",\"until\":7}\n"
				    ",{\"token\":\"01234567\",\"node\":\"edge-3\",\"ke";
	struct bed *b = *state;
	auto_free char *path = xasprintf("%s/joins.json", b->dirs[0]);
	auto_free char *journal = xasprintf("%s/" JOINS_JOURNAL, b->dirs[0]);
	struct joins_entry e = {.token = "89abcdef", .key = "0", .node = "edge-1", .until_s = 9};
	struct registry *r;
	struct err err = {0};

	assert_int_equal(file_write(path, list, sizeof list - 1, 0600), 0);
	assert_int_equal(file_write(journal, lines, sizeof lines - 1, 0600), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(registry_open(&r, b->dirs[0], &err), 0);
		assert_int_equal(joins_count(r, "01234567"), 2);
		assert_int_equal(access(journal, F_OK), -1); /* the list has it now */
		registry_close(&r);
	}
	assert_int_equal(registry_open(&r, b->dirs[0], &err), 0);
	assert_true(joins_enter(r, &e));
	assert_false(joins_enter(r, &e));
	assert_int_equal(joins_count(r, "89abcdef"), 1);
	assert_int_equal(joins_count(r, "0123456"), 0);
	joins_withdraw(r, &e);
	assert_int_equal(joins_count(r, "89abcdef"), 0);
	assert_true(joins_drop_ended(r, 6));
	assert_false(joins_drop_ended(r, 6));
	assert_int_equal(joins_count(r, "01234567"), 1);
	registry_close(&r);
	/* One that cannot be read is left as it is. */
	assert_int_equal(file_write(journal, ",{}\n", 4, 0600), 0);
	assert_true(registry_open(&r, b->dirs[0], &err) < 0);
	assert_non_null(strstr(err.text, JOINS_JOURNAL ":1: a join needs"));
	assert_return_code(access(journal, F_OK), errno);
}

/* --- claims --------------------------------------------------------------------------------- */

struct answer {
	int n, rc;
};

static void
on_claimed(void *arg, int rc, const char *why)
{
	struct answer *a = arg;

	(void)why;
	a->n++;
	a->rc = rc;
}

static struct share_wish
wish_for(const char *node, const char *serial, const char *key)
{
	struct share_wish w = {.node = node, .uses = 1};

	w.entry = (struct name_archive_entry){.signed_s = NOW, .expires_s = NOW + 9};
	strcpy(w.entry.serial, serial);
	memset(w.entry.key, key[0], sizeof w.entry.key - 1);
	strcpy(w.join.token, "01234567");
	memset(w.join.key, key[0], sizeof w.join.key - 1);
	strcpy(w.join.node, node);
	w.join.until_s = NOW * (int64_t)2;
	return w;
}

static void
hear_ledger(struct ledger *to, const struct ledger *from)
{
	struct registry_heard heard = {0};
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	ledger_text(from, &text);
	assert_int_equal(ledger_merge(to, buf_str(&text), &heard, NULL), 0);
}

/* Both give the token's one use away at the same moment: the API server takes one write, and the
 * other replica reads that, and refuses. */
static void
one_of_two_uses_the_token(void **state)
{
	struct bed *b = *state;
	struct share_wish first = wish_for("edge-1", "aa", "a"),
			  second = wish_for("edge-2", "bb", "b");
	struct share_claims claims[2] = {0};
	struct answer answers[2] = {0};
	struct ledger *l[2];
	struct err err = {0};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(ledger_open(&l[i], b->dirs[i], &err), 0);
		ledger_share(l[i]);
	}
	share_claims_add(&claims[0], &first, on_claimed, &answers[0]);
	share_claims_add(&claims[1], &second, on_claimed, &answers[1]);
	for (int i = 0; i < 2; i++)
		share_claims_enter(&claims[i], l[i]);
	assert_true(share_claims_pend(&claims[1], "edge-2"));
	share_claims_answer(&claims[0], l[0], 0, "");
	share_claims_answer(&claims[1], l[1], -ESTALE, "");
	assert_int_equal(answers[0].n, 1);
	assert_int_equal(answers[0].rc, 0);
	assert_int_equal(answers[1].n, 0);
	hear_ledger(l[1], l[0]);
	share_claims_enter(&claims[1], l[1]);
	assert_int_equal(answers[1].n, 1);
	assert_int_equal(answers[1].rc, -EDQUOT);
	assert_null(name_archive_find(ledger_roll(l[1]), "edge-2"));
	assert_int_equal(joins_count(ledger_registry(l[1]), "01234567"), 1);
	/* The same key again, whose answer was lost, at the other replica. */
	share_claims_add(&claims[1], &first, on_claimed, &answers[1]);
	share_claims_enter(&claims[1], l[1]);
	share_claims_answer(&claims[1], l[1], 0, "");
	assert_int_equal(answers[1].rc, 0);
	for (int i = 0; i < 2; i++) {
		share_claims_fini(&claims[i]);
		ledger_close(&l[i]);
	}
}

/* Who claims may go while the write is under way: if that fails the name and the token are as they
 * were. */
static void
a_claim_that_was_left_is_taken_back(void **state)
{
	struct bed *b = *state;
	struct share_wish wish = wish_for("edge-1", "bb", "b");
	const struct name_archive_entry before = {
		.serial = "aa", .signed_s = NOW - 9, .expires_s = NOW};
	struct share_claims claims = {0};
	struct answer answer = {0};
	struct share_claim *claim;
	struct ledger *l;
	struct err err = {0};

	assert_int_equal(ledger_open(&l, b->dirs[0], &err), 0);
	ledger_share(l);
	name_archive_add(ledger_roll(l), "edge-1", &before);
	claim = share_claims_add(&claims, &wish, on_claimed, &answer);
	share_claims_enter(&claims, l);
	assert_string_equal(name_archive_find(ledger_roll(l), "edge-1")->serial, "bb");
	share_claims_remove(&claims, &claim);
	assert_true(share_claims_pend(&claims, "edge-1"));
	share_claims_answer(&claims, l, -EIO, "no server");
	assert_false(share_claims_pend(&claims, "edge-1"));
	assert_string_equal(name_archive_find(ledger_roll(l), "edge-1")->serial, "aa");
	assert_int_equal(joins_count(ledger_registry(l), "01234567"), 0);
	assert_int_equal(answer.n, 0);
	ledger_close(&l);
}

static void
hear_all(struct ledger *to, struct ledger *from)
{
	struct registry_heard heard = {0};
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	registry_text(ledger_registry(from), REGISTRY_REVOKED, true, &text);
	hear_ledger(to, from);
	assert_int_equal(registry_merge(ledger_registry(to), REGISTRY_REVOKED, buf_str(&text), NOW,
				 &heard, NULL),
		0);
	ledger_drop_forgotten(to);
}

static char *
new_cert(const char *ca, const char *ca_key)
{
	const struct pki_issue issue = {.ca_cert_pem = ca,
		.ca_key_pem = ca_key,
		.common_name = "edge-1",
		.client = true,
		.life_s = 3000};
	auto_free char *key = NULL;
	char *cert;

	assert_int_equal(pki_key_new(&key, NULL), 0);
	assert_int_equal(pki_sign_key(&issue, key, &cert, NULL), 0);
	return cert;
}

/* Forgotten at one replica: the other frees the name and removes its file; a certificate that was
 * signed later takes it again, at both. */
static void
a_forgotten_name_is_told(void **state)
{
	struct bed *b = *state;
	auto_free char *ca = NULL, *ca_key = NULL, *first = NULL, *second = NULL;
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	char serial[PKI_SERIAL_TEXT];
	struct ledger *l[2];
	struct err err = {0};

	assert_int_equal(pki_ca_new("one", 10, &ca, &ca_key, NULL), 0);
	first = new_cert(ca, ca_key);
	second = new_cert(ca, ca_key);
	for (int i = 1; i >= 0; i--) {
		assert_int_equal(ledger_open(&l[i], b->dirs[i], &err), 0);
		ledger_share(l[i]);
		assert_int_equal(ledger_record(l[i], "edge-1", first, &err), 0);
	}
	assert_int_equal(ledger_forget(l[0], "edge-1", now_s, &err), 0);
	assert_int_equal(ledger_forget(l[0], "edge-1", now_s, &err), -ENOENT);
	hear_all(l[1], l[0]);
	assert_int_equal(pki_cert_serial(first, serial, NULL), 0);
	for (int i = 0; i < 2; i++) {
		assert_false(ledger_taken(l[i], "edge-1"));
		assert_null(ledger_cert(l[i], "edge-1"));
		assert_true(revoked_refuses(ledger_registry(l[i]), "edge-1", serial));
	}
	hear_all(l[0], l[1]);
	assert_false(ledger_taken(l[0], "edge-1"));
	assert_int_equal(ledger_record(l[1], "edge-1", second, &err), 0);
	hear_all(l[0], l[1]);
	for (int i = 0; i < 2; i++) {
		auto_free char *path = xasprintf("%s/nodes/edge-1", b->dirs[i]);

		assert_true(ledger_taken(l[i], "edge-1"));
		unlink(path);
		ledger_close(&l[i]);
	}
}

/* --- the roll ------------------------------------------------------------------------------- */

static int
roll_merge(struct name_archive *r, const char *text, bool *news, bool *lacks, struct err *err)
{
	struct registry_heard heard = {0};
	int rc = name_archive_merge(r, text, &heard, err);

	*news = heard.news;
	*lacks = heard.lacks;
	return rc;
}

static void
rolls_meet(void **state)
{
	struct name_archive *r[2] = {name_archive_new(), name_archive_new()};
	struct name_archive_entry e = {.serial = "aa", .signed_s = NOW, .expires_s = NOW + 9};
	auto_buf struct buf text;
	bool news, lacks;
	struct err err = {0};
	size_t at = 0;

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	buf_adds(&text, "{");
	name_archive_add(r[0], "edge-1", &e);
	name_archive_add(r[0], "edge-2", &e);
	e.signed_s++;
	strcpy(e.serial, "bb");
	strcpy(e.cas, "01234567");
	name_archive_add(r[1], "edge-1", &e);
	name_archive_text(r[1], &text);
	buf_adds(&text, "}");
	assert_int_equal(roll_merge(r[0], buf_str(&text), &news, &lacks, &err), 0);
	assert_true(news && lacks);
	assert_string_equal(name_archive_find(r[0], "edge-1")->serial, "bb");
	assert_string_equal(name_archive_find(r[0], "edge-2")->serial, "aa");
	assert_string_equal(name_archive_find(r[0], "edge-1")->cas, "01234567");
	assert_string_equal(name_archive_find(r[0], "edge-2")->cas, "");
	assert_int_equal(roll_merge(r[0], buf_str(&text), &news, &lacks, &err), 0);
	assert_true(!news && lacks);
	name_archive_remove(r[0], "edge-2");
	assert_null(name_archive_find(r[0], "edge-2"));
	assert_int_equal(roll_merge(r[0], buf_str(&text), &news, &lacks, &err), 0);
	assert_true(!news && !lacks);
	assert_string_equal(name_archive_walk(r[0], &at), "edge-1");
	assert_null(name_archive_walk(r[0], &at));
	assert_true(roll_merge(r[0],
			    "{\"nodes\":[{\"node\":\"../x\",\"serial\":\"aa\",\"signed\":1,"
			    "\"expires\":2}]}",
			    &news, &lacks, &err) < 0);
	assert_int_equal(name_archive_count(r[0]), 1);
	name_archive_free(&r[0]);
	name_archive_free(&r[1]);
}

/* Which CAs a replica took into use last is the same at all in the end; one that does not know of
 * it takes nothing back. */
static void
the_cas_in_use_are_told(void **state)
{
	struct name_archive *r[2] = {name_archive_new(), name_archive_new()};
	bool news, lacks;

	(void)state;
	assert_string_equal(name_archive_cas(r[0]), "");
	name_archive_use_cas(r[0], "aaaaaaaa", NOW);
	name_archive_use_cas(r[1], "bbbbbbbb", NOW);
	for (int i = 0; i < 4; i++) {
		auto_buf struct buf text;

		buf_init(&text, BUF_UNLIMITED);
		buf_adds(&text, "{");
		name_archive_text(r[i % 2], &text);
		buf_adds(&text, "}");
		assert_int_equal(roll_merge(r[1 - i % 2], buf_str(&text), &news, &lacks, NULL), 0);
		assert_int_equal(lacks, i == 0);
		assert_string_equal(name_archive_cas(r[1]), "bbbbbbbb");
	}
	assert_string_equal(name_archive_cas(r[0]), "bbbbbbbb");
	/* Later by the one whose clock is behind. */
	name_archive_use_cas(r[0], "aaaaaaaa", NOW - 60);
	for (int i = 0; i < 2; i++) {
		auto_buf struct buf text;

		buf_init(&text, BUF_UNLIMITED);
		buf_adds(&text, "{");
		name_archive_text(r[i], &text);
		buf_adds(&text, "}");
		assert_int_equal(roll_merge(r[1 - i], buf_str(&text), &news, &lacks, NULL), 0);
		assert_false(lacks);
		assert_string_equal(name_archive_cas(r[1 - i]), "aaaaaaaa");
	}
	assert_int_equal(roll_merge(r[0], "{\"nodes\":[]}", &news, &lacks, NULL), 0);
	assert_true(lacks);
	assert_int_equal(roll_merge(r[0], "{\"inUse\":{\"cas\":\"../x\",\"since\":1},\"nodes\":[]}",
				 &news, &lacks, NULL),
		0);
	assert_string_equal(name_archive_cas(r[0]), "aaaaaaaa");
	name_archive_free(&r[0]);
	name_archive_free(&r[1]);
}

/* Two certificates of one second, and one by a clock that is behind: the last one signed counts, at
 * the other replica too. */
static void
rolls_keep_their_order(void **state)
{
	static const struct name_archive_entry signed_in_order[] = {
		{.serial = "cc", .signed_s = NOW, .expires_s = NOW + 9},
		{.serial = "bb", .signed_s = NOW, .expires_s = NOW + 9},
		{.serial = "aa", .signed_s = NOW - 60, .expires_s = NOW + 9},
	};
	struct name_archive *r[2] = {name_archive_new(), name_archive_new()};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(signed_in_order); i++) {
		const char *serial = signed_in_order[i].serial;
		auto_buf struct buf text;
		bool news, lacks;
		struct err err = {0};

		buf_init(&text, BUF_UNLIMITED);
		buf_adds(&text, "{");
		name_archive_sign(r[0], "edge-1", &signed_in_order[i]);
		assert_string_equal(name_archive_find(r[0], "edge-1")->serial, serial);
		name_archive_sign(
			r[0], "edge-1", &signed_in_order[i]); /* told again: nothing new */
		assert_int_equal(name_archive_find(r[0], "edge-1")->signed_s, NOW + (int64_t)i);
		name_archive_text(r[0], &text);
		buf_adds(&text, "}");
		assert_int_equal(roll_merge(r[1], buf_str(&text), &news, &lacks, &err), 0);
		assert_true(news && !lacks);
		assert_string_equal(name_archive_find(r[1], "edge-1")->serial, serial);
	}
	name_archive_free(&r[0]);
	name_archive_free(&r[1]);
}

#ifdef __SANITIZE_ADDRESS__
enum { MANY = 12000 }; /* more than one Secret holds; all of a large fleet are counted without it */
#else
enum { MANY = 52000 };
#endif
enum { SECRET_MOST = 1024 * 1024 };

/* What the Secrets of the names hold. */
struct secrets {
	struct buf first, archives[NAME_ARCHIVE_ARCHIVES];
};

static void
write_first(const struct name_archive *r, struct secrets *s)
{
	buf_fini(&s->first);
	buf_init(&s->first, BUF_UNLIMITED);
	buf_adds(&s->first, "{");
	name_archive_text(r, &s->first);
	buf_adds(&s->first, "}");
	assert_true(buf_len(&s->first) < SECRET_MOST);
}

static void
write_archives(const struct name_archive *r, struct secrets *s)
{
	for (unsigned i = 0; i < NAME_ARCHIVE_ARCHIVES; i++) {
		buf_fini(&s->archives[i]);
		buf_init(&s->archives[i], BUF_UNLIMITED);
		name_archive_archive_text(r, i, &s->archives[i]);
		assert_true(buf_len(&s->archives[i]) < SECRET_MOST);
	}
}

static bool
read_all(struct name_archive *r, struct secrets *s, uint64_t now_ms)
{
	struct registry_heard heard = {0};
	struct err err = {0};

	name_archive_set_now(r, now_ms);
	assert_int_equal(name_archive_merge(r, buf_str(&s->first), &heard, &err), 0);
	for (unsigned i = 0; i < NAME_ARCHIVE_ARCHIVES; i++)
		assert_int_equal(
			name_archive_merge_archive(r, i, buf_str(&s->archives[i]), &heard, &err),
			0);
	return heard.lacks;
}

/* As many names as a large fleet has, a thousand a minute and told every four: no Secret ever holds
 * more than it may, and whoever begins anew knows them all. */
static void
rolls_of_a_large_fleet(void **state)
{
	struct name_archive *r = name_archive_new(), *other = name_archive_new();
	struct secrets s = {0};
	struct name_archive_entry e = {.serial = "0123456789abcdef0123456789abcdef01234567",
		.key = "0123456789abcdef0123456789abcdef",
		.cas = "01234567",
		.expires_s = NOW + 9};
	uint64_t now_ms = 1;
	bool news, lacks;

	(void)state;
	for (int n = 0; n < MANY; n += 4000, now_ms += 240000) {
		for (int i = n; i < n + 4000; i++) {
			char name[32];

			snprintf(name, sizeof name, "edge-%05d.example.org", i);
			e.signed_s = NOW + i;
			name_archive_sign(r, name, &e);
		}
		name_archive_set_now(r, now_ms);
		write_first(r, &s);
		assert_int_equal(name_archive_has_archives(r), n > 0);
		read_all(r, &s, now_ms);
		if (name_archive_wants_archives(r)) {
			name_archive_begin_archives(r);
			write_archives(r, &s);
			write_first(r, &s);
			assert_false(read_all(r, &s, now_ms));
		}
	}
	now_ms += NAME_ARCHIVE_MOVED_MS;
	name_archive_set_now(r, now_ms);
	write_first(r, &s);
	assert_true(buf_len(&s.first) < 1000); /* all are at home */
	assert_false(read_all(other, &s, now_ms));
	assert_int_equal(name_archive_count(other), MANY);
	/* What is signed anew is in the first one again, and forgotten by none while an archive
	 * cannot be read. */
	e.signed_s = NOW + MANY;
	e.serial[0] = 'f';
	name_archive_sign(other, "edge-00007.example.org", &e);
	write_first(other, &s);
	assert_non_null(strstr(buf_str(&s.first), "edge-00007"));
	assert_true(read_all(r, &s, now_ms));
	assert_int_equal(name_archive_find(r, "edge-00007.example.org")->signed_s, NOW + MANY);
	/* A hub of before writes the first text: what is there stays, so that the two do not write
	 * against each other. */
	buf_fini(&s.first);
	buf_init(&s.first, BUF_UNLIMITED);
	buf_adds(&s.first,
		"{\"nodes\":[{\"node\":\"edge-00009.example.org\",\"serial\":\"ab\",\"signed\":1,"
		"\"expires\":2}]}");
	assert_true(read_all(other, &s, now_ms)); /* that there are archives */
	write_first(other, &s);
	assert_non_null(strstr(buf_str(&s.first), "\"archives\""));
	name_archive_set_now(other, now_ms + NAME_ARCHIVE_OLDER_MS - 1);
	write_first(other, &s);
	assert_null(strstr(buf_str(&s.first), "edge-00009")); /* it is an older certificate */
	assert_non_null(strstr(buf_str(&s.first), "edge-00007"));
	assert_int_equal(roll_merge(r, buf_str(&s.first), &news, &lacks, NULL), 0);
	assert_false(news || lacks);
	name_archive_free(&r);
	name_archive_free(&other);
	buf_fini(&s.first);
	for (unsigned i = 0; i < NAME_ARCHIVE_ARCHIVES; i++)
		buf_fini(&s.archives[i]);
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
		cmocka_unit_test_setup_teardown(revoked_hubs_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(a_journal_counts_with_its_list, setup, teardown),
		cmocka_unit_test_setup_teardown(files_are_as_before, setup, teardown),
		cmocka_unit_test_setup_teardown(one_of_two_uses_the_token, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_claim_that_was_left_is_taken_back, setup, teardown),
		cmocka_unit_test_setup_teardown(a_forgotten_name_is_told, setup, teardown),
		cmocka_unit_test(rolls_meet),
		cmocka_unit_test(the_cas_in_use_are_told),
		cmocka_unit_test(rolls_keep_their_order),
		cmocka_unit_test(rolls_of_a_large_fleet),
		cmocka_unit_test(base64_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
