/*
 * Removes secrets from texts for a bug report: private keys (PEM), join tokens, passwords, bearer
 * tokens, cookies, values of keys and flags with such names, all values of `headers`, passwords in
 * URLs, and queries of requests in the access log. A value that was removed once is searched for in
 * all later texts, so that a password of the configuration does not remain in a log line: pass the
 * configuration first. In doubt it removes too much. Pure, except for that list.
 *
 *	struct redactor r = {0};
 *	redact(&r, &out, text, len);	// again and again
 *	redactor_fini(&r);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_REDACT_H
#define EDGEWAY_SRC_CTL_CTL_REDACT_H

#include "base/core/buf.h"

#define REDACTED "[removed]"

struct redactor {
	char **known; /* removed values */
	size_t n_known;
	size_t removed; /* number of removals */
};

/* Appends `text` without its secrets; `out` must be unlimited. */
void redact(struct redactor *r, struct buf *out, const char *text, size_t len);
void redactor_fini(struct redactor *r);

#endif
