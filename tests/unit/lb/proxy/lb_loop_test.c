/* What goes round through the proxy: the count that comes goes on with one more, and ends it when
 * it is as high as it may be. */
#include "tests/unit/lb/proxy/lb_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/hops.h"

#define LOOPS "edgeway_lb_errors_total{reason=\"loop\"}"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

static void
connections(void **state)
{
	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	for (unsigned hops = 0; hops < HOPS_MAX; hops++) {
		int client = client_open_hops(hops), upstream = endpoint_accept(0);

		assert_int_equal(hops_of_socket(upstream, AF_INET), hops + 1);
		put(client, "ping");
		expect(upstream, "ping");
		close(upstream);
		expect_eof(client);
		close(client);
	}
	assert_int_equal(metric(LOOPS), 0);
	for (unsigned i = 1; i <= 3; i++) {
		int client = client_open_hops(HOPS_MAX);

		expect_reset(client);
		close(client);
		assert_int_equal(metric(LOOPS), i);
	}
	assert_false(endpoint_called(0, 50));
}

/* A TLS client of an http port is relayed, and so is one who waits for a greeting. */
static void
relays_of_http_ports(void **state)
{
	static const char hello[] = "\x16\x03\x01\x02";
	uint64_t before = metric(LOOPS);
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open_hops(2);
	put(client, hello);
	upstream = endpoint_accept(0);
	assert_int_equal(hops_of_socket(upstream, AF_INET), 3);
	close(upstream);
	close(client);
	client = client_open_hops(HOPS_MAX);
	put(client, hello);
	expect_reset(client);
	close(client);
	client = client_open_hops(HOPS_MAX); /* says nothing, and nobody is asked for it */
	assert_false(endpoint_called(0, 500));
	assert_int_equal(metric(LOOPS), before + 2);
	close(client);
	/* Where endpoints are known to greet, it is a relay from the beginning. */
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	upstream = endpoint_accept(0);
	put(upstream, "220 ready\r\n");
	expect(client, "220 ready\r\n");
	close(upstream);
	close(client);
	client = client_open_hops(HOPS_MAX);
	expect_reset(client);
	close(client);
	assert_int_equal(metric(LOOPS), before + 3);
}

/* Of requests the head tells, whatever the connection is: it comes from a proxy's pool perhaps. */
static void
requests(void **state)
{
	uint64_t before = metric(LOOPS);
	char text[1024] = "GET / HTTP/1.1\r\nHost: a\r\nCDN-Loop: other";
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open_hops(HOPS_MAX);
	for (int i = 1; i < HOPS_MAX; i++)
		strcat(text, ", edgeway");
	put(client, text);
	put(client, "\r\n\r\n");
	upstream = endpoint_accept(0);
	read_until(upstream, ", edgeway, edgeway\r\n");
	read_until(upstream, "\r\n\r\n");
	put(upstream, OK);
	expect(client, OK);
	put(client, text);
	put(client, ", edgeway\r\n\r\n");
	read_until(client, "HTTP/1.1 508 Loop Detected\r\n");
	read_until(client, HOPS_REASON "\n");
	put(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); /* the connection goes on */
	read_until(upstream, "CDN-Loop: edgeway\r\n");
	read_until(upstream, "\r\n\r\n");
	put(upstream, OK);
	expect(client, OK);
	assert_int_equal(metric(LOOPS), before + 1);
	assert_int_equal(counted("own_508"), 1);
	close(client);
	close(upstream);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connections),
		cmocka_unit_test(relays_of_http_ports),
		cmocka_unit_test(requests),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
