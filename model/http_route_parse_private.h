/*
 * Shared by http_route_parse.c (tables), http_route_parse_rule.c (rules) and the decoder of routes
 * (kube_route.c): texts and lists of JSON in the routes' arena, and what they may hold.
 */
#ifndef EDGEWAY_MODEL_HTTP_ROUTE_PARSE_PRIVATE_H
#define EDGEWAY_MODEL_HTTP_ROUTE_PARSE_PRIVATE_H

#include "model/http_route.h"
#include "model/json.h"

typedef void route_parse_fn(struct json *j, struct http_routes *r, void *to);

/* How the members of a list are read: each by fn, into a structure of that size. */
struct route_parse_kind {
	route_parse_fn *fn;
	size_t size;
	uint32_t max;
};

/* Reads the list that j is at into an array of the arena; *n: its length. */
void *route_parse_list(
	struct json *j, struct http_routes *r, const struct route_parse_kind *kind, uint32_t *n);
/* Takes the text, which may be NULL, into the arena. */
const char *route_parse_take(struct http_routes *r, char *text);
/* The same, which may not be empty and must pass the check. */
const char *route_parse_need(struct json *j, struct http_routes *r, char *text,
	bool (*check)(const char *text, size_t len), const char *what);
bool route_parse_name(const char *text, size_t len); /* of a field or parameter */
bool route_parse_value(const char *text, size_t len); /* of a field */
bool route_parse_path(const char *text, size_t len); /* "/" and visible ASCII without "?" and "#" */
void route_parse_rule(struct json *j, struct http_routes *r, void *to);

#endif
