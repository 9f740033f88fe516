/*
 * Follows the ConfigMaps that BackendTLSPolicies name, each by itself (hub/kube/follow.h), so that
 * the hub reads no others, and puts them into the cluster. On the hub's loop.
 *
 *	ca_maps_use(maps);		// whenever policies may have changed
 *	if (ca_maps_settled(maps))
 *		...			// what is named was read
 */
#ifndef EDGEWAY_HUB_KUBE_CA_MAPS_H
#define EDGEWAY_HUB_KUBE_CA_MAPS_H

#include "hub/kube/kube_api.h"
#include "model/cluster/cluster.h"

enum {
	CA_MAPS_MAX = 256, /* a watch each; the others are not read */
	CA_MAPS_OF_NAMESPACE = CA_MAPS_MAX / 8, /* nobody takes those of all others */
};

struct ca_maps;

struct ca_maps_config {
	struct loop *loop;
	struct kube_api *api;
	struct cluster *cluster;
	const char *rights; /* file with the rights to read them */
	loop_fn *changed; /* from the loop */
	void *arg;
};

struct ca_maps *ca_maps_new(const struct ca_maps_config *config);
void ca_maps_free(struct ca_maps **maps);
/* Follows what policies name now, and forgets the rest. Not from `changed` of a reflector. */
void ca_maps_use(struct ca_maps *maps);
/* Was each of them read once, or found not to exist? */
bool ca_maps_settled(const struct ca_maps *maps);
/* Why some cannot be read, with the remedy; "": none. */
const char *ca_maps_problem(const struct ca_maps *maps);
size_t ca_maps_count(const struct ca_maps *maps);

#endif
