#include "meta/client/hub_client.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "meta/client/hub_client_private.h"
#include "model/allow_from.h"
#include "model/bundle.h"
#include "model/health.h"

enum {
	/* TCP, TLS and upgrade: a frozen hub's kernel still accepts; another address may work */
	HANDSHAKE_MS = 5 * 1000,
	HURRY_MS = 1000, /* the same in a first round, while other addresses may be faster */
	REFUSED_MS = 30 * 1000, /* the hub refused: somebody must act first */
	MOVE_LEAST_MS = 10 * 1000,
	MOVE_MOST_MS = 10 * 60 * 1000,
	HIGH_WATER = 1024 * 1024,
};

static const char *const state_names[] = {
	[WAITING] = "waiting",
	[RESOLVING] = "resolving",
	[DIALLING] = "dialling",
	[GREETING] = "greeting",
	[SYNCING] = "syncing",
	[SYNCED] = "synced",
};
static const uint32_t state_next[] = {
	[WAITING] = STATE_TO(WAITING) | STATE_TO(RESOLVING),
	[RESOLVING] = STATE_TO(DIALLING) | STATE_TO(WAITING),
	[DIALLING] = STATE_TO(DIALLING) | STATE_TO(GREETING) | STATE_TO(WAITING),
	[GREETING] = STATE_TO(SYNCING) | STATE_TO(WAITING),
	[SYNCING] = STATE_TO(SYNCED) | STATE_TO(WAITING),
	[SYNCED] = STATE_TO(SYNCED) | STATE_TO(WAITING),
};
static const struct state_machine states = {"hub-client", "meta", state_names, state_next};

static void hub_client_dial(struct hub_client *f);

void
hub_client_enter(struct hub_client *f, enum state to)
{
	f->state = state_go(&states, f->state, to);
}

static void
retry_later(struct hub_client *f, uint64_t least_ms)
{
	uint64_t random;

	random_bytes(&random, sizeof(random));
	hub_client_enter(f, WAITING);
	timer_cancel(f->check);
	least_ms = MAX(least_ms, f->told_wait_ms);
	f->heeds = f->told_wait_ms > 0;
	timer_start(f->retry, least_ms + hub_addresses_failed(&f->places, random), 0);
	f->told_wait_ms = 0;
}

static void
note_failure(struct hub_client *f, const char *why)
{
	f->failures++;
	snprintf(f->error, sizeof(f->error), "%s", why);
	log_limited(LOG_LEVEL_WARN, 6, "meta",
		"cannot connect to the hub; trying again url=%s error=\"%s\"",
		hub_addresses_now(&f->places)->url, why);
}

/* A node that has joined before is told why that is of no use any more, too. */
static void
note_refusal(struct hub_client *f, const char *why)
{
	const char *first = f->unusable[0] != '\0' ? f->unusable
		: hub_client_expired(f)            ? "its certificate has expired"
						   : "";
	auto_free char *both = xasprintf("%s (it joins anew, since %s)", why, first);

	note_failure(f, f->joining && first[0] != '\0' ? both : why);
}

static void
on_host(void *arg, int status, const struct addr *addrs, size_t n)
{
	struct hub_client *f = arg;
	bool proxied = f->proxy.host[0] != '\0';
	const char *host = proxied ? f->proxy.host : hub_addresses_now(&f->places)->at.host;

	if (f->stopping || status == -ECANCELED)
		return;
	n = status == 0 ? n : 0;
	f->nameless = hub_addresses_found(&f->places, addrs, n) == 0;
	if (f->nameless) {
		f->cause = hub_client_cause("cannot resolve");
		note_failure(f,
			proxied               ? "cannot resolve the name in hub.proxy"
				: status == 0 ? "the hub's name has no address"
					      : "cannot resolve the hub's name");
		retry_later(f, 0);
		return;
	}
	if (n == 0)
		log_limited(LOG_LEVEL_WARN, 6, "meta",
			"cannot resolve the hub's name; trying the addresses that are remembered "
			"host=%s addresses=%zu error=\"%s\"",
			host, f->places.n_addrs, status < 0 ? strerror(-status) : "no address");
	hub_client_dial(f);
}

