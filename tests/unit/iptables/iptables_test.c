/*
 * The spine against the real kernel, in a network namespace of the test's own: table, route,
 * interface (by ip(8)), repair, errors. Skipped (said aloud) where namespaces are not allowed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/rule.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <sched.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "iptables/iptables.h"
#include "iptables/maps/rules.h"
#include "iptables/table/netlink.h"
#include "tests/fake/clock.h"
#include "tests/unit/patience.h"

#define BRIDGE_ADDRESS 0xac110001u /* 172.17.0.1 */
#define OWN_ADDRESS 0xa9fe6010u /* 169.254.96.16 */
#define SUBNET 0x09fb0000u
#define MASK 0xffff0000u
enum { PORT = 40001, DNS_PORT = 53, MARK = 0x6564 };

struct lab {
	struct loop *loop;
	struct iptables *ipt;
	uint32_t address;
	unsigned calls;
	unsigned changes6; /* calls of changed6 */
};

/* --- a kernel that refuses IPv6 ------------------------------------------------------------- */

static struct {
	int rc; /* what transactions with a table of IPv6 get; 0: the kernel's own answer */
	unsigned tried;
} six;

int __real_nl_batch(struct mnl_socket *nl, const void *bytes, size_t len, unsigned acks);
int __wrap_nl_batch(struct mnl_socket *nl, const void *bytes, size_t len, unsigned acks);

int
__wrap_nl_batch(struct mnl_socket *nl, const void *bytes, size_t len, unsigned acks)
{
	const struct nlmsghdr *nlh = bytes;
	int left = (int)len;

	for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		const struct nfgenmsg *gen = mnl_nlmsg_get_payload(nlh);

		if (gen->nfgen_family != NFPROTO_IPV6)
			continue;
		six.tried++;
		return six.rc != 0 ? six.rc : __real_nl_batch(nl, bytes, len, acks);
	}
	return __real_nl_batch(nl, bytes, len, acks);
}

static void
sh(const char *command)
{
	int rc = system(command);

	if (rc != 0)
		fail_msg("%s: status %d", command, rc);
}

static void
on_address(void *arg, uint32_t address)
{
	struct lab *lab = arg;

	lab->address = address;
	lab->calls++;
}

typedef bool condition_fn(struct lab *lab, uintptr_t want);

/* Turns the loop until the condition holds. */
static void
wait_until(struct lab *lab, condition_fn *holds, uintptr_t want)
{
	patience_until(patience_turn(lab->loop), holds(lab, want));
}

static bool
address_is(struct lab *lab, uintptr_t want)
{
	return lab->calls > 0 && lab->address == want;
}

/* --- what the kernel has -------------------------------------------------------------------- */

static int
count_rule(const struct nlmsghdr *nlh, void *arg)
{
	struct nftnl_rule *r = nftnl_rule_alloc();
	unsigned *n = arg;

	assert_int_equal(nftnl_rule_nlmsg_parse(nlh, r), 0);
	*n += strcmp(nftnl_rule_get_str(r, NFTNL_RULE_TABLE), RULES_TABLE) == 0;
	nftnl_rule_free(r);
	return MNL_CB_OK;
}

static int
count_chain(const struct nlmsghdr *nlh, void *arg)
{
	struct nftnl_chain *c = nftnl_chain_alloc();
	unsigned *n = arg;
	int32_t at;
	bool post;

	assert_int_equal(nftnl_chain_nlmsg_parse(nlh, c), 0);
	if (strcmp(nftnl_chain_get_str(c, NFTNL_CHAIN_TABLE), RULES_TABLE) == 0 &&
		nftnl_chain_is_set(c, NFTNL_CHAIN_TYPE) &&
		strcmp(nftnl_chain_get_str(c, NFTNL_CHAIN_TYPE), "nat") == 0) {
		(*n)++;
		post = nftnl_chain_get_u32(c, NFTNL_CHAIN_HOOKNUM) == NF_INET_POST_ROUTING;
		at = nftnl_chain_get_s32(c, NFTNL_CHAIN_PRIO);
		assert_true(at == (post ? 95 : -105) || (!post && at == RULES_EXTERNAL_PRIORITY));
	}
	nftnl_chain_free(c);
	return MNL_CB_OK;
}

