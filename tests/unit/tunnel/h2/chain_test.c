/* Bytes that wait, against a plain array that does the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tunnel/h2/chain.h"

static uint32_t
next(uint32_t *seed)
{
	return (*seed = *seed * 1664525 + 1013904223) >> 8;
}

enum way { COPIED, RESERVED, TAKEN };

/* As much of n bytes as chain_reserve gives room for. */
static size_t
put_reserved(struct chain *c, size_t n, uint8_t *count)
{
	struct iovec v[CHAIN_MOST];
	int places = chain_reserve(c, n, v);
	size_t room = 0;

	assert_in_range(places, 1, CHAIN_MOST);
	for (int i = 0; i < places; i++)
		for (size_t k = 0; k < v[i].iov_len; k++, room++)
			((uint8_t *)v[i].iov_base)[k] = (*count)++;
	assert_in_range(room, 1, n);
	chain_commit(c, room);
	return room;
}

static size_t
put_taken(struct chain *c, size_t n, uint8_t *count)
{
	struct piece *p = piece_new(c->spare);
	uint8_t *bytes = piece_bytes(p);
	size_t from = n % 100;

	n = MIN(n, (size_t)CHAIN_PIECE - from);
	for (size_t i = 0; i < n; i++)
		bytes[from + i] = (*count)++;
	chain_take(c, &p, bytes + from, n);
	assert_null(p);
	return n;
}

static size_t
put_copied(struct chain *c, size_t n, uint8_t *count)
{
	uint8_t bytes[40000];

	n = MIN(n, sizeof bytes);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (*count)++;
	chain_add(c, bytes, n);
	return n;
}

/* Puts n bytes of a running count in, by one way. */
static void
put(struct chain *c, size_t n, uint8_t *count, enum way way)
{
	while (n > 0)
		n -= way == COPIED     ? put_copied(c, n, count)
			: way == TAKEN ? put_taken(c, n, count)
				       : put_reserved(c, n, count);
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

/* The pieces that are seen together are those that are seen one by one. */
static void
look(const struct chain *c, uint8_t next_byte)
{
	struct iovec v[CHAIN_MOST];
	int pieces = chain_peek_all(c, v);

	assert_int_equal(pieces > 0, c->len > 0);
	for (int i = 0; i < pieces; i++)
		for (size_t k = 0; k < v[i].iov_len; k++)
			assert_int_equal(((uint8_t *)v[i].iov_base)[k], next_byte++);
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

		put(&c, n, &in, i % 3);
		len += n;
		n = next(&seed) % (len + 1);
		take(&c, i % 100 == 99 ? len : n, &out);
		len -= i % 100 == 99 ? len : n;
		assert_int_equal(c.len, len);
		if (i % 50 == 0)
			look(&c, out);
	}
	take(&c, len, &out);
	assert_null(c.first);
	assert_null(c.last);
}

static void
test_nothing_committed(void **state)
{
	struct iovec v[CHAIN_MOST];
	struct chain c = {0};
	const void *data;

	(void)state;
	assert_int_equal(chain_reserve(&c, 1000, v), 1);
	assert_int_equal(v[0].iov_len, 1000);
	chain_commit(&c, 0);
	assert_null(c.first); /* an empty chain holds no memory */
	chain_add(&c, "ab", 2);
	chain_reserve(&c, 100000, v);
	chain_commit(&c, 0);
	chain_add(&c, "cd", 2);
	assert_int_equal(c.len, 4);
	assert_true(chain_peek(&c, &data) >= 2);
	assert_memory_equal(data, "ab", 2);
	chain_consume(&c, 4);
	assert_int_equal(chain_peek(&c, &data), 0);
	assert_null(data);
}

/* Whoever fills what is reserved gets more at a time, and less again. */
static void
test_reserves_ahead(void **state)
{
	struct iovec v[CHAIN_MOST];
	struct chain c = {0};
	size_t want = CHAIN_MOST * (size_t)CHAIN_PIECE, room;
	int places = 1;

	(void)state;
	for (int i = 0; i < 10; i++) {
		room = 0;
		assert_int_equal(chain_reserve(&c, want, v), places);
		for (int k = 0; k < places; k++)
			room += v[k].iov_len;
		chain_commit(&c, room);
		places = MIN(2 * places, CHAIN_MOST);
		chain_fini(&c);
	}
	for (int i = 0; i < 10; i++) {
		assert_int_equal(chain_reserve(&c, want, v), places);
		chain_commit(&c, 10);
		places = MAX(places / 2, 1);
		chain_fini(&c);
		places = places == 1 ? 2 : places; /* one of two is half: it stays */
	}
}

/* A frame's head fits in front of whatever comes first, and spoils none of it. */
static void
test_headroom(void **state)
{
	struct chain c = {0};
	uint32_t seed = 7;
	uint8_t in = 0, out = 0;
	const void *data;

	(void)state;
	put(&c, 100000, &in, RESERVED);
	put(&c, 100000, &in, COPIED);
	put(&c, 20, &in, COPIED);
	while (c.len > 0) {
		size_t n = chain_peek(&c, &data);

		memset((char *)(uintptr_t)data - CHAIN_HEADROOM, 0xff, CHAIN_HEADROOM);
		take(&c, 1 + next(&seed) % n, &out);
	}
}

/* A whole piece that few bytes were read into is free for others, much before these are sent. */
static void
test_few_bytes_hold_no_whole_piece(void **state)
{
	struct iovec v[CHAIN_MOST];
	struct spare spare = {0};
	struct chain c = {.spare = &spare};
	const void *data;

	(void)state;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(chain_reserve(&c, 1000, v), 1);
		memset(v[0].iov_base, 'a' + i, 300);
		chain_commit(&c, 300);
		assert_int_equal(spare.n, 1);
	}
	assert_int_equal(c.len, 600);
	assert_int_equal(chain_peek(&c, &data), 300);
	assert_int_equal(((const char *)data)[299], 'a');
	chain_consume(&c, 300);
	assert_int_equal(chain_peek(&c, &data), 300);
	assert_int_equal(((const char *)data)[299], 'b');
	chain_fini(&c);
	spare_release(&spare);
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
	assert_in_range(most, 1, 64);
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
		cmocka_unit_test(test_reserves_ahead),
		cmocka_unit_test(test_headroom),
		cmocka_unit_test(test_few_bytes_hold_no_whole_piece),
		cmocka_unit_test(test_spare_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
