/* What the mesh says with mesh.subnet6: AAAA of fake IPs, and their reverse zone. */
#include "tests/unit/dns/answer/answer_bed.h"

#include <string.h>

#define ZEROS "0.0.0.0.0.0.0.0"
#define NET6 ZEROS ".1.5.2.0.9.0.d.f.ip6.arpa"
#define FAKE6(low) low ".b.f.9.0." ZEROS "." NET6
#define WEB6 "NOERROR aa an=1 ns=0 ar=0 AAAA fd09:251::9fb:a ttl=30"
#define RANGE6 " SOA of " NET6 ". ttl=5"
#define RANGE6_NX "NXDOMAIN aa an=0 ns=1 ar=0" RANGE6
#define RANGE6_NODATA "NOERROR aa an=0 ns=1 ar=0" RANGE6

static const struct answer_row rows6[] = {
	{"web.default.svc" D, A, WEB, 0},
	{"web.default.svc" D, AAAA, WEB6, 0},
	{"WeB.DeFault.SVC.Cluster.LOCAL", AAAA, WEB6, 0},
	{"web.default.svc" D, DNS_ANY,
		"NOERROR aa an=2 ns=0 ar=0 A 9.251.0.10 ttl=30 AAAA fd09:251::9fb:a ttl=30", 0},
	{"web.default.svc" D, HTTPS, NODATA, 0},
	{"web.default.svc" D, AAAA,
		"NOERROR aa an=1 ns=0 ar=1 AAAA fd09:251::9fb:a ttl=30 OPT size=1232", KIT_EDNS},
	{"db.shop.svc" D, AAAA, "NOERROR aa an=1 ns=0 ar=0 AAAA fd09:251::9fb:b ttl=30", 0},
	{"set-0.set.shop.svc" D, AAAA, "NOERROR aa an=1 ns=0 ar=0 AAAA fd09:251::9fb:15 ttl=30", 0},
	/* the kernel sends IPv6 to none of the endpoints of its UDP port */
	{"voice.shop.svc" D, A, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.25 ttl=30", 0},
	{"voice.shop.svc" D, AAAA, NODATA, 0},
	{"_http._tcp.voice.shop.svc" D, SRV,
		"NOERROR aa an=1 ns=0 ar=1 SRV 80 voice.shop.svc.cluster.local. ttl=30 A "
		"9.251.0.25 ttl=30",
		0},
	{"full.shop.svc" D, AAAA, NX, 0},
	{"gone.default.svc" D, AAAA, NX, 0},
	{"default.svc" D, AAAA, NODATA, 0},
	{"web.default.svc.cluster.local.example.org", AAAA, SEARCHED, 0},
	{"ns.dns" D, A, "NOERROR aa an=1 ns=0 ar=0 A 172.17.0.1 ttl=30", 0},
	{"ns.dns" D, AAAA, "NOERROR aa an=1 ns=0 ar=0 AAAA fd09:251::1:0:1 ttl=30", 0},
	{"out.default.svc" D, AAAA, "chase www.example.org.", 0},
	{"in.default.svc" D, AAAA,
		"NOERROR aa an=2 ns=0 ar=0 TYPE5 web.default.svc.cluster.local. ttl=30 AAAA "
		"fd09:251::9fb:a ttl=30",
		0},
	{"in.default.svc" D, TXT,
		"NOERROR aa an=1 ns=1 ar=0 TYPE5 web.default.svc.cluster.local. ttl=30" SOA, 0},
	{"lost.chain.svc" D, AAAA,
		"NXDOMAIN aa an=1 ns=1 ar=0 TYPE5 gone.default.svc.cluster.local. ttl=30" SOA, 0},
	{"_http._tcp.web.default.svc" D, SRV,
		"NOERROR aa an=1 ns=0 ar=2 SRV 80 web.default.svc.cluster.local. ttl=30 A "
		"9.251.0.10 ttl=30 AAAA fd09:251::9fb:a ttl=30",
		0},
	{"_http._tcp.web.default.svc" D, AAAA, NODATA, 0},
	{"_sql._tcp.set.shop.svc" D, SRV,
		"NOERROR aa an=2 ns=0 ar=4 SRV 5432 set-0" SET " SRV 5432 set-1" SET
		" A 9.251.0.21 ttl=30 AAAA fd09:251::9fb:15 ttl=30 A 9.251.0.22 ttl=30 AAAA "
		"fd09:251::9fb:16 ttl=30",
		0},
	/* PTR of fake IPs, in their zone */
	{FAKE6("a.0.0.0"), PTR,
		"NOERROR aa an=1 ns=0 ar=0 TYPE12 web.default.svc.cluster.local. ttl=30", 0},
	{FAKE6("A.0.0.0"), PTR,
		"NOERROR aa an=1 ns=0 ar=0 TYPE12 web.default.svc.cluster.local. ttl=30", 0},
	{FAKE6("a.0.0.0"), AAAA, RANGE6_NODATA, 0},
	{FAKE6("5.1.0.0"), PTR, "NOERROR aa an=1 ns=0 ar=0 TYPE12 set-0" SET, 0},
	{FAKE6("3.6.0.0"), PTR, RANGE6_NX, 0},
	{FAKE6("g.0.0.0"), PTR, RANGE6_NX, 0},
	{FAKE6("0a.0.0.0"), PTR, RANGE6_NX, 0},
	{FAKE6("1.a.0.0.0"), PTR, RANGE6_NX, 0},
	{FAKE6("x.0.0"), PTR, RANGE6_NX, 0},
	{FAKE6("0.0.0"), PTR, RANGE6_NODATA, 0},
	{"a.0.0.0.0.6.a.0." ZEROS "." NET6, PTR, RANGE6_NX, 0}, /* of 10.96.0.10, a ClusterIP */
	{"1.0.0.0.0.0.0.0.1.0.0.0.0.0.0.0." NET6, PTR, RANGE6_NX, 0},
	{"0." NET6, PTR, RANGE6_NODATA, 0},
	{NET6, PTR, RANGE6_NODATA, 0},
	{NET6, SOA_TYPE, "NOERROR aa an=1 ns=0 ar=0" RANGE6, 0},
	{NET6, NS, "NOERROR aa an=1 ns=0 ar=0 TYPE2 ns.dns.cluster.local. ttl=30", 0},
	{"0.0.0.0.0.0.0.1.5.2.0.9.0.d.f.ip6.arpa", SOA_TYPE, FORWARD, 0},
	{"1." ZEROS ".1.5.2.0.9.0.d.f.ip6.arpa", PTR,
		"NOERROR aa an=0 ns=1 ar=0 SOA of " NET6 ". ttl=5", 0},
	{ZEROS ".2.5.2.0.9.0.d.f.ip6.arpa", PTR, FORWARD, 0},
	{"f.ip6.arpa", NS, FORWARD, 0},
	{"ip6.arpa", NS, FORWARD, 0},
	{"10.0.251.9.ip6.arpa", PTR, FORWARD, 0},
	{"a.0.0.0.b.f.9.0.in-addr.arpa", PTR, FORWARD, 0},
	/* and of a ClusterIP */
	{"0.1.0.0.0.0.0.0." ZEROS "." ZEROS ".0.0.0.0.6.9.d.f.ip6.arpa", PTR,
		"NOERROR aa an=1 ns=0 ar=0 TYPE12 web.default.svc.cluster.local. ttl=30", 0},
	{"1.1.0.0.0.0.0.0." ZEROS "." ZEROS ".0.0.0.0.6.9.d.f.ip6.arpa", PTR, "ask name fd96::11",
		0},
	{"10.0.251.9.in-addr.arpa", PTR,
		"NOERROR aa an=1 ns=0 ar=0 TYPE12 web.default.svc.cluster.local. ttl=30", 0},
};

static void
answers_by_ipv6_as_the_table_says(void **state)
{
	struct answer_bed *f = *state;

	assert_int_equal(fake6_parse(&f->zone.subnet6, "fd09:251::/64", NULL), 0);
	f->zone.address6 = fake6_own(&f->zone.subnet6);
	answer_bed_rows(f, rows6, ARRAY_LEN(rows6));
}

/* Nobody is sent there; the range is still ours. */
static void
while_ipv6_is_not_served_there_is_no_aaaa(void **state)
{
	static const struct answer_row list[] = {
		{"web.default.svc" D, A, WEB, 0},
		{"web.default.svc" D, AAAA, NODATA, 0},
		{"web.default.svc" D, DNS_ANY, WEB, 0},
		{"ns.dns" D, AAAA, NODATA, 0},
		{"in.default.svc" D, AAAA,
			"NOERROR aa an=1 ns=1 ar=0 TYPE5 web.default.svc.cluster.local. ttl=30" SOA,
			0},
		{"_http._tcp.web.default.svc" D, SRV,
			"NOERROR aa an=1 ns=0 ar=1 SRV 80 web.default.svc.cluster.local. ttl=30 A "
			"9.251.0.10 ttl=30",
			0},
		{FAKE6("3.6.0.0"), PTR, RANGE6_NX, 0},
	};
	struct answer_bed *f = *state;

	assert_int_equal(fake6_parse(&f->zone.subnet6, "fd09:251::/64", NULL), 0);
	answer_bed_rows(f, list, ARRAY_LEN(list));
}

/* The zone's apex is at the nibble in which the prefix ends. */
static void
subnets6_of_other_sizes(void **state)
{
	struct answer_bed *f = *state;
	static const struct {
		const char *subnet, *name, *want;
	} cases[] = {
		{"fd09:251::/32", "1.1.5.2.0.9.0.d.f.ip6.arpa",
			"NOERROR aa an=0 ns=1 ar=0 SOA of 1.5.2.0.9.0.d.f.ip6.arpa. ttl=5"},
		{"fd09:251::/33", "7.1.5.2.0.9.0.d.f.ip6.arpa",
			"NOERROR aa an=0 ns=1 ar=0 SOA of 7.1.5.2.0.9.0.d.f.ip6.arpa. ttl=5"},
		{"fd09:251::/33", "8.1.5.2.0.9.0.d.f.ip6.arpa", FORWARD},
		{"fd09:251::/33", "1.5.2.0.9.0.d.f.ip6.arpa", FORWARD},
		{"fd09:251:ff00::/40", "x.f.f.1.5.2.0.9.0.d.f.ip6.arpa",
			"NXDOMAIN aa an=0 ns=1 ar=0 SOA of f.f.1.5.2.0.9.0.d.f.ip6.arpa. ttl=5"},
	};
	uint8_t m[512], out[DNS_UDP_MAX];
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(fake6_parse(&f->zone.subnet6, cases[i].subnet, NULL), 0);
		assert_string_equal(
			answer_bed_ask(
				f, m, kit_query(m, cases[i].name, PTR, 0, KIT_PLAIN), out, &n),
			cases[i].want);
	}
}

static void
nothing_is_denied_before_the_first_metadata(void **state)
{
	static const char failed[] = "SERVFAIL an=0 ns=0 ar=0";
	static const struct answer_row list[] = {
		{"web.default.svc" D, AAAA, failed, 0},
		{NET6, SOA_TYPE, failed, 0},
		{FAKE6("a.0.0.0"), PTR, failed, 0},
		{"0.0.0.0.0.0.0.1.5.2.0.9.0.d.f.ip6.arpa", PTR, FORWARD, 0},
	};
	struct answer_bed *f = *state;

	assert_int_equal(fake6_parse(&f->zone.subnet6, "fd09:251::/64", NULL), 0);
	f->zone.address6 = fake6_own(&f->zone.subnet6);
	snapshot_unref(&f->snapshot);
	f->snapshot = snapshot_new(false);
	answer_bed_rows(f, list, ARRAY_LEN(list));
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, answer_bed_setup, answer_bed_teardown)
	const struct CMUnitTest tests[] = {
		T(answers_by_ipv6_as_the_table_says),
		T(while_ipv6_is_not_served_there_is_no_aaaa),
		T(subnets6_of_other_sizes),
		T(nothing_is_denied_before_the_first_metadata),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
