#include "hub/replicas/peers_private.h"

#include "base/core/figures.h"
#include "model/json.h"

static const char *const states[PEER_STATES] = {
	[PEER_WAITING] = "away",
	[PEER_DIALLING] = "dialling",
	[PEER_OPEN] = "open",
	[PEER_ITSELF] = "itself",
	[PEER_TWIN] = "twin",
};

/* A replica that is being reconnected counts as away until it answers. */
static enum peer_state
state_of(const struct peer *peer)
{
	if (peer->now != NULL)
		return PEER_OPEN;
	return peer->state == PEER_DIALLING && peer->tried ? PEER_WAITING : peer->state;
}

static void
add_peer(const struct peer *peer, struct buf *out)
{
	const struct line *l = peer->now;
	const struct session_stats *s = l != NULL ? session_stats(l->session) : NULL;
	uint64_t now = loop_now_ms(peer->of->config.loop);

	buf_adds(out, "{\"peer\":");
	json_add_text(out, peer->state == PEER_ITSELF ? peer->of->name : peer->name);
	buf_printf(out,
		",\"address\":\"%s\",\"state\":\"%s\",\"named\":%s,\"nodes\":%zu,\"streams\":%u,"
		"\"rtt_ms\":%u,\"bytes_in\":%llu,\"bytes_out\":%llu,\"since_s\":%llu,\"error\":",
		peer->address, states[state_of(peer)], peer->names != 0 ? "true" : "false",
		l != NULL ? tunnel_directory_claims(l->claims) : 0, peer_streams(peer),
		s != NULL ? s->rtt_ms : 0, s != NULL ? (unsigned long long)s->bytes_in : 0,
		s != NULL ? (unsigned long long)s->bytes_out : 0,
		l != NULL ? (unsigned long long)((now - l->since_ms) / 1000) : 0);
	json_add_text(out, peer->error);
	buf_adds(out, ",\"says\":");
	json_add_text(out, l != NULL ? peer->trouble : "");
	buf_adds(out, "}");
}

static void
add_problem(const char *name, const char *problem, struct buf *out)
{
	buf_adds(out, "{\"peer\":");
	json_add_text(out, name);
	buf_adds(out,
		",\"address\":\"\",\"state\":\"not "
		"found\",\"named\":true,\"nodes\":0,\"streams\":0,\"rtt_ms\":0,\"error\":");
	json_add_text(out, problem);
	buf_adds(out, "}");
}

void
peers_state(const struct peers *p, struct buf *out)
{
	const struct peer *peer;
	const char *comma = "", *name, *problem;

	buf_adds(out, "[");
	TAILQ_FOREACH(peer, &p->all, link) {
		buf_adds(out, comma);
		add_peer(peer, out);
		comma = ",";
	}
	for (size_t i = 0;
		p->names != NULL && (problem = peer_names_problem(p->names, i, &name)) != NULL;
		i++) {
		if (problem[0] == '\0')
			continue;
		buf_adds(out, comma);
		add_problem(name, problem, out);
		comma = ",";
	}
	buf_adds(out, "]");
}

void
peers_serials(const struct peers *p, struct buf *out)
{
	const struct peer *peer;

	TAILQ_FOREACH(peer, &p->all, link) {
		if (peer->now == NULL)
			continue;
		buf_adds(out, ",{\"hub\":");
		json_add_text(out, peer->now->name);
		buf_printf(out, ",\"address\":\"%s\",\"state\":\"connected\",\"serial\":\"%s\"}",
			peer->address, peer->now->serial);
	}
}

#define PEERS(member, metric, labels, help) FIGURE(struct peers, member, metric, labels, help, NULL)

static const struct figure peers_figures[] = {
	PEERS(refused, "edgeway_hub_peer_refused_total", NULL,
		"Connections that claimed to be of another replica, and were refused."),
	PEERS(asked, "edgeway_hub_peer_streams_total", "what=\"asked\"",
		"Streams passed on between replicas: asked of another one; of these misdirected, "
		"whose node was not there any more; for another one: joined with a node, node not "
		"here, or refused otherwise."),
	FIGURE_ALSO(struct peers, misdirected, "what=\"misdirected\"", NULL),
	FIGURE_ALSO(struct peers, passed, "what=\"joined\"", NULL),
	FIGURE_ALSO(struct peers, not_here, "what=\"not_here\"", NULL),
	FIGURE_ALSO(struct peers, unpassed, "what=\"refused\"", NULL),
};

void
peers_metrics(const struct peers *p, struct metrics *m)
{
	unsigned open = 0, away = 0, streams = 0;
	size_t nodes = 0;
	const struct peer *peer;
	const char *name, *problem;

	TAILQ_FOREACH(peer, &p->all, link) {
		open += state_of(peer) == PEER_OPEN;
		away += state_of(peer) == PEER_WAITING && peer->tried;
		streams += peer_streams(peer);
		if (peer->now != NULL)
			nodes += tunnel_directory_claims(peer->now->claims);
	}
	for (size_t i = 0;
		p->names != NULL && (problem = peer_names_problem(p->names, i, &name)) != NULL; i++)
		away += problem[0] != '\0';
	metric_gauge(m, "edgeway_hub_peers", "Other replicas.", "state=\"open\"", open);
	metric_gauge(m, "edgeway_hub_peers", "Other replicas.", "state=\"away\"", away);
	metric_gauge(m, "edgeway_hub_peer_nodes", "Nodes whose tunnels other replicas hold.", NULL,
		(double)nodes);
	figures_metrics(FIGURES(peers_figures), p, m);
	metric_gauge(m, "edgeway_hub_peer_streams",
		"Streams between replicas that are open: to others and from others.",
		"direction=\"to\"", streams);
	metric_gauge(m, "edgeway_hub_peer_streams", NULL, "direction=\"from\"", (double)p->n_trips);
}
