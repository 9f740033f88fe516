#include "meta/meta.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/proxy.h"
#include "meta/age.h"
#include "meta/apply.h"
#include "meta/feed.h"
#include "meta/writer.h"
#include "model/json.h"

struct meta {
	struct meta_config config; /* strings owned */
	char **urls, **last_good, **told; /* of each url: what is remembered */
	char *proxy_good; /* the proxy's last good address */
	int64_t floor_s; /* the last time stored */
	int64_t in_step_s; /* when this node was last in step with its hub, as the database has it; 0: never */
	struct age *age;
	char *path;
	meta_use_fn *use;
	void *use_arg;
	struct apply *apply;
	struct writer *writer;
	struct feed *feed; /* NULL: cannot connect */
	unsigned moved_aside;
	uint64_t open_ms; /* how long reading the database took */
	int open_error; /* errno, positive, of what kept it from being written at the start; 0: nothing */
	char why_not[512]; /* why feed is NULL */
};

static void
on_use(void *arg, const struct snapshot *snapshot)
{
	struct meta *m = arg;

	m->use(m->use_arg, snapshot);
	if (m->feed != NULL)
		feed_tell_unserved(m->feed);
}

static void
on_ack(void *arg, unsigned connection, const char *id, const char *resource)
{
	struct meta *m = arg;

	if (m->feed != NULL)
		feed_ack(m->feed, connection, id, resource);
}

static void
on_asked(void *arg, const struct meta_question *question)
{
	struct meta *m = arg;

	m->config.asked(m->use_arg, question);
}

/* Before feed_new has returned there is nothing to ask. */
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
		feed_resync(m->feed);
}

static void
on_synced(void *arg)
{
	struct meta *m = arg;

	if (m->age != NULL)
		age_look(m->age);
}

/* --- opening -------------------------------------------------------------------------------------- */

static char *
read_proxy_good(const char *url, struct store *store)
{
	struct proxy proxy;
	auto_free char *key = NULL;

	if (proxy_parse(&proxy, url, NULL) < 0)
		return NULL; /* meta/feed says why */
	key = xasprintf("proxy %s", proxy.host);
	proxy_fini(&proxy);
	return store_note(store, key);
}

static void
read_last_good(struct meta *m, struct store *store)
{
	auto_free char *time = NULL, *in_step = NULL;

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
	if (store != NULL && (in_step = store_note(store, "in_step")) != NULL)
		m->in_step_s = strtoll(in_step, NULL, 10);
}

/* The database, or NULL with the reason in the log: an agent starts whatever state its disk is in. */
static struct store *
open_store(struct meta *m)
{
	struct store *store = NULL;
	struct store_report report;
	struct err err = {0};
	int rc = mkdir_p(m->config.data_dir, 0700);

	if (rc < 0)
		err_set(&err, rc, "cannot make %s: %s", m->config.data_dir, strerror(-rc));
	else
		rc = store_open(&store, m->path, &report, &err);
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
		.use = on_use,
		.ack = on_ack,
		.resync = on_resync,
		.synced = on_synced,
		.arg = m};
	struct err why = {0};
	int rc = apply_new(&m->apply, &config, *store, &why);

	if (rc == -EUCLEAN) { /* damage that the check did not see */
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
	free_text(m->config.node_id);
	free_text(m->config.proxy);
	free(m->proxy_good);
	free_text(m->config.cluster_domain);
	free(m->path);
	free(m);
}

static bool
in_step(void *arg)
{
	const struct meta *m = arg;
	struct feed_status f;

	if (m->feed == NULL)
		return false;
	f = feed_status(m->feed);
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
	const struct age_config config = {.loop = m->config.loop,
		.stored_s = m->in_step_s,
		.in_step = in_step,
		.note = note_in_step,
		.arg = m};

	m->age = age_new(&config);
}

int
meta_open(struct meta **out, const struct meta_config *config, meta_use_fn *use, void *arg,
	struct err *err)
{
	struct meta *m = xcalloc(1, sizeof(*m));
	struct writer_config writer = {.loop = config->loop, .lost = apply_lost};
	uint64_t start = mono_ms();
	struct store *store;
	int rc;

