/*
 * A CertificateSigningRequest of Kubernetes (certificates.k8s.io/v1) for one of the hub's signers:
 * reads its content, and builds the bodies that create one and write its status. The signers'
 * rules: the request's common name is the node's name, and nothing else in the request counts; the
 * usages contain "client auth" and none that a client does not need. edgeway.io/agent gives a free
 * name; edgeway.io/agent-replacement also gives a name that holds a certificate of another key. The
 * second is a right of its own (the verb approve), so that whoever approves the first kind, a
 * person in bulk or a program, cannot give away another node's name. Leaf.
 *
 *	struct csr csr;
 *	csr_read(&csr, object);
 *	if (csr.state == CSR_APPROVED && csr.wrong == NULL) ...sign csr.request...
 *	csr_fini(&csr);
 */
#ifndef EDGEWAY_HUB_IDENTITY_CSR_H
#define EDGEWAY_HUB_IDENTITY_CSR_H

#include "base/conf/tree.h"
#include "base/core/buf.h"
#include "base/core/err.h"
#include "base/tls/pki.h"
#include "hub/kube/follow.h"

#define CSR_SIGNER "edgeway.io/agent"
#define CSR_SIGNER_REPLACEMENT "edgeway.io/agent-replacement"
#define CSR_PATH "/apis/certificates.k8s.io/v1/certificatesigningrequests"

enum { CSR_NAME_MAX = 253 };

enum csr_state {
	CSR_PENDING, /* no decision yet */
	CSR_APPROVED, /* to be signed */
	CSR_ISSUED,
	CSR_DENIED,
	CSR_FAILED, /* the signer refuses to sign it */
};

struct csr { /* texts are owned, and "" when absent, unless stated otherwise */
	char name[CSR_NAME_MAX + 1], version[FOLLOW_VERSION_MAX + 1];
	char *request; /* PEM */
	char *node;
	char key[PKI_HASH_TEXT]; /* pki_csr_info */
	enum csr_state state;
	char *cert; /* PEM, of an issued one */
	char *why; /* why it was denied or failed */
	char *address; /* of the node that asked the hub */
	bool ours; /* a hub created it for a node */
	bool replaces; /* it is for CSR_SIGNER_REPLACEMENT */
	char *warning; /* of a request to create: what the operator should know; NULL: nothing */
	char *wrong; /* why it must not be signed; NULL: it may */
};

/* False when the object has no name or version. */
bool csr_read(struct csr *csr, const struct tree_node *object);
void csr_fini(struct csr *csr);
const char *csr_state_text(enum csr_state state);

/* edgeway-<node>-<16 digits of the key's hash>, and -replacement: always the same for this key. */
void csr_name(char name[CSR_NAME_MAX + 1], const char *node, const char *key, bool replaces);
/* The body that creates the object, from name, node, address, request, replaces and warning. */
void csr_build(struct buf *out, const struct csr *csr);
/* Merge patch of its status, for the version that was read: if the version has changed, the server
 * answers 409. */
void csr_build_issued(struct buf *out, const struct csr *csr, const char *cert_pem);
/* JSON patch (RFC 6902) that adds the condition Failed with csr->wrong. */
void csr_build_failed(struct buf *out, const struct csr *csr);
/* Merge patch like csr_build_issued's, for an undecided request: it failed because others needed
 * its place. */
void csr_build_given_up(struct buf *out, const struct csr *csr);

#endif
