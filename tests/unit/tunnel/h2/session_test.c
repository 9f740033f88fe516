/* A session's own figures, by its private parts: round trips, windows, memory, turns to send; and
 * what it tells of its streams. Found by tests/mutation. */
#include "tunnel/h2/session_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/os/cgroup.h"
#include "tests/fake/clock.h"
#include "tests/unit/tunnel/h2/tunnel_bed.h"

static void
pass_ms(struct bed *b, unsigned ms)
{
	clock_pass(ms * 1000);
	loop_turn(b->loop);
}

/* --- round trips ---------------------------------------------------------------------------- */

/* Time for which the socket was empty since the ping was sent, and not before. */
static void
test_time_without_input(void **state)
{
	struct bed b;
	struct session *s;
	uint64_t now;

	(void)state;
	bed_init(&b, false);
	bed_until(&b, session_is_settled(b.near) && b.near->ping_ms == 0);
	s = b.near;
	session_wire_dry(s, false);
	s->idle_ms = 0;
	session_wire_dry(s, false);
	assert_int_equal(s->idle_ms, 0);
	session_wire_dry(s, true);
	now = loop_now_ms(b.loop);
	assert_int_equal(s->dry_ms, now);
	pass_ms(&b, 100);
	session_wire_dry(s, true);
	assert_int_equal(s->dry_ms, now); /* since then */
	session_ping_sent(s);
	assert_int_equal(s->dry_ms, loop_now_ms(b.loop));
	pass_ms(&b, 30);
	session_wire_dry(s, false);
	assert_int_equal(s->idle_ms, 30);
	assert_int_equal(s->dry_ms, 0);
	pass_ms(&b, 30);
	session_ping_sent(s);
	assert_int_equal(s->dry_ms, 0); /* there may be something */
	bed_fini(&b);
}

/* An answer that waited in our own socket is no measure of the path. */
static void
test_samples_of_the_path(void **state)
{
	struct bed b;
	struct session *s;
	unsigned samples;

	(void)state;
	bed_init(&b, false);
	bed_until(&b, session_is_settled(b.near) && b.near->ping_ms == 0);
	s = b.near;
	samples = s->reception.samples;
	for (unsigned idle = 29; idle <= 30; idle++) {
		s->ping_ms = loop_now_ms(b.loop) - 60;
		s->idle_ms = idle;
		session_ping_answered(s);
		assert_int_equal(s->stats.rtt_ms, 60);
		assert_int_equal(s->ping_ms, 0);
		assert_int_equal(s->reception.samples, samples + idle - 29);
	}
	bed_fini(&b);
}

/* A window that comes within one round trip asks for one more sample, by one ping. */
static void
test_bulk_asks_for_the_path(void **state)
{
	struct bed b;
	struct session *s;
	uint64_t pings;

	(void)state;
	bed_init(&b, false);
	bed_until(&b, session_is_settled(b.near) && b.near->ping_ms == 0);
	s = b.near;
	conn_window_init(&s->reception, loop_now_ms(b.loop));
	s->reception.rtt_ms[0] = s->reception.rtt_ms[1] = 50;
	pings = s->stats.pings;
	session_received(s, CONN_WINDOW_LEAST - 1);
	assert_int_equal(s->stats.pings, pings);
	session_received(s, 1);
	assert_int_equal(s->stats.pings, pings + 1);
	session_received(s, CONN_WINDOW_LEAST);
	assert_int_equal(s->stats.pings, pings + 1); /* that one is not answered yet */
	bed_fini(&b);
}

/* --- windows of streams --------------------------------------------------------------------- */

/* Has n bytes been read and consumed, `after_ms` since the window was fitted. */
static void
consume(struct bed *b, struct stream *st, size_t n, unsigned after_ms)
{
	static const char zeros[STREAM_WINDOW_BASE];

	pass_ms(b, after_ms);
	st->consumed = 0; /* but for an eighth of what was consumed last */
	for (size_t left = n; left > 0; left -= MIN(left, sizeof zeros)) {
		chain_add(&st->in, zeros, MIN(left, sizeof zeros));
		stream_holds(st, MIN(left, sizeof zeros));
		stream_took(st, MIN(left, sizeof zeros));
	}
}

