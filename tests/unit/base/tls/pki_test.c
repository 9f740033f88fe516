/* Certificates by base/tls/pki, and handshakes between its contexts through memory, no sockets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/core/buf.h"
#include "base/tls/pki.h"
#include "base/tls/pki_crl.h"
#include "base/tls/pki_tls.h"

static const char *const hub_names[] = {"hub.example", "192.0.2.1", "2001:db8::1", NULL};

struct world {
	char *ca, *ca_key, *other_ca, *other_ca_key;
	char *hub, *hub_key, *node, *node_key;
	SSL_CTX *server;
};

static char *
sign_for(const char *ca, const char *ca_key, const char *name, bool server, const char *key)
{
	struct pki_issue issue = {
		.ca_cert_pem = ca,
		.ca_key_pem = ca_key,
		.common_name = name,
		.names = server ? hub_names : NULL,
		.server = server,
		.client = !server,
		.days = 10,
	};
	struct err err = {0};
	char *cert = NULL;

	if (pki_sign_key(&issue, key, &cert, &err) < 0)
		fail_msg("%s", err.text);
	return cert;
}

static int
setup(void **state)
{
	struct world *w = xcalloc(1, sizeof *w);
	struct err err = {0};

	assert_int_equal(pki_ca_new("test CA", 100, &w->ca, &w->ca_key, &err), 0);
	assert_int_equal(pki_ca_new("other CA", 100, &w->other_ca, &w->other_ca_key, &err), 0);
	assert_int_equal(pki_key_new(&w->hub_key, &err), 0);
	assert_int_equal(pki_key_new(&w->node_key, &err), 0);
	w->hub = sign_for(w->ca, w->ca_key, "hub", true, w->hub_key);
	w->node = sign_for(w->ca, w->ca_key, "edge-1", false, w->node_key);
	assert_int_equal(pki_server_ctx(w->hub, w->hub_key, w->ca, &w->server, &err), 0);
	*state = w;
	return 0;
}

static int
teardown(void **state)
{
	struct world *w = *state;

	free(w->ca);
	free(w->ca_key);
	free(w->other_ca);
	free(w->other_ca_key);
	free(w->hub);
	free(w->hub_key);
	free(w->node);
	free(w->node_key);
	pki_ctx_free(&w->server);
	free(w);
	return 0;
}

/* --- handshakes ----------------------------------------------------------------------------- */

struct result {
	bool client_ok, server_ok, verified;
	char why[256];
	char *client_name; /* as the server sees it */
};

struct checker {
	const char *host;
	struct result *result;
};

static int
on_verify(int ok, X509_STORE_CTX *chain)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct checker *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	struct result *r = c->result;
	enum pki_step step = pki_verify_step(chain, ok != 0, c->host, r->why, sizeof r->why);

	if (step == PKI_VERIFIED)
		r->verified = true;
	return step != PKI_REFUSED;
}

static struct result
handshake(SSL_CTX *client, SSL_CTX *server, const char *host)
{
	struct result r = {0};
	struct checker checker = {.host = host, .result = &r};
	SSL *c = SSL_new(client), *s = SSL_new(server);
	BIO *near = NULL, *far = NULL;
	char byte, name[256];
	int i;

	BIO_new_bio_pair(&near, 0, &far, 0);
	SSL_set_bio(c, near, near);
	SSL_set_bio(s, far, far);
	SSL_set_connect_state(c);
	SSL_set_accept_state(s);
	SSL_CTX_set_app_data(client, &checker);
	snprintf(name, sizeof name, "%s", host);
	SSL_set_tlsext_host_name(c, name);
	SSL_set_verify(c, SSL_VERIFY_PEER, on_verify);
	for (i = 0; i < 10; i++) {
		SSL_do_handshake(c);
		SSL_do_handshake(s);
		SSL_read(c, &byte, 1); /* alerts of TLS 1.3 come after the client's end */
	}
	r.client_ok = SSL_is_init_finished(c) != 0;
	r.server_ok = SSL_is_init_finished(s) != 0;
	r.client_name = r.server_ok ? pki_peer_name(s) : xstrdup("");
	if (r.why[0] == '\0')
		pki_peer_alert(c, r.why, sizeof r.why);
	SSL_free(c);
	SSL_free(s);
	return r;
}

