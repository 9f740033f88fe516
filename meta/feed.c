#include "meta/feed.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/resolve.h"
#include "base/ws.h"
#include "meta/apply.h"
#include "meta/join.h"
#include "meta/message.h"
#include "model/json.h"

enum {
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MOST_MS = 30 * 1000,
	BACKOFF_RESET_MS = 30 * 1000, /* a connection that lasted this long was a good one */
	REFUSED_MS = 30 * 1000, /* the hub said no: somebody must do something first */
	GREETING_MS = 15 * 1000,
	CHECK_MS = 5 * 60 * 1000,
	CHECK_AGAIN_MS = 10 * 1000, /* after an error in a comparison */
	ADDRS_MAX = 8,
	ERRORS_MAX = 64, /* messages on one connection that we did not understand: more is no hub */
	HIGH_WATER = 1024 * 1024,
};

enum state { WAITING, RESOLVING, DIALLING, GREETING, SYNCING, SYNCED };

struct place { /* where a hub may be */
	char *url;
	struct message_url at;
	char *last_good;
};

struct feed {
	struct loop *loop;
	struct apply *apply;
	char *node, *node_id, *cluster_domain;
	struct join_files files;
	struct join_token token;
	bool has_token;
	struct identity identity; /* empty until joined */
	char *joining_key, *join_ca;
	struct ssl_ctx_st *tls, *join_tls;
	struct ws *ws;
	struct resolve *resolve;
	struct timer *retry, *check;

	enum state state;
	struct place *places;
	size_t n_places, place;
	struct addr addrs[ADDRS_MAX];
	size_t n_addrs, addr;
	struct ws_conn *conn;
	unsigned connection; /* number of the present one */
	bool joining, denied;
	bool stopping;
	unsigned n_errors;
	uint64_t backoff_ms, opened_ms, last_contact_ms;
	char query[37]; /* id of the comparison under way, "" none */
	bool query_detail;
	char error[256];
	char address[ADDR_TEXT_MAX];
	uint64_t connects, failures, messages, refused, acks;
};

static void dial(struct feed *f);

/* --- sending -------------------------------------------------------------------------------------- */

static void
send_message(struct feed *f, const struct message *m, char id[37])
{
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	message_build(&out, m, id);
	if (f->conn != NULL)
		ws_send(f->conn, buf_at(&out), buf_len(&out));
}

static void
send_error(struct feed *f, const struct envelope *e, const char *reason)
{
	auto_buf struct buf text;
	struct message m = {.operation = OP_ERROR,
		.resource = e != NULL ? e->resource : "",
		.parent = e != NULL ? e->id : ""};

	buf_init(&text, BUF_UNLIMITED);
	json_add_text(&text, reason);
	m.content = buf_str(&text);
	send_message(f, &m, NULL);
	f->refused++;
	log_limited(LOG_LEVEL_WARN, 10, "meta",
		"refused a message of the hub resource=\"%s\" reason=\"%s\"", m.resource, reason);
	if (++f->n_errors > ERRORS_MAX && f->conn != NULL)
		ws_close(f->conn, 1008, "too many messages that are not understood");
}

void
feed_ack(struct feed *f, unsigned connection, const char *id, const char *resource)
{
	struct message m = {.operation = OP_RESPONSE, .resource = resource, .parent = id};

	if (f->conn == NULL || connection != f->connection || f->state < SYNCING)
		return;
	send_message(f, &m, NULL);
	f->acks++;
}

static void
compare(struct feed *f)
{
	auto_buf struct buf content;
	struct message m = {.operation = OP_QUERY, .resource = "digest/buckets", .parent = ""};
	struct digests d;

	if (f->state < SYNCING)
		return;
	buf_init(&content, BUF_UNLIMITED);
	apply_digests(f->apply, &d);
	digests_build(&content, &d);
	m.content = buf_str(&content);
	send_message(f, &m, f->query);
	f->query_detail = false;
	timer_start(f->check, CHECK_MS, 0);
}

void
feed_resync(struct feed *f)
{
	compare(f);
}

static void
send_detail(struct feed *f, const bool want[DIGEST_BUCKETS])
{
	auto_buf struct buf content;
	struct message m = {.operation = OP_QUERY, .resource = "digest/services", .parent = ""};
	struct digest_entry *entries;
	size_t n;

	buf_init(&content, BUF_UNLIMITED);
	apply_entries(f->apply, want, &entries, &n);
	digest_entries_build(&content, want, entries, n);
	digest_entries_free(&entries, n);
	m.content = buf_str(&content);
	send_message(f, &m, f->query);
	f->query_detail = true;
}

