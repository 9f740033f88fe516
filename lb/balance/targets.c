#include "lb/balance/targets.h"

#include <assert.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/tls/tls_session.h"
#include "model/backend_tls.h"

enum { BUCKETS = 256, FORGET_MS = 60000 };

/* Hash chains that do not grow: a worker uses few of the services, and a chain step is one
 * comparison. */
struct targets {
	uint64_t seed;
	struct shares *shares;
	struct tallies *tallies;
	size_t worker; /* its index */
	struct node ejected, checked;
	struct group *groups[BUCKETS];
	struct target *targets[BUCKETS];
};

struct targets *
targets_new(struct shares *shares, struct tallies *tallies, size_t worker)
{
	struct targets *ts = xcalloc(1, sizeof *ts);

	ts->shares = shares;
	ts->tallies = tallies;
	ts->worker = worker;
	list_init(&ts->ejected);
	list_init(&ts->checked);
	random_bytes(&ts->seed, sizeof ts->seed);
	return ts;
}

static uint64_t
place_hash(const struct in6_addr *ip, uint16_t port, uint64_t seed)
{
	char bytes[sizeof *ip + sizeof port];

	memcpy(bytes, ip, sizeof *ip);
	memcpy(bytes + sizeof *ip, &port, sizeof port);
	return hash64(bytes, sizeof bytes, seed);
}

static bool
is_at(const struct target *t, const struct in6_addr *ip, uint16_t port)
{
	return t->port == port && memcmp(&t->ip, ip, sizeof t->ip) == 0;
}

static struct target **
place_of(struct targets *ts, uint64_t owner, const struct in6_addr *ip, uint16_t port)
{
	struct target **at = &ts->targets[place_hash(ip, port, ts->seed) % BUCKETS];

	while (*at != NULL && ((*at)->owner != owner || !is_at(*at, ip, port)))
		at = &(*at)->next;
	return at;
}

struct target *
targets_find(struct targets *ts, uint64_t owner, const struct in6_addr *ip, uint16_t port)
{
	return *place_of(ts, owner, ip, port);
}

struct target *
targets_next(
	struct targets *ts, const struct target *after, const struct in6_addr *ip, uint16_t port)
{
	struct target *t =
		after != NULL ? after->next : ts->targets[place_hash(ip, port, ts->seed) % BUCKETS];

	while (t != NULL && !is_at(t, ip, port))
		t = t->next;
	return t;
}

/* With a reference. Consistent hashing needs the same order on every node and worker, so its hash
 * has no seed. What is known of an endpoint with two addresses counts where it has both. */
static struct target *
target_get(struct targets *ts, uint64_t owner, const struct endpoint *e, struct backend_tls *tls)
{
	struct target **end, *t;

	if (!IN6_IS_ADDR_UNSPECIFIED(&e->other))
		owner ^= hash64(&e->other, sizeof e->other, 0);
	if (tls != NULL)
		owner = hash64(&tls->digest, sizeof tls->digest, owner);
	end = place_of(ts, owner, &e->ip, e->port);
	if ((t = *end) != NULL)
		return target_ref(t);
	t = xcalloc(1, sizeof *t);
	t->all = ts;
	t->owner = owner;
	t->ip = e->ip;
	t->shown = endpoint_ip(e);
	t->other = e->other;
	t->port = e->port;
	t->tls = backend_tls_ref(tls);
	t->node.hash = place_hash(&e->ip, e->port, 0);
	t->refs = 1;
	list_init(&t->idle);
	list_init(&t->h2);
	list_init(&t->h2_waiting);
	list_init(&t->ejected);
	*end = t;
	return t;
}

struct target *
target_ref(struct target *t)
{
	t->refs++;
	return t;
}

struct addr
target_addr(const struct target *t, bool other)
{
	const struct endpoint e = {.ip = other ? t->other : t->ip, .port = t->port};

	return endpoint_addr(&e);
}

bool
target_is_far(const struct target *t)
{
	return endpoint_is_far(&t->ip);
}

const char *
target_text(const struct target *t, bool other, char to[ADDR_TEXT_MAX])
{
	const struct endpoint e = {.ip = target_shown(t, other), .port = t->port};

	return endpoint_text(&e, to);
}

void
target_unref(struct target **out)
{
	struct target *t = take_ptr(out), **at;

	if (t == NULL || --t->refs > 0)
		return;
	assert(list_empty(&t->idle) && t->node.in_flight == 0);
	at = place_of(t->all, t->owner, &t->ip, t->port);
	*at = t->next;
	list_del(&t->ejected);
	shares_put(t->all->shares, &t->node.shared);
	tls_session_free(&t->session);
	backend_tls_unref(&t->tls);
	free(t->tls_why);
	free(t);
}

