#include "tunnel/node/tunnel_client_private.h"

#include <string.h>

#include "base/core/figures.h"
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

#define STREAMS(member, metric, labels, help, json)                                                \
	FIGURE(struct session_stats, member, metric, labels, help, json)
#define LINK(member, metric, labels, help, json)                                                   \
	FIGURE(struct tunnel_client, member, metric, labels, help, json)

static const struct figure tunnel_client_ends[] = {
	LINK(opened, "edgeway_tunnel_connections_total", "result=\"open\"",
		"Attempts to open the tunnel, by what became of them.", "connections"),
	FIGURE_ALSO(struct tunnel_client, failed, "result=\"failed\"", "failures"),
	LINK(told_to_wait, "edgeway_tunnel_told_to_wait_total", NULL,
		"Times that a busy hub asked to come again later.", NULL),
	LINK(lost, "edgeway_tunnel_lost_total", NULL, "Tunnels that ended against our will.", NULL),
	LINK(doubted, "edgeway_tunnel_doubted_total", NULL,
		"Times that the hub answered neither a stream nor a ping, or that the way to it "
		"began at another address, so that another connection was looked for.",
		NULL),
	LINK(renewed, "edgeway_tunnel_renewed_total", NULL,
		"Tunnels that took another's place with a new certificate.", NULL),
	LINK(budget.held, "edgeway_tunnel_memory_bytes", "what=\"held\"",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		NULL),
	FIGURE_ALSO(struct tunnel_client, budget.granted, "what=\"granted\"", NULL),
	FIGURE_ALSO(struct tunnel_client, budget.queued, "what=\"queued\"", NULL),
};
static const struct figure tunnel_client_sums[] = {
	STREAMS(streams, "edgeway_tunnel_streams", NULL, "Streams that are open.", "streams"),
	FIGURE_JSON(struct session_stats, rtt_ms, "rtt_ms"),
	STREAMS(bytes_in, "edgeway_tunnel_bytes_total", "direction=\"from_hub\"",
		"Payload carried.", "bytes_in"),
	FIGURE_ALSO(struct session_stats, bytes_out, "direction=\"to_hub\"", "bytes_out"),
	STREAMS(resets_sent, "edgeway_tunnel_resets_total", "by=\"node\"",
		"Streams that were reset.", NULL),
	FIGURE_ALSO(struct session_stats, resets_received, "by=\"hub\"", NULL),
	STREAMS(stalls, "edgeway_tunnel_stalls_total", NULL,
		"Times that a stream took no more for a while.", NULL),
	STREAMS(saved, "edgeway_tunnel_saved_bytes_total", NULL,
		"Bytes of clear text that the hub's tunnel.compress kept off the wire.", NULL),
	STREAMS(pings, "edgeway_tunnel_pings_total", NULL, "Pings sent.", NULL),
};

void
tunnel_client_metrics(
	const struct tunnel_client *l, const struct tunnel_client *standby, struct metrics *m)
{
	struct session_stats s = tunnel_client_tell_sum(l), other;

	if (standby != NULL) {
		other = tunnel_client_tell_sum(standby);
		session_stats_add(&s, &other);
	}
	metric_gauge(m, "edgeway_tunnel_open", "1 while the hub can open streams.", NULL,
		l->current != NULL);
	metric_gauge(m, "edgeway_tunnel_paths",
		"Paths of the tunnel where this node has several uplinks (MPTCP); 0: plain TCP.",
		NULL, tunnel_client_paths(l));
	figures_metrics(FIGURES(tunnel_client_ends), l, m);
	figures_metrics(FIGURES(tunnel_client_sums), &s, m);
	metric_gauge(m, "edgeway_tunnel_rtt_seconds", "Round trip to the hub, by the last ping.",
		NULL, s.rtt_ms / 1000.0);
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
	buf_printf(
		out, ",\"paths\":%u", l->current != NULL ? session_paths(l->current->session) : 0);
	figures_json(FIGURES(tunnel_client_sums), &s, out);
	figures_json(FIGURES(tunnel_client_ends), l, out);
	buf_adds(out, ",\"error\":");
	json_add_text(out, l->error);
	buf_printf(out,
		",\"ends\":%u,\"end\":", flapping_count(&l->ends, loop_now_ms(l->config.loop)));
	json_add_text(out, l->ends.why);
	buf_adds(out, ",\"doubt\":");
	json_add_text(out,
		l->current != NULL && l->current->state == TUNNEL_CONN_DOUBTED ? l->current->doubt
									       : "");
}
