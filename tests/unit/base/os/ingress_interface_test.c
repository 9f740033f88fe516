/* Whether a datagram came by the mesh is known without a descriptor to spare. */
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/os/ingress_interface.h"

static const char *const names[] = {"docker0", "br-*", NULL};

static void
asked_when_descriptors_run_out(void **state)
{
	struct ingress_interface a;
	unsigned lo = if_nametoindex("lo");
	struct rlimit before, none;

	(void)state;
	ingress_interface_init(&a, names);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_true(ingress_interface_ok(&a, lo, 1));
	assert_true(ingress_interface_ok(&a, lo, 100000)); /* looked up anew */
	assert_false(ingress_interface_ok(&a, 0, 100000));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	ingress_interface_fini(&a);
}

static void
without_names_any_will_do(void **state)
{
	struct ingress_interface a;

	(void)state;
	ingress_interface_init(&a, names + 2);
	assert_true(ingress_interface_ok(&a, 4711, 1));
	ingress_interface_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(asked_when_descriptors_run_out),
		cmocka_unit_test(without_names_any_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
