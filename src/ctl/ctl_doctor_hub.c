#include "src/ctl/ctl_doctor_parts.h"

#include <string.h>
#include <time.h>

#include "src/common/checks.h"
#include "src/ctl/ctl_hub_findings.h"

static void
check_redirect(struct findings *f, const struct tree_node *redirect)
{
	const char *problem = ctl_text(redirect, "problem"),
		   *ambiguous = ctl_text(redirect, "ambiguous");
	bool ok = problem[0] == '\0' && ctl_true(redirect, "installed");

	if (tree_is_null(redirect))
		return;
	findings_add(f, "redirect", ok ? VERDICT_OK : VERDICT_BAD,
		"programs of this host do not reach the nodes that it tells of; see "
		"ingress.redirect in "
		"edgeway-hub(8)",
		"%s addresses of nodes%s%s", ctl_text(redirect, "addresses"),
		problem[0] != '\0' ? ": " : "", problem);
	if (ambiguous[0] != '\0')
		findings_add(f, "redirect", VERDICT_NOTE,
			"they are not redirected: name the node (ingress.http, ingress.tcp), or "
			"give "
			"the nodes addresses of their own",
			"not only one node's: %s", ambiguous);
	if (ctl_number(redirect, "repairs") > 10)
		findings_add(f, "redirect", VERDICT_NOTE,
			"something on this machine flushes the ruleset again and again: find it "
			"(nft monitor)",
			"put back %s times", ctl_text(redirect, "repairs"));
}

static void
check_self_dials(struct findings *f, const struct tree_node *dials)
{
	if (ctl_number(dials, "cameBack") > 0)
		findings_add(f, "loops", VERDICT_BAD,
			"a NAT or load balancer leads there: put its address into tls.names, so "
			"that the hub does not dial it",
			"%s connections of the hub's own came back to it",
			ctl_text(dials, "cameBack"));
	if (ctl_number(dials, "refused") > 0)
		findings_add(f, "loops", VERDICT_NOTE,
			"the log names callers and targets; an address of the hub's host is opened "
			"by a rule to cloud/ADDRESS:PORT alone",
			"%s dials to the hub itself were refused, the last to %s",
			ctl_text(dials, "refused"), ctl_text(dials, "last"));
}

/* When an expiry counts as near: within `days`, or within the given share of the lifetime. */
struct nearness {
	unsigned bad_days, note_days, bad_share, note_share;
};

static enum verdict
judge_end(const struct tree_node *term, const struct nearness *near)
{
	const double day_s = 86400;
	double end = ctl_number(term, "notAfter"), left = end - (double)time(NULL),
	       life = end - ctl_number(term, "notBefore");

	if (left < MIN(near->bad_days * day_s, life / near->bad_share))
		return VERDICT_BAD;
	return left < MIN(near->note_days * day_s, life / near->note_share) ? VERDICT_NOTE
									    : VERDICT_OK;
}

static void
check_certificates(struct findings *f, const struct tree_node *certificates)
{
	static const struct nearness of_ca = {30, 180, 10, 5}, of_hub = {7, 30, 10, 4};
	const struct tree_node *ca = tree_get(certificates, "ca"),
			       *own = tree_get(certificates, "hub");
	const char *problem = ctl_text(certificates, "problem");

	if (ctl_number(ca, "notAfter") > 0)
		findings_add(f, "CA", judge_end(ca, &of_ca),
			"with its end every node is turned away: append the next one to it now "
			"(edgeway-hub(8), CERTIFICATES)",
			"%s until %s", ctl_true(ca, "own") ? "the hub's own," : "tls.ca,",
			ctl_text(ca, "expires"));
	if (problem[0] != '\0')
		findings_add(f, "certificate", VERDICT_BAD,
			"it is tried again every 10 s: is there room, and may the hub write, under "
			"its dataDir?",
			"the hub's cannot be renewed: %s", problem);
	if (ctl_number(own, "notAfter") > 0)
		findings_add(f, "certificate", judge_end(own, &of_hub),
			ctl_true(own, "own") ? "the hub renews it at two thirds of its life: see "
					       "its log, its clock and its CA's end"
					     : "put the next one at tls.cert and tls.key, and "
					       "restart the hub: nodes refuse it once it has ended",
			"%s until %s", ctl_true(own, "own") ? "made by the hub," : "tls.cert,",
			ctl_text(own, "expires"));
}

