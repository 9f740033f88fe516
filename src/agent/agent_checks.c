#include "src/agent/agent_checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/core/flapping.h"
#include "model/backend_tls.h"
#include "model/snapshot.h"
#include "src/common/checks.h"
#include "src/common/ctl_answer.h"

enum {
	CERTIFICATE_LEAST_S = 7 * 86400,
	REPAIRED_LATELY_MS = 600 * 1000,
	NAMES_TOLD = 5,
	CLOCK_FAR_S = 60
};

/* --- the agent's own reports ---------------------------------------------------------------- */

static void
check_hub(struct findings *f, const struct tree_node *meta)
{
	const char *error = ctl_text(meta, "error"), *problem = ctl_text(meta, "problem"),
		   *remedy = ctl_text(meta, "remedy");
	auto_buf struct buf here;

	buf_init(&here, BUF_UNLIMITED);
	if (ctl_text(meta, "cloudhub_problem")[0] != '\0') {
		findings_add(f, "hub", VERDICT_BAD,
			"edgeway-hub in the cluster, and hub.protocol: edgeway here", "%s",
			ctl_text(meta, "cloudhub_problem"));
		findings_name(f, "cloudhub");
		return;
	}
	if (ctl_true(meta, "connected")) {
		findings_add(f, "hub", ctl_true(meta, "synced") ? VERDICT_OK : VERDICT_INFO,
			"its list is still on the way; look again", "connected to %s",
			ctl_text(meta, "url"));
		return;
	}
	if (error[0] == '\0') {
		findings_add(f, "hub", VERDICT_INFO, "look again in a moment", "connecting to %s",
			ctl_text(meta, "url"));
		findings_name(f, "hub-connecting");
		return;
	}
	if (strcmp(problem, "hub-clock") == 0) {
		buf_adds(&here, "; here it is ");
		buf_add_utc(&here, time(NULL));
	}
	findings_add(f, "hub", VERDICT_BAD,
		remedy[0] != '\0' ? remedy
				  : "the node serves what it knows; check the name, the way (curl "
				    "-k to hub.url), the proxy and the hub's log",
		"%s%s", error, buf_str(&here));
	if (problem[0] != '\0')
		findings_name(f, problem);
}

static void
check_certificate(struct findings *f, const struct tree_node *meta)
{
	const char *error = ctl_text(meta, "certificate_error"),
		   *until = ctl_text(meta, "certificate_expires");
	double left = ctl_number(meta, "certificate_not_after") - (double)time(NULL);
	static const char remedy[] = "it is renewed while the hub is reached; after its end join "
				     "anew with `edgewayctl token create "
				     "--node NODE` at the hub";

	if (error[0] != '\0')
		findings_add(f, "certificate", VERDICT_BAD, remedy, "%s", error);
	else if (until[0] != '\0')
		findings_add(f, "certificate",
			left < 0                             ? VERDICT_BAD
				: left < CERTIFICATE_LEAST_S ? VERDICT_NOTE
							     : VERDICT_OK,
			remedy, "until %s", until);
}

/* Smaller differences are doctor's: it knows whether a program keeps the clock. */
static void
check_clock(struct findings *f, const struct tree_node *meta)
{
	double ahead_s = ctl_number(meta, "hub_clock_ahead_ms") / 1000,
	       far_s = ahead_s < 0 ? -ahead_s : ahead_s;
	bool before = (double)time(NULL) + CLOCK_FAR_S < ctl_number(meta, "certificate_not_before");
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (!before && far_s <= CLOCK_FAR_S)
		return;
	buf_adds(&text, "it is ");
	buf_add_utc(&text, time(NULL));
	buf_adds(&text, " here");
	if (far_s > CLOCK_FAR_S) {
		buf_adds(&text, ", ");
		ctl_add_duration(&text, (double)(uint64_t)(far_s + 0.5));
		buf_printf(&text, " %s the hub's clock", ahead_s < 0 ? "ahead of" : "behind");
	}
	findings_add(f, "clock", VERDICT_BAD,
		"set the wrong one of the two (chrony, systemd-timesyncd): certificates are made "
		"by the hub's clock, and what pods do with TLS goes by this one",
		"%s%s", buf_str(&text),
		before ? ", which is before this node's certificate was made" : "");
}

