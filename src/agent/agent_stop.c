#include "base/core/log.h"
#include "base/http/ws_tunnels.h"
#include "src/agent/agent_private.h"

enum {
	TUNNEL_MS = 3000, /* by then the new agent's tunnel is open, and newer than ours */
	ANSWERS_MS = 5000, /* by then the awaited DNS answers have arrived, or never will */
};

static void
on_dns_stopped(void *arg)
{
	struct agent *a = arg;

	if (a->meta != NULL)
		meta_stop(&a->meta);
	ws_tunnels_free(&a->carriers);
	handover_drained(a->handover);
}

static void
stop_dns(void *arg)
{
	struct agent *a = arg;

	dns_stop(&a->dns, on_dns_stopped, a);
}

static void
on_tunnel_ended(void *arg)
{
	struct agent *a = arg;
	uint64_t now = loop_now_ms(a->loop);

	timer_free(&a->given);
	if (now >= a->answers_until_ms) {
		stop_dns(a);
		return;
	}
	a->given = timer_new(a->loop, stop_dns, a);
	timer_start(a->given, a->answers_until_ms - now, 0);
}

/* Returns whether the changes on the host are left to the next agent. */
static bool
agent_stop_stays(const struct agent *a)
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

	/* the remaining rules must not lead to a port that another program may take soon */
	if (agent_stop_stays(a) && a->ipt != NULL) {
		agent_tunnel_listen(a, 0);
		iptables_relays(a->ipt);
	}
	/* only now: without the table's translation, connections in progress would have been
	 * reset */
	if (!agent_stop_stays(a) && iptables_remove(a->ipt, &err) < 0)
		log_error("agent", "cannot remove the nftables table: %s", err.text);
	iptables_close(&a->ipt);
	if (!a->handed_over)
		agent_forget_estate(a);
	dns_selfcheck_stop(&a->canary);
	pod_canary_stop(&a->pods);
	agent_tracing_end(a, on_spans_sent);
}

static void
on_tunnel_is_theirs(void *arg)
{
	agent_tunnel_drain(arg);
}

void
agent_give(void *arg)
{
	struct agent *a = arg;

	/* the new one has the locks too, and if it dies, the next one can take them */
	cleanup_fd(&a->lock);
	cleanup_fd(&a->network_lock);
	dns_hand_over(a->dns);
	admin_stop(&a->metrics);
	admin_stop(&a->admin); /* the new one waits for its address */
	agent_health_ports_look(a); /* and for those of NodePorts, which it serves now */
	a->answers_until_ms = loop_now_ms(a->loop) + ANSWERS_MS;
	a->given = timer_new(a->loop, on_tunnel_is_theirs, a);
	timer_start(a->given, TUNNEL_MS, 0);
	a->handed_over = true;
	pod_canary_use(a->pods, 0);
	service_state_stop(&a->announce);
	lb_hand_over(&a->lb, a->options->drain_timeout, on_lb_stopped, a);
}

void
agent_stop(void *arg)
{
	struct agent *a = arg;
	struct err err = {0};

	if (!handover_terminate(a->handover))
		return;
	a->stopping = true;
	agent_health_ports_look(a); /* a load balancer sends no more to NodePorts here */
	if (a->takeover != NULL && !takeover_offered(a->takeover))
		agent_leave_to_predecessor(a);
	service_state_stopping(a->announce);
	log_info("agent", "stopping: finishing what is in progress drain_ms=%llu",
		(unsigned long long)a->options->drain_timeout);
	timer_cancel(a->retry);
	meta_pods_end(a->meta);
	pod_canary_use(a->pods, 0);
	if (!a->handed_over)
		socket_store_drop(a->sockets);
	if (!agent_stop_stays(a))
		agent_capture_end(a);
	if (agent_options_host(a->options) && !agent_stop_stays(a) &&
		dns_resolvconf_restore(a->dns, &err) < 0) {
		log_error("agent", "cannot restore resolv.conf: %s", err.text);
		a->status = 1;
	}
	if (!a->handed_over && iptables_drain(a->ipt, &err) < 0)
		log_error("agent", "new connections still go to the listener: %s", err.text);
	agent_tunnel_drain(a);
	lb_stop(&a->lb, a->options->drain_timeout, on_lb_stopped, a);
}