	copy_config(m, config);
	m->use = use;
	m->use_arg = arg;
	m->path = xasprintf("%s/edgeway.db", config->data_dir);
	*out = m;
	if (config->cloudhub && (rc = feed_check_id(config->node_id, err)) < 0) {
		meta_stop(out);
		return rc;
	}
	store = open_store(m);
	rc = read_store(m, &store, err);
	if (rc == 0) {
		read_last_good(m, store);
		writer.path = m->path;
		writer.arg = m->apply;
		rc = writer_start(&m->writer, &writer, &store, err);
	}
	store_close(&store);
	if (rc < 0) {
		meta_stop(out);
		return rc;
	}
	apply_start(m->apply, m->writer);
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
	const struct feed_config config = {.loop = c->loop,
		.hub_changed = c->hub_changed != NULL ? on_hub : NULL,
		.hub_arg = m,
		.asked = c->asked != NULL ? on_asked : NULL,
		.asked_arg = m,
		.apply = m->apply,
		.node = c->node,
		.node_id = c->node_id,
		.cloudhub = c->cloudhub,
		.data_dir = c->data_dir,
		.ca = c->ca,
		.cert = c->cert,
		.key = c->key,
		.token = c->token,
		.floor_s = m->floor_s,
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
		.mark = c->mark,
		.upstreams = upstreams,
		.n_upstreams = n};
	struct err why = {0};
	int rc = feed_new(&m->feed, &config, &why);

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
		feed_use_upstreams(m->feed, upstreams, n);
}

void
meta_stop(struct meta **out)
{
	struct meta *m = *out; /* nulled at the end: the feed's closing calls back */
	bool committed = true;

	if (m == NULL)
		return;
	age_free(&m->age);
	feed_free(&m->feed);
	if (m->writer != NULL) {
		apply_flush(m->apply);
		committed = writer_stop(&m->writer);
	}
	apply_free(&m->apply, committed);
	free_meta(m);
	*out = NULL;
}

/* --- asking --------------------------------------------------------------------------------------- */

const struct snapshot *
meta_snapshot(const struct meta *m)
{
	return apply_snapshot(m->apply);
}

bool
meta_hub(const struct meta *m, struct meta_hub *to)
{
	struct feed_hub hub;

	if (m->feed == NULL || !feed_hub(m->feed, &hub))
		return false;
	*to = (struct meta_hub){
		.addr = hub.addr,
		.host = hub.host,
		.tls = hub.tls,
		.certificate = hub.certificate,
		.proxy = hub.proxy,
	};
	snprintf(to->target, sizeof to->target, "%s", hub.target);
	return true;
}

void
meta_answer(struct meta *m, const struct meta_question *question, const char *json)
{
	if (m->feed != NULL)
		feed_answer(m->feed, question, json);
}

void
meta_kick(struct meta *m)
{
	if (m->feed != NULL)
		feed_kick(m->feed);
}

