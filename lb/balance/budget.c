#include "lb/balance/budget.h"

static void
budget_fade(struct budget *b, uint64_t now_ms)
{
	uint32_t windows = ((uint32_t)now_ms - b->since_ms) / BUDGET_WINDOW_MS;

	if (windows == 0)
		return;
	b->asked = (uint16_t)(windows < 16 ? b->asked >> windows : 0);
	b->spent = (uint16_t)(windows < 16 ? b->spent >> windows : 0);
	b->since_ms += windows * BUDGET_WINDOW_MS;
}

void
budget_ask(struct budget *b, uint64_t now_ms)
{
	if ((uint32_t)now_ms - b->since_ms >= BUDGET_WINDOW_MS)
		budget_fade(b, now_ms);
	if (b->asked < UINT16_MAX)
		b->asked++;
}

bool
budget_left(const struct budget *b, uint64_t now_ms)
{
	struct budget now = *b;

	budget_fade(&now, now_ms);
	return now.spent < BUDGET_LEAST + now.asked / BUDGET_SHARE;
}

bool
budget_spend(struct budget *b, uint64_t now_ms)
{
	if (!budget_left(b, now_ms))
		return false;
	budget_fade(b, now_ms);
	b->spent++;
	return true;
}
