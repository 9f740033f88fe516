#include "hub/replicas/tunnels_private.h"

#include "base/core/figures.h"
#include "model/json.h"

size_t
tunnels_count(const struct tunnels *t)
{
	const struct tunnel *u;
	size_t n = 0;

	TAILQ_FOREACH(u, &t->open, link) {
		n += tunnels_takes(u) && !u->standby;
	}
	return n;
}

void
tunnels_look(
	const struct tunnels *t, void (*fn)(void *arg, const struct tunnel_facts *facts), void *arg)
{
	const struct tunnel *u;

	TAILQ_FOREACH(u, &t->open, link) {
		fn(arg,
			&(struct tunnel_facts){
				.node = u->node,
				.address = u->address,
				.stats = tunnel_session_stats(u->session),
				.since_ms = u->since_ms,
				.epoch = u->epoch,
				.ends_s = u->ends_s,
				.takes = tunnels_takes(u),
				.standby = u->standby,
			});
	}
}

void
tunnels_streams_state(const struct tunnels *t, const char **comma, struct buf *out)
{
	const struct tunnel *u;

	session_workers_streams(t->setup.sessions, comma, out);
	TAILQ_FOREACH(u, &t->open, link)
		tunnel_session_streams(u->session, u->node, comma, out);
}

#define STREAMS(member, metric, labels, help, json)                                                \
	FIGURE(struct session_stats, member, metric, labels, help, json)
#define TUNNELS(member, metric, labels, help)                                                      \
	FIGURE(struct tunnels, member, metric, labels, help, NULL)

/* Of a tunnel in the JSON, of all tunnels in the metrics. */
static const struct figure tunnels_of_session[] = {
	STREAMS(streams, "edgeway_tunnel_streams", NULL, "Streams that are open.", "streams"),
	FIGURE_JSON(struct session_stats, rtt_ms, "rtt_ms"),
	STREAMS(bytes_in, "edgeway_tunnel_bytes_total", "direction=\"from_node\"",
		"Payload carried, as this hub sees it.", "bytes_in"),
	FIGURE_ALSO(struct session_stats, bytes_out, "direction=\"to_node\"", "bytes_out"),
	STREAMS(opened, "edgeway_tunnel_streams_opened_total", NULL, "Streams opened to nodes.",
		"opened"),
	STREAMS(stalls, "edgeway_tunnel_stalls_total", NULL,
		"Times that a stream took no more for a while.", "stalls"),
	STREAMS(resets_sent, "edgeway_tunnel_resets_total", "by=\"hub\"",
		"Streams that were reset.", NULL),
	FIGURE_ALSO(struct session_stats, resets_received, "by=\"node\"", NULL),
	STREAMS(saved, "edgeway_tunnel_saved_bytes_total", NULL,
		"Bytes of clear text that tunnel.compress kept off the wire, both ways.", NULL),
	STREAMS(pings, "edgeway_tunnel_pings_total", NULL, "Pings sent.", NULL),
	STREAMS(useless, "edgeway_tunnel_useless_frames_total", NULL,
		"Frames of nodes that carried nothing; a large head counts for many.", NULL),
};
static const struct figure tunnels_figures[] = {
	TUNNELS(opened, "edgeway_tunnel_connections_total", "result=\"open\"",
		"Connections of nodes that asked for a tunnel, by what became of it."),
	FIGURE_ALSO(struct tunnels, refused, "result=\"refused\"", NULL),
	FIGURE_ALSO(struct tunnels, failed, "result=\"failed\"", NULL),
	TUNNELS(resumed, "edgeway_tunnel_resumed_total", NULL,
		"Tunnels that resumed a TLS session."),
	TUNNELS(replaced, "edgeway_tunnel_replaced_total", NULL,
		"Tunnels that a newer one of the node has replaced."),
	TUNNELS(cut, "edgeway_tunnel_cut_total", NULL,
		"Tunnels cut: certificate revoked or expired, or too many of a node."),
	TUNNELS(silent, "edgeway_tunnel_silent_total", NULL,
		"Times that a tunnel answered neither a stream nor a ping, so that new streams "
		"went another way."),
	TUNNELS(missed, "edgeway_tunnel_missed_total", NULL,
		"Streams that found no tunnel of their node."),
};
static const struct figure tunnels_memory[] = {
	FIGURE(struct session_budget, held, "edgeway_tunnel_memory_bytes", "what=\"held\"",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		NULL),
	FIGURE_ALSO(struct session_budget, granted, "what=\"granted\"", NULL),
	FIGURE_ALSO(struct session_budget, queued, "what=\"queued\"", NULL),
};

uint64_t
tunnels_bytes(const struct tunnels *t)
{
	uint64_t bytes = t->past.bytes_in + t->past.bytes_out;
	const struct tunnel *u;

	TAILQ_FOREACH(u, &t->open, link)
		bytes += tunnel_session_stats(u->session)->bytes_in +
			tunnel_session_stats(u->session)->bytes_out;
	return bytes;
}

void
tunnels_state(const struct tunnels *t, struct buf *out)
{
	uint64_t now = loop_now_ms(t->setup.loop);
	const struct tunnel *u;
	const char *comma = "";

	buf_adds(out, "[");
	TAILQ_FOREACH(u, &t->open, link) {
		buf_printf(out, "%s{\"node\":", comma);
		json_add_text(out, u->node);
		buf_printf(out, ",\"address\":\"%s\",\"state\":\"%s\"", u->address,
			u->leaving                                     ? "leaving"
				: u->older                             ? "older"
				: tunnel_session_is_silent(u->session) ? "silent"
				: u->standby                           ? "standby"
								       : "open");
		figures_json(FIGURES(tunnels_of_session), tunnel_session_stats(u->session), out);
		buf_printf(out, ",\"since_s\":%llu,\"epoch\":%llu,\"certificate_expires\":\"",
			(unsigned long long)((now - u->since_ms) / 1000),
			(unsigned long long)u->epoch);
		buf_add_utc(out, u->ends_s);
		buf_adds(out, "\"}");
		comma = ",";
	}
	buf_adds(out, "]");
}

void
tunnels_metrics(const struct tunnels *t, struct metrics *m)
{
	struct session_budget memory = {
		.held = t->budget.held, .granted = t->budget.granted, .queued = t->budget.queued};
	struct session_stats sum = t->past;
	const struct tunnel *u;
	unsigned told = 0, standby = 0;
	char label[300];

	session_workers_memory(t->setup.sessions, &memory);
	sum.streams = 0;
	TAILQ_FOREACH(u, &t->open, link) {
		session_stats_add(&sum, tunnel_session_stats(u->session));
		standby += u->standby && tunnels_takes(u);
	}
	metric_gauge(m, "edgeway_tunnel_nodes", "Nodes with a tunnel that takes streams.", NULL,
		(double)tunnels_count(t));
	metric_gauge(m, "edgeway_tunnel_standby",
		"Standby tunnels that take streams (hub.tunnels of agents).", NULL, standby);
	figures_metrics(FIGURES(tunnels_of_session), &sum, m);
	figures_metrics(FIGURES(tunnels_figures), t, m);
	figures_metrics(FIGURES(tunnels_memory), &memory, m);
	TAILQ_FOREACH(u, &t->open, link) {
		if (!u->older && told++ < METRIC_NODES_MAX)
			metric_gauge(m, "edgeway_tunnel_rtt_seconds",
				"Round trip to the node, by its last ping.",
				metric_label(label, sizeof label, "node", u->node),
				tunnel_session_stats(u->session)->rtt_ms / 1000.0);
	}
}
