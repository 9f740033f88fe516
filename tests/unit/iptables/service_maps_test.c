/*
 * The maps in the real kernel follow random changes of services: after each the kernel has exactly
 * the elements that we believe it has, no transaction was refused and none had to be repaired. In a
 * network namespace of the test's own; skipped (said aloud) where namespaces are not allowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

/* behind libc's, whose structs they otherwise define again */
#include <libnftnl/common.h>
#include <libnftnl/set.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/conf/tree.h"
#include "base/core/log.h"
#include "base/core/sock.h"
#include "iptables/iptables.h"
#include "iptables/maps/rules.h"
#include "iptables/table/netlink.h"
#include "model/check.h"
#include "model/local_callers.h"
#include "model/view.h"
#include "tests/unit/patience.h"

#define SUBNET 0x09fb0000u
#define ADDRESS 0xac110001u
enum { SERVICES = 12, STEPS = 400 };

struct lab {
	struct loop *loop;
	struct iptables *ipt;
	struct snapshot *snapshot;
	uint64_t seed;
	uint16_t relay; /* carries UDP ports without endpoints; 0: nobody does */
	unsigned relayed; /* ports, over time */
	/* addresses stay then and with the next: there is one service for each, as on a node */
	bool relays;
	bool restricts; /* some services are not for everybody, and pods come and go */
	/* services are called from outside, several by the same address and port */
	bool external;
	unsigned externals, sources; /* elements that were seen, over time */
	bool six; /* mesh.subnet6 is set; addresses of either family everywhere */
	unsigned six6; /* ports of IPv6 that were seen, over time */
	unsigned restricted; /* elements for callers that were seen, over time */
};

static unsigned
draw(struct lab *lab, unsigned below)
{
	lab->seed = lab->seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(lab->seed >> 33) % below;
}

static void
on_address(void *arg, uint32_t address)
{
	(void)arg;
	(void)address;
}

static void
put_endpoints(struct lab *lab, struct buf *json)
{
	unsigned n = draw(lab, 4) == 0 ? draw(lab, 40) : draw(lab, 5);

	for (unsigned i = 0; i < n; i++) {
		buf_printf(json, "%s{%s\"flags\":%d,\"givenIP\":\"10.0.%u.%u\",\"givenPort\":%u",
			i > 0 ? "," : "",
			lab->external && draw(lab, 2) == 0 ? "\"node\":\"n\"," : "",
			draw(lab, 8) > 0 ? 3 : 0, draw(lab, 2), i + 1, 5000 + draw(lab, 2));
		if (lab->six && draw(lab, 4) > 0)
			buf_printf(json, ",\"otherGivenIP\":\"fd10::%u:%u\"", draw(lab, 2), i + 1);
		buf_adds(json, "}");
	}
}

static struct service *
make(struct lab *lab, unsigned i, const char *name)
{
	static const char *const modes[] = {"udp", "tcp", "http"};
	static const char *const rules[] = {"", "", "none", "nodes=*", "namespaces=a",
		"namespaces=a,b; pods=x | nodes=*; namespaces=c"};
	const struct self self = {.node = "n", .site = "", .zone = ""};
	unsigned ports = draw(lab, 4);
	auto_buf struct buf json;
	struct view *v = NULL;
	struct err err = {0};
	struct service *s;

	buf_init(&json, BUF_UNLIMITED);
	buf_printf(&json,
		"{\"ns\":\"default\",\"name\":\"%s\",\"datapath\":\"%s\",\"clusterIP\":\"", name,
		draw(lab, 4) > 0 ? "kernel" : "proxy");
	if (draw(lab, 2) == 0)
		buf_printf(&json, "10.96.0.%u", i + 1);
	if (lab->six && draw(lab, 2) == 0)
		buf_printf(&json, "\",\"clusterIP6\":\"fd96::%u", i + 1);
	if (lab->external)
		buf_printf(&json,
			"\",\"gateway\":%s,\"externalLocal\":%s,\"externalIPs\":[%s],\"x\":\"",
			draw(lab, 3) == 0 ? "true" : "false", draw(lab, 2) == 0 ? "true" : "false",
			draw(lab, 3) == 0 ? "\"198.51.100.1\",\"2001:db8::1\"" : "");
	buf_printf(&json, "\",\"allowFrom\":\"%s\",\"ports\":[",
		lab->restricts ? rules[draw(lab, 6)] : "");
	for (unsigned p = 0; p < ports; p++) {
		buf_printf(&json, "%s{\"port\":%u,\"mode\":\"%s\",\"nodePort\":%u,\"endpoints\":[",
			p > 0 ? "," : "", 80 + p, modes[draw(lab, 3)],
			lab->external && draw(lab, 2) == 0 ? 30000 + draw(lab, 6) : 0);
		put_endpoints(lab, &json);
		buf_adds(&json, "]}");
	}
	buf_adds(&json, "]}");
	if (view_parse(&v, buf_at(&json), buf_len(&json), &err) < 0)
		fail_msg("%s: %s", buf_str(&json), err.text);
	v->lb.affinity_s = draw(lab, 3) == 0 ? 10800 : 0;
	/* addresses wander between services */
	s = service_build(v, &self,
		SUBNET + 1 +
			(i + (lab->relays || lab->restricts || lab->external ? 0 : draw(lab, 2))) %
				SERVICES,
		lab->seed);
	view_free(&v);
	return s;
}

