#include "lb/shared.h"

#include <assert.h>
#include <string.h>

#include "base/hash.h"

void
shares_init(struct shares *all)
{
	pthread_mutex_init(&all->lock, NULL);
	random_bytes(&all->seed, sizeof all->seed);
	all->first = NULL;
	atomic_init(&all->n_checks, 0);
}

void
shares_fini(struct shares *all)
{
	assert(all->first == NULL);
	pthread_mutex_destroy(&all->lock);
}

static bool
same(const struct addr *a, const struct addr *b)
{
	return a->len == b->len && memcmp(&a->sa, &b->sa, a->len) == 0;
}

uint64_t
shares_owner(const struct shares *all, const char *ns)
{
	return hash64(ns, strlen(ns), all->seed);
}

struct shared *
shares_get(struct shares *all, uint64_t owner, const struct addr *a)
{
	struct shared *s;

	pthread_mutex_lock(&all->lock);
	for (s = all->first; s != NULL && (s->owner != owner || !same(&s->addr, a));)
		s = s->next;
	if (s == NULL) {
		s = xcalloc(1, sizeof *s);
		s->addr = *a;
		s->owner = owner;
		random_bytes(&s->seed, sizeof s->seed);
		s->next = all->first;
		all->first = s;
	}
	s->refs++;
	pthread_mutex_unlock(&all->lock);
	return s;
}

static void
drop(struct shares *all, struct shared *s)
{
	struct shared **at = &all->first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	if (s->path != NULL)
		atomic_fetch_sub(&all->n_checks, 1);
	free(s->host);
	free(s->path);
	free(s);
}

void
shares_put(struct shares *all, struct shared **out)
{
	struct shared *s = take_ptr(out);

	if (s == NULL)
		return;
	pthread_mutex_lock(&all->lock);
	if (--s->refs == 0)
		drop(all, s);
	pthread_mutex_unlock(&all->lock);
}

void
shares_check(struct shares *all, struct shared *s, const char *host, const char *path,
	uint32_t interval_ms)
{
	pthread_mutex_lock(&all->lock);
	if (s->path == NULL) {
		s->host = xstrdup(host);
		s->path = xstrdup(path);
		s->interval_ms = interval_ms > 0 ? interval_ms : HEALTH_INTERVAL_MS;
		atomic_fetch_add(&all->n_checks, 1);
	}
	pthread_mutex_unlock(&all->lock);
}
