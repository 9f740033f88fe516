#include "dns/forward/health.h"

void
health_asked(struct health *h, uint64_t now_ms)
{
	if (h->silent_since_ms == 0)
		h->silent_since_ms = MAX(now_ms, UINT64_C(1));
}

/* A decaying maximum: rises at once and falls with each faster answer. */
static uint64_t
health_slowest(uint64_t before_ms, uint64_t took_ms)
{
	return MAX(MAX(took_ms, UINT64_C(1)), before_ms - before_ms / 8);
}

void
health_heard(struct health *h, uint64_t took_ms)
{
	h->silent_since_ms = 0;
	h->unreachable = false;
	h->slow_ms = health_slowest(h->slow_ms, took_ms);
}

void
health_pulse(struct health *h, uint64_t took_ms)
{
	h->silent_since_ms = 0;
	h->unreachable = false;
	h->pulse_ms = health_slowest(h->pulse_ms, took_ms);
}

void
health_unreachable(struct health *h)
{
	h->unreachable = true;
}

bool
health_dead(const struct health *h, uint64_t now_ms)
{
	uint64_t takes_ms = 2 * (h->pulse_ms > 0 ? h->pulse_ms : h->slow_ms);
	uint64_t patience_ms =
		MIN(MAX(takes_ms, (uint64_t)HEALTH_DEAD_MS), (uint64_t)HEALTH_DEAD_SLOW_MS);

	return h->unreachable ||
		(h->silent_since_ms > 0 && now_ms >= h->silent_since_ms + patience_ms);
}

bool
health_alive(const struct health *h, uint64_t now_ms)
{
	return (h->slow_ms > 0 || h->pulse_ms > 0) && !health_dead(h, now_ms);
}

bool
health_lost(const struct health *h)
{
	return h->lost >= HEALTH_LOST_MAX;
}

bool
health_beaten(struct health *h, uint64_t now_ms)
{
	if (health_lost(h) || ++h->lost < HEALTH_LOST_MAX)
		return false;
	h->probe_at_ms = now_ms + HEALTH_PROBE_MS;
	return true;
}

bool
health_probe(struct health *h, uint64_t now_ms)
{
	if (!health_lost(h) || now_ms < h->probe_at_ms)
		return false;
	h->probe_at_ms = now_ms + HEALTH_PROBE_MS;
	return true;
}
