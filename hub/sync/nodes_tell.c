#include "hub/sync/nodes_private.h"

#include <errno.h>

#include "base/core/figures.h"
#include "hub/port/refusals.h"
#include "model/json.h"

struct addr
nodes_addr(const struct nodes *n)
{
	return n->listen != NULL ? listen_addr(n->listen) : n->config.listen;
}

void
nodes_unserved(const struct nodes *n, nodes_unserved_fn *fn, void *arg)
{
	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		for (enum unserved_why why = 0; nodes_talks(p) && why < UNSERVED_WHYS; why++) {
			const char *const *keys;
			size_t n_keys = node_session_unserved(p->talk, why, &keys);

			for (size_t i = 0; i < n_keys; i++)
				fn(arg, why, keys[i], node_session_node(p->talk));
		}
	}
}

void
nodes_held(const struct nodes *n, nodes_held_fn *fn, void *arg)
{
	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		const struct refusals *held =
			nodes_talks(p) ? node_session_refusals(p->talk) : NULL;

		for (size_t i = 0; held != NULL && i < held->n; i++)
			fn(arg, held->list[i].service, node_session_node(p->talk),
				held->list[i].reason);
	}
}

static size_t
nodes_count_refused(const struct nodes *n)
{
	size_t count = 0;

	for (struct peer *p = n->peers; p != NULL; p = p->next)
		if (nodes_talks(p))
			count += refusals_count(node_session_refusals(p->talk));
	return count;
}

void
nodes_sources(const struct nodes *n, void (*fn)(void *arg, const char *node, const char *address),
	void *arg)
{
	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		if (nodes_talks(p) && !ws_accept_hides(ws_peer_addr(p->conn)))
			fn(arg, node_session_node(p->talk), ws_peer_addr(p->conn));
	}
}

void
nodes_joined(
	const struct nodes *n, void (*fn)(void *arg, const char *node, bool revoked), void *arg)
{
	char **names;
	size_t n_names = certs_nodes(n->config.certs, &names);

	for (struct peer *p = n->peers; p != NULL; p = p->next)
		if (nodes_talks(p))
			fn(arg, node_session_node(p->talk), false);
	for (size_t i = 0; i < n_names; i++) {
		if (nodes_find_talk(n, names[i]) == NULL)
			fn(arg, names[i], certs_node_revoked(n->config.certs, names[i]));
		free(names[i]);
	}
	free(names);
}

void
nodes_each(const struct nodes *n, void (*fn)(void *arg, const struct node_session *talk), void *arg)
{
	for (struct peer *p = n->peers; p != NULL; p = p->next)
		if (nodes_talks(p))
			fn(arg, p->talk);
}

int
nodes_ask(const struct nodes *n, const char *node, const char *service, struct question *q)
{
	struct node_session *s = nodes_find_talk(n, node);

	return s != NULL ? node_session_ask(s, service, q) : -ENOTCONN;
}

size_t
nodes_connected(const struct nodes *n)
{
	size_t count = 0;

	for (struct peer *p = n->peers; p != NULL; p = p->next)
		count += nodes_talks(p);
	return count;
}

static void
add_certificate(const struct nodes *n, const char *node, struct buf *out)
{
	char serial[PKI_SERIAL_TEXT];
	int64_t not_after_s;

	if (!certs_node_info(n->config.certs, node, serial, &not_after_s))
		return;
	buf_adds(out, ",\"serial\":");
	json_add_text(out, serial);
	buf_printf(out, ",\"revoked\":%s,\"expires\":\"",
		certs_refuses(n->config.certs, node, serial) ? "true" : "false");
	buf_add_utc(out, not_after_s);
	buf_adds(out, "\"");
}

/* --- all nodes ------------------------------------------------------------------------------ */

struct nodes_text {
	const struct nodes *nodes;
	struct buf *out;
	const char *own; /* this replica's name */
	const char *comma;
	bool certificates;
};

