#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "base/http/admin.h"
#include "tests/unit/patience.h"

struct fixture {
	struct loop *loop;
	struct admin *admin;
	char folder[40];
	char *path;
	struct addr tcp, local;
	struct buf got; /* the last response */
	unsigned calls;
};

static void
on_hello(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct fixture *f = arg;
	char name[20] = "nobody";

	f->calls++;
	admin_query(req->query, "name", name, sizeof name);
	buf_printf(&reply->body, "hello %s%s\n", name, req->local ? " (local)" : "");
}

static void
on_echo(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	(void)arg;
	reply->status = 201;
	reply->type = "application/json";
	buf_add(&reply->body, req->body, req->body_len);
}

static void
on_large(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	(void)arg;
	(void)req;
	for (int i = 0; i < 200000; i++)
		buf_adds(&reply->body, "0123456789abcdef");
}

static void
on_part(void *arg, uint64_t *at, struct buf *out)
{
	struct fixture *f = arg;

	f->calls++;
	for (int i = 0; *at < 400 && i < 8192; i++)
		buf_adds(out, "0123456789abcdef");
	++*at;
}

static void
on_parts(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	(void)arg;
	(void)req;
	buf_adds(&reply->body, "begin");
	reply->more = on_part;
}

static const struct admin_route routes[] = {
	{"GET", "/parts", on_parts, false},
	{"GET", "/hello", on_hello, false},
	{"POST", "/echo", on_echo, false},
	{"GET", "/large", on_large, false},
	{"GET", "/secret", on_hello, true},
	{NULL, NULL, NULL, false},
};

static int
start(struct admin **a, struct fixture *f, const char *listen, const char *socket_path,
	struct err *err)
{
	static const char *const names[] = {"agent.example", NULL};
	const struct admin_config config = {
		.key = "admin.listen",
		.listen = listen,
		.names = {names, NULL},
		.name = "edge-1",
		.socket_path = socket_path,
		.routes = routes,
		.arg = f,
	};

	return admin_start(a, f->loop, &config, err);
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);
	auto_free char *local = NULL;
	char text[ADDR_TEXT_MAX];
	struct err err = {0};
	int probe = -1;
	socklen_t len = sizeof f->tcp.in;

	strcpy(f->folder, "/tmp/edgeway-admin-test-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	f->path = xasprintf("%s/run/s", f->folder);
	local = xasprintf("unix:%s", f->path);
	assert_int_equal(addr_parse(&f->local, local, 0, &err), 0);
	/* a port that was free a moment ago */
	f->tcp = addr_ipv4(0x7f000001, 0);
	assert_int_equal(sock_listen(&f->tcp, 0, &probe, &err), 0);
	assert_int_equal(getsockname(probe, &f->tcp.sa, &len), 0);
	close(probe);
	assert_int_equal(loop_new(&f->loop, &err), 0);
	if (start(&f->admin, f, addr_text(&f->tcp, text), f->path, &err) < 0)
		fail_msg("%s", err.text);
	buf_init(&f->got, BUF_UNLIMITED);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;
	auto_free char *run = xasprintf("%s/run", f->folder);
	struct stat st;

	admin_stop(&f->admin);
	assert_int_equal(lstat(f->path, &st), -1); /* the socket file is gone */
	loop_free(&f->loop);
	buf_fini(&f->got);
	rmdir(run);
	rmdir(f->folder);
	free(f->path);
	free(f);
	return 0;
}

static int
dial(const struct addr *a)
{
	int fd = -1;

	assert_int_equal(sock_connect(a, 0, &fd), 0);
	return fd;
}

/* Reads until the server ends the connection, with the loop turning. */
static const char *
receive(struct fixture *f, int fd)
{
	ssize_t n = -EAGAIN;

	buf_consume(&f->got, buf_len(&f->got));
	for (unsigned turns = 0; n != 0 && turns < PATIENCE_TURNS; turns++) {
		patience_turn(f->loop);
		n = buf_read(&f->got, fd, 65536);
		if (n == -ECONNRESET)
			break;
	}
	assert_true(n == 0 || n == -ECONNRESET);
	close(fd);
	return buf_str(&f->got);
}

static void
send_all(struct fixture *f, int fd, const char *text, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		loop_turn(f->loop);
		if (n < 0 && errno != EAGAIN)
			return; /* refused before the end: the response tells */
		text += MAX(n, 0);
		len -= (size_t)MAX(n, 0);
	}
}

static const char *
ask(struct fixture *f, const struct addr *a, const char *request)
{
	int fd = dial(a);

	send_all(f, fd, request, strlen(request));
	return receive(f, fd);
}

