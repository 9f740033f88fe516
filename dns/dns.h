/*
 * The DNS server of a node: answers cluster names from the snapshot, forwards other names to the
 * upstreams (c-ares), and manages resolv.conf. This is the public header of dns/ for the agent; the
 * hub uses dns/front/zone_server.h, a server of one zone.
 *
 * All functions are called on loop 0 (loops[0] of the configuration). Each loop in `workers` owns a
 * UDP socket (SO_REUSEPORT), a forwarder and a cache; they share nothing but the snapshot, which
 * dns_use posts to them.
 *
 *	dns_open(&dns, &config, err);            // no socket yet
 *	dns_use(dns, snapshot);
 *	dns_listen(dns, mesh_address, err);      // again when the address changes; 0 closes
 *						 // the sockets
 *	dns_resolvconf_write(dns, err);          // adds our lines, or tells systemd-resolved
 *	...
 *	dns_resolvconf_restore(dns, err);
 *	dns_stop(&dns, on_stopped, arg);         // asynchronous: workers close sockets, then
 *						 // on_stopped runs on loop 0
 */
#ifndef EDGEWAY_DNS_DNS_H
#define EDGEWAY_DNS_DNS_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/core/sock.h"
#include "dns/front/zone_server.h"
#include "model/fake6.h"
#include "model/pod_ask.h"
#include "model/snapshot.h"

struct dns;

/* Where the original resolv.conf is saved before the first write; the agent passes meta's
 * functions. All are synchronous. get: copies to the heap in *data, or returns -ENOENT. */
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
	const char *cluster_domain; /* no dot at either end */
	uint32_t subnet, mask; /* of the fake IPs, host byte order; we serve their reverse zone */
	struct fake6 subnet6; /* the same of the IPv6 ones */
	/* mesh.interface; queries are accepted from it, from `interfaces` and from lo */
	const char *interface;
	const char *const *interfaces; /* names or globs, NULL-terminated, may be NULL */
	uint16_t port;
	uint32_t ttl_s;
	const struct addr *upstreams; /* configured; resolv.conf's nameservers come after them */
	size_t n_upstreams;
	const char *resolv_conf; /* path; we follow changes by other programs */
	bool manage_resolv_conf;
	bool resolved; /* the host's way to us is systemd-resolved; resolv.conf is only read */
	uint32_t mark; /* SO_MARK of upstream queries */
	struct dns_keep keep;
	pod_ask_fn *ask_pod; /* for pods by their address; on any worker's thread; NULL: nobody */
	void *ask_pod_arg;
	/* a predecessor hands over: how the host reaches it stays as it is until dns_settle */
	bool succeeds;
};

/* Reads the upstreams from resolv.conf, after undoing what a killed run of ours left there. */
int dns_open(struct dns **dns, const struct dns_config *config, struct err *err);
void dns_use(struct dns *dns, const struct snapshot *snapshot); /* takes its own reference */
/* address: the mesh address, host byte order; we listen on no other. Errors name the address and
 * the programs that may hold it. */
int dns_listen(struct dns *dns, uint32_t address, struct err *err);
/* The same at an IPv6 address beside it, which need not exist yet; ::: none. */
int dns_listen6(struct dns *dns, const struct in6_addr *address, struct err *err);
bool dns_listening(const struct dns *dns);
/* The workers' sockets of a family, UDP then TCP of each, to hand to a successor; dns keeps
 * ownership. Returns their number: all of them, or 0 while dns does not listen. */
size_t dns_sockets(const struct dns *dns, bool six, int *fds);
/* After `succeeds`. ours: the predecessor has let go; what it had changed of the host, and is not
 * wanted here, is undone. Else it goes on, and what we have changed of the host is. */
void dns_settle(struct dns *dns, bool ours);
/* dns_freeze: a successor takes over; stops watching resolv.conf and drops the callback of
 * dns_follow_upstreams. dns_thaw: watches the file again. */
void dns_freeze(struct dns *dns);
void dns_thaw(struct dns *dns);
/* The successor has the sockets: stop reading queries; pending queries still get their answers. */
void dns_hand_over(struct dns *dns);
/* The upstreams in use, for resolving the hub's name. The array is valid until dns_stop; its
 * contents change when another program changes resolv.conf. */
size_t dns_upstreams(const struct dns *dns, const struct addr **upstreams);
/* The same, followed by the upstreams out of use because they send our queries back to us. */
size_t dns_upstreams_known(const struct dns *dns, const struct addr **upstreams);
/* fn is called after each change of the upstreams. */
void dns_follow_upstreams(struct dns *dns, loop_fn *fn, void *arg);
/* RESOLVCONF_LEFT: the file was left as it is, because a disk is full or read-only and the original
 * could not be restored after a crash; err says why. */
enum { RESOLVCONF_LEFT = 1 };
/* With config.resolved: asks systemd-resolved to route the cluster's names to us, and keeps that
 * so; returns 0 at once, dns_state tells the outcome. */
int dns_resolvconf_write(struct dns *dns, struct err *err);
/* Restores the original byte for byte. If another program has written the file since, only our
 * lines are removed. */
int dns_resolvconf_restore(struct dns *dns, struct err *err);
/* For `--restore`, without a running agent: undoes what a killed agent left in resolv.conf and in
 * systemd-resolved, as dns_open does at a start; runs the loop until that is done. Returns 1 if
 * there was something to undo in resolv.conf. */
int dns_resolvconf_recover(
	struct loop *loop, const char *path, const struct dns_keep *keep, struct err *err);
void dns_metrics(struct dns *dns, struct metrics *m);
/* A JSON object for /debug/state. */
void dns_state(struct dns *dns, struct buf *out);
void dns_stop(struct dns **dns, loop_fn *on_stopped, void *arg);

#endif
