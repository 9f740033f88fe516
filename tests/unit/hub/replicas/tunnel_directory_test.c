/* Which replica has which node, and the words in which they say it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hub/port/peer_proto.h"
#include "hub/replicas/tunnel_directory.h"

static int a_line, b_line, a_new_line; /* owners */

static void
the_newest_claim_counts(void **state)
{
	struct tunnel_directory *r = tunnel_directory_new();
	struct tunnel_directory_peer *a = tunnel_directory_join(r, &a_line, "aa"),
				     *b = tunnel_directory_join(r, &b_line, "bb");
	uint64_t epoch = 7;

	(void)state;
	assert_null(tunnel_directory_holder(r, "edge-1", &epoch));
	assert_int_equal(epoch, 0);
	assert_false(tunnel_directory_knows(r, "edge-1"));
	assert_int_equal(tunnel_directory_claim(a, "edge-1", 100, 1), 0);
	assert_int_equal(tunnel_directory_claim(b, "edge-1", 99, 2), 0);
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &a_line);
	assert_int_equal(epoch, 100);
	/* The node moved, and the hub that it has left does not know yet. */
	tunnel_directory_claim(b, "edge-1", 101, 3);
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &b_line);
	assert_int_equal(tunnel_directory_claims(b), 1);
	/* Late words of the former holder take nothing from the newer one. */
	tunnel_directory_claim(a, "edge-1", 0, 4);
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &b_line);
	assert_int_equal(epoch, 101);
	/* Of the same age all hubs choose the same. */
	tunnel_directory_claim(a, "edge-1", 101, 5);
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &b_line);
	tunnel_directory_leave(&a, 6, false);
	tunnel_directory_leave(&b, 7, false);
	assert_null(tunnel_directory_holder(r, "edge-1", &epoch));
	assert_true(tunnel_directory_knows(r, "edge-1"));
	tunnel_directory_free(&r);
}

/* A replica that does not answer keeps its claims, and nobody is led there by them. */
static void
who_does_not_answer_is_passed_over(void **state)
{
	struct tunnel_directory *r = tunnel_directory_new();
	struct tunnel_directory_peer *a = tunnel_directory_join(r, &a_line, "aa"),
				     *b = tunnel_directory_join(r, &b_line, "bb");
	uint64_t epoch;

	(void)state;
	assert_int_equal(tunnel_directory_claim(a, "edge-1", 100, 1), 0);
	tunnel_directory_suspend(a, true);
	assert_null(tunnel_directory_holder(r, "edge-1", &epoch));
	assert_int_equal(epoch, 0);
	assert_int_equal(tunnel_directory_claimed(r, "edge-1"), 100);
	assert_true(tunnel_directory_awaits(r, "edge-1", 1 + TUNNEL_DIRECTORY_LATELY_MS));
	assert_int_equal(tunnel_directory_claim(b, "edge-1", 99, 2), 0);
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &b_line);
	assert_int_equal(epoch, 99);
	tunnel_directory_suspend(a, false);
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &a_line);
	assert_false(tunnel_directory_awaits(r, "edge-1", 3));
	tunnel_directory_leave(&a, 4, false);
	tunnel_directory_leave(&b, 5, false);
	tunnel_directory_free(&r);
}