static void
check_database(struct findings *f, const struct tree_node *meta)
{
	const char *file = ctl_text(meta, "database.file");
	bool ok = strcmp(ctl_text(meta, "database.state"), "ok") == 0;

	if (ok && ctl_number(meta, "database.rewritten") > 0 &&
		ctl_number(meta, "database.rewritten_ms_ago") < REPAIRED_LATELY_MS) {
		findings_add(f, "database", VERDICT_NOTE,
			"it was written again, where need be from the hub; find what does that (a "
			"clean-up, a copy that was brought back), and stop the agent before "
			"dataDir is changed",
			"%s was removed or replaced while it was in use", file);
		findings_name(f, "database-replaced");
		return;
	}
	findings_add(f, "database", ok ? VERDICT_OK : VERDICT_BAD,
		"free or mend that disk: it is written within seconds then; until then what comes "
		"is lost with a restart",
		"%s: %s", file, ok ? "ok" : ctl_text(meta, "database.trouble"));
}

static bool
check_any_serves(const struct tree_node *list)
{
	tree_each(list, u) {
		const char *state = ctl_text(u, "state");

		if (strcmp(state, "dead") != 0 && strcmp(state, "loop") != 0 &&
			ctl_text(u, "errors")[0] == '\0')
			return true;
	}
	return false;
}

static void
check_upstreams(struct findings *f, const struct tree_node *dns)
{
	const struct tree_node *list = tree_get(dns, "forwarding");
	bool others = check_any_serves(list);

	if (ctl_count(list) == 0) {
		findings_add(f, "upstreams", VERDICT_BAD,
			"write a nameserver into resolv.conf, or set dns.upstreams",
			"nobody is asked for names outside the cluster");
		findings_name(f, "upstreams-none");
	}
	tree_each(list, u) {
		const char *state = ctl_text(u, "state");
		bool loop = strcmp(state, "loop") == 0, dead = strcmp(state, "dead") == 0;

		if (strcmp(ctl_text(u, "errors"), "garbage") == 0) {
			findings_add(f, "upstreams", others ? VERDICT_NOTE : VERDICT_BAD,
				"ask it by hand (dig @ADDRESS NAME): is that a name server, does "
				"it answer within a second, and does nothing between here and "
				"there answer in its place? Names outside the cluster are not "
				"found while no other answers",
				"%s answers what is no DNS message, or what no query of ours waits "
				"for any more",
				ctl_text(u, "address"));
			findings_name(f, others ? "upstream-garbage" : "upstreams-garbage");
			continue;
		}
		if (ctl_text(u, "errors")[0] != '\0') {
			findings_add(f, "upstreams", others ? VERDICT_NOTE : VERDICT_BAD,
				"ask it by hand (dig @ADDRESS NAME): may this node ask it (its "
				"access list), and does it reach the servers that it asks itself? "
				"Names outside the cluster are not found while no other answers",
				"%s answers %s to all of the last %s queries for addresses",
				ctl_text(u, "address"), ctl_text(u, "errors"),
				ctl_text(u, "errors_in_a_row"));
			findings_name(f, others ? "upstream-errors" : "upstreams-errors");
			continue;
		}
		findings_add(f, "upstreams",
			!loop && !dead           ? VERDICT_OK
				: others && dead ? VERDICT_NOTE
						 : VERDICT_BAD,
			loop ? "it forwards to this node's DNS: name its own upstreams there"
			     : "ask it by hand (dig @ADDRESS .), and take it out of resolv.conf "
			       "where it is gone; names outside the cluster are not found while "
			       "no other answers",
			loop ? "%s sends our queries back to us" : "%s: %s", ctl_text(u, "address"),
			state);
		findings_name(f,
			loop             ? "upstream-loops"
				: others ? "upstream-dead"
					 : "upstreams-dead");
	}
}

