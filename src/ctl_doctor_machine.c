#include "src/ctl_doctor_machine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/port_holder.h"
#include "base/sock.h"
#include "src/ctl_kernel.h"
#include "src/ctl_machine.h"
#include "src/ctl_pods.h"
#include "src/ctl_resolve.h"

#define NO_INTERFACE "docker0"

enum {
	DNS_PORT = 53,
	CLOCK_YEAR_LEAST = 2026, /* when this was written */
	CLOCK_NEAR_S = 5, /* the way of a message is in the difference */
	CLOCK_FAR_S = 60,
	PODS_TRIED = 3,
	ARRIVAL_TRIES = 20,
	ARRIVAL_PAUSE_US = 50 * 1000,
};

static const char *
bridge_of(const struct tree_node *state)
{
	const char *name = ctl_text(state, "iptables.interface");

	return name[0] != '\0' ? name : NO_INTERFACE;
}

static void
check_interface(struct findings *f, const char *name, uint32_t *address)
{
	struct in_addr in;
	char text[INET_ADDRSTRLEN];
	bool up;

	if (!machine_interface(name, address, &up)) {
		findings_add(f, "interface", VERDICT_BAD,
			"start docker, or name the pods' bridge in mesh.interface",
			"there is no %s on this machine", name);
		return;
	}
	in.s_addr = htonl(*address);
	if (*address == 0)
		findings_add(f, "interface", VERDICT_BAD,
			"give it one (docker's bip), or start docker anew",
			"%s has no IPv4 address", name);
	else
		findings_add(f, "interface", up ? VERDICT_OK : VERDICT_BAD, "ip link set it up",
			"%s is %s, %s", name, up ? "up" : "down",
			inet_ntop(AF_INET, &in, text, sizeof text));
}

static void
check_mtu(struct findings *f, const char *interface, const char *hub)
{
	char uplink[PLACE_TEXT_MAX];
	unsigned inner, outer, path;

	machine_uplink(hub, uplink);
	inner = machine_mtu(interface);
	outer = uplink[0] != '\0' ? machine_mtu(uplink) : 0;
	path = machine_path_mtu(hub);
	if (inner == 0 || outer == 0)
		return;
	if (path > 0 && path < outer)
		findings_add(f, "MTU", inner > path ? VERDICT_NOTE : VERDICT_OK,
			"where ICMP is filtered on the way, big packets of pods are lost: set "
			"docker's mtu to that of the way",
			"%s %u, %s %u, the way to the hub %u", interface, inner, uplink, outer,
			path);
	else
		findings_add(f, "MTU", inner > outer ? VERDICT_NOTE : VERDICT_OK,
			"where ICMP is filtered on the way, big packets of pods are lost: set "
			"docker's mtu to the uplink's",
			"%s %u, %s %u", interface, inner, uplink, outer);
}

static void
check_kernel(struct findings *f)
{
	long used = machine_number("/proc/sys/net/netfilter/nf_conntrack_count");
	long most = machine_number("/proc/sys/net/netfilter/nf_conntrack_max");
	long forwarding = machine_number("/proc/sys/net/ipv4/ip_forward");
	int rc = kernel_try_nat();

	if (rc == -EPERM)
		findings_add(f, "kernel", VERDICT_NOTE, "run the doctor as root",
			"nf_tables cannot be asked by this user");
	else
		findings_add(f, "kernel", rc == 0 ? VERDICT_OK : VERDICT_BAD,
			"modprobe nf_tables nft_chain_nat nft_masq; a kernel of one's own needs "
			"CONFIG_NF_TABLES, CONFIG_NFT_NAT, CONFIG_NFT_MASQ, CONFIG_NF_CONNTRACK",
			"nf_tables with nat: %s", rc == 0 ? "there" : strerror(-rc));
	if (forwarding >= 0)
		findings_add(f, "forwarding", forwarding == 1 ? VERDICT_OK : VERDICT_BAD,
			"sysctl -w net.ipv4.ip_forward=1: without it nothing leaves the pods' "
			"bridge",
			"net.ipv4.ip_forward is %ld", forwarding);
	if (most > 0)
		findings_add(f, "conntrack", used > most / 10 * 9 ? VERDICT_BAD : VERDICT_OK,
			"sysctl -w net.netfilter.nf_conntrack_max=: a full table drops new "
			"connections of everybody",
			"%ld flows of %ld", used, most);
	else
		findings_add(f, "conntrack", VERDICT_NOTE,
			"modprobe nf_conntrack, which comes with the agent's rules", "not there");
}

/* --- ports --------------------------------------------------------------------------- */

