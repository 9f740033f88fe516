#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/inherited.h"
#include "base/core/sock.h"

/* The address as text, or the complaint. */
static const char *
text_of(const char *text, uint16_t port)
{
	static char to[ADDR_TEXT_MAX];
	static struct err err;
	struct addr a;

	if (addr_parse(&a, text, port, &err) < 0)
		return err.text;
	return addr_text(&a, to);
}

static void
parses_addresses(void **state)
{
	struct addr a;

	(void)state;
	assert_string_equal(text_of("192.0.2.1:53", 0), "192.0.2.1:53");
	assert_string_equal(text_of("192.0.2.1", 53), "192.0.2.1:53");
	assert_string_equal(text_of("[2001:db8::1]:443", 0), "[2001:db8::1]:443");
	assert_string_equal(text_of("[2001:db8::1]", 443), "[2001:db8::1]:443");
	assert_string_equal(text_of("2001:db8::1", 443), "[2001:db8::1]:443");
	assert_string_equal(text_of("unix:/run/x.sock", 0), "unix:/run/x.sock");
	assert_int_equal(addr_parse(&a, "1.2.3.4:65535", 0, NULL), 0);
	assert_int_equal(addr_port(&a), 65535);
	assert_int_equal(a.len, sizeof(struct sockaddr_in));
	a = addr_ipv4(0x7f000001, 80);
	assert_int_equal(addr_port(&a), 80);
	assert_int_equal(addr_parse(&a, "unix:/x", 7, NULL), 0);
	assert_int_equal(addr_port(&a), 0);
}

static void
refuses_what_is_no_address(void **state)
{
	static const char *const bad[] = {"", ":80", "host:80", "1.2.3:80",
		"1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:-1", "1.2.3.4:8x",
		"1.2.3.4:99999999999999999999", "[::1", "[::1]x", "[::1]:", "[1.2.3.4:80",
		"unix:", "1.2.3.4 :80", "2001:db8::1::2"};
	char path[200] = "unix:/";
	struct addr a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = {0};

		if (addr_parse(&a, bad[i], 1, &err) == 0)
			fail_msg("took \"%s\"", bad[i]);
		assert_int_equal(err.code, EINVAL);
		assert_true(err.text[0] != '\0');
	}
	memset(path + 6, 'x', 150);
	path[156] = '\0';
	assert_int_equal(addr_parse(&a, path, 0, NULL), -EINVAL);
}

