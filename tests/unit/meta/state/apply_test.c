/* The path of a change beside a database's thread that answers when the test says so. */
#include "meta/state/apply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/local_callers.h"
#include "model/view.h"
#include "tests/fake/clock.h"
#include "tests/unit/patience.h"

enum { ROWS = 3, RETRY_US = 60 * 1000 * 1000 };

struct world {
	struct loop *loop;
	struct apply *apply;
	unsigned acks, connection;
	/* the one job of each kind that waits */
	struct {
		const struct store_batch *batch;
		writer_done_fn *done;
		void *arg;
	} commit;
	struct {
		writer_rows_fn *fn;
		void *arg;
	} scan;
	char *view[ROWS], *key[ROWS]; /* what is in the database */
	uint64_t digest[ROWS];
};

static struct world *world;

/* --- the thread ----------------------------------------------------------------------------- */

void
writer_commit(
	struct writer *writer, const struct store_batch *batch, writer_done_fn *done, void *arg)
{
	(void)writer;
	assert_null(world->commit.done);
	world->commit.batch = batch;
	world->commit.done = done;
	world->commit.arg = arg;
}

void
writer_scan(struct writer *writer, const char *after, size_t limit, writer_rows_fn *fn, void *arg)
{
	(void)writer;
	assert_string_equal(after, "");
	assert_true(limit >= ROWS);
	assert_null(world->scan.fn);
	world->scan.fn = fn;
	world->scan.arg = arg;
}

static void
answer_commit(struct world *w)
{
	writer_done_fn *done = w->commit.done;

	assert_non_null(done);
	w->commit.done = NULL;
	done(w->commit.arg, 0);
}

/* With the rows as they are in `world`, which the commits that wait have not changed. */
static void
answer_scan(struct world *w)
{
	writer_rows_fn *fn = w->scan.fn;
	struct store_row rows[ROWS];

	assert_non_null(fn);
	w->scan.fn = NULL;
	for (unsigned i = 0; i < ROWS; i++)
		rows[i] = (struct store_row){.key = w->key[i],
			.view = w->view[i],
			.len = strlen(w->view[i]),
			.digest = w->digest[i],
			.ip = 0};
	fn(w->scan.arg, 0, rows, ROWS);
}

/* --- the owner ------------------------------------------------------------------------------ */

static void
on_use(void *arg, const struct snapshot *snapshot)
{
	(void)arg;
	(void)snapshot;
}

static void
on_ack(void *arg, unsigned connection, const char *id, const char *resource)
{
	(void)connection;
	(void)id;
	(void)resource;
	((struct world *)arg)->acks++;
}

static void
on_nothing(void *arg)
{
	(void)arg;
}

static void
turn(struct world *w)
{
	patience_turn(w->loop);
}

#define until(w, condition) patience_until(turn(w), condition)

static char *
make_view(unsigned i, unsigned port)
{
	char empty[] = "", http[] = "http", node[] = "edge-2", host[] = "192.0.2.7", ns[] = "shop",
	     name[16];
	struct view_endpoint e = {.node = node,
		.site = empty,
		.zone = empty,
		.hostname = empty,
		.pod = empty,
		.flags = ENDPOINT_READY | ENDPOINT_SERVING,
		.pod_ip = empty,
		.host_ip = host,
		.host_port = (uint16_t)port,
		.given_ip = empty};
	struct view_port p = {
		.name = http, .port = 80, .mode = PORT_HTTP, .n_endpoints = 1, .endpoints = &e};
	struct view v = {.ns = ns,
		.name = name,
		.cluster_ip = empty,
		.external_name = empty,
		.n_ports = 1,
		.ports = &p};
	struct buf out;

	snprintf(name, sizeof name, "s%u", i);
	buf_init(&out, BUF_UNLIMITED);
	view_build(&out, &v);
	return buf_take_str(&out);
}

