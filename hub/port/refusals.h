/*
 * The services that a node has rejected as they are, with its reasons (doc/protocol.md, "Metadata":
 * error). The first REFUSALS_NAMED are kept by name, the others only counted. Part of
 * hub/sync/node_session; pure.
 *
 *	refusals_add(&r, "default/big", content, len);	// the error's content
 *	refusals_drop(&r, "default/big");		// it has changed
 */
#ifndef EDGEWAY_HUB_PORT_REFUSALS_H
#define EDGEWAY_HUB_PORT_REFUSALS_H

#include <stddef.h>

enum { REFUSALS_NAMED = 100, REFUSALS_REASON_MAX = 200 };

struct refusal {
	char *service; /* "namespace/name" */
	char *reason; /* printable, see log_clean */
};

struct refusals {
	struct refusal *list; /* NULL: none */
	size_t n, more; /* more: number of those not in the list */
};

/* json: a string; anything else is used as the reason as it is. The service must not be in the list
 * yet. */
void refusals_add(struct refusals *r, const char *service, const char *json, size_t len);
/* The service must be one of them. */
void refusals_drop(struct refusals *r, const char *service);
size_t refusals_count(const struct refusals *r);
void refusals_fini(struct refusals *r);

#endif