static int
count_elements(const struct nlmsghdr *nlh, void *arg)
{
	struct nftnl_set *s = nftnl_set_alloc();
	struct nftnl_set_elems_iter *at;
	unsigned *n = arg;

	assert_int_equal(nftnl_set_elems_nlmsg_parse(nlh, s), 0);
	at = nftnl_set_elems_iter_create(s);
	while (nftnl_set_elems_iter_next(at) != NULL)
		(*n)++;
	nftnl_set_elems_iter_destroy(at);
	nftnl_set_free(s);
	return MNL_CB_OK;
}

static unsigned
elements_in(uint8_t family, const char *set)
{
	char bytes[512];
	struct nlmsghdr *nlh =
		nftnl_nlmsg_build_hdr(bytes, NFT_MSG_GETSETELEM, family, NLM_F_DUMP, 1);
	auto_nl struct mnl_socket *nl = NULL;
	unsigned n = 0;

	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_TABLE, RULES_TABLE);
	mnl_attr_put_strz(nlh, NFTA_SET_ELEM_LIST_SET, set);
	assert_int_equal(nl_open(&nl, NETLINK_NETFILTER, 0, NULL), 0);
	assert_int_equal(nl_request(nl, nlh, count_elements, &n), 0);
	return n;
}

static unsigned
elements_of(const struct lab *lab, const char *set)
{
	return elements_in(NFPROTO_IPV4, set) + (lab->six ? elements_in(NFPROTO_IPV6, set) : 0);
}

static unsigned
told(const struct tree_node *state, const char *path)
{
	return (unsigned)strtoul(tree_text(tree_path(state, path), "999999"), NULL, 10);
}

static void
check(struct lab *lab)
{
	auto_buf struct buf json;
	const struct tree_node *state;
	struct tree *t = NULL;
	struct err err = {0};

	buf_init(&json, BUF_UNLIMITED);
	iptables_state(lab->ipt, &json, true);
	assert_int_equal(tree_parse(&t, "state", buf_at(&json), buf_len(&json), &err), 0);
	state = tree_document(t, 0);
	assert_int_equal(told(state, "failures"), 0);
	assert_int_equal(told(state, "repairs"), 0);
	assert_int_equal(elements_of(lab, RULES_SERVICES),
		told(state, "kernel.udpPorts") + told(state, "kernel.tcpPorts") -
			told(state, "kernel.restrictedPorts"));
	assert_int_equal(elements_of(lab, RULES_CALLERS), told(state, "kernel.callers"));
	assert_int_equal(elements_of(lab, RULES_HOSTS), told(state, "kernel.portsOfTheNode"));
	lab->six6 += lab->six ? elements_in(NFPROTO_IPV6, RULES_SINGLE) : 0;
	lab->restricted += elements_of(lab, RULES_CALLERS);
	assert_int_equal(elements_of(lab, RULES_SINGLE) + elements_of(lab, RULES_ENDPOINTS),
		told(state, "kernel.slots"));
	assert_int_equal(elements_of(lab, RULES_CLUSTER_IPS), told(state, "kernel.clusterIPs"));
	assert_int_equal(elements_of(lab, RULES_EXTERNAL),
		told(state, "external.kernel") + told(state, "external.proxy"));
	assert_int_equal(elements_of(lab, RULES_SOURCES), told(state, "external.kernel"));
	lab->externals += elements_of(lab, RULES_EXTERNAL);
	lab->sources += elements_of(lab, RULES_SOURCES);
	tree_free(&t);
}