static unsigned
count_of(uint16_t family, uint16_t type, mnl_cb_t fn)
{
	char bytes[256];
	struct nlmsghdr *nlh = nftnl_nlmsg_build_hdr(bytes, type, family, NLM_F_DUMP, 1);
	auto_nl struct mnl_socket *nl = NULL;
	unsigned n = 0;

	assert_int_equal(nl_open(&nl, NETLINK_NETFILTER, 0, NULL), 0);
	assert_int_equal(nl_request(nl, nlh, fn, &n), 0);
	return n;
}

static unsigned
count(uint16_t type, mnl_cb_t fn)
{
	return count_of(NFPROTO_IPV4, type, fn);
}

static unsigned
rules_in_kernel(void)
{
	return count(NFT_MSG_GETRULE, count_rule);
}

/* Of a table that is whole: known after the first install. */
static unsigned
rules_wanted(void)
{
	struct rules r = {
		.interfaces = (const char *const[]){"docker0", "br-*", NULL}, .mark = MARK};
	auto_buf struct buf bytes;
	const struct nlmsghdr *nlh;
	struct batch b;
	uint32_t seq = 1;
	unsigned n = 0;
	int left;

	buf_init(&bytes, BUF_UNLIMITED);
	batch_open(&b, RULES_TABLE, &bytes, &seq);
	rules_install(&b, &r);
	batch_close(&b);
	nlh = (const void *)buf_at(&bytes);
	left = (int)buf_len(&bytes);
	for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left))
		n += nlh->nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE);
	return n;
}

static bool
rules_are(struct lab *lab, uintptr_t want)
{
	(void)lab;
	return rules_in_kernel() == want;
}

static unsigned
lines_of(const char *command)
{
	FILE *f = popen(command, "r");
	char line[512];
	unsigned n = 0;

	assert_non_null(f);
	while (fgets(line, sizeof line, f) != NULL)
		n++;
	pclose(f);
	return n;
}

static bool
routes_are(struct lab *lab, uintptr_t want)
{
	(void)lab;
	return lines_of("ip route show 9.251.0.0/16") == want;
}

static bool
no_carrier(struct lab *lab, uintptr_t want)
{
	(void)lab;
	return lines_of("ip route show 9.251.0.0/16 | grep linkdown") == want;
}

/* --- fixtures ------------------------------------------------------------------------------- */

static int
open_lab(struct lab *lab, const char *interface, struct err *err)
{
	static const char *const more[] = {"br-*", NULL};
	struct iptables_config config = {.loop = lab->loop,
		.interface = interface,
		.interfaces = more,
		.subnet = SUBNET,
		.mask = MASK,
		.port = PORT,
		.dns_port = DNS_PORT,
		.mark = MARK};

	return iptables_open(&lab->ipt, &config, on_address, lab, err);
}

static int
setup(void **state)
{
	struct lab *lab = xcalloc(1, sizeof *lab);

	*state = lab;
	if (unshare(CLONE_NEWNET) < 0)
		return -1;
	sh("ip link set lo up");
	assert_int_equal(loop_new(&lab->loop, NULL), 0);
	assert_int_equal(open_lab(lab, "docker0", NULL), 0);
	return 0;
}

static int
teardown(void **state)
{
	struct lab *lab = *state;

	iptables_close(&lab->ipt);
	loop_free(&lab->loop);
	free(lab);
	return 0;
}

static void
make_bridge(struct lab *lab)
{
	sh("ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0 && ip link "
	   "set docker0 up");
	wait_until(lab, address_is, BRIDGE_ADDRESS);
}

