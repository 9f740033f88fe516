/*
 * Shared by http_route.c (arena, index, search) and http_route_match.c (does one match fit?).
 */
#ifndef EDGEWAY_MODEL_HTTP_ROUTE_PRIVATE_H
#define EDGEWAY_MODEL_HTTP_ROUTE_PRIVATE_H

#include "model/http_route.h"

/* Conditions of the match hold for the request, its path included. */
bool http_route_fits(const struct http_route_match *m, const struct http_route_query *q);

/* The value of a request's header field: several fields of one name are one list (RFC 9110 section
 * 5.2), joined in `joined` of ROUTE_VALUE_MAX bytes. at NULL: there is none, or it is too long. */
struct http1_str http_route_field(
	const struct http1_head *h, struct http1_str name, char joined[ROUTE_VALUE_MAX]);

#endif
