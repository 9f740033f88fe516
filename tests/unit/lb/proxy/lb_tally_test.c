#include "lb/balance/service_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/lb/proxy/lb_fixture.h"

#define OF_WEB "{namespace=\"default\",service=\"web\""
#define OF_OTHER "{namespace=\"\",service=\"other\""

static char default_ns[] = "default";

static struct service
named(char *name)
{
	return (struct service){.namespace = default_ns, .name = name};
}

static uint64_t
percentile_us(const uint64_t *took, unsigned percent)
{
	return histogram_percentile_us(
		took, SERVICE_STATS_BUCKETS, SERVICE_STATS_FIRST_US, percent);
}

static void
times_have_buckets(void **state)
{
	uint64_t took[SERVICE_STATS_BUCKETS] = {0};

	(void)state;
	assert_int_equal(histogram_bucket(0, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS), 0);
	assert_int_equal(histogram_bucket(128, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS), 0);
	assert_int_equal(histogram_bucket(129, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS), 1);
	assert_int_equal(histogram_bucket(256, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS), 1);
	assert_int_equal(histogram_bucket(257, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS), 2);
	assert_int_equal(
		histogram_bucket(128u << 15, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS), 15);
	assert_int_equal(
		histogram_bucket((128u << 15) + 1, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS),
		16);
	assert_int_equal(
		histogram_bucket(UINT64_MAX, SERVICE_STATS_FIRST_US, SERVICE_STATS_BUCKETS), 16);
	assert_int_equal(percentile_us(took, 50), 0);
	took[3] = 98; /* 512 to 1024 */
	took[9] = 2; /* 32768 to 65536 */
	assert_in_range(percentile_us(took, 50), 760, 780);
	assert_in_range(percentile_us(took, 98), 1024, 1024);
	assert_in_range(percentile_us(took, 99), 49000, 49300);
	took[16] = 100;
	assert_int_equal(percentile_us(took, 99), 128u << 15);
}

static const char *
told(struct tallies *all)
{
	static char text[8192];
	struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	tallies_state(all, &out);
	strncpy(text, buf_str(&out), sizeof text - 1);
	buf_fini(&out);
	return text;
}

static void
workers_are_added_up(void **state)
{
	struct tallies *all = tallies_new(2, 10);
	struct service_stats_cell *cells[2];
	struct service_stats *t[2];
	char a[] = "a";
	const struct service s = named(a);

	(void)state;
	assert_string_equal(told(all), "[]");
	for (size_t i = 0; i < 2; i++) {
		t[i] = service_stats_get(all, &s, i, &cells[i]);
		service_stats_add(&cells[i]->connections, 2);
		service_stats_add(&cells[i]->requests[2], 10 + i);
		service_stats_add(&cells[i]->closed, i);
		service_stats_took(cells[i], 128);
	}
	assert_ptr_equal(t[0], t[1]);
	assert_ptr_not_equal(cells[0], cells[1]);
	assert_true(service_stats_is_of(t[0], &s));
	assert_non_null(strstr(told(all),
		"\"service\":\"a\",\"requests\":{\"1xx\":0,\"2xx\":21,\"3xx\":0,\"4xx\":0,\"5xx\":"
		"0},"
		"\"connections\":4,\"active\":3,"));
	assert_non_null(strstr(
		told(all), "\"p50_us\":64,\"p99_us\":128,\"first_bucket_us\":128,\"took\":[2,0,"));
	service_stats_put(all, &t[0]);
	service_stats_put(all, &t[1]);
	tallies_free(&all);
}

static void
most_have_their_own(void **state)
{
	struct tallies *all = tallies_new(1, 2);
	char names[][2] = {"b", "a", "c", "d"};
	struct service_stats_cell *cells[4];
	struct service_stats *t[4];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const struct service s = named(names[i]);

		t[i] = service_stats_get(all, &s, 0, &cells[i]);
		service_stats_add(&cells[i]->requests[2], 1);
	}
	assert_ptr_equal(cells[2], cells[3]);
	assert_null(strstr(told(all), "\"service\":\"c\""));
	assert_true(
		strstr(told(all), "\"service\":\"a\"") < strstr(told(all), "\"service\":\"b\""));
	assert_non_null(strstr(told(all),
		"{\"namespace\":\"\",\"service\":\"other\",\"requests\":{\"1xx\":0,\"2xx\":2,"));
	for (size_t i = 0; i < 4; i++)
		service_stats_put(all, &t[i]);
	tallies_free(&all);
}

