/* The whole of dns/ through its door: names of the mesh, TCP, listening. */
#include "tests/unit/dns/dns_bed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dns/front/tcp.h"

static void
names_of_the_mesh_are_answered(void **state)
{
	struct bed *f = *state;
	uint8_t m[512];
	size_t len = kit_query(m, WEB, DNS_AAAA, DNS_FLAG_RD, KIT_PLAIN);
	struct snapshot *empty = snapshot_new(false);

	bed_start(f);
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
	for (unsigned i = 0; i < 100; i++)
		bed_send(f, m, len);
	for (unsigned i = 0; i < 100; i++)
		assert_string_equal(bed_receive(f, 1000),
			"NOERROR aa an=0 ns=1 ar=0 SOA of cluster.local. ttl=5");
	assert_int_equal(f->up[0].asked, 0);
	dns_use(f->dns, empty);
	snapshot_unref(&empty);
	bed_turn(f);
	assert_string_equal(bed_ask(f, WEB, 1000), SERVFAIL);
}

static void
garbage_does_not_keep_others_waiting(void **state)
{
	struct bed *f = *state;
	uint8_t m[600];
	unsigned seed = 7;

	bed_start(f);
	for (unsigned i = 0; i < 2000; i++) {
		size_t len = (size_t)rand_r(&seed) % 300, from = 0;

		if (i % 2 == 0)
			len = kit_query(m, WEB, DNS_A, 0, KIT_EDNS), from = 2;
		for (size_t k = from; k < len; k++) {
			if (i % 2 == 1 || rand_r(&seed) % 40 == 0)
				m[k] = (uint8_t)rand_r(&seed);
		}
		bed_send(f, m, len > 0 ? len : 1);
		if (i % 50 == 0)
			bed_turn(f);
		while (recv(f->client, m, sizeof m, MSG_DONTWAIT) > 0)
			;
	}
	for (unsigned quiet = 0; quiet < 300; quiet++) {
		bed_turn(f);
		if (recv(f->client, m, sizeof m, MSG_DONTWAIT) > 0)
			quiet = 0;
	}
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
}

/* --- TCP ------------------------------------------------------------------------------------ */