static struct result
connect_as(struct world *w, const char *cert, const char *key, const char *host)
{
	SSL_CTX *client = NULL;
	struct err err = {0};
	struct result r;

	if (pki_client_ctx(w->ca, cert, key, &client, &err) < 0)
		fail_msg("%s", err.text);
	r = handshake(client, w->server, host);
	pki_ctx_free(&client);
	return r;
}

static void
test_node_and_hub_know_each_other(void **state)
{
	struct world *w = *state;
	const char *hosts[] = {"hub.example", "192.0.2.1", "2001:db8::1"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(hosts); i++) {
		struct result r = connect_as(w, w->node, w->node_key, hosts[i]);

		assert_string_equal(r.why, "");
		assert_true(r.client_ok && r.server_ok && r.verified);
		assert_string_equal(r.client_name, "edge-1");
		free(r.client_name);
	}
}

static void
test_no_client_certificate_is_nobody(void **state)
{
	struct result r = connect_as(*state, NULL, NULL, "hub.example");

	assert_true(r.client_ok && r.server_ok && r.verified);
	assert_string_equal(r.client_name, "");
	free(r.client_name);
}

static void
test_wrong_host_is_refused(void **state)
{
	const char *hosts[] = {"hub", "hub.example.org", "192.0.2.2", "2001:db8::2", "example"};
	size_t i;

	for (i = 0; i < ARRAY_LEN(hosts); i++) {
		struct result r = connect_as(*state, NULL, NULL, hosts[i]);

		assert_false(r.client_ok || r.verified);
		assert_non_null(strstr(r.why, "not made for the name"));
		assert_non_null(strstr(r.why, hosts[i]));
		free(r.client_name);
	}
}

static void
test_stranger_is_refused(void **state)
{
	struct world *w = *state;
	char *cert = sign_for(w->other_ca, w->other_ca_key, "edge-1", false, w->node_key);
	struct result r = connect_as(w, cert, w->node_key, "hub.example");

	assert_false(r.server_ok);
	assert_non_null(strstr(r.why, "the peer refused the TLS connection: unknown CA"));
	free(r.client_name);
	free(cert);
}

static void
test_node_cannot_play_the_hub(void **state)
{
	struct world *w = *state;
	struct pki_issue issue = {.ca_cert_pem = w->ca,
		.ca_key_pem = w->ca_key,
		.common_name = "hub.example",
		.names = hub_names,
		.client = true,
		.days = 1};
	char *cert = NULL;
	SSL_CTX *client = NULL, *server = NULL;
	struct result r;

	assert_int_equal(pki_sign_key(&issue, w->node_key, &cert, NULL), 0);
	assert_int_equal(pki_server_ctx(cert, w->node_key, w->ca, &server, NULL), 0);
	assert_int_equal(pki_client_ctx(w->ca, NULL, NULL, &client, NULL), 0);
	r = handshake(client, server, "hub.example");
	assert_false(r.client_ok || r.verified);
	assert_non_null(strstr(r.why, "not made for this side"));
	free(r.client_name);
	free(cert);
	pki_ctx_free(&client);
	pki_ctx_free(&server);
}

static void
test_revoked_hub_is_refused(void **state)
{
	struct world *w = *state;
	char serial[PKI_SERIAL_TEXT], *list;
	SSL_CTX *client = NULL;
	struct result r;

	assert_int_equal(pki_cert_serial(w->hub, serial, NULL), 0);
	assert_int_equal(pki_client_ctx(w->ca, w->node, w->node_key, &client, NULL), 0);
	serial[strlen(serial) - 1] = '\0'; /* a part of it is another one */
	list = xasprintf("01,%s,ff", serial);
	pki_ctx_refuse(client, list);
	free(list);
	r = handshake(client, w->server, "hub.example");
	assert_true(r.client_ok && r.server_ok && r.verified);
	free(r.client_name);
	assert_int_equal(pki_cert_serial(w->hub, serial, NULL), 0);
	list = xasprintf("01,%s", serial);
	pki_ctx_refuse(client, list);
	free(list);
	r = handshake(client, w->server, "hub.example");
	assert_false(r.client_ok || r.server_ok || r.verified);
	assert_non_null(strstr(r.why, "it was revoked"));
	free(r.client_name);
	pki_ctx_free(&client);
}

static void
add_serial(void *arg, const char *serial)
{
	buf_printf(arg, "%s ", serial);
}

