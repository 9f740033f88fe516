/* Websockets' frames as a stream of bytes: both ends against each other, and each against what must
 * not come. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/http/wsframe.h"

enum { FIN = 0x80, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10 };

struct pair {
	struct wsframe *client, *server;
	struct buf in, out;
};

static void
open_pair(struct pair *p)
{
	p->client = wsframe_new(true);
	p->server = wsframe_new(false);
	buf_init(&p->in, BUF_UNLIMITED);
	buf_init(&p->out, BUF_UNLIMITED);
}

static void
close_pair(struct pair *p)
{
	wsframe_free(&p->client);
	wsframe_free(&p->server);
	buf_fini(&p->in);
	buf_fini(&p->out);
}

/* One frame as a client (masked) or a server sends it; n < 65536. */
static void
frame(struct buf *to, unsigned first, bool masked, const void *payload, size_t n)
{
	static const uint8_t mask[4] = {0x11, 0x22, 0x33, 0x44};
	uint8_t head[4] = {(uint8_t)first, masked ? 0x80 : 0};

	head[1] |= (uint8_t)(n < 126 ? n : 126);
	head[2] = (uint8_t)(n >> 8);
	head[3] = (uint8_t)n;
	buf_add(to, head, n < 126 ? 2 : 4);
	if (masked)
		buf_add(to, mask, sizeof mask);
	for (size_t i = 0; i < n; i++) {
		uint8_t byte = ((const uint8_t *)payload)[i] ^ (masked ? mask[i % 4] : 0);

		buf_add(to, &byte, 1);
	}
}

/* Fed in pieces of so many bytes. */
static int
feed(struct wsframe *f, struct buf *bytes, size_t piece, struct buf *in)
{
	int rc = 0;

	while (buf_len(bytes) > 0 && rc == 0) {
		size_t n = MIN(piece, buf_len(bytes));

		rc = wsframe_take(f, buf_at(bytes), n, in);
		buf_consume(bytes, n);
	}
	return rc;
}

/* Any lengths, both ways, however the bytes are cut: the same bytes, and on the way they look
 * otherwise when masked. */
static void
test_there_and_back(void **state)
{
	static const size_t sizes[] = {0, 1, 125, 126, 127, 65535, 65536, 200000},
			    pieces[] = {1, 7, 4096, 1 << 20};
	static uint8_t bytes[200000], zeros[64];
	struct pair p;

	(void)state;
	random_bytes(bytes, sizeof bytes);
	open_pair(&p);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		for (size_t k = 0; k < 2 * ARRAY_LEN(pieces); k++) {
			struct wsframe *from = k % 2 ? p.client : p.server;
			struct wsframe *to = k % 2 ? p.server : p.client;

			wsframe_put(from, bytes, sizes[i], &p.out);
			assert_int_equal(feed(to, &p.out, pieces[k / 2], &p.in), 0);
			assert_int_equal(buf_len(&p.in), sizes[i]);
			assert_memory_equal(sizes[i] > 0 ? buf_at(&p.in) : "", bytes, sizes[i]);
			buf_consume(&p.in, buf_len(&p.in));
		}
	}
	wsframe_put(p.client, zeros, sizeof zeros, &p.out);
	assert_int_equal(buf_len(&p.out), 2 + 4 + sizeof zeros);
	assert_int_equal(((uint8_t *)buf_at(&p.out))[1], 0x80 | sizeof zeros);
	assert_memory_not_equal(buf_at(&p.out) + 6, zeros, sizeof zeros);
	close_pair(&p);
}

/* What is on the way may cut our messages into fragments, and put pings between them. */
static void
test_fragments(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	frame(&p.out, BINARY, true, "ab", 2);
	frame(&p.out, FIN | PING, true, "hello", 5);
	frame(&p.out, 0, true, "", 0);
	frame(&p.out, FIN, true, "cd", 2);
	frame(&p.out, FIN | PONG, true, "", 0); /* that nobody asked for */
	frame(&p.out, FIN | BINARY, true, "ef", 2);
	assert_int_equal(feed(p.server, &p.out, 3, &p.in), 0);
	assert_string_equal(buf_str(&p.in), "abcdef");
	wsframe_emit(p.server, &p.out);
	assert_int_equal(buf_len(&p.out), 7);
	assert_memory_equal(buf_at(&p.out), "\x8a\x05hello", 7);
	close_pair(&p);
}

struct wrong {
	const char *what;
	unsigned first;
	size_t n;
	bool other; /* masked when it must not be, or the other way round */
	unsigned code;
};

