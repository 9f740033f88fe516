#include "base/core/sock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/hops.h"
#include "base/core/inherited.h"
#include "base/core/sock_paths.h"
#include "base/core/special_addr.h"

enum {
	PAIR_BUFFER = 192 * 1024,
	SOCK_MULTIPATH_STREAM = -1, /* a type of open_connected's own */
};

static int
parse_unix(struct addr *a, const char *path, struct err *err)
{
	if (path[0] == '\0' || strlen(path) >= sizeof a->un.sun_path)
		return err_set(err, EINVAL, "\"unix:%s\": the path must have 1 to %zu characters",
			path, sizeof a->un.sun_path - 1);
	a->un.sun_family = AF_UNIX;
	strcpy(a->un.sun_path, path);
	a->len = sizeof a->un;
	return 0;
}

static int
parse_port(const char *text, uint16_t *port)
{
	unsigned long v = 0;

	if (*text == '\0')
		return -EINVAL;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9' ||
			(v = v * 10 + (unsigned long)(*text - '0')) > 65535)
			return -EINVAL;
	}
	*port = (uint16_t)v;
	return 0;
}

int
addr_parse(struct addr *a, const char *text, uint16_t default_port, struct err *err)
{
	char host[INET6_ADDRSTRLEN];
	const char *end, *colon;
	uint16_t port = default_port;
	size_t n;

	memset(a, 0, sizeof *a);
	if (strncmp(text, "unix:", 5) == 0)
		return parse_unix(a, text + 5, err);
	if (text[0] == '[') {
		end = strchr(text, ']');
		if (end == NULL || (end[1] != '\0' && end[1] != ':'))
			return err_set(
				err, EINVAL, "\"%s\" is not an address: want [IPv6]:port", text);
		colon = end[1] == ':' ? end + 1 : NULL;
		text++;
	} else {
		colon = strchr(text, ':');
		if (colon != NULL && strchr(colon + 1, ':') != NULL)
			colon = NULL; /* bare IPv6 */
		end = colon != NULL ? colon : text + strlen(text);
	}
	n = (size_t)(end - text);
	if (n >= sizeof host)
		return err_set(err, EINVAL, "\"%s\" is not a numeric address", text);
	memcpy(host, text, n);
	host[n] = '\0';
	if (colon != NULL && parse_port(colon + 1, &port) < 0)
		return err_set(err, EINVAL, "\"%s\": the port must be a number up to 65535", text);
	if (inet_pton(AF_INET, host, &a->in.sin_addr) == 1) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons(port);
		a->len = sizeof a->in;
		return 0;
	}
	if (inet_pton(AF_INET6, host, &a->in6.sin6_addr) == 1) {
		a->in6.sin6_family = AF_INET6;
		a->in6.sin6_port = htons(port);
		a->len = sizeof a->in6;
		return 0;
	}
	return err_set(err, EINVAL,
		"\"%s\" is not a numeric address with port, such as 127.0.0.1:80", text);
}

struct addr
addr_ipv4(uint32_t host, uint16_t port)
{
	struct addr a;

	memset(&a, 0, sizeof a);
	a.in.sin_family = AF_INET;
	a.in.sin_addr.s_addr = htonl(host);
	a.in.sin_port = htons(port);
	a.len = sizeof a.in;
	return a;
}

struct in6_addr
ip_of_v4(uint32_t host)
{
	struct in6_addr ip = {.s6_addr = {[10] = 0xff, 0xff}};
	uint32_t be = htonl(host);

	memcpy(&ip.s6_addr[12], &be, sizeof be);
	return ip;
}

uint32_t
ip_to_v4(const struct in6_addr *ip)
{
	uint32_t be;

	memcpy(&be, &ip->s6_addr[12], sizeof be);
	return IN6_IS_ADDR_V4MAPPED(ip) ? ntohl(be) : 0;
}

struct addr
addr_of(const struct in6_addr *ip, uint16_t port)
{
	struct addr a = {.len = sizeof a.in6};

	if (IN6_IS_ADDR_V4MAPPED(ip))
		return addr_ipv4(ip_to_v4(ip), port);
	a.in6.sin6_family = AF_INET6;
	a.in6.sin6_port = htons(port);
	a.in6.sin6_addr = *ip;
	return a;
}

const char *
ip_text(const struct in6_addr *ip, char to[IP_TEXT_MAX])
{
	struct in_addr v4 = {.s_addr = htonl(ip_to_v4(ip))};

	if (IN6_IS_ADDR_V4MAPPED(ip))
		inet_ntop(AF_INET, &v4, to, IP_TEXT_MAX);
	else
		inet_ntop(AF_INET6, ip, to, IP_TEXT_MAX);
	return to;
}