/* Only the CA can say who is revoked. */
static void
test_revocation_list(void **state)
{
	static const char *const serials[] = {"0123456789abcdef", "7f"};
	struct world *w = *state;
	struct pki_crl crl = {w->ca, w->ca_key, serials, ARRAY_LEN(serials)};
	auto_buf struct buf told;
	struct err err = {0};
	char *pem = NULL, *both;

	buf_init(&told, BUF_UNLIMITED);
	assert_int_equal(pki_crl_new(&crl, &pem, &err), 0);
	assert_int_equal(pki_crl_read(pem, w->ca, add_serial, &told, &err), 0);
	assert_non_null(strstr(buf_str(&told), "7f "));
	assert_non_null(strstr(buf_str(&told), "123456789abcdef "));
	both = xasprintf("%s%s", w->other_ca, w->ca); /* while CAs change */
	assert_int_equal(pki_crl_read(pem, both, add_serial, &told, &err), 0);
	free(both);
	buf_consume(&told, buf_len(&told));
	assert_int_equal(pki_crl_read(pem, w->other_ca, add_serial, &told, &err), -EPERM);
	assert_int_equal(pki_crl_read("nonsense", w->ca, add_serial, &told, &err), -EINVAL);
	assert_int_equal(pki_crl_read(w->ca, w->ca, add_serial, &told, &err), -EINVAL);
	free(pem);
	crl.ca_pem = w->other_ca; /* of the right name, with another key */
	crl.ca_key_pem = w->other_ca_key;
	pem = NULL;
	assert_int_equal(pki_crl_new(&crl, &pem, &err), 0);
	assert_int_equal(pki_crl_read(pem, w->ca, add_serial, &told, &err), -EPERM);
	assert_int_equal(buf_len(&told), 0);
	free(pem);
}

static struct result
join(struct world *w, const char *hash, const char *host, char **ca)
{
	SSL_CTX *client = NULL;
	struct err err = {0};
	struct result r;

	if (pki_join_ctx(hash, ca, &client, &err) < 0)
		fail_msg("%s", err.text);
	r = handshake(client, w->server, host);
	pki_ctx_free(&client);
	return r;
}

static void
test_join_trusts_the_pinned_ca(void **state)
{
	struct world *w = *state;
	char hash[PKI_HASH_TEXT], *ca = NULL;
	struct result r;

	assert_int_equal(pki_cert_hash(w->ca, hash, NULL), 0);
	r = join(w, hash, "hub.example", &ca);
	assert_string_equal(r.why, "");
	assert_true(r.client_ok && r.verified);
	assert_string_equal(ca, w->ca);
	free(r.client_name);
	r = join(w, hash, "elsewhere.example", &ca);
	assert_false(r.client_ok || r.verified);
	assert_non_null(strstr(r.why, "not made for the name"));
	free(r.client_name);
	free(ca);
}

static void
test_join_refuses_other_hashes(void **state)
{
	struct world *w = *state;
	char hash[PKI_HASH_TEXT], *ca = NULL;
	struct result r;

	assert_int_equal(pki_cert_hash(w->other_ca, hash, NULL), 0);
	r = join(w, hash, "hub.example", &ca);
	assert_false(r.client_ok || r.verified);
	assert_non_null(strstr(r.why, "join token"));
	free(r.client_name);
	/* The hash of the server's own certificate, which is no CA. */
	assert_int_equal(pki_cert_hash(w->hub, hash, NULL), 0);
	r = join(w, hash, "hub.example", &ca);
	assert_false(r.client_ok || r.verified);
	free(r.client_name);
	assert_null(ca);
}

static void
test_join_needs_the_chain_to_match(void **state)
{
	/* A liar shows the real CA behind a certificate that another CA has signed. */
	struct world *w = *state;
	char *cert = sign_for(w->other_ca, w->other_ca_key, "hub", true, w->hub_key);
	char hash[PKI_HASH_TEXT], *ca = NULL;
	SSL_CTX *client = NULL, *server = NULL;
	struct result r;

	assert_int_equal(pki_cert_hash(w->ca, hash, NULL), 0);
	assert_int_equal(pki_server_ctx(cert, w->hub_key, w->ca, &server, NULL), 0);
	assert_int_equal(pki_join_ctx(hash, &ca, &client, NULL), 0);
	r = handshake(client, server, "hub.example");
	assert_false(r.client_ok || r.verified);
	assert_null(ca);
	assert_non_null(strstr(r.why, "not signed by the CA"));
	free(r.client_name);
	free(cert);
	pki_ctx_free(&client);
	pki_ctx_free(&server);
}

