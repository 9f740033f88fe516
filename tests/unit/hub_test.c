/*
 * The whole hub in one process against real websocket clients on the same loop: joining, letting in,
 * comparing digests, the window, replacing, garbage. Files in a folder of its own under TMPDIR.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/pki.h"
#include "base/tree.h"
#include "base/ws.h"
#include "hub/hub.h"
#include "model/digest.h"
#include "model/envelope.h"
#include "model/json.h"
#include "model/mesh.h"
#include "model/view.h"

enum { WAIT_MS = 8000, MESSAGES_MAX = 4096 };

struct client {
	struct ws_conn *conn;
	bool open, closed;
	char why[256];
	struct envelope in[MESSAGES_MAX]; /* what came and was not looked at yet */
	size_t n_in, at;
};

struct bed {
	char dir[64];
	char *folder, *data;
	struct loop *loop;
	struct hub *hub;
	struct ws *ws;
	struct client *clients[8];
	size_t n_clients;
	struct ssl_ctx_st *contexts[32];
	char *cas[32];
	size_t n_contexts;
};

struct identity {
	char *key, *cert, *ca;
};

/* --- clients -------------------------------------------------------------- */

static void
on_open(void *arg, struct ws_conn *c)
{
	struct client *client = ws_arg(c);

	(void)arg;
	client->open = true;
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct client *client = ws_arg(c);
	struct err err = {0};

	(void)arg;
	assert_true(client->n_in < MESSAGES_MAX);
	assert_int_equal(envelope_parse(&client->in[client->n_in++], text, len, &err), 0);
}

static void
on_closed(void *arg, struct ws_conn *c, const char *why)
{
	struct client *client = ws_arg(c);

	(void)arg;
	client->closed = true;
	client->conn = NULL;
	snprintf(client->why, sizeof client->why, "%s", why);
}

static const struct ws_events events = {
	.open = on_open,
	.text = on_text,
	.closed = on_closed,
};

static void
turn(struct bed *b)
{
	loop_turn(b->loop);
	usleep(500);
}

#define wait_for(b, condition)                                                                     \
	do {                                                                                       \
		uint64_t end_ = mono_ms() + WAIT_MS;                                               \
		while (!(condition) && mono_ms() < end_)                                           \
			turn(b);                                                                   \
		assert_true(condition);                                                            \
	} while (0)

/* Lets things happen that should not. */
static void
idle(struct bed *b, unsigned ms)
{
	uint64_t end = mono_ms() + ms;

	while (mono_ms() < end)
		turn(b);
}

static struct client *
dial(struct bed *b, const char *node, const char *what, const char *const *headers,
	struct ssl_ctx_st *tls)
{
	auto_free char *path = xasprintf("/%s/%s/%s", MESH_PROJECT, node, what);
	struct client *c = xcalloc(1, sizeof *c);
	struct ws_dial d = {
		.addr = addr_ipv4(0x7f000001, 0),
		.host = "localhost",
		.path = path,
		.headers = headers,
		.tls = tls,
		.arg = c,
	};
	struct err err = {0};
	struct addr at = hub_addr(b->hub);

	d.addr = at;
	b->clients[b->n_clients++] = c;
	c->conn = ws_dial(b->ws, &d, &err);
	assert_non_null(c->conn);
	return c;
}

static struct ssl_ctx_st *
keep_context(struct bed *b, struct ssl_ctx_st *ctx)
{
	b->contexts[b->n_contexts++] = ctx;
	return ctx;
}

static void
send_text(struct client *c, const char *text)
{
	assert_true(ws_send(c->conn, text, strlen(text)) >= 0);
}

static void
send_message(struct client *c, enum operation op, const char *resource, const char *id,
	const char *parent, const char *content)
{
	struct envelope e = {
		.id = (char *)(uintptr_t)id,
		.parent_id = (char *)(uintptr_t)parent,
		.source = (char[]){"agent"},
		.group = (char[]){"resource"},
		.resource = (char *)(uintptr_t)resource,
		.operation = op,
		.content = (char *)(uintptr_t)content,
		.content_len = strlen(content),
	};
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	envelope_build(&out, &e);
	send_text(c, buf_str(&out));
}

