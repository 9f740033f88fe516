/* Names of others: which upstream is asked when, who waits for it, what is said without it. */
#include "tests/unit/dns/dns_bed.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dns/forward/client_quota.h"
#include "dns/forward/lookup.h"

/* The slowest of a few tries. A NULL name: a fresh one each time. */
static uint64_t
slowest_ms(struct bed *f, const char *name, const char *want)
{
	uint64_t worst = 0;

	for (unsigned i = 0; i < 8; i++) {
		uint64_t start_ms = mono_ms();

		assert_string_equal(bed_ask(f, name != NULL ? name : bed_fresh(f), 5000), want);
		worst = MAX(worst, mono_ms() - start_ms);
	}
	return worst;
}

static void
others_are_forwarded_to_the_first(void **state)
{
	struct bed *f = *state;

	bed_start(f);
	for (unsigned i = 0; i < 10; i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	assert_int_equal(f->up[0].asked, 10);
	assert_int_equal(f->up[1].asked, 0);
	assert_string_equal(bed_ask(f, "out.default.svc.cluster.local", 1000),
		"NOERROR an=2 ns=0 ar=0 TYPE5 www.example.org. ttl=30 A 192.0.2.1 ttl=60");
}

static void
a_silent_upstream_costs_little_and_then_nothing(void **state)
{
	struct bed *f = *state;
	uint64_t start_ms, took;
	unsigned before;

	f->up[0].mode = SILENT;
	bed_start(f);
	for (unsigned i = 0; i < 4; i++) {
		start_ms = mono_ms();
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), SECOND);
		took = mono_ms() - start_ms;
		assert_true(took >= 50);
	}
	before = f->up[0].asked;
	for (unsigned i = 0; i < 10; i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), SECOND);
	assert_true(f->up[0].asked <= before + 5); /* old ones asked again by c-ares, no new ones */
	/* back: a probe finds out, then it is the first again */
	f->up[0].mode = ANSWER;
	start_ms = mono_ms();
	while (mono_ms() - start_ms < 4000 && strcmp(bed_ask(f, bed_fresh(f), 1000), FIRST) != 0)
		usleep(20000);
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
}

static void
an_upstream_that_fails_or_lies_costs_nothing(void **state)
{
	static const enum bed_mode modes[] = {FAIL, REFUSE, LIE};
	struct bed *f = *state;

	bed_start(f);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		f->up[0].mode = modes[i];
		assert_true(slowest_ms(f, NULL, SECOND) < 60);
	}
}

static void
a_closed_upstream_costs_nothing(void **state)
{
	struct bed *f = *state;

	bed_start(f);
	bed_upstream_close(&f->up[0]);
	assert_true(slowest_ms(f, NULL, SECOND) < 60);
}

static void
a_slow_upstream_is_waited_for(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = SLOW;
	f->up[1].mode = FAIL;
	bed_start(f);
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
}

static void
a_very_slow_upstream_is_waited_for(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = SLOW;
	f->up[0].delay_ms = 2800;
	f->up[1].mode = SILENT;
	bed_start(f);
	assert_string_equal(bed_receive(f, 3000), "nothing"); /* its pulse has come */
	for (unsigned i = 0; i < 2; i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 5000), FIRST);
}

/* The kernel spreads clients over the workers: all of them know what one has heard. */
static void
what_one_worker_learns_all_know(void **state)
{
	struct bed *f = *state;
	const struct addr any = addr_ipv4(INADDR_LOOPBACK, 0);

	bed_start(f);
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	for (unsigned i = 0; i < 20; i++) {
		close(f->client);
		assert_int_equal(sock_udp(&any, 0, &f->client, NULL), 0);
		assert_non_null(strstr(bed_ask(f, f->name, 1000), "A 192.0.2.1"));
	}
	assert_int_equal(f->up[0].asked + f->up[1].asked, 1);
}