/* By how the kernel calls the program that has a port. */
static const char *
make_way(const char *who)
{
	static const struct {
		const char *name, *remedy;
	} known[] = {
		{"dnsmasq",
			"dnsmasq: bind-interfaces with except-interface=docker0 (or the "
			"bridge's name), then restart it"},
		{"systemd-resolve",
			"resolved.conf: no DNSStubListenerExtra on the bridge's "
			"address, then restart systemd-resolved"},
		{"named", "named.conf: listen-on without the bridge's address, then restart it"},
		{"unbound",
			"unbound.conf: interface: lines without the bridge's address and "
			"0.0.0.0, then restart it"},
		{"connmand", "connmand --nodnsproxy"},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strncmp(who, known[i].name, strlen(known[i].name)) == 0)
			return known[i].remedy;
	}
	return "keep that program off the bridge's address, or give Edgeway another bridge "
	       "(mesh.interface) or port";
}

/* A port that the agent should have and somebody else has. */
static void
check_port(struct findings *f, const char *protocol, uint32_t address, uint16_t port)
{
	char who[PORT_HOLDER_TEXT_MAX];

	if (address == 0 || port == 0)
		return;
	if (!port_holder(protocol, address, port, who))
		findings_add(f, "port", VERDICT_NOTE,
			"it is free for the agent, which does not serve it yet",
			"%s %u: nobody listens", protocol, port);
	else if (strcmp(who, PORT_HOLDER_UNSEEN) == 0)
		findings_add(f, "port", VERDICT_NOTE,
			"it may be the agent: run the doctor as root, where its processes are seen",
			"%s %u: %s", protocol, port, who);
	else
		findings_add(f, "port",
			strncmp(who, "edgeway-agent", strlen("edgeway-agent")) == 0 ? VERDICT_OK
										    : VERDICT_BAD,
			make_way(who), "%s %u: %s", protocol, port, who);
}

static void
check_ports(struct findings *f, const struct tree_node *state, uint32_t address)
{
	const char *to = strrchr(ctl_text(state, "iptables.to"), ':');

	check_port(f, "udp", address, DNS_PORT);
	check_port(f, "tcp", address, DNS_PORT);
	check_port(f, "tcp", address, to != NULL ? (uint16_t)strtoul(to + 1, NULL, 10) : 0);
}

/* --- as pods see it -------------------------------------------------------------------- */

/* What a pod is to be asked: the agent's DNS, and the first service that it relays itself. */
struct trial {
	struct pod_question question;
	char service[300]; /* "shop/web at 9.251.0.7:80", "" none */
	const char *dns; /* as text */
	const char *socket;
	const struct tree_node *captured; /* name servers for which we answer */
};

