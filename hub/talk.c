#include "hub/talk.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "hub/outbox.h"
#include "hub/pending.h"
#include "hub/sight.h"
#include "model/bundle.h"
#include "model/json.h"
#include "model/mesh.h"

enum { AGENT_MAX = 63, FLIGHTS_FIRST = 4 };

/* A message under way. Its msg_id is the talk's prefix, then seq and slot in hex. */
struct flight {
	struct fanout_item *item; /* NULL: free */
	uint32_t seq;
	bool present; /* an update, else a delete */
	uint64_t digest, sent_ms;
};

struct talk {
	struct talk_config config;
	struct ws_conn *conn;
	char *node, *site, *zone, *address, *agent;
	uint64_t since_ms;

	bool live; /* the node has told its digests: changes are sent */
	bool synced; /* and has been told all differences */
	bool ended;
	char *held_id; /* query that waits for the source; NULL none */
	struct digests held;

	struct fanout_watch watch;
	struct sight sight;
	struct pending pending;
	char *sync_id; /* query whose answer {"synced":true} comes once popped has reached sync_at */
	uint64_t sync_at;

	struct flight *flight; /* slots, grown up to TALK_WINDOW; NULL while nothing is under way */
	unsigned n_slots, n_flight;
	uint32_t seq;
	char prefix[25]; /* first 24 characters of every msg_id */
	struct outbox outbox;
	uint64_t n_acks;
	char **unserved; /* NULL: nothing */
	size_t n_unserved;
};

static void on_changed(void *arg, struct fanout_item *item);

static char *
copy(const char *s)
{
	return xstrdup(s != NULL ? s : "");
}

/* --- small messages ------------------------------------------------------- */

static void
send_message(struct talk *s, enum operation op, const char *resource, const char *parent,
	struct buf *content)
{
	const struct saying say = {
		.source = "edgeway-hub",
		.operation = op,
		.resource = resource,
		.parent = parent,
		.content = buf_str(content),
		.content_len = buf_len(content),
	};
	char id[FANOUT_ID_LEN + 1];
	auto_buf struct buf b = {0};

	if (s->ended)
		return;
	envelope_new_id(id);
	buf_init(&b, BUF_UNLIMITED);
	envelope_say(&b, &say, id);
	memcpy(outbox_begin(&s->outbox, buf_len(&b)), buf_at(&b), buf_len(&b));
	outbox_end(&s->outbox, buf_len(&b));
}

static void
send_hello(struct talk *s)
{
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	buf_printf(&c, "{\"hub\":\"" EDGEWAY_VERSION "\",\"protocol\":%d,\"node\":", MESH_PROTOCOL);
	json_add_text(&c, s->node);
	buf_adds(&c, ",\"site\":");
	json_add_text(&c, s->site);
	buf_adds(&c, ",\"zone\":");
	json_add_text(&c, s->zone);
	buf_adds(&c, ",\"ca\":");
	json_add_text(&c, s->config.ca_hash != NULL ? s->config.ca_hash : "");
	buf_adds(&c, ",\"clusterDomain\":");
	json_add_text(&c, s->config.cluster_domain);
	buf_adds(&c, ",\"addresses\":[");
	for (size_t i = 0; i < s->config.n_addresses; i++) {
		buf_adds(&c, i > 0 ? "," : "");
		json_add_text(&c, s->config.addresses[i]);
	}
	buf_adds(&c, "],\"bundles\":\"" BUNDLE_KIND "\"}");
	send_message(s, OP_INSERT, "node/hello", "", &c);
}

static void
send_synced(struct talk *s, const char *parent)
{
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	buf_adds(&c, "{\"synced\":true}");
	send_message(s, OP_RESPONSE, "digest/services", parent, &c);
	s->synced = true;
	s->config.stats->syncs++;
}

