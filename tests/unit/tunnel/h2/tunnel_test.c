/* Sessions and their streams, over socket pairs and over TLS with turned roles. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"
#include "tunnel/h2/conn_window.h"

static void
echo_once(bool tls)
{
	struct bed b;
	struct end e;

	bed_init(&b, tls);
	bed_open(&b, &e, "127.0.0.1:10250");
	stream_write(e.st, "abc", 3); /* before the answer */
	bed_until(&b, e.got == 3);
	assert_int_equal(e.status, 200);
	assert_int_equal(e.sum, 'a' + 'b' + 'c');
	assert_string_equal(b.ends[0]->authority, "127.0.0.1:10250");
	assert_string_equal(b.ends[0]->field, "edgeway-caller=test");
	bed_write(&e, 20 << 20);
	bed_until(&b, e.got == 3 + (20 << 20));
	assert_false(e.eof);
	stream_end(e.st);
	bed_until(&b, e.eof && b.ends[0]->eof);
	stream_close(&e.st, STREAM_DONE);
	stream_close(&b.ends[0]->st, STREAM_DONE);
	bed_until(&b, session_stats(b.near)->streams == 0 && session_stats(b.far)->streams == 0);
	assert_false(e.reset || b.ends[0]->reset);
	assert_int_equal(session_stats(b.near)->resets_sent + session_stats(b.far)->resets_sent, 0);
	assert_int_equal(session_stats(b.near)->bytes_in, 3 + (20 << 20));
	assert_int_equal(session_stats(b.far)->bytes_out, 3 + (20 << 20));
	bed_fini(&b);
}

static void
test_echo(void **state)
{
	(void)state;
	echo_once(false);
}

static void
test_echo_tls(void **state)
{
	(void)state;
	echo_once(true);
}

static void
test_one_of_a_hundred_stalls(void **state)
{
	struct bed b;
	struct end e[100];
	uint64_t window;

	(void)state;
	bed_init(&b, true);
	for (int i = 0; i < 100; i++)
		bed_open(&b, &e[i], "a:1");
	bed_until(&b, b.n_ends == 100);
	b.ends[0]->stalled = true;
	while (stream_room(e[0].st) > 0) { /* until nothing more is taken */
		bed_write(&e[0], stream_room(e[0].st));
		for (int i = 0; i < 20; i++)
			bed_wait(&b);
	}
	window = b.far_budget.held;
	assert_int_equal(window, STREAM_WINDOW_BASE);
	assert_true(session_stats(b.near)->stalls > 0);
	for (int i = 1; i < 100; i++)
		bed_write(&e[i], 300000);
	for (int i = 1; i < 100; i++)
		bed_until(&b, e[i].got == 300000);
	assert_int_equal(e[0].got, 0);
	assert_int_equal(b.far_budget.held, window);
	b.ends[0]->stalled = false; /* a reader that comes back */
	bed_move(b.ends[0]);
	stream_end(e[0].st);
	bed_until(&b, b.ends[0]->got >= window);
	for (int i = 0; i < 100; i++)
		stream_close(&e[i].st, STREAM_CANCELLED);
	bed_until(&b, session_stats(b.far)->streams == 0);
	bed_fini(&b);
}

/* Readers that take nothing have windows of their streams for it: what they hold leaves the
 * connection's whole. */
static void
test_the_connection_is_for_what_is_on_the_way(void **state)
{
	enum { STREAMS = 2 * CONN_WINDOW_LEAST / STREAM_WINDOW_BASE };
	struct bed b;
	struct end e[STREAMS];

	(void)state;
	bed_init(&b, true);
	for (unsigned i = 0; i < STREAMS; i++)
		bed_open(&b, &e[i], "a:1");
	bed_until(&b, b.n_ends == STREAMS);
	for (unsigned i = 0; i < STREAMS; i++) {
		b.ends[i]->stalled = true;
		bed_write(&e[i], STREAM_WINDOW_BASE);
	}
	bed_until(&b, b.far_budget.held == (size_t)STREAMS * STREAM_WINDOW_BASE);
	bed_fini_open(&b, e, STREAMS);
}

/* Bulk goes a stream at a time. Those that wait for their turn may go, or have no window; the
 * others come to theirs. */
