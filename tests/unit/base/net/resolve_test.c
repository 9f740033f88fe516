/* base/net/resolve against a DNS server of the test's own on 127.0.0.1. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/patience.h"

#include "base/net/resolve.h"

enum mode { ANSWER, SILENT, FAIL, CLOSED };

struct server {
	int fd;
	struct addr addr;
	struct watch *watch;
	enum mode mode;
	unsigned asked;
	uint16_t last_id;
	uint16_t ports[512]; /* from which it was asked */
};

struct fixture {
	struct loop *loop;
	struct server a, b;
	struct resolve *r;
	unsigned calls;
	int status;
	uint8_t answer[1500];
	size_t len;
	struct addr addrs[16];
	size_t n;
	bool free_inside;
};

/* www.example A, id 0x1234, with an OPT of 11 bytes. */
static const uint8_t question[] = "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
				  "\x03www\x07"
				  "example\x00\x00\x01\x00\x01"
				  "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00";

static void
on_query(void *arg, int fd, unsigned events)
{
	struct server *s = arg;
	uint8_t m[1500];
	struct addr from = {.len = sizeof from.in};
	ssize_t n = recvfrom(fd, m, sizeof m - 16, 0, &from.sa, &from.len);
	size_t end = 12;

	(void)events;
	if (n < 17)
		return;
	s->ports[s->asked++ % ARRAY_LEN(s->ports)] = addr_port(&from);
	s->last_id = (uint16_t)(m[0] << 8 | m[1]);
	if (s->mode == SILENT)
		return;
	while (end < (size_t)n && m[end] != 0)
		end += m[end] + 1u;
	end += 5;
	m[2] |= 0x80;
	m[3] = s->mode == FAIL ? 0x82 : 0x80;
	m[11] = 0;
	if (s->mode == ANSWER && m[end - 3] == 1) {
		static const uint8_t rr[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7};

		memcpy(m + end, rr, sizeof rr);
		end += sizeof rr;
		m[7] = 1;
	}
	sendto(fd, m, end, 0, &from.sa, from.len);
}

static void
server_open(struct server *s, struct loop *loop)
{
	struct addr any = addr_ipv4(INADDR_LOOPBACK, 0);

	assert_int_equal(sock_udp(&any, 0, &s->fd, NULL), 0);
	s->addr.len = sizeof s->addr.in;
	assert_int_equal(getsockname(s->fd, &s->addr.sa, &s->addr.len), 0);
	s->watch = watch_start(loop, s->fd, WATCH_READ, on_query, s);
}

static void
server_close(struct server *s)
{
	watch_stop(&s->watch);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);

	assert_int_equal(loop_new(&f->loop, NULL), 0);
	server_open(&f->a, f->loop);
	server_open(&f->b, f->loop);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	resolve_free(&f->r);
	server_close(&f->a);
	server_close(&f->b);
	loop_free(&f->loop);
	free(f);
	return 0;
}

static void
open_client(struct fixture *f, size_t n, bool every_rcode)
{
	struct addr servers[2] = {f->a.addr, f->b.addr};
	struct resolve_config c = {
		.servers = servers,
		.n_servers = n,
		.timeout_ms = 150,
		.tries = 2,
		.every_rcode = every_rcode,
	};

	assert_int_equal(resolve_new(&f->r, f->loop, &c, NULL), 0);
}

static void
wait_for(struct fixture *f, unsigned calls)
{
	patience_until(patience_turn(f->loop), f->calls >= calls);
	assert_int_equal(f->calls, calls);
}

static void
on_answer(void *arg, int status, const uint8_t *answer, size_t len)
{
	struct fixture *f = arg;

	f->calls++;
	f->status = status;
	f->len = MIN(len, sizeof f->answer);
	if (len > 0)
		memcpy(f->answer, answer, f->len);
	if (f->free_inside)
		resolve_free(&f->r);
}

static void
on_host(void *arg, int status, const struct addr *addrs, size_t n)
{
	struct fixture *f = arg;

	f->calls++;
	f->status = status;
	f->n = n;
	if (n > 0)
		memcpy(f->addrs, addrs, n * sizeof *addrs);
	if (f->free_inside)
		resolve_free(&f->r);
}

static void
ask(struct fixture *f)
{
	resolve_query(f->r, question, sizeof question - 1, on_answer, f);
}

static void
query_is_answered_under_an_id_of_its_own(void **state)
{
	struct fixture *f = *state;
	unsigned same = 0;

	open_client(f, 1, true);
	for (unsigned i = 1; i <= 3; i++) {
		ask(f);
		assert_int_equal(f->calls, i - 1);
		wait_for(f, i);
		assert_int_equal(f->status, 0);
		assert_int_equal(f->answer[7], 1);
		assert_int_equal(f->a.asked, i); /* c-ares keeps no answers */
		same += f->a.last_id == 0x1234;
	}
	assert_true(same < 3);
}

static void
silence_ends_in_timeout(void **state)
{
	struct fixture *f = *state;

	f->a.mode = SILENT;
	open_client(f, 1, true);
	ask(f);
	wait_for(f, 1);
	assert_int_equal(f->status, -ETIMEDOUT);
	assert_in_range(f->a.asked, 2, 3); /* 3: see channels_set_patience */
}

static void
closed_port_is_refused_at_once(void **state)
{
	struct fixture *f = *state;
	uint64_t start = mono_ms();

	open_client(f, 1, true);
	server_close(&f->a);
	ask(f);
	wait_for(f, 1);
	/* c-ares 1.27, which Ubuntu 24.04 has, calls that a time-out, but does not wait for one. */
	assert_true(f->status == -ECONNREFUSED || f->status == -ETIMEDOUT);
	assert_true(mono_ms() - start < 100); /* the time-out would be longer */
}

