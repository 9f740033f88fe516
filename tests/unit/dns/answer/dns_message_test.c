/* Parser and writer of DNS messages, and what forwarding does to them. */
#include "dns/answer/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/core/sock.h"
#include "dns/forward/cookie.h"
#include "dns/forward/rewrite.h"
#include "tests/unit/dns/dns_kit.h"

static void
every_cut_of_a_query_is_refused(void **state)
{
	uint8_t m[512];
	struct dns_query q;
	size_t len = kit_query(m, "web.default.svc.cluster.local", DNS_A, 0, KIT_EDNS);

	(void)state;
	assert_int_equal(dns_query_parse(&q, m, len), DNS_PARSE_OK);
	assert_int_equal(q.n_labels, 5);
	assert_true(q.edns);
	for (size_t n = 0; n < len; n++) {
		auto_free uint8_t *cut = xmemdup(m, n > 0 ? n : 1);

		assert_int_equal(dns_query_parse(&q, cut, n),
			n < DNS_HEADER ? DNS_PARSE_DROP : DNS_PARSE_REFUSE);
	}
	m[len] = 0;
	assert_int_equal(dns_query_parse(&q, m, len + 1), DNS_PARSE_REFUSE);
}

static void
names_are_bounded(void **state)
{
	uint8_t m[600] = {0, 0, 0, 0, 0, 1};
	struct dns_query q;
	size_t n = DNS_HEADER;

	(void)state;
	for (unsigned i = 0; i < 127; i++) {
		m[n++] = 1;
		m[n++] = 'A';
	}
	m[n] = 0;
	m[n + 2] = 1;
	m[n + 4] = 1;
	assert_int_equal(dns_query_parse(&q, m, n + 5), DNS_PARSE_OK);
	assert_int_equal(q.n_labels, 127);
	assert_int_equal(q.name_len, 255);
	assert_int_equal(q.name[1], 'a');
	m[n] = 1; /* 257 octets */
	m[n + 2] = 0;
	assert_int_equal(dns_query_parse(&q, m, n + 7), DNS_PARSE_REFUSE);
	m[12] = 0xc0; /* a pointer in a question points to nothing */
	m[13] = 12;
	assert_int_equal(dns_query_parse(&q, m, 18), DNS_PARSE_REFUSE);
	m[12] = 64;
	assert_int_equal(dns_query_parse(&q, m, 100), DNS_PARSE_REFUSE);
}

static void
pointers_go_backwards_only(void **state)
{
	uint8_t m[64] = {0}, name[DNS_NAME_MAX];
	size_t end = 0;

	(void)state;
	memcpy(m + 12, "\1a\0\1b\300\14\300\17\300\25", 11);
	assert_int_equal(dns_name_expand(name, m, 23, 15, &end), 5);
	assert_int_equal(end, 19);
	assert_memory_equal(name, "\1b\1a", 5);
	assert_int_equal(dns_name_expand(name, m, 23, 19, &end), 5);
	assert_int_equal(end, 21);
	assert_int_equal(dns_name_expand(name, m, 23, 21, &end), 0); /* itself */
	m[22] = 22;
	assert_int_equal(dns_name_expand(name, m, 23, 21, &end), 0); /* forwards */
	m[22] = 3;
	assert_int_equal(dns_name_expand(name, m, 23, 21, &end), 0); /* the header */
	assert_int_equal(dns_name_expand(name, m, 22, 21, &end), 0); /* cut */
	memcpy(m + 12, "\1a\2\300\14\0\0", 7);
	assert_int_equal(dns_name_expand(name, m, 19, 15, &end), 0); /* runs on into itself */
}

static void
names_from_text(void **state)
{
	uint8_t name[DNS_NAME_MAX];
	char longest[300];

	(void)state;
	assert_int_equal(dns_name_from_text(name, "A.b."), 5);
	assert_memory_equal(name, "\1a\1b", 5);
	assert_int_equal(dns_name_from_text(name, "."), 1);
	assert_int_equal(dns_name_from_text(name, "a..b"), 0);
	memset(longest, 'a', sizeof longest);
	longest[64] = '\0';
	assert_int_equal(dns_name_from_text(name, longest), 0);
	longest[63] = '\0';
	assert_int_equal(dns_name_from_text(name, longest), 65);
}