static void
on_retry(void *arg)
{
	struct hub_client *f = arg;
	const struct place *p = hub_addresses_now(&f->places);

	if (f->resolve == NULL) {
		note_failure(f, "no DNS client");
		retry_later(f, 0);
		return;
	}
	hub_client_enter(f, RESOLVING);
	if (f->proxy.host[0] != '\0')
		resolve_host(f->resolve, f->proxy.host, f->proxy.port, on_host, f);
	else
		resolve_host(f->resolve, p->at.host, p->at.port, on_host, f);
}

/* The node routes fake IPs to our own listener: a connection to a hub there would end at
 * ourselves. */
static int
refuse_fake(const struct hub_client *f, const struct addr *a, struct err *err)
{
	char text[ADDR_TEXT_MAX];

	if (a->sa.sa_family != AF_INET || f->mask == 0 ||
		(ntohl(a->in.sin_addr.s_addr) & f->mask) != (f->subnet & f->mask))
		return 0;
	return err_set(err, EADDRNOTAVAIL,
		"%s is an address of mesh.subnet, which is for fake IPs: choose another "
		"mesh.subnet",
		addr_text(a, text));
}

/* The remaining addresses and the other places may each be given up early once, before the first of
 * them gets the full timeout. */
static void
hub_client_hurry(struct hub_client *f)
{
	uint64_t most_ms = MAX((uint64_t)HURRY_MS, 3 * f->handshake_ms);

	f->dialled_ms = loop_now_ms(f->loop);
	if (f->hurried < f->places.n - 1 + f->places.n_addrs - 1 && most_ms < HANDSHAKE_MS &&
		f->proxy.host[0] == '\0')
		timer_start(f->hurry, most_ms, 0);
}

static void
on_hurry(void *arg)
{
	struct hub_client *f = arg;
	char why[96];

	if (f->state != DIALLING || f->conn == NULL)
		return;
	f->hurried++;
	snprintf(why, sizeof why, "within %llu ms; others may be quicker",
		(unsigned long long)(loop_now_ms(f->loop) - f->dialled_ms));
	ws_give_up(f->conn, why);
}

static void
hub_client_dial(struct hub_client *f)
{
	auto_free char *path = NULL, *first = NULL,
		       *version = xasprintf("edgeway-version: %d", MESH_PROTOCOL),
		       *beat = xasprintf(
			       "edgeway-heartbeat: %llu", (unsigned long long)f->heartbeat_ms),
		       *cas = xasprintf(CA_LIST_HEADER ": %s", f->cas);
	const char *headers[] = {NULL, "project_id: " MESH_PROJECT, "connectionuse: msg", version,
		"edgeway-agent: " EDGEWAY_VERSION, "edgeway-bundles: " BUNDLE_KIND,
		"edgeway-answers: " HEALTH_KIND, MESH_CRL_HEADER ": 1",
		"edgeway-enforces: " ALLOW_FROM_KIND "," MESH_ROUTES_KIND, beat, NULL, NULL, NULL,
		NULL};
	size_t n = ARRAY_LEN(headers) - 4;
	struct ws_dial d = {.headers = headers, .arg = f};
	struct err err = {0};

	if (f->no_tunnel)
		headers[n++] = MESH_TUNNEL_HEADER ": off";
	if (f->cas[0] != '\0')
		headers[n++] = cas;
	if (f->liveness != NULL)
		headers[n++] = MESH_UPKEEP_HEADER ": " MESH_UPKEEP_PROBES;
	if (!hub_addresses_next(&f->places, &d.addr)) {
		retry_later(f, 0);
		return;
	}
	if (f->tls == NULL || f->unwanted || hub_client_expired(f))
		hub_client_read_token(f);
	if (f->tls == NULL && !f->has_token) {
		f->failures++; /* the reason was logged already */
		retry_later(f, 0);
		return;
	}
	hub_client_aim(f, &d);
	f->joining = f->tls == NULL || (f->has_token && (f->unwanted || hub_client_expired(f)));
	f->joined = f->unwanted = f->waits = false;
	f->at = d.addr;
	hub_client_enter(f, DIALLING);
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
	if (refuse_fake(f, &d.addr, &err) == 0 &&
		(!f->joining || hub_client_prepare_join(f, &err) == 0)) {
		d.tls = f->joining ? f->join_tls : f->tls;
		f->connection++;
		f->conn = ws_dial(f->ws, &d, &err);
	}
	if (f->conn == NULL) {
		f->cause = hub_client_cause(err.text);
		note_failure(f, err.text);
		hub_client_dial(f);
		return;
	}
	hub_client_hurry(f);
}

