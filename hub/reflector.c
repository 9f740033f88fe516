#include "hub/reflector.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "hub/split.h"
#include "model/json.h"

enum {
	VERSION_MAX = 63,
	CONTINUE_MAX = 4096,
	BRIEF_MS = 1000, /* a watch that ends sooner is no good one */
	TOO_LARGE_MS = 30000,
	ERRORS_MOST = 3, /* ERROR events in a row, then the list is read again */
};

enum step { STEP_LIST, STEP_WATCH, STEP_PROBE };

struct reflector {
	struct reflector_config config;
	enum step step;
	struct https_request *request; /* NULL: the timer runs */
	struct timer *timer;
	struct split split; /* of the request under way */
	uint64_t began_ms; /* the request */
	char version[VERSION_MAX + 1]; /* watched from */
	bool listed, absent, open;
	bool spoke; /* this watch has said something */
	unsigned failures; /* in a row */
	unsigned error_events;
	/* Of the list under way. */
	char list_version[VERSION_MAX + 1]; /* of its first page, "": it has not begun */
	char *next; /* continue, "": first page */
	uint64_t mark, list_began_ms;
	bool at_once; /* not in pages: they have expired before */
	bool unknown; /* it held what was not understood: nothing is removed */
	struct reflector_stats stats;
	struct err wrong; /* what on_value found */
	char problem[512];
};

static void begin(void *arg);

/* --- trouble ---------------------------------------------------------------------- */

static void printf_like(2, 3) set_problem(struct reflector *r, const char *fmt, ...)
{
	char text[sizeof r->problem];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (strcmp(text, r->problem) == 0)
		return;
	memcpy(r->problem, text, sizeof text);
	log_limited(LOG_LEVEL_WARN, 30, "kubernetes", "%s resource=%s", text, r->config.resource);
}

static void
clear_problem(struct reflector *r)
{
	r->failures = 0;
	if (r->problem[0] == '\0')
		return;
	r->problem[0] = '\0';
	log_limited(LOG_LEVEL_INFO, 30, "kubernetes", "all is well again resource=%s",
		r->config.resource);
}

/* Between half of it and all of it: many hubs do not come back at the same moment. */
static uint64_t
jitter(uint64_t ms)
{
	uint32_t random;

	random_bytes(&random, sizeof random);
	return ms - ms / 2 * (random % 1024) / 1024;
}

static void
again(struct reflector *r, uint64_t least_ms)
{
	uint64_t ms = REFLECTOR_BACKOFF_MOST_MS;

	if (r->failures < 9)
		ms = MIN(ms, r->config.backoff_ms << r->failures);
	r->failures++;
	timer_start(r->timer, MAX(jitter(ms), least_ms + ms - jitter(ms)), 0);
}

static void
list_anew(struct reflector *r)
{
	r->step = STEP_LIST;
	r->list_version[0] = '\0';
	r->next[0] = '\0';
}

/* --- objects ------------------------------------------------------------------------- */

static void
names_of(const struct tree_node *n, const char **ns, const char **name)
{
	const struct tree_node *meta = tree_get(n, "metadata");

	*ns = tree_text(tree_get(meta, "namespace"), "");
	*name = tree_text(tree_get(meta, "name"), "");
}

/* A version is opaque, and goes into a query as it came. */
static bool
take_version(char to[VERSION_MAX + 1], const struct tree_node *object)
{
	const char *text = tree_text(tree_path(object, "metadata.resourceVersion"), "");
	size_t len = strlen(text);

	if (len == 0 || len > VERSION_MAX || strspn(text, "0123456789") != len)
		return false;
	memcpy(to, text, len + 1);
	return true;
}

static void
put(struct reflector *r, const struct tree_node *n)
{
	struct kube_object *o = NULL;
	struct err err = {0};
	const char *ns, *name;
	int rc = kube_decode(&o, r->config.resource, n, kube_kind_name(r->config.kind), &err);

	names_of(n, &ns, &name);
	if (o != NULL && o->kind == r->config.kind) {
		if (err.text[0] != '\0')
			log_limited(LOG_LEVEL_WARN, 20, "kubernetes", "%s object=%s/%s", err.text,
				ns, name);
		cluster_put(r->config.cluster, "", &o);
		return;
	}
	kube_object_free(&o);
	r->stats.refused++;
	log_limited(LOG_LEVEL_WARN, 20, "kubernetes",
		"an object is not understood, its last good form counts: %s object=%s/%s",
		rc < 0 ? err.text : "of another kind", ns, name);
	cluster_keep(r->config.cluster, "", r->config.kind, ns, name);
}

/* What an ERROR event says: 410 in its second form, or a trouble of the server. */
static int
on_error_event(struct reflector *r, const struct tree_node *status)
{
	int64_t code = 0;

	tree_int(tree_get(status, "code"), 0, 999, &code);
	err_set(&r->wrong, EAGAIN, "the watch ended with an error: %.200s",
		tree_text(tree_get(status, "message"), "it says none"));
	return code == 410 ? -ESTALE : -EAGAIN;
}