/* With an interface of its own in docker0's place. */
static void
open_own(struct lab *lab, bool used)
{
	const struct iptables_config config = {.loop = lab->loop,
		.interface = "docker0",
		.own = IPTABLES_OWN_INSTEAD,
		.own_address = OWN_ADDRESS,
		.own_used = used,
		.subnet = SUBNET,
		.mask = MASK,
		.port = PORT,
		.dns_port = DNS_PORT};

	iptables_close(&lab->ipt);
	assert_int_equal(iptables_open(&lab->ipt, &config, on_address, lab, NULL), 0);
}

static void
on_changed6(void *arg)
{
	((struct lab *)arg)->changes6++;
}

/* With mesh.subnet6. */
static void
open_six(struct lab *lab)
{
	static const char *const more[] = {"br-*", NULL};
	struct iptables_config config = {.loop = lab->loop,
		.interface = "docker0",
		.interfaces = more,
		.subnet = SUBNET,
		.mask = MASK,
		.port = PORT,
		.dns_port = DNS_PORT,
		.changed6 = on_changed6};

	assert_int_equal(fake6_parse(&config.subnet6, "fd09:251::/64", NULL), 0);
	iptables_close(&lab->ipt);
	lab->calls = 0;
	assert_int_equal(iptables_open(&lab->ipt, &config, on_address, lab, NULL), 0);
	make_bridge(lab);
	six.tried = 0;
}

static bool
serves6(struct lab *lab, uintptr_t want)
{
	return (iptables_trouble6(lab->ipt)[0] == '\0') == want;
}

/* --- tests ---------------------------------------------------------------------------------- */

static void
follows_the_interface(void **state)
{
	struct lab *lab = *state;

	wait_until(lab, address_is, 0);
	assert_int_equal(lab->calls, 1);
	make_bridge(lab);
	sh("ip link set docker0 down");
	wait_until(lab, address_is, 0);
	sh("ip link set docker0 up");
	wait_until(lab, address_is, BRIDGE_ADDRESS);
	sh("ip addr add 172.18.0.1/16 dev docker0 && ip addr del 172.17.0.1/16 dev docker0");
	wait_until(lab, address_is, 0xac120001);
	sh("ip link del docker0");
	wait_until(lab, address_is, 0);
}

static void
own_interface_waits_for_docker0(void **state)
{
	struct lab *lab = *state;
	uint64_t begin = mono_ms();

	open_own(lab, false);
	wait_until(lab, address_is, OWN_ADDRESS);
	assert_true(mono_ms() - begin >= OWN_INTERFACE_MS);
}

static void
own_interface_that_was_used_is_made_at_once(void **state)
{
	struct lab *lab = *state;
	uint64_t begin = mono_ms(); /* the test's own clock */

	open_own(lab, true);
	wait_until(lab, address_is, OWN_ADDRESS);
	assert_true(mono_ms() - begin < OWN_INTERFACE_MS);
	make_bridge(lab);
	assert_int_equal(iptables_remove(lab->ipt, NULL), 0);
}

static void
installs_and_removes(void **state)
{
	struct lab *lab = *state;
	struct err err;

	make_bridge(lab);
	assert_int_equal(iptables_remove(lab->ipt, &err), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), 0);
		assert_true(iptables_installed(lab->ipt));
		assert_int_equal(rules_in_kernel(), rules_wanted());
		assert_int_equal(count(NFT_MSG_GETCHAIN, count_chain), 5);
		assert_int_equal(lines_of("ip route show 9.251.0.0/16 dev docker0 | grep 'scope "
					  "link src 172.17.0.1'"),
			1);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(iptables_remove(lab->ipt, &err), 0);
		assert_false(iptables_installed(lab->ipt));
		assert_int_equal(rules_in_kernel(), 0);
		assert_int_equal(count(NFT_MSG_GETCHAIN, count_chain), 0);
		assert_true(routes_are(lab, 0));
	}
}

