/*
 * TLS 1.3 session tickets between nodes and hubs (RFC 8446 section 4.6.1), so that the return of
 * thousands of nodes costs the hub no signatures. A ticket is stateless: its keys come from a
 * secret that all replicas have, and another one every TICKET_PERIOD_S, so that any replica, and a
 * hub that was restarted, resumes. What a handshake would check is checked again: tickets without
 * a client's certificate, with one that has expired or is a hub's, or whose last full handshake
 * was TICKET_FULL_S ago, are ignored, and the handshake is a full one. Revocation is the owner's to
 * check, as after any handshake: the certificate is there. No early data.
 *
 *	pki_tickets_serve(ctx, secret);			// hub; SSLs then opt in (pki_tickets_allow)
 *	pki_tickets_keep(ctx);				// agent: the newest ticket, in memory
 */
#ifndef EDGEWAY_BASE_TLS_PKI_TICKETS_H
#define EDGEWAY_BASE_TLS_PKI_TICKETS_H

#include <stdbool.h>
#include <stdint.h>

struct ssl_ctx_st;
struct ssl_st;

enum {
	PKI_TICKET_SECRET = 32,
	TICKET_PERIOD_S = 6 * 3600, /* of a key; the one before it still opens tickets */
	TICKET_FULL_S = 24 * 3600,
};

/* The secret for hubs with these CAs and this private key, both PEM, and these names as text: a hub
 * with others opens no such ticket, since resumption does not show the certificate. */
void pki_tickets_secret(const char *ca_pem, const char *key_pem, const char *names,
	uint8_t secret[PKI_TICKET_SECRET]);
/* Server contexts. The context can then open and make tickets, and its connections do not. */
void pki_tickets_serve(struct ssl_ctx_st *ctx, const uint8_t secret[PKI_TICKET_SECRET]);
/* The same for `to`, with the secret of `from`, if that has one; all connections take and get
 * tickets. */
void pki_tickets_copy(struct ssl_ctx_st *to, const struct ssl_ctx_st *from);
/* Server: this connection takes and gets tickets, before its handshake. */
void pki_tickets_allow(struct ssl_st *ssl);

/* Client context of one thread: keeps the newest ticket and offers it to every server. For servers
 * that are as good as each other, since resumption shows no certificate: a node's hubs. */
void pki_tickets_keep(struct ssl_ctx_st *ctx);
/* Forgets it: what is trusted has changed. */
void pki_tickets_forget(struct ssl_ctx_st *ctx);
/* Client: puts the ticket into the connection; at the start of its handshake. Not while any hub's
 * certificate counts as revoked: then each hub has to show its own. */
void pki_tickets_offer(struct ssl_st *ssl);
bool pki_resumed(const struct ssl_st *ssl);

#endif