/* The names that it asks others for are slow, now and then for longer than anybody waits. */
static void
one_that_lives_is_waited_for(void **state)
{
	struct bed *f = *state;
	struct metrics m;
	uint64_t start_ms;

	bed_start(f);
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	f->up[0].mode = SLOW_NAMES;
	f->up[0].delay_ms = 3500;
	f->up[1].mode = SILENT;
	assert_string_equal(bed_ask(f, bed_fresh(f), 5000), FIRST);
	f->up[0].delay_ms = 5200;
	start_ms = mono_ms();
	assert_string_equal(bed_ask(f, bed_fresh(f), 5200), SERVFAIL);
	assert_in_range(mono_ms() - start_ms, 4400, 5200);
	/* the answer is not lost */
	assert_string_equal(bed_receive(f, 1000), "nothing");
	assert_non_null(strstr(bed_ask(f, f->name, 100), "A 192.0.2.1"));
	metrics_init(&m);
	dns_metrics(f->dns, &m);
	assert_non_null(strstr(buf_str(&m.out), "edgeway_dns_cache_hits_total 1\n"));
	metrics_fini(&m);
}

/* Nobody has ever been heard: the very first question is over within 2 s, and so is every other. */
static void
all_dead_from_the_start(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = f->up[1].mode = SILENT;
	bed_start(f);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t start_ms = mono_ms();

		assert_string_equal(bed_ask(f, bed_fresh(f), 5000), SERVFAIL);
		assert_in_range(mono_ms() - start_ms, 1750, 1850);
	}
}

/* A first answer of an upstream that nobody knew yet comes too late for the client, not for the
 * next. */
static void
a_late_answer_is_kept(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = SLOW;
	f->up[0].delay_ms = 2600;
	f->up[1].mode = SILENT;
	bed_start(f);
	assert_string_equal(bed_ask(f, bed_fresh(f), 5000), SERVFAIL);
	assert_string_equal(bed_receive(f, 1500), "nothing");
	f->up[0].mode = SILENT;
	assert_non_null(strstr(bed_ask(f, f->name, 100), "A 192.0.2.1"));
}

/* One that says no, and one that is known to be dead: nobody waits for the second. */
static void
a_no_beside_a_dead_one_is_told_soon(void **state)
{
	struct bed *f = *state;
	uint64_t worst = 0;

	f->up[0].mode = SILENT;
	bed_start(f);
	assert_string_equal(bed_receive(f, 1400), "nothing");
	f->up[1].mode = FAIL;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t start_ms = mono_ms();

		assert_string_equal(bed_ask(f, bed_fresh(f), 5000), SERVFAIL);
		worst = MAX(worst, mono_ms() - start_ms);
	}
	assert_true(worst < 1000);
}

static void
ask_numbered(struct bed *f, char letter, unsigned i)
{
	char name[64];

	snprintf(name, sizeof name, "%c%u.the.quick.brown.fox.jumps.example.org", letter, i);
	for (unsigned times = 0; times < 2; times++)
		assert_non_null(strstr(bed_ask(f, name, 1000), "A 192.0.2.1"));
}

/* A client that asks each of its names twice leaves what others have in the cache. */
static void
one_client_cannot_take_the_cache(void **state)
{
	struct bed *f = *state;
	const struct addr from = addr_ipv4(INADDR_LOOPBACK + 1, 0);
	int modest = f->client, greedy[16]; /* so many that each worker gets many */
	unsigned before;

	f->up[0].ttl_s = 255;
	bed_start(f);
	for (unsigned i = 0; i < 10; i++)
		ask_numbered(f, 'm', i);
	for (size_t i = 0; i < ARRAY_LEN(greedy); i++)
		assert_int_equal(sock_udp(&from, 0, &greedy[i], NULL), 0);
	for (unsigned i = 0; i < LOOKUP_ENTRIES * 3; i++) {
		f->client = greedy[i % ARRAY_LEN(greedy)];
		ask_numbered(f, 'g', i);
	}
	for (size_t i = 0; i < ARRAY_LEN(greedy); i++)
		close(greedy[i]);
	f->client = modest;
	before = f->up[0].asked;
	for (unsigned i = 0; i < 10; i++)
		ask_numbered(f, 'm', i);
	assert_int_equal(f->up[0].asked, before);
}

