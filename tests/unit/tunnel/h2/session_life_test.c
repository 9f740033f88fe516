/* When a session pings, has the kernel probe, falls silent and is dead, to the millisecond, by the
 * test's own clock and with a kernel that says what the test wants. Found by tests/mutation. */
#include "tunnel/h2/session_private.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "tests/fake/clock.h"

enum { HEARTBEAT = 4000, DEAD = 9000, NEVER = 0 };

static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

/* A server's session whose peer, a socket of the test, has greeted and answered the first pings. */
struct life {
	struct loop *loop;
	struct session_budget budget;
	struct liveness *liveness;
	struct liveness_line line;
	struct session *s;
	int fd; /* the peer's */
	uint64_t start_ms; /* the peer was heard last */
	bool mute; /* answers no ping */
	unsigned pings; /* that came to the peer */
	uint64_t pinged_ms, silent_ms, ended_ms; /* the first of each, since then; or NEVER */
	char payload[H2_PING_BYTES + 1]; /* of the last ping */
	char why[128];
	int rc;
};

/* --- the kernel ----------------------------------------------------------------------------- */

static struct {
	bool tells; /* of this connection, as of one that is TCP */
	bool answered; /* probes are, and pings acknowledged */
	struct sock_received received;
	unsigned probes;
	uint64_t probed_ms; /* the first */
	uint64_t acknowledged_ms;
	bool drains;
	bool stopped; /* one of the paths */
	int fd;
} kernel;

bool __wrap_sock_received(int fd, struct sock_received *r);
bool __wrap_sock_probe(int fd, bool on);
bool __wrap_sock_drains(int fd, unsigned within_ms);
bool __wrap_sock_paths_lost(struct sock_paths *p, int fd, uint64_t now_ms, struct in6_addr *local);

bool
__wrap_sock_received(int fd, struct sock_received *r)
{
	assert_int_equal(fd, kernel.fd);
	*r = kernel.received;
	if (kernel.acknowledged_ms != NEVER)
		r->ago_ms = (unsigned)(mono_ms() - kernel.acknowledged_ms);
	return kernel.tells;
}

bool
__wrap_sock_probe(int fd, bool on)
{
	assert_int_equal(fd, kernel.fd);
	if (!on)
		return true;
	if (kernel.probes++ == 0)
		kernel.probed_ms = mono_ms();
	kernel.received.segments += kernel.answered;
	return kernel.tells;
}

bool
__wrap_sock_drains(int fd, unsigned within_ms)
{
	assert_int_equal(fd, kernel.fd);
	assert_int_equal(within_ms, 1000);
	return kernel.drains;
}

bool
__wrap_sock_paths_lost(struct sock_paths *p, int fd, uint64_t now_ms, struct in6_addr *local)
{
	(void)now_ms, (void)local;
	assert_int_equal(fd, kernel.fd);
	p->stopped = kernel.stopped;
	return false;
}

/* --- the peer ------------------------------------------------------------------------------- */

static uint64_t
since(const struct life *l)
{
	return loop_now_ms(l->loop) - l->start_ms;
}

static void
say(const struct life *l, const void *bytes, size_t n)
{
	assert_int_equal(write(l->fd, bytes, n), n);
}

/* The session's first frames come whole: its socket is never full. */
static void
hear(struct life *l)
{
	static const uint8_t ping[] = {0, 0, 8, 6}, answer[] = {0, 0, 8, 6, 1, 0, 0, 0, 0};
	uint8_t bytes[4096];
	ssize_t n = read(l->fd, bytes, sizeof bytes);

	for (ssize_t i = 0; i + H2_FRAME_HEAD <= n;) {
		const uint8_t *payload = bytes + i + H2_FRAME_HEAD;

		if (memcmp(bytes + i, ping, sizeof ping) == 0 && bytes[i + 4] == 0) {
			l->pings++;
			if (kernel.answered)
				kernel.acknowledged_ms = mono_ms();
			memcpy(l->payload, payload, H2_PING_BYTES);
			if (l->pinged_ms == NEVER)
				l->pinged_ms = since(l);
			if (!l->mute) {
				say(l, answer, sizeof answer);
				say(l, payload, H2_PING_BYTES);
			}
		}
		i += H2_FRAME_HEAD + (bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]);
	}
}

