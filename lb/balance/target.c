/* The life of one endpoint: ejected, on trial, back. targets.c manages the set of endpoints. */
#include "lb/balance/targets.h"

#include <assert.h>

enum {
	BACKOFF_MS = 1000,
	BACKOFF_MAX_MS = 60000,
	SILENT_TIMES = 2,
	/* a returning endpoint gets one request until it responds */
	PROBATION_MS = 2000,
	PROBE_FIRST_MS = 200,
	/* own observations younger than this outweigh another worker's report */
	HEARD_MS = 200,
	WINDOW_MAX = 64,
};

void
target_try(struct target *t, uint64_t now_ms)
{
	if (t->ejections == 0 || t->node.down_until_ms > now_ms)
		return;
	t->node.down_until_ms = now_ms + PROBATION_MS;
	t->half_open = true;
}

bool
target_begin(struct target *t, uint32_t client, uint32_t most)
{
	if (t->node.shared != NULL && !shared_take(t->node.shared, client, most))
		return false;
	t->node.in_flight++;
	return true;
}

void
target_end(struct target *t, uint32_t client, bool counted)
{
	assert(t->node.in_flight > 0);
	t->node.in_flight--;
	if (counted)
		shared_give(t->node.shared, client);
	else
		shared_count(t->node.shared, -1);
}

const char *
target_fault_text(enum target_fault fault)
{
	static const char *const texts[] = {[TARGET_REFUSED] = "refused",
		[TARGET_SILENT] = "silent",
		[TARGET_RESET] = "no answer",
		[TARGET_ERRORS] = "answers of 5xx",
		[TARGET_TLS] = "TLS fails"};

	return texts[fault];
}

static void
leave_out(struct target *t, uint64_t now_ms, uint64_t wait_ms)
{
	t->ejections++;
	t->node.down_until_ms = now_ms + wait_ms;
	if (list_empty(&t->ejected)) {
		t->ejected_ms = now_ms;
		list_add_before(targets_ejected(t->all), &t->ejected);
	}
	t->probe_ms = now_ms +
		(target_fault_needs_answer((enum target_fault)t->fault) ? 0 : PROBE_FIRST_MS);
}

bool
target_failed(struct target *t, enum target_fault fault, uint64_t now_ms, uint64_t random)
{
	uint64_t first = BACKOFF_MS, wait;

	t->failures++;
	balance_punish(&t->node, now_ms);
	/* Requests that were in progress when the first one failed, or that had no other endpoint,
	 * are no further proof. */
	if (t->node.down_until_ms > now_ms && !t->half_open)
		return false;
	t->half_open = false;
	t->fault = (uint8_t)fault;
	if (fault != TARGET_REFUSED && fault != TARGET_ERRORS && fault != TARGET_TLS &&
		t->failures < SILENT_TIMES && t->ejections == 0)
		return false;
	if (fault == TARGET_ERRORS && t->outlier_ms > 0)
		first = t->outlier_ms;
	wait = MIN(first << MIN(t->ejections, 10u), MAX(first, (uint64_t)BACKOFF_MAX_MS));
	wait += random % (wait / 4);
	leave_out(t, now_ms, wait);
	return true;
}

bool
target_told_failed(struct target *t, enum target_fault fault, uint64_t now_ms, uint64_t wait_ms)
{
	/* Error responses seen here as well confirm the report. */
	bool heard = now_ms - t->heard_ms < HEARD_MS && !(fault == TARGET_ERRORS && t->errors > 0);

	if (t->node.down_until_ms > now_ms || (fault != TARGET_REFUSED && heard))
		return false;
	t->half_open = false; /* the result of a slow one is no further proof */
	t->fault = (uint8_t)fault;
	leave_out(t, now_ms, wait_ms);
	return true;
}

void
target_told_works(struct target *t, bool answered, uint64_t now_ms)
{
	if (t->ejections > 0 &&
		(!target_fault_needs_answer((enum target_fault)t->fault) || answered))
		target_worked(t, now_ms);
}

void
target_worked(struct target *t, uint64_t now_ms)
{
	if (t->ejections > 0)
		t->node.back_ms = now_ms;
	t->failures = 0;
	t->ejections = 0;
	t->half_open = false;
	t->node.down_until_ms = 0;
	list_del(&t->ejected);
}

bool
target_may_dial(const struct target *t)
{
	return t->window == 0 || t->n_fresh < t->window;
}

void
target_widen(struct target *t)
{
	if (t->window > 0 && ++t->window > WINDOW_MAX)
		t->window = 0;
}

void
target_narrow(struct target *t)
{
	t->window = 1;
}

void
target_connected(struct target *t, uint64_t took_ms, uint64_t now_ms)
{
	uint32_t took = (uint32_t)MIN(took_ms, (uint64_t)UINT16_MAX);

	t->connect_ms = t->connect_known ? (3 * t->connect_ms + took + 3) / 4 : took;
	t->connect_known = true;
	t->heard_ms = now_ms;
}
