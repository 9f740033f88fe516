#include "hub/names/hosts_map.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "hub/kube/follow.h"
#include "hub/kube/json_stream.h"
#include "model/check.h"
#include "model/json.h"

enum {
	ANSWER_MS = 10000, /* of a write of 1 MiB */
	SPREAD_MS = 500, /* random delay, since replicas notice a change at the same time */
	CONTESTED = 2, /* reverted so often in a row: logged, and then written less often */
	CALM_MS = 10 * 60 * 1000,
};

#define MINE "edgeway.io/hosts-key" /* annotation: the key that this hub has written */

struct hosts_map {
	struct hosts_map_config config;
	char *ns, *name, *key;
	struct follow *follow;
	char *path, *what, *rights; /* of `follow` */
	struct https_request *write;
	struct json_stream split;
	struct timer *timer;
	uint64_t due_ms, not_before_ms;
	/* the server's state */
	unsigned round; /* round of the list in which it was last found */
	bool known, exists, ours, immutable;
	char version[FOLLOW_VERSION_MAX + 1];
	char *value; /* of our key */
	size_t others; /* total bytes of other keys' values */
	/* results */
	struct hosts_made made;
	bool in_step, full_told;
	/* hashes of the current lines and of those of the last write */
	uint64_t lines_hash, wrote_hash;
	uint64_t wrote_ms;
	unsigned contested;
	struct kube_wait wait;
	uint64_t writes, conflicts, failed;
	char problem[400];
};

/* --- timing --------------------------------------------------------------------------------- */

static uint64_t
random_below(uint64_t n)
{
	uint32_t r;

	random_bytes(&r, sizeof r);
	return r % MAX(n, (uint64_t)1);
}

static void
work_in(struct hosts_map *m, uint64_t delay_ms)
{
	uint64_t now = loop_now_ms(m->config.loop);
	uint64_t due = MAX(now + delay_ms, m->not_before_ms);

	if (timer_active(m->timer) && m->due_ms <= due)
		return;
	m->due_ms = due;
	timer_start(m->timer, due - now, 0);
}

/* Forbids writes for this time, plus up to half as much. */
static void
wait_ms(struct hosts_map *m, uint64_t ms)
{
	m->not_before_ms = loop_now_ms(m->config.loop) + ms + random_below(ms / 2);
	timer_cancel(m->timer);
}

static void
hosts_map_complain(struct hosts_map *m, const char *why)
{
	if (strcmp(m->problem, why) == 0)
		return;
	snprintf(m->problem, sizeof m->problem, "%s", why);
	log_limited(LOG_LEVEL_WARN, 6, "kubernetes", "hosts ConfigMap: %s", why);
}

/* --- responses ------------------------------------------------------------------------------ */

/* A watch may be older than the response to a write, so older versions are ignored, except in a
 * list. */
static bool
is_older(const struct hosts_map *m, const char *version)
{
	size_t a = strlen(version), b = strlen(m->version);

	return a != b ? a < b : strcmp(version, m->version) < 0;
}

static void
take_object(struct hosts_map *m, const struct tree_node *object)
{
	const struct tree_node *data = tree_get(object, "data");
	char version[FOLLOW_VERSION_MAX + 1];
	bool listed = m->round != follow_round(m->follow);

	if (strcmp(tree_text(tree_path(object, "metadata.name"), ""), m->name) != 0 ||
		!follow_version(version, object) || (m->exists && !listed && is_older(m, version)))
		return;
	m->round = follow_round(m->follow);
	memcpy(m->version, version, sizeof version);
	free(m->value);
	m->value = xstrdup(tree_text(tree_get(data, m->key), ""));
	m->others = 0;
	tree_each(data, v) {
		if (v->key != NULL && strcmp(v->key, m->key) != 0)
			m->others += v->len;
	}
	/* The server counts the decoded bytes: three for four characters of base64. */
	tree_each(tree_get(object, "binaryData"), v)
		m->others += v->len / 4 * 3;
	m->ours = strcmp(tree_text(tree_get(tree_path(object, "metadata.annotations"), MINE), ""),
			  m->key) == 0;
	m->immutable = tree_bool(tree_get(object, "immutable"), false);
	m->exists = m->known = true;
}

static void
take_absence(struct hosts_map *m)
{
	free(take_ptr(&m->value));
	m->value = xstrdup("");
	m->others = 0;
	m->exists = m->ours = m->immutable = false;
	m->known = true;
}

static void
on_object(void *arg, const struct tree_node *object, bool gone)
{
	struct hosts_map *m = arg;

	if (gone)
		take_absence(m);
	else
		take_object(m, object);
}

static void
on_listed(void *arg)
{
	struct hosts_map *m = arg;

	if (m->round != follow_round(m->follow))
		take_absence(m);
}

static void
on_told(void *arg)
{
	work_in(arg, 0);
}

/* --- writing -------------------------------------------------------------------------------- */

