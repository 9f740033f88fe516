#include "hub/sync/node_session_private.h"

#include <errno.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "model/bundle.h"

enum { AGENT_MAX = 63 };

static char *
node_session_copy(const char *s)
{
	return xstrdup(s != NULL ? s : "");
}

/* --- sending changes ------------------------------------------------------------------------ */

/* Most nodes wait for nothing most of the time. */
static void
node_session_rest(struct node_session *s)
{
	if (s->flights.n > 0)
		return;
	inflight_rest(&s->flights);
	pending_rest(&s->pending);
}

/* Sends a deletion for a service that exists, but is not, or no longer, for this node. */
static void
send_gone(struct node_session *s, const struct fanout_item *item, const char *id)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	fanout_say_gone(&b, item, id);
	memcpy(outbox_begin(&s->outbox, buf_len(&b)), buf_at(&b), buf_len(&b));
	outbox_end(&s->outbox, buf_len(&b));
}

static void
send_frame(struct node_session *s, const struct fanout_item *item, const char *id)
{
	char *frame = outbox_begin(&s->outbox, item->frame_len);

	memcpy(frame, item->frame, item->frame_len);
	memcpy(frame + item->id_at, id, FANOUT_ID_LEN);
	outbox_end(&s->outbox, item->frame_len);
}

/* Takes over the hold of the queue. */
static void
send_item(struct node_session *s, struct fanout_item *item)
{
	bool has = node_filter_has(&s->sight, item);
	char id[FANOUT_ID_LEN + 1];

	inflight_begin(&s->flights,
		&(struct flight){
			.item = item,
			.present = has,
			.len = item->frame_len,
			.digest = item->digest,
			.sent_ms = mono_ms(),
		},
		id);
	if (item->present && !has)
		send_gone(s, item, id);
	else if (s->pending.n > 0 || !outbox_item(&s->outbox, s->config.fanout, item, id))
		send_frame(s, item, id);
	if (has)
		s->config.stats->updates++;
	else
		s->config.stats->deletes++;
}

void
node_session_finish_sync(struct node_session *s)
{
	if (s->sync_id == NULL || s->pending.popped < s->sync_at)
		return;
	node_session_say_synced(s, s->sync_id);
	free(take_ptr(&s->sync_id));
}

/* Sends only the newest list, and before the services that these clients may not use. */
static void
send_callers(struct node_session *s)
{
	if (s->ended || buf_len(&s->callers_next) == 0 ||
		ws_queued(s->conn) > NODE_SESSION_QUEUE_BYTES)
		return;
	node_session_say(s, OP_UPDATE, "node/callers", "", &s->callers_next);
	buf_consume(&s->callers_next, buf_len(&s->callers_next));
	buf_release(&s->callers_next);
}

/* Sends what is queued, as far as the limits allow. */
static void
node_session_pump(struct node_session *s)
{
	send_callers(s);
	while (!s->ended && s->pending.n > 0 && inflight_room(&s->flights) &&
		ws_queued(s->conn) <= NODE_SESSION_QUEUE_BYTES) {
		send_item(s, pending_pop(&s->pending));
		node_session_finish_sync(s);
	}
	if (s->ended)
		return;
	outbox_send(&s->outbox);
}

/* The item has changed: the node may accept it now. */
static void
node_session_forget_refusal(struct node_session *s, const struct fanout_item *item)
{
	uint8_t *st = pending_state(&s->pending, item);

	if (!(*st & PENDING_REFUSED))
		return;
	*st &= (uint8_t)~PENDING_REFUSED;
	refusals_drop(&s->refusals, item->key);
}

static void
on_changed(void *arg, struct fanout_item *item)
{
	struct node_session *s = arg;

	if (s->ended)
		return;
	node_session_forget_refusal(s, item);
	if ((node_filter_had(&s->sight, item) || node_filter_has(&s->sight, item)) &&
		!pending_add(&s->pending, item))
		s->config.stats->merged++;
	if (item->pod && !item->present)
		node_filter_unwant(&s->sight, s->config.fanout, item);
}

