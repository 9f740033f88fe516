#include "hub/share_claims.h"

#include <errno.h>
#include <string.h>

struct share_claim {
	struct share_claim *next;
	char *node;
	struct roll_entry entry;
	bool exclusive;
	bool written; /* is in the write under way */
	share_claimed_fn *claimed;
	void *arg;
};

struct share_claim *
share_claims_add(struct share_claims *all, const char *node, const struct roll_entry *entry,
	bool exclusive, share_claimed_fn *claimed, void *arg)
{
	struct share_claim *c = xcalloc(1, sizeof *c);

	c->node = xstrdup(node);
	c->entry = *entry;
	c->exclusive = exclusive;
	c->claimed = claimed;
	c->arg = arg;
	c->next = all->first;
	all->first = c;
	return c;
}

void
share_claims_remove(struct share_claims *all, struct share_claim **claim)
{
	struct share_claim *c = take_ptr(claim), **at = &all->first;

	if (c == NULL)
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	/* What is being written stays: the name may be given already, and a token made for it helps. */
	free(c->node);
	free(c);
}

static void
end_claim(struct share_claim **at, int rc, const char *why)
{
	struct share_claim *c = *at;
	share_claimed_fn *claimed = c->claimed;
	void *arg = c->arg;

	*at = c->next;
	free(c->node);
	free(c);
	claimed(arg, rc, why);
}

/* Its name is ours only when it has been written. */
static void
withdraw(struct roll *roll, struct share_claim *c)
{
	const struct roll_entry *e = roll_find(roll, c->node);

	if (c->exclusive && c->written && e != NULL && strcmp(e->serial, c->entry.serial) == 0)
		roll_remove(roll, c->node);
	c->written = false;
}

void
share_claims_enter(struct share_claims *all, struct roll *roll)
{
	for (struct share_claim **at = &all->first; *at != NULL;) {
		struct share_claim *c = *at;

		if (c->exclusive && roll_find(roll, c->node) != NULL) {
			end_claim(at, -EEXIST,
				"another replica of the hub has given this name a certificate");
			continue;
		}
		if (c->exclusive)
			roll_add(roll, c->node, &c->entry);
		c->written = true;
		at = &c->next;
	}
}

void
share_claims_answer(struct share_claims *all, struct roll *roll, int rc, const char *why)
{
	if (rc == -ESTALE) {
		for (struct share_claim *c = all->first; c != NULL; c = c->next)
			withdraw(roll, c);
		return;
	}
	for (struct share_claim **at = &all->first; *at != NULL;) {
		struct share_claim *c = *at;

		if (rc < 0)
			withdraw(roll, c);
		if (rc < 0 || c->written)
			end_claim(at, c->exclusive ? rc : 0, why);
		else
			at = &c->next;
	}
}

void
share_claims_fini(struct share_claims *all)
{
	while (all->first != NULL) {
		struct share_claim *c = all->first;

		share_claims_remove(all, &c);
	}
}
