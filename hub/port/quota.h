/*
 * Limits on use of the ingress: an account for each caller and each node that has streams, checked
 * against the limits of the configuration. Whoever opens a stream takes from both accounts and
 * gives back when it ends. An account without streams is kept until its rate has recovered, so that
 * its excess counts against the next stream. On the hub's loop, but rates count on all
 * (base/core/rate.h).
 *
 *	if ((account = quota_take(quota, QUOTA_CALLER, "cert:ops", now_ms)) == NULL)	// has as many streams as it may
 *	room = rate_room(quota_rate(account), now_ms);
 *	quota_give(&account, now_ms);
 */
#ifndef EDGEWAY_HUB_PORT_QUOTA_H
#define EDGEWAY_HUB_PORT_QUOTA_H

#include "base/core/metric.h"
#include "base/core/rate.h"

enum quota_kind { QUOTA_CALLER, QUOTA_NODE, QUOTA_KINDS };

/* For one account; 0: no limit. */
struct quota_limit {
	unsigned streams;
	uint64_t bytes_per_s; /* both directions together */
};

/* Most accounts without streams to keep; above that one is dropped, recovered or not. */
enum { QUOTA_IDLE_MOST = 8192 };

struct quota_limits {
	struct quota_limit of[QUOTA_KINDS];
};

struct quota;
struct account;

struct quota *quota_new(const struct quota_limits *limits);
/* All accounts must have been given back before. */
void quota_free(struct quota **q);
/* Changes the limits, for existing streams too. */
void quota_adopt(struct quota *q, const struct quota_limits *limits);
/* NULL: the account has reached its limit of streams. */
struct account *quota_take(
	struct quota *q, enum quota_kind kind, const char *name, uint64_t now_ms);
void quota_give(struct account **a, uint64_t now_ms);
struct rate *quota_rate(struct account *a);
/* Number of accounts without streams whose rate has not recovered. */
unsigned quota_idle(const struct quota *q);
void quota_metrics(const struct quota *q, struct metrics *m);
/* Accounts that have streams: [{"kind","name","streams"}] */
void quota_state(const struct quota *q, struct buf *out);

#endif
