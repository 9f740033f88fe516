/* Endpoints with an address of each family: 127.0.0.1 first, ::1 the other one. */
#include "tests/unit/lb/proxy/lb_fixture.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define GET "GET /x HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1"

enum { CROWD = 200, FULL = 1 };

struct full {
	int listen, fds[CROWD], n;
};

static int
families_listen6(int i)
{
	struct addr a;
	char text[ADDR_TEXT_MAX];
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	snprintf(text, sizeof text, "[::1]:%u", endpoint_port(i));
	assert_int_equal(addr_parse(&a, text, 0, NULL), 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	assert_int_equal(bind(fd, &a.sa, a.len), 0);
	assert_int_equal(listen(fd, 64), 0);
	return fd;
}

/* Drops further SYNs, as a black hole does. */
static void
families_fill(struct full *f, int listener)
{
	struct sockaddr_storage to;
	socklen_t len = sizeof to;
	struct pollfd p = {.events = POLLOUT};

	f->listen = listener;
	f->n = 0;
	assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &len), 0);
	do {
		assert_true(f->n < CROWD);
		p.fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		f->fds[f->n++] = p.fd;
		connect(p.fd, (const struct sockaddr *)&to, len);
	} while (poll(&p, 1, 30) > 0);
}

static void
families_empty(struct full *f)
{
	while (f->n > 0)
		close(f->fds[--f->n]);
}

static int
families_accept(int listener)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	for (int ms = 0; poll(&p, 1, 0) == 0; ms++) {
		assert_true(ms < WAIT_MS);
		time_passes(1);
	}
	return accept4(listener, NULL, NULL, SOCK_CLOEXEC);
}

static void
families_serve(int client, int listener)
{
	int upstream;

	put(client, GET);
	upstream = families_accept(listener);
	head_at(upstream);
	put(upstream, OK);
	expect(client, "HTTP/1.1 200 OK\r\n");
	read_until(client, "\r\n\r\n1");
	close(upstream);
}

static void
families_call(int listener)
{
	int client = client_open();

	families_serve(client, listener);
	close(client);
}

static void
families_begin(int n)
{
	service_both_families(true);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, n);
}

static void
families_end(int listener)
{
	close(listener);
	endpoint_new(0);
	service_both_families(false);
	service_options(NULL);
	service_gone();
}

struct families_counts {
	uint64_t dials, retries, hedges, ejections;
};

static struct families_counts
families_counts(void)
{
	return (struct families_counts){.dials = counted("dials"),
		.retries = metric("edgeway_lb_retries_total "),
		.hedges = counted("hedges"),
		.ejections = metric("edgeway_lb_ejections_total ")};
}

/* The other address serves within the same attempt, and is dialled first from then on; where it is
 * refused in turn, the first one again. */
static void
refused_by_one_family(void **state)
{
	const struct service_lb once = {.retries = 0};
	struct families_counts before;
	int six;

	(void)state;
	endpoint_down(0);
	six = families_listen6(0);
	service_options(&once);
	families_begin(1);
	before = families_counts();
	for (int i = 0; i < 3; i++)
		families_call(six);
	assert_int_equal(counted("dials"), before.dials + 4);
	close(six);
	families_call(endpoint_listen(0));
	families_call(endpoint_listen(0));
	assert_int_equal(counted("dials"), before.dials + 7);
	assert_int_equal(metric("edgeway_lb_retries_total "), before.retries);
	assert_int_equal(metric("edgeway_lb_ejections_total "), before.ejections);
	families_end(-1);
}

/* A few milliseconds of the connect time, once. */
static void
silent_in_one_family(void **state)
{
	struct families_counts before;
	struct full four;
	int six = families_listen6(0);

	(void)state;
	families_begin(1);
	families_fill(&four, endpoint_listen(0));
	before = families_counts();
	for (int i = 0; i < 3; i++)
		families_call(six);
	assert_int_equal(counted("dials"), before.dials + 4);
	time_passes(400); /* the first dial is given up, to nobody's harm */
	families_call(six);
	assert_int_equal(counted("hedges"), before.hedges);
	assert_int_equal(metric("edgeway_lb_retries_total "), before.retries);
	assert_int_equal(metric("edgeway_lb_ejections_total "), before.ejections);
	families_empty(&four);
	families_end(six);
}

/* Both: the endpoint is out, once, and another one is asked. It is back at the address at which it
 * is found. */
static void
refused_by_both_families(void **state)
{
	uint64_t ejections = metric("edgeway_lb_ejections_total ");
	int six, other = endpoint_listen(1);
	struct pollfd probed = {.events = POLLIN};

	(void)state;
	endpoint_down(0);
	families_begin(2);
	for (int i = 0; i < 4; i++)
		families_call(other);
	assert_int_equal(metric("edgeway_lb_ejections_total "), ejections + 1);
	six = probed.fd = families_listen6(0);
	close(families_accept(six));
	while (poll(&probed, 1, 0) > 0)
		close(accept(six, NULL, NULL));
	endpoint_down(1);
	families_call(six);
	families_end(six);
}

/* Two dials to the two addresses count as one connection to the endpoint. */
static void
both_families_share_a_limit(void **state)
{
	const struct service_lb narrow = {.retries = RETRIES_DEFAULT, .max_connections = 1};
	struct full four;
	int six = families_listen6(0), clients[2], upstream;

	(void)state;
	service_options(&narrow);
	families_begin(1);
	families_fill(&four, endpoint_listen(0));
	clients[0] = client_open();
	put(clients[0], GET);
	upstream = families_accept(six);
	head_at(upstream);
	clients[1] = client_open();
	put(clients[1], GET);
	read_until(clients[1], "edgeway.io/max-connections)\n");
	close(clients[1]);
	put(upstream, OK);
	read_until(clients[0], "\r\n\r\n1");
	close(clients[0]);
	close(upstream);
	for (int i = 0; i < 3; i++)
		families_call(six);
	time_passes(400);
	families_call(six);
	families_empty(&four);
	families_end(six);
}

/* A relay, whose client is silent until it is connected. */
static void
a_relay_finds_the_other_family(void **state)
{
	int six, client, upstream;

	(void)state;
	endpoint_down(0);
	six = families_listen6(0);
	service_both_families(true);
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "a");
	upstream = families_accept(six);
	expect(upstream, "a");
	put(upstream, "b");
	expect(client, "b");
	close(client);
	close(upstream);
	families_end(six);
}

static int
families_setup(void **state)
{
	(void)state;
	endpoint_new(0);
	endpoint_new(1);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(refused_by_one_family, families_setup),
		cmocka_unit_test_setup(silent_in_one_family, families_setup),
		cmocka_unit_test_setup(refused_by_both_families, families_setup),
		cmocka_unit_test_setup(both_families_share_a_limit, families_setup),
		cmocka_unit_test_setup(a_relay_finds_the_other_family, families_setup),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
