#include "src/ctl/ctl_doctor_machine.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/os/port_holder.h"
#include "iptables/iptables.h"
#include "src/common/lock.h"
#include "src/ctl/ctl_doctor_parts.h"
#include "src/ctl/ctl_kernel.h"
#include "src/ctl/ctl_machine.h"
#include "src/ctl/ctl_pods.h"

#define NO_INTERFACE "docker0"

enum {
	DNS_PORT = 53,
	CLOCK_YEAR_LEAST = 2026, /* when this was written */
	CLOCK_NEAR_S = 5, /* the difference includes the message's transit time */
	CLOCK_OLD_S = 3600,
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
			"start docker, name the pods' bridge in mesh.interface, or set "
			"mesh.interface: auto, with which the agent makes edgeway0 ten seconds "
			"after its start",
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

/* The largest MTU of the pods' interfaces. The bridge is the mesh's own: pods may be on others, and
 * on none where it is edgeway0. */
static unsigned
pods_mtu(const struct tree_node *interfaces, const char *bridge, char name[IF_NAMESIZE])
{
	struct if_nameindex *all = if_nameindex();
	unsigned most = 0;

	for (const struct if_nameindex *i = all; i != NULL && i->if_index != 0; i++) {
		unsigned mtu = machine_mtu(i->if_name);

		if (mtu <= most || strcmp(i->if_name, OWN_INTERFACE) == 0 ||
			(strcmp(i->if_name, bridge) != 0 &&
				!pods_interface(interfaces, i->if_name)))
			continue;
		most = mtu;
		snprintf(name, IF_NAMESIZE, "%s", i->if_name);
	}
	if_freenameindex(all);
	return most;
}

static void
check_mtu(struct findings *f, const struct tree_node *state, const char *bridge)
{
	const char *hub = ctl_text(state, "meta.address");
	char uplink[PLACE_TEXT_MAX], interface[IF_NAMESIZE];
	unsigned inner, outer, path;

	machine_uplink(hub, uplink);
	inner = pods_mtu(tree_path(state, "iptables.interfaces"), bridge, interface);
	outer = uplink[0] != '\0' ? machine_mtu(uplink) : 0;
	path = machine_path_mtu(hub);
	if (inner == 0 || outer == 0)
		return;
	if (path > 0 && path < outer)
		findings_add(f, "MTU", inner > path ? VERDICT_NOTE : VERDICT_OK,
			"where ICMP is filtered on the way, big packets of pods are lost: set "
			"docker's or CNI's mtu to that of the way",
			"%s %u, %s %u, the way to the hub %u", interface, inner, uplink, outer,
			path);
	else
		findings_add(f, "MTU", inner > outer ? VERDICT_NOTE : VERDICT_OK,
			"where ICMP is filtered on the way, big packets of pods are lost: set "
			"docker's or CNI's mtu to the uplink's",
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

/* --- ports ---------------------------------------------------------------------------------- */

/* Chooses the remedy by the kernel's name of the program that holds a port. */
static const char *
make_way(const char *who)
{
	static const struct {
		const char *name, *remedy;
	} known[] = {
		{"dnsmasq",
			"dnsmasq: bind-interfaces with except-interface=docker0 (or the bridge's "
			"name), then restart it"},
		{"systemd-resolve",
			"resolved.conf: no DNSStubListenerExtra on the bridge's address, then "
			"restart systemd-resolved"},
		{"named", "named.conf: listen-on without the bridge's address, then restart it"},
		{"unbound",
			"unbound.conf: interface: lines without the bridge's address and 0.0.0.0, "
			"then restart it"},
		{"connmand", "connmand --nodnsproxy"},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		if (strncmp(who, known[i].name, strlen(known[i].name)) == 0)
			return known[i].remedy;
	}
	return "keep that program off the bridge's address, or give Edgeway another bridge "
	       "(mesh.interface) or port";
}

/* Checks a port that the agent should have: another program may hold it. */
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
	else if (strstr(who, PORT_HOLDER_UNSEEN) != NULL)
		findings_add(f, "port", VERDICT_NOTE,
			"it may be the agent: run the doctor as root, where its processes are seen",
			"%s %u: %s", protocol, port, who);
	else
		findings_add(f, "port",
			strncmp(who, "edgeway-agent", strlen("edgeway-agent")) == 0 ? VERDICT_OK
										    : VERDICT_BAD,
			make_way(who), "%s %u: %s", protocol, port, who);
}

/* Another process that holds it prevents the next agent from starting. */
static void
check_lock(struct findings *f)
{
	long first = machine_number("/proc/sys/net/ipv4/ip_unprivileged_port_start");
	char who[PORT_HOLDER_TEXT_MAX];

	if (port_holder("udp", LOCK_NETWORK_ADDRESS, LOCK_NETWORK_PORT, who) &&
		strncmp(who, "edgeway-agent", strlen("edgeway-agent")) != 0 &&
		strstr(who, PORT_HOLDER_UNSEEN) == NULL)
		findings_add(f, "lock", VERDICT_BAD,
			"end it: UDP port 251 of 127.9.251.1 tells agents that one serves this "
			"network namespace, and none starts",
			"the agents' lock is held by %s", who);
	if (first >= 0 && first <= LOCK_NETWORK_PORT)
		findings_add(f, "lock", VERDICT_NOTE,
			"sysctl -w net.ipv4.ip_unprivileged_port_start=1024 (more than 251): every "
			"user may take UDP port 251 of 127.9.251.1, and no agent starts then",
			"net.ipv4.ip_unprivileged_port_start is %ld", first);
}

static void
check_ports(struct findings *f, const struct tree_node *state, uint32_t address)
{
	const char *to = strrchr(ctl_text(state, "iptables.to"), ':');
	uint16_t port = to != NULL ? (uint16_t)strtoul(to + 1, NULL, 10) : 0;
	uint16_t first = (uint16_t)ctl_number(state, "lb.listenPort");

	check_port(f, "udp", address, DNS_PORT);
	check_port(f, "tcp", address, DNS_PORT);
	check_port(f, "tcp", address, port);
	if (first != port)
		check_port(f, "tcp", address, first);
}

void
doctor_machine(struct findings *f, const struct tree_node *state, const char *socket)
{
	const char *bridge = bridge_of(state);
	uint32_t address = 0;

	check_interface(f, bridge, &address);
	check_ports(f, state, address);
	check_lock(f);
	check_mtu(f, state, bridge);
	check_kernel(f);
	if (state != NULL)
		doctor_view(f, state, bridge, socket);
}

/* --- clock ---------------------------------------------------------------------------------- */

static void
add_difference(struct buf *out, double ahead_s)
{
	ctl_add_duration(out, ahead_s < 0 ? -ahead_s : ahead_s);
	buf_printf(out, " %s the hub's clock", ahead_s < 0 ? "ahead of" : "behind");
}

/* Heartbeats carry no time: an old comparison is shown with its age. */
static void
add_age(struct buf *out, double seconds)
{
	if (seconds < CLOCK_OLD_S)
		return;
	buf_adds(out, " ");
	ctl_add_duration(out, seconds);
	buf_adds(out, " ago");
}

void
doctor_clock(struct findings *f, const struct tree_node *meta)
{
	time_t now = time(NULL);
	double ahead_s = ctl_number(meta, "hub_clock_ahead_ms") / 1000,
	       far_s = ahead_s < 0 ? -ahead_s : ahead_s;
	bool compared = tree_get(meta, "hub_clock_ahead_ms") != NULL,
	     kept = machine_clock_is_kept();
	auto_buf struct buf text, age;
	struct tm tm;

	buf_init(&text, BUF_UNLIMITED);
	buf_init(&age, BUF_UNLIMITED);
	if (findings_count(f, "clock") > 0) /* the agent has told it */
		return;
	add_age(&age, ctl_number(meta, "hub_clock_compared_ms_ago") / 1000);
	buf_add_utc(&text, now);
	gmtime_r(&now, &tm);
	if (tm.tm_year + 1900 < CLOCK_YEAR_LEAST) {
		findings_add(f, "clock", VERDICT_BAD,
			"set it (chrony, systemd-timesyncd): certificates of now are not valid "
			"then",
			"it is %s here", buf_str(&text));
		return;
	}
	if (compared && far_s > CLOCK_NEAR_S) {
		buf_adds(&text, ", ");
		add_difference(&text, ahead_s);
		buf_adds(&text, buf_str(&age));
		findings_add(f, "clock", VERDICT_NOTE,
			"set the wrong one of the two (chrony, systemd-timesyncd): certificates "
			"are made by the hub's clock, and what pods do with TLS goes by this one",
			"%s", buf_str(&text));
		return;
	}
	findings_add(f, "clock", kept || compared ? VERDICT_OK : VERDICT_NOTE,
		"nothing keeps it true: run chrony or systemd-timesyncd, unless the host of this "
		"machine does",
		"%s%s%s", buf_str(&text), compared ? ", as the hub's" : "", buf_str(&age));
}
