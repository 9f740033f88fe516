/*
 * One worker's DNS: for each family a UDP socket and a TCP listener (SO_REUSEPORT: the kernel
 * spreads the clients over the workers), a cache with its forwarder, and a reference to the
 * snapshot. The path of a query:
 *
 *	recvmmsg ► parse ► answer from the snapshot ► sendmmsg
 *	                └ not ours ► lookup: cache ► forward ═► upstream ═► rewrite ► send
 *
 * server_new and server_free are called on loop 0. The other functions (server_use...) may be
 * called on any one thread: they post their work to the worker, in order, and only the worker
 * touches what they carry. A query for a name that we hold allocates nothing.
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
	SERVER_POD, /* waits for the hub's word on a pod */
	SERVER_DROPPED,
	SERVER_FOREIGN, /* arrived on an interface outside the mesh: no answer */
	SERVER_OUTCOMES,
};

struct server_counters {
	struct udp_counters udp;
	_Atomic uint64_t outcome[SERVER_OUTCOMES];
	struct lookup_counters lookup;
};

struct server;

/* `snapshot`: an empty one at first; a reference is taken. `interfaces` are borrowed, see
 * base/os/ingress_interface. */
struct server *server_new(struct loop *worker, const struct dns_zone *zone,
	const struct snapshot *snapshot, uint32_t mark, const char *const *interfaces);
/* Only after server_stop has called its fn. */
void server_free(struct server **s);

/* Who is asked for pods by their address; before the first query. */
void server_ask_pods(struct server *s, pod_ask_fn *ask, void *arg);
void server_use(struct server *s, const struct snapshot *snapshot);
void server_use_upstreams(struct server *s, const struct addr *upstreams, size_t n);
/* Each server passes what it learns from upstreams to the others. Call it before the first
 * upstreams; `servers` is borrowed until all have stopped twice (an answer may still be on its way
 * from one to another). */
void server_share(struct server *s, struct server *const *servers, size_t n);
/* Takes ownership of bound descriptors; the old ones of the family are closed. -1: only close. at:
 * their address, which ns.dns.<domain> has too; without an IP address in it: none. */
void server_listen(struct server *s, bool six, int udp, int tcp, const struct addr *at);
/* Another process reads the sockets from now on. Queries already open here still get their answers
 * through them. */
void server_hand_over(struct server *s);
/* Closes everything; once no query waits for the word on a pod, fn(arg) runs on `main`. */
void server_stop(struct server *s, struct loop *main, loop_fn *fn, void *arg);

const struct server_counters *server_counters(const struct server *s);

#endif
