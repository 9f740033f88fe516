#include "hub/join.h"

#include <errno.h>

#include "base/log.h"
#include "model/envelope.h"
#include "model/json.h"
#include "model/mesh.h"

struct join {
	struct join_config config;
	struct ws_conn *conn;
	struct timer *timer;
	char *node, *secret;
	bool renews; /* the connection shows a certificate of this very name */
	bool answered;
	/* Signed, and waiting for the other replicas to know. */
	struct share_claim *claim;
	bool exclusive;
	char *cert, *parent;
};

static int64_t
now_s(void)
{
	return (int64_t)(wall_ms() / 1000);
}

int
join_allow(const struct join_config *config, const char *node, const char *secret,
	const char *peer_name, const char *address)
{
	struct err err = {0};
	int rc;

	if (strcmp(peer_name, node) == 0 ||
		(config->approvals != NULL && strcmp(secret, MESH_APPROVAL) == 0))
		return 0;
	rc = tokens_check(
		config->tokens, secret, node, certs_taken(config->certs, node), now_s(), &err);
	if (rc == 0)
		return 0;
	config->stats->refused++;
	log_limited(LOG_LEVEL_WARN, 20, "hub", "join refused node=%s peer=%s reason=\"%s\"", node,
		address, err.text);
	return rc == -EEXIST ? 403 : 401;
}

static void
on_timeout(void *arg)
{
	struct join *j = arg;

	ws_close(j->conn, 1008,
		j->claim != NULL ? "the hub's API server does not answer"
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
	j->answered = true;
	ws_close(j->conn, 1008, why);
}

/* The one answer, then the end. */
static void
answer(struct join *j, enum operation op, const char *parent, struct buf *content, const char *end)
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

static void
refuse(struct join *j, const char *parent, const char *why)
{
	auto_buf struct buf c;

	j->config.stats->refused++;
	log_limited(LOG_LEVEL_WARN, 20, "hub", "join failed node=%s peer=%s reason=\"%s\"", j->node,
		ws_peer_addr(j->conn), why);
	buf_init(&c, BUF_UNLIMITED);
	json_add_text(&c, why);
	answer(j, OP_ERROR, parent, &c, "refused");
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

/* With the answer, the conversation is over. */
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
	log_info("hub", "node joined node=%s peer=%s renewed=%s", j->node, ws_peer_addr(j->conn),
		j->renews ? "yes" : "no");
	answer(j, OP_RESPONSE, j->parent, &c, "joined");
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
	else if (j->exclusive)
		rc = ledger_record(certs_ledger(j->config.certs), j->node, j->cert, &err);
	if (rc < 0)
		refuse(j, j->parent, err.text);
	else
		hand_out(j);
}

/* Where there are replicas the certificate waits until they know, in the case of a name that a token for any
 * name gets until it is sure that none of them has given it. */
static int
sign(struct join *j, const char *csr, struct err *err)
{
	struct roll_entry entry;
	int rc = certs_issue(j->config.certs, j->node, csr, &j->cert, err);

	j->exclusive = j->config.share != NULL && !j->renews &&
		tokens_serves_any(j->config.tokens, j->secret);
	if (rc == 0 && !j->exclusive)
		rc = ledger_record(certs_ledger(j->config.certs), j->node, j->cert, err);
	if (rc == 0)
		rc = ledger_entry(&entry, j->cert, err);
	if (rc == 0 && j->config.share != NULL)
		j->claim =
			share_claim(j->config.share, j->node, &entry, j->exclusive, on_claimed, j);
	return rc;
}

/* Whoever has no token: an operator decides, and the node comes again. */
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
	answer(j, OP_RESPONSE, parent, &c, "pending");
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
	/* Again, now that it counts: two strangers may have come with one name, or the token has gone. */
	if (!j->renews && !needs_approval(j) &&
		(rc = tokens_check(j->config.tokens, j->secret, j->node,
			 certs_taken(j->config.certs, j->node), now_s(), err)) < 0)
		return err_wrap(err, rc, "not allowed any more");
	rc = read_request(&r, e->content, e->content_len, err);
	if (rc == 0)
		rc = needs_approval(j) ? ask_approval(j, r.csr, e->id, err) : sign(j, r.csr, err);
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
		refuse(j, "", err.text);
		return;
	}
	if (rc < 0 || take_request(j, &e, &err) < 0) {
		refuse(j, e.id, err.text);
	} else {
		j->parent = xstrdup(e.id);
		if (j->claim == NULL && !j->answered)
			hand_out(j);
	}
	envelope_fini(&e);
}
