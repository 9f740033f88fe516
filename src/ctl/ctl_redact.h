/*
 * Takes secrets out of what goes into a bug report: private keys (PEM), join tokens, passwords,
 * bearer tokens, cookies, values of keys and flags that are called so, all values of `headers`,
 * passwords in URLs, and queries of requests in the access log. What was taken out once is looked
 * for in all that follows, so that a password of the configuration does not stay in a line of the
 * log: give the configuration first. Rather too much than too little. Pure, but for that list.
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
	char **known; /* values that were taken out */
	size_t n_known;
	size_t removed; /* how often */
};

/* Appends `text` without its secrets; `out` must be unlimited. */
void redact(struct redactor *r, struct buf *out, const char *text, size_t len);
void redactor_fini(struct redactor *r);

#endif
