/*
 * A parsed YAML or JSON document: maps, lists and scalars with their line numbers. One form for the
 * configuration, manifests and the Kubernetes API's objects, so that every error can name file and
 * line. Nodes live in the tree's arena until tree_free. Bounded: depth 64, and a limit on the nodes
 * that YAML aliases repeat.
 */
#ifndef EDGEWAY_BASE_CONF_TREE_H
#define EDGEWAY_BASE_CONF_TREE_H

#include <stdio.h>

#include "base/core/err.h"

enum tree_kind { TREE_SCALAR, TREE_MAP, TREE_LIST };

struct tree_node {
	enum tree_kind kind;
	bool quoted; /* scalar was quoted: always text, never null, bool or number */
	unsigned line; /* 1-based; 0 unknown */
	const char *key; /* in a map, else NULL */
	const char *text; /* scalar */
	size_t len;
	struct tree_node *child, *next; /* first child; next sibling */
};

struct tree; /* owns the nodes */

/* All documents of a YAML stream, or one JSON text (first byte '{' or '['); `name` for error
 * messages. Duplicate keys are errors. Empty documents are skipped. On error nothing is returned
 * and err says "name:line: what". */
int tree_parse(struct tree **t, const char *name, const char *text, size_t len, struct err *err);
void tree_free(struct tree **t);
size_t tree_count(const struct tree *t);
const struct tree_node *tree_document(const struct tree *t, size_t i);
const char *tree_name(const struct tree *t);

/* NULL-safe: each gives NULL / the default when the node is absent, null or of another kind. */
const struct tree_node *tree_get(const struct tree_node *map, const char *key);
const struct tree_node *tree_path(
	const struct tree_node *map, const char *dotted); /* "spec.selector" */
bool tree_is_null(const struct tree_node *n); /* absent, ~, null, empty plain scalar */
const char *tree_text(const struct tree_node *n, const char *otherwise);
bool tree_bool(const struct tree_node *n, bool otherwise);
/* 0, -ENOENT when absent or null, -EINVAL when not a whole number, -ERANGE. */
int tree_int(const struct tree_node *n, int64_t min, int64_t max, int64_t *v);
/* As a YAML document in block style; keys must be plain words, as in our own state documents. */
void tree_write_yaml(const struct tree_node *n, FILE *to);
#define tree_each(list, n)                                                                         \
	for (const struct tree_node *n = (list) != NULL ? (list)->child : NULL; n != NULL;         \
		n = n->next)

#endif
