/*
 * What a Service's routes (HTTPRoute, GRPCRoute: model/http_route.h) do to a request of its
 * clients: they choose the Service whose endpoints get it, edit its head and that of its response,
 * limit its time, or answer it. One code for HTTP/1 and HTTP/2, between the codec's head and the
 * search for an endpoint. A Service without routes costs one comparison. On the worker's loop;
 * allocates nothing but, once for each worker, what regular expressions need.
 *
 *	struct routing r;
 *
 *	if (service->routes != NULL && !routing_apply(ex, head, &r))
 *		refused = true;		// once the head is written: routing_refuse(ex, &r)
 *	...
 *	routing_edit_response(ex, head);
 */
#ifndef EDGEWAY_LB_PROXY_ROUTING_H
#define EDGEWAY_LB_PROXY_ROUTING_H

#include "lb/proxy/permit.h"

/* Why a request is not sent to an endpoint. */
struct routing {
	uint16_t status; /* of our answer */
	bool location; /* a redirect: `text` is its Location, else the reason in one line */
	char *text; /* in worker->own_text */
};

/* Finds the rule for the request whose head was just read, and does to the head what the rule says.
 * ex->group is that of the backend then. Returns false if the request must be answered by
 * routing_refuse(). */
bool routing_apply(struct exchange *ex, struct http1_head *h, struct routing *r);
void routing_refuse(struct exchange *ex, struct routing *r);
/* Edits the head of the final response, whose names are in lower case for HTTP/2. 0 or -E2BIG. */
int routing_edit_response(const struct exchange *ex, struct http1_head *h);
/* Is another attempt wanted after this status? By the route or, where that says nothing of retries,
 * by the Service; `bit`: the status as RETRY_ON_... */
bool routing_retries(const struct exchange *ex, unsigned status, unsigned bit);
/* May the attempt be made at the same endpoint, if there is no other? */
static inline bool
routing_repeats(const struct exchange *ex)
{
	return ex->rule != NULL && ex->rule->retry != NULL;
}
/* Must the next attempt wait (retry.backoff)? Then ex's deadline is when it may be made. */
bool routing_backs_off(struct exchange *ex);
/* At its deadline: has it waited? */
bool routing_is_due_again(struct exchange *ex);
/* When the request, or this attempt, must be over by its route; 0: the route does not say. */
uint64_t routing_due_ms(struct exchange *ex);
/* The same by its service, which names a limit, from the first call on. */
uint64_t routing_service_due_ms(struct exchange *ex);
/* Has the whole request lasted as long as its route, or its client, lets it? */
bool routing_is_over(const struct exchange *ex);
/* Has the attempt lasted as long as the route lets it, while the request may last longer? */
bool routing_try_is_over(const struct exchange *ex);
/* The route has a limit for the request's time, or says that there is none. */
bool routing_limits(const struct exchange *ex);

/* The group of a Service's port for this client, held for the caller; NULL: there is none, or
 * *denied: the client may not call it. */
struct group *routing_group(
	const struct downstream *f, const struct service *s, uint16_t port, bool *denied);
/* The target of a request to this port in its parts: an empty path is "/". */
struct http_route_target routing_target(const struct http1_head *h, uint16_t port);

#endif
