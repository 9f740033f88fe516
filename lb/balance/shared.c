#include "lb/balance/shared.h"

#include <assert.h>
#include <string.h>

#include "base/core/hash.h"
#include "model/backend_tls.h"

void
shares_init(struct shares *all)
{
	pthread_mutex_init(&all->lock, NULL);
	random_bytes(&all->seed, sizeof all->seed);
	all->first = NULL;
	atomic_init(&all->n_checks, 0);
	atomic_init(&all->news, false);
}

void
shares_fini(struct shares *all)
{
	assert(all->first == NULL);
	pthread_mutex_destroy(&all->lock);
}

static bool
shared_same(const struct addr *a, const struct addr *b)
{
	return a->len == b->len && memcmp(&a->sa, &b->sa, a->len) == 0;
}

uint64_t
shares_owner(const struct shares *all, const struct service *s)
{
	uint64_t ns = hash64(s->namespace, strlen(s->namespace), all->seed);

	return s->health_path[0] == '\0' && s->lb.outlier_5xx == 0
		? ns
		: hash64(s->name, strlen(s->name), ns);
}

struct shared *
shares_get(struct shares *all, uint64_t owner, const struct addr *a, const struct addr *other)
{
	struct shared *s;

	pthread_mutex_lock(&all->lock);
	for (s = all->first; s != NULL && (s->owner != owner || !shared_same(&s->addr, a));)
		s = s->next;
	if (s == NULL) {
		s = xcalloc(1, sizeof *s);
		s->addr = *a;
		if (other != NULL)
			s->other = *other;
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
shared_drop(struct shares *all, struct shared *s)
{
	struct shared **at = &all->first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	assert(s->path == NULL);
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
		shared_drop(all, s);
	pthread_mutex_unlock(&all->lock);
}

/* Sets the current check; the caller has the lock. path NULL: none. */
static void
set_check(struct shares *all, struct shared *s, const char *host, const char *path,
	struct backend_tls *tls)
{
	atomic_fetch_add(&all->n_checks, (unsigned)(path != NULL) - (unsigned)(s->path != NULL));
	free(s->host);
	free(s->path);
	backend_tls_unref(&s->tls);
	s->tls = backend_tls_ref(tls);
	s->host = path != NULL ? xstrdup(host) : NULL;
	s->path = path != NULL ? xstrdup(path) : NULL;
	s->check++;
	s->good = s->bad = 0;
	s->due_ms = 0;
	atomic_store(&s->ill, false);
	atomic_store(&all->news, true);
}

void
shares_check(struct shares *all, struct shared *s, const struct service *service,
	struct backend_tls *tls)
{
	uint32_t interval_ms = service->lb.health_interval_ms;

	pthread_mutex_lock(&all->lock);
	s->checkers++;
	if (s->path == NULL || strcmp(s->path, service->health_path) != 0)
		set_check(
			all, s, tls != NULL ? tls->host : service->name, service->health_path, tls);
	s->interval_ms = interval_ms > 0 ? interval_ms : HEALTH_INTERVAL_MS;
	pthread_mutex_unlock(&all->lock);
}

void
shares_uncheck(struct shares *all, struct shared *s)
{
	pthread_mutex_lock(&all->lock);
	assert(s->checkers > 0);
	if (--s->checkers == 0)
		set_check(all, s, NULL, NULL, NULL);
	pthread_mutex_unlock(&all->lock);
}
