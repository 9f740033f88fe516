/* Who the upstreams are, what passes through, and what is known of each: dns/ as a whole, and its
 * leaves. */
#include "tests/unit/dns/dns_bed.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dns/forward/client_quota.h"
#include "dns/forward/loop_probe.h"
#include "tests/unit/patience.h"

/* --- leaves --------------------------------------------------------------------------------- */

static void
loop_names_are_known_again(void **state)
{
	static const uint64_t marks[] = {1, 0x0123456789abcdefull, UINT64_MAX};
	uint8_t q[LOOP_PROBE_QUERY_BYTES], other[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		struct dns_query parsed;

		loop_probe_build(q, marks[i], 0xfeedu + (uint32_t)i);
		assert_int_equal(dns_query_parse(&parsed, q, LOOP_PROBE_QUERY_BYTES), DNS_PARSE_OK);
		assert_int_equal(loop_probe_parse(q, LOOP_PROBE_QUERY_BYTES), marks[i]);
		for (size_t k = DNS_HEADER; k < sizeof q - 15; k++) {
			if (q[k] >= 'a' && q[k] <= 'z')
				q[k] ^= 0x20;
		}
		assert_int_equal(loop_probe_parse(q, LOOP_PROBE_QUERY_BYTES), marks[i]);
		q[DNS_HEADER + 3] = 'g';
		assert_int_equal(loop_probe_parse(q, LOOP_PROBE_QUERY_BYTES), 0);
	}
	assert_int_equal(loop_probe_parse(q, 20), 0);
	assert_int_equal(
		loop_probe_parse(other, kit_query(other, "www.example.org", DNS_A, 0, KIT_EDNS)),
		0);
}

static void
shares_are_bounded_and_given_back(void **state)
{
	static struct client_quota s;
	unsigned clients = 0;

	(void)state;
	client_quota_init(&s, 42);
	for (unsigned i = 0; i < CLIENT_QUOTA_CLIENT; i++)
		assert_true(client_quota_take(&s, 1));
	assert_false(client_quota_take(&s, 1));
	for (uint32_t c = 2; c < 66; c++)
		assert_true(client_quota_take(&s, c));
	client_quota_give(&s, 1);
	assert_true(client_quota_take(&s, 1));
	for (uint32_t c = 100; client_quota_take(&s, c); c++)
		clients++;
	assert_int_equal(clients, CLIENT_QUOTA_TOTAL - CLIENT_QUOTA_CLIENT - 64);
}

/* --- loops and ourselves -------------------------------------------------------------------- */

static const char *
state_of(struct bed *f)
{
	buf_consume(&f->text, buf_len(&f->text));
	dns_state(f->dns, &f->text);
	return buf_str(&f->text);
}

static bool
wait_state(struct bed *f, const char *what, uint64_t wait_ms)
{
	uint64_t until = mono_ms() + wait_ms;

	while (strstr(state_of(f), what) == NULL && mono_ms() < until)
		bed_turn(f);
	return strstr(state_of(f), what) != NULL;
}

static bool
has_metric(struct bed *f, const char *line)
{
	struct metrics m;
	bool has;

	metrics_init(&m);
	dns_metrics(f->dns, &m);
	has = strstr(buf_str(&m.out), line) != NULL;
	metrics_fini(&m);
	return has;
}

static void
a_loop_is_found_and_a_mended_one_comes_back(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = LOOP;
	bed_start(f);
	assert_true(wait_state(f, "\"state\":\"loop\"", 3000));
	assert_true(has_metric(f, "edgeway_dns_upstream_loops_total 1\n"));
	for (unsigned i = 0; i < 5; i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), SECOND);
	assert_int_equal(f->up[1].asked, 5);
	f->up[0].mode = SILENT; /* says nothing: no reason to trust it again */
	assert_false(wait_state(f, "\"state\":\"alive\",\"queries\":0", 200));
	f->up[0].mode = ANSWER;
	for (unsigned i = 0; i < 16 && strstr(state_of(f), "\"loop\"") != NULL; i++)
		assert_string_equal(bed_receive(f, 1000), "nothing");
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	assert_true(has_metric(f, "edgeway_dns_upstream_loops_total 1\n"));
}

