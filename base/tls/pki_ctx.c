#include "base/tls/pki.h"

#include <errno.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/tls/pki_openssl.h"
#include "base/tls/pki_tickets.h"
#include "base/tls/pki_tls.h"
#include "base/tls/pki_trust.h"
#include "base/tls/tls_alpn.h"

/* TLS 1.2 with forward secrecy and AEAD only; TLS 1.3 has nothing else. */
static const char tls12_ciphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

#define auto_ctx __attribute__((cleanup(pki_ctx_free)))

static void
set_common(SSL_CTX *ctx)
{
	SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	SSL_CTX_set_cipher_list(ctx, tls12_ciphers);
	SSL_CTX_set_options(ctx,
		SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
			SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 0);
}

static SSL_CTX *
new_ctx(const SSL_METHOD *method, struct err *err)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (ctx == NULL)
		pki_fail(err, "cannot make a TLS context");
	if (ctx != NULL) {
		set_common(ctx);
		SSL_CTX_set_alpn_select_cb(ctx, tls_alpn_on_select, NULL);
	}
	return ctx;
}

typedef int cert_fn(SSL_CTX *ctx, X509 *cert);

/* Calls fn, which returns 1 for success, with every certificate of the text from number `first` on.
 */
static int
each_cert(SSL_CTX *ctx, const char *pem, unsigned first, const char *what, cert_fn *fn,
	struct err *err)
{
	auto_bio BIO *bio = pki_bio(pem, what, err);
	unsigned n;

	if (bio == NULL)
		return -EINVAL;
	for (n = 0;; n++) {
		auto_x509 X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);

		if (cert == NULL)
			break;
		if (n >= first && fn(ctx, cert) != 1)
			return pki_fail(err, what);
	}
	if (n == 0 || ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
		return pki_fail(err, what);
	ERR_clear_error();
	return 0;
}

static int
add_anchor(SSL_CTX *ctx, X509 *cert)
{
	return X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), cert);
}

static int
add_chain(SSL_CTX *ctx, X509 *cert)
{
	return (int)SSL_CTX_add1_chain_cert(ctx, cert);
}

static int
use_pair(SSL_CTX *ctx, const char *cert_pem, const char *key_pem, struct err *err)
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", err);
	auto_key EVP_PKEY *key = NULL;

	if (cert == NULL)
		return -EINVAL;
	key = pki_read_key(key_pem, "the certificate's key", err);
	if (key == NULL)
		return -EINVAL;
	if (SSL_CTX_use_certificate(ctx, cert) != 1 || SSL_CTX_use_PrivateKey(ctx, key) != 1)
		return pki_fail(err, "the certificate and its key");
	return each_cert(ctx, cert_pem, 1, "the certificate's chain", add_chain, err);
}

static int
add_anchors(SSL_CTX *ctx, const char *ca_pem, struct err *err)
{
	/* The operator's CA is the trust anchor, even if another CA has signed it. */
	X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	return each_cert(ctx, ca_pem, 0, "the CA's certificate", add_anchor, err);
}

int
pki_server_ctx(const char *cert_pem, const char *key_pem, const char *ca_pem, SSL_CTX **out,
	struct err *err)
{
	auto_ctx SSL_CTX *ctx = new_ctx(TLS_server_method(), err);
	int rc;

	if (ctx == NULL)
		return -ENOMEM;
	rc = use_pair(ctx, cert_pem, key_pem, err);
	if (rc == 0)
		rc = add_anchors(ctx, ca_pem, err);
	/* Joiners look for the CA in the chain by its hash. */
	if (rc == 0)
		rc = each_cert(ctx, ca_pem, 0, "the CA's certificate", add_chain, err);
	if (rc < 0)
		return rc;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	*out = take_ptr(&ctx);
	return 0;
}

static SSL_CTX *
new_client(struct pki_trust **out, struct err *err)
{
	auto_ctx SSL_CTX *ctx = new_ctx(TLS_client_method(), err);
	struct pki_trust *trust;

	if (ctx == NULL)
		return NULL;
	trust = pki_trust_attach(ctx);
	if (trust == NULL) {
		pki_fail(err, "cannot make a TLS context");
		return NULL;
	}
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	pki_watch_client(ctx);
	if (out != NULL)
		*out = trust;
	return take_ptr(&ctx);
}

int
pki_listener_ctx(const char *cert_pem, const char *key_pem, const char *client_ca_pem,
	SSL_CTX **out, struct err *err)
{
	auto_ctx SSL_CTX *ctx = new_ctx(TLS_server_method(), err);
	int rc;

	if (ctx == NULL)
		return -ENOMEM;
	rc = use_pair(ctx, cert_pem, key_pem, err);
	if (rc == 0 && client_ca_pem != NULL)
		rc = add_anchors(ctx, client_ca_pem, err);
	if (rc < 0)
		return rc;
	if (client_ca_pem != NULL)
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	*out = take_ptr(&ctx);
	return 0;
}

int
pki_client_ctx(const char *ca_pem, const char *cert_pem, const char *key_pem, SSL_CTX **out,
	struct err *err)
{
	auto_ctx SSL_CTX *ctx = new_client(NULL, err);
	int rc;

	if (ctx == NULL)
		return -ENOMEM;
	rc = ca_pem != NULL ? add_anchors(ctx, ca_pem, err) : 0;
	if (rc == 0 && cert_pem != NULL)
		rc = use_pair(ctx, cert_pem, key_pem, err);
	if (rc < 0)
		return rc;
	*out = take_ptr(&ctx);
	return 0;
}

