#include "src/ctl/ctl_hub_findings.h"

#include <stdio.h>
#include <string.h>

enum {
	ALONE_MOST = 3, /* findings of one kind that are listed one by one */
	NAMED_MOST = 5, /* of one kind that are named */
	REPLICAS_MOST = 16, /* that are listed by name */
};

/* --- services ------------------------------------------------------------------------------- */

/* By the state's "kind", in the order of output. */
static const struct service_kind {
	const char *word;
	enum verdict verdict;
	const char *title, *remedy;
} kinds[] = {
	{"limits", VERDICT_BAD, "are beyond what a node takes",
		"split the Service, or take ports or endpoints away: nodes are not told of it, and "
		"keep "
		"what they knew before"},
	{"nodes_selector", VERDICT_BAD, "have an annotation edgeway.io/nodes that is no selector",
		"correct the annotation; until then all nodes are told of the Service"},
	{"allow_from", VERDICT_BAD, "have an annotation edgeway.io/allow-from that cannot be read",
		"correct the annotation; until then nobody may call the Service"},
	{"refused", VERDICT_BAD, "have an endpoint at an address that nodes refuse",
		"where the address is meant, name it in lb.allow of the agents; else find who "
		"writes "
		"the EndpointSlice"},
	{"target_port", VERDICT_BAD, "have a targetPort that no container has",
		"correct targetPort in the Service, or the name of the port in its pods"},
	{"no_endpoints", VERDICT_NOTE, "have no endpoints",
		"compare spec.selector with the labels of the pods, and see whether these run: "
		"kubectl "
		"get pods --show-labels"},
	{"not_ready", VERDICT_NOTE, "have endpoints, none of which is ready",
		"look at their pods (kubectl get pods, kubectl describe pod): callers are refused "
		"until one is ready"},
	{"no_way", VERDICT_NOTE, "have pods that only their own node can dial",
		"let the node connect, switch its tunnel on (tunnel.enabled), or give the pods a "
		"hostPort"},
	{"partly", VERDICT_NOTE, "are served in part",
		"the Service serves, but not all of it: mend what the reason names"},
	{"", VERDICT_NOTE, "cannot be served at the edge wholly",
		"edgewayctl state has the reasons"}, /* from a hub that reports no problem */
};

static bool
services_is_kind(const struct tree_node *s, const struct service_kind *kind)
{
	const char *said = ctl_text(s, "kind");

	if (ctl_text(s, "reason")[0] == '\0' || ctl_true(s, "beyond"))
		return false;
	for (const struct service_kind *k = kinds; k->word[0] != '\0'; k++)
		if (strcmp(said, k->word) == 0)
			return k == kind;
	return kind->word[0] == '\0';
}

/* Rows of one kind: listed one by one while they are few. */
struct kind_rows {
	unsigned n;
	const struct tree_node *first[NAMED_MOST];
};

static void
services_collect(struct kind_rows *rows, const struct tree_node *s)
{
	if (rows->n < NAMED_MOST)
		rows->first[rows->n] = s;
	rows->n++;
}

static void
services_tell(struct findings *f, const struct service_kind *kind, const struct kind_rows *rows)
{
	auto_buf struct buf names;

	buf_init(&names, BUF_UNLIMITED);
	for (unsigned i = 0; rows->n <= ALONE_MOST && i < rows->n; i++)
		findings_add(f, "services", kind->verdict, kind->remedy, "%s/%s: %s",
			ctl_text(rows->first[i], "namespace"), ctl_text(rows->first[i], "name"),
			ctl_text(rows->first[i], "reason"));
	if (rows->n <= ALONE_MOST)
		return;
	for (unsigned i = 0; i < MIN(rows->n, (unsigned)NAMED_MOST); i++)
		buf_printf(&names, "%s%.64s/%.64s", i > 0 ? ", " : "",
			ctl_text(rows->first[i], "namespace"), ctl_text(rows->first[i], "name"));
	if (rows->n > NAMED_MOST)
		buf_printf(&names, " and %u more", rows->n - NAMED_MOST);
	findings_add(f, "services", kind->verdict, kind->remedy, "%u %s: %s; the first: %.200s",
		rows->n, kind->title, buf_str(&names), ctl_text(rows->first[0], "reason"));
}

unsigned
hub_findings_through_hub(const struct tree_node *services)
{
	unsigned n = 0;

	tree_each(services, s)
		n += ctl_text(s, "information")[0] != '\0';
	return n;
}