/* --- receiving ------------------------------------------------------------------------------------ */

static void
remember_address(struct feed *f)
{
	struct place *p = &f->places[f->place];
	auto_free char *key = xasprintf("address %s", p->url);

	if (p->last_good != NULL && strcmp(p->last_good, f->address) == 0)
		return;
	free(p->last_good);
	p->last_good = xstrdup(f->address);
	apply_note(f->apply, key, f->address);
}

static void
on_hello(struct feed *f, const struct envelope *e)
{
	struct message_hello hello;
	struct err err;

	if (message_hello(&hello, e->content, e->content_len, &err) < 0) {
		send_error(f, e, err.text);
		return;
	}
	if (hello.cluster_domain[0] != '\0' &&
		strcasecmp(hello.cluster_domain, f->cluster_domain) != 0)
		log_warn("meta", "the hub has another cluster domain than this node hub=%s here=%s",
			hello.cluster_domain, f->cluster_domain);
	log_info("meta", "connected to the hub url=%s address=%s version=\"%s\"",
		f->places[f->place].url, f->address, hello.hub);
	remember_address(f);
	apply_identity(f->apply, hello.site, hello.zone);
	if (f->state == GREETING)
		f->state = SYNCING;
	compare(f);
}

static void
on_synced(struct feed *f)
{
	if (f->state == SYNCING)
		log_info("meta", "in step with the hub services=%zu",
			snapshot_count(apply_snapshot(f->apply)));
	f->state = SYNCED;
	f->query[0] = '\0';
	apply_synced(f->apply);
}

static void
on_response(struct feed *f, const struct envelope *e)
{
	bool want[DIGEST_BUCKETS] = {false};
	struct err err;

	if (f->query[0] == '\0' || strcmp(e->parent_id, f->query) != 0)
		return; /* an answer to an older comparison */
	if (f->query_detail) {
		if (message_says_synced(e->content, e->content_len))
			on_synced(f);
		return;
	}
	if (digest_want_parse(want, e->content, e->content_len, &err) < 0) {
		send_error(f, e, err.text);
		return;
	}
	if (memchr(want, true, sizeof(want)) == NULL)
		on_synced(f);
	else
		send_detail(f, want);
}

static void
on_change(struct feed *f, const struct envelope *e)
{
	struct message_service s;
	struct apply_message m = {.connection = f->connection,
		.id = e->id,
		.resource = e->resource,
		.ns = s.ns,
		.name = s.name};
	struct err err = {0};

	if (e->operation != OP_DELETE) {
		m.view = e->content;
		m.len = e->content_len;
	}
	if (message_service(&s, e->resource, &err) < 0 || apply_change(f->apply, &m, &err) < 0)
		send_error(f, e, err.text);
}

static void
on_error(struct feed *f, const struct envelope *e)
{
	log_limited(LOG_LEVEL_WARN, 10, "meta",
		"the hub refused a message resource=\"%s\" reason=%.200s", e->resource, e->content);
	if (f->query[0] != '\0' && strcmp(e->parent_id, f->query) == 0)
		timer_start(f->check, CHECK_AGAIN_MS, 0);
}

static void
on_event(struct feed *f, const struct envelope *e)
{
	bool service = strstr(e->resource, "/service/") != NULL;

	if (e->operation == OP_KEEPALIVE)
		return;
	if (e->operation == OP_INSERT && strcmp(e->resource, "node/hello") == 0)
		on_hello(f, e);
	else if (f->state < SYNCING)
		send_error(f, e, "hello must come first");
	else if (e->operation == OP_RESPONSE)
		on_response(f, e);
	else if (e->operation == OP_ERROR)
		on_error(f, e);
	else if (service &&
		(e->operation == OP_UPDATE || e->operation == OP_INSERT ||
			e->operation == OP_DELETE))
		on_change(f, e);
	else
		send_error(f, e, "operation or resource is not known to this agent");
}

/* --- joining -------------------------------------------------------------------------------------- */

static int
use_identity(struct feed *f, struct err *err)
{
	return pki_client_ctx(f->identity.ca, f->identity.cert, f->identity.key, &f->tls, err);
}

