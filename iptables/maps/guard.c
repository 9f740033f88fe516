#include "iptables/maps/guard.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"

/* Other programs may delete our table, on purpose or with `nft flush ruleset`. Repairs are at least
 * this far apart, so that a fight with another program does not block the loop. */
enum { REPAIR_PAUSE_MS = 20, RETRY_MS = 1000 };

/* --- transactions --------------------------------------------------------------------------- */

int
guard_explain(struct err *err, int rc, const char *what)
{
	if (rc == -EPERM)
		return err_set(err, rc, "cannot %s the nftables table: needs CAP_NET_ADMIN", what);
	if (rc == -ENOENT || rc == -EOPNOTSUPP || rc == -EPROTONOSUPPORT)
		return err_set(err, rc,
			"cannot %s the nftables table: the kernel has no nf_tables with nat (%s)",
			what, strerror(-rc));
	return err_set(err, rc, "cannot %s the nftables table: %s", what, strerror(-rc));
}

void
guard_begin(struct guard *g, struct transaction *t)
{
	buf_init(&t->bytes, BUF_UNLIMITED);
	batch_open(&t->batch, g->config.table, &t->bytes, &g->seq);
}

int
guard_commit(struct guard *g, struct transaction *t)
{
	int rc;

	batch_close(&t->batch);
	rc = nl_batch(g->changes, buf_at(&t->bytes), buf_len(&t->bytes), t->batch.acks);
	buf_fini(&t->bytes);
	if (rc < 0)
		g->failures++;
	else
		g->generation++;
	return rc;
}

void
guard_abandon(struct transaction *t)
{
	batch_close(&t->batch);
	buf_fini(&t->bytes);
}

/* --- other programs ------------------------------------------------------------------------- */

static void
repair_now(void *arg)
{
	static struct log_limit limit;
	struct guard *g = arg;
	struct err err;

	if (!g->armed)
		return;
	g->repaired_ms = mono_ms();
	if (g->config.install(g->config.arg, &err) < 0) {
		if (log_limit_pass(&limit, 6, "iptables"))
			log_error("iptables",
				"our table was changed and cannot be put back, trying again "
				"table=\"ip %s\" error=\"%s\"",
				g->config.table, err.text);
		timer_start(g->repair, RETRY_MS, 0);
		return;
	}
	g->repairs++;
	snprintf(g->blamed, sizeof g->blamed, "%s", g->culprit);
	if (log_limit_pass(&limit, 6, "iptables"))
		log_warn("iptables",
			"somebody changed our table, put back at once by=\"%s\" table=\"ip %s\"",
			g->culprit, g->config.table);
}

static void
repair_soon(struct guard *g)
{
	uint64_t since = mono_ms() - g->repaired_ms;

	if (timer_active(g->repair))
		return;
	if (since >= REPAIR_PAUSE_MS)
		repair_now(g);
	else
		timer_start(g->repair, REPAIR_PAUSE_MS - since, 0);
}

static void
note_culprit(struct guard *g, const struct nlmsghdr *nlh)
{
	snprintf(g->culprit, sizeof g->culprit, "%s %u",
		nl_text(nlh, sizeof(struct nfgenmsg), NFTA_GEN_PROC_NAME),
		ntohl(nl_u32(nlh, sizeof(struct nfgenmsg), NFTA_GEN_PROC_PID)));
}

static uint32_t
generation_of(const struct nlmsghdr *nlh)
{
	return ntohl(nl_u32(nlh, sizeof(struct nfgenmsg), NFTA_GEN_ID));
}

static void
note_generation(struct guard *g, const struct nlmsghdr *nlh)
{
	uint32_t id = generation_of(nlh);

	if ((int32_t)(id - g->generation) > 0)
		g->generation = id;
}

static int
on_generation(const struct nlmsghdr *nlh, void *arg)
{
	*(uint32_t *)arg = generation_of(nlh);
	return MNL_CB_OK;
}

