#include "meta/client/hub_client_private.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "model/json.h"

enum { ASK_FIRST_MS = 2000, ASK_MOST_MS = 60 * 1000 };

struct pending {
	char *name;
};

/* The hub has asked an operator: "pending" in its answer names the request. */
static bool
must_wait(struct hub_client *f, const struct envelope *e)
{
	static const struct field fields[] = {
		{"pending", FIELD_TEXT, offsetof(struct pending, name), MESH_NODE_MAX, NULL, NULL},
	};
	struct pending p = {0};
	char before[sizeof(f->waits_for)];
	struct json j;

	if (e->operation != OP_RESPONSE || !hub_client_by_approval(f))
		return false;
	json_init(&j, e->content, e->content_len);
	json_fields(&j, fields, ARRAY_LEN(fields), &p);
	if (json_finish(&j, NULL) < 0 || p.name == NULL) {
		free(p.name);
		return false;
	}
	memcpy(before, f->waits_for, sizeof(before));
	snprintf(f->waits_for, sizeof(f->waits_for),
		"waits for approval in the cluster: kubectl certificate approve %s", p.name);
	if (strcmp(before, f->waits_for) != 0)
		log_info("meta", "this node %s", f->waits_for);
	free(p.name);
	return true;
}

bool
hub_client_by_approval(const struct hub_client *f)
{
	return f->has_token && strcmp(f->token.secret, MESH_APPROVAL) == 0;
}

uint64_t
hub_client_ask_again_ms(struct hub_client *f)
{
	uint64_t random, ms;

	random_bytes(&random, sizeof(random));
	f->approval_ms =
		MIN(MAX(f->approval_ms * 2, (uint64_t)ASK_FIRST_MS), (uint64_t)ASK_MOST_MS);
	ms = f->approval_ms / 2;
	return ms + random % (ms + 1);
}

void
hub_client_on_join(struct hub_client *f, const struct envelope *e)
{
	struct join_answer answer = {.json = e->content,
		.len = e->content_len,
		.node = f->node,
		.ca_hash = f->token.ca_hash,
		.key_pem = f->joining_key,
		.kind = f->tls != NULL ? JOIN_KEY_REJOIN : JOIN_KEY_FIRST};
	struct identity id = {0};
	struct err err = {0};
	int rc;

	f->waits = must_wait(f, e);
	if (f->waits) {
		ws_close(f->conn, 1000, "waiting for approval");
		return;
	}
	if (e->operation == OP_ERROR) {
		snprintf(f->mismatch, sizeof(f->mismatch), "the hub refused to sign: %.300s",
			e->content);
		err_set(&err, EPERM, "%s", f->mismatch);
		rc = -EPERM;
	} else {
		rc = join_accept(&f->files, &answer, &id, &err);
		if (rc == 0)
			rc = hub_client_use_identity(f, &id, &err);
	}
	f->joined = rc == 0;
	free(take_ptr(&f->joining_key));
	if (rc == 0)
		log_info("meta", "joined: the hub signed this node's certificate node=%s file=%s",
			f->node, f->files.cert);
	else
		log_error("meta", "cannot join node=%s error=\"%s\"", f->node, err.text);
	ws_close(f->conn, 1000, rc == 0 ? "joined" : "cannot join");
}

void
hub_client_ask_join(struct hub_client *f)
{
	auto_free char *resource = xasprintf("certificate/%s", f->node);
	auto_buf struct buf content;
	struct message m = {.operation = OP_INSERT, .resource = resource, .parent = ""};
	struct err err;

	buf_init(&content, BUF_UNLIMITED);
	if (join_request(&content, f->joining_key, f->node, &err) < 0) {
		log_error("meta", "cannot join error=\"%s\"", err.text);
		ws_close(f->conn, 1000, "cannot join");
		return;
	}
	m.content = buf_str(&content);
	hub_client_send(f, &m, f->query);
}

