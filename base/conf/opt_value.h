/*
 * Internal to base/conf/opt: converts one value of one row from text or from a tree node, and back
 * to text; and derives the names of a key. Error messages say only what was expected;
 * base/conf/opt.c prepends the place.
 */
#ifndef EDGEWAY_BASE_CONF_OPT_VALUE_H
#define EDGEWAY_BASE_CONF_OPT_VALUE_H

#include "base/conf/opt.h"
#include "base/conf/tree.h"
#include "base/core/buf.h"

enum { OPT_NAME_MAX = 128 };

/* Replaces the value. Not for OPT_TREE. */
int opt_value_text(const struct opt *o, void *values, const char *text, struct err *err);
/* Replaces the value; a null node gives the default. An OPT_TREE borrows the node. */
int opt_value_node(
	const struct opt *o, void *values, const struct tree_node *node, struct err *err);
void opt_value_free(const struct opt *o, void *values);
void opt_value_print(const struct opt *o, const void *values, bool hide, struct buf *out);
bool opt_is_secret(const struct opt *o);
void opt_print_duration(uint64_t ms, struct buf *out);
/* The i-th of "a|b|c" and its length, NULL after the last. */
const char *opt_word_at(const char *words, int i, size_t *len);

/* EDGEWAY_HUB_NODE_ID for hub.nodeId. */
void opt_env_name(const char *key, char to[OPT_NAME_MAX]);
/* The key of the table that was probably meant, or NULL. */
const char *opt_nearest(const struct opt_program *p, const char *key);
void opt_help(const struct opt_program *p, struct buf *out);

#endif