static void
test_bulk_takes_turns(void **state)
{
	enum { TIMES = 20, EACH = 100000 };
	struct bed b;
	struct end e[TIMES + 3];
	struct end *last = &e[TIMES + 2];

	(void)state;
	bed_init(&b, true);
	for (unsigned i = 0; i < TIMES + 3; i++)
		bed_open(&b, &e[i], "a:1");
	bed_until(&b, b.n_ends == TIMES + 3 && last->status == 200);
	b.ends[TIMES]->stalled = true;
	bed_write(&e[TIMES], EACH);
	for (unsigned i = 0; i < TIMES; i++) { /* more than may go at once */
		bed_write(&e[i], EACH);
		bed_write(&e[TIMES + 1], EACH);
		bed_write(last, EACH);
		for (unsigned k = 0; k < i % 4; k++)
			bed_wait(&b);
		stream_close(&e[i].st, STREAM_CANCELLED);
	}
	bed_until(&b, last->got == TIMES * EACH && e[TIMES + 1].got == TIMES * EACH);
	assert_int_equal(b.ends[TIMES]->got, 0);
	b.ends[TIMES]->stalled = false;
	bed_move(b.ends[TIMES]);
	bed_until(&b, e[TIMES].got == EACH);
	bed_fini_open(&b, e, TIMES + 3);
}

static void
test_windows_grow_and_shrink(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	bed_until(&b, b.n_ends == 1);
	bed_write(&e, 8 << 20);
	bed_until(&b, e.got == 8 << 20);
	assert_true(b.far_budget.granted > 0 || b.near_budget.granted > 0);
	b.far_budget.limit = b.near_budget.limit = 1;
	bed_write(&e, 64 << 20);
	bed_until(&b, e.got == 72 << 20);
	assert_int_equal(b.far_budget.granted, 0);
	assert_int_equal(b.near_budget.granted, 0);
	stream_close(&e.st, STREAM_CANCELLED);
	bed_fini(&b);
}

/* Again and again, and while bytes are on their way: the writer always has some window in the
 * end. */
static void
test_windows_breathe(void **state)
{
	enum { TIMES = 40, EACH = 3 << 20 };
	struct bed b;
	struct end e;
	size_t limit;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	bed_until(&b, b.n_ends == 1);
	limit = b.far_budget.limit;
	for (int i = 1; i <= TIMES; i++) {
		bed_write(&e, EACH);
		bed_until(&b, e.got >= (size_t)i * EACH - (size_t)(i % 4) * (EACH / 4));
		b.far_budget.limit = b.near_budget.limit = i % 2 == 0 ? limit : 1;
	}
	bed_until(&b, e.got == (size_t)TIMES * EACH);
	stream_close(&e.st, STREAM_CANCELLED);
	bed_fini(&b);
}

static void
test_short_memory_refuses(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, false);
	b.far_budget.limit = 10;
	b.far_budget.held = 11;
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.reset);
	assert_int_equal(e.code, STREAM_REFUSED);
	assert_int_equal(b.n_ends, 0);
	stream_close(&e.st, STREAM_DONE);
	b.far_budget.held = 0;
	bed_fini(&b);
}

static void
test_half_close(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	bed_until(&b, b.n_ends == 1);
	b.ends[0]->echo = false;
	bed_write(&e, 100000);
	stream_end(e.st);
	bed_until(&b, b.ends[0]->eof);
	assert_int_equal(b.ends[0]->got, 100000);
	assert_false(e.eof);
	b.ends[0]->echo = true;
	bed_write(b.ends[0], 200000); /* the other half is still there */
	stream_end(b.ends[0]->st);
	stream_close(&b.ends[0]->st, STREAM_DONE); /* what was written still goes */
	bed_until(&b, e.eof);
	assert_int_equal(e.got, 200000);
	assert_false(e.reset);
	stream_close(&e.st, STREAM_DONE);
	bed_until(&b, session_stats(b.near)->streams + session_stats(b.far)->streams == 0);
	bed_fini(&b);
}

