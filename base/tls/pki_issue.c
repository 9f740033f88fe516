#include "base/tls/pki.h"

#include <errno.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/tls/pki_openssl.h"

enum {
	DNS_NAME_MAX = 253,
	SERIAL_BYTES = 16,
	DAYS_MAX = 36500,
	DAY_S = 86400,
	/* of a key that we sign */
	RSA_BITS_LEAST = 2048,
	RSA_BITS_MOST = 4096,
	RSA_EXPONENT_BITS = 32,
};

#define auto_req __attribute__((cleanup(cleanup_req)))
#define auto_names __attribute__((cleanup(cleanup_names)))

static void
cleanup_req(X509_REQ **req)
{
	X509_REQ_free(*req);
}

static void
cleanup_names(GENERAL_NAMES **names)
{
	GENERAL_NAMES_free(*names);
}

static int
give_cert(X509 *cert, char **pem, struct err *err)
{
	char *text = pki_write_cert(cert);

	if (text == NULL)
		return pki_fail(err, "cannot write the certificate");
	*pem = text;
	return 0;
}

static int
give_key(EVP_PKEY *key, char **pem, struct err *err)
{
	auto_bio BIO *bio = BIO_new(BIO_s_mem());

	if (bio == NULL || PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1)
		return pki_fail(err, "cannot write the key");
	*pem = pki_bio_text(bio);
	return 0;
}

int
pki_key_new(char **key_pem, struct err *err)
{
	auto_key EVP_PKEY *key = EVP_EC_gen("P-256");

	if (key == NULL)
		return pki_fail(err, "cannot make a key");
	return give_key(key, key_pem, err);
}

/* Sets the name; if it is longer than X.509's common name allows, its first 64 bytes; the whole is
 * then in subjectAltName. */
static int
set_common_name(X509_NAME *name, const char *text)
{
	size_t len = MIN(strlen(text), (size_t)PKI_COMMON_NAME_MAX);

	return X509_NAME_add_entry_by_NID(
		name, NID_commonName, MBSTRING_UTF8, (const unsigned char *)text, (int)len, -1, 0);
}

static int
check_common_name(const char *name, struct err *err)
{
	size_t len = strlen(name);

	if (len == 0 || len > DNS_NAME_MAX)
		return err_set(err, EINVAL, "a certificate's name must have 1 to %d bytes, not %zu",
			DNS_NAME_MAX, len);
	return 0;
}

static bool
set_serial(X509 *cert)
{
	unsigned char bytes[SERIAL_BYTES];
	BIGNUM *number;
	bool ok;

	random_bytes(bytes, sizeof bytes);
	number = BN_bin2bn(bytes, sizeof bytes, NULL);
	ok = number != NULL && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
	BN_free(number);
	return ok;
}

static bool
add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext != NULL && X509_add_ext(cert, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

/* Sets everything but issuer, extensions and signature. */
static int
begin_cert(X509 *cert, const char *common_name, uint64_t life_s, EVP_PKEY *key, struct err *err)
{
	long before = (long)MIN(life_s / 10, (uint64_t)DAY_S);
	int rc = check_common_name(common_name, err);

	if (rc < 0)
		return rc;
	if (life_s == 0 || life_s > (uint64_t)DAYS_MAX * DAY_S)
		return err_set(err, EINVAL,
			"a certificate lives between a second and %d days, not %llu s", DAYS_MAX,
			(unsigned long long)life_s);
	if (X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert) ||
		X509_time_adj_ex(X509_getm_notBefore(cert), 0, -before, NULL) == NULL ||
		X509_time_adj_ex(X509_getm_notAfter(cert), (int)(life_s / DAY_S),
			(long)(life_s % DAY_S), NULL) == NULL ||
		set_common_name(X509_get_subject_name(cert), common_name) != 1 ||
		X509_set_pubkey(cert, key) != 1)
		return pki_fail(err, "cannot make the certificate");
	return 0;
}

