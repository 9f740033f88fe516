/*
 * edgewayctl status: one screen for an agent or a hub. First lines by part, then warnings: from
 * every non-empty member of the state, at any depth, whose name means a problem, and from numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "src/common/ctl_answer.h"
#include "src/common/findings.h"
#include "src/ctl/ctl_hub_findings.h"
#include "src/ctl/ctl_screen.h"
#include "src/ctl/ctl_show.h"

enum { LABEL_WIDTH = 13, ALIKE_MOST = 5 };

#define LOOPS "requests, connections or flows were ended since they went round: the log says where"

static void
ctl_status_say(const char *label, struct buf *line)
{
	printf("  %-*s%s\n", LABEL_WIDTH, label, buf_str(line));
	buf_consume(line, buf_len(line));
}

static void
add_amount(struct buf *line, const struct tree_node *from, const char *path, const char *what)
{
	ctl_add_amount(line, ctl_number(from, path));
	buf_printf(line, " %s", what);
}

/* Counts the rows in which the member has this value: "alive" for an endpoint, "connected" for a
 * node. */
static unsigned
count_with(const struct tree_node *list, const char *member, const char *value)
{
	unsigned n = 0;

	tree_each(list, row)
		n += strcmp(ctl_text(row, member), value) == 0;
	return n;
}

/* --- warnings ------------------------------------------------------------------------------- */

struct warnings {
	struct buf text;
	char path[256];
	unsigned n;
	bool quiet; /* only count them */
	struct findings found; /* the daemon's own findings */
};

static bool
is_found(const struct warnings *w, const char *what)
{
	for (size_t i = 0; i < w->found.n; i++) {
		if (strstr(w->found.list[i].found, what) != NULL)
			return true;
	}
	return false;
}

static void
ctl_status_warn(struct warnings *w, const char *what)
{
	if (is_found(w, what))
		return;
	w->n++;
	if (w->quiet)
		return;
	buf_printf(&w->text, "  %-*s%s%s%s\n", LABEL_WIDTH,
		buf_len(&w->text) == 0 ? "warnings" : "", w->path, w->path[0] != '\0' ? ": " : "",
		what);
}

static bool
tells_trouble(const char *key)
{
	static const char *const words[] = {"error", "trouble", "problem", "waits", "warning"};
	const char *last = strrchr(key, '_');

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strcmp(last != NULL ? last + 1 : key, words[i]) == 0)
			return true;
	}
	return false;
}

/* Of a list, which may have thousands of rows, only the first rows with a problem are shown, and
 * how many more there are. */
static void
find_trouble(struct warnings *w, const struct tree_node *n, const char *parent)
{
	const bool outer = w->quiet;
	unsigned rows = 0;

	tree_each(n, c) {
		const char *name = ctl_text(c, "name");
		const unsigned before = w->n;

		w->quiet = outer || (n->kind == TREE_LIST && rows >= ALIKE_MOST);

		if (c->key != NULL && strcmp(c->key, "findings") == 0)
			continue;
		snprintf(w->path, sizeof w->path, "%s", parent);
		if (c->kind == TREE_SCALAR && c->key != NULL && tells_trouble(c->key) &&
			c->quoted && c->text[0] != '\0')
			ctl_status_warn(w, c->text);
		else if (c->kind == TREE_SCALAR && c->key == NULL &&
			strcmp(parent, "obstacles") == 0)
			ctl_status_warn(w, c->text);
		else if (c->kind != TREE_SCALAR)
			find_trouble(w, c, c->key != NULL ? c->key : *name != '\0' ? name : parent);
		rows += w->n > before;
	}
	w->quiet = outer;
	if (n->kind != TREE_LIST || rows <= ALIKE_MOST)
		return;
	auto_free char *more = xasprintf("and %u more like these", rows - ALIKE_MOST);

	snprintf(w->path, sizeof w->path, "%s", parent);
	ctl_status_warn(w, more);
}

