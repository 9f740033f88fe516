/*
 * DNS over UDP: one socket, read and written in batches. It answers from the address that was
 * asked, but udp_send from the one that it is bound to. One per worker, used on its loop only.
 *
 *	recvmmsg ► fn (query in, answer out) ► group ► sendmmsg
 *
 * A query is read at once, until so many come that dns/front/batching lets them gather: then they
 * are read every UDP_GATHER_US.
 *
 *	udp_open(&u, loop, take_fd(&fd), &counters, on_query, me);
 *	on_query: ... return length;		// or 0, and udp_send later or never
 *	udp_close(&u);
 */
#ifndef EDGEWAY_DNS_FRONT_UDP_H
#define EDGEWAY_DNS_FRONT_UDP_H

#include <netinet/in.h>
#include <stdatomic.h>

#include "base/core/loop.h"
#include "dns/answer/message.h"

enum { UDP_GATHER_US = 100 };

struct udp_counters {
	_Atomic uint64_t received, reads; /* datagrams, and the times that we read any */
	/* datagrams of clients that send too many, see dns/forward/limit */
	_Atomic uint64_t limited;
	_Atomic uint64_t send_errors;
	_Atomic uint64_t gathering; /* 1 while queries are let gather */
};

struct udp;

struct udp_from {
	struct sockaddr_in client;
	unsigned interface; /* index of the one that it came by */
};

/* A datagram, borrowed for the call; writes up to DNS_UDP_MAX bytes to `out` and returns how
 * many. */
typedef size_t udp_query_fn(
	void *arg, const struct udp_from *from, const uint8_t *m, size_t len, uint8_t *out);

void udp_open(struct udp **u, struct loop *loop, int fd, struct udp_counters *count,
	udp_query_fn *fn, void *arg);
/* Not from within fn. */
/* Reads no more; answers can still be sent. */
void udp_quiet(struct udp *u);
void udp_close(struct udp **u);
void udp_send(struct udp *u, const struct sockaddr_in *to, const uint8_t *m, size_t len);

#endif
