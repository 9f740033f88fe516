#include "meta/client/join.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/conf/tree.h"
#include "model/json.h"

enum { PEM_MAX = 64 * 1024, ROOM_BYTES = 32 * 1024, TOKEN_FILE_MAX = 16 * 1024 };

static char *
path_of(const char *given, const char *data_dir, const char *name)
{
	return given[0] != '\0' ? xstrdup(given) : xasprintf("%s/%s", data_dir, name);
}

void
join_files_init(struct join_files *files, const char *data_dir, const char *ca, const char *cert,
	const char *key)
{
	files->ca = path_of(ca, data_dir, "ca.pem");
	files->cert = path_of(cert, data_dir, "node.crt");
	files->key = path_of(key, data_dir, "node.key");
}

void
join_files_fini(struct join_files *files)
{
	free(files->ca);
	free(files->cert);
	free(files->key);
	*files = (struct join_files){0};
}

void
identity_fini(struct identity *id)
{
	free(id->ca);
	free(id->cert);
	free(id->key);
	*id = (struct identity){0};
}

static int
read_pem(const char *path, char **pem, struct err *err)
{
	int rc = file_read(path, PEM_MAX, pem, NULL);

	return rc == 0 ? 0 : err_set(err, rc, "cannot read %s: %s", path, strerror(-rc));
}

/* Checks names, dates, and that key and certificate match. */
static int
join_check(const struct join_files *files, const char *node, struct identity *id, struct err *err)
{
	auto_free char *name = NULL;
	int rc = pki_cert_info(id->cert, &name, &id->not_before, &id->not_after, err);

	if (rc < 0)
		return err_wrap(err, -EINVAL, "certificate %s", files->cert);
	if (strcmp(name, node) != 0)
		return err_set(err, EPERM,
			"the certificate %s is for node \"%s\", this node is \"%s\": set `node: "
			"%s`, or remove %s and "
			"%s and join again with a token",
			files->cert, name, node, name, files->cert, files->key);
	if (id->not_after <= (int64_t)time(NULL))
		return err_set(err, EKEYEXPIRED,
			"the certificate %s has expired: make a token with `edgewayctl token "
			"create "
			"--node %s` on the hub and set hub.token",
			files->cert, node);
	if (pki_cert_info(id->ca, NULL, &id->ca_begins, NULL, err) < 0)
		return err_wrap(err, -EINVAL, "CA %s", files->ca);
	if (pki_pair_check(id->cert, id->key, err) < 0)
		return err_wrap(err, -EINVAL, "certificate %s and key %s", files->cert, files->key);
	return 0;
}

/* Path of a key that waits for its certificate, beside the one in use. */
static char *
key_path(const struct join_files *files, enum join_key_kind kind)
{
	return xasprintf("%s.%s", files->key, kind == JOIN_KEY_RENEWAL ? "new" : "joining");
}

/* A renewal was interrupted between its two files: uses the new key, which matches the
 * certificate. */
static bool
finish_renewal(const struct join_files *files, struct identity *id, enum join_key_kind kind)
{
	auto_free char *path = key_path(files, kind), *key = NULL;

	if (file_read(path, PEM_MAX, &key, NULL) < 0 || pki_pair_check(id->cert, key, NULL) < 0 ||
		rename(path, files->key) < 0)
		return false;
	free(id->key);
	id->key = take_ptr(&key);
	return true;
}

int
join_load(const struct join_files *files, const char *node, struct identity *id, struct err *err)
{
	int rc;

	*id = (struct identity){0};
	rc = read_pem(files->ca, &id->ca, err);
	if (rc == 0)
		rc = read_pem(files->cert, &id->cert, err);
	if (rc == 0)
		rc = read_pem(files->key, &id->key, err);
	if (rc == 0 && pki_pair_check(id->cert, id->key, NULL) < 0 &&
		!finish_renewal(files, id, JOIN_KEY_RENEWAL))
		finish_renewal(files, id, JOIN_KEY_REJOIN);
	if (rc == 0)
		rc = join_check(files, node, id, err);
	if (rc < 0)
		identity_fini(id);
	return rc;
}

