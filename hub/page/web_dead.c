#include "hub/page/web_dead.h"

#include <string.h>

#include "model/health.h"

struct asking {
	struct dead *of;
	struct question question;
	char *service, *node; /* NULL: this slot is free */
	uint64_t asked_ms;
};

struct dead {
	probes_ask_fn *ask;
	void *arg;
	struct asking asking[DEAD_AT_ONCE];
	struct dead_row rows[DEAD_KEPT]; /* sorted by service, then node */
	size_t n_rows;
	uint64_t next; /* number of the pair of node and service to continue with */
	/* milliseconds, summed over all nodes; a question costs DEAD_NODE_MS */
	uint64_t credit;
	uint64_t now_ms; /* of the last sweep */
};

/* --- results -------------------------------------------------------------------------------- */

/* The index of the pair, or where it would be inserted. */
static size_t
dead_place(const struct dead *d, const char *service, const char *node, bool *found)
{
	size_t low = 0, high = d->n_rows;

	*found = false;
	while (low < high && !*found) {
		size_t mid = (low + high) / 2;
		int order = strcmp(d->rows[mid].service, service);

		if (order == 0)
			order = strcmp(d->rows[mid].node, node);
		*found = order == 0;
		if (order < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return *found ? high : low;
}

static void
dead_drop_row(struct dead *d, size_t at)
{
	free(d->rows[at].service);
	free(d->rows[at].node);
	d->n_rows--;
	memmove(&d->rows[at], &d->rows[at + 1], (d->n_rows - at) * sizeof d->rows[0]);
}

static void
dead_note(struct dead *d, const struct asking *a, unsigned endpoints)
{
	bool found;
	size_t at = dead_place(d, a->service, a->node, &found);

	if (endpoints == 0 && found)
		dead_drop_row(d, at);
	if (endpoints == 0 || (!found && d->n_rows == DEAD_KEPT))
		return;
	if (!found) {
		memmove(&d->rows[at + 1], &d->rows[at], (d->n_rows - at) * sizeof d->rows[0]);
		d->rows[at] =
			(struct dead_row){.service = xstrdup(a->service), .node = xstrdup(a->node)};
		d->n_rows++;
	}
	d->rows[at].endpoints = endpoints;
	d->rows[at].heard_ms = d->rows[at].asked_ms = d->now_ms;
}

/* --- asking --------------------------------------------------------------------------------- */

static void
dead_end_asking(struct asking *a)
{
	question_drop(&a->question);
	free(take_ptr(&a->service));
	free(take_ptr(&a->node));
}

/* The list was written by our own code: a quote within a name would be escaped. */
static unsigned
dead_count(const char *list, const char *health)
{
	auto_free char *member = xasprintf("\"health\":\"%s\"", health);
	unsigned n = 0;

	while ((list = strstr(list, member)) != NULL) {
		list += strlen(member);
		n++;
	}
	return n;
}

static void
dead_on_answer(void *arg, int rc, const char *text, size_t len)
{
	struct asking *a = arg;
	struct health_said said;

	if (rc == 0) {
		if (health_read(&said, text, len, NULL) == 0)
			dead_note(a->of, a,
				dead_count(buf_str(&said.list), "ejected") +
					dead_count(buf_str(&said.list), "ill"));
		health_fini(&said);
	}
	dead_end_asking(a);
}

/* False: there is no free slot. */
static bool
dead_ask(struct dead *d, const char *service, const char *node)
{
	struct asking *a = d->asking;

	while (a < d->asking + DEAD_AT_ONCE && a->node != NULL)
		a++;
	if (a == d->asking + DEAD_AT_ONCE)
		return false;
	a->of = d;
	a->service = xstrdup(service);
	a->node = xstrdup(node);
	a->asked_ms = d->now_ms;
	a->question.answered = dead_on_answer;
	a->question.arg = a;
	if (d->ask(d->arg, node, service, &a->question) < 0)
		dead_end_asking(a); /* the node has just gone, or its agent is too old */
	return true;
}

/* Asks again about known dead endpoints, and drops results that are too old. */
static void
dead_ask_again(struct dead *d)
{
	for (size_t i = d->n_rows; i-- > 0;) {
		struct dead_row *row = &d->rows[i];

		if (d->now_ms - row->heard_ms > DEAD_KEEP_MS)
			dead_drop_row(d, i);
		else if (d->now_ms - row->asked_ms >= DEAD_AGAIN_MS &&
			dead_ask(d, row->service, row->node))
			row->asked_ms = d->now_ms;
	}
}

/* Asks every node once, each about another service; then each about the next one. */
static void
dead_ask_next(struct dead *d, const struct survey *s)
{
	const struct survey_node *nodes;
	const struct service_summary *const *services;
	uint64_t n_nodes = survey_nodes(s, &nodes), n_services = survey_services(s, &services);
	uint64_t pairs = n_nodes * n_services;

	for (uint64_t tried = 0; tried < pairs && d->credit >= DEAD_NODE_MS; tried++) {
		uint64_t node = d->next % pairs % n_nodes;
		const struct service_summary *service =
			services[(d->next % pairs / n_nodes + node) % n_services];

		if (nodes[node].connected && service->counts.ready > 0 &&
			!dead_ask(d, service->key, survey_text(s, nodes[node].name)))
			return;
		d->credit -= DEAD_NODE_MS;
		d->next++;
	}
}

void
dead_sweep(struct dead *d, const struct survey *s, uint64_t now_ms)
{
	const struct survey_node *nodes;
	uint64_t n = survey_nodes(s, &nodes),
		 past = d->now_ms == 0 ? DEAD_NODE_MS : now_ms - d->now_ms;

	d->now_ms = now_ms;
	d->credit = MIN(d->credit + n * past, (uint64_t)DEAD_AT_ONCE * DEAD_NODE_MS);
	for (size_t i = 0; i < DEAD_AT_ONCE; i++)
		if (d->asking[i].node != NULL && now_ms - d->asking[i].asked_ms >= DEAD_ASK_MS)
			dead_end_asking(&d->asking[i]);
	dead_ask_again(d);
	dead_ask_next(d, s);
}

size_t
dead_list(const struct dead *d, const struct dead_row **list)
{
	*list = d->rows;
	return d->n_rows;
}

/* --- life cycle ----------------------------------------------------------------------------- */

struct dead *
dead_new(probes_ask_fn *ask, void *arg)
{
	struct dead *d = xcalloc(1, sizeof *d);

	d->ask = ask;
	d->arg = arg;
	return d;
}

void
dead_forget(struct dead *d)
{
	for (size_t i = 0; i < DEAD_AT_ONCE; i++)
		if (d->asking[i].node != NULL)
			dead_end_asking(&d->asking[i]);
	while (d->n_rows > 0)
		dead_drop_row(d, d->n_rows - 1);
	d->now_ms = 0;
}

void
dead_free(struct dead **out)
{
	struct dead *d = take_ptr(out);

	if (d == NULL)
		return;
	dead_forget(d);
	free(d);
}
