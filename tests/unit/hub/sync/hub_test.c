/* What the hub tells its nodes: digests, the window, changes, replacing, garbage. */
#include "tests/unit/hub/hub_bed.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/sync/node_session.h"
#include "model/digest.h"
#include "model/limits.h"
#include "model/view.h"

/* --- metadata ------------------------------------------------------------------------------- */

static void
query_buckets(struct client *c, const char *id, const struct digests *d)
{
	auto_buf struct buf content;

	buf_init(&content, BUF_UNLIMITED);
	digests_build(&content, d);
	bed_send(c, OP_QUERY, "digest/buckets", id, "", buf_str(&content));
}

/* Steps 2 to 4 of a node that holds `n` entries. */
static void
query_services(struct bed *b, struct client *c, const struct digest_entry *entries, size_t n)
{
	struct digests d = {0};
	bool want[DIGEST_BUCKETS] = {false};
	auto_buf struct buf content;
	struct err err = {0};
	struct envelope *e;

	for (size_t i = 0; i < n; i++)
		digest_toggle(&d, entries[i].key, strlen(entries[i].key), entries[i].digest);
	query_buckets(c, "q1", &d);
	e = bed_next(b, c);
	assert_int_equal(e->operation, OP_RESPONSE);
	assert_string_equal(e->parent_id, "q1");
	assert_int_equal(digest_want_parse(want, e->content, e->content_len, &err), 0);
	buf_init(&content, BUF_UNLIMITED);
	digest_entries_build(&content, want, entries, n);
	bed_send(c, OP_QUERY, "digest/services", "q2", "", buf_str(&content));
}

static void
assert_synced(const struct envelope *e)
{
	assert_int_equal(e->operation, OP_RESPONSE);
	assert_string_equal(e->parent_id, "q2");
	assert_string_equal(e->content, "{\"synced\":true}");
}

static void
an_empty_node_gets_all(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;
	struct envelope *e;
	struct view *view = NULL;
	struct err err = {0};

	bed_write_services(b, "a.yaml", 0, 3, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	for (int i = 0; i < 3; i++) {
		e = bed_next(b, c);
		assert_int_equal(e->operation, OP_UPDATE);
		assert_int_equal(view_parse(&view, e->content, e->content_len, &err), 0);
		assert_string_equal(view->ns, "default");
		assert_int_equal(view->ports[0].port, 80);
		view_free(&view);
		bed_ack(c, e);
	}
	assert_synced(bed_next(b, c));
	identity_fini(&id);
}

/* What the hub told, as a node that keeps it would say it. */
static void
learn(struct bed *b, struct client *c, struct digest_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct envelope *e = bed_next(b, c);
		char ns[64], name[64];

		assert_int_equal(e->operation, OP_UPDATE);
		assert_int_equal(sscanf(e->resource, "%63[^/]/service/%63s", ns, name), 2);
		entries[i].key = xasprintf("%s/%s", ns, name);
		entries[i].digest = view_digest(e->content, e->content_len);
		bed_ack(c, e);
	}
	assert_synced(bed_next(b, c));
}

static void
entries_fini(struct digest_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(entries[i].key);
}

