#include "meta/client/hub_client_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "model/bundle.h"
#include "model/json.h"
#include "model/pod_name.h"
#include "model/pod_ranges.h"

enum {
	GREETING_MS = 15 * 1000,
	CHECK_MS = 5 * 60 * 1000,
	/* at least so many heartbeats between comparisons: 5 minutes at 4 s, an hour and more on a
	 * metered link */
	CHECK_BEATS = 75,
	CHECK_AGAIN_MS = 10 * 1000, /* after an error in a comparison */
	/* messages on one connection that we did not understand: then it is not a hub */
	ERRORS_MAX = 64,
	REFUSALS_QUEUED_MAX = 1 << 20, /* bytes that the hub has not read yet */
};

void
hub_client_flush(void *arg)
{
	struct hub_client *f = arg;
	auto_buf struct buf out;
	const char *line;
	size_t len;

	buf_init(&out, BUF_UNLIMITED);
	timer_cancel(f->flush);
	if (f->bundles && buf_len(&f->lines) >= BUNDLE_LEAST_BYTES &&
		buf_len(&f->lines) <= ENVELOPE_MAX_BYTES)
		bundle_build(&out, "edgeway-agent", NULL, &f->lines);
	if (buf_len(&out) > 0 && buf_len(&out) < buf_len(&f->lines) && f->conn != NULL) {
		ws_send(f->conn, buf_at(&out), buf_len(&out));
	} else {
		while ((line = bundle_next(&f->lines, &len)) != NULL)
			if (f->conn != NULL)
				ws_send(f->conn, line, len);
	}
	buf_consume(&f->lines, buf_len(&f->lines));
	buf_release(&f->lines);
}

/* Queues a message, to be sent with others when the loop turns. */
static void
send_soon(struct hub_client *f, const struct message *m, char id[37])
{
	message_build(&f->lines, m, id);
	buf_adds(&f->lines, "\n");
	if (buf_len(&f->lines) > BUNDLE_MOST_BYTES)
		hub_client_flush(f);
	else if (!timer_active(f->flush))
		timer_start(f->flush, 0, 0);
}

void
hub_client_send(struct hub_client *f, const struct message *m, char id[37])
{
	send_soon(f, m, id);
	hub_client_flush(f);
}

static bool
hub_client_is_change(const struct envelope *e)
{
	return strstr(e->resource, "/service/") != NULL &&
		(e->operation == OP_UPDATE || e->operation == OP_INSERT ||
			e->operation == OP_DELETE);
}

void
hub_client_send_error(struct hub_client *f, const struct envelope *e, const char *reason)
{
	auto_buf struct buf text;
	struct message m = {.operation = OP_ERROR,
		.resource = e != NULL ? e->resource : "",
		.parent = e != NULL ? e->id : ""};

	buf_init(&text, BUF_UNLIMITED);
	json_add_text(&text, reason);
	m.content = buf_str(&text);
	hub_client_send(f, &m, NULL);
	f->refused++;
	log_limited(LOG_LEVEL_WARN, 10, "meta",
		"refused a message of the hub resource=\"%s\" reason=\"%s\"", m.resource, reason);
	/* The hub does not resend refused changes, so any number of them is no error; unless it
	 * never reads the refusals. */
	if (e != NULL && hub_client_is_change(e) && f->state >= SYNCING && f->conn != NULL &&
		ws_queued(f->conn) < REFUSALS_QUEUED_MAX)
		return;
	if (++f->n_errors > ERRORS_MAX && f->conn != NULL)
		ws_close(f->conn, 1008, "too many messages that are not understood");
}

static void
hub_client_talk_acknowledge(
	struct hub_client *f, unsigned connection, const char *id, const char *resource)
{
	struct message m = {.operation = OP_RESPONSE, .resource = resource, .parent = id};

	if (f->conn == NULL || connection != f->connection || f->state < SYNCING)
		return;
	if (f->bundles)
		send_soon(f, &m, NULL);
	else
		hub_client_send(f, &m, NULL);
}