static void
warn_number(struct warnings *w, const struct tree_node *from, const char *path, const char *what)
{
	auto_free char *text = xasprintf("%s %s", ctl_text(from, path), what);

	w->path[0] = '\0';
	if (ctl_number(from, path) > 0)
		ctl_status_warn(w, text);
}

static unsigned
status_count(const struct findings *f, enum verdict verdict)
{
	unsigned n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->list[i].verdict == verdict;
	return n;
}

/* Those of one class, each with its remedy. */
static void
say_findings(const struct findings *f, enum verdict verdict, const char *label, enum ink ink)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->list[i];

		if (one->verdict != verdict)
			continue;
		printf("  %s%-*s%s: %s%s\n", screen_ink(ink), LABEL_WIDTH, label, one->check,
			one->found, screen_ink(INK_PLAIN));
		printf("  %-*s-> %s\n", LABEL_WIDTH, "", one->remedy);
		label = "";
	}
}

static void
say_warnings(struct warnings *w)
{
	bool noted = status_count(&w->found, VERDICT_NOTE) > 0;

	say_findings(&w->found, VERDICT_BAD, "faults", INK_BAD);
	say_findings(&w->found, VERDICT_NOTE, "warnings", INK_NOTE);
	if (buf_len(&w->text) > 0)
		printf("%s%.*s%s%s", screen_ink(INK_NOTE), LABEL_WIDTH + 2,
			noted ? "                " : buf_str(&w->text),
			buf_str(&w->text) + LABEL_WIDTH + 2, screen_ink(INK_PLAIN));
	else if (!noted && status_count(&w->found, VERDICT_BAD) == 0)
		printf("  %-*snone\n", LABEL_WIDTH, "warnings");
	buf_fini(&w->text);
	findings_fini(&w->found);
}

/* --- agent ---------------------------------------------------------------------------------- */

static void
say_hub(const struct tree_node *meta, struct buf *line)
{
	const char *until = ctl_text(meta, "certificate_expires");

	buf_printf(line, "%s %s", ctl_true(meta, "connected") ? "connected to" : "NOT CONNECTED to",
		ctl_text(meta, "url"));
	if (ctl_true(meta, "connected") && ctl_text(meta, "address")[0] != '\0')
		buf_printf(line, " at %s", ctl_text(meta, "address"));
	buf_adds(line, ctl_true(meta, "synced") ? ", synced" : ", not synced");
	if (tree_get(meta, "last_contact_ms_ago") != NULL) {
		buf_adds(line, ", heard ");
		ctl_add_duration(line, ctl_number(meta, "last_contact_ms_ago") / 1000);
		buf_adds(line, " ago");
	}
	ctl_status_say("hub", line);
	if (ctl_number(meta, "data.age_s") > 0) {
		ctl_add_duration(line, ctl_number(meta, "data.age_s"));
		buf_printf(line, " old, as of %s", ctl_text(meta, "data.as_of"));
		ctl_status_say("data", line);
	}
	if (until[0] != '\0') {
		buf_printf(line, "until %s%s", until,
			ctl_number(meta, "certificate_not_after") < (double)time(NULL) ? ", EXPIRED"
										       : "");
		if (ctl_number(meta, "revoked_hubs") > 0)
			buf_printf(line, "; %s certificates of hubs are refused",
				ctl_text(meta, "revoked_hubs"));
		ctl_status_say("certificate", line);
	}
}

static void
say_services(const struct tree_node *top, struct buf *line)
{
	const struct tree_node *meta = tree_get(top, "meta");

	add_amount(line, top, "services", "known, version ");
	buf_printf(line, "%s; ", ctl_text(meta, "version"));
	add_amount(line, meta, "addresses.used", "addresses of ");
	buf_printf(line, "%s in use", ctl_text(meta, "addresses.size"));
	ctl_status_say("services", line);
	buf_printf(
		line, "%s, %s", ctl_text(meta, "database.state"), ctl_text(meta, "database.file"));
	ctl_status_say("database", line);
}

