/* A stream of a session joined with TCP at both ends: client ═ near ═ session ═ far ═ target; and
 * with another stream. */
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
	struct rate rate; /* of the near relay; 0 bytes a second: none */
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
	setup.rates[0] = r->rate.per_s > 0 ? &r->rate : NULL;
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
	assert_int_equal(r.far_report.to_other, 5 << 20);
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
	while (in > 0) { /* and now it does, until nothing is left to be forwarded */
		ssize_t n = recv(r.server, piece, sizeof piece, 0);

		assert_int_not_equal(n, 0);
		in -= n > 0 ? (size_t)n : 0;
		bed_wait(&r.b);
	}
	pump(&r, r.client, r.server, 1 << 20);
	pump(&r, r.server, r.client, 1 << 20);
	assert_non_null(r.near);
	stop(&r);
}

static void
test_a_rate_holds_both_directions_up(void **state)
{
	struct rig r;
	uint64_t since;

	(void)state;
	start(&r);
	r.rate.per_s = 1000 * 1000;
	join(&r);
	since = loop_now_ms(r.b.loop);
	pump(&r, r.client, r.server, 200 * 1000);
	pump(&r, r.server, r.client, 200 * 1000);
	assert_true(loop_now_ms(r.b.loop) - since >= 250); /* 400, 100 of them at once */
	stop(&r);
}

static void
test_the_local_address(void **state)
{
	struct addr at, peer = {.len = sizeof peer.un};
	struct rig r;

	(void)state;
	start(&r);
	join(&r);
	assert_int_equal(getpeername(r.server, &peer.sa, &peer.len), 0);
	assert_true(relay_local(r.far, &at));
	assert_true(addr_same(&at, &peer));
	stop(&r);
}

/* --- two streams: from ═ session ═ relay ═ session ═ to, which sends back what comes ---------- */

struct pair {
	struct bed b; /* first: take_first() gets the pair by it */
	struct end from, to_near;
	struct stream *first;
	struct relay *relay;
	struct relay_report report;
	struct rate rate;
	bool faded;
};

static bool
take_first(struct bed *b, struct stream *st)
{
	struct pair *p = (struct pair *)b;

	if (p->first != NULL)
		return false;
	stream_accept(st, &none, NULL);
	stream_answer(st, 200, "");
	p->first = st;
	return true;
}

static void
on_pair_end(void *arg, const struct relay_report *report)
{
	struct pair *p = arg;

	p->report = *report;
	relay_free(&p->relay);
}

static void
on_faded(void *arg)
{
	((struct pair *)arg)->faded = true;
}

static void
pair_start(struct pair *p, uint64_t per_s)
{
	struct relay_setup setup = {.ended = on_pair_end, .arg = p};

	memset(p, 0, sizeof *p);
	p->rate.per_s = per_s;
	bed_init(&p->b, false);
	p->b.take = take_first;
	bed_open(&p->b, &p->from, "a:1");
	bed_until(&p->b, p->from.status == 200);
	bed_open(&p->b, &p->to_near, "b:1");
	bed_until(&p->b, p->to_near.status == 200);
	setup.loop = p->b.loop;
	setup.stream = p->first;
	setup.rates[1] = per_s > 0 ? &p->rate : NULL;
	p->relay = relay_join_stream(&setup, take_ptr(&p->to_near.st));
	assert_false(relay_local(p->relay, &(struct addr){0}));
}

static void
pair_stop(struct pair *p)
{
	stream_close(&p->from.st, STREAM_DONE);
	relay_free(&p->relay);
	bed_fini(&p->b);
}

static void
test_two_streams(void **state)
{
	enum { BYTES = 3 << 20 };
	struct pair p;

	(void)state;
	pair_start(&p, 0);
	bed_write(&p.from, BYTES);
	stream_end(p.from.st);
	bed_until(&p.b, p.from.eof && p.relay == NULL);
	assert_int_equal(p.from.got, BYTES);
	assert_int_equal(p.report.to_other, BYTES);
	assert_int_equal(p.report.to_stream, BYTES);
	assert_int_equal(p.report.status, 200);
	assert_string_equal(p.report.why, "done");
	assert_true(p.report.whole);
	assert_int_equal(session_stats(p.b.near)->resets_sent, 0);
	assert_int_equal(session_stats(p.b.far)->resets_sent, 0);
	pair_stop(&p);
}

/* In either direction; a broken connection arrives as one, and so does a cancelled one. */
static void
test_two_streams_and_a_reset(void **state)
{
	static const unsigned codes[] = {STREAM_BROKEN, STREAM_CANCELLED};
	struct pair p;

	(void)state;
	for (size_t i = 0; i < 2 * ARRAY_LEN(codes); i++) {
		struct end *seen;
		bool there = i % 2 == 0;

		pair_start(&p, 0);
		bed_write(&p.from, 1000);
		bed_until(&p.b, p.from.got == 1000);
		seen = there ? p.b.ends[0] : &p.from;
		stream_close(there ? &p.from.st : &p.b.ends[0]->st, codes[i / 2]);
		bed_until(&p.b, p.relay == NULL && seen->reset);
		assert_int_equal(seen->code, codes[i / 2]);
		assert_string_equal(p.report.why, "the stream was reset");
		assert_false(p.report.whole);
		pair_stop(&p);
	}
	pair_start(&p, 0);
	relay_break(p.relay, "for a reason");
	bed_until(&p.b, p.relay == NULL && p.from.reset && p.b.ends[0]->reset);
	assert_int_equal(p.from.code, STREAM_BROKEN);
	assert_string_equal(p.report.why, "for a reason");
	pair_stop(&p);
}