static void
test_windows_fit(void **state)
{
	struct session_budget *budget;
	struct bed b;
	struct end e;
	struct stream *st;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200 && b.far->ping_ms == 0);
	st = b.ends[0]->st;
	budget = &b.far_budget;
	b.far->reception.rtt_ms[0] = b.far->reception.rtt_ms[1] = 50;
	b.far->reception.window = STREAM_WINDOW_BASE;
	st->mark_ms = loop_now_ms(b.loop);
	/* As soon as a window was consumed, within 104 ms, and not later. */
	consume(&b, st, STREAM_WINDOW_BASE, 105);
	assert_int_equal(st->window, STREAM_WINDOW_BASE);
	/* An eighth of it may be on its way back. */
	consume(&b, st, STREAM_WINDOW_BASE * 7 / 8 - 1, 104);
	assert_int_equal(st->window, STREAM_WINDOW_BASE);
	consume(&b, st, STREAM_WINDOW_BASE * 7 / 8, 0);
	assert_int_equal(st->window, 2 * STREAM_WINDOW_BASE);
	assert_int_equal(budget->granted, STREAM_WINDOW_BASE);
	/* Eight times as wide, but not wider than twice the connection's. */
	b.far->reception.window = 2 * STREAM_WINDOW_BASE;
	consume(&b, st, 2 * STREAM_WINDOW_BASE, 1);
	consume(&b, st, 4 * STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, 4 * STREAM_WINDOW_BASE);
	/* Within the memory: what is granted, the step, and a quarter for others. */
	b.far->reception.window = STREAM_WINDOW_MAX;
	budget->limit = budget_used(budget) + 5 * STREAM_WINDOW_BASE - 1;
	consume(&b, st, 4 * STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, 4 * STREAM_WINDOW_BASE);
	budget->limit++;
	consume(&b, st, 4 * STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, 8 * STREAM_WINDOW_BASE);
	budget->limit = budget_used(budget);
	consume(&b, st, 8 * STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, 8 * STREAM_WINDOW_BASE); /* full, and not over */
	budget->limit--;
	consume(&b, st, 8 * STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, 4 * STREAM_WINDOW_BASE);
	budget->limit = 0; /* it halves as long as there is too little, down to the base */
	consume(&b, st, 4 * STREAM_WINDOW_BASE, 1);
	consume(&b, st, 2 * STREAM_WINDOW_BASE, 1);
	consume(&b, st, STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, STREAM_WINDOW_BASE);
	/* The widest step that fits. */
	budget->limit = budget_used(budget) + 8 * STREAM_WINDOW_BASE;
	consume(&b, st, STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, 8 * STREAM_WINDOW_BASE);
	budget->limit = budget_used(budget) + 26 * STREAM_WINDOW_BASE - 1;
	consume(&b, st, 8 * STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, 16 * STREAM_WINDOW_BASE);
	budget->limit = budget_used(budget) + 52 * STREAM_WINDOW_BASE;
	consume(&b, st, 16 * STREAM_WINDOW_BASE, 1);
	assert_int_equal(st->window, 64 * STREAM_WINDOW_BASE);
	/* And not wider than the widest. */
	budget->limit = SIZE_MAX;
	for (unsigned i = 0; i < 12; i++)
		consume(&b, st, st->window, 1);
	assert_int_equal(st->window, STREAM_WINDOW_MAX);
	bed_fini_open(&b, &e, 1);
}

