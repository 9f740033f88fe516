/* URLs of a proxy, and CONNECT against a proxy that says what the test wants. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/patience.h"

#include "base/http/proxy.h"

static const char *
parsed(const char *url)
{
	static char text[600];
	struct err err = {0};
	struct proxy p;

	if (proxy_parse(&p, url, &err) < 0) {
		assert_null(p.authorization);
		snprintf(text, sizeof text, "%s", err.text);
		return text;
	}
	snprintf(text, sizeof text, "%s %u %s", p.host, p.port,
		p.authorization != NULL ? p.authorization : "-");
	proxy_fini(&p);
	return text;
}

static void
parses_urls(void **state)
{
	(void)state;
	assert_string_equal(parsed("http://proxy.example:3128"), "proxy.example 3128 -");
	assert_string_equal(parsed("http://192.0.2.1/"), "192.0.2.1 80 -");
	assert_string_equal(parsed("http://[2001:db8::1]:8080"), "2001:db8::1 8080 -");
	/* RFC 7617 section 2 */
	assert_string_equal(parsed("http://Aladdin:open%20sesame@p:1"),
		"p 1 Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
	assert_string_equal(parsed("http://a:@p"), "p 80 Basic YTo=");
	assert_string_equal(parsed("http://a:b@p"), "p 80 Basic YTpi");
	assert_string_equal(parsed("http://a:bc@p"), "p 80 Basic YTpiYw==");
	assert_string_equal(parsed("http://a:%40%3a%2F@p"), "p 80 Basic YTpAOi8=");
	assert_string_equal(parsed("http://a:b@c@p"), "p 80 Basic YTpiQGM=");
}

static void
refuses_urls(void **state)
{
	static const char *const bad[] = {"", "p:3128", "https://p", "socks5://p", "http://",
		"http://:3128", "http://p:0", "http://p:65536", "http://p:", "http://p:1x",
		"http://[::1", "http://[::1]x", "http://p/path", "http://p?q", "http://secret@p",
		"http://:secret@p", "http://u:secret%4@p", "http://u:secret%zz@p",
		"http://u:secret%0a@p", "http://u:secret/x@p", "http://p q", "http://p\r\nX: y"};
	char wide[700];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct proxy p;

		assert_int_equal(proxy_parse(&p, bad[i], NULL), -EINVAL);
		assert_null(strstr(parsed(bad[i]), "secret")); /* for logs */
	}
	memset(wide, 'x', sizeof wide);
	memcpy(wide, "http://u:", 9);
	memcpy(wide + 600, "@p", 3);
	assert_non_null(strstr(parsed(wide), "too long"));
	memset(wide, 'x', sizeof wide);
	memcpy(wide, "http://", 7);
	wide[400] = '\0';
	assert_non_null(strstr(parsed(wide), "too long"));
}

/* --- the exchange --------------------------------------------------------------------------- */

struct bed {
	struct loop *loop;
	int listener, peer; /* peer: the proxy's end */
	struct addr addr;
	struct proxy proxy;
	struct proxy_dial *dial;
	int calls, fd;
	char why[400];
};

static void
on_done(void *arg, int fd, const char *why)
{
	struct bed *b = arg;

	b->calls++;
	b->fd = fd;
	b->dial = NULL;
	snprintf(b->why, sizeof b->why, "%s", why != NULL ? why : "");
}

static int
set_up(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	struct err err;

	assert_int_equal(loop_new(&b->loop, &err), 0);
	b->addr = addr_ipv4(0x7f000001, 0);
	assert_int_equal(sock_listen(&b->addr, 0, &b->listener, &err), 0);
	b->addr.len = sizeof b->addr.in6;
	assert_int_equal(getsockname(b->listener, &b->addr.sa, &b->addr.len), 0);
	assert_int_equal(proxy_parse(&b->proxy, "http://user:secret@proxy.test:1", &err), 0);
	b->fd = b->peer = -1;
	*state = b;
	return 0;
}

static int
tear_down(void **state)
{
	struct bed *b = *state;

	proxy_cancel(&b->dial);
	proxy_fini(&b->proxy);
	cleanup_fd(&b->listener);
	cleanup_fd(&b->peer);
	cleanup_fd(&b->fd);
	loop_free(&b->loop);
	free(b);
	return 0;
}

static void
start(struct bed *b, uint64_t timeout_ms)
{
	const struct proxy_setup setup = {.proxy = &b->proxy,
		.addr = b->addr,
		.target = "hub.test:10000",
		.timeout_ms = timeout_ms,
		.done = on_done,
		.arg = b};
	struct err err = {0};

	assert_int_equal(proxy_dial(&b->dial, b->loop, &setup, &err), 0);
	assert_int_equal(b->calls, 0);
}

