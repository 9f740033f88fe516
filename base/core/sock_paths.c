#include "base/core/sock_paths.h"

#include <limits.h>
#include <linux/mptcp.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <string.h>

#include "base/core/sock.h"

enum {
	/* Longer than Linux delays an acknowledgement, 40 ms or a round trip; as with TCP's
	 * time-out, what a path's round trips take and how they vary is added. */
	SOCK_PATHS_SILENT_MS = 125,
	SOCK_PATHS_BUSY = 2, /* segments between two looks */
	SOCK_PATHS_STOPPED_MS = 50,
	SOCK_PATHS_ESTABLISHED = 1, /* TCP_ESTABLISHED of netinet/tcp.h, which conflicts */
};

unsigned
sock_paths_info(int fd, struct tcp_info *info)
{
	struct {
		struct mptcp_subflow_data head;
		struct tcp_info info[SOCK_PATHS_MOST];
	} all = {.head = {.size_subflow_data = sizeof all.head, .size_user = sizeof *info}};
	socklen_t len = sizeof all;
	unsigned n;

	if (getsockopt(fd, SOL_MPTCP, MPTCP_TCPINFO, &all, &len) == 0) {
		n = MIN(all.head.num_subflows, (uint32_t)SOCK_PATHS_MOST);
		/* the kernel's elements are as far apart as its own struct is large, if that is
		 * smaller than ours */
		for (unsigned i = 0; i < n; i++) {
			info[i] = (struct tcp_info){0};
			memcpy(&info[i], (const char *)all.info + (size_t)i * all.head.size_user,
				MIN((size_t)all.head.size_user, sizeof *info));
		}
		return n;
	}
	memset(info, 0, sizeof *info);
	len = sizeof *info;
	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0 &&
		len >= offsetof(struct tcp_info, tcpi_segs_in) + sizeof info->tcpi_segs_in;
}

static bool
sock_paths_mptcp(int fd, struct mptcp_info *m)
{
	socklen_t len = sizeof *m;

	memset(m, 0, sizeof *m);
	return getsockopt(fd, SOL_MPTCP, MPTCP_INFO, m, &len) == 0 &&
		(m->mptcpi_flags & MPTCP_INFO_FLAG_FALLBACK) == 0;
}

/* In the order of sock_paths_info. */
static unsigned
sock_paths_locals(int fd, struct in6_addr local[SOCK_PATHS_MOST])
{
	struct {
		struct mptcp_subflow_data head;
		struct mptcp_subflow_addrs addrs[SOCK_PATHS_MOST];
	} all = {.head = {.size_subflow_data = sizeof all.head, .size_user = sizeof *all.addrs}};
	socklen_t len = sizeof all;
	unsigned n;

	if (getsockopt(fd, SOL_MPTCP, MPTCP_SUBFLOW_ADDRS, &all, &len) < 0)
		return 0;
	n = MIN(all.head.num_subflows, (uint32_t)SOCK_PATHS_MOST);
	for (unsigned i = 0; i < n; i++) {
		struct addr a = {.len = sizeof a.in6};

		memcpy(&a, &all.addrs[i].ss_local, sizeof a.in6);
		if (!addr_ip(&a, &local[i]))
			local[i] = in6addr_any;
	}
	return n;
}

unsigned
sock_paths(int fd)
{
	struct tcp_info info[SOCK_PATHS_MOST];
	struct mptcp_info m;
	unsigned n = sock_paths_mptcp(fd, &m) ? sock_paths_info(fd, info) : 0, open = 0;

	for (unsigned i = 0; i < n; i++)
		open += info[i].tcpi_state == SOCK_PATHS_ESTABLISHED;
	return open;
}

bool
sock_paths_use(int fd, const struct in6_addr *local)
{
	struct tcp_info info[SOCK_PATHS_MOST];
	struct in6_addr locals[SOCK_PATHS_MOST];
	unsigned n = sock_paths_info(fd, info);

	n = MIN(n, sock_paths_locals(fd, locals));
	for (unsigned i = 0; i < n; i++)
		if (info[i].tcpi_state == SOCK_PATHS_ESTABLISHED && ip_same(&locals[i], local))
			return true;
	return false;
}

/* For how long data has been missing that others have overtaken. All paths together have brought
 * more then than the connection has taken, as what comes twice does, too: that stays so while the
 * connection goes on. next, the connection's, was read before the others' numbers. */