static void
on_settled(void *arg)
{
	node_session_pump(arg);
}

void
node_session_go_live(struct node_session *s)
{
	if (s->live)
		return;
	s->live = true;
	fanout_watch_start(s->config.fanout, &s->watch, on_changed, on_settled, s);
}

/* --- acknowledgements ----------------------------------------------------------------------- */

static void
node_session_on_refusal(struct node_session *s, const struct flight *f, const struct envelope *e)
{
	struct fanout_item *item = f->item;
	uint8_t *st = pending_state(&s->pending, item);
	char why[REFUSALS_REASON_MAX];

	s->config.stats->refused++;
	log_limited(LOG_LEVEL_WARN, 10, "hub",
		"a node refuses a service, which is held back until it changes node=%s service=%s "
		"reason=\"%s\"",
		s->node, item->key, log_clean(why, sizeof why, e->content));
	if (!item->present || !f->present || item->digest != f->digest)
		return;
	*st |= PENDING_REFUSED;
	refusals_add(&s->refusals, item->key, e->content, e->content_len);
}

/* The node cannot open a bundle, and does not say which of its messages failed: sends each again,
 * unbundled. */
static void
node_session_send_unbundled(struct node_session *s)
{
	struct fanout_item *item;

	if (!s->outbox.bundles)
		return;
	log_limited(LOG_LEVEL_WARN, 10, "hub",
		"a node cannot open a bundle, it gets none on this connection node=%s", s->node);
	s->outbox.bundles = false;
	while ((item = inflight_take(&s->flights)) != NULL) {
		uint8_t *st = pending_state(&s->pending, item);

		*st &= (uint8_t)~PENDING_FLIGHT;
		if (*st & PENDING_WAITS)
			pending_again(&s->pending, item);
		else
			pending_add(&s->pending, item);
		fanout_release(s->config.fanout, item);
	}
}

static void
on_ack(struct node_session *s, const struct envelope *e)
{
	struct flight *f = inflight_find(&s->flights, e->parent_id);
	struct fanout_item *item;
	uint8_t *st;

	if (f == NULL && e->operation == OP_ERROR && strcmp(e->resource, BUNDLE_RESOURCE) == 0)
		node_session_send_unbundled(s);
	if (f == NULL)
		return;
	item = f->item;
	st = pending_state(&s->pending, item);
	*st &= (uint8_t)~PENDING_FLIGHT;
	s->n_acks++;
	if (e->operation == OP_ERROR)
		node_session_on_refusal(s, f, e);
	if (*st & PENDING_WAITS)
		pending_again(&s->pending, item);
	inflight_end(&s->flights, f);
	fanout_release(s->config.fanout, item);
}

/* --- received messages ---------------------------------------------------------------------- */

static void
on_unserved(struct node_session *s, const struct envelope *e)
{
	struct err err = {0};

	if (unserved_read(&s->unserved, e->content, e->content_len, &err) < 0)
		node_session_complain(s, e->id, e->resource, err.text);
}

/* Each query is answered, so a node that asks and never reads would have the answers pile up. What
 * is unacknowledged may still be queued, and is limited by itself. */
static bool
node_session_reads(struct node_session *s)
{
	if (ws_queued(s->conn) <= 4 * NODE_SESSION_QUEUE_BYTES + s->flights.bytes)
		return true;
	node_session_end(s, 1008, "the node asks without reading the answers");
	return false;
}

static void
on_query(struct node_session *s, const struct envelope *e)
{
	if (!node_session_reads(s))
		return;
	if (strcmp(e->resource, "digest/buckets") == 0)
		node_session_compare_buckets(s, e);
	else if (strcmp(e->resource, "digest/services") == 0)
		node_session_compare_services(s, e);
	else if (strcmp(e->resource, "node/pod") == 0)
		node_session_ask_pod(s, e);
	else
		node_session_complain(s, e->id, e->resource,
			"this hub answers queries of digest/buckets, digest/services and node/pod");
}

