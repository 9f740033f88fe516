#include "model/snapshot.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/core/hash.h"
#include "model/local_callers.h"
#include "model/shard.h"

/*
 * Three indexes, each split by hash into SHARDS parts: by name (its shards hold the references to
 * the services), by address and by namespace (borrowed pointers: a service is in the name index of
 * every snapshot that shares such a shard). An update copies the shards it changes, about 40
 * entries each at 10 000 services, and adds references to the rest.
 */
enum { SHARDS = 256 };

struct index {
	struct shard *shard[SHARDS];
};

struct snapshot {
	_Atomic unsigned refs;
	bool synced;
	uint64_t version;
	uint32_t first[SHARDS + 1]; /* services before each shard of by_name */
	struct index by_name, by_ip, by_ns;
	struct snapshot_counts counts;
	struct local_callers *callers; /* holds a reference */
};

/* Namespaces are counted, not listed: an entry's value is the number of services in it. */
static const void *
count_value(uintptr_t n)
{
	return (const void *)n;
}

static unsigned
shard_of(uint64_t hash)
{
	return (unsigned)(hash >> 56);
}

static uint64_t
hash_name(const char *ns, size_t ns_len, const char *name, size_t name_len)
{
	return hash64_nocase(name, name_len, hash64_nocase(ns, ns_len, 0));
}

static uint64_t
hash_ip(uint32_t ip)
{
	return ip * UINT64_C(0x9e3779b97f4a7c15);
}

/* 0: none. */
static uint64_t
hash_pod(uint32_t ip)
{
	return ip != 0 ? hash64(&ip, sizeof ip, 1) | 1 : 0;
}

static uint64_t
hash_ip6(const struct in6_addr *ip)
{
	return hash64(ip, sizeof *ip, 0) | 1;
}

static uint64_t
hash_port(uint16_t port)
{
	return hash64(&port, sizeof port, 0) | 1;
}

/* Low half: key within the shard. */
static uint32_t
key_of(uint64_t hash)
{
	return (uint32_t)(hash >> 16);
}

static bool
same_text(const char *a, const char *b, size_t b_len)
{
	return strlen(a) == b_len && strncasecmp(a, b, b_len) == 0;
}

static bool
snapshot_named(
	const struct service *s, const char *ns, size_t ns_len, const char *name, size_t name_len)
{
	return same_text(s->name, name, name_len) && same_text(s->namespace, ns, ns_len);
}

struct snapshot *
snapshot_new(bool synced)
{
	struct snapshot *s = xcalloc(1, sizeof *s);

	atomic_init(&s->refs, 1);
	s->synced = synced;
	return s;
}

struct snapshot *
snapshot_ref(const struct snapshot *s)
{
	struct snapshot *counted = (struct snapshot *)(uintptr_t)s;

	atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
	return counted;
}

static void
name_shard_unref(struct shard *shard)
{
	if (!shard_unref(shard))
		return;
	for (uint32_t i = 0; i < shard->n; i++) {
		struct service *s = (struct service *)(uintptr_t)shard->values[i];

		service_unref(&s);
	}
	shard_free(shard);
}

static void
borrowing_shard_unref(struct shard *shard)
{
	if (shard_unref(shard))
		shard_free(shard);
}

void
snapshot_unref(struct snapshot **s)
{
	struct snapshot *gone = take_ptr(s);

	if (gone == NULL || atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < SHARDS; i++) {
		borrowing_shard_unref(gone->by_ip.shard[i]);
		borrowing_shard_unref(gone->by_ns.shard[i]);
		name_shard_unref(gone->by_name.shard[i]);
	}
	local_callers_unref(&gone->callers);
	free(gone);
}

/* --- update --------------------------------------------------------------------------------- */

/* One entry to add to (value) or take from (gone) an index. */
struct step {
	uint64_t hash;
	size_t order; /* keeps qsort stable */
	const void *add, *gone;
	int delta; /* by_ns */
};

