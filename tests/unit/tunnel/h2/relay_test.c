/* A stream of a session joined with TCP at both ends: client ═ near ═ session ═ far ═ target. */
#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"
#include "tunnel/h2/relay.h"

struct rig {
	struct bed b; /* first: take() gets the rig by it */
	struct end e;
	struct addr target;
	int listener, client, server; /* server: the target's end */
	struct relay *near, *far;
	struct relay_report near_report, far_report;
	unsigned dial_ms;
	bool many; /* only counted */
	unsigned dialled, ended;
};

struct dial { /* one of many */
	struct rig *rig;
	struct relay *relay;
};

static void
on_far_end(void *arg, const struct relay_report *report)
{
	struct rig *r = arg;

	r->far_report = *report;
	relay_free(&r->far);
}

static void
on_near_end(void *arg, const struct relay_report *report)
{
	struct rig *r = arg;

	r->near_report = *report;
	relay_free(&r->near);
}

static const struct stream_events none;

static void
on_one_of_many_end(void *arg, const struct relay_report *report)
{
	struct dial *d = arg;

	assert_int_equal(report->status, 0); /* not answered: cancelled */
	d->rig->ended++;
	relay_free(&d->relay);
	free(d);
}

static bool
take(struct bed *b, struct stream *st)
{
	struct rig *r = (struct rig *)b;
	struct relay_setup setup = {.loop = b->loop, .stream = st, .ended = on_far_end, .arg = r};

	stream_accept(st, &none, NULL);
	if (r->many) {
		struct dial *d = xcalloc(1, sizeof *d);

		d->rig = r;
		setup.ended = on_one_of_many_end;
		setup.arg = d;
		d->relay = relay_dial(&setup, &r->target, r->dial_ms);
		r->dialled++;
		return true;
	}
	r->far = relay_dial(&setup, &r->target, r->dial_ms);
	return true;
}

static void
start(struct rig *r)
{
	memset(r, 0, sizeof *r);
	bed_init(&r->b, false);
	r->b.take = take;
	r->client = r->server = -1;
	r->target = addr_ipv4(INADDR_LOOPBACK, 0);
	assert_int_equal(sock_listen(&r->target, 0, &r->listener, NULL), 0);
	assert_int_equal(getsockname(r->listener, &r->target.sa, &r->target.len), 0);
}

