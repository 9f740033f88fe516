/* The Secrets of a fleet of 50 000 nodes: names, joins and revocations, none of them larger than
 * Kubernetes allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "hub/identity/ledger.h"
#include "hub/identity/revoked.h"
#include "hub/kube/secret.h"

enum { NOW = 1800000000 };
#ifdef __SANITIZE_ADDRESS__
enum { NODES = 12000 };
#else
enum { NODES = 50000 };
#endif
#define LONG_NAME "edge-%05d.some-quite-long-site-name.region-7.example.org"

/* A replica's memory. */
struct replica {
	struct records joins, revoked;
	struct name_archive *names;
};

/* What the API server holds. */
struct secrets {
	struct buf first, first_revoked, names[NAME_ARCHIVE_ARCHIVES], lists[NAME_ARCHIVE_ARCHIVES];
};

static void
replica_init(struct replica *r)
{
	*r = (struct replica){.joins.kind = &joins_kind, .revoked.kind = &revoked_kind};
	r->names = name_archive_new();
	name_archive_use_lists(r->names, &r->joins, &r->revoked);
}

static void
replica_fini(struct replica *r)
{
	name_archive_free(&r->names);
	records_fini(&r->joins);
	records_fini(&r->revoked);
}

static void
add_from(struct records *list, const char *text, const char *name)
{
	struct tree *tree = NULL;
	struct err err = {0};

	assert_int_equal(tree_parse(&tree, name, text, strlen(text), &err), 0);
	if (records_read(list, tree_document(tree, 0), name, &err) < 0)
		fail_msg("%s", err.text);
	tree_free(&tree);
}

/* As its files have it: a node that joined by a token of limited use, and maybe was revoked. */
static void
add_node(struct replica *r, int i, bool new)
{
	struct name_archive_entry e = {.key = "0123456789abcdef0123456789abcdef",
		.signed_s = NOW + i,
		.expires_s = NOW + 9999999};
	struct buf text;
	char name[80];

	snprintf(name, sizeof name, LONG_NAME, i);
	snprintf(e.serial, sizeof e.serial, "%08x%08x%08x%08x%08x", i * 2654435761u, i * 40503u, i,
		i * 97u, ~i);
	snprintf(e.key, sizeof e.key, "%08x%08x%08x%08x", i * 2246822519u, i * 3266489917u,
		i * 668265263u, i * 374761393u);
	if (new)
		name_archive_sign(r->names, name, &e);
	else
		name_archive_add(r->names, name, &e);
	buf_init(&text, BUF_UNLIMITED);
	buf_printf(&text,
		"{\"joins\":[{\"token\":\"01234567\",\"node\":\"%s\",\"key\":\"%s\",\"until\":%d}],"
		"\"revoked\":[",
		name, e.key, NOW + 9999999);
	if (i % 5 == 0)
		buf_printf(&text, "{\"node\":\"%s\",\"at\":%d,\"good\":[\"%s\"],\"signed\":1}",
			name, NOW, e.serial);
	buf_adds(&text, "]}");
	add_from(&r->joins, buf_str(&text), "joins");
	add_from(&r->revoked, buf_str(&text), "revoked");
	buf_fini(&text);
	if (!new)
		return;
	name_archive_claim(r->names, name, true);
	records_claim(r->joins.all[r->joins.n - 1], true);
}

static void
set(struct buf *b)
{
	buf_fini(b);
	buf_init(b, BUF_UNLIMITED);
}

static size_t
write_first(struct replica *r, struct secrets *s)
{
	set(&s->first);
	set(&s->first_revoked);
	buf_adds(&s->first, "{");
	name_archive_text(r->names, &s->first);
	buf_adds(&s->first, ",");
	records_text(&r->joins, true, &s->first);
	buf_adds(&s->first, "}");
	buf_adds(&s->first_revoked, "{");
	records_text(&r->revoked, true, &s->first_revoked);
	buf_adds(&s->first_revoked, "}");
	return buf_len(&s->first) + buf_len(&s->first_revoked);
}