struct addr
addr_with_port(const struct addr *a, uint16_t port)
{
	struct addr to = *a;

	if (a->sa.sa_family == AF_INET)
		to.in.sin_port = htons(port);
	else if (a->sa.sa_family == AF_INET6)
		to.in6.sin6_port = htons(port);
	return to;
}

const char *
addr_text(const struct addr *a, char to[ADDR_TEXT_MAX])
{
	char host[INET6_ADDRSTRLEN] = "?";

	switch (a->sa.sa_family) {
	case AF_INET:
		inet_ntop(AF_INET, &a->in.sin_addr, host, sizeof host);
		snprintf(to, ADDR_TEXT_MAX, "%s:%u", host, ntohs(a->in.sin_port));
		break;
	case AF_INET6:
		inet_ntop(AF_INET6, &a->in6.sin6_addr, host, sizeof host);
		snprintf(to, ADDR_TEXT_MAX, "[%s]:%u", host, ntohs(a->in6.sin6_port));
		break;
	case AF_UNIX:
		snprintf(to, ADDR_TEXT_MAX, "unix:%.108s", a->un.sun_path);
		break;
	default:
		snprintf(to, ADDR_TEXT_MAX, "(no address)");
	}
	return to;
}

bool
addr_ip(const struct addr *a, struct in6_addr *ip)
{
	memset(ip, 0, sizeof *ip);
	if (a->sa.sa_family == AF_INET6)
		*ip = a->in6.sin6_addr;
	else if (a->sa.sa_family == AF_INET)
		*ip = ip_of_v4(ntohl(a->in.sin_addr.s_addr));
	else
		return false;
	return true;
}

bool
addr_same(const struct addr *a, const struct addr *b)
{
	struct in6_addr ip_a, ip_b;

	return a->sa.sa_family == b->sa.sa_family && addr_port(a) == addr_port(b) &&
		addr_ip(a, &ip_a) == addr_ip(b, &ip_b) && memcmp(&ip_a, &ip_b, sizeof ip_a) == 0;
}

uint16_t
addr_port(const struct addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return ntohs(a->in.sin_port);
	if (a->sa.sa_family == AF_INET6)
		return ntohs(a->in6.sin6_port);
	return 0;
}

static bool
is_loopback(const struct addr *a)
{
	static const uint8_t mapped[13] = {[10] = 0xff, 0xff, 127};

	if (a->sa.sa_family == AF_INET)
		return ntohl(a->in.sin_addr.s_addr) >> 24 == 127;
	return a->sa.sa_family == AF_INET6 &&
		(IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr) ||
			memcmp(&a->in6.sin6_addr, mapped, sizeof mapped) == 0);
}

/* Where the kernel's default is BBR, each packet waits for a pacing timer, which took a third of
 * the CPU of a fast connection. Pacing has no use when the connection never leaves the machine.
 * Must run before connect, or the connection keeps its timers. */
static void
spare_pacing(int fd, const struct addr *a)
{
	char name[16] = "";
	socklen_t len = sizeof name - 1;

	if (is_loopback(a) && getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len) == 0 &&
		strncmp(name, "bbr", 3) == 0)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

/* Removes a Unix socket file that no process listens on: left over from an earlier run. */
static void
remove_dead_unix(const struct addr *a)
{
	auto_fd int fd = -1;
	struct stat st;

	if (lstat(a->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && connect(fd, &a->sa, a->len) < 0 && errno == ECONNREFUSED)
		unlink(a->un.sun_path);
}

static bool
sock_is_six(int fd)
{
	int family = AF_UNSPEC;
	socklen_t len = sizeof family;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len) == 0 && family == AF_INET6;
}