/* A node that is not connected here; since_ms 0: not since this hub was started. */
static void
nodes_add_row(struct nodes_text *t, const struct presence_row *row)
{
	struct buf *out = t->out;

	buf_printf(out, "%s{\"node\":", t->comma);
	t->comma = ",";
	json_add_text(out, row->node);
	buf_printf(out, ",\"connected\":%s,\"at\":", row->connected ? "true" : "false");
	json_add_text(out, row->at[0] != '\0' || row->since_ms == 0 ? row->at : t->own);
	buf_adds(out, ",\"address\":");
	json_add_text(out, row->address);
	buf_adds(out, ",\"version\":");
	json_add_text(out, row->version);
	buf_adds(out, ",\"since\":\"");
	if (row->since_ms != 0)
		buf_add_utc(out, row->since_ms / 1000);
	buf_adds(out, "\",\"lastWords\":");
	json_add_text(out, row->words);
	buf_adds(out, ",\"pending\":0");
	if (t->certificates)
		add_certificate(t->nodes, row->node, out);
	else if (!row->connected && certs_node_revoked(t->nodes->config.certs, row->node))
		buf_adds(out, ",\"revoked\":true");
	buf_adds(out, "}");
}

static bool
nodes_is_known(const struct nodes *n, const char *node)
{
	return certs_taken(n->config.certs, node) ||
		(n->config.others != NULL && !certs_shared(n->config.certs) &&
			peers_know(n->config.others, node));
}

static void
nodes_add_other(void *arg, const struct presence_row *row)
{
	struct nodes_text *t = arg;

	/* A node that was forgotten, here or at another replica, is no longer a node. */
	if (!row->connected && !nodes_is_known(t->nodes, row->node))
		return;
	if (!row->connected || row->at[0] != '\0')
		nodes_add_row(t, row);
}

/* The session has ended, but the connection is not closed yet. */
static void
nodes_add_closing(struct nodes_text *t, const struct peer *p)
{
	struct presence_row row;

	if (!presence_find(t->nodes->config.presence, p->node, &row) || !row.connected ||
		row.conn != p->presence)
		return;
	row.connected = false;
	row.words = "its connection is being closed";
	nodes_add_row(t, &row);
}

static void
nodes_add_here(struct nodes_text *t, const struct node_session *talk)
{
	buf_adds(t->out, t->comma);
	buf_adds(t->out, "{");
	node_session_state(talk, t->out);
	buf_adds(t->out, ",\"at\":");
	json_add_text(t->out, t->own);
	if (t->certificates)
		add_certificate(t->nodes, node_session_node(talk), t->out);
	buf_adds(t->out, "}");
	t->comma = ",";
}

void
nodes_state(const struct nodes *n, bool certificates, struct buf *out)
{
	struct presence_row row;
	char **names;
	size_t n_names = certs_nodes(n->config.certs, &names);
	struct nodes_text t = {n, out,
		n->config.others != NULL ? peers_own_name(n->config.others) : "", "", certificates};

	buf_adds(out, "[");
	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		if (nodes_talks(p))
			nodes_add_here(&t, p->talk);
		else if (p->talk != NULL)
			nodes_add_closing(&t, p);
	}
	presence_each(n->config.presence, nodes_add_other, &t);
	for (size_t i = 0; i < n_names; i++) {
		if (!presence_find(n->config.presence, names[i], &row))
			nodes_add_row(&t,
				&(struct presence_row){.node = names[i],
					.at = "",
					.address = "",
					.version = "",
					.words = ""});
		free(names[i]);
	}
	free(names);
	buf_adds(out, "]");
}

void
nodes_carried(const struct nodes *n, struct buf *out)
{
	ws_accept_state(n->carried, out);
}

void
nodes_twins(const struct nodes *n, struct buf *out)
{
	twins_state(n->twins, loop_now_ms(n->loop), out);
}

uint64_t
nodes_full(const struct nodes *n)
{
	return n->full;
}

