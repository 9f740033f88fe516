#include "model/service_prefer.h"

#include <stddef.h>
#include <string.h>

static const char *
service_prefer_text(const char *text)
{
	return text != NULL ? text : "";
}

/* kube-proxy's rule: hints apply if every ready endpoint has some and one names us. */
static bool
service_prefer_counts(const struct view_port *p, size_t offset, const char *self)
{
	bool ours = false;

	for (size_t i = 0; i < p->n_endpoints; i++) {
		const struct view_endpoint *e = &p->endpoints[i];
		const struct view_names *hints = (const void *)((const char *)e + offset);

		if ((e->flags & ENDPOINT_READY) == 0)
			continue;
		if (hints->n == 0)
			return false;
		ours = ours || view_names_hold(hints, self);
	}
	return ours;
}

struct service_prefer
service_prefer_of(const struct view *v, const struct view_port *p, const struct self *self)
{
	const char *node = service_prefer_text(self->node), *zone = service_prefer_text(self->zone);

	return (struct service_prefer){
		.node_hints =
			service_prefer_counts(p, offsetof(struct view_endpoint, hint_nodes), node),
		.zone_hints =
			service_prefer_counts(p, offsetof(struct view_endpoint, hint_zones), zone),
		.own_node = v->distribution == DISTRIBUTE_NODE,
		.own_zone = v->distribution != DISTRIBUTE_ALL && *zone != '\0',
	};
}

enum endpoint_tier
service_prefer_tier(
	const struct service_prefer *p, const struct view_endpoint *from, const struct self *self)
{
	const char *node = service_prefer_text(from->node);
	bool own = *node != '\0' && strcmp(node, service_prefer_text(self->node)) == 0;

	if (p->node_hints ? view_names_hold(&from->hint_nodes, self->node) : p->own_node && own)
		return TIER_NODE;
	if (p->zone_hints ? view_names_hold(&from->hint_zones, self->zone)
			  : p->own_zone &&
				strcmp(service_prefer_text(from->zone),
					service_prefer_text(self->zone)) == 0)
		return TIER_ZONE;
	return TIER_REST;
}
