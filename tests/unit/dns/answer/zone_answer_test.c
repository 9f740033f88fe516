/* What a zone of names answers: the leaf of the hub's DNS server. */
#include "dns/answer/zone_answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/dns/dns_kit.h"

static struct name_zone zone;
static struct name_found found; /* what the owner says to any name but `asked_name` */
static char asked_name[DNS_NAME_MAX];
static struct buf text;

static struct in6_addr
v4(uint32_t host)
{
	struct in6_addr a = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

	dns_put32(a.s6_addr + 12, host);
	return a;
}

/* As `kit_describe` tells it, with " RA" where the server says that it recurses. */
static const char *
answer_to(const uint8_t *m, size_t len, size_t size)
{
	static uint8_t bytes[DNS_MESSAGE_MAX];
	struct dns_out out = {.bytes = bytes, .size = size};
	struct name_asked asked;
	struct dns_query q;

	assert_int_equal(dns_query_parse(&q, m, len), DNS_PARSE_OK);
	asked_name[0] = '\0';
	if (name_zone_read(&zone, &q, &asked))
		strcpy(asked_name, asked.name);
	name_zone_write(&zone, &q, &asked, &found, &out);
	assert_true(out.len <= size);
	assert_int_equal(bytes[3] & DNS_FLAG_RA, 0);
	assert_memory_equal(bytes + DNS_HEADER, m + DNS_HEADER, q.question_end - DNS_HEADER);
	return kit_describe(&text, bytes, out.len);
}

static const char *
ask(const char *name, unsigned type)
{
	uint8_t m[512];

	return answer_to(m, kit_query(m, name, type, 0x0100, KIT_EDNS), DNS_UDP_MAX);
}

static void
there(size_t n, ...)
{
	va_list ap;

	found = (struct name_found){.is = NAME_THERE, .serial = 7, .n = n};
	va_start(ap, n);
	for (size_t i = 0; i < n; i++)
		found.addresses[i] = v4(va_arg(ap, unsigned));
	va_end(ap);
}

static void
is(enum name_is what)
{
	found = (struct name_found){.is = what, .serial = 7};
}

#define SOA "SOA of nodes.example."

static void
a_name_is_its_addresses(void **state)
{
	const char *said;

	(void)state;
	there(1, 0xc0000201u);
	said = ask("Edge-1.Nodes.EXAMPLE", DNS_A);
	assert_string_equal(asked_name, "edge-1");
	assert_non_null(strstr(said, "NOERROR aa an=1 ns=0"));
	assert_non_null(strstr(said, "A 192.0.2.1 ttl=10"));
	said = ask("edge-1.nodes.example", DNS_AAAA);
	assert_non_null(strstr(said, "NOERROR aa an=0 ns=1"));
	assert_non_null(strstr(said, SOA));
	assert_non_null(strstr(ask("edge-1.nodes.example", DNS_TXT), "an=0 ns=1"));
	assert_non_null(strstr(ask("edge-1.nodes.example", DNS_ANY), "an=1 ns=0"));
	ask("ip-10-0-0-1.eu.compute.internal.nodes.example", DNS_A);
	assert_string_equal(asked_name, "ip-10-0-0-1.eu.compute.internal");
	found.addresses[1] = (struct in6_addr){.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
	found.n = 2;
	assert_non_null(strstr(ask("edge-1.nodes.example", DNS_AAAA), "AAAA 2001:db8::1 ttl=10"));
	assert_non_null(strstr(ask("edge-1.nodes.example", DNS_ANY), "an=2"));
}

static void
what_is_not_there_is_said_with_the_soa(void **state)
{
	const char *said;

	(void)state;
	is(NAME_ABSENT);
	said = ask("gone.nodes.example", DNS_A);
	assert_non_null(strstr(said, "NXDOMAIN aa an=0 ns=1"));
	assert_non_null(strstr(said, SOA));
	assert_non_null(strstr(said, "ttl=5"));
	is(NAME_ABOVE);
	assert_non_null(strstr(ask("internal.nodes.example", DNS_A), "NOERROR aa an=0 ns=1"));
	is(NAME_UNKNOWN);
	assert_non_null(strstr(ask("edge-1.nodes.example", DNS_A), "SERVFAIL an=0 ns=0"));
	assert_non_null(strstr(ask("nodes.example", DNS_SOA), "SERVFAIL an=0 ns=0"));
}

static void
the_zone_itself(void **state)
{
	(void)state;
	is(NAME_ABOVE);
	assert_non_null(strstr(ask("nodes.example", DNS_SOA), "NOERROR aa an=1 ns=0"));
	assert_string_equal(asked_name, "");
	assert_non_null(strstr(ask("nodes.example", DNS_SOA), SOA));
	assert_non_null(strstr(ask("nodes.example", DNS_NS), "an=1 ns=0"));
	assert_non_null(strstr(ask("nodes.example", DNS_A), "NOERROR aa an=0 ns=1"));
	is(NAME_ABSENT);
	assert_non_null(strstr(ask("ns.nodes.example", DNS_A), "A 192.0.2.53"));
	assert_non_null(strstr(ask("ns.nodes.example", DNS_AAAA), "NOERROR aa an=0 ns=1"));
	zone.address = (struct in6_addr){.s6_addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 0x53}};
	assert_non_null(strstr(ask("ns.nodes.example", DNS_AAAA), "AAAA 2001:db8::53"));
	assert_non_null(strstr(ask("ns.nodes.example", DNS_A), "NOERROR aa an=0 ns=1"));
	zone.address = in6addr_any;
	assert_non_null(strstr(ask("ns.nodes.example", DNS_AAAA), "NOERROR aa an=0 ns=1"));
	zone.address = v4(INADDR_ANY);
	assert_non_null(strstr(ask("ns.nodes.example", DNS_A), "NOERROR aa an=0 ns=1"));
	there(1, 0xc0000209u); /* a node called so */
	assert_non_null(strstr(ask("ns.nodes.example", DNS_A), "A 192.0.2.9"));
}

