#include "iptables/iptables.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#include "base/log.h"
#include "base/sock.h"
#include "iptables/capture.h"
#include "iptables/iface.h"
#include "iptables/netlink.h"
#include "iptables/reserve.h"
#include "iptables/route.h"
#include "iptables/rules.h"

/* Repairs no closer than this, so that a fight with another program does not take the loop. */
enum { REPAIR_PAUSE_MS = 20, RETRY_MS = 1000 };

struct iptables {
	struct loop *loop;
	char *interface;
	const char **interfaces; /* all of them, strings of our own, NULL-terminated */
	uint32_t subnet, mask, mark;
	uint16_t port, dns_port;
	bool port_ours; /* we put it into the reserved ports */

	iptables_address_fn *fn;
	void *arg;
	struct iface *iface;
	struct iface_state state; /* of the last report */
	bool reported;
	uint32_t told; /* the address last given to fn */

	struct mnl_socket *changes; /* transactions */
	struct mnl_socket *events; /* what anybody changes in nftables */
	struct watch *watch;
	struct timer *repair;
	uint32_t seq;
	bool installed;
	uint32_t address; /* the rules lead there */
	uint64_t repaired_ms;
	struct capture capture;

	bool damaged; /* seen while draining events: somebody else touched our table */
	char culprit[64]; /* and who: "name pid", as the kernel says */
	uint64_t installs, repairs, failures;
};

/* --- transactions ------------------------------------------------------------- */

static int
explain(struct err *err, int rc, const char *what)
{
	if (rc == -EPERM)
		return err_set(err, rc, "cannot %s the nftables table: needs CAP_NET_ADMIN", what);
	if (rc == -ENOENT || rc == -EOPNOTSUPP || rc == -EPROTONOSUPPORT)
		return err_set(err, rc,
			"cannot %s the nftables table: the kernel has no nf_tables with nat (%s)",
			what, strerror(-rc));
	return err_set(err, rc, "cannot %s the nftables table: %s", what, strerror(-rc));
}

/* A transaction that is being made, and the bytes behind it. */
struct change {
	struct buf bytes;
	struct batch batch;
};

static void
begin(struct iptables *ipt, struct change *c)
{
	buf_init(&c->bytes, BUF_UNLIMITED);
	batch_open(&c->batch, &c->bytes, &ipt->seq);
}

static int
commit(struct iptables *ipt, struct change *c)
{
	int rc;

	batch_close(&c->batch);
	rc = nl_batch(ipt->changes, buf_at(&c->bytes), buf_len(&c->bytes), c->batch.acks);
	buf_fini(&c->bytes);
	if (rc < 0)
		ipt->failures++;
	return rc;
}

static int
install_table(struct iptables *ipt, struct err *err)
{
	struct rules rules = {.interfaces = ipt->interfaces,
		.subnet = ipt->subnet,
		.mask = ipt->mask,
		.address = ipt->address,
		.port = ipt->port,
		.dns_port = ipt->dns_port,
		.mark = ipt->mark};
	struct change c;
	int rc;

	begin(ipt, &c);
	rules_install(&c.batch, &rules);
	capture_put(&ipt->capture, &c.batch, mono_ms());
	rc = commit(ipt, &c);
	if (rc < 0)
		return explain(err, rc, "install");
	ipt->installs++;
	return 0;
}

static int
install_route(struct iptables *ipt, struct err *err)
{
	struct route route = {.subnet = ipt->subnet,
		.mask = ipt->mask,
		.source = ipt->address,
		.ifindex = ipt->state.index};

	if (ipt->state.index == 0)
		return err_set(err, ENODEV,
			"cannot set the route to the fake range: there is no interface %s",
			ipt->interface);
	return route_set(&route, err);
}

int
iptables_install(struct iptables *ipt, uint32_t address, struct err *err)
{
	int rc;

	ipt->address = address;
	rc = install_table(ipt, err);
	if (rc < 0)
		return rc;
	ipt->installed = true;
	return install_route(ipt, err);
}

int
iptables_remove(struct iptables *ipt, struct err *err)
{
	struct change c;
	int rc;

	timer_cancel(ipt->repair);
	ipt->installed = false;
	begin(ipt, &c);
	rules_remove(&c.batch);
	rc = commit(ipt, &c);
	if (rc < 0)
		return explain(err, rc, "remove");
	capture_adopt(&ipt->capture, NULL, 0, mono_ms());
	capture_flows(&ipt->capture, ipt->address, ipt->dns_port);
	return route_remove(ipt->subnet, ipt->mask, err);
}