static void
change(struct lab *lab, unsigned i, bool gone)
{
	auto_free char *name = xasprintf("s%u", i);
	const struct change c = {"default", name, gone ? NULL : make(lab, i, name)};
	struct snapshot *next = snapshot_next(lab->snapshot, &c, 1);

	iptables_use(lab->ipt, next);
	snapshot_unref(&lab->snapshot);
	lab->snapshot = next;
}

/* Pods of three namespaces, with and without a label. */
static void
change_callers(struct lab *lab)
{
	struct local_callers *callers;
	auto_buf struct buf json;
	struct snapshot *next;
	const char *comma = "";

	buf_init(&json, BUF_UNLIMITED);
	buf_adds(&json, "{\"pods\":[");
	for (unsigned i = 0; i < 9; i++) {
		if (draw(lab, 3) == 0)
			continue;
		buf_printf(&json,
			"%s{\"ns\":\"%c\",\"name\":\"p\",\"ip\":\"%s%u\",\"labels\":{%s}}", comma,
			(char)('a' + draw(lab, 3)),
			lab->six && draw(lab, 2) == 0 ? "fd17::" : "172.17.0.", i + 2,
			draw(lab, 2) == 0 ? "" : "\"x\":\"y\"");
		comma = ",";
	}
	buf_adds(&json, "]}");
	assert_int_equal(local_callers_parse(&callers, buf_at(&json), buf_len(&json), NULL), 0);
	next = snapshot_with_callers(lab->snapshot, callers);
	iptables_use(lab->ipt, next);
	snapshot_unref(&lab->snapshot);
	lab->snapshot = next;
	check(lab);
}

static uint16_t
relay(void *arg, const struct service *s, const struct service_port *p)
{
	const struct lab *lab = arg;

	(void)s;
	assert_int_equal(p->mode, PORT_UDP);
	return lab->relay;
}

/* What followed from the changes is what follows from all services at once. */
static void
check_external(struct lab *lab)
{
	unsigned before = elements_of(lab, RULES_EXTERNAL),
		 sources = elements_of(lab, RULES_SOURCES);

	iptables_relays(lab->ipt);
	check(lab);
	assert_int_equal(elements_of(lab, RULES_EXTERNAL), before);
	assert_int_equal(elements_of(lab, RULES_SOURCES), sources);
}

/* One address more or less. */
static void
change_addresses(struct lab *lab)
{
	static const char *const texts[] = {"127.0.0.1", "192.0.2.1", "192.0.2.2", "2001:db8::7"};
	struct own_address list[4] = {0};
	struct address_list *own;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (draw(lab, 3) == 0)
			continue;
		list[n].flags = IFF_UP;
		assert_true(ip_parse(texts[i], &list[n++].ip));
	}
	own = address_list_new(list, n);
	iptables_addresses(lab->ipt, own);
	address_list_unref(&own);
	check(lab);
}

/* UDP ports without endpoints come, go elsewhere, and go. */
static void
change_relay(struct lab *lab, uint16_t port)
{
	unsigned without, with;

	lab->relay = 0;
	iptables_relays(lab->ipt);
	check(lab);
	without = elements_of(lab, RULES_SERVICES);
	lab->relay = port;
	iptables_relays(lab->ipt);
	check(lab);
	with = elements_of(lab, RULES_SERVICES);
	assert_true(port != 0 ? with >= without : with == without);
	lab->relayed += with - without;
}