/* The longest label and the longest name are good, and what is behind the end is not read. */
static void
names_end_where_they_may(void **state)
{
	uint8_t m[DNS_HEADER + DNS_NAME_MAX + 1] = {0}, to[DNS_NAME_MAX];
	size_t n = DNS_HEADER, end = 0;

	(void)state;
	for (unsigned c; n < DNS_HEADER + DNS_NAME_MAX - 1; n += 1u + c) {
		c = MIN(63u, (unsigned)(DNS_HEADER + DNS_NAME_MAX - 2 - n));
		m[n] = (uint8_t)c;
		memset(m + n + 1, 'a', c);
	}
	assert_int_equal(dns_name_expand(to, m, sizeof m, DNS_HEADER, &end), DNS_NAME_MAX);
	assert_int_equal(end, DNS_HEADER + DNS_NAME_MAX);
	assert_int_equal(dns_name_skip(m, sizeof m, DNS_HEADER), end);
	assert_int_equal(dns_name_skip(m, end - 1, DNS_HEADER), 0); /* a zero is behind */
	assert_int_equal(dns_name_expand(to, m, end - 1, DNS_HEADER, &end), 0);
}

static void
udp_size_is_clamped(void **state)
{
	static const struct {
		unsigned said, used;
	} rows[] = {{0, 512}, {511, 512}, {512, 512}, {1000, 1000}, {1232, 1232}, {4096, 1232},
		{65535, 1232}};
	uint8_t m[512];
	struct dns_query q;
	size_t len = kit_query(m, "a", DNS_A, 0, KIT_EDNS);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		dns_put16(m + len - 8, rows[i].said);
		assert_int_equal(dns_query_parse(&q, m, len), DNS_PARSE_OK);
		assert_int_equal(dns_reply_limit(&q), rows[i].used);
	}
}

static void
options_of_opt_are_checked(void **state)
{
	uint8_t m[512];
	struct dns_query q;
	size_t len = kit_query(m, "a", DNS_A, 0, KIT_EDNS);

	(void)state;
	memcpy(m + len, "\xfd\xe9\0\2xy", 6); /* unknown ones are passed over */
	m[len - 1] = 6;
	assert_int_equal(dns_query_parse(&q, m, len + 6), DNS_PARSE_OK);
	m[len + 3] = 3;
	assert_int_equal(dns_query_parse(&q, m, len + 6), DNS_PARSE_REFUSE);
	m[len - 1] = 3;
	assert_int_equal(dns_query_parse(&q, m, len + 3), DNS_PARSE_REFUSE);
	m[len - 1] = 4; /* an empty one ends the message */
	m[len + 3] = 0;
	assert_int_equal(dns_query_parse(&q, m, len + 4), DNS_PARSE_OK);
}

static void
what_does_not_fit_sets_tc(void **state)
{
	uint8_t m[512], out[DNS_UDP_MAX];
	struct dns_writer w;
	struct dns_query q;
	struct buf text;
	size_t n;

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	assert_int_equal(
		dns_query_parse(&q, m, kit_query(m, "a", DNS_A, 0, KIT_EDNS)), DNS_PARSE_OK);
	q.udp_size = 512;
	dns_reply_start(&w, out, dns_reply_limit(&q), &q, DNS_NOERROR, true);
	for (unsigned i = 0; i < 100; i++)
		dns_reply_a(&w, DNS_OWNER, 30, i);
	n = dns_reply_finish(&w);
	assert_true(n <= 512 && n > 480);
	assert_non_null(
		strstr(kit_describe(&text, out, n), "NOERROR aa tc an=30 ns=0 ar=1 A 0.0.0.0"));
	/* additional records are left out without a word */
	dns_reply_start(&w, out, dns_reply_limit(&q), &q, DNS_NOERROR, true);
	dns_reply_section(&w, DNS_SECTION_ADDITIONAL);
	for (unsigned i = 0; i < 100; i++)
		dns_reply_a(&w, DNS_OWNER, 30, i);
	n = dns_reply_finish(&w);
	assert_non_null(strstr(kit_describe(&text, out, n), "NOERROR aa an=0 ns=0 ar=31 A"));
	buf_fini(&text);
}