static bool
is_checked(const struct target *t, const struct service *s)
{
	return s->health_path[0] != '\0' && !target_is_far(t);
}

/* From now on all workers share the state of this endpoint. */
static void
targets_share(struct target *t, const struct service *s)
{
	struct shares *shares = t->all->shares;
	const struct addr a = target_addr(t, false), other = target_addr(t, true);

	if (t->node.shared == NULL) {
		t->node.shared =
			shares_get(shares, t->owner, &a, target_has_other(t) ? &other : NULL);
		shared_count(t->node.shared, (int)t->node.in_flight);
	}
	if (is_checked(t, s))
		shares_check(shares, t->node.shared, s, t->tls);
}

static void
group_clear(struct group *g)
{
	for (size_t i = 0; i < balance_count(&g->balance); i++) {
		struct target *t = container_of(g->balance.nodes[i], struct target, node);

		if (is_checked(t, g->service))
			shares_uncheck(t->all->shares, t->node.shared);
		target_unref(&t);
	}
	balance_fini(&g->balance);
	list_del(&g->checked);
	g->port_of = NULL;
	service_unref(&g->service);
}

/* The endpoints that can be dialled, by tier. Unknown endpoints that are added to existing ones get
 * a slow start. */
static struct balance_node **
targets_collect(struct targets *ts, const struct group *g, const struct service *s,
	const struct service_port *p, uint16_t ends[BALANCE_TIERS])
{
	bool beside = balance_count(&g->balance) > 0;
	const unsigned most = service_port_most(p, g->key.local);
	struct balance_node **nodes = xcalloc(most + 1u, sizeof *nodes);
	bool shared = s->lb.max_connections > 0 || s->health_path[0] != '\0';
	uint64_t owner = shares_owner(ts->shares, s);
	uint16_t n = 0;

	for (int tier = 0; tier < BALANCE_TIERS; tier++) {
		for (size_t i = 0; i < most; i++) {
			struct target *t;

			if (p->endpoints[i].tier != tier ||
				endpoint_is_closed(&p->endpoints[i], g->key.closed) ||
				(g->key.local && (p->endpoints[i].flags & ENDPOINT_LOCAL) == 0))
				continue;
			t = target_get(ts, owner, &p->endpoints[i], p->tls);
			t->outlier_ms = s->lb.outlier_ms;
			if (beside && t->refs == 1)
				t->node.back_ms = BALANCE_NEW;
			if (shared)
				targets_share(t, s);
			nodes[n++] = &t->node;
		}
		ends[tier] = n;
	}
	return nodes;
}

/* The address may belong to another service now: open connections count there from now on. */
static void
group_count(struct targets *ts, struct group *g, const struct service *s)
{
	if (g->tally != NULL && service_stats_is_of(g->tally, s))
		return;
	if (g->tally != NULL)
		service_stats_add(&g->cell->closed, g->refs);
	service_stats_put(ts->tallies, &g->tally);
	g->tally = service_stats_get(ts->tallies, s, ts->worker, &g->cell);
	service_stats_add(&g->cell->connections, g->refs);
}

static void
group_fill(
	struct targets *ts, struct group *g, const struct service *s, const struct service_port *p)
{
	uint16_t ends[BALANCE_TIERS];
	struct balance_node **nodes = targets_collect(ts, g, s, p, ends);

	/* The old references are released only now, so that targets in both sets keep their
	 * state. */
	group_clear(g);
	balance_init(&g->balance, nodes, ends);
	g->service = service_ref(s);
	g->port_of = p;
	if (s->health_path[0] != '\0')
		list_add_before(&ts->checked, &g->checked);
	group_count(ts, g, s);
}

void
targets_refresh(struct targets *ts, struct group *g, const struct snapshot *s, uint64_t epoch)
{
	const struct service *service;
	const struct service_port *port;

	if (g->epoch == (uint32_t)epoch)
		return;
	g->epoch = (uint32_t)epoch;
	service = snapshot_find_ip(s, g->key.ip);
	if (service != NULL && service == g->service)
		return;
	port = service != NULL ? service_port_find(service, g->key.port, false) : NULL;
	if (port == NULL)
		group_clear(g);
	else
		group_fill(ts, g, service, port);
}

void
targets_follow(struct targets *ts, const struct snapshot *s, uint64_t epoch)
{
	for (struct node *n = ts->checked.next, *next; n != &ts->checked; n = next) {
		next = n->next;
		targets_refresh(ts, container_of(n, struct group, checked), s, epoch);
	}
}

