#include "hub/page/web_survey.h"

#include <string.h>

#include "base/core/util.h"

struct nodes_list {
	struct survey_node *at;
	size_t n, room;
	struct buf text; /* each ends with NUL; the first one is "" */
};

struct survey {
	struct nodes_list now, before;
	struct survey_totals totals;
	struct summary *summary;
	struct joined { /* joined nodes, with their state on disk */
		char *name;
		bool revoked;
	} * joined;
	size_t n_joined;
	uint64_t joined_changes, joined_ms;
	uint64_t taken_ms;
	uint64_t shift_ms; /* difference between the loop's clock and the time of day */
	const struct survey_sources *from; /* during survey_take */
};

/* --- nodes ---------------------------------------------------------------------------------- */

static uint32_t
web_survey_keep(struct nodes_list *l, const char *text)
{
	size_t at = buf_len(&l->text);

	if (text == NULL || text[0] == '\0')
		return 0;
	buf_add(&l->text, text, strlen(text) + 1);
	return (uint32_t)at;
}

static const char *
text_of(const struct nodes_list *l, uint32_t at)
{
	return buf_at(&l->text) + at;
}

static struct survey_node *
web_survey_add(struct nodes_list *l, const char *name)
{
	struct survey_node *n;

	if (l->n == l->room) {
		l->room = MAX(l->room * 2, (size_t)64);
		l->at = xrealloc(l->at, l->room * sizeof *l->at);
	}
	n = &l->at[l->n++];
	*n = (struct survey_node){.name = web_survey_keep(l, name)};
	return n;
}

static void
on_talk(void *arg, const struct node_session *talk)
{
	struct survey *s = arg;
	struct nodes_list *l = &s->now;
	struct node_session_facts f;
	struct survey_node *n;

	node_session_facts(talk, &f);
	n = web_survey_add(l, f.node);
	n->connected = true;
	n->site = web_survey_keep(l, f.site);
	n->zone = web_survey_keep(l, f.zone);
	n->version = web_survey_keep(l, f.version);
	n->address = web_survey_keep(l, f.address);
	n->since_ms = f.since_ms;
	n->pending = f.pending;
	n->unacked = f.unacked;
	n->unserved = (unsigned)(f.unserved + f.held);
	n->no_tunnel = f.no_tunnel;
	n->health = !f.synced || f.pending + f.unacked > 0 || n->unserved > 0 ? SURVEY_LAGS
		: f.no_tunnel                                                 ? SURVEY_GOOD
									      : SURVEY_BARE;
}

static void
on_tunnel(void *arg, const struct tunnel_facts *f)
{
	struct survey *s = arg;
	struct survey_node *n;

	s->totals.streams += f->stats->streams;
	if (f->standby)
		return;
	n = web_survey_add(&s->now, f->node);
	n->health = SURVEY_DOWN;
	n->tunnel = f->takes;
	n->epoch = f->epoch;
	n->tunnel_since_ms = f->since_ms + s->shift_ms;
	n->streams = f->stats->streams;
	n->rtt_ms = f->stats->rtt_ms;
	n->bytes_in = f->stats->bytes_in;
	n->bytes_out = f->stats->bytes_out;
	n->ends_s = f->ends_s;
}

static void
forget_joined(struct survey *s)
{
	for (size_t i = 0; i < s->n_joined; i++)
		free(s->joined[i].name);
	free(take_ptr(&s->joined));
	s->n_joined = 0;
}

static void
find_joined(struct survey *s, uint64_t now_ms)
{
	const struct certs *certs = s->from->certs;
	uint64_t changes = certs_changes(certs);
	char **names;

	if (s->joined_ms != 0 && changes == s->joined_changes &&
		now_ms - s->joined_ms < SURVEY_JOINED_MS)
		return;
	forget_joined(s);
	s->n_joined = certs_nodes(certs, &names);
	s->joined = xcalloc(s->n_joined + 1, sizeof *s->joined);
	for (size_t i = 0; i < s->n_joined; i++)
		s->joined[i] = (struct joined){names[i], certs_node_revoked(certs, names[i])};
	free(names);
	s->joined_changes = changes;
	s->joined_ms = now_ms;
}