static void
who_was_lost_lately_is_awaited(void **state)
{
	struct tunnel_directory *r = tunnel_directory_new();
	struct tunnel_directory_peer *a = tunnel_directory_join(r, &a_line, "aa"), *again;
	uint64_t epoch;

	(void)state;
	tunnel_directory_note(a, "edge-9", 900);
	assert_true(tunnel_directory_knows(r, "edge-9"));
	assert_false(
		tunnel_directory_awaits(r, "edge-9", 1000)); /* it joined once, and never came */
	assert_null(tunnel_directory_holder(r, "edge-9", &epoch));
	assert_int_equal(tunnel_directory_claims(a), 0);
	tunnel_directory_claim(a, "edge-1", 100, 1000);
	assert_false(tunnel_directory_awaits(r, "edge-1", 1000));
	/* Another line of the same replica: nothing is lost. */
	again = tunnel_directory_join(r, &a_new_line, "aa");
	tunnel_directory_claim(again, "edge-1", 100, 1500);
	tunnel_directory_leave(&a, 2000, true);
	assert_false(tunnel_directory_awaits(r, "edge-1", 2000));
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &a_new_line);
	tunnel_directory_leave(&again, 3000, false);
	assert_true(tunnel_directory_awaits(r, "edge-1", 3000));
	assert_true(tunnel_directory_awaits(r, "edge-1", 3000 + TUNNEL_DIRECTORY_LATELY_MS - 1));
	assert_false(tunnel_directory_awaits(r, "edge-1", 3000 + TUNNEL_DIRECTORY_LATELY_MS));
	tunnel_directory_lost(r, "edge-1", 90000); /* here, this time */
	assert_true(tunnel_directory_awaits(r, "edge-1", 90001));
	tunnel_directory_free(&r);
}

static void
a_claim_that_proved_wrong_is_dropped(void **state)
{
	struct tunnel_directory *r = tunnel_directory_new();
	struct tunnel_directory_peer *a = tunnel_directory_join(r, &a_line, "aa"),
				     *b = tunnel_directory_join(r, &b_line, "bb");
	uint64_t epoch;

	(void)state;
	tunnel_directory_claim(a, "edge-1", 100, 1);
	tunnel_directory_claim(b, "edge-1", 200, 1);
	tunnel_directory_doubt(r, "edge-1", 200, 5);
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &a_line);
	tunnel_directory_claim(a, "edge-1", 300, 6);
	tunnel_directory_doubt(
		r, "edge-1", 100, 7); /* what was asked for has been replaced meanwhile */
	assert_ptr_equal(tunnel_directory_holder(r, "edge-1", &epoch), &a_line);
	tunnel_directory_doubt(r, "edge-7", 1, 7);
	tunnel_directory_leave(&a, 8, false);
	tunnel_directory_leave(&b, 8, false);
	tunnel_directory_free(&r);
}

static bool
nobody(void *arg, const char *node)
{
	(void)arg;
	(void)node;
	return false;
}

static void
it_is_bounded(void **state)
{
	struct tunnel_directory *r = tunnel_directory_new();
	struct tunnel_directory_peer *a = tunnel_directory_join(r, &a_line, "aa");
	char node[32];

	(void)state;
	for (unsigned i = 0; i < TUNNEL_DIRECTORY_NODES_MAX; i++) {
		snprintf(node, sizeof node, "edge-%u", i);
		assert_int_equal(tunnel_directory_claim(a, node, i + 1, 1), 0);
	}
	assert_int_equal(tunnel_directory_claim(a, "one-more", 1, 1), -ENOSPC);
	assert_int_equal(tunnel_directory_note(a, "one-more", 1), -ENOSPC);
	assert_int_equal(tunnel_directory_claim(a, "edge-7", 1, 1), 0);
	assert_int_equal(tunnel_directory_claims(a), TUNNEL_DIRECTORY_NODES_MAX);
	assert_int_equal(
		tunnel_directory_forget(r, TUNNEL_DIRECTORY_FORGET_MS + 1, nobody, NULL), 0);
	tunnel_directory_leave(&a, 2, false);
	assert_int_equal(
		tunnel_directory_forget(r, TUNNEL_DIRECTORY_FORGET_MS + 1, nobody, NULL), 0);
	assert_int_equal(tunnel_directory_forget(r, TUNNEL_DIRECTORY_FORGET_MS + 2, nobody, NULL),
		TUNNEL_DIRECTORY_NODES_MAX);
	tunnel_directory_free(&r);
}

static bool
is_edge_1(void *arg, const char *node)
{
	(void)arg;
	return strcmp(node, "edge-1") == 0;
}

/* Not while anybody has it, or says that it has joined, or the cluster has a Node; epochs are what
 * they were. */