static void
test_reset_carries_its_code(void **state)
{
	struct bed b;
	struct end e[2];

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e[0], "a:1");
	bed_open(&b, &e[1], "a:2");
	bed_until(&b, b.n_ends == 2 && e[1].status == 200);
	stream_close(&e[0].st, STREAM_BROKEN);
	bed_until(&b, b.ends[0]->reset);
	assert_int_equal(b.ends[0]->code, STREAM_BROKEN);
	stream_close(&b.ends[1]->st, STREAM_CANCELLED);
	bed_until(&b, e[1].reset);
	assert_int_equal(e[1].code, STREAM_CANCELLED);
	stream_close(&e[1].st, STREAM_DONE);
	assert_int_equal(session_stats(b.far)->streams, 0);
	assert_int_equal(session_stats(b.far)->resets_received, 1);
	bed_fini(&b);
}

static void
test_refusals_have_reasons(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, false);
	b.refuse_with = 403;
	bed_open(&b, &e, "a:1");
	bed_write(&e, 1000);
	bed_until(&b, e.status != 0);
	assert_int_equal(e.status, 403);
	assert_string_equal(e.reason, "not today?nor tomorrow");
	stream_close(&e.st, STREAM_DONE);
	bed_until(&b, session_stats(b.near)->streams + session_stats(b.far)->streams == 0);
	bed_fini(&b);
}

static void
test_bad_requests(void **state)
{
	static const char *const bad[] = {"", "a b:1", "a\r\nb:1", "\xff:1"};
	struct stream_field field = {":path", "/"};
	struct stream_events none = {0};
	struct stream *st;
	struct bed b;

	(void)state;
	bed_init(&b, false);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(session_open(b.near, &(struct stream_request){.authority = bad[i]},
					 &none, NULL, &st),
			-EINVAL);
	assert_int_equal(session_open(b.near,
				 &(struct stream_request){
					 .authority = "a:1", .fields = &field, .n_fields = 1},
				 &none, NULL, &st),
		-EINVAL);
	assert_int_equal(
		session_open(b.far, &(struct stream_request){.authority = "a:1"}, &none, NULL, &st),
		-EINVAL);
	bed_fini(&b);
}

static void
test_a_thousand_cancelled(void **state)
{
	struct bed b;
	struct end e[100], last;

	(void)state;
	bed_init(&b, true);
	b.silent = true;
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 100; i++)
			bed_open(&b, &e[i], "a:1");
		if (round % 2 == 0) /* those of the other rounds never reach the wire */
			bed_until(&b, b.n_ends == 100u * (unsigned)(round / 2 + 1));
		for (int i = 0; i < 100; i++)
			stream_close(&e[i].st, STREAM_CANCELLED);
		bed_until(&b, session_stats(b.near)->streams == 0);
	}
	bed_until(&b, session_stats(b.far)->streams == 0);
	assert_int_equal(b.n_ends, 1000);
	for (unsigned i = 0; i < b.n_ends; i++)
		assert_int_equal(b.ends[i]->code, STREAM_CANCELLED);
	b.silent = false;
	bed_open(&b, &last, "a:1"); /* and all is well */
	bed_until(&b, last.status == 200);
	stream_close(&last.st, STREAM_CANCELLED);
	bed_fini(&b);
}

static void
test_streams_are_capped(void **state)
{
	struct stream_events none = {0};
	struct stream *st;
	struct bed b;
	struct end *e = xcalloc(1500, sizeof *e);

	(void)state;
	bed_init(&b, false);
	b.silent = true;
	for (int i = 0; i < 1500; i++)
		bed_open(&b, &e[i], "a:1");
	assert_int_equal(session_open(b.near, &(struct stream_request){.authority = "a:1"}, &none,
				 NULL, &st),
		-EAGAIN);
	bed_until(&b, b.n_ends == 1500);
	for (int i = 0; i < 1500; i++)
		stream_close(&e[i].st, STREAM_CANCELLED);
	bed_fini(&b);
	free(e);
}

static void
test_drain(bool near)
{
	struct bed b;
	struct end e;
	struct stream_events none = {0};
	struct stream *st;

	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200);
	session_drain(near ? b.near : b.far);
	bed_until(&b, near || b.drains == 1);
	assert_int_equal(session_open(b.near, &(struct stream_request){.authority = "a:1"}, &none,
				 NULL, &st),
		-ESHUTDOWN);
	bed_write(&e, 300000); /* what is there goes on */
	stream_end(e.st);
	bed_until(&b, e.eof);
	assert_int_equal(e.got, 300000);
	assert_true(near ? b.near_rc == 1 : b.far_rc == 1);
	stream_close(&e.st, STREAM_DONE);
	stream_close(&b.ends[0]->st, STREAM_DONE);
	bed_until(&b, near ? b.near_rc == 0 : b.far_rc == 0);
	assert_string_equal(near ? b.near_why : b.far_why, "drained");
	bed_until(&b, b.near_rc != 1 && b.far_rc != 1);
	bed_fini(&b);
}

