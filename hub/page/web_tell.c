#include "hub/page/web_tell.h"

#include <string.h>

#include "base/core/log.h"
#include "model/json.h"

const char *
tell_health(enum survey_health health)
{
	static const char *const words[SURVEY_HEALTHS] = {
		[SURVEY_REVOKED] = "revoked",
		[SURVEY_DOWN] = "down",
		[SURVEY_LAGS] = "lags",
		[SURVEY_BARE] = "bare",
		[SURVEY_ELSEWHERE] = "elsewhere",
		[SURVEY_GOOD] = "good",
	};

	return words[health];
}

void
tell_healths(const size_t of[SURVEY_HEALTHS], struct buf *out)
{
	for (int i = 0; i < SURVEY_HEALTHS; i++)
		buf_printf(out, "%s\"%s\":%zu", i > 0 ? "," : "{",
			tell_health((enum survey_health)i), of[i]);
	buf_adds(out, "}");
}

/* --- for every viewer ----------------------------------------------------------------------- */

void
tell_top(const struct tell *t, struct buf *out)
{
	const struct survey_totals *n = survey_totals(t->survey);

	buf_printf(out,
		"{\"t\":\"top\",\"version\":\"" EDGEWAY_VERSION
		"\",\"started\":%llu,\"viewers\":%zu,\"ready\":%s,\"waits\":",
		(unsigned long long)t->started_ms, t->viewers, t->from->ready ? "true" : "false");
	json_add_text(out, t->from->waits);
	buf_printf(out, ",\"nodes\":%zu,\"health\":", n->nodes);
	tell_healths(n->health, out);
	buf_printf(out,
		",\"tunnels\":%zu,\"streams\":%zu,\"in\":%llu,\"out\":%llu,\"services\":%zu,"
		"\"idle\":%zu,\"partly\":%zu,\"port\":%u,\"requests\":%llu,\"refused\":%llu,"
		"\"peers\":",
		n->tunnels, n->streams, (unsigned long long)n->rate_in,
		(unsigned long long)n->rate_out, n->services, n->idle, n->partly, t->from->port,
		(unsigned long long)t->from->requests, (unsigned long long)t->from->refused);
	peers_state(t->from->peers, out);
	buf_adds(out, "}\n");
}

struct events {
	struct buf *out;
	size_t *seen;
	const char *comma;
};

static void
on_event(void *arg, const struct log_event *e)
{
	struct events *to = arg;

	if (e->nth < *to->seen)
		return;
	*to->seen = e->nth + 1;
	buf_printf(to->out,
		"%s{\"time\":\"%s\",\"level\":\"%s\",\"part\":\"%s\",\"event\":", to->comma,
		e->when, e->level, e->part);
	json_add_text(to->out, e->text);
	buf_adds(to->out, "}");
	to->comma = ",";
}

void
tell_events(size_t *seen, struct buf *out)
{
	struct events to = {out, seen, ""};

	if (log_recent_kept() == *seen)
		return;
	buf_adds(out, "{\"t\":\"events\",\"rows\":[");
	log_recent(on_event, &to);
	buf_adds(out, "]}\n");
}

/* --- lists ---------------------------------------------------------------------------------- */

void
tell_node_row(const struct survey *s, const struct survey_node *n, struct buf *out)
{
	buf_adds(out, "\"name\":");
	json_add_text(out, survey_text(s, n->name));
	buf_adds(out, ",\"site\":");
	json_add_text(out, survey_text(s, n->site));
	buf_adds(out, ",\"version\":");
	json_add_text(out, survey_text(s, n->version));
	buf_adds(out, ",\"address\":");
	json_add_text(out, survey_text(s, n->address));
	buf_adds(out, ",\"at\":");
	json_add_text(out, survey_text(s, n->at));
	buf_adds(out, ",\"words\":");
	json_add_text(out, survey_text(s, n->words));
	buf_printf(out,
		",\"health\":\"%s\",\"connected\":%s,\"tunnel\":%s,\"noTunnel\":%s,\"pending\":%u,"
		"\"unserved\":%u,\"streams\":%u,\"rtt\":%u,\"in\":%llu,\"out\":%llu,\"totalIn\":%"
		"llu,\"totalOut\":%llu,\"since\":%llu,\"seen\":%llu",
		tell_health((enum survey_health)n->health), n->connected ? "true" : "false",
		n->tunnel ? "true" : "false", n->no_tunnel ? "true" : "false",
		n->pending + n->unacked, n->unserved, n->streams, n->rtt_ms,
		(unsigned long long)n->rate_in, (unsigned long long)n->rate_out,
		(unsigned long long)n->bytes_in, (unsigned long long)n->bytes_out,
		(unsigned long long)n->since_ms, (unsigned long long)n->seen_ms);
}