static int
on_write_value(void *arg, const char *text, size_t len)
{
	struct hosts_map *m = arg;
	struct tree *tree = NULL;

	if (text != NULL && tree_parse(&tree, m->name, text, len, NULL) == 0) {
		if (tree_count(tree) == 1)
			take_object(m, tree_document(tree, 0));
		tree_free(&tree);
	}
	return 0;
}

static int
on_write_data(void *arg, const char *data, size_t len)
{
	struct hosts_map *m = arg;

	return json_stream_feed(&m->split, data, len);
}

static uint64_t
pause_ms(const struct hosts_map *m)
{
	unsigned doublings = m->contested > CONTESTED ? MIN(m->contested - CONTESTED, 8u) : 0;

	return MIN((uint64_t)HOSTS_PAUSE_MS << doublings, (uint64_t)HOSTS_PAUSE_MOST_MS);
}

static void
on_written(struct hosts_map *m)
{
	m->contested = m->wrote_hash == m->lines_hash ? m->contested + 1 : 0;
	m->wrote_hash = m->lines_hash;
	m->wrote_ms = loop_now_ms(m->config.loop);
	m->writes++;
	kube_wait_reset(&m->wait);
	m->problem[0] = '\0';
	log_info("kubernetes", "hosts ConfigMap written name=%s/%s key=%s names=%zu version=%s",
		m->ns, m->name, m->key, m->made.names, m->version);
	wait_ms(m, pause_ms(m));
	if (m->contested >= CONTESTED)
		hosts_map_complain(m,
			"somebody else writes the same key again and again; only one program may "
			"own it: look at metadata.managedFields");
}

static void
on_refused(struct hosts_map *m, const struct https_answer *a)
{
	char why[sizeof m->problem];

	m->failed++;
	follow_describe(a, m->what, m->rights, why, sizeof why);
	hosts_map_complain(m, why);
	wait_ms(m, kube_wait_ms(&m->wait, a));
}

static void
on_write_done(void *arg, const struct https_answer *a)
{
	struct hosts_map *m = arg;

	m->write = NULL;
	if (a->status == 409 || (a->status == 404 && m->exists)) {
		m->conflicts++;
		wait_ms(m, kube_wait_ms(&m->wait, NULL));
		follow_anew(m->follow);
	} else if (a->status / 100 == 2 && a->whole) {
		on_written(m);
	} else {
		on_refused(m, a);
		follow_anew(m->follow); /* the server may have accepted it nevertheless */
	}
	work_in(m, 0);
}

static void
start_write(struct hosts_map *m, const char *text)
{
	auto_free char *path = NULL;
	auto_buf struct buf b;
	struct https_call call = {
		.method = m->exists ? "PATCH" : "POST",
		.type = m->exists ? "application/merge-patch+json" : "application/json",
		.silence_ms = ANSWER_MS,
		.data = on_write_data,
		.done = on_write_done,
		.arg = m,
	};

	buf_init(&b, BUF_UNLIMITED);
	if (m->exists) {
		path = xasprintf("/api/v1/namespaces/%s/configmaps/%s", m->ns, m->name);
		buf_printf(&b, "{\"metadata\":{\"resourceVersion\":\"%s\",", m->version);
	} else {
		path = xasprintf("/api/v1/namespaces/%s/configmaps", m->ns);
		buf_printf(&b,
			"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%"
			"s\",\"namespace\":\"%s\",\"labels\":{\"app.kubernetes.io/"
			"managed-by\":\"edgeway-hub\"},",
			m->name, m->ns);
	}
	buf_printf(&b, "\"annotations\":{\"" MINE "\":\"%s\"}},\"data\":{\"%s\":", m->key, m->key);
	json_add_text(&b, text);
	buf_adds(&b, "}}");
	json_stream_fini(&m->split);
	json_stream_init(&m->split, JSON_STREAM_STREAM, on_write_value, m);
	call.path = path;
	call.body = buf_str(&b);
	m->write = kube_api_start(m->config.api, &call);
}

/* --- comparing ------------------------------------------------------------------------------ */

static uint64_t
hash_lines(const struct hosts_lines *l)
{
	uint64_t hash = 1;

	for (size_t i = 0; i < l->n; i++)
		hash = hash64(l->line[i], strlen(l->line[i]), hash);
	return hash;
}

static void
tell_full(struct hosts_map *m)
{
	if (m->made.left_out > 0 && !m->full_told)
		log_warn("kubernetes",
			"hosts ConfigMap: a ConfigMap holds 1 MiB, and not all names fit; use "
			"ingress.dns left_out=%zu written=%zu",
			m->made.left_out, m->made.names);
	m->full_told = m->made.left_out > 0;
}

