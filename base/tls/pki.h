/*
 * Keys, certificates and TLS contexts (OpenSSL). ECDSA P-256 everywhere, PEM in files and on the
 * wire. Functions that make things return PEM as heap strings.
 */
#ifndef EDGEWAY_BASE_TLS_PKI_H
#define EDGEWAY_BASE_TLS_PKI_H

#include "base/core/err.h"

struct ssl_ctx_st;
enum {
	PKI_HASH_TEXT = 65, /* sha256 in hex and NUL */
	PKI_SHA1_BYTES = 20,
	PKI_SERIAL_TEXT = 41, /* 20 bytes at most (RFC 5280 section 4.1.2.2) in hex and NUL */
};

int pki_key_new(char **key_pem, struct err *err);
/* Self-signed CA, good for `days`, and from a day ago: clocks differ. */
int pki_ca_new(
	const char *common_name, unsigned days, char **cert_pem, char **key_pem, struct err *err);
int pki_csr_new(const char *key_pem, const char *common_name, char **csr_pem, struct err *err);

/* What a request says, once its signature is right: its common name (heap) and the sha256 in hex of
 * its public key (DER of SubjectPublicKeyInfo). */
int pki_csr_info(
	const char *csr_pem, char **common_name, char key_hash[PKI_HASH_TEXT], struct err *err);

/* The request alone, encoded anew as one block of PEM (heap). Refuses keys that not every reader
 * knows: P-256, P-384, P-521, Ed25519 and RSA from 2048 bits on are taken. */
int pki_csr_plain(const char *csr_pem, char **plain_pem, struct err *err);

/* The URI in subjectAltName that tells a hub's certificate from those of nodes and of other
 * servers: with it, and good for both sides of a connection, the certificate speaks for a replica
 * of the hub, and for no node. */
#define PKI_HUB_MARK "edgeway:hub"

struct pki_issue {
	const char *ca_cert_pem, *ca_key_pem;
	const char *common_name;
	const char *const *
		/* DNS names and IP addresses for subjectAltName, NULL-terminated; may be NULL */
		names;
	bool server, client; /* extended key usage */
	bool hub; /* with PKI_HUB_MARK; no certificate of a node may ever have it */
	unsigned days;
	uint64_t life_s; /* in place of days; good from a tenth of it ago, a day at most */
};
/* Signs the CSR's public key under issue's name (never the CSR's own); checks the CSR's
 * signature. */
int pki_sign(const struct pki_issue *issue, const char *csr_pem, char **cert_pem, struct err *err);
/* Signs a key's public half. */
int pki_sign_key(
	const struct pki_issue *issue, const char *key_pem, char **cert_pem, struct err *err);

/* sha256 of the certificate's DER in lower-case hex. */
int pki_cert_hash(const char *cert_pem, char hash[PKI_HASH_TEXT], struct err *err);
/* Facts of a certificate for state dumps and renewal: its name (heap), seconds since 1970; each may
 * be NULL. The name is the common name. X.509 allows 64 bytes there: a longer name has its first 64
 * in the common name and the whole as a DNS name of subjectAltName, where it is read back from. */
int pki_cert_info(const char *cert_pem, char **common_name, int64_t *not_before, int64_t *not_after,
	struct err *err);
/* The serial number in lower-case hex: no two of our certificates share one. */
int pki_cert_serial(const char *cert_pem, char serial[PKI_SERIAL_TEXT], struct err *err);
/* The sha256 in hex of its public key, as pki_csr_info has it. */
int pki_cert_key(const char *cert_pem, char key_hash[PKI_HASH_TEXT], struct err *err);
/* Does it speak for a hub? */
bool pki_cert_is_hub(const char *cert_pem);
/* Did the CA sign it for the key of this hash (pki_csr_info), and is it good at now_s, seconds
 * since 1970? */