int
pki_ca_new(const char *common_name, unsigned days, char **cert_pem, char **key_pem, struct err *err)
{
	auto_key EVP_PKEY *key = EVP_EC_gen("P-256");
	auto_x509 X509 *cert = X509_new();
	auto_free char *key_text = NULL;
	int rc;

	if (key == NULL || cert == NULL)
		return pki_fail(err, "cannot make a CA");
	rc = begin_cert(cert, common_name, (uint64_t)days * DAY_S, key, err);
	if (rc < 0)
		return rc;
	if (X509_set_issuer_name(cert, X509_get_subject_name(cert)) != 1 ||
		!add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
		!add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign") ||
		!add_extension(cert, cert, NID_subject_key_identifier, "hash") ||
		X509_sign(cert, key, EVP_sha256()) == 0)
		return pki_fail(err, "cannot make a CA");
	rc = give_key(key, &key_text, err);
	if (rc == 0)
		rc = give_cert(cert, cert_pem, err);
	if (rc == 0)
		*key_pem = take_ptr(&key_text);
	return rc;
}

int
pki_csr_new(const char *key_pem, const char *common_name, char **csr_pem, struct err *err)
{
	auto_key EVP_PKEY *key = pki_read_key(key_pem, "the key of the request", err);
	auto_req X509_REQ *req = X509_REQ_new();
	auto_bio BIO *bio = BIO_new(BIO_s_mem());
	int rc;

	if (key == NULL)
		return -EINVAL;
	rc = check_common_name(common_name, err);
	if (rc < 0)
		return rc;
	if (req == NULL || bio == NULL || X509_REQ_set_version(req, X509_REQ_VERSION_1) != 1 ||
		set_common_name(X509_REQ_get_subject_name(req), common_name) != 1 ||
		X509_REQ_set_pubkey(req, key) != 1 || X509_REQ_sign(req, key, EVP_sha256()) == 0 ||
		PEM_write_bio_X509_REQ(bio, req) != 1)
		return pki_fail(err, "cannot make a certificate request");
	*csr_pem = pki_bio_text(bio);
	return 0;
}

static bool
push_uri(GENERAL_NAMES *names, const char *text)
{
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_IA5STRING *uri = ASN1_IA5STRING_new();

	if (name != NULL && uri != NULL && ASN1_STRING_set(uri, text, -1) == 1) {
		GENERAL_NAME_set0_value(name, GEN_URI, uri);
		uri = NULL;
		if (sk_GENERAL_NAME_push(names, name) > 0)
			return true;
	}
	ASN1_IA5STRING_free(uri);
	GENERAL_NAME_free(name);
	return false;
}

static bool
push_name(GENERAL_NAMES *names, const char *text)
{
	ASN1_OCTET_STRING *ip = a2i_IPADDRESS(text);
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_IA5STRING *dns;

	ERR_clear_error(); /* not an error: the name is just not an address */
	if (name == NULL)
		goto fail;
	if (ip != NULL) {
		GENERAL_NAME_set0_value(name, GEN_IPADD, ip);
		ip = NULL;
	} else {
		dns = ASN1_IA5STRING_new();
		if (dns == NULL || ASN1_STRING_set(dns, text, (int)strlen(text)) != 1) {
			ASN1_IA5STRING_free(dns);
			goto fail;
		}
		GENERAL_NAME_set0_value(name, GEN_DNS, dns);
	}
	if (sk_GENERAL_NAME_push(names, name) > 0)
		return true;
fail:
	GENERAL_NAME_free(name);
	ASN1_OCTET_STRING_free(ip);
	return false;
}

static int
check_alt_name(const char *text, struct err *err)
{
	size_t len = strlen(text), i;

	for (i = 0; i < len; i++) {
		if (text[i] <= ' ' || text[i] > '~')
			break;
	}
	if (i < len || len == 0 || len > DNS_NAME_MAX)
		return err_set(err, EINVAL,
			"\"%.80s\" is neither an address nor a host name for a certificate", text);
	return 0;
}

