/* One connection for several requests: what comes on it while none is under way. */
#include "tracing/post.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { TURNS = 1000 /* far more than anything here needs */ };
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

struct bed {
	struct loop *loop;
	struct collector to;
	struct post *post;
	struct buf body;
	int server; /* the collector's end of the newest connection */
	unsigned dials, done;
	int status; /* of the last answer */
	int bell[2];
	struct watch *on_bell;
};

static int
find(void *arg, struct tracing_way *way, struct err *err)
{
	struct bed *b = arg;
	int ends[2];

	(void)err;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
	way->fd = ends[0];
	b->server = ends[1];
	b->dials++;
	return 1;
}

static void
on_done(void *arg, const struct post_result *result)
{
	struct bed *b = arg;

	b->done++;
	b->status = result->status;
}

static void
on_bell(void *arg, int fd, unsigned events)
{
	struct bed *b = arg;
	char byte;

	(void)events;
	assert_int_equal(read(fd, &byte, 1), 1);
	post_send(b->post, &b->body, 0);
}

/* The collector answers the request that it gets next, and hangs up then or not. */
static void
answer_with(struct bed *b, const char *text, bool hang_up)
{
	unsigned done = b->done;
	char request[1024];
	ssize_t n = -1;

	for (int i = 0; i < TURNS && n <= 0; i++) {
		loop_turn(b->loop);
		n = b->server < 0 ? -1 : recv(b->server, request, sizeof request, 0);
	}
	assert_true(n > 5 && memcmp(request, "POST ", 5) == 0);
	assert_int_equal(write(b->server, text, strlen(text)), strlen(text));
	if (hang_up)
		shutdown(b->server, SHUT_RDWR);
	for (int i = 0; i < TURNS && b->done == done; i++)
		loop_turn(b->loop);
	assert_int_equal(b->done, done + 1);
}

static void
answer(struct bed *b)
{
	answer_with(b, OK, false);
	assert_int_equal(b->status, 200);
}

static void
open_bed(struct bed *b)
{
	static const char *const none[] = {NULL};
	struct err err = {0};

	*b = (struct bed){.server = -1};
	assert_int_equal(loop_new(&b->loop, &err), 0);
	assert_int_equal(collector_parse(&b->to, "http://collector", none, &err), 0);
	post_new(&b->post,
		&(struct post_config){.loop = b->loop,
			.to = &b->to,
			.find = find,
			.find_arg = b,
			.done = on_done,
			.arg = b});
	buf_init(&b->body, BUF_UNLIMITED);
	buf_adds(&b->body, "{}");
	assert_int_equal(pipe2(b->bell, O_CLOEXEC), 0);
	b->on_bell = watch_start(b->loop, b->bell[0], WATCH_READ, on_bell, b);
}

static void
close_bed(struct bed *b)
{
	post_free(&b->post);
	watch_stop(&b->on_bell);
	loop_free(&b->loop);
	collector_fini(&b->to);
	buf_fini(&b->body);
	close(b->server);
	close(b->bell[0]);
	close(b->bell[1]);
}

static void
kept(void **state)
{
	struct bed b;

	(void)state;
	open_bed(&b);
	for (int i = 0; i < 3; i++) {
		post_send(b.post, &b.body, 0);
		answer(&b);
	}
	assert_int_equal(b.dials, 1);
	close_bed(&b);
}

/* `unasked` comes, or the end where it is empty, in the turn in which the next request is given:
 * that goes by a new connection. */
static void
spoilt(const char *unasked)
{
	struct bed b;
	int old;

	open_bed(&b);
	post_send(b.post, &b.body, 0);
	answer(&b);
	old = b.server;
	b.server = -1;
	for (int i = 0; i < 2; i++)
		loop_turn(
			/* epoll forgets the answer, which would put the connection in front */
			b.loop);
	assert_int_equal(write(b.bell[1], "", 1), 1); /* first, so it is told first */
	if (unasked[0] == '\0')
		shutdown(old, SHUT_RDWR);
	else
		assert_int_equal(write(old, unasked, strlen(unasked)), strlen(unasked));
	answer(&b);
	assert_int_equal(b.dials, 2);
	assert_int_equal(b.done, 2);
	close(old);
	close_bed(&b);
}

static void
hung_up(void **state)
{
	(void)state;
	spoilt("");
}

static void
spoke_unasked(void **state)
{
	(void)state;
	spoilt(OK);
}

/* The head says what became of the spans, whatever is the matter with the rest: sent again they
 * would be there twice. */
static void
spoilt_behind_the_head(void **state)
{
	auto_free char *long_body =
		xasprintf("HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n%*d", 70000, 1);
	auto_free char *long_refusal = xasprintf("HTTP/1.1 400 No\r\n\r\n%*d", 70000, 1);
	const struct {
		const char *text;
		bool hang_up;
		int status;
	} rows[] = {
		{long_body, false, 200},
		{long_refusal, false, 400},
		{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", true, 200},
		{"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", false, 202},
		{"HTTP/1.1 200 OK\r\nContent-Le", true, 0},
		{"HTTP/1.1 100 Continue\r\n\r\n", true, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct bed b;

		open_bed(&b);
		post_send(b.post, &b.body, 0);
		answer_with(&b, rows[i].text, rows[i].hang_up);
		assert_int_equal(b.status, rows[i].status);
		close(b.server);
		b.server = -1;
		post_send(b.post, &b.body, 0); /* by another connection */
		answer(&b);
		assert_int_equal(b.dials, 2);
		close_bed(&b);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept),
		cmocka_unit_test(hung_up),
		cmocka_unit_test(spoke_unasked),
		cmocka_unit_test(spoilt_behind_the_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