/* The detour begins when somebody has read the resolv.conf that names us. */
static void
a_loop_that_comes_later_is_found(void **state)
{
	struct bed *f = *state;

	bed_start(f);
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	f->up[0].mode = LOOP;
	assert_true(wait_state(f, "\"state\":\"loop\"", 13000));
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), SECOND);
}

#define NOBODY_REFUSED "edgeway_dns_forward_refused_total{reason=\"no upstream\"} 0\n"

static void
when_all_loop_nobody_is_asked(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = f->up[1].mode = LOOP;
	bed_start(f);
	/* On a busy machine a check may time out, and the next one is 8 s later. */
	assert_true(wait_state(f, "\"upstreams\":[]", 20000));
	/* The workers hear of it a moment later; until then a question comes back and waits for
	 * itself, 4.5 s at most. */
	for (unsigned i = 0; i < 50 && has_metric(f, NOBODY_REFUSED); i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 10000), SERVFAIL);
	assert_false(has_metric(f, NOBODY_REFUSED));
	assert_string_equal(bed_ask(f, WEB, 1000), WEB_ANSWER);
}

/* Ourselves in two dresses, one server twice, and a server of IPv6 that is not there. */
static void
odd_lists_of_upstreams_are_put_right(void **state)
{
	struct bed *f = *state;
	char own[64], want[256], text[2][ADDR_TEXT_MAX];

	f->upstreams[f->n_upstreams++] = addr_ipv4(INADDR_LOOPBACK, f->port);
	sprintf(own, "[::ffff:127.0.0.1]:%u", f->port);
	assert_int_equal(addr_parse(&f->upstreams[f->n_upstreams++], own, 53, NULL), 0);
	f->upstreams[f->n_upstreams++] = f->up[0].addr;
	sprintf(own, "::ffff:127.0.0.1");
	assert_int_equal(
		addr_parse(&f->upstreams[f->n_upstreams++], own, addr_port(&f->up[0].addr), NULL),
		0);
	assert_int_equal(addr_parse(&f->upstreams[f->n_upstreams++], "[::1]:9", 53, NULL), 0);
	bed_start(f);
	snprintf(want, sizeof want, "\"upstreams\":[\"%s\",\"[::1]:9\",\"%s\"]",
		addr_text(&f->up[0].addr, text[0]), addr_text(&f->up[1].addr, text[1]));
	assert_non_null(strstr(state_of(f), want));
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	f->up[0].mode = FAIL; /* then the one that is not there, then the last */
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), SECOND);
}

/* --- what is known of each ------------------------------------------------------------------ */

static void
each_upstream_can_be_seen(void **state)
{
	struct bed *f = *state;
	char line[256], text[ADDR_TEXT_MAX];

	f->up[1].mode = SILENT;
	bed_start(f);
	for (unsigned i = 0; i < 3; i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	assert_true(wait_state(f, "\"state\":\"dead\",\"queries\":0,", 5000));
	assert_true(wait_state(f, "\"state\":\"alive\",\"queries\":3,\"failures\":0,", 100));
	addr_text(&f->up[0].addr, text);
	snprintf(
		line, sizeof line, "edgeway_dns_upstream_queries_total{upstream=\"%s\"} 3\n", text);
	assert_true(has_metric(f, line));
	snprintf(line, sizeof line, "edgeway_dns_upstream_alive{upstream=\"%s\"} 1\n", text);
	assert_true(has_metric(f, line));
	f->up[0].mode = FAIL;
	assert_string_equal(bed_ask(f, bed_fresh(f), 5000), SERVFAIL);
	snprintf(line, sizeof line, "edgeway_dns_upstream_failures_total{upstream=\"%s\"} 1\n",
		text);
	assert_true(has_metric(f, line));
}

static void
who_answers_errors_alone_is_told(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = f->up[1].mode = REFUSE;
	bed_start(f);
	for (unsigned i = 0; i < 30; i++) /* of one name they may be right */
		bed_ask(f, "broken.example.org", 1000);
	assert_null(strstr(state_of(f), "REFUSED"));
	for (unsigned i = 0; i < 30; i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), SERVFAIL);
	assert_true(wait_state(f, "\"errors\":\"REFUSED\"", 1000));
	assert_null(strstr(state_of(f), "\"errors\":\"\"")); /* both of them */
	f->up[1].mode = ANSWER;
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), SECOND);
	assert_true(wait_state(f, "\"errors\":\"\"", 1000));
	assert_non_null(strstr(state_of(f), "REFUSED"));
	f->up[0].mode = ANSWER;
	patience_until(bed_ask(f, bed_fresh(f), 1000), strstr(state_of(f), "REFUSED") == NULL);
}

