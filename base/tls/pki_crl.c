#include "base/tls/pki_crl.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "base/tls/pki_openssl.h"

#define auto_crl __attribute__((cleanup(cleanup_crl)))

static void
cleanup_crl(X509_CRL **crl)
{
	X509_CRL_free(*crl);
}

/* --- making --------------------------------------------------------------------------------- */

static bool
crl_add_serial(X509_CRL *crl, const char *serial)
{
	X509_REVOKED *entry = X509_REVOKED_new();
	ASN1_TIME *now = X509_gmtime_adj(NULL, 0);
	ASN1_INTEGER *number = NULL;
	BIGNUM *bn = NULL;
	bool ok = entry != NULL && now != NULL && BN_hex2bn(&bn, serial) > 0 &&
		(number = BN_to_ASN1_INTEGER(bn, NULL)) != NULL &&
		X509_REVOKED_set_serialNumber(entry, number) == 1 &&
		X509_REVOKED_set_revocationDate(entry, now) == 1 &&
		X509_CRL_add0_revoked(crl, entry) == 1;

	if (!ok)
		X509_REVOKED_free(entry);
	ASN1_INTEGER_free(number);
	ASN1_TIME_free(now);
	BN_free(bn);
	return ok;
}

/* cRLNumber, RFC 5280 section 5.2.3: must grow; replicas share no counter, so it is the time. */
static bool
crl_set_number(X509_CRL *crl)
{
	ASN1_INTEGER *number = ASN1_INTEGER_new();
	bool ok = number != NULL && ASN1_INTEGER_set_int64(number, (int64_t)time(NULL)) == 1 &&
		X509_CRL_add1_ext_i2d(crl, NID_crl_number, number, 0, 0) == 1;

	ASN1_INTEGER_free(number);
	return ok;
}

static bool
crl_set_authority(X509_CRL *crl, X509 *ca)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	bool ok;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, ca, NULL, NULL, crl, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, NID_authority_key_identifier, "keyid");
	ok = ext != NULL && X509_CRL_add_ext(crl, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

/* Valid until the CA expires: a node that is offline for long must keep it. */
static bool
crl_set_times(X509_CRL *crl, const X509 *ca)
{
	ASN1_TIME *now = X509_gmtime_adj(NULL, 0);
	bool ok = now != NULL && X509_CRL_set1_lastUpdate(crl, now) == 1 &&
		X509_CRL_set1_nextUpdate(crl, X509_get0_notAfter(ca)) == 1;

	ASN1_TIME_free(now);
	return ok;
}

static char *
crl_write(X509_CRL *crl)
{
	auto_bio BIO *bio = BIO_new(BIO_s_mem());

	return bio != NULL && PEM_write_bio_X509_CRL(bio, crl) == 1 ? pki_bio_text(bio) : NULL;
}

int
pki_crl_new(const struct pki_crl *list, char **crl_pem, struct err *err)
{
	auto_x509 X509 *ca = pki_read_cert(list->ca_pem, "the CA's certificate", err);
	auto_key EVP_PKEY *key = NULL;
	auto_crl X509_CRL *crl = X509_CRL_new();
	bool ok;

	if (ca == NULL || (key = pki_read_key(list->ca_key_pem, "the CA's key", err)) == NULL)
		return -EINVAL;
	ok = crl != NULL && X509_CRL_set_version(crl, X509_CRL_VERSION_2) == 1 &&
		X509_CRL_set_issuer_name(crl, X509_get_subject_name(ca)) == 1 &&
		crl_set_times(crl, ca) && crl_set_number(crl) && crl_set_authority(crl, ca);
	for (size_t i = 0; ok && i < list->n; i++)
		ok = crl_add_serial(crl, list->serials[i]);
	if (!ok || X509_CRL_sort(crl) != 1 || X509_CRL_sign(crl, key, EVP_sha256()) == 0 ||
		(*crl_pem = crl_write(crl)) == NULL)
		return pki_fail(err, "cannot make the list of revoked certificates");
	return 0;
}

/* --- reading -------------------------------------------------------------------------------- */

static bool
crl_is_signed(X509_CRL *crl, const char *ca_pem)
{
	auto_bio BIO *bio = pki_bio(ca_pem, "the CA's certificate", NULL);
	bool found = false;

	while (bio != NULL && !found) {
		auto_x509 X509 *ca = PEM_read_bio_X509(bio, NULL, pki_no_pass_phrase, NULL);

		if (ca == NULL)
			break;
		found = X509_CRL_verify(crl, X509_get0_pubkey(ca)) == 1;
	}
	ERR_clear_error();
	return found;
}

static void
crl_tell_serial(const ASN1_INTEGER *number, pki_serial_fn *fn, void *arg)
{
	char serial[PKI_SERIAL_TEXT];

	pki_serial_text(number, serial);
	fn(arg, serial);
}

int
pki_crl_read(const char *crl_pem, const char *ca_pem, pki_serial_fn *fn, void *arg, struct err *err)
{
	auto_bio BIO *bio = pki_bio(crl_pem, "the list of revoked certificates", err);
	auto_crl X509_CRL *crl = NULL;
	struct stack_st_X509_REVOKED *entries;

	if (bio == NULL)
		return -EINVAL;
	crl = PEM_read_bio_X509_CRL(bio, NULL, pki_no_pass_phrase, NULL);
	if (crl == NULL)
		return pki_fail(err, "the list of revoked certificates");
	if (!crl_is_signed(crl, ca_pem))
		return err_set(err, EPERM,
			"the list of revoked certificates is not signed by a CA that we trust");
	entries = X509_CRL_get_REVOKED(crl);
	for (int i = 0; entries != NULL && i < MIN(sk_X509_REVOKED_num(entries), PKI_CRL_MAX); i++)
		crl_tell_serial(
			X509_REVOKED_get0_serialNumber(sk_X509_REVOKED_value(entries, i)), fn, arg);
	return 0;
}
