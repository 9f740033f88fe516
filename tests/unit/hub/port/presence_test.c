/* Which nodes are connected where, and what is remembered of those that are away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "hub/port/peer_proto.h"
#include "hub/port/presence.h"

static int line_b, line_c, line_b_anew; /* who tells */

static const struct presence_row *
row(const char *node, const char *address, int64_t since_ms)
{
	static struct presence_row r;

	r = (struct presence_row){.node = node,
		.address = address,
		.version = "1.0",
		.words = "",
		.since_ms = since_ms,
		.connected = true};
	return &r;
}

static const struct presence_row *
gone(const char *node, int64_t since_ms)
{
	static struct presence_row r;

	r = *row(node, "", since_ms);
	r.words = "reset";
	r.connected = false;
	return &r;
}

/* "hub-b 192.0.2.1:1 @5", or with "away" and the last words. */
static const char *
told(const struct presence *p, const char *node)
{
	static char text[512];
	struct presence_row r;

	if (!presence_find(p, node, &r))
		return "unknown";
	snprintf(text, sizeof text, "%s%s %s @%lld%s%s", r.connected ? "" : "away ",
		r.at[0] != '\0' ? r.at : "here", r.address, (long long)r.since_ms,
		r.words[0] != '\0' ? " " : "", r.words);
	return text;
}

static void
who_is_away_is_remembered(void **state)
{
	struct presence *p = presence_new();
	uint64_t older, newer;

	(void)state;
	assert_string_equal(told(p, "edge-1"), "unknown");
	older = presence_here(p, row("edge-1", "192.0.2.1:1", 5));
	assert_string_equal(told(p, "edge-1"), "here 192.0.2.1:1 @5");
	/* A newer connection replaces it in the same millisecond, and then the older one is
	 * closed. */
	newer = presence_here(p, row("edge-1", "192.0.2.1:2", 5));
	assert_false(presence_gone(p, "edge-1", older, "a newer connection", 7));
	assert_string_equal(told(p, "edge-1"), "here 192.0.2.1:2 @5");
	assert_true(presence_gone(p, "edge-1", newer, "reset by peer", 8));
	assert_string_equal(told(p, "edge-1"), "away here 192.0.2.1:2 @8 reset by peer");
	presence_forget(p, "edge-1");
	assert_string_equal(told(p, "edge-1"), "unknown");
	presence_free(&p);
}

static void
replicas_tell_of_theirs(void **state)
{
	struct presence *p = presence_new();
	uint64_t here;

	(void)state;
	presence_heard(p, &line_b, "hub-b", row("edge-1", "192.0.2.1:1", 5), false);
	assert_string_equal(told(p, "edge-1"), "hub-b 192.0.2.1:1 @5");
	assert_int_equal(presence_elsewhere(p), 1);
	/* It moves to this hub; what hub-b sees the end of then is the past, by whatever clock. */
	here = presence_here(p, row("edge-1", "192.0.2.1:9", 7));
	assert_int_equal(presence_elsewhere(p), 0);
	presence_heard(p, &line_b, "hub-b", gone("edge-1", 99), true);
	assert_string_equal(told(p, "edge-1"), "here 192.0.2.1:9 @7");
	/* And away again, to one whose clock is behind. */
	presence_heard(p, &line_c, "hub-c", row("edge-1", "192.0.2.1:3", 2), true);
	assert_false(presence_gone(p, "edge-1", here, "reset", 8));
	assert_string_equal(told(p, "edge-1"), "hub-c 192.0.2.1:3 @2");
	/* What a list says at first is of the past: the newest counts. */
	presence_heard(p, &line_b, "hub-b", row("edge-1", "192.0.2.1:4", 1), false);
	assert_string_equal(told(p, "edge-1"), "hub-c 192.0.2.1:3 @2");
	presence_heard(p, &line_c, "hub-c", gone("edge-1", 20), true);
	assert_string_equal(told(p, "edge-1"), "away hub-c 192.0.2.1:3 @20 reset");
	presence_heard(p, &line_b, "hub-b", gone("edge-1", 15), false);
	assert_string_equal(told(p, "edge-1"), "away hub-c 192.0.2.1:3 @20 reset");
	presence_free(&p);
}

static void
the_nodes_of_a_lost_replica_are_away(void **state)
{
	struct presence *p = presence_new();

	(void)state;
	presence_heard(p, &line_b, "hub-b", row("edge-1", "192.0.2.1:1", 5), false);
	presence_heard(p, &line_b, "hub-b", row("edge-2", "192.0.2.2:1", 5), false);
	presence_heard(p, &line_b, "hub-b", gone("edge-3", 4), false);
	presence_heard(p, &line_c, "hub-c", row("edge-4", "192.0.2.4:1", 5), false);
	/* A new connection to the same replica takes over what the old one told. */
	presence_heard(p, &line_b_anew, "hub-b", row("edge-1", "192.0.2.1:1", 5), false);
	presence_lost(p, &line_b, "hub-b was lost", 10);
	assert_string_equal(told(p, "edge-1"), "hub-b 192.0.2.1:1 @5");
	assert_string_equal(told(p, "edge-2"), "away hub-b 192.0.2.2:1 @10 hub-b was lost");
	assert_string_equal(told(p, "edge-3"), "away hub-b  @4 reset");
	assert_string_equal(told(p, "edge-4"), "hub-c 192.0.2.4:1 @5");
	assert_int_equal(presence_elsewhere(p), 2);
	presence_free(&p);
}