/* It is dead, or the next one is asked. */
static void
who_answers_garbage_is_told(void **state)
{
	static const enum bed_mode modes[] = {LIE, ECHO, TORN};
	struct bed *f = *state;

	f->up[0].mode = SILENT;
	bed_start(f);
	bed_ask(f, bed_fresh(f), 1000);
	assert_true(wait_state(f, "\"state\":\"dead\"", 5000));
	assert_null(strstr(state_of(f), "garbage"));
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		f->up[0].mode = modes[i];
		f->up[1].mode = ANSWER;
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), SECOND);
		f->up[1].mode = REFUSE; /* so that the other one is asked each time */
		patience_until(bed_ask(f, bed_fresh(f), 1000),
			strstr(state_of(f), "\"errors\":\"garbage\"") != NULL);
		f->up[0].mode = ANSWER;
		patience_until(
			bed_ask(f, bed_fresh(f), 1000), strstr(state_of(f), "garbage") == NULL);
	}
}

/* --- what passes through -------------------------------------------------------------------- */

static void
bits_of_the_client_survive(void **state)
{
	struct bed *f = *state;
	uint8_t q[512];

	bed_start(f);
	bed_send(f, q, kit_query(q, bed_fresh(f), DNS_A, DNS_FLAG_RD | DNS_FLAG_CD, KIT_DO));
	assert_non_null(strstr(bed_receive(f, 1000), "OPT size=1232 do"));
	assert_true(f->up[0].edns_do);
	assert_int_equal(f->up[0].flags & 1, 1);
	assert_int_equal(f->up[0].ad_cd & 0x30, 0x10);
	bed_send(f, q, kit_query(q, bed_fresh(f), DNS_A, DNS_FLAG_RD | DNS_FLAG_AD, KIT_PLAIN));
	assert_string_equal(bed_receive(f, 1000), FIRST);
	assert_false(f->up[0].edns_do);
	assert_int_equal(f->up[0].ad_cd & 0x30, 0x20);
}

/* The TCP side of an upstream: answers with as many A records as it is told. */
struct big {
	struct bed *f;
	struct watch *listening, *talking;
	int fd, peer;
	unsigned records, asked;
};

static void
on_big_query(void *arg, int fd, unsigned events)
{
	static const uint8_t rr[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1};
	struct big *b = arg;
	auto_free uint8_t *out = xcalloc(1, 2 + DNS_MESSAGE_MAX);
	uint8_t m[512];
	ssize_t n = read(fd, m, sizeof m);
	size_t at;

	(void)events;
	if (n <= 2 + DNS_HEADER) {
		watch_stop(&b->talking);
		close(take_fd(&b->peer));
		return;
	}
	b->asked += loop_probe_parse(m + 2, (size_t)n - 2) == 0;
	at = dns_name_skip(m + 2, (size_t)n - 2, DNS_HEADER) + 4;
	memcpy(out + 2, m + 2, at);
	out[4] |= 0x80;
	out[13] = 0;
	dns_put16(out + 8, b->records);
	for (unsigned i = 0; i < b->records; i++, at += sizeof rr)
		memcpy(out + 2 + at, rr, sizeof rr);
	dns_put16(out, (unsigned)at);
	assert_int_equal(
		write(fd, out, at + 2), at + 2); /* the buffer of a new connection is larger */
}