/* Each worker has a row for an endpoint; an endpoint that any worker finds bad is shown once. */
static void
say_endpoints(const struct tree_node *lb, struct buf *line)
{
	unsigned in_use = 0, up = 0;
	auto_buf struct buf bad;

	buf_init(&bad, BUF_UNLIMITED);
	tree_each(tree_get(lb, "endpoints"), group) {
		tree_each(tree_get(group, "endpoints"), e) {
			auto_free char *one = xasprintf("\n  %-*s%s of %s: %s, %s", LABEL_WIDTH, "",
				ctl_text(e, "address"), ctl_text(group, "service"),
				ctl_text(e, "state"), ctl_text(e, "fault"));

			in_use++;
			up += strcmp(ctl_text(e, "state"), "ejected") != 0;
			if (strcmp(ctl_text(e, "state"), "ejected") == 0 &&
				strstr(buf_str(&bad), one) == NULL)
				buf_adds(&bad, one);
		}
	}
	buf_printf(line, "%u of %u that workers use are up%s", up, in_use, buf_str(&bad));
	ctl_status_say("endpoints", line);
}

static void
say_requests(const struct tree_node *lb, struct buf *line)
{
	static const char *const classes[] = {
		"status_2xx", "status_3xx", "status_4xx", "status_5xx"};
	const struct tree_node *c = tree_get(lb, "counters");

	for (size_t i = 0; i < ARRAY_LEN(classes); i++) {
		add_amount(line, c, classes[i], "with ");
		buf_printf(line, "%s, ", classes[i] + 7);
	}
	add_amount(line, c, "retries", "retries; ");
	add_amount(line, c, "accepted_tcp", "TCP connections; ");
	add_amount(line, lb, "active", "open now");
	ctl_status_say("requests", line);
}

static void
add_memory(const struct tree_node *lb, struct buf *line, const char *used, const char *limit)
{
	ctl_add_amount(line, ctl_number(lb, used));
	buf_adds(line, "B of ");
	ctl_add_amount(line, ctl_number(lb, limit));
	buf_adds(line, "B");
}

static void
say_memory(const struct tree_node *lb, struct buf *line)
{
	const struct tree_node *c = tree_get(lb, "counters");

	if (tree_get(lb, "memory") == NULL)
		return; /* an older daemon */
	add_memory(lb, line, "memory.own.used", "memory.own.limit");
	buf_adds(line, " held for clients, ");
	add_memory(lb, line, "memory.sockets.used", "memory.sockets.limit");
	buf_adds(line, " in their sockets; ");
	ctl_add_amount(line, ctl_number(c, "evicted") + ctl_number(c, "evicted_sockets"));
	buf_adds(line, " connections closed for it");
	ctl_status_say("memory", line);
}

static void
say_host_route(const struct tree_node *dns, struct buf *line)
{
	const char *trouble = ctl_text(dns, "host.fault");

	if (trouble[0] != '\0')
		buf_printf(line, "NO ROUTE to us, %s", trouble);
	else
		buf_printf(line, "%s, by systemd-resolved, link %s",
			ctl_true(dns, "host.set") ? "routed to us" : "not routed to us yet",
			ctl_text(dns, "host.link"));
	ctl_status_say("host's names", line);
}

static void
say_dns(const struct tree_node *dns, struct buf *line)
{
	buf_printf(line, "%s; others asked of",
		ctl_text(dns, "address")[0] != '\0' ? ctl_text(dns, "address") : "NOT LISTENING");
	tree_each(tree_get(dns, "forwarding"), u)
		buf_printf(line, " %s (%s)", ctl_text(u, "address"), ctl_text(u, "state"));
	if (ctl_count(tree_get(dns, "forwarding")) == 0)
		buf_adds(line, " nobody");
	ctl_status_say("DNS", line);
	if (strcmp(ctl_text(dns, "host.way"), "resolved") == 0) {
		say_host_route(dns, line);
		return;
	}
	buf_adds(line,
		ctl_true(dns, "resolvConfWatch.left")
			? "LEFT ALONE, another program keeps changing it"
			: ctl_text(dns, "resolvConf.state"));
	if (ctl_number(dns, "resolvConfWatch.mended") > 0)
		buf_printf(line, ", mended %s times", ctl_text(dns, "resolvConfWatch.mended"));
	ctl_status_say("resolv.conf", line);
}