bool
meta_connected(const struct meta *m)
{
	return m->feed != NULL && feed_status(m->feed).connected;
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

static void
feed_metrics(const struct feed_status *f, struct metrics *out)
{
	metric_gauge(
		out, "edgeway_meta_connected", "1 while connected to the hub.", NULL, f->connected);
	metric_gauge(out, "edgeway_meta_synced", "1 while in step with the hub.", NULL, f->synced);
	metric_counter(out, "edgeway_meta_connections_total",
		"Connections to the hub that were opened.", NULL, f->connects);
	metric_counter(out, "edgeway_meta_connection_failures_total",
		"Attempts to reach the hub that failed.", NULL, f->failures);
	metric_counter(
		out, "edgeway_meta_messages_total", "Messages of the hub.", NULL, f->messages);
	metric_counter(out, "edgeway_meta_refused_total", "Messages of the hub that were refused.",
		NULL, f->refused);
	metric_counter(
		out, "edgeway_meta_acks_total", "Changes that were acknowledged.", NULL, f->acks);
	metric_counter(out, "edgeway_meta_comparisons_total",
		"Comparisons of all that is held with the hub: after each connection, and now and "
		"then.",
		"result=\"same\"", f->comparisons[0]);
	metric_counter(out, "edgeway_meta_comparisons_total",
		"Comparisons of all that is held with the hub: after each connection, and now and "
		"then.",
		"result=\"different\"", f->comparisons[1]);
	metric_gauge(out, "edgeway_meta_lag_seconds",
		"From the hub's sending a change to its commit here, of the last one that was "
		"followed.",
		NULL, (double)f->hubtime.lag_ms / 1000);
	metric_gauge(out, "edgeway_meta_hub_clock_ahead_seconds",
		"What the hub's clock is ahead of this node's, < 0: behind.", NULL,
		(double)f->hubtime.ahead_ms / 1000);
	metric_gauge(out, "edgeway_meta_certificate_expiry_timestamp_seconds",
		"When this node's certificate ends, since 1970; 0: none.", NULL,
		(double)f->certificate_not_after);
	metric_counter(out, "edgeway_meta_certificate_renewals_total",
		"Renewals of this node's certificate.", NULL, f->renewals);
	metric_counter(out, "edgeway_meta_certificate_renewal_failures_total",
		"Renewals that failed and are tried again.", NULL, f->renewal_failures);
	metric_counter(out, "edgeway_meta_questions_total",
		"Questions of the hub how a service's endpoints do here.", "result=\"answered\"",
		f->answered);
	metric_counter(out, "edgeway_meta_questions_total",
		"Questions of the hub how a service's endpoints do here.", "result=\"declined\"",
		f->declined);
}

static void
apply_metrics(const struct apply_counts *c, struct metrics *out)
{
	metric_counter(out, "edgeway_meta_changes_total", "Changes of services that were taken.",
		"operation=\"update\"", c->updates);
	metric_counter(out, "edgeway_meta_changes_total", "Changes of services that were taken.",
		"operation=\"delete\"", c->deletes);
	metric_counter(
		out, "edgeway_meta_batches_total", "Transactions of changes.", NULL, c->batches);
	metric_gauge(out, "edgeway_meta_waiting_changes", "Changes that are not committed yet.",
		NULL, (double)c->waiting);
	metric_counter(out, "edgeway_meta_damaged_services_total",
		"Services whose stored form was damaged.", NULL, c->dropped);
	metric_counter(out, "edgeway_meta_addresses_exhausted_total",
		"Times that no fake IP was left for a service.", NULL, c->exhausted);
	metric_gauge(out, "edgeway_meta_services_without_address", "Services that have no fake IP.",
		NULL, (double)c->without_address);
	metric_gauge(out, "edgeway_meta_addresses", "Fake IPs by state.", "state=\"used\"",
		(double)c->ipam.used);
	metric_gauge(out, "edgeway_meta_addresses", "Fake IPs by state.", "state=\"resting\"",
		(double)c->ipam.resting);
	metric_gauge(out, "edgeway_meta_addresses", "Fake IPs by state.", "state=\"free\"",
		(double)(c->ipam.size - c->ipam.used - c->ipam.resting));
}

/* errno, positive, why the database cannot be written; 0: it can. A failure at the start holds until something is written. */
static int
database_error(const struct meta *m, const struct writer_counts *w)
{
	if (w->failing)
		return w->error;
	return w->commits == 0 ? m->open_error : 0;
}

void
meta_metrics(struct meta *m, struct metrics *out)
{
	struct feed_status f = m->feed != NULL ? feed_status(m->feed) : (struct feed_status){0};
	struct apply_counts c = apply_count(m->apply);
	struct writer_counts w = writer_count(m->writer);

	feed_metrics(&f, out);
	age_metrics(m->age, out);
	metric_gauge(out, "edgeway_meta_services", "Services in use.", NULL,
		(double)snapshot_count(apply_snapshot(m->apply)));
	apply_metrics(&c, out);
	metric_counter(out, "edgeway_meta_database_commits_total", "Transactions written.", NULL,
		w.commits);
	metric_counter(out, "edgeway_meta_database_failures_total",
		"Transactions that could not be written.", NULL, w.failures);
	metric_gauge(out, "edgeway_meta_database_failing",
		"1 while the database cannot be written.", NULL, database_error(m, &w) != 0);
	metric_gauge(out, "edgeway_meta_database_failing_seconds",
		"For how long the database cannot be written; 0: it can.", NULL,
		w.failing_since_ms > 0 ? (double)(mono_ms() - w.failing_since_ms) / 1000 : 0);
	metric_counter(out, "edgeway_meta_database_moved_aside_total",
		"Damaged databases that were moved aside.", NULL, m->moved_aside + w.moved_aside);
	metric_gauge(out, "edgeway_meta_database_worst_commit_seconds",
		"The slowest transaction so far.", NULL, (double)w.worst_commit_us / 1e6);
}

static void
state_feed(const struct meta *m, struct buf *out)
{
	struct feed_status f = feed_status(m->feed);
	uint64_t now = loop_now_ms(m->config.loop);

	buf_printf(out, "\"connected\":%s,\"synced\":%s,\"joined\":%s,\"url\":",
		f.connected ? "true" : "false", f.synced ? "true" : "false",
		f.joined ? "true" : "false");
	json_add_text(out, f.url);
	buf_adds(out, ",\"address\":");
	json_add_text(out, f.address);
	buf_adds(out, ",\"error\":");
	json_add_text(out, f.error);
	buf_adds(out, ",\"proxy\":");
	json_add_text(out, f.proxy);
	buf_adds(out, ",\"hubs\":");
	feed_places(m->feed, out);
	if (f.last_contact_ms != 0)
		buf_printf(out, ",\"last_contact_ms_ago\":%llu",
			(unsigned long long)(now - f.last_contact_ms));
	if (f.hubtime.known)
		buf_printf(out, ",\"hub_clock_ahead_ms\":%lld", (long long)f.hubtime.ahead_ms);
	if (f.hubtime.changes > 0)
		buf_printf(out, ",\"lag_ms\":%llu", (unsigned long long)f.hubtime.lag_ms);
	buf_printf(out,
		",\"certificate_not_before\":%lld,\"certificate_not_after\":%lld,"
		"\"certificate_expires\":\"",
		(long long)f.certificate_not_before, (long long)f.certificate_not_after);
	if (f.certificate_not_after != 0)
		buf_add_utc(out, f.certificate_not_after);
	buf_printf(out, "\",\"certificate_renewals\":%llu,\"certificate_error\":",
		(unsigned long long)f.renewals);
	json_add_text(out, f.certificate_error);
}

static void
add_trouble(int error, struct buf *out)
{
	if (error != 0)
		buf_printf(out,
			"cannot be written (%s): %s; what changes is used from memory and asked "
			"from the hub again after a restart",
			strerror(error), store_remedy(error));
}

void
meta_trouble(struct meta *m, struct buf *out)
{
	struct writer_counts w = writer_count(m->writer);
	int error = database_error(m, &w);

	if (error == 0)
		return;
	buf_printf(out, "the database %s ", m->path);
	add_trouble(error, out);
	buf_adds(out, "\n");
}

static void
state_database(const struct meta *m, const struct writer_counts *w, struct buf *out)
{
	int error = database_error(m, w);
	auto_buf struct buf trouble;

	buf_init(&trouble, BUF_UNLIMITED);
	add_trouble(error, &trouble);
	buf_adds(out, "{\"file\":");
	json_add_text(out, m->path);
	buf_printf(out, ",\"state\":\"%s\",\"trouble\":", error != 0 ? "failing" : "ok");
	json_add_text(out, buf_str(&trouble));
	buf_printf(out,
		",\"failing_s\":%llu,\"commits\":%llu,\"failures\":%llu,\"moved_aside\":%llu,"
		"\"read_ms\":%llu}",
		w->failing_since_ms > 0
			? (unsigned long long)(mono_ms() - w->failing_since_ms) / 1000
			: 0,
		(unsigned long long)w->commits, (unsigned long long)w->failures,
		(unsigned long long)(m->moved_aside + w->moved_aside),
		(unsigned long long)m->open_ms);
}

void
meta_state(struct meta *m, struct buf *out)
{
	struct apply_counts c = apply_count(m->apply);
	struct writer_counts w = writer_count(m->writer);

	buf_adds(out, "{");
	if (m->feed != NULL) {
		state_feed(m, out);
	} else {
		buf_adds(out, "\"connected\":false,\"synced\":false,\"error\":");
		json_add_text(out, m->why_not);
	}
	buf_adds(out, ",\"data\":");
	age_state(m->age, out);
	buf_adds(out, ",\"site\":");
	json_add_text(out, apply_site(m->apply));
	buf_printf(out, ",\"services\":%zu,\"version\":%llu,\"waiting\":%zu",
		snapshot_count(apply_snapshot(m->apply)),
		(unsigned long long)snapshot_version(apply_snapshot(m->apply)), c.waiting);
	buf_printf(out,
		",\"addresses\":{\"size\":%zu,\"used\":%zu,\"resting\":%zu,\"services_without\":%"
		"zu}",
		c.ipam.size, c.ipam.used, c.ipam.resting, c.without_address);
	buf_adds(out, ",\"database\":");
	state_database(m, &w, out);
	buf_adds(out, "}");
}