static struct envelope *
next(struct bed *b, struct client *c)
{
	wait_for(b, c->at < c->n_in || c->closed);
	assert_true(c->at < c->n_in);
	return &c->in[c->at++];
}

static void
ack(struct client *c, const struct envelope *e)
{
	send_message(c, OP_RESPONSE, e->resource, "a", e->id, "");
}

/* --- the bed -------------------------------------------------------------- */

static void
write_file(struct bed *b, const char *name, const char *text)
{
	auto_free char *path = xasprintf("%s/%s", b->folder, name);

	assert_int_equal(file_write(path, text, strlen(text), 0644), 0);
}

static void
add_service(struct buf *out, const char *name, unsigned port)
{
	buf_printf(out,
		"---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: default}\n"
		"spec: {ports: [{name: http, port: %u}]}\n",
		name, port);
}

static void
write_services(struct bed *b, const char *file, unsigned first, unsigned n, unsigned port)
{
	auto_buf struct buf out;
	char name[16];

	buf_init(&out, BUF_UNLIMITED);
	for (unsigned i = first; i < first + n; i++) {
		snprintf(name, sizeof name, "s%u", i);
		add_service(&out, name, port);
	}
	write_file(b, file, buf_str(&out));
}

static void
start_hub(struct bed *b)
{
	struct hub_config config = {
		.listen = "127.0.0.1:0",
		.manifests = b->folder,
		.data_dir = b->data,
		.heartbeat_ms = 2000,
	};
	struct err err = {0};
	int rc = hub_start(&b->hub, b->loop, &config, &err);

	if (rc < 0)
		fail_msg("%s", err.text);
}

static int
setup(void **state)
{
	struct bed *b = xcalloc(1, sizeof *b);
	const char *tmp = getenv("TMPDIR");
	struct ws_config config = {
		.events = &events,
		.heartbeat_ms = 2000,
		.message_limit = ENVELOPE_MAX_BYTES,
		.high_water = 1 << 20,
	};
	struct err err = {0};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	snprintf(b->dir, sizeof b->dir, "%.40s/hub-test-XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(b->dir));
	b->folder = xasprintf("%s/manifests", b->dir);
	b->data = xasprintf("%s/data", b->dir);
	assert_int_equal(mkdir(b->folder, 0755), 0);
	assert_int_equal(loop_new(&b->loop, &err), 0);
	assert_int_equal(ws_new(&b->ws, b->loop, &config, &err), 0);
	*state = b;
	return 0;
}

static void
remove_tree(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		auto_free char *inner = xasprintf("%s/%s", path, d->d_name);

		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 &&
			unlink(inner) < 0)
			remove_tree(inner);
	}
	if (dir != NULL)
		closedir(dir);
	rmdir(path);
}

static int
teardown(void **state)
{
	struct bed *b = *state;

	ws_free(&b->ws);
	hub_stop(&b->hub);
	loop_free(&b->loop);
	for (size_t i = 0; i < b->n_clients; i++) {
		for (size_t k = 0; k < b->clients[i]->n_in; k++)
			envelope_fini(&b->clients[i]->in[k]);
		free(b->clients[i]);
	}
	for (size_t i = 0; i < b->n_contexts; i++)
		pki_ctx_free(&b->contexts[i]);
	for (size_t i = 0; i < ARRAY_LEN(b->cas); i++)
		free(b->cas[i]);
	remove_tree(b->dir);
	free(b->folder);
	free(b->data);
	free(b);
	return 0;
}

/* --- joining -------------------------------------------------------------- */

static char *
make_token(struct bed *b, const char *node, unsigned ttl_s)
{
	struct err err = {0};
	struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(hub_token_create(b->hub, node, ttl_s, &out, &err), 0);
	return buf_take_str(&out);
}