static void
say_rules(const struct tree_node *ipt, struct buf *line)
{
	const struct tree_node *captured = tree_path(ipt, "captured.upstreams");

	buf_printf(line, "table %s %s, to %s, interface %s%s; repairs: %s", ctl_text(ipt, "table"),
		ctl_true(ipt, "installed") ? "installed" : "NOT INSTALLED", ctl_text(ipt, "to"),
		ctl_text(ipt, "interface"), ctl_true(ipt, "up") ? "" : " (down)",
		ctl_text(ipt, "repairs"));
	if (ctl_text(ipt, "repaired_after")[0] != '\0') {
		buf_printf(line, " (last after %s, ", ctl_text(ipt, "repaired_after"));
		ctl_add_duration(line, ctl_number(ipt, "repaired_ms_ago") / 1000);
		buf_adds(line, " ago)");
	}
	buf_adds(line, "; captured:");
	tree_each(captured, item)
		buf_printf(line, " %s", tree_text(item, "?"));
	if (ctl_count(captured) == 0)
		buf_adds(line, " nobody");
	ctl_status_say("rules", line);
	buf_printf(line,
		"%s UDP and %s TCP ports, %s of %s endpoints dead; %s ClusterIPs, served by %s",
		ctl_text(ipt, "kernel.udpPorts"), ctl_text(ipt, "kernel.tcpPorts"),
		ctl_text(ipt, "kernel.endpointsDead"), ctl_text(ipt, "kernel.endpointsProbed"),
		ctl_text(ipt, "kernel.clusterIPs"), ctl_text(ipt, "kernel.clusterIPsServedBy"));
	ctl_status_say("kernel", line);
}

static void
say_tunnel(const struct tree_node *tunnel, struct buf *line)
{
	if (tunnel == NULL)
		return;
	buf_printf(line, "%s", ctl_text(tunnel, "state"));
	if (ctl_text(tunnel, "hub")[0] != '\0')
		buf_printf(line, " to %s", ctl_text(tunnel, "hub"));
	if (strcmp(ctl_text(tunnel, "uplinks"), "1") > 0 && ctl_text(tunnel, "hub")[0] != '\0')
		buf_printf(line, " by %s of %s uplinks", ctl_text(tunnel, "paths"),
			ctl_text(tunnel, "uplinks"));
	buf_printf(line, ", %s streams", ctl_text(tunnel, "streams"));
	if (ctl_text(tunnel, "error")[0] != '\0')
		buf_printf(line, "; last error: %s", ctl_text(tunnel, "error"));
	ctl_status_say("tunnel", line);
	tree_each(tree_get(tunnel, "reach"), e)
		buf_printf(line, "%s%s (hub: %s)", buf_len(line) > 0 ? ", " : "",
			ctl_text(e, "entry"), ctl_text(e, "hub"));
	if (buf_len(line) > 0)
		ctl_status_say("reaches", line);
}

static void
say_carriers(const struct tree_node *carriers, struct buf *line)
{
	if (tree_get(carriers, "open") == NULL)
		return;
	buf_printf(line, "websockets, %s open; %s refused, %s failed, %s broken",
		ctl_text(carriers, "open"), ctl_text(carriers, "refused"),
		ctl_text(carriers, "failed"), ctl_text(carriers, "broken"));
	if (ctl_text(carriers, "error")[0] != '\0')
		buf_printf(line, "; last error: %s", ctl_text(carriers, "error"));
	ctl_status_say("carrier", line);
}

