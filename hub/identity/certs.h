/*
 * The certificates of the hub: its CA, its own certificate under that CA, and those it signs for
 * nodes. All files are under dataDir: ca.pem, ca.key, hub.pem, hub.key (keys 0600), hub.names (the
 * names hub.pem was made for) and the files of hub/identity/ledger.h. With tls.ca and tls.caKey the
 * CA is the operator's; with tls.cert and tls.key so is the hub's certificate, which must be signed
 * by tls.ca, since nodes trust nothing else.
 *
 * The hub's certificate names tls.names, the names given to certs_use_names, the host's name,
 * localhost, 127.0.0.1, the listen address and the addresses of the host's interfaces.
 * certs_renew_due returns true when these have changed or two thirds of the lifetime are over. File
 * I/O blocks, on the hub's loop, but is rare.
 *
 *	certs_open(&c, &config, &err);
 *	certs_server_ctx(c, now_s, &ctx, &err);
 *	certs_issue(c, "edge-1", csr_pem, &cert_pem, &err);
 */
#ifndef EDGEWAY_HUB_IDENTITY_CERTS_H
#define EDGEWAY_HUB_IDENTITY_CERTS_H

#include <netinet/in.h>

#include "base/http/http1.h"
#include "hub/identity/ledger.h"
#include "hub/kube/names.h"

struct ssl_ctx_st;
struct certs;

enum { CERTS_NODE_LIFE_S = 365 * 86400 };

struct certs_config {
	const char *data_dir; /* exists */
	const char *cert, *key, *ca, *ca_key; /* files, "" for our own */
	const char *const *names; /* ended by NULL; may be NULL */
	/* trust domain of the nodes' SPIFFE IDs; "" or NULL: they have none */
	const char *cluster_domain;
	const char *listen; /* host part of the listen address, "" when it is any */
	uint64_t node_life_s; /* lifetime of nodes' certificates; 0: CERTS_NODE_LIFE_S */
	bool ca_force; /* tls.caForce: another CA is used even if it cuts off nodes */
	/* with other replicas: certs_accept_ca follows once their lists have been read */
	bool shared;
};

/* Makes or loads the CA. */
int certs_open(struct certs **c, const struct certs_config *config, struct err *err);
void certs_close(struct certs **c);

/* Our own CA under data_dir, before certs_open: creates, writes, reads it (-ENOENT: there is
 * none). */
int certs_ca_new(char **ca_pem, char **ca_key, struct err *err);
int certs_ca_save(const char *data_dir, const char *ca_pem, const char *ca_key, struct err *err);
int certs_ca_load(const char *data_dir, char **ca_pem, char **ca_key, struct err *err);
/* From now on the CA that was opened is in use. */
void certs_accept_ca(struct certs *c);
/* Replaces our own CA; the hub's certificate is then due for renewal. */
int certs_use_ca(struct certs *c, const char *ca_pem, const char *ca_key, struct err *err);

/* Returns how many nodes these CAs would cut off (model/ca_list.h), as far as is known now; adds
 * their names to *names. Returns 0 for the CAs in use and for those of the last start: what nodes
 * report about their CAs must not keep a hub from starting. */
size_t certs_cut_off(const struct certs *c, const char *ca_pem, int64_t now_s, struct buf *names);
struct certs_holders {
	/* have: nodes with the CAs in use and a certificate of the first; lack: the others */
	size_t have, lack;
};
/* lacking: {"node":..,"cas":..} of each node that lacks them, at most `most`, separated by commas;
 * may be NULL. */
struct certs_holders certs_ca_holders(
	const struct certs *c, int64_t now_s, size_t most, struct buf *lacking);
/* As ledger_note_cas. -EINVAL: the list does not begin with the CA that signed the certificate, so
 * it is ignored. */
int certs_note_cas(struct certs *c, const char *node, const char *cert_pem, const char *cas);
/* The CAs in use (model/ca_list.h). */
const char *certs_ca_list(const struct certs *c);
const char *certs_ca_pem(const struct certs *c);
const char *certs_ca_hash(const struct certs *c); /* sha256 of the DER, hex */
/* The addresses that this hub announces to nodes: those among tls.names and the one it listens on.
 * At most n, valid as long as the certificates; returns how many. */
