#include "model/selector.h"

#include <errno.h>
#include <string.h>

#include "model/kube_private.h"

enum { KEY_MAX = 253 + 1 + 63, VALUE_MAX = 63 };

enum relation { EXISTS, ABSENT, IN, NOT_IN };

struct requirement {
	char *key;
	enum relation relation;
	size_t n_values;
	char **values;
};

struct selector {
	size_t n;
	struct requirement list[SELECTOR_REQUIREMENTS_MAX];
};

struct reading {
	const char *at;
	struct err *err;
	size_t n_values;
};

/* --- reading -------------------------------------------------------------------------------- */

static void
skip_blanks(struct reading *r)
{
	r->at += strspn(r->at, " \t");
}

static bool
selector_take(struct reading *r, const char *word)
{
	size_t len = strlen(word);

	skip_blanks(r);
	if (strncmp(r->at, word, len) != 0)
		return false;
	r->at += len;
	return true;
}

/* A label's key or value on the heap; NULL, with an error, when it is missing or too long. */
static char *
take_name(struct reading *r, const char *what, size_t most, bool may_be_empty)
{
	static const char good[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
	size_t len;

	skip_blanks(r);
	len = strspn(r->at, good);
	if ((len == 0 && !may_be_empty) || len > most) {
		err_set(r->err, EINVAL,
			"a %s of at most %zu letters, digits or -_./ expected at '%.20s'", what,
			most, r->at);
		return NULL;
	}
	r->at += len;
	return xstrndup(r->at - len, len);
}

static int
add_value(struct reading *r, struct requirement *q)
{
	char *value = take_name(r, "value", VALUE_MAX, true);

	if (value == NULL)
		return -EINVAL;
	if (r->n_values++ == SELECTOR_VALUES_MAX) {
		free(value);
		return err_set(r->err, EINVAL, "more than %d values", (int)SELECTOR_VALUES_MAX);
	}
	q->values = xrealloc(q->values, (q->n_values + 1) * sizeof *q->values);
	q->values[q->n_values++] = value;
	return 0;
}

static int
read_values(struct reading *r, struct requirement *q)
{
	if (!selector_take(r, "("))
		return err_set(r->err, EINVAL, "( expected after in or notin at '%.20s'", r->at);
	do {
		if (add_value(r, q) < 0)
			return -EINVAL;
	} while (selector_take(r, ","));
	return selector_take(r, ")") ? 0 : err_set(r->err, EINVAL, ") expected at '%.20s'", r->at);
}

/* `in` and `notin` must follow a blank, or take_name would have consumed them. */
static int
read_requirement(struct reading *r, struct requirement *q)
{
	q->relation = selector_take(r, "!") ? ABSENT : EXISTS;
	q->key = take_name(r, "label", KEY_MAX, false);
	if (q->key == NULL)
		return -EINVAL;
	skip_blanks(r);
	if (q->relation == ABSENT || *r->at == ',' || *r->at == '\0')
		return 0;
	if (selector_take(r, "!=")) {
		q->relation = NOT_IN;
		return add_value(r, q);
	}
	if (selector_take(r, "==") || selector_take(r, "=")) {
		q->relation = IN;
		return add_value(r, q);
	}
	if (selector_take(r, "notin")) {
		q->relation = NOT_IN;
		return read_values(r, q);
	}
	if (selector_take(r, "in")) {
		q->relation = IN;
		return read_values(r, q);
	}
	return err_set(r->err, EINVAL, "=, !=, in or notin expected at '%.20s'", r->at);
}

static int
read_all(struct reading *r, struct selector *s)
{
	do {
		if (s->n == SELECTOR_REQUIREMENTS_MAX)
			return err_set(r->err, EINVAL, "more than %d requirements",
				(int)SELECTOR_REQUIREMENTS_MAX);
		if (read_requirement(r, &s->list[s->n++]) < 0)
			return -EINVAL;
	} while (selector_take(r, ","));
	skip_blanks(r);
	return *r->at == '\0'
		? 0
		: err_set(r->err, EINVAL, "a comma or the end expected at '%.20s'", r->at);
}

int
selector_parse(struct selector **out, const char *text, struct err *err)
{
	struct reading r = {.at = text, .err = err};
	struct selector *s;

	*out = NULL;
	skip_blanks(&r);
	if (*r.at == '\0')
		return 0;
	s = xcalloc(1, sizeof *s);
	if (read_all(&r, s) < 0) {
		selector_free(&s);
		return -EINVAL;
	}
	*out = s;
	return 0;
}

void
selector_free(struct selector **out)
{
	struct selector *s = take_ptr(out);

	for (size_t i = 0; s != NULL && i < s->n; i++) {
		for (size_t k = 0; k < s->list[i].n_values; k++)
			free(s->list[i].values[k]);
		free(s->list[i].values);
		free(s->list[i].key);
	}
	free(s);
}

/* --- matching ------------------------------------------------------------------------------- */

static bool
selector_holds(const struct requirement *q, const struct kube_labels *labels)
{
	const char *value = kube_labels_find(labels, q->key);
	bool in = false;

	if (q->relation == EXISTS || q->relation == ABSENT)
		return (value != NULL) == (q->relation == EXISTS);
	for (size_t i = 0; value != NULL && !in && i < q->n_values; i++)
		in = strcmp(q->values[i], value) == 0;
	return in == (q->relation == IN);
}

bool
selector_matches(const struct selector *s, const struct kube_labels *labels)
{
	for (size_t i = 0; s != NULL && i < s->n; i++)
		if (!selector_holds(&s->list[i], labels))
			return false;
	return true;
}

struct kube_labels
kube_labels_copy(const struct kube_labels *labels)
{
	struct kube_labels l = {0};

	if (labels == NULL || labels->n == 0)
		return l;
	l.list = xcalloc(labels->n, sizeof *l.list);
	for (; l.n < labels->n; l.n++)
		l.list[l.n] = (struct kube_label){
			xstrdup(labels->list[l.n].key), xstrdup(labels->list[l.n].value)};
	return l;
}

void
kube_labels_free(struct kube_labels *labels)
{
	kube_labels_fini(labels);
	*labels = (struct kube_labels){0};
}

bool
kube_labels_equal(const struct kube_labels *a, const struct kube_labels *b)
{
	size_t n_b = b != NULL ? b->n : 0;

	if ((a != NULL ? a->n : 0) != n_b)
		return false;
	for (size_t i = 0; i < n_b; i++) {
		const char *value = kube_labels_find(a, b->list[i].key);

		if (value == NULL || strcmp(value, b->list[i].value) != 0)
			return false;
	}
	return true;
}
