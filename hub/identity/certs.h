/*
 * The certificates of the hub: its CA, its own certificate under that CA, and those that it signs
 * for nodes. Everything lives under dataDir: ca.pem, ca.key, hub.pem, hub.key (keys 0600),
 * hub.names (what hub.pem was made for) and what hub/identity/ledger.h keeps. With tls.ca and
 * tls.caKey the CA is the operator's; with tls.cert and tls.key so is the hub's certificate, which
 * must be of tls.ca, since nodes trust nothing else.
 *
 * The hub's certificate names tls.names, what certs_use_names says, the host's name, localhost,
 * 127.0.0.1, the listen address and the addresses of the host's interfaces; certs_renew_due says
 * when that has changed or two thirds of the life are over. Blocking file I/O, on the hub's loop,
 * rare.
 *
 *	certs_open(&c, &config, &err);
 *	certs_server_ctx(c, now_s, &ctx, &err);
 *	certs_sign(c, "edge-1", csr_pem, &cert_pem, &err);
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
	const char *listen; /* host part of the listen address, "" when it is any */
	uint64_t node_life_s; /* of nodes' certificates; 0: CERTS_NODE_LIFE_S */
	bool ca_force; /* tls.caForce: whatever nodes another CA cuts off */
	bool shared; /* with other replicas: certs_accept_ca comes when their lists are there */
};

/* Makes or loads the CA. */
int certs_open(struct certs **c, const struct certs_config *config, struct err *err);
void certs_close(struct certs **c);

/* Our own CA under data_dir before it is opened: made, written, read (-ENOENT: there is none). */
int certs_ca_new(char **ca_pem, char **ca_key, struct err *err);
int certs_ca_save(const char *data_dir, const char *ca_pem, const char *ca_key, struct err *err);
int certs_ca_load(const char *data_dir, char **ca_pem, char **ca_key, struct err *err);
/* The CA that was opened is in use from now on. */
void certs_accept_ca(struct certs *c);
/* Another CA in place of our own; the hub's certificate is due then. */
int certs_use_ca(struct certs *c, const char *ca_pem, const char *ca_key, struct err *err);

/* Whom these CAs would cut off (model/ca_list.h), by what is known now: how many nodes; their names
 * are added to *names. Nobody while they are those in use, or of the last start: what nodes say of
 * theirs keeps no hub from starting. */
size_t certs_cut_off(const struct certs *c, const char *ca_pem, int64_t now_s, struct buf *names);
struct certs_holders {
	size_t have, lack; /* nodes with the CAs in use, and a certificate of the first; without */
};
/* lacking: {"node":..,"cas":..} of each that lacks them, at most `most`, parted by commas; may be
 * NULL. */
struct certs_holders certs_ca_holders(
	const struct certs *c, int64_t now_s, size_t most, struct buf *lacking);
/* As ledger_note_cas. -EINVAL: the list does not begin with the CA that signed the certificate; it
 * counts for nothing. */
int certs_note_cas(struct certs *c, const char *node, const char *cert_pem, const char *cas);
/* The CAs in use (model/ca_list.h). */
const char *certs_ca_list(const struct certs *c);
const char *certs_ca_pem(const struct certs *c);
const char *certs_ca_hash(const struct certs *c); /* sha256 of the DER, hex */
/* Where nodes reach this hub by its own word: the addresses among tls.names and the one it listens
 * on. At most n of them, good as long as the certificates; how many. */
size_t certs_addresses(const struct certs *c, const char **to, size_t n);
bool certs_can_sign(const struct certs *c); /* false with tls.ca and no tls.caKey */

/* A server context with the hub's certificate, which is made first when it is missing or due. */
int certs_server_ctx(struct certs *c, int64_t now_s, struct ssl_ctx_st **ctx, struct err *err);
/* The same for dialling other replicas, with the certificate that certs_server_ctx has made or
 * found. */