/* port 0: deleted */
static void
change(struct world *w, unsigned i, unsigned port)
{
	auto_free char *view = port != 0 ? make_view(i, port) : NULL;
	char name[16];
	struct apply_message m = {.connection = w->connection,
		.id = "id",
		.resource = "resource",
		.ns = "shop",
		.name = name,
		.view = view,
		.len = view != NULL ? strlen(view) : 0};

	snprintf(name, sizeof name, "s%u", i);
	assert_int_equal(apply_change(w->apply, &m, NULL), 0);
}

static const struct service *
find(struct world *w, unsigned i)
{
	char name[16];

	snprintf(name, sizeof name, "s%u", i);
	return snapshot_find(apply_snapshot(w->apply), "shop", 4, name, strlen(name));
}

static unsigned
port_of(struct world *w, unsigned i)
{
	const struct service *s = find(w, i);

	return s != NULL && s->ports[0].n_endpoints == 1 ? s->ports[0].endpoints[0].port : 0;
}

static int
set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	struct apply_config config = {.node = "edge-1",
		.subnet = 0x09fb0000,
		.mask = 0xfffffffc,
		.use = on_use,
		.ack = on_ack,
		.synced = on_nothing,
		.resync = on_nothing,
		.arg = w};

	world = w;
	assert_int_equal(loop_new(&w->loop, NULL), 0);
	config.loop = w->loop;
	assert_int_equal(apply_new(&w->apply, &config, NULL, NULL), 0);
	apply_start(w->apply, (struct writer *)w); /* which nothing here looks into */
	*state = w;
	return 0;
}

static int
tear_down(void **state)
{
	struct world *w = *state;

	apply_free(&w->apply, true);
	loop_free(&w->loop);
	for (unsigned i = 0; i < ROWS; i++) {
		free(w->view[i]);
		free(w->key[i]);
	}
	free(w);
	return 0;
}

/* Three services and two addresses; returns the service that has none. */
static unsigned
three_services(struct world *w)
{
	unsigned without = ROWS;

	for (unsigned i = 0; i < ROWS; i++) {
		change(w, i, 30001);
		w->view[i] = make_view(i, 30001);
		w->key[i] = xasprintf("shop/s%u", i);
		w->digest[i] = view_digest(w->view[i], strlen(w->view[i]));
	}
	apply_synced(w->apply);
	until(w, w->commit.done != NULL);
	answer_commit(w);
	assert_int_equal(w->acks, ROWS);
	until(w, w->commit.done != NULL); /* the note that all is there */
	answer_commit(w);
	for (unsigned i = 0; i < ROWS; i++) {
		assert_int_equal(port_of(w, i), 30001);
		if (find(w, i)->fake_ip == 0)
			without = i;
	}
	assert_true(without < ROWS);
	assert_int_equal(apply_count(w->apply).without_address, 1);
	return without;
}

static void
nothing_waits(struct world *w)
{
	for (unsigned i = 0; i < 100 && w->commit.done == NULL; i++)
		turn(w);
	if (w->commit.done != NULL)
		answer_commit(w);
	assert_int_equal(apply_count(w->apply).waiting, 0);
}

/* Whether the thread looks before it is given the change, or while that waits for its commit. */
static void
a_scan_changes_no_later_view(void **state)
{
	struct world *w = *state;
	unsigned i = three_services(w);

	for (unsigned handed_over = 0; handed_over < 2; handed_over++) {
		clock_pass(RETRY_US);
		until(w, w->scan.fn != NULL);
		change(w, i, 30002 + handed_over);
		if (handed_over)
			until(w, w->commit.done != NULL);
		answer_scan(w);
		until(w, w->commit.done != NULL);
		answer_commit(w);
		assert_int_equal(port_of(w, i), 30002 + handed_over);
		nothing_waits(w);
		assert_int_equal(port_of(w, i), 30002 + handed_over);
	}
}

