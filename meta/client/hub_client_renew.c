#include "meta/client/hub_client_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/core/log.h"
#include "base/tls/pki_tickets.h"

enum {
	TICK_LEAST_MS = 500,
	TICK_MOST_MS = 60 * 1000,
	ANSWER_MS = 20 * 1000, /* from dialling to the certificate */
	WAIT_FIRST_MS = 5 * 1000,
	WAIT_MOST_MS = 60 * 60 * 1000,
	BUNDLE_MS = 2000, /* all nodes learn of a new CA at once: they ask spread over this time */
	/* at most between two attempts: without the new CA the next step disconnects this node */
	BUNDLE_AGAIN_MS = 30 * 1000,
	NOTE_S = 24 * 3600, /* the time is stored this often while connected */
};

int64_t
hub_client_now_s(const struct hub_client *f)
{
	return MAX((int64_t)time(NULL), f->floor_s);
}

bool
hub_client_expired(const struct hub_client *f)
{
	return f->tls != NULL && hub_client_now_s(f) >= f->identity.not_after;
}

/* Two thirds of its lifetime, and up to a twentieth later, so that nodes that joined together do
 * not renew together. */
static int64_t
due_time(const struct identity *id)
{
	int64_t life = MAX(id->not_after - id->not_before, (int64_t)1);
	uint64_t random;

	random_bytes(&random, sizeof(random));
	return id->not_before + life / 3 * 2 + (int64_t)(random % ((uint64_t)life / 20 + 1));
}

/* The wall clock is checked repeatedly, since it may jump; more often if the lifetime is short. */
static uint64_t
tick_ms(const struct hub_client *f)
{
	int64_t life_ms = (f->identity.not_after - f->identity.not_before) * 1000;

	return (uint64_t)MIN(MAX(life_ms / 40, (int64_t)TICK_LEAST_MS), (int64_t)TICK_MOST_MS);
}

void
hub_client_raise_floor(struct hub_client *f, int64_t floor_s)
{
	f->floor_s = MAX(f->floor_s, floor_s);
	if (f->tls != NULL)
		pki_ctx_floor(f->tls, f->floor_s);
	if (f->join_tls != NULL)
		pki_ctx_floor(f->join_tls, f->floor_s);
}

int
hub_client_use_identity(struct hub_client *f, struct identity *id, struct err *err)
{
	struct ssl_ctx_st *tls = NULL;
	int rc = pki_client_ctx(id->ca, id->cert, id->key, &tls, err);

	if (rc < 0) {
		identity_fini(id);
		return rc;
	}
	identity_fini(&f->identity);
	pki_ctx_free(&f->tls); /* connections keep a reference */
	f->identity = *id;
	*id = (struct identity){0};
	f->tls = tls;
	pki_tickets_keep(tls);
	ca_list_of(f->cas, f->identity.ca, f->identity.cert);
	hub_client_use_refused(f, tls);
	f->unwanted = false;
	hub_client_raise_floor(f, MAX(f->identity.not_before, f->identity.ca_begins));
	f->renewal.due_s = due_time(&f->identity);
	f->renewal.wait_ms = WAIT_FIRST_MS;
	timer_start(f->renewal.tick, tick_ms(f), tick_ms(f));
	f->certificates++;
	hub_client_tell_hub(f);
	return 0;
}

void
hub_client_note_time(struct hub_client *f, uint64_t hub_ms)
{
	/* Both clocks must have reached it: neither alone may set a lower bound in a future where
	 * everything has expired. */
	int64_t now_s = MIN((int64_t)(hub_ms / 1000), (int64_t)time(NULL));
	auto_free char *text = NULL;

	if (now_s < f->floor_s + NOTE_S)
		return;
	text = xasprintf("%lld", (long long)now_s);
	apply_note(f->apply, "time", text);
	hub_client_raise_floor(f, now_s);
}

/* --- renewing ------------------------------------------------------------------------------- */

