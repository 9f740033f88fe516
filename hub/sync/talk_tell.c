#include "hub/sync/talk_private.h"

#include <string.h>

#include "model/json.h"

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

bool
talk_ended(const struct talk *s)
{
	return s->ended;
}

size_t
talk_unserved(const struct talk *s, enum unserved_why why, const char *const **keys)
{
	const struct unserved_keys *k =
		why == UNSERVED_REFUSED ? &s->unserved.refused : &s->unserved.keys;

	*keys = (const char *const *)k->list;
	return k->n;
}

const struct refusals *
talk_refusals(const struct talk *s)
{
	return &s->refusals;
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
		.no_tunnel = s->config.no_tunnel,
		.pending = s->pending.n,
		.unacked = s->flights.n,
		.unserved = s->unserved.keys.n,
		.held = refusals_count(&s->refusals),
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
	return unserved_has(&s->unserved, item->key) ? TALK_UNSERVED : TALK_HAS;
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
		s->synced ? "true" : "false", s->pending.n, s->flights.n,
		(unsigned long long)s->n_acks);
	buf_printf(out, ",\"unserved\":%zu,\"refused\":%zu,\"held\":%zu", s->unserved.keys.n,
		s->unserved.refused.n, refusals_count(&s->refusals));
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
