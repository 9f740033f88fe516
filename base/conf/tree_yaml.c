/*
 * YAML with libyaml's events. Recursion is limited by TREE_DEPTH_MAX; an alias shares its anchor's
 * children, and the nodes that aliases repeat are counted, so that a small file cannot expand to a
 * huge tree.
 */
#include <errno.h>
#include <string.h>
#include <yaml.h>

#include "base/conf/tree_build.h"

struct anchor {
	struct anchor *next;
	char *name;
	const struct tree_node *node;
};

struct reader {
	struct tree *tree;
	yaml_parser_t yaml;
	yaml_event_t event; /* the current one */
	bool have_event;
	struct anchor *anchors; /* of the current document */
	struct err *err;
	const char *text; /* of the file */
	size_t len;
};

static int read_node(struct reader *r, unsigned depth, struct tree_node **out);

static unsigned
line_of(const yaml_mark_t *mark)
{
	return (unsigned)mark->line + 1;
}

/* Is the line indented with a tab? libyaml's words for that do not name it. */
static bool
yaml_tab_indents(const struct reader *r, size_t line)
{
	const char *at = r->text, *end = r->text + r->len;

	while (line > 0 && (at = memchr(at, '\n', (size_t)(end - at))) != NULL) {
		at++;
		line--;
	}
	while (at != NULL && at < end && *at == ' ')
		at++;
	return at != NULL && at < end && *at == '\t';
}

static int
next_event(struct reader *r)
{
	if (r->have_event)
		yaml_event_delete(&r->event);
	r->have_event = yaml_parser_parse(&r->yaml, &r->event) != 0;
	if (r->have_event)
		return 0;
	if (r->yaml.error == YAML_READER_ERROR)
		return tree_complain(
			r->tree, line_of(&r->yaml.mark), r->err, "%s", r->yaml.problem);
	if (yaml_tab_indents(r, r->yaml.problem_mark.line))
		return tree_complain(r->tree, line_of(&r->yaml.problem_mark), r->err,
			"a tab indents the line: YAML wants spaces");
	return tree_complain(r->tree, line_of(&r->yaml.problem_mark), r->err, "%s%s%s",
		r->yaml.context != NULL ? r->yaml.context : "", r->yaml.context != NULL ? ": " : "",
		r->yaml.problem != NULL ? r->yaml.problem : "not YAML");
}

static void
forget_anchors(struct reader *r)
{
	while (r->anchors != NULL) {
		struct anchor *a = r->anchors;

		r->anchors = a->next;
		free(a->name);
		free(a);
	}
}

static void
keep_anchor(struct reader *r, char *name, const struct tree_node *node)
{
	struct anchor *a;

	if (name == NULL)
		return;
	a = xmalloc(sizeof *a);
	*a = (struct anchor){.next = r->anchors, .name = name, .node = node};
	r->anchors = a;
}

/* Counts the nodes of a tree that is repeated at `depth`; false when a limit is exceeded. */
static bool
repeat_fits(struct tree *t, const struct tree_node *n, unsigned depth)
{
	if (depth > TREE_DEPTH_MAX || ++t->alias_nodes > TREE_ALIAS_NODES_MAX)
		return false;
	if (n->kind == TREE_SCALAR)
		return true;
	tree_each(n, child) {
		if (!repeat_fits(t, child, depth + 1))
			return false;
	}
	return true;
}

static int
read_alias(struct reader *r, unsigned depth, struct tree_node **out)
{
	const char *name = (const char *)r->event.data.alias.anchor;
	unsigned line = line_of(&r->event.start_mark);
	const struct anchor *a = r->anchors;

	while (a != NULL && strcmp(a->name, name) != 0)
		a = a->next;
	if (a == NULL)
		return tree_complain(r->tree, line, r->err, "*%.64s: no such anchor above", name);
	if (!repeat_fits(r->tree, a->node, depth))
		return tree_complain(r->tree, line, r->err,
			"*%.64s: aliases repeat more than %d nodes or nest deeper than %d", name,
			TREE_ALIAS_NODES_MAX, TREE_DEPTH_MAX);
	*out = tree_node_new(r->tree, a->node->kind, line);
	(*out)->quoted = a->node->quoted;
	(*out)->text = a->node->text;
	(*out)->len = a->node->len;
	(*out)->child = a->node->child;
	return 0;
}