/* A node that sends faster than it reads the complaints is sent away. */
static void
complain(struct talk *s, const char *parent, const char *resource, const char *why)
{
	auto_buf struct buf c = {0};

	s->config.stats->bad_messages++;
	log_limited(LOG_LEVEL_WARN, 10, "hub", "bad message node=%s reason=\"%s\"", s->node, why);
	if (ws_queued(s->conn) > 4 * TALK_QUEUE_BYTES) {
		talk_end(s, 1008, "too many bad messages");
		return;
	}
	buf_init(&c, BUF_UNLIMITED);
	json_add_text(&c, why);
	send_message(s, OP_ERROR, resource, parent, &c);
}

/* --- sending changes ----------------------------------------------------- */

static unsigned
free_slot(struct talk *s)
{
	unsigned slot;

	if (s->n_flight == s->n_slots) {
		unsigned n = s->n_slots > 0 ? s->n_slots * 2 : FLIGHTS_FIRST;

		s->flight = xrealloc(s->flight, n * sizeof *s->flight);
		memset(s->flight + s->n_slots, 0, (n - s->n_slots) * sizeof *s->flight);
		s->n_slots = n;
	}
	for (slot = s->seq % s->n_slots; s->flight[slot].item != NULL;)
		slot = (slot + 1) % s->n_slots;
	return slot;
}

/* Most nodes wait for nothing most of the time. */
static void
rest(struct talk *s)
{
	if (s->n_flight > 0)
		return;
	free(take_ptr(&s->flight));
	s->n_slots = 0;
	pending_rest(&s->pending);
}

/* The node is not, or no longer, to know of the service, which exists. */
static void
send_gone(struct talk *s, const struct fanout_item *item, const char *id)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	fanout_say_gone(&b, item, id);
	memcpy(outbox_begin(&s->outbox, buf_len(&b)), buf_at(&b), buf_len(&b));
	outbox_end(&s->outbox, buf_len(&b));
}

static void
send_frame(struct talk *s, const struct fanout_item *item, const char *id)
{
	char *frame = outbox_begin(&s->outbox, item->frame_len);

	memcpy(frame, item->frame, item->frame_len);
	memcpy(frame + item->id_at, id, FANOUT_ID_LEN);
	outbox_end(&s->outbox, item->frame_len);
}

/* Takes over the hold that waiting had. */
static void
send_item(struct talk *s, struct fanout_item *item)
{
	bool has = sight_has(&s->sight, item);
	unsigned slot = free_slot(s);
	struct flight *f = &s->flight[slot];
	char id[FANOUT_ID_LEN + 1];

	*f = (struct flight){item, ++s->seq, has, item->digest, mono_ms()};
	s->n_flight++;
	snprintf(id, sizeof id, "%.24s%08x%04x", s->prefix, f->seq, slot % TALK_WINDOW);
	if (item->present && !has)
		send_gone(s, item, id);
	else if (s->pending.n > 0 || !outbox_item(&s->outbox, s->config.fanout, item, id))
		send_frame(s, item, id);
	if (has)
		s->config.stats->updates++;
	else
		s->config.stats->deletes++;
}

static void
finish_sync(struct talk *s)
{
	if (s->sync_id == NULL || s->pending.popped < s->sync_at)
		return;
	send_synced(s, s->sync_id);
	free(take_ptr(&s->sync_id));
}

/* Sends what there is to send. */
static void
pump(struct talk *s)
{
	while (!s->ended && s->pending.n > 0 && s->n_flight < TALK_WINDOW &&
		ws_queued(s->conn) <= TALK_QUEUE_BYTES) {
		send_item(s, pending_pop(&s->pending));
		finish_sync(s);
	}
	if (s->ended)
		return;
	outbox_send(&s->outbox);
}

static void
on_changed(void *arg, struct fanout_item *item)
{
	struct talk *s = arg;

	if (s->ended)
		return;
	*pending_state(&s->pending, item) &= (uint8_t)~PENDING_REFUSED;
	if (sight_had(&s->sight, item) || sight_has(&s->sight, item))
		pending_add(&s->pending, item);
}

static void
on_settled(void *arg)
{
	pump(arg);
}

/* --- acknowledgements ---------------------------------------------------- */

