/*
 * Sessions of TLS that a client resumes: a context that takes tickets, and a slot of the owner's
 * for each server, in which the newest one is kept. The owner of a slot uses it on one thread;
 * contexts are for several.
 *
 *	rc = tls_backend_ctx(ca_pem, &ctx, &err);
 *	tls_session_use(ssl, &slot);	// base/tls/tls_stream does, before the handshake
 *	tls_session_free(&slot);
 */
#ifndef EDGEWAY_BASE_TLS_TLS_SESSION_H
#define EDGEWAY_BASE_TLS_TLS_SESSION_H

#include "base/core/err.h"

struct ssl_ctx_st;
struct ssl_session_st;
struct ssl_st;

/* Client context that trusts the CAs of ca_pem (NULL: the system's). */
int tls_backend_ctx(const char *ca_pem, struct ssl_ctx_st **ctx, struct err *err);
/* Resumes the slot's session, unless it is too old, and puts newer ones there; the slot outlives
 * the connection. */
void tls_session_use(struct ssl_st *ssl, struct ssl_session_st **slot);
void tls_session_free(struct ssl_session_st **slot);

#endif