/* --- the session ---------------------------------------------------------------------------- */

static struct stream *taken;

static void
on_reset(void *arg, unsigned code)
{
	(void)arg, (void)code;
	stream_close(&taken, STREAM_DONE);
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	static const struct stream_events none = {.reset = on_reset};

	(void)arg, (void)request, (void)reason;
	taken = st;
	stream_accept(st, &none, NULL);
	return 0;
}

static void
on_silent(void *arg, bool is_silent)
{
	struct life *l = arg;

	if (is_silent && l->silent_ms == NEVER)
		l->silent_ms = since(l);
}

static void
on_ended(void *arg, int rc, const char *why)
{
	struct life *l = arg;

	l->rc = rc;
	l->ended_ms = since(l);
	snprintf(l->why, sizeof l->why, "%s", why);
	session_free(&l->s);
}

static const struct session_events events = {
	.opened = on_opened, .silent = on_silent, .ended = on_ended};

static void
turns(struct life *l)
{
	for (int i = 0; i < 3; i++) {
		loop_turn(l->loop);
		hear(l);
	}
}

/* Until so long after the peer was heard, or the session ends. */
static void
pass_until(struct life *l, uint64_t ms)
{
	while (l->rc == 1 && since(l) < ms) {
		clock_pass(1000);
		turns(l);
	}
}

static int
wire_fd(struct transport *w)
{
	(void)w;
	return kernel.fd;
}

/* Which peer it is; each connection has a line of its own. */
static struct liveness_line to_hub, to_node;

static void
life_open(struct life *l, const struct session_setup *with)
{
	static const struct session_limits limits = {
		.max_streams = 10, .ping_ms = HEARTBEAT, .dead_ms = DEAD};
	static struct transport_ops ops;
	struct session_setup setup = *with;
	int fd[2];

	memset(l, 0, sizeof *l);
	memset(&kernel, 0, sizeof kernel);
	kernel.received.ago_ms = UINT_MAX;
	l->budget.limit = 1 << 20;
	l->rc = 1;
	assert_int_equal(loop_new(&l->loop, NULL), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	l->fd = fd[0];
	l->liveness = liveness_new();
	setup.loop = l->loop;
	setup.role = SESSION_SERVER;
	setup.wire = transport_socket(l->loop, kernel.fd = fd[1]);
	ops = *setup.wire->ops;
	ops.fd = wire_fd; /* as TLS has it */
	setup.wire->ops = &ops;
	setup.budget = &l->budget;
	setup.limits = &limits;
	setup.events = &events;
	setup.arg = l;
	if (with->line != NULL) {
		liveness_join(l->liveness, with->line == &to_node ? "edge-1" : "hub:10000",
			&l->line, loop_now_ms(l->loop));
		setup.line = &l->line;
	}
	assert_int_equal(session_new(&setup, &l->s), 0);
}

static void
life_forget(struct life *l)
{
	l->mute = true;
	l->start_ms = loop_now_ms(l->loop);
	l->pings = 0;
	l->pinged_ms = l->silent_ms = l->ended_ms = kernel.probed_ms = NEVER;
	kernel.probes = 0;
}

/* All has been said and answered, this very millisecond; from now on the peer says nothing. */
static void
life_init(struct life *l, const struct session_setup *with)
{
	life_open(l, with);
	say(l, hello, sizeof hello - 1);
	turns(l);
	assert_true(session_is_settled(l->s) && l->s->ping_ms == 0);
	assert_int_equal(l->s->heard_ms, loop_now_ms(l->loop));
	life_forget(l);
}

static void
life_fini(struct life *l)
{
	session_free(&l->s);
	liveness_leave(&l->line);
	close(l->fd);
	liveness_free(&l->liveness);
	loop_free(&l->loop);
}

static const struct session_setup plain = {0}, keeps = {.says_beat = true, .line = &to_hub},
				  follows = {.says_beat = true, .line = &to_hub, .follows = true},
				  node = {.line = &to_node};

/* The hub's end, once the node has said that it keeps the connection. */
static void
life_init_watcher(struct life *l)
{
	static const char kept[] = "\0\0\10\6\0\0\0\0\0kept\0\0\17\240";

	life_init(l, &node);
	l->mute = false;
	say(l, kept, sizeof kept - 1);
	turns(l);
	life_forget(l);
}

/* --- a peer that says nothing --------------------------------------------------------------- */

static void
test_pings_alone(void **state)
{
	struct life l;

	(void)state;
	life_init(&l, &plain);
	pass_until(&l, DEAD + 1000);
	assert_int_equal(l.pinged_ms, HEARTBEAT);
	assert_int_equal(l.pings, 1);
	assert_int_equal(l.silent_ms, HEARTBEAT + 1000);
	assert_int_equal(l.rc, -ETIMEDOUT);
	assert_int_equal(l.ended_ms, DEAD);
	assert_string_equal(l.why, "nothing was heard for 9000 ms");
	life_fini(&l);
}

/* The table at the head of session_life.c. */
static void
test_a_link_that_is_gone(void **state)
{
	struct life l;

	(void)state;
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			life_init_watcher(&l);
		else
			life_init(&l, i == 0 ? &keeps : &follows);
		kernel.tells = true;
		pass_until(&l, DEAD + 2000);
		assert_int_equal(kernel.probes, i < 2);
		if (i < 2)
			assert_int_equal(
				kernel.probed_ms - l.start_ms, ((const int[]){8600, 8950})[i]);
		assert_int_equal(l.pinged_ms, ((const int[]){9200, 9200, 9000})[i]);
		assert_int_equal(l.rc, -ETIMEDOUT);
		assert_int_equal(l.ended_ms, 9900);
		assert_string_equal(l.why, "nothing was heard for 9900 ms, not even by its kernel");
		life_fini(&l);
	}
}