/* The flight that a parent id means, or NULL: not ours, or answered before. */
static struct flight *
find_flight(struct talk *s, const char *parent)
{
	unsigned seq, slot;
	int used = 0;

	if (strlen(parent) != FANOUT_ID_LEN || strncmp(parent, s->prefix, 24) != 0 ||
		sscanf(parent + 24, "%8x%4x%n", &seq, &slot, &used) != 2 || used != 12 ||
		slot >= s->n_slots || s->flight[slot].item == NULL || s->flight[slot].seq != seq)
		return NULL;
	return &s->flight[slot];
}

static void
on_ack(struct talk *s, const struct envelope *e)
{
	struct flight *f = find_flight(s, e->parent_id);
	struct fanout_item *item;
	uint8_t *st;

	if (f == NULL)
		return;
	item = f->item;
	st = pending_state(&s->pending, item);
	*st &= (uint8_t)~PENDING_FLIGHT;
	s->n_acks++;
	s->config.stats->acks++;
	if (e->operation == OP_ERROR) {
		s->config.stats->refused++;
		log_limited(LOG_LEVEL_WARN, 10, "hub",
			"node refused a change node=%s service=%s reason=%.300s", s->node,
			item->key, e->content);
		if (item->present && f->present && item->digest == f->digest)
			*st |= PENDING_REFUSED;
	}
	if (*st & PENDING_WAITS)
		pending_again(&s->pending, item);
	f->item = NULL;
	s->n_flight--;
	fanout_release(s->config.fanout, item);
}

/* --- comparing ----------------------------------------------------------- */

static void
answer_buckets(struct talk *s, const char *parent, const struct digests *theirs)
{
	struct digests ours;
	bool want[DIGEST_BUCKETS], any = false;
	auto_buf struct buf c;

	sight_digests(&s->sight, s->config.fanout, &ours);
	for (unsigned i = 0; i < DIGEST_BUCKETS; i++) {
		want[i] = ours.bucket[i] != theirs->bucket[i];
		any = any || want[i];
	}
	if (!s->live) {
		s->live = true;
		fanout_watch_start(s->config.fanout, &s->watch, on_changed, on_settled, s);
	}
	buf_init(&c, BUF_UNLIMITED);
	if (any)
		digest_want_build(&c, want);
	else
		buf_adds(&c, "{\"buckets\":[],\"synced\":true}");
	send_message(s, OP_RESPONSE, "digest/buckets", parent, &c);
	if (!any) {
		s->synced = true;
		s->config.stats->syncs++;
	}
}

static void
on_buckets(struct talk *s, const struct envelope *e)
{
	struct digests theirs;
	struct err err = {0};

	if (digests_parse(&theirs, e->content, e->content_len, &err) < 0) {
		complain(s, e->id, e->resource, err.text);
		return;
	}
	if (s->config.ready) {
		answer_buckets(s, e->id, &theirs);
		return;
	}
	free(s->held_id); /* the newer question counts */
	s->held_id = xstrdup(e->id);
	s->held = theirs;
}

/* The node holds `entry`: is it what it should hold? */
static void
compare(struct talk *s, const struct digest_entry *entry)
{
	struct fanout_item *item = fanout_use(s->config.fanout, entry->key);
	uint8_t *st = pending_state(&s->pending, item);
	bool has = sight_has(&s->sight, item);

	if (has)
		*st |= PENDING_SEEN;
	if ((has && item->digest == entry->digest) || (*st & (PENDING_FLIGHT | PENDING_REFUSED)))
		return;
	pending_add(&s->pending, item);
}

/* What the node did not name in a bucket that it told is new to it. */
static void
compare_rest(struct talk *s, unsigned bucket)
{
	struct fanout_item *item = NULL;

	while ((item = fanout_in_bucket(s->config.fanout, bucket, item)) != NULL) {
		uint8_t *st = pending_state(&s->pending, item);

		if (sight_has(&s->sight, item) &&
			!(*st & (PENDING_SEEN | PENDING_FLIGHT | PENDING_REFUSED)))
			pending_add(&s->pending, item);
		*st &= (uint8_t)~PENDING_SEEN;
	}
}

