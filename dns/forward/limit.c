#include "dns/forward/limit.h"

static struct limit_client *
limit_find(struct limit *l, uint64_t client, uint64_t now_ms)
{
	const uint32_t folded = (uint32_t)(client ^ client >> 32);
	struct limit_client *set = l->client[folded * 2654435761u >> 24];
	struct limit_client *oldest = &set[0];

	for (unsigned i = 0; i < LIMIT_WAYS; i++) {
		if (set[i].key == client)
			return &set[i];
		if (set[i].since_ms < oldest->since_ms)
			oldest = &set[i];
	}
	*oldest = (struct limit_client){client, now_ms, LIMIT_BURST};
	return oldest;
}

bool
limit_pass(struct limit *l, uint64_t client, uint64_t now_ms)
{
	struct limit_client *c = limit_find(l, client, now_ms);
	uint64_t left = c->left + (now_ms - c->since_ms) * LIMIT_PER_MS;

	c->since_ms = now_ms;
	c->left = (uint32_t)MIN(left, (uint64_t)LIMIT_BURST);
	if (c->left == 0)
		return false;
	c->left--;
	return true;
}