/* An upstream's answer to `q` with n addresses and an OPT. */
static size_t
upstream_answer(uint8_t *up, const struct dns_query *q, unsigned n)
{
	uint8_t built[DNS_FORWARD_MAX];
	size_t len = dns_forward_build(built, q, NULL) - DNS_OPT_BYTES;

	memcpy(up, built, len);
	up[0] ^= 0xff;
	up[2] |= 0x80;
	up[3] = 0x80 | DNS_FLAG_AD;
	dns_put16(up + 6, n);
	for (unsigned i = 0; i < n; i++) {
		memcpy(up + len, "\300\14\0\1\0\1\0\0\1\0\0\4\300\0\2", 15);
		up[len + 15] = (uint8_t)i;
		len += 16;
	}
	return len + dns_put_opt(up + len, 0, false);
}

/* Length of the client's answer, 0: none. */
static size_t
forward(uint8_t *out, const struct dns_query *q, const uint8_t *up, size_t len)
{
	struct dns_out to = {.bytes = out, .size = 512};

	return dns_forward_answer(&to, q, up, len) ? to.len : 0;
}

static void
upstream_answers_become_the_clients(void **state)
{
	uint8_t m[512], up[2048], out[DNS_UDP_MAX];
	struct dns_query q;
	struct buf text;
	size_t n, len = kit_query(m, "WWW.example", DNS_A, DNS_FLAG_RD, KIT_PLAIN);

	(void)state;
	buf_init(&text, BUF_UNLIMITED);
	assert_int_equal(dns_query_parse(&q, m, len), DNS_PARSE_OK);
	n = upstream_answer(up, &q, 2);
	up[13] = 'w'; /* the upstream does not keep the case */
	n = forward(out, &q, up, n);
	assert_string_equal(kit_describe(&text, out, n),
		"NOERROR an=2 ns=0 ar=0 A 192.0.2.0 ttl=256 A 192.0.2.1 ttl=256");
	assert_int_equal(dns_get16(out), 0xbeef);
	assert_int_equal(dns_get16(out + 2), 0x8180);
	assert_memory_equal(out + 12, m + 12, len - 12);
	n = upstream_answer(up, &q, 100);
	n = forward(out, &q, up, n);
	assert_true(n <= 512);
	assert_non_null(strstr(kit_describe(&text, out, n), "NOERROR tc an=30 "));
	len = kit_query(m, "WWW.example", DNS_A, DNS_FLAG_RD | DNS_FLAG_AD, KIT_DO);
	assert_int_equal(dns_query_parse(&q, m, len), DNS_PARSE_OK);
	n = forward(out, &q, up, upstream_answer(up, &q, 1));
	assert_string_equal(kit_describe(&text, out, n),
		"NOERROR an=1 ns=0 ar=1 A 192.0.2.0 ttl=256 OPT size=1232 do");
	assert_int_equal(dns_get16(out + 2), 0x81a0);
	buf_fini(&text);
}

static void
answers_to_other_questions_are_not_passed_on(void **state)
{
	uint8_t m[512], up[2048], out[DNS_UDP_MAX];
	struct dns_query q;
	size_t n, len = kit_query(m, "www.example", DNS_A, DNS_FLAG_RD, KIT_PLAIN);

	(void)state;
	assert_int_equal(dns_query_parse(&q, m, len), DNS_PARSE_OK);
	n = upstream_answer(up, &q, 2);
	assert_true(forward(out, &q, up, n) > 0);
	for (size_t cut = 0; cut < n; cut++) {
		auto_free uint8_t *part = xmemdup(up, cut > 0 ? cut : 1);

		assert_int_equal(forward(out, &q, part, cut), 0);
		assert_false(dns_forward_sound(part, cut));
	}
	assert_true(dns_forward_sound(up, n));
	up[len + 1] = (uint8_t)len; /* an owner that points to itself */
	assert_false(dns_forward_sound(up, n));
	up[len + 1] = DNS_OWNER;
	up[14] = 'x';
	assert_int_equal(forward(out, &q, up, n), 0);
	up[14] = 'w';
	up[len - 3] = DNS_AAAA;
	assert_int_equal(forward(out, &q, up, n), 0);
	up[len - 3] = DNS_A;
	up[2] &= 0x7f;
	assert_int_equal(forward(out, &q, up, n), 0);
}

