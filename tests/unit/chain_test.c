/* Bytes that wait, against a plain array that does the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tunnel/chain.h"

static uint32_t
next(uint32_t *seed)
{
	return (*seed = *seed * 1664525 + 1013904223) >> 8;
}

/* Puts n bytes of a running count in, by either way. */
static void
put(struct chain *c, size_t n, uint8_t *count, bool reserve)
{
	uint8_t bytes[40000];

	while (n > 0) {
		size_t room = MIN(n, sizeof bytes);
		uint8_t *to = reserve ? chain_reserve(c, n, &room) : bytes;

		assert_true(room > 0 && room <= n);
		for (size_t i = 0; i < room; i++)
			to[i] = (*count)++;
		if (reserve)
			chain_commit(c, room);
		else
			chain_add(c, to, room);
		n -= room;
	}
}

static void
take(struct chain *c, size_t n, uint8_t *count)
{
	while (n > 0) {
		const void *data;
		size_t got = MIN(chain_peek(c, &data), n);

		assert_true(got > 0);
		for (size_t i = 0; i < got; i++)
			assert_int_equal(((const uint8_t *)data)[i], (*count)++);
		chain_consume(c, got);
		n -= got;
	}
}

static void
test_keeps_order(void **state)
{
	struct chain c = {0};
	uint32_t seed = 1;
	uint8_t in = 0, out = 0;
	size_t len = 0;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		size_t n = next(&seed) % (i % 10 == 0 ? 300000 : 2000);

		put(&c, n, &in, i % 3 == 0);
		len += n;
		n = next(&seed) % (len + 1);
		take(&c, i % 100 == 99 ? len : n, &out);
		len -= i % 100 == 99 ? len : n;
		assert_int_equal(c.len, len);
	}
	take(&c, len, &out);
	assert_null(c.first);
	assert_null(c.last);
}

static void
test_nothing_committed(void **state)
{
	struct chain c = {0};
	const void *data;
	size_t room;

	(void)state;
	assert_non_null(chain_reserve(&c, 1000, &room));
	chain_commit(&c, 0);
	assert_null(c.first); /* an empty chain holds no memory */
	chain_add(&c, "ab", 2);
	chain_reserve(&c, 100000, &room);
	chain_commit(&c, 0);
	chain_add(&c, "cd", 2);
	assert_int_equal(c.len, 4);
	assert_true(chain_peek(&c, &data) >= 2);
	assert_memory_equal(data, "ab", 2);
	chain_consume(&c, 2);
	assert_int_equal(chain_peek(&c, &data), 2);
	assert_memory_equal(data, "cd", 2);
	chain_fini(&c);
	assert_int_equal(chain_peek(&c, &data), 0);
	assert_null(data);
}

/* What one chain is done with, another takes; slivers are nobody's. */
static void
test_spare_pieces(void **state)
{
	static char bytes[1 << 20];
	struct spare spare = {0};
	struct chain a = {.spare = &spare}, b = {.spare = &spare};
	unsigned most;

	(void)state;
	chain_add(&a, "few", 3);
	chain_fini(&a);
	assert_int_equal(spare.n, 0);
	chain_add(&a, bytes, sizeof bytes);
	chain_fini(&a);
	most = spare.n;
	assert_in_range(most, 1, 8);
	chain_add(&b, bytes, sizeof bytes);
	assert_int_equal(spare.n, 0);
	assert_int_equal(b.len, sizeof bytes);
	chain_fini(&b);
	assert_int_equal(spare.n, most);
	spare_release(&spare);
	assert_int_equal(spare.n, 0);
	assert_null(spare.first);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keeps_order),
		cmocka_unit_test(test_nothing_committed),
		cmocka_unit_test(test_spare_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
