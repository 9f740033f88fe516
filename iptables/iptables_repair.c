#include "iptables/iptables_private.h"

#include <arpa/inet.h>
#include <libnftnl/common.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "iptables/rules.h"

/* Others may delete what is ours, on purpose or with `nft flush ruleset`. Repairs no closer than this,
 * so that a fight with another program does not take the loop. */
enum { REPAIR_PAUSE_MS = 20, RETRY_MS = 1000 };

void
repair_now(void *arg)
{
	static struct log_limit limit;
	struct iptables *ipt = arg;
	struct err err;

	if (!ipt->installed)
		return;
	ipt->repaired_ms = mono_ms();
	if (iptables_install_table(ipt, &err) < 0) {
		if (log_limit_pass(&limit, 6, "iptables"))
			log_error("iptables",
				"our table was changed and cannot be put back, trying again "
				"error=\"%s\"",
				err.text);
		timer_start(ipt->repair, RETRY_MS, 0);
		return;
	}
	ipt->repairs++;
	if (log_limit_pass(&limit, 6, "iptables"))
		log_warn("iptables", "somebody changed our table, put back at once by=\"%s\"",
			ipt->culprit);
}

static void
repair_soon(struct iptables *ipt)
{
	uint64_t since = mono_ms() - ipt->repaired_ms;

	if (timer_active(ipt->repair))
		return;
	if (since >= REPAIR_PAUSE_MS)
		repair_now(ipt);
	else
		timer_start(ipt->repair, REPAIR_PAUSE_MS - since, 0);
}

static void
note_culprit(struct iptables *ipt, const struct nlmsghdr *nlh)
{
	snprintf(ipt->culprit, sizeof ipt->culprit, "%s %u",
		nl_text(nlh, sizeof(struct nfgenmsg), NFTA_GEN_PROC_NAME),
		ntohl(nl_u32(nlh, sizeof(struct nfgenmsg), NFTA_GEN_PROC_PID)));
}

static uint32_t
generation_of(const struct nlmsghdr *nlh)
{
	return ntohl(nl_u32(nlh, sizeof(struct nfgenmsg), NFTA_GEN_ID));
}

static void
note_generation(struct iptables *ipt, const struct nlmsghdr *nlh)
{
	uint32_t id = generation_of(nlh);

	if ((int32_t)(id - ipt->generation) > 0)
		ipt->generation = id;
}

static int
on_generation(const struct nlmsghdr *nlh, void *arg)
{
	*(uint32_t *)arg = generation_of(nlh);
	return MNL_CB_OK;
}

uint32_t
repair_generation(struct iptables *ipt)
{
	char bytes[64];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETGEN, NFPROTO_UNSPEC, NLM_F_ACK, ipt->seq++);
	uint32_t id = 0;

	(void)nl_request(ipt->changes, nlh, on_generation, &id);
	return id;
}

/* One message for each thing changed, then NEWGEN, which says by whom. */
static int
on_change(const struct nlmsghdr *nlh, void *arg)
{
	struct iptables *ipt = arg;
	const struct nfgenmsg *gen = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES)
		return MNL_CB_OK;
	if (nlh->nlmsg_pid == mnl_socket_get_portid(ipt->changes)) {
		ipt->damaged = ipt->damaged && !ipt->replaced;
		return MNL_CB_OK;
	}
	if ((nlh->nlmsg_type & 0xff) == NFT_MSG_NEWGEN) {
		note_generation(ipt, nlh);
		if (ipt->damaged)
			note_culprit(ipt, nlh);
		return MNL_CB_OK;
	}
	/* In messages about tables, chains, rules and sets alike attribute 1 is the table's name.
	 */
	if (gen->nfgen_family == NFPROTO_IPV4 &&
		strcmp(nl_text(nlh, sizeof *gen, NFTA_TABLE_NAME), RULES_TABLE) == 0)
		ipt->damaged = true;
	return MNL_CB_OK;
}

/* Messages were lost, perhaps those of our own transactions: the generation tells whether anybody else
 * has made one. */
static void
on_lost(struct iptables *ipt)
{
	uint32_t now = repair_generation(ipt);

	if (now == 0 || now != ipt->generation)
		ipt->damaged = true;
	ipt->generation = now;
}

void
repair_read_events(struct iptables *ipt)
{
	if (nl_drain(ipt->events, on_change, ipt) < 0)
		on_lost(ipt);
}

void
repair_replaced(struct iptables *ipt)
{
	ipt->replaced = true;
	repair_read_events(ipt);
	ipt->replaced = false;
}

void
repair_later(struct iptables *ipt)
{
	if (!timer_active(ipt->repair))
		timer_start(ipt->repair, REPAIR_PAUSE_MS, 0);
}

void
repair_on_events(void *arg, int fd, unsigned events)
{
	struct iptables *ipt = arg;

	(void)fd;
	/* An overrun is an error of the socket, upon which the loop lets go of it. */
	if (events & WATCH_HUP) {
		watch_set(ipt->watch, 0);
		watch_set(ipt->watch, WATCH_READ);
	}
	ipt->damaged = false;
	if (!timer_active(ipt->repair)) /* else it is still to be named */
		snprintf(ipt->culprit, sizeof ipt->culprit, "unknown");
	repair_read_events(ipt);
	if (ipt->damaged && ipt->installed)
		repair_soon(ipt);
}
