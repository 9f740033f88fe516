/*
 * Arena and index of a service's routes. The order of a table's matches alone decides; the index
 * only leaves out those that cannot fit: exact paths and prefixes are found by their hash, and of
 * many that differ by the value of a header field only those of the request's value are looked at.
 * Each chain has its matches in the table's order, so a search ends where a better match is known.
 */
#include "model/http_route.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/core/hash.h"
#include "model/http_route_private.h"

enum {
	BLOCK_BYTES = 4096,
	KEYS_MAX = 8, /* header fields whose value is part of a hash */
	DEPTH_MAX = ROUTE_PATH_MAX, /* elements of the longest prefix */
};

struct http_route_block {
	struct http_route_block *next;
	size_t used, size;
	/* bytes follow */
};

struct http_route_index {
	uint32_t *heads; /* of chains by hash: index of the match + 1; 0: none */
	size_t n_heads; /* a power of two */
	uint32_t unhashed; /* chain of expressions and of matches without a path */
	uint16_t depth; /* elements of its longest prefix */
	bool prefixes;
	uint8_t n_keys;
	struct http1_str keys[KEYS_MAX];
};

/* --- arena ---------------------------------------------------------------------------------- */

struct http_routes *
http_routes_new(void)
{
	struct http_routes *r = xcalloc(1, sizeof *r);

	atomic_init(&r->refs, 1);
	return r;
}

/* Only the reference count is mutable; all else is const for its holders. */
static struct http_routes *
route_counted(const struct http_routes *r)
{
	return (struct http_routes *)(uintptr_t)r;
}

struct http_routes *
http_routes_ref(const struct http_routes *r)
{
	if (r != NULL)
		atomic_fetch_add_explicit(&route_counted(r)->refs, 1, memory_order_relaxed);
	return route_counted(r);
}