/* RFC 9018, appendices A.1 and A.4 */
static void
a_cookie_is_signed_as_others_do(void **state)
{
	static const struct {
		uint8_t secret[COOKIE_SECRET_BYTES];
		const char *client;
		uint32_t now_s;
		uint8_t want[DNS_COOKIE_BYTES];
	} rows[] = {
		{{0xe5, 0xe9, 0x73, 0xe5, 0xa6, 0xb2, 0xa4, 0x3f, 0x48, 0xe7, 0xdc, 0x84, 0x9e,
			 0x37, 0xbf, 0xcf},
			"198.51.100.100", 1559731985,
			{0x24, 0x64, 0xc4, 0xab, 0xcf, 0x10, 0xc9, 0x57, 0x01, 0, 0, 0, 0x5c, 0xf7,
				0x9f, 0x11, 0x1f, 0x81, 0x30, 0xc3, 0xee, 0xe2, 0x94, 0x80}},
		{{0xdd, 0x3b, 0xdf, 0x93, 0x44, 0xb6, 0x78, 0xb1, 0x85, 0xa6, 0xf5, 0xcb, 0x60,
			 0xfc, 0xa7, 0x15},
			"2001:db8:220:1:59de:d0f4:8769:82b8", 0x5cf7c579,
			{0x22, 0x68, 0x1a, 0xb9, 0x7d, 0x52, 0xc2, 0x98, 0x01, 0, 0, 0, 0x5c, 0xf7,
				0xc5, 0x79, 0x26, 0x55, 0x6b, 0xd0, 0x93, 0x4c, 0x72, 0xf8}},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t cookie[DNS_COOKIE_BYTES];
		struct dns_client client;
		struct addr a;

		assert_int_equal(addr_parse(&a, rows[i].client, 53, NULL), 0);
		memcpy(&client, &a, a.len);
		memcpy(cookie, rows[i].want, DNS_COOKIE_CLIENT);
		cookie_sign(cookie, rows[i].secret, &client, rows[i].now_s);
		assert_memory_equal(cookie, rows[i].want, sizeof cookie);
	}
}

static void
cookies_are_of_8_or_16_to_40_octets(void **state)
{
	static const uint8_t option[44] = {0, DNS_OPTION_COOKIE, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
	struct dns_query q;

	(void)state;
	for (unsigned n = 0; n <= 40; n++) {
		uint8_t m[600], out[600];
		size_t len = kit_query(m, "cluster.local", DNS_SOA, 0, KIT_EDNS), plain, with;
		bool good = n == 8 || n >= 16;

		memcpy(m + len, option, 4u + n);
		m[len + 3] = (uint8_t)n;
		dns_put16(m + len - 2, 4 + n);
		assert_int_equal(dns_query_parse(&q, m, len + 4 + n),
			good ? DNS_PARSE_OK : DNS_PARSE_REFUSE);
		assert_int_equal(q.cookie_len, good ? DNS_COOKIE_CLIENT : 0);
		if (!good)
			continue;
		plain = dns_reply_error(out, DNS_UDP_PLAIN, &q, DNS_NOERROR); /* unsigned: none */
		q.cookie_len = DNS_COOKIE_BYTES;
		memset(q.cookie + 8, 9, 16);
		with = dns_reply_error(out, DNS_UDP_PLAIN, &q, DNS_NOERROR);
		assert_int_equal(with, plain + 28);
		assert_int_equal(dns_get16(out + plain - 2), 28);
		assert_memory_equal(out + plain, "\0\12\0\30\1\2\3\4\5\6\7\10\11\11", 14);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_cut_of_a_query_is_refused),
		cmocka_unit_test(names_are_bounded),
		cmocka_unit_test(pointers_go_backwards_only),
		cmocka_unit_test(names_from_text),
		cmocka_unit_test(names_end_where_they_may),
		cmocka_unit_test(udp_size_is_clamped),
		cmocka_unit_test(options_of_opt_are_checked),
		cmocka_unit_test(what_does_not_fit_sets_tc),
		cmocka_unit_test(upstream_answers_become_the_clients),
		cmocka_unit_test(answers_to_other_questions_are_not_passed_on),
		cmocka_unit_test(a_cookie_is_signed_as_others_do),
		cmocka_unit_test(cookies_are_of_8_or_16_to_40_octets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
