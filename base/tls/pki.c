#include "base/tls/pki.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include "base/tls/pki_openssl.h"

#define auto_names __attribute__((cleanup(cleanup_names)))

static void
cleanup_names(GENERAL_NAMES **names)
{
	GENERAL_NAMES_free(*names);
}

void
pki_cleanup_x509(X509 **cert)
{
	X509_free(*cert);
}

void
pki_cleanup_key(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}

void
pki_cleanup_bio(BIO **bio)
{
	BIO_free_all(*bio);
}

int
pki_fail(struct err *err, const char *what)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return err_set(err, EINVAL, "%s: %s", what, reason != NULL ? reason : "OpenSSL refused it");
}

int
pki_no_pass_phrase(char *buf, int size, int writing, void *arg)
{
	(void)buf;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

BIO *
pki_bio(const char *pem, const char *what, struct err *err)
{
	size_t len = pem != NULL ? strlen(pem) : 0;
	BIO *bio;

	ERR_clear_error();
	if (len == 0 || len > PKI_PEM_LIMIT) {
		err_set(err, EINVAL, "%s: want 1 to %d bytes of PEM, have %zu", what, PKI_PEM_LIMIT,
			len);
		return NULL;
	}
	bio = BIO_new_mem_buf(pem, (int)len);
	if (bio == NULL)
		pki_fail(err, what);
	return bio;
}

X509 *
pki_read_cert(const char *pem, const char *what, struct err *err)
{
	auto_bio BIO *bio = pki_bio(pem, what, err);
	X509 *cert;

	if (bio == NULL)
		return NULL;
	cert = PEM_read_bio_X509(bio, NULL, pki_no_pass_phrase, NULL);
	if (cert == NULL)
		pki_fail(err, what);
	return cert;
}

EVP_PKEY *
pki_read_key(const char *pem, const char *what, struct err *err)
{
	auto_bio BIO *bio = pki_bio(pem, what, err);
	EVP_PKEY *key;

	if (bio == NULL)
		return NULL;
	key = PEM_read_bio_PrivateKey(bio, NULL, pki_no_pass_phrase, NULL);
	if (key == NULL)
		pki_fail(err, what);
	return key;
}

char *
pki_bio_text(BIO *bio)
{
	char *data;
	long len = BIO_get_mem_data(bio, &data);

	return xstrndup(data, (size_t)len);
}

char *
pki_write_cert(X509 *cert)
{
	auto_bio BIO *bio = BIO_new(BIO_s_mem());

	if (bio == NULL || PEM_write_bio_X509(bio, cert) != 1)
		return NULL;
	return pki_bio_text(bio);
}

static void
to_hex(const unsigned char *bytes, char hash[PKI_HASH_TEXT])
{
	static const char digits[] = "0123456789abcdef";
	size_t i;

	for (i = 0; i < SHA256_DIGEST_LENGTH; i++) {
		hash[2 * i] = digits[bytes[i] >> 4];
		hash[2 * i + 1] = digits[bytes[i] & 15];
	}
	hash[2 * i] = '\0';
}

void
pki_sha256_hex(const void *data, size_t len, char hash[PKI_HASH_TEXT])
{
	unsigned char bytes[SHA256_DIGEST_LENGTH];

	SHA256(data, len, bytes);
	to_hex(bytes, hash);
}

bool
pki_is_hash_of_nothing(const char *text)
{
	char nothing[PKI_HASH_TEXT];

	pki_sha256_hex("", 0, nothing);
	return strncasecmp(text, nothing, PKI_HASH_TEXT - 1) == 0;
}

void
pki_sha256(const void *data, size_t len, uint8_t hash[PKI_SHA256_BYTES])
{
	SHA256(data, len, hash);
}

void
pki_sha1(const void *data, size_t len, uint8_t hash[PKI_SHA1_BYTES])
{
	SHA1(data, len, hash);
}

void
pki_x509_hash(const X509 *cert, char hash[PKI_HASH_TEXT])
{
	unsigned char bytes[EVP_MAX_MD_SIZE] = {0};
	unsigned len = 0;

	if (X509_digest(cert, EVP_sha256(), bytes, &len) == 1)
		to_hex(bytes, hash);
	else
		hash[0] = '\0'; /* matches no hash */
}

int
pki_cert_hash(const char *cert_pem, char hash[PKI_HASH_TEXT], struct err *err)
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", err);

	if (cert == NULL)
		return -EINVAL;
	pki_x509_hash(cert, hash);
	return 0;
}

