/*
 * That a watch of the network outlives an overrun of its socket, in a network namespace of the
 * test's own. Skipped (said aloud) where namespaces are not allowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <sched.h>
#include <unistd.h>

#include "base/core/util.h"
#include "base/os/addresses.h"
#include "base/os/netwatch.h"
#include "model/check.h"
#include "tests/unit/patience.h"

struct lab {
	struct loop *loop;
	unsigned changes;
};

static void
sh(const char *command)
{
	if (system(command) != 0)
		fail_msg("%s", command);
}

static void
on_changed(void *arg)
{
	((struct lab *)arg)->changes++;
}

/* More messages than a socket's buffer holds, and none of them is read meanwhile. */
static void
overrun(void)
{
	sh("for i in $(seq 2000); do echo link set d0 mtu $((1280 + i % 2)); done | ip -batch -");
	sh("awk 'NR > 1 && $9 > 0 {n++} END {exit n == 0}' /proc/net/netlink");
}

static int
set_up(void **state)
{
	struct lab *lab = xcalloc(1, sizeof *lab);

	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	sh("ip link add d0 type bridge && ip link set d0 up");
	assert_int_equal(loop_new(&lab->loop, NULL), 0);
	*state = lab;
	return 0;
}

static int
tear_down(void **state)
{
	struct lab *lab = *state;

	loop_free(&lab->loop);
	free(lab);
	return 0;
}

static void
test_watch_outlives_overrun(void **state)
{
	struct lab *lab = *state;
	struct netwatch *w;
	struct err err;

	assert_int_equal(netwatch_start(&w, lab->loop, on_changed, lab, &err), 0);
	for (unsigned i = 0; i < 2; i++) {
		overrun();
		patience_until(patience_turn(lab->loop), lab->changes > 0);
		lab->changes = 0;
		sh("ip addr add 192.0.2.7/24 dev d0");
		patience_until(patience_turn(lab->loop), lab->changes > 0);
		sh("ip addr del 192.0.2.7/24 dev d0");
		patience_until(patience_turn(lab->loop), lab->changes > 1);
		lab->changes = 0;
	}
	netwatch_stop(&w);
}

/* By its message, and not by the look that comes every ADDRESSES_MS of the test's clock. Nobody
 * asks for the list, which would read the socket too. */
static void
expect_soon(struct lab *lab, unsigned changes)
{
	for (unsigned i = 0; i < 100; i++)
		patience_turn(lab->loop);
	assert_int_equal(lab->changes, changes);
}

static void
test_addresses_outlive_overrun(void **state)
{
	struct lab *lab = *state;
	struct addresses *a = addresses_new(lab->loop, on_changed, lab);

	overrun();
	sh("ip addr add 192.0.2.7/24 dev d0");
	expect_soon(lab, 1);
	sh("ip addr add 192.0.2.8/24 dev d0");
	expect_soon(lab, 2);
	addresses_free(&a);
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(test_watch_outlives_overrun),
		IN_LAB(test_addresses_outlive_overrun),
	};

	if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0) {
		printf("1..0 # SKIP network namespaces are not allowed here\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
