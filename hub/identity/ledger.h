/*
 * Who holds a certificate of ours, and whose count no more. Files under dataDir: nodes/<node> (the
 * node's last certificate: the name is taken), revoked.json (hub/identity/revoked.h), joins.json
 * (hub/identity/joins.h) and ca.list (the CAs in use). Where replicas share through Kubernetes
 * (ledger_share) what the others know counts as well: hub/identity/name_archive.h has their nodes.
 * Blocking file I/O, on the hub's loop, rare. Owned by hub/identity/certs.
 *
 *	ledger_open(&l, dir, &err);
 *	ledger_record(l, "edge-1", cert_pem, &err);
 */
#ifndef EDGEWAY_HUB_IDENTITY_LEDGER_H
#define EDGEWAY_HUB_IDENTITY_LEDGER_H

#include "hub/identity/joins.h"
#include "hub/identity/name_archive.h"
#include "hub/identity/revoked.h"

struct ledger;

int ledger_open(struct ledger **l, const char *dir, struct err *err);
void ledger_close(struct ledger **l);

bool ledger_taken(const struct ledger *l, const char *node);
/* How often a name may have come or gone. */
uint64_t ledger_changes(const struct ledger *l);
/* The names, sorted; the caller frees each and the list. */
size_t ledger_nodes(const struct ledger *l, char ***names);
/* To be called before anybody gets the certificate. */
int ledger_record(struct ledger *l, const char *node, const char *cert_pem, struct err *err);
/* -ENOENT: no node of this name is known. */
int ledger_revoke(struct ledger *l, const char *node, int64_t now_s, struct err *err);
/* Of the node's last certificate; false when there is none that can be read. */
bool ledger_info(const struct ledger *l, const char *node, char serial[PKI_SERIAL_TEXT],
	int64_t *not_after_s);
/* The last certificate that this hub signed for it: PEM on the heap, NULL when there is none. */
char *ledger_cert(const struct ledger *l, const char *node);
struct ledger_key {
	const char *hash; /* pki_csr_info */
	const char *ca_pem; /* that must have signed */
	int64_t now_s;
};
/* Was the name's last certificate signed for this very key, and is it good and not revoked? *cert:
 * its PEM on the heap, NULL: another replica has that. Whoever shows the key may have it again. */
bool ledger_given(
	const struct ledger *l, const char *node, const struct ledger_key *key, char **cert);
/* Whose the name is, as one sees who asks for it with this key (pki_csr_info). */
enum ledger_holder {
	LEDGER_FREE, /* nobody's */
	LEDGER_OWN, /* this key's */
	/* this key's, whose certificate was revoked: the key is not to be signed again */
	LEDGER_REVOKED,
	LEDGER_ANOTHER, /* another key's, or one that is not known */
};
enum ledger_holder ledger_holder(const struct ledger *l, const char *node, const char *key_hash);
/* The name is nobody's any more, for all replicas, and what was signed for it counts no more.
 * -ENOENT: no node of this name is known; other: its file cannot be removed. */
int ledger_forget(struct ledger *l, const char *node, int64_t now_s, struct err *err);
/* Removes the files of nodes that another replica forgot; after the lists of both have been
 * merged. */
void ledger_drop_forgotten(struct ledger *l);
struct revoked *ledger_revoked(const struct ledger *l);
struct joins *ledger_joins(const struct ledger *l);
/* Of pki_csr_info's, as much as is kept. */
void ledger_short_key(char to[JOINS_KEY_TEXT], const char *key_hash);
/* Tries to write what could not be written. */
void ledger_keep(struct ledger *l, int64_t now_s);
/* Why what is known is not in the files, "" it is. */
const char *ledger_problem(const struct ledger *l);

/* From now on what other replicas tell counts, too. */
void ledger_share(struct ledger *l);
/* NULL when it is not shared. */
struct name_archive *ledger_roll(const struct ledger *l);
/* The other replicas' nodes, by the text of their roll; ours that it lacks are read from their
 * files. */
int ledger_merge(struct ledger *l, const char *text, bool *news, bool *lacks, struct err *err);
/* What is told to them: roll and joins. */
void ledger_text(const struct ledger *l, struct buf *out);
/* What the roll says of a certificate that is being signed. */
int ledger_entry(const struct ledger *l, struct name_archive_entry *entry, const char *cert_pem,
	struct err *err);

/* The CAs that nodes are given with a certificate from now on (model/ca_list.h); a restart knows
 * them. */
void ledger_use_cas(struct ledger *l, const char *list);
/* Those in use; before the first ledger_use_cas those of the last start, else those that another
 * replica took last; "" unknown. */
const char *ledger_cas(const struct ledger *l);
/* One that somebody else has signed: which CAs its node has nobody knows. */
int ledger_note(struct ledger *l, const char *node, const char *cert_pem, struct err *err);
/* A node comes with this certificate, and has these CAs (certs_note_cas): true when that is news,
 * which the others are to be told. */
bool ledger_note_cas(struct ledger *l, const char *node, const char *cert_pem, const char *cas);
typedef void ledger_cas_fn(void *arg, const char *node, const char *cas);
/* Of each node with a certificate that counts: which CAs it was given. */
void ledger_each_cas(struct ledger *l, int64_t now_s, ledger_cas_fn *each, void *arg);

#endif
