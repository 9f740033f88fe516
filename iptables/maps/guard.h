/*
 * Transactions on an nftables table of ours, and protection against other programs' changes. If a
 * program deletes or flushes the table, on purpose or with `nft flush ruleset`, `install` restores
 * it at once, but not so often that it blocks the loop. The owner embeds the guard and sets `armed`
 * while the table must exist. Its own loop only.
 *
 *	guard_open(&g, &(struct guard_config){.loop = loop, .table = "edgeway",
 *		.install = install, .arg = me}, &err);
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

/* Creates the whole table anew, in one transaction followed by guard_replaced. */
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
	struct mnl_socket *events; /* all changes in nftables */
	struct watch *watch;
	struct timer *repair;
	uint32_t seq;
	uint32_t generation; /* of nftables, as last read or made by us */
	uint64_t repaired_ms;
	bool armed; /* set by the owner: the table must exist */
	bool damaged; /* found in the events: another program changed our table */
	/* our last transaction created the table anew: earlier changes to the old table no longer
	 * matter */
	bool replaced;
	char culprit[64]; /* the program that did it: "name pid", as reported by the kernel */
	char blamed[64]; /* the culprit of the last repair, "": none yet */
	uint64_t repairs, failures;
};

/* A transaction being built, and its bytes. */
struct transaction {
	struct buf bytes;
	struct batch batch;
};

/* Whether there is a table of this name, ours or another agent's, in this family. */
bool guard_has(struct guard *g, uint8_t family);
int guard_open(struct guard *g, const struct guard_config *config, struct err *err);
/* Leaves the table in place. Allowed if the guard was never opened. */
void guard_close(struct guard *g);

void guard_begin(struct guard *g, struct transaction *t);
int guard_commit(struct guard *g, struct transaction *t);
void guard_abandon(struct transaction *t);
/* Explains an error of the kernel; `what` was tried with the table: "install". Returns rc. */
int guard_explain(struct err *err, int rc, const char *what);

/* To be called right after the transaction that creates the table anew: reads the changes before
 * it, which need no repair any more, and since. */
void guard_replaced(struct guard *g);
/* Reads other programs' changes since the last call, and notes whether they affect our table
 * (`damaged`). */
void guard_read(struct guard *g);
/* Restores the table soon, but not within this call. */
void guard_repair_later(struct guard *g);
/* The table need not exist any more. */
void guard_disarm(struct guard *g);

#endif
