/*
 * For a selector that matches no pod: which of its labels no pod has, and which pod is most
 * similar. A Service often exists before its pods, and pods come and go, so this is repeated for
 * services without pods, not done when they are joined. It runs on the hub's only event loop, and
 * tenants write the labels; so the limit is on work, not on pods: one unit is a pod visited, a
 * label searched, or a row of an edit distance, each some 100 ns.
 */
#include <stdio.h>
#include <string.h>

#include "model/cluster/cluster_private.h"

enum {
	NEAR_WORK_A_ROUND = 50000,
	NEAR_WORK_A_SERVICE = 50000, /* beyond it, the search stops */
	NEAR_LABELS = 32, /* of a pod, and of a selector */
	NEAR_TEXT_MAX = 64, /* values of labels have 63 bytes at most */
	NEAR_KEY_EDITS = 2,
	NEAR_NOTHING = UINT8_MAX, /* above all distances: no similar label */
};

/* The pod most similar to a selector. */
struct near_pod {
	const struct kube_object *pod; /* NULL: the namespace has none */
	const struct kube_label *want; /* the first label of the selector that it lacks */
	struct kube_label have; /* its similar label, borrowed; no value: none is similar */
	size_t matched;
	unsigned distance;
	const struct kube_object *taken; /* a pod that the selector matches; NULL: none */
	size_t n_taken;
	bool addressed; /* some matching pod has an address */
	size_t work; /* work done so far */
};

uint64_t
cluster_namespace_hash(const char *ns)
{
	return cluster_hash('s', ns, "", "");
}

/*
 * Edit distance: number of one-letter edits or swaps of adjacent letters in the first NEAR_TEXT_MAX
 * bytes (optimal string alignment); most + 1 when there are more than `most`. A cell further than
 * `most` from the diagonal needs more edits than that.
 */
static unsigned
near_distance(const char *a, const char *b, unsigned most, size_t *work)
{
	size_t n = strnlen(a, NEAR_TEXT_MAX), m = strnlen(b, NEAR_TEXT_MAX);
	uint8_t rows[3][NEAR_TEXT_MAX + 1]; /* of i modulo 3 */

	most = MIN(most, (unsigned)NEAR_TEXT_MAX);
	if (MAX(n, m) - MIN(n, m) > most)
		return most + 1;
	memset(rows, (int)most + 1, sizeof rows);
	for (size_t k = 0; k <= MIN(m, (size_t)most); k++)
		rows[0][k] = (uint8_t)k;
	for (size_t i = 1; i <= n; i++, ++*work) {
		uint8_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
		size_t first = i > most ? i - most : 1, last = MIN(m, i + most);
		unsigned least;

		row[first - 1] = (uint8_t)MIN(first == 1 ? i : most + 1, (size_t)most + 1);
		least = row[first - 1];
		for (size_t k = first; k <= last; k++) {
			unsigned edits = MIN(above[k], row[k - 1]) + 1u;

			edits = MIN(edits, above[k - 1] + (a[i - 1] != b[k - 1] ? 1u : 0u));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				edits = MIN(edits, before[k - 2] + 1u);
			row[k] = (uint8_t)MIN(edits, most + 1);
			least = MIN(least, (unsigned)row[k]);
		}
		if (last < m)
			row[last + 1] = (uint8_t)(most + 1);
		if (least > most)
			return most + 1;
	}
	return rows[n % 3][m];
}

/* Finds the same key with another value, else a label with a similar key; returns its distance if
 * that is at most `most`. */
static unsigned
near_label(const struct kube_labels *labels, const struct kube_label *want, unsigned most,
	struct kube_label *have, size_t *work)
{
	const char *value = kube_labels_find(labels, want->key);
	unsigned nearest = NEAR_NOTHING, edits;

	*have = (struct kube_label){want->key, (char *)(uintptr_t)value};
	if (value != NULL)
		return near_distance(value, want->value, most, work);
	for (size_t i = 0; i < MIN(labels->n, (size_t)NEAR_LABELS) && nearest > 0; i++) {
		const struct kube_label *one = &labels->list[i];
		unsigned left = MIN(most, nearest - 1);
		unsigned of_key = MIN(left, (unsigned)NEAR_KEY_EDITS);

		++*work;
		edits = near_distance(one->key, want->key, of_key, work);
		if (edits > of_key)
			continue;
		edits += near_distance(one->value, want->value, left - edits, work);
		if (edits <= left) {
			nearest = edits;
			*have = *one;
		}
	}
	return nearest;
}

/* The greatest label distance at which the pod still beats the best so far; < 0: it cannot. */
static int
near_most(const struct near_pod *best, const struct near_pod *at)
{
	if (best->pod == NULL || at->matched > best->matched)
		return NEAR_NOTHING;
	if (at->matched < best->matched)
		return -1;
	return (int)best->distance - (strcmp(at->pod->name, best->pod->name) > 0);
}