static void
a_scan_brings_no_deleted_service_back(void **state)
{
	struct world *w = *state;
	unsigned i = three_services(w);

	clock_pass(RETRY_US);
	until(w, w->scan.fn != NULL);
	change(w, i, 0);
	answer_scan(w);
	until(w, w->commit.done != NULL);
	answer_commit(w);
	nothing_waits(w);
	assert_null(find(w, i));
}

/* What it is for: once another service is gone, and its address has rested. */
static void
a_scan_gives_an_address(void **state)
{
	struct world *w = *state;
	unsigned i = three_services(w);

	change(w, i == 0 ? 1 : 0, 0);
	until(w, w->commit.done != NULL);
	answer_commit(w);
	clock_pass((IPAM_REST_MS + 1) * UINT64_C(1000));
	until(w, w->scan.fn != NULL);
	answer_scan(w);
	until(w, w->commit.done != NULL);
	answer_commit(w);
	assert_true(find(w, i)->fake_ip != 0);
	assert_int_equal(port_of(w, i), 30001);
}

/* The place of the address in the batch that waits, by which row it gets; -1: it gets none. */
static ptrdiff_t
place_of(const struct world *w, enum store_kind kind, uint32_t ip)
{
	for (size_t i = 0; i < w->commit.batch->n; i++)
		if (w->commit.batch->ops[i].kind == kind && w->commit.batch->ops[i].ip == ip)
			return (ptrdiff_t)i;
	return -1;
}

/* Also if its service comes back meanwhile. */
static void
what_rests_is_written_to_a_new_file(void **state)
{
	struct world *w = *state;
	unsigned gone = three_services(w) == 0 ? 1 : 0;
	const uint32_t ip = find(w, gone)->fake_ip;
	ptrdiff_t rest;
	uint64_t freed_ms;

	change(w, gone, 0);
	until(w, w->commit.done != NULL);
	assert_true((rest = place_of(w, STORE_REST, ip)) >= 0);
	freed_ms = w->commit.batch->ops[rest].freed_at_ms;
	answer_commit(w);
	clock_pass(1000 * 1000);
	apply_lost(w->apply);
	until(w, w->commit.done != NULL);
	assert_true((rest = place_of(w, STORE_REST, ip)) >= 0);
	assert_string_equal(w->commit.batch->ops[rest].key, gone == 0 ? "shop/s0" : "shop/s1");
	assert_int_equal(w->commit.batch->ops[rest].freed_at_ms, freed_ms);
	answer_commit(w);
	apply_lost(w->apply);
	change(w, gone, 30001);
	until(w, w->commit.done != NULL);
	assert_true(place_of(w, STORE_PUT, ip) > place_of(w, STORE_REST, ip));
	answer_commit(w);
	change(w, gone, 0);
	until(w, w->commit.done != NULL);
	answer_commit(w);
	change(w, gone, 30001);
	apply_lost(w->apply); /* the change waits already */
	until(w, w->commit.done != NULL);
	assert_true(place_of(w, STORE_PUT, ip) >= 0);
	assert_int_equal(place_of(w, STORE_REST, ip), -1);
	answer_commit(w);
}

/* The view that waits, or is with the writer, while the file is lost is not written over; and the
 * new file is complete only once the hub has heard of the loss, and has sent all again. */
static void
what_is_lost_is_asked_for_again(void **state)
{
	static const bool all[DIGEST_BUCKETS] = {[0] = true};
	struct world *w = *state;
	struct digest_entry *entries;
	unsigned i = three_services(w) == 0 ? 1 : 0;
	const uint32_t ip = find(w, i)->fake_ip;
	ptrdiff_t view;
	size_t n;

	change(w, i, 30002);
	apply_lost(w->apply);
	until(w, w->commit.done != NULL);
	assert_true((view = place_of(w, STORE_PUT, ip)) >= 0);
	assert_true(w->commit.batch->ops[view].len > 0);
	assert_true(place_of(w, STORE_IP, ip) > view);
	apply_synced(w->apply); /* of a comparison from before */
	answer_commit(w);
	nothing_waits(w);
	apply_entries(w->apply, all, &entries, &n);
	digest_entries_free(&entries, n);
	apply_synced(w->apply);
	until(w, w->commit.done != NULL);
	assert_int_equal(w->commit.batch->n, 1);
	assert_string_equal(w->commit.batch->ops[0].key, STORE_SYNCED);
	answer_commit(w);
	/* Nor is it what was said before the loss, but not taken yet. */
	change(w, i, 30003);
	apply_synced(w->apply);
	apply_lost(w->apply);
	until(w, w->commit.done != NULL);
	answer_commit(w);
	nothing_waits(w);
	apply_entries(w->apply, all, &entries, &n);
	digest_entries_free(&entries, n);
	apply_synced(w->apply);
	until(w, w->commit.done != NULL);
	assert_string_equal(w->commit.batch->ops[0].key, STORE_SYNCED);
	answer_commit(w);
}