static void
who_is_gone_is_forgotten(void **state)
{
	enum { LATER = TUNNEL_DIRECTORY_FORGET_MS };
	struct tunnel_directory *r = tunnel_directory_new();
	struct tunnel_directory_peer *a = tunnel_directory_join(r, &a_line, "aa"),
				     *b = tunnel_directory_join(r, &b_line, "bb");
	uint64_t epoch;

	(void)state;
	for (unsigned i = 1; i <= 5; i++) {
		char node[16];

		snprintf(node, sizeof node, "edge-%u", i);
		tunnel_directory_claim(a, node, 100, 1);
	}
	tunnel_directory_note(b, "edge-2", 2);
	tunnel_directory_note(a, "edge-3", 2);
	for (unsigned i = 1; i <= 4; i++) {
		char node[16];

		snprintf(node, sizeof node, "edge-%u", i);
		tunnel_directory_claim(a, node, 0, 3);
	}
	assert_int_equal(tunnel_directory_claims(a), 1);
	assert_true(tunnel_directory_awaits(r, "edge-3", 4));
	tunnel_directory_lost(r, "edge-4", 10); /* was here for a while */
	assert_int_equal(tunnel_directory_forget(r, LATER + 9, is_edge_1, NULL), 0);
	assert_int_equal(tunnel_directory_forget(r, LATER + 10, is_edge_1, NULL), 1);
	assert_false(tunnel_directory_knows(r, "edge-4"));
	assert_true(tunnel_directory_knows(r, "edge-1") && tunnel_directory_knows(r, "edge-2"));
	assert_ptr_equal(tunnel_directory_holder(r, "edge-5", &epoch), &a_line);
	assert_int_equal(epoch, 100);
	/* It comes again. */
	tunnel_directory_claim(b, "edge-4", 90, LATER + 11);
	assert_ptr_equal(tunnel_directory_holder(r, "edge-4", &epoch), &b_line);
	assert_int_equal(epoch, 90);
	tunnel_directory_leave(&b, LATER + 20, false);
	tunnel_directory_leave(&a, LATER + 30, false);
	assert_true(tunnel_directory_awaits(r, "edge-5", LATER + 31));
	assert_false(
		tunnel_directory_awaits(r, "edge-2", LATER + 21)); /* that one only knew of it */
	assert_int_equal(tunnel_directory_forget(r, 2 * LATER + 20, is_edge_1, NULL), 2);
	assert_true(tunnel_directory_knows(r, "edge-3") && tunnel_directory_knows(r, "edge-5"));
	assert_int_equal(tunnel_directory_forget(r, 2 * LATER + 30, is_edge_1, NULL), 2);
	assert_true(tunnel_directory_knows(r, "edge-1"));
	tunnel_directory_free(&r);
}

/* --- words ---------------------------------------------------------------------------------- */

#define ID "0123456789abcdef0123456789abcdef"