/* Beside a pod that asks for names that nobody answers, the others get their answers. */
static void
one_client_cannot_take_all_places(void **state)
{
	struct bed *f = *state;
	struct addr from = addr_ipv4(INADDR_LOOPBACK + 1, 0),
		    to = addr_ipv4(INADDR_LOOPBACK, f->port);
	struct metrics m;
	uint8_t q[512];
	unsigned refused = 0;
	auto_fd int greedy = -1;

	bed_start(f);
	f->up[0].mode = f->up[1].mode = SILENT;
	assert_int_equal(sock_udp(&from, 0, &greedy, NULL), 0);
	for (unsigned i = 0; i < CLIENT_QUOTA_CLIENT + 200; i++) {
		size_t len = kit_query(q, bed_fresh(f), DNS_A, DNS_FLAG_RD, KIT_PLAIN);

		assert_int_equal(sendto(greedy, q, len, 0, &to.sa, to.len), len);
		bed_turn(f);
		refused +=
			recv(greedy, q, sizeof q, MSG_DONTWAIT) > 0 && (q[3] & 15) == DNS_SERVFAIL;
	}
	for (unsigned i = 0; i < 10; i++)
		bed_turn(f);
	while (recv(greedy, q, sizeof q, MSG_DONTWAIT) > 0)
		refused += (q[3] & 15) == DNS_SERVFAIL;
	assert_in_range(refused, 200, CLIENT_QUOTA_CLIENT + 199);
	f->up[0].mode = ANSWER;
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	metrics_init(&m);
	dns_metrics(f->dns, &m);
	assert_non_null(strstr(buf_str(&m.out), "too many waiting\"} 200\n"));
	metrics_fini(&m);
}

static void
those_who_wait_are_bounded(void **state)
{
	struct bed *f = *state;
	struct addr from = addr_ipv4(INADDR_LOOPBACK + 1, 0),
		    to = addr_ipv4(INADDR_LOOPBACK, f->port);
	unsigned answered = 0, refused = 0;
	uint8_t q[512];
	size_t len = kit_query(q, bed_fresh(f), DNS_A, DNS_FLAG_RD, KIT_PLAIN);
	auto_fd int other = -1;

	f->up[0].mode = SLOW;
	f->up[1].mode = SILENT;
	bed_start(f);
	assert_int_equal(sock_udp(&from, 0, &other, NULL), 0);
	for (unsigned i = 0; i < CLIENT_QUOTA_CLIENT + 10; i++) {
		bed_send(f, q, len);
		if (i % 32 == 0)
			bed_turn(f);
	}
	assert_int_equal(sendto(other, q, len, 0, &to.sa, to.len), len);
	for (unsigned i = 0; i < CLIENT_QUOTA_CLIENT + 10; i++) {
		const char *said = bed_receive(f, 1000);

		answered += strcmp(said, FIRST) == 0;
		refused += strcmp(said, SERVFAIL) == 0;
	}
	assert_int_equal(answered, CLIENT_QUOTA_CLIENT);
	assert_int_equal(refused, 10);
	/* Who waits for the same takes nobody's place. */
	while (recv(other, q, sizeof q, MSG_DONTWAIT) <= 0)
		bed_turn(f);
	assert_int_equal(q[3] & 15, DNS_NOERROR);
}

