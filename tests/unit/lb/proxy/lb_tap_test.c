/* Who looks on sees requests as they go; nobody pays for it otherwise, and nobody gets more than
 * there is room for. */
#include "lb/proxy/tap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/lb/proxy/lb_fixture.h"

#define GET(path) "GET " path " HTTP/1.1\r\nHost: web\r\n\r\n"
#define ANSWER "HTTP/1.1 204 No\r\n\r\n"

struct look {
	struct lb_tap_ask ask;
	struct buf out;
	int rc;
};

static void
look_on(void *arg)
{
	struct look *l = arg;

	l->rc = lb_tap(*the_lb(), &l->ask, &l->out);
}

static const char *
look(struct look *l)
{
	buf_fini(&l->out);
	buf_init(&l->out, BUF_UNLIMITED);
	on_loop(look_on, l);
	return buf_str(&l->out);
}

/* Looks again until the text is there, for as long as a record may take. */
static const char *
look_for(struct look *l, const char *text)
{
	for (unsigned i = 0; i < 100 && strstr(look(l), text) == NULL; i++)
		time_passes(10);
	if (strstr(buf_str(&l->out), text) == NULL)
		print_error("no %s in %s\n", text, buf_str(&l->out));
	assert_non_null(strstr(buf_str(&l->out), text));
	return buf_str(&l->out);
}

static void
request(int client, int *upstream, const char *head)
{
	put(client, head);
	if (*upstream < 0)
		*upstream = endpoint_accept(0);
	read_until(*upstream, "\r\n\r\n");
	put(*upstream, ANSWER);
	expect(client, ANSWER);
}

static bool
is_tapped(void)
{
	return (*the_lb())->workers[0]->tap != NULL;
}

static void
requests_are_seen(void **state)
{
	struct look l = {.ask = {.id = "one", .service = "default/web"}};
	struct look other = {.ask = {.id = "two", .service = "default/other"}};
	int client, upstream = -1;
	const char *said;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	assert_false(is_tapped());
	look_for(&l, "{\"armed\":true,\"next\":0,");
	look_for(&other, "{\"armed\":true,");
	assert_true(is_tapped());
	client = client_open();
	request(client, &upstream, GET("/x?token=abc"));
	said = look_for(&l, "\"next\":1,");
	assert_non_null(
		strstr(said, "\"service\":\"default/web\",\"port\":80,\"endpoint\":\"127.0.0.1:"));
	assert_non_null(strstr(said, "\"node\":\"n1\",\"tier\":\""));
	assert_non_null(strstr(said,
		"\"policy\":\"round-robin\",\"request\":\"GET "
		"/x\",\"status\":204,\"state\":\"done\",\"end\":\"--\""));
	assert_non_null(strstr(said, "\"total_ms\":"));
	assert_null(strstr(said, "abc"));
	/* Each is told once. */
	l.ask.after = 1;
	assert_non_null(strstr(look(&l), "\"requests\":[]"));
	request(client, &upstream, GET("/y"));
	assert_non_null(strstr(look_for(&l, "\"next\":2,"), "GET /y"));
	assert_null(strstr(buf_str(&l.out), "GET /x"));
	assert_non_null(strstr(look(&other), "\"next\":0,"));
	close(client);
	close(upstream);
	time_passes(TAP_LAPSE_MS + 2000);
	assert_false(is_tapped());
	buf_fini(&l.out);
	buf_fini(&other.out);
}

static void
a_relay_is_seen_as_it_opens(void **state)
{
	struct look l = {.ask = {.id = "relay", .service = ""}};
	int client, upstream;

	(void)state;
	service_use(PORT_TCP, LB_ROUND_ROBIN, 1);
	look_for(&l, "\"armed\":true");
	client = client_open();
	upstream = endpoint_accept(0);
	assert_non_null(strstr(look_for(&l, "\"state\":\"open\""), "\"endpoint\":\"127.0.0.1:"));
	put(client, "abc");
	expect(upstream, "abc");
	close_hard(client);
	assert_non_null(strstr(look_for(&l, "\"state\":\"done\""), "\"bytes_up\":3,"));
	close(upstream);
	time_passes(TAP_LAPSE_MS + 2000);
	buf_fini(&l.out);
}

/* Every request is told or counted, and what is told has a bound. */
static void
many_requests(void **state)
{
	enum { MANY = TAP_KEPT + 200 };
	struct look l = {.ask = {.id = "many", .service = ""}};
	unsigned long long next = 0, missed = 0, skipped = 0;
	int client, upstream = -1;

	(void)state;
	service_use(PORT_HTTP, LB_ROUND_ROBIN, 1);
	look_for(&l, "\"armed\":true");
	client = client_open();
	for (unsigned i = 0; i < MANY; i++) {
		request(client, &upstream, GET("/"));
		if (i % TAP_TICK_MOST == 0)
			look(&l);
	}
	for (unsigned i = 0; i < 100 && next + skipped < MANY; i++) {
		assert_int_equal(
			sscanf(look(&l),
				"{\"armed\":true,\"next\":%llu,\"missed\":%llu,\"skipped\":%llu,",
				&next, &missed, &skipped),
			3);
		time_passes(10);
	}
	assert_int_equal(next + skipped, MANY);
	assert_int_equal(missed, next > TAP_KEPT ? next - TAP_KEPT : 0);
	close(client);
	close(upstream);
	time_passes(TAP_LAPSE_MS + 2000);
	buf_fini(&l.out);
}

static void
there_is_room_for_some(void **state)
{
	struct look looks[TAPS_MOST + 1] = {0};
	static const char *const ids[TAPS_MOST + 1] = {"a", "b", "c", "d", "e"};

	(void)state;
	for (unsigned i = 0; i <= TAPS_MOST; i++) {
		looks[i].ask = (struct lb_tap_ask){.id = ids[i], .service = ""};
		look(&looks[i]);
		assert_int_equal(looks[i].rc, i < TAPS_MOST ? 0 : -EBUSY);
	}
	looks[0].ask.last = true;
	look(&looks[0]);
	look(&looks[TAPS_MOST]);
	assert_int_equal(looks[TAPS_MOST].rc, 0);
	time_passes(TAP_LAPSE_MS + 2000);
	assert_false(is_tapped());
	look(&looks[TAPS_MOST]);
	assert_int_equal(looks[TAPS_MOST].rc, 0);
	looks[0].ask.id = "an id that is longer than any that there is room for";
	look(&looks[0]);
	assert_int_equal(looks[0].rc, -EINVAL);
	for (unsigned i = 0; i <= TAPS_MOST; i++)
		buf_fini(&looks[i].out);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_seen),
		cmocka_unit_test(a_relay_is_seen_as_it_opens),
		cmocka_unit_test(many_requests),
		cmocka_unit_test(there_is_room_for_some),
	};

	return cmocka_run_group_tests(tests, fixture_start, fixture_stop);
}
