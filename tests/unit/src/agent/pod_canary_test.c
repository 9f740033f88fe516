#include "src/agent/pod_canary.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "iptables/host/bridge_port.h"
#include "src/agent/dns_selfcheck_frame.h"
#include "tests/unit/patience.h"

/*
 * The canary beside neighbours that have its address, take it, or flood it. Its port of the bridge
 * is a socket pair here: what bridge_port_open is to give, and which addresses the bridge has, is
 * the test's to say (the same names come before the library's).
 */

enum { BRIDGE = 0xac110001, LAST = 0xac11fffe, MESH = 0x0afb0001 };

static const uint8_t neighbour[FRAME_MAC] = {2, 0, 0, 0, 0, 7};

static struct {
	struct loop *loop;
	struct pod_canary *canary;
	int far; /* the bridge's end of the port, -1 none was opened */
	unsigned opened;
	uint32_t bridge, second, port_ip, port_also, expected; /* second: of the bridge, 0 none */
	bool has_service;
	int rcode; /* with which DNS answers, -1 it does not */
} bed;

int
bridge_port_open(struct bridge_port *port, const char *bridge, uint32_t ip, uint32_t also,
	const uint8_t mac[BRIDGE_PORT_MAC], struct err *err)
{
	int fds[2];

	(void)bridge;
	(void)mac;
	(void)err;
	if (bed.far >= 0)
		close(bed.far);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	port->fd = fds[0];
	bed.far = fds[1];
	bed.opened++;
	bed.port_ip = ip;
	bed.port_also = also;
	return 0;
}

int
getifaddrs(struct ifaddrs **out)
{
	static struct sockaddr_in address, second, mask;
	static char name[] = "docker0";
	static struct ifaddrs more = {.ifa_name = name,
				      .ifa_addr = (struct sockaddr *)&second,
				      .ifa_netmask = (struct sockaddr *)&mask},
			      all = {.ifa_name = name,
				      .ifa_addr = (struct sockaddr *)&address,
				      .ifa_netmask = (struct sockaddr *)&mask};

	address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(bed.bridge)};
	second = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(bed.second)};
	all.ifa_next = bed.second != 0 ? &more : NULL;
	mask = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xffff0000)};
	*out = &all;
	return 0;
}

void
freeifaddrs(struct ifaddrs *all)
{
	(void)all;
}

/* --- the bed -------------------------------------------------------------------------------- */

static bool
bed_choose(void *arg, struct pod_canary_target *to)
{
	(void)arg;
	*to = (struct pod_canary_target){.name = "web.default.svc", .ip = MESH + 1, .port = 80};
	return bed.has_service;
}

static void
bed_expect(void *arg, uint32_t ip, uint16_t port, uint64_t number)
{
	(void)arg;
	(void)port;
	(void)number;
	bed.expected = ip;
}

static int
bed_up(void **state)
{
	const struct pod_canary_config config = {.interface = "docker0",
		.domain = "cluster.local",
		.dns_port = 53,
		.choose = bed_choose,
		.expect = bed_expect};
	struct pod_canary_config own = config;
	struct err err;

	(void)state;
	memset(&bed, 0, sizeof bed);
	bed.far = bed.rcode = -1;
	bed.bridge = BRIDGE;
	assert_int_equal(loop_new(&bed.loop, &err), 0);
	own.loop = bed.loop;
	pod_canary_start(&bed.canary, &own);
	pod_canary_use(bed.canary, MESH);
	return 0;
}

static int
bed_down(void **state)
{
	(void)state;
	pod_canary_stop(&bed.canary);
	loop_free(&bed.loop);
	if (bed.far >= 0)
		close(bed.far);
	return 0;
}

static void
bed_send_arp(uint32_t from, uint32_t to, bool tell)
{
	struct frame_path path = {.from = from, .to = to};
	uint8_t bytes[FRAME_MAX];
	size_t n;

	memcpy(path.from_mac, neighbour, sizeof neighbour);
	n = frame_write_arp(bytes, &path, tell);
	(void)!write(bed.far, bytes, n); /* a canary that has left hears nothing */
}

static bool
bed_says(const char *text)
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	pod_canary_state(bed.canary, &out);
	return strstr(buf_str(&out), text) != NULL;
}