static int
on_event(struct reflector *r, const struct tree_node *event)
{
	const struct tree_node *object = tree_get(event, "object");
	const char *type = tree_text(tree_get(event, "type"), "");
	const char *ns, *name;
	char version[VERSION_MAX + 1];

	if (strcmp(type, "ERROR") == 0)
		return on_error_event(r, object);
	if (!take_version(version, object))
		return err_set(&r->wrong, EBADMSG, "an event without a resourceVersion");
	r->stats.events++;
	r->spoke = true;
	r->error_events = 0;
	names_of(object, &ns, &name);
	if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0)
		put(r, object);
	else if (strcmp(type, "DELETED") == 0)
		r->stats.removed += cluster_remove(r->config.cluster, "", r->config.kind, ns, name);
	else if (strcmp(type, "BOOKMARK") != 0)
		return err_set(&r->wrong, EBADMSG, "an event of unknown type \"%.40s\"", type);
	memcpy(r->version, version, sizeof version);
	clear_problem(r);
	if (strcmp(type, "BOOKMARK") != 0)
		r->config.changed(r->config.arg);
	return 0;
}

static int
on_too_large(struct reflector *r)
{
	r->stats.refused++;
	err_set(&r->wrong, EMSGSIZE, "an object of more than %d MB is passed over",
		SPLIT_VALUE_MAX >> 20);
	log_limited(LOG_LEVEL_ERROR, 6, "kubernetes",
		"%s: what was known of it goes on to count resource=%s", r->wrong.text,
		r->config.resource);
	r->unknown = true;
	return r->step == STEP_WATCH ? -EMSGSIZE : 0;
}

static int
on_value(void *arg, const char *text, size_t len)
{
	struct reflector *r = arg;
	struct tree *tree = NULL;
	int rc;

	if (text == NULL)
		return on_too_large(r);
	if (r->step == STEP_PROBE)
		return 0;
	rc = tree_parse(&tree, r->config.resource, text, len, &r->wrong);
	if (rc == 0 && tree_count(tree) != 1)
		rc = err_set(&r->wrong, EBADMSG, "an empty object");
	if (rc < 0)
		return -EBADMSG;
	if (r->step == STEP_WATCH)
		rc = on_event(r, tree_document(tree, 0));
	else
		put(r, tree_document(tree, 0));
	tree_free(&tree);
	return rc;
}

/* --- answers ---------------------------------------------------------------------------- */

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
	return split_feed(&r->split, data, len);
}

/* metadata of a list: its version and where it goes on. */
static int
read_rest(struct reflector *r, char version[VERSION_MAX + 1], char **next)
{
	struct tree *tree = NULL;
	const char *text;
	size_t len;
	int rc;

	*next = NULL;
	if (!split_whole(&r->split))
		return err_set(&r->wrong, EBADMSG, "the list is cut off");
	text = split_rest(&r->split, &len);
	if ((rc = tree_parse(&tree, r->config.resource, text, len, &r->wrong)) < 0)
		return rc;
	if (tree_count(tree) == 1 && take_version(version, tree_document(tree, 0)))
		*next = xstrdup(
			tree_text(tree_path(tree_document(tree, 0), "metadata.continue"), ""));
	else
		rc = err_set(&r->wrong, EBADMSG, "a list without a resourceVersion");
	tree_free(&tree);
	if (*next != NULL && strlen(*next) > CONTINUE_MAX)
		rc = err_set(&r->wrong, EBADMSG, "a list with an endless continue");
	return rc;
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
	clear_problem(r);
	begin(r);
	r->config.changed(r->config.arg);
}

