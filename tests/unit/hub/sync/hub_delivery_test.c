/* To whom the hub tells what, and how: services for some nodes only, bundles. */
#include "tests/unit/hub/hub_bed.h"

#include <stdio.h>
#include <string.h>

#include "base/core/gzip.h"
#include "base/core/metric.h"
#include "hub/hub_private.h"
#include "hub/sync/nodes_private.h"
#include "model/bundle.h"
#include "model/digest.h"
#include "model/view.h"

#define SELECTED "shop/service/chosen"

/* /debug/state's part of the hub. */
static void
add_state(struct bed *b, struct buf *text)
{
	uint64_t at = 0;

	hub_state(b->hub, text);
	while (!hub_state_services(b->hub, &at, text))
		;
}

static void
write_service(struct bed *b, const char *selector, unsigned port)
{
	auto_free char *text = xasprintf(
		"apiVersion: v1\nkind: Service\nmetadata: {name: chosen, namespace: shop, "
		"annotations: {edgeway.io/nodes: \"%s\"}}\nspec: {ports: [{port: %u}]}\n",
		selector, port);

	bed_write(b, "service.yaml", text);
}

static void
write_nodes(struct bed *b, const char *one, const char *two)
{
	auto_free char *text = xasprintf(
		"apiVersion: v1\nkind: Node\nmetadata: {name: edge-1, labels: {tier: %s}}\n---\n"
		"apiVersion: v1\nkind: Node\nmetadata: {name: edge-2, labels: {tier: %s}}\n",
		one, two);

	bed_write(b, "nodes.yaml", text);
}

/* Compares with what the node holds, the service or nothing, and is told `buckets` that differ. */
static void
compare(struct bed *b, struct client *c, uint64_t digest, unsigned differ)
{
	struct digests d = {0};
	bool want[DIGEST_BUCKETS] = {false};
	auto_buf struct buf content;
	struct err err = {0};
	struct envelope *e;
	unsigned n = 0;

	if (digest != 0)
		digest_toggle(&d, "shop/chosen", 11, digest);
	buf_init(&content, BUF_UNLIMITED);
	digests_build(&content, &d);
	bed_send(c, OP_QUERY, "digest/buckets", "q", "", buf_str(&content));
	e = bed_next(b, c);
	assert_string_equal(e->parent_id, "q");
	assert_int_equal(digest_want_parse(want, e->content, e->content_len, &err), 0);
	for (int i = 0; i < DIGEST_BUCKETS; i++)
		n += want[i];
	assert_int_equal(n, differ);
}

static struct envelope *
told(struct bed *b, struct client *c, enum operation op)
{
	struct envelope *e = bed_next(b, c);

	assert_int_equal(e->operation, op);
	assert_string_equal(e->resource, SELECTED);
	bed_ack(c, e);
	return e;
}

static void
only_the_chosen_nodes_know(void **state)
{
	struct bed *b = *state;
	struct identity one, two;
	struct client *c1, *c2;
	struct envelope *e;
	uint64_t digest;

	write_nodes(b, "a", "b");
	bed_start_hub(b);
	one = bed_join(b, "edge-1");
	two = bed_join(b, "edge-2");
	c1 = bed_connect(b, "edge-1", &one);
	c2 = bed_connect(b, "edge-2", &two);
	compare(b, c1, 0, 0);
	compare(b, c2, 0, 0);
	write_service(b, "tier in (a)", 80);
	e = told(b, c1, OP_UPDATE);
	digest = view_digest(e->content, e->content_len);
	bed_idle(b, 100);
	assert_int_equal(c2->at, c2->n_in);
	compare(b, c1, digest, 0);
	compare(b, c1, 0, 1);
	compare(b, c2, 0, 0);
	compare(b, c2, digest, 1);
	/* The selector alone changes: the view is the same. */
	write_service(b, "tier=b", 80);
	told(b, c1, OP_DELETE);
	told(b, c2, OP_UPDATE);
	compare(b, c1, 0, 0);
	compare(b, c2, digest, 0);
	/* Labels change. */
	write_nodes(b, "b", "c");
	told(b, c1, OP_UPDATE);
	told(b, c2, OP_DELETE);
	/* It goes: who did not know of it hears nothing. */
	bed_write(b, "service.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: edge-3}\n");
	told(b, c1, OP_DELETE);
	bed_idle(b, 100);
	assert_int_equal(c2->at, c2->n_in);
	identity_fini(&one);
	identity_fini(&two);
}

