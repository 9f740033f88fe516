/* The whole of dns/ through its door, with upstreams of the test's own on 127.0.0.1. */
#include "dns/dns.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "dns/forward.h"
#include "dns/tcp.h"
#include "dns_kit.h"

enum mode { ANSWER, SILENT, FAIL, REFUSE, LIE, SLOW };

struct upstream {
	int fd;
	struct addr addr;
	struct watch *watch;
	enum mode mode;
	unsigned asked;
	uint8_t ip; /* 192.0.2.ip */
	struct timer *later;
	uint8_t held[512];
	size_t held_len;
	struct addr held_to;
};

struct fixture {
	struct loop *loop;
	struct loop *workers[2];
	struct upstream up[2];
	struct dns *dns;
	struct snapshot *snapshot;
	uint16_t port;
	int client;
	char folder[64], path[96];
	struct buf text;
	bool stopped;
};

/* --- upstreams ----------------------------------------------------------- */

static void
send_held(void *arg)
{
	struct upstream *u = arg;

	sendto(u->fd, u->held, u->held_len, 0, &u->held_to.sa, u->held_to.len);
}

static void
on_query(void *arg, int fd, unsigned events)
{
	struct upstream *u = arg;
	static const uint8_t rr[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2};
	uint8_t *m = u->held;
	size_t end = DNS_HEADER;
	ssize_t n;

	(void)events;
	u->held_to.len = sizeof u->held_to.in;
	n = recvfrom(fd, m, sizeof u->held - 32, 0, &u->held_to.sa, &u->held_to.len);
	if (n < DNS_HEADER)
		return;
	u->asked++;
	if (u->mode == SILENT)
		return;
	end = dns_name_skip(m, (size_t)n, end) + 4;
	m[2] |= 0x80;
	m[3] = u->mode == FAIL ? 0x82 : u->mode == REFUSE ? 0x85 : 0x80;
	m[11] = 0;
	if (m[3] == 0x80) {
		memcpy(m + end, rr, sizeof rr);
		m[end + sizeof rr] = u->ip;
		end += sizeof rr + 1;
		m[7] = 1;
	}
	if (u->mode == LIE)
		m[13] ^= 1; /* another name */
	u->held_len = end;
	if (u->mode == SLOW)
		timer_start(u->later, 300, 0);
	else
		send_held(u);
}

static void
upstream_open(struct fixture *f, struct upstream *u, uint8_t ip)
{
	struct addr any = addr_ipv4(INADDR_LOOPBACK, 0);

	u->ip = ip;
	assert_int_equal(sock_udp(&any, 0, &u->fd, NULL), 0);
	u->addr.len = sizeof u->addr.in;
	assert_int_equal(getsockname(u->fd, &u->addr.sa, &u->addr.len), 0);
	u->later = timer_new(f->loop, send_held, u);
	u->watch = watch_start(f->loop, u->fd, WATCH_READ, on_query, u);
}

static void
upstream_close(struct upstream *u)
{
	watch_stop(&u->watch);
	timer_free(&u->later);
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
}

/* --- fixture ------------------------------------------------------------- */

static void
turn(struct fixture *f)
{
	loop_turn(f->loop);
	usleep(500);
}

static void
on_stopped(void *arg)
{
	((struct fixture *)arg)->stopped = true;
}

static void
stop(struct fixture *f)
{
	dns_stop(&f->dns, on_stopped, f);
	for (unsigned i = 0; i < 2000 && !f->stopped; i++)
		turn(f);
	assert_true(f->stopped);
}

