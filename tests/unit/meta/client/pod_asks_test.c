/* Questions for pods by their address: how often the hub is asked, and what its answers do. */
#include "meta/client/pod_asks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/pod_name.h"
#include "model/view.h"

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
	assert_ptr_equal(bed->last,
		strstr(bed->last,
			"{\"ns\":\"shop\",\"address\":\"172.17.0.5\",\"port\":0,\"name\":false,"));
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

/* Many clients leave some of what the hub allows the node to one that has not asked yet. */
static void
many_clients_leave_a_share(void **state)
{
	char address[INET6_ADDRSTRLEN];
	unsigned sent;

	(void)state;
	for (unsigned i = 0; i < 400; i++) {
		snprintf(address, sizeof address, "10.2.%u.%u", i / 250, i % 250);
		ask_for(address, false, 1 + i % 7);
	}
	sent = bed->sent;
	assert_in_range(sent, POD_ASKS_ALL_BURST / 2, POD_ASKS_ALL_BURST - 1);
	ask_for("10.3.0.1", false, 1000);
	assert_int_equal(bed->sent, sent + 1);
}

/* Who reads the names of a range leaves calls and forward names alone, its own too. */
static void
names_do_not_count_as_calls(void **state)
{
	char address[INET6_ADDRSTRLEN];
	unsigned sent;

	(void)state;
	for (unsigned i = 0; i < 400; i++) {
		snprintf(address, sizeof address, "10.4.%u.%u", i / 250, i % 250);
		ask_for(address, true, 1 + i % 16);
		hub_says("{\"found\":\"none\",\"ns\":\"\",\"name\":\"\"}");
	}
	sent = bed->sent;
	assert_in_range(sent, POD_NAMES_ALL_BURST / 2, POD_NAMES_ALL_BURST);
	for (unsigned i = 0; i < 20; i++) {
		snprintf(address, sizeof address, "10.5.0.%u", i);
		ask_for(address, false, 1);
	}
	assert_int_equal(bed->sent, sent + 20);
}

/* The places of those that wait are shared, too: what one client waits for is asked once. */
static void
waiting_places_are_shared(void **state)
{
	(void)state;
	for (unsigned i = 0; i < POD_ASKS_MOST; i++)
		ask_for("172.17.0.5", false, 1);
	assert_int_equal(bed->done, POD_ASKS_MOST / 2); /* told that it is not known */
	ask_for("172.17.0.5", false, 2);
	assert_int_equal(bed->done, POD_ASKS_MOST / 2);
	hub_says("{\"found\":\"none\",\"ns\":\"\",\"name\":\"\"}");
	assert_int_equal(bed->done, POD_ASKS_MOST + 1);
}

static void
asks_hold(unsigned n, uint64_t used_ms)
{
	struct change *changes = xcalloc(n, sizeof *changes);
	struct view_endpoint endpoint = {.node = (char[]){"n2"},
		.pod_ip = (char[]){"10.6.0.1"},
		.pod_port = 80,
		.flags = ENDPOINT_READY | ENDPOINT_SERVING};
	struct view_port port = {
		.port = 80, .mode = PORT_TCP, .endpoints = &endpoint, .n_endpoints = 1};
	struct self self = {.node = "n1"};
	struct snapshot *next;

	for (unsigned i = 0; i < n; i++) {
		char name[POD_NAME_MAX];
		struct view v = {.ns = (char[]){"shop"},
			.name = name,
			.headless = true,
			.ports = &port,
			.n_ports = 1};

		snprintf(name, sizeof name, "10-6-%u-%u._pod", i / 250, i % 250);
		changes[i].service = service_build(&v, &self, 0x0a000001 + i, i);
		changes[i].ns = changes[i].service->namespace;
		changes[i].name = changes[i].service->name;
		atomic_store(&changes[i].service->used_ms, i == 700 ? 1 : used_ms);
	}
	next = snapshot_next(bed->snapshot, changes, n);
	snapshot_unref(&bed->snapshot);
	bed->snapshot = next;
	free(changes);
}

/* As many as a node may have: the one that was not used for the longest time is given back, unless
 * all are in use. */
static void
the_unused_makes_room(void **state)
{
	(void)state;
	asks_hold(MESH_NODE_PODS_MAX - 1, 2);
	ask_for("10.7.0.1", false, 1);
	assert_null(strstr(bed->last, "instead"));
	asks_hold(MESH_NODE_PODS_MAX, 2);
	ask_for("10.7.0.2", false, 1);
	assert_non_null(strstr(bed->last, ",\"instead\":\"shop/10-6-2-200._pod\"}"));
	ask_for("10.7.0.2", true, 1);
	assert_null(strstr(bed->last, "instead"));
	asks_hold(MESH_NODE_PODS_MAX, UINT64_MAX);
	service_note_use(
		snapshot_find(bed->snapshot, "shop", 4, "10-6-2-200._pod", 15), UINT64_MAX);
	ask_for("10.7.0.3", false, 1);
	assert_null(strstr(bed->last, "instead"));
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
		cmocka_unit_test_setup_teardown(
			many_clients_leave_a_share, asks_setup, asks_teardown),
		cmocka_unit_test_setup_teardown(
			names_do_not_count_as_calls, asks_setup, asks_teardown),
		cmocka_unit_test_setup_teardown(
			waiting_places_are_shared, asks_setup, asks_teardown),
		cmocka_unit_test_setup_teardown(the_unused_makes_room, asks_setup, asks_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
