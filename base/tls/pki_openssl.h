/*
 * Shared by base/tls/pki.c (reading), base/tls/pki_issue.c (making certificates),
 * base/tls/pki_crl.c (revocation lists), base/tls/pki_ctx.c (contexts), base/tls/pki_trust.c and
 * base/tls/pki_tls.c (connections): PEM to OpenSSL's objects and OpenSSL's errors to ours. For
 * these files alone; all other code uses base/tls/pki.h, which shows no OpenSSL type.
 *
 * Readers refuse more than PKI_PEM_LIMIT bytes and never ask a terminal for a pass phrase.
 *
 *	auto_x509 X509 *cert = pki_read_cert(pem, "the CA's certificate", err);
 *	if (cert == NULL)
 *		return -EINVAL;
 */
#ifndef EDGEWAY_BASE_TLS_PKI_OPENSSL_H
#define EDGEWAY_BASE_TLS_PKI_OPENSSL_H

#include <openssl/evp.h>
#include <openssl/x509.h>

#include "base/core/err.h"

enum {
	PKI_PEM_LIMIT = 256 * 1024,
	PKI_COMMON_NAME_MAX = 64, /* ub-common-name, RFC 5280 appendix A */
};

#define auto_x509 __attribute__((cleanup(pki_cleanup_x509)))
#define auto_key __attribute__((cleanup(pki_cleanup_key)))
#define auto_bio __attribute__((cleanup(pki_cleanup_bio)))

void pki_cleanup_x509(X509 **cert);
void pki_cleanup_key(EVP_PKEY **key);
void pki_cleanup_bio(BIO **bio);

/* Read-only BIO over the text, or NULL when it is too long. */
BIO *pki_bio(const char *pem, const char *what, struct err *err);
/* What a memory BIO holds, as a heap string. */
char *pki_bio_text(BIO *bio);
/* Pass-phrase callback for OpenSSL's readers: never prompts. */
int pki_no_pass_phrase(char *buf, int size, int writing, void *arg);
/* First certificate or the key in the text; NULL with err filled. */
X509 *pki_read_cert(const char *pem, const char *what, struct err *err);
EVP_PKEY *pki_read_key(const char *pem, const char *what, struct err *err);
/* Certificate as PEM (heap); NULL when OpenSSL cannot. */
char *pki_write_cert(X509 *cert);
void pki_x509_hash(const X509 *cert, char hash[65]);
/* Its notBefore and its notAfter, seconds since 1970. */
int64_t pki_x509_begins(const X509 *cert);
int64_t pki_x509_ends(const X509 *cert);
void pki_x509_serial(const X509 *cert, char serial[41]);
void pki_serial_text(const ASN1_INTEGER *number, char serial[41]);
/* The name that the certificate authenticates, see pki_cert_info; heap, "" when it has none. */
char *pki_x509_name(const X509 *cert);
/* See pki_cert_is_hub. */
bool pki_x509_is_hub(X509 *cert);
/* The common name alone; heap, "" when there is none or more than one. */
char *pki_subject_name(const X509_NAME *subject);
/* "what: OpenSSL's reason"; clears OpenSSL's queue. Returns -EINVAL. */
int pki_fail(struct err *err, const char *what);

#endif