/* Whatever the reason was: IPv4 is served, and IPv6 is tried again. */
static void
ipv6_that_fails_once_is_tried_again(void **state)
{
	struct lab *lab = *state;
	uint64_t begin;

	open_six(lab);
	six.rc = -ENOBUFS;
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, NULL), 0);
	assert_non_null(strstr(iptables_trouble6(lab->ipt), "cannot install"));
	assert_int_equal(rules_in_kernel(), rules_wanted());
	assert_int_equal(count_of(NFPROTO_IPV6, NFT_MSG_GETRULE, count_rule), 0);
	assert_int_equal(lab->changes6, 1);
	six.rc = 0;
	begin = mono_ms();
	wait_until(lab, serves6, true);
	assert_true(mono_ms() - begin < 10000);
	assert_int_equal(lab->changes6, 2);
	assert_true(count_of(NFPROTO_IPV6, NFT_MSG_GETRULE, count_rule) > 0);
}

/* Only once a minute: the whole table is made anew for it. */
static void
a_kernel_without_ipv6_is_asked_seldom(void **state)
{
	struct lab *lab = *state;
	uint64_t begin;

	open_six(lab);
	six.rc = -EAFNOSUPPORT;
	begin = mono_ms();
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, NULL), 0);
	assert_non_null(strstr(iptables_trouble6(lab->ipt), "needs nf_tables with nat for IPv6"));
	assert_int_equal(six.tried, 1);
	clock_pass(50 * 1000 * 1000);
	for (unsigned i = 0; i < 10; i++)
		patience_turn(lab->loop);
	assert_int_equal(six.tried, 1);
	six.rc = 0;
	wait_until(lab, serves6, true);
	assert_true(mono_ms() - begin >= 60000);
	assert_int_equal(six.tried, 2);
}

/* A table that leads to an address that is gone would be worse than none. */
static void
without_its_address_ipv6_has_no_table(void **state)
{
	struct lab *lab = *state;

	open_six(lab);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, NULL), 0);
	assert_true(serves6(lab, true));
	sh("ip link add lan type bridge && ip addr add fd09:251::5/64 dev lan nodad && "
	   "ip link set lan up && ip addr del fd09:251::1:0:1/64 dev edgeway0");
	wait_until(lab, serves6, false);
	assert_int_equal(count_of(NFPROTO_IPV6, NFT_MSG_GETRULE, count_rule), 0);
	assert_int_equal(rules_in_kernel(), rules_wanted());
	sh("ip link del lan");
	wait_until(lab, serves6, true);
	assert_true(count_of(NFPROTO_IPV6, NFT_MSG_GETRULE, count_rule) > 0);
}

static void
replaces_what_an_earlier_run_left(void **state)
{
	struct lab *lab = *state;
	struct err err;

	make_bridge(lab);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), 0);
	iptables_close(&lab->ipt);
	assert_int_equal(rules_in_kernel(), rules_wanted());
	sh("ip addr add 172.18.0.1/16 dev docker0");
	assert_int_equal(open_lab(lab, "docker0", &err), 0);
	lab->calls = 0;
	wait_until(lab, address_is, BRIDGE_ADDRESS);
	assert_int_equal(iptables_install(lab->ipt, 0xac120001, &err), 0);
	assert_int_equal(rules_in_kernel(), rules_wanted());
	assert_int_equal(lines_of("ip route show 9.251.0.0/16 | grep 172.18.0.1"), 1);
	assert_true(routes_are(lab, 1));
	assert_int_equal(iptables_remove(lab->ipt, &err), 0);
	assert_int_equal(rules_in_kernel(), 0);
}

