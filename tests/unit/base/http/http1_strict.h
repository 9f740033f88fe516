/*
 * An origin that forgives nothing: reads messages of HTTP/1.x by the grammar of RFC 9110 and 9112,
 * byte by byte, with nothing of base/http/http1 in it. What the proxy accepts must be read here as
 * the same; the other way round it may refuse more.
 *
 *	assert_true(strict_head(&head, data, n));	// exactly one head
 */
#ifndef EDGEWAY_TESTS_UNIT_BASE_HTTP_HTTP1_STRICT_H
#define EDGEWAY_TESTS_UNIT_BASE_HTTP_HTTP1_STRICT_H

#include "base/core/buf.h"

enum { STRICT_FIELDS = 256 };

struct strict_part {
	const char *at;
	size_t len;
};

struct strict_head {
	struct strict_part line
		[3]; /* of the first line: method, target, version; or version, status, reason */
	size_t n;
	struct strict_part names[STRICT_FIELDS], values[STRICT_FIELDS];
};

/* Exactly one head, with its empty line. */
bool strict_head(struct strict_head *h, const char *data, size_t len, bool request);
/* Bytes of a chunked body from its first size to the end of its trailers, payload into `out`; 0:
 * violated, or not whole. */
size_t strict_chunks(const char *data, size_t len, struct buf *out);

#endif
