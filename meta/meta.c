#include "meta/meta_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/proxy.h"

#define RANGES_NOTE "pod_ranges"

static void
on_use(void *arg, const struct snapshot *snapshot)
{
	struct meta *m = arg;

	m->use(m->use_arg, snapshot);
	if (m->pods != NULL)
		pod_asks_look(m->pods);
	if (m->feed != NULL)
		hub_client_tell_unserved(m->feed);
}

static void
on_ack(void *arg, unsigned connection, const char *id, const char *resource)
{
	struct meta *m = arg;

	if (m->feed != NULL)
		hub_client_ack(m->feed, connection, id, resource);
}

static void
on_asked(void *arg, const struct meta_question *question)
{
	struct meta *m = arg;

	m->config.asked(m->use_arg, question);
}

/* Until hub_client_new has returned there is no client to ask. */
static void
on_hub(void *arg)
{
	struct meta *m = arg;

	if (m->feed != NULL)
		m->config.hub_changed(m->use_arg);
}

static void
on_resync(void *arg)
{
	struct meta *m = arg;

	if (m->feed != NULL)
		hub_client_resync(m->feed);
}

static void
on_synced(void *arg)
{
	struct meta *m = arg;

	if (m->age != NULL)
		staleness_look(m->age);
}

static void
on_lost(void *arg)
{
	struct meta *m = arg;

	apply_lost(m->apply);
}

static void
on_rewritten(void *arg)
{
	struct meta *m = arg;

	if (m->feed != NULL)
		hub_client_save_identity(m->feed);
}

static void
on_pod_answered(void *arg, const char *id, const char *json, size_t len)
{
	struct meta *m = arg;

	pod_asks_answer(m->pods, id, json, len);
}

static int
on_pod_ranges(void *arg, const char *json, size_t len, struct err *err)
{
	struct meta *m = arg;
	struct pod_ranges now;
	int rc = pod_ranges_parse(&now, json, len, err);
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (rc < 0)
		return rc;
	if (!pod_ranges_same(&now, &m->ranges)) {
		pod_ranges_build(&text, &now);
		apply_note(m->apply, RANGES_NOTE, buf_str(&text));
	}
	pod_ranges_fini(&m->ranges);
	m->ranges = now;
	if (buf_len(&text) > 0 && m->config.ranges_changed != NULL)
		m->config.ranges_changed(m->use_arg);
	return 0;
}

static bool
meta_send_pod(void *arg, const char *json, char id[37])
{
	struct meta *m = arg;

	return m->feed != NULL && hub_client_ask_pod(m->feed, json, id);
}

static const struct snapshot *
meta_pods_snapshot(void *arg)
{
	return apply_snapshot(((struct meta *)arg)->apply);
}

/* --- opening -------------------------------------------------------------------------------- */

static char *
read_proxy_good(const char *url, struct store *store)
{
	struct proxy proxy;
	auto_free char *key = NULL;

	if (proxy_parse(&proxy, url, NULL) < 0)
		return NULL; /* meta/client/hub_client reports the error */
	key = xasprintf("proxy %s", proxy.host);
	proxy_fini(&proxy);
	return store_note(store, key);
}

static void
read_last_good(struct meta *m, struct store *store)
{
	auto_free char *time = NULL, *in_step = NULL, *ranges = NULL;

	for (size_t i = 0; m->urls[i] != NULL && store != NULL; i++) {
		auto_free char *good = xasprintf("address %s", m->urls[i]),
			       *told = xasprintf("addresses %s", m->urls[i]);

		m->last_good[i] = store_note(store, good);
		m->told[i] = store_note(store, told);
	}
	if (store != NULL && m->config.proxy[0] != '\0')
		m->proxy_good = read_proxy_good(m->config.proxy, store);
	if (store != NULL && (time = store_note(store, "time")) != NULL)
		m->floor_s = strtoll(time, NULL, 10);
	if (store != NULL)
		m->refused_hubs = store_note(store, HUB_CLIENT_REFUSED_NOTE);
	if (store != NULL)
		m->revoked_nodes = store_note(store, HUB_CLIENT_REVOKED_NOTE);
	if (store != NULL && !m->config.cloudhub &&
		(ranges = store_note(store, RANGES_NOTE)) != NULL)
		(void)pod_ranges_parse(&m->ranges, ranges, strlen(ranges), NULL);
	if (store != NULL && (in_step = store_note(store, "in_step")) != NULL)
		m->in_step_s = strtoll(in_step, NULL, 10);
}

/* Opens the database, or returns NULL and logs the reason: an agent starts whatever state its disk
 * is in. */