static void
hosts_map_settle(struct hosts_map *m)
{
	if (!m->in_step && m->problem[0] != '\0' && m->contested < CONTESTED)
		log_info("kubernetes", "hosts ConfigMap: all is well again with %s", m->what);
	m->in_step = true;
	kube_wait_reset(&m->wait);
	if (loop_now_ms(m->config.loop) - m->wrote_ms > CALM_MS)
		m->contested = 0;
	if (m->contested < CONTESTED)
		m->problem[0] = '\0';
}

static void
hosts_map_work(void *arg)
{
	struct hosts_map *m = arg;
	struct hosts_lines lines = {0};
	size_t limit = HOSTS_BYTES_MAX - MIN(m->others, (size_t)HOSTS_BYTES_MAX);
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (!m->known || m->write != NULL || !m->config.lines(m->config.arg, &lines)) {
		hosts_lines_fini(&lines);
		return;
	}
	m->made = hosts_text(&text, &lines, m->value, m->ours, limit);
	m->lines_hash = hash_lines(&lines);
	hosts_lines_fini(&lines);
	tell_full(m);
	if (m->exists && m->ours && strcmp(buf_str(&text), m->value) == 0) {
		hosts_map_settle(m);
		return;
	}
	m->in_step = false;
	if (m->immutable)
		hosts_map_complain(m, "it is immutable: delete it, and the hub makes it anew");
	else
		start_write(m, buf_str(&text));
}

void
hosts_map_refresh(struct hosts_map *m)
{
	work_in(m, random_below(SPREAD_MS));
}

/* --- start, stop, state --------------------------------------------------------------------- */

static void
set_texts(struct hosts_map *m, const char *name, const char *slash)
{
	m->ns = xstrndup(name, (size_t)(slash - name));
	m->name = xstrdup(slash + 1);
	m->path = xasprintf("/api/v1/namespaces/%s/configmaps?fieldSelector=metadata.name%%3D%s",
		m->ns, m->name);
	m->what = xasprintf("the ConfigMap %s/%s", m->ns, m->name);
	m->rights = xasprintf("the verbs list, watch and patch on %s, and create on configmaps "
			      "there (deploy/kubernetes/rbac-hosts.yaml)",
		m->what);
}

int
hosts_map_start(struct hosts_map **out, const struct hosts_map_config *config, struct err *err)
{
	const char *slash = strchr(config->name, '/');
	struct hosts_map *m;

	*out = NULL;
	if (slash == NULL || !check_label(config->name, (size_t)(slash - config->name)) ||
		!check_subdomain(slash + 1, strlen(slash + 1)))
		return err_set(err, EINVAL, "\"%.120s\" is not NAMESPACE/NAME of a ConfigMap",
			config->name);
	m = xcalloc(1, sizeof *m);
	m->config = *config;
	m->key = xstrdup(config->key);
	m->value = xstrdup("");
	set_texts(m, config->name, slash);
	m->config.name = m->config.key = NULL; /* they belong to the caller */
	json_stream_init(&m->split, JSON_STREAM_STREAM, on_write_value, m);
	m->timer = timer_new(config->loop, hosts_map_work, m);
	m->follow = follow_start(&(struct follow_config){
		.loop = config->loop,
		.api = config->api,
		.path = m->path,
		.what = m->what,
		.rights = m->rights,
		.object = on_object,
		.listed = on_listed,
		.told = on_told,
		.arg = m,
	});
	*out = m;
	return 0;
}

void
hosts_map_stop(struct hosts_map **out)
{
	struct hosts_map *m = take_ptr(out);

	if (m == NULL)
		return;
	follow_stop(&m->follow);
	https_stop(&m->write);
	timer_free(&m->timer);
	json_stream_fini(&m->split);
	free(m->ns);
	free(m->name);
	free(m->key);
	free(m->path);
	free(m->what);
	free(m->rights);
	free(m->value);
	free(m);
}

static const char *
problem_of(const struct hosts_map *m)
{
	const char *reading = follow_problem(m->follow);

	return reading[0] != '\0' ? reading : m->problem;
}

void
hosts_map_state(const struct hosts_map *m, struct buf *out)
{
	buf_printf(out,
		"{\"configMap\":\"%s/"
		"%s\",\"key\":\"%s\",\"exists\":%s,\"inStep\":%s,\"names\":%zu,\"leftOut\":%zu,"
		"\"kept\":%zu,\"writes\":%llu,\"conflicts\":%llu,\"failures\":%llu,\"problem\":",
		m->ns, m->name, m->key, m->exists ? "true" : "false", m->in_step ? "true" : "false",
		m->made.names, m->made.left_out, m->made.kept, (unsigned long long)m->writes,
		(unsigned long long)m->conflicts, (unsigned long long)m->failed);
	json_add_text(out, problem_of(m));
	buf_adds(out, "}");
}

void
hosts_map_metrics(const struct hosts_map *m, struct metrics *to)
{
	metric_gauge(to, "edgeway_hub_hosts_left_out",
		"Lines that do not fit into the hosts ConfigMap.", NULL, (double)m->made.left_out);
}