static void
choose_service(struct trial *t, const struct tree_node *services)
{
	tree_each(tree_get(services, "services"), s)
	{
		tree_each(tree_get(s, "ports"), p)
		{
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

/* A connection that was made may still have been led to somebody else. */
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

/* Its name servers, as docker copied them when it was started. */
static void
check_servers(struct findings *f, const struct trial *t, const struct pod *p)
{
	for (size_t i = 0; i < p->n_servers; i++) {
		char text[INET_ADDRSTRLEN];
		bool ours;

		inet_ntop(AF_INET, &p->servers[i], text, sizeof text);
		ours = p->servers[i].s_addr == t->question.dns.in.sin_addr.s_addr;
		tree_each(t->captured, c) ours |= strcmp(tree_text(c, ""), text) == 0;
		if (!ours)
			findings_add(f, "pods", VERDICT_NOTE,
				"it was started before the agent, or with --dns: names of the "
				"cluster are not known there; start it anew",
				"%s asks the name server %s", p->who, text);
	}
}

/* false: it does not get what the mesh should give it. */
static bool
try_one(struct findings *f, const struct trial *t, const struct pod *p, const char *check)
{
	double before = t->service[0] != '\0' ? count_accepted(t->socket) : 0;
	struct pod_view view = {0};
	auto_buf struct buf text;
	bool lost = false;

	buf_init(&text, BUF_UNLIMITED);
	if (pod_try(p, &t->question, &view) < 0)
		return true;
	if (t->service[0] != '\0' && view.service_error == 0)
		lost = !has_arrived(t, before);
	buf_printf(&text, "%s: DNS at %s %s", p->who, t->dns,
		view.dns_error == 0 ? "answers" : strerror(view.dns_error));
	if (t->service[0] != '\0')
		buf_printf(&text, "; %s %s", t->service,
			view.service_error != 0 ? strerror(view.service_error)
				: lost          ? "is led to somebody else"
						: "is reached");
	findings_add(f, check,
		view.dns_error != 0 || view.service_error != 0 || lost ? VERDICT_BAD : VERDICT_OK,
		"rules of others come before ours or drop what comes from the bridge (see rules "
		"and firewall here, nft list ruleset, iptables-save), or a route is missing there",
		"%s", buf_str(&text));
	return view.dns_error == 0 && view.service_error == 0 && !lost;
}

static void
check_view(struct findings *f, const struct tree_node *state, const char *socket)
{
	const char *dropped = ctl_text(state, "iptables.dropped_by");
	struct trial t = {.dns = ctl_text(state, "dns.address"),
		.socket = socket,
		.captured = tree_path(state, "iptables.captured.upstreams")};
	struct pod host = {.pid = getpid(), .who = "from this host"}, pods[PODS_TRIED];
	struct tree *services auto_tree = NULL;
	struct err err;
	size_t n;
	bool all_well;

	if (!ctl_true(state, "iptables.installed") || t.dns[0] == '\0' ||
		addr_parse(&t.question.dns, t.dns, DNS_PORT, NULL) < 0)
		return;
	if (ctl_ask_json(socket, "/debug/services", &services, &err) == 0)
		choose_service(&t, tree_document(services, 0));
	all_well = try_one(f, &t, &host, "host");
	n = pods_find(bridge_of(state), pods, ARRAY_LEN(pods));
	if (n == 0 && geteuid() == 0)
		findings_add(f, "pods", VERDICT_OK, "", "no container that can be seen is on %s",
			bridge_of(state));
	for (size_t i = 0; i < n; i++) {
		all_well &= try_one(f, &t, &pods[i], "pods");
		check_servers(f, &t, &pods[i]);
	}
	if (dropped[0] != '\0')
		findings_add(f, "firewall", all_well && n > 0 ? VERDICT_OK : VERDICT_NOTE,
			"let it take what comes from the pods' bridge: port 53 (udp, tcp) and "
			"mesh.listenPort (tcp) as input, and what is forwarded",
			"drops what no rule of it takes: %s", dropped);
}

void
doctor_machine(struct findings *f, const struct tree_node *state, const char *socket)
{
	const char *bridge = bridge_of(state);
	uint32_t address = 0;

	check_interface(f, bridge, &address);
	check_ports(f, state, address);
	check_mtu(f, bridge, ctl_text(state, "meta.address"));
	check_kernel(f);
	if (state != NULL)
		check_view(f, state, socket);
}

/* --- clock --------------------------------------------------------------------------------- */

static void
add_difference(struct buf *out, double ahead_s)
{
	ctl_add_duration(out, ahead_s < 0 ? -ahead_s : ahead_s);
	buf_printf(out, " %s the hub's clock", ahead_s < 0 ? "ahead of" : "behind");
}

void
doctor_clock(struct findings *f, const struct tree_node *meta)
{
	time_t now = time(NULL);
	double ahead_s = ctl_number(meta, "hub_clock_ahead_ms") / 1000,
	       far_s = ahead_s < 0 ? -ahead_s : ahead_s;
	bool compared = tree_get(meta, "hub_clock_ahead_ms") != NULL,
	     kept = machine_clock_is_kept();
	auto_buf struct buf text;
	struct tm tm;

	buf_init(&text, BUF_UNLIMITED);
	buf_add_utc(&text, now);
	gmtime_r(&now, &tm);
	if (tm.tm_year + 1900 < CLOCK_YEAR_LEAST ||
		(double)now + CLOCK_FAR_S < ctl_number(meta, "certificate_not_before")) {
		findings_add(f, "clock", VERDICT_BAD,
			"set it (chrony, systemd-timesyncd): certificates of now are not valid "
			"then",
			"it is %s here%s", buf_str(&text),
			tm.tm_year + 1900 < CLOCK_YEAR_LEAST
				? ""
				: ", which is before this node's certificate was made");
		return;
	}
	if (compared && far_s > CLOCK_NEAR_S) {
		buf_adds(&text, ", ");
		add_difference(&text, ahead_s);
		findings_add(f, "clock", far_s > CLOCK_FAR_S ? VERDICT_BAD : VERDICT_NOTE,
			"set the wrong one of the two (chrony, systemd-timesyncd): certificates "
			"are made by the hub's clock, and what pods do with TLS goes by this one",
			"%s", buf_str(&text));
		return;
	}
	findings_add(f, "clock", kept || compared ? VERDICT_OK : VERDICT_NOTE,
		"nothing keeps it true: run chrony or systemd-timesyncd, unless the host of this "
		"machine does",
		"%s%s", buf_str(&text), compared ? ", as the hub's" : "");
}
