/*
 * What the files of meta's door share: meta.c (opens, connects, stops; asks) and meta_tell.c
 * (state, metrics). Nothing outside of these includes it.
 */
#ifndef EDGEWAY_META_META_PRIVATE_H
#define EDGEWAY_META_META_PRIVATE_H

#include "meta/client/hub_client.h"
#include "meta/client/staleness.h"
#include "meta/meta.h"
#include "meta/state/apply.h"
#include "meta/state/writer.h"

struct meta {
	struct meta_config config; /* strings owned */
	char **urls, **last_good, **told; /* of each url: what is remembered */
	char *refused_hubs; /* HUB_CLIENT_REFUSED_NOTE, NULL: none */
	char *proxy_good; /* the proxy's last good address */
	int64_t floor_s; /* the last time stored */
	/* when this node was last in step with its hub, as the database has it; 0: never */
	int64_t in_step_s;
	struct staleness *age;
	char *path;
	meta_use_fn *use;
	void *use_arg;
	struct apply *apply;
	struct writer *writer;
	struct hub_client *feed; /* NULL: cannot connect */
	unsigned moved_aside;
	uint64_t open_ms; /* how long reading the database took */
	/* errno, positive, of what kept it from being written at the start; 0: nothing */
	int open_error;
	char why_not[512]; /* why feed is NULL */
};

#endif