static void
on_open(void *arg, struct ws_conn *c)
{
	struct hub_client *f = arg;

	if (c == f->renewal.conn) {
		hub_client_renew_open(f);
		return;
	}
	assert(c == f->conn);
	hub_client_enter(f, GREETING);
	timer_cancel(f->hurry);
	f->hurried = 0;
	f->handshake_ms = loop_now_ms(f->loop) - f->dialled_ms;
	f->opened_ms = f->last_contact_ms = loop_now_ms(f->loop);
	f->connects++;
	f->n_errors = 0;
	f->told_wait_ms = 0;
	f->cause = NULL;
	hub_client_why_end(f);
	f->query[0] = f->error[0] = f->mismatch[0] = '\0';
	if (!f->joining)
		f->unusable[0] = '\0';
	f->bundles = f->pods = false;
	f->unserved = 0;
	f->n_unanswered = 0;
	buf_consume(&f->lines, buf_len(&f->lines));
	if (f->liveness != NULL && !f->joining)
		ws_share_life(c, f->liveness, f->address, true);
	f->protocol->opened(f);
}

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct hub_client *f = arg;

	if (c == f->renewal.conn)
		hub_client_renew_text(f, text, len);
	if (c != f->conn)
		return;
	f->messages++;
	f->last_contact_ms = loop_now_ms(f->loop);
	f->protocol->text(f, text, len);
}

static void
on_check(void *arg)
{
	struct hub_client *f = arg;

	f->protocol->check(f);
}

/* Returns the reason for which it ended, with what the hub has asked for. */
static char *
hub_client_heed_wait(struct hub_client *f, const struct ws_conn *c, const char *why)
{
	uint64_t ms = ws_asked_to_wait_ms(c);

	if (ms == 0)
		return xstrdup(why);
	f->told_to_wait++;
	f->told_wait_ms = MAX(f->told_wait_ms, ms);
	return xasprintf(
		"%s; it asks to come again in %llu s or later", why, (unsigned long long)ms / 1000);
}

