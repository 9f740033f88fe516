#include "base/core/fair_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ONE = 1, TWO, THREE };

static unsigned
take_all(struct fair_share *s, uint16_t slot)
{
	unsigned n = 0;

	while (n < 1000 && fair_share_take(s, slot, 1))
		n++;
	return n;
}

static void
one_client_leaves_room_for_others(void **state)
{
	struct fair_share *s = fair_share_new(350);

	(void)state;
	assert_int_equal(take_all(s, ONE), 175);
	assert_int_equal(take_all(s, TWO), 88); /* half of the rest */
	assert_false(fair_share_take(s, ONE, 1));
	assert_true(fair_share_take(s, THREE, 1));
	fair_share_give(s, ONE, 175);
	assert_true(take_all(s, TWO) > 30);
	fair_share_free(&s);
	s = fair_share_new(UINT64_MAX);
	assert_int_equal(take_all(s, ONE), 1000);
	fair_share_free(&s);
}

/* Who held all before others came has too much now; what it gives back is what they find. */
static void
excess_is_what_others_lack(void **state)
{
	struct fair_share *s = fair_share_new(100);

	(void)state;
	fair_share_charge(s, ONE, 50);
	assert_int_equal(fair_share_excess(s, ONE), 0);
	fair_share_charge(s, TWO, 25);
	assert_int_equal(fair_share_excess(s, ONE), 25);
	assert_int_equal(fair_share_room(s, ONE), 0);
	assert_int_equal(fair_share_excess(s, TWO), 0);
	assert_int_equal(fair_share_greediest(s), ONE);
	fair_share_give(s, ONE, 13);
	assert_int_equal(fair_share_excess(s, ONE), 0);
	assert_int_equal(fair_share_room(s, TWO), 13);
	fair_share_charge(s, THREE, 80); /* more than there is */
	assert_int_equal(fair_share_greediest(s), THREE);
	assert_int_equal(fair_share_excess(s, THREE), 80);
	assert_int_equal(fair_share_room(s, TWO), 0);
	assert_int_equal(fair_share_used(s), 142);
	fair_share_free(&s);
}

static uint16_t
slot_of(const char *text)
{
	struct addr a;
	struct err err;

	assert_int_equal(addr_parse(&a, text, 1, &err), 0);
	return fair_share_slot_of(&a, 7);
}

static void
who_is_one_client(void **state)
{
	(void)state;
	assert_int_equal(slot_of("192.0.2.1:5"), slot_of("192.0.2.1:6"));
	assert_int_equal(slot_of("192.0.2.1:5"), slot_of("[::ffff:192.0.2.1]:5"));
	assert_int_not_equal(slot_of("192.0.2.1:5"), slot_of("192.0.2.2:5"));
	assert_int_equal(slot_of("[2001:db8::1]:5"), slot_of("[2001:db8::2:0:0:1]:5"));
	assert_int_not_equal(slot_of("[2001:db8::1]:5"), slot_of("[2001:db8:0:1::1]:5"));
	assert_int_equal(slot_of("unix:/a"), slot_of("unix:/b"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_client_leaves_room_for_others),
		cmocka_unit_test(excess_is_what_others_lack),
		cmocka_unit_test(who_is_one_client),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