/* Names the files that have such a text. */
static void
check_manifests_for(struct findings *f, const struct tree_node *files, const char *member,
	enum verdict verdict, const char *remedy)
{
	enum { NAMED_MOST = 5 };
	unsigned n = 0;

	tree_each(files, file) {
		if (ctl_text(file, member)[0] != '\0' && n++ < NAMED_MOST)
			findings_add(f, "manifest", verdict, remedy, "%s: %s",
				ctl_text(file, "file"), ctl_text(file, member));
	}
	if (n > NAMED_MOST)
		findings_add(f, "manifest", verdict, remedy,
			"%u more files have %s: edgewayctl state names them", n - NAMED_MOST,
			verdict == VERDICT_BAD ? "errors" : "warnings");
}

static void
check_manifests(struct findings *f, const struct tree_node *files)
{
	check_manifests_for(f, files, "problem", VERDICT_BAD,
		"mend the file at that line; until then what it held before stays in use, and what "
		"is new in it does not count");
	check_manifests_for(f, files, "warning", VERDICT_NOTE,
		"leave the object in one place, and take it out of the other");
}

/* Agents of before routes balance over the Service's own endpoints, whatever its routes say. */
static void
check_route_agents(struct findings *f, const struct tree_node *nodes)
{
	const char *first = "";
	unsigned n = 0;

	tree_each(nodes, node) {
		if (strcmp(ctl_text(node, "routes"), "false") == 0 && n++ == 0)
			first = ctl_text(node, "node");
	}
	if (n > 0)
		findings_add(f, "route", VERDICT_NOTE,
			"update the agents there; until then a route counts for the clients at "
			"other "
			"nodes alone, though its status says Accepted",
			"%u nodes have agents that know no routes, such as %s", n, first);
}

/* Routes that do not count as they are, for some Service. */
static void
check_routes(struct findings *f, const struct tree_node *hub)
{
	enum { NAMED_MOST = 5 };
	unsigned n = 0;
	bool any = false;

	tree_each(tree_get(hub, "routes"), r) {
		any = true;
		if (ctl_text(r, "problem")[0] != '\0' && n++ < NAMED_MOST)
			findings_add(f, "route", VERDICT_NOTE,
				"correct the route, or what it names; its status says the same "
				"(kubectl describe)",
				"%s %s/%s for Service %s: %s", ctl_text(r, "kind"),
				ctl_text(r, "namespace"), ctl_text(r, "name"),
				ctl_text(r, "service"), ctl_text(r, "problem"));
	}
	if (n > NAMED_MOST)
		findings_add(f, "route", VERDICT_NOTE, "edgewayctl state names them",
			"%u more routes do not count as they are", n - NAMED_MOST);
	if (any)
		check_route_agents(f, tree_get(hub, "nodes"));
	if (ctl_text(hub, "routeStatus.problem")[0] != '\0')
		findings_add(f, "route status", VERDICT_BAD,
			"kubectl apply -f deploy/kubernetes/rbac-gateway.yaml; until then nobody "
			"writes the status of routes",
			"%s", ctl_text(hub, "routeStatus.problem"));
}

/* The change from one CA to another: nodes that could not reconnect after the next step. */
static void
check_exchange(struct findings *f, const struct tree_node *nodes)
{
	if (ctl_text(nodes, "refused")[0] != '\0')
		findings_add(f, "CA exchange", VERDICT_BAD,
			"wait until those nodes have come (edgewayctl ca list), forget those that "
			"are gone (edgewayctl node forget), or lose them: edgewayctl ca use "
			"--force",
			"the CA of the Secret is not used: %s", ctl_text(nodes, "refused"));
	else if (ctl_number(nodes, "lack") > 0)
		findings_add(f, "CA exchange", VERDICT_NOTE,
			"a CA that they have not got must not sign yet, nor one be left out: "
			"edgewayctl ca list names them",
			"%s nodes have the CAs in use, %s do not", ctl_text(nodes, "have"),
			ctl_text(nodes, "lack"));
}