void
pki_x509_serial(const X509 *cert, char serial[PKI_SERIAL_TEXT])
{
	pki_serial_text(X509_get0_serialNumber(cert), serial);
}

void
pki_serial_text(const ASN1_INTEGER *number, char serial[PKI_SERIAL_TEXT])
{
	size_t len = MIN((size_t)ASN1_STRING_length(number), (size_t)(PKI_SERIAL_TEXT - 1) / 2);
	const unsigned char *bytes = ASN1_STRING_get0_data(number);

	for (size_t i = 0; i < len; i++)
		snprintf(serial + 2 * i, 3, "%02x", bytes[i]);
	serial[2 * len] = '\0';
}

int
pki_cert_serial(const char *cert_pem, char serial[PKI_SERIAL_TEXT], struct err *err)
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", err);

	if (cert == NULL)
		return -EINVAL;
	pki_x509_serial(cert, serial);
	return 0;
}

/* Text without a NUL inside, which different programs would read as different names; else NULL. */
static char *
clean_text(const ASN1_STRING *s)
{
	unsigned char *utf8 = NULL;
	int len = ASN1_STRING_to_UTF8(&utf8, s);
	char *text = NULL;

	if (len > 0 && memchr(utf8, '\0', (size_t)len) == NULL)
		text = xstrndup((const char *)utf8, (size_t)len);
	OPENSSL_free(utf8);
	return text;
}

static char *
longer_alt_name(const X509 *cert, const char *prefix)
{
	auto_names GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	int i;

	for (i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		char *text;

		if (name->type != GEN_DNS)
			continue;
		text = clean_text(name->d.dNSName);
		if (text != NULL && strlen(text) > PKI_COMMON_NAME_MAX &&
			strncmp(text, prefix, PKI_COMMON_NAME_MAX) == 0)
			return text;
		free(text);
	}
	return NULL;
}

static bool
has_mark(const X509 *cert)
{
	auto_names GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

	for (int i = 0; names != NULL && i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		auto_free char *text = NULL;

		if (name->type != GEN_URI)
			continue;
		text = clean_text(name->d.uniformResourceIdentifier);
		if (text != NULL && strcmp(text, PKI_HUB_MARK) == 0)
			return true;
	}
	return false;
}

bool
pki_x509_is_hub(X509 *cert)
{
	const uint32_t both = XKU_SSL_SERVER | XKU_SSL_CLIENT;

	/* A certificate without the extension, valid for any use, gives UINT32_MAX: it was not
	 * issued for a hub. */
	return (X509_get_extension_flags(cert) & EXFLAG_XKUSAGE) != 0 &&
		(X509_get_extended_key_usage(cert) & both) == both && has_mark(cert);
}

bool
pki_cert_is_hub(const char *cert_pem)
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", NULL);
	bool is = cert != NULL && pki_x509_is_hub(cert);

	ERR_clear_error();
	return is;
}

char *
pki_subject_name(const X509_NAME *subject)
{
	int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
	char *name = NULL;

	/* With several, one program shows the first and another the last. */
	if (at >= 0 && X509_NAME_get_index_by_NID(subject, NID_commonName, at) < 0)
		name = clean_text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
	return name != NULL ? name : xstrdup("");
}