static bool
is_text(const yaml_event_t *e)
{
	static const char core[] = "tag:yaml.org,2002:";
	const char *tag = (const char *)e->data.scalar.tag;

	if (tag == NULL)
		return e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	/* !!int "80" is a number, anything else with a tag is text. */
	return strncmp(tag, core, sizeof core - 1) != 0 ||
		strcmp(tag + sizeof core - 1, "str") == 0 ||
		strcmp(tag + sizeof core - 1, "binary") == 0;
}

static int
read_scalar(struct reader *r, struct tree_node **out)
{
	const char *text = (const char *)r->event.data.scalar.value;
	size_t len = r->event.data.scalar.length;
	unsigned line = line_of(&r->event.start_mark);

	if (memchr(text, '\0', len) != NULL)
		return tree_complain(r->tree, line, r->err, "a text must not contain \\0");
	*out = tree_node_new(r->tree, TREE_SCALAR, line);
	tree_set_text(r->tree, *out, text, len);
	(*out)->quoted = is_text(&r->event);
	return 0;
}

static int
read_list(struct reader *r, unsigned depth, struct tree_node **out)
{
	struct tree_tail tail = {.parent = *out};
	struct tree_node *item;
	int rc;

	for (;;) {
		if ((rc = next_event(r)) < 0)
			return rc;
		if (r->event.type == YAML_SEQUENCE_END_EVENT)
			return 0;
		if ((rc = read_node(r, depth + 1, &item)) < 0)
			return rc;
		tree_append(&tail, item);
	}
}

static int
read_pair(struct reader *r, unsigned depth, struct tree_tail *tail)
{
	struct tree_node *key, *value;
	int rc = read_node(r, depth + 1, &key);

	if (rc < 0)
		return rc;
	if (key->kind != TREE_SCALAR)
		return tree_complain(r->tree, key->line, r->err, "a key must be a plain text");
	if (strcmp(key->text, "<<") == 0 && !key->quoted)
		return tree_complain(r->tree, key->line, r->err,
			"merge keys (<<) are not read here: write the keys out");
	if ((rc = next_event(r)) < 0 || (rc = read_node(r, depth + 1, &value)) < 0)
		return rc;
	value->key = key->text;
	value->line = key->line; /* libyaml's mark of the value may be lines below */
	tree_append(tail, value);
	return 0;
}

static int
read_map(struct reader *r, unsigned depth, struct tree_node **out)
{
	struct tree_tail tail = {.parent = *out};
	int rc;

	for (;;) {
		if ((rc = next_event(r)) < 0)
			return rc;
		if (r->event.type == YAML_MAPPING_END_EVENT)
			return tree_check_keys(r->tree, *out, r->err);
		if ((rc = read_pair(r, depth, &tail)) < 0)
			return rc;
	}
}

static char *
event_anchor(const yaml_event_t *e)
{
	const yaml_char_t *name = e->type == YAML_SCALAR_EVENT ? e->data.scalar.anchor
		: e->type == YAML_SEQUENCE_START_EVENT         ? e->data.sequence_start.anchor
		: e->type == YAML_MAPPING_START_EVENT          ? e->data.mapping_start.anchor
							       : NULL;

	return name != NULL ? xstrdup((const char *)name) : NULL;
}

/* Reads the node that the current event starts, up to its last event. */
static int
read_node(struct reader *r, unsigned depth, struct tree_node **out)
{
	unsigned line = line_of(&r->event.start_mark);
	auto_free char *anchor = event_anchor(&r->event);
	int rc;

	if (depth > TREE_DEPTH_MAX)
		return tree_complain(
			r->tree, line, r->err, "nested deeper than %d", TREE_DEPTH_MAX);
	switch (r->event.type) {
	case YAML_ALIAS_EVENT:
		rc = read_alias(r, depth, out);
		break;
	case YAML_SCALAR_EVENT:
		rc = read_scalar(r, out);
		break;
	case YAML_SEQUENCE_START_EVENT:
		*out = tree_node_new(r->tree, TREE_LIST, line);
		rc = read_list(r, depth, out);
		break;
	default: /* the grammar leaves only YAML_MAPPING_START_EVENT */
		*out = tree_node_new(r->tree, TREE_MAP, line);
		rc = read_map(r, depth, out);
	}
	if (rc == 0)
		keep_anchor(r, take_ptr(&anchor), *out);
	return rc;
}

