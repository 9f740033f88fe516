#include "dns/front/udp.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "dns/forward/limit.h"
#include "dns/front/batching.h"
#include "dns/front/gso.h"

enum {
	BATCH = 32,
	TURNS = 4, /* batches before other watches of the loop are served */
	QUERY_BYTES = 1472, /* bytes that we read of a query; a longer one is a FORMERR */
	RECEIVE_BYTES = 1 << 20, /* over a thousand queries can wait while the loop is busy */
	ARRIVAL_BYTES = CMSG_SPACE(sizeof(struct in6_pktinfo)),
};

struct out {
	struct mmsghdr message[BATCH];
	struct iovec vec[BATCH]; /* in the order of sending, so that a group's are adjacent */
	uint8_t control[BATCH][ARRIVAL_BYTES] __attribute__((aligned(__alignof__(struct cmsghdr))));
	struct in6_addr
		local[BATCH]; /* address that the query was sent to; its first 4 bytes: IPv4 */
	struct gso_item item[BATCH];
	uint8_t answer[BATCH][DNS_UDP_MAX];
	uint16_t len[BATCH];
};

struct udp {
	struct loop *loop;
	int fd;
	socklen_t name_len; /* of a client's address: the socket's family */
	struct watch *watch;
	int tick; /* timerfd, because the loop's own timers count in ms */
	struct watch *tick_watch;
	bool segments; /* UDP_SEGMENT is usable */
	bool any; /* bound to every address: an answer leaves from the one that was asked */
	struct batching pace;
	bool gathering;
	bool pressed; /* overload: more queries arrive than we answer */
	struct limit limit;
	struct udp_counters *count;
	udp_query_fn *fn;
	void *arg;
	struct mmsghdr message[BATCH];
	struct iovec vec[BATCH];
	struct dns_client from[BATCH];
	uint8_t control[BATCH][ARRIVAL_BYTES] __attribute__((aligned(__alignof__(struct cmsghdr))));
	uint8_t query[BATCH][QUERY_BYTES];
	struct out out;
};

static void
udp_add(_Atomic uint64_t *c, uint64_t n)
{
	atomic_store_explicit(
		c, atomic_load_explicit(c, memory_order_relaxed) + n, memory_order_relaxed);
}

static bool
udp_is_six(const struct udp *u)
{
	return u->name_len == sizeof(struct sockaddr_in6);
}

/* --- sending -------------------------------------------------------------------------------- */

void
udp_send(struct udp *u, const struct dns_client *to, const uint8_t *m, size_t len)
{
	if (sendto(u->fd, m, len, MSG_DONTWAIT | MSG_NOSIGNAL, &to->sa, dns_client_len(to)) < 0)
		udp_add(&u->count->send_errors, 1);
}

static void
put_control(struct msghdr *m, uint8_t *at, int level, int type, const void *data, size_t len)
{
	struct cmsghdr *h = (struct cmsghdr *)(void *)at;

	h->cmsg_level = level;
	h->cmsg_type = type;
	h->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(h), data, len);
	m->msg_control = h;
	m->msg_controllen = CMSG_SPACE(len);
}

static void
put_local(const struct udp *u, struct msghdr *m, uint8_t *at, const struct in6_addr *local)
{
	const struct in6_pktinfo six = {.ipi6_addr = *local};
	struct in_pktinfo four = {0};

	memcpy(&four.ipi_spec_dst, local, sizeof four.ipi_spec_dst);
	if (udp_is_six(u))
		put_control(m, at, IPPROTO_IPV6, IPV6_PKTINFO, &six, sizeof six);
	else
		put_control(m, at, IPPROTO_IP, IP_PKTINFO, &four, sizeof four);
}

/* Builds one message of `k` answers to one client; its iovecs begin at `vec`[at]. */
static void
put_message(struct udp *u, struct mmsghdr *message, const struct gso_item *items, size_t k)
{
	struct out *o = &u->out;
	size_t at = (size_t)(items - o->item);
	struct msghdr *m = &message->msg_hdr;
	uint16_t len = o->len[items[0].slot];

	for (size_t i = 0; i < k; i++)
		o->vec[at + i] = (struct iovec){o->answer[items[i].slot], o->len[items[i].slot]};
	m->msg_name = &u->from[items[0].slot];
	m->msg_namelen = u->name_len;
	m->msg_iov = &o->vec[at];
	m->msg_iovlen = k;
	m->msg_control = NULL;
	m->msg_controllen = 0;
	if (k > 1)
		put_control(m, o->control[at], IPPROTO_UDP, UDP_SEGMENT, &len, sizeof len);
	if (u->any)
		put_local(u, m, o->control[at], &o->local[items[0].slot]);
}

