#include "hub/replicas/tunnels_private.h"

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
				.stats = session_stats(u->session),
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

	TAILQ_FOREACH(u, &t->open, link)
		session_streams(u->session, u->node, comma, out);
}

void
tunnels_state(const struct tunnels *t, struct buf *out)
{
	uint64_t now = loop_now_ms(t->setup.loop);
	const struct tunnel *u;
	const char *comma = "";

	buf_adds(out, "[");
	TAILQ_FOREACH(u, &t->open, link) {
		const struct session_stats *s = session_stats(u->session);

		buf_printf(out, "%s{\"node\":", comma);
		json_add_text(out, u->node);
		buf_printf(out,
			",\"address\":\"%s\",\"state\":\"%s\",\"streams\":%u,\"rtt_ms\":%u,\"bytes_"
			"in\":%llu,\"bytes_out\":%llu,\"opened\":%llu,\"stalls\":%llu,\"since_s\":%"
			"llu,\"epoch\":%llu,\"certificate_expires\":\"",
			u->address,
			u->leaving                              ? "leaving"
				: u->older                      ? "older"
				: session_is_silent(u->session) ? "silent"
				: u->standby                    ? "standby"
								: "open",
			s->streams, s->rtt_ms, (unsigned long long)s->bytes_in,
			(unsigned long long)s->bytes_out, (unsigned long long)s->opened,
			(unsigned long long)s->stalls,
			(unsigned long long)((now - u->since_ms) / 1000),
			(unsigned long long)u->epoch);
		buf_add_utc(out, u->ends_s);
		buf_adds(out, "\"}");
		comma = ",";
	}
	buf_adds(out, "]");
}

static void
count_streams(const struct session_stats *s, struct metrics *m)
{
	static const char bytes[] = "edgeway_tunnel_bytes_total",
			  help[] = "Payload carried, as this hub sees it.";

	metric_counter(m, "edgeway_tunnel_streams_opened_total", "Streams opened to nodes.", NULL,
		s->opened);
	metric_gauge(m, "edgeway_tunnel_streams", "Streams that are open.", NULL, s->streams);
	metric_counter(m, "edgeway_tunnel_resets_total", "Streams that were reset.", "by=\"hub\"",
		s->resets_sent);
	metric_counter(m, "edgeway_tunnel_resets_total", "Streams that were reset.", "by=\"node\"",
		s->resets_received);
	metric_counter(m, bytes, help, "direction=\"from_node\"", s->bytes_in);
	metric_counter(m, bytes, help, "direction=\"to_node\"", s->bytes_out);
	metric_counter(m, "edgeway_tunnel_stalls_total",
		"Times that a stream took no more for a while.", NULL, s->stalls);
	metric_counter(m, "edgeway_tunnel_saved_bytes_total",
		"Bytes of clear text that tunnel.compress kept off the wire, both ways.", NULL,
		s->saved);
	metric_counter(m, "edgeway_tunnel_pings_total", "Pings sent.", NULL, s->pings);
	metric_counter(m, "edgeway_tunnel_useless_frames_total",
		"Frames of nodes that carried nothing; a large head counts for many.", NULL,
		s->useless);
}

static void
count_ends(const struct tunnels *t, struct metrics *m)
{
	static const char
		ends[] = "edgeway_tunnel_connections_total",
		help[] = "Connections of nodes that asked for a tunnel, by what became of it.";

	metric_counter(m, ends, help, "result=\"open\"", t->opened);
	metric_counter(m, ends, help, "result=\"refused\"", t->refused);
	metric_counter(m, ends, help, "result=\"failed\"", t->failed);
	metric_counter(m, "edgeway_tunnel_replaced_total",
		"Tunnels that a newer one of the node has replaced.", NULL, t->replaced);
	metric_counter(m, "edgeway_tunnel_cut_total",
		"Tunnels cut: certificate revoked or expired, or too many of a node.", NULL,
		t->cut);
	metric_counter(
		m, "edgeway_tunnel_dead_total", "Tunnels whose node fell silent.", NULL, t->dead);
	metric_counter(m, "edgeway_tunnel_silent_total",
		"Times that a tunnel answered neither a stream nor a ping, so that new streams "
		"went another way.",
		NULL, t->silent);
	metric_counter(m, "edgeway_tunnel_missed_total",
		"Streams that found no tunnel of their node.", NULL, t->missed);
}

void
tunnels_metrics(const struct tunnels *t, struct metrics *m)
{
	struct session_stats sum = t->past;
	const struct tunnel *u;
	unsigned told = 0, standby = 0;
	char label[300];

	sum.streams = 0;
	TAILQ_FOREACH(u, &t->open, link) {
		session_stats_add(&sum, session_stats(u->session));
		standby += u->standby && tunnels_takes(u);
	}
	metric_gauge(m, "edgeway_tunnel_nodes", "Nodes with a tunnel that takes streams.", NULL,
		(double)tunnels_count(t));
	metric_gauge(m, "edgeway_tunnel_standby",
		"Standby tunnels that take streams (hub.tunnels of agents).", NULL, standby);
	count_streams(&sum, m);
	count_ends(t, m);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"held\"", (double)t->budget.held);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"granted\"", (double)t->budget.granted);
	metric_gauge(m, "edgeway_tunnel_memory_bytes",
		"Held for readers, granted beyond the base windows, and queued for the wire.",
		"what=\"queued\"", (double)t->budget.queued);
	TAILQ_FOREACH(u, &t->open, link) {
		if (!u->older && told++ < METRIC_NODES_MAX)
			metric_gauge(m, "edgeway_tunnel_rtt_seconds",
				"Round trip to the node, by its last ping.",
				metric_label(label, sizeof label, "node", u->node),
				session_stats(u->session)->rtt_ms / 1000.0);
	}
}