static uint64_t
sock_paths_gap_ms(struct sock_paths *p, uint64_t next, const struct tcp_info *info, unsigned n,
	uint64_t now_ms)
{
	uint64_t ahead = 0;
	bool same;

	for (unsigned i = 0; i < n; i++)
		ahead += info[i].tcpi_bytes_received;
	ahead -= next;
	same = ahead == p->ahead;
	if (n != p->n || (int64_t)(ahead - p->base) <= 0 || (next != p->next && same)) {
		p->base = ahead;
		p->since_ms = 0;
	} else if (p->since_ms == 0) {
		p->since_ms = now_ms;
	}
	p->n = n;
	p->ahead = ahead;
	p->next = next;
	return p->since_ms != 0 ? now_ms - p->since_ms : 0;
}

static unsigned
sock_paths_silent_ms(const struct tcp_info *i)
{
	return i->tcpi_state == SOCK_PATHS_ESTABLISHED
		? MIN(i->tcpi_last_ack_recv, i->tcpi_last_data_recv)
		: UINT_MAX;
}

static unsigned
sock_paths_patience_ms(const struct tcp_info *i)
{
	return SOCK_PATHS_SILENT_MS + (2 * i->tcpi_rtt + 4 * i->tcpi_rttvar) / 1000;
}

/* Where only the peer's data is lost, nothing waits here for an acknowledgement. */
static void
sock_paths_watch_flow(
	struct sock_paths *p, const struct tcp_info *info, unsigned n, uint64_t now_ms)
{
	uint32_t segments = 0;

	for (unsigned i = 0; i < n; i++)
		segments += info[i].tcpi_segs_in;
	if (segments != p->segments) {
		p->busy |= n == p->n && segments - p->segments >= SOCK_PATHS_BUSY;
		p->came_ms = now_ms;
	}
	p->segments = segments;
	p->stopped = p->busy && now_ms - p->came_ms >= SOCK_PATHS_STOPPED_MS;
	p->busy &= !p->stopped;
}

/* Notes since when a path has waited for an acknowledgement. */
static void
sock_paths_await(struct sock_paths *p, const struct tcp_info *info, unsigned n, uint64_t now_ms)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t *since = &p->unanswered_ms[i];

		if (n != p->n || info[i].tcpi_unacked == 0 ||
			*since < now_ms - sock_paths_silent_ms(&info[i]))
			*since = 0;
		if (*since == 0 && info[i].tcpi_unacked > 0)
			*since = now_ms -
				MIN(info[i].tcpi_last_data_sent, sock_paths_silent_ms(&info[i]));
	}
}

static bool
sock_paths_fails(
	const struct sock_paths *p, const struct tcp_info *info, unsigned i, uint64_t now_ms)
{
	return p->unanswered_ms[i] != 0 &&
		now_ms - p->unanswered_ms[i] >= sock_paths_patience_ms(&info[i]);
}

/* Another one is established and, as far as is known, works; for the sake of a gap: has brought
 * something later than this one. */
static bool
sock_paths_spares(const struct sock_paths *p, const struct tcp_info *info, unsigned i,
	uint64_t now_ms, bool gap)
{
	for (unsigned j = 0; j < p->n; j++)
		if (j != i && info[j].tcpi_state == SOCK_PATHS_ESTABLISHED &&
			!sock_paths_fails(p, info, j, now_ms) &&
			(!gap || sock_paths_silent_ms(&info[j]) < sock_paths_silent_ms(&info[i])))
			return true;
	return false;
}

bool
sock_paths_lost(struct sock_paths *p, int fd, uint64_t now_ms, struct in6_addr *local)
{
	struct tcp_info info[SOCK_PATHS_MOST];
	struct in6_addr locals[SOCK_PATHS_MOST];
	struct mptcp_info m;
	unsigned n = sock_paths_mptcp(fd, &m) ? sock_paths_info(fd, info) : 0;
	uint64_t gap_ms;

	p->stopped = false;
	if (n < 2 || sock_paths_locals(fd, locals) != n)
		return false;
	sock_paths_watch_flow(p, info, n, now_ms);
	sock_paths_await(p, info, n, now_ms);
	gap_ms = sock_paths_gap_ms(p, m.mptcpi_rcv_nxt, info, n, now_ms);
	for (unsigned i = 0; i < n; i++) {
		const unsigned patience_ms = sock_paths_patience_ms(&info[i]);
		const bool gap =
			gap_ms >= patience_ms && sock_paths_silent_ms(&info[i]) >= patience_ms;

		if (info[i].tcpi_state != SOCK_PATHS_ESTABLISHED ||
			!((sock_paths_fails(p, info, i, now_ms) &&
				  sock_paths_spares(p, info, i, now_ms, false)) ||
				(gap && sock_paths_spares(p, info, i, now_ms, true))))
			continue;
		*local = locals[i];
		p->n = 0; /* begins anew: what has come twice by then counts as nothing */
		return true;
	}
	return false;
}
