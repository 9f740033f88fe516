#include "base/conf/opt.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/conf/opt_load.h"
#include "base/core/log.h"

static struct opt_state *
state_of(const void *values)
{
	return ((const struct opt_head *)values)->state;
}

size_t
opt_find_row(const struct opt_program *p, const char *key)
{
	size_t i = 0;

	while (i < p->n && strcmp(p->table[i].key, key) != 0)
		i++;
	return i;
}

static void
keep_tree(struct opt_state *s, struct tree *t)
{
	s->trees = xrealloc(s->trees, (s->n_trees + 1) * sizeof(struct tree *));
	s->trees[s->n_trees++] = t;
}

static void
opt_mark(struct opt_loading *l, size_t row, enum opt_from from, unsigned line)
{
	l->state->origins[row] = (struct opt_origin){.from = from, .line = line};
}

int
opt_set_text(
	struct opt_loading *l, size_t row, const char *text, enum opt_from from, const char *place)
{
	const struct opt *o = &l->program->table[row];
	struct tree *t = NULL;
	int rc;

	if (o->type == OPT_TREE && from != OPT_FROM_DEFAULT) {
		rc = tree_parse(&t, place, text, strlen(text), l->err);
		if (rc < 0)
			return rc;
		keep_tree(l->state, t);
		rc = opt_value_node(o, l->values, tree_document(t, 0), l->err);
	} else
		rc = opt_value_text(o, l->values, text, l->err);
	if (rc < 0)
		return err_wrap(l->err, rc, "%s", place);
	opt_mark(l, row, from, 0);
	return 0;
}

static void
set_defaults(struct opt_loading *l)
{
	for (size_t i = 0; i < l->program->n; i++) {
		const struct opt *o = &l->program->table[i];
		int rc = opt_set_text(l, i, o->standard, OPT_FROM_DEFAULT, o->key);

		assert(rc == 0); /* else the table is inconsistent */
		(void)rc;
	}
}

/* --- file ----------------------------------------------------------------------------------- */

/* Is any key of the table below `key`? Marks those keys as given when `given`. */
static bool
mark_below(struct opt_loading *l, const char *key, bool given, unsigned line)
{
	size_t len = strlen(key);
	bool any = false;

	for (size_t i = 0; i < l->program->n; i++) {
		const char *have = l->program->table[i].key;

		if (strncmp(have, key, len) != 0 || have[len] != '.')
			continue;
		any = true;
		if (given)
			opt_mark(l, i, OPT_FROM_FILE, line);
	}
	return any;
}

int
opt_unknown(struct opt_loading *l, const char *place, const char *key)
{
	const char *near = opt_nearest(l->program, key);

	return err_set(l->err, EINVAL, "%s: unknown key \"%.80s\"%s%s%s", place, key,
		near != NULL ? "; did you mean \"" : " (--help lists them all)",
		near != NULL ? near : "", near != NULL ? "\"?" : "");
}

static int
set_leaf(struct opt_loading *l, const char *place, size_t row, const struct tree_node *n)
{
	const struct opt *o = &l->program->table[row];
	int rc = opt_value_node(o, l->values, n, l->err);

	if (rc < 0)
		return err_wrap(l->err, rc, "%s: %s", place, o->key);
	opt_mark(l, row, OPT_FROM_FILE, n->line);
	return 0;
}

/* Reads the map below `prefix` ("" at the top). Recursion is as deep as the table's keys, since it
 * enters only known sections. */
static int
take_map(struct opt_loading *l, const struct tree_node *map, const char *prefix)
{
	int rc = 0;

	for (const struct tree_node *n = map->child; n != NULL && rc == 0; n = n->next) {
		auto_free char *key =
			xasprintf("%s%s%s", prefix, prefix[0] != '\0' ? "." : "", n->key);
		auto_free char *place = xasprintf("%.200s:%u", l->state->config, n->line);
		size_t row = opt_find_row(l->program, key);

		if (row < l->program->n)
			rc = set_leaf(l, place, row, n);
		else if (!mark_below(l, key, false, 0))
			rc = opt_unknown(l, place, key);
		else if (tree_is_null(n) || (n->kind == TREE_MAP && n->child == NULL))
			mark_below(l, key, true, n->line);
		else if (n->kind != TREE_MAP)
			rc = err_set(l->err, EINVAL, "%s: %s: expected a map of keys, not a %s",
				place, key, n->kind == TREE_LIST ? "list" : "single value");
		else
			rc = take_map(l, n, key);
	}
	return rc;
}

static int
take_file(struct opt_loading *l)
{
	const char *path = l->state->config;
	auto_free char *text = NULL;
	const struct tree_node *root;
	struct tree *t = NULL;
	size_t len;
	int rc;

	if (path == NULL)
		return 0;
	rc = file_read(path, OPT_FILE_BYTES_MAX, &text, &len);
	if (rc == -EFBIG)
		return err_set(l->err, rc, "%.200s: a configuration has at most %d bytes", path,
			OPT_FILE_BYTES_MAX);
	if (rc < 0)
		return err_set(l->err, rc, "cannot read the configuration %.200s: %s", path,
			strerror(-rc));
	rc = tree_parse(&t, path, text, len, l->err);
	if (rc < 0)
		return rc;
	keep_tree(l->state, t);
	if (tree_count(t) == 0)
		return 0;
	root = tree_document(t, 0);
	if (tree_count(t) > 1)
		return err_set(l->err, EINVAL,
			"%.200s:%u: a configuration is one document; a second one begins here",
			path, tree_document(t, 1)->line);
	if (root->kind != TREE_MAP)
		return err_set(
			l->err, EINVAL, "%.200s:%u: expected a map of keys", path, root->line);
	return take_map(l, root, "");
}

