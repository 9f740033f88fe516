#include "dns/forward/client_quota.h"

#include <assert.h>

#include "base/core/hash.h"

void
client_quota_init(struct client_quota *s, uint64_t seed)
{
	*s = (struct client_quota){.seed = seed};
}

struct cells {
	uint16_t *at[2];
};

static struct cells
cells_of(struct client_quota *s, uint64_t client)
{
	uint64_t hash = hash64(&client, sizeof client, s->seed);

	return (struct cells){{&s->rows[0][hash % CLIENT_QUOTA_ROW],
		&s->rows[1][(hash >> 32) % CLIENT_QUOTA_ROW]}};
}

bool
client_quota_take(struct client_quota *s, uint64_t client)
{
	struct cells c = cells_of(s, client);

	if (s->n >= CLIENT_QUOTA_TOTAL || MIN(*c.at[0], *c.at[1]) >= CLIENT_QUOTA_CLIENT)
		return false;
	s->n++;
	++*c.at[0];
	++*c.at[1];
	return true;
}

void
client_quota_give(struct client_quota *s, uint64_t client)
{
	struct cells c = cells_of(s, client);

	assert(s->n > 0 && *c.at[0] > 0 && *c.at[1] > 0);
	s->n--;
	--*c.at[0];
	--*c.at[1];
}