static void
say_traces(const struct tree_node *tracing, struct buf *line)
{
	if (tree_get(tracing, "endpoint") == NULL)
		return;
	add_amount(line, tracing, "exported", "spans to ");
	buf_printf(line, "%s; ", ctl_text(tracing, "endpoint"));
	add_amount(line, tracing, "waiting", "wait, ");
	add_amount(line, tracing, "dropped", "dropped, ");
	add_amount(line, tracing, "failed", "failed");
	ctl_status_say("traces", line);
}

static void
say_seccomp(const struct tree_node *s, struct buf *line)
{
	bool enforced = strcmp(ctl_text(s, "mode"), "enforce") == 0;

	if (s == NULL)
		return; /* an older daemon */
	if (ctl_number(s, "calls") == 0)
		buf_printf(line, "off%s%s", ctl_text(s, "reason")[0] != '\0' ? ": " : "",
			ctl_text(s, "reason"));
	else
		buf_printf(line, "%s, %s calls allowed, ", enforced ? "enforced" : "ONLY TOLD",
			ctl_text(s, "calls"));
	if (ctl_number(s, "refused") > 0)
		buf_printf(line, "%s refused, at last %s", ctl_text(s, "refused"),
			ctl_text(s, "last"));
	else if (ctl_number(s, "calls") > 0)
		buf_adds(line, ctl_true(s, "counted") ? "none refused" : "not counted");
	ctl_status_say("seccomp", line);
}

static void
say_io(const struct tree_node *io, struct buf *line)
{
	bool uring = strcmp(ctl_text(io, "kind"), "uring") == 0;

	if (io == NULL)
		return; /* an older daemon */
	buf_printf(line, "%s%s%s", uring ? "epoll, sends through io_uring" : "epoll",
		ctl_text(io, "why")[0] != '\0' ? ": " : "", ctl_text(io, "why"));
	ctl_status_say("i/o", line);
}

static void
show_agent(const struct tree_node *top, struct buf *line, struct warnings *w)
{
	say_hub(tree_get(top, "meta"), line);
	say_services(top, line);
	say_endpoints(tree_get(top, "lb"), line);
	say_requests(tree_get(top, "lb"), line);
	say_memory(tree_get(top, "lb"), line);
	say_traces(tree_get(top, "tracing"), line);
	say_tunnel(tree_get(top, "tunnel"), line);
	say_carriers(tree_get(top, "carriers"), line);
	say_dns(tree_get(top, "dns"), line);
	say_rules(tree_get(top, "iptables"), line);
	say_seccomp(tree_get(top, "seccomp"), line);
	say_io(tree_get(top, "io"), line);
	warn_number(w, top, "dns.case.forged",
		"answers of upstreams by UDP were not what they say by TCP: somebody may forge "
		"them");
	warn_number(w, top, "lb.counters.no_service",
		"connections were for no service that is known here");
	warn_number(w, top, "lb.counters.loops", LOOPS);
	warn_number(w, top, "tunnel.dials.loop", LOOPS);
	warn_number(w, top, "tunnel.outwardUdp.loops", LOOPS);
}

/* --- hub ------------------------------------------------------------------------------------ */

static void
say_source(const struct tree_node *source, struct buf *line)
{
	const char *ready = ctl_true(source, "ready") ? "" : ", NOT READY";

	if (tree_get(source, "folder") != NULL) {
		buf_printf(line, "folder %s, %u files%s%s", ctl_text(source, "folder"),
			ctl_count(tree_get(source, "files")),
			ctl_true(source, "watching") ? "" : ", not watched", ready);
		ctl_status_say("source", line);
		return;
	}
	buf_printf(line, "Kubernetes at %s%s", ctl_text(source, "server"), ready);
	ctl_status_say("source", line);
	tree_each(source, resource) {
		if (tree_get(resource, "doing") == NULL)
			continue;
		buf_printf(line, "%s: %s, %s events, %s lists", resource->key,
			ctl_text(resource, "doing"), ctl_text(resource, "events"),
			ctl_text(resource, "lists"));
		ctl_status_say("", line);
	}
}