static void
add_joined(struct survey *s, uint64_t now_ms)
{
	if (s->from->certs == NULL)
		return;
	find_joined(s, now_ms);
	for (size_t i = 0; i < s->n_joined; i++)
		web_survey_add(&s->now, s->joined[i].name)->health =
			s->joined[i].revoked ? SURVEY_REVOKED : SURVEY_DOWN;
}

/* Adds nodes that have joined only at another replica, if the replicas do not share a certificate
 * registry. */
static void
on_named(void *arg, const char *node)
{
	struct survey *s = arg;

	web_survey_add(&s->now, node)->health = SURVEY_DOWN;
}

/* By name; entries of one name: the connected one first, then the newest tunnel, then the revoked
 * one. */
static int
compare_nodes(const void *a, const void *b, void *list)
{
	const struct survey_node *x = a, *y = b;
	int order = strcmp(text_of(list, x->name), text_of(list, y->name));

	if (order == 0)
		order = y->connected - x->connected;
	if (order == 0)
		order = (y->epoch > x->epoch) - (y->epoch < x->epoch);
	return order != 0 ? order : x->health - y->health;
}

static void
take_tunnel(struct survey_node *to, const struct survey_node *from)
{
	if (to->epoch != 0 || from->epoch == 0)
		return;
	to->tunnel = from->tunnel;
	to->epoch = from->epoch;
	to->tunnel_since_ms = from->tunnel_since_ms;
	to->streams = from->streams;
	to->rtt_ms = from->rtt_ms;
	to->bytes_in = from->bytes_in;
	to->bytes_out = from->bytes_out;
	to->ends_s = from->ends_s;
}

/* Merges several entries of one name. */
static void
web_survey_merge(struct nodes_list *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		if (n > 0 && strcmp(text_of(l, l->at[n - 1].name), text_of(l, l->at[i].name)) == 0)
			take_tunnel(&l->at[n - 1], &l->at[i]);
		else
			l->at[n++] = l->at[i];
	}
	l->n = n;
}

/* The node is connected to another replica, or away. */
static void
look_for(struct survey *s, struct survey_node *n)
{
	struct presence_row row;

	if (s->from->nodes == NULL ||
		!nodes_presence(s->from->nodes, text_of(&s->now, n->name), &row))
		return;
	n->at = web_survey_keep(&s->now, row.at);
	n->version = web_survey_keep(&s->now, row.version);
	n->address = web_survey_keep(&s->now, row.address);
	n->words = web_survey_keep(&s->now, row.words);
	if (row.connected && row.at[0] != '\0' && n->health != SURVEY_REVOKED)
		n->health = SURVEY_ELSEWHERE;
	if (!row.connected)
		n->seen_ms = (uint64_t)row.since_ms;
}

static void
web_survey_judge(struct survey *s, struct survey_node *n)
{
	const char *site, *zone;

	if (!n->connected &&
		cluster_node(s->from->cluster, text_of(&s->now, n->name), &site, &zone) == 0) {
		n->site = web_survey_keep(&s->now, site);
		n->zone = web_survey_keep(&s->now, zone);
	}
	if (!n->connected)
		look_for(s, n);
	if (n->connected && n->health == SURVEY_BARE && n->tunnel)
		n->health = SURVEY_GOOD;
	if (!n->connected && peers_epoch(s->from->peers, text_of(&s->now, n->name)) != 0)
		n->health = SURVEY_ELSEWHERE; /* older replicas report only tunnels */
	if (n->health == SURVEY_LAGS)
		n->lags_since_ms = wall_ms();
	s->totals.health[n->health]++;
	s->totals.tunnels += n->tunnel;
}

static uint64_t
web_survey_rate(uint64_t now, uint64_t before, uint64_t ms)
{
	return now > before && ms > 0 ? (now - before) * 1000 / ms : 0;
}