/* Refused with a code, at either end, and nothing that comes later counts. */
static void
test_refused(void **state)
{
	static const struct wrong all[] = {
		{"text", FIN | TEXT, 5, false, WSFRAME_TEXT},
		{"mask", FIN | BINARY, 5, true, WSFRAME_PROTOCOL},
		{"reserved bit", 0x40 | FIN | BINARY, 5, false, WSFRAME_PROTOCOL},
		{"unknown opcode", FIN | 3, 5, false, WSFRAME_PROTOCOL},
		{"unknown control", FIN | 11, 5, false, WSFRAME_PROTOCOL},
		{"nothing to continue", FIN, 5, false, WSFRAME_PROTOCOL},
		{"ping in fragments", PING, 5, false, WSFRAME_PROTOCOL},
		{"long ping", FIN | PING, 126, false, WSFRAME_PROTOCOL},
	};
	static const uint8_t payload[200];

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(all); i++) {
		const struct wrong *w = &all[i / 2];
		bool client = i % 2;
		struct pair p;
		struct wsframe *f;
		int rc;

		open_pair(&p);
		f = client ? p.client : p.server;
		frame(&p.out, FIN | BINARY, !client, "good", 4);
		frame(&p.out, w->first, client == w->other, payload, w->n);
		frame(&p.out, FIN | BINARY, !client, "late", 4);
		rc = feed(f, &p.out, 1 << 20, &p.in);
		buf_consume(&p.out, buf_len(&p.out));
		wsframe_emit(f, &p.out);
		if (rc != -EPROTO || wsframe_closed(f) != w->code)
			fail_msg("%s: rc %d code %u", w->what, rc, wsframe_closed(f));
		assert_string_equal(buf_str(&p.in), "good");
		assert_int_equal((uint8_t)buf_at(&p.out)[0], FIN | CLOSE);
		frame(&p.out, FIN | BINARY, !client, "later", 5);
		assert_int_equal(wsframe_take(f, buf_at(&p.out), buf_len(&p.out), &p.in), -EPROTO);
		assert_int_equal(buf_len(&p.in), 4);
		close_pair(&p);
	}
}

/* Said in its head, or piece by piece: a message above the limit, and one that only just is not. */
static void
test_too_big(void **state)
{
	static const uint8_t huge[] = {FIN | BINARY, 0xff, 0, 0, 1, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5},
			     payload[32 * 1024];
	struct pair p;

	(void)state;
	open_pair(&p);
	assert_int_equal(wsframe_take(p.server, huge, sizeof huge, &p.in), -EPROTO);
	wsframe_emit(p.server, &p.out);
	assert_int_equal(wsframe_closed(p.server), WSFRAME_TOO_BIG);
	close_pair(&p);
	open_pair(&p);
	for (int i = 0; i < 4; i++) { /* twice two halves of the limit */
		frame(&p.out, i % 2 ? FIN : BINARY, true, payload, sizeof payload);
		assert_int_equal(feed(p.server, &p.out, 1 << 20, &p.in), 0);
	}
	assert_int_equal(buf_len(&p.in), 2 * WSFRAME_MESSAGE_MAX);
	frame(&p.out, BINARY, true, payload, sizeof payload);
	frame(&p.out, 0, true, payload, sizeof payload);
	assert_int_equal(feed(p.server, &p.out, 1 << 20, &p.in), 0);
	frame(&p.out, FIN, true, payload, 1);
	assert_int_equal(feed(p.server, &p.out, 1 << 20, &p.in), -EPROTO);
	wsframe_emit(p.server, &p.out);
	assert_int_equal(wsframe_closed(p.server), WSFRAME_TOO_BIG);
	close_pair(&p);
}

/* Each end closes once; what was sent before arrives, and nothing is sent after. */
static void
test_close(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	wsframe_put(p.client, "last", 4, &p.out);
	wsframe_close(p.client, WSFRAME_LEAVING);
	wsframe_emit(p.client, &p.out);
	wsframe_put(p.client, "more", 4, &p.out);
	assert_int_equal(feed(p.server, &p.out, 1 << 20, &p.in), 1);
	assert_string_equal(buf_str(&p.in), "last");
	assert_int_equal(wsframe_closed(p.server), WSFRAME_LEAVING);
	wsframe_emit(p.server, &p.out);
	assert_int_equal(feed(p.client, &p.out, 1 << 20, &p.in), 1);
	assert_int_equal(wsframe_closed(p.client), WSFRAME_LEAVING);
	close_pair(&p);
}

static void
test_ping(void **state)
{
	struct pair p;

	(void)state;
	open_pair(&p);
	wsframe_ping(p.client);
	wsframe_emit(p.client, &p.out);
	assert_int_equal(buf_len(&p.out), 6);
	assert_int_equal(feed(p.server, &p.out, 1 << 20, &p.in), 0);
	wsframe_emit(p.server, &p.out);
	assert_memory_equal(buf_at(&p.out), "\x8a\x00", 2);
	assert_int_equal(feed(p.client, &p.out, 1 << 20, &p.in), 0);
	assert_int_equal(buf_len(&p.in), 0);
	close_pair(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_fragments),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_too_big),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_ping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