/* dns.host: resolved. Until resolved has answered for the first time there is nothing to tell. */
static void
check_host_route(struct findings *f, const struct tree_node *dns)
{
	const char *trouble = ctl_text(dns, "host.fault");
	bool set = ctl_true(dns, "host.set");

	if (trouble[0] != '\0')
		findings_add(f, "resolved", VERDICT_BAD,
			set ? "mesh.canary: true gives it one, also without containers, or "
			      "mesh.interface: own; until then only pods find names of the cluster"
			    : "systemctl enable --now systemd-resolved, and let the agent reach "
			      "the "
			      "system bus (in a container: mount /run/dbus); or set dns.host: "
			      "file; "
			      "until then only pods find names of the cluster",
			"no route for names of the cluster on this host: %s", trouble);
	else
		findings_add(f, "resolved", set ? VERDICT_OK : VERDICT_NOTE,
			"it is set once the mesh is served",
			set ? "names of the cluster are asked here, through link %s"
			    : "names of the cluster are not asked here yet",
			ctl_text(dns, "host.link"));
	findings_name(f, "resolved");
	if (set && !ctl_true(dns, "resolvConf.stub"))
		findings_add(f, "resolv.conf", VERDICT_NOTE,
			"ln -sf /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf, or install "
			"libnss-resolve",
			"does not name 127.0.0.53: programs that read it do not ask "
			"systemd-resolved, and do not find names of the cluster");
}

static void
check_resolv_conf(struct findings *f, const struct tree_node *dns, bool starting)
{
	const char *state = ctl_text(dns, "resolvConf.state"),
		   *trouble = ctl_text(dns, "resolvConf.trouble");

	if (strcmp(ctl_text(dns, "host.way"), "resolved") == 0)
		check_host_route(f, dns);
	else if (ctl_true(dns, "resolvConfWatch.left"))
		findings_add(f, "resolv.conf", VERDICT_BAD,
			"names of the cluster are not found through it until that program stops (a "
			"DHCP client, NetworkManager, resolvconf): let it spare the file, or "
			"set dns.manageResolvConf: false and docker's dns",
			"left alone: another program keeps changing it, our lines were put back %s "
			"times",
			ctl_text(dns, "resolvConfWatch.mended"));
	else if (strncmp(trouble, "left alone, ", 12) == 0)
		findings_add(f, "resolv.conf", VERDICT_BAD,
			"make room on the disks of dataDir and of the file, or mount them for "
			"writing: "
			"it is written within seconds then; until then short names of the cluster "
			"are not found through it",
			"%s", trouble);
	else
		findings_add(f, "resolv.conf",
			trouble[0] != '\0'                   ? VERDICT_BAD
				: strcmp(state, "ours") == 0 ? VERDICT_OK
				: starting                   ? VERDICT_INFO
							     : VERDICT_NOTE,
			"pods that docker starts take their nameservers from there; see "
			"dns.resolvConf",
			"%s%s%s", state, trouble[0] != '\0' ? ": " : "", trouble);
}

/* How often changes by other programs were undone, and by which program the last one was. */
static void
add_repairs(struct buf *out, const struct tree_node *of)
{
	buf_printf(out, "put back %s times", ctl_text(of, "repairs"));
	if (ctl_text(of, "repaired_after")[0] == '\0')
		return;
	buf_adds(out, ", last ");
	ctl_add_duration(out, ctl_number(of, "repaired_ms_ago") / 1000);
	buf_printf(out, " ago after %s", ctl_text(of, "repaired_after"));
}

