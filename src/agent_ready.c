#include "src/agent_private.h"

bool
agent_ready(const struct agent *a, struct buf *why)
{
	if (a->stopping) { /* some parts have gone already */
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
agent_announces(void *arg, struct buf *status)
{
	const struct agent *a = arg;

	if (!agent_ready(a, status))
		return a->address == 0;
	buf_printf(status, "serves %zu services\n", snapshot_count(a->snapshot));
	agent_degraded(a, status);
	return true;
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
}