/* A comparison has two steps: digests of all buckets, then of the services in those that differ. */
static void
hub_client_talk_compare(struct hub_client *f)
{
	auto_buf struct buf content = {0};
	struct message m = {.operation = OP_QUERY, .resource = "digest/buckets", .parent = ""};
	struct digests d;

	if (f->state < SYNCING)
		return;
	buf_init(&content, BUF_UNLIMITED);
	apply_digests(f->apply, &d);
	digests_build(&content, &d);
	m.content = buf_str(&content);
	hub_client_send(f, &m, f->query);
	f->query_detail = false;
	timer_start(f->check,
		MAX((uint64_t)CHECK_MS,
			(f->liveness != NULL ? LIVENESS_PROGRAM_BEATS : 1) * CHECK_BEATS *
				f->heartbeat_ms),
		0);
}

static void
send_detail(struct hub_client *f, const bool want[DIGEST_BUCKETS])
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
	hub_client_send(f, &m, f->query);
	f->query_detail = true;
}

/* Another protocol is never used in part: the node serves what it has until one side is
 * upgraded. */
static void
refuse_protocol(struct hub_client *f, const struct message_hello *hello)
{
	snprintf(f->mismatch, sizeof(f->mismatch),
		"the hub speaks protocol %lld, this agent %d: upgrade the %s (hub %s, agent %s)",
		(long long)hello->protocol, MESH_PROTOCOL,
		hello->protocol > MESH_PROTOCOL ? "agent" : "hub", hello->hub, EDGEWAY_VERSION);
	ws_close(f->conn, 1002, "another protocol");
}

/* The pods by their address that this node holds, so that the comparison leaves them here. */
static void
hub_client_talk_pods(struct hub_client *f)
{
	const struct snapshot *s = apply_snapshot(f->apply);
	struct message m = {.operation = OP_INSERT, .resource = "node/pods", .parent = ""};
	auto_buf struct buf content;
	size_t n = 0;

	buf_init(&content, BUF_UNLIMITED);
	buf_adds(&content, "{\"pods\":{");
	for (size_t i = 0; s != NULL && i < snapshot_count(s); i++) {
		const struct service *svc = snapshot_at(s, i);
		bool any = false;

		if (!pod_name_is(svc->name, strlen(svc->name)))
			continue;
		buf_printf(
			&content, "%s\"%s/%s\":[", n++ > 0 ? "," : "", svc->namespace, svc->name);
		for (unsigned p = 0; p < svc->n_ports; p++)
			if (svc->ports[p].mode == PORT_TCP) {
				buf_printf(&content, "%s%u", any ? "," : "", svc->ports[p].port);
				any = true;
			}
		buf_adds(&content, "]");
	}
	buf_adds(&content, "}}");
	m.content = buf_str(&content);
	if (f->pods)
		hub_client_send(f, &m, NULL);
}

static void
on_hello(struct hub_client *f, const struct envelope *e)
{
	struct message_hello hello;
	struct err err;

	if (message_hello(&hello, e->content, e->content_len, &err) < 0) {
		hub_client_send_error(f, e, err.text);
		return;
	}
	if (hello.protocol != MESH_PROTOCOL) {
		refuse_protocol(f, &hello);
		return;
	}
	if (hello.cluster_domain[0] != '\0' &&
		strcasecmp(hello.cluster_domain, f->cluster_domain) != 0)
		log_limited(LOG_LEVEL_WARN, 6, "meta",
			"the hub has another cluster domain than this node hub=%s here=%s",
			hello.cluster_domain, f->cluster_domain);
	log_limited(LOG_LEVEL_INFO, 12, "meta",
		"connected to the hub url=%s address=%s version=\"%s\"",
		hub_addresses_now(&f->places)->url, f->address, hello.hub);
	f->bundles = hello.bundles;
	f->pods = hello.pods;
	if (!f->pods && f->pod_ranges != NULL) /* those of another hub */
		(void)f->pod_ranges(f->pod_arg, POD_RANGES_NONE, strlen(POD_RANGES_NONE), &err);
	f->rendezvous = hello.rendezvous;
	hub_client_remember_addresses(f, &hello);
	hub_client_note_hub(f);
	hub_client_note_time(f, e->timestamp_ms);
	clock_skew_told(&f->hubtime, e->timestamp_ms);
	hub_client_compare_bundle(f, hello.ca);
	hub_client_take_crl(f, e);
	apply_identity(f->apply, hello.site, hello.zone);
	if (f->state == GREETING)
		hub_client_enter(f, SYNCING);
	hub_client_talk_pods(f);
	hub_client_talk_compare(f);
}

