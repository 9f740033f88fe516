/*
 * What the agent finds of itself, from its state as JSON (agent_admin.c) and what stands behind it:
 * a finding a check, also where all is well, so that status, doctor, metrics and log say the same
 * (findings.h). No I/O, nothing is kept; texts of the tree are borrowed.
 *
 *	agent_checks(&f, tree_document(state, 0));
 */
#ifndef EDGEWAY_SRC_AGENT_AGENT_CHECKS_H
#define EDGEWAY_SRC_AGENT_AGENT_CHECKS_H

#include "src/common/findings.h"

struct snapshot;

/* top: the state. */
void agent_checks(struct findings *f, const struct tree_node *top);
/* Services that have nothing behind them, or nothing that this node reaches; tunnel: may the hub
 * carry it there? */
void agent_check_services(struct findings *f, const struct snapshot *snapshot, bool tunnel);

#endif
