/*
 * Internal to base/conf/tree: how the two parsers build a tree. Nodes and texts live in the tree's
 * arena, so a parser that fails just returns its error and tree_parse frees the whole tree.
 * tree_parse has already checked the input: UTF-8 without NUL bytes, byte order mark skipped.
 *
 * Every error is "name:line: what", made by tree_complain.
 */
#ifndef EDGEWAY_BASE_CONF_TREE_BUILD_H
#define EDGEWAY_BASE_CONF_TREE_BUILD_H

#include "base/conf/tree.h"

enum {
	TREE_DEPTH_MAX = 64,
	TREE_ALIAS_NODES_MAX = 10000, /* nodes that aliases repeat, in one stream */
};

struct tree_chunk;

struct tree {
	char *name;
	struct tree_chunk *chunks;
	struct tree_node **documents;
	size_t count, size;
	size_t alias_nodes;
};

/* Where to append the next child of a map or list. */
struct tree_tail {
	struct tree_node *parent;
	struct tree_node **next;
};

struct tree_node *tree_node_new(struct tree *t, enum tree_kind kind, unsigned line);
char *tree_copy_text(struct tree *t, const char *text, size_t len);
void tree_set_text(struct tree *t, struct tree_node *n, const char *text, size_t len);
void tree_append(struct tree_tail *tail, struct tree_node *child);
void tree_add_document(struct tree *t, struct tree_node *root);
/* Reports a key that occurs twice in a finished map. */
int tree_check_keys(const struct tree *t, const struct tree_node *map, struct err *err);
int tree_complain(const struct tree *t, unsigned line, struct err *err, const char *fmt, ...)
	printf_like(4, 5);

int tree_parse_yaml(struct tree *t, const char *text, size_t len, struct err *err);
int tree_parse_json(struct tree *t, const char *text, size_t len, struct err *err);

#endif
