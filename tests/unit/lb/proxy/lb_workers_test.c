/* What two workers have in common: a place at an endpoint that one gives back is the other's at
 * once, without waiting for its tick; and they learn of a service one after the other. */
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/lb/proxy/lb_fixture.h"

#define GET "GET / HTTP/1.1\r\nHost: web\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"

enum { CLIENTS = 16, FIRST = 0x7f000002, BACKS = 4, TRIES = 250, TRY_MS = 20 };

static struct {
	int of[BACKS];
	nfds_t n;
} backs;

/* The connection of the endpoint by which a request has come; the clock stands still, so no tick
 * has come before it. */
static int
asked_at_once(void)
{
	struct pollfd p[BACKS + 1];

	for (int i = 0; i < TRIES; i++) {
		p[0] = (struct pollfd){.fd = endpoint_listen(0), .events = POLLIN};
		for (nfds_t k = 0; k < backs.n; k++)
			p[k + 1] = (struct pollfd){.fd = backs.of[k], .events = POLLIN};
		if (poll(p, backs.n + 1, TRY_MS) <= 0)
			continue;
		for (nfds_t k = 0; k < backs.n; k++)
			if (p[k + 1].revents != 0)
				return backs.of[k];
		assert_true(backs.n < BACKS);
		backs.of[backs.n++] = endpoint_accept(0);
	}
	fail_msg("nobody is served");
	return -1;
}

static void
a_place_is_anybodys(void **state)
{
	const struct service_lb options = {
		.retries = RETRIES_DEFAULT, .max_connections = 1, .connect_ms = 60000};
	int client[CLIENTS], upstream;

	(void)state;
	service_options(&options);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		client[i] = client_open_as(FIRST + i);
		put(client[i], GET);
	}
	for (int i = 0; metric("edgeway_lb_waits_total ") < CLIENTS - 1; i++) {
		assert_true(i < WAIT_MS);
		time_passes(1);
	}
	for (int i = 0; i < CLIENTS; i++) {
		upstream = asked_at_once();
		read_until(upstream, "\r\n\r\n");
		put(upstream, OK);
	}
	assert_int_equal(backs.n, 2); /* both workers had some of them */
	for (int i = 0; i < CLIENTS; i++) {
		expect(client[i], OK);
		close(client[i]);
	}
	for (nfds_t k = 0; k < backs.n; k++)
		close(backs.of[k]);
	service_options(NULL);
	service_gone();
}

static void
open_client_here(void *client)
{
	*(int *)client = client_open();
}

/* By a client that has the address from the other worker's DNS server, which was faster. */
static void
called_before_the_worker_knows(void **state)
{
	int client, upstream;

	(void)state;
	service_gone();
	service_use_late(open_client_here, &client);
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK);
	expect(client, OK);
	close(client);
	close(upstream);
	service_gone();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_is_anybodys),
		cmocka_unit_test(called_before_the_worker_knows),
	};

	fixture_workers(2);
	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