void
nodes_joins(const struct nodes *n, struct buf *out)
{
	const struct join_stats *s = &n->join_stats;
	uint64_t refused = 0;

	for (int i = 0; i < JOIN_REASONS; i++)
		refused += s->refused[i];
	buf_printf(out,
		"{\"issued\":%llu,\"refused\":%llu,\"told_to_wait\":%llu,\"last\":{\"node\":",
		(unsigned long long)s->issued, (unsigned long long)refused,
		(unsigned long long)n->gate.refused);
	json_add_text(out, s->last_node);
	buf_adds(out, ",\"address\":");
	json_add_text(out, s->last_peer);
	buf_adds(out, ",\"reason\":");
	json_add_text(out, s->last_why);
	buf_adds(out, ",\"at\":\"");
	if (s->last_s != 0)
		buf_add_utc(out, s->last_s);
	buf_adds(out, "\"}}");
}

static const struct figure nodes_figures[] = {
	FIGURE(struct nodes, n_cut, "edgeway_hub_connections_crowded_total", NULL,
		"Connections of nodes that were cut since the node had opened newer ones.", NULL),
	FIGURE(struct nodes, n_resumed, "edgeway_hub_nodes_resumed_total", NULL,
		"Connections of nodes for metadata that resumed a TLS session.", NULL),
	FIGURE(struct nodes, stats.stalled, "edgeway_hub_sessions_stalled_total", NULL,
		"Sessions ended for want of acknowledgements.", NULL),
	FIGURE(struct nodes, full, "edgeway_hub_nodes_full_total", NULL,
		"Nodes asked to come later, since this hub has no descriptors for more.", NULL),
	FIGURE(struct nodes, gate.refused, "edgeway_hub_nodes_told_to_wait_total", NULL,
		"Connections of nodes refused with Retry-After, since many were being brought into "
		"step.",
		NULL),
	FIGURE(struct nodes, stats.updates, "edgeway_hub_messages_sent_total",
		"operation=\"update\"", "Changes sent.", NULL),
	FIGURE_ALSO(struct nodes, stats.deletes, "operation=\"delete\"", NULL),
	FIGURE(struct nodes, stats.merged, "edgeway_hub_changes_merged_total", NULL,
		"Changes to services whose earlier change still waited for a node: it gets the "
		"newest state alone.",
		NULL),
	FIGURE(struct nodes, stats.refused, "edgeway_hub_changes_refused_total", NULL,
		"Changes that a node refused.", NULL),
};

/* What nodes that lag make the hub keep. */
static void
nodes_lag_metrics(const struct nodes *n, struct metrics *to)
{
	size_t waiting = 0, bytes = 0;

	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		struct node_session_facts facts;

		if (!nodes_talks(p))
			continue;
		node_session_facts(p->talk, &facts);
		waiting += facts.pending;
		bytes += facts.queued_bytes;
	}
	metric_gauge(to, "edgeway_hub_changes_waiting",
		"Services whose newest state waits until nodes have acknowledged earlier changes: "
		"of all nodes together.",
		NULL, (double)waiting);
	metric_gauge(to, "edgeway_hub_nodes_queued_bytes",
		"Bytes of metadata that the sockets of nodes have not taken yet.", NULL,
		(double)bytes);
}

void
nodes_metrics(const struct nodes *n, struct metrics *to)
{
	metric_gauge(to, "edgeway_hub_nodes_connected", "Nodes with a session.", NULL,
		(double)nodes_connected(n));
	metric_counter(to, "edgeway_hub_accept_errors_total",
		"Connections that could not be accepted.", NULL,
		n->listen != NULL ? listen_failed(n->listen) : n->not_accepted);
	nodes_lag_metrics(n, to);
	alpn_mux_metrics(n->peek, to);
	twins_metrics(n->twins, loop_now_ms(n->loop), to);
	figures_metrics(FIGURES(nodes_figures), n, to);
	metric_gauge(to, "edgeway_hub_nodes_revoked", "Nodes that were revoked.", NULL,
		(double)certs_revoked_count(n->config.certs));
	metric_gauge(to, "edgeway_hub_changes_held",
		"Services that nodes refuse as they are, held back until they change: of all nodes "
		"together.",
		NULL, (double)nodes_count_refused(n));
	for (int i = 0; i < JOIN_REASONS; i++) {
		char label[48];

		metric_label(label, sizeof label, "reason", join_reason_text((enum join_reason)i));
		metric_counter(to, "edgeway_hub_joins_refused_total",
			"Attempts to join that were refused.", label, n->join_stats.refused[i]);
	}
}