static void
on_closed(void *arg, struct ws_conn *c, const char *reason)
{
	struct hub_client *f = arg;
	bool was_open = f->state >= GREETING;
	auto_free char *why = NULL;
	const char *advice = was_open ? NULL : hub_client_remedy(f, reason);

	if (c == f->renewal.conn)
		hub_client_renew_closed(f, reason);
	if (c != f->conn)
		return;
	f->conn = NULL;
	why = hub_client_heed_wait(f, c, reason);
	clock_skew_closed(&f->hubtime);
	if (f->stopping)
		return;
	f->cause = hub_client_cause(f->mismatch[0] != '\0' ? f->mismatch
			: f->waits                         ? f->waits_for
							   : why);
	timer_cancel(f->hurry);
	if (was_open && !f->joining)
		hub_addresses_lived(&f->places, loop_now_ms(f->loop) - f->opened_ms,
			f->state == SYNCED && !hub_client_is_twin(f));
	if (f->state >= SYNCING && !hub_client_end_is_planned(why))
		flapping_note(&f->ends, loop_now_ms(f->loop), why);
	if (f->joined) {
		hub_client_enter(f, WAITING);
		hub_addresses_reset(&f->places);
		timer_cancel(f->check);
		timer_start(f->retry, 0, 0);
	} else if (f->waits) {
		hub_client_enter(f, WAITING);
		/* as before: the hub refused the certificate in use */
		f->unwanted = f->tls != NULL;
		snprintf(f->error, sizeof(f->error), "%s", f->waits_for);
		hub_addresses_reset(&f->places);
		timer_cancel(f->check);
		timer_start(f->retry, hub_client_ask_again_ms(f), 0);
	} else if (!was_open && !f->joining && hub_client_certificate_refused(why)) {
		f->unwanted = f->has_token || f->token_file[0] != '\0';
		snprintf(f->unusable, sizeof f->unusable, "the hub refused its certificate: %s",
			strstr(why, "status 410") != NULL ? "revoked" : "expired");
		note_failure(f, advice);
		retry_later(f, f->has_token ? 0 : REFUSED_MS);
	} else if (advice != NULL || f->mismatch[0] != '\0') {
		if (advice == NULL)
			advice = f->mismatch;
		note_refusal(f, advice);
		retry_later(f, REFUSED_MS);
	} else if (was_open) {
		log_limited(LOG_LEVEL_WARN, 12, "meta",
			"lost the connection to the hub; serving what is known url=%s why=\"%s\"",
			hub_addresses_now(&f->places)->url, why);
		snprintf(f->error, sizeof(f->error), "%s", why);
		retry_later(f, f->protocol->closed(f));
	} else {
		note_failure(f, why);
		if (strstr(why, WS_REFUSED_OR_UNREACHABLE) != NULL)
			hub_client_why_ask(f, &f->at);
		hub_client_dial(f);
	}
}

static const struct ws_events events = {.open = on_open, .text = on_text, .closed = on_closed};

/* --- start and end -------------------------------------------------------------------------- */

static int
take_urls(struct hub_client *f, const struct hub_client_config *config, struct err *err)
{
	int rc = hub_addresses_init(&f->places, config->urls, f->cluster_domain, err);

	if (rc == 0 && config->proxy[0] != '\0') {
		if ((rc = proxy_parse(&f->proxy, config->proxy, err)) < 0)
			return err_wrap(err, rc, "hub.proxy");
		for (size_t i = 0; i < f->places.n; i++)
			hub_addresses_recall(&f->places, i, config->proxy_good, NULL);
		return 0;
	}
	for (size_t i = 0; rc == 0 && i < f->places.n; i++)
		hub_addresses_recall(&f->places, i,
			config->last_good != NULL ? config->last_good[i] : NULL,
			config->told != NULL ? config->told[i] : NULL);
	return rc;
}

static int
open_resolve(struct hub_client *f, const struct addr *upstreams, size_t n, struct err *err)
{
	const struct resolve_config config = {.servers = upstreams,
		.n_servers = n,
		.timeout_ms = 1000,
		.tries = 2,
		.mark = f->mark};

	return resolve_new(&f->resolve, f->loop, &config, err);
}

/* Open queries to the old servers end with -ECANCELED and are ignored. */
void
hub_client_use_upstreams(struct hub_client *f, const struct addr *upstreams, size_t n)
{
	struct err err;

	resolve_free(&f->resolve);
	if (open_resolve(f, upstreams, n, &err) < 0)
		log_error("meta", "the hub's name cannot be resolved: %s", err.text);
	if (f->state == RESOLVING || (f->state == WAITING && f->nameless)) {
		hub_client_enter(f, WAITING);
		hub_addresses_reset(&f->places);
		timer_start(f->retry, 0, 0);
	}
}

