/*
 * The routes of one service, compiled at the hub from HTTPRoutes and GRPCRoutes whose parent the
 * service is: rules, and tables of matches, in order of precedence. They are part of the service's
 * view (doc/protocol.md, "Routes"); a node indexes them, so that a request costs the same with one
 * route as with a thousand. Immutable once sealed, atomically reference-counted, in an arena of
 * their own. Any thread may read them; matching allocates nothing.
 *
 *	struct http_route_query q = {
 *		.port = 80, .path = path, .query = query, .head = &head, .ns = "default",
 *		.scratch = worker->regex_scratch};
 *	const struct http_route_rule *rule = http_routes_match(service->routes, &q);
 *
 *	if (rule == NULL)
 *		...	// no route is for this port and caller: the service's own endpoints
 *	else if (rule->status != 0)
 *		...	// answer with it: 404, no rule matches; 500, the rule cannot be followed
 *	else if (rule->redirect != NULL)
 *		n = http_route_location(rule, &target, to, sizeof to);
 *	else
 *		backend = http_route_pick(rule, random);	// then rewrite, edits, timeouts
 */
#ifndef EDGEWAY_MODEL_HTTP_ROUTE_H
#define EDGEWAY_MODEL_HTTP_ROUTE_H

#include <stdatomic.h>

#include "base/core/buf.h"
#include "base/http/http1.h"
#include "model/limits.h"
#include "model/route_regex.h"

struct json;

/* --- rules ---------------------------------------------------------------------------------- */

struct http_route_pair {
	const char *name, *value;
};

/* What a filter does to header fields, in this order: sets, adds, removes. */
struct http_header_edits {
	uint8_t n_set, n_add, n_remove;
	const struct http_route_pair *set, *add;
	const char *const *remove;
};

/* What a request's path becomes. */
enum http_route_path { HTTP_ROUTE_PATH_KEPT, HTTP_ROUTE_PATH_FULL, HTTP_ROUTE_PATH_PREFIX };

struct http_route_modifier {
	const char *host; /* "": kept */
	const char *path; /* replaces the path or its prefix */
	uint8_t kind; /* enum http_route_path */
};

struct http_route_redirect {
	struct http_route_modifier to;
	const char *scheme; /* "http", "https"; "": the request's */
	uint16_t port; /* 0: as the scheme says, else the service's port */
	uint16_t status; /* 301, 302, 303, 307, 308 */
};

struct http_route_backend {
	const char *ns, *name; /* a Service */
	uint16_t port;
	bool invalid; /* its share of the requests is answered with 500 */
	uint32_t weight;
	const struct http_header_edits *request, *response; /* beside the rule's own; NULL: none */
};

/* A copy of `numerator` of `denominator` requests goes here; its answers count for nothing. */
struct http_route_mirror {
	const char *ns, *name;
	uint16_t port;
	uint32_t numerator, denominator;
};

struct http_route_retry {
	uint8_t n_codes, attempts; /* attempts: retries after the first; 0: the node's default */
	uint32_t backoff_ms; /* at least so long between two; 0: the node's default */
	const uint16_t *codes;
};

struct http_route_session {
	bool header; /* the session's name is a header field, else a cookie */
	bool permanent; /* the cookie has a lifetime: absolute_ms */
	const char *name;
	const char *path; /* of the cookie; "": "/" */
	uint32_t absolute_ms, idle_ms; /* 0: none */
};

#define HTTP_ROUTE_MS_DEFAULT UINT32_MAX

struct http_route_rule {
	const char *route; /* "namespace/name", for access log and trace; "" in 404's rule */
	const char *name; /* of the rule, "" none */
	uint8_t index; /* in its route */
	uint8_t n_backends, n_mirrors;
	/* 0: follow the rule; else the answer: 404 for a request that no rule matches, 500 for what
	 * has no valid backend or asks for what is not supported */
	uint16_t status;
	uint16_t prefix_len; /* of its only PathPrefix match, for HTTP_ROUTE_PATH_PREFIX */
	/* of the whole request, of one attempt; 0: no limit; HTTP_ROUTE_MS_DEFAULT: not said */
	uint32_t request_ms, backend_ms;
	uint32_t weight; /* of all backends */
	const struct http_route_backend *backends;
	const struct http_route_mirror *mirrors;
	const struct http_header_edits *request, *response; /* these and what follows: NULL: none */
	const struct http_route_modifier *rewrite;
	const struct http_route_redirect *redirect;
	const struct http_route_retry *retry;
	const struct http_route_session *session;
};

/* --- matches -------------------------------------------------------------------------------- */

enum http_match_path {
	HTTP_MATCH_ANY_PATH,
	HTTP_MATCH_EXACT,
	HTTP_MATCH_PREFIX, /* by elements; the text has no "/" at its end, "": all paths */
	HTTP_MATCH_REGEX,
};

/* A condition on a header field or a query parameter. */
struct http_route_condition {
	const char *name, *value;
	uint16_t name_len, value_len;
	bool is_regex; /* value is a regular expression */
	const struct route_regex *regex; /* set by http_routes_seal */
};

