#include "lb/budget.h"

static void
fade(struct budget *b, uint64_t now_ms)
{
	uint64_t windows = (now_ms - b->since_ms) / BUDGET_WINDOW_MS;

	if (windows == 0)
		return;
	b->asked = windows < 32 ? b->asked >> windows : 0;
	b->spent = windows < 32 ? b->spent >> windows : 0;
	b->since_ms += windows * BUDGET_WINDOW_MS;
}

void
budget_ask(struct budget *b, uint64_t now_ms)
{
	if (now_ms - b->since_ms >= BUDGET_WINDOW_MS)
		fade(b, now_ms);
	b->asked++;
}

bool
budget_spend(struct budget *b, uint64_t now_ms)
{
	fade(b, now_ms);
	if (b->spent >= BUDGET_LEAST + b->asked / BUDGET_SHARE)
		return false;
	b->spent++;
	return true;
}