static struct store *
open_store(struct meta *m)
{
	struct store *store = NULL;
	struct store_report report;
	struct err err = {0};
	int rc = store_open(&store, m->path, &report, &err);

	if (rc < 0)
		log_error("meta", "cannot open the database; going on without one error=\"%s\"",
			err.text);
	else
		m->moved_aside += report.moved_aside;
	if (rc == 0 && report.read_only)
		log_error("meta",
			"the database can only be read: %s; changes will not outlive the agent "
			"file=%s",
			store_remedy(EROFS), m->path);
	m->open_error = rc < 0 ? -rc : report.read_only ? EROFS : 0;
	return store;
}

static int
read_store(struct meta *m, struct store **store, struct err *err)
{
	const struct apply_config config = {.loop = m->config.loop,
		.node = m->config.node,
		.subnet = m->config.subnet,
		.mask = m->config.mask,
		.forward = m->config.forward,
		.apiserver = m->config.apiserver,
		.direct = m->config.direct,
		.encrypt = m->config.encrypt,
		.guard = m->config.guard,
		.use = on_use,
		.ack = on_ack,
		.resync = on_resync,
		.synced = on_synced,
		.arg = m};
	struct err why = {0};
	int rc = apply_new(&m->apply, &config, *store, &why);

	if (rc == -EUCLEAN) { /* damage that the check missed */
		store_close(store);
		if (store_move_aside(m->path, why.text, NULL) == 0) {
			m->moved_aside++;
			*store = open_store(m);
		}
		rc = apply_new(&m->apply, &config, *store, &why);
	}
	return rc < 0 ? err_set(err, rc, "%s", why.text) : 0;
}

static void
copy_config(struct meta *m, const struct meta_config *c)
{
	size_t n = 0;

	m->config = *c;
	m->config.data_dir = xstrdup(c->data_dir);
	m->config.node = xstrdup(c->node);
	m->config.ca = xstrdup(c->ca);
	m->config.cert = xstrdup(c->cert);
	m->config.key = xstrdup(c->key);
	m->config.token = xstrdup(c->token);
	m->config.token_file = xstrdup(c->token_file != NULL ? c->token_file : "");
	m->config.node_id = xstrdup(c->node_id);
	m->config.proxy = xstrdup(c->proxy);
	m->config.cluster_domain = xstrdup(c->cluster_domain);
	while (c->hub_urls != NULL && c->hub_urls[n] != NULL)
		n++;
	m->urls = xcalloc(n + 1, sizeof(*m->urls));
	m->last_good = xcalloc(n + 1, sizeof(*m->last_good));
	m->told = xcalloc(n + 1, sizeof(*m->told));
	for (size_t i = 0; i < n; i++)
		m->urls[i] = xstrdup(c->hub_urls[i]);
	m->config.hub_urls = (const char *const *)m->urls;
}

static void
free_text(const char *s)
{
	free((void *)(uintptr_t)s);
}

static void
free_meta(struct meta *m)
{
	for (size_t i = 0; m->urls[i] != NULL; i++) {
		free(m->urls[i]);
		free(m->last_good[i]);
		free(m->told[i]);
	}
	free(m->urls);
	free(m->last_good);
	free(m->told);
	free_text(m->config.data_dir);
	free_text(m->config.node);
	free_text(m->config.ca);
	free_text(m->config.cert);
	free_text(m->config.key);
	free_text(m->config.token);
	free_text(m->config.token_file);
	free_text(m->config.node_id);
	free_text(m->config.proxy);
	free(m->proxy_good);
	pod_ranges_fini(&m->ranges);
	free(m->refused_hubs);
	free(m->revoked_nodes);
	free_text(m->config.cluster_domain);
	free(m->path);
	free(m);
}

static bool
in_step(void *arg)
{
	const struct meta *m = arg;
	struct hub_client_status f;

	if (m->feed == NULL)
		return false;
	f = hub_client_status(m->feed);
	return f.connected && f.synced;
}

static void
note_in_step(void *arg, int64_t now_s)
{
	struct meta *m = arg;
	auto_free char *text = xasprintf("%lld", (long long)now_s);

	apply_note(m->apply, "in_step", text);
}

static void
watch_age(struct meta *m)
{
	const struct staleness_config config = {.loop = m->config.loop,
		.stored_s = m->in_step_s,
		.in_step = in_step,
		.note = note_in_step,
		.arg = m};

	m->age = staleness_new(&config);
}

/* On the database's thread, while loop 0 waits. */
static int
meta_read_late(void *arg, struct store *store)
{
	struct meta *m = arg;
	struct err err = {0};
	int rc = apply_load(m->apply, store, &err);

	if (rc < 0) {
		log_warn("meta", "cannot read the database error=\"%s\"", err.text);
		return rc;
	}
	pod_ranges_fini(&m->ranges);
	read_last_good(m, store);
	return 0;
}