bool pki_cert_fits(const char *cert_pem, const char *ca_pem, const char *key_hash, int64_t now_s);
/* Is one of the certificates in the text the one with this hash? */
/* The SHA-256 of each certificate of the bundle, in its order. */
void pki_bundle_each(const char *pem, void (*each)(void *arg, const char *hash), void *arg);
/* The SHA-256 of the one of them that has signed the certificate; false: none. */
bool pki_bundle_signer(const char *pem, const char *cert_pem, char hash[PKI_HASH_TEXT]);
bool pki_bundle_holds(const char *pem, const char *hash);
/* Does the key belong to the certificate? 0 or -EINVAL. */
int pki_pair_check(const char *cert_pem, const char *key_pem, struct err *err);
enum { PKI_SHA256_BYTES = 32 };
void pki_sha256(const void *data, size_t len, uint8_t hash[PKI_SHA256_BYTES]);
void pki_sha256_hex(const void *data, size_t len, char hash[PKI_HASH_TEXT]);
/* Where a protocol asks for it and nothing depends on it. */
void pki_sha1(const void *data, size_t len, uint8_t hash[PKI_SHA1_BYTES]);
/* Constant-time comparison of two texts. */
bool pki_equal(const char *a, const char *b);

/* TLS 1.2+ server context: sends cert and CA; asks for a client certificate signed by the CA,
 * accepts none (join). */
int pki_server_ctx(const char *cert_pem, const char *key_pem, const char *ca_pem,
	struct ssl_ctx_st **ctx, struct err *err);
/* Server context of a listener for others than nodes. client_ca_pem NULL: no certificate is asked
 * for. */
int pki_listener_ctx(const char *cert_pem, const char *key_pem, const char *client_ca_pem,
	struct ssl_ctx_st **ctx, struct err *err);
/* Client context that trusts only ca_pem (NULL: for connections whose server need not prove
 * itself); cert/key NULL: none. */
int pki_client_ctx(const char *ca_pem, const char *cert_pem, const char *key_pem,
	struct ssl_ctx_st **ctx, struct err *err);
/* Client context for joining: trusts exactly the CA in the server's chain whose hash is ca_hash.
 * The CA's PEM is put in *ca_pem (heap, owner frees) once the handshake succeeded. */
int pki_join_ctx(const char *ca_hash, char **ca_pem, struct ssl_ctx_st **ctx, struct err *err);
/* Client context for a connection that only carries `inner`, a client context, and whose other end
 * may be something in front of the server: it may prove itself to CAs of ca_pem (NULL: the
 * system's), and to whom `inner` trusts. Shows no certificate. */
int pki_carrier_ctx(
	struct ssl_ctx_st *inner, const char *ca_pem, struct ssl_ctx_st **ctx, struct err *err);
/* Client context for servers of others: trusts the CAs of ca_pem, NULL: the system's. Shows no
 * certificate. */
int pki_web_ctx(const char *ca_pem, struct ssl_ctx_st **ctx, struct err *err);
/* A client context: on a clock that says less than `floor_s` (seconds since 1970; a machine without
 * a battery starts in 1970) certificates are checked as of floor_s, or of the start of the peer's
 * own certificate if that is later. In force until the context's last connection ends; may be
 * called again. */
void pki_ctx_floor(struct ssl_ctx_st *ctx, int64_t floor_s);
/* A client context: refuses servers whose certificates have one of these serial numbers
 * (pki_cert_serial, parted by commas), whoever has signed them; in place of those of the last call,
 * for handshakes to come. */
void pki_ctx_refuse(struct ssl_ctx_st *ctx, const char *serials);
/* Lets go of the context; connections keep it until they end. */
void pki_ctx_free(struct ssl_ctx_st **ctx);
/* One more owner; pki_ctx_free lets go. A joining context's ca_pem must outlive the last. */
void pki_ctx_ref(struct ssl_ctx_st *ctx);
/* Gives a server context that a library made the certificate, trust and settings of ours. 0 or
 * -EINVAL. */
int pki_ctx_copy(struct ssl_ctx_st *to, struct ssl_ctx_st *from);

#endif
