/* Asking a node what it reaches: one question at a time, an answer that counts only whole and with
 * 200, and when it is asked again. The node is the other end of a session. Found by tests/mutation.
 */
#include "hub/routing/neighbour_query.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/conf/tree.h"
#include "base/core/log.h"
#include "model/check.h"
#include "tests/fake/clock.h"
#include "tests/unit/tunnel/h2/tunnel_bed.h"
#include "tunnel/node/reachability.h"

static struct {
	struct bed b;
	struct addresses *addresses;
	struct acl *rules;
	struct cluster *cluster;
	struct neighbour_queries *queries;
	bool no_tunnel;
	unsigned opened, changed;
} rig;

int __wrap_tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);

int
__wrap_tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	(void)t;
	assert_string_equal(node, "edge-1");
	assert_string_equal(request->authority, REACHABILITY_AUTHORITY);
	rig.opened++;
	return rig.no_tunnel ? -EAGAIN : session_open(rig.b.near, request, events, arg, out);
}

static bool
tunnelled(void *arg, const char *node)
{
	(void)arg, (void)node;
	return true;
}

static void
on_changed(void *arg, const char *node)
{
	(void)arg, (void)node;
	rig.changed++;
}

static int
set_up(void **state)
{
	static const char allows[] = "[{from: local, to: [cloud/192.168.7.7]}]";
	struct tree *tree = NULL;

	(void)state;
	memset(&rig, 0, sizeof rig);
	bed_init(&rig.b, false);
	rig.b.silent = true;
	bed_until(&rig.b, session_is_settled(rig.b.near));
	rig.addresses = addresses_new(rig.b.loop, NULL, NULL);
	assert_int_equal(tree_parse(&tree, "test", allows, strlen(allows), NULL), 0);
	assert_int_equal(acl_new(tree_document(tree, 0), &rig.rules, NULL), 0);
	tree_free(&tree);
	rig.cluster = cluster_new();
	rig.queries = inquiries_new(&(struct inquiries_config){.loop = rig.b.loop,
		.addresses = rig.addresses,
		.cluster = rig.cluster,
		.access = rig.rules,
		.tunnelled = tunnelled,
		.changed = on_changed});
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	inquiries_free(&rig.queries);
	inquiries_free(&rig.queries);
	acl_free(&rig.rules);
	addresses_free(&rig.addresses);
	cluster_free(&rig.cluster);
	bed_fini(&rig.b);
	return 0;
}

static void
pass_ms(unsigned ms)
{
	for (unsigned i = 0; i < ms; i++) {
		clock_pass(1000);
		loop_turn(rig.b.loop);
	}
}

/* The node's end of the n-th question. */
static struct end *
asked(unsigned n)
{
	bed_until(&rig.b, rig.b.n_ends == n);
	rig.b.ends[n - 1]->echo = false;
	return rig.b.ends[n - 1];
}

static void
tell(struct end *node, const char *text)
{
	stream_answer(node->st, 200, "");
	stream_write(node->st, text, strlen(text));
	stream_end(node->st);
	bed_until(&rig.b, node->eof || node->reset);
}

static bool
declared(void)
{
	return neighbours_declared(inquiries_neighbours(rig.queries), "edge-1");
}

static void
an_answer(void **state)
{
	struct end *node;

	(void)state;
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_CAME); /* announces nothing */
	assert_int_equal(rig.opened, 0);
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
	node = asked(1);
	stream_answer(node->st, 200, "");
	stream_write(node->st, "edge-2\n192.1", 12);
	pass_ms(100);
	assert_false(declared()); /* not whole */
	stream_write(node->st, "68.1.0/24\n", 10);
	stream_end(node->st);
	bed_until(&rig.b, node->eof);
	assert_true(declared());
	assert_true(rig.changed > 0);
	assert_true(node->got > 8); /* a verdict on each */
	/* Asked meanwhile, it is asked once more, after a pause; else no more. */
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_CAME);
	pass_ms(NEIGHBOUR_QUERY_PAUSE_MS - 300);
	assert_int_equal(rig.opened, 1);
	pass_ms(400);
	assert_int_equal(rig.opened, 2);
	tell(asked(2), "edge-2\n");
	pass_ms(2 * NEIGHBOUR_QUERY_PAUSE_MS);
	assert_int_equal(rig.opened, 2);
	/* Another agent comes under this name. */
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_CAME);
	assert_int_equal(rig.opened, 3);
	tell(asked(3), "");
	assert_false(declared());
}