static int
read_stream(struct reader *r)
{
	struct tree_node *root;
	int rc;

	for (;;) {
		if ((rc = next_event(r)) < 0)
			return rc;
		if (r->event.type == YAML_STREAM_END_EVENT)
			return 0;
		if (r->event.type != YAML_DOCUMENT_START_EVENT)
			continue;
		if ((rc = next_event(r)) < 0 || (rc = read_node(r, 1, &root)) < 0)
			return rc;
		tree_add_document(r->tree, root);
		forget_anchors(r);
	}
}

int
tree_parse_yaml(struct tree *t, const char *text, size_t len, struct err *err)
{
	struct reader r = {.tree = t, .err = err, .text = text, .len = len};
	int rc;

	if (yaml_parser_initialize(&r.yaml) == 0)
		return err_set(err, ENOMEM, "%s: out of memory", t->name);
	yaml_parser_set_encoding(&r.yaml, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&r.yaml, (const unsigned char *)text, len);
	rc = read_stream(&r);
	if (r.have_event)
		yaml_event_delete(&r.event);
	forget_anchors(&r);
	yaml_parser_delete(&r.yaml);
	return rc;
}

/* --- writing -------------------------------------------------------------------------------- */

/* Unquoted scalars are numbers, true, false and null; quoted ones are texts, whatever they look
 * like. */
static void
emit_scalar(yaml_emitter_t *to, const char *text, bool is_text)
{
	yaml_event_t e;

	yaml_scalar_event_initialize(&e, NULL, NULL, (yaml_char_t *)(uintptr_t)text,
		(int)strlen(text), !is_text, is_text,
		is_text ? YAML_DOUBLE_QUOTED_SCALAR_STYLE : YAML_PLAIN_SCALAR_STYLE);
	yaml_emitter_emit(to, &e);
}

static void
emit_node(yaml_emitter_t *to, const struct tree_node *n)
{
	yaml_event_t e;

	if (n->kind == TREE_SCALAR) {
		emit_scalar(to, n->text != NULL ? n->text : "null", n->quoted);
		return;
	}
	if (n->kind == TREE_MAP)
		yaml_mapping_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_MAPPING_STYLE);
	else
		yaml_sequence_start_event_initialize(&e, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE);
	yaml_emitter_emit(to, &e);
	tree_each(n, c) {
		if (c->key != NULL)
			emit_scalar(to, c->key, false);
		emit_node(to, c);
	}
	if (n->kind == TREE_MAP)
		yaml_mapping_end_event_initialize(&e);
	else
		yaml_sequence_end_event_initialize(&e);
	yaml_emitter_emit(to, &e);
}

void
tree_write_yaml(const struct tree_node *n, FILE *to)
{
	yaml_emitter_t out;
	yaml_event_t e;

	yaml_emitter_initialize(&out);
	yaml_emitter_set_output_file(&out, to);
	yaml_emitter_set_unicode(&out, 1);
	yaml_emitter_set_width(&out, -1);
	yaml_stream_start_event_initialize(&e, YAML_UTF8_ENCODING);
	yaml_emitter_emit(&out, &e);
	yaml_document_start_event_initialize(&e, NULL, NULL, NULL, 1);
	yaml_emitter_emit(&out, &e);
	emit_node(&out, n);
	yaml_document_end_event_initialize(&e, 1);
	yaml_emitter_emit(&out, &e);
	yaml_stream_end_event_initialize(&e);
	yaml_emitter_emit(&out, &e);
	yaml_emitter_delete(&out);
}