/* The disk hangs, and the hub says the same on one connection after the other. */
static void
changes_of_connections_that_are_gone(void **state)
{
	struct world *w = *state;
	unsigned i = three_services(w) == 0 ? 1 : 0, acks = w->acks;

	change(w, i, 30002);
	until(w, w->commit.done != NULL);
	for (unsigned n = 0; n < 5000; n++) {
		w->connection++;
		change(w, i, 30003);
	}
	answer_commit(w);
	until(w, w->commit.done != NULL);
	answer_commit(w);
	nothing_waits(w);
	assert_int_equal(w->acks, acks + 2);
}

/* A service without an address has endpoints, by its ClusterIP: they follow what the node is. */
static void
without_address_it_follows_the_site(void **state)
{
	struct world *w = *state;
	unsigned i = three_services(w);

	apply_identity(w->apply, "east", "a");
	until(w, w->scan.fn != NULL);
	answer_scan(w);
	nothing_waits(w);
	assert_int_equal(port_of(w, i), 0); /* the endpoint is in no site, and cannot be reached */
	assert_int_equal(find(w, i)->fake_ip, 0);
}

/* A hub is faster than the disk, or the disk hangs. */
static void
notes_that_wait_are_as_many_as_their_names(void **state)
{
	struct world *w = *state;
	auto_free char *last = NULL;

	apply_note(w->apply, "time", "0");
	until(w, w->commit.done != NULL);
	for (unsigned i = 0; i < 1000; i++) {
		char name[16];
		struct local_pod pod = {.ns = "shop", .name = name, .ip = "172.17.0.2"};
		struct buf text;

		snprintf(name, sizeof name, "pod-%u", i);
		buf_init(&text, BUF_UNLIMITED);
		local_callers_begin(&text, NULL);
		local_callers_add(&text, &pod);
		local_callers_end(&text);
		assert_int_equal(apply_callers(w->apply, buf_str(&text), buf_len(&text), NULL), 0);
		apply_note(w->apply, "time", name);
		free(last);
		last = buf_take_str(&text);
		turn(w);
	}
	assert_int_equal(apply_count(w->apply).waiting, 3);
	answer_commit(w);
	until(w, w->commit.done != NULL);
	assert_int_equal(w->commit.batch->n, 2);
	assert_string_equal(w->commit.batch->ops[0].key, "callers");
	assert_string_equal(w->commit.batch->ops[0].data, last);
	assert_int_equal(w->commit.batch->ops[0].len, strlen(last));
	assert_string_equal(w->commit.batch->ops[1].key, "time");
	assert_string_equal(w->commit.batch->ops[1].data, "pod-999");
	answer_commit(w);
	nothing_waits(w);
}

int
main(void)
{
#define CASE(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(a_scan_changes_no_later_view),
		CASE(a_scan_brings_no_deleted_service_back),
		CASE(a_scan_gives_an_address),
		CASE(what_rests_is_written_to_a_new_file),
		CASE(what_is_lost_is_asked_for_again),
		CASE(changes_of_connections_that_are_gone),
		CASE(without_address_it_follows_the_site),
		CASE(notes_that_wait_are_as_many_as_their_names),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
