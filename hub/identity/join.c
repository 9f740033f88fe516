#include "hub/identity/join.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "model/envelope.h"
#include "model/json.h"
#include "model/mesh.h"

struct join {
	struct join_config config;
	struct ws_conn *conn;
	struct timer *timer;
	char *node, *secret;
	bool renews; /* the connection's certificate is for this very name */
	bool answered;
	bool again; /* the key was given the name before */
	struct tokens_terms terms; /* of its token */
	/* the use of the token; its token is "" if the token has no limit */
	struct joins_entry use;
	/* Signed, waiting for the disk, or for the other replicas to know it. */
	struct ledger_write *write;
	struct share_claim *claim;
	bool recorded; /* the certificate is recorded before the claim */
	char *cert, *parent;
};

static struct registry *
join_registry(const struct join_config *config)
{
	return ledger_registry(certs_ledger(config->certs));
}

static int64_t
now_s(void)
{
	return (int64_t)(wall_ms() / 1000);
}

/* --- refusals ------------------------------------------------------------------------------- */

static const char *const reasons[JOIN_REASONS] = {
	[JOIN_TOKEN] = "token",
	[JOIN_USED_UP] = "used up",
	[JOIN_TAKEN] = "name taken",
	[JOIN_BARRED] = "not an edge node",
	[JOIN_OTHER] = "other",
};

const char *
join_reason_text(enum join_reason reason)
{
	return reasons[reason];
}

static void
note_refusal(struct join_stats *stats, const char *node, const char *peer, enum join_reason reason,
	const char *why)
{
	stats->refused[reason]++;
	snprintf(stats->last_node, sizeof stats->last_node, "%s", node);
	snprintf(stats->last_peer, sizeof stats->last_peer, "%s", peer);
	snprintf(stats->last_why, sizeof stats->last_why, "%s", why);
	stats->last_s = now_s();
	log_limited(LOG_LEVEL_WARN, 20, "hub", "join refused node=%s peer=%s reason=\"%s\"", node,
		peer, why);
}

static int
join_bars(const struct join_config *config, const char *node, struct err *err)
{
	return config->bars != NULL ? config->bars(config->bars_arg, node, err) : 0;
}

/* Checks only the token, because a node without a valid one must learn nothing else; which key asks
 * is known only later. */
int
join_allow(const struct join_config *config, const char *node, const char *secret,
	const char *peer_name, const char *address)
{
	struct tokens_terms terms;
	struct err err = {0};

	if (config->held) /* the node will try again soon */
		return 503;
	if (strcmp(peer_name, node) == 0)
		return 0;
	if (config->approvals != NULL && strcmp(secret, MESH_APPROVAL) == 0)
		terms.any_name = true;
	else if (tokens_check(join_registry(config), secret, node, now_s(), &terms, &err) < 0) {
		note_refusal(config->stats, node, address, JOIN_TOKEN, err.text);
		return 401;
	}
	/* The node will try again soon. */
	return terms.any_name && join_bars(config, node, &err) == -EAGAIN ? 503 : 0;
}

static void
on_timeout(void *arg)
{
	struct join *j = arg;

	ws_close(j->conn, 1008,
		j->claim != NULL           ? "the hub's API server does not answer"
			: j->write != NULL ? "the hub's disk does not answer"
					   : "no certificate request came");
}

struct join *
join_new(const struct join_config *config, struct ws_conn *conn, const char *node,
	const char *secret, const char *peer_name)
{
	struct join *j = xcalloc(1, sizeof *j);

	j->config = *config;
	j->conn = conn;
	j->node = xstrdup(node);
	j->secret = xstrdup(secret);
	j->renews = strcmp(peer_name, node) == 0;
	j->timer = timer_new(config->loop, on_timeout, j);
	timer_start(j->timer, JOIN_TIMEOUT_MS, 0);
	return j;
}

void
join_free(struct join **out)
{
	struct join *j = take_ptr(out);

	if (j == NULL)
		return;
	if (j->config.share != NULL)
		share_unclaim(j->config.share, &j->claim);
	ledger_let_go(&j->write);
	timer_free(&j->timer);
	free(j->node);
	free(j->secret);
	free(j->cert);
	free(j->parent);
	free(j);
}

const char *
join_node(const struct join *j)
{
	return j->node;
}

void
join_end(struct join *j, const char *why)
{
	if (j->answered)
		return;
	j->answered = true;
	ws_close(j->conn, 1008, why);
}

/* Sends the only response, then ends the connection. */
static void
join_send_answer(
	struct join *j, enum operation op, const char *parent, struct buf *content, const char *end)
{
	char id[37];
	auto_free char *resource = xasprintf("certificate/%s", j->node);
	const struct saying say = {
		.source = "edgeway-hub",
		.operation = op,
		.resource = resource,
		.parent = parent,
		.content = buf_str(content),
		.content_len = buf_len(content),
	};
	auto_buf struct buf b;

	envelope_new_id(id);
	buf_init(&b, BUF_UNLIMITED);
	envelope_say(&b, &say, id);
	ws_send(j->conn, buf_at(&b), buf_len(&b));
	j->answered = true;
	ws_close(j->conn, op == OP_ERROR ? 1008 : 1000, end);
}