static void
check_rules(struct findings *f, const struct tree_node *ipt, bool starting)
{
	const char *first = ctl_text(ipt, "translated_first_by");
	bool installed = ctl_true(ipt, "installed");
	auto_buf struct buf repairs;

	buf_init(&repairs, BUF_UNLIMITED);
	add_repairs(&repairs, ipt);
	if (!installed && !ctl_true(ipt, "up"))
		findings_add(f, "rules", starting ? VERDICT_INFO : VERDICT_BAD,
			"it comes with the interface, see below", "table %s waits for %s",
			ctl_text(ipt, "table"), ctl_text(ipt, "interface"));
	else if (!installed)
		findings_add(f, "rules", VERDICT_BAD,
			"the agent's log tells what the kernel said; see below whether it has "
			"nf_tables with nat; the agent needs CAP_NET_ADMIN",
			"table %s is not installed", ctl_text(ipt, "table"));
	else
		findings_add(f, "rules",
			ctl_text(ipt, "repaired_after")[0] != '\0' &&
					ctl_number(ipt, "repaired_ms_ago") < REPAIRED_LATELY_MS
				? VERDICT_NOTE
				: VERDICT_OK,
			"it clears the whole ruleset: let it replace its own tables alone (no "
			"`flush ruleset`)",
			"table %s is installed, %s", ctl_text(ipt, "table"), buf_str(&repairs));
	if (ctl_text(ipt, "warning")[0] != '\0')
		findings_add(f, "rules", VERDICT_NOTE,
			"load the module, or keep other users from the node", "%s",
			ctl_text(ipt, "warning"));
	tree_each(tree_get(ipt, "obstacles"), o)
		findings_add(f, "rules", VERDICT_BAD, "as it says", "%s", tree_text(o, ""));
	if (first[0] != '\0')
		findings_add(f, "rules", VERDICT_NOTE,
			"what they take of mesh.subnet and of port 53 does not come to us: see "
			"`nft list chain FAMILY TABLE CHAIN`, and move them behind dstnat - 5",
			"translate addresses before ours do: %s", first);
}

/* NodePorts and other addresses by which services are called from outside. */
static void
check_external(struct findings *f, const struct tree_node *top)
{
	const struct tree_node *ipt = tree_get(top, "iptables"),
			       *external = tree_get(ipt, "external"),
			       *health = tree_get(top, "health_ports");
	const char *dropped = ctl_text(ipt, "dropped_by");

	if (ctl_number(health, "troubled") > 0) {
		findings_add(f, "node-ports", VERDICT_NOTE,
			"free the port (ss -tlnp names its program), or give the Service another "
			"one: spec.healthCheckNodePort. A load balancer takes this node for one "
			"without endpoints",
			"a healthCheckNodePort is not answered, %s of them, such as %s",
			ctl_text(health, "troubled"), ctl_text(health, "first"));
		findings_name(f, "health-check-ports");
	}

	if (ctl_number(external, "troubled") > 0)
		findings_add(f, "node-ports", VERDICT_NOTE,
			"edgewayctl nodeports tells all: free the port, or give the Service "
			"another one",
			"services are not served outside as they ask, %s of them, such as %s",
			ctl_text(external, "troubled"), ctl_text(external, "first"));
	if (ctl_number(external, "kernel") > 0 && strstr(dropped, "forward") != NULL) {
		findings_add(f, "node-ports", VERDICT_NOTE,
			"let through what is translated: iptables -I DOCKER-USER -m conntrack "
			"--ctstate DNAT -j ACCEPT",
			"calls from outside that the kernel carries (UDP, and TCP with "
			"externalTrafficPolicy Local) may be dropped by %s",
			dropped);
		findings_name(f, "node-ports-dropped");
	}
}

static void
check_listener(struct findings *f, const struct tree_node *lb)
{
	if (ctl_text(lb, "trouble")[0] != '\0')
		findings_add(
			f, "listener", VERDICT_NOTE, "as it says", "%s", ctl_text(lb, "trouble"));
}

static void
check_ipv6(struct findings *f, const struct tree_node *top)
{
	if (ctl_text(top, "error6")[0] != '\0')
		findings_add(f, "ipv6", VERDICT_BAD,
			"it is tried again every two seconds, or once a minute where the kernel "
			"refuses it; without mesh.subnet6 no service has an IPv6 address",
			"services have no IPv6 address, IPv4 is served: %s",
			ctl_text(top, "error6"));
}

/* It cannot be opened while metadata comes: something lets websockets through alone, or the hub
 * refuses it. */