static void
follow(bool relays, bool restricts, bool external, bool six)
{
	struct lab lab = {.seed = 7,
		.snapshot = snapshot_new(true),
		.relays = relays,
		.restricts = restricts,
		.external = external,
		.six = six};
	const struct iptables_config config = {.interface = "lo",
		.subnet = SUBNET,
		.mask = 0xffff0000,
		.port = 40001,
		.dns_port = 53,
		.mark = 1,
		.catch = IPTABLES_CATCH_ALWAYS,
		.node_ports = IPTABLES_CATCH_ALWAYS};
	struct iptables_config with_loop = config;
	struct err err = {0};

	assert_int_equal(loop_new(&lab.loop, NULL), 0);
	with_loop.loop = lab.loop;
	if (six)
		assert_int_equal(fake6_parse(&with_loop.subnet6, "fd09:251::/64", &err), 0);
	with_loop.relay = relay;
	with_loop.relay_arg = &lab;
	assert_int_equal(iptables_open(&lab.ipt, &with_loop, on_address, NULL, &err), 0);
	for (int i = 0; i < 5; i++)
		loop_turn(lab.loop);
	change(&lab, 1, false); /* before there is a table */
	assert_int_equal(iptables_install(lab.ipt, ADDRESS, &err), 0);
	for (unsigned i = 0; i < STEPS; i++) {
		change(&lab, draw(&lab, SERVICES), draw(&lab, 5) == 0);
		check(&lab);
		if (restricts && draw(&lab, 4) == 0)
			change_callers(&lab);
		if (external && i % 20 == 5)
			change_addresses(&lab);
		if (external)
			check_external(&lab);
		if (relays && i % 20 == 9)
			change_relay(&lab, (uint16_t)(draw(&lab, 3) * 30000));
		if (i % 100 != 99)
			continue;
		/* the table anew, with all that is in it */
		iptables_use_port(lab.ipt, (uint16_t)(40001 + i));
		assert_int_equal(iptables_install(lab.ipt, ADDRESS, &err), 0);
	}
	assert_true(!relays || lab.relayed > 0);
	assert_true((lab.restricted > 0) == restricts);
	assert_true((lab.six6 > 0) == six);
	assert_true((lab.externals > lab.sources && lab.sources > 0) == external);
	for (unsigned i = 0; i < SERVICES; i++)
		change(&lab, i, true);
	check(&lab);
	assert_int_equal(elements_of(&lab, RULES_SINGLE) + elements_of(&lab, RULES_ENDPOINTS), 0);
	assert_int_equal(iptables_remove(lab.ipt, &err), 0);
	iptables_close(&lab.ipt);
	snapshot_unref(&lab.snapshot);
	loop_free(&lab.loop);
}

static void
kernel_follows_random_changes(void **state)
{
	(void)state;
	follow(false, false, false, false);
}

static void
kernel_knows_who_may_call(void **state)
{
	(void)state;
	follow(false, true, false, false);
}

static void
kernel_leads_to_relays(void **state)
{
	(void)state;
	follow(true, false, false, false);
}

static void
kernel_follows_both_families(void **state)
{
	(void)state;
	follow(false, false, false, true);
	follow(false, true, false, true);
}

static void
kernel_knows_calls_from_outside(void **state)
{
	(void)state;
	follow(false, false, true, false);
	follow(false, true, true, true);
}

/* --- single services ------------------------------------------------------------------------ */

static void
lab_begin(struct lab *lab)
{
	struct iptables_config config = {.interface = "lo",
		.subnet = SUBNET,
		.mask = 0xffff0000,
		.port = 40001,
		.dns_port = 53,
		.mark = 1,
		.catch = IPTABLES_CATCH_ALWAYS,
		.node_ports = IPTABLES_CATCH_ALWAYS};
	struct err err = {0};

	*lab = (struct lab){.snapshot = snapshot_new(true)};
	assert_int_equal(loop_new(&lab->loop, NULL), 0);
	config.loop = lab->loop;
	assert_int_equal(iptables_open(&lab->ipt, &config, on_address, NULL, &err), 0);
	for (int i = 0; i < 5; i++)
		loop_turn(lab->loop);
	assert_int_equal(iptables_install(lab->ipt, ADDRESS, &err), 0);
}

static void
lab_end(struct lab *lab)
{
	struct err err = {0};

	assert_int_equal(iptables_remove(lab->ipt, &err), 0);
	iptables_close(&lab->ipt);
	snapshot_unref(&lab->snapshot);
	loop_free(&lab->loop);
}