int
iptables_capture(struct iptables *ipt, const uint32_t *upstreams, size_t n, struct err *err)
{
	struct change c;
	uint64_t now = mono_ms();
	bool others;
	int rc;

	if (!ipt->installed)
		return err_set(err, ENOTCONN, "nothing is captured: the table is not installed");
	others = capture_adopt(&ipt->capture, upstreams, n, now);
	if (n == 0 && !others)
		return 0;
	begin(ipt, &c);
	capture_put(&ipt->capture, &c.batch, now);
	rc = commit(ipt, &c);
	if (rc < 0)
		return explain(err, rc, "change");
	if (others)
		capture_flows(&ipt->capture, ipt->address, ipt->dns_port);
	return 0;
}

bool
iptables_installed(const struct iptables *ipt)
{
	return ipt->installed;
}

/* --- repair: others may delete what is ours, on purpose or with `nft flush ruleset` ------- */

static void
repair(void *arg)
{
	static struct log_limit limit;
	struct iptables *ipt = arg;
	struct err err;

	if (!ipt->installed)
		return;
	ipt->repaired_ms = mono_ms();
	if (install_table(ipt, &err) < 0) {
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
		repair(ipt);
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

/* One message for each thing changed, then NEWGEN, which says by whom. */
static int
on_change(const struct nlmsghdr *nlh, void *arg)
{
	struct iptables *ipt = arg;
	const struct nfgenmsg *gen = mnl_nlmsg_get_payload(nlh);

	if (nlh->nlmsg_type >> 8 != NFNL_SUBSYS_NFTABLES ||
		nlh->nlmsg_pid == mnl_socket_get_portid(ipt->changes))
		return MNL_CB_OK;
	if ((nlh->nlmsg_type & 0xff) == NFT_MSG_NEWGEN) {
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

static void
on_events(void *arg, int fd, unsigned events)
{
	struct iptables *ipt = arg;

	(void)fd;
	/* An overrun is an error of the socket, upon which the loop lets go of it. */
	if (events & WATCH_HUP) {
		watch_set(ipt->watch, 0);
		watch_set(ipt->watch, WATCH_READ);
	}
	ipt->damaged = false;
	snprintf(ipt->culprit, sizeof ipt->culprit, "unknown");
	if (nl_drain(ipt->events, on_change, ipt) < 0)
		ipt->damaged = true; /* messages were lost: better once too often */
	if (ipt->damaged && ipt->installed)
		repair_soon(ipt);
}

/* --- the interface -------------------------------------------------------------- */

static void
on_iface(void *arg, const struct iface_state *state)
{
	struct iptables *ipt = arg;
	uint32_t address = state->up ? state->address : 0;
	struct err err;

	ipt->state = *state;
	if (!ipt->reported || address != ipt->told) {
		ipt->reported = true;
		ipt->told = address;
		ipt->fn(ipt->arg, address);
		return;
	}
	/* Down and up within one turn took the route away without a word. */
	if (ipt->installed && address == ipt->address && install_route(ipt, &err) < 0)
		log_warn("iptables", "%s", err.text);
}

/* --- open and close --------------------------------------------------------------- */

static int
copy_interfaces(struct iptables *ipt, const struct iptables_config *c, struct err *err)
{
	size_t n = 0;

	while (c->interfaces != NULL && c->interfaces[n] != NULL)
		n++;
	if (n >= RULES_INTERFACES_MAX)
		return err_set(err, E2BIG, "mesh.interfaces names more than %d interfaces",
			RULES_INTERFACES_MAX - 1);
	ipt->interfaces = xcalloc(n + 2, sizeof *ipt->interfaces);
	ipt->interface = xstrdup(c->interface);
	ipt->interfaces[0] = ipt->interface;
	for (size_t i = 0; i < n; i++)
		ipt->interfaces[i + 1] = xstrdup(c->interfaces[i]);
	for (size_t i = 0; ipt->interfaces[i] != NULL; i++) {
		int rc = rules_check(ipt->interfaces[i], err);

		if (rc < 0)
			return rc;
	}
	if (strchr(ipt->interface, '*') != NULL)
		return err_set(err, EINVAL,
			"mesh.interface must name one interface, not the pattern \"%s\"",
			ipt->interface);
	return 0;
}

static void
reserve_port(struct iptables *ipt)
{
	struct err err;
	int rc = reserve_take(ipt->port, &err);

	ipt->port_ours = rc > 0;
	if (rc < 0)
		log_warn("iptables",
			"the listener's port is not reserved, a client connection may take it "
			"port=%u error=\"%s\"",
			ipt->port, err.text);
}

static int
open_sockets(struct iptables *ipt, struct err *err)
{
	int rc = nl_open(&ipt->changes, NETLINK_NETFILTER, 0, err);

	if (rc == 0)
		rc = nl_open(&ipt->events, NETLINK_NETFILTER, 1u << (NFNLGRP_NFTABLES - 1), err);
	if (rc == 0)
		rc = iface_start(&ipt->iface, ipt->loop, ipt->interface, on_iface, ipt, err);
	return rc;
}

int
iptables_open(struct iptables **out, const struct iptables_config *config, iptables_address_fn *fn,
	void *arg, struct err *err)
{
	struct iptables *ipt = xcalloc(1, sizeof *ipt);
	int rc;

	ipt->loop = config->loop;
	ipt->subnet = config->subnet;
	ipt->mask = config->mask;
	ipt->mark = config->mark;
	ipt->port = config->port;
	ipt->dns_port = config->dns_port;
	ipt->fn = fn;
	ipt->arg = arg;
	ipt->seq = 1;
	rc = copy_interfaces(ipt, config, err);
	if (rc == 0)
		rc = open_sockets(ipt, err);
	if (rc < 0) {
		iptables_close(&ipt);
		return rc;
	}
	ipt->watch =
		watch_start(ipt->loop, mnl_socket_get_fd(ipt->events), WATCH_READ, on_events, ipt);
	ipt->repair = timer_new(ipt->loop, repair, ipt);
	reserve_port(ipt);
	*out = ipt;
	return 0;
}

void
iptables_close(struct iptables **out)
{
	struct iptables *ipt = take_ptr(out);
	struct err err;

	if (ipt == NULL)
		return;
	iface_stop(&ipt->iface);
	watch_stop(&ipt->watch);
	timer_free(&ipt->repair);
	nl_close(&ipt->events);
	nl_close(&ipt->changes);
	if (ipt->port_ours && reserve_drop(ipt->port, &err) < 0)
		log_warn("iptables", "cannot give the reserved port back port=%u error=\"%s\"",
			ipt->port, err.text);
	for (size_t i = 1; ipt->interfaces != NULL && ipt->interfaces[i] != NULL; i++)
		free((void *)(uintptr_t)ipt->interfaces[i]);
	free(ipt->interfaces);
	free(ipt->interface);
	free(ipt);
}

/* --- what we know ---------------------------------------------------------------- */

void
iptables_metrics(struct iptables *ipt, struct metrics *m)
{
	metric_gauge(m, "edgeway_iptables_installed", "1 while the nftables table is in place.",
		NULL, ipt->installed ? 1 : 0);
	metric_counter(m, "edgeway_iptables_installs_total",
		"Transactions that put the table in place.", NULL, ipt->installs);
	metric_counter(m, "edgeway_iptables_repairs_total",
		"Times that others changed the table and it was put back.", NULL, ipt->repairs);
	metric_counter(m, "edgeway_iptables_failures_total",
		"Transactions that the kernel refused.", NULL, ipt->failures);
	capture_metrics(&ipt->capture, m, mono_ms());
}

void
iptables_state(struct iptables *ipt, struct buf *out)
{
	struct addr address = addr_ipv4(ipt->address, ipt->port);
	char text[ADDR_TEXT_MAX];

	/* Names of interfaces need no escapes, rules_check saw to that. */
	buf_printf(out,
		"{\"table\":\"ip "
		"%s\",\"installed\":%s,\"to\":\"%s\",\"interface\":\"%s\",\"ifindex\":%d,\"up\":%"
		"s,",
		RULES_TABLE, ipt->installed ? "true" : "false", addr_text(&address, text),
		ipt->interface, ipt->state.index, ipt->state.up ? "true" : "false");
	buf_printf(out, "\"repairs\":%llu,\"failures\":%llu,\"portReserved\":%s,\"captured\":",
		(unsigned long long)ipt->repairs, (unsigned long long)ipt->failures,
		ipt->port_ours ? "true" : "false");
	capture_state(&ipt->capture, out, mono_ms());
	buf_adds(out, "}");
}
