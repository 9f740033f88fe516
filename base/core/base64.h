/*
 * Base64 (RFC 4648 section 4): as Kubernetes has it in Secrets, kubeconfigs and requests for
 * certificates, in HTTP's Basic credentials, and around what base/core/gzip makes small. Leaf.
 *
 *	auto_free char *text = base64_text(value);	// NULL: not base64, or not a text
 *	base64_add(&out, pem, strlen(pem));
 */
#ifndef EDGEWAY_BASE_CORE_BASE64_H
#define EDGEWAY_BASE_CORE_BASE64_H

#include "base/core/buf.h"

/* The text that is in it, on the heap; blanks are passed over. NULL when it is not base64, empty,
 * or holds NUL. */
char *base64_text(const char *in);
/* Appends the bytes as base64, padded, in one line. `out` must be unlimited. */
void base64_add(struct buf *out, const void *data, size_t len);
/* The next bytes, at most `size`, of padded base64 in one line, from *at (0 at first) on; there is
 * more while *at < len. len is a multiple of 4. One text for each content: no blanks, no bits that
 * say nothing. The number of bytes, -1: not base64. */
int base64_take(const char *text, size_t len, size_t *at, unsigned char *out, size_t size);

#endif