/* Connects as a process of the host does, and asks where the connection was meant to go. */
static void
try_connection(uint32_t mark, unsigned flags, bool want)
{
	struct addr listen_at = addr_ipv4(BRIDGE_ADDRESS, PORT),
		    fake = addr_ipv4(SUBNET + 0x0105, 80);
	struct sockaddr_in origin;
	socklen_t len = sizeof origin;
	auto_fd int listener = -1, client = -1, served = -1;
	struct err err;

	assert_int_equal(sock_listen(&listen_at, flags, &listener, &err), 0);
	assert_int_equal(sock_connect(&fake, mark, &client), 0);
	for (int i = 0; i < 100 && served < 0; i++) {
		served = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		usleep(served < 0 ? 1000 : 0);
	}
	assert_int_equal(served >= 0, want);
	if (!want)
		return;
	assert_int_equal(getsockopt(served, IPPROTO_IP, SO_ORIGINAL_DST, &origin, &len), 0);
	assert_int_equal(ntohl(origin.sin_addr.s_addr), SUBNET + 0x0105);
	assert_int_equal(ntohs(origin.sin_port), 80);
}

/* docker0 has no carrier here, as when no container runs: its only port is down. */
static void
host_processes_reach_the_range(void **state)
{
	struct lab *lab = *state;
	struct addr fake = addr_ipv4(SUBNET + 0x0105, 80);
	auto_fd int client = -1;
	struct err err;

	make_bridge(lab);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), 0);
	sh("ip link add pod type veth peer name eth0 && ip link set pod master docker0");
	wait_until(lab, no_carrier, 1);
	try_connection(0, SOCK_TRANSPARENT, true);
	try_connection(0, 0,
		false); /* somebody else's: an agent was killed, and another user has its port */
	try_connection(MARK, SOCK_TRANSPARENT, false);
	assert_int_equal(iptables_remove(lab->ipt, &err), 0);
	assert_int_equal(sock_connect(&fake, 0, &client), -ENETUNREACH);
}

static void
delete_as_another_program(void)
{
	auto_nl struct mnl_socket *nl = NULL;
	auto_buf struct buf bytes;
	uint32_t seq = 1;
	struct batch b;

	buf_init(&bytes, BUF_UNLIMITED);
	batch_open(&b, RULES_TABLE, &bytes, &seq);
	rules_remove(&b);
	batch_close(&b);
	assert_int_equal(nl_open(&nl, NETLINK_NETFILTER, 0, NULL), 0);
	assert_int_equal(nl_batch(nl, buf_at(&bytes), buf_len(&bytes), b.acks), 0);
	assert_int_equal(rules_in_kernel(), 0);
}

static void
repairs_what_others_delete(void **state)
{
	struct lab *lab = *state;
	struct err err;

	make_bridge(lab);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), 0);
	loop_turn(lab->loop); /* our own messages are no damage */
	for (int i = 0; i < 3; i++) {
		auto_buf struct buf told;

		delete_as_another_program();
		wait_until(lab, rules_are, rules_wanted());
		buf_init(&told, BUF_UNLIMITED);
		iptables_state(lab->ipt, &told, true);
		assert_non_null(strstr(buf_str(&told), "\"installed\":true"));
	}
	assert_int_equal(iptables_remove(lab->ipt, &err), 0);
	delete_as_another_program();
	for (int i = 0; i < 50; i++) {
		loop_turn(lab->loop);
		usleep(1000);
	}
	assert_int_equal(rules_in_kernel(), 0); /* what we removed ourselves stays away */
}

/* --- capture -------------------------------------------------------------------------------- */

static unsigned
captured(const char *address)
{
	auto_free char *command =
		xasprintf("nft list set ip edgeway upstreams | grep -c '%s timeout 10s'", address);
	FILE *f = popen(command, "r");
	unsigned n = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%u", &n), 1);
	pclose(f);
	return n;
}