static void
on_services(struct talk *s, const struct envelope *e)
{
	struct digest_entry *entries = NULL;
	bool of[DIGEST_BUCKETS] = {false};
	struct err err = {0};
	size_t n = 0;

	if (!s->live) {
		complain(s, e->id, e->resource, "digest/buckets must come first");
		return;
	}
	if (digest_entries_parse(of, &entries, &n, e->content, e->content_len, &err) < 0) {
		complain(s, e->id, e->resource, err.text);
		return;
	}
	if (n > fanout_count(s->config.fanout) + TALK_STALE_MAX) {
		digest_entries_free(&entries, n);
		talk_end(s, 1008, "too many services that do not exist");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (of[digest_bucket(entries[i].key, strlen(entries[i].key))])
			compare(s, &entries[i]);
	}
	digest_entries_free(&entries, n);
	for (unsigned i = 0; i < DIGEST_BUCKETS; i++) {
		if (of[i])
			compare_rest(s, i);
	}
	if (s->pending.n > fanout_count(s->config.fanout) + TALK_STALE_MAX) {
		talk_end(s, 1008, "too many services that do not exist");
		return;
	}
	free(s->sync_id);
	s->sync_id = xstrdup(e->id);
	s->sync_at = s->pending.pushed;
	finish_sync(s);
}

/* --- what the node cannot serve ------------------------------------------- */

static void
forget_unserved(struct talk *s)
{
	while (s->n_unserved > 0)
		free(s->unserved[--s->n_unserved]);
	free(take_ptr(&s->unserved));
}

static void
take_unserved(struct json *j, void *to)
{
	struct talk *s = to;
	char *key = NULL;

	if (!json_text(j, &key, MESH_NAME_MAX + MESH_SERVICE_MAX + 1))
		return;
	if (s->unserved == NULL)
		s->unserved = xcalloc(TALK_UNSERVED_MAX, sizeof *s->unserved);
	if (s->n_unserved < TALK_UNSERVED_MAX)
		s->unserved[s->n_unserved++] = key;
	else
		free(key);
}

static void
take_unserved_list(struct json *j, void *to)
{
	json_list(j, take_unserved, to);
}

static void
on_unserved(struct talk *s, const struct envelope *e)
{
	static const struct field fields[] = {
		{"services", FIELD_CUSTOM, 0, 0, NULL, take_unserved_list},
	};
	struct err err = {0};
	struct json j;

	forget_unserved(s);
	if (e->content_len == 0) {
		complain(s, e->id, e->resource, "nothing is said");
		return;
	}
	json_init(&j, e->content, e->content_len);
	json_fields(&j, fields, ARRAY_LEN(fields), s);
	if (json_finish(&j, &err) < 0) {
		forget_unserved(s);
		complain(s, e->id, e->resource, err.text);
	}
}

size_t
talk_unserved(const struct talk *s, const char *const **keys)
{
	*keys = (const char *const *)s->unserved;
	return s->n_unserved;
}

/* --- the door ------------------------------------------------------------ */

static void
on_query(struct talk *s, const struct envelope *e)
{
	if (strcmp(e->resource, "digest/buckets") == 0)
		on_buckets(s, e);
	else if (strcmp(e->resource, "digest/services") == 0)
		on_services(s, e);
	else
		complain(s, e->id, e->resource,
			"this hub answers queries of digest/buckets and digest/services");
}

static void
on_message(struct talk *s, const struct envelope *e)
{
	if (e->operation == OP_QUERY)
		on_query(s, e);
	else if (e->operation == OP_RESPONSE || e->operation == OP_ERROR)
		on_ack(s, e);
	else if (e->operation == OP_INSERT && strcmp(e->resource, "node/unserved") == 0)
		on_unserved(s, e);
	else if (e->operation != OP_KEEPALIVE)
		complain(s, e->id, e->resource,
			"a node tells this hub nothing but digests, acknowledgements and what it "
			"cannot serve");
}

