#include "hub/kube/reflector.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "hub/kube/reflector_private.h"
#include "model/json.h"

static void reflector_begin(void *arg);

/* --- errors --------------------------------------------------------------------------------- */

/* Retries after a back-off. */
static void
reflector_again(struct reflector *r, const struct https_answer *a, uint64_t least_ms)
{
	timer_start(r->timer, MAX(kube_wait_ms(&r->wait, a), least_ms), 0);
}

static void
list_anew(struct reflector *r)
{
	r->step = STEP_LIST;
	r->list_version[0] = '\0';
	r->next[0] = '\0';
}

/* --- responses ------------------------------------------------------------------------------ */

static void
on_open(void *arg)
{
	struct reflector *r = arg;

	r->open = true;
	r->absent = false;
	r->stats.heard_ms = loop_now_ms(r->config.loop);
}

static int
on_data(void *arg, const char *data, size_t len)
{
	struct reflector *r = arg;

	r->stats.heard_ms = loop_now_ms(r->config.loop);
	return json_stream_feed(&r->split, data, len);
}

static void
finish_list(struct reflector *r)
{
	size_t gone = 0;

	if (!r->unknown)
		gone = cluster_sweep(r->config.cluster, "", r->config.kind, r->mark);
	r->stats.removed += gone;
	r->stats.lists++;
	memcpy(r->version, r->list_version, sizeof r->version);
	log_info("kubernetes", "listed resource=%s objects=%zu gone=%zu version=%s ms=%" PRIu64,
		r->config.resource, cluster_count(r->config.cluster, r->config.kind), gone,
		r->version, loop_now_ms(r->config.loop) - r->list_began_ms);
	list_anew(r);
	r->step = STEP_WATCH;
	r->listed = true;
	r->at_once = false;
	reflector_well(r);
	reflector_begin(r);
	r->config.changed(r->config.arg);
}

static void
on_page(struct reflector *r, const struct https_answer *a)
{
	char version[VERSION_MAX + 1];
	auto_free char *next = NULL;

	if (reflector_take_rest(r, version, &next) < 0) {
		r->stats.errors++;
		reflector_trouble(r, LOG_LEVEL_WARN, "%.400s", r->wrong.text);
		list_anew(r);
		reflector_again(r, a, 0);
		return;
	}
	if (r->list_version[0] == '\0')
		memcpy(r->list_version, version, sizeof version);
	free(r->next);
	r->next = take_ptr(&next);
	if (r->next[0] == '\0') {
		finish_list(r);
		return;
	}
	kube_wait_reset(&r->wait);
	reflector_begin(r);
}

/* Versions are integers of one counter (etcd's), at most 19 digits without leading zeros. */
static bool
is_before(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	return n != m ? n < m : strcmp(a, b) < 0;
}

/* A watch from a future version would be silent for ever: if the current version is lower, the
 * server's data was restored from an earlier time. */
static void
on_probe(struct reflector *r)
{
	char version[VERSION_MAX + 1];
	auto_free char *next = NULL;

	if (reflector_take_rest(r, version, &next) < 0) {
		list_anew(r);
	} else if (is_before(version, r->version)) {
		reflector_trouble(r, LOG_LEVEL_WARN,
			"the API server is back at version %s after %s: all is read anew", version,
			r->version);
		list_anew(r);
	} else {
		r->step = STEP_WATCH;
	}
	reflector_begin(r);
}

static void
on_watch_end(struct reflector *r, const struct https_answer *a)
{
	bool brief = loop_now_ms(r->config.loop) - r->began_ms < BRIEF_MS;

	if (a->code == 0 && json_stream_whole(&r->split)) {
		r->step = r->spoke ? STEP_WATCH : STEP_PROBE;
		if (!brief)
			reflector_well(r);
		reflector_again(r, a, 0);
		return;
	}
	if (a->code == -ETIMEDOUT && r->open) {
		log_info("kubernetes",
			"a watch said nothing for %" PRIu64 " s, asking anew resource=%s",
			r->config.silence_ms / 1000, r->config.resource);
		r->step = STEP_PROBE;
		reflector_begin(r);
		return;
	}
	r->stats.errors++;
	if (a->code == -ESTALE) {
		log_info("kubernetes", "the history is over, listing again resource=%s version=%s",
			r->config.resource, r->version);
		list_anew(r);
		if (!brief)
			kube_wait_reset(&r->wait);
	} else if (a->code == -EBADMSG || a->code == -EMSGSIZE) {
		reflector_trouble(r, LOG_LEVEL_WARN, "%.400s",
			r->wrong.text[0] != '\0' ? r->wrong.text : "not JSON");
		list_anew(r);
	} else if (a->code == -EAGAIN) {
		reflector_trouble(r, LOG_LEVEL_WARN, "%.400s", r->wrong.text);
		if (++r->error_events >= ERRORS_MOST)
			list_anew(r);
	} else {
		reflector_trouble(r, LOG_LEVEL_WARN, "the watch was cut off: %.300s", a->text);
	}
	reflector_again(r, a, a->code == -EMSGSIZE ? TOO_LARGE_MS : 0);
}

