#include "src/ctl/ctl_doctor_parts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/port_holder.h"
#include "src/ctl/ctl_legacy.h"
#include "src/ctl/ctl_machine.h"
#include "src/ctl/ctl_pods.h"
#include "src/ctl/ctl_resolve.h"

enum {
	DNS_PORT = 53,
	PODS_TRIED = 3,
	ARRIVAL_TRIES = 20,
	ARRIVAL_PAUSE_US = 50 * 1000,
};

/* What a pod is to test: the agent's DNS, and the first service that the agent relays itself. */
struct trial {
	struct pod_question question;
	char service[300]; /* "shop/web at 9.251.0.7:80", "": none */
	const char *dns; /* as text */
	const char *socket, *bridge;
	const struct tree_node *captured; /* name servers for which the agent answers */
	const struct tree_node *interfaces; /* of the pods, globs */
};

static void
choose_service(struct trial *t, const struct tree_node *services)
{
	tree_each(tree_get(services, "services"), s) {
		tree_each(tree_get(s, "ports"), p) {
			char address[ADDR_TEXT_MAX];

			snprintf(address, sizeof address, "%s:%s", ctl_text(s, "fakeIP"),
				ctl_text(p, "port"));
			if (strcmp(ctl_text(p, "mode"), "http") != 0 ||
				addr_parse(&t->question.service, address, 0, NULL) < 0)
				continue;
			snprintf(t->service, sizeof t->service, "%.64s/%.100s at %.64s",
				ctl_text(s, "namespace"), ctl_text(s, "name"), address);
			return;
		}
	}
	t->question.service.len = 0;
}

static double
count_accepted(const char *socket)
{
	struct tree *state auto_tree = NULL;
	const struct tree_node *counters;
	struct err err;

	if (ctl_ask_json(socket, "/debug/state", &state, &err) < 0)
		return 0;
	counters = tree_path(tree_document(state, 0), "lb.counters");
	return ctl_number(counters, "accepted_http") + ctl_number(counters, "accepted_tcp");
}

/* An established connection may still have reached another program. */
static bool
has_arrived(const struct trial *t, double before)
{
	for (int i = 0; i < ARRIVAL_TRIES; i++) {
		if (count_accepted(t->socket) > before)
			return true;
		usleep(ARRIVAL_PAUSE_US);
	}
	return false;
}

/* The engine's own name server, in the container (Docker) or on the bridge (podman's aardvark),
 * asks what the node asks. */
static bool
asks_for_it(struct in_addr server)
{
	char who[PORT_HOLDER_TEXT_MAX];
	uint32_t address = ntohl(server.s_addr);

	return address >> 24 == IN_LOOPBACKNET ||
		(port_holder("udp", address, DNS_PORT, who) &&
			strncmp(who, "aardvark-dns", strlen("aardvark-dns")) == 0);
}

/* The pod's name servers, as docker copied them when it was started. */
static void
check_servers(struct findings *f, const struct trial *t, const struct pod *p)
{
	for (size_t i = 0; i < p->n_servers; i++) {
		char text[INET_ADDRSTRLEN];
		bool ours;

		inet_ntop(AF_INET, &p->servers[i], text, sizeof text);
		ours = p->servers[i].s_addr == t->question.dns.in.sin_addr.s_addr ||
			asks_for_it(p->servers[i]);
		tree_each(t->captured, c)
			ours |= strcmp(tree_text(c, ""), text) == 0;
		if (!ours)
			findings_add(f, "pods", VERDICT_NOTE,
				"it was started before the agent, or with --dns: names of the "
				"cluster are not known there; start it anew",
				"%s asks the name server %s", p->who, text);
	}
}

/* The bridge got another network after the pod was started: its address is not behind it. */
static bool
doctor_view_is_stale(const struct trial *t, const struct pod *p, const struct pod_view *view)
{
	char address[INET_ADDRSTRLEN], interface[PLACE_TEXT_MAX];

	if (p->pid == POD_HERE || view->address.s_addr == 0)
		return false;
	machine_uplink(inet_ntop(AF_INET, &view->address, address, sizeof address), interface);
	return !pods_interface(t->interfaces, interface);
}

enum view { WELL, ILL, NOT_SEEN };

static enum view
try_one(struct findings *f, const struct trial *t, const struct pod *p, const char *check)
{
	double before = t->service[0] != '\0' ? count_accepted(t->socket) : 0;
	struct pod_view view = {0};
	int rc = pod_try(p, &t->question, &view);
	auto_buf struct buf text;
	bool lost = false, ill, stale;

	buf_init(&text, BUF_UNLIMITED);
	if (rc < 0) {
		findings_add(f, check, VERDICT_NOTE,
			"run the doctor as root with CAP_SYS_ADMIN, on the node itself: nobody has "
			"looked from within",
			"%s: its network cannot be entered: %s", p->who, strerror(-rc));
		return NOT_SEEN;
	}
	if (t->service[0] != '\0' && view.service_error == 0)
		lost = !has_arrived(t, before);
	buf_printf(&text, "%s: DNS at %s %s", p->who, t->dns,
		view.dns_error == 0 ? "answers" : strerror(view.dns_error));
	if (t->service[0] != '\0')
		buf_printf(&text, "; %s %s", t->service,
			view.service_error != 0 ? strerror(view.service_error)
				: lost          ? "is led to somebody else"
						: "is reached");
	ill = view.dns_error != 0 || view.service_error != 0 || lost;
	stale = ill && doctor_view_is_stale(t, p, &view);
	if (stale)
		buf_printf(&text, "; its network is not the one that %s has now", t->bridge);
	findings_add(f, check, ill ? VERDICT_BAD : VERDICT_OK,
		stale ? "it was started before the bridge got its address: restart the container"
		      : "rules of others come before ours or drop what comes from the bridge (see "
			"rules, firewall and legacy here, nft list ruleset, iptables-save), or a "
			"route is missing there",
		"%s", buf_str(&text));
	return ill ? ILL : WELL;
}

