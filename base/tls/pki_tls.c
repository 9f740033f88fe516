#include "base/tls/pki_tls.h"

#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/tls/pki_openssl.h"
#include "base/tls/pki_tickets.h"

/* Removes an SNI that is an address, which is not allowed there (RFC 6066 section 3). */
static void
drop_numeric_sni(SSL *ssl)
{
	const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);

	if (name != NULL && strspn(name, "0123456789.:[]") == strlen(name))
		SSL_set_tlsext_host_name(ssl, NULL);
}

static void
on_client_info(const SSL *ssl, int where, int value)
{
	SSL *s = (SSL *)(uintptr_t)ssl; /* const only in the callback's type */

	if ((where & SSL_CB_HANDSHAKE_START) && SSL_get_state(ssl) == TLS_ST_BEFORE) {
		drop_numeric_sni(s);
		pki_tickets_offer(s);
	}
	if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT)
		SSL_set_app_data(s, (void *)(intptr_t)(value & 0xff));
}

void
pki_watch_client(SSL_CTX *ctx)
{
	SSL_CTX_set_info_callback(ctx, on_client_info);
}

/* Codes in an operator's words; for all others OpenSSL's text is used. */
static const char *
verify_words(int code)
{
	switch (code) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return "it has expired (or this machine's clock is wrong)";
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "it is not valid yet (or this machine's clock is wrong)";
	case X509_V_ERR_CERT_UNTRUSTED:
		return "the CA of the join token is not in its chain";
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_CERT_SIGNATURE_FAILURE:
		return "it is not signed by the CA that we trust";
	case X509_V_ERR_CERT_REVOKED:
		return "it was revoked, so this may be somebody who has stolen it";
	case X509_V_ERR_INVALID_PURPOSE:
		return "it is not made for this side of a connection";
	default:
		return X509_verify_cert_error_string(code);
	}
}

enum pki_step
pki_verify_client_step(X509_STORE_CTX *chain, bool ok, char *why, size_t size)
{
	int code = X509_STORE_CTX_get_error(chain);

	if (ok)
		return X509_STORE_CTX_get_error_depth(chain) == 0 ? PKI_VERIFIED : PKI_GOING_ON;
	if (code == X509_V_OK)
		X509_STORE_CTX_set_error(chain, X509_V_ERR_UNSPECIFIED);
	snprintf(why, size, "the peer's certificate is refused: %s", verify_words(code));
	return PKI_REFUSED;
}

enum pki_step
pki_verify_hub_step(X509_STORE_CTX *chain, bool ok, char *why, size_t size)
{
	enum pki_step step = pki_verify_client_step(chain, ok, why, size);
	X509 *cert = X509_STORE_CTX_get_current_cert(chain);

	if (step != PKI_VERIFIED || (cert != NULL && pki_x509_is_hub(cert)))
		return step;
	X509_STORE_CTX_set_error(chain, X509_V_ERR_INVALID_PURPOSE);
	snprintf(why, size,
		"the peer's certificate is refused: it is not a hub's (URI:" PKI_HUB_MARK
		" in subjectAltName, for client and server)");
	return PKI_REFUSED;
}

enum pki_step
pki_verify_node_step(X509_STORE_CTX *chain, bool ok, char *why, size_t size)
{
	enum pki_step step = pki_verify_client_step(chain, ok, why, size);
	X509 *cert = X509_STORE_CTX_get_current_cert(chain);

	if (step != PKI_VERIFIED || (cert != NULL && !pki_x509_is_hub(cert)))
		return step;
	X509_STORE_CTX_set_error(chain, X509_V_ERR_INVALID_PURPOSE);
	snprintf(why, size, "the peer's certificate is refused: it is a hub's, not a node's");
	return PKI_REFUSED;
}

static bool
names_host(X509 *cert, const char *host, unsigned flags)
{
	ASN1_OCTET_STRING *ip = a2i_IPADDRESS(host);

	ERR_clear_error();
	if (ip == NULL)
		return X509_check_host(cert, host, 0, flags | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS,
			       NULL) == 1;
	ASN1_OCTET_STRING_free(ip);
	return X509_check_ip_asc(cert, host, 0) == 1;
}

enum pki_step
pki_verify_step(X509_STORE_CTX *chain, bool ok, const char *host, char *why, size_t size)
{
	enum pki_step step = pki_verify_client_step(chain, ok, why, size);
	X509 *cert = X509_STORE_CTX_get_current_cert(chain);

	if (step != PKI_VERIFIED || (cert != NULL && names_host(cert, host, 0)))
		return step;
	X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
	snprintf(why, size, "the peer's certificate is refused: it is not made for the name \"%s\"",
		host);
	return PKI_REFUSED;
}