static void
near_compare(struct near_pod *best, const struct kube_labels *selector, const struct kube_object *o)
{
	struct near_pod at = {.pod = o};
	int most;

	best->work++;
	if (o->pod.ended)
		return;
	for (size_t i = 0; i < selector->n; i++) {
		const struct kube_label *want = &selector->list[i];
		const char *value = kube_labels_find(&o->pod.labels, want->key);

		best->work++;
		if (value != NULL && strcmp(value, want->value) == 0)
			at.matched++;
		else if (at.want == NULL)
			at.want = want;
		if (at.want != NULL && at.matched + selector->n - i - 1 < best->matched)
			return;
	}
	if (at.want == NULL) {
		best->n_taken++;
		best->addressed |= *o->pod.pod_ip != '\0';
		if (best->taken == NULL || strcmp(o->name, best->taken->name) < 0)
			best->taken = o;
		return;
	}
	most = near_most(best, &at);
	if (most < 0)
		return;
	at.distance = near_label(&o->pod.labels, at.want, MIN((unsigned)most, NEAR_NOTHING - 1u),
		&at.have, &best->work);
	if (at.distance > (unsigned)most)
		return;
	best->pod = at.pod;
	best->want = at.want;
	best->have = at.have;
	best->matched = at.matched;
	best->distance = at.distance;
}

static char *
near_text(const struct near_pod *best, const struct kube_labels *selector)
{
	const char *more = selector->n > 1 ? ",..." : "";
	const struct kube_label *first = &selector->list[0];

	if (best->taken != NULL)
		return xasprintf("its selector takes %zu pods, such as %s, %s", best->n_taken,
			best->taken->name,
			best->addressed ? "which its EndpointSlices do not name"
					: "but none of them has an address");
	if (best->pod == NULL)
		return xasprintf("its selector is %s=%s%s, but the namespace has no pods",
			first->key, first->value, more);
	if (best->matched > 0)
		return xasprintf("no pod has all labels of its selector; the nearest, %s, has "
				 "%s%s%s in place of %s=%s",
			best->pod->name, best->have.value != NULL ? best->have.key : "nothing",
			best->have.value != NULL ? "=" : "",
			best->have.value != NULL ? best->have.value : "", best->want->key,
			best->want->value);
	if (best->have.value == NULL)
		return xasprintf("no pod has a label of its selector, %s=%s%s", first->key,
			first->value, more);
	return xasprintf("no pod has the label %s=%s of its selector; the nearest, %s, has %s=%s",
		best->want->key, best->want->value, best->pod->name, best->have.key,
		best->have.value);
}

/* Returns the work done. */
static size_t
near_look(const struct cluster *c, struct joint *j)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, j->ns, j->name);
	struct told *told = &j->told[0];
	auto_free char *near = NULL, *text = NULL;
	struct near_pod best = {0};
	struct table_node *n;

	if (o == NULL || o->service.selector.n == 0 || j->n_told == 0)
		return 1;
	n = table_first(&c->pods_by_namespace, cluster_namespace_hash(j->ns));
	for (; n != NULL && best.work < NEAR_WORK_A_SERVICE; n = table_next(n)) {
		const struct record *r = link_record(n);

		if (strcmp(r->ns, j->ns) == 0)
			near_compare(&best, &o->service.selector, r->object);
	}
	near = near_text(&best, &o->service.selector);
	text = xasprintf("%.*s; %s", (int)told->reason_len, told->why.text, near);
	free(told->why.text);
	told->why.text = take_ptr(&text);
	return best.work + 1;
}

void
cluster_near_forget(struct cluster *c, struct joint *j)
{
	if (j->is_unmatched)
		TAILQ_REMOVE(&c->unmatched, j, unmatched);
	j->is_unmatched = false;
}

void
cluster_near_mark(struct cluster *c, struct joint *j)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, j->ns, j->name);

	cluster_near_forget(c, j);
	if (o == NULL || o->service.selector.n == 0 || o->service.selector.n > NEAR_LABELS ||
		j->n_told == 0 || j->told[0].why.problem != CLUSTER_NO_ENDPOINTS ||
		j->told[0].why.text == NULL)
		return;
	j->is_unmatched = true;
	TAILQ_INSERT_HEAD(&c->unmatched, j, unmatched);
}

void
cluster_look_near(struct cluster *c)
{
	struct joint *first = TAILQ_FIRST(&c->unmatched), *j = first;

	for (size_t work = 0; j != NULL && work < NEAR_WORK_A_ROUND;) {
		work += near_look(c, j);
		TAILQ_REMOVE(&c->unmatched, j, unmatched);
		TAILQ_INSERT_TAIL(&c->unmatched, j, unmatched);
		j = TAILQ_FIRST(&c->unmatched);
		if (j == first)
			break;
	}
}