static void
servfail_is_an_answer_or_sends_on(void **state)
{
	struct fixture *f = *state;

	f->a.mode = FAIL;
	open_client(f, 2, true);
	ask(f);
	wait_for(f, 1);
	assert_int_equal(f->status, 0);
	assert_int_equal(f->answer[3] & 15, 2);
	assert_int_equal(f->b.asked, 0);
	resolve_free(&f->r);
	open_client(f, 2, false);
	ask(f);
	wait_for(f, 2);
	assert_int_equal(f->answer[3] & 15, 0);
	assert_int_equal(f->b.asked, 1);
}

static void
free_cancels_what_is_open(void **state)
{
	struct fixture *f = *state;

	f->a.mode = SILENT;
	open_client(f, 1, true);
	ask(f);
	ask(f);
	resolve_host(f->r, "127.0.0.9", 80, on_host, f);
	resolve_free(&f->r);
	assert_int_equal(f->calls, 3);
	assert_int_equal(f->status, -ECANCELED);
}

static void
may_be_freed_in_a_callback(void **state)
{
	struct fixture *f = *state;

	f->free_inside = true;
	open_client(f, 1, true);
	ask(f);
	ask(f);
	wait_for(f, 2);
	open_client(f, 1, true);
	resolve_host(f->r, "127.0.0.9", 80, on_host, f);
	resolve_host(f->r, "127.0.0.8", 80, on_host, f);
	wait_for(f, 4);
	assert_null(f->r);
}

static void
hosts_are_numbers_names_and_errors(void **state)
{
	struct fixture *f = *state;
	char text[ADDR_TEXT_MAX];

	open_client(f, 1, false);
	resolve_host(f->r, "192.0.2.1", 10000, on_host, f);
	assert_int_equal(f->calls, 0);
	wait_for(f, 1);
	assert_int_equal(f->n, 1);
	assert_string_equal(addr_text(&f->addrs[0], text), "192.0.2.1:10000");
	resolve_host(f->r, "hub.example", 443, on_host, f);
	wait_for(f, 2);
	assert_int_equal(f->status, 0);
	assert_string_equal(addr_text(&f->addrs[0], text), "192.0.2.7:443");
	f->a.mode = FAIL;
	resolve_host(f->r, "gone.example", 443, on_host, f);
	wait_for(f, 3);
	assert_true(f->status < 0);
	assert_int_equal(f->n, 0);
}

static void
no_servers_is_an_error_of_the_query(void **state)
{
	struct fixture *f = *state;

	open_client(f, 0, true);
	ask(f);
	wait_for(f, 1);
	assert_true(f->status < 0);
}

static unsigned
different_ports(const struct server *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MIN(s->asked, (unsigned)ARRAY_LEN(s->ports)); i++) {
		bool seen = false;

		for (unsigned k = 0; k < i; k++)
			seen |= s->ports[k] == s->ports[i];
		n += !seen;
	}
	return n;
}

/* With something always open c-ares alone would stay with one port. */
static void
a_busy_one_changes_its_source_port(void **state)
{
	struct fixture *f = *state;

	open_client(f, 1, true);
	for (unsigned i = 0; i < 400; i++) {
		ask(f);
		while (f->calls + 4 < i)
			loop_turn(f->loop);
	}
	wait_for(f, 400);
	assert_in_range(different_ports(&f->a), 6, 400);
}

/* Nor may channels pile up while nothing answers. */
static void
silence_takes_a_bounded_number_of_ports(void **state)
{
	struct fixture *f = *state;

	f->a.mode = SILENT;
	open_client(f, 1, true);
	for (unsigned i = 0; i < 400; i++) {
		ask(f);
		if (i % 50 == 0)
			loop_turn(f->loop);
	}
	wait_for(f, 400);
	assert_int_equal(f->status, -ETIMEDOUT);
	/* c-ares since 1.34.6 takes another one for each of 3 tries */
	assert_in_range(different_ports(&f->a), 2, 4 * 3);
}

/* What asks again from within its callback may be given another channel: its time-outs come all the
 * same. */
static void
on_answer_ask_again(void *arg, int status, const uint8_t *answer, size_t len)
{
	struct fixture *f = arg;

	on_answer(arg, status, answer, len);
	if (f->calls < 100)
		resolve_query(f->r, question, sizeof question - 1, on_answer_ask_again, f);
	if (f->calls == 90)
		f->a.mode = SILENT;
}

static void
time_outs_come_in_every_channel(void **state)
{
	struct fixture *f = *state;

	open_client(f, 1, true);
	for (unsigned i = 0; i < 3; i++)
		resolve_query(f->r, question, sizeof question - 1, on_answer_ask_again, f);
	wait_for(f, 102);
	assert_int_equal(f->status, -ETIMEDOUT);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(query_is_answered_under_an_id_of_its_own),
		T(silence_ends_in_timeout),
		T(closed_port_is_refused_at_once),
		T(servfail_is_an_answer_or_sends_on),
		T(free_cancels_what_is_open),
		T(may_be_freed_in_a_callback),
		T(hosts_are_numbers_names_and_errors),
		T(no_servers_is_an_error_of_the_query),
		T(a_busy_one_changes_its_source_port),
		T(silence_takes_a_bounded_number_of_ports),
		T(time_outs_come_in_every_channel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
