/*
 * Shared by the files behind meta.h: meta.c (opens, connects, stops; answers) and meta_tell.c
 * (state, metrics). Not included elsewhere.
 */
#ifndef EDGEWAY_META_META_PRIVATE_H
#define EDGEWAY_META_META_PRIVATE_H

#include "meta/client/hub_client.h"
#include "meta/client/pod_asks.h"
#include "meta/client/staleness.h"
#include "meta/meta.h"
#include "meta/state/apply.h"
#include "meta/state/writer.h"

struct meta {
	struct meta_config config; /* strings owned */
	char **urls, **last_good, **told; /* stored values of each url */
	char *refused_hubs; /* HUB_CLIENT_REFUSED_NOTE, NULL: none */
	char *revoked_nodes; /* HUB_CLIENT_REVOKED_NOTE, NULL: none */
	char *proxy_good; /* the proxy's last good address */
	int64_t floor_s; /* the latest time stored */
	/* when this node was last in step with its hub, from the database; 0: never */
	int64_t in_step_s;
	struct staleness *age;
	struct pod_asks *pods;
	struct pod_ranges ranges; /* of pods' addresses, as a hub has said */
	char *path;
	meta_use_fn *use;
	void *use_arg;
	struct apply *apply;
	struct writer *writer;
	struct hub_client *feed; /* NULL: cannot connect */
	unsigned moved_aside;
	uint64_t open_ms; /* how long reading the database took */
	/* why the database could not be written at the start, errno, positive; 0: it could */
	int open_error;
	char why_not[512]; /* why feed is NULL */
};

#endif
