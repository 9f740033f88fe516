/* Which dials would end at the hub itself, and which callers are the hub. */
#include "hub/port/self_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/conf/tree.h"

static struct loop *loop;
static struct addresses *addresses;
static struct tree *tree;
static struct acl *rules;
static struct self_guard *guard;

static bool
none(void *arg, const struct in6_addr *ip)
{
	(void)arg;
	(void)ip;
	return false;
}

static int
setup(void **state)
{
	static const char allows[] =
		"[{from: local, to: ['*', 'cloud/127.0.0.1:22', 'cloud/[::1]:22']}]";

	(void)state;
	assert_int_equal(loop_new(&loop, NULL), 0);
	addresses = addresses_new(loop, NULL, NULL);
	assert_int_equal(tree_parse(&tree, "test", allows, strlen(allows), NULL), 0);
	assert_int_equal(acl_new(tree_document(tree, 0), &rules, NULL), 0);
	guard = self_guard_new(&(struct self_guard_config){
		.addresses = addresses, .access = rules, .named = none, .replica = none});
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	self_guard_free(&guard);
	acl_free(&rules);
	tree_free(&tree);
	addresses_free(&addresses);
	loop_free(&loop);
	return 0;
}

/* In no form, and whatever a rule says. */
static void
loopback_is_never_dialled(void **state)
{
	static const char *const loopback[] = {"127.0.0.1:22", "127.9.9.9:22", "[::1]:22",
		"[::ffff:127.0.0.1]:22", "[::127.0.0.1]:22", "[64:ff9b::127.0.0.1]:22",
		"[2002:7f00:1::]:22"};
	struct addr to;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(loopback); i++) {
		assert_int_equal(addr_parse(&to, loopback[i], 0, NULL), 0);
		assert_non_null(self_guard_refuses(guard, &to, NULL));
	}
	to = addr_ipv4(0xcb007107, 22);
	assert_null(self_guard_refuses(guard, &to, NULL));
}

static void
ports_of_the_hub(void **state)
{
	struct addr listen = addr_ipv4(INADDR_LOOPBACK, 65535);

	(void)state;
	assert_false(self_guard_is_listener(guard, 65535));
	self_guard_listens(guard, &listen);
	assert_true(self_guard_is_listener(guard, 65535));
	assert_false(self_guard_is_listener(guard, 65534));
	assert_int_equal(addr_parse(&listen, "unix:/run/x", 0, NULL), 0);
	self_guard_listens(guard, &listen);
	assert_false(self_guard_is_listener(guard, 0));
}

/* It is nobody's connection from the dial to its end, and any caller's again afterwards. */
static void
a_dial_that_comes_back(void **state)
{
	struct addr listen = addr_ipv4(INADDR_LOOPBACK, 0), from = {.len = sizeof from.un};
	int listener = -1, near = -1, far;
	struct self_dial dial = {0};
	struct caller caller;

	(void)state;
	assert_int_equal(sock_listen(&listen, 0, &listener, NULL), 0);
	listen.len = sizeof listen.in;
	assert_int_equal(getsockname(listener, &listen.sa, &listen.len), 0);
	assert_int_equal(sock_connect_hops(&listen, 0, 1, false, &near), 0);
	assert_int_equal(getsockname(near, &from.sa, &from.len), 0);
	self_guard_begun(guard, &dial, &from);
	far = accept(listener, NULL, NULL);
	assert_true(far >= 0);
	assert_int_equal(caller_accept(&caller, far, CALLER_LISTENER, guard), 0);
	assert_true(caller.own_dial && !caller.local);
	assert_int_equal(caller_accept(&caller, far, CALLER_REDIRECT, guard), 0);
	assert_true(caller.own_dial && !caller.local);
	caller_datagram(&caller, &from, 1, guard);
	assert_true(caller.own_dial && !caller.local);
	/* A program of this host, whose port the kernel has given to our dial, too: it leads
	 * elsewhere. */
	caller_datagram(&caller, &from, 0, guard);
	assert_true(caller.local && !caller.own_dial);
	self_guard_ended(&dial);
	self_guard_ended(&dial);
	assert_int_equal(caller_accept(&caller, far, CALLER_LISTENER, guard), 0);
	assert_true(caller.local && !caller.own_dial);
	close(far);
	close(near);
	close(listener);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(loopback_is_never_dialled),
		T(ports_of_the_hub),
		T(a_dial_that_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
