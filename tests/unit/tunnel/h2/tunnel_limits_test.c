/* What bounds a session: windows, memory, numbers of streams; and peers that keep to none of it,
 * frame by frame. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fake/clock.h"
#include "tests/unit/tunnel/h2/tunnel_bed.h"
#include "tunnel/h2/conn_window.h"

/* --- a peer that speaks frames, right or wrong ---------------------------------------------- */

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum {
	DATA = 0,
	HEADERS = 1,
	SETTINGS = 4,
	PING = 6,
	GOAWAY = 7,
	WINDOW_UPDATE = 8,
	CONTINUATION = 9
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };
/* :method CONNECT, :authority a:1 as literals without indexing (RFC 7541 section 6.2.2) */
static const char connect_head[] = "\x02\x07"
				   "CONNECT"
				   "\x01\x03"
				   "a:1";

struct raw {
	struct loop *loop;
	struct session_budget budget;
	struct session *s;
	struct end end; /* the last stream */
	unsigned opened;
	unsigned cost_us; /* of a stream that is opened */
	int fd, rc; /* rc 1: not ended */
	char why[128];
	size_t have;
	unsigned char bytes[1 << 16];
};

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)reason;
	((struct end *)arg)->status = status;
}

static void
on_move(void *arg)
{
	(void)arg;
}

static void
on_reset(void *arg, unsigned code)
{
	struct end *e = arg;

	e->reset = true;
	e->code = code;
	stream_close(&e->st, STREAM_DONE);
}

static const struct stream_events stream_events = {on_answered, on_move, on_move, on_reset};

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	struct raw *r = arg;

	(void)reason;
	assert_string_equal(request->authority, "a:1");
	if (r->end.st != NULL)
		stream_close(&r->end.st, STREAM_CANCELLED);
	r->opened++;
	clock_pass(r->cost_us);
	r->end.st = st;
	stream_accept(st, &stream_events, &r->end);
	stream_answer(st, 200, "");
	return 0;
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct raw *r = arg;

	r->rc = rc;
	snprintf(r->why, sizeof r->why, "%s", why);
	session_free(&r->s);
}

static const struct session_events session_events = {.opened = on_opened, .ended = on_ended};