void
hub_client_kick(struct hub_client *f)
{
	/* Another machine with this node's name would answer each attempt with its own. A busy hub
	 * is not asked again with each pod that comes or goes here. */
	if (f->state != WAITING || f->stopping || hub_client_is_twin(f) ||
		(f->heeds && timer_active(f->retry)))
		return;
	hub_addresses_reset(&f->places);
	timer_start(f->retry, 0, 0);
}

void
hub_client_network(struct hub_client *f)
{
	if (f->state >= GREETING && f->conn != NULL && !f->stopping &&
		sock_rerouted(ws_fd(f->conn)))
		ws_drop(f->conn, "this machine's way to the hub is another now");
	hub_client_kick(f);
}

void
hub_client_doubt(struct hub_client *f)
{
	if (f->conn != NULL)
		ws_ask(f->conn);
}

/* If a connection fails for some seconds again and again, do not reconnect each time. */
void
hub_client_move(struct hub_client *f)
{
	uint64_t now = loop_now_ms(f->loop), since = now - f->moved_ms;

	if (f->stopping || f->joining || f->state < GREETING || f->conn == NULL) {
		hub_client_kick(f);
		return;
	}
	ws_ask(f->conn);
	if (!hub_addresses_elsewhere(&f->places, &f->at))
		return;
	if (f->moved_ms == 0 || since >= 4 * f->move_wait_ms)
		f->move_wait_ms = MOVE_LEAST_MS;
	else if (since < f->move_wait_ms)
		return;
	else
		f->move_wait_ms = MIN(2 * f->move_wait_ms, (uint64_t)MOVE_MOST_MS);
	f->moved_ms = now;
	hub_addresses_avoid(&f->places, &f->at);
	ws_drop(f->conn, "its tunnel does not answer; trying another hub");
}

static int
open_tools(struct hub_client *f, const struct hub_client_config *config, struct err *err)
{
	const struct ws_config ws = {.events = &events,
		.arg = f,
		.heartbeat_ms = config->heartbeat_ms,
		.handshake_ms = HANDSHAKE_MS,
		.message_limit = f->protocol->message_limit,
		.high_water = HIGH_WATER};
	int rc = ws_new(&f->ws, f->loop, &ws, err);

	return rc < 0 ? rc : open_resolve(f, config->upstreams, config->n_upstreams, err);
}

int
hub_client_new(struct hub_client **out, const struct hub_client_config *config, struct err *err)
{
	struct hub_client *f = xcalloc(1, sizeof(*f));
	int rc;

	f->why_fd = -1;
	f->protocol = config->cloudhub ? &feed_cloudhub : &feed_edgeway;
	f->loop = config->loop;
	f->apply = config->apply;
	f->hub_changed = config->hub_changed;
	f->hub_arg = config->hub_arg;
	f->asked = config->asked;
	f->asked_arg = config->asked_arg;
	f->pod_answered = config->pod_answered;
	f->pod_ranges = config->pod_ranges;
	f->pod_arg = config->pod_arg;
	f->no_tunnel = config->no_tunnel;
	f->finds_hubs = config->find_hubs;
	f->mark = config->mark;
	f->carriers = config->carriers;
	f->subnet = config->subnet;
	f->mask = config->mask;
	f->token_file = xstrdup(config->token_file != NULL ? config->token_file : "");
	f->node = xstrdup(config->node);
	f->node_id = xstrdup(config->node_id[0] != '\0' ? config->node_id : config->node);
	f->cluster_domain = xstrdup(config->cluster_domain);
	f->floor_s = config->floor_s;
	f->refused_hubs = xstrdup(config->refused_hubs != NULL ? config->refused_hubs : "");
	f->revoked_nodes = xstrdup(config->revoked_nodes != NULL ? config->revoked_nodes : "");
	f->heartbeat_ms = config->heartbeat_ms;
	/* a proxy would answer keep-alive probes itself, and a CloudHub expects heartbeats */
	if (!config->cloudhub && config->carriers == NULL && config->proxy[0] == '\0')
		f->liveness = config->liveness;
	hub_client_renew_init(f);
	f->retry = timer_new(f->loop, on_retry, f);
	f->why_later = timer_new(f->loop, hub_client_why_dial, f);
	f->check = timer_new(f->loop, on_check, f);
	f->flush = timer_new(f->loop, hub_client_flush, f);
	f->hurry = timer_new(f->loop, on_hurry, f);
	buf_init(&f->lines, BUF_UNLIMITED);
	rc = take_urls(f, config, err);
	if (rc == 0)
		rc = f->protocol->begin(f, config, err);
	if (rc == 0)
		rc = open_tools(f, config, err);
	if (rc < 0)
		hub_client_free(&f);
	else
		timer_start(f->retry, 0, 0);
	*out = f;
	return rc;
}