static void
captures_upstreams(void **state)
{
	const struct in6_addr first[] = {ip_of_v4(0xc0000235), ip_of_v4(0xc0000235)};
	const struct in6_addr then[] = {ip_of_v4(0xc0000236)};
	struct lab *lab = *state;
	auto_buf struct buf told;
	struct err err;

	make_bridge(lab);
	assert_int_equal(iptables_capture(lab->ipt, first, 2, &err), -ENOTCONN);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), 0);
	assert_int_equal(iptables_capture(lab->ipt, first, 2, &err), 0);
	assert_int_equal(captured("192.0.2.53"), 1);
	assert_int_equal(iptables_capture(lab->ipt, first, 2, &err), 0); /* renewed */
	assert_int_equal(captured("192.0.2.53"), 1);
	buf_init(&told, BUF_UNLIMITED);
	iptables_state(lab->ipt, &told, true);
	assert_non_null(strstr(buf_str(&told), "\"captured\":{\"upstreams\":[\"192.0.2.53\"]"));
	assert_int_equal(iptables_capture(lab->ipt, then, 1, &err), 0);
	assert_int_equal(captured("192.0.2.53"), 0);
	assert_int_equal(captured("192.0.2.54"), 1);
	assert_int_equal(iptables_capture(lab->ipt, NULL, 0, &err), 0);
	assert_int_equal(captured("192.0.2.54"), 0);
}

/* With what the elements had left to live. */
static void
capture_survives_a_repair(void **state)
{
	const struct in6_addr upstream[] = {ip_of_v4(0xc0000235)};
	struct lab *lab = *state;
	struct err err;

	make_bridge(lab);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), 0);
	assert_int_equal(iptables_capture(lab->ipt, upstream, 1, &err), 0);
	loop_turn(lab->loop);
	delete_as_another_program();
	wait_until(lab, rules_are, rules_wanted());
	assert_int_equal(
		lines_of("nft list set ip edgeway upstreams | grep '192.0.2.53 timeout'"), 1);
}

/* The kernel drops routes without a message when a link goes down. */
static void
route_returns_after_down_and_up(void **state)
{
	struct lab *lab = *state;
	struct err err;

	make_bridge(lab);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), 0);
	sh("ip link set docker0 down && ip link set docker0 up");
	assert_true(routes_are(lab, 0));
	wait_until(lab, routes_are, 1);
	assert_true(address_is(lab, BRIDGE_ADDRESS));
}

static void
says_what_is_missing(void **state)
{
	struct lab *lab = *state;
	struct err err;

	wait_until(lab, address_is, 0);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), -ENODEV);
	assert_non_null(strstr(err.text, "docker0"));
	iptables_close(&lab->ipt);
	assert_int_equal(open_lab(lab, "br-*", &err), -EINVAL);
	assert_non_null(strstr(err.text, "br-*"));
	assert_int_equal(open_lab(lab, "a-name-that-is-too-long", &err), -EINVAL);
}

static unsigned
reserved(const char *list)
{
	auto_free char *text = NULL;

	assert_int_equal(
		file_read("/proc/sys/net/ipv4/ip_local_reserved_ports", 1 << 20, &text, NULL), 0);
	return strcmp(text, list) == 0;
}

static bool
port_is_reserved(struct lab *lab, uintptr_t want)
{
	(void)lab;
	return reserved("40001\n") == (want != 0);
}

static void
reserves_the_port(void **state)
{
	struct lab *lab = *state;
	struct err err;

	assert_true(reserved("40001\n"));
	iptables_close(&lab->ipt);
	assert_true(reserved("\n"));
	sh("echo 8080,9000-9002 > /proc/sys/net/ipv4/ip_local_reserved_ports");
	assert_int_equal(open_lab(lab, "docker0", &err), 0);
	assert_true(reserved("8080,9000-9002,40001\n"));
	iptables_close(&lab->ipt);
	assert_true(reserved("8080,9000-9002\n"));
	sh("echo 40001 > /proc/sys/net/ipv4/ip_local_reserved_ports");
	assert_int_equal(open_lab(lab, "docker0", &err), 0);
	iptables_close(&lab->ipt);
	assert_true(reserved("40001\n"));
	/* Whoever had it before lets go of it. */
	assert_int_equal(open_lab(lab, "docker0", &err), 0);
	make_bridge(lab);
	sh("echo > /proc/sys/net/ipv4/ip_local_reserved_ports");
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), 0);
	wait_until(lab, port_is_reserved, 1);
	iptables_close(&lab->ipt);
	assert_true(reserved("\n"));
}

