/*
 * Certificate revocation lists (RFC 5280 section 5) of our CAs. A hub that has the CA's key makes
 * them; nodes read them and refuse the certificates they list. They are signed, so that nobody
 * without the CA's key can make a node refuse a hub. Leaf.
 *
 *	pki_crl_new(&(struct pki_crl){ca_pem, ca_key_pem, serials, n}, &crl_pem, err);
 *	rc = pki_crl_read(crl_pem, ca_pem, on_serial, arg, err);
 */
#ifndef EDGEWAY_BASE_TLS_PKI_CRL_H
#define EDGEWAY_BASE_TLS_PKI_CRL_H

#include "base/tls/pki.h"

enum { PKI_CRL_MAX = 4096 }; /* most entries read */

struct pki_crl {
	const char *ca_pem, *ca_key_pem; /* the first CA of the text signs */
	const char *const *serials; /* as pki_cert_serial gives them */
	size_t n;
};
/* crl_pem: heap. */
int pki_crl_new(const struct pki_crl *crl, char **crl_pem, struct err *err);

typedef void pki_serial_fn(void *arg, const char *serial);
/* Calls fn for each certificate that the list names, once it has verified that one of the CAs
 * signed the list. -EINVAL: it is not a list; -EPERM: another CA signed it. */
int pki_crl_read(
	const char *crl_pem, const char *ca_pem, pki_serial_fn *fn, void *arg, struct err *err);

#endif