void
hub_findings_services(struct findings *f, const struct tree_node *hub)
{
	const struct tree_node *services = tree_get(hub, "services");
	unsigned n = ctl_count(services), through = hub_findings_through_hub(services), told = 0;

	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		struct kind_rows rows = {0};

		if (strcmp(kinds[k].word, "limits") == 0) {
			tree_each(tree_get(hub, "beyondLimits"), s)
				services_collect(&rows, s);
		}
		tree_each(services, s) {
			if (services_is_kind(s, &kinds[k]))
				services_collect(&rows, s);
		}
		services_tell(f, &kinds[k], &rows);
		told += rows.n;
	}
	if (told > 0)
		return;
	if (through > 0)
		findings_add(f, "services", VERDICT_OK, NULL,
			"all of %u can be served; %u have pods without hostPort, reached through "
			"the hub",
			n, through);
	else
		findings_add(f, "services", VERDICT_OK, NULL, "all of %u can be served", n);
}

/* --- nodes ---------------------------------------------------------------------------------- */

struct node_counts {
	unsigned connected, here, away, unknown_at;
	struct replica_count {
		const char *name;
		unsigned n;
	} at[REPLICAS_MOST];
	size_t n_at;
	const struct tree_node *first_away[NAMED_MOST];
};

/* Only a row of this hub's own connection has this member. */
static bool
nodes_is_here(const struct tree_node *n)
{
	return tree_get(n, "synced") != NULL;
}

static void
nodes_count_at(struct node_counts *c, const char *name)
{
	for (size_t i = 0; i < c->n_at; i++) {
		if (strcmp(c->at[i].name, name) == 0) {
			c->at[i].n++;
			return;
		}
	}
	if (c->n_at < REPLICAS_MOST)
		c->at[c->n_at++] = (struct replica_count){name, 1};
	else
		c->unknown_at++;
}

static void
nodes_count(struct node_counts *c, const struct tree_node *nodes)
{
	*c = (struct node_counts){0};
	tree_each(nodes, n) {
		if (ctl_true(n, "connected")) {
			c->connected++;
			if (nodes_is_here(n))
				c->here++;
			else
				nodes_count_at(c, ctl_text(n, "at"));
		} else if (!ctl_true(n, "revoked")) {
			if (c->away < NAMED_MOST)
				c->first_away[c->away] = n;
			c->away++;
		}
	}
}

void
hub_findings_add_nodes(struct buf *out, const struct tree_node *nodes)
{
	struct node_counts c;

	nodes_count(&c, nodes);
	buf_printf(out, "%u connected", c.connected);
	if (c.connected > c.here)
		buf_printf(out, ": %u here", c.here);
	for (size_t i = 0; i < c.n_at; i++)
		buf_printf(out, ", %u at %s", c.at[i].n, c.at[i].name);
	if (c.unknown_at > 0)
		buf_printf(out, ", %u at others", c.unknown_at);
	if (c.away > 0)
		buf_printf(out, "; %u away", c.away);
}

static void
nodes_add_away(struct buf *out, const struct tree_node *n)
{
	buf_printf(out, "%.64s ", ctl_text(n, "node"));
	if (ctl_text(n, "since")[0] == '\0') {
		buf_adds(out, "(not since this hub was started)");
		return;
	}
	buf_printf(out, "(since %s", ctl_text(n, "since"));
	if (ctl_text(n, "address")[0] != '\0')
		buf_printf(out, ", last at %s", ctl_text(n, "address"));
	if (ctl_text(n, "at")[0] != '\0')
		buf_printf(out, " and %s", ctl_text(n, "at"));
	buf_printf(out, ": %.80s)", ctl_text(n, "lastWords"));
}

static void
nodes_tell_away(struct findings *f, const struct node_counts *c)
{
	auto_buf struct buf names;

	buf_init(&names, BUF_UNLIMITED);
	for (unsigned i = 0; i < MIN(c->away, (unsigned)ALONE_MOST); i++) {
		buf_adds(&names, i > 0 ? ", " : "");
		nodes_add_away(&names, c->first_away[i]);
	}
	if (c->away > ALONE_MOST)
		buf_printf(&names, " and %u more", c->away - ALONE_MOST);
	findings_add(f, "nodes", c->connected == 0 ? VERDICT_BAD : VERDICT_NOTE,
		"are they running, and can they reach the hub? edgewayctl doctor there tells why; "
		"one "
		"that is gone for good: edgewayctl node revoke",
		"%u of %u away: %s", c->away, c->away + c->connected, buf_str(&names));
}

