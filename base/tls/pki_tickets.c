#include "base/tls/pki_tickets.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>

#include "base/core/util.h"
#include "base/tls/pki_openssl.h"
#include "base/tls/pki_trust.h"

enum { NAME_BYTES = 16, KEY_BYTES = 32, IV_BYTES = 16 };

struct tickets {
	uint8_t secret[PKI_TICKET_SECRET]; /* server */
	SSL_SESSION *session; /* client: the newest; NULL: none */
};

struct ticket_key {
	uint8_t name[KEY_BYTES], cipher[KEY_BYTES], mac[KEY_BYTES]; /* of name NAME_BYTES count */
};

/* OpenSSL assigns ex_data indexes once per process. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int tickets_index;

static void
tickets_on_ctx_freed(
	void *parent, void *data, CRYPTO_EX_DATA *all, int index, long argl, void *argp)
{
	struct tickets *t = data;

	(void)parent;
	(void)all;
	(void)index;
	(void)argl;
	(void)argp;
	if (t == NULL)
		return;
	SSL_SESSION_free(t->session);
	OPENSSL_cleanse(t, sizeof *t);
	free(t);
}

static void
tickets_register_once(void)
{
	tickets_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, tickets_on_ctx_freed);
}

static struct tickets *
tickets_of(const SSL_CTX *ctx)
{
	pthread_once(&once, tickets_register_once);
	return ctx != NULL ? SSL_CTX_get_ex_data(ctx, tickets_index) : NULL;
}

static struct tickets *
tickets_attach(SSL_CTX *ctx)
{
	struct tickets *t = tickets_of(ctx);

	if (t != NULL)
		return t;
	t = xcalloc(1, sizeof *t);
	if (SSL_CTX_set_ex_data(ctx, tickets_index, t) != 1) {
		free(t);
		return NULL;
	}
	return t;
}

/* --- server --------------------------------------------------------------------------------- */

static void
tickets_hmac(const uint8_t key[PKI_TICKET_SECRET], const char *label, uint64_t period,
	uint8_t out[KEY_BYTES])
{
	char text[64];
	int len = snprintf(
		text, sizeof text, "edgeway ticket %s %llu", label, (unsigned long long)period);

	HMAC(EVP_sha256(), key, PKI_TICKET_SECRET, (const uint8_t *)text, (size_t)len, out, NULL);
}

static void
tickets_key(const struct tickets *t, uint64_t period, struct ticket_key *key)
{
	tickets_hmac(t->secret, "name", period, key->name);
	tickets_hmac(t->secret, "cipher", period, key->cipher);
	tickets_hmac(t->secret, "mac", period, key->mac);
}

/* The key of a ticket: of this period, the one before, or the next one by a replica's clock. */
static bool
tickets_find_key(const struct tickets *t, const uint8_t *name, struct ticket_key *key)
{
	uint64_t now = (uint64_t)time(NULL) / TICKET_PERIOD_S;

	for (uint64_t period = now + 1; period + 2 > now; period--) {
		tickets_key(t, period, key);
		if (memcmp(key->name, name, NAME_BYTES) == 0)
			return true;
	}
	return false;
}

/* 1: done; 0: the ticket is not ours. */
static int
tickets_on_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
	EVP_MAC_CTX *mac, int seal)
{
	const struct tickets *t = tickets_of(SSL_get_SSL_CTX(ssl));
	struct ticket_key key;
	OSSL_PARAM params[3];
	int rc;

	if (t == NULL)
		return 0;
	if (seal) {
		tickets_key(t, (uint64_t)time(NULL) / TICKET_PERIOD_S, &key);
		memcpy(name, key.name, NAME_BYTES);
		if (RAND_bytes(iv, IV_BYTES) != 1)
			return -1;
	} else if (!tickets_find_key(t, name, &key)) {
		return 0;
	}
	params[0] = OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key.mac, KEY_BYTES);
	params[1] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char[]){"SHA256"}, 0);
	params[2] = OSSL_PARAM_construct_end();
	rc = EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv, seal) == 1 &&
			EVP_MAC_CTX_set_params(mac, params) == 1
		? 1
		: -1;
	OPENSSL_cleanse(&key, sizeof key);
	return rc;
}

/* A ticket of a resumed connection tells when the last full handshake was, as the one before did.
 */
static int
tickets_on_make(SSL *ssl, void *arg)
{
	int64_t full = (int64_t)time(NULL);

	(void)arg;
	if (SSL_session_reused(ssl) == 1)
		return 1;
	return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), &full, sizeof full);
}