static void
check_tunnel_open(struct findings *f, const struct tree_node *meta, const struct tree_node *tunnel)
{
	const struct tree_node *standby = tree_get(tunnel, "standby");
	const char *error = ctl_text(tunnel, "error");

	if (!ctl_true(meta, "connected") || !ctl_true(tunnel, "enabled"))
		return;
	if (strcmp(ctl_text(tunnel, "state"), "open") != 0 && error[0] != '\0') {
		findings_add(f, "tunnel", VERDICT_BAD,
			"the hub's log says whether it refused it; where something between lets "
			"websockets through alone: tunnel.carrier",
			"the cloud does not reach this node: %s", error);
		findings_name(f, "tunnel-down");
	}
	if (standby == NULL ||
		(strcmp(ctl_text(standby, "state"), "open") == 0 &&
			ctl_text(standby, "doubt")[0] == '\0' &&
			strcmp(ctl_text(standby, "hub"), ctl_text(tunnel, "hub")) != 0))
		return;
	error = ctl_text(standby, ctl_text(standby, "doubt")[0] != '\0' ? "doubt" : "error");
	findings_add(f, "tunnel", VERDICT_NOTE,
		"hub.url has to name another hub, or a name with several addresses, that runs",
		"the second tunnel (hub.tunnels) is not open: %s",
		error[0] != '\0' ? error : "no other hub is known");
	findings_name(f, "tunnel-standby");
}

/* It is there at most looks, and what ends it again and again is told by this alone. */
static void
check_flapping(struct findings *f, const struct tree_node *meta, const struct tree_node *tunnel)
{
	static const char *const names[] = {
		"metadata", "tunnel", "second tunnel", "outward tunnel"};
	const struct tree_node *links[] = {
		meta, tunnel, tree_get(tunnel, "standby"), tree_get(tunnel, "outward")};
	const struct tree_node *last = NULL;
	auto_buf struct buf ends;

	buf_init(&ends, BUF_UNLIMITED);
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		if (ctl_number(links[i], "ends") < FLAPPING_LEAST)
			continue;
		buf_printf(&ends, "%s%s %s times", last != NULL ? ", " : "", names[i],
			ctl_text(links[i], "ends"));
		last = links[i];
	}
	if (last == NULL)
		return;
	findings_add(f, "hub", VERDICT_NOTE,
		"something on the way cuts connections (a firewall, NAT or proxy whose entries end "
		"early, a link that comes and goes), or the hub does: its log has the other end's "
		"reason. It is told until the last five minutes had fewer than four",
		"the connection ended within five minutes: %s; the last time: %s", buf_str(&ends),
		ctl_text(last, "end"));
	findings_name(f, "hub-flapping");
}

/* Both directions: from the cloud to this node, and from this node to what the hub reaches. */
/* Several uplinks, of which the tunnel uses one. */
static void
check_uplinks(struct findings *f, const struct tree_node *tunnel)
{
	unsigned long uplinks = strtoul(ctl_text(tunnel, "uplinks"), NULL, 10);

	if (uplinks < 2 || strcmp(ctl_text(tunnel, "carrier"), "tls") != 0 ||
		strcmp(ctl_text(tunnel, "state"), "open") != 0 ||
		strcmp(ctl_text(tunnel, "paths"), "0") != 0)
		return;
	findings_add(f, "uplinks", VERDICT_INFO,
		"does the hub's kernel have MPTCP (sysctl net.mptcp.enabled), and does a firewall "
		"on the way let TCP's options through?",
		"this node has %lu uplinks, and the tunnel uses one: without MPTCP streams end "
		"with that one",
		uplinks);
}

static void
check_tunnel_doubt(struct findings *f, const struct tree_node *tunnel)
{
	const char *in = ctl_text(tunnel, "doubt"), *out = ctl_text(tunnel, "outward.doubt");

	if (in[0] == '\0' && out[0] == '\0')
		return;
	findings_add(f, "tunnel", VERDICT_BAD,
		"new streams wait, or go by another replica; unless it answers within a heartbeat "
		"and a second it is dialled anew. Is the hub frozen or overloaded (edgewayctl "
		"status there), does a firewall "
		"between drop what belongs to a connection that is open?",
		"%s: %s %s",
		in[0] == '\0'            ? "this node's way to others by the hub"
			: out[0] == '\0' ? "the cloud's way to this node"
					 : "the tunnels, both ways",
		ctl_text(tunnel, in[0] != '\0' ? "hub" : "outward.hub"), in[0] != '\0' ? in : out);
	findings_name(f, "tunnel-silent");
}