static enum join_reason
reason_of(int rc)
{
	switch (rc) {
	case -EACCES:
		return JOIN_TOKEN;
	case -EDQUOT:
		return JOIN_USED_UP;
	case -EEXIST:
	case -EBUSY:
		return JOIN_TAKEN;
	case -EPERM:
	case -ENOENT:
		return JOIN_BARRED;
	default:
		return JOIN_OTHER;
	}
}

static void
join_send_refusal(struct join *j, const char *parent, int rc, const char *why)
{
	auto_buf struct buf c;

	note_refusal(j->config.stats, j->node, ws_peer_addr(j->conn), reason_of(rc), why);
	buf_init(&c, BUF_UNLIMITED);
	json_add_text(&c, why);
	join_send_answer(j, OP_ERROR, parent, &c, "refused");
}

struct request {
	char *csr;
};

static int
read_request(struct request *r, const char *json, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"csr", FIELD_TEXT, offsetof(struct request, csr), JOIN_CSR_MAX, NULL, NULL},
	};
	struct json j;
	int rc;

	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), r);
	rc = json_finish(&j, err);
	if (rc == 0 && r->csr == NULL)
		rc = err_set(err, EBADMSG, "no csr in the request");
	return rc;
}

/* Sends the certificate as the only response. */
static void
hand_out(struct join *j)
{
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	buf_adds(&c, "{\"cert\":");
	json_add_text(&c, j->cert);
	buf_adds(&c, ",\"ca\":");
	json_add_text(&c, certs_ca_pem(j->config.certs));
	buf_adds(&c, "}");
	j->config.stats->issued++;
	log_limited(LOG_LEVEL_INFO, 120, "hub", "node joined node=%s peer=%s renewed=%s", j->node,
		ws_peer_addr(j->conn), j->renews ? "yes" : "no");
	join_send_answer(j, OP_RESPONSE, j->parent, &c, "joined");
}

/* --- signing -------------------------------------------------------------------------------- */

static void on_claimed(void *join, int rc, const char *why);

static bool
join_is_limited(const struct join *j)
{
	return j->use.token[0] != '\0';
}

/* Gifts of a token are claimed: if two replicas give the same name, or the same use of a token, one
 * wins. */
static int
join_claim(struct join *j, struct err *err)
{
	struct ledger *ledger = certs_ledger(j->config.certs);
	struct share_wish wish = {
		.node = j->node,
		.recorded = j->recorded,
		.free_name = j->terms.any_name && !j->again,
		.uses = join_is_limited(j) ? j->terms.uses : 0,
		.join = j->use,
	};
	int rc = ledger_entry(ledger, &wish.entry, j->cert, err);

	/* If the node was revoked before, the claim also tells the replicas that the new serial
	 * number is valid. */
	if (rc == 0 && !j->recorded)
		rc = revoked_sign(ledger_registry(ledger), j->node, wish.entry.serial, err);
	if (rc == 0)
		j->claim = share_claim(j->config.share, &wish, on_claimed, j);
	return rc;
}

static void
join_on_written(void *arg, int rc)
{
	struct join *j = arg;
	struct err err = {0};

	j->write = NULL;
	if (j->answered)
		return;
	if (rc < 0)
		err_set(&err, rc, "cannot write the node's record under the hub's dataDir: %s",
			strerror(-rc));
	else if (j->config.share != NULL && j->recorded)
		rc = join_claim(j, &err);
	if (rc < 0)
		join_send_refusal(j, j->parent, rc, err.text);
	else if (j->claim == NULL)
		hand_out(j);
}

static int
join_record(struct join *j, struct err *err)
{
	const struct ledger_gift gift = {.loop = j->config.loop,
		.node = j->node,
		.cert_pem = j->cert,
		.use = join_is_limited(j) ? &j->use : NULL,
		.written = join_on_written,
		.arg = j};

	return ledger_give(certs_ledger(j->config.certs), &gift, &j->write, err);
}

static void
on_claimed(void *arg, int rc, const char *why)
{
	struct join *j = arg;
	struct err err = {0};

	j->claim = NULL;
	if (j->answered)
		return;
	if (rc < 0)
		err_set(&err, rc, "the name cannot be given: %.300s", why);
	else if (!j->recorded)
		rc = join_record(j, &err);
	if (rc < 0)
		join_send_refusal(j, j->parent, rc, err.text);
	else if (j->write == NULL)
		hand_out(j);
}

/* On this hub's disk, and then or before known to its replicas, before anybody has it. */
static int
join_sign(struct join *j, const char *csr, struct err *err)
{
	int rc = certs_issue(j->config.certs, j->node, csr, &j->cert, err);

	if (rc < 0)
		return rc;
	j->recorded = j->config.share == NULL || j->renews || j->again;
	return j->recorded ? join_record(j, err) : join_claim(j, err);
}

/* --- by a token ----------------------------------------------------------------------------- */