void
hub_client_free(struct hub_client **out)
{
	struct hub_client *f = *out; /* set to NULL at the end, because closing calls back */

	if (f == NULL)
		return;
	f->stopping = true;
	timer_free(&f->retry);
	timer_free(&f->check);
	timer_free(&f->flush);
	timer_free(&f->hurry);
	buf_fini(&f->lines);
	hub_client_why_end(f);
	timer_free(&f->why_later);
	hub_client_renew_fini(f);
	resolve_free(&f->resolve);
	ws_free(&f->ws);
	f->protocol->end(f);
	pki_ctx_free(&f->tls);
	pki_ctx_free(&f->join_tls);
	identity_fini(&f->identity);
	join_files_fini(&f->files);
	hub_addresses_fini(&f->places);
	proxy_fini(&f->proxy);
	free(f->refused_hubs);
	free(f->revoked_nodes);
	free(f->joining_key);
	free(f->join_ca);
	free(f->token_file);
	free(f->node);
	free(f->node_id);
	free(f->cluster_domain);
	free(f);
	*out = NULL;
}

void
hub_client_ack(struct hub_client *f, unsigned connection, const char *id, const char *resource)
{
	clock_skew_committed(&f->hubtime, id);
	f->protocol->committed(f, connection, id, resource);
}

void
hub_client_resync(struct hub_client *f)
{
	f->protocol->compare(f);
}

struct hub_client_status
hub_client_status(const struct hub_client *f)
{
	bool connected = f->conn != NULL && f->state >= GREETING && !f->joining;

	return (struct hub_client_status){
		.connected = connected,
		.synced = f->state == SYNCED,
		.joined = f->tls != NULL,
		.url = hub_addresses_now(&f->places)->url,
		.address = connected ? f->address : "",
		.proxy = f->proxy.host,
		.error = f->error,
		.untold = connected && f->protocol->untold != NULL ? f->protocol->untold(f) : "",
		.problem = f->cause != NULL ? f->cause->problem : "",
		.remedy = f->cause != NULL ? f->cause->remedy : "",
		.ends = flapping_count(&f->ends, loop_now_ms(f->loop)),
		.end = f->ends.why,
		.certificate_not_before = f->identity.not_before,
		.certificate_not_after = f->identity.not_after,
		.certificate_error = f->renewal.error,
		.refused_hubs = hub_client_count_refused(f),
		.renewals = f->renewal.renewals,
		.renewal_failures = f->renewal.failures,
		.last_contact_ms = connected ? MAX(f->last_contact_ms, ws_heard_ms(f->conn))
					     : f->last_contact_ms,
		.hubtime = f->hubtime,
		.comparisons = {f->comparisons[0], f->comparisons[1]},
		.connects = f->connects,
		.failures = f->failures,
		.messages = f->messages,
		.refused = f->refused,
		.told_to_wait = f->told_to_wait,
	};
}
