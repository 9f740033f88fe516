#include "dns/forward/limit.h"

static struct limit_client *
limit_find(struct limit *l, uint32_t address, uint64_t now_ms)
{
	struct limit_client *set = l->client[address * 2654435761u >> 24];
	struct limit_client *oldest = &set[0];

	for (unsigned i = 0; i < LIMIT_WAYS; i++) {
		if (set[i].address == address)
			return &set[i];
		if (set[i].since_ms < oldest->since_ms)
			oldest = &set[i];
	}
	*oldest = (struct limit_client){address, LIMIT_BURST, now_ms};
	return oldest;
}

bool
limit_pass(struct limit *l, uint32_t address, uint64_t now_ms)
{
	struct limit_client *c = limit_find(l, address, now_ms);
	uint64_t left = c->left + (now_ms - c->since_ms) * LIMIT_PER_MS;

	c->since_ms = now_ms;
	c->left = (uint32_t)MIN(left, (uint64_t)LIMIT_BURST);
	if (c->left == 0)
		return false;
	c->left--;
	return true;
}