/* A socket that cannot probe is asked by a ping at that time. */
static void
test_a_kernel_that_cannot_probe(void **state)
{
	struct life l;

	(void)state;
	life_init(&l, &keeps);
	pass_until(&l, DEAD + 2000);
	assert_int_equal(l.pinged_ms, 8600);
	assert_int_equal(l.ended_ms, 9900);
	life_fini(&l);
}

/* Probes are answered and pings are not: the program has stopped. */
static void
test_a_program_that_stopped(void **state)
{
	struct life l;

	(void)state;
	for (int i = 0; i < 2; i++) {
		life_init(&l, i == 0 ? &keeps : &follows);
		kernel.tells = kernel.answered = true;
		pass_until(&l, 70 * 1000);
		assert_in_range(kernel.probes, 6, 8);
		assert_int_equal(l.pinged_ms, 15 * HEARTBEAT + (i == 0 ? 0 : LIVENESS_LOOK_MS));
		assert_int_equal(l.silent_ms, l.pinged_ms + 1000);
		assert_int_equal(l.ended_ms, l.pinged_ms + DEAD - HEARTBEAT);
		assert_non_null(strstr(l.why, " ms, though its machine acknowledges what is sent"));
		life_fini(&l);
	}
}

/* Where the connection was used within a minute, a lost peer is found as soon as by pings. */
static void
test_a_connection_in_use(void **state)
{
	struct life l;

	(void)state;
	for (int i = 0; i < 3; i++) {
		life_init(&l, &keeps);
		kernel.tells = true;
		if (i == 2)
			l.s->stats.streams = 1;
		else
			l.s->used_ms = l.start_ms + HEARTBEAT + 1 - (60 * 1000 + (i == 1));
		session_look(l.s);
		pass_until(&l, i == 1 ? DEAD - 1000 : HEARTBEAT + 1);
		assert_int_equal(l.pinged_ms, i == 1 ? NEVER : HEARTBEAT);
		l.s->stats.streams = 0;
		life_fini(&l);
	}
}

/* So it is once the peer opens a stream, a moment after a look. */
static void
test_a_stream_of_the_peer(void **state)
{
	static const char connect[] = "\0\0\16\1\4\0\0\0\1\2\7CONNECT\1\3a:1";
	struct life l;

	(void)state;
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			life_init(&l, &keeps);
		else
			life_init_watcher(&l);
		kernel.tells = kernel.answered = true;
		l.mute = false;
		while (i == 0 && kernel.probes == 0)
			pass_until(&l, since(&l) + 100);
		pass_until(&l, since(&l) + 300); /* the probe's answer is seen */
		say(&l, connect, sizeof connect - 1);
		turns(&l);
		life_forget(&l);
		kernel.answered = false;
		pass_until(&l, 2 * DEAD);
		assert_int_equal(l.pinged_ms, i == 0 ? HEARTBEAT : HEARTBEAT / 8 * 9);
		assert_int_equal(l.ended_ms, DEAD);
		life_fini(&l);
	}
}