static uint32_t
read_generation(struct guard *g)
{
	char bytes[64];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETGEN, NFPROTO_UNSPEC, NLM_F_ACK, g->seq++);
	uint32_t id = 0;

	(void)nl_request(g->changes, nlh, on_generation, &id);
	return id;
}

bool
guard_has(struct guard *g, uint8_t family)
{
	char bytes[256];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETTABLE, family, NLM_F_ACK, g->seq++);

	mnl_attr_put_strz(nlh, NFTA_TABLE_NAME, g->config.table);
	return nl_request(g->changes, nlh, NULL, NULL) == 0;
}

/* One message for each change, then NEWGEN, which names the program. */
static int
on_change(const struct nlmsghdr *nlh, void *arg)
{
	struct guard *g = arg;
	const struct nfgenmsg *gen = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES)
		return MNL_CB_OK;
	if (nlh->nlmsg_pid == mnl_socket_get_portid(g->changes)) {
		g->damaged = g->damaged && !g->replaced;
		return MNL_CB_OK;
	}
	if ((nlh->nlmsg_type & 0xff) == NFT_MSG_NEWGEN) {
		note_generation(g, nlh);
		if (g->damaged)
			note_culprit(g, nlh);
		return MNL_CB_OK;
	}
	/* In messages about tables, chains, rules and sets attribute 1 is the table's name. */
	if ((gen->nfgen_family == NFPROTO_IPV4 || gen->nfgen_family == NFPROTO_IPV6) &&
		strcmp(nl_text(nlh, sizeof *gen, NFTA_TABLE_NAME), g->config.table) == 0)
		g->damaged = true;
	return MNL_CB_OK;
}

/* Messages were lost, perhaps those of our own transactions: the generation shows whether another
 * program has made one. */
static void
on_lost(struct guard *g)
{
	uint32_t now = read_generation(g);

	if (now == 0 || now != g->generation)
		g->damaged = true;
	g->generation = now;
}

void
guard_read(struct guard *g)
{
	if (nl_drain(g->events, on_change, g) < 0)
		on_lost(g);
}

void
guard_replaced(struct guard *g)
{
	g->replaced = true;
	guard_read(g);
	g->replaced = false;
	/* changed since then, by another hub or agent that does not know yet that the table is
	 * ours */
	if (g->damaged)
		guard_repair_later(g);
	g->damaged = false;
}

void
guard_repair_later(struct guard *g)
{
	if (!timer_active(g->repair))
		timer_start(g->repair, REPAIR_PAUSE_MS, 0);
}

static void
on_events(void *arg, int fd, unsigned events)
{
	struct guard *g = arg;

	(void)fd;
	if (events & WATCH_HUP)
		watch_renew(g->watch);
	g->damaged = false;
	if (!timer_active(g->repair)) /* otherwise the culprit has not been logged yet */
		snprintf(g->culprit, sizeof g->culprit, "unknown");
	guard_read(g);
	if (g->damaged && g->armed)
		repair_soon(g);
}

/* --- open and close ------------------------------------------------------------------------- */

int
guard_open(struct guard *g, const struct guard_config *config, struct err *err)
{
	int rc;

	*g = (struct guard){.config = *config, .seq = 1};
	rc = nl_open(&g->changes, NETLINK_NETFILTER, 0, err);
	if (rc == 0)
		rc = nl_open(&g->events, NETLINK_NETFILTER, 1u << (NFNLGRP_NFTABLES - 1), err);
	if (rc < 0)
		return rc;
	g->watch =
		watch_start(config->loop, mnl_socket_get_fd(g->events), WATCH_READ, on_events, g);
	g->repair = timer_new(config->loop, repair_now, g);
	g->generation = read_generation(g);
	return 0;
}

void
guard_disarm(struct guard *g)
{
	g->armed = false;
	if (g->repair != NULL)
		timer_cancel(g->repair);
}

void
guard_close(struct guard *g)
{
	watch_stop(&g->watch);
	timer_free(&g->repair);
	nl_close(&g->events);
	nl_close(&g->changes);
}