/* --- environment ---------------------------------------------------------------------------- */

static void
warn_unknown_variables(struct opt_loading *l)
{
	char name[OPT_NAME_MAX];

	for (char **at = environ; at != NULL && *at != NULL; at++) {
		size_t len = strcspn(*at, "="), i;

		if (strncmp(*at, "EDGEWAY_", 8) != 0)
			continue;
		for (i = 0; i < l->program->n; i++) {
			opt_env_name(l->program->table[i].key, name);
			if (strlen(name) == len && memcmp(name, *at, len) == 0)
				break;
		}
		if (i == l->program->n)
			log_warn("config", "unknown variable is ignored name=%.*s",
				(int)MIN(len, (size_t)100), *at);
	}
}

static int
take_environment(struct opt_loading *l)
{
	char name[OPT_NAME_MAX];
	const char *value;
	int rc;

	for (size_t i = 0; i < l->program->n; i++) {
		opt_env_name(l->program->table[i].key, name);
		value = getenv(name);
		if (value == NULL)
			continue;
		rc = opt_set_text(l, i, value, OPT_FROM_ENV, name);
		/* Kubernetes sets NAME_PORT=tcp://... for each Service of the namespace. */
		if (rc < 0 && strstr(value, "://") != NULL && l->program->table[i].type == OPT_UINT)
			return err_wrap(l->err, rc,
				"this looks like a variable of a Kubernetes Service: set "
				"enableServiceLinks: false");
		if (rc < 0)
			return rc;
	}
	warn_unknown_variables(l);
	return 0;
}

/* --- loading -------------------------------------------------------------------------------- */

static void
print_early(const struct opt_program *p, enum opt_early early)
{
	struct buf out auto_buf;

	buf_init(&out, BUF_UNLIMITED);
	if (early == OPT_EARLY_HELP)
		opt_help(p, &out);
	else
		buf_printf(&out, "%s %s\n", p->name, EDGEWAY_VERSION);
	fputs(buf_str(&out), stdout);
}

enum opt_result
opt_load(const struct opt_program *p, void *values, int argc, char **argv, bool *check,
	struct err *err)
{
	struct opt_loading l = {.program = p, .values = values, .err = err};
	enum opt_early early = OPT_EARLY_RUN;

	assert(state_of(values) == NULL);
	l.state = xcalloc(1, sizeof *l.state + p->n * sizeof l.state->origins[0]);
	l.state->program = p;
	((struct opt_head *)values)->state = l.state;
	*check = false;
	set_defaults(&l);
	if (opt_scan_flags(&l, argc, argv, check, &early) < 0)
		return OPT_EXIT_BAD;
	if (early != OPT_EARLY_RUN) {
		print_early(p, early);
		return OPT_EXIT_OK;
	}
	if (take_file(&l) < 0 || take_environment(&l) < 0 || opt_take_flags(&l, argc, argv) < 0)
		return OPT_EXIT_BAD;
	return OPT_RUN;
}

void
opt_free(const struct opt_program *p, void *values)
{
	struct opt_state *s = take_ptr(&((struct opt_head *)values)->state);

	if (s == NULL)
		return;
	for (size_t i = 0; i < p->n; i++)
		opt_value_free(&p->table[i], values);
	for (size_t i = 0; i < s->n_trees; i++)
		tree_free(&s->trees[i]);
	free(s->trees);
	free(s->config);
	free(s);
}

bool
opt_action(const void *values)
{
	return state_of(values)->action;
}

bool
opt_given(const void *values, const char *key)
{
	const struct opt_state *s = state_of(values);
	size_t row = opt_find_row(s->program, key);

	assert(row < s->program->n);
	return s->origins[row].from != OPT_FROM_DEFAULT;
}

int
opt_complain(const void *values, const char *key, const struct tree_node *at, struct err *err,
	const char *fmt, ...)
{
	const struct opt_state *s = state_of(values);
	size_t row = opt_find_row(s->program, key);
	char what[400], name[OPT_NAME_MAX];
	va_list ap;

	assert(row < s->program->n);
	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	opt_env_name(key, name);
	switch (s->origins[row].from) {
	case OPT_FROM_FILE:
		return err_set(err, EINVAL, "%.200s:%u: %s: %s", s->config,
			at != NULL ? at->line : s->origins[row].line, key, what);
	case OPT_FROM_ENV:
		return err_set(err, EINVAL, "%s: %s", name, what);
	case OPT_FROM_FLAG:
		return err_set(err, EINVAL, "--%s: %s", key, what);
	case OPT_FROM_DEFAULT:
		break;
	}
	return err_set(err, EINVAL, "%s: %s", key, what);
}