static void
raw_init(struct raw *r, enum session_role role, const struct session_limits *limits)
{
	struct session_setup setup = {.role = role,
		.squeeze = role == SESSION_SERVER,
		.limits = limits,
		.events = &session_events,
		.arg = r};
	int fd[2];

	memset(r, 0, sizeof *r);
	r->rc = 1;
	r->budget.limit = 64 << 20;
	assert_int_equal(loop_new(&r->loop, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	r->fd = fd[0];
	setup.loop = r->loop;
	setup.budget = &r->budget;
	setup.wire = transport_socket(r->loop, fd[1]);
	assert_int_equal(session_new(&setup, &r->s), 0);
}

static void
raw_fini(struct raw *r)
{
	session_free(&r->s);
	stream_close(&r->end.st, STREAM_DONE);
	assert_int_equal(r->budget.held + r->budget.granted + r->budget.queued, 0);
	loop_free(&r->loop);
	close(r->fd);
}

static void
say(struct raw *r, const void *data, size_t n)
{
	const char *from = data;

	while (n > 0) {
		ssize_t did = send(r->fd, from, n, MSG_NOSIGNAL);

		if (did < 0 && errno == EPIPE)
			return; /* it has heard enough */
		from += did > 0 ? did : 0;
		n -= did > 0 ? (size_t)did : 0;
		loop_turn(r->loop);
	}
}

static void
frame(struct raw *r, unsigned type, unsigned flags, uint32_t id, const void *body, size_t n)
{
	const unsigned char head[9] = {(unsigned char)(n >> 16), (unsigned char)(n >> 8),
		(unsigned char)n, (unsigned char)type, (unsigned char)flags,
		(unsigned char)(id >> 24), (unsigned char)(id >> 16), (unsigned char)(id >> 8),
		(unsigned char)id};

	say(r, head, sizeof head);
	say(r, body, n);
}

static void
greet(struct raw *r)
{
	say(r, preface, sizeof preface - 1);
	frame(r, SETTINGS, 0, 0, "", 0);
	frame(r, SETTINGS, ACK, 0, "", 0); /* its windows count from here on */
}

static void
open_one(struct raw *r, uint32_t id)
{
	frame(r, HEADERS, END_HEADERS, id, connect_head, sizeof connect_head - 1);
}

/* The next whole frame in r->bytes, 0 when there is none yet, -1 at the end; `used`: the one before
 * is done with. */
static ssize_t
next_frame(struct raw *r, size_t used)
{
	ssize_t n;

	r->have -= used;
	memmove(r->bytes, r->bytes + used, r->have);
	if (r->have >= 9 && r->have >= 9 + ((size_t)r->bytes[1] << 8 | r->bytes[2]))
		return 9 + (r->bytes[1] << 8 | r->bytes[2]);
	n = recv(r->fd, r->bytes + r->have, sizeof r->bytes - r->have, 0);
	r->have += n > 0 ? (size_t)n : 0;
	return n == 0 ? -1 : 0;
}

/* Turns the loop and reads frames until one of this type without the ACK flag; a number of its
 * body. -1: the end. */
static int64_t
await(struct raw *r, unsigned type, size_t *data)
{
	int64_t found = -1;
	size_t used = 0;
	ssize_t n;

	while ((n = next_frame(r, used)) >= 0) {
		const unsigned char *b = r->bytes + (type == GOAWAY ? 13 : 9);

		used = (size_t)n;
		if (n == 0)
			patience_turn(r->loop);
		else if (r->bytes[3] == type && (r->bytes[4] & ACK) == 0)
			found = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
		else if (data != NULL && r->bytes[3] == DATA)
			*data += used - 9;
		if (found >= 0) {
			next_frame(r, used);
			break;
		}
	}
	return found;
}

static void
turn(struct raw *r)
{
	for (int i = 0; i < 50; i++)
		loop_turn(r->loop);
}

/* --- frames that break the rules ------------------------------------------------------------ */

static void
test_over_the_window(void **state)
{
	static const char zeros[16384];
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, NULL);
	greet(&r);
	open_one(&r, 1);
	turn(&r);
	assert_int_equal(r.opened, 1);
	for (int i = 0; i < 4; i++)
		frame(&r, DATA, 0, 1, zeros, sizeof zeros);
	turn(&r);
	assert_string_equal(r.why, "");
	assert_int_equal(r.budget.held, STREAM_WINDOW_BASE);
	assert_false(r.end.reset);
	frame(&r, DATA, 0, 1, zeros, 1);
	turn(&r);
	assert_true(r.end.reset || r.rc == -EPROTO); /* and not a byte more is kept */
	assert_true(r.budget.held <= STREAM_WINDOW_BASE);
	raw_fini(&r);
}

/* The connection's window is given back in eighths, though nobody takes the bytes: a writer far
 * away must not wait for half of it. */
static void
test_the_connection_gets_its_window_back_early(void **state)
{
	enum { EIGHTH = CONN_WINDOW_LEAST / 8, STREAMS = EIGHTH / STREAM_WINDOW_BASE };
	static const char zeros[16384];
	struct raw r;
	int64_t back;

	(void)state;
	raw_init(&r, SESSION_SERVER, NULL);
	greet(&r);
	back = await(&r, WINDOW_UPDATE, NULL); /* the codec's own, then ours */
	assert_int_equal(back + await(&r, WINDOW_UPDATE, NULL), CONN_WINDOW_LEAST - 65535);
	for (uint32_t id = 1; id < 2 * STREAMS; id += 2) {
		open_one(&r, id);
		for (int i = 0; i < 4; i++)
			frame(&r, DATA, 0, id, zeros, sizeof zeros);
		turn(&r);
	}
	back = await(&r, WINDOW_UPDATE, NULL);
	assert_true(back >= EIGHTH && back <= (int64_t)STREAMS * STREAM_WINDOW_BASE);
	assert_int_equal(r.budget.held, STREAM_WINDOW_BASE);
	raw_fini(&r);
}

static void
test_rule_breakers_are_cut_off(void **state)
{
	static const struct {
		const char *what;
		unsigned type, flags;
		uint32_t id;
		const char *body;
		size_t n;
	} bad[] = {
		{"data for a stream never opened", DATA, 0, 5, "x", 1},
		{"a stream with an even number", HEADERS, END_HEADERS, 2, connect_head,
			sizeof connect_head - 1},
		{"a continuation of nothing", CONTINUATION, END_HEADERS, 1, "x", 1},
		{"settings of a stream", SETTINGS, 0, 1, "", 0},
		{"settings of 5 bytes", SETTINGS, 0, 0, "12345", 5},
		{"a ping of 7 bytes", PING, 0, 0, "1234567", 7},
		{"a window that grows by nothing", WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4},
		{"a head that cannot be unpacked", HEADERS, END_HEADERS, 3, "\xff\xff\xff\xff\xff",
			5},
		{"a window beyond 2^31", WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct raw r;

		raw_init(&r, SESSION_SERVER, NULL);
		greet(&r);
		frame(&r, bad[i].type, bad[i].flags, bad[i].id, bad[i].body, bad[i].n);
		if (await(&r, GOAWAY, NULL) <= 0) /* with a reason that is none of NO_ERROR */
			fail_msg("%s: accepted", bad[i].what);
		turn(&r);
		assert_int_equal(r.rc, -EPROTO);
		assert_true(r.why[0] != '\0');
		raw_fini(&r);
	}
}

static void
test_numbers_out_of_order(void **state)
{
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, NULL);
	greet(&r);
	open_one(&r, 9);
	open_one(&r, 3); /* RFC 9113 section 5.1.1: numbers only grow */
	turn(&r);
	assert_int_equal(r.opened, 1);
	if (r.rc == 1) { /* passed over, which is as good as cut off */
		open_one(&r, 11);
		turn(&r);
		assert_int_equal(r.opened, 2);
	}
	raw_fini(&r);
}

static void
test_truncated(void **state)
{
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, NULL);
	greet(&r);
	open_one(&r, 1);
	say(&r, "\0\x40\0\0\0\0\0\0\1half of it", 18);
	turn(&r);
	assert_int_equal(r.opened, 1);
	shutdown(r.fd, SHUT_WR);
	turn(&r);
	assert_int_equal(r.rc, -ECONNRESET);
	assert_true(r.end.reset);
	assert_int_equal(r.end.code, STREAM_LOST);
	raw_fini(&r);
}

