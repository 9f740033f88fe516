/*
 * Checks common to agent and hub: a daemon's reports on its spans, its admin port and its system
 * call filter. Each adds to the findings; texts of the tree are borrowed.
 */
#ifndef EDGEWAY_SRC_COMMON_CHECKS_H
#define EDGEWAY_SRC_COMMON_CHECKS_H

#include "src/common/findings.h"

void check_traces(struct findings *f, const struct tree_node *tracing);
void check_admin(struct findings *f, const struct tree_node *admin);
void check_seccomp(struct findings *f, const struct tree_node *s);

#endif
