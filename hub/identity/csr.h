/*
 * A CertificateSigningRequest of Kubernetes (certificates.k8s.io/v1) for one of the hub's signers:
 * what it says, and the bodies that make one and write its status. The signers' rules: the
 * request's common name is the node's name and nothing else of it counts, "client auth" is among
 * the usages, which name no other use than a client's needs. edgeway.io/agent gives a name that is
 * free; edgeway.io/agent-replacement one that holds a certificate of another key, too: a right of
 * its own (the verb approve), so that who approves the first kind, a person in bulk or a program,
 * gives nobody's name away. Leaf.
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
	CSR_PENDING, /* nobody has decided */
	CSR_APPROVED, /* to be signed */
	CSR_ISSUED,
	CSR_DENIED,
	CSR_FAILED, /* the signer does not sign it */
};

struct csr { /* texts are owned, and "" when there is none, if nothing else is said */
	char name[CSR_NAME_MAX + 1], version[FOLLOW_VERSION_MAX + 1];
	char *request; /* PEM */
	char *node;
	char key[PKI_HASH_TEXT]; /* pki_csr_info */
	enum csr_state state;
	char *cert; /* PEM, of an issued one */
	char *why; /* that it was denied or failed */
	char *address; /* of the node that asked the hub */
	bool ours; /* a hub made it for a node */
	bool replaces; /* it is for CSR_SIGNER_REPLACEMENT */
	char *warning; /* of one that is made: what the operator should know; NULL: nothing */
	char *wrong; /* why it must not be signed; NULL: it may */
};

/* False when the object has no name or version. */
bool csr_read(struct csr *csr, const struct tree_node *object);
void csr_fini(struct csr *csr);
const char *csr_state_text(enum csr_state state);

/* edgeway-<node>-<16 digits of the key's hash>, and -replacement: the same for whoever asks with
 * this key. */
void csr_name(char name[CSR_NAME_MAX + 1], const char *node, const char *key, bool replaces);
/* The new object, of name, node, address, request, replaces and warning. */
void csr_build(struct buf *out, const struct csr *csr);
/* Merge patch of its status, for the version that was read: the server says 409 when it is another
 * by now. */
void csr_build_issued(struct buf *out, const struct csr *csr, const char *cert_pem);
/* JSON patch (RFC 6902) that adds the condition Failed with csr->wrong. */
void csr_build_failed(struct buf *out, const struct csr *csr);
/* Merge patch as of csr_build_issued, of one that nobody has decided: it failed since others needed
 * its place. */
void csr_build_given_up(struct buf *out, const struct csr *csr);

#endif
