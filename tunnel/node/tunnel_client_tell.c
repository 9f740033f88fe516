#include "tunnel/node/tunnel_client_private.h"

#include <string.h>

#include "model/json.h"

static struct session_stats
tunnel_client_tell_sum(const struct tunnel_client *l)
{
	struct session_stats s = l->past;
	const struct tunnel_conn *n;

	s.streams = 0;
	s.rtt_ms = l->current != NULL ? session_stats(l->current->session)->rtt_ms : 0;
	if (l->current != NULL)
		session_stats_add(&s, session_stats(l->current->session));
	TAILQ_FOREACH(n, &l->leaving, next)
		session_stats_add(&s, session_stats(n->session));
	return s;
}

unsigned
tunnel_client_streams(const struct tunnel_client *l)
{
	return tunnel_client_tell_sum(l).streams;
}

void
tunnel_client_metrics(
	const struct tunnel_client *l, const struct tunnel_client *standby, struct metrics *m)
{
	static const char bytes[] = "edgeway_tunnel_bytes_total", help[] = "Payload carried.";
	struct session_stats s = tunnel_client_tell_sum(l), other;

	if (standby != NULL) {
		other = tunnel_client_tell_sum(standby);
		session_stats_add(&s, &other);
	}
	metric_gauge(m, "edgeway_tunnel_open", "1 while the hub can open streams.", NULL,
		l->current != NULL);
	metric_gauge(m, "edgeway_tunnel_standby_open",
		"1 while the second tunnel (hub.tunnels), to another hub, is open.", NULL,
		standby != NULL && tunnel_client_session(standby) != NULL &&
			(l->current == NULL ||
				strcmp(l->current->address, standby->current->address) != 0));
	metric_counter(m, "edgeway_tunnel_connections_total",
		"Attempts to open the tunnel, by what became of them.", "result=\"open\"",
		l->opened);
	metric_counter(m, "edgeway_tunnel_connections_total",
		"Attempts to open the tunnel, by what became of them.", "result=\"failed\"",
		l->failed);
	metric_counter(m, "edgeway_tunnel_lost_total", "Tunnels that ended against our will.", NULL,
		l->lost);
	metric_counter(
		m, "edgeway_tunnel_dead_total", "Tunnels whose hub fell silent.", NULL, l->dead);
	metric_counter(m, "edgeway_tunnel_doubted_total",
		"Times that the hub answered neither a stream nor a ping, or that the way to it "
		"began at another address, so that another connection was looked for.",
		NULL, l->doubted);
	metric_counter(m, "edgeway_tunnel_renewed_total",
		"Tunnels that took another's place with a new certificate.", NULL, l->renewed);
	metric_gauge(
		m, "edgeway_tunnel_streams", "Streams that are open.", NULL, (double)s.streams);
	metric_counter(m, bytes, help, "direction=\"from_hub\"", s.bytes_in);
	metric_counter(m, bytes, help, "direction=\"to_hub\"", s.bytes_out);
	metric_counter(m, "edgeway_tunnel_resets_total", "Streams that were reset.", "by=\"node\"",
		s.resets_sent);
	metric_counter(m, "edgeway_tunnel_resets_total", "Streams that were reset.", "by=\"hub\"",
		s.resets_received);
	metric_counter(m, "edgeway_tunnel_stalls_total",
		"Times that a stream took no more for a while.", NULL, s.stalls);
	metric_counter(m, "edgeway_tunnel_saved_bytes_total",
		"Bytes of clear text that the hub's tunnel.compress kept off the wire.", NULL,
		s.saved);
	metric_counter(m, "edgeway_tunnel_pings_total", "Pings sent.", NULL, s.pings);
	metric_gauge(m, "edgeway_tunnel_rtt_seconds", "Round trip to the hub, by the last ping.",
		NULL, s.rtt_ms / 1000.0);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"held\"", (double)l->budget.held);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"granted\"", (double)l->budget.granted);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"queued\"", (double)l->budget.queued);
}

static const char *
state_name(const struct tunnel_client *l)
{
	if (l->draining)
		return "leaving";
	if (l->current != NULL)
		return "open";
	if (l->dialling != NULL)
		return "dialling";
	return l->hub.tls != NULL ? "waiting" : "no hub yet";
}

void
tunnel_client_streams_state(
	const struct tunnel_client *l, const char *node, const char **comma, struct buf *out)
{
	const struct tunnel_conn *n;

	if (l->current != NULL)
		session_streams(l->current->session, node, comma, out);
	TAILQ_FOREACH(n, &l->leaving, next)
		session_streams(n->session, node, comma, out);
}

void
tunnel_client_state(const struct tunnel_client *l, struct buf *out)
{
	struct session_stats s = tunnel_client_tell_sum(l);

	buf_printf(out, "\"state\":\"%s\",\"carrier\":\"%s\",\"hub\":", state_name(l),
		l->config.carriers != NULL ? "websocket" : "tls");
	json_add_text(out, l->current != NULL ? l->current->address : "");
	if (l->current != NULL)
		buf_printf(out, ",\"since_s\":%llu",
			(unsigned long long)((loop_now_ms(l->config.loop) - l->current->since_ms) /
				1000));
	buf_printf(out,
		",\"streams\":%u,\"rtt_ms\":%u,\"bytes_in\":%llu,\"bytes_out\":%llu,"
		"\"connections\":%llu,\"failures\":%llu,\"error\":",
		s.streams, s.rtt_ms, (unsigned long long)s.bytes_in,
		(unsigned long long)s.bytes_out, (unsigned long long)l->opened,
		(unsigned long long)l->failed);
	json_add_text(out, l->error);
	buf_printf(out,
		",\"ends\":%u,\"end\":", flapping_count(&l->ends, loop_now_ms(l->config.loop)));
	json_add_text(out, l->ends.why);
	buf_adds(out, ",\"doubt\":");
	json_add_text(out,
		l->current != NULL && l->current->state == TUNNEL_CONN_DOUBTED ? l->current->doubt
									       : "");
}
