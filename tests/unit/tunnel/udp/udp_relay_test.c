/* A stream of datagrams joined with a UDP socket: near end ═ session ═ far relay ═ target. */
#include "tunnel/udp/udp_relay.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/tunnel/h2/tunnel_bed.h"

struct rig {
	struct bed b; /* first: take() gets the rig by it */
	struct addr to[3];
	size_t n_to;
	int target; /* bound to `to[bound]`; -1 */
	struct udp_relay *relay;
	struct udp_relay_report report;
	struct dgram_tally tally; /* the report's */
	struct stream *st;
	struct dgram_reader reader;
	unsigned status, code;
	char reason[64];
	size_t got, bytes;
	char last[16];
};

static void
on_far_ended(void *arg, const struct udp_relay_report *report)
{
	struct rig *r = arg;

	r->report = *report;
	r->tally = *report->tally;
	udp_relay_free(&r->relay);
}

static bool
take(struct bed *b, struct stream *st)
{
	static const struct stream_events none = {0};
	struct rig *r = (struct rig *)b;

	stream_accept(st, &none, NULL);
	r->relay = udp_relay_start(&(struct udp_relay_setup){.loop = b->loop,
		.stream = st,
		.to = r->to,
		.n_to = r->n_to,
		.ended = on_far_ended,
		.arg = r});
	return true;
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	struct rig *r = arg;

	r->status = status;
	snprintf(r->reason, sizeof r->reason, "%s", reason);
}

static void
on_readable(void *arg)
{
	struct rig *r = arg;
	const void *data;
	size_t n;

	while (dgram_get(&r->reader, r->st, &data, &n) > 0) {
		r->got++;
		r->bytes += n;
		snprintf(r->last, sizeof r->last, "%.*s", (int)n, n > 0 ? (const char *)data : "");
	}
}

static void
on_writable(void *arg)
{
	(void)arg;
}

static void
on_reset(void *arg, unsigned code)
{
	((struct rig *)arg)->code = code;
}

static const struct stream_events near_events = {on_answered, on_readable, on_writable, on_reset};

/* So many addresses, of which the last one has a socket. */
static void
start(struct rig *r, size_t n_to)
{
	memset(r, 0, sizeof *r);
	bed_init(&r->b, false);
	r->b.take = take;
	r->n_to = n_to;
	for (size_t i = 0; i < n_to; i++) {
		int fd = -1;

		r->to[i] = addr_ipv4(INADDR_LOOPBACK, 0);
		assert_int_equal(sock_udp(&r->to[i], 0, &fd, NULL), 0);
		assert_int_equal(getsockname(fd, &r->to[i].sa, &r->to[i].len), 0);
		if (i + 1 == n_to)
			r->target = fd;
		else
			close(fd); /* a port at which nobody listens */
	}
}

static int
ask(struct rig *r)
{
	const struct stream_request request = {.authority = "node:53", .udp = true};

	return session_open(r->b.near, &request, &near_events, r, &r->st);
}

static void
open_flow(struct rig *r)
{
	int rc;

	bed_until(&r->b, (rc = ask(r)) != -EINPROGRESS);
	assert_int_equal(rc, 0);
	bed_until(&r->b, r->status != 0);
}

static void
stop(struct rig *r)
{
	stream_close(&r->st, STREAM_CANCELLED);
	dgram_reader_fini(&r->reader);
	bed_until(&r->b, r->relay == NULL);
	if (r->target >= 0)
		close(r->target);
	bed_fini(&r->b);
}

/* What the target hears next, and from whom; it says the same back. */
static size_t
echo(struct rig *r)
{
	static char data[DGRAM_BUFFER];
	struct addr from = {.len = sizeof from.in6};
	ssize_t n;

	bed_until(&r->b, (n = recvfrom(r->target, data, sizeof data, 0, &from.sa, &from.len)) >= 0);
	assert_int_equal(sendto(r->target, data, (size_t)n, 0, &from.sa, from.len), n);
	return (size_t)n;
}

static void
test_sizes(void **state)
{
	static const size_t sizes[] = {0, 1, 1400, 16384, 65507, 0};
	static char data[DATAGRAM_MAX];
	struct rig r;

	(void)state;
	start(&r, 1);
	open_flow(&r);
	assert_int_equal(r.status, 200);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t before = r.bytes;

		assert_true(dgram_put(r.st, data, sizes[i]));
		assert_int_equal(echo(&r), sizes[i]);
		bed_until(&r.b, r.got == i + 1);
		assert_int_equal(r.bytes - before, sizes[i]);
	}
	stream_close(&r.st, STREAM_CANCELLED);
	bed_until(&r.b, r.relay == NULL);
	assert_string_equal(r.report.why, "done");
	assert_int_equal(r.tally.to_stream.datagrams, ARRAY_LEN(sizes));
	assert_int_equal(r.tally.from_stream.datagrams, ARRAY_LEN(sizes));
	assert_int_equal(r.tally.to_stream.bytes, r.bytes);
	stop(&r);
}

