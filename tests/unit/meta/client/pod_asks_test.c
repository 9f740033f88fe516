/* Questions for pods by their address: how often the hub is asked, and what its answers do. */
#include "meta/client/pod_asks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct asks_bed {
	struct loop *loop;
	struct pod_asks *asks;
	struct snapshot *snapshot;
	bool hub;
	unsigned sent, done;
	char last[256], id[37];
	enum pod_answer answers[512];
	char found[POD_FOUND_MAX];
};

static struct asks_bed *bed;

static bool
asks_send(void *arg, const char *json, char id[37])
{
	struct asks_bed *b = arg;

	if (!b->hub)
		return false;
	snprintf(b->last, sizeof b->last, "%s", json);
	snprintf(b->id, sizeof b->id, "id-%u", b->sent++);
	memcpy(id, b->id, sizeof b->id);
	return true;
}

static const struct snapshot *
asks_snapshot(void *arg)
{
	return ((struct asks_bed *)arg)->snapshot;
}

static int
asks_setup(void **state)
{
	struct err err;

	bed = xcalloc(1, sizeof *bed);
	assert_int_equal(loop_new(&bed->loop, &err), 0);
	bed->snapshot = snapshot_new(true);
	bed->hub = true;
	bed->asks = pod_asks_new(&(struct pod_asks_config){
		.loop = bed->loop, .send = asks_send, .snapshot = asks_snapshot, .arg = bed});
	*state = bed;
	return 0;
}

static int
asks_teardown(void **state)
{
	(void)state;
	pod_asks_free(&bed->asks);
	loop_turn(bed->loop);
	snapshot_unref(&bed->snapshot);
	loop_free(&bed->loop);
	free(bed);
	return 0;
}

static void
asks_on_done(void *arg)
{
	struct pod_ask *ask = arg;

	assert_true(bed->done < ARRAY_LEN(bed->answers));
	bed->answers[bed->done++] = ask->answer;
	memcpy(bed->found, ask->found, sizeof bed->found);
	free(ask);
}

static void
ask_for(const char *address, bool name, uint32_t client)
{
	struct pod_ask *ask = xcalloc(1, sizeof *ask);

	snprintf(ask->ns, sizeof ask->ns, "%s", name ? "" : "shop");
	snprintf(ask->address, sizeof ask->address, "%s", address);
	ask->name = name;
	ask->client = client;
	ask->loop = bed->loop;
	ask->done = asks_on_done;
	pod_asks_ask(bed->asks, ask);
	loop_turn(bed->loop);
}

static void
hub_says(const char *json)
{
	pod_asks_answer(bed->asks, bed->id, json, strlen(json));
	loop_turn(bed->loop);
}

static void
one_question_for_many(void **state)
{
	(void)state;
	for (int i = 0; i < 5; i++)
		ask_for("172.17.0.5", false, 1);
	assert_int_equal(bed->sent, 1);
	assert_string_equal(bed->last,
		"{\"ns\":\"shop\",\"address\":\"172.17.0.5\",\"port\":0,\"name\":false}");
	assert_int_equal(bed->done, 0);
	hub_says("{\"found\":\"none\",\"ns\":\"\",\"name\":\"\"}");
	assert_int_equal(bed->done, 5);
	assert_int_equal(bed->answers[0], POD_NONE);
	ask_for("172.17.0.5", false, 1); /* believed for a while */
	assert_int_equal(bed->sent, 1);
	assert_int_equal(bed->answers[5], POD_NONE);
}

static void
names_are_kept(void **state)
{
	(void)state;
	ask_for("172.17.0.5", true, 1);
	hub_says("{\"found\":\"one\",\"ns\":\"shop\",\"name\":\"db-0.db.shop.svc\"}");
	assert_int_equal(bed->answers[0], POD_KNOWN);
	assert_string_equal(bed->found, "db-0.db.shop.svc");
	bed->hub = false;
	ask_for("172.17.0.5", true, 2);
	assert_int_equal(bed->answers[1], POD_KNOWN);
	assert_string_equal(bed->found, "db-0.db.shop.svc");
}

static void
answers_that_do_not_help(void **state)
{
	static const char *const said[] = {"{\"found\":\"busy\",\"ns\":\"\",\"name\":\"\"}",
		"{\"found\":\"full\",\"ns\":\"\",\"name\":\"\"}", "{\"found\":7}", "[]", "{",
		"\"no\"", ""};

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(said); i++) {
		ask_for("172.17.0.5", false, 1);
		hub_says(said[i]);
		assert_int_equal(bed->done, i + 1);
		assert_int_equal(bed->answers[i], POD_UNKNOWN);
	}
	assert_int_equal(bed->sent, ARRAY_LEN(said)); /* nothing of it is kept */
	bed->hub = false;
	ask_for("172.17.0.5", false, 1);
	assert_int_equal(bed->answers[bed->done - 1], POD_UNKNOWN);
}

/* The view is on its way: the answer waits for it, and comes at the end in any case. */
static void
waits_for_the_view(void **state)
{
	(void)state;
	ask_for("172.17.0.5", false, 1);
	hub_says("{\"found\":\"one\",\"ns\":\"shop\",\"name\":\"172-17-0-5.shop.pod\"}");
	pod_asks_look(bed->asks);
	loop_turn(bed->loop);
	assert_int_equal(bed->done, 0);
	pod_asks_end(bed->asks);
	loop_turn(bed->loop);
	assert_int_equal(bed->done, 1);
	assert_int_equal(bed->answers[0], POD_UNKNOWN);
	ask_for("172.17.0.5", false, 1);
	assert_int_equal(bed->answers[1], POD_UNKNOWN);
}

static void
a_client_has_its_share(void **state)
{
	char address[INET6_ADDRSTRLEN];
	unsigned sent;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		snprintf(address, sizeof address, "10.0.%u.%u", i / 250, i % 250);
		ask_for(address, false, 1);
	}
	sent = bed->sent;
	assert_in_range(sent, POD_ASKS_BURST, POD_ASKS_BURST + 20);
	ask_for("10.1.0.1", false, 2); /* another one is not affected */
	assert_int_equal(bed->sent, sent + 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_question_for_many, asks_setup, asks_teardown),
		cmocka_unit_test_setup_teardown(names_are_kept, asks_setup, asks_teardown),
		cmocka_unit_test_setup_teardown(
			answers_that_do_not_help, asks_setup, asks_teardown),
		cmocka_unit_test_setup_teardown(waits_for_the_view, asks_setup, asks_teardown),
		cmocka_unit_test_setup_teardown(a_client_has_its_share, asks_setup, asks_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