static void
what_is_said_is_read(void **state)
{
	struct buf b;
	struct peer_said said = {0};
	size_t used, n;

	(void)state;
	buf_init(&b, BUF_UNLIMITED);
	peer_proto_hub(&b, ID, "hub-1.example");
	peer_proto_say(&b, PEER_SAYS_HOLDS, "edge-1", PEER_EPOCH_MAX);
	peer_proto_say(&b, PEER_SAYS_GONE, "edge-2", 0);
	peer_proto_say(&b, PEER_SAYS_JOINED, "edge-3", 0);
	peer_proto_say(&b, PEER_SAYS_DECLARES, "edge-4", 0);
	peer_proto_reach(&b, "edge-5", "192.168.1.0/24:9100");
	peer_proto_say(&b, PEER_SAYS_FORGETS, "edge-6", 0);
	peer_proto_presence(
		&b, &(struct presence_row){"edge-7", "", "192.0.2.7:1", "1.0", "", 5, 0, true});
	peer_proto_presence(&b,
		&(struct presence_row){
			"edge-8", "", "192.0.2.8:1", "1.0", "it was reset", 6, 0, false});
	peer_proto_trouble(&b, "not ready:\nit waits");
	peer_proto_say(&b, PEER_SAYS_WHOLE, "", 0);
	peer_proto_say(&b, PEER_SAYS_LEAVING, "", 0);
	buf_adds(&b, "later 1 2 3\n");
	for (int i = 0; i < PEER_SAYS_OTHER + 1; i++) {
		static const char *const nodes[] = {"", "edge-1", "edge-2", "edge-3", "edge-4",
			"edge-5", "edge-6", "edge-7", "edge-8"};

		n = (size_t)((char *)memchr(buf_at(&b), '\n', buf_len(&b)) - buf_at(&b)) + 1;
		for (size_t part = 0; part < n; part++)
			assert_int_equal(peer_proto_read(buf_at(&b), part, &used, &said), 0);
		assert_int_equal(peer_proto_read(buf_at(&b), buf_len(&b), &used, &said), 1);
		assert_int_equal(used, n);
		assert_int_equal(said.word, i);
		if (i > 0 && i < (int)ARRAY_LEN(nodes))
			assert_string_equal(said.node, nodes[i]);
		if (i == PEER_SAYS_REACH)
			assert_string_equal(said.entry, "192.168.1.0/24:9100");
		if (i == PEER_SAYS_TROUBLE)
			assert_string_equal(said.words, "not ready: it waits");
		if (i == PEER_SAYS_AWAY)
			assert_string_equal(said.words, "it was reset");
		if (i == PEER_SAYS_HUB)
			assert_string_equal(said.id, ID);
		if (i == PEER_SAYS_HUB)
			assert_string_equal(said.name, "hub-1.example");
		if (i == PEER_SAYS_HOLDS)
			assert_true(said.epoch == PEER_EPOCH_MAX);
		buf_consume(&b, used);
	}
	assert_int_equal(buf_len(&b), 0);
	buf_fini(&b);
}

static void
what_cannot_be_is_refused(void **state)
{
	static const char *const wrong[] = {
		"holds 1\n",
		"holds 0 edge-1\n",
		"holds 4611686018427387905 edge-1\n", /* 2^62 + 1 */
		"holds 99999999999999999999999 edge-1\n",
		"holds -1 edge-1\n",
		"holds 0x1 edge-1\n",
		"holds  1 edge-1\n",
		"holds 1 Edge-1\n",
		"holds 1 ../etc\n",
		"holds 1 \n",
		"holds 1 edge_1\n",
		"declares\n",
		"reach edge-1\n",
		"gone\n",
		"joined \n",
		"hub " ID "\n",
		"hub 0123 name\n",
		"hub " ID " na/me\n",
		"hub 0123456789ABCDEF0123456789abcdef name\n",
	};
	char longest[PEER_LINE_MAX + 1];
	struct peer_said said = {0};
	size_t used;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		if (peer_proto_read(wrong[i], strlen(wrong[i]), &used, &said) != -EPROTO)
			fail_msg("%s is taken", wrong[i]);
	assert_int_equal(peer_proto_read("holds 1 edge\0-1\n", 16, &used, &said), -EPROTO);
	memset(longest, 'x', sizeof longest);
	assert_int_equal(peer_proto_read(longest, PEER_LINE_MAX - 1, &used, &said), 0);
	assert_int_equal(peer_proto_read(longest, PEER_LINE_MAX, &used, &said), -EPROTO);
	longest[PEER_LINE_MAX - 1] = '\n';
	assert_int_equal(peer_proto_read(longest, PEER_LINE_MAX, &used, &said), 1);
	assert_int_equal(said.word, PEER_SAYS_OTHER);
	assert_int_equal(peer_proto_read(NULL, 0, &used, &said), 0);
	/* What a later version adds behind is passed over. */
	assert_int_equal(peer_proto_read("holds 5 edge-1 fast\n", 20, &used, &said), 1);
	assert_string_equal(said.node, "edge-1");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_newest_claim_counts),
		cmocka_unit_test(who_does_not_answer_is_passed_over),
		cmocka_unit_test(who_was_lost_lately_is_awaited),
		cmocka_unit_test(a_claim_that_proved_wrong_is_dropped),
		cmocka_unit_test(it_is_bounded),
		cmocka_unit_test(who_is_gone_is_forgotten),
		cmocka_unit_test(what_is_said_is_read),
		cmocka_unit_test(what_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