/* --- endpoints ------------------------------------------------------------------------------ */

/* Names of services with the same problem, as many as are readable. */
struct check_names {
	struct buf text;
	unsigned n;
};

static void
check_names_add(struct check_names *to, const char *namespace, const char *name)
{
	if (to->n++ < NAMES_TOLD)
		buf_printf(&to->text, "%s%s/%s", to->n > 1 ? ", " : "", namespace, name);
}

static const char *
check_names_text(struct check_names *of)
{
	if (of->n > NAMES_TOLD)
		buf_printf(&of->text, " and %u more", of->n - NAMES_TOLD);
	return buf_str(&of->text);
}

static bool
check_is_down(const struct tree_node *endpoint)
{
	const char *state = ctl_text(endpoint, "state");

	return strcmp(state, "ejected") == 0 || strcmp(state, "ill") == 0;
}

/* Each worker has a row for a service port; one worker that uses it and finds all endpoints down is
 * enough. */
static void
check_dead(struct findings *f, const struct tree_node *groups)
{
	struct check_names dead = {0};
	auto_buf struct buf last;
	char fault[160] = "";

	buf_init(&dead.text, BUF_UNLIMITED);
	buf_init(&last, BUF_UNLIMITED);
	tree_each(groups, g) {
		const char *service = ctl_text(g, "service");
		auto_free char *mark = xasprintf(" %s ", service);
		unsigned down = 0, all = 0;
		const struct tree_node *one = NULL;

		tree_each(tree_get(g, "endpoints"), e) {
			all++;
			if (!check_is_down(e))
				continue;
			down++;
			one = e;
		}
		if (all == 0 || down < all || strstr(buf_str(&last), mark) != NULL)
			continue;
		buf_adds(&last, mark);
		if (dead.n++ < NAMES_TOLD)
			buf_printf(&dead.text, "%s%s:%s", dead.n > 1 ? ", " : "", service,
				ctl_text(g, "port"));
		if (fault[0] == '\0')
			snprintf(fault, sizeof fault, "%.80s: %.60s", ctl_text(one, "address"),
				ctl_text(one, "fault")[0] != '\0' ? ctl_text(one, "fault")
								  : "its health check fails");
	}
	if (dead.n > 0) {
		findings_add(f, "endpoints", VERDICT_BAD,
			"edgewayctl health has them all; do these pods run, do they listen on the "
			"port, does the way from here lead there?",
			"no endpoint of %s answers (%s)", check_names_text(&dead), fault);
		findings_name(f, "endpoints-dead");
	}
	buf_fini(&dead.text);
}

static void
check_endpoints(struct findings *f, const struct tree_node *top)
{
	unsigned down = 0;

	if (ctl_number(top, "meta.addresses.services_without") > 0)
		findings_add(f, "addresses", VERDICT_BAD, "give mesh.subnet a larger range",
			"%s services have no address left",
			ctl_text(top, "meta.addresses.services_without"));
	tree_each(tree_path(top, "lb.endpoints"), g) {
		tree_each(tree_get(g, "endpoints"), e)
			down += check_is_down(e);
	}
	if (ctl_number(top, "refused") > 0) {
		findings_add(f, "endpoints", VERDICT_NOTE,
			"edgewayctl endpoints tells which and why: somebody leads this node to "
			"addresses that no Service should have; where it is meant, name them in "
			"lb.allow",
			"%s are refused because of what their address is",
			ctl_text(top, "refused"));
		findings_name(f, "endpoints-refused");
	}
	check_dead(f, tree_path(top, "lb.endpoints"));
	findings_add(f, "endpoints", down > 0 ? VERDICT_NOTE : VERDICT_OK,
		"edgewayctl health tells which and why", "%u are ejected", down);
	findings_name(f, "endpoints-ejected");
}