static bool
pki_has_uri(X509 *cert, const char *uri)
{
	GENERAL_NAMES *all = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	size_t len = strlen(uri);
	bool found = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(all) && !found; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(all, i);

		found = name->type == GEN_URI &&
			(size_t)ASN1_STRING_length(name->d.uniformResourceIdentifier) == len &&
			memcmp(ASN1_STRING_get0_data(name->d.uniformResourceIdentifier), uri,
				len) == 0;
	}
	GENERAL_NAMES_free(all);
	return found;
}

/* By subjectAltName alone, as the Gateway API asks for. */
static bool
pki_has_name(X509 *cert, const struct pki_names *names)
{
	for (const char *const *at = names->hosts; *at != NULL; at++)
		if (names_host(cert, *at, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT))
			return true;
	for (const char *const *at = names->uris; *at != NULL; at++)
		if (pki_has_uri(cert, *at))
			return true;
	return false;
}

static void
pki_refuse_named(const X509 *cert, char *why, size_t size, const char *reason)
{
	auto_free char *subject = pki_subject_name(X509_get_subject_name(cert));
	auto_free char *issuer = pki_subject_name(X509_get_issuer_name(cert));

	/* names of a peer: only what cannot disturb a log line */
	for (char *c = subject; *c != '\0'; c++)
		*c = *c < 0x20 || *c > 0x7e || *c == '"' ? '?' : *c;
	for (char *c = issuer; *c != '\0'; c++)
		*c = *c < 0x20 || *c > 0x7e || *c == '"' ? '?' : *c;
	snprintf(why, size, "the certificate of %.64s, signed by %.64s, is refused: %s",
		*subject != '\0' ? subject : "(no common name)",
		*issuer != '\0' ? issuer : "(no common name)", reason);
}

enum pki_step
pki_verify_names_step(
	X509_STORE_CTX *chain, bool ok, const struct pki_names *names, char *why, size_t size)
{
	enum pki_step step = pki_verify_client_step(chain, ok, why, size);
	X509 *cert = X509_STORE_CTX_get_current_cert(chain);
	char reason[200];

	if (cert == NULL || step == PKI_GOING_ON)
		return step;
	if (step == PKI_VERIFIED && pki_has_name(cert, names))
		return step;
	if (step == PKI_REFUSED) {
		snprintf(
			reason, sizeof reason, "%s", verify_words(X509_STORE_CTX_get_error(chain)));
	} else {
		X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
		snprintf(reason, sizeof reason, "it is not made for the name %s%s%s",
			names->hosts[0] != NULL ? names->hosts[0] : names->uris[0],
			names->hosts[0] != NULL && names->uris[0] != NULL ? " or " : "",
			names->hosts[0] != NULL && names->uris[0] != NULL ? names->uris[0] : "");
	}
	pki_refuse_named(cert, why, size, reason);
	return PKI_REFUSED;
}

char *
pki_peer_name(const SSL *ssl)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);

	if (cert == NULL || SSL_get_verify_result(ssl) != X509_V_OK || pki_x509_is_hub(cert))
		return xstrdup("");
	return pki_x509_name(cert);
}

void
pki_peer_serial(const SSL *ssl, char serial[PKI_SERIAL_TEXT])
{
	X509 *cert = SSL_get0_peer_certificate(ssl);

	if (cert == NULL || SSL_get_verify_result(ssl) != X509_V_OK)
		serial[0] = '\0';
	else
		pki_x509_serial(cert, serial);
}

char *
pki_peer_pem(const SSL *ssl)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);

	return cert != NULL && SSL_get_verify_result(ssl) == X509_V_OK ? pki_write_cert(cert)
								       : NULL;
}

int64_t
pki_peer_not_after(const SSL *ssl)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);

	if (cert == NULL || SSL_get_verify_result(ssl) != X509_V_OK)
		return 0;
	return pki_x509_ends(cert);
}

/* The alert that has come, if one has already arrived; 0: none. */
static int
pki_tls_alert(SSL *ssl)
{
	char byte;

	SSL_peek(ssl, &byte, 1);
	ERR_clear_error();
	return (int)(intptr_t)SSL_get_app_data(ssl);
}

bool
pki_peer_alert(SSL *ssl, char *why, size_t size)
{
	int alert = pki_tls_alert(ssl);

	if (alert == 0 || alert == SSL3_AD_CLOSE_NOTIFY)
		return false;
	snprintf(why, size, "the peer refused the TLS connection: %s",
		SSL_alert_desc_string_long(alert));
	return true;
}

bool
pki_peer_busy(SSL *ssl)
{
	return pki_tls_alert(ssl) == SSL_AD_INTERNAL_ERROR;
}

bool
pki_peer_no_tls(const SSL *ssl)
{
	return SSL_get_state(ssl) == TLS_ST_CW_CLNT_HELLO && BIO_number_read(SSL_get_rbio(ssl)) > 0;
}
