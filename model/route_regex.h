/*
 * Regular expressions of HTTPRoutes and GRPCRoutes, by PCRE2. Whoever may write a route writes the
 * expression, and any client the text, so everything is bounded: size of the expression and of its
 * compiled form, steps, depth and memory of one comparison. A comparison that exceeds a bound is no
 * match. Bytes, not characters, are compared, and always the whole text: "v[0-9]+" does not match
 * "v1beta".
 *
 *	struct route_regex *r = route_regex_new("v[0-9]+", &err);	// NULL: err says why
 *	struct route_regex_scratch *scratch = route_regex_scratch_new();	// one for each thread
 *
 *	if (route_regex_matches(r, scratch, text, len))
 *	route_regex_free(&r);
 *
 * A regex is immutable: any thread may use it, each with its own scratch. After the scratch's first
 * comparisons nothing is allocated.
 */
#ifndef EDGEWAY_MODEL_ROUTE_REGEX_H
#define EDGEWAY_MODEL_ROUTE_REGEX_H

#include "base/core/err.h"

enum {
	ROUTE_REGEX_TEXT_MAX = 4096, /* bytes of an expression, as the CRD's longest value */
	ROUTE_REGEX_CODE_MAX = 16 * 1024, /* bytes of its compiled form: a{1000} repeats itself */
	ROUTE_REGEX_STEPS_MAX = 20000, /* of one comparison, some 0.2 ms */
	ROUTE_REGEX_WORK_MAX = 20000 * 128, /* steps times the bytes that one may look at */
	ROUTE_REGEX_FULL = 4, /* expressions that may each have all steps for one request */
	ROUTE_REGEX_DEPTH_MAX = 1000,
	ROUTE_REGEX_MEMORY_MAX_KB = 256,
};

struct route_regex;
struct route_regex_scratch;

/* NULL when it is no regular expression or beyond the bounds. */
struct route_regex *route_regex_new(const char *text, struct err *err);
void route_regex_free(struct route_regex **r);
/* It is one of n that may be compared for one request: together they are bounded, too. Before any
 * comparison. */
void route_regex_share(struct route_regex *r, size_t n);
struct route_regex_scratch *route_regex_scratch_new(void);
void route_regex_scratch_free(struct route_regex_scratch **s);
/* r NULL: nothing matches. */
bool route_regex_matches(
	const struct route_regex *r, struct route_regex_scratch *s, const char *text, size_t len);

#endif
