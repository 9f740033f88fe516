/*
 * One worker's DNS: a UDP socket and a TCP listener (SO_REUSEPORT: the kernel spreads the clients
 *over the workers), a cache with its forwarder, and a reference to the snapshot. The spine of a
 *query's life:
 *
 *	recvmmsg ► parse ► answer from the snapshot ► sendmmsg
 *	                └ not ours ► lookup: cache ► forward ═► upstream ═► rewrite ► send
 *
 * server_new and server_free are called on loop 0; everything between is posted to the worker, in
 *order: the functions server_use... may be called on any one thread, and only the worker touches
 *what they carry. No query for a name that we hold allocates.
 */
#ifndef EDGEWAY_DNS_FRONT_SERVER_H
#define EDGEWAY_DNS_FRONT_SERVER_H

#include "dns/answer/answer.h"
#include "dns/forward/lookup.h"
#include "dns/front/udp.h"

enum server_outcome {
	SERVER_NOERROR,
	SERVER_NODATA,
	SERVER_NXDOMAIN,
	SERVER_SERVFAIL,
	SERVER_REFUSED,
	SERVER_FORMERR,
	SERVER_NOTIMP,
	SERVER_BADVERS,
	SERVER_FORWARDED,
	SERVER_CACHED,
	SERVER_DROPPED,
	SERVER_FOREIGN, /* by an interface that is not of the mesh: no answer */
	SERVER_OUTCOMES,
};

struct server_counters {
	struct udp_counters udp;
	_Atomic uint64_t tcp; /* messages received */
	_Atomic uint64_t outcome[SERVER_OUTCOMES];
	struct lookup_counters lookup;
};

struct server;

/* `snapshot`: an empty one to begin with; a reference is taken. `interfaces` are borrowed, see
 * base/os/ingress_interface. */
struct server *server_new(struct loop *worker, const struct dns_zone *zone,
	const struct snapshot *snapshot, uint32_t mark, const char *const *interfaces);
/* Only after on_stopped. */
void server_free(struct server **s);

void server_use(struct server *s, const struct snapshot *snapshot);
void server_use_upstreams(struct server *s, const struct addr *upstreams, size_t n);
/* What one of them learns from upstreams the others are told: before the first upstreams, `servers`
 * is borrowed until all have stopped twice (an answer may be on its way from one to another). */
void server_share(struct server *s, struct server *const *servers, size_t n);
/* Takes over bound descriptors; the old ones are closed. -1: only close. address: of
 * ns.dns.<domain>. */
void server_listen(struct server *s, int udp, int tcp, uint32_t address);
/* Another process reads the sockets from now on. What is open here is answered by them all the
 * same. */
void server_hand_over(struct server *s);
/* Closes everything, then fn(arg) runs on `main`. */
void server_stop(struct server *s, struct loop *main, loop_fn *fn, void *arg);

const struct server_counters *server_counters(const struct server *s);

#endif