void
doctor_hub(struct findings *f, const struct tree_node *top)
{
	const struct tree_node *hub = tree_get(top, "hub"), *source = tree_get(hub, "source");
	const char *problem = ctl_text(source, "problem"), *waits = ctl_text(hub, "waits");

	findings_add(f, "hub", ctl_true(top, "ready") ? VERDICT_OK : VERDICT_BAD,
		"what follows tells why", "%s", ctl_true(top, "ready") ? "ready" : "not ready");
	if (waits[0] != '\0')
		findings_add(f, "authority", VERDICT_BAD, "nodes are not served before it is there",
			"%s", waits);
	tree_each(tree_path(hub, "shared.secrets"), s) {
		if (ctl_text(s, "problem")[0] != '\0')
			findings_add(f, "secrets", VERDICT_BAD,
				"give the hub's Role its rights (deploy/kubernetes/rbac.yaml), or "
				"mend the Secret: "
				"until then replicas do not know each other's nodes, tokens and "
				"revocations",
				"%s: %s", ctl_text(s, "name"), ctl_text(s, "problem"));
	}
	check_certificates(f, tree_get(hub, "certificates"));
	check_exchange(f, tree_get(hub, "caNodes"));
	if (ctl_text(hub, "unwritten")[0] != '\0')
		findings_add(f, "revocations", VERDICT_BAD,
			"make room where the hub's dataDir is, before the hub restarts", "%s",
			ctl_text(hub, "unwritten"));
	if (ctl_text(hub, "disk.problem")[0] != '\0')
		findings_add(f, "disk", VERDICT_BAD, ctl_text(hub, "disk.remedy"), "%s",
			ctl_text(hub, "disk.problem"));
	else if (ctl_text(hub, "dataDir")[0] != '\0')
		doctor_disk(f, ctl_text(hub, "dataDir"));
	findings_add(f, "source",
		problem[0] != '\0' || !ctl_true(source, "ready") ? VERDICT_BAD : VERDICT_OK,
		ctl_text(source, "remedy")[0] != '\0' ? ctl_text(source, "remedy")
						      : "see the hub's log for the place",
		"%s%s%s",
		ctl_text(source, tree_get(source, "folder") != NULL ? "folder" : "server"),
		problem[0] != '\0' ? ": " : "", problem);
	check_manifests(f, tree_get(source, "files"));
	if (ctl_text(source, "copies_problem")[0] != '\0')
		findings_add(f, "copies", VERDICT_NOTE,
			"is there room, and may the hub write, under its dataDir?", "%s",
			ctl_text(source, "copies_problem"));
	hub_findings_nodes(f, hub);
	if (ctl_text(hub, "threadTrouble")[0] != '\0')
		findings_add(f, "tunnels", VERDICT_BAD,
			"restart the hub if it stays so; gdb -p tells where the thread is", "%s",
			ctl_text(hub, "threadTrouble"));
	if (ctl_text(hub, "floods.trouble")[0] != '\0')
		findings_add(f, "tunnels", VERDICT_BAD,
			"update its agent; if its certificate is in other hands: edgewayctl node "
			"revoke",
			"%s", ctl_text(hub, "floods.trouble"));
	if (ctl_true(hub, "nodeRules"))
		findings_add(f, "access", VERDICT_INFO,
			"where nodes are to dial each other again: leave rules from node:NAME to "
			"cloud/... alone, which close nothing",
			"has rules from node:NAME: nodes have what these open, and ask the hub "
			"alone, not each other (mesh.peerPort serves nothing)");
	check_redirect(f, tree_get(hub, "redirect"));
	check_self_dials(f, tree_get(hub, "selfDials"));
	tree_each(tree_get(hub, "peers"), p) {
		if (ctl_text(p, "says")[0] != '\0')
			findings_add(f, "peers", VERDICT_NOTE,
				"edgewayctl doctor at that replica has the remedy", "%s says: %s",
				ctl_text(p, "peer"), ctl_text(p, "says"));
		if (strcmp(ctl_text(p, "state"), "away") == 0 ||
			strcmp(ctl_text(p, "state"), "not found") == 0)
			findings_add(f, "peers", VERDICT_BAD,
				"its nodes cannot be reached from here: start it, or correct peers "
				"there and here; replicas need the same CA and each other's port",
				"%s %s is away: %s", ctl_text(p, "peer"), ctl_text(p, "address"),
				ctl_text(p, "error"));
	}
	hub_findings_services(f, hub);
	check_routes(f, hub);
	check_traces(f, tree_get(top, "tracing"));
	check_seccomp(f, tree_get(top, "seccomp"));
	check_admin(f, tree_get(top, "admin"));
}
