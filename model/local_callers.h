/*
 * The callers of one node, as sent by its hub (doc/protocol.md, "Callers"): the node's labels and
 * its pods with namespace, labels and address, so that the agent can check callers against
 * edgeway.io/allow-from. Immutable, atomically reference-counted: the snapshot holds one. Peer
 * input: local_callers_parse checks every limit.
 *
 *	struct allow_caller who;
 *
 *	local_callers_find(callers, ip, &who);	// callers NULL: no known callers
 *	if (!allow_from_permits(service->allow_from, &who))
 */
#ifndef EDGEWAY_MODEL_LOCAL_CALLERS_H
#define EDGEWAY_MODEL_LOCAL_CALLERS_H

#include "base/core/buf.h"
#include "model/allow_from.h"
#include "model/limits.h"

struct local_callers;

struct local_pod {
	const char *ns, *name, *ip;
	const char *other_ip; /* of the other family; "" (to local_callers_add also NULL) none */
	const struct kube_labels *labels;
};

int local_callers_parse(struct local_callers **c, const char *json, size_t len, struct err *err);
struct local_callers *local_callers_ref(const struct local_callers *c);
void local_callers_unref(struct local_callers **c);
/* Finds the caller with this address on the node: *who borrows from c, and from `ip`. */
void local_callers_find(
	const struct local_callers *c, const struct in6_addr *ip, struct allow_caller *who);
size_t local_callers_count(const struct local_callers *c);
/* Sorted by address. */
struct local_pod local_callers_at(const struct local_callers *c, size_t i);
const struct kube_labels *local_callers_node(const struct local_callers *c);

/* Writes the JSON form piece by piece; `node`: its labels, NULL: none. Leaves out a pod beyond the
 * limits of model/limits.h. */
void local_callers_begin(struct buf *out, const struct kube_labels *node);
void local_callers_add(struct buf *out, const struct local_pod *pod);
void local_callers_end(struct buf *out);

#endif