/* connect_head, and edgeway-encoding: deflate */
static const char squeezed_head[] = "\x02\x07"
				    "CONNECT"
				    "\x01\x03"
				    "a:1"
				    "\x00\x10"
				    "edgeway-encoding"
				    "\x07"
				    "deflate";

/* It agreed to text made smaller, and what comes is none. */
static void
test_not_what_was_agreed(void **state)
{
	const void *data;
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, NULL);
	greet(&r);
	frame(&r, HEADERS, END_HEADERS, 1, squeezed_head, sizeof squeezed_head - 1);
	turn(&r);
	assert_int_equal(r.opened, 1);
	frame(&r, DATA, 0, 1, "\x01\xff\xff\xff\xff", 5);
	turn(&r);
	assert_false(r.end.reset);
	assert_int_equal(stream_peek(r.end.st, &data), 0);
	assert_false(stream_eof(r.end.st));
	turn(&r);
	assert_true(r.end.reset);
	assert_int_equal(r.end.code, 0x9); /* COMPRESSION_ERROR, of this stream only */
	assert_int_equal(r.rc, 1);
	raw_fini(&r);
}

/* Both halves have ended, the session has, too, and what it left is looked at only then. */
static void
test_not_what_was_agreed_at_the_end(void **state)
{
	const void *data;
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, NULL);
	greet(&r);
	frame(&r, HEADERS, END_HEADERS, 1, squeezed_head, sizeof squeezed_head - 1);
	turn(&r);
	stream_end(r.end.st);
	frame(&r, DATA, END_STREAM, 1, "\x01\xff\xff\xff\xff", 5);
	turn(&r);
	session_free(&r.s);
	assert_false(r.end.reset);
	assert_false(stream_spoilt(r.end.st));
	assert_int_equal(stream_peek(r.end.st, &data), 0);
	assert_false(stream_eof(r.end.st));
	assert_true(stream_spoilt(r.end.st));
	raw_fini(&r);
}

/* It reads nothing, and what it is to be answered waits where no window counts it. */
static void
test_answers_that_nobody_reads(void **state)
{
	static const struct session_limits limits = {
		.max_streams = 16, .ping_ms = 60000, .dead_ms = 120000};
	uint32_t id;
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, &limits);
	greet(&r);
	for (id = 1; id < 400001 && r.rc == 1; id += 2) {
		open_one(&r, id);
		frame(&r, 3, 0, id, "\0\0\0\x8", 4);
	}
	assert_int_equal(r.rc, -EDQUOT);
	assert_non_null(strstr(r.why, "too many frames that it must answer for"));
	raw_fini(&r);
}

