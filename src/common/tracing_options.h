/*
 * The keys tracing.*, which agent and hub have alike: rows of their tables, what types cannot say
 * of them, and what is made of them.
 *
 *	const struct tracing_keys keys = TRACING_KEYS(o);
 *	rc = tracing_keys_check(o, &keys, &err);
 *	rc = tracing_keys_open(&tracing, &(struct tracing_config){.loop = loop, .who = {...}}, &keys, &err);
 */
#ifndef EDGEWAY_SRC_COMMON_TRACING_OPTIONS_H
#define EDGEWAY_SRC_COMMON_TRACING_OPTIONS_H

#include "src/common/option_files.h"
#include "tracing/tracing.h"

/* clang-format off */
#define TRACING_OPTIONS(X) \
	X(STRING, tracing_endpoint, "tracing.endpoint", "", "collector of spans, OTLP over HTTP: http[s]://HOST[:PORT][/PATH]; \"\": none are made") \
	X(STRING, tracing_sample, "tracing.sample", "0", "share of the requests without a parent, and of connections, that are recorded, 0 to 1", \
		.reload = true) \
	X(UINT, tracing_limit, "tracing.limit", "100", "requests and connections recorded in a second, at most", .min = 1, .max = 1000000, \
		.reload = true) \
	X(DURATION, tracing_delay, "tracing.delay", "5s", "how long spans gather before they are sent", .min = 10, .max = 3600000) \
	X(LIST, tracing_headers, "tracing.headers", "", "header fields that the collector wants, NAME=VALUE") \
	X(STRING, tracing_headers_file, "tracing.headersFile", "", "file of them instead, one a line") \
	X(STRING, tracing_ca, "tracing.ca", "", "CAs of an https collector (PEM); default the system's")
/* clang-format on */

struct tracing_keys { /* borrowed */
	const char *endpoint, *sample, *ca;
	char **headers;
	uint64_t limit, delay_ms;
};

#define TRACING_KEYS(o)                                                                            \
	{                                                                                          \
		.endpoint = (o)->tracing_endpoint, .sample = (o)->tracing_sample,                  \
		.ca = (o)->tracing_ca, .headers = (o)->tracing_headers,                            \
		.limit = (o)->tracing_limit, .delay_ms = (o)->tracing_delay,                       \
	}

/* values: the options that they are of. */
int tracing_keys_check(const void *values, const struct tracing_keys *keys, struct err *err);
/* The list of tracing.headers from tracing.headersFile, if that is given. */
#define tracing_keys_read(c, o)                                                                    \
	option_list_from_file((c), "tracing.headersFile", (o)->tracing_headers_file,               \
		"tracing.headers", &(o)->tracing_headers)
/* 0 and NULL: there is no endpoint. config: what the keys do not say. */
int tracing_keys_open(struct tracing **t, const struct tracing_config *config,
	const struct tracing_keys *keys, struct err *err);
/* sample and limit, as they are now. */
void tracing_keys_use(const struct tracing_keys *keys, struct span_source *to);

#endif
