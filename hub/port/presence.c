#include "hub/port/presence.h"

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/core/hash.h"
#include "model/table.h"

struct presence_entry {
	struct table_node node;
	TAILQ_ENTRY(presence_entry) away; /* while it is away */
	bool connected;
	/* who reported it last; NULL: this hub, or a connection that was lost since */
	const void *from;
	int64_t since_ms;
	uint64_t conn;
	char *at; /* "": this hub */
	char *address, *version, *words;
	char name[];
};

struct presence {
	struct table entries;
	TAILQ_HEAD(presence_list, presence_entry) away; /* in order of leaving, oldest first */
	struct presence_entry
		/* the entry inserted last or, once that is gone, its successor; NULL: none */
		*entered;
	size_t n_away, n_elsewhere;
	uint64_t conns; /* connections of this hub so far */
};

static uint64_t
presence_hash(const char *node)
{
	return hash64(node, strlen(node), 'e');
}

static struct presence_entry *
presence_entry_of(const struct presence *p, const char *node)
{
	struct table_node *n = table_first(&p->entries, presence_hash(node));

	for (; n != NULL; n = table_next(n)) {
		struct presence_entry *e = container_of(n, struct presence_entry, node);

		if (strcmp(e->name, node) == 0)
			return e;
	}
	return NULL;
}

/* Removes the entry from the list and count of its state, before the state changes. */
static void
presence_leave_state(struct presence *p, struct presence_entry *e)
{
	if (!e->connected) {
		if (p->entered == e)
			p->entered = TAILQ_NEXT(e, away);
		TAILQ_REMOVE(&p->away, e, away);
		p->n_away--;
	} else if (e->at[0] != '\0') {
		p->n_elsewhere--;
	}
}

static void
presence_drop(struct presence *p, struct presence_entry *e)
{
	presence_leave_state(p, e);
	table_remove(&p->entries, &e->node);
	free(e->at);
	free(e->address);
	free(e->version);
	free(e->words);
	free(e);
}

/*
 * Replicas report past disconnections, thousands of nodes at once, each replica in its own order.
 * So the search for a position starts at the entry inserted last: from the end, each insertion
 * would walk past all nodes that left later, by this clock or by another.
 */
static struct presence_entry *
presence_find_before(const struct presence *p, int64_t since_ms)
{
	struct presence_entry *at = TAILQ_LAST(&p->away, presence_list), *next;

	if (at == NULL || at->since_ms <= since_ms)
		return at;
	if (p->entered != NULL)
		at = p->entered;
	while (at != NULL && at->since_ms > since_ms)
		at = TAILQ_PREV(at, presence_list, away);
	while (at != NULL && (next = TAILQ_NEXT(at, away)) != NULL && next->since_ms <= since_ms)
		at = next;
	return at;
}

static void
presence_enter_away(struct presence *p, struct presence_entry *e)
{
	struct presence_entry *before = presence_find_before(p, e->since_ms);

	if (before != NULL)
		TAILQ_INSERT_AFTER(&p->away, before, e, away);
	else
		TAILQ_INSERT_HEAD(&p->away, e, away);
	p->entered = e;
	if (++p->n_away > PRESENCE_AWAY_MAX)
		presence_drop(p, TAILQ_FIRST(&p->away));
}

static void
presence_set_text(char **text, const char *to, size_t most)
{
	if (to[0] == '\0' && *text != NULL)
		return; /* the previous value is still informative */
	free(*text);
	*text = xstrndup(to, most);
}

/* NULL: there are too many. */
static struct presence_entry *
presence_make(struct presence *p, const char *node)
{
	struct presence_entry *e;
	size_t len = strlen(node) + 1;

	if (p->entries.n >= PRESENCE_NODES_MAX && TAILQ_EMPTY(&p->away))
		return NULL;
	if (p->entries.n >= PRESENCE_NODES_MAX)
		presence_drop(p, TAILQ_FIRST(&p->away));
	e = xcalloc(1, sizeof *e + len);
	memcpy(e->name, node, len);
	table_add(&p->entries, &e->node, presence_hash(node));
	return e;
}

static void
presence_set(struct presence *p, const void *from, const char *at, const struct presence_row *row)
{
	struct presence_entry *e = presence_entry_of(p, row->node);

	if (e != NULL)
		presence_leave_state(p, e);
	else if ((e = presence_make(p, row->node)) == NULL)
		return;
	e->from = from;
	e->since_ms = row->since_ms;
	e->connected = row->connected;
	e->conn = row->conn;
	free(e->at);
	e->at = xstrdup(at);
	presence_set_text(&e->address, row->address, PRESENCE_ADDRESS_MAX);
	presence_set_text(&e->version, row->version, PRESENCE_VERSION_MAX);
	free(e->words);
	e->words = xstrndup(row->connected ? "" : row->words, PRESENCE_WORDS_MAX);
	if (!e->connected)
		presence_enter_away(p, e);
	else
		p->n_elsewhere += e->at[0] != '\0';
}

