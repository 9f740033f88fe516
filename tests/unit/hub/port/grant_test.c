#include "hub/port/grant.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The rules, and the place of the node that carries a stream, count when the target answers, not
 * only when it is asked for. */

static const char both[] = "- {from: 192.0.2.0/24, to: ['edge-*']}\n";
static const char one[] = "- {from: 192.0.2.0/24, to: [edge-1]}\n";
static struct grants grants;
static struct caller caller;
static struct acl_target target = {.kind = TARGET_NODE,
	.node = "edge-2",
	.port = 22,
	.ns = "edge-2",
	.host = "edge-2",
	.name = ""};

static void
use_rules(const char *yaml)
{
	struct tree *tree = NULL;
	struct acl *fresh = NULL;

	assert_int_equal(tree_parse(&tree, "test", yaml, strlen(yaml), NULL), 0);
	assert_int_equal(acl_new(tree_document(tree, 0), &fresh, NULL), 0);
	if (grants.access == NULL)
		grants.access = take_ptr(&fresh);
	else
		acl_adopt(grants.access, &fresh);
	tree_free(&tree);
}

static int
setup(void **state)
{
	(void)state;
	assert_int_equal(addr_parse(&caller.addr, "192.0.2.1", 7, NULL), 0);
	assert_int_equal(loop_new(&grants.loop, NULL), 0);
	grants.quota = quota_new(
		&(struct quota_limits){.of = {[QUOTA_CALLER] = {3, 0}, [QUOTA_NODE] = {1, 0}}});
	use_rules(both);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	assert_int_equal(quota_idle(grants.quota), 0);
	acl_free(&grants.access);
	quota_free(&grants.quota);
	loop_free(&grants.loop);
	return 0;
}

static void
rules_that_changed_during_the_dial(void **state)
{
	struct grant g = {0};
	const char *reason;

	(void)state;
	assert_null(grant_take(&g, &grants, &caller));
	use_rules(one);
	assert_int_equal(grant_open(&g, &caller, &target, "edge-2", &reason), 403);
	assert_string_equal(reason, grant_rules_changed);
	assert_null(g.accounts[QUOTA_NODE]);
	assert_false(grant_revoked(&g, &caller));
	grant_end(&g);
	assert_null(g.accounts[QUOTA_CALLER]);
}

static void
changed_rules_revoke(void **state)
{
	struct grant g = {0};
	const char *reason;

	(void)state;
	assert_null(grant_take(&g, &grants, &caller));
	assert_int_equal(grant_open(&g, &caller, &target, "edge-2", &reason), 200);
	assert_false(grant_revoked(&g, &caller));
	use_rules(one);
	assert_true(grant_revoked(&g, &caller));
	assert_non_null(grant_rate(&g, QUOTA_NODE)); /* a relay still uses it */
	assert_false(grant_revoked(&g, &caller)); /* it is cut once */
	grant_end(&g);
	assert_null(grant_rate(&g, QUOTA_NODE));
}

static void
places_are_bounded(void **state)
{
	struct grant of[4] = {0};
	const char *reason;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		assert_null(grant_take(&of[i], &grants, &caller));
	assert_non_null(grant_take(&of[3], &grants, &caller));
	assert_null(grant_take(&of[2], &grants, &caller)); /* the next request of a connection */
	assert_int_equal(grant_open(&of[0], &caller, &target, "edge-2", &reason), 200);
	assert_int_equal(grant_open(&of[1], &caller, &target, "edge-2", &reason), 429);
	assert_non_null(grant_node(&of[3], &grants, "edge-2")); /* for another replica */
	assert_int_equal(grant_open(&of[2], &caller, &target, "", &reason), 200);
	grant_end(&of[0]);
	assert_null(grant_node(&of[3], &grants, "edge-2"));
	for (size_t i = 0; i < ARRAY_LEN(of); i++)
		grant_end(&of[i]);
}

/* What a connection keeps of its caller is all of it. */
static void
a_kept_caller_is_the_same(void **state)
{
	static const char *const addresses[] = {
		"192.0.2.7:80", "[2001:db8::7]:80", "unix:/run/edgeway/egress.sock"};
	struct caller c = {.hops = 3, .local = true, .admitted = true}, found;
	char text[2][ADDR_TEXT_MAX];
	struct caller_kept *kept;

	(void)state;
	memset(c.cert, 'c', ACCESS_NAME_MAX);
	strcpy(c.token, "ann");
	memset(c.token_hash, 'a', CALLER_TOKEN_HASH - 1);
	strcpy(c.node, "edge-1");
	for (size_t i = 0; i < ARRAY_LEN(addresses); i++) {
		assert_int_equal(addr_parse(&c.addr, addresses[i], 0, NULL), 0);
		kept = caller_keep(&c);
		memset(&found, 'x', sizeof found);
		assert_ptr_equal(caller_load(kept, &found), &found);
		free(kept);
		assert_string_equal(addr_text(&found.addr, text[0]), addr_text(&c.addr, text[1]));
		assert_string_equal(found.cert, c.cert);
		assert_string_equal(found.token, "ann");
		assert_string_equal(found.token_hash, c.token_hash);
		assert_string_equal(found.node, "edge-1");
		assert_int_equal(found.hops, 3);
		assert_true(found.local && found.admitted && !found.own_dial);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			rules_that_changed_during_the_dial, setup, teardown),
		cmocka_unit_test(a_kept_caller_is_the_same),
		cmocka_unit_test_setup_teardown(changed_rules_revoke, setup, teardown),
		cmocka_unit_test_setup_teardown(places_are_bounded, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