/* Names one of them, and how many more there are. */
static void
nodes_tell_number(struct findings *f, const struct tree_node *nodes, const char *member,
	const char *what, const char *remedy)
{
	const struct tree_node *first = NULL;
	unsigned n = 0;

	tree_each(nodes, one) {
		if (ctl_number(one, member) < 1)
			continue;
		first = first != NULL ? first : one;
		n++;
	}
	if (n == 1)
		findings_add(f, "limits", VERDICT_BAD, remedy, "%s: %s %s services",
			ctl_text(first, "node"), what, ctl_text(first, member));
	else if (n > 1)
		findings_add(f, "limits", VERDICT_BAD, remedy,
			"%s: %s %s services, and %u more nodes", ctl_text(first, "node"), what,
			ctl_text(first, member), n - 1);
}

static void
nodes_tell_held(struct findings *f, const struct tree_node *nodes)
{
	unsigned told = 0;

	tree_each(nodes, n) {
		tree_each(tree_get(n, "heldChanges"), one) {
			if (told++ < ALONE_MOST)
				findings_add(f, "limits", VERDICT_BAD,
					"hub and agent may be of versions too far apart",
					"%s %s: %s", ctl_text(n, "node"), ctl_text(one, "service"),
					ctl_text(one, "reason"));
		}
	}
}

void
hub_findings_nodes(struct findings *f, const struct tree_node *hub)
{
	const struct tree_node *nodes = tree_get(hub, "nodes");
	struct node_counts c;
	auto_buf struct buf line;

	buf_init(&line, BUF_UNLIMITED);
	nodes_count(&c, nodes);
	hub_findings_add_nodes(&line, nodes);
	if (c.away > 0)
		nodes_tell_away(f, &c);
	if (c.away == 0)
		findings_add(f, "nodes", c.connected > 0 ? VERDICT_OK : VERDICT_NOTE,
			"join one: edgewayctl token create", "%s", buf_str(&line));
	tree_each(tree_get(hub, "twins"), t)
		findings_add(f, "nodes", VERDICT_BAD,
			"two machines use this node's certificate (a copied disk): join one under "
			"a "
			"name of its own, dataDir emptied and with a new token. Where both "
			"addresses are of one machine, something on the way cuts its connections",
			"%.64s: its sessions replaced each other %s times within five minutes, the "
			"last time that from %s by that from %s",
			ctl_text(t, "node"), ctl_text(t, "replaced"), ctl_text(t, "older"),
			ctl_text(t, "newer"));
	if (ctl_number(hub, "unauthenticated.turned_away") > 0)
		findings_add(f, "handshakes", VERDICT_NOTE,
			"nodes come back by themselves; where it goes on, give the hub more of a "
			"core, or run more replicas",
			"%s connections were asked to come later, since more came than TLS "
			"handshakes could be finished (%s us each, %s wait)",
			ctl_text(hub, "unauthenticated.turned_away"),
			ctl_text(hub, "unauthenticated.step_us"),
			ctl_text(hub, "unauthenticated.steps"));
	if (ctl_number(hub, "nodesFull") > 0)
		findings_add(f, "nodes", VERDICT_BAD,
			"run more replicas, or raise LimitNOFILE, of which three eighths are for "
			"nodes (nothing is gained beyond 65536: a hub takes 20000 nodes)",
			"nodes were asked to come later %s times, since this hub has as many as "
			"it takes",
			ctl_text(hub, "nodesFull"));
	if (ctl_number(hub, "joins.told_to_wait") > 0)
		findings_add(f, "handshakes", VERDICT_NOTE, "they come back by themselves",
			"%s connections of nodes were asked to come later, since many others were "
			"being brought into step",
			ctl_text(hub, "joins.told_to_wait"));
	nodes_tell_number(f, nodes, "unserved", "no fake IP is left there for",
		"choose a larger mesh.subnet for the agents");
	nodes_tell_number(f, nodes, "held", "it refuses, and keeps what it knew of them before,",
		"edgewayctl status has the reasons; hub and agent may be of versions too far "
		"apart");
	nodes_tell_held(f, nodes);
}