/* Order of nodes when sorted by health: the most urgent first. */
static int
rank_of(const struct survey_node *n)
{
	static const uint8_t ranks[SURVEY_HEALTHS] = {
		[SURVEY_DOWN] = 0,
		[SURVEY_LAGS] = 1,
		[SURVEY_BARE] = 2,
		[SURVEY_GOOD] = 3,
		[SURVEY_ELSEWHERE] = 4,
		[SURVEY_REVOKED] = 5,
	};

	return ranks[n->health];
}

struct order {
	const struct survey *survey;
	const struct want *want;
};

static int
compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int
compare_nodes(const void *a, const void *b, void *arg)
{
	const struct survey_node *x = *(const struct survey_node *const *)a,
				 *y = *(const struct survey_node *const *)b;
	const struct order *o = arg;
	int order = 0;

	switch (o->want->sort) {
	case SORT_SITE:
		order = strcmp(survey_text(o->survey, x->site), survey_text(o->survey, y->site));
		break;
	case SORT_HEALTH:
		order = rank_of(x) - rank_of(y);
		break;
	case SORT_STREAMS:
		order = compare_numbers(x->streams, y->streams);
		break;
	case SORT_RTT:
		order = compare_numbers(x->rtt_ms, y->rtt_ms);
		break;
	case SORT_IN:
		order = compare_numbers(x->rate_in, y->rate_in);
		break;
	case SORT_OUT:
		order = compare_numbers(x->rate_out, y->rate_out);
		break;
	case SORT_SINCE:
		order = compare_numbers(x->since_ms, y->since_ms);
		break;
	default:
		break;
	}
	if (order == 0 && o->want->sort != SORT_NAME)
		return (x > y) - (x < y); /* in the order of the list: by name */
	if (order == 0)
		order = (x > y) - (x < y);
	return o->want->desc ? -order : order;
}

static bool
is_troubled(const struct survey_node *n)
{
	return n->health < SURVEY_ELSEWHERE && n->health != SURVEY_REVOKED;
}

static bool
wants_node(const struct tell *t, const struct want *w, const struct survey_node *n)
{
	const char *site = survey_text(t->survey, n->site);

	if ((w->troubled && !is_troubled(n)) || (w->has_site && strcmp(site, w->site) != 0))
		return false;
	return w->q[0] == '\0' || strstr(survey_text(t->survey, n->name), w->q) != NULL ||
		strstr(survey_text(t->survey, n->address), w->q) != NULL ||
		strstr(survey_text(t->survey, n->version), w->q) != NULL ||
		strstr(site, w->q) != NULL;
}

/* First row of the page: if it is past the end, that of the last page. */
static size_t
first_row(const struct want *w, size_t n)
{
	if (w->from < n)
		return w->from;
	return n > 0 ? (n - 1) / TELL_ROWS * TELL_ROWS : 0;
}

static void
tell_nodes(const struct tell *t, const struct want *want, struct buf *out)
{
	const struct survey_node *all;
	size_t total = survey_nodes(t->survey, &all), n = 0, from, of[SURVEY_HEALTHS] = {0};
	auto_free const struct survey_node **list = xcalloc(total + 1, sizeof *list);
	struct order order = {t->survey, want};

	for (size_t i = 0; i < total; i++)
		if (wants_node(t, want, &all[i])) {
			of[all[i].health]++;
			list[n++] = &all[i];
		}
	if (n > 1 && (want->sort != SORT_NAME || want->desc))
		qsort_r(list, n, sizeof *list, compare_nodes, &order);
	from = first_row(want, n);
	buf_printf(out, "{\"t\":\"nodes\",\"total\":%zu,\"from\":%zu,\"health\":", n, from);
	tell_healths(of, out);
	buf_adds(out, ",\"rows\":[");
	for (size_t i = from; i < MIN(n, from + TELL_ROWS); i++) {
		buf_adds(out, i > from ? ",{" : "{");
		tell_node_row(t->survey, list[i], out);
		buf_adds(out, "}");
	}
	buf_adds(out, "]}\n");
}

