/*
 * Reading a daemon's JSON in edgewayctl, and printing a part of it for programs. All reading is
 * NULL-safe: what is not there is "" or 0, so that an older or a newer daemon can be asked.
 */
#ifndef EDGEWAY_SRC_COMMON_CTL_ANSWER_H
#define EDGEWAY_SRC_COMMON_CTL_ANSWER_H

#include "base/conf/tree.h"
#include "base/core/buf.h"

enum ctl_format { CTL_TABLE, CTL_JSON, CTL_YAML };

#define auto_tree __attribute__((cleanup(tree_free)))

/* NULL when it is no JSON: stderr says so. Freed by tree_free. */
struct tree *ctl_parse(struct buf *answer);
/* For people: nobody's text goes on in a line of its own. */
void ctl_flatten(const struct tree_node *n);
/* `path` as of tree_path. */
const char *ctl_text(const struct tree_node *map, const char *path);
double ctl_number(const struct tree_node *map, const char *path);
bool ctl_true(const struct tree_node *map, const char *path);
unsigned ctl_count(const struct tree_node *list);
/* What a person writes for a service, NS/NAME, may be told in two ways. NULL wants all. */
bool ctl_is_wanted(const struct tree_node *row, const char *wanted);

/* One value to stdout. Of a list only what is wanted. */
void ctl_print_value(const struct tree_node *value, enum ctl_format format, const char *wanted);

/* "3 d 4 h", "12 min 5 s", "0.3 s". */
void ctl_add_duration(struct buf *out, double seconds);
/* "17", "12.3 k", "4.5 M": counts; with "B" behind for bytes. */
void ctl_add_amount(struct buf *out, double amount);

#endif