void
http_routes_unref(struct http_routes **r)
{
	struct http_routes *gone = take_ptr(r);

	if (gone == NULL || atomic_fetch_sub_explicit(&gone->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < gone->n_lenders; i++)
		http_routes_unref(&gone->lenders[i]);
	for (size_t i = 0; i < gone->n_regexes; i++)
		route_regex_free(&gone->regexes[i]);
	while (gone->blocks != NULL) {
		struct http_route_block *b = gone->blocks;

		gone->blocks = b->next;
		free(b);
	}
	free(gone->lenders);
	free(gone->regexes);
	free(gone);
}

void
http_routes_borrow(struct http_routes *r, const struct http_routes *from)
{
	r->lenders = xrealloc(r->lenders, (r->n_lenders + 1) * sizeof(struct http_routes *));
	r->lenders[r->n_lenders++] = http_routes_ref(from);
}

void *
http_routes_alloc(struct http_routes *r, size_t n, size_t size)
{
	const size_t align = _Alignof(max_align_t);
	struct http_route_block *b = r->blocks;
	size_t bytes;

	assert(size > 0 && n <= (SIZE_MAX / 2) / size);
	bytes = (n * size + align - 1) / align * align;
	if (b == NULL || b->size - b->used < bytes) {
		size_t room = MAX(bytes, (size_t)BLOCK_BYTES);
		size_t head = (sizeof *b + align - 1) / align * align;

		b = xcalloc(1, head + room);
		b->used = head;
		b->size = head + room;
		b->next = r->blocks;
		r->blocks = b;
	}
	b->used += bytes;
	return (char *)b + b->used - bytes;
}

const char *
http_routes_text(struct http_routes *r, const char *text)
{
	size_t len = strlen(text) + 1;

	return len == 1 ? "" : memcpy(http_routes_alloc(r, len, 1), text, len);
}

size_t
http_match_regexes(const struct http_route_match *m)
{
	size_t n = m->kind == HTTP_MATCH_REGEX;

	for (size_t i = 0; i < m->n_headers; i++)
		n += m->headers[i].is_regex;
	for (size_t i = 0; i < m->n_params; i++)
		n += m->params[i].is_regex;
	return n;
}

/* --- hashes --------------------------------------------------------------------------------- */

/* A hash that grows byte by byte, so that one pass over a path gives those of all its prefixes. */
static uint64_t
route_hash_add(uint64_t hash, unsigned char c)
{
	return (hash ^ c) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t
route_hash_end(uint64_t hash, enum http_match_path kind)
{
	hash ^= (uint64_t)kind << 56;
	hash ^= hash >> 32;
	return hash * UINT64_C(0xd6e8feb86659fd93);
}

static uint64_t
route_hash_path(
	const struct http_routes *r, const char *path, size_t len, enum http_match_path kind)
{
	uint64_t hash = r->seed;

	for (size_t i = 0; i < len; i++)
		hash = route_hash_add(hash, (unsigned char)path[i]);
	return route_hash_end(hash, kind);
}

/* What a header field's value adds to the hash of a path; key: which field. */
static uint64_t
route_hash_value(const struct http_routes *r, const char *value, size_t len, size_t key)
{
	return hash64(value, len, r->seed + key + 1);
}

static size_t
route_slot(const struct http_route_index *x, uint64_t hash)
{
	return (size_t)(hash >> 20) & (x->n_heads - 1);
}

/* --- index ---------------------------------------------------------------------------------- */

/* The number of the field among the table's keys, from 1; 0: there are too many others. */
static size_t
route_key(struct http_route_index *x, const struct http_route_condition *c)
{
	for (size_t k = 0; k < x->n_keys; k++)
		if (x->keys[k].len == c->name_len &&
			strncasecmp(x->keys[k].at, c->name, c->name_len) == 0)
			return k + 1;
	if (x->n_keys == KEYS_MAX)
		return 0;
	x->keys[x->n_keys] = (struct http1_str){c->name, c->name_len};
	return ++x->n_keys;
}

static uint64_t
route_hash_match(
	const struct http_routes *r, struct http_route_index *x, const struct http_route_match *m)
{
	uint64_t hash = route_hash_path(r, m->path, m->path_len, (enum http_match_path)m->kind);

	for (size_t i = 0; i < m->n_headers; i++) {
		const struct http_route_condition *c = &m->headers[i];
		size_t key = c->is_regex ? 0 : route_key(x, c);

		if (key == 0)
			continue;
		return hash ^ route_hash_value(r, c->value, c->value_len, key - 1);
	}
	return hash;
}

static void
route_measure(struct http_route_index *x, const struct http_route_match *m)
{
	uint16_t depth = 0;

	if (m->kind != HTTP_MATCH_PREFIX)
		return;
	x->prefixes = true;
	for (size_t i = 0; i < m->path_len; i++)
		depth += m->path[i] == '/';
	x->depth = MAX(x->depth, depth);
}

/* From the last match to the first, so that each chain has them in the table's order. */
static void
route_index_table(struct http_routes *r, struct http_route_table *t)
{
	struct http_route_index *x = http_routes_alloc(r, 1, sizeof *x);

	for (x->n_heads = 4; x->n_heads < 2 * (size_t)t->n_matches;)
		x->n_heads *= 2;
	x->heads = http_routes_alloc(r, x->n_heads, sizeof *x->heads);
	for (uint32_t i = t->n_matches; i > 0; i--) {
		struct http_route_match *m = &t->matches[i - 1];
		uint32_t *head = &x->unhashed;

		if (m->kind == HTTP_MATCH_EXACT || m->kind == HTTP_MATCH_PREFIX)
			head = &x->heads[route_slot(x, route_hash_match(r, x, m))];
		route_measure(x, m);
		m->next = *head;
		*head = i;
	}
	t->index = x;
}

static const struct route_regex *
route_compile(struct http_routes *r, const char *text)
{
	struct route_regex *regex = route_regex_new(text, NULL);

	r->n_unknown += regex == NULL;
	if (regex == NULL)
		return NULL;
	r->regexes = xrealloc(r->regexes, (r->n_regexes + 1) * sizeof(struct route_regex *));
	r->regexes[r->n_regexes++] = regex;
	return regex;
}

/* The conditions are const for all but the one who builds them. */
static void
route_compile_conditions(struct http_routes *r, const struct http_route_condition *list, size_t n)
{
	struct http_route_condition *all = (struct http_route_condition *)(uintptr_t)list;

	for (size_t i = 0; i < n; i++)
		if (all[i].is_regex)
			all[i].regex = route_compile(r, all[i].value);
}

static void
route_compile_match(struct http_routes *r, struct http_route_match *m)
{
	if (m->kind == HTTP_MATCH_REGEX)
		m->regex = route_compile(r, m->path);
	route_compile_conditions(r, m->headers, m->n_headers);
	route_compile_conditions(r, m->params, m->n_params);
}

/* --- tables by port and namespace ----------------------------------------------------------- */

static bool
route_has_port(const struct http_route_table *t, uint16_t port)
{
	for (size_t i = 0; i < t->n_ports; i++)
		if (t->ports[i] == port)
			return true;
	return false;
}

static size_t
route_table_slot(const struct http_routes *r, uint16_t port, const char *ns)
{
	size_t slot = (size_t)hash64(ns, strlen(ns), r->seed ^ port) & (r->n_keys - 1);

	for (; r->by_key[slot] != 0; slot = (slot + 1) & (r->n_keys - 1)) {
		const struct http_route_table *t = &r->tables[r->by_key[slot] - 1];

		if (strcmp(t->ns, ns) == 0 && route_has_port(t, port))
			break;
	}
	return slot;
}

/* Of several tables for one port and namespace the first counts. */
static void
route_index_tables(struct http_routes *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_tables; i++)
		n += r->tables[i].n_ports;
	for (r->n_keys = 4; r->n_keys < 2 * n;)
		r->n_keys *= 2;
	r->by_key = http_routes_alloc(r, r->n_keys, sizeof *r->by_key);
	for (uint32_t i = 0; i < r->n_tables; i++) {
		const struct http_route_table *t = &r->tables[i];

		for (size_t p = 0; p < t->n_ports; p++) {
			size_t slot = route_table_slot(r, t->ports[p], t->ns);

			if (r->by_key[slot] == 0)
				r->by_key[slot] = i + 1;
		}
	}
}

void
http_routes_seal(struct http_routes *r)
{
	r->scoped = http_routes_scoped(r);
	random_bytes(&r->seed, sizeof r->seed);
	route_index_tables(r);
	for (size_t i = 0; i < r->n_tables; i++) {
		struct http_route_table *t = &r->tables[i];

		size_t first = r->n_regexes;

		for (size_t k = 0; k < t->n_matches; k++)
			route_compile_match(r, &t->matches[k]);
		for (size_t k = first; k < r->n_regexes; k++)
			route_regex_share(r->regexes[k], r->n_regexes - first);
		r->grpc |= t->grpc;
		route_index_table(r, t);
	}
}

/* --- the search ----------------------------------------------------------------------------- */

struct route_search {
	const struct http_routes *routes;
	const struct http_route_table *table;
	const struct http_route_query *query;
	uint32_t best; /* index of the best match so far; the table's n_matches: none */
	/* what the request's values of the table's keys add to a hash */
	uint64_t values[KEYS_MAX];
	size_t n_values;
};

static void
route_search_chain(struct route_search *s, uint32_t from)
{
	const struct http_route_match *matches = s->table->matches;

	for (uint32_t i = from; i != 0 && i - 1 < s->best; i = matches[i - 1].next) {
		if (!http_route_fits(&matches[i - 1], s->query))
			continue;
		s->best = i - 1;
		return;
	}
}

static void
route_search_hash(struct route_search *s, uint64_t hash)
{
	const struct http_route_index *x = s->table->index;

	route_search_chain(s, x->heads[route_slot(x, hash)]);
	for (size_t i = 0; i < s->n_values; i++)
		route_search_chain(s, x->heads[route_slot(x, hash ^ s->values[i])]);
}

static void
route_search_values(struct route_search *s)
{
	const struct http_route_index *x = s->table->index;
	char joined[ROUTE_VALUE_MAX];

	s->n_values = 0;
	for (size_t k = 0; k < x->n_keys; k++) {
		struct http1_str value = http_route_field(s->query->head, x->keys[k], joined);

		if (value.at != NULL)
			s->values[s->n_values++] =
				route_hash_value(s->routes, value.at, value.len, k);
	}
}

/* The longest prefixes come first: most of the time they are the better ones, and the search in the
 * other chains ends at once. */
static void
route_search_path(struct route_search *s)
{
	const struct http_route_index *x = s->table->index;
	struct http1_str path = s->query->path;
	uint64_t at[DEPTH_MAX + 1], hash = s->routes->seed;
	size_t n = 0;

	for (size_t i = 0; i < path.len; i++) {
		if (path.at[i] == '/' && x->prefixes && n <= x->depth && n <= DEPTH_MAX)
			at[n++] = hash;
		hash = route_hash_add(hash, (unsigned char)path.at[i]);
	}
	route_search_hash(s, route_hash_end(hash, HTTP_MATCH_EXACT));
	if (x->prefixes && path.len > 0)
		route_search_hash(s, route_hash_end(hash, HTTP_MATCH_PREFIX));
	while (n > 0)
		route_search_hash(s, route_hash_end(at[--n], HTTP_MATCH_PREFIX));
}

static const struct http_route_table *
route_find_table(const struct http_routes *r, const struct http_route_query *q)
{
	uint32_t found = 0;

	if (r == NULL || r->n_tables == 0)
		return NULL;
	if (*q->ns != '\0')
		found = r->by_key[route_table_slot(r, q->port, q->ns)];
	if (found == 0)
		found = r->by_key[route_table_slot(r, q->port, "")];
	return found != 0 ? &r->tables[found - 1] : NULL;
}

const struct http_route_rule *
http_routes_find(const struct http_routes *routes, const struct http_route_query *q,
	const struct http_route_match **match)
{
	static const struct http_route_rule none = {.route = "",
		.name = "",
		.status = 404,
		.request_ms = HTTP_ROUTE_MS_DEFAULT,
		.backend_ms = HTTP_ROUTE_MS_DEFAULT};
	const struct http_route_table *t = route_find_table(routes, q);
	struct route_search s;

	*match = NULL;
	if (t == NULL)
		return NULL;
	if (t->grpc && !q->grpc)
		return &none;
	s.routes = routes;
	s.table = t;
	s.query = q;
	s.best = t->n_matches;
	route_search_values(&s);
	route_search_path(&s);
	route_search_chain(&s, t->index->unhashed);
	if (s.best == t->n_matches)
		return &none;
	*match = &t->matches[s.best];
	return &routes->rules[t->matches[s.best].rule];
}

const struct http_route_rule *
http_routes_match(const struct http_routes *routes, const struct http_route_query *q)
{
	const struct http_route_match *match;

	return http_routes_find(routes, q, &match);
}

bool
http_routes_scoped(const struct http_routes *r)
{
	for (size_t i = 0; r != NULL && i < r->n_tables; i++)
		if (*r->tables[i].ns != '\0')
			return true;
	return false;
}
