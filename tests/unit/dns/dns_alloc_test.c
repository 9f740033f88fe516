/* No query for a name that we hold allocates: malloc's family is counted in everything that we link
 * (--wrap). */
#include "tests/unit/dns/dns_bed.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fake/clock.h"

enum { QUERIES = 100000, BURST = 20 };

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

static unsigned long allocations;

void *
__wrap_malloc(size_t n)
{
	allocations++;
	return __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
	allocations++;
	return __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t n)
{
	allocations++;
	return __real_realloc(p, n);
}

static const struct {
	const char *name;
	unsigned type;
	enum kit_edns edns;
} asked[] = {
	{WEB, DNS_A, KIT_PLAIN},
	{WEB, DNS_AAAA, KIT_EDNS},
	{WEB, DNS_SRV, KIT_DO},
	{"_http._tcp." WEB, DNS_SRV, KIT_PLAIN},
	{"no." WEB, DNS_A, KIT_PLAIN},
	{"www.google.com.default.svc.cluster.local", DNS_A, KIT_EDNS},
	{"10.0.96.10.in-addr.arpa", DNS_PTR, KIT_PLAIN},
	{"cluster.local", DNS_SOA, KIT_PLAIN},
	{WEB, DNS_ANY, KIT_PLAIN},
	{WEB, DNS_A, KIT_TWO_OPT},
};

static size_t
query(uint8_t to[512], unsigned i)
{
	unsigned k = i % ARRAY_LEN(asked);

	return kit_query(to, asked[k].name, asked[k].type, DNS_FLAG_RD, asked[k].edns);
}

/* Returns how many were answered. No more time passes than gathering needs: upstreams are asked for
 * a sign of life by the clock, and that allocates. */
static unsigned
ask_by_udp(struct bed *f, unsigned n)
{
	unsigned answered = 0;
	uint8_t m[1500];

	for (unsigned i = 0; i < n; i += BURST) {
		for (unsigned k = 0; k < BURST; k++)
			bed_send(f, m, query(m, i + k));
		for (unsigned turn = 0; turn < 10000 && answered < i + BURST; turn++) {
			loop_turn(f->loop);
			clock_pass(10);
			while (recv(f->client, m, sizeof m, MSG_DONTWAIT) > 0)
				answered++;
		}
	}
	return answered;
}

static void
by_udp(void **state)
{
	struct bed *f = *state;
	unsigned long before;

	bed_start(f);
	ask_by_udp(f, 1000);
	before = allocations;
	assert_true(before > 0); /* it does count */
	assert_int_equal(ask_by_udp(f, QUERIES), QUERIES);
	assert_int_equal(allocations - before, 0);
	assert_string_equal(bed_ask(f, bed_fresh(f), 1000), FIRST);
	assert_true(allocations > before); /* a name that is not ours */
}

static unsigned
ask_by_tcp(struct bed *f, int fd, unsigned n)
{
	unsigned answered = 0;
	uint8_t m[65536];

	for (unsigned i = 0; i < n; i++) {
		size_t len = query(m + 2, i), want = 2, have = 0;

		dns_put16(m, (unsigned)len);
		assert_int_equal(send(fd, m, len + 2, 0), len + 2);
		for (unsigned turn = 0; turn < 10000 && have < want; turn++) {
			ssize_t r;

			loop_turn(f->loop);
			r = recv(fd, m + have, want - have, MSG_DONTWAIT);
			have += r > 0 ? (size_t)r : 0;
			if (have == 2)
				want = 2u + dns_get16(m);
		}
		answered += have > 2 && have == want;
	}
	return answered;
}

static void
by_tcp(void **state)
{
	struct bed *f = *state;
	struct addr to;
	unsigned long before;
	auto_fd int fd = -1;

	bed_start(f);
	to = addr_ipv4(INADDR_LOOPBACK, f->port);
	assert_int_equal(sock_connect(&to, 0, &fd), 0);
	bed_turn(f);
	ask_by_tcp(f, fd, 100);
	before = allocations;
	assert_int_equal(ask_by_tcp(f, fd, 2000), 2000);
	assert_int_equal(allocations - before, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(by_udp, bed_setup, bed_teardown),
		cmocka_unit_test_setup_teardown(by_tcp, bed_setup, bed_teardown),
	};

	return cmocka_run_group_tests_name("dns_alloc", tests, NULL, NULL);
}