static void
on_big_accept(void *arg, int fd, unsigned events)
{
	struct big *b = arg;
	int size = 1 << 20;

	(void)events;
	assert_int_equal(b->peer, -1);
	b->peer = accept(fd, NULL, NULL);
	setsockopt(b->peer, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
	b->talking = watch_start(b->f->loop, b->peer, WATCH_READ, on_big_query, b);
}

/* Length of the answer by TCP, whose bytes are in `to`. */
static size_t
ask_by_tcp(struct bed *f, const char *name, uint8_t to[2 + DNS_MESSAGE_MAX])
{
	struct addr us = addr_ipv4(INADDR_LOOPBACK, f->port);
	uint64_t until = mono_ms() + 3000;
	auto_fd int fd = -1;
	uint8_t q[514];
	size_t len = kit_query(q + 2, name, DNS_A, DNS_FLAG_RD, KIT_PLAIN), have = 0;

	dns_put16(q, (unsigned)len);
	assert_int_equal(sock_connect(&us, 0, &fd), 0);
	bed_turn(f);
	assert_int_equal(write(fd, q, len + 2), len + 2);
	while (mono_ms() < until && (have < 2 || have < 2u + dns_get16(to))) {
		ssize_t n = read(fd, to + have, 2 + DNS_MESSAGE_MAX - have);

		have += n > 0 ? (size_t)n : 0;
		bed_turn(f);
	}
	assert_true(have >= 2);
	assert_int_equal(have, 2u + dns_get16(to));
	return have - 2;
}

/* Upstream cuts its answers to UDP: it is asked by TCP, and who asks by TCP gets all of it. */
static void
large_answers_come_by_tcp(void **state)
{
	static const unsigned records[] = {80, 300, 4090}; /* 1.3, 4.8, 65.5 kB */
	struct bed *f = *state;
	struct big b = {.f = f, .peer = -1};
	auto_free uint8_t *m = xmalloc(2 + DNS_MESSAGE_MAX);
	uint8_t q[512];

	f->up[0].mode = f->up[1].mode = TRUNCATE;
	assert_int_equal(sock_listen(&f->up[0].addr, 0, &b.fd, NULL), 0);
	b.listening = watch_start(f->loop, b.fd, WATCH_READ, on_big_accept, &b);
	bed_start(f);
	for (size_t i = 0; i < ARRAY_LEN(records); i++) {
		const char *name = bed_fresh(f);
		const char *said;

		b.records = records[i];
		assert_true(ask_by_tcp(f, name, m) >= records[i] * 16);
		assert_int_equal(m[4] & (DNS_FLAG_TC >> 8), 0);
		assert_int_equal(m[5] & 15, DNS_NOERROR);
		assert_int_equal(dns_get16(m + 8), records[i]);
		assert_int_equal(b.asked, i + 1);
		bed_send(f, q, kit_query(q, bed_fresh(f), DNS_A, DNS_FLAG_RD, KIT_EDNS));
		said = bed_receive(f, 3000);
		assert_non_null(strstr(said, "NOERROR tc"));
		assert_non_null(strstr(said, "OPT size=1232"));
		b.asked = (unsigned)i + 1;
	}
	watch_stop(&b.listening);
	watch_stop(&b.talking);
	close(b.fd);
	if (b.peer >= 0)
		close(b.peer);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, bed_setup, bed_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loop_names_are_known_again),
		cmocka_unit_test(shares_are_bounded_and_given_back),
		T(a_loop_is_found_and_a_mended_one_comes_back),
		T(a_loop_that_comes_later_is_found),
		T(when_all_loop_nobody_is_asked),
		T(odd_lists_of_upstreams_are_put_right),
		T(each_upstream_can_be_seen),
		T(who_answers_errors_alone_is_told),
		T(who_answers_garbage_is_told),
		T(bits_of_the_client_survive),
		T(large_answers_come_by_tcp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