static int
add_alt_names(X509 *cert, const struct pki_issue *issue, struct err *err)
{
	static const char *const none[] = {NULL};
	const char *const *name = issue->names != NULL ? issue->names : none;
	auto_names GENERAL_NAMES *names = GENERAL_NAMES_new();
	bool ok = names != NULL && (!issue->hub || push_uri(names, PKI_HUB_MARK)) &&
		(issue->uri == NULL || push_uri(names, issue->uri));
	int rc = 0;

	if (strlen(issue->common_name) > PKI_COMMON_NAME_MAX) {
		rc = check_alt_name(issue->common_name, err);
		ok = ok && push_name(names, issue->common_name);
	}
	for (; rc == 0 && ok && *name != NULL; name++) {
		rc = check_alt_name(*name, err);
		if (rc == 0)
			ok = push_name(names, *name);
	}
	if (rc < 0)
		return rc;
	if (ok && sk_GENERAL_NAME_num(names) > 0)
		ok = X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0) == 1;
	return ok ? 0 : pki_fail(err, "cannot add the names to the certificate");
}

static const char *
key_purpose(const struct pki_issue *issue)
{
	if (issue->server && issue->client)
		return "serverAuth,clientAuth";
	return issue->server ? "serverAuth" : "clientAuth";
}

static int
issue_cert(const struct pki_issue *issue, EVP_PKEY *subject, char **cert_pem, struct err *err)
{
	auto_x509 X509 *ca = pki_read_cert(issue->ca_cert_pem, "the CA's certificate", err);
	auto_key EVP_PKEY *ca_key = NULL;
	auto_x509 X509 *cert = X509_new();
	int rc;

	if (ca == NULL)
		return -EINVAL;
	ca_key = pki_read_key(issue->ca_key_pem, "the CA's key", err);
	if (ca_key == NULL)
		return -EINVAL;
	if (X509_check_private_key(ca, ca_key) != 1)
		return pki_fail(err, "the CA's key and certificate");
	if (cert == NULL)
		return pki_fail(err, "cannot make the certificate");
	rc = begin_cert(cert, issue->common_name,
		issue->life_s != 0 ? issue->life_s : (uint64_t)issue->days * DAY_S, subject, err);
	if (rc < 0)
		return rc;
	if (X509_set_issuer_name(cert, X509_get_subject_name(ca)) != 1 ||
		!add_extension(cert, ca, NID_basic_constraints, "critical,CA:FALSE") ||
		!add_extension(cert, ca, NID_key_usage, "critical,digitalSignature") ||
		!add_extension(cert, ca, NID_ext_key_usage, key_purpose(issue)) ||
		!add_extension(cert, ca, NID_subject_key_identifier, "hash") ||
		!add_extension(cert, ca, NID_authority_key_identifier, "keyid"))
		return pki_fail(err, "cannot make the certificate");
	rc = add_alt_names(cert, issue, err);
	if (rc < 0)
		return rc;
	if (X509_sign(cert, ca_key, EVP_sha256()) == 0)
		return pki_fail(err, "cannot sign the certificate");
	return give_cert(cert, cert_pem, err);
}

/* A check of a signature by a larger key, or with a larger exponent, takes milliseconds. */
static bool
is_common_rsa(const EVP_PKEY *key)
{
	int bits = EVP_PKEY_get_bits(key);
	BIGNUM *e = NULL;
	bool fits;

	if (bits < RSA_BITS_LEAST || bits > RSA_BITS_MOST)
		return false;
	fits = EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &e) == 1 &&
		BN_num_bits(e) <= RSA_EXPONENT_BITS;
	BN_free(e);
	return fits;
}

static bool
is_common_key(const EVP_PKEY *key)
{
	static const char *const curves[] = {"prime256v1", "secp384r1", "secp521r1"};
	char curve[64] = "";
	int by_parameters = 0;

	if (EVP_PKEY_is_a(key, "RSA"))
		return is_common_rsa(key);
	if (EVP_PKEY_is_a(key, "ED25519"))
		return true;
	if (!EVP_PKEY_is_a(key, "EC") ||
		EVP_PKEY_get_group_name(key, curve, sizeof curve, NULL) != 1 ||
		EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS,
			&by_parameters) != 1 ||
		by_parameters != 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(curves); i++) {
		if (strcmp(curve, curves[i]) == 0)
			return true;
	}
	return false;
}

