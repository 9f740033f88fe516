#include "meta/feed.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "meta/feed_private.h"

enum {
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MOST_MS = 30 * 1000,
	BACKOFF_RESET_MS = 30 * 1000, /* a connection that lasted this long was a good one */
	REFUSED_MS = 30 * 1000, /* the hub said no: somebody must do something first */
	HIGH_WATER = 1024 * 1024,
};

static void dial(struct feed *f);

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
		f->n_addrs = MIN(n, (size_t)FEED_ADDRS_MAX);
		memcpy(f->addrs, addrs, f->n_addrs * sizeof(*addrs));
	} else if (p->last_good != NULL &&
		addr_parse(&f->addrs[0], p->last_good, p->at.port, &err) == 0) {
		log_limited(LOG_LEVEL_WARN, 6, "meta",
			"cannot resolve the hub's name; trying its last address host=%s address=%s "
			"error=\"%s\"",
			p->at.host, p->last_good, strerror(-status));
		f->n_addrs = 1;
	}
	f->nameless = f->n_addrs == 0;
	if (f->nameless) {
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

	if (f->resolve == NULL) {
		note_failure(f, "no DNS client");
		retry_later(f, 0);
		return;
	}
	f->state = RESOLVING;
	resolve_host(f->resolve, p->at.host, p->at.port, on_host, f);
}

