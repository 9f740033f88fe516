/*
 * A table of ours in nftables: transactions on it, and what others do to it. Whoever deletes or
 * flushes it, on purpose or with `nft flush ruleset`, finds it put back by `install` at once, but
 * no closer together than a loop can bear. The owner embeds the guard and says by `armed` whether
 * the table is to be there. Its own loop only.
 *
 *	guard_open(&g, &(struct guard_config){.loop = loop, .table = "edgeway", .install = install, .arg = me}, &err);
 *	guard_begin(&g, &t);
 *	... into t.batch ...
 *	rc = guard_commit(&g, &t);	// 0, or -errno: guard_explain
 *	guard_close(&g);
 */
#ifndef EDGEWAY_IPTABLES_MAPS_GUARD_H
#define EDGEWAY_IPTABLES_MAPS_GUARD_H

#include "base/core/loop.h"
#include "iptables/table/batch.h"
#include "iptables/table/netlink.h"

/* Makes the whole table anew, in one transaction that guard_replaced follows. */
typedef int guard_install_fn(void *arg, struct err *err);

struct guard_config {
	struct loop *loop;
	const char *table; /* static text */
	guard_install_fn *install;
	void *arg;
};

struct guard {
	struct guard_config config;
	struct mnl_socket *changes; /* transactions */
	struct mnl_socket *events; /* what anybody changes in nftables */
	struct watch *watch;
	struct timer *repair;
	uint32_t seq;
	uint32_t generation; /* of nftables, as far as we have read or made it */
	uint64_t repaired_ms;
	bool armed; /* the owner's: the table is to be there */
	bool damaged; /* seen while draining events: somebody else touched our table */
	/* our last transaction made the table anew: what was done to the old one is past */
	bool replaced;
	char culprit[64]; /* and who: "name pid", as the kernel says */
	char blamed[64]; /* for the last repair, "": none yet */
	uint64_t repairs, failures;
};

/* A transaction that is being made, and the bytes behind it. */
struct transaction {
	struct buf bytes;
	struct batch batch;
};

int guard_open(struct guard *g, const struct guard_config *config, struct err *err);
/* Leaves the table as it is. Fine for one that was never opened. */
void guard_close(struct guard *g);

void guard_begin(struct guard *g, struct transaction *t);
int guard_commit(struct guard *g, struct transaction *t);
void guard_abandon(struct transaction *t);
/* What the kernel's refusal means; `what` was tried with the table: "install". Returns rc. */
int guard_explain(struct err *err, int rc, const char *what);

/* Right after the transaction that makes the table anew: reads what was done before it, which needs
 * no repair any more, and since. */
void guard_replaced(struct guard *g);
/* Reads what others have changed meanwhile, and notes whether it concerns us (`damaged`). */
void guard_read(struct guard *g);
/* Puts it back soon, but not within this call. */
void guard_repair_later(struct guard *g);
/* It is not to be there any more. */
void guard_disarm(struct guard *g);

#endif