static void
start(struct fixture *f)
{
	const struct addr upstreams[2] = {f->up[0].addr, f->up[1].addr};
	struct dns_config c = {
		.main = f->loop,
		.workers = f->workers,
		.n_workers = 2,
		.cluster_domain = "cluster.local",
		.port = f->port,
		.ttl_s = 30,
		.upstreams = upstreams,
		.n_upstreams = 2,
		.resolv_conf = f->path,
		.manage_resolv_conf = false,
	};
	struct err err;

	assert_int_equal(dns_open(&f->dns, &c, &err), 0);
	dns_use(f->dns, f->snapshot);
	if (dns_listen(f->dns, INADDR_LOOPBACK, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(dns_listening(f->dns));
	for (unsigned i = 0; i < 5; i++)
		turn(f);
}

/* A port that is free for UDP and TCP alike: on a busy machine connections hold many of the latter. */
static uint16_t
free_port(void)
{
	for (unsigned i = 0; i < 100; i++) {
		struct addr any = addr_ipv4(INADDR_LOOPBACK, 0);
		auto_fd int udp = -1, tcp = -1;

		assert_int_equal(sock_udp(&any, 0, &udp, NULL), 0);
		any.len = sizeof any.in;
		getsockname(udp, &any.sa, &any.len);
		if (sock_listen(&any, 0, &tcp, NULL) == 0)
			return addr_port(&any);
	}
	fail_msg("no port is free for UDP and TCP");
	return 0;
}

static int
setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof *f);
	struct addr any = addr_ipv4(INADDR_LOOPBACK, 0);

	assert_int_equal(loop_new(&f->loop, NULL), 0);
	f->workers[0] = f->workers[1] = f->loop;
	upstream_open(f, &f->up[0], 1);
	upstream_open(f, &f->up[1], 2);
	assert_int_equal(sock_udp(&any, 0, &f->client, NULL), 0);
	f->port = free_port();
	strcpy(f->folder, "/tmp/edgeway-dns-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	sprintf(f->path, "%s/resolv.conf", f->folder);
	f->snapshot = kit_snapshot();
	buf_init(&f->text, BUF_UNLIMITED);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	if (f->dns != NULL)
		stop(f);
	upstream_close(&f->up[0]);
	upstream_close(&f->up[1]);
	close(f->client);
	loop_free(&f->loop);
	snapshot_unref(&f->snapshot);
	buf_fini(&f->text);
	unlink(f->path);
	assert_int_equal(rmdir(f->folder), 0);
	free(f);
	return 0;
}

/* --- a client ------------------------------------------------------------ */

static void
send_query(struct fixture *f, const uint8_t *m, size_t len)
{
	struct addr to = addr_ipv4(INADDR_LOOPBACK, f->port);

	assert_int_equal(sendto(f->client, m, len, 0, &to.sa, to.len), len);
}

/* The next answer, or "nothing" after wait_ms. */
static const char *
receive(struct fixture *f, uint64_t wait_ms)
{
	uint64_t until = mono_ms() + wait_ms;
	struct addr from = {.len = sizeof from.in};
	uint8_t m[2048];

	while (mono_ms() < until) {
		ssize_t n = recvfrom(f->client, m, sizeof m, MSG_DONTWAIT, &from.sa, &from.len);

		if (n > 0) {
			assert_int_equal(addr_port(&from), f->port);
			assert_int_equal(dns_get16(m), 0xbeef);
			return kit_describe(&f->text, m, (size_t)n);
		}
		turn(f);
	}
	return "nothing";
}

static const char *
ask(struct fixture *f, const char *name, uint64_t wait_ms)
{
	uint8_t m[512];

	send_query(f, m, kit_query(m, name, DNS_A, DNS_FLAG_RD, KIT_PLAIN));
	return receive(f, wait_ms);
}

#define WEB "web.default.svc.cluster.local"
#define WEB_ANSWER "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.10 ttl=30"
#define FIRST "NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=60"
#define SECOND "NOERROR an=1 ns=0 ar=0 A 192.0.2.2 ttl=60"
#define SERVFAIL "SERVFAIL an=0 ns=0 ar=0"

static void
names_of_the_mesh_are_answered(void **state)
{
	struct fixture *f = *state;
	uint8_t m[512];
	size_t len = kit_query(m, WEB, DNS_AAAA, DNS_FLAG_RD, KIT_PLAIN);
	struct snapshot *empty = snapshot_new(false);

	start(f);
	assert_string_equal(ask(f, WEB, 1000), WEB_ANSWER);
	for (unsigned i = 0; i < 100; i++)
		send_query(f, m, len);
	for (unsigned i = 0; i < 100; i++)
		assert_string_equal(
			receive(f, 1000), "NOERROR aa an=0 ns=1 ar=0 SOA of cluster.local. ttl=5");
	assert_int_equal(f->up[0].asked, 0);
	dns_use(f->dns, empty);
	snapshot_unref(&empty);
	turn(f);
	assert_string_equal(ask(f, WEB, 1000), SERVFAIL);
}

static void
others_are_forwarded_to_the_first(void **state)
{
	struct fixture *f = *state;

	start(f);
	for (unsigned i = 0; i < 10; i++)
		assert_string_equal(ask(f, "WWW.example.org", 1000), FIRST);
	assert_int_equal(f->up[0].asked, 10);
	assert_int_equal(f->up[1].asked, 0);
	assert_string_equal(ask(f, "out.default.svc.cluster.local", 1000),
		"NOERROR an=2 ns=0 ar=0 TYPE5 www.example.org. ttl=30 A 192.0.2.1 ttl=60");
}

static void
a_silent_upstream_costs_little_and_then_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t start_ms, took;
	unsigned before;

	f->up[0].mode = SILENT;
	start(f);
	for (unsigned i = 0; i < 4; i++) {
		start_ms = mono_ms();
		assert_string_equal(ask(f, "www.example.org", 1000), SECOND);
		took = mono_ms() - start_ms;
		assert_true(took >= 60 && took < 300);
	}
	before = f->up[0].asked;
	start_ms = mono_ms();
	for (unsigned i = 0; i < 10; i++)
		assert_string_equal(ask(f, "www.example.org", 1000), SECOND);
	assert_true(mono_ms() - start_ms < 300);
	assert_true(f->up[0].asked <= before + 5); /* old ones asked again by c-ares, no new ones */
	/* back: a probe finds out, then it is the first again */
	f->up[0].mode = ANSWER;
	start_ms = mono_ms();
	while (mono_ms() - start_ms < 4000 && strcmp(ask(f, "www.example.org", 1000), FIRST) != 0)
		usleep(20000);
	assert_string_equal(ask(f, "www.example.org", 1000), FIRST);
}