/* Objects whose CustomResourceDefinition was deleted are gone without an event. */
static void
reflector_lacks(struct reflector *r, const struct https_answer *a)
{
	if (!r->absent)
		log_info("kubernetes", "not read, since the API server %s it resource=%s rights=%s",
			a->status == 404 ? "does not know" : "forbids", r->config.resource,
			r->config.rights != NULL ? r->config.rights : "");
	r->absent = true;
	r->listed = false;
	r->problem[0] = '\0';
	cluster_sweep(r->config.cluster, "", r->config.kind, cluster_mark(r->config.cluster));
}

/* Without its policies a Service would be called in clear: only a server that does not know them
 * has none. */
static bool
reflector_may_lack(const struct reflector *r, int status)
{
	return r->config.optional &&
		(status == 404 || (status == 403 && r->config.kind != KUBE_TLS_POLICY));
}

static void
explain_status(struct reflector *r, const struct https_answer *a)
{
	struct tree *tree = NULL;
	const char *message =
		a->body; /* from a proxy, or from an overloaded server: a line of text */

	if (a->body[0] == '{' && tree_parse(&tree, "answer", a->body, a->body_len, NULL) == 0 &&
		tree_count(tree) == 1)
		message = tree_text(tree_get(tree_document(tree, 0), "message"), "");
	if (a->status == 403)
		reflector_trouble(r, LOG_LEVEL_WARN,
			"forbidden: give the hub's ClusterRole the verbs list and watch on %s "
			"(apiGroups: [\"%s\"]%s%s); the server says: %.250s",
			r->config.resource, r->config.group,
			r->config.rights != NULL ? "; they are in " : "",
			r->config.rights != NULL ? r->config.rights : "", message);
	else if (a->status == 401)
		reflector_trouble(r, LOG_LEVEL_WARN,
			"the API server does not know us: the token or certificate has ended or "
			"was "
			"revoked; it is read again before each attempt");
	else if (a->status == 404)
		reflector_trouble(r, LOG_LEVEL_WARN,
			"the API server does not know %s%s%s; it is asked again from time to time",
			r->config.resource, r->config.group[0] != '\0' ? "." : "", r->config.group);
	else
		reflector_trouble(
			r, LOG_LEVEL_WARN, "the API server answers %d: %.250s", a->status, message);
	tree_free(&tree);
}

/* The server may have the group in another version: tries the next one. */
static bool
try_next_version(struct reflector *r)
{
	if (r->config.versions == NULL)
		return false;
	if (r->config.versions[++r->version_at] != NULL)
		return true;
	r->version_at = 0;
	return false;
}

/* A response with a status that is not 2xx. */
static void
on_refused(struct reflector *r, const struct https_answer *a)
{
	uint64_t least_ms = 0;

	r->stats.errors++;
	if (a->status == 410) {
		log_info("kubernetes", "%s, listing again resource=%s",
			r->step == STEP_LIST ? "the pages of the list have expired"
					     : "the history is over",
			r->config.resource);
		r->at_once = r->step == STEP_LIST;
		list_anew(r);
		reflector_again(r, a, 0);
		return;
	}
	if (a->status == 404 && try_next_version(r)) {
		list_anew(r);
		reflector_begin(r);
		return;
	}
	if (r->listed && kube_wait_doubts(&r->wait, a, loop_now_ms(r->config.loop))) {
		reflector_trouble(r, LOG_LEVEL_INFO,
			"the API server answers %d; it may be starting", a->status);
		reflector_again(r, a, 0);
		return;
	}
	if (reflector_may_lack(r, a->status)) {
		reflector_lacks(r, a);
		least_ms = REFLECTOR_ABSENT_MS;
	} else {
		explain_status(r, a);
	}
	r->refused = true;
	if (a->status == 404) {
		r->absent = true;
		least_ms = REFLECTOR_ABSENT_MS;
	}
	r->config.changed(r->config.arg);
	if (least_ms > 0 || a->status == 400 || a->status == 404 || a->status == 422 ||
		a->status == 500)
		list_anew(r);
	reflector_again(r, a, least_ms);
}

static void
on_done(void *arg, const struct https_answer *a)
{
	struct reflector *r = arg;

	r->request = NULL;
	if (a->status != 0 && a->status / 100 != 2) {
		on_refused(r, a);
	} else if (r->step == STEP_WATCH && a->status != 0) {
		on_watch_end(r, a);
	} else if (a->code != 0) {
		r->stats.errors++;
		if (a->code == -EBADMSG)
			list_anew(r);
		reflector_trouble(r, LOG_LEVEL_WARN, "%.400s",
			a->text[0] != '\0'                 ? a->text
				: r->wrong.text[0] != '\0' ? r->wrong.text
							   : "not JSON");
		reflector_again(r, a, 0);
	} else if (r->step == STEP_LIST) {
		on_page(r, a);
	} else {
		on_probe(r);
	}
}