void
sock_ask_interface(int fd, int family)
{
	int on = 1;

	if (family == AF_INET6)
		setsockopt(fd, SOL_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
	else
		setsockopt(fd, SOL_IP, IP_PKTINFO, &on, sizeof on);
}

/* -1, with the error of TCP, where neither can be made. */
static int
sock_open(int family, int type, bool multipath)
{
	int fd = multipath ? socket(family, type, IPPROTO_MPTCP) : -1;

	return fd >= 0 ? fd : socket(family, type, 0);
}

static int
open_bound(const struct addr *a, int type, unsigned flags, int *out, struct err *err)
{
	auto_fd int fd = inherited_take(a, type);
	char text[ADDR_TEXT_MAX];
	int on = 1, rc;
	mode_t mask = 0;

	if (fd >= 0) { /* inherited: already bound, with the same options */
		if (flags & SOCK_TRANSPARENT)
			sock_transparent(fd);
		*out = take_fd(&fd);
		return 0;
	}
	fd = sock_open(a->sa.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK,
		(flags & SOCK_MULTIPATH) != 0);
	if (fd < 0)
		return err_set(err, errno, "socket: %s", strerror(errno));
	if (a->sa.sa_family == AF_UNIX) {
		remove_dead_unix(a);
		mask = umask(0177);
	} else {
		if (type == SOCK_STREAM)
			setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
		if (flags & SOCK_V6ONLY && a->sa.sa_family == AF_INET6)
			setsockopt(fd, SOL_IPV6, IPV6_V6ONLY, &on, sizeof on);
		if (flags & SOCK_REUSEPORT)
			setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
		if (flags & SOCK_FREEBIND)
			setsockopt(fd, SOL_IP, IP_FREEBIND, &on, sizeof on);
		if (flags & SOCK_INTERFACE)
			sock_ask_interface(fd, a->sa.sa_family);
		if (flags & SOCK_HOPS)
			hops_ask(fd, a->sa.sa_family);
	}
	rc = bind(fd, &a->sa, a->len) < 0 ? -errno : 0;
	if (a->sa.sa_family == AF_UNIX)
		umask(mask);
	if (rc < 0)
		return err_set(err, rc, "cannot bind %s: %s", addr_text(a, text), strerror(-rc));
	if (flags & SOCK_TRANSPARENT) /* after bind: with it, any address could be bound */
		sock_transparent(fd);
	*out = take_fd(&fd);
	return 0;
}

int
sock_listen(const struct addr *a, unsigned flags, int *out, struct err *err)
{
	auto_fd int fd = -1;
	char text[ADDR_TEXT_MAX];
	int rc = open_bound(a, SOCK_STREAM, flags, &fd, err);

	if (rc < 0)
		return rc;
	spare_pacing(fd, a);
	if (listen(fd, 4096) < 0)
		return err_set(
			err, errno, "cannot listen on %s: %s", addr_text(a, text), strerror(errno));
	*out = take_fd(&fd);
	return 0;
}

int
sock_udp(const struct addr *a, unsigned flags, int *fd, struct err *err)
{
	return open_bound(a, SOCK_DGRAM, flags, fd, err);
}

/* connect(2) has the same error where all ports are in use, which UDP does not need. */
static bool
lacks_source(const struct addr *a)
{
	auto_fd int fd = socket(a->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && connect(fd, &a->sa, a->len) < 0 && errno == EADDRNOTAVAIL;
}

static int
sock_bind_shared(int fd, const struct addr *from)
{
	const int on = 1;

	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) < 0 ||
		bind(fd, &from->sa, from->len) < 0)
		return -errno;
	return 0;
}

struct opening {
	uint32_t mark;
	unsigned hops;
	const struct addr *from; /* NULL: as the kernel chooses */
	bool speaks; /* its first bytes are there already */
};

static int
open_connected(const struct addr *a, int type, const struct opening *o, int *out)
{
	static const int on = 1;
	const bool multipath = type == SOCK_MULTIPATH_STREAM;
	auto_fd int fd = sock_open(a->sa.sa_family,
		(multipath ? SOCK_STREAM : type) | SOCK_CLOEXEC | SOCK_NONBLOCK, multipath);
	int rc;

	if (fd < 0)
		return -errno;
	if (o->mark != 0 && setsockopt(fd, SOL_SOCKET, SO_MARK, &o->mark, sizeof o->mark) < 0)
		return -errno;
	hops_mark(fd, a->sa.sa_family, o->hops);
	if (a->sa.sa_family != AF_UNIX && type != SOCK_DGRAM)
		sock_nodelay(fd);
	spare_pacing(fd, a);
	if (o->from != NULL && (rc = sock_bind_shared(fd, o->from)) < 0)
		return rc;
	if (o->speaks) /* of a client it defers the acknowledgement of the SYN-ACK, nothing else */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &on, sizeof on);
	if (connect(fd, &a->sa, a->len) < 0 && errno != EINPROGRESS) {
		rc = -errno;
		return rc == -EADDRNOTAVAIL && a->sa.sa_family == AF_INET6 && lacks_source(a)
			? -ENETUNREACH
			: rc;
	}
	*out = take_fd(&fd);
	return 0;
}

int
sock_connect(const struct addr *a, uint32_t mark, int *fd)
{
	return open_connected(a, SOCK_STREAM, &(struct opening){.mark = mark}, fd);
}