static void
an_upstream_that_fails_or_lies_costs_nothing(void **state)
{
	static const enum mode modes[] = {FAIL, REFUSE, LIE};
	struct fixture *f = *state;

	start(f);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		uint64_t start_ms = mono_ms();

		f->up[0].mode = modes[i];
		assert_string_equal(ask(f, "www.example.org", 1000), SECOND);
		assert_true(mono_ms() - start_ms < (modes[i] == LIE ? 300 : 60));
	}
}

static void
a_closed_upstream_costs_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t start_ms;

	start(f);
	upstream_close(&f->up[0]);
	start_ms = mono_ms();
	assert_string_equal(ask(f, "www.example.org", 1000), SECOND);
	assert_true(mono_ms() - start_ms < 60);
}

static void
a_slow_upstream_is_waited_for(void **state)
{
	struct fixture *f = *state;

	f->up[0].mode = SLOW;
	f->up[1].mode = FAIL;
	start(f);
	assert_string_equal(ask(f, "www.example.org", 1000), FIRST);
}

static void
servfail_when_nothing_answers(void **state)
{
	struct fixture *f = *state;
	uint64_t start_ms;

	f->up[0].mode = f->up[1].mode = FAIL;
	start(f);
	assert_string_equal(ask(f, "www.example.org", 200), SERVFAIL);
	f->up[0].mode = f->up[1].mode = SILENT;
	start_ms = mono_ms();
	assert_string_equal(ask(f, "www.example.org", 5000), SERVFAIL);
	assert_true(mono_ms() - start_ms < 4800);
	assert_string_equal(ask(f, WEB, 100), WEB_ANSWER);
}