void
hub_client_tell_unserved(struct hub_client *f)
{
	struct message m = {.operation = OP_INSERT, .resource = "node/unserved", .parent = ""};
	auto_buf struct buf content;
	uint64_t hash;

	buf_init(&content, BUF_UNLIMITED);
	if (f->protocol != &feed_edgeway || f->state != SYNCED || f->conn == NULL)
		return;
	hash = apply_unserved(f->apply, &content) > 0
		? hash64(buf_at(&content), buf_len(&content), 1)
		: 0;
	if (hash == f->unserved)
		return;
	f->unserved = hash;
	m.content = buf_str(&content);
	hub_client_send(f, &m, NULL);
}

static void
on_synced(struct hub_client *f)
{
	if (f->state == SYNCING)
		log_limited(LOG_LEVEL_INFO, 12, "meta", "the hub has told everything");
	hub_client_enter(f, SYNCED);
	f->query[0] = '\0';
	apply_synced(f->apply);
	hub_client_tell_unserved(f);
}

static void
hub_client_talk_pod(struct hub_client *f, const struct envelope *e, size_t len)
{
	if (f->pod_answered != NULL)
		f->pod_answered(f->pod_arg, e->parent_id, e->content, len);
}

bool
hub_client_ask_pod(struct hub_client *f, const char *json, char id[37])
{
	const struct message m = {
		.operation = OP_QUERY, .resource = "node/pod", .parent = "", .content = json};

	if (f->conn == NULL || f->state < SYNCING || !f->pods)
		return false;
	hub_client_send(f, &m, id);
	return true;
}

static void
on_response(struct hub_client *f, const struct envelope *e)
{
	bool want[DIGEST_BUCKETS] = {false}, differs;
	struct err err;

	if (strcmp(e->resource, "node/pod") == 0) {
		hub_client_talk_pod(f, e, e->content_len);
		return;
	}

	if (f->query[0] == '\0' || strcmp(e->parent_id, f->query) != 0)
		return; /* an answer to an older comparison */
	hub_client_note_time(f, e->timestamp_ms);
	clock_skew_told(&f->hubtime, e->timestamp_ms);
	if (f->query_detail) {
		if (message_says_synced(e->content, e->content_len))
			on_synced(f);
		return;
	}
	if (digest_want_parse(want, e->content, e->content_len, &err) < 0) {
		hub_client_send_error(f, e, err.text);
		return;
	}
	differs = memchr(want, true, sizeof(want)) != NULL;
	f->comparisons[differs]++;
	if (differs)
		send_detail(f, want);
	else
		on_synced(f);
}

static void
on_change(struct hub_client *f, const struct envelope *e)
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
		hub_client_send_error(f, e, err.text);
	else
		clock_skew_change(&f->hubtime, e->id, e->timestamp_ms);
}

/* The local callers of this node. */
static void
on_callers(struct hub_client *f, const struct envelope *e)
{
	struct err err = {0};

	if (apply_callers(f->apply, e->content, e->content_len, &err) < 0)
		hub_client_send_error(f, e, err.text);
}

static void
hub_client_talk_ranges(struct hub_client *f, const struct envelope *e)
{
	struct err err = {0};

	if (f->pod_ranges != NULL &&
		f->pod_ranges(f->pod_arg, e->content, e->content_len, &err) < 0)
		hub_client_send_error(f, e, err.text);
}