char *
pki_x509_name(const X509 *cert)
{
	char *name = pki_subject_name(X509_get_subject_name(cert)), *whole;

	if (strlen(name) != PKI_COMMON_NAME_MAX)
		return name;
	whole = longer_alt_name(cert, name);
	if (whole == NULL)
		return name;
	free(name);
	return whole;
}

static int64_t
seconds_of(const ASN1_TIME *time)
{
	ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
	int days = 0, seconds = 0;

	if (epoch != NULL)
		ASN1_TIME_diff(&days, &seconds, epoch, time);
	ASN1_TIME_free(epoch);
	return (int64_t)days * 86400 + seconds;
}

int64_t
pki_x509_begins(const X509 *cert)
{
	return seconds_of(X509_get0_notBefore(cert));
}

int64_t
pki_x509_ends(const X509 *cert)
{
	return seconds_of(X509_get0_notAfter(cert));
}

void
pki_bundle_each(const char *pem, void (*each)(void *arg, const char *hash), void *arg)
{
	auto_bio BIO *bio = pki_bio(pem, "the bundle", NULL);

	while (bio != NULL) {
		auto_x509 X509 *cert = PEM_read_bio_X509(bio, NULL, pki_no_pass_phrase, NULL);
		char hash[PKI_HASH_TEXT];

		if (cert == NULL)
			break;
		pki_x509_hash(cert, hash);
		each(arg, hash);
	}
	ERR_clear_error();
}

bool
pki_bundle_signer(const char *pem, const char *cert_pem, char hash[PKI_HASH_TEXT])
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", NULL);
	auto_bio BIO *bio = pki_bio(pem, "the bundle", NULL);
	bool found = false;

	while (cert != NULL && bio != NULL && !found) {
		auto_x509 X509 *ca = PEM_read_bio_X509(bio, NULL, pki_no_pass_phrase, NULL);

		if (ca == NULL)
			break;
		found = X509_verify(cert, X509_get0_pubkey(ca)) == 1;
		if (found)
			pki_x509_hash(ca, hash);
	}
	ERR_clear_error();
	return found;
}

struct bundle_search {
	const char *hash;
	bool found;
};

static void
compare_hash(void *arg, const char *hash)
{
	struct bundle_search *s = arg;

	s->found |= pki_equal(hash, s->hash);
}

bool
pki_bundle_holds(const char *pem, const char *hash)
{
	struct bundle_search s = {.hash = hash};

	pki_bundle_each(pem, compare_hash, &s);
	return s.found;
}

int
pki_cert_info(const char *cert_pem, char **common_name, int64_t *not_before, int64_t *not_after,
	struct err *err)
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", err);

	if (cert == NULL)
		return -EINVAL;
	if (common_name != NULL)
		*common_name = pki_x509_name(cert);
	if (not_before != NULL)
		*not_before = seconds_of(X509_get0_notBefore(cert));
	if (not_after != NULL)
		*not_after = seconds_of(X509_get0_notAfter(cert));
	return 0;
}

int
pki_pair_check(const char *cert_pem, const char *key_pem, struct err *err)
{
	auto_x509 X509 *cert = pki_read_cert(cert_pem, "the certificate", err);
	auto_key EVP_PKEY *key = NULL;

	if (cert == NULL)
		return -EINVAL;
	key = pki_read_key(key_pem, "the key", err);
	if (key == NULL)
		return -EINVAL;
	if (X509_check_private_key(cert, key) != 1)
		return pki_fail(err, "the key does not belong to the certificate");
	return 0;
}

bool
pki_equal(const char *a, const char *b)
{
	char x[PKI_HASH_TEXT], y[PKI_HASH_TEXT];

	/* Hashing first makes both the same length, so that not even the length can be timed. */
	pki_sha256_hex(a, strlen(a), x);
	pki_sha256_hex(b, strlen(b), y);
	return CRYPTO_memcmp(x, y, sizeof x) == 0;
}
