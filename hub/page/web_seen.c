#include "hub/page/web_tell.h"

#include <string.h>

#include "model/json.h"

/* --- one node ------------------------------------------------------------------------------- */

struct tunnels_of {
	const struct tell *tell;
	const char *node, *comma;
	struct buf *out;
};

static void
on_tunnel(void *arg, const struct tunnel_facts *f)
{
	struct tunnels_of *to = arg;

	if (strcmp(f->node, to->node) != 0)
		return;
	buf_printf(to->out,
		"%s{\"address\":\"%s\",\"takes\":%s,\"standby\":%s,\"epoch\":%llu,\"streams\":%u,"
		"\"opened\":%llu,"
		"\"rtt\":%u,\"totalIn\":%llu,\"totalOut\":%llu,\"stalls\":%llu,\"ends\":%lld}",
		to->comma, f->address, f->takes ? "true" : "false", f->standby ? "true" : "false",
		(unsigned long long)f->epoch, f->stats->streams,
		(unsigned long long)f->stats->opened, f->stats->rtt_ms,
		(unsigned long long)f->stats->bytes_in, (unsigned long long)f->stats->bytes_out,
		(unsigned long long)f->stats->stalls, (long long)f->ends_s * 1000);
	to->comma = ",";
}

/* {"t":"node","name":...,"found":bool, the row, "zone","tunnels":[...]} */
void
tell_node(const struct tell *t, const struct want *want, struct buf *out)
{
	const struct survey_node *n = survey_find(t->survey, want->name);
	struct tunnels_of tunnels = {t, want->name, "", out};

	buf_adds(out, "{\"t\":\"node\",");
	if (n == NULL) {
		buf_adds(out, "\"found\":false,\"name\":");
		json_add_text(out, want->name);
		buf_adds(out, "}\n");
		return;
	}
	buf_adds(out, "\"found\":true,");
	tell_node_row(t->survey, n, out);
	buf_adds(out, ",\"zone\":");
	json_add_text(out, survey_text(t->survey, n->zone));
	buf_printf(
		out, ",\"tunnelSince\":%llu,\"tunnels\":[", (unsigned long long)n->tunnel_since_ms);
	tunnels_look(t->from->tunnels, on_tunnel, &tunnels);
	buf_adds(out, "]}\n");
}

/* --- one service: in the cluster ------------------------------------------------------------ */

static void
add_member(struct buf *out, const char *comma, const char *name, const char *text)
{
	buf_printf(out, "%s\"%s\":", comma, name);
	json_add_text(out, text);
}

static void
add_way(struct buf *out, const char *name, const char *ip, unsigned port)
{
	if (ip == NULL || ip[0] == '\0' || port == 0)
		return;
	buf_printf(out, ",\"%s\":\"%s%s%s:%u\"", name, strchr(ip, ':') != NULL ? "[" : "", ip,
		strchr(ip, ':') != NULL ? "]" : "", port);
}

static void
add_place(const struct view_endpoint *e, struct buf *out)
{
	buf_adds(out, "{");
	add_member(out, "", "pod", e->pod);
	add_member(out, ",", "node", e->node);
	add_member(out, ",", "site", e->site);
	add_member(out, ",", "zone", e->zone);
	add_way(out, "inside", e->pod_ip, e->pod_port);
	add_way(out, "host", e->host_ip, e->host_port);
	add_way(out, "public", e->public_ip, e->host_port);
	add_way(out, "given", e->given_ip, e->given_port);
	add_member(out, ",", "state",
		e->flags & ENDPOINT_READY ? e->flags & ENDPOINT_TERMINATING ? "leaving" : "ready"
			: e->flags & ENDPOINT_SERVING ? "leaving"
						      : "not ready");
	buf_adds(out, "}");
}

static void
add_ports(const struct view *v, struct buf *out)
{
	for (size_t p = 0; p < v->n_ports; p++) {
		const struct view_port *port = &v->ports[p];

		buf_printf(out, "%s{", p > 0 ? "," : "");
		add_member(out, "", "name", port->name);
		buf_printf(out, ",\"port\":%u,\"mode\":\"%s\",\"extra\":%s,\"n\":%zu,\"places\":[",
			port->port, port_mode_name((enum port_mode)port->mode),
			port->extra ? "true" : "false", port->n_endpoints);
		for (size_t e = 0; e < MIN(port->n_endpoints, (size_t)TELL_PLACES); e++) {
			buf_adds(out, e > 0 ? "," : "");
			add_place(&port->endpoints[e], out);
		}
		buf_adds(out, "]}");
	}
}

/* --- one service: at each node -------------------------------------------------------------- */

struct seen {
	const struct survey_node *node;
	const struct node_session *talk; /* NULL: the node is not connected here */
};

struct sights {
	const struct survey *survey;
	struct seen rows[TELL_ROWS];
	size_t n;
};

/* Rows are sorted by name. */
static void
on_talk(void *arg, const struct node_session *talk)
{
	struct sights *all = arg;
	size_t low = 0, high = all->n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		int order = strcmp(survey_text(all->survey, all->rows[mid].node->name),
			node_session_node(talk));

		if (order == 0) {
			all->rows[mid].talk = talk;
			return;
		}
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
}

static void
add_dialled(const struct service_port *port, struct buf *out)
{
	static const char *const vias[] = {"pod", "host", "given", "tunnel"};
	static const char *const tiers[] = {"node", "zone", "rest", "tunnel"};
	char text[ADDR_TEXT_MAX];

	buf_printf(out, "{\"port\":%u,\"unreachable\":%u,\"n\":%u,\"endpoints\":[", port->port,
		port->n_unreachable + port->n_refused, port->n_endpoints);
	for (unsigned i = 0; i < MIN(port->n_endpoints, (unsigned)TELL_SHOWN); i++) {
		const struct endpoint *e = &port->endpoints[i];

		buf_printf(out, "%s{\"address\":\"%s\",\"via\":\"%s\",\"tier\":\"%s\"",
			i > 0 ? "," : "", endpoint_text(e, text), vias[e->via], tiers[e->tier]);
		add_member(out, ",", "node", e->node);
		buf_adds(out, "}");
	}
	buf_adds(out, "]}");
}