/* The kernel refused a group: it exceeds the route's MTU (this once), or the device computes no
 * checksums (from now on). */
static void
send_apart(struct udp *u, const struct msghdr *m, int error)
{
	if (error == EIO)
		u->segments = false;
	for (size_t i = 0; i < m->msg_iovlen; i++)
		udp_send(u, m->msg_name, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
}

static void
send_messages(struct udp *u, unsigned n)
{
	unsigned sent = 0;

	while (sent < n) {
		struct mmsghdr *next = u->out.message + sent;
		int rc = sendmmsg(u->fd, next, n - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (rc > 0) {
			sent += (unsigned)rc;
			continue;
		}
		/* One unreachable client must not cost the others their answers. */
		if (next->msg_hdr.msg_iovlen > 1)
			send_apart(u, &next->msg_hdr, errno);
		else
			udp_add(&u->count->send_errors, 1);
		sent++;
	}
}

static void
send_batch(struct udp *u, unsigned n_items)
{
	struct out *o = &u->out;
	unsigned n = 0;

	if (u->segments)
		gso_sort(o->item, n_items);
	for (size_t at = 0, k; at < n_items; at += k) {
		k = u->segments ? gso_next(o->item + at, n_items - at) : 1;
		put_message(u, &o->message[n++], o->item + at, k);
	}
	send_messages(u, n);
}

/* --- receiving ------------------------------------------------------------------------------ */

static unsigned
interface_of(struct msghdr *m, struct in6_addr *local)
{
	for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h != NULL; h = CMSG_NXTHDR(m, h)) {
		struct in_pktinfo four;
		struct in6_pktinfo six;

		if (h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO) {
			memcpy(&four, CMSG_DATA(h), sizeof four);
			memcpy(local, &four.ipi_spec_dst, sizeof four.ipi_spec_dst);
			return (unsigned)four.ipi_ifindex;
		}
		if (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_PKTINFO) {
			memcpy(&six, CMSG_DATA(h), sizeof six);
			*local = six.ipi6_addr;
			return six.ipi6_ifindex;
		}
	}
	*local = (struct in6_addr){0};
	return 0;
}

/* What tells clients of a batch that have the same port apart: the address; of IPv6 the slot of the
 * client's first query. */
static uint32_t
client_of_batch(const struct udp *u, unsigned slot)
{
	uint32_t first = 0;

	if (!udp_is_six(u))
		return u->from[slot].in.sin_addr.s_addr;
	while (memcmp(&u->from[first].in6, &u->from[slot].in6, sizeof u->from[slot].in6) != 0)
		first++;
	return first;
}

/* Whether this client exceeds its rate while others may not get through. */
static bool
is_too_many(struct udp *u, const struct dns_client *client)
{
	char text[ADDR_TEXT_MAX];
	struct addr a = {.len = dns_client_len(client)};

	if (!u->pressed || limit_pass(&u->limit, dns_client_key(client), loop_now_ms(u->loop)))
		return false;
	memcpy(&a.sa, &client->sa, a.len);
	udp_add(&u->count->limited, 1);
	log_limited(LOG_LEVEL_WARN, 1, "dns",
		"more queries come than can be answered: beyond %u/s of one client they are "
		"dropped "
		"client=%s",
		LIMIT_PER_MS * 1000, addr_text(&a, text));
	return true;
}

/* Handles one recvmmsg. Returns how many datagrams it read. */
static unsigned
run_batch(struct udp *u)
{
	struct out *o = &u->out;
	unsigned n_out = 0;
	int n;

	for (unsigned i = 0; i < BATCH; i++)
		u->message[i].msg_hdr.msg_controllen = ARRIVAL_BYTES;
	n = recvmmsg(u->fd, u->message, BATCH, MSG_DONTWAIT, NULL);
	if (n <= 0)
		return 0;
	udp_add(&u->count->reads, 1);
	udp_add(&u->count->received, (unsigned)n);
	for (unsigned i = 0; i < (unsigned)n; i++) {
		const struct udp_from from = {
			&u->from[i], interface_of(&u->message[i].msg_hdr, &o->local[i])};
		size_t len;

		if (is_too_many(u, &u->from[i]))
			continue;
		len = u->fn(u->arg, &from, u->query[i], u->message[i].msg_len, o->answer[i]);
		if (len == 0)
			continue;
		o->len[i] = (uint16_t)len;
		o->item[n_out++] = (struct gso_item){
			gso_key(client_of_batch(u, i), u->from[i].in.sin_port, o->len[i]), i};
	}
	send_batch(u, n_out);
	return (unsigned)n;
}

/* 0: stops the tick. */
static void
set_tick(struct udp *u, long delay_us)
{
	const struct itimerspec t = {.it_value.tv_nsec = delay_us * 1000};

	timerfd_settime(u->tick, 0, &t, NULL);
}

/* While queries gather, the tick wakes us instead of the socket. */
static void
set_gathering(struct udp *u, bool on)
{
	if (on || u->gathering)
		set_tick(u, on ? UDP_GATHER_US : 0);
	if (on == u->gathering)
		return;
	u->gathering = on;
	watch_set(u->watch, on ? 0 : WATCH_READ);
	atomic_store_explicit(&u->count->gathering, on, memory_order_relaxed);
}

static bool
is_half_full(int fd)
{
	uint32_t memory[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof memory;

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory, &len) < 0)
		return false;
	return memory[SK_MEMINFO_RMEM_ALLOC] > memory[SK_MEMINFO_RCVBUF] / 2;
}

