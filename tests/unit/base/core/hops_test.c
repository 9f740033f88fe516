/* The count of hops in the TTL: what one socket is marked with the other one reads, by IPv4, IPv6,
 * and both at once; TCP and UDP. */
#include "base/core/hops.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "base/os/pktinfo.h"

static void
counts(void **state)
{
	(void)state;
	for (int ttl = HOPS_TTL; ttl <= 255; ttl++)
		assert_int_equal(hops_of_ttl(ttl), 0);
	for (unsigned n = 0; n <= HOPS_MAX; n++)
		for (int routers = 0; routers < HOPS_TTL_STEP; routers++)
			assert_int_equal(
				hops_of_ttl(HOPS_TTL - HOPS_TTL_STEP * (int)n - routers), n);
	assert_int_equal(hops_of_ttl(1), 15);
	assert_true(HOPS_TTL - HOPS_TTL_STEP * HOPS_MAX > 0);
}

static void
texts(void **state)
{
	static const struct {
		const char *text;
		unsigned hops;
	} rows[] = {{"", 0}, {"0", 0}, {"7", 7}, {"007", 7}, {"999999999", 999999999},
		{"4294967296", HOPS_MAX}, {"-1", HOPS_MAX}, {"x", HOPS_MAX}, {"1x", HOPS_MAX}};
	char text[HOPS_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(hops_parse(rows[i].text), rows[i].hops);
	assert_string_equal(hops_text(HOPS_MAX, text), "12");
	assert_string_equal(hops_text(4294967295u, text), "4294967295");
}

static const struct {
	const char *listen, *dial; /* dial: the port comes behind */
} ways[] = {
	{"127.0.0.1:0", "127.0.0.1"},
	{"[::1]:0", "[::1]"},
	{"[::]:0", "127.0.0.1"},
	{"127.0.0.1:0", "[::ffff:127.0.0.1]"},
};

/* False: this machine has no IPv6. */
static bool
open_way(size_t way, bool udp, int *fd, struct addr *to)
{
	struct addr at;
	struct err err = {0};
	int rc;

	assert_int_equal(addr_parse(&at, ways[way].listen, 0, NULL), 0);
	rc = udp ? sock_udp(&at, SOCK_INTERFACE | SOCK_HOPS, fd, &err)
		 : sock_listen(&at, 0, fd, &err);
	if (rc == -EADDRNOTAVAIL || rc == -EAFNOSUPPORT)
		return false;
	assert_int_equal(rc, 0);
	at.len = sizeof at.in6;
	assert_int_equal(getsockname(*fd, &at.sa, &at.len), 0);
	assert_int_equal(addr_parse(to, ways[way].dial, addr_port(&at), NULL), 0);
	return true;
}

static void
tcp(void **state)
{
	(void)state;
	for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
		auto_fd int server = -1;
		struct addr to;

		if (!open_way(way, false, &server, &to))
			continue;
		for (unsigned n = 0; n <= HOPS_MAX; n++) {
			auto_fd int client = -1, accepted = -1;
			struct addr from = {.len = sizeof from.in6};

			assert_int_equal(sock_connect_hops(&to, 0, n, false, &client), 0);
			while ((accepted = accept(server, &from.sa, &from.len)) < 0)
				assert_int_equal(errno, EAGAIN);
			assert_int_equal(hops_of_socket(accepted, from.sa.sa_family), n);
		}
	}
}

static void
udp(void **state)
{
	(void)state;
	for (size_t way = 0; way < ARRAY_LEN(ways); way++) {
		auto_fd int server = -1;
		struct addr to;

		if (!open_way(way, true, &server, &to))
			continue;
		for (unsigned n = 0; n <= HOPS_MAX; n++) {
			auto_fd int client = -1;
			struct pktinfo_way came;
			ssize_t rc;
			char byte;

			assert_int_equal(sock_connect_udp(&to, 0, n, &client), 0);
			assert_int_equal(send(client, "x", 1, 0), 1);
			while ((rc = pktinfo_recv(server, &byte, 1, &came)) == -EAGAIN)
				;
			assert_int_equal(rc, 1);
			assert_int_equal(came.hops, n);
		}
	}
}

static void
no_address_no_count(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(hops_of_socket(fds[0], AF_UNIX), 0);
	assert_int_equal(hops_of_socket(-1, AF_INET), 0);
	close(fds[0]);
	close(fds[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts),
		cmocka_unit_test(texts),
		cmocka_unit_test(tcp),
		cmocka_unit_test(udp),
		cmocka_unit_test(no_address_no_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