static void
nothing_else_is_answered(void **state)
{
	uint8_t m[512];
	size_t len;

	(void)state;
	there(1, 1u);
	assert_non_null(strstr(ask("nodes.example.org", DNS_A), "REFUSED an=0 ns=0"));
	assert_non_null(strstr(ask("xnodes.example", DNS_A), "REFUSED"));
	assert_non_null(strstr(ask("example", DNS_A), "REFUSED"));
	assert_non_null(strstr(ask("", DNS_NS), "REFUSED"));
	assert_non_null(strstr(ask("1.2.0.192.in-addr.arpa", DNS_PTR), "REFUSED"));
	assert_non_null(strstr(ask("nodes.example", DNS_AXFR), "REFUSED"));
	assert_non_null(strstr(ask("nodes.example", DNS_IXFR), "REFUSED"));
	assert_non_null(strstr(ask("edge-1.nodes.example", DNS_TKEY), "NOTIMP"));
	assert_non_null(strstr(ask("edge-1.nodes.example", DNS_OPT), "FORMERR"));
	len = kit_query(m, "edge-1.nodes.example", DNS_A, 0, KIT_PLAIN);
	dns_put16(m + len - 2, 3); /* CHAOS */
	assert_non_null(strstr(answer_to(m, len, DNS_UDP_PLAIN), "REFUSED"));
}

/* A label may hold any octet: one with a dot in it is not two labels, whatever its text looks
 * like. */
static void
labels_that_no_name_has(void **state)
{
	static const char odd[] = {'.', '\0', ' ', '/', '\\', '\t', (char)0xff, '%'};
	uint8_t m[512];
	size_t len;

	(void)state;
	there(1, 1u);
	for (size_t i = 0; i < sizeof odd; i++) {
		len = kit_query(m, "edge-1xsite.nodes.example", DNS_A, 0, KIT_PLAIN);
		m[DNS_HEADER + 1 + strlen("edge-1")] = (uint8_t)odd[i];
		assert_non_null(strstr(answer_to(m, len, DNS_UDP_PLAIN), "NXDOMAIN aa"));
	}
	is(NAME_UNKNOWN);
	assert_non_null(strstr(answer_to(m, len, DNS_UDP_PLAIN), "SERVFAIL"));
}

static void
many_addresses_are_cut_with_tc(void **state)
{
	char name[256];
	uint8_t m[512];
	size_t len;

	(void)state;
	is(NAME_THERE);
	found.n = NAME_ADDRESSES_MAX;
	for (unsigned i = 0; i < found.n; i++)
		found.addresses[i] = v4(0x0a000000u + i);
	len = kit_query(m, "edge-1.nodes.example", DNS_A, 0, KIT_PLAIN);
	assert_non_null(strstr(answer_to(m, len, DNS_UDP_PLAIN), " tc "));
	assert_null(strstr(answer_to(m, len, DNS_MESSAGE_MAX), " tc "));
	assert_non_null(strstr(answer_to(m, len, DNS_MESSAGE_MAX), "an=32"));
	for (unsigned i = 0; i < 3;
		i++) { /* turned by the id, so that who takes the first takes all in turn */
		char want[40];

		dns_put16(m, 5 + i);
		snprintf(want, sizeof want, "ar=0 A 10.0.0.%u ", 5 + i);
		assert_non_null(strstr(answer_to(m, len, DNS_MESSAGE_MAX), want));
	}
	memset(name, 'a', sizeof name); /* the longest name there can be */
	for (size_t i = 60; i < 240; i += 60)
		name[i] = '.';
	strcpy(name + 239, ".nodes.example");
	found.n = 1;
	assert_non_null(strstr(ask(name, DNS_A), "an=1"));
	is(NAME_ABSENT);
	assert_non_null(strstr(ask(name, DNS_A), "NXDOMAIN"));
}

static void
zones_and_names_have_room(void **state)
{
	char long_zone[300];
	struct name_zone z;

	(void)state;
	memset(long_zone, 'a', sizeof long_zone);
	for (size_t i = 50; i < sizeof long_zone; i += 50)
		long_zone[i] = '.';
	long_zone[245] = '\0';
	assert_int_equal(name_zone_init(&z, long_zone, 5), -22);
	assert_int_equal(name_zone_init(&z, "", 5), -22);
	assert_int_equal(name_zone_init(&z, "a..b", 5), -22);
	assert_true(name_zone_holds(&zone, "edge-1"));
	assert_true(name_zone_holds(&zone, "a.b.c"));
	long_zone[70] = '\0'; /* a label of 50 and one of 19 */
	assert_true(name_zone_holds(&zone, long_zone));
	memset(long_zone, 'a', 64);
	long_zone[64] = '\0';
	assert_false(name_zone_holds(&zone, long_zone));
	assert_false(name_zone_holds(&zone, ""));
}

static int
setup(void **state)
{
	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	assert_int_equal(name_zone_init(&zone, "nodes.example", 10), 0);
	zone.address = v4(0xc0000235u);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	buf_fini(&text);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_name_is_its_addresses, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_is_not_there_is_said_with_the_soa, setup, teardown),
		cmocka_unit_test_setup_teardown(the_zone_itself, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_else_is_answered, setup, teardown),
		cmocka_unit_test_setup_teardown(labels_that_no_name_has, setup, teardown),
		cmocka_unit_test_setup_teardown(many_addresses_are_cut_with_tc, setup, teardown),
		cmocka_unit_test_setup_teardown(zones_and_names_have_room, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
