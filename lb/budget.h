/*
 * How many second attempts a service port may have: a fifth of its requests, and always a few. When
 * endpoints fail by the dozen, more attempts would only bring down those that are left. (An attempt
 * that cost an endpoint nothing, and the next one at an endpoint that seems well, needs none of it:
 * dial.c.) Counts fade:
 * both are halved every BUDGET_WINDOW_MS, so that what is in them is about the last two windows.
 * Pure; one for each service port and worker.
 */
#ifndef EDGEWAY_LB_BUDGET_H
#define EDGEWAY_LB_BUDGET_H

#include "base/core/util.h"

enum { BUDGET_WINDOW_MS = 5000, BUDGET_SHARE = 5, BUDGET_LEAST = 10 };

/* Small, as there is one for each of thousands of service ports: the time wraps after 49 days,
 * counts stop at their most. */
struct budget {
	uint32_t since_ms;
	uint16_t asked, spent;
};

/* A request, or a connection to relay. */
void budget_ask(struct budget *b, uint64_t now_ms);
bool budget_left(const struct budget *b, uint64_t now_ms);
/* One more attempt: true, and counted, where there is something left. */
bool budget_spend(struct budget *b, uint64_t now_ms);

#endif
