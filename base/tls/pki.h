/*
 * Keys, certificates and TLS contexts (OpenSSL). ECDSA P-256 for our own keys, PEM in files and
 * messages. Functions that create keys or certificates return PEM as heap strings.
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
/* Self-signed CA, valid for `days`, starting a day ago: clocks differ. */
int pki_ca_new(
	const char *common_name, unsigned days, char **cert_pem, char **key_pem, struct err *err);
int pki_csr_new(const char *key_pem, const char *common_name, char **csr_pem, struct err *err);

/* The contents of a certificate request whose signature is valid: its common name (heap) and the
 * sha256 in hex of its public key (DER of SubjectPublicKeyInfo). Refuses keys of other kinds than
 * P-256, P-384, P-521, Ed25519 and RSA of 2048 to 4096 bits. */
int pki_csr_info(
	const char *csr_pem, char **common_name, char key_hash[PKI_HASH_TEXT], struct err *err);

/* The request alone, re-encoded as one block of PEM (heap). */
int pki_csr_plain(const char *csr_pem, char **plain_pem, struct err *err);

/* The URI in subjectAltName that distinguishes a hub's certificate from those of nodes and other
 * servers. A certificate that has it, and is valid for both sides of a connection, authenticates a
 * replica of the hub, and never a node. */
#define PKI_HUB_MARK "edgeway:hub"

struct pki_issue {
	const char *ca_cert_pem, *ca_key_pem;
	const char *common_name;
	const char *const *
		/* DNS names and IP addresses for subjectAltName, NULL-terminated; may be NULL */
		names;
	/* an identity for other programs, in subjectAltName (spiffe://...); NULL: none. Nothing of
	 * ours reads it. */
	const char *uri;
	bool server, client; /* extended key usage */
	bool hub; /* with PKI_HUB_MARK; no certificate of a node may ever have it */
	unsigned days;
	/* replaces `days` when set; notBefore is a tenth of it in the past, at most a day */
	uint64_t life_s;
};
/* Signs the CSR's public key under issue's name (never the CSR's own); checks the CSR's
 * signature. */
int pki_sign(const struct pki_issue *issue, const char *csr_pem, char **cert_pem, struct err *err);
/* Signs a key's public half. */
int pki_sign_key(
	const struct pki_issue *issue, const char *key_pem, char **cert_pem, struct err *err);

/* sha256 of the certificate's DER in lower-case hex. */
int pki_cert_hash(const char *cert_pem, char hash[PKI_HASH_TEXT], struct err *err);
/* A certificate's name (heap) and validity (seconds since 1970) for state dumps and renewal; each
 * may be NULL. The name is the common name. X.509 allows 64 bytes there: of a longer name the
 * common name has the first 64 bytes, and a DNS name of subjectAltName has the whole, which is read
 * back. */
int pki_cert_info(const char *cert_pem, char **common_name, int64_t *not_before, int64_t *not_after,
	struct err *err);
/* The serial number in lower-case hex: no two of our certificates share one. */
int pki_cert_serial(const char *cert_pem, char serial[PKI_SERIAL_TEXT], struct err *err);
/* The sha256 in hex of its public key, as in pki_csr_info. */
int pki_cert_key(const char *cert_pem, char key_hash[PKI_HASH_TEXT], struct err *err);
/* Does it authenticate a hub? */
bool pki_cert_is_hub(const char *cert_pem);
/* Did the CA sign it for the key with this hash (pki_csr_info), and is it valid at now_s, seconds
 * since 1970? */
bool pki_cert_fits(const char *cert_pem, const char *ca_pem, const char *key_hash, int64_t now_s);
/* pki_bundle_holds: does the text contain a certificate with this hash? */
/* pki_bundle_each: calls `each` with the SHA-256 of each certificate of the bundle, in its
 * order. */
void pki_bundle_each(const char *pem, void (*each)(void *arg, const char *hash), void *arg);
/* pki_bundle_signer: the SHA-256 of the bundle's certificate that signed cert_pem; false: none
 * did. */