/* BackendTLSPolicies that cannot be followed: calls fail, since they must not go in clear. */
static void
check_tls(struct findings *f, const struct snapshot *snapshot)
{
	struct check_names names = {0};
	const char *why = "";

	buf_init(&names.text, BUF_UNLIMITED);
	for (size_t i = 0; i < snapshot_count(snapshot); i++) {
		const struct service *s = snapshot_at(snapshot, i);
		size_t k = 0;

		while (k < s->n_tls && *s->tls[k]->wrong == '\0')
			k++;
		if (k == s->n_tls)
			continue;
		why = s->tls[k]->wrong;
		check_names_add(&names, s->namespace, s->name);
	}
	if (names.n > 0) {
		findings_add(f, "backend TLS", VERDICT_BAD,
			"correct the BackendTLSPolicy, or what it names; its status says the same "
			"(kubectl describe)",
			"calls fail of %s: %s", check_names_text(&names), why);
		findings_name(f, "backend-tls");
	}
	buf_fini(&names.text);
}

void
agent_check_services(struct findings *f, const struct snapshot *snapshot, bool tunnel)
{
	struct check_names empty = {0}, far = {0};

	check_tls(f, snapshot);
	buf_init(&empty.text, BUF_UNLIMITED);
	buf_init(&far.text, BUF_UNLIMITED);
	for (size_t i = 0; i < snapshot_count(snapshot); i++) {
		const struct service *s = snapshot_at(snapshot, i);
		unsigned reached = 0, unreached = 0, refused = 0;

		for (unsigned p = 0; p < s->n_ports; p++) {
			reached += s->ports[p].n_endpoints;
			unreached += s->ports[p].n_unreachable;
			refused += s->ports[p].n_refused;
		}
		if (s->n_ports == 0 || reached + refused > 0 || s->external_name[0] != '\0')
			continue;
		check_names_add(unreached > 0 ? &far : &empty, s->namespace, s->name);
	}
	if (empty.n > 0) {
		findings_add(f, "services", VERDICT_NOTE,
			"kubectl get endpointslices -n NAMESPACE: do pods with the labels of its "
			"selector run, and are they ready? At the hub edgewayctl status says what "
			"its selector nearly matches",
			"no endpoint is ready of %s", check_names_text(&empty));
		findings_name(f, "no-endpoints");
	}
	if (far.n > 0) {
		findings_add(f, "services", VERDICT_NOTE,
			tunnel ? "their nodes have no tunnel to the hub, or the hub may not reach "
				 "them: see edgewayctl tunnels at the hub"
			       : "set tunnel.enabled on this node and on theirs, or give their "
				 "pods a hostPort",
			"pods without a hostPort on other nodes, and no tunnel, so no way from "
			"here to %s",
			check_names_text(&far));
		findings_name(f, "no-way");
	}
	buf_fini(&empty.text);
	buf_fini(&far.text);
}

/* --- from the pods' side -------------------------------------------------------------------- */

/* Programs whose rules may block the path between the bridge and our sockets. */
static void
check_suspects(const struct tree_node *ipt, struct buf *out)
{
	static const char *const members[][2] = {{"dropped_by", "drops what no rule takes: "},
		{"drop_rules", "rules that drop are in: "},
		{"legacy_tables", "tables of iptables-legacy: "},
		{"translated_first_by", "translate before we do: "}};

	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		const char *who = ctl_text(ipt, members[i][0]);

		if (who[0] != '\0')
			buf_printf(out, "; %s%s", members[i][1], who);
	}
}

static void
check_canary_try(struct findings *f, const struct tree_node *top, const char *name)
{
	static const char remedy[] =
		"let in what comes from the pods' bridge, before any rule that drops: port 53 "
		"(udp, tcp) and mesh.listenPort (tcp) as input; see nft list ruleset, "
		"iptables-save and iptables-legacy-save";
	const struct tree_node *canary = tree_get(top, "canary"), *t = tree_get(canary, name);
	bool dns = strcmp(name, "dns") == 0;
	auto_buf struct buf who, asked;

	buf_init(&who, BUF_UNLIMITED);
	buf_init(&asked, BUF_UNLIMITED);
	if (strcmp(ctl_text(t, "state"), "unknown") == 0)
		return;
	if (dns)
		buf_printf(&asked, "DNS at %s", ctl_text(canary, "asks"));
	else
		buf_printf(&asked, "%s at %s", ctl_text(canary, "service"),
			ctl_text(canary, "calls_to"));
	if (strcmp(ctl_text(t, "state"), "ok") == 0) {
		findings_add(f, "canary", VERDICT_OK, NULL, "%s answers as pods ask it",
			buf_str(&asked));
		return;
	}
	check_suspects(tree_get(top, "iptables"), &who);
	findings_add(f, "canary", VERDICT_BAD, remedy,
		"pods on %s do not reach %s: %s to %s there%s", ctl_text(top, "canary.bridge"),
		buf_str(&asked), ctl_text(t, "fault"), ctl_text(canary, "address"), buf_str(&who));
	findings_name(f, dns ? "pods-dns" : "pods-calls");
}