static void
on_join_answer(struct feed *f, const struct envelope *e)
{
	struct join_answer answer = {.json = e->content,
		.len = e->content_len,
		.node = f->node,
		.ca_hash = f->token.ca_hash,
		.key_pem = f->joining_key};
	struct err err = {0};
	int rc;

	if (e->operation == OP_ERROR) {
		f->denied = true;
		err_set(&err, EPERM, "the hub refused to sign: %.200s", e->content);
		rc = -EPERM;
	} else {
		rc = join_accept(&f->files, &answer, &f->identity, &err);
		if (rc == 0 && (rc = use_identity(f, &err)) < 0)
			identity_fini(&f->identity);
	}
	if (rc == 0)
		log_info("meta", "joined: the hub signed this node's certificate node=%s file=%s",
			f->node, f->files.cert);
	else
		log_error("meta", "cannot join node=%s error=\"%s\"", f->node, err.text);
	ws_close(f->conn, 1000, rc == 0 ? "joined" : "cannot join");
}

static void
send_request(struct feed *f)
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
	send_message(f, &m, f->query);
}

static int
prepare_join(struct feed *f, struct err *err)
{
	int rc = 0;

	if (f->joining_key == NULL)
		rc = join_key(&f->files, &f->joining_key, err);
	if (rc == 0 && f->join_tls == NULL)
		rc = pki_join_ctx(f->token.ca_hash, &f->join_ca, &f->join_tls, err);
	return rc;
}

/* --- the connection ------------------------------------------------------------------------------- */

static void
retry_later(struct feed *f, uint64_t least_ms)
{
	uint64_t random;

	random_bytes(&random, sizeof(random));
	f->state = WAITING;
	f->n_addrs = 0;
	timer_cancel(f->check);
	timer_start(f->retry, least_ms + random % (f->backoff_ms + 1), 0);
	f->backoff_ms = MIN(f->backoff_ms * 2, BACKOFF_MOST_MS);
	f->place = (f->place + 1) % f->n_places;
}

static void
note_failure(struct feed *f, const char *why)
{
	f->failures++;
	snprintf(f->error, sizeof(f->error), "%s", why);
	log_limited(LOG_LEVEL_WARN, 6, "meta",
		"cannot connect to the hub; trying again url=%s error=\"%s\"",
		f->places[f->place].url, why);
}

static void
on_host(void *arg, int status, const struct addr *addrs, size_t n)
{
	struct feed *f = arg;
	struct place *p = &f->places[f->place];
	struct err err;

	if (f->stopping || status == -ECANCELED)
		return;
	f->addr = 0;
	f->n_addrs = 0;
	if (status == 0) {
		f->n_addrs = MIN(n, (size_t)ADDRS_MAX);
		memcpy(f->addrs, addrs, f->n_addrs * sizeof(*addrs));
	} else if (p->last_good != NULL &&
		addr_parse(&f->addrs[0], p->last_good, p->at.port, &err) == 0) {
		log_limited(LOG_LEVEL_WARN, 6, "meta",
			"cannot resolve the hub's name; trying its last address host=%s address=%s "
			"error=\"%s\"",
			p->at.host, p->last_good, strerror(-status));
		f->n_addrs = 1;
	}
	if (f->n_addrs == 0) {
		note_failure(f,
			status == 0 ? "the hub's name has no address"
				    : "cannot resolve the hub's name");
		retry_later(f, 0);
		return;
	}
	dial(f);
}

static void
on_retry(void *arg)
{
	struct feed *f = arg;
	const struct place *p = &f->places[f->place];

	f->state = RESOLVING;
	resolve_host(f->resolve, p->at.host, p->at.port, on_host, f);
}

static void
dial(struct feed *f)
{
	auto_free char *path = NULL, *first = NULL;
	const char *headers[] = {NULL, "project_id: " MESH_PROJECT, "connectionuse: msg",
		"edgeway-version: 1", NULL};
	struct ws_dial d = {.addr = f->addrs[f->addr++],
		.host = f->places[f->place].at.host,
		.headers = headers,
		.arg = f};
	struct err err = {0};

	f->joining = f->tls == NULL;
	f->denied = false;
	f->state = DIALLING;
	path = xasprintf("/%s/%s/%s", MESH_PROJECT, f->node, f->joining ? "join" : "events");
	if (f->joining) {
		first = xasprintf("authorization: Bearer %s", f->token.secret);
		headers[1] = NULL;
	} else {
		first = xasprintf("node_id: %s", f->node_id);
	}
	headers[0] = first;
	d.path = path;
	addr_text(&d.addr, f->address);
	if (!f->joining || prepare_join(f, &err) == 0) {
		d.tls = f->joining ? f->join_tls : f->tls;
		f->connection++;
		f->conn = ws_dial(f->ws, &d, &err);
	}
	if (f->conn == NULL) {
		note_failure(f, err.text);
		retry_later(f, 0);
	}
}