int
sock_connect_from(const struct addr *from, const struct addr *to, uint32_t mark, int *fd)
{
	return open_connected(to, SOCK_STREAM, &(struct opening){.mark = mark, .from = from}, fd);
}

struct addr
sock_local(int fd)
{
	struct addr a = {.len = sizeof a.in6};

	if (getsockname(fd, &a.sa, &a.len) < 0)
		a.len = 0;
	return a;
}

int
sock_connect_multipath(const struct addr *a, uint32_t mark, int *fd)
{
	return open_connected(a, SOCK_MULTIPATH_STREAM, &(struct opening){.mark = mark}, fd);
}

int
sock_connect_hops(const struct addr *a, uint32_t mark, unsigned hops, bool speaks, int *fd)
{
	return open_connected(a, SOCK_STREAM,
		&(struct opening){.mark = mark, .hops = hops, .speaks = speaks}, fd);
}

int
sock_connect_udp(const struct addr *a, uint32_t mark, unsigned hops, int *fd)
{
	return open_connected(a, SOCK_DGRAM, &(struct opening){.mark = mark, .hops = hops}, fd);
}

/* Is the accepted peer the socket `from`, and not another process that connected first? */
static bool
is_end_of(const struct addr *peer, int from)
{
	struct addr own = {.len = sizeof own.in6};

	return getsockname(from, &own.sa, &own.len) == 0 && own.in.sin_port == peer->in.sin_port &&
		own.in.sin_addr.s_addr == peer->in.sin_addr.s_addr;
}

/* Limits kernel memory when a reader stops reading; within the machine larger buffers bring no
 * speed. */
static void
bound_buffers(int fd)
{
	static const int bytes = PAIR_BUFFER;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

int
sock_pair(int fds[2])
{
	static const struct timeval soon = {
		.tv_usec = 100 * 1000}; /* lo answers at once, or never */
	auto_fd int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	auto_fd int from = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	auto_fd int to = -1;
	struct addr at = addr_ipv4(INADDR_LOOPBACK, 0), peer = {.len = sizeof peer.in6};

	if (listener < 0 || from < 0)
		return -errno;
	bound_buffers(from);
	bound_buffers(listener); /* `to` inherits it */
	spare_pacing(from, &at);
	spare_pacing(listener, &at);
	setsockopt(from, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
	setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon);
	if (bind(listener, &at.sa, at.len) < 0 || listen(listener, 1) < 0 ||
		getsockname(listener, &at.sa, &at.len) < 0 || connect(from, &at.sa, at.len) < 0)
		return -errno;
	to = accept4(listener, &peer.sa, &peer.len, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (to < 0)
		return -errno;
	if (!is_end_of(&peer, from))
		return -ECONNABORTED;
	if (fcntl(from, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	sock_nodelay(from);
	sock_nodelay(to);
	fds[0] = take_fd(&from);
	fds[1] = take_fd(&to);
	return 0;
}

unsigned
sock_rtt_ms(int fd)
{
	struct tcp_info info[SOCK_PATHS_MOST];

	return sock_paths_info(fd, info) > 0 ? info[0].tcpi_rtt / 1000 : 0;
}

bool
sock_drains(int fd, unsigned within_ms)
{
	struct tcp_info info[SOCK_PATHS_MOST];
	unsigned n = sock_paths_info(fd, info);

	for (unsigned i = 0; i < n; i++)
		if (info[i].tcpi_unacked > 0 && info[i].tcpi_last_ack_recv < within_ms)
			return true;
	return false;
}

/* Leads the connection to another machine? */
static bool
sock_is_remote(int fd)
{
	struct addr to = {.len = sizeof to.in6};
	struct in6_addr ip;

	return getpeername(fd, &to.sa, &to.len) == 0 && addr_ip(&to, &ip) &&
		special_addr_class(&ip) != SPECIAL_LOOPBACK;
}

bool
sock_acknowledged(int fd, unsigned within_ms)
{
	struct tcp_info info[SOCK_PATHS_MOST];
	unsigned n = sock_is_remote(fd) ? sock_paths_info(fd, info) : 0;

	for (unsigned i = 0; i < n; i++)
		if (info[i].tcpi_unacked == 0 && info[i].tcpi_last_ack_recv < within_ms)
			return true;
	return false;
}

bool
sock_received(int fd, struct sock_received *r)
{
	struct tcp_info info[SOCK_PATHS_MOST];
	unsigned n = sock_is_remote(fd) ? sock_paths_info(fd, info) : 0;

	*r = (struct sock_received){.ago_ms = UINT_MAX};
	for (unsigned i = 0; i < n; i++) {
		r->segments += info[i].tcpi_segs_in;
		r->ago_ms = MIN(
			r->ago_ms, MIN(info[i].tcpi_last_data_recv, info[i].tcpi_last_ack_recv));
	}
	return n > 0;
}

/* A new TCP_KEEPIDLE counts from what was received last, so that a probe is due now. */
bool
sock_probe(int fd, bool on)
{
	const int second = 1, is_on = on;

	if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &is_on, sizeof is_on) < 0)
		return false;
	return !on ||
		(setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &second, sizeof second) == 0 &&
			setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &second, sizeof second) == 0);
}