static void
check_canary(struct findings *f, const struct tree_node *top)
{
	const struct tree_node *canary = tree_get(top, "canary");
	const char *off = ctl_text(canary, "off");

	if (tree_is_null(canary))
		return;
	if (off[0] != '\0') {
		findings_add(f, "canary", VERDICT_INFO,
			"it needs /dev/net/tun, CAP_NET_ADMIN, and a bridge with a free address at "
			"the "
			"end of its range; mesh.canary: false ends the attempts; edgewayctl doctor "
			"as root tries it from within pods",
			"the mesh is not tried from the pods' side: %s", off);
		findings_name(f, "canary-off");
		return;
	}
	if (ctl_text(canary, "stale")[0] != '\0' &&
		ctl_number(canary, "stale_ms_ago") < REPAIRED_LATELY_MS) {
		findings_add(f, "canary", VERDICT_BAD,
			"containers keep the network that they were started with: restart them, or "
			"give the bridge its address back (bip in /etc/docker/daemon.json)",
			"%s was %s and has another address now, which a container there, %s, does "
			"not know: it reaches neither DNS nor services",
			ctl_text(canary, "bridge"), ctl_text(canary, "former"),
			ctl_text(canary, "stale"));
		findings_name(f, "pods-stale");
	}
	check_canary_try(f, top, "dns");
	check_canary_try(f, top, "calls");
}

void
agent_checks(struct findings *f, const struct tree_node *top)
{
	const struct tree_node *meta = tree_get(top, "meta");
	const char *error = ctl_text(top, "error");
	/* the first time without docker0, which may still come: no fault yet */
	bool starting = ctl_true(top, "iptables.own_interface_due");

	if (ctl_true(top, "ready") && ctl_text(top, "degraded")[0] != '\0')
		findings_add(f, "agent", VERDICT_NOTE,
			"pods are served; what follows tells what is left undone until the disk "
			"has "
			"room",
			"ready, degraded: a part does without its disk");
	else
		findings_add(f, "agent",
			ctl_true(top, "ready") ? VERDICT_OK
				: starting     ? VERDICT_INFO
					       : VERDICT_BAD,
			"what follows tells why", "%s%s%s",
			ctl_true(top, "ready") ? "ready" : "not ready",
			error[0] != '\0' ? ": " : "", error);
	check_hub(f, meta);
	check_tunnel_open(f, meta, tree_get(top, "tunnel"));
	check_tunnel_doubt(f, tree_get(top, "tunnel"));
	check_uplinks(f, tree_get(top, "tunnel"));
	agent_checks_peers(f, tree_path(top, "tunnel.peers"));
	check_flapping(f, meta, tree_get(top, "tunnel"));
	check_certificate(f, meta);
	check_clock(f, meta);
	check_database(f, meta);
	agent_check_pods(f, meta);
	check_upstreams(f, tree_get(top, "dns"));
	check_resolv_conf(f, tree_get(top, "dns"), starting);
	check_rules(f, tree_get(top, "iptables"), starting);
	check_external(f, top);
	check_listener(f, tree_get(top, "lb"));
	check_ipv6(f, top);
	check_canary(f, top);
	check_endpoints(f, top);
	check_traces(f, tree_get(top, "tracing"));
	check_seccomp(f, tree_get(top, "seccomp"));
	check_admin(f, tree_get(top, "admin"));
}