static void
a_node_in_step_gets_nothing(void **state)
{
	struct bed *b = *state;
	struct digest_entry entries[5];
	struct digests d = {0};
	struct identity id;
	struct client *c;
	struct envelope *e;

	bed_write_services(b, "a.yaml", 0, 5, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	learn(b, c, entries, 5);
	for (int i = 0; i < 5; i++)
		digest_toggle(&d, entries[i].key, strlen(entries[i].key), entries[i].digest);
	query_buckets(c, "q9", &d);
	e = bed_next(b, c);
	assert_string_equal(e->parent_id, "q9");
	assert_string_equal(e->content, "{\"buckets\":[],\"synced\":true}");
	entries_fini(entries, 5);
	identity_fini(&id);
}

static void
what_is_gone_is_deleted(void **state)
{
	struct bed *b = *state;
	struct digest_entry stale[] = {{(char[]){"default/old"}, 42}, {(char[]){"default/s0"}, 42}};
	struct identity id;
	struct client *c;
	unsigned updates = 0, deletes = 0;

	bed_write_services(b, "a.yaml", 0, 2, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	query_services(b, c, stale, 2);
	for (int i = 0; i < 3; i++) {
		struct envelope *e = bed_next(b, c);

		if (e->operation == OP_DELETE) {
			assert_string_equal(e->resource, "default/service/old");
			assert_int_equal(e->content_len, 0);
		}
		updates += e->operation == OP_UPDATE;
		deletes += e->operation == OP_DELETE;
		bed_ack(c, e);
	}
	assert_int_equal(updates, 2);
	assert_int_equal(deletes, 1);
	assert_synced(bed_next(b, c));
	identity_fini(&id);
}

static void
changes_come_as_they_happen(void **state)
{
	struct bed *b = *state;
	auto_free char *path = NULL;
	struct identity id;
	struct client *c;
	struct envelope *e;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	query_buckets(c, "q1", &(struct digests){{0}});
	assert_string_equal(bed_next(b, c)->content, "{\"buckets\":[],\"synced\":true}");
	bed_write_services(b, "a.yaml", 7, 1, 80);
	e = bed_next(b, c);
	assert_int_equal(e->operation, OP_UPDATE);
	assert_string_equal(e->resource, "default/service/s7");
	bed_ack(c, e);
	path = xasprintf("%s/a.yaml", b->folder);
	unlink(path);
	e = bed_next(b, c);
	assert_int_equal(e->operation, OP_DELETE);
	assert_string_equal(e->resource, "default/service/s7");
	bed_ack(c, e);
	identity_fini(&id);
}

static void
the_window_holds_back(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;
	unsigned n = 0;

	bed_write_services(b, "a.yaml", 0, 600, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	wait_for(b, c->n_in - c->at >= 256);
	bed_idle(b, 200);
	assert_int_equal(c->n_in - c->at, 256);
	bed_ack(c, &c->in[c->at]);
	wait_for(b, c->n_in - c->at >= 257);
	bed_idle(b, 50);
	assert_int_equal(c->n_in - c->at, 257);
	c->at++;
	for (n = 1; n < 600; n++) {
		struct envelope *e = bed_next(b, c);

		assert_int_equal(e->operation, OP_UPDATE);
		bed_ack(c, e);
	}
	assert_synced(bed_next(b, c));
	identity_fini(&id);
}

/* While a change is under way, those that follow melt into one, the last. */
static void
the_newest_wins(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;
	struct envelope *e;
	struct view *view = NULL;
	struct err err = {0};

	bed_write_services(b, "a.yaml", 0, 1, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	e = bed_next(b, c);
	assert_synced(bed_next(b, c));
	for (unsigned port = 81; port <= 85; port++) {
		bed_write_services(b, "a.yaml", 0, 1, port);
		bed_idle(b, 60);
	}
	assert_int_equal(c->at, c->n_in);
	bed_ack(c, e);
	e = bed_next(b, c);
	assert_int_equal(e->operation, OP_UPDATE);
	assert_int_equal(view_parse(&view, e->content, e->content_len, &err), 0);
	assert_int_equal(view->ports[0].port, 85);
	view_free(&view);
	bed_ack(c, e);
	bed_idle(b, 100);
	assert_int_equal(c->at, c->n_in);
	identity_fini(&id);
}

static void
a_refused_change_does_not_come_again(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;
	struct envelope *e;

	bed_write_services(b, "a.yaml", 0, 1, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	e = bed_next(b, c);
	assert_synced(bed_next(b, c));
	bed_send(c, OP_ERROR, e->resource, "r", e->id, "\"I do not want it\"");
	bed_idle(b, 50);
	query_services(b, c, NULL, 0);
	assert_synced(bed_next(b, c));
	bed_write_services(b, "a.yaml", 0, 1, 81);
	assert_int_equal(bed_next(b, c)->operation, OP_UPDATE);
	identity_fini(&id);
}

/* What was not acknowledged comes again on the next connection. */
static void
a_newer_connection_replaces(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *old, *new;
	auto_buf struct buf out;

	bed_write_services(b, "a.yaml", 0, 1, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	old = bed_connect(b, "edge-1", &id);
	query_services(b, old, NULL, 0);
	assert_int_equal(bed_next(b, old)->operation, OP_UPDATE);
	new = bed_connect(b, "edge-1", &id);
	wait_for(b, old->closed);
	assert_non_null(strstr(old->why, "4001"));
	query_services(b, new, NULL, 0);
	assert_int_equal(bed_next(b, new)->operation, OP_UPDATE);
	assert_synced(bed_next(b, new));
	buf_init(&out, BUF_UNLIMITED);
	hub_nodes(b->hub, &out);
	assert_non_null(strstr(buf_str(&out), "\"node\":\"edge-1\",\"connected\":true"));
	assert_null(strstr(buf_str(&out), "\"connected\":false"));
	identity_fini(&id);
}

/* A node that claims to hold far more than there is costs no more than reading its message. */
static void
inventions_end_the_connection(void **state)
{
	enum { CLAIMED = NODE_SESSION_STALE_MAX + 100 };
	struct bed *b = *state;
	struct digest_entry *entries = xcalloc(CLAIMED, sizeof *entries);
	struct identity id;
	struct client *c;

	bed_write_services(b, "a.yaml", 0, 3, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	for (size_t i = 0; i < CLAIMED; i++)
		entries[i] = (struct digest_entry){xasprintf("ns/n%zu", i), i};
	query_services(b, c, entries, CLAIMED);
	wait_for(b, c->closed);
	if (strstr(c->why, "too many services that do not exist (1008)") == NULL)
		fail_msg("ended with: %s", c->why);
	assert_int_equal(c->n_in, c->at);
	c = bed_connect(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(bed_next(b, c)->operation, OP_UPDATE);
	digest_entries_free(&entries, CLAIMED);
	identity_fini(&id);
}

static void
garbage_is_answered_with_an_error(void **state)
{
	static const char *const garbage[] = {"{", "[]", "nonsense", "{\"header\":{},\"route\":{}}",
		"{\"header\":{\"msg_id\":\"1\"},\"route\":{\"operation\":\"dance\",\"resource\":"
		"\"x\"}}",
		"{\"header\":{\"msg_id\":\"1\"},\"route\":{\"operation\":\"insert\",\"resource\":"
		"\"x\"}}",
		"{\"header\":{\"msg_id\":\"1\"},\"route\":{\"operation\":\"query\",\"resource\":"
		"\"digest/services\"}}",
		"{\"header\":{\"msg_id\":\"1\"},\"route\":{\"operation\":\"query\",\"resource\":"
		"\"digest/buckets\"},"
		"\"content\":{\"buckets\":\"zz\"}}"};
	struct bed *b = *state;
	struct identity id;
	struct client *c;

	bed_write_services(b, "a.yaml", 0, 1, 80);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
		struct envelope *e;

		bed_send_text(c, garbage[i]);
		e = bed_next(b, c);
		assert_int_equal(e->operation, OP_ERROR);
		assert_int_equal(e->content[0], '"');
	}
	/* Acknowledgements of what was never sent are passed over. */
	bed_send(c, OP_RESPONSE, "default/service/s0", "a", "not-one-of-yours", "");
	bed_send(c, OP_RESPONSE, "default/service/s0", "a", "00000000-0000-4000-8000-00000001ffff",
		"");
	query_services(b, c, NULL, 0);
	assert_int_equal(bed_next(b, c)->operation, OP_UPDATE);
	identity_fini(&id);
}

static void
nothing_is_told_before_the_source_is_read(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;

	rmdir(b->folder);
	bed_start_hub(b);
	assert_false(hub_ready(b->hub));
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	query_buckets(c, "q1", &(struct digests){{1}});
	bed_idle(b, 300);
	assert_int_equal(c->at, c->n_in);
	assert_int_equal(mkdir(b->folder, 0755), 0);
	assert_string_equal(bed_next(b, c)->content, "{\"buckets\":[0]}");
	assert_true(hub_ready(b->hub));
	identity_fini(&id);
}

/* A node learns its site by hello; when that changes it has to come again. */
static void
a_new_site_ends_the_connection(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;

	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	bed_write(b, "node.yaml",
		"apiVersion: v1\nkind: Node\nmetadata: {name: edge-1, labels: {edgeway.io/site: "
		"hall}}\n");
	wait_for(b, c->closed);
	if (strstr(c->why, "site or zone") == NULL)
		fail_msg("\"%s\" tells another reason", c->why);
	c = bed_connect(b, "edge-1", &id);
	assert_non_null(strstr(c->in[0].content, "\"site\":\"hall\""));
	identity_fini(&id);
}

/* --- pods by their address ------------------------------------------------------------------ */

static void
write_pods(struct bed *b, unsigned n)
{
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	for (unsigned i = 0; i < n; i++)
		buf_printf(&text,
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%u, namespace: shop}\n"
			"spec: {nodeName: edge-9}\nstatus: {phase: Running, podIP: 10.6.%u.%u, "
			"hostIP: 192.0.2.9}\n",
			i, i / 250, i % 250);
	bed_write(b, "pods.yaml", buf_str(&text));
}

/* The hub's answer. */
static const char *
ask_pod(struct bed *b, struct client *c, unsigned i, const char *rest)
{
	auto_free char *content =
		xasprintf("{\"ns\":\"shop\",\"address\":\"10.6.%u.%u\",\"port\":0%s}", i / 250,
			i % 250, rest);
	struct envelope *e;

	bed_send(c, OP_QUERY, "node/pod", "pod", "", content);
	while ((e = bed_next(b, c))->operation != OP_RESPONSE)
		bed_ack(c, e);
	return e->content;
}

/* The node holds as many as it may: one more takes the place of the one that it gives back. */
static void
one_pod_more_takes_anothers_place(void **state)
{
	struct bed *b = *state;
	auto_buf struct buf held;
	struct digests none = {0};
	struct identity id;
	struct envelope *e;
	struct client *c;
	bool gone = false;

	write_pods(b, MESH_NODE_PODS_MAX + 2);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	buf_init(&held, BUF_UNLIMITED);
	for (unsigned i = 0; i < MESH_NODE_PODS_MAX; i++)
		buf_printf(&held, "%s\"shop/10-6-%u-%u._pod\":[]", i == 0 ? "{\"pods\":{" : ",",
			i / 250, i % 250);
	buf_adds(&held, "}}");
	bed_send(c, OP_INSERT, "node/pods", "p", "", buf_str(&held));
	query_buckets(c, "q1", &none);
	while ((e = bed_next(b, c))->operation != OP_RESPONSE)
		bed_ack(c, e);
	assert_non_null(strstr(ask_pod(b, c, MESH_NODE_PODS_MAX, ""), "\"found\":\"full\""));
	assert_non_null(strstr(ask_pod(b, c, MESH_NODE_PODS_MAX, ",\"instead\":\"shop/db\""),
		"\"found\":\"full\"")); /* what it does not hold is no place */
	assert_non_null(
		strstr(ask_pod(b, c, MESH_NODE_PODS_MAX, ",\"instead\":\"shop/10-6-0-7._pod\""),
			"\"found\":\"one\""));
	for (int i = 0; i < 2; i++) {
		e = bed_next(b, c);
		gone |= e->operation == OP_DELETE &&
			strcmp(e->resource, "shop/service/10-6-0-7._pod") == 0;
		bed_ack(c, e);
	}
	assert_true(gone);
	assert_non_null(strstr(ask_pod(b, c, MESH_NODE_PODS_MAX + 1, ""), "\"found\":\"full\""));
	identity_fini(&id);
}

/* Names of a whole range leave the node's questions for pods to call alone. */
static void
names_have_an_allowance_of_their_own(void **state)
{
	struct bed *b = *state;
	struct digests none = {0};
	struct identity id;
	struct client *c;
	unsigned named = 0;

	write_pods(b, 300);
	bed_start_hub(b);
	id = bed_join(b, "edge-1");
	c = bed_connect(b, "edge-1", &id);
	bed_send(c, OP_INSERT, "node/pods", "p", "", "{\"pods\":{}}");
	query_buckets(c, "q1", &none);
	while (bed_next(b, c)->operation != OP_RESPONSE)
		;
	for (unsigned i = 0; i < 300; i++)
		named += strstr(ask_pod(b, c, i, ",\"name\":true"), "\"found\":\"one\"") != NULL;
	assert_in_range(named, 100, 299);
	for (unsigned i = 0; i < 150; i++)
		assert_non_null(strstr(ask_pod(b, c, i, ""), "\"found\":\"one\""));
	identity_fini(&id);
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, bed_setup, bed_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(one_pod_more_takes_anothers_place),
		case_of(names_have_an_allowance_of_their_own),
		case_of(an_empty_node_gets_all),
		case_of(a_node_in_step_gets_nothing),
		case_of(what_is_gone_is_deleted),
		case_of(changes_come_as_they_happen),
		case_of(the_window_holds_back),
		case_of(the_newest_wins),
		case_of(a_refused_change_does_not_come_again),
		case_of(a_newer_connection_replaces),
		case_of(inventions_end_the_connection),
		case_of(garbage_is_answered_with_an_error),
		case_of(nothing_is_told_before_the_source_is_read),
		case_of(a_new_site_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