static void
on_error(struct hub_client *f, const struct envelope *e)
{
	log_limited(LOG_LEVEL_WARN, 10, "meta",
		"the hub refused a message resource=\"%s\" reason=%.200s", e->resource, e->content);
	if (strcmp(e->resource, "node/pod") == 0)
		hub_client_talk_pod(f, e, 0);
	if (f->query[0] != '\0' && strcmp(e->parent_id, f->query) == 0)
		timer_start(f->check, CHECK_AGAIN_MS, 0);
}

static void
on_event(struct hub_client *f, const struct envelope *e)
{
	if (e->operation == OP_KEEPALIVE)
		return;
	if (e->operation == OP_INSERT && strcmp(e->resource, "node/hello") == 0)
		on_hello(f, e);
	else if (f->state < SYNCING)
		hub_client_send_error(f, e, "hello must come first");
	else if (e->operation == OP_INSERT && strcmp(e->resource, "node/crl") == 0)
		hub_client_take_crl(f, e);
	else if (e->operation == OP_RESPONSE)
		on_response(f, e);
	else if (e->operation == OP_QUERY)
		hub_client_on_question(f, e);
	else if (e->operation == OP_ERROR)
		on_error(f, e);
	else if (e->operation == OP_UPDATE && strcmp(e->resource, "node/callers") == 0)
		on_callers(f, e);
	else if (e->operation == OP_UPDATE && strcmp(e->resource, "node/ranges") == 0)
		hub_client_talk_ranges(f, e);
	else if (hub_client_is_change(e))
		on_change(f, e);
	else
		hub_client_send_error(f, e, "operation or resource is not known to this agent");
}

static void read_text(
	struct hub_client *f, const char *text, size_t len, const struct envelope *bundle);

static void
on_bundle(struct hub_client *f, const struct envelope *e)
{
	auto_buf struct buf lines;
	const char *text;
	struct err err;
	size_t len;

	if (bundle_open(&lines, e, &err) < 0) {
		hub_client_send_error(f, e, err.text);
		return;
	}
	while (f->conn != NULL && (text = bundle_next(&lines, &len)) != NULL)
		read_text(f, text, len, e);
}

/* bundle: the bundle that contains it; NULL: none. */
static void
read_text(struct hub_client *f, const char *text, size_t len, const struct envelope *bundle)
{
	struct envelope e = {0};
	struct err err;
	int rc = envelope_parse(&e, text, len, &err);
	bool known = rc == 0 || rc == -EOPNOTSUPP || envelope_head(&e, text, len);

	if (bundle != NULL && known)
		bundle_inherit(&e, bundle);
	if (rc < 0)
		hub_client_send_error(f, known ? &e : NULL, err.text);
	else if (f->joining) {
		if (!f->joined && strcmp(e.parent_id, f->query) == 0)
			hub_client_on_join(f, &e);
	} else if (bundle_is(&e) && bundle != NULL)
		hub_client_send_error(f, &e, "a bundle within a bundle");
	else if (bundle_is(&e))
		on_bundle(f, &e);
	else
		on_event(f, &e);
	envelope_fini(&e);
}

static void
on_text(struct hub_client *f, const char *text, size_t len)
{
	read_text(f, text, len, NULL);
}

static void
on_open(struct hub_client *f)
{
	timer_start(f->check, GREETING_MS, 0);
	if (f->joining)
		hub_client_ask_join(f);
}

/* The hello did not come in time, or it is time to compare. */
static void
on_check(struct hub_client *f)
{
	if (f->state == GREETING && f->conn != NULL)
		ws_close(f->conn, 1002, "no greeting");
	else
		hub_client_talk_compare(f);
}

static uint64_t
on_closed(struct hub_client *f)
{
	(void)f;
	return 0;
}

static void
on_end(struct hub_client *f)
{
	(void)f;
}

const struct hub_client_protocol feed_edgeway = {
	.message_limit = ENVELOPE_MAX_BYTES,
	.begin = hub_client_take_identity,
	.end = on_end,
	.opened = on_open,
	.text = on_text,
	.check = on_check,
	.compare = hub_client_talk_compare,
	.committed = hub_client_talk_acknowledge,
	.closed = on_closed,
};