int
hub_client_prepare_join(struct hub_client *f, struct err *err)
{
	int rc = 0;

	if (f->joining_key == NULL)
		rc = f->tls != NULL
			? join_key_fresh(&f->files, JOIN_KEY_REJOIN, &f->joining_key, err)
			: join_key(&f->files, &f->joining_key, err);
	if (rc == 0 && f->join_tls == NULL)
		rc = pki_join_ctx(f->token.ca_hash, &f->join_ca, &f->join_tls, err);
	if (rc == 0) {
		pki_ctx_floor(f->join_tls, f->floor_s);
		hub_client_use_refused(f, f->join_tls);
	}
	return rc;
}

void
hub_client_read_token(struct hub_client *f)
{
	struct join_token token;
	struct err err = {0};

	if (f->token_file[0] == '\0')
		return;
	if (join_token_read(&token, f->token_file, f->node, &err) < 0) {
		if (!f->has_token)
			snprintf(f->error, sizeof(f->error), "%.300s", err.text);
		log_limited(LOG_LEVEL_WARN, 6, "meta", "%s%s", err.text,
			f->has_token ? "; the token of before serves" : "");
		return;
	}
	if (f->has_token && strcmp(token.secret, f->token.secret) == 0 &&
		strcmp(token.ca_hash, f->token.ca_hash) == 0)
		return;
	log_info("meta", "%s file=%s",
		f->has_token ? "hub.tokenFile has another token" : "hub.tokenFile has a token",
		f->token_file);
	f->token = token;
	f->has_token = true;
	/* it trusts the CA of the old token; connections keep a reference */
	pki_ctx_free(&f->join_tls);
}

/* Warns if hub.token belongs to another CA than the certificate of an earlier join, which is
 * used. */
static void
compare_token(const struct hub_client *f)
{
	if (f->has_token && !pki_bundle_holds(f->identity.ca, f->token.ca_hash))
		log_warn("meta",
			"hub.token is of another CA than the one this node joined; the certificate "
			"of before is used: "
			"to join anew remove %s, %s and %s",
			f->files.ca, f->files.cert, f->files.key);
}

int
hub_client_take_identity(
	struct hub_client *f, const struct hub_client_config *config, struct err *err)
{
	struct identity id = {0};
	struct err why = {0};
	int rc;

	if (config->token[0] != '\0') {
		if ((rc = join_token_parse(&f->token, config->token, err)) < 0)
			return rc;
		f->has_token = true;
	}
	join_files_init(&f->files, config->data_dir, config->ca, config->cert, config->key);
	f->own_ca = config->ca[0] == '\0';
	f->own_files = config->cert[0] == '\0' && config->key[0] == '\0';
	rc = join_load(&f->files, f->node, &id, &why);
	if (rc == 0)
		rc = hub_client_use_identity(f, &id, &why);
	if (rc == 0) {
		compare_token(f);
		return 0;
	}
	if (rc == -EPERM) /* another node's: never discarded automatically */
		return err_set(err, EPERM, "%s", why.text);
	if (rc != -ENOENT || access(f->files.cert, F_OK) == 0 || access(f->files.key, F_OK) == 0)
		snprintf(f->unusable, sizeof f->unusable, "%.255s", why.text);
	if (f->has_token) {
		log_info("meta",
			"no certificate that can be used; joining with the token reason=\"%s\"",
			why.text);
		return 0;
	}
	if (f->token_file[0] != '\0') {
		log_warn("meta",
			"no certificate that can be used, and no token yet: waiting for "
			"hub.tokenFile file=%s reason=\"%s\"",
			f->token_file, why.text);
		return 0;
	}
	if (rc != -ENOENT)
		return err_set(err, rc, "%s", why.text);
	return err_set(err, ENOENT,
		"neither a token nor a certificate: make a token with `edgewayctl token create` on "
		"the hub and set "
		"hub.token (or hub.tokenFile), or set hub.ca, hub.cert and hub.key (%s)",
		why.text);
}

void
hub_client_save_identity(struct hub_client *f)
{
	struct err err = {0};

	if (f->tls != NULL && f->own_files && f->own_ca &&
		join_save_again(&f->files, &f->identity, &err) < 0)
		log_error("meta",
			"the node's certificate is not in dataDir any more: after a restart it has "
			"to join with a new token error=\"%s\"",
			err.text);
}