int
pki_node_ctx(bool server, const char *ca_pem, const char *cert_pem, const char *key_pem,
	SSL_CTX **out, struct err *err)
{
	auto_ctx SSL_CTX *ctx = new_ctx(server ? TLS_server_method() : TLS_client_method(), err);
	int rc;

	if (ctx == NULL)
		return -ENOMEM;
	if (pki_trust_attach(ctx) == NULL ||
		SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
		SSL_CTX_set_purpose(ctx, X509_PURPOSE_SSL_CLIENT) != 1)
		return pki_fail(err, "cannot make a TLS context");
	if (!server)
		pki_watch_client(ctx);
	rc = add_anchors(ctx, ca_pem, err);
	if (rc == 0)
		rc = use_pair(ctx, cert_pem, key_pem, err);
	if (rc < 0)
		return rc;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	*out = take_ptr(&ctx);
	return 0;
}

int
pki_join_ctx(const char *ca_hash, char **ca_pem, SSL_CTX **out, struct err *err)
{
	auto_ctx SSL_CTX *ctx = NULL;
	struct pki_trust *trust;

	if (strlen(ca_hash) != PKI_HASH_TEXT - 1 ||
		strspn(ca_hash, "0123456789abcdef") != PKI_HASH_TEXT - 1)
		return err_set(err, EINVAL, "the hash of the CA must be %d lower-case hex digits",
			PKI_HASH_TEXT - 1);
	ctx = new_client(&trust, err);
	if (ctx == NULL)
		return -ENOMEM;
	X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	strcpy(trust->hash, ca_hash);
	trust->ca_pem = ca_pem;
	*out = take_ptr(&ctx);
	return 0;
}

/* Adds the trust anchors of `from`. */
static int
trust_too(SSL_CTX *ctx, const SSL_CTX *from)
{
	struct stack_st_X509_OBJECT *all = X509_STORE_get0_objects(SSL_CTX_get_cert_store(from));

	for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
		X509 *cert = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));

		if (cert != NULL && add_anchor(ctx, cert) != 1)
			return -EINVAL;
	}
	return 0;
}

/* A client context for public or given CAs, not ours; NULL: the system's. */
static SSL_CTX *
new_web_client(const char *ca_pem, struct pki_trust **trust, struct err *err)
{
	auto_ctx SSL_CTX *ctx = new_client(trust, err);
	int rc = 0;

	if (ctx == NULL)
		return NULL;
	X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	if (ca_pem != NULL)
		rc = add_anchors(ctx, ca_pem, err);
	else
		(void)SSL_CTX_set_default_verify_paths(ctx); /* a machine may have no CAs */
	ERR_clear_error();
	return rc == 0 ? take_ptr(&ctx) : NULL;
}

int
pki_web_ctx(const char *ca_pem, SSL_CTX **out, struct err *err)
{
	*out = new_web_client(ca_pem, NULL, err);
	return *out != NULL ? 0 : -EINVAL;
}

int
pki_backend_ctx(const char *ca_pem, SSL_CTX **out, struct err *err)
{
	SSL_CTX *ctx = new_web_client(ca_pem, NULL, err);

	if (ctx == NULL)
		return -EINVAL;
	SSL_CTX_clear_options(ctx, SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(
		ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
	*out = ctx;
	return 0;
}

int
pki_carrier_ctx(SSL_CTX *inner, const char *ca_pem, SSL_CTX **out, struct err *err)
{
	const struct pki_trust *known = pki_trust_of(inner);
	auto_ctx SSL_CTX *ctx = NULL;
	struct pki_trust *trust;

	ctx = new_web_client(ca_pem, &trust, err);
	if (ctx == NULL)
		return -EINVAL;
	if (trust_too(ctx, inner) < 0)
		return pki_fail(err, "the CA's certificate");
	trust->floor_s = known->floor_s;
	trust->refused = known->refused != NULL ? xstrdup(known->refused) : NULL;
	trust->also = true;
	strcpy(trust->hash, known->hash);
	*out = take_ptr(&ctx);
	return 0;
}

void
pki_ctx_floor(SSL_CTX *ctx, int64_t floor_s)
{
	pki_trust_of(ctx)->floor_s = floor_s;
}

void
pki_ctx_refuse(SSL_CTX *ctx, const char *serials)
{
	struct pki_trust *trust = pki_trust_of(ctx);

	pki_tickets_forget(ctx);
	free(trust->refused);
	trust->refused = serials[0] != '\0' ? xstrdup(serials) : NULL;
}

void
pki_ctx_ref(SSL_CTX *ctx)
{
	SSL_CTX_up_ref(ctx);
}

void
pki_ctx_free(SSL_CTX **out)
{
	SSL_CTX_free(take_ptr(out));
}

int
pki_ctx_copy(SSL_CTX *to, SSL_CTX *from)
{
	struct stack_st_X509 *chain = NULL;
	static const unsigned char session_scope[] = "edgeway";

	set_common(to);
	SSL_CTX_get0_chain_certs(from, &chain);
	if (SSL_CTX_use_certificate(to, SSL_CTX_get0_certificate(from)) != 1 ||
		SSL_CTX_use_PrivateKey(to, SSL_CTX_get0_privatekey(from)) != 1 ||
		SSL_CTX_set1_chain(to, chain) != 1 ||
		SSL_CTX_set_session_id_context(to, session_scope, sizeof session_scope) != 1) {
		ERR_clear_error();
		return -EINVAL;
	}
	SSL_CTX_set1_cert_store(to, SSL_CTX_get_cert_store(from));
	SSL_CTX_set_verify(to, SSL_CTX_get_verify_mode(from), SSL_CTX_get_verify_callback(to));
	pki_tickets_copy(to, from);
	return 0;
}