static void
put_off(struct hub_client *f, const char *why)
{
	struct renewal *r = &f->renewal;
	uint64_t random;

	random_bytes(&random, sizeof(random));
	if (r->bundle)
		r->wait_ms = MIN(r->wait_ms, (uint64_t)BUNDLE_AGAIN_MS);
	r->next_ms = loop_now_ms(f->loop) + r->wait_ms / 2 + random % (r->wait_ms / 2 + 1);
	r->wait_ms = MIN(r->wait_ms * 2, (uint64_t)WAIT_MOST_MS);
	r->failures++;
	if (r->bundle)
		timer_start(r->tick, r->next_ms - loop_now_ms(f->loop) + 1, tick_ms(f));
	snprintf(r->error, sizeof(r->error), "%s", why);
	log_limited(LOG_LEVEL_WARN, 6, "meta",
		"cannot renew the certificate; trying again, the old one is used expires_in_s=%lld "
		"error=\"%s\"",
		(long long)(f->identity.not_after - hub_client_now_s(f)), why);
}

static void
hub_client_renew_begin(struct hub_client *f)
{
	struct renewal *r = &f->renewal;
	auto_free char *path = xasprintf("/%s/%s/join", MESH_PROJECT, f->node);
	const char *headers[] = {NULL};
	struct ws_dial d = {
		.addr = f->at, .path = path, .headers = headers, .tls = f->tls, .arg = f};
	struct err err = {0};
	int rc;

	hub_client_aim(f, &d);
	free(take_ptr(&r->key));
	r->started_ms = loop_now_ms(f->loop);
	r->done = false;
	rc = join_key_fresh(&f->files, JOIN_KEY_RENEWAL, &r->key, &err);
	if (rc == 0)
		r->conn = ws_dial(f->ws, &d, &err);
	if (r->conn == NULL)
		put_off(f, err.text);
}

static bool
hub_client_renew_due(const struct hub_client *f)
{
	return hub_client_now_s(f) >= f->renewal.due_s || f->renewal.bundle;
}

static void
say_expired(struct hub_client *f)
{
	if (f->renewal.expiry_said)
		return;
	f->renewal.expiry_said = true;
	log_error("meta", "this node's certificate has expired%s file=%s",
		f->has_token ? "; joining again with hub.token"
			     : ": make a token with `edgewayctl token create --node NAME` on the "
			       "hub and set hub.token",
		f->files.cert);
}

static void
on_tick(void *arg)
{
	struct hub_client *f = arg;
	struct renewal *r = &f->renewal;
	uint64_t now_ms = loop_now_ms(f->loop);

	if (f->stopping || f->tls == NULL)
		return;
	if (hub_client_expired(f))
		say_expired(f);
	if (r->conn != NULL) {
		if (now_ms > r->started_ms + ANSWER_MS)
			ws_close(r->conn, 1000, "no certificate came");
		return;
	}
	if (!f->own_files || !hub_client_renew_due(f) || now_ms < r->next_ms ||
		f->state < SYNCING || f->joining)
		return;
	if (!hub_client_expired(f)) /* otherwise only a token helps */
		hub_client_renew_begin(f);
}

void
hub_client_renew_open(struct hub_client *f)
{
	auto_free char *resource = xasprintf("certificate/%s", f->node);
	auto_buf struct buf content, out;
	struct message m = {.operation = OP_INSERT, .resource = resource, .parent = ""};
	struct err err = {0};

	buf_init(&content, BUF_UNLIMITED);
	buf_init(&out, BUF_UNLIMITED);
	if (join_request(&content, f->renewal.key, f->node, &err) < 0) {
		ws_close(f->renewal.conn, 1000, "cannot renew");
		return;
	}
	m.content = buf_str(&content);
	message_build(&out, &m, f->renewal.query);
	ws_send(f->renewal.conn, buf_at(&out), buf_len(&out));
}