/* What queries for node names return. */
static void
say_naming(const struct tree_node *naming, struct buf *line)
{
	const struct tree_node *zone = tree_get(naming, "zone"), *hosts = tree_get(naming, "hosts");

	if (zone != NULL) {
		buf_printf(line, "%s at %s, %s names; edge nodes are", ctl_text(zone, "zone"),
			ctl_text(zone, "listen"), ctl_text(zone, "names"));
		tree_each(tree_get(naming, "addresses"), a)
			buf_printf(line, " %s", tree_text(a, "?"));
		if (ctl_count(tree_get(naming, "addresses")) == 0)
			buf_adds(line, " UNKNOWN");
		ctl_status_say("DNS zone", line);
	}
	if (hosts != NULL) {
		buf_printf(line, "ConfigMap %s, key %s: %s, %s names, %s writes",
			ctl_text(hosts, "configMap"), ctl_text(hosts, "key"),
			ctl_true(hosts, "inStep") ? "in step" : "NOT IN STEP",
			ctl_text(hosts, "names"), ctl_text(hosts, "writes"));
		ctl_status_say("hosts", line);
	}
}

static void
say_redirect(const struct tree_node *redirect, struct buf *line)
{
	const char *comma = "";

	if (tree_is_null(redirect))
		return;
	buf_printf(line, "%s addresses ", ctl_text(redirect, "addresses"));
	if (ctl_number(redirect, "addresses6") > 0)
		buf_printf(line, "(%s IPv6) ", ctl_text(redirect, "addresses6"));
	buf_adds(line, "at ports ");
	tree_each(tree_get(redirect, "ports"), port) {
		buf_printf(line, "%s%s", comma, tree_text(port, "?"));
		comma = ", ";
	}
	buf_printf(line, " to %s, table %s %s, put back %s times", ctl_text(redirect, "listen"),
		ctl_text(redirect, "table"),
		ctl_true(redirect, "installed") ? "installed" : "NOT INSTALLED",
		ctl_text(redirect, "repairs"));
	ctl_status_say("redirect", line);
}

static void
say_self_dials(const struct tree_node *dials, struct buf *line)
{
	if (ctl_number(dials, "refused") + ctl_number(dials, "cameBack") < 1)
		return;
	buf_printf(line, "%s dials to the hub itself refused, %s came back",
		ctl_text(dials, "refused"), ctl_text(dials, "cameBack"));
	if (ctl_text(dials, "last")[0] != '\0')
		buf_printf(line, "; the last refused was to %s", ctl_text(dials, "last"));
	ctl_status_say("loops", line);
}

static void
say_maps(const struct tree_node *maps, struct buf *line)
{
	double flows = 0, dropped = 0;

	if (ctl_count(maps) == 0)
		return;
	tree_each(maps, m) {
		flows += ctl_number(m, "flows");
		tree_each(tree_get(m, "dropped"), why)
			dropped += strtod(tree_text(why, "0"), NULL);
	}
	buf_printf(line, "%u, %.0f flows, %.0f datagrams dropped", ctl_count(maps), flows, dropped);
	ctl_status_say("UDP maps", line);
}

static void
say_peers(const struct tree_node *peers, struct buf *line, struct warnings *w)
{
	unsigned open = 0, away = 0, nodes = 0;

	if (ctl_count(peers) == 0)
		return;
	tree_each(peers, p) {
		bool is_away = strcmp(ctl_text(p, "state"), "away") == 0 ||
			strcmp(ctl_text(p, "state"), "not found") == 0;

		open += strcmp(ctl_text(p, "state"), "open") == 0;
		nodes += (unsigned)strtoul(ctl_text(p, "nodes"), NULL, 10);
		away += is_away;
		if (ctl_text(p, "says")[0] != '\0') {
			snprintf(w->path, sizeof w->path, "peer %s", ctl_text(p, "peer"));
			ctl_status_warn(w, ctl_text(p, "says"));
		}
		if (!is_away)
			continue;
		auto_free char *what = xasprintf("this replica is away: %s", ctl_text(p, "error"));

		snprintf(w->path, sizeof w->path, "peer %s %s", ctl_text(p, "peer"),
			ctl_text(p, "address"));
		ctl_status_warn(w, what);
	}
	buf_printf(line, "%u open with %u nodes, %u away", open, nodes, away);
	ctl_status_say("peers", line);
}