int
join_token_parse(struct join_token *token, const char *text, struct err *err)
{
	size_t n = strspn(text, "0123456789abcdefABCDEF");
	const char *secret = text + n + 1;

	if (n != PKI_HASH_TEXT - 1 || text[n] != '.' || *secret == '\0' ||
		strlen(secret) >= sizeof(token->secret))
		return err_set(err, EINVAL,
			"hub.token is not of the form <sha256 of the CA>.<secret>: take the last "
			"line of "
			"`edgewayctl token create` on the hub");
	if (pki_is_hash_of_nothing(text))
		return err_set(err, EINVAL,
			"hub.token: the hash is that of no CA: was edgeway-hub-ca there? Delete "
			"edgeway-join and make it again");
	for (const char *at = secret; *at != '\0'; at++) {
		if (!isgraph((unsigned char)*at)) /* it is sent in a header */
			return err_set(
				err, EINVAL, "hub.token holds white space or a control character");
	}
	for (size_t i = 0; i < n; i++)
		token->ca_hash[i] = (char)tolower((unsigned char)text[i]);
	token->ca_hash[n] = '\0';
	snprintf(token->secret, sizeof(token->secret), "%s", secret);
	return 0;
}

int
join_token_read(struct join_token *token, const char *path, const char *node, struct err *err)
{
	auto_free char *at = file_in(path, node, "token"), *text = NULL;
	size_t len;
	int rc = file_read(at, TOKEN_FILE_MAX, &text, &len);

	if (rc < 0)
		return err_set(err, rc, "hub.tokenFile: cannot read %s: %s", at, strerror(-rc));
	rc = join_token_parse(token, text_strip(text), err);
	explicit_bzero(text, len);
	return rc < 0 ? err_wrap(err, rc, "hub.tokenFile %s", at) : 0;
}

static int
join_save(const char *path, const char *bytes, size_t n, unsigned mode, struct err *err)
{
	int rc = file_write(path, bytes, n, mode);

	return rc == 0 ? 0 : err_set(err, rc, "cannot write %s: %s", path, strerror(-rc));
}

static int
save_text(const char *path, const char *text, unsigned mode, struct err *err)
{
	return join_save(path, text, strlen(text), mode, err);
}

/* Once the hub has signed, the name belongs to this node: a certificate that cannot be saved for
 * lack of disk space would be lost, and the name with it. */
static int
keep_room(const struct join_files *files, struct err *err)
{
	auto_free char *path = xasprintf("%s.room", files->cert), *filling = NULL;
	struct stat st;

	if (stat(path, &st) == 0 && st.st_size == ROOM_BYTES)
		return 0;
	filling = xmalloc(ROOM_BYTES);
	random_bytes(filling, ROOM_BYTES); /* random, so that no file system can compress it */
	return join_save(path, filling, ROOM_BYTES, 0600, err);
}

static void
use_room(const struct join_files *files)
{
	auto_free char *path = xasprintf("%s.room", files->cert);

	unlink(path);
}

int
join_key(const struct join_files *files, char **key_pem, struct err *err)
{
	auto_free char *key = NULL, *csr = NULL;
	int rc = file_read(files->key, PEM_MAX, &key, NULL);

	/* replace an unusable key, for instance from a broken disk */
	if (rc < 0 || pki_csr_new(key, "probe", &csr, NULL) < 0) {
		free(key);
		key = NULL;
		if ((rc = pki_key_new(&key, err)) < 0 ||
			(rc = save_text(files->key, key, 0600, err)) < 0)
			return rc;
	}
	if ((rc = keep_room(files, err)) < 0)
		return rc;
	*key_pem = take_ptr(&key);
	return 0;
}