static const char *
share_of(const struct seen *row, const struct fanout_item *item)
{
	static const char *const words[] = {
		[NODE_SESSION_NOT_FOR_IT] = "kept",
		[NODE_SESSION_UNDER_WAY] = "under way",
		[NODE_SESSION_REFUSED] = "refused",
		[NODE_SESSION_UNSERVED] = "no address",
		[NODE_SESSION_HAS] = "has",
	};

	if (row->talk != NULL)
		return words[node_session_share(row->talk, item)];
	return row->node->health == SURVEY_ELSEWHERE ? "elsewhere" : "away";
}

/* Uses the node's own function to find out which endpoints it uses, and how. */
static void
add_seen(const struct tell *t, const struct seen *row, const struct view *v,
	const struct fanout_item *item, struct buf *out)
{
	const struct survey *s = t->survey;
	const char *share = share_of(row, item);
	const struct self self = {
		.node = survey_text(s, row->node->name),
		.site = survey_text(s, row->node->site),
		.zone = survey_text(s, row->node->zone),
		.forward = true,
	};
	struct service *built = NULL;

	buf_adds(out, "{");
	add_member(out, "", "name", self.node);
	add_member(out, ",", "site", self.site);
	buf_printf(out, ",\"health\":\"%s\",\"share\":\"%s\",\"ports\":[",
		tell_health((enum survey_health)row->node->health), share);
	if (strcmp(share, "kept") != 0)
		built = service_build(v, &self, 0, item->digest);
	for (unsigned p = 0; built != NULL && p < built->n_ports; p++) {
		buf_adds(out, p > 0 ? "," : "");
		add_dialled(&built->ports[p], out);
	}
	if (built != NULL)
		service_unref(&built);
	buf_adds(out, "],\"live\":");
	probes_tell(t->probes, self.node, item->key, out);
	buf_adds(out, "}");
}

static size_t
endpoints_of(const struct view *v)
{
	size_t n = 0;

	for (size_t p = 0; p < v->n_ports; p++)
		n += v->ports[p].n_endpoints;
	return n;
}

static void
add_sights(const struct tell *t, const struct want *want, const struct view *v,
	const struct fanout_item *item, struct buf *out)
{
	const struct survey_node *list;
	size_t n = survey_nodes(t->survey, &list), found = 0;
	size_t room = MAX(MIN((size_t)TELL_ROWS, TELL_BUILT / (endpoints_of(v) + 1)), (size_t)1);
	struct sights all = {.survey = t->survey};

	for (size_t i = 0; i < n; i++) {
		if (list[i].health == SURVEY_REVOKED ||
			(want->q[0] != '\0' &&
				strstr(survey_text(t->survey, list[i].name), want->q) == NULL &&
				strstr(survey_text(t->survey, list[i].site), want->q) == NULL))
			continue;
		if (found++ >= want->from && all.n < room)
			all.rows[all.n++].node = &list[i];
	}
	if (t->from->nodes != NULL)
		nodes_each(t->from->nodes, on_talk, &all);
	buf_printf(
		out, ",\"total\":%zu,\"from\":%u,\"page\":%zu,\"rows\":[", found, want->from, room);
	for (size_t i = 0; i < all.n; i++) {
		buf_adds(out, i > 0 ? "," : "");
		add_seen(t, &all.rows[i], v, item, out);
	}
	buf_adds(out, "]");
}

/* --- one service ---------------------------------------------------------------------------- */

static void
add_service(const struct tell *t, const struct want *want, const struct fanout_item *item,
	struct buf *out)
{
	const char *slash = strchr(item->key, '/');
	auto_free char *ns = xstrndup(item->key, (size_t)(slash - item->key));
	struct view *v = NULL;
	struct err err = {0};

	if (view_parse(&v, item->content, item->content_len, &err) < 0) {
		buf_adds(out, ",\"found\":false}\n");
		return;
	}
	buf_adds(out, ",\"found\":true");
	add_member(out, ",", "clusterIP", v->cluster_ip);
	add_member(out, ",", "externalName", v->external_name);
	add_member(out, ",", "reason", cluster_reason(t->from->cluster, ns, slash + 1));
	add_member(out, ",", "prefers", view_distribution_name((enum distribution)v->distribution));
	buf_printf(out, ",\"headless\":%s,\"localOnly\":%s,\"narrowed\":%s,\"ports\":[",
		v->headless ? "true" : "false", v->local_only ? "true" : "false",
		item->nodes != NULL ? "true" : "false");
	add_ports(v, out);
	buf_adds(out, "]");
	add_sights(t, want, v, item, out);
	buf_adds(out, "}\n");
	view_free(&v);
}

/* {"t":"service","name","found","clusterIP",...,"ports":[{"port","places":[...]}],"total","from",
 * "rows":[{"name","share","ports":[...]}]} */
void
tell_service(const struct tell *t, const struct want *want, struct buf *out)
{
	const struct fanout_item *item =
		strchr(want->name, '/') != NULL ? fanout_find(t->from->fanout, want->name) : NULL;

	buf_adds(out, "{\"t\":\"service\",\"name\":");
	json_add_text(out, want->name);
	if (item == NULL || !item->present)
		buf_adds(out, ",\"found\":false}\n");
	else
		add_service(t, want, item, out);
}
