#include "tunnel/udp/capsule.h"

#include <assert.h>

enum { TYPE_DATAGRAM = 0, TYPE_DROPPED = 0x1d09 };

enum state { HEAD, BODY, GIVEN, SKIP, BAD };

/* --- integers ------------------------------------------------------------------------------- */

/* Writes the shortest form. */
static size_t
put_number(uint8_t *to, uint64_t v)
{
	unsigned log = v < 1u << 6 ? 0 : v < 1u << 14 ? 1 : v < 1u << 30 ? 2 : 3;
	size_t n = (size_t)1 << log;

	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)(v >> 8 * (n - 1 - i));
	to[0] |= (uint8_t)(log << 6);
	return n;
}

static size_t
number_size(uint8_t first)
{
	return (size_t)1 << (first >> 6);
}

/* Returns its size in bytes; 0: incomplete. */
static size_t
get_number(const uint8_t *at, size_t n, uint64_t *v)
{
	size_t size = n > 0 ? number_size(at[0]) : 1;

	if (n < size)
		return 0;
	*v = at[0] & 0x3f;
	for (size_t i = 1; i < size; i++)
		*v = *v << 8 | at[i];
	return size;
}

size_t
capsule_head(uint8_t to[CAPSULE_HEAD_MAX], size_t len)
{
	size_t n = 0;

	assert(len <= DATAGRAM_MAX);
	to[n++] = TYPE_DATAGRAM;
	n += put_number(to + n, len + 1);
	to[n++] = 0; /* context */
	return n;
}

size_t
capsule_dropped(uint8_t to[CAPSULE_HEAD_MAX], uint64_t n)
{
	size_t at = put_number(to, TYPE_DROPPED), len = put_number(to + at + 1, n);

	to[at] = (uint8_t)len;
	return at + 1 + len;
}

/* --- reading -------------------------------------------------------------------------------- */

static void
pass_over(struct capsule_reader *r, uint64_t n)
{
	r->state = SKIP;
	r->left = n;
}

/* `at`: offset of the context, after type and length. */
static void
begin_datagram(struct capsule_reader *r, size_t at, uint64_t len)
{
	size_t have = r->n_head - at, size;
	uint64_t context;

	if (len == 0 || (have > 0 && number_size(r->head[at]) > len)) {
		r->state = BAD;
		return;
	}
	if ((size = get_number(r->head + at, have, &context)) == 0)
		return;
	if (context != 0) {
		pass_over(r, len - size);
		return;
	}
	r->left = len - size;
	r->state = r->left > DATAGRAM_MAX ? BAD : BODY;
}

/* `at`: offset of the number; one that does not fill the capsule is none. */
static void
look_at_dropped(struct capsule_reader *r, size_t at, uint64_t len)
{
	size_t have = r->n_head - at, size;
	uint64_t dropped;

	size = get_number(r->head + at, have, &dropped);
	if (size == 0 && have < len)
		return;
	if (size > 0 && size == len)
		r->dropped += dropped;
	pass_over(r, len - have);
}

/* One more byte of the header has come. */
static void
look_at_head(struct capsule_reader *r)
{
	uint64_t type, len;
	size_t n = get_number(r->head, r->n_head, &type), m;

	if (n == 0 || (m = get_number(r->head + n, r->n_head - n, &len)) == 0)
		return;
	if (type == TYPE_DATAGRAM)
		begin_datagram(r, n + m, len);
	else if (type == TYPE_DROPPED)
		look_at_dropped(r, n + m, len);
	else
		pass_over(r, len);
}

static void
move_on(const void **data, size_t *n, size_t by)
{
	*data = (const uint8_t *)*data + by;
	*n -= by;
}

/* Without a copy, if all of it is there. */
static enum capsule_result
read_body(struct capsule_reader *r, const void **data, size_t *n, struct capsule_datagram *out)
{
	size_t take = MIN(r->left, *n);

	if (buf_len(&r->body) == 0 && take == r->left) {
		*out = (struct capsule_datagram){*data, take};
	} else {
		buf_add(&r->body, *data, take);
		*out = (struct capsule_datagram){buf_at(&r->body), buf_len(&r->body)};
	}
	move_on(data, n, take);
	r->left -= take;
	if (r->left > 0)
		return CAPSULE_MORE;
	r->state = GIVEN;
	return CAPSULE_DATAGRAM;
}

static void
next_capsule(struct capsule_reader *r)
{
	buf_consume(&r->body, buf_len(&r->body));
	buf_release(&r->body);
	r->n_head = 0;
	r->state = HEAD;
}

enum capsule_result
capsule_read(struct capsule_reader *r, const void **data, size_t *n, struct capsule_datagram *out)
{
	size_t take;

	for (;;) {
		switch ((enum state)r->state) {
		case HEAD:
			if (*n == 0)
				return CAPSULE_MORE;
			r->head[r->n_head++] = *(const uint8_t *)*data;
			move_on(data, n, 1);
			look_at_head(r);
			break;
		case BODY:
			return read_body(r, data, n, out);
		case GIVEN:
			next_capsule(r);
			break;
		case SKIP:
			take = MIN(r->left, *n);
			move_on(data, n, take);
			r->left -= take;
			if (r->left > 0)
				return CAPSULE_MORE;
			next_capsule(r);
			break;
		case BAD:
			return CAPSULE_BAD;
		}
	}
}

void
capsule_fini(struct capsule_reader *r)
{
	buf_fini(&r->body);
}
