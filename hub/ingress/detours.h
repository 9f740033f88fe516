/*
 * Which addresses of nodes programs of this host are to reach through the hub (ingress.redirect):
 * IPv4 addresses that Node objects say, of nodes at the edge that nobody can dial directly, that
 * are one node's and nobody else's. What is left out is counted by its reason. Pure.
 *
 *	detours_find(&d, &(struct detours_question){.cluster = cluster, .at_edge = at_edge, .arg = me, .own = own, .n_own = n});
 *	if (detours_have(&d, address)) ...
 *	detours_fini(&d);
 */
#ifndef EDGEWAY_HUB_INGRESS_DETOURS_H
#define EDGEWAY_HUB_INGRESS_DETOURS_H

#include "model/cluster/cluster.h"

enum detours_why {
	DETOURS_DIRECT, /* edgeway.io/public, or the node has an ExternalIP */
	DETOURS_NOT_AT_EDGE, /* no tunnel leads there: others can dial it, or nobody */
	DETOURS_AMBIGUOUS, /* several nodes, pods or a ClusterIP have it */
	DETOURS_OWN, /* an address of this very host */
	DETOURS_IPV6, /* the table is for IPv4 */
	DETOURS_UNFIT, /* loopback, link-local, metadata of clouds, multicast */
	DETOURS_WHYS
};

enum { DETOURS_TEXT_MAX = 256 };

struct detours {
	uint32_t *list; /* host byte order, in order, none twice */
	size_t n, room;
	size_t left_out[DETOURS_WHYS]; /* addresses */
	char ambiguous[DETOURS_TEXT_MAX]; /* the first of them, "ADDRESS of NODE, ..." */
};

struct detours_question {
	const struct cluster *cluster;
	bool (*at_edge)(void *arg, const char *node);
	void *arg;
	const uint32_t *own; /* addresses of this host, in order */
	size_t n_own;
};

/* `d` is zero or was filled before. */
void detours_find(struct detours *d, const struct detours_question *q);
bool detours_have(const struct detours *d, uint32_t address);
const char *detours_why_text(enum detours_why why); /* a word for state and metrics */
void detours_fini(struct detours *d);

/* For lists like these: puts them in order and drops what is there twice; how many are left. */
size_t detours_sort(uint32_t *list, size_t n);
bool detours_in(const uint32_t *sorted, size_t n, uint32_t number);

#endif