bool pki_bundle_signer(const char *pem, const char *cert_pem, char hash[PKI_HASH_TEXT]);
bool pki_bundle_holds(const char *pem, const char *hash);
/* Does the key belong to the certificate? 0 or -EINVAL. */
int pki_pair_check(const char *cert_pem, const char *key_pem, struct err *err);
enum { PKI_SHA256_BYTES = 32 };
void pki_sha256(const void *data, size_t len, uint8_t hash[PKI_SHA256_BYTES]);
void pki_sha256_hex(const void *data, size_t len, char hash[PKI_HASH_TEXT]);
/* Does the text begin with the hash of no bytes at all, in either case? */
bool pki_is_hash_of_nothing(const char *text);
/* Only where a protocol requires SHA-1 and no security depends on it. */
void pki_sha1(const void *data, size_t len, uint8_t hash[PKI_SHA1_BYTES]);
/* Constant-time comparison of two texts. */
bool pki_equal(const char *a, const char *b);

/* TLS 1.2+ server context: sends cert and CA; requests a client certificate signed by the CA, but
 * accepts a client without one (join). */
int pki_server_ctx(const char *cert_pem, const char *key_pem, const char *ca_pem,
	struct ssl_ctx_st **ctx, struct err *err);
/* Server context of a listener for clients that are not nodes. client_ca_pem NULL: requests no
 * client certificate. */
int pki_listener_ctx(const char *cert_pem, const char *key_pem, const char *client_ca_pem,
	struct ssl_ctx_st **ctx, struct err *err);
/* Client context that trusts only ca_pem (NULL: for connections whose server need not
 * authenticate); cert/key NULL: none. */
int pki_client_ctx(const char *ca_pem, const char *cert_pem, const char *key_pem,
	struct ssl_ctx_st **ctx, struct err *err);
/* Contexts for connections between nodes, TLS 1.3 alone: either side shows its node's certificate,
 * and accepts any certificate of the CA that is valid for a client, as nodes' are. */
int pki_node_ctx(bool server, const char *ca_pem, const char *cert_pem, const char *key_pem,
	struct ssl_ctx_st **ctx, struct err *err);
/* Client context for joining: trusts exactly the CA in the server's chain whose hash is ca_hash.
 * The CA's PEM is put in *ca_pem (heap, owner frees) once the handshake succeeded. */
int pki_join_ctx(const char *ca_hash, char **ca_pem, struct ssl_ctx_st **ctx, struct err *err);
/* Client context for the outer connection of a tunnel. `inner` is the client context used inside
 * it. The outer server may be a middlebox: it may authenticate with the CAs of ca_pem (NULL: the
 * system's), or with those that `inner` trusts. Sends no client certificate. */
int pki_carrier_ctx(
	struct ssl_ctx_st *inner, const char *ca_pem, struct ssl_ctx_st **ctx, struct err *err);
/* Client context for third-party servers: trusts the CAs of ca_pem, NULL: the system's. Sends no
 * client certificate. */
int pki_web_ctx(const char *ca_pem, struct ssl_ctx_st **ctx, struct err *err);
/* The same with session tickets: for base/tls/tls_session, which keeps them. */
int pki_backend_ctx(const char *ca_pem, struct ssl_ctx_st **ctx, struct err *err);
/* For a client's or a node's context: while the clock is before `floor_s` (seconds since 1970; a
 * machine without a clock battery starts in 1970), certificates are checked as of floor_s, or of
 * the start of the peer's own certificate if that is later. Applies until the context's last
 * connection ends; may be called again. */
void pki_ctx_floor(struct ssl_ctx_st *ctx, int64_t floor_s);
/* For a client context: refuses servers whose certificates have one of these serial numbers
 * (pki_cert_serial, separated by commas), whichever CA signed them. Replaces the list of the last
 * call, for future handshakes. */
void pki_ctx_refuse(struct ssl_ctx_st *ctx, const char *serials);
/* Drops a reference to the context; connections keep it until they end. */
void pki_ctx_free(struct ssl_ctx_st **ctx);
/* Adds a reference, for pki_ctx_free to drop. A joining context's ca_pem must outlive the last
 * one. */
void pki_ctx_ref(struct ssl_ctx_st *ctx);
/* Copies certificate, trust and settings of our server context `from` to `to`, which a library
 * made. 0 or -EINVAL. */
int pki_ctx_copy(struct ssl_ctx_st *to, struct ssl_ctx_st *from);

#endif