/* Turns until the request is there or the dial is over; what came. */
static const char *
request(struct bed *b)
{
	static char text[1024];
	ssize_t n = -1;
	int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;

	text[0] = '\0';
	for (unsigned turns = 0; n <= 0 && b->calls == 0 && turns < PATIENCE_TURNS; turns++) {
		patience_turn(b->loop);
		if (b->peer < 0)
			b->peer = accept4(b->listener, NULL, NULL, flags);
		else
			n = read(b->peer, text, sizeof text - 1);
	}
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void
until_called(struct bed *b)
{
	patience_until(patience_turn(b->loop), b->calls != 0);
	assert_int_equal(b->calls, 1);
}

static void
answer(struct bed *b, const char *text)
{
	assert_int_equal(send(b->peer, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void
connects(void **state)
{
	struct bed *b = *state;
	static const char head[] = "HTTP/1.0 200 Connection established\r\nProxy-agent: x\r\n\r\n";
	char byte;

	start(b, 10000);
	assert_string_equal(request(b),
		"CONNECT hub.test:10000 HTTP/1.1\r\nHost: hub.test:10000\r\n"
		"Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n\r\n");
	answer(b, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
	for (size_t i = 0; head[i] != '\0'; i++) { /* in as many pieces as there are bytes */
		assert_int_equal(b->calls, 0);
		assert_int_equal(send(b->peer, head + i, 1, MSG_NOSIGNAL), 1);
		for (int turns = 0; turns < 3; turns++)
			loop_turn(b->loop);
	}
	until_called(b);
	assert_true(b->fd >= 0);
	assert_int_equal(write(b->fd, "!", 1), 1);
	for (int i = 0; i < 1000 && read(b->peer, &byte, 1) != 1; i++)
		usleep(1000);
	assert_int_equal(byte, '!');
}

static void
without_user(void **state)
{
	struct bed *b = *state;
	struct err err;

	proxy_fini(&b->proxy);
	assert_int_equal(proxy_parse(&b->proxy, "http://proxy.test:1", &err), 0);
	start(b, 10000);
	assert_string_equal(
		request(b), "CONNECT hub.test:10000 HTTP/1.1\r\nHost: hub.test:10000\r\n\r\n");
}

static void
says_no(void **state)
{
	static const struct {
		const char *answer, *why;
	} rows[] = {
		{"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 3\r\n\r\nno!",
			"wants a user and a password"},
		{"HTTP/1.1 403 Forbidden\r\n\r\n", "does not allow CONNECT to hub.test:10000"},
		{"HTTP/1.1 502 Bad Gateway\r\n\r\n",
			"cannot reach hub.test:10000 (it answers 502)"},
		{"HTTP/1.1 302 Found\r\nLocation: http://login\r\n\r\n", "(it answers 302)"},
		{"SSH-2.0-OpenSSH\r\n\r\n", "does not answer like an HTTP proxy"},
		{"HTTP/1.1 200\nX: y\n\n", "does not answer like an HTTP proxy"},
		{"HTTP/1.1 200 OK\r\n\r\n<html>", "sends something of its own"},
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bed *b;

		if (i > 0)
			set_up(state);
		b = *state;
		start(b, 10000);
		request(b);
		answer(b, rows[i].answer);
		until_called(b);
		assert_int_equal(b->fd, -1);
		if (strstr(b->why, rows[i].why) == NULL)
			fail_msg(
				"%s: \"%s\" is not in \"%s\"", rows[i].answer, rows[i].why, b->why);
		assert_null(strstr(b->why, "secret"));
		if (i + 1 < ARRAY_LEN(rows))
			tear_down(state);
	}
}

static void
drop(int *fd)
{
	close(take_fd(fd));
}

static void
fails_in_time(void **state)
{
	struct bed *b = *state;
	auto_free char *wide = NULL;

	start(b, 300); /* stalled */
	request(b);
	assert_true(b->peer >= 0);
	until_called(b);
	assert_non_null(strstr(b->why, "did not answer CONNECT within 300 ms"));
	b->calls = 0;
	drop(&b->peer);

	start(b, 10000); /* an answer without end */
	request(b);
	wide = xcalloc(1, 40000);
	memset(wide, 'x', 39999);
	memcpy(wide, "HTTP/1.1 200 ", 13);
	send(b->peer, wide, 39999, MSG_NOSIGNAL);
	until_called(b);
	assert_non_null(strstr(b->why, "more than 16384 bytes"));
	b->calls = 0;
	drop(&b->peer);

	start(b, 10000); /* hung up */
	request(b);
	drop(&b->peer);
	until_called(b);
	assert_non_null(strstr(b->why, "ended the connection"));
	b->calls = 0;

	start(b, 10000); /* given up by the owner: no call */
	request(b);
	proxy_cancel(&b->dial);
	for (int i = 0; i < 10; i++)
		loop_turn(b->loop);
	assert_int_equal(b->calls, 0);

	drop(&b->listener); /* nobody there */
	start(b, 10000);
	until_called(b);
	assert_non_null(strstr(b->why, "cannot connect to the proxy 127.0.0.1"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_urls),
		cmocka_unit_test(refuses_urls),
		cmocka_unit_test_setup_teardown(connects, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(says_no, set_up, tear_down),
		cmocka_unit_test_setup_teardown(fails_in_time, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
