/*
 * Computes the node addresses that ingress.redirect takes over: addresses in Node objects, of edge
 * nodes that nobody can dial directly, and that belong to one node and nothing else. Addresses
 * that are left out are counted by reason. Pure.
 *
 *	redirect_targets_find(&d, &(struct redirect_targets_question){.cluster = cluster, .at_edge = at_edge, .arg = me, .own = own, .n_own = n});
 *	if (redirect_targets_have(&d, &address)) ...
 *	redirect_targets_fini(&d);
 */
#ifndef EDGEWAY_HUB_INGRESS_REDIRECT_TARGETS_H
#define EDGEWAY_HUB_INGRESS_REDIRECT_TARGETS_H

#include "model/cluster/cluster.h"

enum redirect_targets_why {
	REDIRECT_TARGETS_DIRECT, /* edgeway.io/public, or the node has an ExternalIP */
	REDIRECT_TARGETS_NOT_AT_EDGE, /* no tunnel leads there: others can dial it, or nobody can */
	REDIRECT_TARGETS_AMBIGUOUS, /* several nodes, pods or a ClusterIP have it */
	REDIRECT_TARGETS_OWN, /* an address of this host itself */
	REDIRECT_TARGETS_IPV4, /* this host cannot redirect any of this family: */
	REDIRECT_TARGETS_IPV6, /* redirect_targets_leave */
	REDIRECT_TARGETS_UNFIT, /* loopback, link-local, cloud metadata, multicast */
	REDIRECT_TARGETS_WHYS
};

enum { REDIRECT_TARGETS_TEXT_MAX = 256 };

struct redirect_targets {
	struct in6_addr *list; /* IPv4 as ::ffff:a.b.c.d; sorted by bytes, no duplicates */
	size_t n, room;
	size_t left_out[REDIRECT_TARGETS_WHYS]; /* addresses */
	char ambiguous[REDIRECT_TARGETS_TEXT_MAX]; /* the first of them, "ADDRESS of NODE, ..." */
};

struct redirect_targets_question {
	const struct cluster *cluster;
	bool (*at_edge)(void *arg, const char *node);
	void *arg;
	const struct in6_addr *own; /* addresses of this host, sorted */
	size_t n_own;
};

/* `d` is zero, or holds an earlier result. */
void redirect_targets_find(struct redirect_targets *d, const struct redirect_targets_question *q);
/* Leaves out those found of this family. */
void redirect_targets_leave(struct redirect_targets *d, bool v6);
bool redirect_targets_have(const struct redirect_targets *d, const struct in6_addr *address);
/* The first of this family, NULL: none. */
const struct in6_addr *redirect_targets_first(const struct redirect_targets *d, bool v6);
const char *redirect_targets_why_text(
	enum redirect_targets_why why); /* a word for state and metrics */
void redirect_targets_fini(struct redirect_targets *d);

/* For such lists: sorts, removes duplicates, and returns how many are left. */
size_t redirect_targets_sort(struct in6_addr *list, size_t n);

#endif