static void
join(struct rig *r)
{
	struct relay_setup setup = {.loop = r->b.loop, .ended = on_near_end, .arg = r};
	int fd[2];

	bed_open(&r->b, &r->e, "a:1");
	bed_until(&r->b, r->e.status != 0);
	assert_int_equal(r->e.status, 200);
	r->server = accept4(r->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	assert_true(r->server >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	r->client = fd[0];
	setup.stream = take_ptr(&r->e.st);
	r->near = relay_join(&setup, fd[1]);
}

static void
shut(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

static void
stop(struct rig *r)
{
	shut(&r->client);
	shut(&r->server);
	shut(&r->listener);
	relay_free(&r->near);
	relay_free(&r->far);
	bed_fini(&r->b);
}

/* Pumps n bytes in at one descriptor and out at another. */
static void
pump(struct rig *r, int from, int to, size_t n)
{
	static char piece[65536];
	size_t in = 0, out = 0;

	for (unsigned turns = 0; out < n; turns++) {
		ssize_t did =
			in < n ? send(from, piece, MIN(n - in, sizeof piece), MSG_NOSIGNAL) : 0;

		in += did > 0 ? (size_t)did : 0;
		bed_wait(&r->b);
		did = recv(to, piece, sizeof piece, 0);
		assert_int_not_equal(did, 0);
		out += did > 0 ? (size_t)did : 0;
		assert_true(turns < PATIENCE_TURNS);
	}
	assert_int_equal(out, n);
}

static void
test_both_ways_and_half_close(void **state)
{
	struct rig r;
	char byte;

	(void)state;
	start(&r);
	join(&r);
	pump(&r, r.client, r.server, 5 << 20);
	shutdown(r.client, SHUT_WR);
	bed_until(&r.b, recv(r.server, &byte, 1, 0) == 0);
	pump(&r, r.server, r.client, 7 << 20); /* the other half is still there */
	assert_non_null(r.near);
	shutdown(r.server, SHUT_WR);
	bed_until(&r.b, recv(r.client, &byte, 1, 0) == 0);
	bed_until(&r.b, r.near == NULL && r.far == NULL);
	assert_string_equal(r.near_report.why, "done");
	assert_string_equal(r.far_report.why, "done");
	assert_int_equal(r.far_report.to_socket, 5 << 20);
	assert_int_equal(r.far_report.to_stream, 7 << 20);
	bed_until(&r.b, session_stats(r.b.near)->streams + session_stats(r.b.far)->streams == 0);
	assert_int_equal(session_stats(r.b.near)->resets_sent, 0);
	stop(&r);
}

static void
test_server_speaks_first_and_goes(void **state)
{
	struct rig r;
	char text[64];
	ssize_t n = -1;

	(void)state;
	start(&r);
	join(&r);
	assert_int_equal(write(r.server, "SSH-2.0-x", 9), 9);
	shutdown(r.server, SHUT_WR);
	bed_until(&r.b, (n = recv(r.client, text, sizeof text, 0)) > 0);
	assert_int_equal(n, 9);
	bed_until(&r.b, recv(r.client, text, sizeof text, 0) == 0);
	shut(&r.client);
	bed_until(&r.b, r.near == NULL && r.far == NULL);
	stop(&r);
}

static void
test_reset_reaches_the_target(void **state)
{
	struct linger now = {.l_onoff = 1};
	struct rig r;
	char byte;

	(void)state;
	start(&r);
	join(&r);
	pump(&r, r.client, r.server, 1000);
	relay_free(&r.near); /* the client is gone */
	bed_until(&r.b, recv(r.server, &byte, 1, 0) < 0 && errno == ECONNRESET);
	bed_until(&r.b, r.far == NULL);
	assert_string_equal(r.far_report.why, "the stream was reset");
	stop(&r);

	start(&r);
	join(&r);
	setsockopt(r.server, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	shut(&r.server); /* the target resets */
	bed_until(&r.b, r.near == NULL && r.far == NULL);
	assert_string_equal(r.far_report.why, "the socket was reset");
	assert_string_equal(r.near_report.why, "the stream was reset");
	stop(&r);
}

static void
test_refused_dial(void **state)
{
	struct rig r;

	(void)state;
	start(&r);
	shut(&r.listener);
	bed_open(&r.b, &r.e, "a:1");
	bed_until(&r.b, r.e.status != 0 && r.far == NULL);
	assert_int_equal(r.e.status, 502);
	assert_string_equal(r.e.reason, "Connection refused");
	assert_int_equal(r.far_report.status, 502);
	stream_close(&r.e.st, STREAM_DONE);
	bed_until(&r.b, session_stats(r.b.near)->streams + session_stats(r.b.far)->streams == 0);
	stop(&r);
}

/* A listener whose queue is full answers no SYN. */
static void
fill_queue(struct rig *r, int fds[16])
{
	assert_int_equal(listen(r->listener, 0), 0);
	for (int i = 0; i < 16; i++)
		assert_int_equal(sock_connect(&r->target, 0, &fds[i]), 0);
}

static void
test_late_dial(void **state)
{
	struct rig r;
	int fds[16];

	(void)state;
	start(&r);
	fill_queue(&r, fds);
	r.dial_ms = 100;
	bed_open(&r.b, &r.e, "a:1");
	bed_until(&r.b, r.e.status != 0 && r.far == NULL);
	assert_int_equal(r.e.status, 504);
	assert_string_equal(r.e.reason, "the target did not answer in time");
	stream_close(&r.e.st, STREAM_DONE);
	for (int i = 0; i < 16; i++)
		close(fds[i]);
	stop(&r);
}

static void
test_cancelled_dial(void **state)
{
	struct rig r;
	int fds[16];

	(void)state;
	start(&r);
	fill_queue(&r, fds);
	bed_open(&r.b, &r.e, "a:1");
	bed_until(&r.b, r.far != NULL);
	stream_close(&r.e.st, STREAM_CANCELLED);
	bed_until(&r.b, r.far == NULL); /* long before the dial's 5 s, or the status would be 504 */
	assert_int_equal(r.far_report.status, 0);
	assert_string_equal(r.far_report.why, "the stream was reset");
	for (int i = 0; i < 16; i++)
		close(fds[i]);
	stop(&r);
}

/* Bytes allocated once nothing goes on. */
static size_t
settled(struct rig *r)
{
	bed_until(&r->b, session_stats(r->b.near)->streams + session_stats(r->b.far)->streams == 0);
	for (int i = 0; i < 20; i++)
		bed_wait(&r->b);
	return mallinfo2().uordblks;
}

/* Each has begun to dial when it is cancelled, and nothing of it is left. */
static void
test_many_cancelled_dials(void **state)
{
	enum { ROUNDS = 250, EACH = 100 };
	struct end e[EACH];
	struct rig r;
	int fds[16], descriptors;
	size_t memory = 0;

	(void)state;
	start(&r);
	fill_queue(&r, fds);
	r.many = true;
	descriptors = bed_descriptors();
	for (unsigned round = 1; round <= ROUNDS; round++) {
		for (int i = 0; i < EACH; i++)
			bed_open(&r.b, &e[i], "a:1");
		bed_until(&r.b, r.dialled == round * EACH);
		for (int i = 0; i < EACH; i++)
			stream_close(&e[i].st, STREAM_CANCELLED);
		bed_until(&r.b, r.ended == round * EACH);
		if (round == 10)
			memory = settled(&r);
	}
	/* One forgotten block of each would be more. */
	assert_in_range(settled(&r), 0, memory + 256 * 1024);
	assert_int_equal(bed_descriptors(), descriptors);
	for (int i = 0; i < 16; i++)
		close(fds[i]);
	stop(&r);
}

static void
test_nothing_piles_up(void **state)
{
	static char piece[65536];
	struct rig r;
	size_t in = 0;
	uint64_t quiet = 0;

	(void)state;
	start(&r);
	join(&r);
	while (quiet < 200) { /* the target never reads */
		ssize_t n = send(r.client, piece, sizeof piece, MSG_NOSIGNAL);

		quiet = n > 0 ? 0 : quiet + 1;
		in += n > 0 ? (size_t)n : 0;
		bed_wait(&r.b);
	}
	assert_true(in > 0);
	assert_true(r.b.far_budget.held > 0);
	assert_true(r.b.far_budget.held <= STREAM_WINDOW_BASE + r.b.far_budget.granted);
	stop(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ways_and_half_close),
		cmocka_unit_test(test_server_speaks_first_and_goes),
		cmocka_unit_test(test_reset_reaches_the_target),
		cmocka_unit_test(test_refused_dial),
		cmocka_unit_test(test_late_dial),
		cmocka_unit_test(test_cancelled_dial),
		cmocka_unit_test(test_many_cancelled_dials),
		cmocka_unit_test(test_nothing_piles_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