static void
on_message(struct node_session *s, const struct envelope *e)
{
	bool answer = e->operation == OP_RESPONSE || e->operation == OP_ERROR;

	if (answer && questions_answer(&s->questions, e))
		return;
	if (e->operation == OP_QUERY)
		on_query(s, e);
	else if (answer)
		on_ack(s, e);
	else if (e->operation == OP_INSERT && strcmp(e->resource, "node/unserved") == 0)
		on_unserved(s, e);
	else if (e->operation == OP_INSERT && strcmp(e->resource, "node/pods") == 0)
		node_session_pods(s, e);
	else if (e->operation != OP_KEEPALIVE)
		node_session_complain(s, e->id, e->resource,
			"a node tells this hub nothing but digests, acknowledgements and what it "
			"cannot serve");
}

static void on_bundle(struct node_session *s, const struct envelope *e);

static void
on_text(struct node_session *s, const char *text, size_t len, const struct envelope *bundle)
{
	struct envelope e;
	struct err err = {0};
	int rc = envelope_parse(&e, text, len, &err);

	bool known = rc == 0 || rc == -EOPNOTSUPP || envelope_head(&e, text, len);

	if (bundle != NULL && known)
		bundle_inherit(&e, bundle);
	if (rc < 0)
		node_session_complain(s, known ? e.id : "", known ? e.resource : "", err.text);
	else if (!bundle_is(&e))
		on_message(s, &e);
	else if (bundle != NULL)
		node_session_complain(s, e.id, e.resource, "a bundle within a bundle");
	else
		on_bundle(s, &e);
	envelope_fini(&e);
}

static void
on_bundle(struct node_session *s, const struct envelope *e)
{
	auto_buf struct buf lines;
	struct err err = {0};
	const char *text;
	size_t len;

	if (bundle_open(&lines, e, &err) < 0) {
		node_session_complain(s, e->id, e->resource, err.text);
		return;
	}
	while (!s->ended && (text = bundle_next(&lines, &len)) != NULL)
		on_text(s, text, len, e);
}

void
node_session_text(struct node_session *s, const char *text, size_t len)
{
	if (s->ended)
		return;
	on_text(s, text, len, NULL);
	node_session_pump(s);
	node_session_rest(s);
}

struct node_session *
node_session_new(const struct node_session_config *config, struct ws_conn *conn)
{
	struct node_session *s = xcalloc(1, sizeof *s);

	s->config = *config;
	s->config.cluster_domain = node_session_copy(config->cluster_domain);
	s->conn = conn;
	if (config->gate != NULL)
		s->gate_ticket = sync_gate_begin(config->gate, mono_ms());
	s->node = node_session_copy(config->node);
	s->site = node_session_copy(config->site);
	s->zone = node_session_copy(config->zone);
	s->config.node = s->node;
	s->config.site = s->site;
	s->config.zone = s->zone;
	s->agent = xstrndup(config->agent != NULL ? config->agent : "", AGENT_MAX);
	s->address = node_session_copy(ws_peer_addr(conn));
	s->since_ms = wall_ms();
	buf_init(&s->callers_next, BUF_UNLIMITED);
	pending_init(&s->pending, config->fanout);
	node_filter_init(&s->sight, config->labels, config->enforces);
	s->sight.node = s->node;
	s->config.labels = NULL;
	outbox_init(&s->outbox, conn, config->bundles);
	inflight_init(&s->flights);
	node_session_say_hello(s);
	s->config.crl = s->config.revoked = NULL;
	outbox_send(&s->outbox);
	s->config.ca_hash = NULL; /* was borrowed only for hello, like the addresses */
	s->config.n_addresses = 0;
	return s;
}

