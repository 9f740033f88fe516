/*
 * The node's identity towards the hub: certificate, key and CA, from the configured files or from
 * an earlier join under data_dir (ca.pem, node.crt, node.key), and the files of joining
 * (doc/protocol.md, "Joining"). File access only, no network: meta/client/hub_client talks to the
 * hub. The key is saved before the certificate is requested and reused when joining is repeated;
 * the certificate is saved last, each file atomically: a crash leaves a matching pair, or none. A
 * renewal uses a new key, which is kept beside the old one until the new certificate is saved;
 * loading completes what a crash interrupted.
 *
 *	join_files_init(&files, data_dir, ca, cert, key);
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
	int64_t ca_begins; /* not_before of the first CA */
};

struct join_token {
	char ca_hash[PKI_HASH_TEXT];
	char secret[257];
};

/* "" for the files under data_dir. */
void join_files_init(struct join_files *files, const char *data_dir, const char *ca,
	const char *cert, const char *key);
void join_files_fini(struct join_files *files);
void identity_fini(struct identity *id);

/* Returns 0; -ENOENT: no certificate yet; -EPERM: it is another node's; -EKEYEXPIRED; -EINVAL: does
 * not match or cannot be read. */
int join_load(
	const struct join_files *files, const char *node, struct identity *id, struct err *err);
int join_token_parse(struct join_token *token, const char *text, struct err *err);
/* Reads the token from the file `path`, or, if it is a folder, from the file with the node's name
 * in it, otherwise from the file `token` there. -ENOENT, -EACCES, ...: it cannot be read; -EINVAL:
 * it holds no token. The reason names the file, but nothing of its content. */
int join_token_read(struct join_token *token, const char *path, const char *node, struct err *err);
/* The key that joining begins with: the saved one, or a new one that is saved now (0600). Also
 * reserves disk space for certificate and CA (<cert>.room, until join_accept), because the hub
 * signs only once for a name. -ENOSPC: there is none. */
int join_key(const struct join_files *files, char **key_pem, struct err *err);
enum join_key_kind {
	JOIN_KEY_FIRST, /* of join_key */
	JOIN_KEY_RENEWAL, /* a new one for each attempt, <key>.new */
	/* joining again with a token after having had a certificate: the same key until the new
	 * certificate has come, <key>.joining */
	JOIN_KEY_REJOIN,
};
/* A key saved (0600) beside the one in use; it replaces that one when its certificate has come. */
int join_key_fresh(
	const struct join_files *files, enum join_key_kind kind, char **key_pem, struct err *err);
/* {"csr":"<PEM>"} */
int join_request(struct buf *out, const char *key_pem, const char *node, struct err *err);

struct join_answer {
	const char *json; /* {"cert":"<PEM>","ca":"<PEM>"} */
	size_t len;
	const char *node, *key_pem;
	const char *ca_hash; /* one of the CAs must match it; "": the connection was verified */
	enum join_key_kind kind; /* of the key */
};
/* Checks and saves the hub's answer. */
int join_accept(const struct join_files *files, const struct join_answer *answer,
	struct identity *id, struct err *err);
/* Writes key, certificate and CA again if none of them is there. -EEXIST: others are. */
int join_save_again(const struct join_files *files, const struct identity *id, struct err *err);

#endif
