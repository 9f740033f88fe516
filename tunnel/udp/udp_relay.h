/*
 * Joins a datagram stream with a UDP socket of its own, at the end where the target is. The socket
 * is connected, so it receives from the target alone, and an ICMP port-unreachable answer ends the
 * flow. Nothing is queued: datagrams that the socket or stream cannot take are dropped and counted
 * (tunnel/udp/dgram.h). Of several addresses, the first one that does not refuse is kept; datagrams
 * sent meanwhile are sent again. Everything on the loop's thread.
 *
 * The stream is taken and answered at once, with 200 or 502. `ended` comes once, never from within
 * udp_relay_start; after it the owner calls udp_relay_free. udp_relay_free before that resets the
 * stream. The callback may call it.
 *
 *	relay = udp_relay_start(&(struct udp_relay_setup){.loop = loop, .stream = st, .to = &addr, .n_to = 1, .ended = on_end, .arg = me});
 */
#ifndef EDGEWAY_TUNNEL_UDP_UDP_RELAY_H
#define EDGEWAY_TUNNEL_UDP_UDP_RELAY_H

#include "base/core/sock.h"
#include "tunnel/udp/dgram.h"

enum {
	UDP_RELAY_TRY_MS = 200, /* time without a refusal after which an address is kept */
	UDP_RELAY_QUIET_MS = 500, /* idle time that ends a draining flow */
};

struct udp_relay;

struct udp_relay_report {
	const struct dgram_tally *tally;
	unsigned status; /* what the stream was answered with */
	const char *why; /* how it ended */
};

typedef void udp_relay_ended_fn(void *arg, const struct udp_relay_report *report);

struct udp_relay_setup {
	struct loop *loop;
	struct stream *stream; /* taken */
	const struct addr *to; /* copied */
	size_t n_to; /* at least one */
	uint32_t mark; /* SO_MARK */
	unsigned hops; /* base/core/hops.h, for sent datagrams */
	udp_relay_ended_fn *ended;
	void *arg;
};

struct udp_relay *udp_relay_start(const struct udp_relay_setup *setup);
/* The status that the stream was answered with. */
unsigned udp_relay_status(const struct udp_relay *r);
/* The address in use. */
const struct addr *udp_relay_to(const struct udp_relay *r);
/* As relay_local. */
bool udp_relay_local(const struct udp_relay *r, struct addr *to);
const struct dgram_tally *udp_relay_tally(const struct udp_relay *r);
/* Ends it once it is idle for a moment. */
void udp_relay_drain(struct udp_relay *r);
void udp_relay_free(struct udp_relay **r);

#endif