int
join_key_fresh(
	const struct join_files *files, enum join_key_kind kind, char **key_pem, struct err *err)
{
	auto_free char *path = key_path(files, kind), *key = NULL, *csr = NULL;
	int rc;

	/* The hub has bound the token to this key if only its answer was lost. */
	if (kind == JOIN_KEY_REJOIN && file_read(path, PEM_MAX, &key, NULL) == 0 &&
		pki_csr_new(key, "probe", &csr, NULL) == 0) {
		*key_pem = take_ptr(&key);
		return 0;
	}
	free(take_ptr(&key));
	rc = pki_key_new(&key, err);
	if (rc == 0)
		rc = save_text(path, key, 0600, err);
	if (rc == 0)
		*key_pem = take_ptr(&key);
	return rc;
}

int
join_request(struct buf *out, const char *key_pem, const char *node, struct err *err)
{
	auto_free char *csr = NULL;
	int rc = pki_csr_new(key_pem, node, &csr, err);

	if (rc < 0)
		return rc;
	buf_adds(out, "{\"csr\":");
	json_add_text(out, csr);
	return buf_adds(out, "}");
}

static int
check_answer(const struct join_files *files, const struct join_answer *answer, struct identity *id,
	struct err *err)
{
	char hash[PKI_HASH_TEXT];

	if (pki_cert_hash(id->ca, hash, err) < 0)
		return err_wrap(err, -EINVAL, "the CA that the hub sent");
	if (answer->ca_hash[0] != '\0' && !pki_bundle_holds(id->ca, answer->ca_hash))
		return err_set(err, EPERM, "the CA that the hub sent is not the one of the token");
	return join_check(files, answer->node, id, err);
}

static int
keep_fresh(const struct join_files *files, enum join_key_kind kind, struct err *err)
{
	auto_free char *path = key_path(files, kind);

	return rename(path, files->key) == 0
		? 0
		: err_set(err, errno, "cannot rename %s: %s", path, strerror(errno));
}

int
join_accept(const struct join_files *files, const struct join_answer *answer, struct identity *id,
	struct err *err)
{
	struct tree *t = NULL;
	const struct tree_node *root;
	int rc;

	*id = (struct identity){0};
	if (answer->len == 0 || answer->json[0] != '{')
		return err_set(err, EINVAL, "the hub's answer is not a JSON object");
	if ((rc = tree_parse(&t, "the hub's answer", answer->json, answer->len, err)) < 0)
		return rc;
	root = tree_document(t, 0);
	id->ca = xstrdup(tree_text(tree_get(root, "ca"), ""));
	id->cert = xstrdup(tree_text(tree_get(root, "cert"), ""));
	id->key = xstrdup(answer->key_pem);
	tree_free(&t);
	rc = check_answer(files, answer, id, err);
	if (rc == 0)
		use_room(files);
	if (rc == 0)
		rc = save_text(files->ca, id->ca, 0644, err);
	if (rc == 0)
		rc = save_text(files->cert, id->cert, 0644, err);
	if (rc == 0 && answer->kind != JOIN_KEY_FIRST)
		rc = keep_fresh(files, answer->kind, err);
	if (rc < 0)
		identity_fini(id);
	return rc;
}

int
join_save_again(const struct join_files *files, const struct identity *id, struct err *err)
{
	auto_free char *cert = NULL;
	int rc;

	if (access(files->key, F_OK) == 0 || access(files->cert, F_OK) == 0 ||
		access(files->ca, F_OK) == 0) {
		rc = file_read(files->cert, PEM_MAX, &cert, NULL);
		if (rc < 0)
			return err_set(err, rc, "%s: %s", files->cert, strerror(-rc));
		return strcmp(cert, id->cert) == 0 && access(files->key, F_OK) == 0
			? 0
			: err_set(err, EEXIST,
				  "%s is not the certificate in use, or its key is missing",
				  files->cert);
	}
	rc = save_text(files->key, id->key, 0600, err);
	if (rc == 0)
		rc = save_text(files->ca, id->ca, 0644, err);
	return rc == 0 ? save_text(files->cert, id->cert, 0644, err) : rc;
}
