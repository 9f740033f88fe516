/*
 * Session persistence of a route's rule (GEP-1619): the answer to the first request names, in a
 * cookie or a header field, the backend and endpoint that gave it, and requests that bring this
 * token get the same ones. Nothing is kept at the node, so any node and worker follows a token.
 * It is no secret: whoever makes one up reaches an endpoint that the rule leads to anyway. Pure.
 *
 *	if (session_find(rule->session, head, now_s, &token))
 *		backend = session_backend(rule, &token);	// NULL: it is no backend any more
 *	...
 *	if (session_answer(rule->session, &token, &fresh, text, &pair))
 *		...	// `pair` is a field for the response
 */
#ifndef EDGEWAY_LB_PROXY_SESSION_H
#define EDGEWAY_LB_PROXY_SESSION_H

#include "model/http_route.h"

struct session_token {
	uint64_t endpoint; /* balance_node's hash; 0: there is no session */
	uint32_t backend; /* session_hash() */
	uint32_t begun_s, used_s; /* of the wall clock */
};

enum { SESSION_FIELD_MAX = ROUTE_SESSION_NAME_MAX + ROUTE_PATH_MAX + 128 };

uint32_t session_hash(const struct http_route_backend *b);
/* The token that the request brings, if its session is not over; else *t is zeroed. */
bool session_find(const struct http_route_session *s, const struct http1_head *h, uint64_t now_s,
	struct session_token *t);
/* NULL: the rule does not lead there, or the backend is invalid. */
const struct http_route_backend *session_backend(
	const struct http_route_rule *rule, const struct session_token *t);
/* Writes what the response has to say into `text`, which `p` points to, when `had`, brought by the
 * request, is not the session that goes on now: `now`, whose begun_s is set here. Returns false if
 * there is nothing to say. */
bool session_answer(const struct http_route_session *s, const struct session_token *had,
	struct session_token *now, char text[SESSION_FIELD_MAX], struct http_route_pair *p);

#endif