/* The database could not be opened at the start. Where no hub has told anything meanwhile, what it
 * holds is served; where one has, that is newer, and its fake IPs are given. */
static void
on_opened(void *arg)
{
	struct meta *m = arg;
	bool late = !apply_is_empty(m->apply) || meta_connected(m);
	int rc = late ? -EUCLEAN : writer_read(m->writer, meta_read_late, m);

	m->open_error = rc == 0 ? 0 : m->open_error;
	if (rc == -EUCLEAN)
		writer_discard(m->writer);
	if (rc < 0)
		return;
	staleness_free(&m->age);
	watch_age(m);
	if (m->feed != NULL)
		hub_client_take_notes(m->feed, m->refused_hubs, m->revoked_nodes, m->floor_s);
	apply_use_loaded(m->apply);
	if (m->config.ranges_changed != NULL)
		m->config.ranges_changed(m->use_arg);
	log_info("meta", "read the database, which could not be opened before services=%zu",
		snapshot_count(apply_snapshot(m->apply)));
}

int
meta_open(struct meta **out, const struct meta_config *config, meta_use_fn *use, void *arg,
	struct err *err)
{
	struct meta *m = xcalloc(1, sizeof(*m));
	struct writer_config writer = {.loop = config->loop,
		.lost = on_lost,
		.rewritten = on_rewritten,
		.opened = on_opened,
		.arg = m};
	uint64_t start = mono_ms();
	struct store *store;
	int rc;

	copy_config(m, config);
	m->use = use;
	m->use_arg = arg;
	m->path = xasprintf("%s/edgeway.db", config->data_dir);
	*out = m;
	if (config->cloudhub && (rc = hub_client_check_id(config->node_id, err)) < 0) {
		meta_stop(out);
		return rc;
	}
	store = open_store(m);
	rc = read_store(m, &store, err);
	if (rc == 0) {
		read_last_good(m, store);
		writer.path = m->path;
		rc = writer_start(&m->writer, &writer, &store, err);
	}
	store_close(&store);
	if (rc < 0) {
		meta_stop(out);
		return rc;
	}
	apply_start(m->apply, m->writer);
	m->pods = pod_asks_new(&(struct pod_asks_config){.loop = config->loop,
		.send = meta_send_pod,
		.snapshot = meta_pods_snapshot,
		.arg = m});
	watch_age(m);
	m->open_ms = mono_ms() - start;
	log_info("meta", "read the database services=%zu ms=%llu",
		snapshot_count(apply_snapshot(m->apply)), (unsigned long long)m->open_ms);
	return 0;
}

int
meta_start(struct meta *m, const struct addr *upstreams, size_t n, struct err *err)
{
	const struct meta_config *c = &m->config;
	const struct hub_client_config config = {.loop = c->loop,
		.hub_changed = c->hub_changed != NULL ? on_hub : NULL,
		.hub_arg = m,
		.asked = c->asked != NULL ? on_asked : NULL,
		.asked_arg = m,
		.pod_answered = on_pod_answered,
		.pod_ranges = on_pod_ranges,
		.pod_arg = m,
		.find_hubs = c->find_hubs,
		.no_tunnel = !c->forward,
		.apply = m->apply,
		.node = c->node,
		.node_id = c->node_id,
		.cloudhub = c->cloudhub,
		.data_dir = c->data_dir,
		.ca = c->ca,
		.cert = c->cert,
		.key = c->key,
		.token = c->token,
		.token_file = c->token_file,
		.floor_s = m->floor_s,
		.refused_hubs = m->refused_hubs,
		.revoked_nodes = m->revoked_nodes,
		.cluster_domain = c->cluster_domain,
		.subnet = c->subnet,
		.mask = c->mask,
		.urls = c->hub_urls,
		.last_good = (const char *const *)m->last_good,
		.told = (const char *const *)m->told,
		.proxy = c->proxy,
		.proxy_good = m->proxy_good,
		.carriers = c->carriers,
		.heartbeat_ms = c->heartbeat_ms,
		.liveness = c->liveness,
		.mark = c->mark,
		.upstreams = upstreams,
		.n_upstreams = n};
	struct err why = {0};
	int rc = hub_client_new(&m->feed, &config, &why);

	if (rc < 0) {
		snprintf(m->why_not, sizeof(m->why_not), "%s", why.text);
		return err_set(err, rc, "%s", why.text);
	}
	return 0;
}

void
meta_use_upstreams(struct meta *m, const struct addr *upstreams, size_t n)
{
	if (m->feed != NULL)
		hub_client_use_upstreams(m->feed, upstreams, n);
}