/* A writer that stands still hears of wider windows, though the reader has nothing else to say. */
static void
test_windows_are_told(void **state)
{
	struct bed b;
	struct end e;
	struct stream *st;
	int32_t room;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200 && b.far->ping_ms == 0);
	st = b.ends[0]->st;
	b.far->reception.rtt_ms[0] = b.far->reception.rtt_ms[1] = 50;
	st->mark_ms = loop_now_ms(b.loop);
	room = h2_room(b.near->h2, st->id);
	consume(&b, st, STREAM_WINDOW_BASE, 1);
	bed_until(&b, h2_room(b.near->h2, st->id) == room + 7 * STREAM_WINDOW_BASE);
	b.far->ping_ms = 1; /* none goes out beside it */
	b.far->reception.samples = 8;
	room = h2_room(b.near->h2, 0);
	session_received(b.far, CONN_WINDOW_LEAST);
	bed_until(&b, h2_room(b.near->h2, 0) == room + 3 * CONN_WINDOW_LEAST);
	b.far->ping_ms = 0;
	bed_fini_open(&b, &e, 1);
}

/* n bytes wait for the reader, and are gone. */
static void
stand_still(struct stream *st, size_t n)
{
	static const char zeros[1024];

	for (size_t left = n; left > 0; left -= MIN(left, sizeof zeros)) {
		chain_add(&st->in, zeros, MIN(left, sizeof zeros));
		stream_holds(st, MIN(left, sizeof zeros));
	}
	st->session->budget->held = 0;
	chain_consume(&st->in, n);
}

/* A window is as wide as its reader is fast, and takes no more of the memory. */
static void
test_windows_follow_slow_readers(void **state)
{
	enum { WINDOW = 64 * STREAM_WINDOW_BASE, MOST = WINDOW / 2 + SESSION_TURN };
	struct bed b;
	struct end e;
	struct stream *st;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200 && b.far->ping_ms == 0);
	st = b.ends[0]->st;
	b.far->reception.rtt_ms[0] = b.far->reception.rtt_ms[1] = 50;
	b.far->reception.window = STREAM_WINDOW_MAX;
	st->mark_ms = loop_now_ms(b.loop);
	while (st->window < WINDOW)
		consume(&b, st, st->window, 1);
	/* More than half of it waited for the reader: a wider window would carry no more. */
	stand_still(st, MOST + 1);
	consume(&b, st, WINDOW, 1);
	assert_int_equal(st->window, WINDOW);
	/* Slower than in eight round trips: what is read within four. */
	stand_still(st, MOST + 1);
	consume(&b, st, WINDOW, 8 * 50);
	assert_int_equal(st->window, WINDOW);
	stand_still(st, MOST);
	consume(&b, st, WINDOW, 16 * 50); /* the writer was slow */
	assert_int_equal(st->window, WINDOW);
	stand_still(st, MOST + 1);
	consume(&b, st, WINDOW, 16 * 50);
	assert_int_equal(st->window, WINDOW / 4);
	assert_int_equal(b.far_budget.granted, WINDOW / 4 - STREAM_WINDOW_BASE);
	stand_still(st, MOST + 1);
	consume(&b, st, WINDOW / 4 * 7 / 8, 64 * 50);
	assert_int_equal(st->window, STREAM_WINDOW_BASE);
	/* On a short way a few milliseconds say nothing, and a round trip counts 10. */
	while (st->window < WINDOW)
		consume(&b, st, st->window, 1);
	b.far->reception.rtt_ms[0] = 0;
	stand_still(st, MOST + 1);
	consume(&b, st, WINDOW, 80);
	assert_int_equal(st->window, WINDOW);
	stand_still(st, MOST + 1);
	consume(&b, st, WINDOW, 160);
	assert_int_equal(st->window, WINDOW / 4);
	bed_fini_open(&b, &e, 1);
}

static void
test_memory_by_the_machine(void **state)
{
	const size_t part = (size_t)(cgroup_memory_share() / 16);

	(void)state;
	assert_true(part > 1 << 20);
	assert_int_equal(session_budget_limit(1, SIZE_MAX), part);
	assert_int_equal(session_budget_limit(part + 1, SIZE_MAX), part + 1);
	assert_int_equal(session_budget_limit(1, part - 1), part - 1);
}

/* --- turns to send -------------------------------------------------------------------------- */

