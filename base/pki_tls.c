#include "base/pki_tls.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/pki_openssl.h"

/* TLS 1.2 with forward secrecy and AEAD only; TLS 1.3 has nothing else. */
static const char tls12_ciphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

/* What the verify callback of a client's context needs; freed with the SSL_CTX. */
struct client {
	int64_t floor_s; /* see pki_ctx_floor */
	char hash[PKI_HASH_TEXT]; /* of a joining context, else "" */
	char **ca_pem; /* NULL: nobody wants to know it */
	bool also; /* a chain without that CA may lead to another one that is trusted */
};

/* OpenSSL numbers such attachments once for the whole process. */
static pthread_once_t client_once = PTHREAD_ONCE_INIT;
static int client_index;

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
	else
		set_common(ctx);
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
trust(SSL_CTX *ctx, const char *ca_pem, struct err *err)
{
	/* What the operator names as CA is the anchor, even when a larger CA has signed it. */
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
		rc = trust(ctx, ca_pem, err);
	/* Joiners look for the CA in the chain by its hash. */
	if (rc == 0)
		rc = each_cert(ctx, ca_pem, 0, "the CA's certificate", add_chain, err);
	if (rc < 0)
		return rc;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	*out = take_ptr(&ctx);
	return 0;
}

/* An address is no server name (RFC 6066 section 3). */
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

	if (where & SSL_CB_HANDSHAKE_START)
		drop_numeric_sni(s);
	if ((where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT)
		SSL_set_app_data(s, (void *)(intptr_t)(value & 0xff));
}

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
	free(data);
}

static void
register_client(void)
{
	client_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, on_ctx_freed);
}

/* The time, or the last one that time_t knows: that of Debian 12's armhf ends in 2038. */
static time_t
time_of(int64_t seconds)
{
	return (time_t)MIN(seconds, sizeof(time_t) < sizeof seconds ? INT32_MAX : INT64_MAX);
}

/* A clock before the floor is wrong, and says nothing about a certificate that begins after it. */
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
verify_join(X509_STORE_CTX *chain, struct client *join)
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

/* In place of X509_verify_cert, for every client. */
static int
verify_server(X509_STORE_CTX *chain, void *arg)
{
	struct client *client = arg;

	if (client->hash[0] != '\0' &&
		(!client->also ||
			find_by_hash(X509_STORE_CTX_get0_untrusted(chain), client->hash) != NULL))
		return verify_join(chain, client);
	set_time(chain, client->floor_s, NULL);
	return X509_verify_cert(chain);
}

static SSL_CTX *
new_client(struct client **out, struct err *err)
{
	auto_ctx SSL_CTX *ctx = new_ctx(TLS_client_method(), err);
	struct client *client;

	if (ctx == NULL)
		return NULL;
	pthread_once(&client_once, register_client);
	client = xcalloc(1, sizeof *client);
	if (SSL_CTX_set_ex_data(ctx, client_index, client) != 1) {
		free(client);
		pki_fail(err, "cannot make a TLS context");
		return NULL;
	}
	SSL_CTX_set_cert_verify_callback(ctx, verify_server, client);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_info_callback(ctx, on_client_info);
	if (out != NULL)
		*out = client;
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
		rc = trust(ctx, client_ca_pem, err);
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
	rc = ca_pem != NULL ? trust(ctx, ca_pem, err) : 0;
	if (rc == 0 && cert_pem != NULL)
		rc = use_pair(ctx, cert_pem, key_pem, err);
	if (rc < 0)
		return rc;
	*out = take_ptr(&ctx);
	return 0;
}

int
pki_join_ctx(const char *ca_hash, char **ca_pem, SSL_CTX **out, struct err *err)
{
	auto_ctx SSL_CTX *ctx = NULL;
	struct client *client;

	if (strlen(ca_hash) != PKI_HASH_TEXT - 1 ||
		strspn(ca_hash, "0123456789abcdef") != PKI_HASH_TEXT - 1)
		return err_set(err, EINVAL, "the hash of the CA must be %d lower-case hex digits",
			PKI_HASH_TEXT - 1);
	ctx = new_client(&client, err);
	if (ctx == NULL)
		return -ENOMEM;
	X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	strcpy(client->hash, ca_hash);
	client->ca_pem = ca_pem;
	*out = take_ptr(&ctx);
	return 0;
}

/* The anchors of `from` as well. */
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

/* Of CAs that are not ours: those given, NULL: the system's. */
static SSL_CTX *
new_web_client(const char *ca_pem, struct client **client, struct err *err)
{
	auto_ctx SSL_CTX *ctx = new_client(client, err);
	int rc = 0;

	if (ctx == NULL)
		return NULL;
	X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	if (ca_pem != NULL)
		rc = trust(ctx, ca_pem, err);
	else
		(void)SSL_CTX_set_default_verify_paths(ctx); /* a machine may have none */
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
pki_carrier_ctx(SSL_CTX *inner, const char *ca_pem, SSL_CTX **out, struct err *err)
{
	const struct client *known = SSL_CTX_get_ex_data(inner, client_index);
	auto_ctx SSL_CTX *ctx = NULL;
	struct client *client;

	ctx = new_web_client(ca_pem, &client, err);
	if (ctx == NULL)
		return -EINVAL;
	if (trust_too(ctx, inner) < 0)
		return pki_fail(err, "the CA's certificate");
	client->floor_s = known->floor_s;
	client->also = true;
	strcpy(client->hash, known->hash);
	*out = take_ptr(&ctx);
	return 0;
}

void
pki_ctx_floor(SSL_CTX *ctx, int64_t floor_s)
{
	struct client *client = SSL_CTX_get_ex_data(ctx, client_index);

	client->floor_s = floor_s;
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
	return 0;
}

/* In an operator's words; what is missing here is told by OpenSSL itself. */
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

static bool
names_host(X509 *cert, const char *host)
{
	ASN1_OCTET_STRING *ip = a2i_IPADDRESS(host);

	ERR_clear_error();
	if (ip == NULL)
		return X509_check_host(cert, host, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) ==
			1;
	ASN1_OCTET_STRING_free(ip);
	return X509_check_ip_asc(cert, host, 0) == 1;
}

enum pki_step
pki_verify_step(X509_STORE_CTX *chain, bool ok, const char *host, char *why, size_t size)
{
	enum pki_step step = pki_verify_client_step(chain, ok, why, size);
	X509 *cert = X509_STORE_CTX_get_current_cert(chain);

	if (step != PKI_VERIFIED || (cert != NULL && names_host(cert, host)))
		return step;
	X509_STORE_CTX_set_error(chain, X509_V_ERR_HOSTNAME_MISMATCH);
	snprintf(why, size, "the peer's certificate is refused: it is not made for the name \"%s\"",
		host);
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

int64_t
pki_peer_not_after(const SSL *ssl)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);

	if (cert == NULL || SSL_get_verify_result(ssl) != X509_V_OK)
		return 0;
	return pki_x509_ends(cert);
}

bool
pki_peer_alert(SSL *ssl, char *why, size_t size)
{
	char byte;
	int alert;

	SSL_peek(ssl, &byte, 1); /* the alert may have come, but not been read */
	ERR_clear_error();
	alert = (int)(intptr_t)SSL_get_app_data(ssl);
	if (alert == 0 || alert == SSL3_AD_CLOSE_NOTIFY)
		return false;
	snprintf(why, size, "the peer refused the TLS connection: %s",
		SSL_alert_desc_string_long(alert));
	return true;
}