/* --- certificates --------------------------------------------------------------------------- */

static void
test_csr_name_is_not_believed(void **state)
{
	struct world *w = *state;
	struct pki_issue issue = {.ca_cert_pem = w->ca,
		.ca_key_pem = w->ca_key,
		.common_name = "edge-7",
		.client = true,
		.days = 30};
	char *csr = NULL, *cert = NULL, *name = NULL;
	int64_t from, to;

	assert_int_equal(pki_csr_new(w->node_key, "admin", &csr, NULL), 0);
	assert_int_equal(pki_sign(&issue, csr, &cert, NULL), 0);
	assert_int_equal(pki_cert_info(cert, &name, &from, &to, NULL), 0);
	assert_string_equal(name, "edge-7");
	assert_int_equal(to - from, 31 * 86400);
	assert_in_range(to - (int64_t)(wall_ms() / 1000), 30 * 86400 - 600, 30 * 86400);
	assert_int_equal(pki_pair_check(cert, w->node_key, NULL), 0);
	assert_int_equal(pki_pair_check(cert, w->hub_key, NULL), -EINVAL);
	free(csr);
	free(cert);
	free(name);
}

static void
test_long_names_come_back_whole(void **state)
{
	struct world *w = *state;
	size_t lengths[] = {1, 63, 64, 65, 253}, i;

	for (i = 0; i < ARRAY_LEN(lengths); i++) {
		char name[300], *cert, *back = NULL;
		struct result r;

		memset(name, 'a', sizeof name);
		name[lengths[i]] = '\0';
		cert = sign_for(w->ca, w->ca_key, name, false, w->node_key);
		assert_int_equal(pki_cert_info(cert, &back, NULL, NULL, NULL), 0);
		assert_string_equal(back, name);
		r = connect_as(w, cert, w->node_key, "hub.example");
		assert_string_equal(r.client_name, name);
		free(r.client_name);
		free(cert);
		free(back);
	}
}

/* The hash is the key's, whatever else the request says; a signature that is not the key's proves
 * nothing. */
static void
test_csr_says_its_name_and_key(void **state)
{
	struct world *w = *state;
	char first[PKI_HASH_TEXT], second[PKI_HASH_TEXT], other[PKI_HASH_TEXT];
	char *csr[3] = {NULL}, *name[3] = {NULL}, *broken, *none = NULL;
	struct err err = {0};

	assert_int_equal(pki_csr_new(w->node_key, "edge-7", &csr[0], NULL), 0);
	assert_int_equal(pki_csr_new(w->node_key, "edge-8", &csr[1], NULL), 0);
	assert_int_equal(pki_csr_new(w->hub_key, "edge-7", &csr[2], NULL), 0);
	assert_int_equal(pki_csr_info(csr[0], &name[0], first, &err), 0);
	assert_int_equal(pki_csr_info(csr[1], &name[1], second, &err), 0);
	assert_int_equal(pki_csr_info(csr[2], &name[2], other, &err), 0);
	assert_string_equal(name[0], "edge-7");
	assert_string_equal(name[1], "edge-8");
	assert_string_equal(first, second);
	assert_string_not_equal(first, other);
	broken = strchr(csr[0] + 100, '\n') - 9;
	broken[0] = broken[0] == 'A' ? 'B' : 'A';
	assert_int_equal(pki_csr_info(csr[0], &none, first, &err), -EINVAL);
	assert_int_equal(pki_csr_info(w->ca, &none, first, &err), -EINVAL);
	assert_null(none);
	for (size_t i = 0; i < ARRAY_LEN(csr); i++) {
		free(csr[i]);
		free(name[i]);
	}
}

/* "RSA BITS EXPONENT" */
static EVP_PKEY *
rsa_key(const char *kind)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
	BIGNUM *e = NULL;
	EVP_PKEY *key = NULL;
	int bits;

	assert_int_equal(sscanf(kind, "RSA %d", &bits), 1);
	assert_int_not_equal(BN_dec2bn(&e, strrchr(kind, ' ') + 1), 0);
	assert_int_equal(EVP_PKEY_keygen_init(ctx), 1);
	assert_int_equal(EVP_PKEY_CTX_set_rsa_keygen_bits(ctx, bits), 1);
	assert_int_equal(EVP_PKEY_CTX_set1_rsa_keygen_pubexp(ctx, e), 1);
	assert_int_equal(EVP_PKEY_generate(ctx, &key), 1);
	BN_free(e);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/* A request of a new key of this curve, for all these names; "ED25519", "RSA ..." as well. */