/* A short break between two replicas, after which the list says what it said before: when the node
 * came, by the clock there. */
static void
a_replica_that_is_back_has_its_nodes(void **state)
{
	struct presence *p = presence_new();

	(void)state;
	presence_heard(p, &line_b, "hub-b", row("edge-1", "192.0.2.1:1", 5), false);
	presence_lost(p, &line_b, "hub-b was lost", 10);
	presence_heard(p, &line_b_anew, "hub-b", row("edge-1", "192.0.2.1:1", 5), false);
	assert_string_equal(told(p, "edge-1"), "hub-b 192.0.2.1:1 @5");
	/* What a third one saw the end of meanwhile does not count; that the node went later, at
	 * its own, does. */
	presence_heard(p, &line_c, "hub-c", gone("edge-1", 10), false);
	assert_string_equal(told(p, "edge-1"), "hub-b 192.0.2.1:1 @5");
	presence_heard(p, &line_b_anew, "hub-b", gone("edge-1", 11), true);
	assert_string_equal(told(p, "edge-1"), "away hub-b 192.0.2.1:1 @11 reset");
	presence_free(&p);
}

/* A renewal fails while the connection that it was to replace works: no node is lost by that, and
 * those that it told of are that one's. */
static void
a_failed_renewal_loses_no_node(void **state)
{
	struct presence *p = presence_new();

	(void)state;
	presence_heard(p, &line_b, "hub-b", row("edge-1", "192.0.2.1:1", 5), true);
	presence_heard(p, &line_b_anew, "hub-b", row("edge-1", "192.0.2.1:1", 5), false);
	presence_hand_over(p, &line_b_anew, &line_b);
	presence_lost(p, &line_b_anew, "another one by chance", 9);
	assert_string_equal(told(p, "edge-1"), "hub-b 192.0.2.1:1 @5");
	presence_lost(p, &line_b, "hub-b was lost", 10);
	assert_string_equal(told(p, "edge-1"), "away hub-b 192.0.2.1:1 @10 hub-b was lost");
	presence_free(&p);
}

static void
count_one(void *arg, const struct presence_row *r)
{
	unsigned *n = arg;

	n[r->connected]++;
}

static void
it_is_bounded(void **state)
{
	struct presence *p = presence_new();
	unsigned n[2] = {0, 0};

	(void)state;
	for (int i = 0; i < PRESENCE_AWAY_MAX + 5; i++) {
		char node[32];

		snprintf(node, sizeof node, "edge-%d", i);
		assert_true(presence_gone(p, node, presence_here(p, row(node, "192.0.2.1:1", i)),
			"gone", 1000000 + i));
	}
	assert_string_equal(told(p, "edge-4"), "unknown");
	assert_string_equal(told(p, "edge-5"), "away here 192.0.2.1:1 @1000005 gone");
	for (int i = 0; i < PRESENCE_NODES_MAX + 5; i++) {
		char node[32];

		snprintf(node, sizeof node, "node-%d", i);
		presence_heard(p, &line_b, "hub-b", row(node, "192.0.2.1:1", i), true);
	}
	presence_each(p, count_one, n);
	assert_int_equal(n[true], PRESENCE_NODES_MAX);
	assert_int_equal(n[false], 0);
	presence_lost(p, &line_b, "lost", 5);
	n[true] = n[false] = 0;
	presence_each(p, count_one, n);
	assert_int_equal(n[true], 0);
	assert_int_equal(n[false], PRESENCE_AWAY_MAX);
	presence_free(&p);
}

static void
fifty_thousand_nodes_of_a_lost_replica_are_away(void **state)
{
	struct presence *p = presence_new();
	unsigned n[2] = {0, 0};

	(void)state;
	for (int i = 0; i < 50000; i++) {
		char node[32];

		snprintf(node, sizeof node, "node-%d", i);
		presence_heard(p, &line_b, "hub-b", row(node, "192.0.2.1:1", i), true);
	}
	presence_lost(p, &line_b, "lost", 5);
	presence_each(p, count_one, n);
	assert_int_equal(n[false], 50000);
	presence_free(&p);
}

struct order {
	int64_t last_ms;
	unsigned n;
};