static bool
bed_runs(void)
{
	return bed_says("\"state\":\"running\"");
}

static void
bed_until_runs(void)
{
	patience_until(patience_turn(bed.loop), bed_runs());
}

/* --- who has the address -------------------------------------------------------------------- */

static void
an_address_is_left(uint32_t from, uint32_t to, bool tell)
{
	const uint32_t had = bed.port_ip;

	assert_int_equal(bed.expected, had);
	bed_send_arp(from, to, tell);
	patience_until(patience_turn(bed.loop), bed.expected == 0);
	patience_until(patience_turn(bed.loop), bed.port_ip == had - 1);
	bed_until_runs();
	assert_int_equal(bed.expected, had - 1);
}

static void
it_leaves_to_who_gets_the_address(void **state)
{
	(void)state;
	bed_until_runs();
	an_address_is_left(LAST, LAST, true); /* a gratuitous answer */
	an_address_is_left(LAST - 1, LAST - 1, false); /* a gratuitous question */
	an_address_is_left(LAST - 2, BRIDGE, false); /* a pod that asks for its gateway */
	an_address_is_left(0, LAST - 3, false); /* a probe */
}

static void
a_probe_while_it_claims_is_a_conflict(void **state)
{
	(void)state;
	patience_until(patience_turn(bed.loop), bed_says("claiming"));
	assert_int_equal(bed.port_ip, LAST);
	bed_send_arp(0, LAST, false);
	bed_until_runs();
	assert_int_equal(bed.port_ip, LAST - 1);
}

static void
others_addresses_do_not_concern_it(void **state)
{
	(void)state;
	bed_until_runs();
	bed_send_arp(LAST - 5, LAST, false);
	bed_send_arp(0, LAST - 5, false);
	for (int i = 0; i < 20; i++)
		patience_turn(bed.loop);
	assert_true(bed_runs());
	assert_int_equal(bed.expected, LAST);
	assert_int_equal(bed.opened, 1);
}

static void
bed_move_bridge(uint32_t to)
{
	pod_canary_use(bed.canary, 0);
	bed.bridge = to;
	pod_canary_use(bed.canary, MESH);
	bed_until_runs();
}

/* A pod that was started when the bridge had another address. */
static void
who_asks_for_the_former_address_is_told(void **state)
{
	(void)state;
	bed_until_runs();
	bed_send_arp(LAST - 7, BRIDGE, false);
	bed_move_bridge(BRIDGE + 1);
	assert_int_equal(bed.port_also, BRIDGE);
	bed_send_arp(BRIDGE + 1, BRIDGE, false);
	bed_send_arp(0, BRIDGE, false);
	for (int i = 0; i < 20; i++)
		patience_turn(bed.loop);
	assert_false(bed_says("stale"));
	bed_send_arp(LAST - 7, BRIDGE, false);
	patience_until(patience_turn(bed.loop),
		bed_says("\"former\":\"172.17.0.1\",\"stale\":\"172.17.255.247\""));
	bed_send_arp(BRIDGE, BRIDGE + 1, false);
	patience_until(patience_turn(bed.loop), !bed_says("stale"));
	bed_move_bridge(BRIDGE);
	assert_false(bed_says("stale"));
}

/* The bridge's addresses have changed places: containers know one of the two. */
static void
a_second_address_of_the_bridge_is_not_former(void **state)
{
	(void)state;
	bed_until_runs();
	bed.second = BRIDGE;
	bed_move_bridge(BRIDGE + 1);
	assert_int_equal(bed.port_also, 0);
	bed.second = 0;
}

/* --- neighbours that keep it busy ----------------------------------------------------------- */

static void
who_answers_every_probe_switches_it_off(void **state)
{
	const uint64_t until = mono_ms() + 50 * 1000;

	(void)state;
	for (unsigned n = 1; n <= 8; n++) {
		patience_until(patience_turn(bed.loop), bed.opened == n);
		bed_send_arp(bed.port_ip, BRIDGE, true);
	}
	patience_until(patience_turn(bed.loop), bed_says("one neighbour answers ARP for all"));
	while (mono_ms() < until)
		patience_turn(bed.loop);
	assert_int_equal(bed.opened, 8);
	assert_false(pod_canary_failing(bed.canary));
	/* It tries again later, and says so until it runs. */
	patience_until(patience_turn(bed.loop), bed.opened == 9);
	assert_true(bed_says("one neighbour answers ARP for all"));
	bed_until_runs();
	assert_false(bed_says("one neighbour answers ARP for all"));
}