static struct client *
dial_join(struct bed *b, const char *node, const char *token)
{
	auto_free char *hash = xstrndup(token, 64);
	auto_free char *header = xasprintf("authorization: Bearer %s", token + 65);
	const char *headers[] = {header, NULL};
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};

	assert_int_equal(pki_join_ctx(hash, &b->cas[b->n_contexts], &ctx, &err), 0);
	return dial(b, node, "join", headers, keep_context(b, ctx));
}

static void
take_member(const char *json, const char *name, char **value)
{
	struct err err = {0};
	struct tree *t = NULL;

	assert_int_equal(tree_parse(&t, "answer", json, strlen(json), &err), 0);
	*value = xstrdup(tree_text(tree_get(tree_document(t, 0), name), ""));
	tree_free(&t);
}

static void
request_cert(struct client *c, const char *node, const char *key)
{
	auto_free char *resource = xasprintf("certificate/%s", node), *csr = NULL;
	auto_buf struct buf content;
	struct err err = {0};

	assert_int_equal(pki_csr_new(key, "somebody-else", &csr, &err), 0);
	buf_init(&content, BUF_UNLIMITED);
	buf_adds(&content, "{\"csr\":");
	json_add_text(&content, csr);
	buf_adds(&content, "}");
	send_message(c, OP_INSERT, resource, "j1", "", buf_str(&content));
}

static struct identity
join(struct bed *b, const char *node)
{
	auto_free char *token = make_token(b, node, 60);
	struct client *c = dial_join(b, node, token);
	struct identity id = {0};
	struct err err = {0};
	struct envelope *e;

	assert_int_equal(pki_key_new(&id.key, &err), 0);
	wait_for(b, c->open || c->closed);
	assert_true(c->open);
	request_cert(c, node, id.key);
	e = next(b, c);
	assert_int_equal(e->operation, OP_RESPONSE);
	assert_string_equal(e->parent_id, "j1");
	take_member(e->content, "cert", &id.cert);
	take_member(e->content, "ca", &id.ca);
	wait_for(b, c->closed);
	return id;
}

static void
identity_fini(struct identity *id)
{
	free(id->key);
	free(id->cert);
	free(id->ca);
}

static struct client *
dial_events(struct bed *b, const char *node, const struct identity *id, const char *cert)
{
	auto_free char *header = xasprintf("node_id: %s", node);
	const char *headers[] = {header, "project_id: " MESH_PROJECT, "connectionuse: msg",
		"edgeway-version: 1", NULL};
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};

	assert_int_equal(
		pki_client_ctx(id->ca, cert, cert != NULL ? id->key : NULL, &ctx, &err), 0);
	return dial(b, node, "events", headers, keep_context(b, ctx));
}

/* Connected, hello taken. */
static struct client *
connect_node(struct bed *b, const char *node, const struct identity *id)
{
	struct client *c = dial_events(b, node, id, id->cert);
	struct envelope *e;

	wait_for(b, c->open || c->closed);
	assert_true(c->open);
	e = next(b, c);
	assert_int_equal(e->operation, OP_INSERT);
	assert_string_equal(e->resource, "node/hello");
	return c;
}

static void
assert_refused(struct bed *b, struct client *c, const char *status)
{
	wait_for(b, c->closed);
	assert_false(c->open);
	if (strstr(c->why, status) == NULL)
		fail_msg("\"%s\" does not say %s", c->why, status);
}

static void
join_gives_a_certificate_of_the_node(void **state)
{
	struct bed *b = *state;
	struct identity id;
	char *name = NULL;
	struct err err = {0};

	start_hub(b);
	id = join(b, "edge-1");
	assert_int_equal(pki_cert_info(id.cert, &name, NULL, NULL, &err), 0);
	assert_string_equal(name, "edge-1");
	assert_int_equal(pki_pair_check(id.cert, id.key, &err), 0);
	free(name);
	connect_node(b, "edge-1", &id);
	identity_fini(&id);
}