static void
check_order(void *arg, const struct presence_row *r)
{
	struct order *o = arg;

	if (r->connected)
		return;
	assert_true(r->since_ms >= o->last_ms);
	o->last_ms = r->since_ms;
	o->n++;
}

static unsigned
count_in_order(const struct presence *p)
{
	struct order o = {INT64_MIN, 0};

	presence_each(p, check_order, &o);
	return o.n;
}

/* Those that are away are in order, in whatever order replicas tell of them and whichever come back
 * meanwhile. */
static void
who_went_first_is_first(void **state)
{
	struct presence *p = presence_new();
	char node[32];

	(void)state;
	srandom(3);
	for (int i = 0; i < 3000; i++) {
		snprintf(node, sizeof node, "edge-%ld", random() % 300);
		if (random() % 3 == 0)
			presence_here(p, row(node, "192.0.2.1:1", 1000));
		else if (random() % 3 == 0)
			presence_forget(p, node);
		else
			presence_heard(
				p, &line_b, "hub-b", gone(node, 1000 + random() % 200), false);
		if (i % 50 == 0)
			assert_in_range(count_in_order(p), 0, 300);
		if (i % 50 == 0)
			presence_lost(p, &line_b, "lost", 1100);
	}
	presence_free(&p);
	p = presence_new();
	/* This hub's are newer than all that a replica tells, which has as many. */
	for (int i = 0; i < 2 * PRESENCE_AWAY_MAX; i++) {
		snprintf(node, sizeof node, "edge-%d", i);
		presence_heard(p, &line_b, "hub-b",
			gone(node, i < PRESENCE_AWAY_MAX ? 1000000 + i : i), false);
	}
	assert_int_equal(count_in_order(p), PRESENCE_AWAY_MAX);
	assert_string_equal(told(p, "edge-0"), "away hub-b  @1000000 reset");
	presence_free(&p);
}

/* --- between replicas ----------------------------------------------------------------------- */

static void
survives_the_line(const struct presence_row *r, const char *address, const char *words)
{
	struct peer_said said = {0};
	auto_buf struct buf b;
	size_t used;

	buf_init(&b, BUF_UNLIMITED);
	peer_proto_presence(&b, r);
	assert_true(buf_len(&b) < PEER_LINE_MAX);
	assert_int_equal(peer_proto_read(buf_at(&b), buf_len(&b), &used, &said), 1);
	assert_int_equal(used, buf_len(&b));
	assert_int_equal(said.word, r->connected ? PEER_SAYS_THERE : PEER_SAYS_AWAY);
	assert_string_equal(said.node, r->node);
	assert_string_equal(said.address, address);
	assert_string_equal(said.words, words);
}

/* The texts are a node's own, and a list that cannot be read is no list. */
static void
what_is_said_is_read(void **state)
{
	static const char *const wrong[] = {"there edge-1\n", "there edge-1 5\n",
		"there edge-1 5 192.0.2.1:1\n", "there edge-1 x 192.0.2.1:1 1.0\n",
		"away EDGE 5 - - why\n", "there edge-1 0 - -\n"};
	char node[MESH_NODE_MAX + 1], longest[4096];
	struct peer_said said = {0};
	struct presence_row r = *row("edge-1", "192.0.2.1:1", 5);
	size_t used;

	(void)state;
	survives_the_line(&r, "192.0.2.1:1", "");
	r.connected = false;
	r.words = "the peer\nclosed\tit";
	survives_the_line(&r, "192.0.2.1:1", "the peer closed it");
	r.words = r.address = r.version = "";
	survives_the_line(&r, "", "");
	r.version = "a b\nc";
	survives_the_line(&r, "", "");
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	memset(node, 'a', MESH_NODE_MAX);
	for (size_t i = 50; i < MESH_NODE_MAX; i += 50)
		node[i] = '.';
	node[MESH_NODE_MAX] = '\0';
	r = (struct presence_row){.node = node,
		.address = longest,
		.version = longest,
		.words = longest,
		.since_ms = INT64_C(1) << 60};
	survives_the_line(&r, longest + sizeof longest - 1 - PRESENCE_ADDRESS_MAX,
		longest + sizeof longest - 1 - PRESENCE_WORDS_MAX);
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
		if (peer_proto_read(wrong[i], strlen(wrong[i]), &used, &said) >= 0)
			fail_msg("%s is taken", wrong[i]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_away_is_remembered),
		cmocka_unit_test(replicas_tell_of_theirs),
		cmocka_unit_test(the_nodes_of_a_lost_replica_are_away),
		cmocka_unit_test(a_replica_that_is_back_has_its_nodes),
		cmocka_unit_test(a_failed_renewal_loses_no_node),
		cmocka_unit_test(it_is_bounded),
		cmocka_unit_test(fifty_thousand_nodes_of_a_lost_replica_are_away),
		cmocka_unit_test(who_went_first_is_first),
		cmocka_unit_test(what_is_said_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