/* Computes what needs the previous survey. Both lists are sorted by name. */
static void
find_rates(struct survey *s, uint64_t ms)
{
	const struct nodes_list *b = &s->before;
	size_t k = 0;

	for (size_t i = 0; i < s->now.n; i++) {
		struct survey_node *n = &s->now.at[i];
		const char *name = text_of(&s->now, n->name);

		while (k < b->n && strcmp(text_of(b, b->at[k].name), name) < 0)
			k++;
		if (k == b->n)
			break;
		if (strcmp(text_of(b, b->at[k].name), name) != 0)
			continue;
		if (n->lags_since_ms != 0 && b->at[k].lags_since_ms != 0)
			n->lags_since_ms = b->at[k].lags_since_ms;
		if (b->at[k].epoch != n->epoch)
			continue;
		n->rate_in = web_survey_rate(n->bytes_in, b->at[k].bytes_in, ms);
		n->rate_out = web_survey_rate(n->bytes_out, b->at[k].bytes_out, ms);
		s->totals.rate_in += n->rate_in;
		s->totals.rate_out += n->rate_out;
	}
}

static void
take_nodes(struct survey *s, uint64_t now_ms)
{
	struct nodes_list swap = s->before;

	s->before = s->now;
	s->now = swap;
	s->now.n = 0;
	buf_consume(&s->now.text, buf_len(&s->now.text));
	buf_add(&s->now.text, "", 1);
	s->shift_ms = wall_ms() - now_ms;
	if (s->from->nodes != NULL)
		nodes_each(s->from->nodes, on_talk, s);
	add_joined(s, now_ms);
	if (s->from->certs == NULL || !certs_shared(s->from->certs))
		peers_named(s->from->peers, on_named, s);
	tunnels_look(s->from->tunnels, on_tunnel, s);
	if (s->now.n > 1)
		qsort_r(s->now.at, s->now.n, sizeof *s->now.at, compare_nodes, &s->now);
	web_survey_merge(&s->now);
	for (size_t i = 0; i < s->now.n; i++)
		web_survey_judge(s, &s->now.at[i]);
	s->totals.nodes = s->now.n;
	find_rates(s, now_ms - s->taken_ms);
}

/* --- the survey ----------------------------------------------------------------------------- */

struct survey *
survey_new(void)
{
	struct survey *s = xcalloc(1, sizeof *s);

	s->summary = summary_new();
	buf_init(&s->now.text, BUF_UNLIMITED);
	buf_init(&s->before.text, BUF_UNLIMITED);
	buf_add(&s->now.text, "", 1);
	return s;
}

void
survey_free(struct survey **out)
{
	struct survey *s = take_ptr(out);

	if (s == NULL)
		return;
	summary_free(&s->summary);
	forget_joined(s);
	free(s->now.at);
	free(s->before.at);
	buf_fini(&s->now.text);
	buf_fini(&s->before.text);
	free(s);
}

static void
count_services(struct survey *s)
{
	const struct service_summary *const *list;

	s->totals.services = summary_list(s->summary, &list);
	for (size_t i = 0; i < s->totals.services; i++) {
		s->totals.idle += list[i]->counts.idle;
		s->totals.partly += service_is_partly(list[i]);
	}
}

void
survey_take(struct survey *s, const struct survey_sources *from, uint64_t now_ms)
{
	s->from = from;
	s->totals = (struct survey_totals){0};
	take_nodes(s, now_ms);
	summary_take(s->summary, from->fanout, from->cluster);
	count_services(s);
	s->taken_ms = now_ms;
	s->from = NULL;
}

uint64_t
survey_taken_ms(const struct survey *s)
{
	return s->taken_ms;
}

const struct survey_totals *
survey_totals(const struct survey *s)
{
	return &s->totals;
}

size_t
survey_nodes(const struct survey *s, const struct survey_node **list)
{
	*list = s->now.at;
	return s->now.n;
}

const struct survey_node *
survey_find(const struct survey *s, const char *name)
{
	size_t low = 0, high = s->now.n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		int order = strcmp(text_of(&s->now, s->now.at[mid].name), name);

		if (order == 0)
			return &s->now.at[mid];
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

const char *
survey_text(const struct survey *s, uint32_t at)
{
	return text_of(&s->now, at);
}

size_t
survey_services(const struct survey *s, const struct service_summary *const **list)
{
	return summary_list(s->summary, list);
}