static void
garbage_does_not_keep_others_waiting(void **state)
{
	struct fixture *f = *state;
	uint8_t m[600];
	unsigned seed = 7;

	start(f);
	for (unsigned i = 0; i < 2000; i++) {
		size_t len = (size_t)rand_r(&seed) % 300, from = 0;

		if (i % 2 == 0)
			len = kit_query(m, WEB, DNS_A, 0, KIT_EDNS), from = 2;
		for (size_t k = from; k < len; k++) {
			if (i % 2 == 1 || rand_r(&seed) % 40 == 0)
				m[k] = (uint8_t)rand_r(&seed);
		}
		send_query(f, m, len > 0 ? len : 1);
		if (i % 50 == 0)
			turn(f);
		while (recv(f->client, m, sizeof m, MSG_DONTWAIT) > 0)
			;
	}
	for (unsigned i = 0; i < 20; i++)
		turn(f);
	while (recv(f->client, m, sizeof m, MSG_DONTWAIT) > 0)
		;
	assert_string_equal(ask(f, WEB, 1000), WEB_ANSWER);
}

/* --- TCP ----------------------------------------------------------------- */

static int
dial(struct fixture *f)
{
	struct addr to = addr_ipv4(INADDR_LOOPBACK, f->port);
	int fd;

	assert_int_equal(sock_connect(&to, 0, &fd), 0);
	turn(f);
	return fd;
}

static size_t
framed(uint8_t *to, const char *name)
{
	uint8_t m[512];
	size_t len = kit_query(m, name, DNS_A, DNS_FLAG_RD, KIT_PLAIN);

	dns_put16(to, (unsigned)len);
	memcpy(to + 2, m, len);
	return len + 2;
}

/* Reads until `n` bytes or the end are there. */
static size_t
read_tcp(struct fixture *f, int fd, uint8_t *to, size_t n)
{
	size_t have = 0;

	for (unsigned i = 0; i < 2000 && have < n; i++) {
		ssize_t r = read(fd, to + have, n - have);

		if (r == 0)
			break;
		if (r > 0)
			have += (size_t)r;
		turn(f);
	}
	return have;
}

static const char *
receive_tcp(struct fixture *f, int fd)
{
	uint8_t m[2048];

	if (read_tcp(f, fd, m, 2) != 2 || read_tcp(f, fd, m + 2, dns_get16(m)) != dns_get16(m))
		return "nothing";
	return kit_describe(&f->text, m + 2, dns_get16(m));
}

static void
tcp_is_pipelined_and_out_of_order(void **state)
{
	struct fixture *f = *state;
	auto_fd int fd = -1;
	uint8_t m[1024];
	size_t n;

	f->up[0].mode = SLOW;
	f->up[1].mode = SILENT;
	start(f);
	fd = dial(f);
	n = framed(m, "www.example.org");
	n += framed(m + n, WEB);
	for (size_t i = 0; i < n; i++) { /* octet by octet */
		assert_int_equal(write(fd, m + i, 1), 1);
		if (i % 8 == 0)
			turn(f);
	}
	assert_string_equal(receive_tcp(f, fd), WEB_ANSWER);
	assert_string_equal(receive_tcp(f, fd), FIRST);
	/* half-closed: what was asked is still answered */
	n = framed(m, "www.example.org");
	assert_int_equal(write(fd, m, n), n);
	shutdown(fd, SHUT_WR);
	assert_string_equal(receive_tcp(f, fd), FIRST);
	assert_int_equal(read_tcp(f, fd, m, 1), 0);
}

static void
tcp_connections_are_bounded(void **state)
{
	struct fixture *f = *state;
	int fds[300];
	uint8_t m[512];
	size_t n;

	start(f);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = dial(f);
	n = framed(m, WEB);
	assert_int_equal(write(fds[299], m, n), n);
	assert_string_equal(receive_tcp(f, fds[299]), WEB_ANSWER);
	assert_int_equal(read_tcp(f, fds[0], m, 1), 0); /* made room */
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

static void
a_client_that_leaves_does_no_harm(void **state)
{
	struct fixture *f = *state;
	uint8_t m[512];
	size_t n = framed(m, "www.example.org");
	int fd;

	f->up[0].mode = SLOW;
	start(f);
	fd = dial(f);
	assert_int_equal(write(fd, m, n), n);
	for (unsigned i = 0; i < 10; i++)
		turn(f);
	close(fd);
	for (unsigned i = 0; i < 800; i++)
		turn(f);
	assert_string_equal(ask(f, WEB, 1000), WEB_ANSWER);
}

/* --- listening ----------------------------------------------------------- */

static void
who_holds_the_port_is_said(void **state)
{
	struct fixture *f = *state;
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0);
	struct err err = {0};
	auto_fd int fd = -1;

	start(f);
	dns_listen(f->dns, 0, NULL);
	turn(f);
	/* a second agent, which shares as we do, on another of our addresses */
	a = addr_ipv4(INADDR_LOOPBACK + 1, f->port);
	assert_int_equal(sock_udp(&a, SOCK_REUSEPORT, &fd, NULL), 0);
	assert_int_equal(dns_listen(f->dns, INADDR_LOOPBACK + 1, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "127.0.0.2"));
	assert_non_null(strstr(err.text, "another DNS server"));
	assert_false(dns_listening(f->dns));
}