static void
dial(struct feed *f)
{
	auto_free char *path = NULL, *first = NULL;
	const char *headers[] = {NULL, "project_id: " MESH_PROJECT, "connectionuse: msg",
		"edgeway-version: 1", "edgeway-agent: " EDGEWAY_VERSION, NULL};
	struct ws_dial d = {.addr = f->addrs[f->addr++],
		.host = f->places[f->place].at.host,
		.headers = headers,
		.arg = f};
	struct err err = {0};

	f->joining = f->tls == NULL || (f->has_token && (f->unwanted || feed_expired(f)));
	f->joined = f->denied = f->unwanted = false;
	f->at = d.addr;
	f->state = DIALLING;
	path = xasprintf("/%s/%s/%s", MESH_PROJECT,
		f->protocol == &feed_cloudhub ? f->node_id : f->node,
		f->joining ? "join" : "events");
	if (f->joining) {
		first = xasprintf("authorization: Bearer %s", f->token.secret);
		headers[1] = NULL;
	} else {
		first = xasprintf("node_id: %s", f->node_id);
	}
	headers[0] = first;
	d.path = path;
	addr_text(&d.addr, f->address);
	if (!f->joining || feed_prepare_join(f, &err) == 0) {
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

	if (c == f->renewal.conn) {
		feed_renew_open(f);
		return;
	}
	assert(c == f->conn);
	f->state = GREETING;
	f->opened_ms = f->last_contact_ms = loop_now_ms(f->loop);
	f->connects++;
	f->n_errors = 0;
	f->query[0] = f->error[0] = '\0';
	f->protocol->opened(f);
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct feed *f = arg;

	if (c == f->renewal.conn)
		feed_renew_text(f, text, len);
	if (c != f->conn)
		return;
	f->messages++;
	f->last_contact_ms = loop_now_ms(f->loop);
	f->protocol->text(f, text, len);
}

static void
on_check(void *arg)
{
	struct feed *f = arg;

	f->protocol->check(f);
}

/* TLS's word for it (RFC 8446 section 6.2), as base/pki_tls tells it. */
static const char alert_expired[] = "refused the TLS connection: certificate expired";

static bool
certificate_refused(const char *why)
{
	return strstr(why, "status 410") != NULL || strstr(why, alert_expired) != NULL;
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
		return "the hub refused this node's certificate: its name is not the node's; join "
		       "again with a token";
	if (strstr(why, "status 410") != NULL)
		return f->has_token
			? "the hub says that this node's certificate was revoked; joining again "
			  "with hub.token"
			: "the hub says that this node's certificate was revoked: make a token "
			  "with `edgewayctl token create --node NAME` on the hub and set hub.token";
	if (!f->joining && (feed_expired(f) || strstr(why, alert_expired) != NULL))
		return f->has_token
			? "this node's certificate has expired; joining again with hub.token"
			: "this node's certificate has expired: make a token with `edgewayctl "
			  "token "
			  "create --node NAME` on the hub and set hub.token";
	return NULL;
}

static void
on_closed(void *arg, struct ws_conn *c, const char *why)
{
	struct feed *f = arg;
	bool was_open = f->state >= GREETING;
	const char *advice = was_open ? NULL : remedy(f, why);

	if (c == f->renewal.conn)
		feed_renew_closed(f, why);
	if (c != f->conn)
		return;
	f->conn = NULL;
	if (f->stopping)
		return;
	if (was_open && !f->joining && loop_now_ms(f->loop) - f->opened_ms >= BACKOFF_RESET_MS)
		f->backoff_ms = BACKOFF_FIRST_MS;
	if (f->joined) {
		f->state = WAITING;
		f->backoff_ms = BACKOFF_FIRST_MS;
		timer_cancel(f->check);
		timer_start(f->retry, 0, 0);
	} else if (!was_open && !f->joining && certificate_refused(why)) {
		f->unwanted = f->has_token;
		note_failure(f, advice);
		retry_later(f, f->has_token ? 0 : REFUSED_MS);
	} else if (advice != NULL || f->denied) {
		note_failure(
			f, advice != NULL ? advice : "the hub refused to sign the certificate");
		retry_later(f, REFUSED_MS);
	} else if (was_open) {
		log_warn("meta",
			"lost the connection to the hub; serving what is known url=%s why=\"%s\"",
			f->places[f->place].url, why);
		snprintf(f->error, sizeof(f->error), "%s", why);
		retry_later(f, f->protocol->closed(f));
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

static int
open_resolve(struct feed *f, const struct addr *upstreams, size_t n, struct err *err)
{
	const struct resolve_config config = {.servers = upstreams,
		.n_servers = n,
		.timeout_ms = 1000,
		.tries = 2,
		.mark = f->mark};

	return resolve_new(&f->resolve, f->loop, &config, err);
}

/* What is being asked of the old ones ends with -ECANCELED, unheard. */
void
feed_use_upstreams(struct feed *f, const struct addr *upstreams, size_t n)
{
	struct err err;

	resolve_free(&f->resolve);
	if (open_resolve(f, upstreams, n, &err) < 0)
		log_error("meta", "the hub's name cannot be resolved: %s", err.text);
	if (f->state == RESOLVING || (f->state == WAITING && f->nameless)) {
		f->state = WAITING;
		f->backoff_ms = BACKOFF_FIRST_MS;
		timer_start(f->retry, 0, 0);
	}
}

static int
open_tools(struct feed *f, const struct feed_config *config, struct err *err)
{
	const struct ws_config ws = {.events = &events,
		.arg = f,
		.heartbeat_ms = config->heartbeat_ms,
		.message_limit = f->protocol->message_limit,
		.high_water = HIGH_WATER};
	int rc = ws_new(&f->ws, f->loop, &ws, err);

	return rc < 0 ? rc : open_resolve(f, config->upstreams, config->n_upstreams, err);
}

int
feed_new(struct feed **out, const struct feed_config *config, struct err *err)
{
	struct feed *f = xcalloc(1, sizeof(*f));
	int rc;

	f->protocol = config->cloudhub ? &feed_cloudhub : &feed_edgeway;
	f->loop = config->loop;
	f->apply = config->apply;
	f->mark = config->mark;
	f->node = xstrdup(config->node);
	f->node_id = xstrdup(config->node_id[0] != '\0' ? config->node_id : config->node);
	f->cluster_domain = xstrdup(config->cluster_domain);
	f->backoff_ms = BACKOFF_FIRST_MS;
	f->floor_s = config->floor_s;
	feed_renew_init(f);
	f->retry = timer_new(f->loop, on_retry, f);
	f->check = timer_new(f->loop, on_check, f);
	rc = take_urls(f, config, err);
	if (rc == 0)
		rc = f->protocol->begin(f, config, err);
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
	feed_renew_fini(f);
	resolve_free(&f->resolve);
	ws_free(&f->ws);
	f->protocol->end(f);
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

void
feed_ack(struct feed *f, unsigned connection, const char *id, const char *resource)
{
	f->protocol->committed(f, connection, id, resource);
}

void
feed_resync(struct feed *f)
{
	f->protocol->compare(f);
}

void
feed_remember_address(struct feed *f)
{
	struct place *p = &f->places[f->place];
	auto_free char *key = xasprintf("address %s", p->url);

	if (p->last_good != NULL && strcmp(p->last_good, f->address) == 0)
		return;
	free(p->last_good);
	p->last_good = xstrdup(f->address);
	apply_note(f->apply, key, f->address);
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
		.certificate_error = f->renewal.error,
		.renewals = f->renewal.renewals,
		.renewal_failures = f->renewal.failures,
		.last_contact_ms = f->last_contact_ms,
		.connects = f->connects,
		.failures = f->failures,
		.messages = f->messages,
		.refused = f->refused,
		.acks = f->acks,
	};
}
