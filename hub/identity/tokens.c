#include "hub/identity/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/tls/pki.h"
#include "hub/identity/joins.h"
#include "model/json.h"
#include "model/mesh.h"

struct token {
	struct record record; /* key: the id */
	char hash[PKI_HASH_TEXT]; /* of the whole secret */
	char node[MESH_NODE_MAX + 1]; /* "": any */
	int64_t expires_s;
	uint64_t uses; /* joins that it is valid for; 0: any number */
	/* or seen to have expired (tokens_end); kept in the list, so that no replica brings it
	 * back */
	bool revoked;
};

static bool
is_hex(const char *s, size_t len)
{
	return strlen(s) == len && strspn(s, "0123456789abcdef") == len;
}

static int
token_read(struct records *to, const struct tree_node *n, const char *path, struct err *err)
{
	const char *id = tree_text(tree_get(n, "id"), ""),
		   *hash = tree_text(tree_get(n, "sha256"), ""),
		   *node = tree_text(tree_get(n, "node"), "");
	int64_t uses = node[0] != '\0'; /* tokens from before hubs counted uses */
	int64_t expires_s;
	struct token *token;

	if (!is_hex(id, TOKEN_ID_LEN) || !is_hex(hash, PKI_HASH_TEXT - 1) ||
		strlen(node) > MESH_NODE_MAX ||
		tree_int(tree_get(n, "expires"), 0, INT64_MAX, &expires_s) < 0)
		return err_set(err, EINVAL,
			"%s:%u: a token needs id, sha256 and expires; move the file away to start "
			"without tokens",
			path, n->line);
	if (records_find(to, id) != NULL)
		return 0;
	token = records_use(to, id);
	memcpy(token->hash, hash, sizeof token->hash);
	strcpy(token->node, node);
	token->expires_s = expires_s;
	tree_int(tree_get(n, "uses"), 0, INT64_MAX, &uses);
	token->uses = (uint64_t)uses;
	token->revoked = tree_bool(tree_get(n, "revoked"), false);
	return 0;
}

static void
token_text(const void *record, struct buf *out)
{
	const struct token *k = record;

	buf_printf(out, "{\"id\":\"%s\",\"sha256\":\"%s\",\"expires\":%lld,\"uses\":%llu,\"node\":",
		k->record.key, k->hash, (long long)k->expires_s, (unsigned long long)k->uses);
	json_add_text(out, k->node);
	buf_adds(out, k->revoked ? ",\"revoked\":true}" : "}");
}

static bool
token_has_expired(const struct token *k, int64_t now_s)
{
	return k->expires_s <= now_s;
}

/* One that is not marked yet is kept, and taken from others: to be marked. */
static bool
token_is_over(const struct records *list, const void *record, int64_t now_s)
{
	const struct token *k = record;

	(void)list;
	return k->revoked && token_has_expired(k, now_s);
}

/* The mark of one that is known here counts. */
static bool
token_is_new_and_over(const struct records *list, const void *record, int64_t now_s)
{
	return token_is_over(list, record, now_s) &&
		records_find(list, ((const struct record *)record)->key) == NULL;
}

static bool
token_merge(struct records *to, void *record, const void *other)
{
	struct token *ours = record;
	const struct token *theirs = other;
	/* An older hub forgets how many uses are left: the smaller number counts. */
	bool fewer = theirs->uses != 0 && (ours->uses == 0 || theirs->uses < ours->uses);
	bool revoked = theirs->revoked && !ours->revoked;

	(void)to;
	ours->revoked |= theirs->revoked;
	if (fewer)
		ours->uses = theirs->uses;
	return fewer || revoked;
}

const struct record_kind tokens_kind = {
	.member = "tokens",
	.size = sizeof(struct token),
	.read = token_read,
	.text = token_text,
	.skips = token_is_new_and_over,
	.merge = token_merge,
};