static void
a_refusal(void **state)
{
	struct end *node;

	(void)state;
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
	tell(asked(1), "edge-2\n");
	assert_true(declared());
	pass_ms(NEIGHBOUR_QUERY_PAUSE_MS + 10);
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
	node = asked(2);
	stream_answer(node->st, 501, "not known");
	bed_until(&rig.b, !declared());
	pass_ms(2 * NEIGHBOUR_QUERY_PAUSE_MS);
	assert_int_equal(rig.opened, 2);
}

/* What a rule has the hub dial is not a node's to announce. */
static void
an_address_of_the_hub(void **state)
{
	struct neighbours_site sites[2];
	struct in6_addr ip;

	(void)state;
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
	tell(asked(1), "192.168.7.0/24\n");
	assert_true(ip_parse("192.168.7.8", &ip));
	assert_int_equal(neighbours_sites(inquiries_neighbours(rig.queries), &ip, sites, 2), 1);
	assert_true(ip_parse("192.168.7.7", &ip));
	assert_int_equal(neighbours_sites(inquiries_neighbours(rig.queries), &ip, sites, 2), 0);
}

/* A stream that ends is asked again; with its tunnel, only when that comes again. */
static void
a_reset(void **state)
{
	(void)state;
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
	stream_close(&asked(1)->st, STREAM_BROKEN);
	pass_ms(NEIGHBOUR_QUERY_PAUSE_MS + 100);
	assert_int_equal(rig.opened, 2);
	(void)asked(2);
	session_free(&rig.b.near);
	pass_ms(2 * NEIGHBOUR_QUERY_PAUSE_MS);
	assert_int_equal(rig.opened, 2);
}

static void
no_answer(void **state)
{
	struct end *node;

	(void)state;
	rig.no_tunnel = true;
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
	pass_ms(2 * NEIGHBOUR_QUERY_PAUSE_MS);
	assert_int_equal(rig.opened, 1);
	rig.no_tunnel = false;
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
	node = asked(1);
	pass_ms(NEIGHBOUR_QUERY_MS - 100);
	assert_false(node->reset);
	pass_ms(200);
	assert_true(node->reset);
	pass_ms(NEIGHBOUR_QUERY_PAUSE_MS);
	assert_int_equal(rig.opened, 3);
	neighbour_query_news(rig.queries, "edge-1", TUNNEL_GONE);
	assert_false(declared());
}

static void
too_much(void **state)
{
	static char text[REACHABLE_NETS_TEXT_MAX + 1];
	struct end *node;

	(void)state;
	memset(text, 'a', sizeof text);
	for (unsigned more = 0; more <= 1; more++) {
		neighbour_query_news(rig.queries, "edge-1", TUNNEL_ASKS);
		node = asked(1 + more);
		stream_answer(node->st, 200, "");
		stream_write(node->st, text, REACHABLE_NETS_TEXT_MAX + more);
		stream_end(node->st);
		bed_until(&rig.b, node->eof || node->reset);
		assert_int_equal(node->reset, more);
		pass_ms(2 * NEIGHBOUR_QUERY_PAUSE_MS);
	}
	assert_false(declared());
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_answer),
		T(a_refusal),
		T(an_address_of_the_hub),
		T(a_reset),
		T(no_answer),
		T(too_much),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