static void
listens_and_connects(void **state)
{
	auto_fd int server = -1, client = -1, second = -1;
	struct addr a = addr_ipv4(0x7f000001, 0);
	socklen_t len = sizeof a.in;
	struct err err = {0};

	(void)state;
	assert_int_equal(sock_listen(&a, 0, &server, &err), 0);
	assert_int_equal(getsockname(server, &a.sa, &len), 0);
	assert_true(fcntl(server, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(server, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(sock_listen(&a, 0, &second, &err), -EADDRINUSE);
	assert_non_null(strstr(err.text, "cannot bind 127.0.0.1:"));
	assert_int_equal(sock_connect(&a, 0, &client), 0);
	assert_int_equal(sock_error(client), 0);
}

/* Whatever the kernel's default is: within this machine no packet waits for a timer. */
static void
nothing_is_paced_on_loopback(void **state)
{
	auto_fd int server = -1, client = -1, accepted = -1;
	struct addr a = addr_ipv4(INADDR_LOOPBACK, 0);
	int pair[2];

	(void)state;
	assert_int_equal(sock_listen(&a, 0, &server, NULL), 0);
	assert_int_equal(getsockname(server, &a.sa, &a.len), 0);
	assert_int_equal(sock_connect(&a, 0, &client), 0);
	while ((accepted = accept(server, NULL, NULL)) < 0)
		assert_int_equal(errno, EAGAIN);
	assert_int_equal(sock_pair(pair), 0);
	for (int i = 0; i < 4; i++) {
		const int fds[] = {client, accepted, pair[0], pair[1]};
		char name[16] = "";
		socklen_t len = sizeof name - 1;

		assert_int_equal(getsockopt(fds[i], IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
		assert_string_not_equal(name, "");
		assert_int_not_equal(strncmp(name, "bbr", 3), 0);
	}
	close(pair[0]);
	close(pair[1]);
}

static void
the_first_datagram_has_its_interface(void **state)
{
	struct addr at = addr_ipv4(INADDR_LOOPBACK, 0);
	auto_fd int fd = -1, client = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint8_t control[128] __attribute__((aligned(__alignof__(struct cmsghdr)))), byte = 7;
	struct iovec to = {&byte, 1};
	struct msghdr m = {.msg_iov = &to, .msg_iovlen = 1, .msg_control = control};
	struct in_pktinfo info;

	(void)state;
	assert_int_equal(sock_udp(&at, SOCK_INTERFACE, &fd, NULL), 0);
	assert_int_equal(getsockname(fd, &at.sa, &at.len), 0);
	assert_int_equal(sendto(client, &byte, 1, 0, &at.sa, at.len), 1);
	m.msg_controllen = sizeof control;
	assert_int_equal(recvmsg(fd, &m, 0), 1);
	assert_non_null(CMSG_FIRSTHDR(&m));
	assert_int_equal(CMSG_FIRSTHDR(&m)->cmsg_type, IP_PKTINFO);
	memcpy(&info, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof info);
	assert_int_equal(info.ipi_ifindex, if_nametoindex("lo"));
}

/* A datagram that says to come from `from` and has come to `to`, as an IPv6 socket tells both. */
static void
replaces_only_a_dead_unix_socket(void **state)
{
	char folder[] = "/tmp/edgeway-sock-test-XXXXXX";
	auto_free char *path = NULL, *text = NULL;
	struct addr a;
	struct stat st;
	int live = -1, other = -1;

	(void)state;
	assert_non_null(mkdtemp(folder));
	path = xasprintf("%s/s", folder);
	text = xasprintf("unix:%s", path);
	assert_int_equal(addr_parse(&a, text, 0, NULL), 0);
	assert_int_equal(sock_listen(&a, 0, &live, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(sock_listen(&a, 0, &other, NULL), -EADDRINUSE);
	close(live); /* the file stays, nobody answers */
	assert_int_equal(sock_listen(&a, 0, &other, NULL), 0);
	close(other);
	unlink(path);
	rmdir(folder);
}

static void
a_pair_is_of_tcp(void **state)
{
	static const struct linger now = {.l_onoff = 1};
	int fds[2], next[2];
	char text[8];

	(void)state;
	assert_int_equal(sock_pair(fds), 0);
	assert_int_equal(sock_pair(next), 0);
	assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fds[1], F_GETFL) & O_NONBLOCK);
	for (int i = 0; i < 2; i++) {
		int bytes = 0;
		socklen_t len = sizeof bytes;

		assert_int_equal(getsockopt(fds[i], SOL_SOCKET, SO_RCVBUF, &bytes, &len), 0);
		assert_int_equal(bytes, 2 * 196608); /* as the kernel counts, socket(7) */
		assert_int_equal(getsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &bytes, &len), 0);
		assert_int_equal(bytes, 2 * 196608);
	}
	assert_int_equal(write(fds[0], "hello", 5), 5);
	assert_int_equal(read(fds[1], text, sizeof text), 5);
	assert_int_equal(shutdown(fds[0], SHUT_WR), 0);
	assert_int_equal(read(fds[1], text, sizeof text), 0);
	assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
	close(fds[1]);
	assert_int_equal(read(fds[0], text, sizeof text), -1);
	assert_int_equal(errno, ECONNRESET);
	close(fds[0]);
	close(next[0]);
	close(next[1]);
}

/* A socket that waits for whoever comes goes from one process to the next: the one of the very
 * address and type, and no other. */
static void
test_inherited(void **state)
{
	struct addr at = addr_ipv4(INADDR_LOOPBACK, 0), other;
	int listener, udp, dialled, again, fds[64], n, seen = 0;
	struct fdpass given = {.n = 2};

	(void)state;
	assert_int_equal(sock_listen(&at, 0, &listener, NULL), 0);
	assert_int_equal(getsockname(listener, &at.sa, &at.len), 0);
	assert_int_equal(sock_udp(&at, 0, &udp, NULL), 0);
	assert_int_equal(sock_connect(&at, 0, &dialled), 0);
	n = inherited_list(fds, 64);
	for (int i = 0; i < n; i++) {
		assert_int_not_equal(fds[i], dialled);
		seen += fds[i] == listener || fds[i] == udp;
	}
	assert_int_equal(seen, 2);
	assert_int_equal(inherited_list(fds, 1), -E2BIG);
	assert_int_equal(sock_listen(&at, 0, &again, NULL), -EADDRINUSE);
	given.at[0] = dup(udp);
	given.at[1] = dup(listener);
	n = given.at[1];
	inherited_use(&given);
	assert_int_equal(given.n, 0);
	other = addr_ipv4(INADDR_LOOPBACK + 1, addr_port(&at));
	assert_int_equal(sock_listen(&other, 0, &again, NULL), 0);
	assert_int_not_equal(again, n);
	close(again);
	assert_int_equal(sock_listen(&at, 0, &again, NULL), 0);
	assert_int_equal(again, n);
	close(again);
	assert_int_equal(sock_listen(&at, 0, &again, NULL), -EADDRINUSE); /* it was given once */
	inherited_drop();
	assert_int_equal(sock_udp(&at, 0, &again, NULL), -EADDRINUSE);
	close(dialled);
	close(udp);
	close(listener);
}

static struct addr
at_port(const char *host, uint16_t port)
{
	struct addr a;

	assert_int_equal(addr_parse(&a, host, port, NULL), 0);
	return a;
}

/* As an agent of two workers hands over: the proxy's sockets, then UDP and TCP of each for DNS. */
static void
inherited_of_workers(void **state)
{
	struct addr at, dns, proxy;
	struct fdpass fds = {.n = 6};
	int fd, on = 0;
	socklen_t len = sizeof on;

	(void)state;
	at = at_port("127.0.0.9", 0);
	assert_int_equal(sock_listen(&at, SOCK_REUSEPORT, &fds.at[0], NULL), 0);
	proxy = addr_with_port(&at, sock_port(fds.at[0]));
	assert_int_equal(sock_listen(&proxy, SOCK_REUSEPORT, &fds.at[1], NULL), 0);
	assert_int_equal(sock_udp(&at, SOCK_REUSEPORT, &fds.at[2], NULL), 0);
	dns = addr_with_port(&at, sock_port(fds.at[2]));
	assert_int_equal(sock_listen(&dns, SOCK_REUSEPORT, &fds.at[3], NULL), 0);
	assert_int_equal(sock_udp(&dns, SOCK_REUSEPORT, &fds.at[4], NULL), 0);
	assert_int_equal(sock_listen(&dns, SOCK_REUSEPORT, &fds.at[5], NULL), 0);
	inherited_use(&fds);
	assert_int_equal(inherited_workers(), 2);
	assert_int_equal(inherited_count(&dns, SOCK_DGRAM), 2);
	assert_int_equal(inherited_count(&dns, SOCK_STREAM), 2);
	assert_int_equal(inherited_count(&proxy, SOCK_STREAM), 2);
	assert_int_equal(inherited_count(&proxy, SOCK_DGRAM), 0);
	assert_int_equal(inherited_tcp_port(&at), addr_port(&proxy));
	at = at_port("127.0.0.8", 0);
	assert_int_equal(inherited_tcp_port(&at), 0);
	assert_int_equal(sock_listen(&proxy, SOCK_TRANSPARENT, &fd, NULL), 0);
	assert_int_equal(getsockopt(fd, SOL_IP, IP_TRANSPARENT, &on, &len), 0);
	if (geteuid() == 0)
		assert_int_equal(on, 1);
	assert_int_equal(inherited_count(&proxy, SOCK_STREAM), 1);
	close(fd);
	inherited_drop();
	assert_int_equal(inherited_workers(), 0);
}

/* --- a machine without an IPv6 address ------------------------------------------------------ */

enum unable { UNABLE_NOT, UNABLE_PORTS, UNABLE_SOURCE };
static enum unable unable;

int
connect(int fd, const struct sockaddr *to, socklen_t len)
{
	int type = 0;
	socklen_t size = sizeof type;

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size), 0);
	if (unable == UNABLE_NOT || (unable == UNABLE_PORTS && type != SOCK_STREAM))
		return (int)syscall(SYS_connect, fd, to, len);
	errno = EADDRNOTAVAIL;
	return -1;
}

/* Where no port is left another endpoint would not help; where no address is, it might. */
static void
without_a_source_there_is_no_way(void **state)
{
	static const struct {
		const char *to;
		enum unable unable;
		int want;
	} cases[] = {
		{"[::1]:9", UNABLE_PORTS, -EADDRNOTAVAIL},
		{"[::1]:9", UNABLE_SOURCE, -ENETUNREACH},
		{"127.0.0.1:9", UNABLE_SOURCE, -EADDRNOTAVAIL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct addr to;
		int fd = -1, rc;

		assert_int_equal(addr_parse(&to, cases[i].to, 0, NULL), 0);
		unable = cases[i].unable;
		rc = sock_connect(&to, 0, &fd);
		unable = UNABLE_NOT;
		assert_int_equal(rc, cases[i].want);
		assert_int_equal(sock_short_of(rc), rc == -EADDRNOTAVAIL);
	}
}

/* Segments sent until the connection is established. */
static unsigned
segments_of_handshake(const struct addr *to, bool speaks)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;
	struct pollfd p = {.events = POLLOUT};

	assert_int_equal(sock_connect_hops(to, 0, 0, speaks, &p.fd), 0);
	assert_int_equal(poll(&p, 1, -1), 1);
	assert_int_equal(sock_error(p.fd), 0);
	assert_int_equal(getsockopt(p.fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	close(p.fd);
	return info.tcpi_segs_out;
}

/* The kernel acknowledges after 200 ms what nobody has: a busy machine gets several chances. */
static void
who_speaks_acknowledges_later(void **state)
{
	struct addr at = addr_ipv4(INADDR_LOOPBACK, 0);
	unsigned least = UINT_MAX;
	struct err err = {0};
	int listener;

	(void)state;
	assert_int_equal(sock_listen(&at, 0, &listener, &err), 0);
	assert_int_equal(getsockname(listener, &at.sa, &at.len), 0);
	assert_int_equal(segments_of_handshake(&at, false), 2);
	for (int i = 0; i < 20 && least > 1; i++)
		least = MIN(least, segments_of_handshake(&at, true));
	assert_int_equal(least, 1);
	close(listener);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_addresses),
		cmocka_unit_test(who_speaks_acknowledges_later),
		cmocka_unit_test(refuses_what_is_no_address),
		cmocka_unit_test(listens_and_connects),
		cmocka_unit_test(nothing_is_paced_on_loopback),
		cmocka_unit_test(the_first_datagram_has_its_interface),
		cmocka_unit_test(replaces_only_a_dead_unix_socket),
		cmocka_unit_test(test_inherited),
		cmocka_unit_test(inherited_of_workers),
		cmocka_unit_test(a_pair_is_of_tcp),
		cmocka_unit_test(without_a_source_there_is_no_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