bool
sock_rerouted(int fd)
{
	struct addr from = {.len = sizeof from.in6}, to = {.len = sizeof to.in6};
	struct addr now = {.len = sizeof now.in6};
	struct in6_addr was, is;
	uint32_t mark = 0;
	socklen_t len = sizeof mark;
	auto_fd int udp = -1;

	if (getsockname(fd, &from.sa, &from.len) < 0 || getpeername(fd, &to.sa, &to.len) < 0 ||
		!addr_ip(&from, &was))
		return false;
	(void)getsockopt(fd, SOL_SOCKET, SO_MARK, &mark, &len);
	return sock_connect_udp(&to, mark, 0, &udp) == 0 &&
		getsockname(udp, &now.sa, &now.len) == 0 && addr_ip(&now, &is) &&
		memcmp(&was, &is, sizeof is) != 0;
}

bool
sock_short_of(int rc)
{
	return rc == -EMFILE || rc == -ENFILE || rc == -ENOBUFS || rc == -ENOMEM ||
		rc == -EADDRNOTAVAIL || rc == -EAGAIN;
}

void
sock_close(int *fd, bool reset)
{
	static const struct linger now = {.l_onoff = 1};

	if (*fd < 0)
		return;
	if (reset)
		(void)setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	close(take_fd(fd));
}

int
sock_error(int fd)
{
	int error = 0;
	socklen_t len = sizeof error;

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return errno;
	return error;
}

int
sock_nodelay(int fd)
{
	int on = 1;

	return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ? -errno : 0;
}

unsigned
sock_interface(int fd)
{
	enum {
		PKTOPTIONS_SIX = 6
	}; /* IPV6_2292PKTOPTIONS of linux/in6.h, which conflicts with netinet/in.h */

	uint8_t control[256] __attribute__((aligned(__alignof__(struct cmsghdr))));
	struct msghdr m = {.msg_control = control};
	socklen_t len = sizeof control;
	bool six = sock_is_six(fd);

	sock_ask_interface(fd, six ? AF_INET6 : AF_INET);
	if (getsockopt(fd, six ? SOL_IPV6 : SOL_IP, six ? PKTOPTIONS_SIX : IP_PKTOPTIONS, control,
		    &len) < 0)
		return 0;
	m.msg_controllen = len;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h != NULL; h = CMSG_NXTHDR(&m, h)) {
		struct in6_pktinfo of_six;
		struct in_pktinfo info;

		if (six && h->cmsg_level == SOL_IPV6 && h->cmsg_type == IPV6_PKTINFO) {
			memcpy(&of_six, CMSG_DATA(h), sizeof of_six);
			return of_six.ipi6_ifindex;
		}
		if (h->cmsg_level != SOL_IP || h->cmsg_type != IP_PKTINFO)
			continue;
		memcpy(&info, CMSG_DATA(h), sizeof info);
		return (unsigned)info.ipi_ifindex;
	}
	return 0;
}

int
sock_original(int fd, struct addr *to)
{
	enum {
		ORIGINAL_DST = 80
	}; /* from linux/netfilter_ipv4.h, which conflicts with netinet/in.h */

	*to = (struct addr){.len = sizeof to->in};
	if (getsockopt(fd, SOL_IP, ORIGINAL_DST, &to->in, &to->len) == 0)
		return 0;
	to->len = sizeof to->in6;
	return getsockopt(fd, SOL_IPV6, ORIGINAL_DST, &to->in6, &to->len) < 0 ? -errno : 0;
}

void
sock_transparent(int fd)
{
	int on = 1;

	if (sock_is_six(fd))
		(void)setsockopt(fd, SOL_IPV6, IPV6_TRANSPARENT, &on, sizeof on);
	else
		(void)setsockopt(fd, SOL_IP, IP_TRANSPARENT, &on, sizeof on);
}

uint16_t
sock_port(int fd)
{
	struct addr at = {.len = sizeof at.un};

	return fd >= 0 && getsockname(fd, &at.sa, &at.len) == 0 ? addr_port(&at) : 0;
}
