#include "tests/unit/hub/hub_bed.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/conf/tree.h"
#include "base/core/log.h"
#include "base/tls/pki.h"
#include "model/bundle.h"
#include "model/json.h"
#include "model/mesh.h"

static void
on_open(void *arg, struct ws_conn *c)
{
	struct client *client = ws_arg(c);

	(void)arg;
	client->open = true;
}

static struct envelope *
take_message(struct client *client, const char *text, size_t len)
{
	struct envelope *e = &client->in[client->n_in];
	struct err err = {0};

	assert_true(client->n_in < MESSAGES_MAX);
	assert_int_equal(envelope_parse(e, text, len, &err), 0);
	return e;
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct client *client = ws_arg(c);
	struct envelope *e = take_message(client, text, len), bundle;
	auto_buf struct buf lines;
	struct err err = {0};

	(void)arg;
	client->frames++;
	buf_init(&lines, BUF_UNLIMITED);
	if (!bundle_is(e)) {
		client->n_in++;
		return;
	}
	bundle = *e;
	client->bundles++;
	assert_int_equal(bundle_open(&lines, &bundle, &err), 0);
	while ((text = bundle_next(&lines, &len)) != NULL) {
		bundle_inherit(take_message(client, text, len), &bundle);
		client->n_in++;
	}
	envelope_fini(&bundle);
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

void
bed_turn(struct bed *b)
{
	patience_turn(b->loop);
}

/* Lets things happen that should not. */
void
bed_idle(struct bed *b, unsigned ms)
{
	uint64_t end = mono_ms() + ms;

	while (mono_ms() < end)
		bed_turn(b);
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

void
bed_send_text(struct client *c, const char *text)
{
	assert_true(ws_send(c->conn, text, strlen(text)) >= 0);
}

void
bed_send(struct client *c, enum operation op, const char *resource, const char *id,
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
	bed_send_text(c, buf_str(&out));
}

struct envelope *
bed_next(struct bed *b, struct client *c)
{
	wait_for(b, c->at < c->n_in || c->closed);
	assert_true(c->at < c->n_in);
	return &c->in[c->at++];
}

void
bed_ack(struct client *c, const struct envelope *e)
{
	bed_send(c, OP_RESPONSE, e->resource, "a", e->id, "");
}

/* --- the bed -------------------------------------------------------------------------------- */

void
bed_write(struct bed *b, const char *name, const char *text)
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

void
bed_write_services(struct bed *b, const char *file, unsigned first, unsigned n, unsigned port)
{
	auto_buf struct buf out;
	char name[16];

	buf_init(&out, BUF_UNLIMITED);
	for (unsigned i = first; i < first + n; i++) {
		snprintf(name, sizeof name, "s%u", i);
		add_service(&out, name, port);
	}
	bed_write(b, file, buf_str(&out));
}

void
bed_start_hub(struct bed *b)
{
	struct hub_config config = {
		.listen = "127.0.0.1:0",
		.manifests = b->folder,
		.data_dir = b->data,
		.heartbeat_ms = 2000,
		.join_nodes = "node-role.kubernetes.io/edge",
	};
	struct err err = {0};
	int rc = hub_start(&b->hub, b->loop, &config, &err);

	if (rc < 0)
		fail_msg("%s", err.text);
}

int
bed_setup(void **state)
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

int
bed_teardown(void **state)
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

/* --- joining -------------------------------------------------------------------------------- */

char *
bed_token_of(struct bed *b, const struct hub_token *token)
{
	struct err err = {0};
	struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	assert_int_equal(hub_token_create(b->hub, token, &out, &err), 0);
	return buf_take_str(&out);
}

char *
bed_token(struct bed *b, const char *node, unsigned ttl_s)
{
	return bed_token_of(b, &(struct hub_token){.node = node, .uses = 1, .ttl_s = ttl_s});
}

struct client *
bed_dial_join(struct bed *b, const char *node, const char *token)
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

void
bed_request_cert(struct client *c, const char *node, const char *key)
{
	auto_free char *resource = xasprintf("certificate/%s", node), *csr = NULL;
	auto_buf struct buf content;
	struct err err = {0};

	assert_int_equal(pki_csr_new(key, "somebody-else", &csr, &err), 0);
	buf_init(&content, BUF_UNLIMITED);
	buf_adds(&content, "{\"csr\":");
	json_add_text(&content, csr);
	buf_adds(&content, "}");
	bed_send(c, OP_INSERT, resource, "j1", "", buf_str(&content));
}

struct envelope *
bed_ask_cert(struct bed *b, const char *node, const char *token, const char *key)
{
	struct client *c = bed_dial_join(b, node, token);
	struct envelope *e;

	wait_for(b, c->open || c->closed);
	assert_true(c->open);
	bed_request_cert(c, node, key);
	e = bed_next(b, c);
	wait_for(b, c->closed);
	return e;
}

struct identity
bed_join(struct bed *b, const char *node)
{
	auto_free char *token = bed_token(b, node, 60);
	struct client *c = bed_dial_join(b, node, token);
	struct identity id = {0};
	struct err err = {0};
	struct envelope *e;

	assert_int_equal(pki_key_new(&id.key, &err), 0);
	wait_for(b, c->open || c->closed);
	assert_true(c->open);
	bed_request_cert(c, node, id.key);
	e = bed_next(b, c);
	assert_int_equal(e->operation, OP_RESPONSE);
	assert_string_equal(e->parent_id, "j1");
	take_member(e->content, "cert", &id.cert);
	take_member(e->content, "ca", &id.ca);
	wait_for(b, c->closed);
	return id;
}

void
identity_fini(struct identity *id)
{
	free(id->key);
	free(id->cert);
	free(id->ca);
}

struct client *
bed_dial_events(struct bed *b, const char *node, const struct identity *id, const char *cert)
{
	auto_free char *header = xasprintf("node_id: %s", node),
		       *version = xasprintf(
			       "edgeway-version: %s", b->protocol != NULL ? b->protocol : "1");
	const char *headers[] = {header, "project_id: " MESH_PROJECT, "connectionuse: msg", version,
		b->bundles ? "edgeway-bundles: " BUNDLE_KIND : NULL, NULL};
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};

	assert_int_equal(
		pki_client_ctx(id->ca, cert, cert != NULL ? id->key : NULL, &ctx, &err), 0);
	return dial(b, node, "events", headers, keep_context(b, ctx));
}

/* Connected, hello taken. */
struct client *
bed_connect(struct bed *b, const char *node, const struct identity *id)
{
	struct client *c = bed_dial_events(b, node, id, id->cert);
	struct envelope *e;

	wait_for(b, c->open || c->closed);
	assert_true(c->open);
	e = bed_next(b, c);
	assert_int_equal(e->operation, OP_INSERT);
	assert_string_equal(e->resource, "node/hello");
	return c;
}

struct client *
bed_dial_renew(struct bed *b, const char *node, const struct identity *id)
{
	static const char *const headers[] = {NULL};
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};

	assert_int_equal(pki_client_ctx(id->ca, id->cert, id->key, &ctx, &err), 0);
	return dial(b, node, "join", headers, keep_context(b, ctx));
}
