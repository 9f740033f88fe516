/* Finds routes, and takes streams that are kept for further requests. */
#include <string.h>

#include "base/core/hops.h"
#include "hub/routing/connector_private.h"

const unsigned connector_statuses[STATUSES] = {200, 400, 403, 404, 421, 429, 502, 503, 504, 508};

void
connector_count(struct connector *r, unsigned status)
{
	for (size_t i = 0; i < STATUSES; i++)
		r->answers[i] += connector_statuses[i] == status;
}

/* For this caller: a service may not be open to everybody, and who may reach nothing is not told
 * what there is. */
static unsigned
connector_find(const struct connector *r, const struct connector_request *q, struct routes *ways)
{
	struct routes_finder *f = r->config.ways;
	const struct routes_endpoint endpoint = {.asker = q->caller->node,
		.service = q->service,
		.node = q->dest,
		.at = q->host,
		.udp = q->udp};
	struct routes_caller who;
	unsigned status = routes_admit(f, q->caller, ways);

	if (status != 0)
		return status;
	routes_caller_of(&who, q->caller, q->enforces);
	routes_for(f, &who);
	if (q->service != NULL)
		status = routes_find_endpoint(f, &endpoint, ways);
	else if (q->dest != NULL)
		status = routes_find_at(f, q->host, q->dest, ways);
	else
		status = routes_find_as(
			f, &(struct routes_wish){q->host, q->port, q->names, q->udp}, ways);
	routes_for(f, NULL);
	ways->encrypted |= q->encrypted;
	return status;
}

uint64_t
connector_epoch(const struct connector *r, const char *node)
{
	const struct connector_config *c = &r->config;

	if (*node == '\0')
		return 0;
	return MAX(tunnels_epoch(c->tunnels, node),
		c->peers != NULL ? peers_epoch(c->peers, node) : 0);
}

void
connector_finish(struct connector *r, struct stream **stream, struct stream_use **use)
{
	stream_pool_give(r->pool, stream, use);
}

void
connector_settle(struct connector *r)
{
	stream_pool_clear(r->pool);
}

struct routes *
connector_routes(struct connector *r, const struct connector_request *q, unsigned *status)
{
	struct routes *ways = take_ptr(&r->found);

	*status = 0;
	if (ways != NULL && r->found_caller == q->caller && r->found_host == q->host)
		return ways;
	page_pool_give(&r->routes, ways);
	ways = page_pool_take(&r->routes);
	*status = connector_find(r, q, ways);
	return ways;
}

/* Of the first route that has a tunnel: NULL if no stream is kept there. */
static struct stream_use *
connector_take(struct connector *r, const struct connector_request *q, const struct way **way,
	struct stream **stream)
{
	char caller[ACCESS_NAME_MAX + 8], hops[HOPS_TEXT_MAX];
	struct stream_key key = {.caller = caller_name(q->caller, caller),
		.hops = hops_text(MAX(q->caller->hops, q->hops) + 1, hops),
		.service = r->found->service};

	for (size_t i = 0; i < r->found->n; i++) {
		*way = &r->found->list[i];
		key.node = (*way)->node;
		key.authority = (*way)->authority;
		key.epoch = connector_epoch(r, key.node);
		if (*key.node == '\0' || key.epoch != 0)
			return stream_pool_take(r->pool, &key, stream);
	}
	return NULL;
}

bool
connector_reuse(struct connector *r, const struct connector_request *q, struct grant *grant,
	struct connector_answer *answer)
{
	const struct way *way;
	unsigned status;

	page_pool_give(&r->routes, take_ptr(&r->found));
	if (!q->kept || q->full != NULL || q->trace != NULL || !stream_pool_any(r->pool) ||
		MAX(q->caller->hops, q->hops) >= HOPS_MAX)
		return false;
	r->found = connector_routes(r, q, &status);
	r->found_caller = q->caller;
	r->found_host = q->host;
	if (status != 0 || routes_judge(r->config.ways, q->caller, r->found) != 0) {
		page_pool_give(&r->routes, take_ptr(&r->found)); /* connector_start tells why */
		return false;
	}
	*answer = (struct connector_answer){.status = 200, .where = &r->found->target};
	answer->use = connector_take(r, q, &way, &answer->stream);
	if (answer->use == NULL)
		return false;
	r->found_caller = NULL; /* for this answer alone */
	answer->target = answer->use->target;
	answer->at = answer->use->at;
	answer->via = way->node;
	answer->final_node = answer->node = "";
	connector_grant(answer, grant, q->caller);
	if (answer->status != 200)
		return false;
	connector_count(r, 200);
	return true;
}
