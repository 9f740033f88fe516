/* What the mesh says to a query, row by row. */
#include "dns/answer/answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dns/forward/rewrite.h"
#include "model/view.h"
#include "tests/unit/dns/answer/answer_bed.h"

#define RANGE " SOA of 251.9.in-addr.arpa. ttl=5"
#define RANGE_NX "NXDOMAIN aa an=0 ns=1 ar=0" RANGE
#define RANGE_NODATA "NOERROR aa an=0 ns=1 ar=0" RANGE
#define SET_0 "NOERROR aa an=1 ns=0 ar=1 SRV 5432 set-0" SET " A 9.251.0.21 ttl=30"
#define SETS(port)                                                                                 \
	"NOERROR aa an=2 ns=0 ar=2 SRV " port " set-0" SET " SRV " port " set-1" SET               \
	" A 9.251.0.21 ttl=30 A 9.251.0.22 ttl=30"

static const struct answer_row rows[] = {
	/* services */
	{"web.default.svc" D, A, WEB, 0},
	{"web.default.svc" D, AAAA, NODATA, 0},
	{"web.default.svc" D, HTTPS, NODATA, 0},
	{"web.default.svc" D, MX, NODATA, 0},
	{"web.default.svc" D, TXT, NODATA, 0},
	{"web.default.svc" D, CNAME, NODATA, 0},
	{"web.default.svc" D, DNS_ANY, WEB, 0},
	{"WeB.DeFault.SVC.Cluster.LOCAL", A, WEB, 0},
	{"db.shop.svc" D, A, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.11 ttl=30", 0},
	{"db.shop.svc" D, AAAA, NODATA, 0},
	{"db-0.db.shop.svc" D, A, NX, 0},
	{"full.shop.svc" D, A, NX, 0},
	{"full.shop.svc" D, AAAA, NX, 0},
	{"gone.default.svc" D, A, NX, 0},
	{"gone.default.svc" D, AAAA, NX, 0},
	{"web.shop.svc" D, A, NX, 0},
	{"we.default.svc" D, A, NX, 0},
	{"web.defaul.svc" D, A, NX, 0},
	/* empty non-terminals and what lies beside them */
	{"default.svc" D, A, NODATA, 0},
	{"DEFAULT.svc" D, AAAA, NODATA, 0},
	{"nowhere.svc" D, A, NX, 0},
	{"svc" D, A, NODATA, 0},
	{"svc" D, SRV, NODATA, 0},
	{"pod" D, A, NODATA, 0},
	{"1-2-3-4.default.pod" D, A, "ask pod default 1.2.3.4", 0},
	{"FD00--5.Default.POD" D, AAAA, "ask pod default fd00::5", 0},
	{"1-2-3-04.default.pod" D, A, NX, 0},
	{"1-2-3.default.pod" D, A, NX, 0},
	{"1-2-3-4.de_fault.pod" D, A, NX, 0},
	{"x.1-2-3-4.default.pod" D, A, NX, 0},
	{"default.pod" D, A, NODATA, 0},
	{"web" D, A, NX, 0},
	{"www.google.com" D, A, NX, 0},
	{"www.google.com.default.svc" D, A, NX, 0},
	/* apex */
	{"cluster.local", A, NODATA, 0},
	{"cluster.local", SOA_TYPE, "NOERROR aa an=1 ns=0 ar=0" SOA, 0},
	{"cluster.local", NS, "NOERROR aa an=1 ns=0 ar=0 TYPE2 ns.dns.cluster.local. ttl=30", 0},
	{"ns.dns" D, A, "NOERROR aa an=1 ns=0 ar=0 A 172.17.0.1 ttl=30", 0},
	{"ns.dns" D, AAAA, NODATA, 0},
	{"dns" D, A, NODATA, 0},
	{"x.dns" D, A, NX, 0},
	{"dns-version" D, TXT, "NOERROR aa an=1 ns=0 ar=0 TXT 1.1.0 ttl=30", 0},
	{"dns-version" D, A, NODATA, 0},
	{"x.dns-version" D, TXT, NX, 0},
	/* SRV */
	{"_http._tcp.web.default.svc" D, SRV,
		"NOERROR aa an=1 ns=0 ar=1 SRV 80 web.default.svc.cluster.local. ttl=30 A "
		"9.251.0.10 ttl=30",
		0},
	{"_HTTP._TCP.web.default.svc" D, SRV,
		"NOERROR aa an=1 ns=0 ar=1 SRV 80 web.default.svc.cluster.local. ttl=30 A "
		"9.251.0.10 ttl=30",
		0},
	{"_dns._udp.web.default.svc" D, SRV,
		"NOERROR aa an=1 ns=0 ar=1 SRV 53 web.default.svc.cluster.local. ttl=30 A "
		"9.251.0.10 ttl=30",
		0},
	{"_dns._tcp.web.default.svc" D, SRV, NX, 0},
	{"_http._tcp.web.default.svc" D, A, NODATA, 0},
	{"http._tcp.web.default.svc" D, SRV, NX, 0},
	{"_tcp.web.default.svc" D, A, NODATA, 0},
	{"_tcp.db.shop.svc" D, A, NX, 0},
	{"_sctp.web.default.svc" D, A, NX, 0},
	{"a._http._tcp.web.default.svc" D, SRV, NX, 0},
	{"web.default.svc" D, SRV,
		"NOERROR aa an=2 ns=0 ar=1 SRV 80 web.default.svc.cluster.local. ttl=30 "
		"SRV 53 web.default.svc.cluster.local. ttl=30 A 9.251.0.10 ttl=30",
		0},
	/* names of pods of a headless service */
	{"set-0.set.shop.svc" D, A, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.21 ttl=30", 0},
	{"SET-0.Set.shop.svc" D, A, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.21 ttl=30", 0},
	{"set-2.set.shop.svc" D, A, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.23 ttl=30", 0},
	{"set-0.set.shop.svc" D, AAAA, NODATA, 0},
	{"set-0.set.shop.svc" D, DNS_ANY, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.21 ttl=30", 0},
	{"set-3.set.shop.svc" D, A, NX, 0},
	{"set-9.set.shop.svc" D, A, NX, 0},
	{"set-9.set.shop.svc" D, AAAA, NX, 0},
	{"set-0.db.shop.svc" D, A, NX, 0},
	{"set-0.set.default.svc" D, A, NX, 0},
	{"set-0.gone.shop.svc" D, A, NX, 0},
	{"x.set-0.set.shop.svc" D, A, NX, 0},
	{"set-0.shop.svc" D, A, NX, 0},
	{"set.shop.svc" D, A, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.20 ttl=30", 0},
	{"set.shop.svc" D, AAAA, NODATA, 0},
	{"_tcp.set.shop.svc" D, SRV, NODATA, 0},
	{"_sql._tcp.set.shop.svc" D, SRV, SETS("5432"), 0},
	{"_UI._Tcp.SET.shop.svc" D, SRV, SETS("80"), 0},
	{"_sql._tcp.set.shop.svc" D, A, NODATA, 0},
	{"_gone._tcp.set.shop.svc" D, SRV, NX, 0},
	{"_sql._udp.set.shop.svc" D, SRV, NX, 0},
	{"set.shop.svc" D, SRV,
		"NOERROR aa an=4 ns=0 ar=2 SRV 5432 set-0" SET " SRV 5432 set-1" SET
		" SRV 80 set-0" SET " SRV 80 set-1" SET " A 9.251.0.21 ttl=30 A 9.251.0.22 ttl=30",
		0},
	{"set-0.set.shop.svc" D, SRV, SET_0, 0},
	{"_sql._tcp.set-0.set.shop.svc" D, SRV, SET_0, 0},
	{"_SQL._TCP.SET-0.SET.shop.svc" D, SRV, SET_0, 0},
	{"_tcp.set-0.set.shop.svc" D, A, NODATA, 0},
	{"_udp.set-0.set.shop.svc" D, A, NX, 0},
	{"_sql._tcp.set-0.set.shop.svc" D, A, NODATA, 0},
	{"_ui._tcp.set-0.set.shop.svc" D, SRV, NX, 0},
	{"_sql._tcp.set-9.set.shop.svc" D, SRV, NX, 0},
	{"a._sql._tcp.set-0.set.shop.svc" D, SRV, NX, 0},
	{"_.set-0.set.shop.svc" D, SRV, NX, 0},
	/* nobody serves: no names to list, but the service is there */
	{"idle.shop.svc" D, A, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.24 ttl=30", 0},
	{"idle.shop.svc" D, SRV, NODATA, 0},
	{"_sql._tcp.idle.shop.svc" D, SRV, NODATA, 0},
	{"first.shop.svc" D, A, "NOERROR aa an=2 ns=0 ar=0 TYPE5 set-0" SET " A 9.251.0.21 ttl=30",
		0},
	{"21.0.251.9.in-addr.arpa", PTR, "NOERROR aa an=1 ns=0 ar=0 TYPE12 set-0" SET, 0},
	/* ExternalName */
	{"out.default.svc" D, CNAME, "NOERROR aa an=1 ns=0 ar=0 TYPE5 www.example.org. ttl=30", 0},
	{"out.default.svc" D, A, "chase www.example.org.", 0},
	{"out.default.svc" D, AAAA, "chase www.example.org.", 0},
	{"in.default.svc" D, A,
		"NOERROR aa an=2 ns=0 ar=0 TYPE5 web.default.svc.cluster.local. ttl=30 A "
		"9.251.0.10 ttl=30",
		0},
	{"in.default.svc" D, AAAA,
		"NOERROR aa an=1 ns=1 ar=0 TYPE5 web.default.svc.cluster.local. ttl=30" SOA, 0},
	{"two.chain.svc" D, A,
		"NOERROR aa an=3 ns=0 ar=0 TYPE5 in.default.svc.cluster.local. ttl=30 TYPE5 "
		"web.default.svc.cluster.local. ttl=30 A 9.251.0.10 ttl=30",
		0},
	{"two.chain.svc" D, CNAME,
		"NOERROR aa an=1 ns=0 ar=0 TYPE5 in.default.svc.cluster.local. ttl=30", 0},
	{"over.chain.svc" D, A, "chase www.example.org.", 0},
	{"lost.chain.svc" D, A,
		"NXDOMAIN aa an=1 ns=1 ar=0 TYPE5 gone.default.svc.cluster.local. ttl=30" SOA, 0},
	{"lost.chain.svc" D, DNS_ANY,
		"NOERROR aa an=1 ns=0 ar=0 TYPE5 gone.default.svc.cluster.local. ttl=30", 0},
	{"dry.chain.svc" D, A,
		"NOERROR aa an=1 ns=1 ar=0 TYPE5 full.shop.svc.cluster.local. ttl=30" SOA, 0},
	{"ring.chain.svc" D, A, "SERVFAIL an=0 ns=0 ar=0", 0},
	{"ring.chain.svc" D, CNAME,
		"NOERROR aa an=1 ns=0 ar=0 TYPE5 bell.chain.svc.cluster.local. ttl=30", 0},
	/* PTR */
	{"10.0.251.9.in-addr.arpa", PTR,
		"NOERROR aa an=1 ns=0 ar=0 TYPE12 web.default.svc.cluster.local. ttl=30", 0},
	{"10.0.96.10.IN-ADDR.arpa", PTR,
		"NOERROR aa an=1 ns=0 ar=0 TYPE12 web.default.svc.cluster.local. ttl=30", 0},
	{"10.0.96.10.in-addr.arpa", A, "NOERROR aa an=0 ns=0 ar=0", 0},
	{"11.0.96.10.in-addr.arpa", PTR, "ask name 10.96.0.11", 0},
	{"11.0.96.10.in-addr.arpa", A, FORWARD, 0},
	{"0.96.10.in-addr.arpa", PTR, FORWARD, 0},
	{"8.8.8.8.in-addr.arpa", PTR, FORWARD, 0},
	{"5.0.32.172.in-addr.arpa", PTR, FORWARD, 0},
	{"5.0.31.172.in-addr.arpa", PTR, "ask name 172.31.0.5", 0},
	/* the reverse zone of the fake IPs */
	{"10.0.251.9.in-addr.arpa", A, RANGE_NODATA, 0},
	{"10.0.251.9.in-addr.arpa", DNS_ANY,
		"NOERROR aa an=1 ns=0 ar=0 TYPE12 web.default.svc.cluster.local. ttl=30", 0},
	{"99.0.251.9.in-addr.arpa", PTR, RANGE_NX, 0},
	{"99.0.251.9.in-addr.arpa", A, RANGE_NX, 0},
	{"99.0.251.9.IN-ADDR.ARPA", PTR,
		"NXDOMAIN aa an=0 ns=1 ar=0 SOA of 251.9.IN-ADDR.ARPA. ttl=5", 0},
	{"010.0.251.9.in-addr.arpa", PTR, RANGE_NX, 0},
	{"266.0.251.9.in-addr.arpa", PTR, RANGE_NX, 0},
	{"x.0.251.9.in-addr.arpa", PTR, RANGE_NX, 0},
	{"x.251.9.in-addr.arpa", PTR, RANGE_NX, 0},
	{"1.10.0.251.9.in-addr.arpa", PTR, RANGE_NX, 0},
	{"0.251.9.in-addr.arpa", PTR, RANGE_NODATA, 0},
	{"251.9.in-addr.arpa", PTR, RANGE_NODATA, 0},
	{"251.9.in-addr.arpa", SOA_TYPE, "NOERROR aa an=1 ns=0 ar=0" RANGE, 0},
	{"251.9.in-addr.arpa", NS, "NOERROR aa an=1 ns=0 ar=0 TYPE2 ns.dns.cluster.local. ttl=30",
		0},
	{"9.in-addr.arpa", PTR, FORWARD, 0},
	{"in-addr.arpa", PTR, FORWARD, 0},
	{"10.0.250.9.in-addr.arpa", PTR, FORWARD, 0},
	{"10.0.251.9.in-addr.arpa.example.org", PTR, FORWARD, 0},
	/* not ours, also where a namespace "google" has a service "www" */
	{"www.google.svc" D, A, "NOERROR aa an=1 ns=0 ar=0 A 9.251.0.12 ttl=30", 0},
	{"www.google.com", A, FORWARD, 0},
	{"web.default", A, FORWARD, 0},
	{"web", A, FORWARD, 0},
	{"local", A, FORWARD, 0},
	{"xcluster.local", A, FORWARD, 0},
	{"cluster.local.example.org", A, FORWARD, 0},
	{"web.default.svc.cluster.locale", A, FORWARD, 0},
	/* what a search list makes of names of ours */
	{"web.default.svc.cluster.local.example.org", A, SEARCHED, 0},
	{"gone.Default.SVC.Cluster.local.org", AAAA, SEARCHED, 0},
	{"a.svc.svc.cluster.local.example.org", A, SEARCHED, 0},
	{"svc.cluster.local.example.org", A, FORWARD, 0},
	{"web.default.cluster.local.example.org", A, FORWARD, 0},
	{"web.default.svc.cluster.locale.org", A, FORWARD, 0},
	{"web.default.svc.cluster", A, FORWARD, 0},
	{"", NS, FORWARD, 0},
	{"www.google.com", DNS_ANY, FORWARD, 0},
	/* types that nobody may ask */
	{"cluster.local", DNS_AXFR, "REFUSED an=0 ns=0 ar=0", 0},
	{"www.google.com", DNS_IXFR, "REFUSED an=0 ns=0 ar=0", 0},
	{"web.default.svc" D, DNS_OPT, "FORMERR an=0 ns=0 ar=0", 0},
	{"web.default.svc" D, DNS_TKEY, "NOTIMP an=0 ns=0 ar=0", 0},
	{"web.default.svc" D, 0, "FORMERR an=0 ns=0 ar=0", 0},
	/* EDNS */
	{"web.default.svc" D, A, "NOERROR aa an=1 ns=0 ar=1 A 9.251.0.10 ttl=30 OPT size=1232",
		KIT_EDNS},
	{"web.default.svc" D, A, "NOERROR aa an=1 ns=0 ar=1 A 9.251.0.10 ttl=30 OPT size=1232 do",
		KIT_DO},
	{"gone.default.svc" D, A, "NXDOMAIN aa an=0 ns=1 ar=1" SOA " OPT size=1232", KIT_EDNS},
	{"web.default.svc" D, A, "NOERROR an=0 ns=0 ar=1 OPT size=1232 BADVERS", KIT_VERSION_1},
	{"web.default.svc" D, A, "FORMERR an=0 ns=0 ar=1 OPT size=1232", KIT_TWO_OPT},
};

static void
answers_as_the_table_says(void **state)
{
	answer_bed_rows(*state, rows, ARRAY_LEN(rows));
}

static void
flags_and_question_go_back_as_they_came(void **state)
{
	struct answer_bed *f = *state;
	uint8_t m[512], out[DNS_UDP_MAX];
	size_t n,
		len = kit_query(m, "wEb.dEfault.svC.cluster.Local", A, DNS_FLAG_RD | DNS_FLAG_CD,
			KIT_PLAIN);

	answer_bed_ask(f, m, len, out, &n);
	assert_int_equal(dns_get16(out), 0xbeef);
	assert_int_equal(dns_get16(out + 2), 0x8590); /* QR AA RD RA CD */
	assert_memory_equal(out + DNS_HEADER, m + DNS_HEADER, len - DNS_HEADER);
	assert_int_equal(dns_get16(out + len), 0xc00c);
	len = kit_query(m, "web.default.svc.cluster.local", A, 0, KIT_PLAIN);
	answer_bed_ask(f, m, len, out, &n);
	assert_int_equal(dns_get16(out + 2), 0x8480); /* no RD unless asked */
}

static void
strange_headers_are_refused(void **state)
{
	struct answer_bed *f = *state;
	uint8_t m[512], out[DNS_UDP_MAX];
	size_t n, len = kit_query(m, "web.default.svc.cluster.local", A, 0, KIT_PLAIN);

	m[2] = 0x80;
	assert_string_equal(answer_bed_ask(f, m, len, out, &n), "drop");
	m[2] = 0x10; /* STATUS */
	assert_string_equal(answer_bed_ask(f, m, len, out, &n), "NOTIMP an=0 ns=0 ar=0");
	assert_int_equal(out[2] & 0x78, 0x10);
	m[2] = 0;
	m[5] = 2;
	assert_string_equal(answer_bed_ask(f, m, len, out, &n), "FORMERR an=0 ns=0 ar=0");
	m[5] = 0;
	assert_string_equal(answer_bed_ask(f, m, len, out, &n), "FORMERR an=0 ns=0 ar=0");
	m[5] = 1;
	m[len - 1] = 3; /* CHAOS */
	assert_string_equal(answer_bed_ask(f, m, len, out, &n), "REFUSED an=0 ns=0 ar=0");
}

static void
nothing_is_denied_before_the_first_metadata(void **state)
{
	struct answer_bed *f = *state;
	static const char *const names[] = {"web.default.svc.cluster.local", "gone.cluster.local",
		"cluster.local", "svc.cluster.local", "db-0.db.default.svc.cluster.local",
		"1.0.251.9.in-addr.arpa", "251.9.in-addr.arpa"};
	uint8_t m[512], out[DNS_UDP_MAX];
	size_t n;

	snapshot_unref(&f->snapshot);
	f->snapshot = snapshot_new(false);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_string_equal(
			answer_bed_ask(f, m, kit_query(m, names[i], A, 0, KIT_PLAIN), out, &n),
			"SERVFAIL an=0 ns=0 ar=0");
	assert_string_equal(
		answer_bed_ask(f, m, kit_query(m, "www.google.com", A, 0, KIT_PLAIN), out, &n),
		FORWARD);
}

/* Names that have only the length of the domain, or half of what marks a searched one. */
static void
names_like_ours_are_forwarded(void **state)
{
	static const struct answer_row names[] = {
		{"web.default.svc.cluster.locax", A, FORWARD, KIT_PLAIN},
		{"cluster.locax", A, FORWARD, KIT_PLAIN},
		{"web.default.svc.another.domain.lab.test", A, FORWARD, KIT_PLAIN},
		{"web.default.abc.cluster.local.lab.test", A, FORWARD, KIT_PLAIN},
		{"web.default.svc.cluster.local.lab.test", A, SEARCHED, KIT_PLAIN},
	};

	answer_bed_rows(*state, names, ARRAY_LEN(names));
}

static void
domains_that_leave_no_room_are_refused(void **state)
{
	struct dns_zone z;
	char longest[124];

	(void)state;
	assert_true(dns_zone_init(&z, "", 30) < 0);
	assert_true(dns_zone_init(&z, "a..b", 30) < 0);
	memset(longest, 'a', sizeof longest);
	for (size_t i = 50; i < sizeof longest; i += 50)
		longest[i] = '.';
	longest[121] = '\0';
	assert_int_equal(dns_zone_init(&z, longest, 30), 0);
	longest[121] = 'a';
	longest[123] = '\0';
	assert_true(dns_zone_init(&z, longest, 30) < 0);
}

static struct snapshot *
with_service(struct snapshot *s, uint32_t ip, const char *json)
{
	struct self self = {.node = "a", .site = "", .zone = ""};
	struct snapshot *next;
	struct change c;
	struct view *v;

	assert_int_equal(view_parse(&v, json, strlen(json), NULL), 0);
	c = (struct change){v->ns, v->name, service_build(v, &self, ip, 1)};
	next = snapshot_next(s, &c, 1);
	view_free(&v);
	snapshot_unref(&s);
	return next;
}

/* A label may hold any byte, a dot too: it is still one label. */
static void
a_dot_in_a_label_is_no_name_of_two(void **state)
{
	struct answer_bed *f = *state;
	uint8_t m[512], out[DNS_UDP_MAX];
	size_t n, len = kit_query(m, "set-0Xset.shop.svc" D, A, 0, KIT_PLAIN);

	*(char *)memchr(m, 'X', len) = '.';
	assert_string_equal(answer_bed_ask(f, m, len, out, &n), NX);
	len = kit_query(m, "setX0.set.shop.svc" D, A, 0, KIT_PLAIN);
	*(char *)memchr(m, 'X', len) = '.';
	assert_string_equal(answer_bed_ask(f, m, len, out, &n), NX);
}

/* 300 pods: what does not fit by UDP sets TC, what fits is told, addresses as far as there is
 * room. */
static void
many_pods_are_cut_with_tc(void **state)
{
	struct answer_bed *f = *state;
	uint8_t m[512], out[DNS_UDP_MAX];
	auto_buf struct buf json;
	size_t n, len;

	buf_init(&json, BUF_UNLIMITED);
	buf_adds(&json,
		"{\"ns\":\"big\",\"name\":\"s\",\"headless\":true,\"ports\":[{\"name\":"
		"\"p\",\"port\":1,\"mode\":\"tcp\",\"endpoints\":[");
	for (unsigned i = 0; i < 300; i++) {
		auto_free char *pod = xasprintf(
			"{\"ns\":\"big\",\"name\":\"h%u.s\",\"headless\":true,\"ports\":[]}", i);

		f->snapshot = with_service(f->snapshot, 0x09fb1000 + i, pod);
		buf_printf(&json,
			"%s{\"hostname\":\"h%u\",\"flags\":3,\"givenIP\":\"10.0.0.1\","
			"\"givenPort\":1}",
			i > 0 ? "," : "", i);
	}
	buf_adds(&json, "]}]}");
	f->snapshot = with_service(f->snapshot, 0x09fb0fff, buf_str(&json));
	len = kit_query(m, "_p._tcp.s.big.svc" D, SRV, 0, KIT_PLAIN);
	answer_bed_ask(f, m, len, out, &n);
	assert_int_equal(out[2] & 2, 2); /* TC */
	assert_true(n <= DNS_UDP_PLAIN);
	assert_true(dns_get16(out + 6) >= 8);
	assert_int_equal(dns_get16(out + 10), 0);
}

/* Pods with a hostname are targets of their own, the Service is that of the others, once; and one
 * pod is not known. */
static void
some_pods_have_a_name(void **state)
{
	static const struct answer_row row[] = {
		{"_p._tcp.mix.shop.svc" D, SRV,
			"NOERROR aa an=2 ns=0 ar=2 SRV 7 h0.mix.shop.svc.cluster.local. ttl=30 SRV "
			"7 mix.shop.svc.cluster.local. ttl=30 A 9.251.33.1 ttl=30 A 9.251.33.0 "
			"ttl=30",
			0},
	};
	struct answer_bed *f = *state;

	f->snapshot = with_service(f->snapshot, 0x09fb2100,
		"{\"ns\":\"shop\",\"name\":\"mix\",\"headless\":true,\"ports\":[{\"name\":\"p\","
		"\"port\":7,\"mode\":\"tcp\",\"endpoints\":["
		"{\"hostname\":\"h0\",\"flags\":3,\"givenIP\":\"10.0.0.1\",\"givenPort\":1},"
		"{\"hostname\":\"\",\"flags\":3,\"givenIP\":\"10.0.0.2\",\"givenPort\":1},"
		"{\"hostname\":\"h9\",\"flags\":3,\"givenIP\":\"10.0.0.3\",\"givenPort\":1},"
		"{\"hostname\":\"\",\"flags\":3,\"givenIP\":\"10.0.0.4\",\"givenPort\":1}]}]}");
	f->snapshot = with_service(f->snapshot, 0x09fb2101,
		"{\"ns\":\"shop\",\"name\":\"h0.mix\",\"headless\":true,\"ports\":[]}");
	answer_bed_rows(f, row, ARRAY_LEN(row));
}

/* The longest names that Kubernetes allows, in the longest domain that leaves room for services. */
static void
a_name_that_would_be_too_long_is_not_told(void **state)
{
	struct answer_bed *f = *state;
	char domain[123], l[64];
	uint8_t m[512], out[DNS_UDP_MAX];
	auto_free char *json = NULL, *service = NULL, *longest = NULL, *name = NULL, *owner = NULL;
	auto_free char *srv = NULL;
	size_t n;

	memset(l, 'l', 63);
	l[63] = '\0';
	longest =
		xasprintf("{\"ns\":\"n\",\"name\":\"%s.%s\",\"headless\":true,\"ports\":[]}", l, l);
	f->snapshot = with_service(f->snapshot, 0x09fb2003, longest);
	answer_bed_ask(f, m, kit_query(m, "3.32.251.9.in-addr.arpa", PTR, 0, KIT_PLAIN), out, &n);
	assert_int_equal(dns_get16(out + 6), 1); /* each part is as long as it may be */
	owner = xasprintf("{\"ns\":\"n\",\"name\":\"%s\",\"ports\":[]}", l);
	f->snapshot = with_service(f->snapshot, 0x09fb2004, owner);
	name = xasprintf("%s.%s.n.svc" D, l, l);
	answer_bed_ask(f, m, kit_query(m, name, A, 0, KIT_PLAIN), out, &n);
	assert_int_equal(dns_get16(out + 6), 1);
	memset(domain, 'd', sizeof domain);
	domain[60] = '.';
	domain[121] = '\0';
	assert_int_equal(dns_zone_init(&f->zone, domain, 30), 0);
	f->zone.subnet = 0x09fb0000;
	f->zone.mask = 0xffff0000;
	service = xasprintf(
		"{\"ns\":\"%s\",\"name\":\"%s\",\"headless\":true,\"ports\":[{\"name\":"
		"\"p\",\"port\":7,\"mode\":\"tcp\",\"endpoints\":["
		"{\"hostname\":\"%s\",\"flags\":3,\"givenIP\":\"10.0.0.1\",\"givenPort\":1},"
		"{\"hostname\":\"\",\"flags\":3,\"givenIP\":\"10.0.0.2\",\"givenPort\":1}]}]}",
		l, l, l);
	json = xasprintf(
		"{\"ns\":\"%s\",\"name\":\"%s.%s\",\"headless\":true,\"ports\":[]}", l, l, l);
	f->snapshot = with_service(f->snapshot, 0x09fb2001, json);
	f->snapshot = with_service(f->snapshot, 0x09fb2002, service);
	answer_bed_ask(f, m, kit_query(m, "1.32.251.9.in-addr.arpa", PTR, 0, KIT_PLAIN), out, &n);
	assert_int_equal(dns_get16(out + 6), 0);
	answer_bed_ask(f, m, kit_query(m, "2.32.251.9.in-addr.arpa", PTR, 0, KIT_PLAIN), out, &n);
	assert_int_equal(dns_get16(out + 6), 1);
	/* Nor is it a target, but the Service behind it is, with its address. */
	srv = xasprintf("%s.%s.svc.%s", l, l, domain);
	answer_bed_ask(f, m, kit_query(m, srv, SRV, 0, KIT_EDNS), out, &n);
	assert_int_equal(dns_get16(out + 6), 1);
	assert_int_equal(dns_get16(out + 10), 2); /* and the OPT record */
}

static void
subnets_of_other_sizes(void **state)
{
	struct answer_bed *f = *state;
	static const struct {
		uint32_t subnet, mask;
		const char *name, *want;
	} cases[] = {
		{0x0a000000, 0xff000000, "4.3.2.10.in-addr.arpa",
			"NXDOMAIN aa an=0 ns=1 ar=0 SOA of 10.in-addr.arpa. ttl=5"},
		{0x0a000000, 0xff000000, "3.2.10.in-addr.arpa",
			"NOERROR aa an=0 ns=1 ar=0 SOA of 10.in-addr.arpa. ttl=5"},
		{0x0a100000, 0xfff00000, "4.3.17.10.in-addr.arpa",
			"NXDOMAIN aa an=0 ns=1 ar=0 SOA of 17.10.in-addr.arpa. ttl=5"},
		{0x0a100000, 0xfff00000, "4.3.32.10.in-addr.arpa", "ask name 10.32.3.4"},
		{0x0a100000, 0xfff00000, "10.in-addr.arpa", FORWARD},
		{0x0a141400, 0xffffff00, "9.20.20.10.in-addr.arpa",
			"NXDOMAIN aa an=0 ns=1 ar=0 SOA of 20.20.10.in-addr.arpa. ttl=5"},
		{0x0a141400, 0xffffff00, "20.10.in-addr.arpa", FORWARD},
		{0, 0, "99.0.251.9.in-addr.arpa", FORWARD},
	};
	uint8_t m[512], out[DNS_UDP_MAX];
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		f->zone.subnet = cases[i].subnet;
		f->zone.mask = cases[i].mask;
		assert_string_equal(
			answer_bed_ask(
				f, m, kit_query(m, cases[i].name, PTR, 0, KIT_PLAIN), out, &n),
			cases[i].want);
	}
}

static void
chased_addresses_follow_the_cname(void **state)
{
	struct answer_bed *f = *state;
	uint8_t m[512], out[DNS_UDP_MAX], up[512];
	struct dns_out to = {.bytes = out, .size = 512};
	struct dns_target target;
	struct dns_query q;
	size_t n, len = kit_query(m, "out.default.svc.cluster.local", A, DNS_FLAG_RD, KIT_PLAIN);
	static const uint8_t mixed[DNS_COINS] = {0x5a, 0xff, 0xa5};
	static const uint8_t records[] = {
		0xc0,
		12,
		0,
		5,
		0,
		1,
		0,
		0,
		0,
		9,
		0,
		4,
		1,
		'x',
		0xc0,
		16, /* www CNAME x.example.org */
		0xc0,
		45,
		0,
		1,
		0,
		1,
		0,
		0,
		0,
		8,
		0,
		4,
		192,
		0,
		2,
		1,
	};

	assert_int_equal(dns_query_parse(&q, m, len), DNS_PARSE_OK);
	assert_int_equal(dns_answer(&f->zone, f->snapshot, &q, &to, &target), DNS_CHASE);
	n = dns_forward_build(up, &q, &target) - DNS_OPT_BYTES;
	assert_int_equal(n, 33);
	dns_forward_mix(up, n, mixed);
	up[2] |= 0x80;
	up[7] = 2;
	up[11] = 0;
	memcpy(up + n, records, sizeof records);
	assert_true(dns_chase_answer(&to, &q, &target, 30, up, n + sizeof records));
	assert_string_equal(kit_describe(&f->text, out, to.len),
		"NOERROR an=3 ns=0 ar=0 TYPE5 www.example.org. ttl=30 TYPE5 x.example.org. ttl=9 "
		"A 192.0.2.1 ttl=8");
}

static size_t
put_text_record(
	uint8_t *m, size_t at, const char *owner, unsigned type, uint32_t ttl_s, const char *data)
{
	size_t len;

	at += dns_name_from_text(m + at, owner);
	dns_put16(m + at, type);
	dns_put16(m + at + 2, DNS_CLASS_IN);
	dns_put32(m + at + 4, ttl_s);
	if (type == DNS_CNAME) {
		len = dns_name_from_text(m + at + 10, data);
	} else {
		len = 4;
		memcpy(m + at + 10, data, len);
	}
	dns_put16(m + at + 8, (unsigned)len);
	m[7]++;
	return at + 10 + len;
}

/* What upstream says to "www.example.org A" when out.default's ExternalName is asked: a line each
 * "owner>alias" or "owner=" and four characters. */
static const char *
chase(struct answer_bed *f, const char *const *lines, uint32_t ttl_s)
{
	static uint8_t up[8192];
	uint8_t m[512], out[DNS_UDP_MAX];
	struct dns_out to = {.bytes = out, .size = sizeof out};
	struct dns_target target;
	struct dns_query q;
	size_t n, len = kit_query(m, "out.default.svc.cluster.local", A, DNS_FLAG_RD, KIT_PLAIN);

	assert_int_equal(dns_query_parse(&q, m, len), DNS_PARSE_OK);
	assert_int_equal(dns_answer(&f->zone, f->snapshot, &q, &to, &target), DNS_CHASE);
	n = dns_forward_build(up, &q, &target) - DNS_OPT_BYTES;
	up[2] |= 0x80;
	up[11] = 0;
	for (; *lines != NULL; lines++) {
		char owner[64];
		size_t k = strcspn(*lines, ">=");

		memcpy(owner, *lines, k);
		owner[k] = '\0';
		n = put_text_record(up, n, owner, (*lines)[k] == '>' ? DNS_CNAME : DNS_A, ttl_s,
			*lines + k + 1);
	}
	if (!dns_chase_answer(&to, &q, &target, 30, up, n))
		return "refused";
	return kit_describe(&f->text, out, to.len);
}

static void
only_the_end_of_the_chain_is_believed(void **state)
{
	static const char *const stray[] = {
		"evil.test=1111", "www.example.org=0000", "a.b=2222", NULL};
	static const char *const beside[] = {"www.example.org>a.org", "www.example.org=1111",
		"a.org=0000", "b.org>www.example.org", "b.org=2222", NULL};
	static const char *const backwards[] = {
		"b.org=0000", "a.org>b.org", "WWW.example.org>a.org", NULL};
	static const char *const ring[] = {
		"www.example.org>a.org", "a.org>www.example.org", "a.org=0000", NULL};
	static const char *const self[] = {"www.example.org>www.example.org", NULL};
	static const char *const nothing[] = {"evil.test=1111", "evil.test>www.example.org", NULL};
	struct answer_bed *f = *state;

	assert_string_equal(chase(f, stray, 8),
		"NOERROR an=2 ns=0 ar=0 TYPE5 www.example.org. ttl=30 A 48.48.48.48 ttl=8");
	assert_string_equal(chase(f, beside, 8),
		"NOERROR an=3 ns=0 ar=0 TYPE5 www.example.org. ttl=30 TYPE5 a.org. ttl=8 "
		"A 48.48.48.48 ttl=8");
	assert_string_equal(chase(f, backwards, 8),
		"NOERROR an=4 ns=0 ar=0 TYPE5 www.example.org. ttl=30 TYPE5 a.org. ttl=8 "
		"TYPE5 b.org. ttl=8 A 48.48.48.48 ttl=8");
	assert_string_equal(chase(f, ring, 8), "refused");
	assert_string_equal(chase(f, self, 8), "refused");
	assert_string_equal(
		chase(f, nothing, 8), "NOERROR an=1 ns=0 ar=0 TYPE5 www.example.org. ttl=30");
	assert_string_equal(chase(f, stray, UINT32_MAX),
		"NOERROR an=2 ns=0 ar=0 TYPE5 www.example.org. ttl=30 A 48.48.48.48 ttl=0");
	assert_string_equal(chase(f, stray, 0x7fffffff),
		"NOERROR an=2 ns=0 ar=0 TYPE5 www.example.org. ttl=30 A 48.48.48.48 ttl=86400");
}

static void
a_chain_has_a_longest_length(void **state)
{
	for (unsigned n = DNS_CHAIN_MAX; n <= DNS_CHAIN_MAX + 1; n++) {
		const char *lines[DNS_CHAIN_MAX + 2] = {"www.example.org>n1.org"};
		const char *said;

		for (unsigned i = 1; i < n; i++)
			lines[i] = xasprintf("n%u.org>n%u.org", i, i + 1);
		said = chase(*state, lines, 8);
		assert_int_equal(strcmp(said, "refused") == 0, n > DNS_CHAIN_MAX);
		for (unsigned i = 1; i < n; i++)
			free((char *)(uintptr_t)lines[i]);
	}
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, answer_bed_setup, answer_bed_teardown)
	const struct CMUnitTest tests[] = {
		T(answers_as_the_table_says),
		T(flags_and_question_go_back_as_they_came),
		T(strange_headers_are_refused),
		T(nothing_is_denied_before_the_first_metadata),
		T(names_like_ours_are_forwarded),
		T(domains_that_leave_no_room_are_refused),
		T(a_dot_in_a_label_is_no_name_of_two),
		T(many_pods_are_cut_with_tc),
		T(some_pods_have_a_name),
		T(a_name_that_would_be_too_long_is_not_told),
		T(subnets_of_other_sizes),
		T(chased_addresses_follow_the_cname),
		T(only_the_end_of_the_chain_is_believed),
		T(a_chain_has_a_longest_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
