#include "hub/sync/node_session_private.h"

#include <string.h>

#include "model/json.h"

const char *
node_session_node(const struct node_session *s)
{
	return s->node;
}

bool
node_session_lives_in(const struct node_session *s, const char *site, const char *zone)
{
	return strcmp(s->site, site) == 0 && strcmp(s->zone, zone) == 0;
}

bool
node_session_ended(const struct node_session *s)
{
	return s->ended;
}

size_t
node_session_unserved(const struct node_session *s, enum unserved_why why, const char *const **keys)
{
	const struct unserved_keys *k = why == UNSERVED_REFUSED ? &s->unserved.refused
		: why == UNSERVED_PORTS                         ? &s->unserved.ports
								: &s->unserved.keys;

	*keys = (const char *const *)k->list;
	return k->n;
}

const struct refusals *
node_session_refusals(const struct node_session *s)
{
	return &s->refusals;
}

void
node_session_facts(const struct node_session *s, struct node_session_facts *to)
{
	*to = (struct node_session_facts){
		.node = s->node,
		.site = s->site,
		.zone = s->zone,
		.version = s->agent,
		.address = s->address,
		.since_ms = s->since_ms,
		.synced = s->synced,
		.no_tunnel = s->config.no_tunnel,
		.pending = s->pending.n,
		.unacked = s->flights.n,
		.queued_bytes = ws_queued(s->conn),
		.unserved = s->unserved.keys.n,
		.held = refusals_count(&s->refusals),
	};
}

enum node_session_share
node_session_share(const struct node_session *s, const struct fanout_item *item)
{
	uint8_t state = item->index < s->pending.n_state ? s->pending.state[item->index] : 0;

	if (!node_filter_has(&s->sight, item))
		return NODE_SESSION_NOT_FOR_IT;
	if (!s->synced || (state & (PENDING_WAITS | PENDING_FLIGHT)) != 0)
		return NODE_SESSION_UNDER_WAY;
	if (state & PENDING_REFUSED)
		return NODE_SESSION_REFUSED;
	return unserved_has(&s->unserved, item->key) ? NODE_SESSION_UNSERVED : NODE_SESSION_HAS;
}

void
node_session_state(const struct node_session *s, struct buf *out)
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
	buf_printf(out,
		"\",\"synced\":%s,\"pending\":%u,\"unacked\":%u,\"acks\":%llu,"
		"\"queuedBytes\":%zu",
		s->synced ? "true" : "false", s->pending.n, s->flights.n,
		(unsigned long long)s->n_acks, ws_queued(s->conn));
	buf_printf(out, ",\"unserved\":%zu,\"refused\":%zu,\"held\":%zu", s->unserved.keys.n,
		s->unserved.refused.n, refusals_count(&s->refusals));
	if (!s->config.routes)
		buf_adds(out, ",\"routes\":false");
	if (s->refusals.n == 0)
		return;
	buf_adds(out, ",\"heldChanges\":[");
	for (size_t i = 0; i < s->refusals.n; i++) {
		buf_adds(out, i > 0 ? ",{\"service\":" : "{\"service\":");
		json_add_text(out, s->refusals.list[i].service);
		buf_adds(out, ",\"reason\":");
		json_add_text(out, s->refusals.list[i].reason);
		buf_adds(out, "}");
	}
	buf_adds(out, "]");
}
