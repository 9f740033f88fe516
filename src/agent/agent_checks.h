/*
 * The agent's checks of itself, from its state as JSON (agent_admin.c): one finding for each check,
 * also if all is well, so that status, doctor, metrics and log say the same (findings.h). No I/O,
 * no stored state; texts of the tree are borrowed.
 *
 *	agent_checks(&f, tree_document(state, 0));
 */
#ifndef EDGEWAY_SRC_AGENT_AGENT_CHECKS_H
#define EDGEWAY_SRC_AGENT_AGENT_CHECKS_H

#include "src/common/findings.h"

struct snapshot;

/* top: the state. */
void agent_checks(struct findings *f, const struct tree_node *top);
/* meta: of the state. Pods by their address that were not found out. */
void agent_check_pods(struct findings *f, const struct tree_node *meta);
/* A part of agent_checks: sessions with other nodes (mesh.peerPort, mesh.direct). */
void agent_checks_peers(struct findings *f, const struct tree_node *peers);
/* Services without endpoints, or without endpoints that this node can reach; tunnel: whether the
 * hub may forward to them. */
void agent_check_services(struct findings *f, const struct snapshot *snapshot, bool tunnel);
/* Calls of the cloud: endpoints that no Pod stands for, above all the API server. apiserver:
 * tunnel.apiserver; asker: the pod whose call to it got no answer, or "". */
void agent_check_cloud(struct findings *f, const struct tree_node *state,
	const struct snapshot *snapshot, bool apiserver, const char *asker);

#endif
