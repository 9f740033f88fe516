/*
 * The parts of edgewayctl doctor: ctl_doctor.c has the agent, ctl_doctor_hub.c the hub,
 * ctl_doctor_disk.c a disk, ctl_doctor_view.c how pods see the mesh, ctl_doctor_machine.h the
 * machine. Each adds what it finds; nothing is changed.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_DOCTOR_PARTS_H
#define EDGEWAY_SRC_CTL_CTL_DOCTOR_PARTS_H

#include "src/ctl/ctl_findings.h"

/* top: the hub's state. */
void doctor_hub(struct findings *f, const struct tree_node *top);
/* Has the file system of the folder room and inodes, and can it be written? */
void doctor_disk(struct findings *f, const char *folder);
/* The mesh as this host and containers on the bridge see it, and what stands in their way. state:
 * the agent's. */
void doctor_view(
	struct findings *f, const struct tree_node *state, const char *bridge, const char *socket);

#endif