static void
test_drain_client(void **state)
{
	(void)state;
	test_drain(true);
}

static void
test_drain_server(void **state)
{
	(void)state;
	test_drain(false);
}

/* What the server's owner has yet to read is no reason to call the end anything else. */
static void
test_drain_unread(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200);
	b.ends[0]->stalled = true;
	b.ends[0]->echo = false;
	bed_write(&e, 1000);
	stream_end(e.st);
	stream_end(b.ends[0]->st);
	session_send_away(b.near);
	bed_until(&b, e.eof);
	stream_close(&e.st, STREAM_DONE);
	bed_until(&b, b.near_rc == 0 && b.far_rc != 1);
	assert_int_equal(b.far_rc, 0);
	b.ends[0]->stalled = false;
	bed_move(b.ends[0]);
	assert_int_equal(b.ends[0]->got, 1000);
	assert_true(b.ends[0]->eof);
	bed_fini(&b);
}

/* Whoever begins, or both at the same moment, with nothing to finish: it is over as soon as that is
 * said. */
static void
test_drain_idle(void **state)
{
	(void)state;
	for (unsigned who = 1; who <= 3; who++) {
		uint64_t start;
		struct bed b;

		bed_init(&b, true);
		for (int i = 0; i < 50; i++)
			bed_wait(&b);
		start = loop_now_ms(b.loop);
		if (who & 1)
			session_drain(b.near);
		if (who & 2)
			session_drain(b.far);
		bed_until(&b, b.near_rc != 1 && b.far_rc != 1);
		assert_int_equal(b.near_rc, 0);
		assert_int_equal(b.far_rc, who == 1 ? -ECONNRESET : 0); /* a client says nothing */
		assert_true(loop_now_ms(b.loop) - start < b.limits.dead_ms);
		bed_fini(&b);
	}
}

static void
test_lost_session_tells_streams(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, true);
	bed_open(&b, &e, "a:1");
	bed_until(&b, e.status == 200);
	session_free(&b.far);
	assert_true(b.ends[0]->reset);
	assert_int_equal(b.ends[0]->code, STREAM_LOST);
	bed_until(&b, e.reset);
	assert_int_equal(e.code, STREAM_LOST);
	assert_int_equal(b.near_rc, -ECONNRESET);
	assert_string_equal(b.near_why, "the peer closed the connection");
	assert_int_equal(stream_room(e.st), 0); /* an orphan does no harm */
	stream_end(e.st);
	stream_close(&e.st, STREAM_DONE);
	bed_fini(&b);
}

static void
never(void *arg, int rc, const char *why)
{
	(void)why;
	*(int *)arg = rc;
}

