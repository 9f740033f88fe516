#include "hub/identity/tokens.h"

#include <errno.h>
#include <string.h>

#include "base/conf/tree.h"
#include "base/tls/pki.h"
#include "hub/manifests/list_file.h"
#include "model/json.h"

struct token {
	char id[TOKEN_ID_LEN + 1];
	char hash[PKI_HASH_TEXT]; /* of the whole secret */
	char *node; /* "": any */
	int64_t expires_s;
	uint64_t uses; /* joins that it is valid for; 0: any number */
	bool revoked; /* kept in the list, so that no replica brings it back */
};

struct tokens {
	struct list_file file;
	struct token *all;
	size_t n;
};

enum { TOKENS_FILE_MAX = 8 * 1024 * 1024 };

static bool
is_hex(const char *s, size_t len)
{
	return strlen(s) == len && strspn(s, "0123456789abcdef") == len;
}

static void
token_add(struct tokens *t, const struct token *token)
{
	t->all = xrealloc(t->all, (t->n + 1) * sizeof *t->all);
	t->all[t->n++] = *token;
}

static void
token_remove(struct tokens *t, size_t i)
{
	free(t->all[i].node);
	memmove(t->all + i, t->all + i + 1, (t->n - i - 1) * sizeof *t->all);
	t->n--;
}

static int
read_token(struct tokens *t, const struct tree_node *n, const char *path, struct err *err)
{
	const char *id = tree_text(tree_get(n, "id"), ""),
		   *hash = tree_text(tree_get(n, "sha256"), "");
	struct token token = {0};
	int64_t uses;

	if (!is_hex(id, TOKEN_ID_LEN) || !is_hex(hash, PKI_HASH_TEXT - 1) ||
		tree_int(tree_get(n, "expires"), 0, INT64_MAX, &token.expires_s) < 0)
		return err_set(err, EINVAL,
			"%s:%u: a token needs id, sha256 and expires; move the file away to start "
			"without tokens",
			path, n->line);
	memcpy(token.id, id, sizeof token.id);
	memcpy(token.hash, hash, sizeof token.hash);
	token.node = xstrdup(tree_text(tree_get(n, "node"), ""));
	token.uses = token.node[0] != '\0'; /* tokens from before hubs counted uses */
	if (tree_int(tree_get(n, "uses"), 0, INT64_MAX, &uses) == 0)
		token.uses = (uint64_t)uses;
	token.revoked = tree_bool(tree_get(n, "revoked"), false);
	token_add(t, &token);
	return 0;
}

static int
read_text(struct tokens *t, const char *name, const char *text, size_t len, struct err *err)
{
	struct tree *tree = NULL;
	int rc = tree_parse(&tree, name, text, len, err);

	if (rc < 0)
		return rc;
	tree_each(tree_get(tree_document(tree, 0), "tokens"), n) {
		if ((rc = read_token(t, n, name, err)) < 0)
			break;
	}
	tree_free(&tree);
	return rc;
}

static int
read_file(struct tokens *t, struct err *err)
{
	auto_free char *text = NULL;
	size_t len;
	int rc = file_read(t->file.path, TOKENS_FILE_MAX, &text, &len);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return err_set(err, rc, "cannot read %s: %s", t->file.path, strerror(-rc));
	return read_text(t, t->file.path, text, len, err);
}

int
tokens_open(struct tokens **out, const char *path, struct err *err)
{
	struct tokens *t = xcalloc(1, sizeof *t);
	int rc;

	list_file_init(&t->file, path);
	if ((rc = read_file(t, err)) < 0) {
		rc = err_wrap(err, rc,
			"the join tokens cannot be read: bring back a copy of the file, or move it "
			"away and make new ones (edgewayctl token create)");
		tokens_close(&t);
	}
	*out = t;
	return rc;
}

void
tokens_close(struct tokens **out)
{
	struct tokens *t = take_ptr(out);

	if (t == NULL)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->all[i].node);
	free(t->all);
	list_file_fini(&t->file);
	free(t);
}

void
tokens_text(const struct tokens *t, struct buf *out)
{
	buf_adds(out, "{\"tokens\":[");
	for (size_t i = 0; i < t->n; i++) {
		const struct token *k = &t->all[i];

		buf_printf(out,
			"%s\n{\"id\":\"%s\",\"sha256\":\"%s\",\"expires\":%lld,\"uses\":%llu,"
			"\"node\":",
			i > 0 ? "," : "", k->id, k->hash, (long long)k->expires_s,
			(unsigned long long)k->uses);
		json_add_text(out, k->node);
		buf_adds(out, k->revoked ? ",\"revoked\":true}" : "}");
	}
	buf_adds(out, "\n]}\n");
}

static int
tokens_save(struct tokens *t, struct err *err)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	tokens_text(t, &b);
	return list_file_write(&t->file, &b, err);
}

void
tokens_keep(struct tokens *t)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	tokens_text(t, &b);
	list_file_keep(&t->file, &b);
}

const char *
tokens_problem(const struct tokens *t)
{
	return t->file.problem;
}

static struct token *
find_id(const struct tokens *t, const char *id)
{
	for (size_t i = 0; i < t->n; i++) {
		if (strncmp(t->all[i].id, id, TOKEN_ID_LEN) == 0)
			return &t->all[i];
	}
	return NULL;
}

static void
drop_expired(struct tokens *t, int64_t now_s)
{
	for (size_t i = t->n; i-- > 0;) {
		if (t->all[i].expires_s <= now_s)
			token_remove(t, i);
	}
}