static void
test_resets_without_end(void **state)
{
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, NULL);
	greet(&r);
	for (uint32_t id = 1; id < 40001;
		id += 2) { /* twenty thousand; nghttp2's own limit is a thousand */
		open_one(&r, id);
		frame(&r, 3, 0, id, "\0\0\0\x8", 4);
		if (id % 64 == 1)
			while (recv(r.fd, r.bytes, sizeof r.bytes, 0) > 0)
				;
	}
	turn(&r);
	assert_int_equal(r.rc, 1);
	assert_int_equal(session_stats(r.s)->streams, 0);
	raw_fini(&r);
}

/* They cost this end as much as those that are taken and given up. Who has acknowledged the limit
 * is cut off at the first. */
static void
test_streams_above_the_limit_without_end(void **state)
{
	static const struct session_limits limits = {
		.max_streams = 1, .ping_ms = 60000, .dead_ms = 120000, .resets_per_s = 20};
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, &limits);
	say(&r, preface, sizeof preface - 1);
	frame(&r, SETTINGS, 0, 0, "", 0);
	for (uint32_t id = 1; id < 401; id += 2)
		open_one(&r, id);
	turn(&r);
	assert_int_equal(r.opened, 1);
	assert_int_equal(r.rc, 1);
	assert_true(session_stats(r.s)->rests > 0);
	raw_fini(&r);
}

/* --- what one of many may take -------------------------------------------------------------- */

static void
drain(struct raw *r)
{
	while (recv(r->fd, r->bytes, sizeof r->bytes, 0) > 0)
		;
}

/* Frames that carry nothing, without end: all that is read of them are as many as the budget has,
 * and a read's worth. */
static void
test_useless_frames_without_end(void **state)
{
	static const struct {
		const char *kind;
		unsigned type, flags;
		uint32_t id;
		const char *body;
		size_t n;
	} floods[] = {
		{"(PRIORITY)", 2, 0, 101, "\0\0\0\0\1", 5},
		{"(of a type that is not known)", 0xee, 0, 0, "", 0},
		{"(GOAWAY)", GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8},
		{"(WINDOW_UPDATE)", WINDOW_UPDATE, 0, 0, "\0\0\0\1", 4},
		{"(PING)", PING, 0, 0, "12345678", 8},
		{"(PING)", PING, ACK, 0, "12345678", 8},
		{"(empty DATA)", DATA, 0, 1, "", 0},
	};
	enum { SENT = 20 * 1000 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(floods); i++) {
		struct raw r;
		int sent;

		raw_init(&r, SESSION_SERVER, NULL);
		greet(&r);
		open_one(&r, 1);
		turn(&r);
		assert_int_equal(r.opened, 1);
		for (sent = 0; sent < SENT && r.rc == 1; sent++) {
			frame(&r, floods[i].type, floods[i].flags, floods[i].id, floods[i].body,
				floods[i].n);
			drain(&r);
		}
		turn(&r);
		if (r.rc != -EDQUOT)
			fail_msg("%s: %d %s", floods[i].kind, r.rc, r.why);
		assert_non_null(strstr(r.why, floods[i].kind));
		assert_in_range(sent, 7900, 8100);
		assert_true(r.end.reset);
		raw_fini(&r);
	}
}

/* 16 kB of fields that are a byte each: unpacked, they are far beyond what is taken. */
static void
test_large_heads_without_end(void **state)
{
	static char head[16384];
	struct raw r;
	uint32_t id;

	(void)state;
	memset(head, 0x90, sizeof head); /* accept-encoding: gzip, deflate (RFC 7541 appendix A) */
	memcpy(head, connect_head, sizeof connect_head - 1);
	raw_init(&r, SESSION_SERVER, NULL);
	greet(&r);
	for (id = 1; id < 1000 && r.rc == 1; id += 2) {
		frame(&r, HEADERS, END_HEADERS, id, head, sizeof head);
		drain(&r);
	}
	turn(&r);
	assert_int_equal(r.rc, -EDQUOT);
	assert_non_null(strstr(r.why, "(large HEADERS)"));
	assert_in_range(id, 3, 41);
	assert_int_equal(r.opened, 0);
	raw_fini(&r);
}