static void
who_is_gone_is_added_to_the_others(void **state)
{
	struct snapshot *none = snapshot_new(true);
	struct tallies *all = tallies_new(1, 1);
	char name[] = "a", second[] = "b";
	const struct service s = named(name), s2 = named(second);
	struct service_stats_cell *cell;
	struct service_stats *t = service_stats_get(all, &s, 0, &cell);

	(void)state;
	service_stats_add(&cell->requests[5], 7);
	tallies_use(all, none);
	assert_non_null(strstr(told(all), "\"service\":\"a\"")); /* a worker has it */
	service_stats_put(all, &t);
	assert_non_null(strstr(told(all), "\"service\":\"a\""));
	tallies_use(all, none);
	assert_null(strstr(told(all), "\"service\":\"a\""));
	assert_non_null(strstr(told(all), "\"5xx\":7"));
	t = service_stats_get(all, &s2, 0, &cell); /* and there is room for another one */
	assert_true(service_stats_is_of(t, &s2));
	service_stats_put(all, &t);
	tallies_free(&all);
	snapshot_unref(&none);
}

static void
a_request_is_counted(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, "POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 3\r\n\r\nabc");
	upstream = endpoint_accept(0);
	read_until(upstream, "abc");
	put(upstream, "HTTP/1.1 404 no\r\nContent-Length: 5\r\n\r\n12345");
	read_until(client, "12345");
	put(client, "GET / HTTP/1.1\r\nHost: web\r\n\r\n");
	read_until(upstream, "\r\n\r\n");
	close(upstream); /* not answered: once more, on a new connection */
	upstream = endpoint_accept(0);
	read_until(upstream, "\r\n\r\n");
	put(upstream, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1");
	read_until(client, "\r\n\r\n1");
	assert_int_equal(
		metric("edgeway_service_requests_total" OF_WEB ",code_class=\"4xx\"} "), 1);
	assert_int_equal(
		metric("edgeway_service_requests_total" OF_WEB ",code_class=\"2xx\"} "), 1);
	assert_int_equal(metric("edgeway_service_connections_total" OF_WEB "} "), 1);
	assert_int_equal(metric("edgeway_service_connections_active" OF_WEB "} "), 1);
	assert_int_equal(metric("edgeway_service_retries_total" OF_WEB "} "), 1);
	assert_int_equal(
		metric("edgeway_service_bytes_total" OF_WEB ",direction=\"upstream\"} "), 3);
	assert_int_equal(metric("edgeway_service_bytes_total" OF_WEB ",direction=\"client\"} "), 6);
	assert_int_equal(metric("edgeway_service_first_byte_seconds_count" OF_WEB "} "), 2);
	assert_int_equal(
		metric("edgeway_service_first_byte_seconds_bucket" OF_WEB ",le=\"+Inf\"} "), 2);
	close(upstream);
	close(client);
	service_gone();
}

static void
a_failure_is_counted(void **state)
{
	uint64_t before;
	int client;

	(void)state;
	endpoint_down(0);
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	before = metric("edgeway_service_failures_total" OF_WEB "} ");
	client = client_open();
	put(client, "GET / HTTP/1.1\r\nHost: web\r\n\r\n");
	read_until(client, "connections\n");
	assert_int_equal(metric("edgeway_service_failures_total" OF_WEB "} ") - before, 1);
	assert_int_equal(
		metric("edgeway_service_requests_total" OF_WEB ",code_class=\"5xx\"} "), 1);
	assert_int_equal(metric("edgeway_service_ejections_total" OF_WEB "} "), 1);
	close(client);
	endpoint_listen(0);
	service_gone();
}

static void
tell_all(void *out)
{
	lb_state(*the_lb(), out, true);
}

/* A part of them could say that all are dead. */
static void
a_list_has_all_of_a_port(void **state)
{
	auto_buf struct buf out;
	unsigned ports = 0, endpoints = 0;
	int client;

	(void)state;
	service_use_wide(1500);
	for (uint16_t port = 80; port <= 81; port++) {
		calls_are_for(port);
		client = client_open();
		put(client, "GET / HTTP/1.1\r\nHost: web\r\n\r\n");
		read_until(client, "\r\n\r\n");
		close(client);
	}
	buf_init(&out, BUF_UNLIMITED);
	on_loop(tell_all, &out);
	for (const char *at = buf_str(&out); (at = strstr(at, "\"policy\":")) != NULL; at++)
		ports++;
	for (const char *at = buf_str(&out); (at = strstr(at, "{\"address\":")) != NULL; at++)
		endpoints++;
	assert_int_equal(endpoints, ports * 1500);
	assert_int_equal(ports, 1); /* 2000 are told of */
	service_gone();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_have_buckets),
		cmocka_unit_test(workers_are_added_up),
		cmocka_unit_test(most_have_their_own),
		cmocka_unit_test(who_is_gone_is_added_to_the_others),
		cmocka_unit_test(a_request_is_counted),
		cmocka_unit_test(a_failure_is_counted),
		cmocka_unit_test(a_list_has_all_of_a_port),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