static void
on_page(struct reflector *r)
{
	char version[VERSION_MAX + 1];
	auto_free char *next = NULL;

	if (read_rest(r, version, &next) < 0) {
		r->stats.errors++;
		set_problem(r, "%.400s", r->wrong.text);
		list_anew(r);
		again(r, 0);
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
	r->failures = 0;
	begin(r);
}

/* Versions are whole numbers of one counter (etcd's), at most 19 digits that are not 0 at first. */
static bool
is_before(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	return n != m ? n < m : strcmp(a, b) < 0;
}

/* A watch from a version that is yet to come is silent for ever: the server's data was put back to an earlier time. */
static void
on_probe(struct reflector *r)
{
	char version[VERSION_MAX + 1];
	auto_free char *next = NULL;

	if (read_rest(r, version, &next) < 0) {
		list_anew(r);
	} else if (is_before(version, r->version)) {
		set_problem(r, "the API server is back at version %s after %s: all is read anew",
			version, r->version);
		list_anew(r);
	} else {
		r->step = STEP_WATCH;
	}
	begin(r);
}

static void
on_watch_end(struct reflector *r, const struct https_answer *a)
{
	bool brief = loop_now_ms(r->config.loop) - r->began_ms < BRIEF_MS;

	if (a->code == 0 && split_whole(&r->split)) {
		r->step = r->spoke ? STEP_WATCH : STEP_PROBE;
		if (!brief) {
			clear_problem(r);
			timer_start(r->timer, jitter(r->config.backoff_ms), 0);
			return;
		}
		again(r, 0);
		return;
	}
	if (a->code == -ETIMEDOUT && r->open) {
		log_info("kubernetes",
			"a watch said nothing for %" PRIu64 " s, asking anew resource=%s",
			r->config.silence_ms / 1000, r->config.resource);
		r->step = STEP_PROBE;
		begin(r);
		return;
	}
	r->stats.errors++;
	if (a->code == -ESTALE) {
		log_info("kubernetes", "the history is over, listing again resource=%s version=%s",
			r->config.resource, r->version);
		list_anew(r);
	} else if (a->code == -EBADMSG || a->code == -EMSGSIZE) {
		set_problem(r, "%.400s", r->wrong.text[0] != '\0' ? r->wrong.text : "not JSON");
		list_anew(r);
	} else if (a->code == -EAGAIN) {
		set_problem(r, "%.400s", r->wrong.text);
		if (++r->error_events >= ERRORS_MOST)
			list_anew(r);
	} else {
		set_problem(r, "the watch was cut off: %.300s", a->text);
	}
	again(r, a->code == -EMSGSIZE ? TOO_LARGE_MS : 0);
}

static void
explain_status(struct reflector *r, const struct https_answer *a)
{
	struct tree *tree = NULL;
	const char *message = "";

	if (a->body[0] == '{' && tree_parse(&tree, "answer", a->body, a->body_len, NULL) == 0 &&
		tree_count(tree) == 1)
		message = tree_text(tree_get(tree_document(tree, 0), "message"), "");
	if (a->status == 403)
		set_problem(r,
			"forbidden: give the hub's ClusterRole the verbs list and watch on %s "
			"(apiGroups: [\"%s\"]); the server says: %.250s",
			r->config.resource, r->config.group, message);
	else if (a->status == 401)
		set_problem(r,
			"the API server does not know us: the token or certificate has ended or "
			"was "
			"revoked; it is read again before each attempt");
	else
		set_problem(r, "the API server answers %d: %.250s", a->status, message);
	tree_free(&tree);
}

/* A status that is not 2xx. While a server starts, 403 and 429 pass. */
static void
on_refused(struct reflector *r, const struct https_answer *a)
{
	uint64_t least_ms = (uint64_t)a->retry_after_s * 1000;

	r->stats.errors++;
	if (a->status == 410) {
		log_info("kubernetes", "%s, listing again resource=%s",
			r->step == STEP_LIST ? "the pages of the list have expired"
					     : "the history is over",
			r->config.resource);
		r->at_once = r->step == STEP_LIST;
		list_anew(r);
		again(r, 0);
		return;
	}
	explain_status(r, a);
	if (a->status == 404) {
		r->absent = true;
		least_ms = REFLECTOR_ABSENT_MS;
		r->config.changed(r->config.arg);
	}
	if (a->status == 400 || a->status == 404 || a->status == 422 || a->status == 500)
		list_anew(r);
	again(r, least_ms);
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
		set_problem(r, "%.400s",
			a->text[0] != '\0'                 ? a->text
				: r->wrong.text[0] != '\0' ? r->wrong.text
							   : "not JSON");
		again(r, 0);
	} else if (r->step == STEP_LIST) {
		on_page(r);
	} else {
		on_probe(r);
	}
}

/* --- requests ------------------------------------------------------------------------------ */

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
begin(void *arg)
{
	struct reflector *r = arg;
	bool core = r->config.group[0] == '\0';
	auto_buf struct buf path;
	struct https_call call = {
		.silence_ms = r->step == STEP_WATCH
			? r->config.silence_ms
			: MIN(r->config.silence_ms, REFLECTOR_LIST_SILENCE_MS),
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
	split_fini(&r->split);
	split_init(&r->split, r->step == STEP_WATCH ? SPLIT_STREAM : SPLIT_LIST, on_value, r);
	r->open = r->spoke = false;
	r->wrong.text[0] = '\0';
	r->stats.watches += r->step == STEP_WATCH;
	buf_init(&path, BUF_UNLIMITED);
	buf_printf(&path, "%s%s/v1/%s?", core ? "/api" : "/apis/", r->config.group,
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
	if (r->config.backoff_ms == 0)
		r->config.backoff_ms = REFLECTOR_BACKOFF_MS;
	r->timer = timer_new(config->loop, begin, r);
	r->next = xstrdup("");
	split_init(&r->split, SPLIT_LIST, on_value, r);
	begin(r);
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
	split_fini(&r->split);
	free(r->next);
	free(r);
}

/* --- telling --------------------------------------------------------------------------------- */

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

const char *
reflector_resource(const struct reflector *r)
{
	return r->config.resource;
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
		"{\"doing\":\"%s\",\"listed\":%s,\"version\":\"%s\",\"events\":"
		"%" PRIu64 ",\"lists\":%" PRIu64 ",\"heard_s\":%" PRIu64 ",\"problem\":",
		r->request == NULL ? "waiting" : doing[r->step], r->listed ? "true" : "false",
		r->version, r->stats.events, r->stats.lists,
		r->stats.heard_ms == 0 ? 0 : (now - r->stats.heard_ms) / 1000);
	json_add_text(out, r->problem);
	buf_adds(out, "}");
}
