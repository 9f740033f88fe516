/*
 * DNS over UDP: one socket, read and written in batches. Answers leave from the address that was
 * asked; udp_send uses the address that the socket is bound to. One per worker, used on its loop
 * only.
 *
 *	recvmmsg ► fn (query in, answer out) ► group ► sendmmsg
 *
 * A query is read at once, until the rate is so high that dns/front/batching lets queries gather:
 * then they are read every UDP_GATHER_US.
 *
 *	udp_open(&u, loop, take_fd(&fd), &counters, on_query, me);
 *	on_query: ... return length;		// or 0, and udp_send later or never
 *	udp_close(&u);
 */
#ifndef EDGEWAY_DNS_FRONT_UDP_H
#define EDGEWAY_DNS_FRONT_UDP_H

#include <stdatomic.h>

#include "base/core/loop.h"
#include "dns/answer/message.h"
#include "dns/forward/client.h"

enum { UDP_GATHER_US = 100 };

struct udp_counters {
	_Atomic uint64_t received, reads; /* datagrams, and the reads that returned any */
	/* datagrams dropped by the rate limit per client, see dns/forward/limit */
	_Atomic uint64_t limited;
	_Atomic uint64_t send_errors;
	_Atomic uint64_t gathering; /* 1 while queries gather */
};

struct udp;

struct udp_from {
	const struct dns_client *client;
	unsigned interface; /* index of the interface that it arrived on */
};

/* A datagram, borrowed for the call. The callback writes up to DNS_UDP_MAX bytes to `out` and
 * returns how many. */
typedef size_t udp_query_fn(
	void *arg, const struct udp_from *from, const uint8_t *m, size_t len, uint8_t *out);

void udp_open(struct udp **u, struct loop *loop, int fd, struct udp_counters *count,
	udp_query_fn *fn, void *arg);
/* Reads no more; answers can still be sent. Neither this nor udp_close may be called from within
 * fn. */
void udp_quiet(struct udp *u);
void udp_close(struct udp **u);
void udp_send(struct udp *u, const struct dns_client *to, const uint8_t *m, size_t len);

#endif