static struct group *
targets_get(
	struct targets *ts, const struct snapshot *s, uint64_t epoch, const struct group_key *key)
{
	const uint32_t place[2] = {key->ip, key->port};
	struct group **bucket = &ts->groups[hash64(place, sizeof place, ts->seed) % BUCKETS], *g;

	for (g = *bucket; g != NULL; g = g->next) {
		if (g->key.ip == key->ip && g->key.port == key->port &&
			g->key.local == key->local && g->key.closed == key->closed)
			break;
	}
	if (g == NULL) {
		const struct service *service = snapshot_find_ip(s, key->ip);

		if (service == NULL || service_port_find(service, key->port, false) == NULL)
			return NULL;
		g = xcalloc(1, sizeof *g);
		g->key = *key;
		list_init(&g->checked);
		g->next = *bucket;
		*bucket = g;
	}
	targets_refresh(ts, g, s, epoch);
	return g->port_of != NULL ? g : NULL;
}

struct group *
targets_group(
	struct targets *ts, const struct snapshot *s, uint64_t epoch, const struct group_key *key)
{
	struct group *g = targets_get(ts, s, epoch, key);

	if (g == NULL)
		return NULL;
	g->refs++;
	service_stats_add(&g->cell->connections, 1);
	return g;
}

struct group *
targets_hold(
	struct targets *ts, const struct snapshot *s, uint64_t epoch, const struct group_key *key)
{
	struct group *g = targets_get(ts, s, epoch, key);

	return g != NULL ? group_hold(g) : NULL;
}

void
group_release(struct group **out, uint64_t now_ms)
{
	struct group *g = take_ptr(out);

	if (g == NULL)
		return;
	g->holds--;
	g->used_ms = now_ms;
}

void
group_unref(struct group **out, uint64_t now_ms)
{
	struct group *g = take_ptr(out);

	if (g == NULL)
		return;
	g->refs--;
	service_stats_add(&g->cell->closed, 1);
	g->used_ms = now_ms;
}

static void
sweep_bucket(struct targets *ts, struct group **at, uint64_t now_ms, bool all)
{
	while (*at != NULL) {
		struct group *g = *at;

		if (g->service != NULL)
			service_note_use(g->service, g->refs + g->holds > 0 ? now_ms : g->used_ms);
		if (!all && (g->refs + g->holds > 0 || now_ms - g->used_ms < FORGET_MS)) {
			at = &g->next;
			continue;
		}
		assert(g->refs == 0 && g->holds == 0);
		*at = g->next;
		group_clear(g);
		service_stats_put(ts->tallies, &g->tally);
		free(g);
	}
}

bool
targets_sweep(struct targets *ts, uint64_t now_ms)
{
	bool left = false;

	for (size_t i = 0; i < BUCKETS; i++) {
		sweep_bucket(ts, &ts->groups[i], now_ms, false);
		left |= ts->groups[i] != NULL;
	}
	return left;
}

void
targets_free(struct targets **out)
{
	struct targets *ts = take_ptr(out);

	if (ts == NULL)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		sweep_bucket(ts, &ts->groups[i], 0, true);
	for (size_t i = 0; i < BUCKETS; i++)
		assert(ts->targets[i] == NULL);
	free(ts);
}

const char *
group_tls_wrong(const struct group *g)
{
	const struct backend_tls *tls = g->port_of != NULL ? g->port_of->tls : NULL;

	return tls != NULL && *tls->wrong != '\0' ? tls->wrong : NULL;
}

struct target *
group_pick(struct group *g, const struct balance_ask *ask)
{
	struct balance_node *n = balance_pick(&g->balance, ask);

	return n == NULL ? NULL : container_of(n, struct target, node);
}

struct target *
group_find(struct group *g, const struct balance_ask *ask,
	bool (*wanted)(const void *arg, uint64_t hash), const void *arg)
{
	for (size_t i = 0; i < balance_count(&g->balance); i++) {
		struct balance_node *n = g->balance.nodes[i];

		if (wanted(arg, n->hash))
			return balance_usable(ask, n) ? container_of(n, struct target, node) : NULL;
	}
	return NULL;
}

struct node *
targets_ejected(struct targets *ts)
{
	return &ts->ejected;
}

void
targets_each(struct targets *ts, void (*fn)(void *arg, const struct group *g), void *arg)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		for (const struct group *g = ts->groups[i]; g != NULL; g = g->next)
			fn(arg, g);
	}
}