/* Reads a request and checks its signature by its own key; NULL: err has the reason. */
static X509_REQ *
read_request(const char *csr_pem, struct err *err)
{
	auto_bio BIO *bio = pki_bio(csr_pem, "the certificate request", err);
	X509_REQ *req = NULL;
	EVP_PKEY *subject; /* of req */

	if (bio == NULL)
		return NULL;
	req = PEM_read_bio_X509_REQ(bio, NULL, pki_no_pass_phrase, NULL);
	if (req == NULL) {
		pki_fail(err, "the certificate request");
		return NULL;
	}
	subject = X509_REQ_get0_pubkey(req);
	if (subject != NULL && !is_common_key(subject))
		err_set(err, EINVAL,
			"the key of the certificate request is of another kind than P-256, P-384, "
			"P-521, Ed25519 and RSA of 2048 to 4096 bits");
	else if (subject == NULL || X509_REQ_verify(req, subject) != 1)
		pki_fail(err, "the signature of the certificate request");
	else
		return req;
	ERR_clear_error();
	X509_REQ_free(req);
	return NULL;
}

static bool
hash_key(const EVP_PKEY *key, char hash[PKI_HASH_TEXT])
{
	unsigned char *der = NULL;
	int len = i2d_PUBKEY(key, &der);

	if (len <= 0)
		return false;
	pki_sha256_hex(der, (size_t)len, hash);
	OPENSSL_free(der);
	return true;
}

int
pki_csr_info(const char *csr_pem, char **common_name, char key_hash[PKI_HASH_TEXT], struct err *err)
{
	auto_req X509_REQ *req = read_request(csr_pem, err);

	if (req == NULL)
		return -EINVAL;
	if (!hash_key(X509_REQ_get0_pubkey(req), key_hash))
		return pki_fail(err, "the key of the certificate request");
	*common_name = pki_subject_name(X509_REQ_get_subject_name(req));
	return 0;
}

int
pki_csr_plain(const char *csr_pem, char **plain_pem, struct err *err)
{
	auto_req X509_REQ *req = read_request(csr_pem, err);
	auto_bio BIO *bio = BIO_new(BIO_s_mem());

	if (req == NULL)
		return -EINVAL;
	if (bio == NULL || PEM_write_bio_X509_REQ(bio, req) != 1)
		return pki_fail(err, "cannot write the certificate request");
	*plain_pem = pki_bio_text(bio);
	return 0;
}

int
pki_cert_key(const char *cert_pem, char key_hash[PKI_HASH_TEXT], struct err *err)
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", err);

	if (cert == NULL)
		return -EINVAL;
	return hash_key(X509_get0_pubkey(cert), key_hash)
		? 0
		: pki_fail(err, "the key of the certificate");
}

bool
pki_cert_fits(const char *cert_pem, const char *ca_pem, const char *key_hash, int64_t now_s)
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", NULL);
	auto_x509 X509 *ca = pki_read_cert(ca_pem, "the CA's certificate", NULL);
	char hash[PKI_HASH_TEXT];
	bool fits;

	fits = cert != NULL && ca != NULL && X509_verify(cert, X509_get0_pubkey(ca)) == 1 &&
		hash_key(X509_get0_pubkey(cert), hash) && pki_equal(hash, key_hash) &&
		pki_x509_begins(cert) <= now_s && now_s < pki_x509_ends(cert);
	ERR_clear_error();
	return fits;
}

int
pki_sign(const struct pki_issue *issue, const char *csr_pem, char **cert_pem, struct err *err)
{
	auto_req X509_REQ *req = read_request(csr_pem, err);

	return req == NULL ? -EINVAL : issue_cert(issue, X509_REQ_get0_pubkey(req), cert_pem, err);
}

int
pki_sign_key(const struct pki_issue *issue, const char *key_pem, char **cert_pem, struct err *err)
{
	auto_key EVP_PKEY *subject = pki_read_key(key_pem, "the key of the certificate", err);

	if (subject == NULL)
		return -EINVAL;
	return issue_cert(issue, subject, cert_pem, err);
}
