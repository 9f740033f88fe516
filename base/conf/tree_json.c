/*
 * JSON with cJSON, which checks the syntax and decodes the strings. cJSON keeps neither lines nor
 * the digits of a number, so a cursor walks over the source in parallel with cJSON's tree: same
 * values, same order.
 */
#include <assert.h>
#include <cjson/cJSON.h>
#include <string.h>

#include "base/conf/tree_build.h"

struct cursor {
	struct tree *tree;
	const char *at;
	unsigned line;
	struct err *err;
};

static unsigned
line_at(const char *text, const char *at)
{
	unsigned line = 1;

	for (; text < at; text++)
		line += *text == '\n';
	return line;
}

/* Skips to the next significant byte; colons and commas separate what cJSON has already paired. */
static void
skip_blank(struct cursor *c)
{
	for (; *c->at != '\0' && ((unsigned char)*c->at <= ' ' || *c->at == ',' || *c->at == ':');
		c->at++)
		c->line += *c->at == '\n';
}

/* Skips a string; refuses \u0000, which would cut the C string short. */
static int
skip_string(struct cursor *c)
{
	unsigned line = c->line;

	for (c->at++; *c->at != '"'; c->at++) {
		assert(*c->at != '\0'); /* cJSON has seen the closing quote */
		if (*c->at == '\\') {
			if (strncmp(c->at, "\\u0000", 6) == 0)
				return tree_complain(
					c->tree, line, c->err, "a text must not contain \\u0000");
			c->at++;
		}
		c->line += *c->at == '\n';
	}
	c->at++;
	return 0;
}

static int
read_scalar(struct cursor *c, const cJSON *json, struct tree_node *n)
{
	size_t len;

	if (cJSON_IsString(json)) {
		n->quoted = true;
		tree_set_text(c->tree, n, json->valuestring, strlen(json->valuestring));
		return skip_string(c);
	}
	len = strspn(c->at, "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
	tree_set_text(c->tree, n, c->at, len);
	c->at += len;
	return 0;
}

static int
read_value(struct cursor *c, const cJSON *json, unsigned depth, struct tree_node **out)
{
	bool map = cJSON_IsObject(json);
	struct tree_tail tail = {0};
	struct tree_node *item;
	unsigned line;
	int rc = 0;

	skip_blank(c);
	if (depth > TREE_DEPTH_MAX)
		return tree_complain(
			c->tree, c->line, c->err, "nested deeper than %d", TREE_DEPTH_MAX);
	*out = tree_node_new(c->tree,
		map                           ? TREE_MAP
			: cJSON_IsArray(json) ? TREE_LIST
					      : TREE_SCALAR,
		c->line);
	if ((*out)->kind == TREE_SCALAR)
		return read_scalar(c, json, *out);
	tail.parent = *out;
	c->at++;
	for (const cJSON *child = json->child; child != NULL; child = child->next) {
		skip_blank(c);
		line = c->line;
		if (map && (rc = skip_string(c)) < 0)
			return rc;
		if ((rc = read_value(c, child, depth + 1, &item)) < 0)
			return rc;
		if (map) {
			item->key = tree_copy_text(c->tree, child->string, strlen(child->string));
			item->line = line;
		}
		tree_append(&tail, item);
	}
	skip_blank(c);
	c->at++;
	return map ? tree_check_keys(c->tree, *out, c->err) : 0;
}

static int
complain_syntax(struct cursor *c, const char *text, const char *at)
{
	return tree_complain(c->tree, line_at(text, at), c->err, "not JSON at \"%.*s\"",
		(int)MIN(strcspn(at, "\r\n"), (size_t)20), at);
}

/* Reads one JSON text after another, like a stream decoder. */
int
tree_parse_json(struct tree *t, const char *text, size_t len, struct err *err)
{
	struct cursor c = {.tree = t, .at = text, .line = 1, .err = err};
	const char *stop = text + len, *end = NULL;
	struct tree_node *root;
	cJSON *json;
	int rc;

	for (;;) {
		while (c.at < stop && strchr(" \t\r\n", *c.at) != NULL)
			c.line += *c.at++ == '\n';
		if (c.at == stop)
			return 0;
		/* Only '{' and '[' keep the cursor in step: cJSON would skip a byte order mark. */
		if (*c.at != '{' && *c.at != '[')
			return complain_syntax(&c, text, c.at);
		json = cJSON_ParseWithLengthOpts(c.at, (size_t)(stop - c.at), &end, 0);
		if (json == NULL)
			return complain_syntax(&c, text, end != NULL ? end : c.at);
		rc = read_value(&c, json, 1, &root);
		cJSON_Delete(json);
		if (rc < 0)
			return rc;
		tree_add_document(t, root);
		c.at = end;
	}
}
