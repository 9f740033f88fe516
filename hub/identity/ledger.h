/*
 * Who holds a certificate of ours. Files under dataDir: nodes/<node> (the node's last certificate:
 * the name is taken), ca.list (the CAs in use), and those of its registry
 * (hub/identity/registry.h). Where replicas share through Kubernetes (ledger_share), what the
 * others know counts as well: their nodes are in hub/identity/name_archive.h. File I/O blocks, on
 * the hub's loop, but is rare; what ledger_give and ledger_note record is written by a thread
 * (hub/identity/record_writer.h). Owned by hub/identity/certs.
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
/* Counts the changes that may have added or removed a name. */
uint64_t ledger_changes(const struct ledger *l);
/* The names, sorted; the caller frees each and the list. */
size_t ledger_nodes(struct ledger *l, char ***names);
/* To be called before anybody gets the certificate. */
int ledger_record(struct ledger *l, const char *node, const char *cert_pem, struct err *err);
/* The same for a node that joins, and not on the hub's loop: the name and the use of the token are
 * taken at once; `written` says when the disk has both, or that it has neither. */
typedef void ledger_written_fn(void *arg, int rc);
struct ledger_gift {
	struct loop *loop;
	const char *node, *cert_pem; /* copied */
	const struct joins_entry *use; /* of a token with a limit; copied; NULL: none */
	ledger_written_fn *written;
	void *arg;
};
struct ledger_write;
int ledger_give(struct ledger *l, const struct ledger_gift *gift, struct ledger_write **write,
	struct err *err);
/* Is a record of the node on its way, so that nobody may have its certificate yet? */
bool ledger_gives(const struct ledger *l, const char *node);
/* `written` is not called any more; the certificate is recorded all the same. */
void ledger_let_go(struct ledger_write **write);
/* -ENOENT: no node of this name is known. */
int ledger_revoke(struct ledger *l, const char *node, int64_t now_s, struct err *err);
/* Data of the node's last certificate; false if there is none that can be read. */
bool ledger_info(const struct ledger *l, const char *node, char serial[PKI_SERIAL_TEXT],
	int64_t *not_after_s);
/* The last certificate that this hub signed for it: PEM on the heap, NULL if there is none. */
char *ledger_cert(const struct ledger *l, const char *node);
struct ledger_key {
	const char *hash; /* pki_csr_info */
	const char *ca_pem; /* the CA that must have signed */
	int64_t now_s;
};
/* Returns true if the name's last certificate was signed for this very key, and is valid and not
 * revoked. *cert: its PEM on the heap, NULL: another replica has it. A node that proves the key may
 * have it again. */
bool ledger_given(
	const struct ledger *l, const char *node, const struct ledger_key *key, char **cert);
/* Who holds the name, from the point of view of a node that asks for it with this key
 * (pki_csr_info). */
enum ledger_holder {
	LEDGER_FREE, /* nobody */
	LEDGER_OWN, /* this key */
	/* this key, whose certificate was revoked: the key must not be signed again */
	LEDGER_REVOKED,
	LEDGER_ANOTHER, /* another key, or an unknown one */
};
enum ledger_holder ledger_holder(const struct ledger *l, const char *node, const char *key_hash);
/* Frees the name, for all replicas, and invalidates all certificates signed for it. -ENOENT: no
 * node of this name is known; other: its file cannot be removed. */
int ledger_forget(struct ledger *l, const char *node, int64_t now_s, struct err *err);
/* Removes the files of nodes that another replica forgot; call after both lists have been
 * merged. */
void ledger_drop_forgotten(struct ledger *l);
struct registry *ledger_registry(const struct ledger *l);
/* The stored part of pki_csr_info's key hash. */
void ledger_short_key(char to[JOINS_KEY_TEXT], const char *key_hash);
/* Ends tokens that have expired, on the disk as well, then forgets the joins that used them; tries
 * again to write what could not be written. True: the other replicas must be told of tokens. */
bool ledger_keep(struct ledger *l, int64_t now_s);
/* The first part of it, for after joins were merged, since those that have ended are left out. */
bool ledger_end_tokens(struct ledger *l, int64_t now_s);
/* held: another hub uses the files: on return it finds all that was given, and nobody is given
 * anything (-EAGAIN) until that is over. */
void ledger_hold(struct ledger *l, bool held);
/* How many records ledger_hold would wait for, where that may take long; else 0. */
size_t ledger_behind(const struct ledger *l);
/* Why the state in memory is not in the files; "": it is. */
const char *ledger_problem(struct ledger *l);

/* From now on what other replicas know counts, too. */
void ledger_share(struct ledger *l);
/* NULL when it is not shared. */
struct name_archive *ledger_roll(const struct ledger *l);
/* Merges the other replicas' nodes, from the text of their exchanged registry; reads from files
 * those of our nodes that it lacks. */
int ledger_merge(struct ledger *l, const char *text, struct registry_heard *heard, struct err *err);
/* The text for the other replicas: exchanged registry and joins. */
void ledger_text(const struct ledger *l, struct buf *out);
/* Builds the exchanged registry's entry for a certificate that is being signed. */
int ledger_entry(const struct ledger *l, struct name_archive_entry *entry, const char *cert_pem,
	struct err *err);

/* Sets the CAs that nodes get with a certificate from now on (model/ca_list.h); they survive a
 * restart. */
void ledger_use_cas(struct ledger *l, const char *list);
/* The CAs in use. Before the first ledger_use_cas: those of the last start, else those that another
 * replica set last; "": unknown. */
const char *ledger_cas(const struct ledger *l);
/* Records a certificate that somebody else signed: nobody knows which CAs its node has. The name is
 * taken at once, the file comes later. */
int ledger_note(struct ledger *l, const char *node, const char *cert_pem, struct err *err);
/* A node connects with this certificate, and has these CAs (certs_note_cas). Returns true if that
 * is new; then the other replicas must be told. */
bool ledger_note_cas(struct ledger *l, const char *node, const char *cert_pem, const char *cas);
typedef void ledger_cas_fn(void *arg, const char *node, const char *cas);
/* Calls `each` for every node with a valid certificate, with the CAs that it was given. */
void ledger_each_cas(struct ledger *l, int64_t now_s, ledger_cas_fn *each, void *arg);

#endif