struct steps {
	struct step *list;
	size_t n;
};

static void
add_step(struct steps *s, struct step step)
{
	step.order = s->n;
	s->list[s->n++] = step;
}

static int
compare_steps(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	if (shard_of(x->hash) != shard_of(y->hash))
		return shard_of(x->hash) < shard_of(y->hash) ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static uint32_t
edit_find(const struct shard_edit *e, uint32_t key, const void *value)
{
	uint32_t i = 0;

	while (i < e->n && (e->keys[i] != key || e->values[i] != value))
		i++;
	assert(i < e->n);
	return i;
}

static void
apply_pointer(struct shard_edit *e, const struct step *step)
{
	if (step->gone != NULL)
		shard_edit_remove(e, edit_find(e, key_of(step->hash), step->gone));
	if (step->add != NULL)
		shard_edit_add(e, key_of(step->hash), step->add);
}

static void
apply_count(struct shard_edit *e, const struct step *step)
{
	uint32_t key = key_of(step->hash), i = 0;
	uintptr_t n;

	while (i < e->n && e->keys[i] != key)
		i++;
	n = (i < e->n ? (uintptr_t)e->values[i] : 0) + (uintptr_t)(intptr_t)step->delta;
	if (i == e->n)
		shard_edit_add(e, key, count_value(n));
	else if (n == 0)
		shard_edit_remove(e, i);
	else
		e->values[i] = count_value(n);
}

/* Makes new shards for those that the steps change. `holds`: values are services that the shard
 * references. */
static void
apply_steps(struct index *index, struct steps *steps, bool holds,
	void (*apply)(struct shard_edit *e, const struct step *step))
{
	qsort(steps->list, steps->n, sizeof *steps->list, compare_steps);
	for (size_t i = 0; i < steps->n;) {
		unsigned at = shard_of(steps->list[i].hash);
		struct shard *old = index->shard[at];
		struct shard_edit e;

		shard_edit_open(&e, old);
		for (; i < steps->n && shard_of(steps->list[i].hash) == at; i++)
			apply(&e, &steps->list[i]);
		for (uint32_t k = 0; holds && k < e.n; k++)
			service_ref(e.values[k]);
		index->shard[at] = shard_edit_close(&e);
		if (holds)
			name_shard_unref(old);
		else
			borrowing_shard_unref(old);
	}
}

static const struct service *
snapshot_find_hashed(const struct snapshot *s, uint64_t hash, const char *ns, size_t ns_len,
	const char *name, size_t name_len)
{
	const struct shard *shard = s->by_name.shard[shard_of(hash)];
	uint32_t at = UINT32_MAX;
	const void *value;

	while (shard_next(shard, key_of(hash), &at, &value))
		if (snapshot_named(value, ns, ns_len, name, name_len))
			return value;
	return NULL;
}

static void
ip_step(struct steps *steps, const struct service *s, uint64_t hash, bool add)
{
	if (hash != 0)
		add_step(steps,
			(struct step){.hash = hash, .add = add ? s : NULL, .gone = add ? NULL : s});
}

static void
ip_steps(struct steps *steps, const struct service *s, bool add)
{
	const uint64_t hashes[] = {hash_ip(s->fake_ip),
		s->cluster_ip != s->fake_ip ? hash_ip(s->cluster_ip) : 0,
		IN6_IS_ADDR_UNSPECIFIED(&s->cluster_ip6) ? 0 : hash_ip6(&s->cluster_ip6),
		hash_pod(s->pod_ip)};

	for (size_t i = 0; i < ARRAY_LEN(hashes); i++)
		ip_step(steps, s, hashes[i], add);
	for (size_t i = 0; i < s->n_external_ips; i++)
		ip_step(steps, s, hash_ip6(&s->external_ips[i]), add);
	for (size_t i = 0; i < s->n_ports; i++) {
		const struct service_port *p = &s->ports[i];

		if (p->node_port != 0)
			ip_step(steps, s, hash_port(p->node_port), add);
		if (s->gateway && !p->extra)
			ip_step(steps, s, hash_port(p->port), add);
	}
}

/* How many steps ip_steps adds at most. */
static size_t
ip_steps_most(const struct service *s)
{
	return s == NULL ? 0 : 4 + s->n_external_ips + 2 * (size_t)s->n_ports;
}

/* A change with its name's hash, to find the last of several changes of one name. */
struct plan {
	uint64_t hash;
	size_t order;
	const struct change *change;
};

static int
compare_plans(const void *a, const void *b)
{
	const struct plan *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool
same_name(const struct change *a, const struct change *b)
{
	return strcasecmp(a->name, b->name) == 0 && strcasecmp(a->ns, b->ns) == 0;
}

/* Is there a later change of the same name? (Equal hashes are adjacent, in order.) */
static bool
snapshot_superseded(const struct plan *plans, size_t n, size_t i)
{
	for (size_t k = i + 1; k < n && plans[k].hash == plans[i].hash; k++)
		if (same_name(plans[i].change, plans[k].change))
			return true;
	return false;
}

static struct plan *
make_plans(const struct change *changes, size_t n)
{
	struct plan *plans = xcalloc(n + 1, sizeof *plans);

	for (size_t i = 0; i < n; i++) {
		const struct change *c = &changes[i];
		uint64_t hash = hash_name(c->ns, strlen(c->ns), c->name, strlen(c->name));

		plans[i] = (struct plan){.hash = hash, .order = i, .change = c};
	}
	qsort(plans, n, sizeof *plans, compare_plans);
	return plans;
}

/* by: 1 or (size_t)-1. */
static void
count_service(struct snapshot_counts *c, const struct service *s, size_t by)
{
	if (s == NULL)
		return;
	c->restricted += s->restricted ? by : 0;
	c->external += service_is_external(s) ? by : 0;
	c->without_address += s->fake_ip == 0 ? by : 0;
	c->health_ports += s->health_port != 0 ? by : 0;
	for (unsigned p = 0; p < s->n_ports; p++)
		for (unsigned i = 0; i < s->ports[p].n_refused; i++)
			c->refused[service_port_refused(&s->ports[p])[i].tier] += by;
}

static void
plan_steps(const struct snapshot *base, const struct plan *p, struct steps steps[3],
	struct snapshot *next)
{
	const struct change *c = p->change;
	size_t ns_len = strlen(c->ns);
	const struct service *old =
		snapshot_find_hashed(base, p->hash, c->ns, ns_len, c->name, strlen(c->name));

	if (old == NULL && c->service == NULL)
		return;
	count_service(&next->counts, old, (size_t)-1);
	count_service(&next->counts, c->service, 1);
	add_step(&steps[0], (struct step){.hash = p->hash, .add = c->service, .gone = old});
	if (old != NULL)
		ip_steps(&steps[2], old, false);
	if (c->service != NULL)
		ip_steps(&steps[2], c->service, true);
	if ((old == NULL) != (c->service == NULL))
		add_step(&steps[1],
			(struct step){.hash = hash64_nocase(c->ns, ns_len, 0),
				.delta = old == NULL ? 1 : -1});
}

static size_t
plan_ip_steps(const struct snapshot *base, const struct plan *plans, size_t n)
{
	size_t most = 0;

	for (size_t i = 0; i < n; i++) {
		const struct change *c = plans[i].change;

		most += ip_steps_most(c->service) +
			ip_steps_most(snapshot_find_hashed(base, plans[i].hash, c->ns,
				strlen(c->ns), c->name, strlen(c->name)));
	}
	return most;
}

static struct snapshot *
snapshot_share(const struct snapshot *base)
{
	struct snapshot *s = xmemdup(base, sizeof *base);

	atomic_init(&s->refs, 1);
	s->synced = true;
	s->version = base->version + 1;
	s->callers = local_callers_ref(base->callers);
	for (size_t i = 0; i < SHARDS; i++) {
		shard_ref(s->by_name.shard[i]);
		shard_ref(s->by_ip.shard[i]);
		shard_ref(s->by_ns.shard[i]);
	}
	return s;
}

struct snapshot *
snapshot_next(const struct snapshot *base, const struct change *changes, size_t n)
{
	struct snapshot *s = snapshot_share(base);
	struct plan *plans = make_plans(changes, n);
	size_t most = plan_ip_steps(base, plans, n);
	struct step *room = xcalloc(2 * n + most + 1, sizeof *room);
	struct steps steps[3] = {{room, 0}, {room + n, 0}, {room + 2 * n, 0}};

	for (size_t i = 0; i < n; i++)
		if (!snapshot_superseded(plans, n, i))
			plan_steps(base, &plans[i], steps, s);
	apply_steps(&s->by_name, &steps[0], true, apply_pointer);
	apply_steps(&s->by_ns, &steps[1], false, apply_count);
	apply_steps(&s->by_ip, &steps[2], false, apply_pointer);
	for (size_t i = 0; i < SHARDS; i++)
		s->first[i + 1] =
			s->first[i] + (s->by_name.shard[i] != NULL ? s->by_name.shard[i]->n : 0);
	/* The index has references of its own; we own those in `changes`. */
	for (size_t i = 0; i < n; i++) {
		struct service *given = changes[i].service;

		service_unref(&given);
	}
	free(room);
	free(plans);
	return s;
}

struct snapshot *
snapshot_with_callers(const struct snapshot *base, struct local_callers *callers)
{
	struct snapshot *s = snapshot_share(base);

	s->synced = base->synced;
	local_callers_unref(&s->callers);
	s->callers = callers;
	return s;
}

/* --- reading -------------------------------------------------------------------------------- */

const struct local_callers *
snapshot_callers(const struct snapshot *s)
{
	return s->callers;
}

const struct snapshot_counts *
snapshot_counts(const struct snapshot *s)
{
	return &s->counts;
}

size_t
snapshot_refused(const struct snapshot *s)
{
	size_t n = 0;

	for (unsigned i = 0; i < SPECIAL_CLASSES; i++)
		n += s->counts.refused[i];
	return n;
}

bool
snapshot_synced(const struct snapshot *s)
{
	return s->synced;
}

uint64_t
snapshot_version(const struct snapshot *s)
{
	return s->version;
}

size_t
snapshot_count(const struct snapshot *s)
{
	return s->first[SHARDS];
}

const struct service *
snapshot_find(
	const struct snapshot *s, const char *ns, size_t ns_len, const char *name, size_t name_len)
{
	return snapshot_find_hashed(
		s, hash_name(ns, ns_len, name, name_len), ns, ns_len, name, name_len);
}

const struct service *
snapshot_find_ip(const struct snapshot *s, uint32_t ip)
{
	uint64_t hash = hash_ip(ip);
	uint32_t at = UINT32_MAX;
	const void *value;

	while (shard_next(s->by_ip.shard[shard_of(hash)], key_of(hash), &at, &value)) {
		const struct service *found = value;

		if (ip != 0 && (found->fake_ip == ip || found->cluster_ip == ip))
			return found;
	}
	return NULL;
}

const struct service *
snapshot_find_pod(const struct snapshot *s, uint32_t ip)
{
	const struct service *pod = NULL;
	uint64_t hash = hash_pod(ip);
	uint32_t at = UINT32_MAX;
	const void *value;

	while (shard_next(s->by_ip.shard[shard_of(hash)], key_of(hash), &at, &value)) {
		const struct service *found = value;

		if (ip == 0 || found->pod_ip != ip)
			continue;
		if (pod != NULL)
			return NULL;
		pod = found;
	}
	return pod;
}

const struct service *
snapshot_find_ip6(const struct snapshot *s, const struct in6_addr *ip)
{
	uint64_t hash = hash_ip6(ip);
	uint32_t at = UINT32_MAX;
	const void *value;

	while (shard_next(s->by_ip.shard[shard_of(hash)], key_of(hash), &at, &value)) {
		const struct service *found = value;

		if (ip_same(&found->cluster_ip6, ip))
			return found;
	}
	return NULL;
}

/* At the nodes' own addresses a NodePort comes before the port of a gateway: the API server gives
 * it to one Service alone, and a gateway's tenant chooses the port freely. */
static bool
snapshot_comes_first(
	const struct service *s, bool node_port, const struct service *than, bool its_node_port)
{
	int order = than == NULL ? -1 : strcmp(s->namespace, than->namespace);

	if (than != NULL && node_port != its_node_port)
		return node_port;
	return order < 0 || (order == 0 && strcmp(s->name, than->name) < 0);
}

const struct service *
snapshot_find_external(const struct snapshot *s, const struct in6_addr *ip, uint16_t port, bool udp,
	const struct service_port **p)
{
	uint64_t hash = ip != NULL ? hash_ip6(ip) : hash_port(port);
	const struct service *found = NULL;
	uint32_t at = UINT32_MAX;
	const void *value;

	while (shard_next(s->by_ip.shard[shard_of(hash)], key_of(hash), &at, &value)) {
		const struct service *one = value;
		const struct service_port *its = service_port_external(one, ip, port, udp);

		if (its != NULL &&
			snapshot_comes_first(one, ip == NULL && its->node_port == port, found,
				found != NULL && ip == NULL && (*p)->node_port == port)) {
			found = one;
			*p = its;
		}
	}
	return found == NULL && ip != NULL ? snapshot_find_external(s, NULL, port, udp, p) : found;
}

bool
snapshot_has_namespace(const struct snapshot *s, const char *ns, size_t ns_len)
{
	uint64_t hash = hash64_nocase(ns, ns_len, 0);
	uint32_t at = UINT32_MAX;
	const void *value;

	return shard_next(s->by_ns.shard[shard_of(hash)], key_of(hash), &at, &value);
}

/* The service of this name in a shard that may be NULL. */
static const struct service *
snapshot_namesake(const struct shard *shard, uint32_t key, const struct service *of)
{
	uint32_t at = UINT32_MAX;
	const void *value;

	while (shard_next(shard, key, &at, &value)) {
		const struct service *s = value;

		if (snapshot_named(
			    s, of->namespace, strlen(of->namespace), of->name, strlen(of->name)))
			return s;
	}
	return NULL;
}

void
snapshot_diff(
	const struct snapshot *base, const struct snapshot *s, snapshot_diff_fn *fn, void *arg)
{
	for (size_t i = 0; i < SHARDS; i++) {
		const struct shard *old = base != NULL ? base->by_name.shard[i] : NULL;
		const struct shard *now = s->by_name.shard[i];

		for (uint32_t k = 0; old != now && now != NULL && k < now->n; k++) {
			const struct service *before =
				snapshot_namesake(old, now->keys[k], now->values[k]);

			if (before != now->values[k])
				fn(arg, before, now->values[k]);
		}
		for (uint32_t k = 0; old != now && old != NULL && k < old->n; k++) {
			if (snapshot_namesake(now, old->keys[k], old->values[k]) == NULL)
				fn(arg, old->values[k], NULL);
		}
	}
}

const struct service *
snapshot_at(const struct snapshot *s, size_t i)
{
	size_t low = 0, high = SHARDS;

	assert(i < s->first[SHARDS]);
	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (s->first[middle] <= i)
			low = middle;
		else
			high = middle;
	}
	return s->by_name.shard[low]->values[i - s->first[low]];
}
