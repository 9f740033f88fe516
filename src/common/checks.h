/*
 * Checks that agent and hub have in common: what a daemon says of its spans, of its administrative
 * port and of its filter of system calls. Each adds to the findings; texts of the tree are
 * borrowed.
 */
#ifndef EDGEWAY_SRC_COMMON_CHECKS_H
#define EDGEWAY_SRC_COMMON_CHECKS_H

#include "src/common/findings.h"

void check_traces(struct findings *f, const struct tree_node *tracing);
void check_admin(struct findings *f, const struct tree_node *admin);
void check_seccomp(struct findings *f, const struct tree_node *s);

#endif
