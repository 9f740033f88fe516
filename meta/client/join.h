/*
 * Who this node is towards the hub: certificate, key and CA, from the configured files or from an
 * earlier join under data_dir (ca.pem, node.crt, node.key), and the leaves of joining
 * (doc/protocol.md, "Joining"). File access only, no network: meta/client/hub_client does the
 * talking. The key is saved before the certificate is asked for and used again when joining is
 * repeated, the certificate is saved last, each file atomically: a crash leaves a pair that fits,
 * or none. A renewal has a new key, which lies beside the old one until the new certificate is
 * saved; loading finishes what a crash left undone.
 *
 *	join_files_init(&files, &paths);
 *	rc = join_load(&files, node, &identity, err);	// -ENOENT: must join
 */
#ifndef EDGEWAY_META_CLIENT_JOIN_H
#define EDGEWAY_META_CLIENT_JOIN_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "base/tls/pki.h"

struct join_files { /* paths, owned */
	char *ca, *cert, *key;
};

struct identity { /* PEM, owned */
	char *ca, *cert, *key;
	int64_t not_before, not_after; /* seconds since 1970 */
	int64_t ca_begins; /* when the first CA begins */
};

struct join_token {
	char ca_hash[PKI_HASH_TEXT];
	char secret[257];
};

/* "" for those under data_dir. */
void join_files_init(struct join_files *files, const char *data_dir, const char *ca,
	const char *cert, const char *key);
void join_files_fini(struct join_files *files);
void identity_fini(struct identity *id);

/* 0; -ENOENT: no certificate yet; -EPERM: it is another node's; -EKEYEXPIRED; -EINVAL: does not fit
 * or cannot be read. */
int join_load(
	const struct join_files *files, const char *node, struct identity *id, struct err *err);
int join_token_parse(struct join_token *token, const char *text, struct err *err);
/* The token in the file; in a folder in that of the node's name, else in `token`. -ENOENT, -EACCES,
 * ...: it cannot be read;
 * -EINVAL: it holds none. The reason names the file, and nothing of what it holds. */
int join_token_read(struct join_token *token, const char *path, const char *node, struct err *err);
/* The key that joining begins with: the saved one, or a new one that is saved now (0600), beside
 * room for certificate and CA (<cert>.room, until join_accept): the hub signs once for a name.
 * -ENOSPC: there is none. */
int join_key(const struct join_files *files, char **key_pem, struct err *err);
enum join_key_kind {
	JOIN_KEY_FIRST, /* of join_key */
	JOIN_KEY_RENEWAL, /* a new one for each attempt, <key>.new */
	/* by a token, of a node that had a certificate: the same until it has another one,
	 * <key>.joining */
	JOIN_KEY_REJOIN,
};
/* A key beside the one in use, saved (0600); it takes the other's place when its certificate has
 * come. */
int join_key_fresh(
	const struct join_files *files, enum join_key_kind kind, char **key_pem, struct err *err);
/* {"csr":"<PEM>"} */
int join_request(struct buf *out, const char *key_pem, const char *node, struct err *err);

struct join_answer {
	const char *json; /* {"cert":"<PEM>","ca":"<PEM>"} */
	size_t len;
	const char *node, *key_pem;
	const char *ca_hash; /* one of the CAs must have it; "": the connection was verified */
	enum join_key_kind kind; /* of the key */
};
/* Checks and saves what the hub gave. */
int join_accept(const struct join_files *files, const struct join_answer *answer,
	struct identity *id, struct err *err);

#endif
