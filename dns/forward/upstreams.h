/*
 * The list of upstreams on loop 0: which are in use, and which send our queries back to us (for
 * example a dnsmasq beside us that reads the resolv.conf that names us). dns/forward/loop_probe
 * detects such a loop. It is sent when we begin to listen or have written resolv.conf, when an
 * upstream is new, 2 s and 10 s after that (the other program may have to read the file first), and
 * every five minutes. An upstream that loops is put out of use and checked every 5 s, so that it
 * returns once the loop is gone.
 *
 *	upstreams_new(&r, &config);
 *	upstreams_use(r, addrs, n);	// without our own address
 *	upstreams_check(r);	// we listen, so there may be loops now
 *	n = upstreams_in_use(r, &addrs);
 */
#ifndef EDGEWAY_DNS_FORWARD_UPSTREAMS_H
#define EDGEWAY_DNS_FORWARD_UPSTREAMS_H

#include "base/core/metric.h"
#include "dns/forward/forward.h"

struct upstreams;

struct upstreams_config {
	struct loop *loop;
	uint32_t mark; /* SO_MARK */
	bool (*seen)(void *arg, uint64_t mark); /* has a probe with this mark come back to us? */
	/* A worker's counters, i below n_workers. */
	const struct forward_counters *(*counters)(void *arg, size_t i);
	size_t n_workers;
	loop_fn *changed; /* the upstreams in use have changed */
	void *arg;
};

void upstreams_new(struct upstreams **r, const struct upstreams_config *config);
void upstreams_free(struct upstreams **r);
/* Duplicate addresses count once; at most FORWARD_UPSTREAMS_MAX. Calls `changed` if the upstreams
 * in use differ. */
void upstreams_use(struct upstreams *r, const struct addr *addrs, size_t n);
void upstreams_check(struct upstreams *r);
/* Valid until the next call of `changed`. */
size_t upstreams_in_use(const struct upstreams *r, const struct addr **addrs);
/* The same, followed by those out of use. */
size_t upstreams_known(const struct upstreams *r, const struct addr **addrs);
void upstreams_metrics(const struct upstreams *r, struct metrics *m);
/* "upstreams":[addresses in use],"forwarding":[one object each], members of a JSON object. */
void upstreams_state(const struct upstreams *r, struct buf *out);

#endif