static const char *
reason_of(const struct tell *t, const struct service_summary *s)
{
	const char *slash = strchr(s->key, '/');
	auto_free char *ns = xstrndup(s->key, (size_t)(slash - s->key));

	return cluster_reason(t->from->cluster, ns, slash + 1);
}

static bool
is_troubled_service(const struct service_summary *s)
{
	return s->counts.idle || s->fault || service_is_partly(s);
}

/* As rank_of: no endpoint serves; something must be fixed; some do not serve; no problem. */
static int
rank_of_service(const struct service_summary *s)
{
	return s->counts.idle ? 0 : s->fault ? 1 : service_is_partly(s) ? 2 : 3;
}

static int
compare_services(const void *a, const void *b, void *arg)
{
	const struct service_summary *x = *(const struct service_summary *const *)a,
				     *y = *(const struct service_summary *const *)b;
	const struct want *w = arg;
	int order = 0;

	if (w->sort == SORT_HEALTH)
		order = rank_of_service(x) - rank_of_service(y);
	else if (w->sort == SORT_ENDPOINTS)
		order = x->counts.endpoints - y->counts.endpoints;
	else if (w->sort == SORT_READY)
		order = x->counts.ready - y->counts.ready;
	if (order == 0 && w->sort != SORT_NAME)
		return strcmp(x->key, y->key);
	if (order == 0)
		order = strcmp(x->key, y->key);
	return w->desc ? -order : order;
}

static void
add_service_row(const struct tell *t, const struct service_summary *s, struct buf *out)
{
	buf_adds(out, "{\"name\":");
	json_add_text(out, s->key);
	buf_printf(out,
		",\"ports\":%u,\"endpoints\":%u,\"ready\":%u,\"headless\":%s,\"external\":%s,"
		"\"idle\":%s,\"fault\":%s,\"reason\":",
		s->counts.ports, s->counts.endpoints, s->counts.ready,
		s->counts.headless ? "true" : "false", s->counts.external ? "true" : "false",
		s->counts.idle ? "true" : "false", s->fault ? "true" : "false");
	json_add_text(out, reason_of(t, s));
	buf_adds(out, "}");
}

static void
tell_services(const struct tell *t, const struct want *want, struct buf *out)
{
	const struct service_summary *const *all;
	size_t total = survey_services(t->survey, &all), n = 0, from;
	auto_free const struct service_summary **list = xcalloc(total + 1, sizeof *list);
	struct want order = *want;

	for (size_t i = 0; i < total; i++)
		if ((want->q[0] == '\0' || strstr(all[i]->key, want->q) != NULL) &&
			(!want->troubled || is_troubled_service(all[i])))
			list[n++] = all[i];
	if (n > 1 && (want->sort != SORT_NAME || want->desc))
		qsort_r(list, n, sizeof *list, compare_services, &order);
	from = first_row(want, n);
	buf_printf(out, "{\"t\":\"services\",\"total\":%zu,\"from\":%zu,\"rows\":[", n, from);
	for (size_t i = from; i < MIN(n, from + TELL_ROWS); i++) {
		buf_adds(out, i > from ? "," : "");
		add_service_row(t, list[i], out);
	}
	buf_adds(out, "]}\n");
}

void
tell_view(const struct tell *t, const struct want *want, struct buf *out)
{
	switch (want->view) {
	case WANT_OVERVIEW:
		tell_map(t, out);
		break;
	case WANT_NODES:
		tell_nodes(t, want, out);
		break;
	case WANT_SERVICES:
		tell_services(t, want, out);
		break;
	case WANT_NODE:
		tell_node(t, want, out);
		break;
	case WANT_SERVICE:
		tell_service(t, want, out);
		break;
	case WANT_EVENTS:
	case WANT_VIEWS:
		break;
	}
}
