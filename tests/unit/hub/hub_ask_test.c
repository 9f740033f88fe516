/* Operators' requests to agents: a node that never ends its answer takes a place, and a descriptor,
 * for a while only. The nodes are the other end of a session. */
#include "hub/hub_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/log.h"
#include "tests/fake/clock.h"
#include "tests/unit/tunnel/h2/tunnel_bed.h"

#define HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"

enum {
	MANY = 16, /* requests at the same time: hub/hub_ask.c */
	PATIENCE_S = 10, /* edgewayctl's: src/ctl/ctl_ask.c */
};

static struct {
	struct bed b;
	struct hub hub;
} rig;

int __wrap_tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out);

int
__wrap_tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	(void)t;
	(void)node;
	return session_open(rig.b.near, request, events, arg, out);
}

static int
set_up(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	memset(&rig, 0, sizeof rig);
	bed_init(&rig.b, false);
	rig.b.silent = true;
	bed_until(&rig.b, session_is_settled(rig.b.near));
	rig.hub.loop = rig.b.loop;
	LIST_INIT(&rig.hub.asks);
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	hub_asks_end(&rig.hub);
	bed_fini(&rig.b);
	return 0;
}

static void
pass(unsigned seconds)
{
	for (unsigned i = 0; i < 10 * seconds; i++) {
		clock_pass(100 * 1000);
		bed_wait(&rig.b);
	}
}

/* Returns the operator's socket. */
static int
ask(void)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
	hub_ask_agent(&rig.hub, fd[0], "node=edge-1&target=%2Fdebug%2Fstate");
	return fd[1];
}

/* The node's end of the n-th request, once it has said 200. */
static struct end *
asked(unsigned n)
{
	struct end *node;

	bed_until(&rig.b, rig.b.n_ends == n);
	node = rig.b.ends[n - 1];
	node->echo = false;
	stream_answer(node->st, 200, "");
	return node;
}

/* What the operator reads to the end; to: of 512 bytes. */
static const char *
answer(int fd, char *to)
{
	size_t len = 0;
	ssize_t n;

	bed_until(&rig.b,
		(n = read(fd, to + len, 511 - len)) == 0 || (n < 0 && errno != EAGAIN) ||
			(len += n > 0 ? (size_t)n : 0, false));
	to[len] = '\0';
	close(fd);
	return to;
}

static void
silent_nodes_leave_room_for_others(void **state)
{
	int operators[MANY];
	struct end *node;
	char text[512];

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		operators[i] = ask();
		asked(i + 1);
	}
	assert_non_null(strstr(answer(ask(), text), " 503 "));
	pass(PATIENCE_S);
	assert_int_equal(rig.hub.n_asks, MANY); /* edgewayctl says that it heard nothing */
	for (unsigned i = 0; i < MANY; i++) {
		assert_in_range(read(operators[i], text, sizeof text), 1, sizeof text);
		close(operators[i]);
	}
	pass(5);
	assert_int_equal(rig.hub.n_asks, 0);
	operators[0] = ask();
	node = asked(MANY + 1);
	stream_write(node->st, "{}", 2);
	stream_end(node->st);
	assert_string_equal(answer(operators[0], text), HEAD "2\r\n{}\r\n0\r\n\r\n");
}

/* Without the last chunk: edgewayctl says that it is not whole. */
static void
an_answer_that_breaks_off_is_not_whole(void **state)
{
	char text[512];
	struct end *node;
	int fd;

	(void)state;
	fd = ask();
	node = asked(1);
	stream_write(node->st, "{}", 2);
	pass(1);
	stream_close(&node->st, STREAM_CANCELLED);
	assert_string_equal(answer(fd, text), HEAD "2\r\n{}\r\n");
	fd = ask();
	node = asked(2);
	stream_write(node->st, "{}", 2);
	pass(1);
	session_free(&rig.b.near);
	assert_string_equal(answer(fd, text), HEAD "2\r\n{}\r\n");
}

/* As long as an agent takes at most. */
static void
slow_nodes_have_a_minute(void **state)
{
	struct end *node;
	int fd;

	(void)state;
	fd = ask();
	node = asked(1);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(rig.hub.n_asks, 1);
		assert_false(node->reset);
		stream_write(node->st, "x", 1);
		pass(9);
	}
	for (unsigned i = 0; i < 3 && rig.hub.n_asks > 0; i++) {
		stream_write(node->st, "x", 1);
		pass(9);
	}
	assert_int_equal(rig.hub.n_asks, 0);
	bed_until(&rig.b, node->reset);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			silent_nodes_leave_room_for_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			an_answer_that_breaks_off_is_not_whole, set_up, tear_down),
		cmocka_unit_test_setup_teardown(slow_nodes_have_a_minute, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
