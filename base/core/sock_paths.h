/*
 * The paths of a connection made with MPTCP (RFC 8684): how many there are, and whether one of them
 * has been lost. The kernel sends again by another path only what was given to a lost one first,
 * once per retransmission timeout, and goes on with the rest after four of them; so whoever knows
 * earlier withdraws the path's address (iptables/host/multipath.h), by which both ends at once
 * send everything again by the others.
 *
 *	struct sock_paths p = {0};
 *	if (sock_paths_lost(&p, fd, now_ms, &local)) ... // asked each 25 ms or so while data flows
 */
#ifndef EDGEWAY_BASE_CORE_SOCK_PATHS_H
#define EDGEWAY_BASE_CORE_SOCK_PATHS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum { SOCK_PATHS_MOST = 8 }; /* the kernel's bound of subflows */

struct tcp_info; /* linux/tcp.h */

/* What was seen so far of what the paths brought; zeroed at first. */
struct sock_paths {
	uint64_t next, ahead, base, since_ms; /* of all together: see sock_paths_gap_ms */
	uint64_t unanswered_ms[SOCK_PATHS_MOST];
	uint64_t came_ms;
	uint32_t segments;
	unsigned n;
	bool busy;
	bool stopped; /* a steady flow has just ended: whoever sends something now will know why */
};

/* TCP_INFO of a connection, or of each of its paths, SOCK_PATHS_MOST at most. Returns how many;
 * 0: no TCP. */
unsigned sock_paths_info(int fd, struct tcp_info *info);
/* How many established paths a connection uses with MPTCP; 0: it is TCP. */
unsigned sock_paths(int fd);
/* True if one of them begins at this local address. */
bool sock_paths_use(int fd, const struct in6_addr *local);
/* True if a path is silent though data is under way on it, while another one is not: what it was
 * given is not acknowledged, or data is missing that others have overtaken.
 * *local is its address at this end. Never the last one. */
bool sock_paths_lost(struct sock_paths *p, int fd, uint64_t now_ms, struct in6_addr *local);

#endif