static void
join_refuses_wrong_tokens(void **state)
{
	struct bed *b = *state;
	auto_free char *good = NULL, *other = NULL, *wrong = NULL;
	char *last;

	start_hub(b);
	good = make_token(b, "", 60);
	other = make_token(b, "edge-2", 60);
	wrong = xstrdup(good);
	last = wrong + strlen(wrong) - 1;
	*last = *last == '0' ? '1' : '0';
	assert_refused(b, dial_join(b, "edge-1", wrong), "401");
	assert_refused(b, dial_join(b, "edge-1", other), "401");
	wrong[65 + 5] = '\0';
	assert_refused(b, dial_join(b, "edge-1", wrong), "401");
}

static void
join_refuses_an_expired_token(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL;

	start_hub(b);
	token = make_token(b, "", 1);
	idle(b, 2100);
	assert_refused(b, dial_join(b, "edge-1", token), "401");
}

static void
join_refuses_a_name_that_is_taken(void **state)
{
	struct bed *b = *state;
	auto_free char *any = NULL;
	struct identity id, again;

	start_hub(b);
	id = join(b, "edge-1");
	any = make_token(b, "", 60);
	assert_refused(b, dial_join(b, "edge-1", any), "403");
	again = join(b, "edge-1"); /* by a token made for the name */
	assert_string_not_equal(again.cert, id.cert);
	identity_fini(&id);
	identity_fini(&again);
}

static void
join_answers_a_bad_request(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL;
	struct client *c;
	struct envelope *e;

	start_hub(b);
	token = make_token(b, "", 60);
	c = dial_join(b, "edge-1", token);
	wait_for(b, c->open);
	send_message(c, OP_INSERT, "certificate/edge-1", "x", "", "{\"csr\":\"nonsense\"}");
	e = next(b, c);
	assert_int_equal(e->operation, OP_ERROR);
	assert_string_equal(e->parent_id, "x");
	wait_for(b, c->closed);
}

static void
events_need_the_certificate_of_the_name(void **state)
{
	struct bed *b = *state;
	struct identity id;

	start_hub(b);
	id = join(b, "edge-1");
	assert_refused(b, dial_events(b, "edge-2", &id, id.cert), "403");
	assert_refused(b, dial_events(b, "edge-1", &id, NULL), "403");
	identity_fini(&id);
}

/* --- metadata ------------------------------------------------------------- */

static void
query_buckets(struct client *c, const char *id, const struct digests *d)
{
	auto_buf struct buf content;

	buf_init(&content, BUF_UNLIMITED);
	digests_build(&content, d);
	send_message(c, OP_QUERY, "digest/buckets", id, "", buf_str(&content));
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
	e = next(b, c);
	assert_int_equal(e->operation, OP_RESPONSE);
	assert_string_equal(e->parent_id, "q1");
	assert_int_equal(digest_want_parse(want, e->content, e->content_len, &err), 0);
	buf_init(&content, BUF_UNLIMITED);
	digest_entries_build(&content, want, entries, n);
	send_message(c, OP_QUERY, "digest/services", "q2", "", buf_str(&content));
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

	write_services(b, "a.yaml", 0, 3, 80);
	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	for (int i = 0; i < 3; i++) {
		e = next(b, c);
		assert_int_equal(e->operation, OP_UPDATE);
		assert_int_equal(view_parse(&view, e->content, e->content_len, &err), 0);
		assert_string_equal(view->ns, "default");
		assert_int_equal(view->ports[0].port, 80);
		view_free(&view);
		ack(c, e);
	}
	assert_synced(next(b, c));
	identity_fini(&id);
}