int certs_client_ctx(struct certs *c, struct ssl_ctx_st **ctx, struct err *err);
/* Would other replicas take the hub's certificate? Ours always; the operator's must say that it is
 * a hub's. */
int certs_check_peers(const struct certs *c, struct err *err);
/* More names for it, in place of those of the last call; copied. */
void certs_use_names(struct certs *c, const struct names *names);
/* Is the hub known by this Host: tls.names, those of certs_use_names, those of its certificate? */
bool certs_known_as(const struct certs *c, struct http1_str host);
/* Is this one of the addresses in tls.names or of the last certs_use_names? */
bool certs_named(const struct certs *c, const struct in6_addr *ip);
struct certs_term {
	int64_t from_s, to_s; /* since 1970; 0: unknown */
	char serial[PKI_SERIAL_TEXT]; /* "" unknown */
	bool own; /* made by us, not the operator's */
};
/* Of the CA that signs, and of the hub's certificate in use. */
void certs_terms(const struct certs *c, struct certs_term *ca, struct certs_term *hub);
/* For how long nodes' certificates are signed. */
uint64_t certs_node_life_s(const struct certs *c);
/* Should the certificate in use be made anew? Always false when it is the operator's. */
bool certs_renew_due(const struct certs *c, int64_t now_s);

/* Was the name's last certificate signed for this key, and is it good? As ledger_given. */
bool certs_given(
	const struct certs *c, const char *node, const char *key_hash, int64_t now_s, char **cert);
/* Does the name hold a certificate of ours? */
bool certs_taken(const struct certs *c, const char *node);
/* Do all replicas share what certs_taken says, so that it alone decides? */
bool certs_shared(const struct certs *c);
/* How often that may have changed, for any name. */
uint64_t certs_changes(const struct certs *c);
/* The names that hold one, sorted; the caller frees each and the list. */
size_t certs_nodes(const struct certs *c, char ***names);
/* The two steps of certs_sign; between them nobody must get the certificate. The second is
 * ledger_record. */
int certs_issue(
	struct certs *c, const char *node, const char *csr_pem, char **cert_pem, struct err *err);
struct ledger *certs_ledger(const struct certs *c);
/* Signs the request's key for `node` and remembers it. The name must be valid
 * (hub/port/route.h). */
int certs_sign(
	struct certs *c, const char *node, const char *csr_pem, char **cert_pem, struct err *err);
/* Refuses whatever was signed for the node until now. -ENOENT: no node of this name is known. */
int certs_revoke(struct certs *c, const char *node, int64_t now_s, struct err *err);
/* The same, and the name is free: as ledger_forget. */
int certs_forget(struct certs *c, const char *node, int64_t now_s, struct err *err);
/* Tries to write what was revoked and could not be written; what is not, "" nothing. */
void certs_keep(struct certs *c, int64_t now_s);
const char *certs_problem(const struct certs *c);
bool certs_refuses(const struct certs *c, const char *node, const char *serial);
/* Was the node revoked, or forgotten, ever? */
bool certs_revoked(const struct certs *c, const char *node);
/* Of the node's last certificate; false when there is none that can be read. */
bool certs_node_info(const struct certs *c, const char *node, char serial[PKI_SERIAL_TEXT],
	int64_t *not_after_s);
/* Is the node's last certificate refused? It is read only of nodes of which anything was
 * revoked. */
bool certs_node_revoked(const struct certs *c, const char *node);
size_t certs_revoked_count(const struct certs *c);
/* Refuses the hub's certificate with this serial number, and has all nodes refuse it; the one in
 * use is due to be made anew then. -EBUSY: it is the operator's, and in use; -ENOTSUP: this hub
 * cannot sign what nodes are told; others as revoked_add_hub. */
int certs_revoke_hub(struct certs *c, const char *serial, int64_t now_s, struct err *err);
bool certs_refuses_hub(const struct certs *c, const char *serial);
/* What nodes are told of them (base/tls/pki_crl.h), "" when there are none; good until the next
 * call. */
const char *certs_crl(struct certs *c);

#endif