#define GET(host) "GET /hello HTTP/1.1\r\nHost: " host "\r\n\r\n"
#define assert_says(text, what)                                                                    \
	do {                                                                                       \
		if (strstr(text, what) == NULL)                                                    \
			fail_msg("\"%s\" is not in \"%.300s\"", what, text);                       \
	} while (0)

static void
serves_both_ways(void **state)
{
	struct fixture *f = *state;
	const char *got = ask(f, &f->tcp, "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
	struct stat st;

	assert_int_equal(strncmp(got, "HTTP/1.1 200 OK\r\n", 17), 0);
	assert_says(got, "\r\nContent-Length: 13\r\n");
	assert_says(got, "\r\nConnection: close\r\n");
	assert_says(got, "\r\nContent-Type: text/plain; charset=utf-8\r\n");
	assert_says(got, "\r\n\r\nhello nobody\n");
	got = ask(f, &f->local, "GET /hello?x=1&name=a%2Fb+c HTTP/1.1\r\nHost: localhost\r\n\r\n");
	assert_says(got, "\r\n\r\nhello a/b c (local)\n");
	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	got = ask(f, &f->tcp, "GET /hello HTTP/1.0\r\n\r\n");
	assert_says(got, "\r\n\r\nhello nobody\n");
}

static void
answers_head_without_a_body(void **state)
{
	struct fixture *f = *state;
	const char *got = ask(f, &f->tcp, "HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");

	assert_says(got, "Content-Length: 13\r\n");
	assert_string_equal(got + strlen(got) - 4, "\r\n\r\n");
	assert_int_equal(f->calls, 1);
}

static void
takes_bodies(void **state)
{
	struct fixture *f = *state;
	const char *got = ask(f, &f->tcp,
		"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12345");
	static const char asking[] = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
				     "2\r\nExpect: 100-continue\r\n\r\n";
	int fd;

	assert_int_equal(strncmp(got, "HTTP/1.1 201 ", 13), 0);
	assert_says(got, "Content-Type: application/json\r\n");
	assert_says(got, "\r\n\r\n12345");
	got = ask(f, &f->tcp,
		"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
		"chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
	assert_says(got, "Content-Length: 5\r\n");
	assert_says(got, "\r\n\r\nabcde");
	/* asks first whether the body is welcome */
	fd = dial(&f->tcp);
	send_all(f, fd, asking, strlen(asking));
	for (int i = 0; i < 5; i++)
		loop_turn(f->loop);
	send_all(f, fd, "ok", 2);
	got = receive(f, fd);
	assert_int_equal(strncmp(got, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 ", 38), 0);
	assert_says(got, "\r\n\r\nok");
}

static void
takes_requests_byte_by_byte(void **state)
{
	struct fixture *f = *state;
	static const char request[] =
		"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";
	int fd = dial(&f->local);

	for (size_t i = 0; i < sizeof request - 1; i++) {
		send_all(f, fd, request + i, 1);
		loop_turn(f->loop);
	}
	assert_says(receive(f, fd), "\r\n\r\nabc");
}

static void
sends_large_replies(void **state)
{
	struct fixture *f = *state;
	const char *got = ask(f, &f->tcp, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");

	assert_says(got, "Content-Length: 3200000\r\n");
	assert_int_equal(strlen(strstr(got, "\r\n\r\n")), 4 + 3200000);
}

/* 50 MB, of which no more is there than the peer takes. */
static void
sends_replies_in_parts(void **state)
{
	struct fixture *f = *state;
	const char *got = ask(f, &f->tcp, "HEAD /parts HTTP/1.1\r\nHost: localhost\r\n\r\n");
	int fd = dial(&f->tcp);

	assert_string_equal(strstr(got, "\r\n\r\n"), "\r\n\r\n");
	assert_int_equal(f->calls, 0);
	send_all(f, fd, "GET /parts HTTP/1.1\r\nHost: localhost\r\n\r\n", 40);
	for (int i = 0; i < 100; i++)
		loop_turn(f->loop);
	assert_in_range(f->calls, 1, 399);
	got = receive(f, fd);
	assert_null(strstr(got, "Content-Length"));
	assert_says(got, "\r\nConnection: close\r\n");
	assert_int_equal(f->calls, 401); /* the last one adds nothing */
	assert_int_equal(strlen(strstr(got, "\r\n\r\nbegin")), 4 + 5 + 400 * 8192 * 16);
}

static void
refuses_with_a_reason(void **state)
{
	struct fixture *f = *state;
	auto_free char *large = xcalloc(1, 80 * 1024);

	assert_says(ask(f, &f->tcp, "GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"HTTP/1.1 404 ");
	assert_says(
		ask(f, &f->tcp, "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 405 ");
	assert_says(ask(f, &f->tcp, "GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"\r\nAllow: POST\r\n");
	assert_says(ask(f, &f->tcp, "GET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"HTTP/1.1 403 ");
	assert_says(ask(f, &f->local, "GET /secret HTTP/1.1\r\nHost: localhost\r\n\r\n"),
		"HTTP/1.1 200 ");
	assert_says(ask(f, &f->tcp, "\x16\x03\x01 garbage\n\n\n"), "HTTP/1.1 400 ");
	assert_says(ask(f, &f->tcp, "GET /hello HTTP/1.1\r\n\r\n"), "HTTP/1.1 400 ");
	assert_says(
		ask(f, &f->tcp,
			"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n"),
		"HTTP/1.1 413 ");
	assert_says(ask(f, &f->tcp,
			    "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
			    "chunked\r\n\r\nzz\r\n"),
		"HTTP/1.1 400 ");
	strcpy(large,
		"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
		"chunked\r\n\r\n11000\r\n");
	memset(large + strlen(large), 'x', 0x11000);
	assert_says(ask(f, &f->tcp, large), "HTTP/1.1 413 ");
	memset(large, 0, 80 * 1024);
	strcpy(large, "GET /hello HTTP/1.1\r\nHost: localhost\r\nX: ");
	memset(large + strlen(large), 'x', 9000);
	assert_says(ask(f, &f->tcp, large), "HTTP/1.1 431 ");
}

static void
ends_slow_and_silent_connections(void **state)
{
	struct fixture *f = *state;
	uint64_t start = mono_ms();
	int fd = dial(&f->tcp);

	send_all(f, fd, "GET /he", 7);
	assert_string_equal(receive(f, fd), "");
	assert_in_range(mono_ms() - start, 4500, 5500);
}

/* Each byte in time, and never the whole. */
static void
ends_who_drips(void **state)
{
	struct fixture *f = *state;
	uint64_t start = mono_ms();
	int fd = dial(&f->tcp);
	ssize_t n = -1;
	char c;

	for (unsigned turns = 0; n < 0 && errno != ECONNRESET && turns < PATIENCE_TURNS; turns++) {
		if (turns % 100 == 0)
			send_all(f, fd, "G", 1);
		patience_turn(f->loop);
		n = recv(fd, &c, 1, MSG_DONTWAIT);
	}
	assert_true(n <= 0);
	assert_in_range(mono_ms() - start, 4500, 5500);
	close(fd);
}

/* Many who say nothing, or a byte, keep nobody out: not an operator, nor a probe, which sends its
 * request at once. */
static void
bounds_connections(void **state)
{
	struct fixture *f = *state;
	int idle[80];

	for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
		idle[i] = dial(&f->tcp);
		if (i % 2 == 0)
			send_all(f, idle[i], "G", 1);
		loop_turn(f->loop);
	}
	assert_says(ask(f, &f->local, GET("localhost")), "HTTP/1.1 200 ");
	assert_says(ask(f, &f->tcp, GET("localhost")), "HTTP/1.1 200 ");
	for (size_t i = 0; i < ARRAY_LEN(idle); i++)
		close(idle[i]);
	assert_says(ask(f, &f->tcp, GET("localhost")), "HTTP/1.1 200 ");
}

/* A request that comes in two parts has its place, however many another address opens meanwhile. */
static void
takes_places_of_who_has_most(void **state)
{
	struct fixture *f = *state;
	const struct addr other = addr_ipv4(0x7f000002, 0);
	int idle[80], fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, &other.sa, other.len), 0);
	assert_int_equal(connect(fd, &f->tcp.sa, f->tcp.len), 0);
	send_all(f, fd, "GET /hello HTTP/1.1\r\n", 21);
	for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
		idle[i] = dial(&f->tcp);
		send_all(f, idle[i], "G", 1);
	}
	send_all(f, fd, "Host: localhost\r\n\r\n", 19);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_says(receive(f, fd), "HTTP/1.1 200 ");
	for (size_t i = 0; i < ARRAY_LEN(idle); i++)
		close(idle[i]);
}

/* A page's name that points here (DNS rebinding) is none of ours; what says nothing of a name is no
 * browser. */
static void
answers_to_its_own_names(void **state)
{
	static const char *const ours[] = {GET("localhost:40002"), GET("127.0.0.1"),
		GET("[::1]:40002"), GET("edge-1:40002"), GET("AGENT.example"),
		"GET /hello HTTP/1.0\r\n\r\n"};
	static const char *const others[] = {GET("evil.example:40002"),
		GET("localhost.evil.example"), GET("edge-1.evil.example"),
		GET("127.0.0.1.evil.example"),
		"GET http://evil.example/hello HTTP/1.1\r\nHost: localhost\r\n\r\n"};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		assert_says(ask(f, &f->tcp, ours[i]), "HTTP/1.1 200 ");
	f->calls = 0;
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		assert_says(ask(f, &f->tcp, others[i]), "HTTP/1.1 421 ");
	assert_int_equal(f->calls, 0);
	assert_says(ask(f, &f->local, others[0]), "HTTP/1.1 200 ");
}

static void
stops_with_connections_open(void **state)
{
	struct fixture *f = *state;
	int fd = dial(&f->tcp);
	char some[4096];

	send_all(f, fd, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n", 40);
	loop_turn(f->loop);
	admin_stop(&f->admin);
	loop_turn(f->loop);
	assert_null(f->admin);
	while (read(fd, some, sizeof some) > 0)
		;
	close(fd);
}

/* The rest serves meanwhile, and the address is taken once it is free. */
static void
lives_without_an_address_that_is_taken(void **state)
{
	struct fixture *f = *state;
	struct admin *second = NULL;
	auto_free char *path = xasprintf("%s/run/second", f->folder);
	auto_free char *local = xasprintf("unix:%s", path);
	struct addr second_local;
	auto_buf struct buf why;
	char text[ADDR_TEXT_MAX];
	struct err err = {0};

	buf_init(&why, BUF_UNLIMITED);
	assert_int_equal(addr_parse(&second_local, local, 0, &err), 0);
	assert_int_equal(start(&second, f, addr_text(&f->tcp, text), path, &err), 0);
	assert_true(admin_trouble(second, &why));
	assert_says(buf_str(&why), "admin.listen: 127.0.0.1:");
	assert_says(buf_str(&why), "is held by ");
	assert_false(admin_trouble(f->admin, &why));
	assert_says(ask(f, &second_local, GET("localhost")), "HTTP/1.1 200 ");
	admin_stop(&f->admin);
	patience_until(patience_turn(f->loop), !admin_trouble(second, &why));
	assert_says(ask(f, &f->tcp, GET("localhost")), "HTTP/1.1 200 ");
	admin_stop(&second);
}

static void
says_that_a_socket_is_taken(void **state)
{
	struct fixture *f = *state;
	struct admin *second = NULL;
	struct err err = {0};

	assert_int_equal(start(&second, f, "", f->path, &err), -EADDRINUSE);
	/* and the first one's socket file is still there */
	assert_says(ask(f, &f->local, GET("localhost")), "HTTP/1.1 200 ");
	assert_int_equal(start(&second, f, "", "", &err), 0);
	admin_stop(&second);
}

static void
decodes_queries(void **state)
{
	char to[8] = "?";

	(void)state;
	assert_int_equal(admin_query("a=1&b=%41%2f&c", "b", to, sizeof to), 1);
	assert_string_equal(to, "A/");
	assert_int_equal(admin_query("a=1&b=%41%2f&c", "c", to, sizeof to), 1);
	assert_string_equal(to, "");
	assert_int_equal(admin_query("aa=2&a=1", "a", to, sizeof to), 1);
	assert_string_equal(to, "1");
	assert_int_equal(admin_query("aa=2", "a", to, sizeof to), 0);
	assert_int_equal(admin_query("", "a", to, sizeof to), 0);
	assert_int_equal(admin_query("a=1234567", "a", to, sizeof to), 1);
	assert_int_equal(admin_query("a=12345678", "a", to, sizeof to), -EINVAL);
	assert_int_equal(admin_query("a=%0", "a", to, sizeof to), -EINVAL);
	assert_int_equal(admin_query("a=%zz", "a", to, sizeof to), -EINVAL);
	assert_int_equal(admin_query("a=x%00y", "a", to, sizeof to), -EINVAL);
}

#define with_server(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		with_server(serves_both_ways),
		with_server(answers_head_without_a_body),
		with_server(takes_bodies),
		with_server(takes_requests_byte_by_byte),
		with_server(sends_large_replies),
		with_server(sends_replies_in_parts),
		with_server(refuses_with_a_reason),
		with_server(ends_slow_and_silent_connections),
		with_server(ends_who_drips),
		with_server(bounds_connections),
		with_server(takes_places_of_who_has_most),
		with_server(answers_to_its_own_names),
		with_server(stops_with_connections_open),
		with_server(lives_without_an_address_that_is_taken),
		with_server(says_that_a_socket_is_taken),
		cmocka_unit_test(decodes_queries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