/* What the hub told, as a node that keeps it would say it. */
static void
learn(struct bed *b, struct client *c, struct digest_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct envelope *e = next(b, c);
		char ns[64], name[64];

		assert_int_equal(e->operation, OP_UPDATE);
		assert_int_equal(sscanf(e->resource, "%63[^/]/service/%63s", ns, name), 2);
		entries[i].key = xasprintf("%s/%s", ns, name);
		entries[i].digest = view_digest(e->content, e->content_len);
		ack(c, e);
	}
	assert_synced(next(b, c));
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

	write_services(b, "a.yaml", 0, 5, 80);
	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	learn(b, c, entries, 5);
	for (int i = 0; i < 5; i++)
		digest_toggle(&d, entries[i].key, strlen(entries[i].key), entries[i].digest);
	query_buckets(c, "q9", &d);
	e = next(b, c);
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

	write_services(b, "a.yaml", 0, 2, 80);
	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	query_services(b, c, stale, 2);
	for (int i = 0; i < 3; i++) {
		struct envelope *e = next(b, c);

		if (e->operation == OP_DELETE) {
			assert_string_equal(e->resource, "default/service/old");
			assert_int_equal(e->content_len, 0);
		}
		updates += e->operation == OP_UPDATE;
		deletes += e->operation == OP_DELETE;
		ack(c, e);
	}
	assert_int_equal(updates, 2);
	assert_int_equal(deletes, 1);
	assert_synced(next(b, c));
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

	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	query_buckets(c, "q1", &(struct digests){{0}});
	assert_string_equal(next(b, c)->content, "{\"buckets\":[],\"synced\":true}");
	write_services(b, "a.yaml", 7, 1, 80);
	e = next(b, c);
	assert_int_equal(e->operation, OP_UPDATE);
	assert_string_equal(e->resource, "default/service/s7");
	ack(c, e);
	path = xasprintf("%s/a.yaml", b->folder);
	unlink(path);
	e = next(b, c);
	assert_int_equal(e->operation, OP_DELETE);
	assert_string_equal(e->resource, "default/service/s7");
	ack(c, e);
	identity_fini(&id);
}

static void
the_window_holds_back(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;
	unsigned n = 0;

	write_services(b, "a.yaml", 0, 600, 80);
	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	wait_for(b, c->n_in - c->at >= 256);
	idle(b, 200);
	assert_int_equal(c->n_in - c->at, 256);
	ack(c, &c->in[c->at]);
	wait_for(b, c->n_in - c->at >= 257);
	idle(b, 50);
	assert_int_equal(c->n_in - c->at, 257);
	c->at++;
	for (n = 1; n < 600; n++) {
		struct envelope *e = next(b, c);

		assert_int_equal(e->operation, OP_UPDATE);
		ack(c, e);
	}
	assert_synced(next(b, c));
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

	write_services(b, "a.yaml", 0, 1, 80);
	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	e = next(b, c);
	assert_synced(next(b, c));
	for (unsigned port = 81; port <= 85; port++) {
		write_services(b, "a.yaml", 0, 1, port);
		idle(b, 60);
	}
	assert_int_equal(c->at, c->n_in);
	ack(c, e);
	e = next(b, c);
	assert_int_equal(e->operation, OP_UPDATE);
	assert_int_equal(view_parse(&view, e->content, e->content_len, &err), 0);
	assert_int_equal(view->ports[0].port, 85);
	view_free(&view);
	ack(c, e);
	idle(b, 100);
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

	write_services(b, "a.yaml", 0, 1, 80);
	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	query_services(b, c, NULL, 0);
	e = next(b, c);
	assert_synced(next(b, c));
	send_message(c, OP_ERROR, e->resource, "r", e->id, "\"I do not want it\"");
	idle(b, 50);
	query_services(b, c, NULL, 0);
	assert_synced(next(b, c));
	write_services(b, "a.yaml", 0, 1, 81);
	assert_int_equal(next(b, c)->operation, OP_UPDATE);
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

	write_services(b, "a.yaml", 0, 1, 80);
	start_hub(b);
	id = join(b, "edge-1");
	old = connect_node(b, "edge-1", &id);
	query_services(b, old, NULL, 0);
	assert_int_equal(next(b, old)->operation, OP_UPDATE);
	new = connect_node(b, "edge-1", &id);
	wait_for(b, old->closed);
	assert_non_null(strstr(old->why, "4001"));
	query_services(b, new, NULL, 0);
	assert_int_equal(next(b, new)->operation, OP_UPDATE);
	assert_synced(next(b, new));
	buf_init(&out, BUF_UNLIMITED);
	hub_nodes(b->hub, &out);
	assert_non_null(strstr(buf_str(&out), "\"node\":\"edge-1\",\"connected\":true"));
	assert_null(strstr(buf_str(&out), "\"connected\":false"));
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

	write_services(b, "a.yaml", 0, 1, 80);
	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	for (size_t i = 0; i < ARRAY_LEN(garbage); i++) {
		struct envelope *e;

		send_text(c, garbage[i]);
		e = next(b, c);
		assert_int_equal(e->operation, OP_ERROR);
		assert_int_equal(e->content[0], '"');
	}
	/* Acknowledgements of what was never sent are passed over. */
	send_message(c, OP_RESPONSE, "default/service/s0", "a", "not-one-of-yours", "");
	send_message(c, OP_RESPONSE, "default/service/s0", "a",
		"00000000-0000-4000-8000-00000001ffff", "");
	query_services(b, c, NULL, 0);
	assert_int_equal(next(b, c)->operation, OP_UPDATE);
	identity_fini(&id);
}

