/*
 * Reads and writes the field traceparent (W3C Trace Context, Level 1 and 2): which trace a request
 * belongs to, the caller's span, and whether it is recorded. Leaves; any thread.
 *
 *	struct trace_context c;
 *	if (traceparent_parse(&c, value, len))
 *		...
 *	traceparent_text(text, &c);
 */
#ifndef EDGEWAY_BASE_HTTP_TRACEPARENT_H
#define EDGEWAY_BASE_HTTP_TRACEPARENT_H

#include "base/core/util.h"

enum { TRACE_SAMPLED = 1, TRACE_RANDOM = 2 }; /* flags; Level 2 section 2.2.2.3 */
enum { TRACEPARENT_LEN = 55, TRACE_ID_BYTES = 16, TRACE_SPAN_BYTES = 8 };

struct trace_context {
	uint8_t trace[TRACE_ID_BYTES], span[TRACE_SPAN_BYTES];
	uint8_t flags; /* the known ones */
};

/* False: invalid, section 3.2.2. Of later versions it reads the part that this version defines,
 * section 4. */
bool traceparent_parse(struct trace_context *to, const char *text, size_t len);
/* As version 00. */
void traceparent_text(char to[TRACEPARENT_LEN + 1], const struct trace_context *c);
/* CLOCK_MONOTONIC. */
uint64_t trace_clock_us(void);
/* What a new span needs: the time and random bits. */
struct trace_moment {
	uint64_t unix_ns, us; /* now, by both clocks */
	uint64_t random[4];
};
void trace_now(struct trace_moment *to);
/* 2 n lower-case digits and NUL. */
void trace_hex(char *to, const uint8_t *from, size_t n);

#endif