void
meta_stop(struct meta **out)
{
	/* set to NULL at the end, because closing the hub client calls back */
	struct meta *m = *out;
	bool committed = true;

	if (m == NULL)
		return;
	staleness_free(&m->age);
	if (m->pods != NULL)
		pod_asks_end(m->pods);
	hub_client_free(&m->feed);
	pod_asks_free(&m->pods);
	if (m->writer != NULL) {
		apply_flush(m->apply);
		committed = writer_stop(&m->writer);
	}
	apply_free(&m->apply, committed);
	free_meta(m);
	*out = NULL;
}

/* --- asking --------------------------------------------------------------------------------- */

static void
meta_pass_hub(const struct hub_client_hub *hub, struct meta_hub *to)
{
	*to = (struct meta_hub){
		.addr = hub->addr,
		.host = hub->host,
		.tls = hub->tls,
		.certificate = hub->certificate,
		.rendezvous = hub->rendezvous,
		.proxy = hub->proxy,
	};
	snprintf(to->target, sizeof to->target, "%s", hub->target);
}

bool
meta_hub(const struct meta *m, struct meta_hub *to)
{
	struct hub_client_hub hub;

	if (m == NULL || m->feed == NULL || !hub_client_hub(m->feed, &hub))
		return false;
	meta_pass_hub(&hub, to);
	return true;
}

int
meta_node_ctx(const struct meta *m, bool server, struct ssl_ctx_st **ctx, struct err *err)
{
	if (m == NULL || m->feed == NULL)
		return err_set(err, ENOENT, "there is no hub client");
	return hub_client_node_ctx(m->feed, server, ctx, err);
}

uint64_t
meta_node_certificate(const struct meta *m)
{
	return m != NULL && m->feed != NULL ? hub_client_certificate(m->feed) : 0;
}

const char *
meta_revoked_nodes(const struct meta *m)
{
	return m != NULL && m->feed != NULL ? hub_client_revoked_nodes(m->feed) : NULL;
}

bool
meta_refuses_node(const char *revoked_nodes, const char *node, const char *serial)
{
	return revoked_nodes == NULL || hub_client_refuses_node(revoked_nodes, node, serial);
}

bool
meta_has_node_rules(const struct meta *m)
{
	return m != NULL && m->feed != NULL && hub_client_has_node_rules(m->feed);
}

bool
meta_known_hub(const struct meta *m, size_t i, struct meta_hub *to)
{
	struct hub_client_hub hub;

	if (m->feed == NULL || !hub_client_known_hub(m->feed, i, &hub))
		return false;
	meta_pass_hub(&hub, to);
	return true;
}

void
meta_find_hubs(struct meta *m)
{
	if (m->feed != NULL)
		hub_client_find_hubs(m->feed);
}

void
meta_ask_pod(struct meta *m, struct pod_ask *ask)
{
	if (m != NULL && m->config.cloudhub)
		pod_ask_finish(ask, POD_NONE); /* a CloudHub tells Services alone */
	else if (m != NULL && m->pods != NULL)
		pod_asks_ask(m->pods, ask);
	else
		pod_ask_finish(ask, POD_UNKNOWN);
}

const struct pod_ranges *
meta_pod_ranges(const struct meta *m)
{
	return &m->ranges;
}

void
meta_pods_end(struct meta *m)
{
	if (m != NULL && m->pods != NULL)
		pod_asks_end(m->pods);
}

void
meta_answer(struct meta *m, const struct meta_question *question, const char *json)
{
	if (m->feed != NULL)
		hub_client_answer(m->feed, question, json);
}

void
meta_guard(struct meta *m, const struct dial_guard *guard)
{
	apply_guard(m->apply, guard);
}

void
meta_note_ports(struct meta *m, const char *ports)
{
	apply_note_ports(m->apply, ports);
	if (m->feed != NULL)
		hub_client_tell_unserved(m->feed);
}

void
meta_kick(struct meta *m)
{
	if (m->feed != NULL)
		hub_client_kick(m->feed);
}

void
meta_network(struct meta *m)
{
	if (m->feed != NULL)
		hub_client_network(m->feed);
}

void
meta_doubt(struct meta *m)
{
	if (m->feed != NULL)
		hub_client_doubt(m->feed);
}

void
meta_move(struct meta *m)
{
	if (m->feed != NULL)
		hub_client_move(m->feed);
}

bool
meta_connected(const struct meta *m)
{
	return m->feed != NULL && hub_client_status(m->feed).connected;
}

int
meta_keep_get(void *meta, const char *key, char **data, size_t *len)
{
	struct meta *m = meta;

	return writer_keep_get(m->writer, key, data, len);
}

int
meta_keep_put(void *meta, const char *key, const void *data, size_t len)
{
	struct meta *m = meta;

	return writer_keep_put(m->writer, key, data, len);
}

int
meta_keep_del(void *meta, const char *key)
{
	struct meta *m = meta;

	return writer_keep_del(m->writer, key);
}