size_t certs_addresses(const struct certs *c, const char **to, size_t n);
bool certs_can_sign(const struct certs *c); /* false with tls.ca and no tls.caKey */

/* A server context with the hub's certificate, which is first made if it is missing or due. */
int certs_server_ctx(struct certs *c, int64_t now_s, struct ssl_ctx_st **ctx, struct err *err);
/* The same for connecting to other replicas, with the certificate that certs_server_ctx made or
 * found. */
int certs_client_ctx(struct certs *c, struct ssl_ctx_st **ctx, struct err *err);
/* Checks whether other replicas would accept the hub's certificate. Ours: always; the operator's
 * must be marked as a hub's. */
int certs_check_peers(const struct certs *c, struct err *err);
/* Additional names for it, replacing those of the last call; copied. */
void certs_use_names(struct certs *c, const struct names *names);
/* Returns true if this Host is a name of the hub: in tls.names, certs_use_names or its
 * certificate. */
bool certs_known_as(const struct certs *c, struct http1_str host);
/* Returns true if tls.names or the last certs_use_names contains this address. */
bool certs_named(const struct certs *c, const struct in6_addr *ip);
struct certs_term {
	int64_t from_s, to_s; /* since 1970; 0: unknown */
	char serial[PKI_SERIAL_TEXT]; /* "" unknown */
	bool own; /* made by us, not the operator's */
};
/* The terms of the CA that signs, and of the hub's certificate in use. */
void certs_terms(const struct certs *c, struct certs_term *ca, struct certs_term *hub);
/* The lifetime of the node certificates that are signed now. */
uint64_t certs_node_life_s(const struct certs *c);
/* Returns true if the certificate in use should be renewed. Always false for the operator's. */
bool certs_renew_due(const struct certs *c, int64_t now_s);

/* Returns true if the name's last certificate was signed for this key and is valid. See
 * ledger_given. */
bool certs_given(
	const struct certs *c, const char *node, const char *key_hash, int64_t now_s, char **cert);
/* Returns true if the name holds a certificate of ours. */
bool certs_taken(const struct certs *c, const char *node);
/* Returns true if all replicas share what certs_taken says, so that certs_taken alone decides. */
bool certs_shared(const struct certs *c);
/* Counts the changes that may have affected certs_taken, for any name. */
uint64_t certs_changes(const struct certs *c);
/* The names that hold one, sorted; the caller frees each and the list. */
size_t certs_nodes(const struct certs *c, char ***names);
/* Signs the request's key for `node`, whose name must be valid (hub/port/route.h). Nobody must get
 * the certificate before ledger_record. */
int certs_issue(
	struct certs *c, const char *node, const char *csr_pem, char **cert_pem, struct err *err);
struct ledger *certs_ledger(const struct certs *c);
bool certs_refuses(const struct certs *c, const char *node, const char *serial);
/* Data of the node's last certificate; false if there is none that can be read. */
bool certs_node_info(const struct certs *c, const char *node, char serial[PKI_SERIAL_TEXT],
	int64_t *not_after_s);
/* Returns true if the node's last certificate is refused. Reads the certificate only for nodes with
 * a revocation. */
bool certs_node_revoked(const struct certs *c, const char *node);
size_t certs_revoked_count(const struct certs *c);
/* Refuses the hub's certificate with this serial number, and has all nodes refuse it; if it is in
 * use here, it is due for renewal. -EBUSY: it is the operator's, and in use; -ENOTSUP: this hub
 * cannot sign the list for nodes; other errors as revoked_add_hub. */
int certs_revoke_hub(struct certs *c, const char *serial, int64_t now_s, struct err *err);
bool certs_refuses_hub(const struct certs *c, const char *serial);
/* The list of revoked hub certificates for nodes (base/tls/pki_crl.h), "" if there are none; valid
 * until the next call. */
const char *certs_crl(struct certs *c);
/* As revoked_write. */
void certs_revoked_write(const struct certs *c, struct buf *out);

#endif