static void
what_is_put_back_is_handed_on(void **state)
{
	static const char *const bad[] = {"", "port=40001 hairpin=", "port=40001\n",
		"port=70000 hairpin=\n", "port=40001 hairpin=0\n", "port=40001 hairpin=7 8\n",
		"port=40001 hairpin=99999999999\n", "port=40001 hairpin=7,"};
	struct lab *lab = *state;
	struct buf line;
	struct err err;

	sh("echo > /proc/sys/net/ipv4/ip_local_reserved_ports");
	buf_init(&line, BUF_UNLIMITED);
	iptables_close(&lab->ipt);
	assert_int_equal(open_lab(lab, "docker0", &err), 0);
	assert_true(reserved("40001\n"));
	assert_int_equal(iptables_inherit(lab->ipt, "port=40001 hairpin=7,12\n"), 0);
	iptables_leave(&lab->ipt, &line);
	assert_string_equal(buf_str(&line), "port=40001 hairpin=7,12\n");
	assert_true(reserved("40001\n"));
	/* Another one, which dies or ends: it has nothing to give back. */
	assert_int_equal(open_lab(lab, "docker0", &err), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(iptables_inherit(lab->ipt, bad[i]), -EINVAL);
	iptables_undo(lab->ipt);
	iptables_close(&lab->ipt);
	assert_true(reserved("40001\n"));
	/* The first one goes on. */
	assert_int_equal(open_lab(lab, "docker0", &err), 0);
	assert_int_equal(iptables_inherit(lab->ipt, buf_str(&line)), 0);
	iptables_close(&lab->ipt);
	assert_true(reserved("\n"));
	/* The next one listens elsewhere. */
	sh("echo 40009 > /proc/sys/net/ipv4/ip_local_reserved_ports");
	assert_int_equal(open_lab(lab, "docker0", &err), 0);
	assert_int_equal(iptables_inherit(lab->ipt, "port=40009 hairpin=\n"), 0);
	iptables_close(&lab->ipt);
	assert_true(reserved("\n"));
	buf_fini(&line);
}

/* Not root: the last test, since there is no way back. */
static void
no_permission_is_said(void **state)
{
	struct lab *lab = *state;
	struct err err;

	make_bridge(lab);
	assert_int_equal(setuid(65534), 0);
	assert_int_equal(iptables_install(lab->ipt, BRIDGE_ADDRESS, &err), -EPERM);
	assert_non_null(strstr(err.text, "CAP_NET_ADMIN"));
	assert_false(iptables_installed(lab->ipt));
}

#define LAB_TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		LAB_TEST(follows_the_interface),
		LAB_TEST(own_interface_waits_for_docker0),
		LAB_TEST(own_interface_that_was_used_is_made_at_once),
		LAB_TEST(installs_and_removes),
		LAB_TEST(ipv6_that_fails_once_is_tried_again),
		LAB_TEST(a_kernel_without_ipv6_is_asked_seldom),
		LAB_TEST(without_its_address_ipv6_has_no_table),
		LAB_TEST(replaces_what_an_earlier_run_left),
		LAB_TEST(host_processes_reach_the_range),
		LAB_TEST(repairs_what_others_delete),
		LAB_TEST(captures_upstreams),
		LAB_TEST(capture_survives_a_repair),
		LAB_TEST(route_returns_after_down_and_up),
		LAB_TEST(says_what_is_missing),
		LAB_TEST(reserves_the_port),
		LAB_TEST(what_is_put_back_is_handed_on),
		LAB_TEST(no_permission_is_said),
	};

	/* The parent namespace is never touched: unshare before the first look, and again for each
	 * test. */
	if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0) {
		puts("1..0 # SKIP needs root and network namespaces");
		return 0;
	}
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
