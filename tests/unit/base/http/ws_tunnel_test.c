/* Carriers face to face over a pair of sockets, and one against a hand that writes frames: bytes,
 * ends, limits. And their heads. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "base/http/ws_tunnel.h"
#include "base/http/ws_tunnel_head.h"
#include "tests/unit/patience.h"
#include "tests/unit/tunnel/h2/tunnel_bed.h"

enum { PINGS_BYTES = 6 * 4096 };

struct side {
	struct ws_tunnel *carrier;
	int fd; /* the owner's end */
	bool ended, fault;
	char why[128];
	size_t got;
	uint64_t sum;
};

struct two {
	struct loop *loop;
	struct side client, server;
	int fd; /* in place of the client's carrier */
	int descriptors;
};

static void
on_ended(void *arg, bool fault, const char *why)
{
	struct side *s = arg;

	assert_false(s->ended);
	s->ended = true;
	s->fault = fault;
	snprintf(s->why, sizeof s->why, "%s", why);
	ws_tunnel_free(&s->carrier);
}

static void
start(struct two *t, struct side *s, int fd, bool client, const char *rest)
{
	struct ws_tunnel_setup setup = {
		.loop = t->loop,
		.wire = transport_socket(t->loop, fd),
		.client = client,
		.rest = rest,
		.n_rest = rest != NULL ? strlen(rest) : 0,
		.ended = on_ended,
		.arg = s,
	};

	assert_int_equal(ws_tunnel_start(&setup, &s->carrier, &s->fd), 0);
}

static void
open_two(struct two *t, bool by_hand)
{
	int fd[2];

	signal(SIGPIPE, SIG_IGN);
	memset(t, 0, sizeof *t);
	t->descriptors = bed_descriptors();
	assert_int_equal(loop_new(&t->loop, NULL), 0);
	bed_tcp_pair(fd);
	t->fd = t->client.fd = -1;
	start(t, &t->server, fd[1], false, NULL);
	if (by_hand)
		t->fd = fd[0];
	else
		start(t, &t->client, fd[0], true, NULL);
}

static void
close_two(struct two *t)
{
	ws_tunnel_free(&t->client.carrier);
	ws_tunnel_free(&t->server.carrier);
	for (unsigned i = 0; i < 2; i++)
		if ((i ? t->client.fd : t->server.fd) >= 0)
			close(i ? t->client.fd : t->server.fd);
	if (t->fd >= 0)
		close(t->fd);
	loop_free(&t->loop);
	assert_int_equal(bed_descriptors(), t->descriptors);
}

#define until(t, condition) patience_until(patience_turn((t)->loop), condition)