static void
nothing_is_told_before_the_source_is_read(void **state)
{
	struct bed *b = *state;
	struct identity id;
	struct client *c;

	rmdir(b->folder);
	start_hub(b);
	assert_false(hub_ready(b->hub));
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	query_buckets(c, "q1", &(struct digests){{1}});
	idle(b, 300);
	assert_int_equal(c->at, c->n_in);
	assert_int_equal(mkdir(b->folder, 0755), 0);
	assert_string_equal(next(b, c)->content, "{\"buckets\":[0]}");
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

	start_hub(b);
	id = join(b, "edge-1");
	c = connect_node(b, "edge-1", &id);
	write_file(b, "node.yaml",
		"apiVersion: v1\nkind: Node\nmetadata: {name: edge-1, labels: {edgeway.io/site: "
		"hall}}\n");
	wait_for(b, c->closed);
	if (strstr(c->why, "site or zone") == NULL)
		fail_msg("\"%s\" tells another reason", c->why);
	c = connect_node(b, "edge-1", &id);
	assert_non_null(strstr(c->in[0].content, "\"site\":\"hall\""));
	identity_fini(&id);
}

/* CA, tokens and names outlive the process. */
static void
a_restart_keeps_what_matters(void **state)
{
	struct bed *b = *state;
	auto_free char *token = NULL;
	struct identity id;

	start_hub(b);
	id = join(b, "edge-1");
	token = make_token(b, "", 60);
	hub_stop(&b->hub);
	start_hub(b);
	connect_node(b, "edge-1", &id);
	assert_refused(b, dial_join(b, "edge-1", token), "403");
	identity_fini(&id);
}

#define case_of(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		case_of(join_gives_a_certificate_of_the_node),
		case_of(join_refuses_wrong_tokens),
		case_of(join_refuses_an_expired_token),
		case_of(join_refuses_a_name_that_is_taken),
		case_of(join_answers_a_bad_request),
		case_of(events_need_the_certificate_of_the_name),
		case_of(an_empty_node_gets_all),
		case_of(a_node_in_step_gets_nothing),
		case_of(what_is_gone_is_deleted),
		case_of(changes_come_as_they_happen),
		case_of(the_window_holds_back),
		case_of(the_newest_wins),
		case_of(a_refused_change_does_not_come_again),
		case_of(a_newer_connection_replaces),
		case_of(garbage_is_answered_with_an_error),
		case_of(nothing_is_told_before_the_source_is_read),
		case_of(a_new_site_ends_the_connection),
		case_of(a_restart_keeps_what_matters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