static void
test_dead_peer(void **state)
{
	struct session_budget budget = {.limit = 1 << 20};
	struct session_limits limits = {.max_streams = 10, .ping_ms = 50, .dead_ms = 200};
	struct session_events events = {.ended = never};
	struct bed b = {0};
	struct session *s;
	int fd[2], rc = 1, descriptors = bed_descriptors();
	uint64_t start;

	(void)state;
	assert_int_equal(loop_new(&b.loop, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	start = mono_ms();
	assert_int_equal(session_new(&(struct session_setup){.loop = b.loop,
					     .role = SESSION_CLIENT,
					     .wire = transport_socket(b.loop, fd[0]),
					     .budget = &budget,
					     .limits = &limits,
					     .events = &events,
					     .arg = &rc},
				 &s),
		0);
	bed_until(&b, rc != 1);
	assert_int_equal(rc, -ETIMEDOUT);
	assert_true(mono_ms() - start >= 200);
	session_free(&s);
	close(fd[1]);
	loop_free(&b.loop);
	assert_int_equal(bed_descriptors(), descriptors);
}

static struct {
	bool is_silent;
	unsigned told;
} silence;

static void
on_silent(void *arg, bool is_silent)
{
	(void)arg;
	silence.is_silent = is_silent;
	silence.told++;
}

/* A peer that answers nothing is found out by the first stream, long before it counts as dead, and
 * is forgiven when it is heard. */
static void
test_silent_peer(void **state)
{
	static const uint8_t hello[9 + 17] = {
		0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 6, 1}; /* SETTINGS, and the answer to a ping */
	static const uint8_t ping[17] = {0, 0, 8, 6};
	struct session_budget budget = {.limit = 1 << 20};
	struct session_limits limits = {.max_streams = 10, .ping_ms = 60000, .dead_ms = 120000};
	struct session_events events = {.ended = never, .silent = on_silent};
	struct bed b = {0};
	struct session *s;
	struct end e;
	int fd[2], rc = 1;
	uint64_t start;

	(void)state;
	silence.told = 0;
	assert_int_equal(loop_new(&b.loop, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	assert_int_equal(session_new(&(struct session_setup){.loop = b.loop,
					     .role = SESSION_CLIENT,
					     .wire = transport_socket(b.loop, fd[0]),
					     .budget = &budget,
					     .limits = &limits,
					     .events = &events,
					     .arg = &rc},
				 &s),
		0);
	assert_int_equal(write(fd[1], hello, sizeof hello), sizeof hello);
	for (int i = 0; i < 10; i++)
		bed_wait(&b);
	assert_false(session_is_silent(s));
	b.near = s;
	start = mono_ms();
	bed_open(&b, &e, "a:1");
	bed_until(&b, silence.is_silent); /* told a turn later than it is so, since libuv 1.45 */
	assert_true(session_is_silent(s) && stream_is_silent(e.st));
	assert_true(mono_ms() - start >= 2000 &&
		mono_ms() - start < 10000); /* by the test's own clock */
	assert_int_equal(write(fd[1], ping, sizeof ping), sizeof ping);
	bed_until(&b, !session_is_silent(s));
	bed_until(&b, silence.told == 2);
	assert_false(silence.is_silent);
	assert_int_equal(rc, 1); /* and the stream goes on */
	assert_false(e.reset);
	stream_close(&e.st, STREAM_CANCELLED);
	session_free(&s);
	close(fd[1]);
	loop_free(&b.loop);
}

/* A target that takes its time is no sign of anything: the peer answers pings. */
static void
test_slow_answer_is_not_silence(void **state)
{
	struct bed b;
	struct end e;
	uint64_t until;

	(void)state;
	bed_init(&b, false);
	b.silent = true;
	for (int i = 0; i < 10; i++)
		bed_wait(&b);
	bed_open(&b, &e, "a:1");
	until = mono_ms() + 3500;
	while (mono_ms() < until) {
		bed_wait(&b);
		assert_false(session_is_silent(b.near) || session_is_silent(b.far));
	}
	assert_int_equal(
		session_stats(b.near)->pings, 2); /* the first of all, and that for the stream */
	bed_fini_open(&b, &e, 1);
}

static void
test_pings_keep_alive(void **state)
{
	struct session_budget budget = {.limit = 1 << 20};
	struct session_limits limits = {.max_streams = 10, .ping_ms = 20, .dead_ms = 5000};
	struct session_events events = {.ended = never};
	struct session *s[2];
	struct bed b = {0};
	int fd[2], rc = 1;

	(void)state;
	assert_int_equal(loop_new(&b.loop, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(session_new(&(struct session_setup){.loop = b.loop,
						     .role = i ? SESSION_SERVER : SESSION_CLIENT,
						     .wire = transport_socket(b.loop, fd[i]),
						     .budget = &budget,
						     .limits = &limits,
						     .events = &events,
						     .arg = &rc},
					 &s[i]),
			0);
	/* Whose ping is answered has been heard, so one end alone may do it all; two were sent at
	 * the start. */
	bed_until(&b, session_stats(s[0])->pings + session_stats(s[1])->pings >= 5);
	assert_int_equal(rc, 1);
	session_free(&s[0]);
	session_free(&s[1]);
	loop_free(&b.loop);
}

/* The ping of either end is told to the other one, each time, and is no measure of the way. */
static void
test_asks_anew(void **state)
{
	struct bed b;

	(void)state;
	bed_init(&b, true);
	session_ask_anew(b.near);
	bed_until(&b, b.asks == 1);
	session_ask_anew(b.far);
	bed_until(&b, b.asks == 2);
	session_ask_anew(b.far);
	session_ask_anew(b.far);
	bed_until(&b, b.asks >= 3 && session_stats(b.far)->streams == 0);
	for (unsigned i = 0; i < 20; i++)
		bed_wait(&b);
	assert_in_range(b.asks, 3, 4); /* those that come together are one */
	assert_int_equal(b.near_rc, 1);
	bed_fini(&b);
}

static void
on_fading(void *arg)
{
	++*(unsigned *)arg;
}

/* One stream of two is said to stop soon, once; then the session drains, and the other's owner is
 * told as well, and one who asks late. */
static void
test_fading(void **state)
{
	struct bed b;
	struct end e[3];
	unsigned told[3] = {0};

	(void)state;
	bed_init(&b, true);
	for (unsigned i = 0; i < 3; i++)
		bed_open(&b, &e[i], "a:1");
	bed_until(&b, e[0].status == 200 && e[1].status == 200 && e[2].status == 200);
	stream_on_fading(e[0].st, on_fading, &told[0]);
	stream_on_fading(e[1].st, on_fading, &told[1]);
	stream_fade(e[1].st, false); /* a client's: nothing */
	stream_fade(b.ends[0]->st, false);
	stream_fade(b.ends[0]->st, false);
	bed_write(&e[0], 100000); /* it goes on */
	bed_until(&b, told[0] == 1 && b.ends[0]->got == 100000);
	assert_int_equal(told[1], 0);
	session_drain(b.far);
	bed_until(&b, told[1] == 1);
	stream_on_fading(e[2].st, on_fading, &told[2]);
	bed_until(&b, told[2] == 1);
	assert_int_equal(told[0], 1);
	bed_fini_open(&b, e, 3);
}

static void
test_garbage_ends_it(void **state)
{
	static const char junk[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	struct session_budget budget = {.limit = 1 << 20};
	struct session_events events = {.ended = never};
	struct bed b = {0};
	struct session *s;
	int fd[2], rc;

	(void)state;
	assert_int_equal(loop_new(&b.loop, NULL), 0);
	for (int role = 0; role < 2; role++) {
		rc = 1;
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
		assert_int_equal(session_new(&(struct session_setup){.loop = b.loop,
						     .role = role ? SESSION_SERVER : SESSION_CLIENT,
						     .wire = transport_socket(b.loop, fd[0]),
						     .budget = &budget,
						     .events = &events,
						     .arg = &rc},
					 &s),
			0);
		assert_int_equal(write(fd[1], junk, sizeof junk - 1), sizeof junk - 1);
		bed_until(&b, rc != 1);
		assert_int_equal(rc, -EPROTO);
		session_free(&s);
		close(fd[1]);
	}
	loop_free(&b.loop);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_echo),
		cmocka_unit_test(test_echo_tls),
		cmocka_unit_test(test_one_of_a_hundred_stalls),
		cmocka_unit_test(test_the_connection_is_for_what_is_on_the_way),
		cmocka_unit_test(test_bulk_takes_turns),
		cmocka_unit_test(test_windows_grow_and_shrink),
		cmocka_unit_test(test_windows_breathe),
		cmocka_unit_test(test_short_memory_refuses),
		cmocka_unit_test(test_half_close),
		cmocka_unit_test(test_reset_carries_its_code),
		cmocka_unit_test(test_refusals_have_reasons),
		cmocka_unit_test(test_bad_requests),
		cmocka_unit_test(test_a_thousand_cancelled),
		cmocka_unit_test(test_streams_are_capped),
		cmocka_unit_test(test_drain_client),
		cmocka_unit_test(test_drain_server),
		cmocka_unit_test(test_drain_unread),
		cmocka_unit_test(test_drain_idle),
		cmocka_unit_test(test_lost_session_tells_streams),
		cmocka_unit_test(test_dead_peer),
		cmocka_unit_test(test_silent_peer),
		cmocka_unit_test(test_slow_answer_is_not_silence),
		cmocka_unit_test(test_pings_keep_alive),
		cmocka_unit_test(test_asks_anew),
		cmocka_unit_test(test_fading),
		cmocka_unit_test(test_garbage_ends_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