static void
lab_put(struct lab *lab, const char *name, uint32_t fake_ip, const char *rest)
{
	const struct self self = {.node = "n", .site = "", .zone = ""};
	auto_free char *text = xasprintf("{\"ns\":\"default\",\"name\":\"%s\",%s}", name, rest);
	struct change c = {"default", name, NULL};
	struct view *v = NULL;
	struct snapshot *next;
	struct err err = {0};

	if (view_parse(&v, text, strlen(text), &err) < 0)
		fail_msg("%s: %s", text, err.text);
	c.service = service_build(v, &self, fake_ip, 1);
	view_free(&v);
	next = snapshot_next(lab->snapshot, &c, 1);
	iptables_use(lab->ipt, next);
	snapshot_unref(&lab->snapshot);
	lab->snapshot = next;
	check(lab);
}

static void
lab_addresses(struct lab *lab, size_t n)
{
	struct own_address *own = xcalloc(n, sizeof *own);
	struct address_list *list;

	for (size_t i = 0; i < n; i++)
		own[i] = (struct own_address){
			.flags = IFF_UP, .ip = ip_of_v4(0xc0000201 + (uint32_t)i)};
	list = address_list_new(own, n);
	iptables_addresses(lab->ipt, list);
	address_list_unref(&list);
	free(own);
}

/* Of externalTrafficPolicy: Local. What the proxy is to put into TLS never goes past it, not even
 * for the caller's address. A leaving endpoint of this node serves on while it has no other. */
static void
kernel_serves_local_calls(void **state)
{
#define AT(node, ip, flags)                                                                        \
	"{\"node\":\"" node "\",\"flags\":" flags ",\"givenIP\":\"" ip "\",\"givenPort\":5000}"
	static const struct {
		const char *endpoints;
		unsigned external, sources;
	} cases[] = {
		{"\"endpoints\":[" AT("n", "10.0.0.1", "3"), 1, 1},
		{"\"tls\":1,\"tlsEndpoints\":[" AT("n", "10.0.0.1", "3"), 1, 0},
		{"\"endpoints\":[" AT("a", "10.0.0.2", "3"), 0, 0},
		{"\"endpoints\":[" AT("n", "10.0.0.1", "6") "," AT("a", "10.0.0.2", "3"), 1, 1},
	};
	struct lab lab;

	(void)state;
	lab_begin(&lab);
	lab_addresses(&lab, 1);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *rest = xasprintf(
			"\"datapath\":\"kernel\",\"externalLocal\":true,"
			"\"tls\":[{\"policy\":\"default/p\",\"host\":\"a.example\"}],"
			"\"ports\":[{\"port\":80,\"mode\":\"tcp\",\"nodePort\":30000,%s]}]",
			cases[i].endpoints);

		lab_put(&lab, "s", SUBNET + 1, rest);
		assert_int_equal(elements_of(&lab, RULES_EXTERNAL), cases[i].external);
		assert_int_equal(elements_of(&lab, RULES_SOURCES), cases[i].sources);
	}
	lab_end(&lab);
#undef AT
}

/* Returns whether the table is the one from before. */
static bool
lab_install(struct lab *lab, uint16_t port, uint32_t address)
{
	struct err err = {0};

	assert_int_equal(system("nft add chain ip edgeway witness"), 0);
	iptables_use_port(lab->ipt, port);
	assert_int_equal(iptables_install(lab->ipt, address, &err), 0);
	return system("nft list chain ip edgeway witness >/dev/null 2>&1") == 0;
}

/* Who serves the mesh tries it all again each second while a later step fails. */
static void
an_install_again_keeps_the_table(void **state)
{
	struct lab lab;
	struct err err = {0};

	(void)state;
	assert_int_equal(system("ip addr add 172.17.0.2/32 dev lo"), 0);
	lab_begin(&lab);
	assert_int_equal(system("ip route del 9.251.0.0/16 dev lo"), 0);
	assert_true(lab_install(&lab, 40001, ADDRESS));
	assert_int_equal(system("ip route show 9.251.0.0/16 | grep -q ' lo '"), 0);
	assert_false(lab_install(&lab, 40002, ADDRESS));
	assert_false(lab_install(&lab, 40002, ADDRESS + 1));
	assert_true(lab_install(&lab, 40002, ADDRESS + 1));
	assert_int_equal(iptables_drain(lab.ipt, &err), 0);
	assert_false(lab_install(&lab, 40002, ADDRESS + 1));
	lab_end(&lab);
	assert_int_equal(system("ip addr del 172.17.0.2/32 dev lo"), 0);
}