static int
hub_client_renew_take(struct hub_client *f, const struct envelope *e, struct err *err)
{
	const struct join_answer answer = {.json = e->content,
		.len = e->content_len,
		.node = f->node,
		.ca_hash = "",
		.key_pem = f->renewal.key,
		.kind = JOIN_KEY_RENEWAL};
	struct identity id = {0};
	int rc;

	if (e->operation == OP_ERROR)
		return err_set(err, EPERM, "the hub refused to sign: %.200s", e->content);
	rc = join_accept(&f->files, &answer, &id, err);
	return rc < 0 ? rc : hub_client_use_identity(f, &id, err);
}

void
hub_client_renew_text(struct hub_client *f, const char *text, size_t len)
{
	struct renewal *r = &f->renewal;
	struct envelope e = {0};
	struct err err = {0};
	int rc = envelope_parse(&e, text, len, &err);

	if (rc == 0 && (r->done || strcmp(e.parent_id, r->query) != 0)) {
		envelope_fini(&e);
		return;
	}
	if (rc == 0)
		rc = hub_client_renew_take(f, &e, &err);
	envelope_fini(&e);
	r->done = true;
	if (rc < 0) {
		put_off(f, err.text);
	} else {
		r->bundle = r->expiry_said = false;
		r->renewals++;
		r->error[0] = '\0';
		log_info("meta",
			"renewed this node's certificate; the connection stays as it is node=%s "
			"expires_in_s=%lld",
			f->node, (long long)(f->identity.not_after - hub_client_now_s(f)));
	}
	ws_close(r->conn, 1000, rc < 0 ? "cannot renew" : "renewed");
}

void
hub_client_renew_closed(struct hub_client *f, const char *why)
{
	f->renewal.conn = NULL;
	free(take_ptr(&f->renewal.key));
	if (!f->renewal.done && !f->stopping)
		put_off(f, why);
}

/* The hub's CAs differ from ours: a renewal brings them, and a certificate signed by one of the
 * newest. */
void
hub_client_compare_bundle(struct hub_client *f, const char *hash)
{
	struct renewal *r = &f->renewal;
	uint64_t random, now_ms = loop_now_ms(f->loop);
	char mine[PKI_HASH_TEXT], cas[CA_LIST_TEXT];

	if (hash[0] == '\0' || f->identity.ca == NULL || !f->own_ca)
		return;
	pki_sha256_hex(f->identity.ca, strlen(f->identity.ca), mine);
	ca_list(cas, f->identity.ca);
	/* Our certificate may be signed by a CA that is to be removed, if it was signed before the
	 * CAs that came with it. */
	r->bundle = strcmp(mine, hash) != 0 || (f->cas[0] != '\0' && strcmp(f->cas, cas) != 0);
	if (!r->bundle || !f->own_files)
		return;
	/* Choose the time only once for these CAs: a node that reconnects again and again would
	 * never ask if it were chosen anew. */
	if (strcmp(r->bundle_of, hash) != 0) {
		random_bytes(&random, sizeof(random));
		snprintf(r->bundle_of, sizeof(r->bundle_of), "%s", hash);
		r->bundle_ms = now_ms + random % BUNDLE_MS;
	}
	r->next_ms = r->bundle_ms; /* an earlier failure belonged to another connection */
	r->wait_ms = WAIT_FIRST_MS;
	timer_start(r->tick, r->bundle_ms > now_ms ? r->bundle_ms - now_ms : 1, tick_ms(f));
	/* in case this connection ends as early as the last one */
	if (now_ms >= r->bundle_ms && r->conn == NULL && !hub_client_expired(f) && !f->joining)
		hub_client_renew_begin(f);
	log_limited(LOG_LEVEL_INFO, 12, "meta",
		"the hub has other CAs than this node; renewing to learn them");
}

void
hub_client_renew_init(struct hub_client *f)
{
	f->renewal.tick = timer_new(f->loop, on_tick, f);
	f->renewal.wait_ms = WAIT_FIRST_MS;
}

void
hub_client_renew_fini(struct hub_client *f)
{
	timer_free(&f->renewal.tick);
	free(take_ptr(&f->renewal.key));
}