/* Called for the socket and for the tick. */
static void
on_ready(void *arg, int fd, unsigned events)
{
	struct udp *u = arg;
	unsigned all = 0, n = BATCH;
	bool gather;

	(void)fd;
	(void)events;
	for (unsigned i = 0; i < TURNS && n == BATCH; i++) {
		n = run_batch(u);
		all += n;
	}
	u->pressed = n == BATCH && (u->pressed || is_half_full(u->fd));
	gather = batching_note(&u->pace, loop_now_ms(u->loop), all);
	set_gathering(u, gather && u->tick >= 0);
}

/* --- open and close ------------------------------------------------------------------------- */

static void
set_options(struct udp *u)
{
	int size = RECEIVE_BYTES, segment;
	struct dns_client bound = {.sa.sa_family = AF_UNSPEC};
	socklen_t len = sizeof segment, bound_len = sizeof bound;

	getsockname(u->fd, &bound.sa, &bound_len);
	u->name_len = dns_client_len(&bound);
	sock_ask_interface(u->fd, bound.sa.sa_family);
	/* Without the privilege to exceed the host's limit, use up to that limit. */
	if (setsockopt(u->fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) < 0)
		setsockopt(u->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
	/* Kernels before 4.18 do not know UDP_SEGMENT, and would send one big datagram. */
	u->segments = getsockopt(u->fd, IPPROTO_UDP, UDP_SEGMENT, &segment, &len) == 0;
	/* Bound to every address, the answers of one group might have to leave from different
	 * addresses. */
	u->any = udp_is_six(u) ? IN6_IS_ADDR_UNSPECIFIED(&bound.in6.sin6_addr)
			       : bound.in.sin_addr.s_addr == htonl(INADDR_ANY);
	u->segments &= !u->any;
}

void
udp_open(struct udp **out, struct loop *loop, int fd, struct udp_counters *count, udp_query_fn *fn,
	void *arg)
{
	struct udp *u = xcalloc(1, sizeof *u);

	u->loop = loop;
	u->fd = fd;
	u->count = count;
	u->fn = fn;
	u->arg = arg;
	set_options(u);
	for (unsigned i = 0; i < BATCH; i++) {
		u->vec[i] = (struct iovec){u->query[i], QUERY_BYTES};
		u->message[i].msg_hdr.msg_iov = &u->vec[i];
		u->message[i].msg_hdr.msg_iovlen = 1;
		u->message[i].msg_hdr.msg_name = &u->from[i];
		u->message[i].msg_hdr.msg_namelen = u->name_len;
		u->message[i].msg_hdr.msg_control = u->control[i];
	}
	/* -1 when out of descriptors: then queries never gather. */
	u->tick = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (u->tick >= 0)
		u->tick_watch = watch_start(loop, u->tick, WATCH_READ, on_ready, u);
	u->watch = watch_start(loop, fd, WATCH_READ, on_ready, u);
	*out = u;
}

void
udp_quiet(struct udp *u)
{
	atomic_store_explicit(&u->count->gathering, 0, memory_order_relaxed);
	watch_stop(&u->watch);
	watch_stop(&u->tick_watch);
}

void
udp_close(struct udp **out)
{
	struct udp *u = take_ptr(out);

	if (u == NULL)
		return;
	udp_quiet(u);
	if (u->tick >= 0)
		close(u->tick);
	close(u->fd);
	free(u);
}