/* Returns the size of the largest. */
static size_t
write_archives(struct replica *r, struct secrets *s)
{
	size_t most = 0;

	for (unsigned i = 0; i < NAME_ARCHIVE_ARCHIVES; i++) {
		set(&s->names[i]);
		set(&s->lists[i]);
		name_archive_archive_text(r->names, i, &s->names[i]);
		name_archive_lists_text(r->names, i, &s->lists[i]);
		most = MAX(most, buf_len(&s->names[i]) + buf_len(&s->lists[i]));
	}
	return most;
}

/* Does any Secret lack something? */
static bool
read_first(struct replica *r, struct secrets *s, uint64_t now_ms)
{
	struct registry_heard heard = {0};
	struct records joins = {.kind = &joins_kind}, revoked = {.kind = &revoked_kind};
	struct err err = {0};
	bool lacks;

	name_archive_set_now(r->names, now_ms);
	if (name_archive_merge(r->names, buf_str(&s->first), &heard, &err) < 0)
		fail_msg("%s", err.text);
	add_from(&joins, buf_str(&s->first), "first");
	add_from(&revoked, buf_str(&s->first_revoked), "first");
	records_unite(&r->joins, &joins, NOW);
	records_unite(&r->revoked, &revoked, NOW);
	lacks = records_first_lacks(&joins, &r->joins, NOW);
	lacks |= records_first_lacks(&revoked, &r->revoked, NOW);
	records_fini(&joins);
	records_fini(&revoked);
	return heard.lacks || lacks;
}

static bool
read_archives(struct replica *r, struct secrets *s)
{
	bool lack[NAME_ARCHIVE_ARCHIVES];
	struct registry_heard heard = {0};
	struct err err = {0};

	for (unsigned i = 0; i < NAME_ARCHIVE_ARCHIVES; i++) {
		if (name_archive_merge_archive(r->names, i, buf_str(&s->names[i]), &heard, &err) <
				0 ||
			name_archive_merge_lists(
				r->names, i, buf_str(&s->lists[i]), NOW, &heard, &err) < 0)
			fail_msg("%s", err.text);
	}
	if (!name_archive_has_archives(r->names))
		name_archive_begin_archives(r->names);
	name_archive_archives_lack(r->names, lack);
	return heard.lacks;
}

static void
secrets_init(struct secrets *s)
{
	*s = (struct secrets){0};
	buf_adds(&s->first, "{\"archivedLists\":true,\"nodes\":[],\"joins\":[]}");
	buf_adds(&s->first_revoked, "{\"revoked\":[]}");
}

static void
secrets_fini(struct secrets *s)
{
	buf_fini(&s->first);
	buf_fini(&s->first_revoked);
	for (unsigned i = 0; i < NAME_ARCHIVE_ARCHIVES; i++) {
		buf_fini(&s->names[i]);
		buf_fini(&s->lists[i]);
	}
}

static void
knows_all(const struct replica *r, int n)
{
	assert_int_equal(name_archive_count(r->names), n);
	assert_int_equal(r->joins.n, n);
	assert_int_equal(r->revoked.n, n / 5);
}

/* A replica begins to share what its files have: nothing of it passes through the first Secret,
 * which is for what is made from now on. */
static void
files_of_50_000_nodes_go_into_the_archives(void **state)
{
	struct replica one, two;
	struct secrets s;
	size_t most;

	(void)state;
	secrets_init(&s);
	replica_init(&one);
	replica_init(&two);
	for (int i = 0; i < NODES; i++)
		add_node(&one, i, false);
	read_first(&one, &s, 1);
	assert_true(name_archive_wants_archives(one.names));
	assert_true(read_archives(&one, &s));
	assert_true(write_first(&one, &s) < 4096);
	most = write_archives(&one, &s);
	print_message("# the largest of %d nodes: %zu bytes\n", NODES, most);
	assert_true(most < SECRET_MOST);
	assert_false(read_first(&one, &s, 2));
	assert_false(read_archives(&one, &s));
	read_first(&two, &s, 1);
	assert_false(read_archives(&two, &s));
	knows_all(&two, NODES);
	/* It tells the same of one that was revoked. */
	assert_true(records_find(&two.revoked,
			    "edge-00005.some-quite-long-site-name.region-7."
			    "example.org") != NULL);
	replica_fini(&one);
	replica_fini(&two);
	secrets_fini(&s);
}