static void
listening_ends_and_begins(void **state)
{
	struct fixture *f = *state;
	struct err err;

	start(f);
	assert_int_equal(dns_listen(f->dns, INADDR_LOOPBACK, &err), 0);
	assert_string_equal(ask(f, WEB, 1000), WEB_ANSWER);
	assert_int_equal(dns_listen(f->dns, 0, &err), 0);
	assert_false(dns_listening(f->dns));
	turn(f);
	assert_string_equal(ask(f, WEB, 50), "nothing");
	assert_int_equal(dns_listen(f->dns, INADDR_LOOPBACK, &err), 0);
	assert_int_equal(dns_listen(f->dns, 0, &err), 0);
	assert_int_equal(dns_listen(f->dns, INADDR_LOOPBACK, &err), 0);
	turn(f);
	assert_string_equal(ask(f, WEB, 1000), WEB_ANSWER);
}

static void
stopping_answers_what_is_open(void **state)
{
	struct fixture *f = *state;
	uint8_t m[512];

	f->up[0].mode = f->up[1].mode = SILENT;
	start(f);
	send_query(f, m, kit_query(m, "www.example.org", DNS_A, DNS_FLAG_RD, KIT_PLAIN));
	for (unsigned i = 0; i < 10; i++)
		turn(f);
	stop(f);
	assert_string_equal(receive(f, 1000), SERVFAIL);
}

static void
what_it_does_can_be_seen(void **state)
{
	struct fixture *f = *state;
	struct metrics m;
	struct buf out;

	start(f);
	ask(f, WEB, 1000);
	ask(f, "www.example.org", 1000);
	metrics_init(&m);
	dns_metrics(f->dns, &m);
	assert_non_null(
		strstr(buf_str(&m.out), "edgeway_dns_queries_total{outcome=\"noerror\"} 1\n"));
	assert_non_null(strstr(buf_str(&m.out), "edgeway_dns_messages_total{proto=\"udp\"} 2\n"));
	assert_non_null(strstr(buf_str(&m.out), "edgeway_dns_forwarded_total 1\n"));
	assert_non_null(strstr(buf_str(&m.out), "edgeway_dns_forward_open 0\n"));
	metrics_fini(&m);
	buf_init(&out, BUF_UNLIMITED);
	dns_state(f->dns, &out);
	assert_non_null(strstr(
		buf_str(&out), "\"resolvConf\":{\"state\":\"unmanaged\",\"original\":\"missing\""));
	buf_fini(&out);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(names_of_the_mesh_are_answered),
		T(others_are_forwarded_to_the_first),
		T(a_silent_upstream_costs_little_and_then_nothing),
		T(an_upstream_that_fails_or_lies_costs_nothing),
		T(a_closed_upstream_costs_nothing),
		T(a_slow_upstream_is_waited_for),
		T(servfail_when_nothing_answers),
		T(garbage_does_not_keep_others_waiting),
		T(tcp_is_pipelined_and_out_of_order),
		T(tcp_connections_are_bounded),
		T(a_client_that_leaves_does_no_harm),
		T(who_holds_the_port_is_said),
		T(listening_ends_and_begins),
		T(stopping_answers_what_is_open),
		T(what_it_does_can_be_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