struct http_route_match {
	uint32_t rule; /* index of the rule */
	uint32_t next; /* index + 1 of the next match in its chain; http_routes_seal */
	uint8_t kind; /* enum http_match_path */
	uint8_t n_headers, n_params;
	uint16_t path_len;
	/* A GRPCRoute's: characters of its service and method, for the hub's order of precedence */
	uint16_t service_len, method_len;
	const char *path, *method; /* method "": any */
	const struct http_route_condition *headers, *params;
	const struct route_regex *regex; /* of the path; http_routes_seal */
};

/* Matches in order of precedence: the first that fits counts. For some ports and, ns not "", for
 * the callers of one namespace, who then see no other table of this port. */
struct http_route_table {
	const char *ns;
	bool grpc; /* for gRPC alone: other requests get 404 */
	uint16_t n_ports;
	const uint16_t *ports;
	uint32_t n_matches;
	struct http_route_match *matches;
	struct http_route_index *index; /* http_routes_seal */
};

struct http_routes {
	_Atomic unsigned refs;
	uint32_t n_rules, n_tables;
	struct http_route_rule *rules;
	struct http_route_table *tables;
	/* the rest is http_route.c's own */
	struct http_route_block *blocks; /* the arena */
	struct http_routes **lenders;
	size_t n_lenders;
	struct route_regex **regexes;
	size_t n_regexes, n_unknown;
	uint64_t seed;
	uint32_t *by_key; /* tables by port and namespace: index + 1 */
	bool scoped, grpc; /* some table is for one namespace; for gRPC alone: http_routes_seal */
	size_t n_keys;
};

/* --- using ---------------------------------------------------------------------------------- */

struct http_route_query {
	uint16_t port; /* of the service, that the client dialled */
	bool grpc; /* content-type: application/grpc; of no matter without routes->grpc */
	struct http1_str path, query; /* of the target; query: without "?" */
	const struct http1_head *head; /* method, host and fields */
	const char *ns; /* the caller's namespace, "" when unknown */
	struct route_regex_scratch *scratch; /* the calling thread's */
};

/* The rule for this request. NULL: no route is for this port and caller, and the service's own
 * endpoints get the request, as without routes. routes may be NULL. */
const struct http_route_rule *http_routes_match(
	const struct http_routes *routes, const struct http_route_query *q);
/* The same, and which of the rule's matches it was; NULL: none. */
const struct http_route_rule *http_routes_find(const struct http_routes *routes,
	const struct http_route_query *q, const struct http_route_match **match);
/* Are some for the callers of one namespace alone? r may be NULL. */
bool http_routes_scoped(const struct http_routes *r);
/* The backend for a number that the caller draws evenly; may be `invalid` (500). NULL: none has a
 * weight, which is 500, too. */
const struct http_route_backend *http_route_pick(
	const struct http_route_rule *rule, uint32_t drawn);
/* Does a request with this number get a copy there? */
bool http_route_mirrors(const struct http_route_mirror *m, uint32_t drawn);
/* Is the answer's status one that the rule retries? */
bool http_route_retries(const struct http_route_retry *r, unsigned status);

/* A request's target as its client sent it. */
struct http_route_target {
	struct http1_str path, query; /* query: without "?"; at NULL: there is none */
	struct http1_str host; /* without port */
	const char *scheme; /* "http" or "https" */
	uint16_t port; /* of the service */
};
/* Writes the path and query that the endpoint gets; bytes written, or -ENOBUFS. */
ssize_t http_route_rewrite(const struct http_route_rule *rule, const struct http_route_target *t,
	char *to, size_t size);
/* Writes the value of Location; bytes written, or -ENOBUFS. */
ssize_t http_route_location(const struct http_route_rule *rule, const struct http_route_target *t,
	char *to, size_t size);
/* Edits the head's list of fields, which then point into the edits too. -E2BIG: too many fields. */
int http_route_edit(const struct http_header_edits *edits, struct http1_head *h);
/* May a filter edit this field? Not those of the connection, framing, routing and loops. */
bool http_route_may_edit(const char *name);

/* --- building ------------------------------------------------------------------------------- */

struct http_routes *http_routes_new(void);
struct http_routes *http_routes_ref(const struct http_routes *r);
void http_routes_unref(struct http_routes **r);
/* Zeroed memory that lives as long as r. */
void *http_routes_alloc(struct http_routes *r, size_t n, size_t size);
const char *http_routes_text(struct http_routes *r, const char *text);
/* Parts of `from` may be used in r from now on. */
void http_routes_borrow(struct http_routes *r, const struct http_routes *from);
/* Makes the indexes and compiles the expressions: r must not change any more. An expression that
 * cannot be compiled here, by an older PCRE2 than the hub's, matches nothing and is counted in
 * n_unknown: the service's endpoints must not wait for it. */
void http_routes_seal(struct http_routes *r);
/* The number of regular expressions of a match. */
size_t http_match_regexes(const struct http_route_match *m);

/* --- JSON (doc/protocol.md, "Routes"): equal routes have equal bytes ------------------------- */

void http_routes_build(struct buf *out, const struct http_routes *r);
void http_route_build_rule(struct buf *out, const struct http_route_rule *rule);
void http_route_build_match(struct buf *out, const struct http_route_match *m);
/* Reads the value that j is at: sealed routes, or NULL after an error, which j then has. */
struct http_routes *http_routes_parse(struct json *j);

#endif
