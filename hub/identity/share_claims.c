#include "hub/identity/share_claims.h"

#include <errno.h>
#include <string.h>

struct share_claim {
	struct share_claim *next;
	char *node;
	struct share_wish wish; /* wish.node is `node` */
	bool written; /* part of the current write */
	bool renamed; /* the current write replaces the name's entry `before` */
	bool used; /* the current write uses the token */
	bool had_before;
	struct name_archive_entry before;
	share_claimed_fn *claimed;
	void *arg;
};

struct share_claim *
share_claims_add(struct share_claims *all, const struct share_wish *wish, share_claimed_fn *claimed,
	void *arg)
{
	struct share_claim *c = xcalloc(1, sizeof *c);

	c->node = xstrdup(wish->node);
	c->wish = *wish;
	c->wish.node = c->node;
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
	if (c->written) {
		c->claimed = NULL; /* the current write is undone if it fails */
		return;
	}
	*at = c->next;
	free(c->node);
	free(c);
}

bool
share_claims_pend(const struct share_claims *all, const char *node)
{
	const struct share_claim *c = all->first;

	while (c != NULL && (c->wish.recorded || strcmp(c->node, node) != 0))
		c = c->next;
	return c != NULL;
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
	if (claimed != NULL)
		claimed(arg, rc, why);
}

/* Undoes the claim: name and token are ours only once they have been written. */
static void
claim_withdraw(struct ledger *ledger, struct share_claim *c)
{
	struct name_archive *roll = ledger_roll(ledger);
	const struct name_archive_entry *e = name_archive_find(roll, c->node);
	bool ours = c->renamed && e != NULL && strcmp(e->serial, c->wish.entry.serial) == 0;

	if (ours && c->had_before)
		name_archive_put_back(roll, c->node, &c->before);
	else if (ours)
		name_archive_remove(roll, c->node);
	if (c->used)
		joins_withdraw(ledger_registry(ledger), &c->wish.join);
	c->written = c->renamed = c->used = false;
}

static const char *
claim_objection(const struct ledger *ledger, const struct share_wish *w, int *rc)
{
	const struct registry *registry = ledger_registry(ledger);
	enum ledger_holder holder;

	*rc = -EEXIST;
	if (w->free_name && name_archive_find(ledger_roll(ledger), w->node) != NULL)
		return "another replica of the hub has given this name a certificate";
	holder = w->own_name ? ledger_holder(ledger, w->node, w->entry.key) : LEDGER_FREE;
	if (holder == LEDGER_ANOTHER || holder == LEDGER_REVOKED)
		return "another replica of the hub has given this name to another key, or revoked "
		       "it";
	*rc = -EDQUOT;
	if (w->uses > 0 && !joins_has(registry, &w->join) &&
		joins_count(registry, w->join.token) >= w->uses)
		return "the token was used up meanwhile";
	return NULL;
}

static void
claim_mark(struct ledger *ledger, const struct share_claim *c, bool pending)
{
	if (c->renamed)
		name_archive_claim(ledger_roll(ledger), c->node, pending);
	if (c->used)
		joins_claim(ledger_registry(ledger), &c->wish.join, pending);
}

static void
claim_enter(struct ledger *ledger, struct share_claim *c)
{
	struct name_archive *roll = ledger_roll(ledger);
	const struct name_archive_entry *e = name_archive_last(roll, c->node);

	c->had_before = e != NULL;
	if (e != NULL)
		c->before = *e;
	name_archive_sign(roll, c->node, &c->wish.entry);
	c->renamed = true;
	c->used = c->wish.uses > 0 && joins_enter(ledger_registry(ledger), &c->wish.join);
	claim_mark(ledger, c, true);
}

void
share_claims_enter(struct share_claims *all, struct ledger *ledger)
{
	for (struct share_claim **at = &all->first; *at != NULL;) {
		struct share_claim *c = *at;
		const char *why;
		int rc;

		if (!c->wish.recorded && (why = claim_objection(ledger, &c->wish, &rc)) != NULL) {
			end_claim(at, rc, why);
			continue;
		}
		if (!c->wish.recorded)
			claim_enter(ledger, c);
		c->written = true;
		at = &c->next;
	}
}

void
share_claims_answer(struct share_claims *all, struct ledger *ledger, int rc, const char *why)
{
	bool used = false;

	if (rc < 0)
		for (struct share_claim *c = all->first; c != NULL; c = c->next)
			claim_withdraw(ledger, c);
	if (rc == -ESTALE)
		return;
	for (const struct share_claim *c = all->first; c != NULL; c = c->next) {
		used |= c->used && c->claimed == NULL;
		if (c->written)
			claim_mark(ledger, c, false);
	}
	/* The Secret has it; this copy is for a start without the API server. Who is still there
	 * records it with the certificate. */
	if (used)
		registry_keep_later(ledger_registry(ledger), REGISTRY_JOINS);
	for (struct share_claim **at = &all->first; *at != NULL;) {
		struct share_claim *c = *at;

		if (rc < 0 || c->written)
			end_claim(at, c->wish.recorded ? 0 : rc, why);
		else
			at = &c->next;
	}
}

void
share_claims_fini(struct share_claims *all)
{
	struct share_claim *c;

	while ((c = all->first) != NULL) {
		all->first = c->next;
		free(c->node);
		free(c);
	}
}