static char *
request_of(const char *kind, const char *const *names)
{
	EVP_PKEY *key = strncmp(kind, "RSA", 3) == 0 ? rsa_key(kind)
		: strcmp(kind, "ED25519") == 0       ? EVP_PKEY_Q_keygen(NULL, NULL, kind)
						     : EVP_EC_gen(kind);
	X509_REQ *req = X509_REQ_new();
	BIO *bio = BIO_new(BIO_s_mem());
	char *data, *pem;
	long len;

	assert_non_null(key);
	for (; *names != NULL; names++)
		assert_int_equal(X509_NAME_add_entry_by_txt(X509_REQ_get_subject_name(req), "CN",
					 MBSTRING_ASC, (const unsigned char *)*names, -1, -1, 0),
			1);
	assert_int_equal(X509_REQ_set_pubkey(req, key), 1);
	assert_int_not_equal(
		X509_REQ_sign(req, key, strcmp(kind, "ED25519") == 0 ? NULL : EVP_sha256()), 0);
	assert_int_equal(PEM_write_bio_X509_REQ(bio, req), 1);
	len = BIO_get_mem_data(bio, &data);
	pem = xstrndup(data, (size_t)len);
	BIO_free(bio);
	X509_REQ_free(req);
	EVP_PKEY_free(key);
	return pem;
}

/* One reader shows the first, another the last: none of them counts. */
static void
test_two_common_names_are_none(void **state)
{
	const char *const one[] = {"edge-7", NULL}, *const two[] = {"edge-7", "edge-8", NULL};
	auto_free char *good = request_of("P-256", one), *bad = request_of("P-256", two);
	auto_free char *name = NULL, *none = NULL;
	char key[PKI_HASH_TEXT];

	(void)state;
	assert_int_equal(pki_csr_info(good, &name, key, NULL), 0);
	assert_string_equal(name, "edge-7");
	assert_int_equal(pki_csr_info(bad, &none, key, NULL), 0);
	assert_string_equal(none, "");
}

/* What is passed on is what was read, with nothing beside it, and of a key that others know. */
static void
test_plain_requests(void **state)
{
	const char *const kinds[] = {"P-256", "P-384", "P-521", "ED25519", "RSA 2048 65537",
		"RSA 2048 3"},
			  *const foreign[] = {"secp256k1", "brainpoolP256r1", "P-224",
				  "RSA 1024 65537", "RSA 4104 65537", "RSA 2048 4294967297"};
	const char *const names[] = {"edge-7", NULL};
	char hash[PKI_HASH_TEXT];
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		auto_free char *csr = request_of(kinds[i], names), *plain = NULL;
		auto_free char *more = xasprintf("words\n%smore\n%s", csr, csr);

		assert_int_equal(pki_csr_plain(more, &plain, &err), 0);
		assert_string_equal(plain, csr);
	}
	for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
		auto_free char *csr = request_of(foreign[i], names), *plain = NULL;

		assert_int_equal(pki_csr_info(csr, &plain, hash, &err), -EINVAL);
		assert_int_equal(pki_csr_plain(csr, &plain, &err), -EINVAL);
		assert_null(plain);
		assert_non_null(strstr(err.text, "another kind"));
	}
}

static void
test_certificates_fit_a_key(void **state)
{
	struct world *w = *state;
	int64_t now = (int64_t)(wall_ms() / 1000);
	auto_free char *csr = NULL, *name = NULL;
	char key[PKI_HASH_TEXT], other[PKI_HASH_TEXT];

	assert_int_equal(pki_csr_new(w->hub_key, "edge-1", &csr, NULL), 0);
	assert_int_equal(pki_csr_info(csr, &name, other, NULL), 0);
	free(take_ptr(&csr));
	free(take_ptr(&name));
	assert_int_equal(pki_csr_new(w->node_key, "edge-1", &csr, NULL), 0);
	assert_int_equal(pki_csr_info(csr, &name, key, NULL), 0);
	assert_true(pki_cert_fits(w->node, w->ca, key, now));
	assert_false(pki_cert_fits(w->node, w->ca, other, now));
	assert_false(pki_cert_fits(w->node, w->other_ca, key, now));
	assert_false(pki_cert_fits(w->node, w->ca, key, now + 11 * 86400));
	assert_false(pki_cert_fits("", w->ca, key, now));
}

