#include "meta/client/clock_skew.h"

#include <stdio.h>
#include <string.h>

#include "base/core/util.h"

void
clock_skew_told(struct clock_skew *t, uint64_t sent_ms)
{
	if (sent_ms == 0)
		return;
	t->known = true;
	t->wall_ms = wall_ms();
	t->ahead_ms = (int64_t)(sent_ms - t->wall_ms);
	t->told_ms = mono_ms();
}

int64_t
clock_skew_ahead_ms(const struct clock_skew *t)
{
	if (!t->known)
		return 0;
	return t->ahead_ms - (int64_t)(wall_ms() - t->wall_ms - (mono_ms() - t->told_ms));
}

void
clock_skew_change(struct clock_skew *t, const char *id, uint64_t sent_ms)
{
	int64_t way_ms = (int64_t)(wall_ms() - sent_ms) + t->ahead_ms;

	if (!t->known || sent_ms == 0 || t->followed[0] != '\0' || strlen(id) >= sizeof t->followed)
		return;
	snprintf(t->followed, sizeof t->followed, "%s", id);
	t->arrived_ms = mono_ms();
	t->way_ms = way_ms > 0 ? (uint64_t)way_ms : 0;
}

void
clock_skew_committed(struct clock_skew *t, const char *id)
{
	if (t->followed[0] == '\0' || strcmp(t->followed, id) != 0)
		return;
	t->lag_ms = t->way_ms + (mono_ms() - t->arrived_ms);
	t->changes++;
	t->followed[0] = '\0';
}

void
clock_skew_closed(struct clock_skew *t)
{
	t->followed[0] = '\0';
}