/* Other connections to the peer speak, so that nothing is asked on this one; the NAT in between
 * would forget it. */
static void
test_a_connection_that_rests(void **state)
{
	struct life l;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct liveness_line other;

		if (i == 0)
			life_init(&l, &keeps);
		else
			life_init_watcher(&l);
		liveness_join(l.liveness, i == 0 ? "hub:10000" : "edge-1", &other, l.start_ms);
		while (l.rc == 1 && since(&l) < LIVENESS_NAT_MS + 1000) {
			liveness_heard(&other, loop_now_ms(l.loop));
			pass_until(&l, since(&l) + 100);
		}
		assert_int_equal(l.pinged_ms, i == 0 ? LIVENESS_NAT_MS : NEVER);
		assert_int_equal(kernel.probes, 0);
		liveness_leave(&other);
		life_fini(&l);
	}
}

/* This program stood still: what came meanwhile was not seen, and the peer gets its time anew. */
static void
test_time_that_was_not_seen(void **state)
{
	struct life l;

	(void)state;
	life_init(&l, &keeps);
	kernel.tells = true;
	clock_pass(20 * 1000 * 1000);
	turns(&l);
	assert_int_equal(l.rc, 1);
	pass_until(&l, 30 * 1000);
	assert_int_equal(l.ended_ms, 20 * 1000 + 900);
	life_fini(&l);
	/* By pings alone it is heard in the same turn, or is dead. */
	life_init(&l, &plain);
	clock_pass(20 * 1000 * 1000);
	turns(&l);
	assert_int_equal(l.rc, -ETIMEDOUT);
	life_fini(&l);
}

/* And what waits in the socket is read before anybody is asked, silent or dead. */
static void
test_what_came_meanwhile(void **state)
{
	static const char answer[] = "\0\0\10\6\1\0\0\0\0\0\0\0\0\0\0\0\0";
	struct life l;

	(void)state;
	for (int i = 0; i < 3; i++) {
		life_init(&l, &plain);
		pass_until(&l, i == 1 ? HEARTBEAT + 500 : 500);
		say(&l, answer, sizeof answer - 1);
		clock_pass(((const unsigned[]){HEARTBEAT, 1000, DEAD})[i] * 1000);
		turns(&l);
		assert_int_equal(l.pings, i == 1);
		assert_int_equal(l.silent_ms, NEVER);
		assert_int_equal(l.rc, 1);
		life_fini(&l);
	}
}

/* --- silence -------------------------------------------------------------------------------- */

/* Behind a hub that was lost another one has a thousand handshakes to do first. */
static void
test_before_the_greeting(void **state)
{
	const struct session_setup patient = {.patient = true};
	struct life l;

	(void)state;
	for (int i = 0; i < 3; i++) {
		life_open(&l, i == 0 ? &plain : &patient);
		if (i == 2)
			say(&l, hello, sizeof hello - 1);
		l.mute = true;
		l.start_ms = loop_now_ms(l.loop);
		pass_until(&l, DEAD - 1);
		assert_int_equal(l.silent_ms, ((const int[]){1000, NEVER, HEARTBEAT})[i]);
		pass_until(&l, DEAD + 1);
		assert_int_equal(l.rc, -ETIMEDOUT);
		life_fini(&l);
	}
}

/* What was queued before the ping still leaves: it waits until a second after that has ended. */
static void
test_a_ping_that_waits_here(void **state)
{
	struct life l;

	(void)state;
	life_init(&l, &plain);
	kernel.drains = true;
	pass_until(&l, HEARTBEAT + 1500);
	kernel.drains = false;
	pass_until(&l, DEAD - 1);
	assert_int_equal(l.silent_ms, HEARTBEAT + 2000);
	life_fini(&l);
}

/* Of two paths one has stopped: what is sent now shows the kernel which. */
static void
test_a_path_that_stopped(void **state)
{
	struct in6_addr local;
	struct life l;

	(void)state;
	life_init(&l, &plain);
	pass_until(&l, HEARTBEAT + 10);
	for (unsigned i = 0; i < 2; i++) {
		kernel.stopped = i == 0;
		assert_false(session_paths_lost(l.s, &local));
		turns(&l);
		assert_int_equal(l.pings, 2);
	}
	life_fini(&l);
}