static void
test_turns_to_send(void **state)
{
	struct bed b;
	struct end e[2];
	struct session *s;

	(void)state;
	bed_init(&b, false);
	for (unsigned i = 0; i < 2; i++)
		bed_open(&b, &e[i], "a:1");
	bed_until(&b, e[0].status == 200 && e[1].status == 200);
	s = b.near;
	assert_false(frames_next_turn(s));
	TAILQ_INSERT_TAIL(&s->waiting, e[0].st, waits);
	e[0].st->waits_turn = true;
	s->sending = e[1].st;
	assert_true(frames_next_turn(s));
	assert_ptr_equal(s->sending, e[0].st);
	assert_true(s->sending_left > 0);
	frames_forget(e[1].st);
	assert_ptr_equal(s->sending, e[0].st);
	frames_forget(e[0].st);
	assert_null(s->sending);
	bed_fini_open(&b, e, 2);
}

/* --- a peer that reads late ----------------------------------------------------------------- */

static const struct transport_ops *socket_ops;
static bool wants_room;

static void
on_want(struct transport *w, bool writable)
{
	assert_true(writable != wants_room); /* each call costs a system call */
	wants_room = writable;
	socket_ops->want(w, writable);
}

/* It has given room for more than sockets hold, reads nothing for a while, and then all without
 * saying a word: the rest goes on. Meanwhile the socket is asked for room, and not after that, or
 * it would tell of it again and again. */
static void
test_a_late_reader(void **state)
{
	static const uint8_t hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				       "\0\0\6\4\0\0\0\0\0\0\4\0\100\0\0" /* window 4 MB */
				       "\0\0\4\10\0\0\0\0\0\0\100\0\0" /* of the connection too */
				       "\0\0\16\1\4\0\0\0\1\2\7CONNECT\1\3a:1";
	enum { MOST = 2 << 20 };
	static char bytes[1 << 16];
	struct bed b;
	struct session_setup setup = {.role = SESSION_SERVER};
	struct transport_ops ops;
	size_t sent = 0, got = 0, before;
	int fd[2];
	ssize_t n;

	(void)state;
	bed_init(&b, false);
	setup.loop = b.loop;
	setup.budget = &b.far_budget;
	setup.events = b.far->events;
	setup.arg = &b;
	session_free(&b.far);
	session_free(&b.near);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	setup.wire = transport_socket(b.loop, fd[1]);
	socket_ops = setup.wire->ops;
	ops = *socket_ops;
	ops.want = on_want;
	setup.wire->ops = &ops;
	assert_int_equal(session_new(&setup, &b.far), 0);
	assert_int_equal(write(fd[0], hello, sizeof hello - 1), sizeof hello - 1);
	bed_until(&b, b.n_ends == 1);
	do { /* until the sockets and the stream's queue are full */
		before = sent;
		for (size_t room; sent < MOST && (room = stream_room(b.ends[0]->st)) > 0;) {
			stream_write(b.ends[0]->st, bytes, MIN(room, sizeof bytes));
			sent += MIN(room, sizeof bytes);
		}
		for (unsigned i = 0; i < 20; i++)
			bed_wait(&b);
	} while (sent > before);
	assert_true(sent < MOST && stream_queued(b.ends[0]->st) > 0);
	assert_true(wants_room);
	for (unsigned turns = 0; got < sent && turns < 1000; turns++) {
		while ((n = read(fd[0], bytes, sizeof bytes)) > 0)
			got += (size_t)n;
		bed_wait(&b);
	}
	assert_true(got >= sent);
	assert_int_equal(stream_queued(b.ends[0]->st), 0);
	assert_false(wants_room);
	close(fd[0]);
	bed_fini(&b);
}

/* --- what is told --------------------------------------------------------------------------- */

static void
test_streams_are_shown(void **state)
{
	auto_buf struct buf text;
	const char *comma = "";
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "127.0.0.1:10250");
	bed_until(&b, e.status == 200);
	buf_init(&text, BUF_UNLIMITED);
	session_streams(b.far, "edge-1", &comma, &text);
	session_streams(b.near, "edge-1", &comma, &text);
	assert_string_equal(comma, ",");
	for (const char *at = buf_str(&text), *end; *at != '\0'; at = end) {
		auto_free char *line = NULL;

		end = strchrnul(at + 1, '\n');
		line = xstrndup(at, (size_t)(end - at));
		assert_non_null(strstr(line, "\"target\":\"127.0.0.1:10250\""));
		assert_non_null(strstr(line, "\"state\":\"open\""));
		assert_non_null(strstr(line, "\"window_out\":65536,"));
	}
	bed_fini_open(&b, &e, 1);
}

