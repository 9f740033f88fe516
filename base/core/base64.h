/*
 * Base64 (RFC 4648 section 4), as used in Kubernetes' Secrets, kubeconfigs and certificate
 * requests, in HTTP's Basic credentials, and around what base/core/gzip compresses. Leaf.
 *
 *	auto_free char *text = base64_text(value);	// NULL: not base64, or not a text
 *	base64_add(&out, pem, strlen(pem));
 */
#ifndef EDGEWAY_BASE_CORE_BASE64_H
#define EDGEWAY_BASE_CORE_BASE64_H

#include "base/core/buf.h"

/* The decoded text, on the heap; blanks are skipped. NULL when the input is not base64, or the text
 * is empty or holds NUL. */
char *base64_text(const char *in);
/* Appends the bytes as base64, padded, in one line. `out` must be unlimited. */
void base64_add(struct buf *out, const void *data, size_t len);
/* Decodes the next bytes, at most `size`, of padded base64 in one line, starting at *at (0 at
 * first); more follow while *at < len. len is a multiple of 4. Each content has exactly one
 * accepted encoding: no blanks, no non-zero padding bits. Returns the number of bytes, or -1: not
 * base64. */
int base64_take(const char *text, size_t len, size_t *at, unsigned char *out, size_t size);

#endif