static void
send_opens(struct raw *r, unsigned streams)
{
	auto_buf struct buf all;

	buf_init(&all, BUF_UNLIMITED);
	for (uint32_t id = 1; id < 2 * streams; id += 2) {
		const unsigned char h[9] = {0, 0, sizeof connect_head - 1, HEADERS, END_HEADERS, 0,
			0, (unsigned char)(id >> 8), (unsigned char)id};

		buf_add(&all, h, sizeof h);
		buf_add(&all, connect_head, sizeof connect_head - 1);
	}
	assert_int_equal(send(r->fd, buf_at(&all), buf_len(&all), 0), buf_len(&all));
}

/* Each stream that is opened takes its owner 300 us: some have their turn, and then others than
 * this session. With many that are late it is some all the same, or the turns would cost more than
 * what is done in them. */
static void
test_a_turn_has_an_end(void **state)
{
	static const struct {
		unsigned others_late, least, most;
	} cases[] = {{0, 32, 36}, {31, 8, 8}, {1000, 4, 4}};
	enum { STREAMS = 500 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct raw r;

		raw_init(&r, SESSION_SERVER, NULL);
		greet(&r);
		turn(&r);
		r.budget.late = cases[i].others_late;
		r.cost_us = 300;
		send_opens(&r, STREAMS);
		while (r.opened < STREAMS) {
			unsigned before = r.opened;

			loop_turn(r.loop);
			drain(&r);
			assert_in_range(r.opened - before, 0, cases[i].most);
			assert_true(r.opened - before >= cases[i].least || before == 0 ||
				r.opened == STREAMS);
		}
		turn(&r);
		assert_int_equal(r.rc, 1);
		assert_int_equal(r.budget.late, cases[i].others_late);
		raw_fini(&r);
	}
}

/* While its owner is told what came, nothing is read: the peer cannot be heard, and is neither
 * silent nor dead. */
static void
test_who_is_not_read_is_not_dead(void **state)
{
	static const struct session_limits limits = {
		.max_streams = 1000, .ping_ms = 500, .dead_ms = 1000, .probe_ms = 100};
	enum { STREAMS = 500 };
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_SERVER, &limits);
	greet(&r);
	turn(&r);
	r.cost_us = 20000;
	send_opens(&r, STREAMS);
	while (r.rc == 1 && r.opened < STREAMS) {
		loop_turn(r.loop);
		drain(&r);
		assert_false(r.rc == 1 && session_is_silent(r.s));
	}
	assert_string_equal(r.why, "");
	assert_int_equal(r.opened, STREAMS);
	r.cost_us = 0;
	while (r.rc == 1 && r.opened == STREAMS) { /* nothing comes any more: then it is */
		loop_turn(r.loop);
		drain(&r);
		clock_pass(10000);
	}
	assert_int_equal(r.rc, -ETIMEDOUT);
	raw_fini(&r);
}

/* --- memory and time --------------------------------------------------------------------- */

static void
write_pieces(struct end *e)
{
	for (int i = 0; i < 100; i++)
		stream_write(e->st, "0123456789", MIN(10u, stream_room(e->st)));
}

static void
test_fifty_of_a_hundred_stall(void **state)
{
	struct bed b;
	struct end e[100];

	(void)state;
	bed_init(&b, true);
	for (int i = 0; i < 100; i++)
		bed_open(&b, &e[i], "a:1");
	bed_until(&b, b.n_ends == 100);
	for (int i = 0; i < 50; i++)
		b.ends[i]->stalled = true;
	for (int i = 0; i < 50; i++)
		bed_until(&b, (write_pieces(&e[i]), stream_room(e[i].st) < STREAM_OUT_BYTES / 2));
	for (int i = 50; i < 100; i++)
		bed_write(&e[i], 200000);
	for (int i = 50; i < 100; i++)
		bed_until(&b, e[i].got == 200000);
	assert_true(b.far_budget.held <= 50u * STREAM_WINDOW_BASE);
	bed_fini_open(&b, e, 100);
}

static void
test_short_memory_holds_writers(void **state)
{
	struct bed b;
	struct end e;

	(void)state;
	bed_init(&b, false);
	bed_open(&b, &e, "a:1");
	assert_int_equal(stream_room(e.st), STREAM_OUT_BYTES);
	b.near_budget.granted = b.near_budget.limit;
	stream_write(e.st, "x", 1);
	assert_int_equal(stream_room(e.st), STREAM_OUT_SHORT - 1);
	b.near_budget.granted = 0;
	bed_fini_open(&b, &e, 1);
}

