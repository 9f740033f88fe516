/*
 * The retry budget of a service port: a fifth of its requests, and always a few. When many
 * endpoints fail at once, more attempts would only bring down the remaining ones. (dial.c does not
 * charge a retry if the failed attempt cost its endpoint nothing and the next endpoint seems
 * healthy.) Counts decay: both are halved every BUDGET_WINDOW_MS, so they cover about the last two
 * windows. Pure; one for each service port and worker.
 */
#ifndef EDGEWAY_LB_BALANCE_BUDGET_H
#define EDGEWAY_LB_BALANCE_BUDGET_H

#include "base/core/util.h"

enum { BUDGET_WINDOW_MS = 5000, BUDGET_SHARE = 5, BUDGET_LEAST = 10 };

/* Small, as there is one for each of thousands of service ports: the time wraps after 49 days, and
 * counts saturate. */
struct budget {
	uint32_t since_ms;
	uint16_t asked, spent;
};

/* Counts a request, or a connection to relay. */
void budget_ask(struct budget *b, uint64_t now_ms);
bool budget_left(const struct budget *b, uint64_t now_ms);
/* Takes one more attempt from the budget; false if none is left. */
bool budget_spend(struct budget *b, uint64_t now_ms);

#endif