static void
say_page(const struct tree_node *page, struct buf *line)
{
	if (tree_is_null(page))
		return;
	buf_printf(line, "%s, %s of %s look, %s refused", ctl_text(page, "listen"),
		ctl_text(page, "viewers"), ctl_text(page, "most"), ctl_text(page, "refused"));
	ctl_status_say("page", line);
}

static void
say_joins(const struct tree_node *joins, struct buf *line)
{
	const struct tree_node *last = tree_get(joins, "last");

	if (ctl_number(joins, "issued") == 0 && ctl_number(joins, "refused") == 0)
		return;
	buf_printf(line, "%s certificates given, %s attempts refused", ctl_text(joins, "issued"),
		ctl_text(joins, "refused"));
	if (ctl_text(last, "at")[0] != '\0')
		buf_printf(line, "; %s from %s at %s: %s", ctl_text(last, "node"),
			ctl_text(last, "address"), ctl_text(last, "at"), ctl_text(last, "reason"));
	ctl_status_say("joins", line);
}

static void
say_strangers(const struct tree_node *from, struct buf *line)
{
	if (from == NULL)
		return; /* an older daemon */
	buf_printf(line, "%s of %s places for connections that have not authenticated; ",
		ctl_text(from, "waiting"), ctl_text(from, "places"));
	add_amount(line, from, "dropped", "closed and ");
	add_amount(line, from, "refused", "refused for want of one");
	add_amount(line, from, "turned_away", "asked to come later");
	ctl_status_say("strangers", line);
}

/* In the doctor's words, the worst first. */
static void
status_warn_findings(struct warnings *w, const struct tree_node *hub)
{
	struct findings found = {0};

	hub_findings_services(&found, hub);
	hub_findings_nodes(&found, hub);
	for (enum verdict verdict = VERDICT_BAD; verdict >= VERDICT_NOTE; verdict--) {
		for (size_t i = 0; i < found.n; i++) {
			if (found.list[i].verdict != verdict)
				continue;
			snprintf(w->path, sizeof w->path, "%s", found.list[i].check);
			ctl_status_warn(w, found.list[i].found);
		}
	}
	findings_fini(&found);
}

