#include <string.h>

#include "src/agent/agent_private.h"

bool
agent_ready(const struct agent *a, struct buf *why)
{
	if (a->stopping) { /* some parts are gone already */
		buf_adds(why, "stopping\n");
		return false;
	}
	if (!snapshot_synced(a->snapshot))
		buf_adds(why, "no metadata yet: neither from the hub nor from the database\n");
	if (!lb_listening(a->lb))
		buf_adds(why, "the listener does not serve\n");
	if (!dns_listening(a->dns))
		buf_adds(why, "DNS does not serve\n");
	if (!iptables_installed(a->ipt))
		buf_adds(why, "the nftables table is not installed\n");
	if (a->mesh_error[0] != '\0')
		buf_printf(why, "%s\n", a->mesh_error);
	return buf_len(why) == 0;
}

bool
agent_degraded(const struct agent *a, struct buf *what)
{
	if (a->meta != NULL)
		meta_trouble(a->meta, what);
	if (a->resolv_left[0] != '\0')
		buf_printf(what, "%s\n", a->resolv_left);
	return buf_len(what) > 0;
}

bool
agent_waits_for_bridge(const struct agent *a)
{
	return a->address == 0 && a->mesh_error[0] != '\0';
}

bool
agent_announces(void *arg, struct buf *status)
{
	const struct agent *a = arg;

	if (!agent_ready(a, status))
		return agent_waits_for_bridge(a);
	buf_printf(status, "serves %zu services\n", snapshot_count(a->snapshot));
	agent_degraded(a, status);
	return true;
}

void
agent_refused(const struct agent *a, size_t by_class[SPECIAL_CLASSES])
{
	memset(by_class, 0, SPECIAL_CLASSES * sizeof *by_class);
	for (size_t i = 0; i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);

		for (unsigned p = 0; p < s->n_ports; p++)
			for (unsigned k = 0; k < s->ports[p].n_refused; k++)
				by_class[s->ports[p].endpoints[s->ports[p].n_endpoints + k].tier]++;
	}
}

static void
refused_metrics(const struct agent *a, struct metrics *m)
{
	size_t by_class[SPECIAL_CLASSES];
	char label[64];

	agent_refused(a, by_class);
	for (unsigned i = SPECIAL_NONE + 1; i < SPECIAL_CLASSES; i++)
		metric_gauge(m, "edgeway_agent_refused_endpoints",
			"Endpoints that are not dialled because of what their address is "
			"(lb.allow).",
			metric_label(label, sizeof label, "address",
				special_addr_name((enum special_addr)i)),
			(double)by_class[i]);
}

void
agent_ready_metrics(const struct agent *a, struct metrics *m)
{
	static const char help[] = "1 while a part does without its disk, and the rest serves.";
	auto_buf struct buf database, why;

	buf_init(&database, BUF_UNLIMITED);
	buf_init(&why, BUF_UNLIMITED);
	metric_gauge(
		m, "edgeway_agent_ready", "1 when /readyz says 200.", NULL, agent_ready(a, &why));
	if (a->meta != NULL)
		meta_trouble(a->meta, &database);
	metric_gauge(
		m, "edgeway_agent_degraded", help, "part=\"database\"", buf_len(&database) > 0);
	metric_gauge(m, "edgeway_agent_degraded", help, "part=\"resolv.conf\"",
		a->resolv_left[0] != '\0');
	refused_metrics(a, m);
}