/* The first stream since the peer was heard gives it a second, and further ones no more. */
static void
test_streams_ask(void **state)
{
	struct life l;

	(void)state;
	life_init(&l, &plain);
	pass_until(&l, 1500);
	session_asked(l.s);
	pass_until(&l, 2000);
	session_asked(l.s);
	pass_until(&l, HEARTBEAT);
	assert_int_equal(l.pinged_ms, 2500);
	assert_int_equal(l.silent_ms, 3500);
	life_fini(&l);
}

/* --- heartbeats ----------------------------------------------------------------------------- */

static void
beat(const struct life *l, const char *mark, uint32_t ms)
{
	const uint32_t n = htonl(ms);
	uint8_t payload[H2_PING_BYTES];

	memcpy(payload, mark, 4);
	memcpy(payload + 4, &n, sizeof n);
	session_heed_beat(l->s, payload);
}

static void
test_heartbeats_of_the_peer(void **state)
{
	struct life l;

	(void)state;
	life_init(&l, &node);
	beat(&l, "beat", 99);
	beat(&l, "beat", 5 * 60 * 1000 + 1);
	beat(&l, "boat", 800);
	assert_int_equal(l.s->limits.ping_ms, HEARTBEAT);
	beat(&l, "beat", 5 * 60 * 1000);
	assert_int_equal(l.s->limits.ping_ms, 5 * 60 * 1000 / 8 * 9);
	beat(&l, "beat", 100);
	assert_int_equal(l.s->limits.ping_ms, 112);
	assert_int_equal(l.s->limits.dead_ms, 1200);
	assert_int_equal(l.s->part, LIFE_PINGS);
	beat(&l, "kept", 800);
	assert_int_equal(l.s->limits.ping_ms, 900);
	assert_int_equal(l.s->part, LIFE_WATCHES);
	life_fini(&l);
	/* Where nobody knows the peer, there is nothing to watch; and who keeps it is not told. */
	life_init(&l, &plain);
	beat(&l, "kept", 800);
	assert_int_equal(l.s->limits.ping_ms, 900);
	assert_int_equal(l.s->part, LIFE_PINGS);
	life_fini(&l);
	for (int i = 0; i < 2; i++) {
		life_init(&l, i == 0 ? &keeps : &follows);
		beat(&l, "beat", 800);
		beat(&l, "kept", 800);
		assert_int_equal(l.s->limits.ping_ms, HEARTBEAT);
		assert_int_equal(l.s->part, i == 0 ? LIFE_KEEPS : LIFE_FOLLOWS);
		life_fini(&l);
	}
}

static void
test_heartbeats_that_are_said(void **state)
{
	const struct session_setup says = {.says_beat = true};
	struct life l;

	(void)state;
	for (int i = 0; i < 2; i++) {
		life_open(&l, i == 0 ? &says : &keeps);
		say(&l, hello, sizeof hello - 1);
		turns(&l);
		assert_int_equal(l.pings, 1 + i);
		assert_memory_equal(
			l.payload, i == 0 ? "beat\0\0\17\240" : "kept\0\0\17\240", H2_PING_BYTES);
		life_fini(&l);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pings_alone),
		cmocka_unit_test(test_a_link_that_is_gone),
		cmocka_unit_test(test_a_kernel_that_cannot_probe),
		cmocka_unit_test(test_a_program_that_stopped),
		cmocka_unit_test(test_a_connection_in_use),
		cmocka_unit_test(test_a_stream_of_the_peer),
		cmocka_unit_test(test_a_connection_that_rests),
		cmocka_unit_test(test_time_that_was_not_seen),
		cmocka_unit_test(test_what_came_meanwhile),
		cmocka_unit_test(test_before_the_greeting),
		cmocka_unit_test(test_a_ping_that_waits_here),
		cmocka_unit_test(test_a_path_that_stopped),
		cmocka_unit_test(test_streams_ask),
		cmocka_unit_test(test_heartbeats_of_the_peer),
		cmocka_unit_test(test_heartbeats_that_are_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
