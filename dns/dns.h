/*
 * This is the folder's door. For the hub it holds dns/front/zone_server.h, a server of one zone.
 * For the agent, the node's DNS: answers cluster names from the snapshot, forwards the rest
 * (c-ares), and keeps resolv.conf. All functions are called on loop 0 (loops[0] of the
 * configuration). Each loop in `workers` owns a UDP socket (SO_REUSEPORT), a forwarder and a cache;
 * they share nothing but the snapshot, which dns_use posts to them.
 *
 *	dns_open(&dns, &config, err);            // no socket yet
 *	dns_use(dns, snapshot);
 *	dns_listen(dns, mesh_address, err);      // again when the address changes; 0 closes the
 *sockets dns_resolvconf_write(dns, err);          // our line goes in
 *	...
 *	dns_resolvconf_restore(dns);
 *	dns_stop(&dns, on_stopped, arg);         // asynchronous: workers close their sockets, then
 *on_stopped on loop 0
 */
#ifndef EDGEWAY_DNS_DNS_H
#define EDGEWAY_DNS_DNS_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/core/sock.h"
#include "dns/front/zone_server.h"
#include "model/snapshot.h"

struct dns;

/* Where the original resolv.conf is kept before the first write; the agent gives meta's. All
 * synchronous. get: heap copy in *data or -ENOENT. */
struct dns_keep {
	void *arg;
	int (*get)(void *arg, const char *key, char **data, size_t *len);
	int (*put)(void *arg, const char *key, const void *data, size_t len);
	int (*del)(void *arg, const char *key);
};

struct dns_config {
	struct loop *main;
	struct loop *const *workers;
	size_t n_workers;
	const char *cluster_domain; /* without dots at the ends */
	uint32_t subnet, mask; /* of the fake IPs, host byte order: their reverse zone is ours */
	const char
		*interface; /* mesh.interface: by it, by `interfaces` and by lo queries may come */
	const char *const *interfaces; /* names or PREFIX*, NULL-terminated, may be NULL */
	uint16_t port;
	uint32_t ttl_s;
	const struct addr *upstreams; /* configured; resolv.conf's nameservers come after them */
	size_t n_upstreams;
	const char *resolv_conf; /* path; followed when others change it */
	bool manage_resolv_conf;
	uint32_t mark; /* SO_MARK of upstream queries */
	struct dns_keep keep;
	bool succeeds; /* a predecessor hands over: our lines stay in resolv.conf as they are */
};

/* Reads resolv.conf for the upstreams (a leftover of an earlier run of ours is seen through). */
int dns_open(struct dns **dns, const struct dns_config *config, struct err *err);
void dns_use(struct dns *dns, const struct snapshot *snapshot); /* takes a reference of its own */
/* mesh address in host byte order; also listens on nothing else. Errors name the address and who
 * may hold it. */
int dns_listen(struct dns *dns, uint32_t address, struct err *err);
bool dns_listening(const struct dns *dns);
/* The workers' sockets, UDP and TCP of each in turn, to hand them to a successor; they stay the
 * dns's. How many: all or, while it does not listen, 0. */
size_t dns_sockets(const struct dns *dns, int *fds);
/* A predecessor's: dns_listen uses them when they are bound to its address, else closes them.
 * Taken; n is twice n_workers. */
void dns_adopt(struct dns *dns, const int *fds, size_t n);
/* A successor takes over: resolv.conf is not looked after any more; and again. */
void dns_freeze(struct dns *dns);
void dns_thaw(struct dns *dns);
/* The successor has the sockets: no more queries are read; those that are waited for get their
 * answers. */
void dns_hand_over(struct dns *dns);
/* The upstreams in use, for the hub's name. Valid until dns_stop; others when somebody changes
 * resolv.conf. */
size_t dns_upstreams(const struct dns *dns, const struct addr **upstreams);
/* The same, then those that are out of use since they send our queries back to us. */
size_t dns_upstreams_known(const struct dns *dns, const struct addr **upstreams);
/* fn comes after each change of them. */
void dns_follow_upstreams(struct dns *dns, loop_fn *fn, void *arg);
/* RESOLVCONF_LEFT: it is left as it is, since a disk has no room or can only be read, and it could
 * not be put back after a crash; err says why. */
enum { RESOLVCONF_LEFT = 1 };
int dns_resolvconf_write(struct dns *dns, struct err *err);
/* Puts the original back byte for byte, unless somebody else has written the file since (then only
 * our lines go). */
int dns_resolvconf_restore(struct dns *dns, struct err *err);
/* Without a running agent: undoes what one that was killed left in resolv.conf. 1 when there was
 * something. */
int dns_resolvconf_recover(const char *path, const struct dns_keep *keep, struct err *err);
void dns_metrics(struct dns *dns, struct metrics *m);
/* A JSON object for /debug/state. */
void dns_state(struct dns *dns, struct buf *out);
void dns_stop(struct dns **dns, loop_fn *on_stopped, void *arg);

#endif
