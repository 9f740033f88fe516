/*
 * The destination of spans: the URL of a collector's OTLP/HTTP endpoint, and the header fields that
 * it needs. Plain data of the caller, who frees it with collector_fini. Any thread.
 *
 *	struct collector c = {0};
 *	rc = collector_parse(&c, "https://otlp.example.com/v1/traces", headers, &err);
 */
#ifndef EDGEWAY_TRACING_COLLECTOR_H
#define EDGEWAY_TRACING_COLLECTOR_H

#include "base/core/err.h"

struct collector {
	bool tls;
	char host[254]; /* a name, or an address without brackets */
	uint16_t port;
	char *authority; /* Host: as the URL has it */
	char *path; /* with the query */
	char *fields; /* lines "name: value\r\n" for every request */
};

/* http[s]://host[:port][/path]; the default path is /v1/traces. headers: "name=value", ended by
 * NULL. Returns -EINVAL with a reason that contains no header's value. */
int collector_parse(
	struct collector *c, const char *url, const char *const *headers, struct err *err);
void collector_fini(struct collector *c);

#endif
