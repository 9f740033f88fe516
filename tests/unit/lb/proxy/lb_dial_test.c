#include "tests/unit/lb/proxy/lb_fixture.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "lb/balance/budget.h"
#include "lb/proxy/pool.h"
#include "model/check.h"
#include "tests/fake/clock.h"

#define GET "GET /x HTTP/1.1\r\nHost: web\r\n\r\n"
#define OK "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1"

enum { CROWD = 100 };

/* An endpoint whose queue of connections is full: the kernel drops further SYNs, as a black hole
 * does. */
static struct {
	int fds[CROWD];
	int n;
} crowd;

static bool
crowd_in(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), error = 0;
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	socklen_t len = sizeof error;

	crowd.fds[crowd.n++] = fd;
	connect(fd, (const struct sockaddr *)to, sizeof *to);
	if (poll(&p, 1, 30) == 0)
		return false;
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	assert_int_equal(error, 0);
	return true;
}

static void
crowd_gather(int i)
{
	struct sockaddr_in to;
	socklen_t len = sizeof to;

	crowd.n = 0;
	assert_int_equal(getsockname(endpoint_listen(i), (struct sockaddr *)&to, &len), 0);
	while (crowd_in(&to))
		assert_true(crowd.n < CROWD);
}

static void
crowd_leave(int i)
{
	for (int k = 0; k < crowd.n; k++)
		close(crowd.fds[k]);
	while (endpoint_called(i, 0))
		close(accept(endpoint_listen(i), NULL, NULL));
}

static void
a_slow_dial_gets_a_rival(void **state)
{
	uint64_t hedges = counted("hedges");
	int client, upstream = -1;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 2);
	crowd_gather(0);
	client = client_open();
	for (int i = 0; i < 4; i++) {
		put(client, GET);
		if (upstream < 0)
			upstream = endpoint_accept(1);
		read_until(upstream, "\r\n\r\n");
		put(upstream, OK);
		expect(client, OK);
	}
	assert_in_range(counted("hedges") - hedges, 1, 2);
	close(client);
	close(upstream);
	crowd_leave(0);
	service_gone();
}

static void
a_lost_syn_costs_no_second(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	crowd_gather(0);
	client = client_open();
	put(client, GET);
	time_passes(20);
	crowd_leave(0);
	/* The first SYN comes again after a second, the dial is given up after 300 ms. */
	upstream = endpoint_accept(0);
	read_until(upstream, "\r\n\r\n");
	put(upstream, OK);
	expect(client, OK);
	close(client);
	close(upstream);
	service_gone();
}

/* Who refuses a connection has not been sent anything: that is no retry. */
static void
no_retries_means_none(void **state)
{
	const struct service_lb none = {.retries = 0};
	int client, upstream;

	(void)state;
	endpoint_down(1);
	service_options(&none);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 2);
	client = client_open();
	for (int i = 0; i < 2; i++) {
		put(client, GET);
		upstream = endpoint_accept(0);
		read_until(upstream, "\r\n\r\n");
		close_hard(upstream); /* not even a GET is sent twice */
		assert_non_null(strstr(read_until(client, "\n\r\n"), "HTTP/1.1 502 "));
		read_until(client, "without an answer\n");
	}
	close(client);
	endpoint_new(0);
	endpoint_new(1);
	service_options(NULL);
	service_gone();
}

static void
connections_are_limited(void **state)
{
	const struct service_lb narrow = {.retries = RETRIES_DEFAULT, .max_connections = 1};
	int clients[3], backs[2];

	(void)state;
	service_options(&narrow);
	service_use(PORT_HTTP, LB_CONSISTENT_HASH, 2); /* one client: the same one first */
	for (int i = 0; i < 2; i++) {
		clients[i] = client_open();
		put(clients[i], GET);
	}
	for (int i = 0; i < 2; i++) {
		backs[i] = endpoint_accept(i);
		read_until(backs[i], "\r\n\r\n");
	}
	clients[2] = client_open();
	put(clients[2], GET);
	assert_non_null(strstr(read_until(clients[2], "\n\r\n"), "Retry-After: 1\r\n"));
	read_until(clients[2], "edgeway.io/max-connections)\n");
	assert_int_equal(metric("edgeway_lb_errors_total{reason=\"max_connections\"} "), 1);
	for (int i = 0; i < 2; i++)
		put(backs[i], OK);
	for (int i = 0; i < 2; i++)
		expect(clients[i], OK);
	for (int i = 0; i < 3; i++)
		close(clients[i]);
	for (int i = 0; i < 2; i++)
		close(backs[i]);
	service_options(NULL);
	service_gone();
}

/* A retry budget's windows begin at multiples of their length, and a new one brings more
 * attempts. */
static void
begin_budget_window(void)
{
	clock_pass((BUDGET_WINDOW_MS - (uint32_t)mono_ms() % BUDGET_WINDOW_MS) * (uint64_t)1000);
}

