/*
 * The hub that runs hands over to a new one on its machine, as agents do (takeover.h has the talk between them): by POST /takeover on the admin
 * socket a new hub asks for it; by POST /upgrade this one starts its own program again, which then asks. The new one gets the lock of
 * dataDir and all sockets that listen, reads what is on the disk, and says that it serves; until then this one serves on, and lets nobody
 * join. Then it takes no more callers, sends its nodes to the new one, and finishes what it has within drainTimeout. It ends then if
 * it was upgraded; else it waits to be stopped by whoever started both. Loop 0.
 *
 *	hub_handover_new(&h, &config);
 *	hub_handover_asked(h, fd);	// admin_take_fn's
 */
#ifndef EDGEWAY_SRC_HUB_HANDOVER_H
#define EDGEWAY_SRC_HUB_HANDOVER_H

#include "hub/hub.h"
#include "src/starter.h"

struct hub_handover;

struct hub_handover_config {
	struct loop *loop;
	struct hub *hub; /* outlives it */
	int lock; /* of dataDir */
	struct starter *starter; /* NULL: none */
	const char *program; /* argv[0] */
	bool replicas; /* others serve while this one is restarted: it does not hand over */
	void (*given)(void *arg); /* the new one serves: close the admin socket, drain */
	void (*ended)(void *arg,
		int status); /* it can neither hand over nor go on, or was to be stopped meanwhile */
	void *arg;
};

void hub_handover_new(struct hub_handover **h, const struct hub_handover_config *config);
void hub_handover_free(struct hub_handover **h);
/* stops: this hub does already. */
void hub_handover_asked(struct hub_handover *h, int fd, bool stops);
void hub_handover_upgrade(struct hub_handover *h, int fd, bool stops);
/* A new one reads what is on the disk: nothing is to be changed there. */
bool hub_handover_is_under_way(const struct hub_handover *h);
/* SIGTERM: true when a handover is under way, after which the end comes by itself. */
bool hub_handover_terminates(struct hub_handover *h);
/* All is drained: true when it waits to be stopped; `ended` follows. */
bool hub_handover_waits(struct hub_handover *h);

#endif