/* The bulk of a hundred streams waits; a ping that is sent then is not behind it. */
static void
test_pings_pass_bulk(void **state)
{
	enum { STREAMS = 40 };
	static char zeros[STREAM_OUT_BYTES];
	struct session_limits limits = {.max_streams = 100, .ping_ms = 100, .dead_ms = 100000};
	struct end e[STREAMS] = {0};
	struct raw r;
	size_t data = 0;

	(void)state;
	raw_init(&r, SESSION_CLIENT, &limits);
	while (recv(r.fd, r.bytes, sizeof preface - 1, 0) < 0)
		patience_turn(r.loop);
	/* Windows of 2 GB, and never a word again: so a ping is due. */
	frame(&r, SETTINGS, 0, 0, "\0\4\x7f\xff\xff\xff", 6);
	frame(&r, WINDOW_UPDATE, 0, 0, "\x7f\0\0\0", 4);
	assert_true(await(&r, PING, NULL) >= 0); /* the first, at the start */
	frame(&r, PING, ACK, 0, "\0\0\0\0\0\0\0\0", 8);
	for (int i = 0; i < STREAMS; i++) {
		assert_int_equal(session_open(r.s, &(struct stream_request){.authority = "a:1"},
					 &stream_events, &e[i], &e[i].st),
			0);
		stream_write(e[i].st, zeros, stream_room(e[i].st));
	}
	while (session_stats(r.s)->pings < 2)
		patience_turn(r.loop);
	assert_true(r.budget.queued > 3 << 20);
	assert_true(await(&r, PING, &data) >= 0);
	assert_true(data < 1 << 20); /* what the socket held, and one buffer of the session */
	for (int i = 0; i < STREAMS; i++)
		stream_close(&e[i].st, STREAM_CANCELLED);
	raw_fini(&r);
}

/* The node's heartbeat is the hub's as well: five minutes of silence would be borne, had it not
 * said 100 ms. */
static void
test_takes_over_the_servers_heartbeat(void **state)
{
	struct session_limits limits = {.max_streams = 100, .ping_ms = 300000, .dead_ms = 600000};
	struct raw r;

	(void)state;
	raw_init(&r, SESSION_CLIENT, &limits);
	while (recv(r.fd, r.bytes, sizeof preface - 1, 0) < 0)
		patience_turn(r.loop);
	frame(&r, SETTINGS, 0, 0, "", 0);
	assert_true(await(&r, PING, NULL) >= 0); /* the first, at the start */
	frame(&r, PING, ACK, 0, "\0\0\0\0\0\0\0\0", 8);
	frame(&r, PING, 0, 0, "beat\0\0\0\x64", 8);
	frame(&r, PING, 0, 0, "beat\0\0\0\x32", 8); /* too often */
	frame(&r, PING, 0, 0, "beat\x7f\xff\xff\xff", 8);
	frame(&r, PING, 0, 0, "bear\0\0\1\0", 8);
	while (r.rc == 1)
		patience_turn(r.loop);
	assert_int_equal(r.rc, -ETIMEDOUT);
	assert_string_equal(r.why, "nothing was heard for 1200 ms");
	raw_fini(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_over_the_window),
		cmocka_unit_test(test_the_connection_gets_its_window_back_early),
		cmocka_unit_test(test_rule_breakers_are_cut_off),
		cmocka_unit_test(test_numbers_out_of_order),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_not_what_was_agreed),
		cmocka_unit_test(test_not_what_was_agreed_at_the_end),
		cmocka_unit_test(test_answers_that_nobody_reads),
		cmocka_unit_test(test_resets_without_end),
		cmocka_unit_test(test_streams_above_the_limit_without_end),
		cmocka_unit_test(test_useless_frames_without_end),
		cmocka_unit_test(test_large_heads_without_end),
		cmocka_unit_test(test_a_turn_has_an_end),
		cmocka_unit_test(test_who_is_not_read_is_not_dead),
		cmocka_unit_test(test_fifty_of_a_hundred_stall),
		cmocka_unit_test(test_short_memory_holds_writers),
		cmocka_unit_test(test_pings_pass_bulk),
		cmocka_unit_test(test_takes_over_the_servers_heartbeat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