/* What no IPv4 can carry is dropped, and nothing else with it. */
static void
test_too_long(void **state)
{
	static char data[DATAGRAM_MAX];
	struct rig r;

	(void)state;
	start(&r, 1);
	open_flow(&r);
	assert_true(dgram_put(r.st, data, DATAGRAM_MAX));
	assert_true(dgram_put(r.st, "x", 1));
	assert_int_equal(echo(&r), 1);
	assert_int_equal(udp_relay_tally(r.relay)->dropped[DROP_SIZE], 1);
	stop(&r);
}

/* The first two addresses refuse: what was sent meanwhile comes at the third, each datagram
 * once. */
static void
test_addresses_in_turn(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 3);
	open_flow(&r);
	for (unsigned i = 0; i < 3; i++)
		assert_true(dgram_put(r.st, "abc", i));
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(echo(&r), i);
	bed_until(&r.b, r.got == 3);
	assert_string_equal(r.last, "ab");
	assert_int_equal(addr_port(udp_relay_to(r.relay)), addr_port(&r.to[2]));
	stop(&r);
}

static void
test_nobody_listens(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 3);
	close(r.target);
	r.target = -1;
	open_flow(&r);
	assert_int_equal(r.status, 200); /* UDP has no dial */
	assert_true(dgram_put(r.st, "a", 1));
	bed_until(&r.b, r.relay == NULL && r.code != 0);
	assert_int_equal(r.code, STREAM_BROKEN);
	assert_string_equal(r.report.why, "port unreachable");
	stop(&r);
}

/* The target has answered, so it is this one; that it goes away later ends the flow. */
static void
test_target_goes(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 1);
	open_flow(&r);
	assert_true(dgram_put(r.st, "a", 1));
	echo(&r);
	bed_until(&r.b, r.got == 1);
	close(r.target);
	r.target = -1;
	assert_true(dgram_put(r.st, "a", 1));
	bed_until(&r.b, r.relay == NULL && r.code != 0);
	assert_int_equal(r.code, STREAM_BROKEN);
	stop(&r);
}

/* The other end reads nothing off the wire: what waits is bounded, the rest is dropped, and what
 * comes is still in order. */
static void
test_no_room(void **state)
{
	static char data[1000];
	struct rig r;
	unsigned taken = 0, dropped = 0, last = 0, number;

	(void)state;
	start(&r, 1);
	open_flow(&r);
	for (unsigned i = 1; i <= 1000; i++) {
		memcpy(data, &i, sizeof i);
		if (dgram_put(r.st, data, sizeof data))
			taken++;
		else
			dropped++;
	}
	assert_in_range(taken, 100, DGRAM_QUEUE_BYTES / sizeof data);
	assert_int_equal(taken + dropped, 1000);
	assert_in_range(stream_queued(r.st), 1, DGRAM_QUEUE_BYTES);
	for (unsigned i = 0; i < taken; i++) {
		ssize_t n;

		bed_until(&r.b, (n = recv(r.target, data, sizeof data, 0)) >= 0);
		assert_int_equal(n, sizeof data);
		memcpy(&number, data, sizeof number);
		assert_int_equal(number, last + 1);
		last = number;
	}
	assert_true(dgram_put(r.st, data, sizeof data)); /* there is room again */
	stop(&r);
}

/* A flow that is quiet does not hold up who stops. */
static void
test_drain(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 1);
	open_flow(&r);
	udp_relay_drain(r.relay);
	bed_until(&r.b, r.relay == NULL && r.code != 0);
	assert_int_equal(r.code, STREAM_CANCELLED);
	assert_string_equal(r.report.why, "the program stops");
	stop(&r);
}

static void
test_no_capsules(void **state)
{
	struct rig r;

	(void)state;
	start(&r, 1);
	open_flow(&r);
	stream_write(r.st, "\0\0", 2); /* a datagram without a context */
	bed_until(&r.b, r.relay == NULL && r.code != 0);
	assert_int_equal(r.code, STREAM_CANCELLED);
	assert_string_equal(r.report.why, "what came is no capsules");
	stop(&r);
}

/* Before the other end has said what it takes, and where it has said that it takes none. */
static void
test_not_asked_of_others(void **state)
{
	struct rig r;
	struct stream_request request = {.authority = "node", .udp = true};
	int rc;

	(void)state;
	start(&r, 1);
	assert_int_equal(ask(&r), -EINPROGRESS);
	assert_int_equal(session_open(r.b.near, &request, &near_events, &r, &r.st), -EINVAL);
	open_flow(&r);
	stop(&r);
	memset(&r, 0, sizeof r);
	r.target = -1;
	bed_init_squeezed(&r.b); /* of this bed the server takes none */
	bed_until(&r.b, (rc = ask(&r)) != -EINPROGRESS);
	assert_int_equal(rc, -EPROTONOSUPPORT);
	stop(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_addresses_in_turn),
		cmocka_unit_test(test_nobody_listens),
		cmocka_unit_test(test_target_goes),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_no_capsules),
		cmocka_unit_test(test_not_asked_of_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