static bool
shown_as(const struct session *s, const char *state)
{
	auto_free char *want = xasprintf("\"state\":\"%s\"", state);
	auto_buf struct buf text;
	const char *comma = "";

	buf_init(&text, BUF_UNLIMITED);
	session_streams(s, "edge-1", &comma, &text);
	return strstr(buf_str(&text), want) != NULL;
}

static void
test_states_of_streams(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, false);
	assert_false(session_is_settled(b.near));
	b.silent = true;
	bed_open(&b, &e, "a:1");
	bed_until(&b, b.n_ends == 1);
	assert_true(shown_as(b.near, "opening") && shown_as(b.far, "opening"));
	b.ends[0]->echo = false;
	stream_answer(b.ends[0]->st, 200, "");
	bed_until(&b, e.status == 200);
	assert_true(shown_as(b.near, "open") && shown_as(b.far, "open"));
	stream_end(e.st);
	bed_until(&b, b.ends[0]->eof);
	assert_true(shown_as(b.near, "half-closed here") && shown_as(b.far, "half-closed there"));
	e.stalled = true;
	stream_write(b.ends[0]->st, "x", 1);
	stream_end(b.ends[0]->st);
	assert_true(shown_as(b.far, "ending"));
	bed_until(&b, b.near_budget.held == 1);
	bed_fini_open(&b, &e, 1);
}

static bool
drain_now(struct bed *b, struct stream *st)
{
	(void)st;
	session_drain(b->far);
	return false;
}

/* Of two that come together the first makes this end drain: with the second nothing was done, so
 * another tunnel may do it. */
static void
test_refused_while_draining(void **state)
{
	struct bed b;
	struct end e[2];

	(void)state;
	bed_init(&b, false);
	bed_until(&b, session_is_settled(b.near));
	b.take = drain_now;
	bed_open(&b, &e[0], "a:1");
	bed_open(&b, &e[1], "a:1");
	bed_until(&b, e[1].reset);
	assert_int_equal(e[1].code, STREAM_REFUSED);
	bed_until(&b, e[0].status == 200);
	assert_int_equal(b.n_ends, 1);
	bed_fini_open(&b, e, 2);
}

static void
test_what_may_be_asked_for(void **state)
{
	static const struct stream_events none = {0};
	char longest[STREAM_AUTHORITY_MAX + 2];
	struct stream_request request = {.authority = longest};
	struct stream *st = NULL;
	struct bed b;

	(void)state;
	bed_init(&b, false);
	bed_until(&b, session_is_settled(b.near));
	memset(longest, 'a', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	assert_int_equal(session_open(b.near, &request, &none, NULL, &st), -EINVAL);
	memcpy(longest + sizeof longest - 5, "~:1", 4); /* one less */
	assert_int_equal(session_open(b.near, &request, &none, NULL, &st), 0);
	stream_close(&st, STREAM_CANCELLED);
	request.authority = "a\x7f:1";
	assert_int_equal(session_open(b.near, &request, &none, NULL, &st), -EINVAL);
	bed_fini(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_without_input),
		cmocka_unit_test(test_samples_of_the_path),
		cmocka_unit_test(test_bulk_asks_for_the_path),
		cmocka_unit_test(test_windows_fit),
		cmocka_unit_test(test_windows_are_told),
		cmocka_unit_test(test_windows_follow_slow_readers),
		cmocka_unit_test(test_memory_by_the_machine),
		cmocka_unit_test(test_turns_to_send),
		cmocka_unit_test(test_a_late_reader),
		cmocka_unit_test(test_streams_are_shown),
		cmocka_unit_test(test_states_of_streams),
		cmocka_unit_test(test_refused_while_draining),
		cmocka_unit_test(test_what_may_be_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