static int
dial(struct bed *f)
{
	struct addr to = addr_ipv4(INADDR_LOOPBACK, f->port);
	int fd;

	assert_int_equal(sock_connect(&to, 0, &fd), 0);
	bed_turn(f);
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
read_tcp(struct bed *f, int fd, uint8_t *to, size_t n)
{
	size_t have = 0;

	for (unsigned i = 0; i < 2000 && have < n; i++) {
		ssize_t r = read(fd, to + have, n - have);

		if (r == 0)
			break;
		if (r > 0)
			have += (size_t)r;
		bed_turn(f);
	}
	return have;
}

static const char *
receive_tcp(struct bed *f, int fd)
{
	uint8_t m[2048];

	if (read_tcp(f, fd, m, 2) != 2 || read_tcp(f, fd, m + 2, dns_get16(m)) != dns_get16(m))
		return "nothing";
	return kit_describe(&f->text, m + 2, dns_get16(m));
}

static void
tcp_is_pipelined_and_out_of_order(void **state)
{
	struct bed *f = *state;
	auto_fd int fd = -1;
	uint8_t m[1024];
	size_t n;

	f->up[0].mode = SLOW;
	f->up[1].mode = SILENT;
	bed_start(f);
	fd = dial(f);
	n = framed(m, "www.example.org");
	n += framed(m + n, WEB);
	for (size_t i = 0; i < n; i++) { /* octet by octet */
		assert_int_equal(write(fd, m + i, 1), 1);
		if (i % 8 == 0)
			bed_turn(f);
	}
	assert_string_equal(receive_tcp(f, fd), WEB_ANSWER);
	assert_string_equal(receive_tcp(f, fd), FIRST);
	/* half-closed: what was asked is still answered */
	n = framed(m, bed_fresh(f));
	assert_int_equal(write(fd, m, n), n);
	shutdown(fd, SHUT_WR);
	assert_string_equal(receive_tcp(f, fd), FIRST);
	assert_int_equal(read_tcp(f, fd, m, 1), 0);
}

static void
what_came_before_a_bad_message_is_answered(void **state)
{
	struct bed *f = *state;
	auto_fd int fd = -1;
	uint8_t m[1024], rest[4096] = {0};
	size_t n;

	f->up[0].mode = SLOW;
	f->up[1].mode = SILENT;
	bed_start(f);
	fd = dial(f);
	n = framed(m, "www.example.org");
	n += framed(m + n, WEB);
	dns_put16(m + n, DNS_HEADER - 1);
	assert_int_equal(write(fd, m, n + 2), n + 2);
	bed_turn(f);
	for (unsigned i = 0; i < 8; i++) { /* would be queries, or nothing at all */
		assert_int_equal(
			send(fd, i == 0 ? m : rest, i == 0 ? n : sizeof rest, MSG_NOSIGNAL),
			i == 0 ? n : sizeof rest);
		bed_turn(f);
	}
	assert_string_equal(receive_tcp(f, fd), WEB_ANSWER);
	assert_string_equal(receive_tcp(f, fd), FIRST);
	assert_int_equal(read_tcp(f, fd, m, 1), 0);
	assert_int_equal(read(fd, m, 1), 0); /* an end, no reset */
}

static void
nobody_is_drained_for_ever(void **state)
{
	struct bed *f = *state;
	auto_fd int fd = -1;
	uint8_t bad[16384] = {0};
	ssize_t n = 0;

	bed_start(f);
	fd = dial(f);
	for (unsigned i = 0; i < 20000 && (n >= 0 || errno == EAGAIN); i++) {
		n = send(fd, bad, sizeof bad, MSG_NOSIGNAL);
		bed_turn(f);
	}
	assert_int_equal(n, -1);
	assert_true(errno == ECONNRESET || errno == EPIPE);
}

static int
dial_from(struct bed *f, uint32_t address)
{
	struct addr from = addr_ipv4(address, 0), to = addr_ipv4(INADDR_LOOPBACK, f->port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, &from.sa, from.len), 0);
	connect(fd, &to.sa, to.len);
	bed_turn(f);
	return fd;
}

