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

static void
refused_metrics(const struct agent *a, struct metrics *m)
{
	char label[64];

	for (unsigned i = SPECIAL_NONE + 1; i < SPECIAL_CLASSES; i++)
		metric_gauge(m, "edgeway_agent_refused_endpoints",
			"Endpoints that are not dialled because of what their address is "
			"(lb.allow).",
			metric_label(label, sizeof label, "address",
				special_addr_name((enum special_addr)i)),
			(double)snapshot_counts(a->snapshot)->refused[i]);
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
