#include <stdio.h>
#include <string.h>

#include "hub/routing/routes_private.h"
#include "model/allow_from.h"

/*
 * Decides who may call a service through the hub. A node is admitted if it, or any of its pods, may
 * call: the node itself decides for each pod. A caller at the ingress is not a pod: its address or
 * its name must be permitted.
 */

void
routes_caller_of(struct routes_caller *to, const struct caller *caller, bool enforces)
{
	*to = (struct routes_caller){.enforces = enforces};
	snprintf(to->node, sizeof to->node, "%s", caller->node);
	to->has_address = addr_ip(&caller->addr, &to->address);
	if (caller->cert[0] != '\0')
		snprintf(to->name, sizeof to->name, "cert:%s", caller->cert);
	else if (caller->token[0] != '\0')
		snprintf(to->name, sizeof to->name, "token:%s", caller->token);
	else if (caller->local || caller->addr.sa.sa_family == AF_UNIX)
		snprintf(to->name, sizeof to->name, "local");
}

void
routes_for(struct routes_finder *f, const struct routes_caller *caller)
{
	f->caller = caller;
}

static bool
routes_may(const struct routes_finder *f, const struct view *v, const char *text)
{
	const struct routes_caller *c = f->caller;
	struct allow_from *allow_from;
	bool may;

	if (allow_from_parse(&allow_from, text, v->ns, NULL) < 0)
		return false;
	if (c->node[0] != '\0')
		may = cluster_node_may_call(f->config.cluster, c->node, allow_from);
	else
		may = allow_from_permits(allow_from,
			&(struct allow_caller){
				.address = c->has_address ? &c->address : NULL,
				.name = c->name[0] != '\0' ? c->name : NULL,
			});
	allow_from_unref(&allow_from);
	return may;
}

unsigned
routes_permit(struct routes_finder *f, const struct view *v, uint64_t *closed, struct routes *w)
{
	*closed = 0;
	if (!view_restricted(v) || f->caller == NULL)
		return 0;
	if (f->caller->node[0] != '\0' && !f->caller->enforces)
		return routes_refuse(w, 403,
			"service %s/%s is not for every caller, and the agent of node %s does not "
			"tell "
			"them apart: upgrade it",
			v->ns, v->name, f->caller->node);
	if (v->allow_from != NULL && *v->allow_from != '\0' && !routes_may(f, v, v->allow_from))
		return routes_refuse(w, 403,
			"edgeway.io/allow-from keeps this caller from service %s/%s", v->ns,
			v->name);
	for (size_t i = 0; i < v->n_gates; i++)
		if (!routes_may(f, v, v->gates[i]))
			*closed |= UINT64_C(1) << i;
	return 0;
}