static void
on_open(void *arg, struct ws_conn *c)
{
	struct feed *f = arg;

	assert(c == f->conn);
	f->state = GREETING;
	f->opened_ms = f->last_contact_ms = loop_now_ms(f->loop);
	f->connects++;
	f->n_errors = 0;
	f->query[0] = f->error[0] = '\0';
	timer_start(f->check, GREETING_MS, 0);
	if (f->joining)
		send_request(f);
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct feed *f = arg;
	struct envelope e = {0};
	struct err err;
	int rc;

	if (c != f->conn)
		return;
	f->messages++;
	f->last_contact_ms = loop_now_ms(f->loop);
	rc = envelope_parse(&e, text, len, &err);
	if (rc < 0) /* of one with an operation that is not known here the rest can be read */
		send_error(f, rc == -EOPNOTSUPP ? &e : NULL, err.text);
	else if (!f->joining)
		on_event(f, &e);
	else if (f->tls == NULL && strcmp(e.parent_id, f->query) == 0)
		on_join_answer(f, &e);
	envelope_fini(&e);
}

/* The greeting did not come, or it is time to compare. */
static void
on_check(void *arg)
{
	struct feed *f = arg;

	if (f->state == GREETING && f->conn != NULL)
		ws_close(f->conn, 1002, "no greeting");
	else
		compare(f);
}

/* The hub answered, and said no: words that tell what to do about it. */
static const char *
remedy(const struct feed *f, const char *why)
{
	if (strstr(why, "status 401") != NULL)
		return "the hub refused the token (wrong or expired): make one with `edgewayctl "
		       "token create` on the "
		       "hub and set hub.token";
	if (strstr(why, "status 403") != NULL && f->joining)
		return "the hub has a certificate for this node's name already: make a token with "
		       "`edgewayctl token "
		       "create --node NAME` on the hub, or bring back node.crt and node.key";
	if (strstr(why, "status 403") != NULL)
		return "the hub refused this node's certificate: its name is not the node's, or it "
		       "was revoked; join "
		       "again with a token";
	return NULL;
}

static void
on_closed(void *arg, struct ws_conn *c, const char *why)
{
	struct feed *f = arg;
	bool was_open = f->state >= GREETING, joined = f->joining && f->tls != NULL;
	const char *advice = was_open ? NULL : remedy(f, why);

	if (c != f->conn)
		return;
	f->conn = NULL;
	if (f->stopping)
		return;
	if (was_open && !f->joining && loop_now_ms(f->loop) - f->opened_ms >= BACKOFF_RESET_MS)
		f->backoff_ms = BACKOFF_FIRST_MS;
	if (joined) {
		f->state = WAITING;
		f->backoff_ms = BACKOFF_FIRST_MS;
		timer_cancel(f->check);
		timer_start(f->retry, 0, 0);
	} else if (advice != NULL || f->denied) {
		note_failure(
			f, advice != NULL ? advice : "the hub refused to sign the certificate");
		retry_later(f, REFUSED_MS);
	} else if (was_open) {
		log_warn("meta",
			"lost the connection to the hub; serving what is known url=%s why=\"%s\"",
			f->places[f->place].url, why);
		snprintf(f->error, sizeof(f->error), "%s", why);
		retry_later(f, 0);
	} else if (f->addr < f->n_addrs) {
		note_failure(f, why);
		dial(f);
	} else {
		note_failure(f, why);
		retry_later(f, 0);
	}
}

static const struct ws_events events = {.open = on_open, .text = on_text, .closed = on_closed};

/* --- beginning and end ---------------------------------------------------------------------------- */

static int
take_urls(struct feed *f, const struct feed_config *config, struct err *err)
{
	size_t n = 0;
	int rc;

	while (config->urls != NULL && config->urls[n] != NULL)
		n++;
	if (n == 0)
		return err_set(err, EINVAL, "hub.url is empty");
	f->places = xcalloc(n, sizeof(*f->places));
	f->n_places = n;
	for (size_t i = 0; i < n; i++) {
		struct place *p = &f->places[i];

		p->url = xstrdup(config->urls[i]);
		if (config->last_good != NULL && config->last_good[i] != NULL)
			p->last_good = xstrdup(config->last_good[i]);
		if ((rc = message_url(&p->at, p->url, err)) < 0)
			return rc;
		if (message_inside(p->at.host, f->cluster_domain))
			return err_set(err, EINVAL,
				"hub.url %s: the name lies inside the cluster domain %s, which "
				"only the mesh could "
				"answer: give a name of the network's own DNS or an address",
				p->url, f->cluster_domain);
	}
	return 0;
}