static void
tcp_connections_are_bounded(void **state)
{
	struct bed *f = *state;
	auto_fd int other = -1;
	int fds[300];
	uint8_t m[512];
	size_t n;

	bed_start(f);
	other = dial_from(f, INADDR_LOOPBACK + 1);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = dial(f);
	n = framed(m, WEB);
	assert_int_equal(write(fds[299], m, n), n);
	assert_string_equal(receive_tcp(f, fds[299]), WEB_ANSWER);
	assert_int_equal(read_tcp(f, fds[0], m, 1), 0); /* made room */
	/* for its like, not for another client's, idle though that was longest */
	n = framed(m, WEB);
	assert_int_equal(write(other, m, n), n);
	assert_string_equal(receive_tcp(f, other), WEB_ANSWER);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

/* Many clients fill the port: the one who holds most gives way, whoever is idlest. */
static void
who_holds_most_tcp_connections_makes_room(void **state)
{
	struct bed *f = *state;
	auto_fd int single = -1;
	int fds[2 * (TCP_CONNS_MAX + TCP_CLIENT_MAX)];
	uint8_t m[512];
	size_t n = framed(m, WEB);

	bed_start(f);
	single = dial_from(f, INADDR_LOOPBACK + 100);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = dial_from(f, INADDR_LOOPBACK + 1 + i % 12);
	assert_int_equal(write(single, m, n), n);
	assert_string_equal(receive_tcp(f, single), WEB_ANSWER);
	n = framed(m, WEB);
	assert_int_equal(write(fds[ARRAY_LEN(fds) - 1], m, n), n);
	assert_string_equal(receive_tcp(f, fds[ARRAY_LEN(fds) - 1]), WEB_ANSWER);
	for (unsigned i = 0; i < ARRAY_LEN(fds); i++)
		close(fds[i]);
}

static void
a_client_that_leaves_does_no_harm(void **state)
{
	struct bed *f = *state;
	uint8_t m[512];
	size_t n = framed(m, "www.example.org");
	int fd;

	f->up[0].mode = SLOW;
	bed_start(f);
	fd = dial(f);
	assert_int_equal(write(fd, m, n), n);
	for (unsigned i = 0; i < 10; i++)
		bed_turn(f);
	close(fd);
	for (unsigned i = 0; i < 800; i++)
		bed_turn(f);
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
}

/* --- listening ------------------------------------------------------------------------------ */

static void
who_holds_the_port_is_said(void **state)
{
	struct bed *f = *state;
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0);
	struct err err = {0};
	auto_fd int fd = -1;

	bed_start(f);
	dns_listen(f->dns, 0, NULL);
	bed_turn(f);
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
	struct bed *f = *state;
	struct err err;

	bed_start(f);
	assert_int_equal(dns_listen(f->dns, INADDR_LOOPBACK, &err), 0);
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
	assert_int_equal(dns_listen(f->dns, 0, &err), 0);
	assert_false(dns_listening(f->dns));
	bed_turn(f);
	assert_string_equal(bed_ask(f, WEB, 50), "nothing");
	assert_int_equal(dns_listen(f->dns, INADDR_LOOPBACK, &err), 0);
	assert_int_equal(dns_listen(f->dns, 0, &err), 0);
	assert_int_equal(dns_listen(f->dns, INADDR_LOOPBACK, &err), 0);
	bed_turn(f);
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
}

/* By UDP from ::1, which has no more than one answer to wait for. */
static const char *
ask_six(struct bed *f, int fd, const char *name)
{
	uint8_t m[512];
	size_t n = kit_query(m, name, DNS_A, DNS_FLAG_RD, KIT_PLAIN);
	ssize_t got = -1;

	assert_int_equal(send(fd, m, n, 0), n);
	for (unsigned i = 0; i < 1000 && got < 0; i++) {
		bed_turn(f);
		got = recv(fd, m, sizeof m, MSG_DONTWAIT);
	}
	return got < 0 ? "nothing" : kit_describe(&f->text, m, (size_t)got);
}

static void
ipv6_is_served_beside_ipv4(void **state)
{
	struct bed *f = *state;
	struct addr at = addr_of(&in6addr_loopback, f->port);
	auto_fd int udp = -1, tcp = -1;
	struct err err = {0};
	int fds[4], other;
	uint8_t m[512];
	size_t n = framed(m, WEB);

	bed_start(f);
	assert_int_equal(sock_udp(&at, 0, &other, NULL), 0);
	assert_int_equal(dns_listen6(f->dns, &in6addr_loopback, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "[::1]"));
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
	assert_int_equal(dns_sockets(f->dns, true, fds), 0);
	close(other);
	assert_int_equal(dns_listen6(f->dns, &in6addr_loopback, NULL), 0);
	assert_int_equal(dns_listen6(f->dns, &in6addr_loopback, NULL), 0);
	assert_int_equal(dns_sockets(f->dns, true, fds), 4);
	bed_turn(f);
	assert_int_equal(sock_connect_udp(&at, 0, 0, &udp), 0);
	assert_string_equal(ask_six(f, udp, WEB), WEB_ANSWER);
	assert_string_equal(ask_six(f, udp, bed_fresh(f)), FIRST);
	assert_int_equal(sock_connect(&at, 0, &tcp), 0);
	bed_turn(f);
	assert_int_equal(write(tcp, m, n), n);
	assert_string_equal(receive_tcp(f, tcp), WEB_ANSWER);
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
	assert_int_equal(dns_listen6(f->dns, &in6addr_any, NULL), 0);
	bed_turn(f);
	assert_string_equal(ask_six(f, udp, WEB), "nothing");
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
}

