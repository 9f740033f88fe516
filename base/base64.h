/*
 * Base64 (RFC 4648 section 4), as Kubernetes has it in Secrets, kubeconfigs and requests for certificates. Leaf.
 *
 *	auto_free char *text = base64_text(value);	// NULL: not base64, or not a text
 *	base64_add(&out, pem, strlen(pem));
 */
#ifndef EDGEWAY_BASE_BASE64_H
#define EDGEWAY_BASE_BASE64_H

#include "base/buf.h"

/* The text that is in it, on the heap; blanks are passed over. NULL when it is not base64, empty, or holds NUL. */
char *base64_text(const char *in);
/* Appends the bytes as base64, padded, in one line. */
void base64_add(struct buf *out, const void *data, size_t len);

#endif