static int
judge_use(struct join *j, struct err *err)
{
	const struct registry *registry = join_registry(&j->config);
	bool taken = certs_taken(j->config.certs, j->node);

	/* A join that was interrupted before anybody knew its certificate may continue. A key that
	 * the node once had may not, nor a join from before the name was forgotten. */
	if (joins_has(registry, &j->use) ? !taken && !revoked_refuses(registry, j->node, "")
					 : joins_count(registry, j->use.token) < j->terms.uses)
		return 0;
	return err_set(err, EDQUOT,
		"the token %s is used up: make another one with `edgewayctl token create --node "
		"%s` on the hub, or bring back node.crt and node.key",
		j->terms.id, j->node);
}

static int
judge_name(const struct join *j, struct err *err)
{
	if (!j->terms.any_name)
		return 0;
	if (certs_taken(j->config.certs, j->node))
		return err_set(err, EEXIST,
			"the name %s holds a certificate already: make a token with `edgewayctl "
			"token "
			"create --node %s` on the hub, or bring back node.crt and node.key",
			j->node, j->node);
	return join_bars(&j->config, j->node, err);
}

/* The key that the name was given to gets it again, because its response may have been lost. */
static int
join_by_token(struct join *j, const char *csr, struct err *err)
{
	auto_free char *name = NULL;
	char key[PKI_HASH_TEXT];
	int rc = tokens_check(
		join_registry(&j->config), j->secret, j->node, now_s(), &j->terms, err);

	if (rc < 0) /* the token was revoked or expired after the upgrade */
		return err_wrap(err, rc, "not allowed any more");
	if ((rc = pki_csr_info(csr, &name, key, err)) < 0)
		return rc;
	if (j->config.share != NULL && share_claim_pends(j->config.share, j->node))
		return err_set(err, EAGAIN,
			"another request for this name waits for the hub's API server: try again");
	j->again = certs_given(j->config.certs, j->node, key, now_s(), &j->cert);
	if (j->cert != NULL)
		return 0;
	if (j->terms.uses > 0 && !j->again) {
		memcpy(j->use.token, j->terms.id, sizeof j->use.token);
		ledger_short_key(j->use.key, key);
		snprintf(j->use.node, sizeof j->use.node, "%s", j->node);
		j->use.until_s = j->terms.expires_s;
		if ((rc = judge_use(j, err)) < 0)
			return rc;
	}
	if (!j->again && (rc = judge_name(j, err)) < 0)
		return rc;
	return join_sign(j, csr, err);
}

/* A node without a token: an operator decides, and the node connects again later. */
static int
ask_approval(struct join *j, const char *csr, const char *parent, struct err *err)
{
	struct approval_answer said;
	auto_buf struct buf c;

	buf_init(&c, BUF_UNLIMITED);
	approvals_ask(j->config.approvals, j->node, ws_peer_addr(j->conn), csr, &said);
	if (said.result == APPROVAL_REFUSED)
		return err_set(err, EACCES, "%s", said.why);
	if (said.result == APPROVAL_GIVEN) {
		j->cert = said.cert;
		return 0;
	}
	buf_printf(&c, "{\"pending\":\"%s\"}", said.name);
	join_send_answer(j, OP_RESPONSE, parent, &c, "pending");
	return 0;
}

static bool
needs_approval(const struct join *j)
{
	return j->config.approvals != NULL && !j->renews && strcmp(j->secret, MESH_APPROVAL) == 0;
}

static int
take_request(struct join *j, const struct envelope *e, struct err *err)
{
	auto_free char *want = xasprintf("certificate/%s", j->node);
	struct request r = {0};
	int rc;

	if (e->operation != OP_INSERT || strcmp(e->resource, want) != 0)
		return err_set(err, EBADMSG, "expected insert %s", want);
	if (j->cert != NULL)
		return err_set(err, EBADMSG, "one request is enough");
	/* What the certificate proved when the connection was opened is asked again. */
	if (j->renews && certs_refuses(j->config.certs, j->node, ws_peer_serial(j->conn)))
		return err_set(err, EACCES, "the certificate of this node was revoked");
	rc = read_request(&r, e->content, e->content_len, err);
	if (rc == 0 && needs_approval(j))
		rc = ask_approval(j, r.csr, e->id, err);
	else if (rc == 0 && ledger_gives(certs_ledger(j->config.certs), j->node))
		rc = err_set(err, EAGAIN,
			"another request for this name waits for the hub's disk: try again");
	else if (rc == 0)
		rc = j->renews ? join_sign(j, r.csr, err) : join_by_token(j, r.csr, err);
	free(r.csr);
	return rc;
}

void
join_text(struct join *j, const char *text, size_t len)
{
	struct envelope e;
	struct err err = {0};
	int rc;

	if (j->answered)
		return;
	rc = envelope_parse(&e, text, len, &err);
	if (rc < 0 && rc != -EOPNOTSUPP) {
		join_send_refusal(j, "", rc, err.text);
		return;
	}
	if (rc < 0 || (rc = take_request(j, &e, &err)) < 0) {
		join_send_refusal(j, e.id, rc, err.text);
	} else {
		j->parent = xstrdup(e.id);
		if (j->claim == NULL && j->write == NULL && !j->answered)
			hand_out(j);
	}
	envelope_fini(&e);
}
