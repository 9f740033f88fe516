/* Nodes worth waiting for: those whose last tunnel broke a moment ago, and, just after the start of
 * the hub itself, those that have not come yet. */
#include <errno.h>
#include <string.h>

#include "base/core/hash.h"
#include "hub/replicas/tunnels_private.h"

struct tunnel_lost {
	struct tunnel_lost *next; /* chain of the bucket */
	uint64_t at_ms;
	int rc; /* of the tunnel's end */
	char node[];
};

static struct tunnel_lost **
lost_find(const struct tunnels *t, const char *node)
{
	struct tunnel_lost *const *at = &t->lost[hash64(node, strlen(node), 0) % TUNNELS_BUCKETS];

	while (*at != NULL && strcmp((*at)->node, node) != 0)
		at = &(*at)->next;
	return (struct tunnel_lost **)(uintptr_t)at;
}

void
tunnels_note_lost(struct tunnels *t, const char *node, int rc)
{
	struct tunnel_lost **at = lost_find(t, node), *l = *at;
	size_t size = strlen(node) + 1;

	if (l == NULL) {
		l = *at = xcalloc(1, sizeof *l + size);
		memcpy(l->node, node, size);
	}
	l->at_ms = loop_now_ms(t->setup.loop);
	l->rc = rc;
}

void
tunnels_forget_lost(struct tunnels *t, bool all)
{
	uint64_t now = loop_now_ms(t->setup.loop);

	for (size_t i = 0; i < TUNNELS_BUCKETS; i++)
		for (struct tunnel_lost **at = &t->lost[i], *l; (l = *at) != NULL;) {
			if (!all && now - l->at_ms < TUNNELS_LATELY_MS) {
				at = &l->next;
				continue;
			}
			*at = l->next;
			free(l);
		}
}

/* A node that left in good order may have been stopped for good, or is being restarted. */
static uint64_t
lost_expected_ms(const struct tunnel_lost *l, bool left)
{
	if (l->rc == -EPROTO || l->rc == -EDQUOT || l->rc == -EKEYREVOKED)
		return 0;
	if (l->rc == 0)
		return left ? TUNNELS_LEFT_MS : 0;
	return TUNNELS_LATELY_MS;
}

bool
tunnels_await(const struct tunnels *t, const char *node, bool left)
{
	const struct tunnel_lost *l = *lost_find(t, node);
	uint64_t now = loop_now_ms(t->setup.loop);

	if (left && tunnels_leaving(t, node))
		return true;
	if (l != NULL)
		return now - l->at_ms < lost_expected_ms(l, left);
	return t->started && now - t->started_ms < TUNNELS_LATELY_MS;
}