/* --- requests ------------------------------------------------------------------------------- */

static void
add_encoded(struct buf *to, const char *text)
{
	for (; *text != '\0'; text++)
		buf_printf(to, "%%%02X", (unsigned char)*text);
}

static void
add_query(struct reflector *r, struct buf *to)
{
	uint32_t random;

	switch (r->step) {
	case STEP_WATCH:
		random_bytes(&random, sizeof random);
		buf_printf(to,
			"watch=true&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s",
			REFLECTOR_WATCH_S + random % (REFLECTOR_WATCH_S / 2), r->version);
		break;
	case STEP_PROBE:
		buf_adds(to, "limit=1");
		break;
	case STEP_LIST:
		buf_printf(to, "limit=%d", r->at_once ? 0 : REFLECTOR_PAGE);
		if (r->next[0] != '\0') {
			buf_adds(to, "&continue=");
			add_encoded(to, r->next);
		}
		break;
	}
	if (r->config.select[0] != '\0')
		buf_printf(to, "&%s", r->config.select);
}

static void
reflector_begin(void *arg)
{
	struct reflector *r = arg;
	bool core = r->config.group[0] == '\0';
	auto_buf struct buf path;
	struct https_call call = {
		.silence_ms = r->step == STEP_WATCH
			? r->config.silence_ms
			: MIN(r->config.silence_ms, (uint64_t)REFLECTOR_LIST_SILENCE_MS),
		.open = on_open,
		.data = on_data,
		.done = on_done,
		.arg = r,
	};

	r->began_ms = loop_now_ms(r->config.loop);
	if (r->step == STEP_LIST && r->list_version[0] == '\0') {
		r->mark = cluster_mark(r->config.cluster);
		r->list_began_ms = r->began_ms;
		r->unknown = false;
	}
	json_stream_fini(&r->split);
	json_stream_init(&r->split, r->step == STEP_WATCH ? JSON_STREAM_STREAM : JSON_STREAM_LIST,
		reflector_take, r);
	r->open = r->spoke = false;
	r->wrong.text[0] = '\0';
	buf_init(&path, BUF_UNLIMITED);
	buf_printf(&path, "%s%s/%s/%s?", core ? "/api" : "/apis/", r->config.group,
		r->config.versions != NULL ? r->config.versions[r->version_at] : "v1",
		r->config.resource);
	add_query(r, &path);
	call.path = buf_str(&path);
	r->request = kube_api_start(r->config.api, &call);
}

struct reflector *
reflector_start(const struct reflector_config *config)
{
	struct reflector *r = xcalloc(1, sizeof *r);

	r->config = *config;
	if (r->config.silence_ms == 0)
		r->config.silence_ms = REFLECTOR_SILENCE_MS;
	r->wait.first_ms = config->backoff_ms;
	r->timer = timer_new(config->loop, reflector_begin, r);
	r->next = xstrdup("");
	json_stream_init(&r->split, JSON_STREAM_LIST, reflector_take, r);
	reflector_begin(r);
	return r;
}

void
reflector_stop(struct reflector **out)
{
	struct reflector *r = take_ptr(out);

	if (r == NULL)
		return;
	https_stop(&r->request);
	timer_free(&r->timer);
	json_stream_fini(&r->split);
	free(r->next);
	free(r);
}

/* --- telling -------------------------------------------------------------------------------- */

bool
reflector_listed(const struct reflector *r)
{
	return r->listed;
}

bool
reflector_absent(const struct reflector *r)
{
	return r->absent;
}

bool
reflector_refused(const struct reflector *r)
{
	return r->refused;
}

const char *
reflector_problem(const struct reflector *r)
{
	return r->problem;
}

const struct reflector_stats *
reflector_stats(const struct reflector *r)
{
	return &r->stats;
}

void
reflector_state(const struct reflector *r, struct buf *out)
{
	static const char *const doing[] = {"listing", "watching", "asking for the version"};
	uint64_t now = loop_now_ms(r->config.loop);

	buf_printf(out,
		"{\"doing\":\"%s\",\"listed\":%s,\"version\":\"%s\",\"events\":%" PRIu64
		",\"lists\":%" PRIu64 ",\"heard_s\":%" PRIu64 ",\"problem\":",
		r->request == NULL ? "waiting" : doing[r->step], r->listed ? "true" : "false",
		r->version, r->stats.events, r->stats.lists,
		r->stats.heard_ms == 0 ? 0 : (now - r->stats.heard_ms) / 1000);
	json_add_text(out, r->problem);
	buf_adds(out, "}");
}
