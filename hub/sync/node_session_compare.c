#include "hub/sync/node_session_private.h"

#include <string.h>

static void
answer_buckets(struct node_session *s, const char *parent, const struct digests *theirs)
{
	struct digests ours;
	bool want[DIGEST_BUCKETS], any = false;
	auto_buf struct buf c;

	node_filter_digests(&s->sight, s->config.fanout, &ours);
	for (unsigned i = 0; i < DIGEST_BUCKETS; i++) {
		want[i] = ours.bucket[i] != theirs->bucket[i];
		any = any || want[i];
	}
	node_session_go_live(s);
	buf_init(&c, BUF_UNLIMITED);
	if (any)
		digest_want_build(&c, want);
	else
		buf_adds(&c, "{\"buckets\":[],\"synced\":true}");
	node_session_say(s, OP_RESPONSE, "digest/buckets", parent, &c);
	if (!any) {
		s->synced = true;
		node_session_leave_gate(s);
	}
}

void
node_session_compare_buckets(struct node_session *s, const struct envelope *e)
{
	struct digests theirs;
	struct err err = {0};

	if (digests_parse(&theirs, e->content, e->content_len, &err) < 0) {
		node_session_complain(s, e->id, e->resource, err.text);
		return;
	}
	if (s->config.ready) {
		answer_buckets(s, e->id, &theirs);
		return;
	}
	free(s->held_id); /* only the newer query counts */
	s->held_id = xstrdup(e->id);
	s->held = theirs;
}

/* The node holds `entry`: queues the item if it differs from what the node should hold. */
static void
node_session_compare_compare(struct node_session *s, const struct digest_entry *entry)
{
	struct fanout_item *item = fanout_use(s->config.fanout, entry->key);
	uint8_t *st = pending_state(&s->pending, item);
	bool has = node_filter_has(&s->sight, item);

	if (has)
		*st |= PENDING_SEEN;
	if ((has && item->digest == entry->digest) || (*st & (PENDING_FLIGHT | PENDING_REFUSED)))
		return;
	pending_add(&s->pending, item);
}

/* Queues the services of a compared bucket that the node did not list. */
static void
compare_rest(struct node_session *s, unsigned bucket)
{
	struct fanout_item *item = NULL;

	while ((item = fanout_in_bucket(s->config.fanout, bucket, item)) != NULL) {
		uint8_t *st = pending_state(&s->pending, item);

		if (node_filter_has(&s->sight, item) &&
			!(*st & (PENDING_SEEN | PENDING_FLIGHT | PENDING_REFUSED)))
			pending_add(&s->pending, item);
		*st &= (uint8_t)~PENDING_SEEN;
	}
}

void
node_session_compare_services(struct node_session *s, const struct envelope *e)
{
	struct digest_entry *entries = NULL;
	bool of[DIGEST_BUCKETS] = {false};
	struct err err = {0};
	size_t n = 0;

	if (!s->live) {
		node_session_complain(s, e->id, e->resource, "digest/buckets must come first");
		return;
	}
	if (digest_entries_parse(of, &entries, &n, e->content, e->content_len, &err) < 0) {
		node_session_complain(s, e->id, e->resource, err.text);
		return;
	}
	if (n > fanout_count(s->config.fanout) + NODE_SESSION_STALE_MAX) {
		digest_entries_free(&entries, n);
		node_session_end(s, 1008, "too many services that do not exist");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (of[digest_bucket(entries[i].key, strlen(entries[i].key))])
			node_session_compare_compare(s, &entries[i]);
	}
	digest_entries_free(&entries, n);
	for (unsigned i = 0; i < DIGEST_BUCKETS; i++) {
		if (of[i])
			compare_rest(s, i);
	}
	if (s->pending.n > fanout_count(s->config.fanout) + NODE_SESSION_STALE_MAX) {
		node_session_end(s, 1008, "too many services that do not exist");
		return;
	}
	free(s->sync_id);
	s->sync_id = xstrdup(e->id);
	s->sync_at = s->pending.pushed;
	node_session_finish_sync(s);
}

void
node_session_answer_held(struct node_session *s)
{
	if (s->held_id == NULL)
		return;
	answer_buckets(s, s->held_id, &s->held);
	free(take_ptr(&s->held_id));
}