static void
test_bad_input_is_refused(void **state)
{
	struct world *w = *state;
	const char *names[] = {"two words", NULL};
	struct pki_issue issue = {.ca_cert_pem = w->ca,
		.ca_key_pem = w->ca_key,
		.common_name = "edge-7",
		.client = true,
		.days = 30};
	struct err err = {0};
	char *csr = NULL, *cert = NULL, *broken;
	SSL_CTX *ctx = NULL;

	assert_int_equal(pki_csr_new(w->node_key, "edge-7", &csr, NULL), 0);
	broken = strchr(csr + 100, '\n') - 9;
	broken[0] = broken[0] == 'A' ? 'B' : 'A';
	assert_int_equal(pki_sign(&issue, csr, &cert, &err), -EINVAL);
	assert_int_equal(pki_sign(&issue, "", &cert, &err), -EINVAL);
	assert_int_equal(pki_sign(&issue, w->ca, &cert, &err), -EINVAL);
	issue.names = names;
	assert_int_equal(pki_sign_key(&issue, w->node_key, &cert, &err), -EINVAL);
	assert_non_null(strstr(err.text, "two words"));
	issue.names = NULL;
	issue.ca_key_pem = w->other_ca_key;
	assert_int_equal(pki_sign_key(&issue, w->node_key, &cert, &err), -EINVAL);
	assert_null(cert);
	assert_int_equal(pki_client_ctx("nothing", NULL, NULL, &ctx, &err), -EINVAL);
	assert_int_equal(pki_client_ctx(w->ca, w->node, w->hub_key, &ctx, &err), -EINVAL);
	assert_int_equal(pki_join_ctx("abc", &cert, &ctx, &err), -EINVAL);
	assert_null(ctx);
	free(csr);
}

/* The floor is ahead of this clock, as the real time is of one that starts in 1970. */
static void
test_certificates_are_checked_as_of_the_floor(void **state)
{
	struct world *w = *state;
	int64_t now_s = (int64_t)(wall_ms() / 1000);
	const int64_t floors[] = {0, now_s - 1000, now_s + 1000, now_s + (int64_t)40 * 365 * 86400};
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(floors); i++) {
		SSL_CTX *client = NULL;
		struct result r;

		assert_int_equal(pki_client_ctx(w->ca, w->node, w->node_key, &client, &err), 0);
		pki_ctx_floor(client, floors[i]);
		r = handshake(client, w->server, "hub.example");
		assert_int_equal(r.verified, i < 3);
		assert_string_equal(r.why,
			i < 3 ? ""
			      : "the peer's certificate is refused: it has expired (or this "
				"machine's "
				"clock is wrong)");
		free(r.client_name);
		pki_ctx_free(&client);
	}
}

static void
test_hashes_and_comparison(void **state)
{
	char hash[PKI_HASH_TEXT];

	(void)state;
	pki_sha256_hex("abc", 3, hash);
	assert_string_equal(
		hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_true(pki_equal("secret", "secret"));
	assert_false(pki_equal("secret", "secreT"));
	assert_false(pki_equal("secret", "secret "));
	assert_false(pki_equal("", "x"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_node_and_hub_know_each_other),
		cmocka_unit_test(test_no_client_certificate_is_nobody),
		cmocka_unit_test(test_wrong_host_is_refused),
		cmocka_unit_test(test_stranger_is_refused),
		cmocka_unit_test(test_node_cannot_play_the_hub),
		cmocka_unit_test(test_revoked_hub_is_refused),
		cmocka_unit_test(test_revocation_list),
		cmocka_unit_test(test_join_trusts_the_pinned_ca),
		cmocka_unit_test(test_join_refuses_other_hashes),
		cmocka_unit_test(test_join_needs_the_chain_to_match),
		cmocka_unit_test(test_csr_name_is_not_believed),
		cmocka_unit_test(test_csr_says_its_name_and_key),
		cmocka_unit_test(test_two_common_names_are_none),
		cmocka_unit_test(test_plain_requests),
		cmocka_unit_test(test_certificates_fit_a_key),
		cmocka_unit_test(test_long_names_come_back_whole),
		cmocka_unit_test(test_bad_input_is_refused),
		cmocka_unit_test(test_certificates_are_checked_as_of_the_floor),
		cmocka_unit_test(test_hashes_and_comparison),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
