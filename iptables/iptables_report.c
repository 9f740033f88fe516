#include "iptables/iptables_private.h"

#include "base/core/figures.h"
#include "base/core/sock.h"
#include "iptables/host/hook_conflicts.h"
#include "iptables/maps/rules.h"
#include "model/json.h"

static const struct figure iptables_figures[] = {
	FIGURE(struct iptables, guard.armed, "edgeway_iptables_installed", NULL,
		"1 while the nftables table is in place.", NULL),
	FIGURE(struct iptables, guard.repairs, "edgeway_iptables_repairs_total", NULL,
		"Times that others changed the table and it was put back.", "repairs"),
	FIGURE(struct iptables, guard.failures, "edgeway_iptables_failures_total", NULL,
		"Transactions that the kernel refused.", "failures"),
	FIGURE_JSON(struct iptables, port_ours, "portReserved"),
};

void
iptables_metrics(struct iptables *ipt, struct metrics *m)
{
	figures_metrics(FIGURES(iptables_figures), ipt, m);
	metric_gauge(m, "edgeway_iptables_sockets_checked",
		"1 while what the table leads to our ports reaches no socket but ours.", NULL,
		ipt->guard.armed && !ipt->no_sockets);
	metric_gauge(m, "edgeway_iptables_hairpin_ports",
		"Ports of bridges that we put into hairpin mode.", NULL,
		(double)hairpin_count(&ipt->hairpin));
	metric_gauge(m, "edgeway_iptables_pod_ranges",
		"Ranges of other nodes' pods' addresses that are served, since this machine has no "
		"route "
		"to them.",
		NULL, (double)ipt->pod_ranges_put.n);
	preflight_metrics(&ipt->obstacles, m);
	kernelpath_metrics(ipt->kernelpath, m);
}

static void
others_member(struct buf *out, const char *name, struct buf *text)
{
	buf_printf(out, ",\"%s\":", name);
	json_add_text(out, buf_str(text));
	buf_consume(text, buf_len(text));
}

/* Other programs' chains and rules that may translate or drop our packets. Those that drop are told
 * by family: what pods get by IPv4 is tried, what they get by IPv6 is not. */
static void
others_state(const struct iptables *ipt, struct buf *out)
{
	unsigned six = ipt->subnet6.bits > 0 ? HOOK_CONFLICTS_V6 : 0;
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	hook_conflicts_translating(RULES_TABLE, RULES_PRIORITY, HOOK_CONFLICTS_V4 | six, &text);
	others_member(out, "translated_first_by", &text);
	hook_conflicts_dropping(HOOK_CONFLICTS_V4, &text);
	others_member(out, "dropped_by", &text);
	hook_conflicts_drop_rules(RULES_TABLE, HOOK_CONFLICTS_V4, &text);
	others_member(out, "drop_rules", &text);
	if (six != 0) {
		hook_conflicts_dropping(six, &text);
		others_member(out, "dropped_by6", &text);
		hook_conflicts_drop_rules(RULES_TABLE, six, &text);
		others_member(out, "drop_rules6", &text);
	}
	hook_conflicts_legacy(&text);
	others_member(out, "legacy_tables", &text);
}

void
iptables_state(struct iptables *ipt, struct buf *out, bool others)
{
	struct addr address = addr_ipv4(ipt->address, ipt->proxy_port);
	char text[ADDR_TEXT_MAX];

	/* Interface names need no escapes, rules_check ensures that. */
	buf_printf(out,
		"{\"table\":\"ip "
		"%s\",\"installed\":%s,\"to\":\"%s\",\"interface\":\"%s\",\"ifindex\":%d,\"up\":%"
		"s",
		RULES_TABLE, ipt->guard.armed ? "true" : "false", addr_text(&address, text),
		ipt->interface, ipt->state.index, ipt->state.up ? "true" : "false");
	/* nothing has been served yet, and will be within OWN_INTERFACE_MS */
	buf_printf(out, ",\"own_interface_due\":%s",
		ipt->address == 0 && timer_active(ipt->make_own) && !ipt->own_refused ? "true"
										      : "false");
	buf_adds(out, ",\"interfaces\":[");
	for (size_t i = 0; ipt->interfaces[i] != NULL; i++)
		buf_printf(out, "%s\"%s\"", i > 0 ? "," : "", ipt->interfaces[i]);
	buf_printf(out, "],\"podRanges\":{\"told\":%zu,\"served\":%zu}", ipt->pod_ranges.n,
		ipt->pod_ranges_put.n);
	figures_json(FIGURES(iptables_figures), ipt, out);
	buf_adds(out, ",\"obstacles\":");
	preflight_state(&ipt->obstacles, out);
	buf_printf(out, ",\"warning\":\"%s\"", ipt->no_sockets ? IPTABLES_NO_SOCKETS : "");
	if (ipt->subnet6.bits > 0) {
		const struct in6_addr own = fake6_own(&ipt->subnet6);

		address = addr_of(&own, ipt->proxy_port);
		buf_printf(out, ",\"to6\":\"%s\"", addr_text(&address, text));
	}
	if (ipt->guard.repairs > 0) {
		buf_printf(out, ",\"repaired_ms_ago\":%llu,\"repaired_after\":",
			(unsigned long long)(mono_ms() - ipt->guard.repaired_ms));
		json_add_text(out, ipt->guard.blamed);
	}
	if (others)
		others_state(ipt, out);
	buf_adds(out, ",\"captured\":");
	capture_state(&ipt->capture, out, mono_ms());
	buf_adds(out, ",\"kernel\":");
	kernelpath_state(ipt->kernelpath, out);
	buf_adds(out, ",\"external\":");
	kernelpath_external_state(ipt->kernelpath, out, others);
	buf_adds(out, "}");
}