/* What the operator should know when both are there: the certificate of an earlier join is used. */
static void
compare_token(const struct feed *f)
{
	char hash[PKI_HASH_TEXT];

	if (f->has_token && pki_cert_hash(f->identity.ca, hash, NULL) == 0 &&
		!pki_equal(hash, f->token.ca_hash))
		log_warn("meta",
			"hub.token is of another CA than the one this node joined; the certificate "
			"of before is used: "
			"to join anew remove %s, %s and %s",
			f->files.ca, f->files.cert, f->files.key);
}

static int
take_identity(struct feed *f, const struct feed_config *config, struct err *err)
{
	struct err why = {0};
	int rc;

	if (config->token[0] != '\0') {
		if ((rc = join_token_parse(&f->token, config->token, err)) < 0)
			return rc;
		f->has_token = true;
	}
	join_files_init(&f->files, config->data_dir, config->ca, config->cert, config->key);
	rc = join_load(&f->files, f->node, &f->identity, &why);
	if (rc == 0) {
		compare_token(f);
		return use_identity(f, err);
	}
	if (rc == -EPERM) /* another node's: never thrown away without being asked */
		return err_set(err, EPERM, "%s", why.text);
	if (f->has_token) {
		log_info("meta",
			"no certificate that can be used; joining with the token reason=\"%s\"",
			why.text);
		return 0;
	}
	if (rc != -ENOENT)
		return err_set(err, rc, "%s", why.text);
	return err_set(err, ENOENT,
		"neither a token nor a certificate: make a token with `edgewayctl token create` on "
		"the hub and set "
		"hub.token, or set hub.ca, hub.cert and hub.key (%s)",
		why.text);
}

static int
open_tools(struct feed *f, const struct feed_config *config, struct err *err)
{
	const struct ws_config ws = {.events = &events,
		.arg = f,
		.heartbeat_ms = config->heartbeat_ms,
		.message_limit = ENVELOPE_MAX_BYTES,
		.high_water = HIGH_WATER};
	const struct resolve_config resolve = {.servers = config->upstreams,
		.n_servers = config->n_upstreams,
		.timeout_ms = 1000,
		.tries = 2,
		.mark = config->mark};
	int rc = ws_new(&f->ws, f->loop, &ws, err);

	return rc < 0 ? rc : resolve_new(&f->resolve, f->loop, &resolve, err);
}

int
feed_new(struct feed **out, const struct feed_config *config, struct err *err)
{
	struct feed *f = xcalloc(1, sizeof(*f));
	int rc;

	f->loop = config->loop;
	f->apply = config->apply;
	f->node = xstrdup(config->node);
	f->node_id = xstrdup(config->node_id[0] != '\0' ? config->node_id : config->node);
	f->cluster_domain = xstrdup(config->cluster_domain);
	f->backoff_ms = BACKOFF_FIRST_MS;
	f->retry = timer_new(f->loop, on_retry, f);
	f->check = timer_new(f->loop, on_check, f);
	rc = take_urls(f, config, err);
	if (rc == 0)
		rc = take_identity(f, config, err);
	if (rc == 0)
		rc = open_tools(f, config, err);
	if (rc < 0)
		feed_free(&f);
	else
		timer_start(f->retry, 0, 0);
	*out = f;
	return rc;
}

void
feed_free(struct feed **out)
{
	struct feed *f = *out; /* nulled at the end: closing calls back */

	if (f == NULL)
		return;
	f->stopping = true;
	timer_free(&f->retry);
	timer_free(&f->check);
	resolve_free(&f->resolve);
	ws_free(&f->ws);
	pki_ctx_free(&f->tls);
	pki_ctx_free(&f->join_tls);
	identity_fini(&f->identity);
	join_files_fini(&f->files);
	for (size_t i = 0; i < f->n_places; i++) {
		free(f->places[i].url);
		free(f->places[i].last_good);
	}
	free(f->places);
	free(f->joining_key);
	free(f->join_ca);
	free(f->node);
	free(f->node_id);
	free(f->cluster_domain);
	free(f);
	*out = NULL;
}

struct feed_status
feed_status(const struct feed *f)
{
	bool connected = f->conn != NULL && f->state >= GREETING && !f->joining;

	return (struct feed_status){
		.connected = connected,
		.synced = f->state == SYNCED,
		.joined = f->tls != NULL,
		.url = f->places[f->place].url,
		.address = connected ? f->address : "",
		.error = f->error,
		.certificate_not_after = f->identity.not_after,
		.last_contact_ms = f->last_contact_ms,
		.connects = f->connects,
		.failures = f->failures,
		.messages = f->messages,
		.refused = f->refused,
		.acks = f->acks,
	};
}
