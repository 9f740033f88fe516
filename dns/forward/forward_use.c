#include "dns/forward/forward_private.h"

#include <string.h>

unsigned
forward_index(const struct forward *f, const struct upstream *u)
{
	unsigned i = 0;

	while (f->up[i] != u)
		i++;
	return i;
}

/* This address's counters, or reused ones of an upstream that is gone. */
static struct upstream_count *
counters_for(struct forward *f, const struct addr *a, const struct addr *upstreams, size_t n)
{
	uint64_t key = upstream_key(a);

	for (size_t i = 0; i < FORWARD_UPSTREAMS_MAX; i++) {
		if (f->count->up[i].key == key)
			return &f->count->up[i];
	}
	for (size_t i = 0; i < FORWARD_UPSTREAMS_MAX; i++) {
		struct upstream_count *c = &f->count->up[i];
		bool used = false;

		for (size_t k = 0; k < n; k++)
			used |= c->key == upstream_key(&upstreams[k]);
		for (size_t k = 0; k < f->n; k++)
			used |= f->up[k]->count == c;
		if (used)
			continue;
		atomic_store(&c->key, key);
		c->queries = c->failures = c->timeouts = c->latency_us = 0;
		c->errors = c->good_ms = 0;
		return c;
	}
	return NULL;
}

static bool
same_upstreams(const struct forward *f, const struct addr *upstreams, size_t n)
{
	for (size_t i = 0; i < n && n == f->n; i++) {
		if (!upstream_is(f->up[i], &upstreams[i]))
			return false;
	}
	return n == f->n;
}

static struct upstream *
take_old(struct upstream *old[FORWARD_UPSTREAMS_MAX], size_t n, const struct addr *a)
{
	for (size_t i = 0; i < n; i++) {
		if (old[i] != NULL && upstream_is(old[i], a))
			return take_ptr(&old[i]);
	}
	return NULL;
}

/* Upstreams that stay keep their health and their pending queries. */
static void
forward_use_replace(struct forward *f, const struct addr *upstreams, size_t n)
{
	struct upstream *old[FORWARD_UPSTREAMS_MAX];
	size_t n_old = f->n;

	memcpy(old, f->up, sizeof old);
	f->n = 0;
	for (size_t i = 0; i < n_old; i++) {
		bool stays = false;

		for (size_t k = 0; k < n; k++)
			stays |= upstream_is(old[i], &upstreams[k]);
		if (!stays)
			upstream_free(&old[i]);
	}
	for (size_t i = 0; i < n; i++) {
		struct upstream *u = take_old(old, n_old, &upstreams[i]);

		if (u != NULL ||
			upstream_new(&u, f->loop, &upstreams[i], f->mark,
				counters_for(f, &upstreams[i], upstreams, n)) == 0)
			f->up[f->n++] = u;
	}
}

static void
mark_asked(struct question *q)
{
	q->asked = 0;
	q->bad = false;
	for (const struct ask *a = q->asks; a != NULL; a = a->next)
		q->asked |= 1u << forward_index(q->f, a->u);
}

bool
forward_use(struct forward *f, const struct addr *upstreams, size_t n)
{
	n = MIN(n, (size_t)FORWARD_UPSTREAMS_MAX);
	if (same_upstreams(f, upstreams, n))
		return false;
	forward_use_replace(f, upstreams, n);
	for (struct question *q = f->questions; q != NULL; q = q->next)
		mark_asked(q);
	for (struct question *q = f->questions, *next; q != NULL; q = next) {
		next = q->next;
		forward_go_on(q);
	}
	forward_beat_within(f, 0);
	return true;
}
