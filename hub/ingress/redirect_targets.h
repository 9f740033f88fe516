/*
 * Which addresses of nodes programs of this host are to reach through the hub (ingress.redirect):
 * IPv4 addresses that Node objects say, of nodes at the edge that nobody can dial directly, that
 * are one node's and nobody else's. What is left out is counted by its reason. Pure.
 *
 *	redirect_targets_find(&d, &(struct redirect_targets_question){.cluster = cluster, .at_edge = at_edge, .arg = me, .own = own, .n_own = n});
 *	if (redirect_targets_have(&d, address)) ...
 *	redirect_targets_fini(&d);
 */
#ifndef EDGEWAY_HUB_INGRESS_REDIRECT_TARGETS_H
#define EDGEWAY_HUB_INGRESS_REDIRECT_TARGETS_H

#include "model/cluster/cluster.h"

enum redirect_targets_why {
	REDIRECT_TARGETS_DIRECT, /* edgeway.io/public, or the node has an ExternalIP */
	REDIRECT_TARGETS_NOT_AT_EDGE, /* no tunnel leads there: others can dial it, or nobody */
	REDIRECT_TARGETS_AMBIGUOUS, /* several nodes, pods or a ClusterIP have it */
	REDIRECT_TARGETS_OWN, /* an address of this very host */
	REDIRECT_TARGETS_IPV6, /* the table is for IPv4 */
	REDIRECT_TARGETS_UNFIT, /* loopback, link-local, metadata of clouds, multicast */
	REDIRECT_TARGETS_WHYS
};

enum { REDIRECT_TARGETS_TEXT_MAX = 256 };

struct redirect_targets {
	uint32_t *list; /* host byte order, in order, none twice */
	size_t n, room;
	size_t left_out[REDIRECT_TARGETS_WHYS]; /* addresses */
	char ambiguous[REDIRECT_TARGETS_TEXT_MAX]; /* the first of them, "ADDRESS of NODE, ..." */
};

struct redirect_targets_question {
	const struct cluster *cluster;
	bool (*at_edge)(void *arg, const char *node);
	void *arg;
	const uint32_t *own; /* addresses of this host, in order */
	size_t n_own;
};

/* `d` is zero or was filled before. */
void redirect_targets_find(struct redirect_targets *d, const struct redirect_targets_question *q);
bool redirect_targets_have(const struct redirect_targets *d, uint32_t address);
const char *redirect_targets_why_text(
	enum redirect_targets_why why); /* a word for state and metrics */
void redirect_targets_fini(struct redirect_targets *d);

/* For lists like these: puts them in order and drops what is there twice; how many are left. */
size_t redirect_targets_sort(uint32_t *list, size_t n);
bool redirect_targets_in(const uint32_t *sorted, size_t n, uint32_t number);

#endif
