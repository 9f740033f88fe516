/*
 * ALPN protocol names in the encoding of a ClientHello (RFC 7301 section 3.1). Pure; part of
 * base/tls/tls_stream.
 *
 *	n = tls_alpn_write(names, list);
 */
#ifndef EDGEWAY_BASE_TLS_TLS_ALPN_H
#define EDGEWAY_BASE_TLS_TLS_ALPN_H

#include <stdbool.h>

enum { TLS_ALPN_BYTES = 512 }; /* offered names, with their length bytes */

/* `names` is ended by NULL, or is NULL. Returns the bytes written, or -EINVAL: a name is empty or
 * too long, or there are too many. */
int tls_alpn_write(const char *const *names, unsigned char list[TLS_ALPN_BYTES]);
/* Is the name in the client's list? Sets *out to its position, as OpenSSL's callback requires. */
bool tls_alpn_select(const char *name, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len);
/* OpenSSL's callback for a server's tls_stream. Contexts get it when they are made: threads share
 * them. In tls_stream.c. */
struct ssl_st;
int tls_alpn_on_select(struct ssl_st *ssl, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len, void *arg);

#endif
