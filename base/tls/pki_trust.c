#include "base/tls/pki_trust.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/tls/pki_openssl.h"

/* OpenSSL assigns ex_data indexes once per process. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int trust_index;

static X509 *
find_by_hash(struct stack_st_X509 *chain, const char *hash)
{
	int i;

	for (i = 0; chain != NULL && i < sk_X509_num(chain); i++) {
		X509 *cert = sk_X509_value(chain, i);
		char have[PKI_HASH_TEXT];

		pki_x509_hash(cert, have);
		if (pki_equal(have, hash))
			return X509_check_ca(cert) > 0 ? cert : NULL;
	}
	return NULL;
}

static void
on_ctx_freed(void *parent, void *data, CRYPTO_EX_DATA *all, int index, long argl, void *argp)
{
	(void)parent;
	(void)all;
	(void)index;
	(void)argl;
	(void)argp;
	if (data != NULL)
		free(((struct pki_trust *)data)->refused);
	free(data);
}

static void
register_once(void)
{
	trust_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, on_ctx_freed);
}

/* The time, capped to time_t's maximum: Debian 12's armhf ends in 2038. */
static time_t
time_of(int64_t seconds)
{
	return (time_t)MIN(seconds, sizeof(time_t) < sizeof seconds ? INT32_MAX : INT64_MAX);
}

/* A clock before the floor is wrong, and must not reject a certificate that begins after the
 * floor. */
static void
set_time(X509_STORE_CTX *chain, int64_t floor_s, X509 *pinned)
{
	X509 *cert = X509_STORE_CTX_get0_cert(chain);

	if (pinned != NULL)
		floor_s = MAX(floor_s, pki_x509_begins(pinned));
	if ((int64_t)time(NULL) >= floor_s)
		return;
	if (cert != NULL)
		floor_s = MAX(floor_s, pki_x509_begins(cert));
	X509_STORE_CTX_set_time(chain, 0, time_of(floor_s));
}

/* The pinned CA from the peer's chain is the only anchor. */
static int
verify_join(X509_STORE_CTX *chain, struct pki_trust *join)
{
	X509 *ca = find_by_hash(X509_STORE_CTX_get0_untrusted(chain), join->hash);
	struct stack_st_X509 *anchors;
	int ok;

	if (ca == NULL) {
		X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_UNTRUSTED);
		X509_STORE_CTX_get_verify_cb(chain)(0, chain);
		return 0;
	}
	anchors = sk_X509_new_null();
	if (anchors == NULL || sk_X509_push(anchors, ca) <= 0) {
		sk_X509_free(anchors);
		return 0;
	}
	set_time(chain, join->floor_s, ca);
	X509_STORE_CTX_set0_trusted_stack(chain, anchors);
	ok = X509_verify_cert(chain);
	sk_X509_free(anchors);
	if (ok == 1 && join->ca_pem != NULL) {
		free(*join->ca_pem);
		*join->ca_pem = pki_write_cert(ca);
	}
	return ok == 1;
}

static bool
trust_refuses(const struct pki_trust *trust, const X509 *cert)
{
	char serial[PKI_SERIAL_TEXT];
	const char *at = trust->refused;
	size_t len;

	if (at == NULL || cert == NULL)
		return false;
	pki_x509_serial(cert, serial);
	len = strlen(serial);
	while ((at = strstr(at, serial)) != NULL) {
		if ((at == trust->refused || at[-1] == ',') && (at[len] == '\0' || at[len] == ','))
			return true;
		at += len;
	}
	return false;
}

static int
verify_chain(X509_STORE_CTX *chain, struct pki_trust *trust)
{

	if (trust->hash[0] != '\0' &&
		(!trust->also ||
			find_by_hash(X509_STORE_CTX_get0_untrusted(chain), trust->hash) != NULL))
		return verify_join(chain, trust);
	set_time(chain, trust->floor_s, NULL);
	return X509_verify_cert(chain);
}

/* Replaces X509_verify_cert for every client. */
static int
verify_server(X509_STORE_CTX *chain, void *arg)
{
	if (!trust_refuses(arg, X509_STORE_CTX_get0_cert(chain)))
		return verify_chain(chain, arg);
	X509_STORE_CTX_set_error(chain, X509_V_ERR_CERT_REVOKED);
	X509_STORE_CTX_get_verify_cb(chain)(0, chain);
	return 0;
}

struct pki_trust *
pki_trust_attach(SSL_CTX *ctx)
{
	struct pki_trust *trust;

	pthread_once(&once, register_once);
	trust = xcalloc(1, sizeof *trust);
	if (SSL_CTX_set_ex_data(ctx, trust_index, trust) != 1) {
		free(trust);
		return NULL;
	}
	SSL_CTX_set_cert_verify_callback(ctx, verify_server, trust);
	return trust;
}

struct pki_trust *
pki_trust_of(const SSL_CTX *ctx)
{
	return SSL_CTX_get_ex_data(ctx, trust_index);
}