static void
show_hub(const struct tree_node *top, struct buf *line, struct warnings *w)
{
	const struct tree_node *hub = tree_get(top, "hub");
	const struct tree_node *nodes = tree_get(hub, "nodes"), *tunnels = tree_get(hub, "tunnels");
	const struct tree_node *refused = tree_get(hub, "beyondLimits");
	unsigned through = hub_findings_through_hub(tree_get(hub, "services"));

	say_source(tree_get(hub, "source"), line);
	buf_printf(line, "%u", ctl_count(tree_get(hub, "services")));
	if (through > 0)
		buf_printf(line, "; %u with pods that are reached through the hub (no hostPort)",
			through);
	if (ctl_count(refused) > 0)
		buf_printf(line, "; %u REFUSED, beyond what a node takes", ctl_count(refused));
	ctl_status_say("services", line);
	hub_findings_add_nodes(line, nodes);
	buf_printf(line, ", %u synced", count_with(nodes, "synced", "true"));
	ctl_status_say("nodes", line);
	if (tree_get(hub, "joins") != NULL)
		say_joins(tree_get(hub, "joins"), line);
	buf_printf(line, "%u, %u requests through them now", ctl_count(tunnels),
		ctl_count(tree_get(hub, "visits")));
	if (ctl_count(tree_get(hub, "neighbours")) > 0)
		buf_printf(line, "; %u things declared beside nodes, %u nodes carried",
			ctl_count(tree_get(hub, "neighbours")),
			count_with(tree_get(hub, "neighbours"), "state", "carried"));
	ctl_status_say("tunnels", line);
	say_strangers(tree_get(hub, "unauthenticated"), line);
	say_redirect(tree_get(hub, "redirect"), line);
	say_self_dials(tree_get(hub, "selfDials"), line);
	say_maps(tree_get(hub, "udpMaps"), line);
	say_peers(tree_get(hub, "peers"), line, w);
	say_naming(tree_get(hub, "naming"), line);
	say_traces(tree_get(top, "tracing"), line);
	say_seccomp(tree_get(top, "seccomp"), line);
	say_page(tree_get(hub, "web"), line);
	buf_printf(line, "%s", ctl_text(hub, "ca"));
	if (ctl_text(hub, "certificates.ca.expires")[0] != '\0')
		buf_printf(line, ", until %s; the hub's certificate until %s",
			ctl_text(hub, "certificates.ca.expires"),
			ctl_text(hub, "certificates.hub.expires"));
	ctl_status_say("CA", line);
	if (ctl_number(hub, "caNodes.lack") > 0) {
		buf_printf(line, "%s nodes have the CAs in use, %s do not: edgewayctl ca list",
			ctl_text(hub, "caNodes.have"), ctl_text(hub, "caNodes.lack"));
		ctl_status_say("CA exchange", line);
	}
	if (tree_get(hub, "approvals") != NULL) {
		buf_printf(line, "%s wait for kubectl certificate approve",
			ctl_text(hub, "approvals.pending"));
		if (ctl_number(hub, "approvals.replacements") > 0)
			buf_printf(line,
				", %s of them for names that hold a certificate (kubectl describe "
				"csr says what to look at)",
				ctl_text(hub, "approvals.replacements"));
		ctl_status_say("approvals", line);
	}
	warn_number(w, hub, "loops", LOOPS);
	snprintf(w->path, sizeof w->path, "the CA of the Secret is not used");
	if (ctl_text(hub, "caNodes.refused")[0] != '\0')
		ctl_status_warn(w, ctl_text(hub, "caNodes.refused"));
	snprintf(w->path, sizeof w->path, "revocations");
	if (ctl_text(hub, "unwritten")[0] != '\0')
		ctl_status_warn(w, ctl_text(hub, "unwritten"));
	snprintf(w->path, sizeof w->path, "shared");
	if (ctl_text(hub, "shared.problem")[0] != '\0')
		ctl_status_warn(w, ctl_text(hub, "shared.problem"));
	warn_number(w, hub, "naming.hosts.leftOut",
		"names do not fit into the hosts ConfigMap: use ingress.dns");
	status_warn_findings(w, hub);
}

int
ctl_show_status(const struct tree_node *top, const char *argument)
{
	bool ready = ctl_true(top, "ready"), degraded = ctl_text(top, "degraded")[0] != '\0';
	struct warnings w = {0};
	unsigned faults;
	auto_buf struct buf line;

	(void)argument;
	buf_init(&line, BUF_UNLIMITED);
	buf_init(&w.text, BUF_UNLIMITED);
	ctl_add_duration(&line, ctl_number(top, "uptime_s"));
	findings_read(&w.found, tree_get(top, "findings"));
	faults = status_count(&w.found, VERDICT_BAD);
	printf("%s: %s%s", ctl_text(top, "node"),
		screen_ink(!ready || faults > 0 ? INK_BAD
				: degraded      ? INK_NOTE
						: INK_GOOD),
		!ready             ? "NOT READY"
			: degraded ? "ready, DEGRADED"
				   : "ready");
	if (faults > 0)
		printf(", %u FAULT%s", faults, faults > 1 ? "S" : "");
	printf("%s, %s %s, up %s\n", screen_ink(INK_PLAIN), ctl_text(top, "program"),
		ctl_text(top, "version"), buf_str(&line));
	buf_consume(&line, buf_len(&line));
	find_trouble(&w, top, "");
	if (tree_get(top, "hub") != NULL)
		show_hub(top, &line, &w);
	else
		show_agent(top, &line, &w);
	say_warnings(&w);
	return ready ? 0 : 1;
}
