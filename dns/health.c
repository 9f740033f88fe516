#include "dns/health.h"

void
health_asked(struct health *h, uint64_t now_ms)
{
	if (h->silent_since_ms == 0)
		h->silent_since_ms = MAX(now_ms, UINT64_C(1));
}

void
health_heard(struct health *h, uint64_t took_ms)
{
	uint64_t fading_ms = h->slow_ms - h->slow_ms / 8;

	h->silent_since_ms = 0;
	h->unreachable = false;
	h->slow_ms = MAX(MAX(took_ms, UINT64_C(1)), fading_ms);
}

void
health_unreachable(struct health *h)
{
	h->unreachable = true;
}

bool
health_dead(const struct health *h, uint64_t now_ms)
{
	bool quick = h->slow_ms > 0 && h->slow_ms < HEALTH_QUICK_MS;
	uint64_t patience_ms = quick ? HEALTH_DEAD_MS : HEALTH_DEAD_SLOW_MS;

	return h->unreachable ||
		(h->silent_since_ms > 0 && now_ms >= h->silent_since_ms + patience_ms);
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