/* secret: begins with the id. */
static struct token *
token_find(const struct registry *r, const char *secret)
{
	char id[TOKEN_ID_LEN + 1];

	snprintf(id, sizeof id, "%.*s", TOKEN_ID_LEN, secret);
	return records_find(registry_list(r, REGISTRY_TOKENS), id);
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
tokens_create(struct registry *r, const struct tokens_wish *wish, int64_t now_s,
	char secret[TOKEN_SECRET_LEN + 1], struct err *err)
{
	struct records *all = registry_list(r, REGISTRY_TOKENS);
	char id[TOKEN_ID_LEN + 1];
	struct token *token;
	int rc;

	if (wish->ttl_s == 0 || wish->ttl_s > (uint64_t)10 * 366 * 86400)
		return err_set(err, EINVAL, "a token lives between 1 s and 10 years");
	records_drop(all, token_is_over, now_s);
	if (all->n >= TOKENS_MAX)
		return err_set(err, ENOSPC, "there are %zu tokens already; revoke some", all->n);
	do
		tokens_hex(secret, TOKEN_SECRET_LEN / 2);
	while (token_find(r, secret) != NULL);
	snprintf(id, sizeof id, "%.*s", TOKEN_ID_LEN, secret);
	token = records_use(all, id);
	pki_sha256_hex(secret, TOKEN_SECRET_LEN, token->hash);
	snprintf(token->node, sizeof token->node, "%s", wish->node);
	token->uses = wish->uses;
	token->expires_s = now_s + (int64_t)wish->ttl_s;
	if ((rc = registry_save(r, REGISTRY_TOKENS, err)) < 0)
		records_remove(all, token);
	return rc;
}

int
tokens_check(const struct registry *r, const char *secret, const char *node, int64_t now_s,
	struct tokens_terms *terms, struct err *err)
{
	const struct token *k;
	char hash[PKI_HASH_TEXT];

	if (!is_hex(secret, TOKEN_SECRET_LEN))
		return err_set(err, EACCES, "no token of this hub's form");
	k = token_find(r, secret);
	pki_sha256_hex(secret, TOKEN_SECRET_LEN, hash);
	if (k == NULL || !pki_equal(k->hash, hash))
		return err_set(err, EACCES, "unknown token id=%.*s", TOKEN_ID_LEN, secret);
	if (token_has_expired(k, now_s))
		return err_set(err, EACCES, "token expired id=%s", k->record.key);
	if (k->revoked)
		return err_set(err, EACCES, "token was revoked or expired id=%s", k->record.key);
	if (k->node[0] != '\0' && strcmp(k->node, node) != 0)
		return err_set(err, EACCES, "token is for node %s id=%s", k->node, k->record.key);
	*terms = (struct tokens_terms){
		.any_name = k->node[0] == '\0', .uses = k->uses, .expires_s = k->expires_s};
	memcpy(terms->id, k->record.key, sizeof terms->id);
	return 0;
}

int
tokens_revoke(struct registry *r, const char *id, struct err *err)
{
	struct token *k = strlen(id) == TOKEN_ID_LEN ? token_find(r, id) : NULL;

	if (k == NULL || k->revoked)
		return err_set(err, ENOENT, "there is no token with the id \"%.32s\"", id);
	k->revoked = true;
	registry_keep(r, REGISTRY_TOKENS);
	return 0;
}

unsigned
tokens_revoke_node(struct registry *r, const char *node)
{
	const struct records *all = registry_list(r, REGISTRY_TOKENS);
	unsigned n = 0;

	for (size_t i = 0; i < all->n; i++) {
		struct token *k = all->all[i];

		if (k->revoked || strcmp(k->node, node) != 0)
			continue;
		k->revoked = true;
		n++;
	}
	if (n > 0)
		registry_keep(r, REGISTRY_TOKENS);
	return n;
}

unsigned
tokens_end(struct registry *r, int64_t now_s)
{
	const struct records *all = registry_list(r, REGISTRY_TOKENS);
	unsigned n = 0;

	for (size_t i = 0; i < all->n; i++) {
		struct token *k = all->all[i];

		n += !k->revoked && token_has_expired(k, now_s);
		k->revoked |= token_has_expired(k, now_s);
	}
	if (n > 0)
		registry_keep(r, REGISTRY_TOKENS);
	return n;
}

void
tokens_list(const struct registry *r, int64_t now_s, struct buf *out)
{
	const struct records *all = registry_list(r, REGISTRY_TOKENS);
	const char *comma = "";

	buf_adds(out, "[");
	for (size_t i = 0; i < all->n; i++) {
		const struct token *k = all->all[i];

		if (k->revoked || token_has_expired(k, now_s))
			continue;
		buf_printf(out, "%s{\"id\":\"%s\",\"node\":", comma, k->record.key);
		json_add_text(out, k->node);
		buf_printf(out, ",\"uses\":%llu,\"used\":%zu", (unsigned long long)k->uses,
			joins_count(r, k->record.key));
		buf_adds(out, ",\"expires\":\"");
		buf_add_utc(out, k->expires_s);
		buf_adds(out, "\"}");
		comma = ",";
	}
	buf_adds(out, "]");
}

size_t
tokens_count(const struct registry *r)
{
	const struct records *all = registry_list(r, REGISTRY_TOKENS);
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += !((const struct token *)all->all[i])->revoked;
	return n;
}