static void on_bundle(struct talk *s, const struct envelope *e);

static void
on_text(struct talk *s, const char *text, size_t len, const struct envelope *bundle)
{
	struct envelope e;
	struct err err = {0};
	int rc = envelope_parse(&e, text, len, &err);

	if (bundle != NULL && (rc == 0 || rc == -EOPNOTSUPP))
		bundle_inherit(&e, bundle);
	if (rc < 0)
		complain(s, rc == -EOPNOTSUPP ? e.id : "", rc == -EOPNOTSUPP ? e.resource : "",
			err.text);
	else if (!bundle_is(&e))
		on_message(s, &e);
	else if (bundle != NULL)
		complain(s, e.id, e.resource, "a bundle within a bundle");
	else
		on_bundle(s, &e);
	envelope_fini(&e);
}

static void
on_bundle(struct talk *s, const struct envelope *e)
{
	auto_buf struct buf lines;
	struct err err = {0};
	const char *text;
	size_t len;

	if (bundle_open(&lines, e, &err) < 0) {
		complain(s, e->id, e->resource, err.text);
		return;
	}
	while (!s->ended && (text = bundle_next(&lines, &len)) != NULL)
		on_text(s, text, len, e);
}

void
talk_text(struct talk *s, const char *text, size_t len)
{
	if (s->ended)
		return;
	on_text(s, text, len, NULL);
	pump(s);
	rest(s);
}

struct talk *
talk_new(const struct talk_config *config, struct ws_conn *conn)
{
	struct talk *s = xcalloc(1, sizeof *s);
	char id[FANOUT_ID_LEN + 1];

	s->config = *config;
	s->config.cluster_domain = copy(config->cluster_domain);
	s->conn = conn;
	s->node = copy(config->node);
	s->site = copy(config->site);
	s->zone = copy(config->zone);
	s->config.node = s->node;
	s->config.site = s->site;
	s->config.zone = s->zone;
	s->agent = xstrndup(config->agent != NULL ? config->agent : "", AGENT_MAX);
	s->address = copy(ws_peer_addr(conn));
	s->since_ms = wall_ms();
	pending_init(&s->pending, config->fanout);
	sight_init(&s->sight, config->labels);
	s->config.labels = NULL;
	outbox_init(&s->outbox, conn, config->bundles, &config->stats->outbox);
	envelope_new_id(id);
	memcpy(s->prefix, id, 24); /* up to and with the last hyphen */
	send_hello(s);
	outbox_send(&s->outbox);
	s->config.ca_hash = NULL; /* borrowed for hello, like the addresses */
	s->config.n_addresses = 0;
	return s;
}

/* Lets go of every item: nothing more will be sent or acknowledged here. */
static void
let_go(struct talk *s)
{
	struct fanout_item *item;

	fanout_watch_stop(&s->watch);
	while ((item = pending_pop(&s->pending)) != NULL)
		fanout_release(s->config.fanout, item);
	for (unsigned i = 0; i < s->n_slots; i++) {
		item = take_ptr(&s->flight[i].item);
		if (item == NULL)
			continue;
		if (*pending_state(&s->pending, item) & PENDING_WAITS)
			fanout_release(s->config.fanout, item);
		fanout_release(s->config.fanout, item);
	}
	s->n_flight = 0;
	rest(s);
}

void
talk_free(struct talk **out)
{
	struct talk *s = take_ptr(out);

	if (s == NULL)
		return;
	let_go(s);
	forget_unserved(s);
	free((void *)(uintptr_t)s->config.cluster_domain);
	free(s->node);
	free(s->site);
	free(s->zone);
	free(s->address);
	free(s->agent);
	free(s->held_id);
	free(s->sync_id);
	pending_fini(&s->pending);
	sight_fini(&s->sight);
	outbox_fini(&s->outbox);
	free(s);
}

void
talk_ready(struct talk *s)
{
	s->config.ready = true;
	if (s->held_id == NULL || s->ended)
		return;
	answer_buckets(s, s->held_id, &s->held);
	free(take_ptr(&s->held_id));
	pump(s);
}