/* They join, 600 a minute: each is in the first Secret before it is in an archive, and leaves it
 * once all replicas have had time to see it there. */
static void
nodes_join_at_600_a_minute(void **state)
{
	struct replica one, two;
	struct secrets s;
	uint64_t now_ms = 1;

	(void)state;
	secrets_init(&s);
	replica_init(&one);
	replica_init(&two);
	read_first(&one, &s, now_ms);
	for (int i = 0; i < 12000; i++) {
		add_node(&one, i, true);
		if (i % 600 != 599)
			continue;
		now_ms += 60000;
		name_archive_set_now(one.names, now_ms);
		/* What is being claimed is in no archive: the claim may fail. */
		write_archives(&one, &s);
		read_archives(&two, &s);
		assert_true(name_archive_count(two.names) <= (size_t)i + 1 - 600);
		assert_true(write_first(&one, &s) < SECRET_MOST);
		read_first(&one, &s, now_ms);
		if (!name_archive_wants_archives(one.names))
			continue;
		read_archives(&one, &s);
		assert_true(write_archives(&one, &s) < SECRET_MOST);
		assert_false(read_archives(&one, &s));
	}
	name_archive_set_now(one.names, now_ms + NAME_ARCHIVE_MOVED_MS);
	assert_true(write_first(&one, &s) < 4096);
	read_first(&one, &s, now_ms + NAME_ARCHIVE_MOVED_MS);
	assert_true(write_archives(&one, &s) < SECRET_MOST); /* with all of them still */
	read_first(&two, &s, now_ms);
	assert_false(read_archives(&two, &s));
	knows_all(&two, 12000);
	replica_fini(&one);
	replica_fini(&two);
	secrets_fini(&s);
}

/* It knows no archives of joins and revocations: what its Secret has of them stays there for an
 * hour, so that one of that version which begins anew meanwhile knows them. */
static void
an_older_hub_beside_it(void **state)
{
	struct replica one;
	struct secrets s;

	(void)state;
	secrets_init(&s);
	replica_init(&one);
	for (int i = 0; i < 3000; i++)
		add_node(&one, i, true);
	read_archives(&one, &s);
	write_first(&one, &s);
	assert_non_null(strstr(buf_str(&s.first), "\"archivedLists\":true,"));
	memcpy(strstr(buf_str(&s.first), "\"archivedLists\""), "\"archivedOther\"", 15);
	read_first(&one, &s, 1);
	read_archives(&one, &s);
	write_archives(&one, &s);
	assert_true(read_first(&one, &s, 1)); /* that it can now */
	assert_false(read_archives(&one, &s));
	name_archive_set_now(one.names, NAME_ARCHIVE_OLDER_MS - 1);
	write_first(&one, &s);
	assert_null(strstr(buf_str(&s.first), "\"serial\"")); /* names it knew to archive */
	assert_non_null(strstr(buf_str(&s.first), "\"token\""));
	assert_non_null(strstr(buf_str(&s.first_revoked), "\"good\""));
	name_archive_set_now(one.names, NAME_ARCHIVE_OLDER_MS + 2);
	assert_true(write_first(&one, &s) < 4096);
	replica_fini(&one);
	secrets_fini(&s);
}

/* A list that cannot be read is an error, and nothing of it counts. */
static void
a_list_that_is_damaged(void **state)
{
	struct registry_heard heard = {0};
	struct replica one;
	struct err err = {0};

	(void)state;
	replica_init(&one);
	assert_true(name_archive_merge_lists(one.names, 0, "!", NOW, &heard, &err) < 0);
	assert_non_null(strstr(err.text, "lists: "));
	assert_int_equal(one.joins.n, 0);
	replica_fini(&one);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_of_50_000_nodes_go_into_the_archives),
		cmocka_unit_test(nodes_join_at_600_a_minute),
		cmocka_unit_test(an_older_hub_beside_it),
		cmocka_unit_test(a_list_that_is_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