/* What has come to the owner; true at its end. */
static bool
read_side(struct side *s)
{
	uint8_t bytes[65536];
	ssize_t n;

	while ((n = recv(s->fd, bytes, sizeof bytes, 0)) > 0)
		for (ssize_t i = 0; i < n; i++)
			s->sum = s->sum * 31 + bytes[i], s->got++;
	return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Writes what goes of `left` bytes of a pattern; the hash of what went. */
static void
write_side(struct side *s, size_t *at, size_t total, uint64_t *sum)
{
	uint8_t bytes[8192];
	ssize_t n;

	while (*at < total) {
		for (size_t i = 0; i < sizeof bytes; i++)
			bytes[i] = (uint8_t)((*at + i) * 7 >> 3);
		n = send(s->fd, bytes, MIN(sizeof bytes, total - *at), MSG_NOSIGNAL);
		if (n <= 0)
			return;
		for (ssize_t i = 0; i < n; i++)
			*sum = *sum * 31 + bytes[i];
		*at += (size_t)n;
	}
}

/* Megabytes both ways at once; the ends that are closed then take nothing with them. */
static void
test_bytes(void **state)
{
	enum { TOTAL = 8 << 20 };
	size_t up = 0, down = 0;
	uint64_t sum_up = 0, sum_down = 0;
	struct two t;

	(void)state;
	open_two(&t, false);
	until(&t,
		(write_side(&t.client, &up, TOTAL, &sum_up),
			write_side(&t.server, &down, TOTAL, &sum_down), read_side(&t.client),
			read_side(&t.server), t.client.got == TOTAL && t.server.got == TOTAL));
	assert_true(t.server.sum == sum_up && t.client.sum == sum_down);
	assert_true(ws_tunnel_stats(t.client.carrier)->bytes_in == TOTAL);
	assert_true(ws_tunnel_stats(t.server.carrier)->bytes_in == TOTAL);
	up = 0;
	write_side(&t.client, &up, 1000, &sum_up);
	close(t.client.fd);
	t.client.fd = -1;
	until(&t, read_side(&t.server));
	assert_int_equal(t.server.got, TOTAL + 1000);
	assert_true(t.server.sum == sum_up);
	until(&t, t.client.ended && t.server.ended);
	assert_false(t.client.fault || t.server.fault);
	assert_string_equal(t.server.why, "it closed the websocket");
	close_two(&t);
}

/* Who is not read is held up, and what waits is bounded; the other way goes on. */
static void
test_slow_reader(void **state)
{
	size_t up = 0, down = 0, before;
	uint64_t sum = 0;
	struct two t;

	(void)state;
	open_two(&t, false);
	for (int quiet = 0; quiet < 200; quiet = up == before ? quiet + 1 : 0) {
		before = up;
		write_side(&t.client, &up, 64 << 20, &sum);
		loop_turn(t.loop);
	}
	assert_in_range(up, WS_TUNNEL_WAITING, 16 << 20); /* sockets of the kernel included */
	until(&t,
		(write_side(&t.server, &down, 1 << 20, &sum), read_side(&t.client),
			t.client.got == 1 << 20));
	until(&t, (read_side(&t.server), t.server.got == up));
	close_two(&t);
}

/* Who reads nothing costs nothing when the wire breaks, and gets what had come. */
static void
test_slow_reader_lost(void **state)
{
	enum { FRAME = 16384, HEAD = 8, QUIET = 200 };
	static uint8_t frame[HEAD + FRAME] = "\x82\xfe\x40\x00\0\0\0";
	const struct linger now = {.l_onoff = 1};
	size_t at = 0;
	int descriptors;
	struct two t;

	(void)state;
	open_two(&t, true);
	for (int quiet = 0; quiet < QUIET; quiet++) {
		ssize_t n = send(t.fd, frame + at, sizeof frame - at, MSG_NOSIGNAL);

		if (n > 0)
			at = (at + (size_t)n) % sizeof frame, quiet = 0;
		assert_int_equal(send(t.server.fd, "x", 1, MSG_NOSIGNAL), 1); /* wakes it */
		patience_turn(t.loop);
	}
	assert_int_equal(setsockopt(t.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
	descriptors = bed_descriptors();
	close(take_fd(&t.fd));
	/* the loop would tell the break again in each turn until the other end is closed, too */
	until(&t, bed_descriptors() == descriptors - 2);
	assert_false(t.server.ended);
	until(&t, (read_side(&t.server), t.server.ended));
	assert_true(t.server.fault && t.server.got >= WS_TUNNEL_WAITING);
	assert_true(read_side(&t.server));
	close_two(&t);
}

/* The wire ends: both owners know, and whose fault it is. */
static void
test_lost(void **state)
{
	struct two t;

	(void)state;
	open_two(&t, false);
	loop_turn(t.loop);
	ws_tunnel_free(&t.client.carrier);
	until(&t, t.server.ended);
	assert_true(t.server.fault);
	assert_true(read_side(&t.server) && read_side(&t.client));
	close_two(&t);
}

static void
say(struct two *t, const void *bytes, size_t n)
{
	assert_int_equal(send(t->fd, bytes, n, MSG_NOSIGNAL), n);
}

/* What is refused gets a close frame with the code, and its owner's connection ends. */
static void
test_hostile(void **state)
{
	static const struct {
		const char *bytes;
		size_t n;
		unsigned code;
	} all[] = {
		{"\x82\x05hello", 7, 1002}, /* a client that does not mask */
		{"\x81\x81mask\0", 7, 1003},
		{"\x82\xff\0\0\0\1\0\0\0\0mask!", 15, 1009},
		{"\xc2\x81mask!", 7, 1002},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		uint8_t got[4];
		struct two t;

		open_two(&t, true);
		say(&t, all[i].bytes, all[i].n);
		until(&t, t.server.ended);
		assert_true(t.server.fault && t.server.got == 0 && read_side(&t.server));
		assert_int_equal(recv(t.fd, got, sizeof got, 0), 4);
		assert_int_equal(got[0], 0x88);
		assert_int_equal(got[2] << 8 | got[3], all[i].code);
		close_two(&t);
	}
}

/* Half a frame, and the end. */
static void
test_truncated(void **state)
{
	struct two t;

	(void)state;
	open_two(&t, true);
	say(&t, "\x82\xfe\x10\x00mask0123", 12);
	until(&t, (read_side(&t.server), t.server.got == 4));
	shutdown(t.fd, SHUT_WR);
	until(&t, t.server.ended);
	assert_true(t.server.fault);
	close_two(&t);
}

static void
flood(struct two *t, const uint8_t *pings, size_t *sent)
{
	ssize_t n = send(t->fd, pings + *sent % 6, PINGS_BYTES - 6, MSG_NOSIGNAL);

	*sent += n > 0 ? (size_t)n : 0;
}

/* Pings without end of somebody who takes no answer: cut off, with bounded memory. Whoever reads
 * may ping. */
static void
test_ping_flood(void **state)
{
	static uint8_t pings[PINGS_BYTES];
	uint8_t sink[65536];
	struct two t;
	size_t sent = 0;

	(void)state;
	for (size_t i = 0; i < sizeof pings; i += 6)
		memcpy(pings + i, "\x89\x80mask", 6);
	open_two(&t, true);
	for (unsigned i = 0; i < 200; i++) {
		say(&t, pings, 600);
		loop_turn(t.loop);
		(void)recv(t.fd, sink, sizeof sink, 0);
	}
	assert_false(t.server.ended);
	until(&t, (flood(&t, pings, &sent), t.server.ended));
	assert_true(t.server.fault);
	assert_string_equal(t.server.why, "more pings than answers are taken");
	close_two(&t);
}

/* What came behind the handshake counts. */
static void
test_rest(void **state)
{
	struct two t;
	int fd[2];

	(void)state;
	open_two(&t, true);
	bed_tcp_pair(fd);
	close(t.fd);
	t.fd = fd[0];
	start(&t, &t.client, fd[1], true, "\x82\x05hello");
	until(&t, (read_side(&t.client), t.client.got == 5));
	close_two(&t);
}

/* --- heads ---------------------------------------------------------------------------------- */

#define GET "GET /p HTTP/1.1\r\nHost: h\r\n"
#define UPGRADE "Upgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define NAME "Sec-WebSocket-Protocol: chat, edgeway-carrier.1\r\n"

static void
test_requests(void **state)
{
	static const struct {
		const char *head;
		unsigned status; /* 0: good */
	} all[] = {
		{GET UPGRADE VERSION KEY NAME "\r\n", 0},
		{GET UPGRADE VERSION KEY NAME
			"X-Forwarded-For: 192.0.2.1\r\nSec-WebSocket-Extensions: "
			"permessage-deflate\r\n\r\n",
			0},
		{GET VERSION KEY NAME "\r\n", 426},
		{GET "Upgrade: h2c\r\nConnection: Upgrade\r\n" VERSION KEY NAME "\r\n", 426},
		{GET "Upgrade: websocket\r\n" VERSION KEY NAME "\r\n", 426},
		{"POST /p HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n" UPGRADE VERSION KEY NAME
		 "\r\n",
			426},
		{GET UPGRADE KEY NAME "\r\n", 426},
		{GET UPGRADE VERSION NAME "\r\n", 400},
		{GET UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n" NAME "\r\n",
			400},
		{GET UPGRADE VERSION "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSAg\r\n" NAME "\r\n",
			400},
		{GET UPGRADE VERSION KEY "\r\n", 400},
		{GET UPGRADE VERSION KEY "Sec-WebSocket-Protocol: edgeway-carrier.10\r\n\r\n", 400},
		{GET UPGRADE VERSION KEY NAME "Content-Length: 5\r\n\r\nhello", 400},
		{"GET /p HTTP/1.1\r\n" UPGRADE VERSION KEY NAME "\r\n", 400}, /* no Host */
		{"GET /p HTTP/1.1\nHost: h\n\n", 400},
		{"\x16\x03\x01\r\n\r\n", 400},
	};
	struct ws_tunnel_request r;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		size_t n = strlen(all[i].head);
		ssize_t rc = ws_tunnel_read_request(all[i].head, n, &r);

		if (all[i].status == 0 ? rc != (ssize_t)n
				       : rc != -EPROTO || r.status != all[i].status)
			fail_msg("%s: %zd %u %s", all[i].head, rc, r.status, r.why);
		for (size_t k = 0; all[i].status == 0 && k < n; k++)
			assert_int_equal(ws_tunnel_read_request(all[i].head, k, &r), 0);
	}
	assert_int_equal(
		ws_tunnel_read_request(all[0].head, strlen(all[0].head), &r), strlen(all[0].head));
	assert_string_equal(r.path, "/p");
	assert_string_equal(r.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="); /* RFC 6455 section 1.3 */
}

static void
test_answers(void **state)
{
	static const struct {
		const char *head, *why; /* a part of it; NULL: good */
	} all[] = {
		{"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
			"403; what is in front of the hub forbids"},
		{"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\"x\r\nContent-Length: "
		 "0\r\n\r\n",
			"302 and points to https://elsewhere/?x;"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "200; expected 101"},
		{"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "does not reach it"},
		{"SSH-2.0-OpenSSH_9.2\r\n\r\n", "does not answer like a web server"},
		{"HTTP/1.1 101 x\r\nSec-WebSocket-Accept: x\r\n\r\n", "without a websocket"},
		{"HTTP/1.1 101 x\r\n" UPGRADE
		 "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: "
		 "edgeway-carrier.1\r\n\r\n",
			"Sec-WebSocket-Accept is wrong"},
	};
	struct ws_tunnel_request request;
	struct ws_tunnel_answer a;
	char key[WSHAKE_KEY_TEXT];
	auto_buf struct buf ask, answer;
	ssize_t n;

	(void)state;
	buf_init(&ask, BUF_UNLIMITED);
	buf_init(&answer, BUF_UNLIMITED);
	ws_tunnel_ask(&ask, "hub.example", "/x/y", key);
	n = ws_tunnel_read_request(buf_at(&ask), buf_len(&ask), &request);
	assert_int_equal(n, buf_len(&ask));
	ws_tunnel_accept(&answer, &request);
	n = (ssize_t)buf_len(&answer);
	buf_adds(&answer, "frames");
	assert_int_equal(ws_tunnel_read_answer(buf_at(&answer), buf_len(&answer), key, &a), n);
	for (ssize_t k = 0; k < n; k++)
		assert_int_equal(ws_tunnel_read_answer(buf_at(&answer), (size_t)k, key, &a), 0);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		assert_int_equal(
			ws_tunnel_read_answer(all[i].head, strlen(all[i].head), key, &a), -EPROTO);
		if (strstr(a.why, all[i].why) == NULL)
			fail_msg("%s: %s", all[i].head, a.why);
	}
	buf_consume(&answer, buf_len(&answer));
	ws_tunnel_refuse(&answer, 426, "why");
	assert_int_equal(
		ws_tunnel_read_answer(buf_at(&answer), buf_len(&answer), key, &a), -EPROTO);
	assert_int_equal(a.status, 426);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_slow_reader),
		cmocka_unit_test(test_slow_reader_lost),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_ping_flood),
		cmocka_unit_test(test_rest),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