static bool
tickets_good(SSL_SESSION *session)
{
	X509 *cert = SSL_SESSION_get0_peer(session);
	int64_t now = (int64_t)time(NULL), full;
	void *data = NULL;
	size_t len = 0;

	if (SSL_SESSION_get_protocol_version(session) != TLS1_3_VERSION || cert == NULL ||
		pki_x509_is_hub(cert) || pki_x509_ends(cert) <= now ||
		pki_x509_begins(cert) > now ||
		SSL_SESSION_get0_ticket_appdata(session, &data, &len) != 1 || len != sizeof full)
		return false;
	memcpy(&full, data, sizeof full);
	return full <= now + TICKET_PERIOD_S && now - full < TICKET_FULL_S;
}

static SSL_TICKET_RETURN
tickets_on_open(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t name_len,
	SSL_TICKET_STATUS status, void *arg)
{
	(void)ssl;
	(void)name;
	(void)name_len;
	(void)arg;
	if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW)
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return tickets_good(session) ? SSL_TICKET_RETURN_USE_RENEW : SSL_TICKET_RETURN_IGNORE_RENEW;
}

void
pki_tickets_secret(const char *ca_pem, const char *key_pem, const char *names,
	uint8_t secret[PKI_TICKET_SECRET])
{
	auto_free char *whose = xasprintf("%s\n%s", ca_pem, names);

	HMAC(EVP_sha256(), key_pem, (int)strlen(key_pem), (const uint8_t *)whose, strlen(whose),
		secret, NULL);
}

void
pki_tickets_serve(SSL_CTX *ctx, const uint8_t secret[PKI_TICKET_SECRET])
{
	static const unsigned char scope[] = "edgeway";
	struct tickets *t = tickets_attach(ctx);

	if (t == NULL)
		return;
	memcpy(t->secret, secret, PKI_TICKET_SECRET);
	(void)SSL_CTX_set_session_id_context(ctx, scope, sizeof scope - 1);
	(void)SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, tickets_on_key);
	(void)SSL_CTX_set_session_ticket_cb(ctx, tickets_on_make, tickets_on_open, NULL);
	(void)SSL_CTX_set_timeout(ctx, TICKET_PERIOD_S);
}

void
pki_tickets_copy(SSL_CTX *to, const SSL_CTX *from)
{
	const struct tickets *t = tickets_of(from);

	if (t == NULL)
		return;
	pki_tickets_serve(to, t->secret);
	SSL_CTX_clear_options(to, SSL_OP_NO_TICKET);
	SSL_CTX_set_num_tickets(to, 1);
}

void
pki_tickets_allow(SSL *ssl)
{
	if (tickets_of(SSL_get_SSL_CTX(ssl)) == NULL)
		return;
	SSL_clear_options(ssl, SSL_OP_NO_TICKET);
	SSL_set_num_tickets(ssl, 1);
}

/* --- client --------------------------------------------------------------------------------- */

static int
tickets_on_new(SSL *ssl, SSL_SESSION *session)
{
	struct tickets *t = tickets_of(SSL_get_SSL_CTX(ssl));

	if (t == NULL || SSL_SESSION_is_resumable(session) != 1 ||
		SSL_get_verify_result(ssl) != X509_V_OK)
		return 0;
	SSL_SESSION_free(t->session);
	/* a copy: OpenSSL gives up the session of a connection that ends without close_notify,
	 * which is how a killed hub's do */
	t->session = SSL_SESSION_dup(session);
	return 0;
}

void
pki_tickets_keep(SSL_CTX *ctx)
{
	if (tickets_attach(ctx) == NULL)
		return;
	SSL_CTX_clear_options(ctx, SSL_OP_NO_TICKET);
	SSL_CTX_set_session_cache_mode(
		ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
	SSL_CTX_sess_set_new_cb(ctx, tickets_on_new);
}

void
pki_tickets_forget(SSL_CTX *ctx)
{
	struct tickets *t = tickets_of(ctx);

	if (t != NULL)
		SSL_SESSION_free(take_ptr(&t->session));
}

void
pki_tickets_offer(SSL *ssl)
{
	SSL_CTX *ctx = SSL_get_SSL_CTX(ssl);
	const struct tickets *t = tickets_of(ctx);
	const struct pki_trust *trust = pki_trust_of(ctx);
	SSL_SESSION *copy;
	X509 *cert;
	int64_t now_s;

	/* A ticket proves that the hub has their secret, and not whose certificate it has. */
	if (t == NULL || t->session == NULL || (trust != NULL && trust->refused != NULL) ||
		SSL_SESSION_get_protocol_version(t->session) != TLS1_3_VERSION)
		return;
	cert = SSL_SESSION_get0_peer(t->session);
	now_s = MAX((int64_t)time(NULL), trust != NULL ? trust->floor_s : 0);
	if (cert == NULL || pki_x509_ends(cert) <= now_s ||
		(copy = SSL_SESSION_dup(t->session)) == NULL)
		return;
	(void)SSL_set_session(ssl, copy); /* which may be given up as well */
	SSL_SESSION_free(copy);
}

bool
pki_resumed(const SSL *ssl)
{
	return SSL_session_reused(ssl) == 1;
}
