#include "base/carriers.h"
#include "base/log.h"
#include "src/agent_private.h"

static void
on_dns_stopped(void *arg)
{
	struct agent *a = arg;

	if (a->meta != NULL)
		meta_stop(&a->meta);
	carriers_free(&a->carriers);
	if (!handover_waits(a))
		loop_stop(a->loop);
}

void
agent_end(struct agent *a)
{
	dns_stop(&a->dns, on_dns_stopped, a);
}

static void
on_tunnel_ended(void *arg)
{
	struct agent *a = arg;

	if (!handover_lingers(a))
		agent_end(a);
}

/* What was changed on the host is left to the next agent. */
static bool
stays(const struct agent *a)
{
	return a->handed_over || a->options->on_stop == ON_STOP_KEEP;
}

static void
on_spans_sent(void *arg)
{
	agent_tunnel_end(arg, on_tunnel_ended);
}

static void
on_lb_stopped(void *arg)
{
	struct agent *a = arg;
	struct err err = {0};

	if (stays(a) && a->ipt != NULL) { /* what is kept leads to no port that is another's soon */
		agent_tunnel_listen(a, 0);
		iptables_relays(a->ipt);
	}
	/* only now: without the table's translation what was in progress would have been reset */
	if (!stays(a) && iptables_remove(a->ipt, &err) < 0)
		log_error("agent", "cannot remove the nftables table: %s", err.text);
	iptables_close(&a->ipt);
	if (!a->handed_over)
		agent_forget_estate(a);
	canary_stop(&a->canary);
	pod_canary_stop(&a->pods);
	agent_tracing_end(a, on_spans_sent);
}

void
agent_hand_over(struct agent *a)
{
	a->handed_over = true;
	pod_canary_use(a->pods, 0);
	announce_stop(&a->announce);
	lb_hand_over(&a->lb, a->options->drain_timeout, on_lb_stopped, a);
}

void
agent_stop(void *arg)
{
	struct agent *a = arg;
	struct err err = {0};

	if (handover_terminates(a) || a->stopping)
		return;
	a->stopping = true;
	if (a->takeover != NULL && !takeover_offered(a->takeover))
		agent_leave_to_predecessor(a);
	announce_stopping(a->announce);
	log_info("agent", "stopping: finishing what is in progress drain_ms=%llu",
		(unsigned long long)a->options->drain_timeout);
	timer_cancel(a->retry);
	pod_canary_use(a->pods, 0);
	if (!a->handed_over)
		socket_store_drop(a->sockets);
	if (!stays(a))
		agent_capture_end(a);
	if (a->options->dns_manage_resolv_conf && !stays(a) &&
		dns_resolvconf_restore(a->dns, &err) < 0) {
		log_error("agent", "cannot restore resolv.conf: %s", err.text);
		a->status = 1;
	}
	if (!a->handed_over && iptables_drain(a->ipt, &err) < 0)
		log_error("agent", "new connections still go to the listener: %s", err.text);
	agent_tunnel_drain(a);
	lb_stop(&a->lb, a->options->drain_timeout, on_lb_stopped, a);
}