/* A node with many bridges. */
static void
each_address_has_the_node_ports(void **state)
{
	struct lab lab;

	(void)state;
	lab_begin(&lab);
	lab_put(&lab, "s", SUBNET + 1,
		"\"ports\":[{\"port\":80,\"mode\":\"tcp\",\"nodePort\":30000}]");
	for (unsigned n = 300; n > 0; n /= 4) {
		lab_addresses(&lab, n);
		check(&lab);
		assert_int_equal(elements_of(&lab, RULES_EXTERNAL), n);
	}
	lab_end(&lab);
}

static unsigned
flows_ended(const struct lab *lab)
{
	auto_buf struct buf json;
	struct tree *t = NULL;
	struct err err = {0};
	unsigned n;

	buf_init(&json, BUF_UNLIMITED);
	iptables_state(lab->ipt, &json, true);
	assert_int_equal(tree_parse(&t, "state", buf_at(&json), buf_len(&json), &err), 0);
	n = told(tree_document(t, 0), "kernel.flowsEnded");
	tree_free(&t);
	return n;
}

/* From ADDRESS. */
static void
say(uint32_t fake_ip)
{
	const struct addr from = addr_ipv4(ADDRESS, 0), to = addr_ipv4(fake_ip, 80);
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, &from.sa, sizeof from.in), 0);
	assert_int_equal(sendto(fd, "x", 1, 0, &to.sa, sizeof to.in), 1);
}

/* Of a service that the node's processes may call, but not everybody. The flow to the other service
 * ends with the same look at all flows. */
static void
flows_of_the_node_stay(void **state)
{
#define UDP "\"ports\":[{\"port\":80,\"mode\":\"udp\",\"endpoints\":[" AT_ONE "]}]"
#define AT_ONE "{\"flags\":3,\"givenIP\":\"10.0.0.1\",\"givenPort\":5000}"
	const struct addr server = addr_ipv4(0x0a000001, 5000);
	auto_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct lab lab;
	char heard;

	(void)state;
	assert_int_equal(system("ip addr add 10.0.0.1/32 dev lo"), 0);
	assert_int_equal(bind(fd, &server.sa, sizeof server.in), 0);
	lab_begin(&lab);
	lab_put(&lab, "s", SUBNET + 1, "\"allowFrom\":\"nodes=*\"," UDP);
	assert_int_equal(elements_of(&lab, RULES_HOSTS), 1);
	lab_put(&lab, "t", SUBNET + 2, UDP);
	for (unsigned i = 1; i <= 2; i++) {
		say(SUBNET + i);
		assert_int_equal(recv(fd, &heard, 1, 0), 1);
	}
	lab_put(&lab, "t", SUBNET + 2, "\"ports\":[]");
	patience_until(patience_turn(lab.loop), flows_ended(&lab) > 0);
	assert_int_equal(flows_ended(&lab), 1);
	lab_put(&lab, "s", SUBNET + 1, "\"allowFrom\":\"namespaces=a\"," UDP);
	patience_until(patience_turn(lab.loop), flows_ended(&lab) > 1);
	lab_end(&lab);
	assert_int_equal(system("ip addr del 10.0.0.1/32 dev lo"), 0);
#undef AT_ONE
#undef UDP
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_follows_random_changes),
		cmocka_unit_test(kernel_leads_to_relays),
		cmocka_unit_test(kernel_knows_who_may_call),
		cmocka_unit_test(kernel_follows_both_families),
		cmocka_unit_test(kernel_knows_calls_from_outside),
		cmocka_unit_test(kernel_serves_local_calls),
		cmocka_unit_test(each_address_has_the_node_ports),
		cmocka_unit_test(an_install_again_keeps_the_table),
		cmocka_unit_test(flows_of_the_node_stay),
	};

	if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0) {
		puts("1..0 # SKIP needs root and network namespaces");
		return 0;
	}
	if (system("ip link set lo up && ip addr add 172.17.0.1/32 dev lo") != 0)
		return 1;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
