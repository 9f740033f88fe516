/*
 * The parts of edgewayctl doctor: ctl_doctor.c checks the agent, ctl_doctor_hub.c the hub,
 * ctl_doctor_disk.c a disk, ctl_doctor_view.c the mesh as pods see it, ctl_doctor_machine.h the
 * machine. Each adds findings and changes nothing.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_DOCTOR_PARTS_H
#define EDGEWAY_SRC_CTL_CTL_DOCTOR_PARTS_H

#include "src/ctl/ctl_findings.h"

/* top: the hub's state. */
void doctor_hub(struct findings *f, const struct tree_node *top);
/* Checks that the folder's file system has free space and inodes, and can be written. */
void doctor_disk(struct findings *f, const char *folder);
/* The mesh as this host and containers on the bridge see it, and what blocks it. state: the
 * agent's. */
void doctor_view(
	struct findings *f, const struct tree_node *state, const char *bridge, const char *socket);

#endif