/* Releases every item: no more messages or acknowledgements follow. */
static void
let_go(struct node_session *s)
{
	struct fanout_item *item;

	fanout_watch_stop(&s->watch);
	while ((item = pending_pop(&s->pending)) != NULL)
		fanout_release(s->config.fanout, item);
	while ((item = inflight_take(&s->flights)) != NULL) {
		if (*pending_state(&s->pending, item) & PENDING_WAITS)
			fanout_release(s->config.fanout, item);
		fanout_release(s->config.fanout, item);
	}
	node_session_rest(s);
	node_filter_unwant_all(&s->sight, s->config.fanout);
}

void
node_session_free(struct node_session **out)
{
	struct node_session *s = take_ptr(out);

	if (s == NULL)
		return;
	let_go(s);
	node_session_leave_gate(s);
	questions_end(&s->questions);
	unserved_fini(&s->unserved);
	refusals_fini(&s->refusals);
	free((void *)(uintptr_t)s->config.cluster_domain);
	free(s->node);
	free(s->site);
	free(s->zone);
	free(s->address);
	free(s->agent);
	free(s->held_id);
	free(s->pods_told);
	free(s->sync_id);
	buf_fini(&s->callers_next);
	pending_fini(&s->pending);
	node_filter_fini(&s->sight);
	outbox_fini(&s->outbox);
	free(s);
}

void
node_session_callers(struct node_session *s, struct buf *callers)
{
	uint64_t hash = hash64(buf_at(callers), buf_len(callers), 1);

	if (s->ended || !s->config.enforces || s->callers == hash)
		return;
	s->callers = hash;
	buf_consume(&s->callers_next, buf_len(&s->callers_next));
	buf_add(&s->callers_next, buf_at(callers), buf_len(callers));
	send_callers(s);
	outbox_send(&s->outbox);
}

bool
node_session_enforces(const struct node_session *s)
{
	return s->config.enforces;
}

void
node_session_ready(struct node_session *s)
{
	s->config.ready = true;
	node_session_pods_ready(s);
	if (s->held_id == NULL || s->ended)
		return;
	node_session_answer_held(s);
	node_session_pump(s);
}

void
node_session_drained(struct node_session *s)
{
	if (!s->ended)
		node_session_pump(s);
}

void
node_session_tick(struct node_session *s, uint64_t now_ms)
{
	const struct flight *f =
		s->ended ? NULL : inflight_late(&s->flights, now_ms, NODE_SESSION_ACK_MS);

	if (f == NULL) {
		if (!s->ended && inflight_late(&s->flights, now_ms, NODE_SESSION_ASK_MS) != NULL)
			ws_ask(s->conn);
		return;
	}
	log_limited(LOG_LEVEL_WARN, 20, "hub", "node stopped acknowledging node=%s service=%s",
		s->node, f->item->key);
	s->config.stats->stalled++;
	node_session_end(s, 1011, "a change was not acknowledged in time");
}

void
node_session_end(struct node_session *s, unsigned code, const char *why)
{
	if (s->ended)
		return;
	outbox_send(&s->outbox);
	s->ended = true;
	/* Not let_go: this may be called during a walk over the fanout's watchers or items. */
	ws_close(s->conn, code, why);
}

void
node_session_relabel(struct node_session *s, const struct kube_labels *labels)
{
	struct node_filter before = s->sight;

	if (s->ended || kube_labels_equal(&before.labels, labels))
		return;
	node_filter_init(&s->sight, labels, s->config.enforces);
	for (struct fanout_item *i = NULL; (i = fanout_narrowed(s->config.fanout, i)) != NULL;) {
		if (!s->live || node_filter_has(&before, i) == node_filter_has(&s->sight, i))
			continue;
		node_session_forget_refusal(s, i);
		pending_add(&s->pending, i);
	}
	node_filter_fini(&before);
	node_session_pump(s);
}