/* Returns whether all visible pods get what the mesh should give them, and there was at least
 * one. */
static bool
try_pods(struct findings *f, const struct trial *t, const char *bridge)
{
	struct pod pods[PODS_TRIED];
	size_t networks, n = pods_find(t->interfaces, pods, ARRAY_LEN(pods), &networks), well = 0,
			 ill = 0;

	if (n == 0 && networks > 0)
		findings_add(f, "pods", VERDICT_NOTE,
			geteuid() == 0
				? "run the doctor on the node itself, or in a pod with hostPID: "
				  "true: nobody has looked from within them"
				: "run the doctor as root: nobody has looked from within them",
			"containers are on %s (%zu), but no process of theirs is seen from here",
			bridge, networks);
	else if (n == 0)
		findings_add(f, "pods", VERDICT_OK, "", "no container that can be seen is on %s",
			bridge);
	for (size_t i = 0; i < n; i++) {
		enum view view = try_one(f, t, &pods[i], "pods");

		well += view == WELL;
		ill += view == ILL;
		check_servers(f, t, &pods[i]);
	}
	return well > 0 && ill == 0;
}

/* iptables-legacy, which nf_tables does not show. */
static void
check_legacy(struct findings *f, bool pass)
{
	static const char remedy[] =
		"look with iptables-legacy-save; let it take what comes from the pods' bridge "
		"(port 53 and mesh.listenPort as input, and what is forwarded) and track it, or "
		"move its rules to nf_tables (update-alternatives --set iptables "
		"/usr/sbin/iptables-nft)";
	auto_buf struct buf tables, found;
	bool read;

	buf_init(&tables, BUF_UNLIMITED);
	buf_init(&found, BUF_UNLIMITED);
	legacy_tables(&tables);
	if (buf_len(&tables) == 0)
		return;
	read = legacy_look(&found);
	if (!read)
		findings_add(f, "legacy", pass ? VERDICT_OK : VERDICT_NOTE,
			"install iptables (iptables-legacy-save), then look again: what they drop "
			"or "
			"take never comes to us",
			"tables of iptables-legacy whose rules cannot be read here: %s",
			buf_str(&tables));
	else if (buf_len(&found) > 0)
		findings_add(f, "legacy", pass ? VERDICT_OK : VERDICT_NOTE, remedy,
			"iptables-legacy: %s", buf_str(&found));
}

/* Nothing is tried by IPv6, so that nobody knows whether their rules let it pass. */
static void
check_firewall6(struct findings *f, const struct tree_node *state)
{
	const char *dropped = ctl_text(state, "iptables.dropped_by6"),
		   *rules = ctl_text(state, "iptables.drop_rules6");

	if (dropped[0] == '\0' && rules[0] == '\0')
		return;
	findings_add(f, "firewall6", VERDICT_INFO,
		"let them take what comes from the pods' bridge: port 53 (udp, tcp) and "
		"mesh.listenPort (tcp) as input, what is forwarded, and ICMPv6",
		"IPv6 is not tried from here; what drops it: %s%s%s%s", dropped,
		dropped[0] != '\0' && rules[0] != '\0' ? "; " : "",
		rules[0] != '\0' ? "rules in " : "", rules);
}

void
doctor_view(
	struct findings *f, const struct tree_node *state, const char *bridge, const char *socket)
{
	const char *dropped = ctl_text(state, "iptables.dropped_by");
	struct trial t = {.dns = ctl_text(state, "dns.address"),
		.socket = socket,
		.bridge = bridge,
		.captured = tree_path(state, "iptables.captured.upstreams"),
		.interfaces = tree_path(state, "iptables.interfaces")};
	struct pod host = {.pid = POD_HERE, .who = "from this host"};
	struct tree *services auto_tree = NULL;
	struct err err;
	bool pass;

	if (!ctl_true(state, "iptables.installed") || t.dns[0] == '\0' ||
		addr_parse(&t.question.dns, t.dns, DNS_PORT, NULL) < 0)
		return;
	if (ctl_ask_json(socket, "/debug/services", &services, &err) == 0)
		choose_service(&t, tree_document(services, 0));
	pass = try_one(f, &t, &host, "host") == WELL;
	pass &= try_pods(f, &t, bridge);
	if (dropped[0] != '\0')
		findings_add(f, "firewall", pass ? VERDICT_OK : VERDICT_NOTE,
			"let it take what comes from the pods' bridge: port 53 (udp, tcp) and "
			"mesh.listenPort (tcp) as input, and what is forwarded",
			"drops what no rule of it takes: %s", dropped);
	check_firewall6(f, state);
	check_legacy(f, pass);
}
