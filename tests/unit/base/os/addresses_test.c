/*
 * The addresses of this machine, in a network namespace of the test's own. Skipped (said aloud)
 * where namespaces are not allowed.
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
#include "model/check.h"
#include "tests/unit/patience.h"

struct lab {
	struct loop *loop;
	struct addresses *addresses;
	unsigned changes;
};

static struct in6_addr
ip_of(const char *text)
{
	struct in6_addr ip;

	assert_true(ip_parse(text, &ip));
	return ip;
}

static bool
has(struct lab *lab, const char *text)
{
	const struct in6_addr ip = ip_of(text);

	return addresses_has(lab->addresses, &ip);
}

static bool
on_net(struct lab *lab, const char *text)
{
	const struct in6_addr ip = ip_of(text);

	return addresses_on_net(lab->addresses, &ip);
}

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

static int
set_up(void **state)
{
	struct lab *lab = xcalloc(1, sizeof *lab);

	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	sh("ip link set lo up && ip link add d0 type bridge && ip addr add 192.0.2.7/24 dev d0 && "
	   "ip addr add 2001:db8::7/64 dev d0 nodad && ip link set d0 up");
	assert_int_equal(loop_new(&lab->loop, NULL), 0);
	lab->addresses = addresses_new(lab->loop, on_changed, lab);
	*state = lab;
	return 0;
}

static int
tear_down(void **state)
{
	struct lab *lab = *state;

	addresses_free(&lab->addresses);
	loop_free(&lab->loop);
	free(lab);
	return 0;
}

static void
test_known_from_the_start(void **state)
{
	struct lab *lab = *state;

	assert_true(has(lab, "127.0.0.1"));
	assert_true(has(lab, "::1"));
	assert_true(has(lab, "192.0.2.7"));
	assert_true(has(lab, "2001:db8::7"));
	assert_false(has(lab, "192.0.2.8"));
	assert_false(has(lab, "2001:db8::8"));
	assert_true(has(lab, "192.0.2.255")); /* broadcast addresses lead here, too */
	assert_true(has(lab, "192.0.2.0"));
	assert_true(on_net(lab, "192.0.2.200"));
	assert_false(on_net(lab, "192.0.3.1"));
	assert_true(on_net(lab, "2001:db8::ffff"));
	assert_false(on_net(lab, "2001:db8:1::"));
}

static void
test_wrapped(void **state)
{
	struct lab *lab = *state;

	assert_true(has(lab, "::ffff:192.0.2.7"));
	assert_true(has(lab, "::192.0.2.7"));
	assert_true(has(lab, "64:ff9b::192.0.2.7"));
	assert_true(has(lab, "2002:c000:207::1"));
	assert_false(has(lab, "64:ff9b::192.0.2.8"));
}

/* Before the loop has turned, and so before anybody could have been told. */
static void
test_counts_at_once(void **state)
{
	struct lab *lab = *state;

	for (unsigned i = 0; i < 3; i++) {
		sh("ip addr add 198.51.100.9/32 dev d0");
		assert_true(has(lab, "198.51.100.9"));
		sh("ip addr del 198.51.100.9/32 dev d0");
		assert_false(has(lab, "198.51.100.9"));
	}
	assert_int_equal(lab->changes, 0);
}

static void
test_tells(void **state)
{
	struct lab *lab = *state;
	const struct address_list *before = addresses_list(lab->addresses);
	struct address_list *kept = address_list_ref(before);
	const struct in6_addr added = ip_of("198.51.100.9");

	sh("ip addr add 198.51.100.9/32 dev d0");
	patience_until(patience_turn(lab->loop), lab->changes > 0);
	assert_true(address_list_has(addresses_list(lab->addresses), &added));
	assert_false(address_list_has(kept, &added)); /* as it was: others may be reading it */
	address_list_unref(&kept);
}

/* What concerns no address is no change. */
static void
test_other_news(void **state)
{
	struct lab *lab = *state;
	const struct address_list *list = addresses_list(lab->addresses);

	sh("ip link set d0 mtu 1400");
	assert_true(has(lab, "192.0.2.7"));
	assert_ptr_equal(list, addresses_list(lab->addresses));
}

static void
test_interfaces(void **state)
{
	struct lab *lab = *state;
	const struct address_list *l = addresses_list(lab->addresses);
	const struct in6_addr ip = ip_of("192.0.2.7");
	unsigned found = 0;

	for (size_t i = 0; i < l->n; i++) {
		const struct own_address *own = &l->list[i];

		assert_true(i == 0 || memcmp(&l->list[i - 1].ip, &own->ip, sizeof ip) <= 0);
		if (memcmp(&own->ip, &ip, sizeof ip) != 0)
			continue;
		found++;
		assert_string_equal(own->interface, "d0");
		assert_int_equal(own->bits, 96 + 24);
		assert_true((own->flags & IFF_UP) != 0 && (own->flags & IFF_LOOPBACK) == 0);
	}
	assert_int_equal(found, 1);
}

static void
test_no_list(void **state)
{
	const struct in6_addr ip = ip_of("127.0.0.1");
	struct address_list *none = address_list_new(NULL, 0);

	(void)state;
	assert_false(address_list_has(NULL, &ip));
	assert_false(address_list_has(none, &ip));
	assert_false(address_list_on_net(none, &ip));
	address_list_unref(&none);
	assert_null(none);
}

#define IN_LAB(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		IN_LAB(test_known_from_the_start),
		IN_LAB(test_wrapped),
		IN_LAB(test_counts_at_once),
		IN_LAB(test_tells),
		IN_LAB(test_other_news),
		IN_LAB(test_interfaces),
		cmocka_unit_test(test_no_list),
	};

	if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0) {
		printf("1..0 # SKIP network namespaces are not allowed here\n");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