/* The device's queue fills up, as the socket pair's does: what is read of it has a bound. */
static void
a_flood_takes_a_share_of_the_loop(void **state)
{
	const uint8_t frame[60] = {2, [12] = 8};
	uint64_t read = 0, begun;

	(void)state;
	bed_until_runs();
	begun = mono_ms();
	while (!bed_says("floods its address")) {
		for (int i = 0; i < 100 && write(bed.far, frame, sizeof frame) > 0; i++)
			read++;
		patience_turn(bed.loop);
		assert_true(mono_ms() < begun + 60 * 1000);
	}
	/* 640 a second, and what stayed in the queue. */
	assert_true(read < 640 * (mono_ms() - begun) / 1000 + 1000);
	assert_false(pod_canary_failing(bed.canary));
}

/* --- verdicts ------------------------------------------------------------------------------- */

static void
bed_answer_dns(const struct frame *asked)
{
	const struct frame_path path = {.from = MESH, .to = asked->path.from};
	uint8_t bytes[FRAME_MAX], answer[FRAME_DATA_MAX];
	const struct frame_segment s = {.from_port = 53,
		.to_port = asked->segment.from_port,
		.data = answer,
		.len = asked->segment.len};

	memcpy(answer, asked->segment.data, s.len);
	answer[2] |= 0x80;
	answer[3] = (uint8_t)bed.rcode;
	(void)!write(bed.far, bytes, frame_write_udp(bytes, &path, &s));
}

/* The bridge answers ARP, and nothing else but DNS by bed.rcode. */
static void
bed_answer_arp(void)
{
	uint8_t bytes[FRAME_MAX];
	struct frame f;
	ssize_t n;

	while (bed.far >= 0 && (n = read(bed.far, bytes, sizeof bytes)) > 0) {
		frame_read(bytes, (size_t)n, &f);
		if (f.kind == FRAME_ARP_ASK && f.path.to == BRIDGE)
			bed_send_arp(BRIDGE, f.path.from, true);
		else if (f.kind == FRAME_UDP && bed.rcode >= 0)
			bed_answer_dns(&f);
	}
}

static void
a_verdict_ends_with_the_rounds(void **state)
{
	(void)state;
	patience_until((bed_answer_arp(), patience_turn(bed.loop)), pod_canary_failing(bed.canary));
	assert_true(bed_says("\"state\":\"failing\""));
	patience_until(patience_turn(bed.loop), bed_says("does not answer ARP"));
	assert_false(pod_canary_failing(bed.canary));
	assert_false(bed_says("\"state\":\"failing\""));
}

/* Before the first metadata our DNS has nothing to tell, and pods reach it nevertheless. */
static void
an_error_of_dns_is_an_answer(void **state)
{
	(void)state;
	bed.rcode = 2;
	patience_until((bed_answer_arp(), patience_turn(bed.loop)),
		bed_says("\"dns\":{\"state\":\"ok\",\"good\":3,"));
	assert_false(pod_canary_failing(bed.canary));
}

static void
who_does_not_know_the_service_is_another_server(void **state)
{
	(void)state;
	bed.has_service = true;
	bed.rcode = 3;
	patience_until((bed_answer_arp(), patience_turn(bed.loop)),
		bed_says("\"fault\":\"the answer is that the service's name does not exist\""));
	assert_true(pod_canary_failing(bed.canary));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			it_leaves_to_who_gets_the_address, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(
			a_probe_while_it_claims_is_a_conflict, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(
			others_addresses_do_not_concern_it, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(
			who_asks_for_the_former_address_is_told, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(
			a_second_address_of_the_bridge_is_not_former, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(
			who_answers_every_probe_switches_it_off, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(
			a_flood_takes_a_share_of_the_loop, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(a_verdict_ends_with_the_rounds, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(an_error_of_dns_is_an_answer, bed_up, bed_down),
		cmocka_unit_test_setup_teardown(
			who_does_not_know_the_service_is_another_server, bed_up, bed_down),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