static void
equal_questions_are_asked_once(void **state)
{
	struct bed *f = *state;
	struct metrics m;
	struct buf out;

	f->up[0].mode = SLOW;
	f->up[1].mode = FAIL;
	bed_start(f);
	for (unsigned i = 0; i < 50; i++) {
		uint8_t q[512];
		const char *name = i % 2 ? "www.EXAMPLE.org" : "WWW.example.org";

		bed_send(
			f, q, kit_query(q, name, DNS_A, DNS_FLAG_RD, i % 5 ? KIT_PLAIN : KIT_EDNS));
	}
	for (unsigned i = 0; i < 50; i++)
		assert_true(memcmp(bed_receive(f, 1000), "NOERROR an=1", 12) == 0);
	assert_int_equal(f->up[0].asked, 1);
	assert_string_equal(bed_ask(f, "www.example.org", 100), FIRST);
	assert_int_equal(f->up[0].asked, 1);
	metrics_init(&m);
	dns_metrics(f->dns, &m);
	assert_non_null(strstr(buf_str(&m.out), "edgeway_dns_cache_hits_total 1\n"));
	assert_non_null(strstr(buf_str(&m.out), "edgeway_dns_cache_misses_total 1\n"));
	metrics_fini(&m);
	buf_init(&out, BUF_UNLIMITED);
	dns_state(f->dns, &out);
	assert_non_null(strstr(buf_str(&out), "\"joined\":49,\"entries\":2,"));
	buf_fini(&out);
}

/* The case, the id and the OPT are the client's own, from upstream as from the cache. */
static void
each_client_gets_its_own_words(void **state)
{
	static const char *const names[] = {
		"wWw.eXaMpLe.oRg", "WWW.EXAMPLE.ORG", "www.example.org"};
	struct bed *f = *state;
	uint8_t q[512], m[512];

	bed_start(f);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		enum kit_edns edns = i == 1 ? KIT_EDNS : KIT_PLAIN;
		size_t len = kit_query(q, names[i], DNS_A, DNS_FLAG_RD, edns);
		ssize_t n = -1;

		dns_put16(q, 0x1000u + (unsigned)i);
		bed_send(f, q, len);
		for (unsigned k = 0; k < 1000 && n < 0; k++) {
			bed_turn(f);
			n = recv(f->client, m, sizeof m, MSG_DONTWAIT);
		}
		assert_true(n > (ssize_t)(DNS_HEADER + 21));
		assert_int_equal(dns_get16(m), 0x1000u + i);
		assert_memory_equal(m + DNS_HEADER, q + DNS_HEADER, 21);
		assert_int_equal(m[11], edns == KIT_EDNS);
	}
	assert_int_equal(f->up[0].asked, 1);
}

static void
an_upstream_that_folds_case_is_believed_the_second_time(void **state)
{
	struct bed *f = *state;
	unsigned before;

	f->up[0].mode = FOLD;
	f->up[1].mode = SILENT;
	bed_start(f);
	for (unsigned i = 0; i < 12; i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	assert_string_equal(bed_receive(f, 100), "nothing"); /* it has read all that was sent */
	before = f->up[0].asked;
	assert_true(before >= 12);
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	assert_int_equal(f->up[0].asked, before + 1);
}

/* By TCP it is sure that the upstream folds: it is asked so no more. */
static void
an_upstream_that_folds_case_is_found_out_by_tcp(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = FOLD;
	f->up[1].mode = SILENT;
	bed_upstream_tcp(&f->up[0]);
	bed_start(f);
	for (unsigned i = 0; i < 5; i++)
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	assert_true(
		f->up[0].tcp_asked >= 1 && f->up[0].tcp_asked <= 2); /* each worker finds it out */
}

/* Whoever guesses id and port, and not the case, is not believed, however often he tries, and does
 * not end the asking by it. */
static void
forged_answers_that_fold_are_not_believed(void **state)
{
	struct bed *f = *state;

	f->up[0].mode = FORGE;
	f->up[1].mode = SILENT;
	bed_upstream_tcp(&f->up[0]);
	bed_start(f);
	for (unsigned i = 1; i <= 30; i++) {
		assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
		assert_int_equal(f->up[0].tcp_asked, i);
	}
}

#define STALE "NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=30"

static void
old_answers_are_better_than_none(void **state)
{
	static const enum bed_mode modes[] = {FAIL, SILENT};
	struct bed *f = *state;
	uint64_t start_ms;

	f->up[0].ttl_s = 1;
	bed_start(f);
	assert_string_equal(
		bed_ask(f, "www.example.org", 1000), "NOERROR an=1 ns=0 ar=0 A 192.0.2.1 ttl=1");
	usleep(1100000);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		f->up[0].mode = f->up[1].mode = modes[i];
		assert_true(slowest_ms(f, "www.example.org", STALE) < 150);
		usleep(1100000);
	}
	/* one that used to be quick is known to be dead within 2 s */
	start_ms = mono_ms();
	assert_string_equal(bed_ask(f, bed_fresh(f), 5000), SERVFAIL);
	assert_true(mono_ms() - start_ms < 3500);
	assert_true(slowest_ms(f, f->name, SERVFAIL) < 100);
	/* back: the next query finds it out, the one after it gets the news */
	f->up[0].mode = f->up[1].mode = ANSWER;
	f->up[0].ip = f->up[1].ip = 9;
	f->up[0].ttl_s = 60;
	start_ms = mono_ms();
	while (mono_ms() - start_ms < 4000 &&
		strstr(bed_ask(f, "www.example.org", 1000), "192.0.2.9") == NULL)
		usleep(20000);
	assert_non_null(strstr(bed_ask(f, "www.example.org", 100), "192.0.2.9 ttl=60"));
}