/* What one end does not read stays in the windows before it. */
static void
test_two_streams_and_a_slow_reader(void **state)
{
	static char piece[65536];
	struct pair p;
	size_t in = 0, n;

	(void)state;
	pair_start(&p, 0);
	p.b.ends[0]->stalled = true;
	for (unsigned quiet = 0; quiet < 200; quiet++) {
		if ((n = MIN(stream_room(p.from.st), sizeof piece)) > 0) {
			stream_write(p.from.st, piece, n);
			in += n;
			quiet = 0;
		}
		bed_wait(&p.b);
	}
	assert_in_range(p.b.far_budget.held + p.b.near_budget.held, 1,
		2 * STREAM_WINDOW_BASE + p.b.far_budget.granted + p.b.near_budget.granted);
	p.b.ends[0]->stalled = false;
	bed_move(p.b.ends[0]);
	bed_until(&p.b, p.from.got == in);
	pair_stop(&p);
}

static void
test_two_streams_and_a_rate(void **state)
{
	struct pair p;
	uint64_t since;

	(void)state;
	pair_start(&p, 1000 * 1000);
	since = loop_now_ms(p.b.loop);
	bed_write(&p.from, 200 * 1000);
	bed_until(&p.b, p.from.got == 200 * 1000);
	/* 400 ms for both directions together, 100 of them at once */
	assert_true(loop_now_ms(p.b.loop) - since >= 250);
	pair_stop(&p);
}

/* The target stops: whoever has opened the first stream hears it. */
static void
test_two_streams_fade(void **state)
{
	struct pair p;

	(void)state;
	pair_start(&p, 0);
	stream_on_fading(p.from.st, on_faded, &p);
	stream_fade(p.b.ends[0]->st, true);
	bed_until(&p.b, p.faded);
	assert_true(stream_is_doubted(p.from.st));
	pair_stop(&p);
}

/* --- what is expanded ------------------------------------------------------------------------- */

enum { MUCH = 8 << 20, TURN_MOST = SESSION_TURN + 64 * 1024 };

/* Almost only zeros, which are little on the wire: all are at the far end when it returns. */
static void
write_zeros(struct bed *b, struct end *e)
{
	static const char text[50000];
	size_t room;

	stream_write(e->st, "a line", 6); /* what begins so is compressed */
	for (size_t n = 6; n < MUCH; n += room) {
		bed_until(b, stream_room(e->st) > 0);
		room = MIN(MIN(stream_room(e->st), sizeof text), MUCH - n);
		stream_write(e->st, text, room);
	}
	stream_end(e->st);
	bed_until(b, stream_far_ended(b->ends[0]->st));
}

/* However fast the socket is and however much waits for it, others get their turn in between. */
static void
test_a_turn_to_a_socket_has_an_end(void **state)
{
	static char piece[65536];
	struct relay_setup setup = {.ended = on_near_end};
	int fd[2], room = 2 * MUCH;
	struct rig r = {0};
	size_t got = 0;
	ssize_t n;

	(void)state;
	bed_init_squeezed(&r.b);
	bed_open(&r.b, &r.e, "a:1");
	bed_until(&r.b, r.e.status == 200);
	r.b.ends[0]->stalled = true;
	write_zeros(&r.b, &r.e);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	/* Without the right to this it takes less, and the test says little. */
	(void)setsockopt(fd[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
	setup.loop = r.b.loop;
	setup.arg = &r;
	setup.stream = take_ptr(&r.b.ends[0]->st);
	r.near = relay_join(&setup, fd[1]);
	while ((n = recv(fd[0], piece, sizeof piece, 0)) > 0)
		got += (size_t)n;
	assert_in_range(got, 1, TURN_MOST);
	while (n != 0) {
		bed_until(&r.b, (n = recv(fd[0], piece, sizeof piece, 0)) >= 0);
		got += (size_t)n;
	}
	assert_int_equal(got, MUCH);
	close(fd[0]);
	relay_free(&r.near);
	bed_fini_open(&r.b, &r.e, 1);
}

/* Nor does another stream, for which it is little again, end the turn by being full. */
static void
test_a_turn_to_a_stream_has_an_end(void **state)
{
	struct relay_setup setup = {.ended = on_pair_end};
	uint64_t before;
	struct pair p = {0};

	(void)state;
	bed_init_squeezed(&p.b);
	bed_open(&p.b, &p.from, "a:1");
	bed_until(&p.b, p.from.status == 200);
	p.b.ends[0]->stalled = true;
	write_zeros(&p.b, &p.from);
	bed_open(&p.b, &p.to_near, "b:1");
	bed_until(&p.b, p.to_near.status == 200);
	setup.loop = p.b.loop;
	setup.arg = &p;
	setup.stream = take_ptr(&p.b.ends[0]->st);
	stream_write(p.to_near.st, "a line", 6);
	before = session_stats(p.b.near)->saved;
	p.relay = relay_join_stream(&setup, take_ptr(&p.to_near.st));
	assert_in_range(session_stats(p.b.near)->saved - before, 1, TURN_MOST);
	bed_until(&p.b, p.from.eof && p.relay == NULL);
	assert_int_equal(p.from.got, 6 + MUCH);
	assert_string_equal(p.report.why, "done");
	pair_stop(&p);
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
		cmocka_unit_test(test_a_rate_holds_both_directions_up),
		cmocka_unit_test(test_the_local_address),
		cmocka_unit_test(test_a_turn_to_a_socket_has_an_end),
		cmocka_unit_test(test_a_turn_to_a_stream_has_an_end),
		cmocka_unit_test(test_two_streams),
		cmocka_unit_test(test_two_streams_and_a_reset),
		cmocka_unit_test(test_two_streams_and_a_slow_reader),
		cmocka_unit_test(test_two_streams_and_a_rate),
		cmocka_unit_test(test_two_streams_fade),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
