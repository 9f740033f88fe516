/*
 * A client context's checks of a server's chain beyond the trust anchors: a CA by its hash
 * (pki_join_ctx), a clock that may be wrong (pki_ctx_floor), and refused serial numbers
 * (pki_ctx_refuse). Freed with the SSL_CTX. For base/tls alone.
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
	char **ca_pem; /* NULL: not requested */
	/* serial numbers of refused certificates, separated by commas, see pki_ctx_refuse; NULL:
	 * none */
	char *refused;
	bool also; /* a chain without that CA may end at another trusted one */
};

/* Replaces X509_verify_cert by its own verify callback in this context. NULL: OpenSSL failed. */
struct pki_trust *pki_trust_attach(struct ssl_ctx_st *ctx);
/* The trust of a context to which it was attached. */
struct pki_trust *pki_trust_of(const struct ssl_ctx_st *ctx);

#endif