static void
tokens_hex(char *to, size_t bytes)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char b;

	for (size_t i = 0; i < bytes; i++) {
		random_bytes(&b, 1);
		*to++ = digits[b >> 4];
		*to++ = digits[b & 15];
	}
	*to = '\0';
}

int
tokens_create(struct tokens *t, const struct tokens_wish *wish, int64_t now_s,
	char secret[TOKEN_SECRET_LEN + 1], struct err *err)
{
	struct token token = {.uses = wish->uses};
	int rc;

	if (wish->ttl_s == 0 || wish->ttl_s > (uint64_t)10 * 366 * 86400)
		return err_set(err, EINVAL, "a token lives between 1 s and 10 years");
	drop_expired(t, now_s);
	if (t->n >= TOKENS_MAX)
		return err_set(err, ENOSPC, "there are %zu tokens already; revoke some", t->n);
	do
		tokens_hex(secret, TOKEN_SECRET_LEN / 2);
	while (find_id(t, secret) != NULL);
	memcpy(token.id, secret, TOKEN_ID_LEN);
	pki_sha256_hex(secret, TOKEN_SECRET_LEN, token.hash);
	token.node = xstrdup(wish->node);
	token.expires_s = now_s + (int64_t)wish->ttl_s;
	token_add(t, &token);
	if ((rc = tokens_save(t, err)) < 0)
		token_remove(t, t->n - 1);
	return rc;
}

int
tokens_check(const struct tokens *t, const char *secret, const char *node, int64_t now_s,
	struct tokens_terms *terms, struct err *err)
{
	const struct token *k;
	char hash[PKI_HASH_TEXT];

	if (!is_hex(secret, TOKEN_SECRET_LEN))
		return err_set(err, EACCES, "no token of this hub's form");
	k = find_id(t, secret);
	pki_sha256_hex(secret, TOKEN_SECRET_LEN, hash);
	if (k == NULL || k->revoked || !pki_equal(k->hash, hash))
		return err_set(err, EACCES, "unknown token id=%.*s", TOKEN_ID_LEN, secret);
	if (k->expires_s <= now_s)
		return err_set(err, EACCES, "token expired id=%s", k->id);
	if (k->node[0] != '\0' && strcmp(k->node, node) != 0)
		return err_set(err, EACCES, "token is for node %s id=%s", k->node, k->id);
	*terms = (struct tokens_terms){
		.any_name = k->node[0] == '\0', .uses = k->uses, .expires_s = k->expires_s};
	memcpy(terms->id, k->id, sizeof terms->id);
	return 0;
}

int
tokens_revoke(struct tokens *t, const char *id, struct err *err)
{
	struct token *k = strlen(id) == TOKEN_ID_LEN ? find_id(t, id) : NULL;

	if (k == NULL || k->revoked)
		return err_set(err, ENOENT, "there is no token with the id \"%.32s\"", id);
	k->revoked = true;
	tokens_keep(t);
	return 0;
}

unsigned
tokens_revoke_node(struct tokens *t, const char *node)
{
	unsigned n = 0;

	for (size_t i = 0; i < t->n; i++) {
		if (t->all[i].revoked || strcmp(t->all[i].node, node) != 0)
			continue;
		t->all[i].revoked = true;
		n++;
	}
	if (n > 0)
		tokens_keep(t);
	return n;
}

/* Adds the entries of `from` that `to` lacks; returns true if there were any. */
static bool
merge_into(struct tokens *to, const struct tokens *from, int64_t now_s)
{
	bool any = false;

	for (size_t i = 0; i < from->n; i++) {
		const struct token *theirs = &from->all[i];
		struct token *ours = find_id(to, theirs->id), copy = *theirs;

		if (theirs->expires_s <= now_s)
			continue;
		if (ours == NULL) {
			copy.node = xstrdup(theirs->node);
			token_add(to, &copy);
			any = true;
		} else {
			/* An older hub forgets how many uses are left: the smaller number
			 * counts. */
			bool fewer =
				theirs->uses != 0 && (ours->uses == 0 || theirs->uses < ours->uses);

			any |= (theirs->revoked && !ours->revoked) || fewer;
			ours->revoked |= theirs->revoked;
			if (fewer)
				ours->uses = theirs->uses;
		}
	}
	return any;
}

int
tokens_merge(
	struct tokens *t, const char *text, int64_t now_s, bool *news, bool *lacks, struct err *err)
{
	struct tokens *theirs = xcalloc(1, sizeof *theirs);
	int rc = text[0] != '\0' ? read_text(theirs, "tokens.json", text, strlen(text), err) : 0;

	*news = *lacks = false;
	if (rc == 0) {
		*news = merge_into(t, theirs, now_s);
		*lacks = merge_into(theirs, t, now_s);
		if (*news)
			tokens_keep(t);
	}
	tokens_close(&theirs);
	return rc;
}

void
tokens_list(const struct tokens *t, const struct joins *joins, int64_t now_s, struct buf *out)
{
	const char *comma = "";

	buf_adds(out, "[");
	for (size_t i = 0; i < t->n; i++) {
		const struct token *k = &t->all[i];

		if (k->revoked || k->expires_s <= now_s)
			continue;
		buf_printf(out, "%s{\"id\":\"%s\",\"node\":", comma, k->id);
		json_add_text(out, k->node);
		buf_printf(out, ",\"uses\":%llu,\"used\":%zu", (unsigned long long)k->uses,
			joins_count(joins, k->id));
		buf_adds(out, ",\"expires\":\"");
		buf_add_utc(out, k->expires_s);
		buf_adds(out, "\"}");
		comma = ",";
	}
	buf_adds(out, "]");
}

size_t
tokens_count(const struct tokens *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += !t->all[i].revoked;
	return n;
}
