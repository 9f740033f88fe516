/*
 * Reads a daemon's JSON in edgewayctl, and prints parts of it for programs. All reading functions
 * accept NULL: a missing value is "" or 0, so that an older or newer daemon can be queried.
 */
#ifndef EDGEWAY_SRC_COMMON_CTL_ANSWER_H
#define EDGEWAY_SRC_COMMON_CTL_ANSWER_H

#include "base/conf/tree.h"
#include "base/core/buf.h"

enum ctl_format { CTL_TABLE, CTL_JSON, CTL_YAML };

#define auto_tree __attribute__((cleanup(tree_free)))

/* Returns NULL if it is not JSON, and prints that on stderr. Freed by tree_free. */
struct tree *ctl_parse(struct buf *answer);
/* For output to people: removes line breaks from all texts, so that no text can start a line of its
 * own. */
void ctl_flatten(const struct tree_node *n);
/* `path` as for tree_path. */
const char *ctl_text(const struct tree_node *map, const char *path);
double ctl_number(const struct tree_node *map, const char *path);
bool ctl_true(const struct tree_node *map, const char *path);
unsigned ctl_count(const struct tree_node *list);
/* Returns whether the row is the service NS/NAME that a person gave; the row may have these in one
 * member or in two. NULL matches all. */
bool ctl_is_wanted(const struct tree_node *row, const char *wanted);

/* Prints one value to stdout. Of a list, only the wanted rows. */
void ctl_print_value(const struct tree_node *value, enum ctl_format format, const char *wanted);

/* "3 d 4 h", "12 min 5 s", "0.3 s". */
void ctl_add_duration(struct buf *out, double seconds);
/* "17", "12.3 k", "4.5 M": counts; the caller appends "B" for bytes. */
void ctl_add_amount(struct buf *out, double amount);

#endif