/* Whose places are all taken gets what there is. */
static void
old_answers_need_no_place(void **state)
{
	struct bed *f = *state;
	uint8_t q[512];

	f->up[0].ttl_s = 1;
	bed_start(f);
	bed_ask(f, "www.example.org", 1000);
	usleep(1100000);
	f->up[0].mode = f->up[1].mode = SILENT;
	for (unsigned i = 0; i < CLIENT_QUOTA_CLIENT; i++) {
		bed_send(f, q, kit_query(q, bed_fresh(f), DNS_A, DNS_FLAG_RD, KIT_PLAIN));
		bed_turn(f);
	}
	bed_send(f, q, kit_query(q, "www.example.org", DNS_A, DNS_FLAG_RD, KIT_PLAIN));
	assert_string_equal(bed_receive(f, 1000), STALE);
}

static void
servfail_when_nothing_answers(void **state)
{
	struct bed *f = *state;
	uint64_t start_ms;

	f->up[0].mode = f->up[1].mode = FAIL;
	bed_start(f);
	assert_string_equal(bed_ask(f, bed_fresh(f), 200), SERVFAIL);
	f->up[0].mode = f->up[1].mode = SILENT;
	start_ms = mono_ms();
	assert_string_equal(bed_ask(f, bed_fresh(f), 5000), SERVFAIL);
	assert_true(mono_ms() - start_ms < 3500);
	f->up[0].mode = FAIL; /* one that says so, and one that says nothing any more */
	start_ms = mono_ms();
	assert_string_equal(bed_ask(f, bed_fresh(f), 5000), SERVFAIL);
	assert_true(mono_ms() - start_ms < 3500);
	assert_string_equal(bed_ask(f, WEB, 100), WEB_ANSWER);
}

int
main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, bed_setup, bed_teardown)
	const struct CMUnitTest tests[] = {
		T(others_are_forwarded_to_the_first),
		T(a_silent_upstream_costs_little_and_then_nothing),
		T(an_upstream_that_fails_or_lies_costs_nothing),
		T(a_closed_upstream_costs_nothing),
		T(a_slow_upstream_is_waited_for),
		T(each_client_gets_its_own_words),
		T(equal_questions_are_asked_once),
		T(an_upstream_that_folds_case_is_believed_the_second_time),
		T(an_upstream_that_folds_case_is_found_out_by_tcp),
		T(forged_answers_that_fold_are_not_believed),
		T(old_answers_are_better_than_none),
		T(a_very_slow_upstream_is_waited_for),
		T(one_that_lives_is_waited_for),
		T(what_one_worker_learns_all_know),
		T(all_dead_from_the_start),
		T(a_late_answer_is_kept),
		T(a_no_beside_a_dead_one_is_told_soon),
		T(one_client_cannot_take_all_places),
		T(one_client_cannot_take_the_cache),
		T(those_who_wait_are_bounded),
		T(old_answers_need_no_place),
		T(servfail_when_nothing_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
