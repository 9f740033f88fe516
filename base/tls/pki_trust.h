/*
 * What a client's context asks of a server's chain beyond its anchors: a CA by its hash
 * (pki_join_ctx), and a clock that may be wrong (pki_ctx_floor). Freed with the SSL_CTX. For
 * base/tls/pki_ctx.c alone.
 *
 *	trust = pki_trust_attach(ctx);
 *	trust->floor_s = built_s;
 */
#ifndef EDGEWAY_BASE_TLS_PKI_TRUST_H
#define EDGEWAY_BASE_TLS_PKI_TRUST_H

#include "base/tls/pki.h"

struct pki_trust {
	int64_t floor_s; /* see pki_ctx_floor */
	char hash[PKI_HASH_TEXT]; /* of a joining context, else "" */
	char **ca_pem; /* NULL: nobody wants to know it */
	/* serial numbers parted by commas, whose certificates are refused, see pki_ctx_refuse;
	 * NULL: none */
	char *refused;
	bool also; /* a chain without that CA may lead to another one that is trusted */
};

/* Its verify callback is in place of X509_verify_cert from now on. NULL: OpenSSL cannot. */
struct pki_trust *pki_trust_attach(struct ssl_ctx_st *ctx);
/* That of a context that has one. */
struct pki_trust *pki_trust_of(const struct ssl_ctx_st *ctx);

#endif
