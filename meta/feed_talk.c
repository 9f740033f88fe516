#include "meta/feed_private.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "model/json.h"

enum {
	CHECK_MS = 5 * 60 * 1000,
	CHECK_AGAIN_MS = 10 * 1000, /* after an error in a comparison */
	ERRORS_MAX = 64, /* messages on one connection that we did not understand: more is no hub */
};

void
feed_send(struct feed *f, const struct message *m, char id[37])
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	message_build(&out, m, id);
	if (f->conn != NULL)
		ws_send(f->conn, buf_at(&out), buf_len(&out));
}

void
feed_send_error(struct feed *f, const struct envelope *e, const char *reason)
{
	auto_buf struct buf text;
	struct message m = {.operation = OP_ERROR,
		.resource = e != NULL ? e->resource : "",
		.parent = e != NULL ? e->id : ""};

	buf_init(&text, BUF_UNLIMITED);
	json_add_text(&text, reason);
	m.content = buf_str(&text);
	feed_send(f, &m, NULL);
	f->refused++;
	log_limited(LOG_LEVEL_WARN, 10, "meta",
		"refused a message of the hub resource=\"%s\" reason=\"%s\"", m.resource, reason);
	if (++f->n_errors > ERRORS_MAX && f->conn != NULL)
		ws_close(f->conn, 1008, "too many messages that are not understood");
}

void
feed_ack(struct feed *f, unsigned connection, const char *id, const char *resource)
{
	struct message m = {.operation = OP_RESPONSE, .resource = resource, .parent = id};

	if (f->conn == NULL || connection != f->connection || f->state < SYNCING)
		return;
	feed_send(f, &m, NULL);
	f->acks++;
}

void
feed_compare(struct feed *f)
{
	auto_buf struct buf content;
	struct message m = {.operation = OP_QUERY, .resource = "digest/buckets", .parent = ""};
	struct digests d;

	if (f->state < SYNCING)
		return;
	buf_init(&content, BUF_UNLIMITED);
	apply_digests(f->apply, &d);
	digests_build(&content, &d);
	m.content = buf_str(&content);
	feed_send(f, &m, f->query);
	f->query_detail = false;
	timer_start(f->check, CHECK_MS, 0);
}

void
feed_resync(struct feed *f)
{
	feed_compare(f);
}

static void
send_detail(struct feed *f, const bool want[DIGEST_BUCKETS])
{
	auto_buf struct buf content;
	struct message m = {.operation = OP_QUERY, .resource = "digest/services", .parent = ""};
	struct digest_entry *entries;
	size_t n;

	buf_init(&content, BUF_UNLIMITED);
	apply_entries(f->apply, want, &entries, &n);
	digest_entries_build(&content, want, entries, n);
	digest_entries_free(&entries, n);
	m.content = buf_str(&content);
	feed_send(f, &m, f->query);
	f->query_detail = true;
}

static void
remember_address(struct feed *f)
{
	struct place *p = &f->places[f->place];
	auto_free char *key = xasprintf("address %s", p->url);

	if (p->last_good != NULL && strcmp(p->last_good, f->address) == 0)
		return;
	free(p->last_good);
	p->last_good = xstrdup(f->address);
	apply_note(f->apply, key, f->address);
}

static void
on_hello(struct feed *f, const struct envelope *e)
{
	struct message_hello hello;
	struct err err;

	if (message_hello(&hello, e->content, e->content_len, &err) < 0) {
		feed_send_error(f, e, err.text);
		return;
	}
	if (hello.cluster_domain[0] != '\0' &&
		strcasecmp(hello.cluster_domain, f->cluster_domain) != 0)
		log_warn("meta", "the hub has another cluster domain than this node hub=%s here=%s",
			hello.cluster_domain, f->cluster_domain);
	log_info("meta", "connected to the hub url=%s address=%s version=\"%s\"",
		f->places[f->place].url, f->address, hello.hub);
	remember_address(f);
	feed_note_time(f, e->timestamp_ms);
	feed_compare_bundle(f, hello.ca);
	apply_identity(f->apply, hello.site, hello.zone);
	if (f->state == GREETING)
		f->state = SYNCING;
	feed_compare(f);
}

static void
on_synced(struct feed *f)
{
	if (f->state == SYNCING)
		log_info("meta", "the hub has told everything");
	f->state = SYNCED;
	f->query[0] = '\0';
	apply_synced(f->apply);
}

static void
on_response(struct feed *f, const struct envelope *e)
{
	bool want[DIGEST_BUCKETS] = {false};
	struct err err;

	if (f->query[0] == '\0' || strcmp(e->parent_id, f->query) != 0)
		return; /* an answer to an older comparison */
	feed_note_time(f, e->timestamp_ms);
	if (f->query_detail) {
		if (message_says_synced(e->content, e->content_len))
			on_synced(f);
		return;
	}
	if (digest_want_parse(want, e->content, e->content_len, &err) < 0) {
		feed_send_error(f, e, err.text);
		return;
	}
	if (memchr(want, true, sizeof(want)) == NULL)
		on_synced(f);
	else
		send_detail(f, want);
}

static void
on_change(struct feed *f, const struct envelope *e)
{
	struct message_service s;
	struct apply_message m = {.connection = f->connection,
		.id = e->id,
		.resource = e->resource,
		.ns = s.ns,
		.name = s.name};
	struct err err = {0};

	if (e->operation != OP_DELETE) {
		m.view = e->content;
		m.len = e->content_len;
	}
	if (message_service(&s, e->resource, &err) < 0 || apply_change(f->apply, &m, &err) < 0)
		feed_send_error(f, e, err.text);
}

static void
on_error(struct feed *f, const struct envelope *e)
{
	log_limited(LOG_LEVEL_WARN, 10, "meta",
		"the hub refused a message resource=\"%s\" reason=%.200s", e->resource, e->content);
	if (f->query[0] != '\0' && strcmp(e->parent_id, f->query) == 0)
		timer_start(f->check, CHECK_AGAIN_MS, 0);
}

void
feed_on_event(struct feed *f, const struct envelope *e)
{
	bool service = strstr(e->resource, "/service/") != NULL;

	if (e->operation == OP_KEEPALIVE)
		return;
	if (e->operation == OP_INSERT && strcmp(e->resource, "node/hello") == 0)
		on_hello(f, e);
	else if (f->state < SYNCING)
		feed_send_error(f, e, "hello must come first");
	else if (e->operation == OP_RESPONSE)
		on_response(f, e);
	else if (e->operation == OP_ERROR)
		on_error(f, e);
	else if (service &&
		(e->operation == OP_UPDATE || e->operation == OP_INSERT ||
			e->operation == OP_DELETE))
		on_change(f, e);
	else
		feed_send_error(f, e, "operation or resource is not known to this agent");
}