struct presence *
presence_new(void)
{
	struct presence *p = xcalloc(1, sizeof *p);

	TAILQ_INIT(&p->away);
	return p;
}

void
presence_free(struct presence **out)
{
	struct presence *p = take_ptr(out);
	struct table_node *n;
	size_t slot = 0;

	if (p == NULL)
		return;
	while ((n = table_walk(&p->entries, &slot, NULL)) != NULL)
		presence_drop(p, container_of(n, struct presence_entry, node));
	table_fini(&p->entries);
	free(p);
}

uint64_t
presence_here(struct presence *p, const struct presence_row *row)
{
	struct presence_row here = *row;

	here.connected = true;
	here.conn = ++p->conns;
	presence_set(p, NULL, "", &here);
	return here.conn;
}

bool
presence_gone(
	struct presence *p, const char *node, uint64_t conn, const char *words, int64_t now_ms)
{
	const struct presence_entry *e = presence_entry_of(p, node);

	if (e == NULL || !e->connected || e->conn != conn)
		return false;
	presence_set(p, NULL, "",
		&(struct presence_row){.node = node,
			.address = "",
			.version = "",
			.words = words,
			.since_ms = now_ms});
	return true;
}

void
presence_heard(struct presence *p, const void *from, const char *at, const struct presence_row *row,
	bool now)
{
	const struct presence_entry *e = presence_entry_of(p, row->node);
	bool its_own = e != NULL && e->connected && e->at[0] != '\0' && strcmp(e->at, at) == 0;

	/* A node that is connected here or to a third replica stays so, even if another replica saw
	 * a connection of it end. */
	if (e != NULL && e->connected && !row->connected && !its_own)
		return;
	/* Only a node's own replica reports that the node is connected, and reports the present:
	 * that overrides a report that it has gone, whatever the times are. */
	if (e != NULL && !its_own && !(row->connected && (now || !e->connected)) &&
		e->since_ms > row->since_ms)
		return;
	presence_set(p, from, at, row);
}

void
presence_lost(struct presence *p, const void *from, const char *words, int64_t now_ms)
{
	struct table_node *n = NULL;
	size_t slot = 0, n_lost = 0;
	auto_free struct presence_entry **lost = xcalloc(p->entries.n + 1, sizeof *lost);

	while ((n = table_walk(&p->entries, &slot, n)) != NULL) {
		struct presence_entry *e = container_of(n, struct presence_entry, node);

		if (e->from != from)
			continue;
		e->from = NULL;
		if (e->connected)
			lost[n_lost++] = e;
	}
	for (size_t i = 0; i < n_lost && i < PRESENCE_AWAY_MAX; i++) {
		presence_leave_state(p, lost[i]);
		lost[i]->connected = false;
		lost[i]->since_ms = now_ms;
		free(lost[i]->words);
		lost[i]->words = xstrndup(words, PRESENCE_WORDS_MAX);
		presence_enter_away(p, lost[i]);
	}
	for (size_t i = PRESENCE_AWAY_MAX; i < n_lost; i++)
		presence_drop(p, lost[i]);
}

void
presence_hand_over(struct presence *p, const void *from, const void *to)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&p->entries, &slot, n)) != NULL) {
		struct presence_entry *e = container_of(n, struct presence_entry, node);

		if (e->from == from)
			e->from = to;
	}
}

void
presence_forget(struct presence *p, const char *node)
{
	struct presence_entry *e = presence_entry_of(p, node);

	if (e != NULL)
		presence_drop(p, e);
}

static struct presence_row
presence_row_of(const struct presence_entry *e)
{
	return (struct presence_row){
		.node = e->name,
		.at = e->at,
		.address = e->address,
		.version = e->version,
		.words = e->words,
		.since_ms = e->since_ms,
		.conn = e->conn,
		.connected = e->connected,
	};
}

bool
presence_find(const struct presence *p, const char *node, struct presence_row *to)
{
	const struct presence_entry *e = presence_entry_of(p, node);

	if (e != NULL)
		*to = presence_row_of(e);
	return e != NULL;
}

size_t
presence_elsewhere(const struct presence *p)
{
	return p->n_elsewhere;
}

void
presence_each(
	const struct presence *p, void (*fn)(void *arg, const struct presence_row *row), void *arg)
{
	const struct presence_entry *e;
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&p->entries, &slot, n)) != NULL) {
		struct presence_row row;

		e = container_of(n, struct presence_entry, node);
		row = presence_row_of(e);
		if (e->connected)
			fn(arg, &row);
	}
	TAILQ_FOREACH(e, &p->away, away) {
		struct presence_row row = presence_row_of(e);

		fn(arg, &row);
	}
}