void
talk_drained(struct talk *s)
{
	if (!s->ended)
		pump(s);
}

void
talk_tick(struct talk *s, uint64_t now_ms)
{
	for (unsigned i = 0; i < s->n_slots && !s->ended; i++) {
		if (s->flight[i].item == NULL || s->flight[i].sent_ms + TALK_ACK_MS > now_ms)
			continue;
		log_warn("hub", "node stopped acknowledging node=%s service=%s", s->node,
			s->flight[i].item->key);
		s->config.stats->stalled++;
		talk_end(s, 1011, "a change was not acknowledged in time");
	}
}

void
talk_end(struct talk *s, unsigned code, const char *why)
{
	if (s->ended)
		return;
	outbox_send(&s->outbox);
	s->ended = true;
	/* Not let_go: this may run within a walk over the fanout's watchers or items. */
	ws_close(s->conn, code, why);
}

const char *
talk_node(const struct talk *s)
{
	return s->node;
}

bool
talk_lives_in(const struct talk *s, const char *site, const char *zone)
{
	return strcmp(s->site, site) == 0 && strcmp(s->zone, zone) == 0;
}

void
talk_relabel(struct talk *s, const struct kube_labels *labels)
{
	struct sight before = s->sight;

	if (s->ended || kube_labels_equal(&before.labels, labels))
		return;
	sight_init(&s->sight, labels);
	for (struct fanout_item *i = NULL; (i = fanout_narrowed(s->config.fanout, i)) != NULL;) {
		if (!s->live || sight_has(&before, i) == sight_has(&s->sight, i))
			continue;
		*pending_state(&s->pending, i) &= (uint8_t)~PENDING_REFUSED;
		pending_add(&s->pending, i);
	}
	sight_fini(&before);
	pump(s);
}

bool
talk_ended(const struct talk *s)
{
	return s->ended;
}

void
talk_facts(const struct talk *s, struct talk_facts *to)
{
	*to = (struct talk_facts){
		.node = s->node,
		.site = s->site,
		.zone = s->zone,
		.version = s->agent,
		.address = s->address,
		.since_ms = s->since_ms,
		.synced = s->synced,
		.pending = s->pending.n,
		.unacked = s->n_flight,
		.unserved = s->n_unserved,
	};
}

enum talk_share
talk_share(const struct talk *s, const struct fanout_item *item)
{
	uint8_t state = item->index < s->pending.n_state ? s->pending.state[item->index] : 0;

	if (!sight_has(&s->sight, item))
		return TALK_NOT_FOR_IT;
	if (!s->synced || (state & (PENDING_WAITS | PENDING_FLIGHT)) != 0)
		return TALK_UNDER_WAY;
	if (state & PENDING_REFUSED)
		return TALK_REFUSED;
	for (size_t i = 0; i < s->n_unserved; i++)
		if (strcmp(s->unserved[i], item->key) == 0)
			return TALK_UNSERVED;
	return TALK_HAS;
}

void
talk_state(const struct talk *s, struct buf *out)
{
	buf_adds(out, "\"node\":");
	json_add_text(out, s->node);
	buf_adds(out, ",\"connected\":true,\"address\":");
	json_add_text(out, s->address);
	buf_adds(out, ",\"site\":");
	json_add_text(out, s->site);
	buf_adds(out, ",\"zone\":");
	json_add_text(out, s->zone);
	buf_adds(out, ",\"version\":");
	json_add_text(out, s->agent);
	buf_adds(out, ",\"since\":\"");
	buf_add_utc(out, (int64_t)(s->since_ms / 1000));
	buf_printf(out, "\",\"synced\":%s,\"pending\":%u,\"unacked\":%u,\"acks\":%llu",
		s->synced ? "true" : "false", s->pending.n, s->n_flight,
		(unsigned long long)s->n_acks);
	buf_printf(out, ",\"unserved\":%zu", s->n_unserved);
}
