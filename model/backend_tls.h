/*
 * How TLS is spoken towards the endpoints of a service's port, as a BackendTLSPolicy of the Gateway
 * API says. Part of the service's view (doc/protocol.md, "TLS towards the endpoints"). Immutable,
 * atomically reference-counted, any thread. The client context is made by the first connection and
 * then shared by all.
 *
 *	ctx = backend_tls_ctx(tls, &err);	// NULL: err says why nobody may be called
 */
#ifndef EDGEWAY_MODEL_BACKEND_TLS_H
#define EDGEWAY_MODEL_BACKEND_TLS_H

#include <stdatomic.h>

#include "base/core/buf.h"
#include "base/core/err.h"
#include "base/tls/pki_tls.h"
#include "model/limits.h"

struct json;
struct ssl_ctx_st;

struct backend_tls {
	_Atomic unsigned refs;
	uint64_t digest; /* of all that follows; after backend_tls_seal */
	char *policy; /* namespace/name */
	char *host; /* SNI, and what the certificate must be made for if both lists are empty */
	char *ca; /* PEM, "": the system's */
	char *wrong; /* why no connection may be made; "": it may */
	/* what the certificate must be made for, one of them; at most BACKEND_TLS_NAMES_MAX each,
	 * ended by NULL */
	char **hosts, **uris;
	struct pki_names names; /* the same lists; after backend_tls_seal */
	_Atomic(struct ssl_ctx_st *) ctx;
};

/* Empty, with one reference; its texts are the owner's to set. */
struct backend_tls *backend_tls_new(void);
/* It is complete. An empty list of names becomes that of its host. */
void backend_tls_seal(struct backend_tls *t);
struct backend_tls *backend_tls_ref(struct backend_tls *t); /* t may be NULL */
/* A new list of the same; NULL if n is 0. */
struct backend_tls **backend_tls_list_ref(struct backend_tls *const *list, size_t n);
void backend_tls_unref(struct backend_tls **t);
/* Borrowed; NULL, with the reason, if no connection may be made. */
struct ssl_ctx_st *backend_tls_ctx(struct backend_tls *t, struct err *err);
/* Adds a text to a list of names. */
void backend_tls_add(char ***list, const char *name);

/* As a member of a view, in its canonical form. */
void backend_tls_build(struct buf *out, const struct backend_tls *t);
/* Sealed; NULL after an error. */
struct backend_tls *backend_tls_parse(struct json *j);

#endif
