#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fake/origdst.h"
#include "tests/unit/lb/proxy/lb_fixture.h"

#define GET "GET /x HTTP/1.1\r\nHost: web\r\n\r\n"
#define OK(body_len, body) "HTTP/1.1 200 OK\r\nContent-Length: " body_len "\r\n\r\n" body

static void
drain_finishes_what_is_begun(void **state)
{
	int busy, idle, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	busy = client_open();
	idle = client_open();
	put(busy, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	begin_stop_lb(2000);
	assert_null(*the_lb());
	lb_access_log(*the_lb(), ACCESS_OFF, 1, NULL); /* SIGHUP may come at any time */
	expect_eof(idle);
	assert_false(lb_is_gone(100));
	put(upstream, OK("1", "1"));
	expect(busy, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1");
	expect_eof(busy);
	close(busy);
	close(idle);
	assert_true(lb_is_gone(1000));
	expect_eof(upstream);
	close(upstream);
	start_lb();
}

static void
ask_while_it_stops(void *client)
{
	uint64_t drain_ms = 2000;

	stop_lb_here(&drain_ms);
	put(*(int *)client, GET);
}

static void
drain_answers_what_waits_unread(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "1"));
	expect(client, OK("1", "1"));
	on_loop(ask_while_it_stops, &client);
	head_at(upstream);
	put(upstream, OK("1", "2"));
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n2");
	expect_eof(client);
	close(client);
	assert_true(lb_is_gone(1000));
	close(upstream);
	start_lb();
}

static void
hand_over_here(void *arg)
{
	(void)arg;
	lb_hand_over(the_lb(), 2000, lb_on_gone, NULL);
}

/* The head of its response has promised the client that the connection stays open. */
static void
hand_over_within_a_response(void **state)
{
	int client, upstream;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	client = client_open();
	put(client, GET);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("2", "1"));
	expect(client, OK("2", "1"));
	on_loop(hand_over_here, NULL);
	put(upstream, "2");
	expect(client, "2");
	put(client, GET);
	close(upstream);
	upstream = endpoint_accept(0);
	head_at(upstream);
	put(upstream, OK("1", "3"));
	expect(client, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n3");
	expect_eof(client);
	close(client);
	assert_true(lb_is_gone(1000));
	close(upstream);
	start_lb();
}

static struct pod_ask *pod_asked;

static void
keep_pod_ask(void *arg, struct pod_ask *ask)
{
	(void)arg;
	pod_asked = ask;
}

static void
is_pod_asked(void *is)
{
	*(bool *)is = pod_asked != NULL;
}

static void
answer_pod_here(void *arg)
{
	(void)arg;
	pod_asked->answer = POD_NONE;
	pod_asked->done(pod_asked);
}

/* The hub's word on a pod may come long after all connections have ended: the worker is there for
 * it. */
static void
hand_over_while_a_pod_is_asked_for(void **state)
{
	bool asked = false;
	int client;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	fake_origdst_set(0x0a060005, 8080);
	client = client_open();
	for (int i = 0; i < 1000 && !asked; i++) {
		time_passes(1);
		on_loop(is_pod_asked, &asked);
	}
	assert_true(asked);
	on_loop(hand_over_here, NULL);
	assert_false(lb_is_gone(100));
	on_loop(answer_pod_here, NULL);
	assert_true(lb_is_gone(1000));
	expect_reset(client);
	close(client);
	start_lb();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(drain_finishes_what_is_begun),
		cmocka_unit_test(drain_answers_what_waits_unread),
		cmocka_unit_test(hand_over_within_a_response),
		cmocka_unit_test(hand_over_while_a_pod_is_asked_for),
	};

	fixture_ask_pod(keep_pod_ask);

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