/* What a node holds from the time when it was chosen goes when it comes back. */
static void
a_node_that_was_chosen_loses_it_when_it_comes_back(void **state)
{
	struct bed *b = *state;
	struct digest_entry held = {(char[]){"shop/chosen"}, 17};
	bool want[DIGEST_BUCKETS] = {false};
	auto_buf struct buf content;
	struct identity id;
	struct client *c;

	write_nodes(b, "a", "b");
	write_service(b, "tier=b", 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	compare(b, c, 17, 1);
	want[digest_bucket("shop/chosen", 11)] = true;
	buf_init(&content, BUF_UNLIMITED);
	digest_entries_build(&content, want, &held, 1);
	bed_send(c, OP_QUERY, "digest/services", "q2", "", buf_str(&content));
	told(b, c, OP_DELETE);
	assert_string_equal(bed_next(b, c)->content, "{\"synced\":true}");
	identity_fini(&id);
}

static void
a_bad_selector_is_told_and_chooses_all(void **state)
{
	struct bed *b = *state;
	auto_buf struct buf text;
	struct identity id;
	struct client *c;

	write_service(b, "tier in a", 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	compare(b, c, 0, 1);
	buf_init(&text, BUF_UNLIMITED);
	add_state(b, &text);
	/* The service's reason, which Kubernetes' Event repeats. */
	assert_non_null(strstr(buf_str(&text),
		"\"reason\":\"edgeway.io/nodes: ( expected after in or notin at 'a'; all nodes"));
	identity_fini(&id);
}

/* --- bundles -------------------------------------------------------------------------------- */

static void
sync_all(struct bed *b, struct client *c, unsigned n)
{
	bool want[DIGEST_BUCKETS] = {false};
	auto_buf struct buf content;
	struct err err = {0};
	struct envelope *e;

	buf_init(&content, BUF_UNLIMITED);
	digests_build(&content, &(struct digests){0});
	bed_send(c, OP_QUERY, "digest/buckets", "q1", "", buf_str(&content));
	e = bed_next(b, c);
	assert_int_equal(digest_want_parse(want, e->content, e->content_len, &err), 0);
	buf_consume(&content, buf_len(&content));
	digest_entries_build(&content, want, NULL, 0);
	bed_send(c, OP_QUERY, "digest/services", "q2", "", buf_str(&content));
	for (unsigned i = 0; i < n; i++) {
		e = bed_next(b, c);
		assert_int_equal(e->operation, OP_UPDATE);
		bed_ack(c, e);
	}
	assert_string_equal(bed_next(b, c)->parent_id, "q2");
}

static void
only_who_takes_bundles_gets_them(void **state)
{
	struct bed *b = *state;
	struct identity old, new;
	struct client *c;

	bed_write_services(b, "a.yaml", 0, 600, 80);
	bed_start_hub(b);
	old = bed_join(b, "edge-1");
	new = bed_join(b, "edge-2");
	c = bed_connect(b, "edge-1", &old);
	sync_all(b, c, 600);
	assert_int_equal(c->bundles, 0);
	b->bundles = true;
	c = bed_connect(b, "edge-2", &new);
	sync_all(b, c, 600);
	assert_true(c->bundles > 0);
	assert_true(c->frames < 600);
	/* One small change needs none. */
	bed_write_services(b, "b.yaml", 600, 1, 80);
	c->bundles = 0;
	assert_int_equal(bed_next(b, c)->operation, OP_UPDATE);
	assert_int_equal(c->bundles, 0);
	identity_fini(&old);
	identity_fini(&new);
}

/* A large view goes alone: its bundle is the same for all but for the id, which the acknowledgement
 * names. */
static void
a_large_view_is_compressed_for_all(void **state)
{
	struct bed *b = *state;
	struct identity id[2];
	struct client *c[2];
	auto_buf struct buf text;

	b->bundles = true;
	bed_start_hub(b);
	for (int i = 0; i < 2; i++) {
		id[i] = bed_join(b, i == 0 ? "edge-1" : "edge-2");
		c[i] = bed_connect(b, i == 0 ? "edge-1" : "edge-2", &id[i]);
		compare(b, c[i], 0, 0);
	}
	buf_init(&text, BUF_UNLIMITED);
	for (unsigned port = 80; port < 84; port++) {
		buf_consume(&text, buf_len(&text));
		buf_adds(&text,
			"apiVersion: v1\nkind: Service\nmetadata: {name: big}\nspec: {ports: [");
		for (unsigned i = 0; i < 60; i++)
			buf_printf(&text, "%s{name: p%u, port: %u}", i > 0 ? ", " : "", i,
				port + 10 * i);
		buf_adds(&text, "]}\n");
		bed_write(b, "big.yaml", buf_str(&text));
		for (int i = 0; i < 2; i++) {
			struct envelope *e = bed_next(b, c[i]);

			assert_int_equal(e->operation, OP_UPDATE);
			assert_string_equal(e->resource, "default/service/big");
			assert_int_equal(strlen(e->id), 36);
			assert_int_equal(c[i]->bundles, port - 79);
			bed_ack(c[i], e);
		}
	}
	/* Each was acknowledged, or it would be under way and the last one wait. */
	bed_idle(b, 100);
	buf_consume(&text, buf_len(&text));
	add_state(b, &text);
	assert_null(strstr(buf_str(&text), "\"unacked\":1"));
	for (int i = 0; i < 2; i++)
		identity_fini(&id[i]);
}

static void
send_packed(struct client *c, const void *bytes, size_t len)
{
	auto_buf struct buf content;

	buf_init(&content, BUF_UNLIMITED);
	buf_adds(&content, "\"");
	gzip_text(&content, bytes, len);
	buf_adds(&content, "\"");
	bed_send(c, OP_INSERT, "bundle/zlib", "b1", "", buf_str(&content));
}

static void
refused(struct bed *b, struct client *c, const char *why)
{
	struct envelope *e = bed_next(b, c);

	assert_int_equal(e->operation, OP_ERROR);
	assert_string_equal(e->parent_id, "b1");
	if (strstr(e->content, why) == NULL)
		fail_msg("%s, not %s", e->content, why);
}

static void
bombs_are_refused(void **state)
{
	struct bed *b = *state;
	auto_free char *zeros = xcalloc(1, 2 * ENVELOPE_MAX_BYTES);
	auto_buf struct buf nested, lines;
	struct identity id;
	struct client *c;

	b->bundles = true;
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	send_packed(c, zeros, 2 * ENVELOPE_MAX_BYTES);
	refused(b, c, "more than 8388608 bytes once unpacked");
	memset(zeros, '\n', ENVELOPE_MAX_BYTES);
	send_packed(c, zeros, ENVELOPE_MAX_BYTES);
	refused(b, c, "more than 65536 messages");
	bed_send(c, OP_INSERT, "bundle/zlib", "b1", "", "{}");
	refused(b, c, "no text");
	bed_send(c, OP_INSERT, "bundle/zlib", "b1", "", "\"eJxLBAAAYgBj\"");
	refused(b, c, "incorrect data check");
	buf_init(&nested, BUF_UNLIMITED);
	buf_init(&lines, BUF_UNLIMITED);
	buf_adds(&lines, "{}\n");
	bundle_build(&nested, "edge-1", "b1", &lines);
	buf_adds(&nested, "\n");
	send_packed(c, buf_at(&nested), buf_len(&nested));
	refused(b, c, "a bundle within a bundle");
	/* And life goes on. */
	compare(b, c, 0, 0);
	identity_fini(&id);
}

/* Each is answered: a node that sends them without end, and reads nothing, must not have the hub
 * keep all answers. */
static void
queries_without_end_end_the_connection(void **state)
{
	enum { QUERIES = 20000 };
	struct bed *b = *state;
	auto_buf struct buf lines;
	struct identity id;
	struct client *c;

	buf_init(&lines, BUF_UNLIMITED);
	for (unsigned i = 0; i < QUERIES; i++)
		buf_adds(&lines,
			"{\"header\":{\"msg_id\":\"1\"},\"route\":{\"operation\":\"query\","
			"\"resource\":\"node/pod\"},\"content\":{\"ns\":\"\",\"address\":"
			"\"10.0.0.1\"}}\n");
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	compare(b, c, 0, 0);
	send_packed(c, buf_at(&lines), buf_len(&lines));
	wait_for(b, c->closed || c->n_in == MESSAGES_MAX);
	if (strstr(c->why, "asks without reading the answers (1008)") == NULL)
		fail_msg("ended with: %s", c->why);
	identity_fini(&id);
}

static bool
hub_says(struct bed *b, const char *what)
{
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	add_state(b, &text);
	return strstr(buf_str(&text), what) != NULL;
}

static double
metric_of(struct bed *b, const char *name)
{
	struct metrics m;
	const char *at;
	double value;

	metrics_init(&m);
	hub_metrics(b->hub, &m);
	at = strstr(buf_str(&m.out), name);
	assert_non_null(at);
	value = strtod(at + strlen(name), NULL);
	metrics_fini(&m);
	return value;
}

/* What a node refuses is held back until it changes, and told with the reason; the rest goes on. */
static void
what_a_node_refuses_is_held_back(void **state)
{
	bool want[DIGEST_BUCKETS] = {false};
	struct bed *b = *state;
	auto_buf struct buf content;
	struct identity id;
	struct envelope *e;
	struct client *c;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	compare(b, c, 0, 0);
	write_service(b, "", 80);
	e = bed_next(b, c);
	bed_send(c, OP_ERROR, e->resource, "n", e->id, "\"more than 3 \\\"ports\\\"\"");
	wait_for(b, hub_says(b, "\"held\":1"));
	assert_true(hub_says(b,
		"\"heldChanges\":[{\"service\":\"shop/chosen\",\"reason\":\"more than 3 "
		"?ports?\"}]"));
	assert_true(metric_of(b, "\nedgeway_hub_changes_held ") == 1);
	/* Nor does a comparison bring it back. */
	compare(b, c, 0, 1);
	want[digest_bucket("shop/chosen", 11)] = true;
	buf_init(&content, BUF_UNLIMITED);
	digest_entries_build(&content, want, NULL, 0);
	bed_send(c, OP_QUERY, "digest/services", "q2", "", buf_str(&content));
	assert_string_equal(bed_next(b, c)->content, "{\"synced\":true}");
	bed_write_services(b, "a.yaml", 0, 1, 80);
	e = bed_next(b, c);
	assert_string_equal(e->resource, "default/service/s0");
	bed_ack(c, e);
	write_service(b, "", 81);
	told(b, c, OP_UPDATE);
	wait_for(b, hub_says(b, "\"held\":0"));
	assert_true(metric_of(b, "\nedgeway_hub_changes_held ") == 0);
	assert_false(c->closed);
	identity_fini(&id);
}

/* An error that names a bundle says nothing of its messages: they go again, each by itself. */
static void
bundles_that_are_refused_go_unbundled(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct envelope *e;
	struct client *c;

	b->bundles = true;
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	compare(b, c, 0, 0);
	bed_write_services(b, "a.yaml", 0, 50, 80);
	for (int i = 0; i < 50; i++)
		bed_next(b, c);
	assert_true(c->bundles > 0);
	c->bundles = 0;
	bed_send(c, OP_ERROR, "bundle/zlib", "n", "some-bundle", "\"it cannot be opened\"");
	for (int i = 0; i < 50; i++) {
		e = bed_next(b, c);
		assert_int_equal(e->operation, OP_UPDATE);
		bed_ack(c, e);
	}
	assert_int_equal(c->bundles, 0);
	wait_for(b, hub_says(b, "\"unacked\":0,\"acks\":50"));
	identity_fini(&id);
}

static void
nodes_beyond_those_on_their_way_are_asked_to_wait(void **state)
{
	struct bed *b = *state;
	struct sync_gate *gate;
	auto_buf struct buf text;
	struct identity id;
	struct client *c;

	bed_start_hub(b);
	gate = &b->hub->nodes->gate;
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	assert_int_equal(gate->now + gate->before, 1);
	compare(b, c, 0, 0);
	assert_int_equal(gate->now + gate->before, 0);
	for (unsigned i = 0; i < SYNC_GATE_MOST; i++)
		sync_gate_begin(gate, mono_ms());
	c = bed_dial_events(b, "edge-1", &id, id.cert);
	wait_for(b, c->closed);
	assert_int_equal(gate->refused, 1);
	buf_init(&text, BUF_UNLIMITED);
	nodes_joins(b->hub->nodes, &text);
	assert_non_null(strstr(buf_str(&text), "\"told_to_wait\":1,"));
	identity_fini(&id);
}

/* A service that no node takes costs no node its connection: it is told to none, and why. What they
 * knew before stays. */
static void
what_is_beyond_the_limits_is_not_told(void **state)
{
	struct bed *b = *state;
	auto_buf struct buf text;
	struct identity id;
	struct envelope *e;
	struct client *c;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	compare(b, c, 0, 0);
	write_service(b, "", 80);
	told(b, c, OP_UPDATE);
	buf_init(&text, BUF_UNLIMITED);
	buf_adds(&text,
		"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{\"apiVersion\":\"v1\","
		"\"kind\":\"Service\","
		"\"metadata\":{\"name\":\"chosen\",\"namespace\":\"shop\"},\"spec\":{\"ports\":[");
	for (int i = 0; i < 20; i++)
		buf_printf(&text, "%s{\"name\":\"p%d\",\"port\":%d}", i > 0 ? "," : "", i, 80 + i);
	buf_adds(&text,
		"]}},{\"apiVersion\":\"v1\",\"kind\":\"Endpoints\",\"metadata\":{\"name\":"
		"\"chosen\","
		"\"namespace\":\"shop\"},\"subsets\":[{\"ports\":[");
	for (int i = 0; i < 20; i++)
		buf_printf(
			&text, "%s{\"name\":\"p%d\",\"port\":%d}", i > 0 ? "," : "", i, 8000 + i);
	buf_adds(&text, "],\"addresses\":[");
	for (int i = 0; i < 5000; i++)
		buf_printf(
			&text, "%s{\"ip\":\"10.1.%d.%d\"}", i > 0 ? "," : "", i / 250, 1 + i % 250);
	buf_adds(&text, "]}]}]}");
	bed_write(b, "service.yaml", buf_str(&text));
	wait_for(b, hub_says(b, "\"beyondLimits\":[{\"namespace\":\"shop\",\"name\":\"chosen\","));
	assert_true(hub_says(b, "more than 50000 endpoints together"));
	bed_write_services(b, "a.yaml", 0, 1, 80);
	e = bed_next(b, c);
	assert_string_equal(e->resource, "default/service/s0");
	bed_ack(c, e);
	write_service(b, "", 82);
	told(b, c, OP_UPDATE);
	assert_true(hub_says(b, "\"beyondLimits\":[]"));
	assert_false(c->closed);
	identity_fini(&id);
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(only_the_chosen_nodes_know),
		case_of(a_node_that_was_chosen_loses_it_when_it_comes_back),
		case_of(a_bad_selector_is_told_and_chooses_all),
		case_of(only_who_takes_bundles_gets_them),
		case_of(a_large_view_is_compressed_for_all),
		case_of(bombs_are_refused),
		case_of(queries_without_end_end_the_connection),
		case_of(what_a_node_refuses_is_held_back),
		case_of(bundles_that_are_refused_go_unbundled),
		case_of(nodes_beyond_those_on_their_way_are_asked_to_wait),
		case_of(what_is_beyond_the_limits_is_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