/* Everything is down: the attempts after the first of each request are bounded. */
static void
a_storm_of_retries_is_refused(void **state)
{
	uint64_t refused = counted("over_budget");
	uint64_t retries = metric("edgeway_lb_retries_total ");
	int client;

	(void)state;
	for (int i = 0; i < ENDPOINTS; i++)
		endpoint_down(i);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, ENDPOINTS);
	client = client_open();
	begin_budget_window();
	for (int i = 0; i < 20; i++) {
		put(client, GET);
		assert_non_null(strstr(read_until(client, "\n\r\n"), "HTTP/1.1 502 "));
		read_until(client, "accepts connections\n");
	}
	/* Two moves of the first request, and a fifth of these and earlier requests, and ten; 40 if
	 * nobody counted. */
	assert_in_range(metric("edgeway_lb_retries_total ") - retries, 10, 20);
	assert_in_range(counted("over_budget") - refused, 10, 20);
	close(client);
	for (int i = 0; i < ENDPOINTS; i++)
		endpoint_new(i);
	service_gone();
}

struct clearing {
	struct in6_addr ip;
	uint16_t port;
	unsigned refs; /* before it; 0 unknown */
	bool gone;
};

static void
clear_pool(void *arg)
{
	struct targets *ts = (*the_lb())->workers[0]->targets;
	struct clearing *c = arg;
	struct target *t = targets_next(ts, NULL, &c->ip, c->port);

	if (t == NULL)
		return;
	c->refs = t->refs;
	pool_clear(t);
	c->gone = targets_next(ts, NULL, &c->ip, c->port) == NULL;
}

/* Another worker says that the endpoint is down, when no service has it any more. */
static void
the_last_idle_connection_takes_its_target_along(void **state)
{
	struct clearing c = {0};
	struct sockaddr_in at;
	socklen_t len = sizeof at;
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	assert_int_equal(getsockname(endpoint_listen(0), (struct sockaddr *)&at, &len), 0);
	assert_true(ip_parse("127.0.0.1", &c.ip));
	c.port = ntohs(at.sin_port);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	read_until(upstream, "\r\n\r\n");
	put(upstream, OK);
	expect(client, OK);
	service_gone();
	put(client, GET);
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 503 "));
	on_loop(clear_pool, &c);
	assert_int_equal(c.refs, 1);
	assert_true(c.gone);
	expect_eof(upstream);
	close(upstream);
	close(client);
}

static void
use_guard(void *guard)
{
	lb_guard(*the_lb(), guard);
}

/* Endpoints that a service has, and that must not be dialled any more: for requests, connections
 * and health checks. */
static void
each_dial_is_checked(void **state)
{
	struct service_lb options = {.retries = RETRIES_DEFAULT};
	uint64_t before = counted("dials_refused");
	struct dial_guard *none;
	int client;

	(void)state;
	assert_int_equal(dial_guard_new(NULL, &none, NULL), 0);
	service_options(&options);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 2);
	on_loop(use_guard, none);
	time_passes(1); /* the workers are told by posts */
	client = client_open();
	put(client, GET);
	assert_non_null(strstr(read_until(client, "\r\n\r\n"), "HTTP/1.1 50"));
	close(client);
	assert_true(counted("dials_refused") >= before + 2);
	service_use(PORT_TCP, LB_ROUND_ROBIN, 2);
	before = counted("dials_refused");
	client = client_open();
	expect_reset(client);
	close(client);
	assert_true(counted("dials_refused") > before);
	assert_false(endpoint_called(0, 50) || endpoint_called(1, 50));
	on_loop(use_guard, (void *)(uintptr_t)the_guard());
	dial_guard_unref(&none);
	service_options(NULL);
}

/* The request acknowledges the handshake as well, unless the proxy comes late with it. */
static void
a_request_ends_the_handshake(void **state)
{
	unsigned least = UINT_MAX;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (int i = 0; i < 20 && least > 2; i++) {
		int client = client_open(), upstream;

		put(client, GET);
		upstream = endpoint_accept(0);
		head_at(upstream);
		least = MIN(least, segments_in(upstream));
		close(client);
		close(upstream);
	}
	assert_int_equal(least, 2); /* its SYN, and that */
}

/* The close that the client has asked for comes with the answer. */
static void
an_answer_ends_the_connection(void **state)
{
	unsigned least = UINT_MAX;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	for (int i = 0; i < 20 && least > 3; i++) {
		int client = client_open(), upstream;

		put(client, "GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n");
		upstream = endpoint_accept(0);
		head_at(upstream);
		put(upstream, OK);
		read_until(client, "\r\n\r\n1");
		expect_eof(client);
		least = MIN(least, segments_in(client));
		close(client);
		close(upstream);
	}
	assert_int_equal(least, 3); /* SYN-ACK, an acknowledgement of the request, and that */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_dial_gets_a_rival),
		cmocka_unit_test(a_lost_syn_costs_no_second),
		cmocka_unit_test(no_retries_means_none),
		cmocka_unit_test(connections_are_limited),
		cmocka_unit_test(a_storm_of_retries_is_refused),
		cmocka_unit_test(the_last_idle_connection_takes_its_target_along),
		cmocka_unit_test(each_dial_is_checked),
		cmocka_unit_test(a_request_ends_the_handshake),
		cmocka_unit_test(an_answer_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
