/*
 * A selector that takes no pod: which of its labels no pod has, and which pod comes nearest. A Service is often there before
 * its pods, and pods come and go, so this is found again and again for those that have no pod, not when they are joined;
 * a round compares a bounded number of pods.
 */
#include <stdio.h>
#include <string.h>

#include "model/cluster_private.h"

enum {
	NEAR_PODS_A_ROUND = 20000,
	NEAR_PODS_A_SERVICE = 5000, /* of its namespace; what is beyond them is not looked at */
	NEAR_TEXT_MAX = 64, /* values of labels have 63 bytes at most */
	NEAR_KEY_EDITS = 2,
};

/* The pod that comes nearest to a selector. */
struct near_pod {
	const struct kube_object *pod; /* NULL: the namespace has none */
	const struct kube_label *want; /* the first label of the selector that it has not */
	const struct kube_label *have; /* in place of it; NULL: nothing like it */
	size_t matched;
	unsigned distance;
	const struct kube_object *taken; /* a pod that the selector takes; NULL: none */
	size_t n_taken;
	bool addressed; /* some of those have an address */
};

uint64_t
cluster_namespace_hash(const char *ns)
{
	return cluster_hash('s', ns, "", "");
}

/* Edits of one letter, or of two neighbours that are swapped, in the first NEAR_TEXT_MAX bytes (optimal string alignment). */
static unsigned
near_distance(const char *a, const char *b)
{
	size_t n = strnlen(a, NEAR_TEXT_MAX), m = strnlen(b, NEAR_TEXT_MAX);
	uint8_t rows[3][NEAR_TEXT_MAX + 1]; /* of i modulo 3 */

	for (size_t k = 0; k <= m; k++)
		rows[0][k] = (uint8_t)k;
	for (size_t i = 1; i <= n; i++) {
		uint8_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];

		row[0] = (uint8_t)i;
		for (size_t k = 1; k <= m; k++) {
			unsigned edits = MIN(above[k], row[k - 1]) + 1u;

			edits = MIN(edits, above[k - 1] + (a[i - 1] != b[k - 1] ? 1u : 0u));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				edits = MIN(edits, before[k - 2] + 1u);
			row[k] = (uint8_t)edits;
		}
	}
	return rows[n % 3][m];
}

static const struct kube_label *
near_find_key(const struct kube_labels *labels, const char *key)
{
	for (size_t i = 0; i < labels->n; i++)
		if (strcmp(labels->list[i].key, key) == 0)
			return &labels->list[i];
	return NULL;
}

/* The same key with another value, else one with almost this key. */
static const struct kube_label *
near_label(const struct kube_labels *labels, const struct kube_label *want, unsigned *distance)
{
	const struct kube_label *have = near_find_key(labels, want->key);
	unsigned edits;

	*distance = UINT32_MAX;
	if (have != NULL) {
		*distance = near_distance(have->value, want->value);
		return have;
	}
	for (size_t i = 0; i < labels->n; i++) {
		const struct kube_label *one = &labels->list[i];
		size_t a = strlen(one->key), b = strlen(want->key);

		if (MAX(a, b) - MIN(a, b) > NEAR_KEY_EDITS ||
			(edits = near_distance(one->key, want->key)) > NEAR_KEY_EDITS)
			continue;
		edits += near_distance(one->value, want->value);
		if (edits < *distance) {
			*distance = edits;
			have = one;
		}
	}
	return have;
}

static void
near_compare(struct near_pod *best, const struct kube_labels *selector, const struct kube_object *o)
{
	struct near_pod at = {.pod = o};

	if (o->pod.ended)
		return;
	for (size_t i = 0; i < selector->n; i++) {
		const struct kube_label *want = &selector->list[i];
		const char *value = kube_labels_find(&o->pod.labels, want->key);

		if (value != NULL && strcmp(value, want->value) == 0)
			at.matched++;
		else if (at.want == NULL)
			at.want = want;
	}
	if (at.want == NULL) {
		best->n_taken++;
		best->addressed |= *o->pod.pod_ip != '\0';
		if (best->taken == NULL || strcmp(o->name, best->taken->name) < 0)
			best->taken = o;
		return;
	}
	at.have = near_label(&o->pod.labels, at.want, &at.distance);
	if (best->pod != NULL &&
		(at.matched < best->matched ||
			(at.matched == best->matched &&
				(at.distance > best->distance ||
					(at.distance == best->distance &&
						strcmp(o->name, best->pod->name) > 0)))))
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
		return xasprintf(
			"no pod has all labels of its selector; the nearest, %s, has %s%s%s "
			"in place of %s=%s",
			best->pod->name, best->have != NULL ? best->have->key : "nothing",
			best->have != NULL ? "=" : "", best->have != NULL ? best->have->value : "",
			best->want->key, best->want->value);
	if (best->have == NULL)
		return xasprintf("no pod has a label of its selector, %s=%s%s", first->key,
			first->value, more);
	return xasprintf("no pod has the label %s=%s of its selector; the nearest, %s, has %s=%s",
		best->want->key, best->want->value, best->pod->name, best->have->key,
		best->have->value);
}

/* How many pods were looked at. */
static size_t
near_look(const struct cluster *c, struct joint *j)
{
	const struct kube_object *o = cluster_find(c, KUBE_SERVICE, j->ns, j->name);
	struct told *told = &j->told[0];
	auto_free char *near = NULL, *text = NULL;
	struct near_pod best = {0};
	struct table_node *n;
	size_t looked = 0;

	if (o == NULL || o->service.selector.n == 0 || j->n_told == 0)
		return 0;
	n = table_first(&c->pods_by_namespace, cluster_namespace_hash(j->ns));
	for (; n != NULL && looked < NEAR_PODS_A_SERVICE; n = table_next(n), looked++) {
		const struct record *r = node_of(struct link, n)->target;

		if (strcmp(r->ns, j->ns) == 0)
			near_compare(&best, &o->service.selector, r->object);
	}
	near = near_text(&best, &o->service.selector);
	text = xasprintf("%.*s; %s", (int)told->reason_len, told->why.text, near);
	free(told->why.text);
	told->why.text = take_ptr(&text);
	return looked;
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
	if (o == NULL || o->service.selector.n == 0 || j->n_told == 0 ||
		j->told[0].why.problem != CLUSTER_NO_ENDPOINTS || j->told[0].why.text == NULL)
		return;
	j->is_unmatched = true;
	TAILQ_INSERT_HEAD(&c->unmatched, j, unmatched);
}

void
cluster_look_near(struct cluster *c)
{
	struct joint *first = TAILQ_FIRST(&c->unmatched), *j = first;

	for (size_t looked = 0; j != NULL && looked < NEAR_PODS_A_ROUND;) {
		looked += near_look(c, j) + 1;
		TAILQ_REMOVE(&c->unmatched, j, unmatched);
		TAILQ_INSERT_TAIL(&c->unmatched, j, unmatched);
		j = TAILQ_FIRST(&c->unmatched);
		if (j == first)
			break;
	}
}
