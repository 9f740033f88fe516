/*
 * TLS connections with contexts of base/tls/pki, for code that drives them (base/http/ws): who the
 * peer has proved to be, and why a handshake failed, in an operator's words. Shows no OpenSSL type.
 *
 * A client must call pki_verify_step from the verify callback (int ok, X509_STORE_CTX *): it checks
 * the server's name. The connection must not be used before the step for the server's own
 * certificate has returned PKI_VERIFIED.
 */
#ifndef EDGEWAY_BASE_TLS_PKI_TLS_H
#define EDGEWAY_BASE_TLS_PKI_TLS_H

#include "base/tls/pki.h"

struct ssl_ctx_st;
struct ssl_st;
struct x509_store_ctx_st;

enum pki_step {
	PKI_REFUSED, /* stop the handshake; `why` is filled */
	PKI_GOING_ON, /* a certificate further up the chain is valid */
	PKI_VERIFIED, /* the server's own certificate is valid and names the host */
};

/* `host`: DNS name or numeric address that the certificate must name. */
enum pki_step pki_verify_step(
	struct x509_store_ctx_st *chain, bool ok, const char *host, char *why, size_t size);
/* Who a server may be: its certificate must have one of these names. Lists end with NULL. */
struct pki_names {
	const char *const *hosts; /* DNS names or addresses */
	const char *const *uris;
};
/* As pki_verify_step, for a server that may have one of several names; `why` also tells whose
 * certificate it is. */
enum pki_step pki_verify_names_step(struct x509_store_ctx_st *chain, bool ok,
	const struct pki_names *names, char *why, size_t size);
/* As pki_verify_step, for a client's chain: checks no name. */
enum pki_step pki_verify_client_step(
	struct x509_store_ctx_st *chain, bool ok, char *why, size_t size);
/* The same, for either side of a connection between hubs: checks that the certificate is a
 * hub's. */
enum pki_step pki_verify_hub_step(struct x509_store_ctx_st *chain, bool ok, char *why, size_t size);
/* The same for connections between nodes: checks that the certificate is no hub's. */
enum pki_step pki_verify_node_step(
	struct x509_store_ctx_st *chain, bool ok, char *why, size_t size);
/* Name of the verified peer certificate (heap), see pki_cert_info; "" when there is none, or when
 * it is a hub's, which authenticates no node. */
char *pki_peer_name(const struct ssl_st *ssl);
/* Its serial number, see pki_cert_serial; "" when there is none. */
void pki_peer_serial(const struct ssl_st *ssl, char serial[PKI_SERIAL_TEXT]);
/* The peer certificate as PEM (heap), NULL when there is none. */
char *pki_peer_pem(const struct ssl_st *ssl);
/* Its notAfter, seconds since 1970; 0 when there is none. */
int64_t pki_peer_not_after(const struct ssl_st *ssl);
/* Call it once for every client context: it records alerts for pki_peer_alert, and never sends an
 * address as SNI (RFC 6066 section 3). */
void pki_watch_client(struct ssl_ctx_st *ctx);
/* Client: describes the alert with which the server ended the connection; false when none came. */
bool pki_peer_alert(struct ssl_st *ssl, char *why, size_t size);
/* Was it the alert of a hub that has no time for a handshake now (doc/protocol.md)? */
bool pki_peer_busy(struct ssl_st *ssl);
/* Client, after a handshake that failed without an alert: bytes came, and were no TLS. */
bool pki_peer_no_tls(const struct ssl_st *ssl);

#endif