static void
stopping_answers_what_is_open(void **state)
{
	struct bed *f = *state;
	uint8_t m[512];

	f->up[0].mode = f->up[1].mode = SILENT;
	bed_start(f);
	bed_send(f, m, kit_query(m, "www.example.org", DNS_A, DNS_FLAG_RD, KIT_PLAIN));
	for (unsigned i = 0; i < 10; i++)
		bed_turn(f);
	bed_stop(f);
	assert_string_equal(bed_receive(f, 1000), SERVFAIL);
}

static void
keep_pod_ask(void *arg, struct pod_ask *ask)
{
	((struct bed *)arg)->pod = ask;
}

/* The hub's word on a pod comes to a server that is still there. */
static void
stopping_waits_for_the_word_on_a_pod(void **state)
{
	struct bed *f = *state;
	uint8_t m[512];

	f->ask_pod = keep_pod_ask;
	bed_start(f);
	bed_send(f, m, kit_query(m, "10-6-0-5.default.pod.cluster.local", DNS_A, 0, KIT_PLAIN));
	for (unsigned i = 0; i < 1000 && f->pod == NULL; i++)
		bed_turn(f);
	assert_non_null(f->pod);
	bed_begin_stop(f);
	for (unsigned i = 0; i < 50; i++)
		bed_turn(f);
	assert_false(f->stopped);
	f->pod->answer = POD_UNKNOWN;
	loop_post(f->pod->loop, f->pod->done, f->pod);
	for (unsigned i = 0; i < 1000 && !f->stopped; i++)
		bed_turn(f);
	assert_true(f->stopped);
}

static void
what_it_does_can_be_seen(void **state)
{
	struct bed *f = *state;
	struct metrics m;
	struct buf out;

	bed_start(f);
	bed_ask(f, WEB, 1000);
	bed_ask(f, bed_fresh(f), 1000);
	metrics_init(&m);
	dns_metrics(f->dns, &m);
	assert_non_null(
		strstr(buf_str(&m.out), "edgeway_dns_queries_total{outcome=\"noerror\"} 1\n"));
	assert_non_null(
		strstr(buf_str(&m.out), "edgeway_dns_queries_total{outcome=\"forwarded\"} 1\n"));
	assert_non_null(strstr(buf_str(&m.out), "edgeway_dns_forward_open 0\n"));
	metrics_fini(&m);
	buf_init(&out, BUF_UNLIMITED);
	dns_state(f->dns, &out);
	assert_non_null(strstr(buf_str(&out),
		"\"cache\":{\"hits\":0,\"misses\":1,\"stale\":0,\"joined\":0,\"entries\":1,"
		"\"bytes\":"));
	assert_non_null(strstr(
		buf_str(&out), "\"resolvConf\":{\"state\":\"unmanaged\",\"original\":\"missing\""));
	buf_fini(&out);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, bed_setup, bed_teardown)
	const struct CMUnitTest tests[] = {
		T(names_of_the_mesh_are_answered),
		T(garbage_does_not_keep_others_waiting),
		T(tcp_is_pipelined_and_out_of_order),
		T(what_came_before_a_bad_message_is_answered),
		T(nobody_is_drained_for_ever),
		T(tcp_connections_are_bounded),
		T(who_holds_most_tcp_connections_makes_room),
		T(a_client_that_leaves_does_no_harm),
		T(who_holds_the_port_is_said),
		T(listening_ends_and_begins),
		T(ipv6_is_served_beside_ipv4),
		T(stopping_answers_what_is_open),
		T(stopping_waits_for_the_word_on_a_pod),
		T(what_it_does_can_be_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
