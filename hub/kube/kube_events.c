#include "hub/kube/kube_events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/conf/tree.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "hub/kube/json_stream.h"
#include "model/json.h"
#include "model/kube.h"
#include "model/table.h"

enum {
	SILENCE_MS = 30000,
	UID_MAX = 63,
	TEXT_MAX = 1024,
	EVENT_BASE_MAX = 236 /* an Event's name has at most 253 */
};

#define ROUTES_VERSION KUBE_GATEWAY_GROUP "/v1"
#define ROUTES_API "/apis/" ROUTES_VERSION

/* A Service or route with a report that was or will be sent as an Event. */
struct told {
	struct table_node node;
	char *ns, *name;
	const char *kind; /* reason of the Event */
	char *text; /* the current text, "": no problem */
	char *said; /* the text of the last Event, NULL: there was none */
	uint64_t round, since_ms, said_ms;
	uint64_t again_ms; /* its Event was refused: not sent before */
	struct kube_wait wait; /* of refusals */
	unsigned count; /* count of the last Event */
};

/* Steps of sending an Event: read the Service's uid, POST the Event, PATCH its count if it exists
 * already (409). */
enum step { STEP_UID, STEP_CREATE, STEP_COUNT };

struct kube_events {
	struct loop *loop;
	struct kube_api *api;
	struct timer *timer; /* until the next Event may be sent */
	struct https_request *request;
	enum step step;
	struct json_stream split; /* parses the list of one Service, for its uid */
	char uid[UID_MAX + 1];
	const char *kind;
	char *ns, *name, *text; /* of the Event that is being sent */
	struct table services;
	uint64_t round, paced_ms;
	struct kube_wait wait;
	uint64_t sent;
	size_t n_unreachable;
	char host[65];
	char problem[400];
};

/* What Events are about, told by their reason. */
enum topic { TOPIC_SERVICE, TOPIC_RULE, TOPIC_HTTPROUTE, TOPIC_GRPCROUTE };

static const struct {
	const char *reason; /* NULL: every other one */
	const char *api, *version, *kind, *resource; /* of the object */
	const char *well, *well_text;
} topics[] = {
	[TOPIC_SERVICE] = {NULL, "/api/v1", "v1", "Service", "services", EVENT_WELL,
		"every endpoint can be reached from the edge nodes"},
	[TOPIC_RULE] = {EVENT_RULE, "/api/v1", "v1", "Service", "services", EVENT_RULE_WELL,
		"nothing of its DestinationRules is left out any more"},
	[TOPIC_HTTPROUTE] = {EVENT_HTTPROUTE, ROUTES_API, ROUTES_VERSION, "HTTPRoute", "httproutes",
		"HTTPRouteFollowed", "the route counts as it is"},
	[TOPIC_GRPCROUTE] = {EVENT_GRPCROUTE, ROUTES_API, ROUTES_VERSION, "GRPCRoute", "grpcroutes",
		"GRPCRouteFollowed", "the route counts as it is"},
};

static void start_next(void *arg);
static void kube_events_step(struct kube_events *e);

/* --- known Services ------------------------------------------------------------------------- */

static enum topic
topic_of(const char *kind)
{
	size_t i = 1;

	while (i < ARRAY_LEN(topics) && strcmp(kind, topics[i].reason) != 0)
		i++;
	return i < ARRAY_LEN(topics) ? (enum topic)i : TOPIC_SERVICE;
}

static uint64_t
hash_of(const char *ns, const char *name, enum topic topic)
{
	return hash64(name, strlen(name), hash64(ns, strlen(ns), topic));
}

static struct told *
kube_events_find(const struct kube_events *e, const char *ns, const char *name, const char *kind)
{
	struct table_node *n = table_first(&e->services, hash_of(ns, name, topic_of(kind)));

	for (; n != NULL; n = table_next(n)) {
		struct told *t = container_of(n, struct told, node);

		if (strcmp(t->ns, ns) == 0 && strcmp(t->name, name) == 0 &&
			topic_of(t->kind) == topic_of(kind))
			return t;
	}
	return NULL;
}

static void
kube_events_forget(struct kube_events *e, struct told *t)
{
	table_remove(&e->services, &t->node);
	free(t->ns);
	free(t->name);
	free(t->text);
	free(t->said);
	free(t);
}

/* When its Event is due; UINT64_MAX: there is nothing to send. */
static uint64_t
due_ms(const struct told *t)
{
	uint64_t stable_ms = MAX(t->since_ms + KUBE_EVENTS_STABLE_MS, t->again_ms);

	if (t->text[0] == '\0' && (t->said == NULL || t->said[0] == '\0'))
		return UINT64_MAX;
	if (t->said == NULL || strcmp(t->said, t->text) != 0)
		return stable_ms;
	return MAX(stable_ms, t->said_ms + KUBE_EVENTS_REPEAT_MS);
}

void
kube_events_begin(struct kube_events *e)
{
	e->round++;
	e->n_unreachable = 0;
}

void
kube_events_tell(
	struct kube_events *e, const char *ns, const char *name, const char *kind, const char *text)
{
	struct told *t = kube_events_find(e, ns, name, kind);

	e->n_unreachable += text[0] != '\0' && topic_of(kind) == TOPIC_SERVICE;
	if (t == NULL && text[0] == '\0')
		return;
	if (t == NULL) {
		t = xcalloc(1, sizeof *t);
		t->ns = xstrdup(ns);
		t->name = xstrdup(name);
		t->text = xstrdup("");
		t->kind = kind;
		table_add(&e->services, &t->node, hash_of(ns, name, topic_of(kind)));
	}
	t->round = e->round;
	t->kind = kind;
	if (strcmp(t->text, text) == 0)
		return;
	free(t->text);
	t->text = xstrndup(text, TEXT_MAX);
	t->since_ms = loop_now_ms(e->loop);
}

/* Returns true if the Service is gone, or has had no problem since we know it or since the last
 * Event. */
static bool
is_over(const struct kube_events *e, const struct told *t)
{
	return t->round != e->round ||
		(t->text[0] == '\0' && (t->said == NULL || t->said[0] == '\0'));
}

void
kube_events_end(struct kube_events *e)
{
	auto_free struct told **over = xcalloc(e->services.n + 1, sizeof *over);
	struct table_node *n = NULL;
	size_t slot = 0, n_over = 0;

	while ((n = table_walk(&e->services, &slot, n)) != NULL) {
		struct told *t = container_of(n, struct told, node);

		if (is_over(e, t))
			over[n_over++] = t;
	}
	while (n_over > 0)
		kube_events_forget(e, over[--n_over]);
	if (e->request == NULL && !timer_active(e->timer))
		start_next(e);
}

/* --- sending one Event ---------------------------------------------------------------------- */

/* The one that is due for the longest time: a text that changes again and again, for example by a
 * node's reports, gets its turn like others, and never before them. */
static struct told *
find_due(const struct kube_events *e)
{
	uint64_t at_ms = loop_now_ms(e->loop) + 1;
	struct told *first = NULL;
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&e->services, &slot, n)) != NULL) {
		struct told *t = container_of(n, struct told, node);

		if (due_ms(t) < at_ms) {
			at_ms = due_ms(t);
			first = t;
		}
	}
	return first;
}

static void
add_time(struct buf *out)
{
	time_t now = (time_t)(wall_ms() / 1000);
	struct tm tm;
	char text[32];

	gmtime_r(&now, &tm);
	strftime(text, sizeof text, "\"%Y-%m-%dT%H:%M:%SZ\"", &tm);
	buf_adds(out, text);
}

static char *
event_name(const struct kube_events *e)
{
	bool long_ = strlen(e->name) > EVENT_BASE_MAX;
	uint64_t seed = topic_of(e->kind) + (long_ ? hash64(e->name, strlen(e->name), 0) : 0);

	return xasprintf(
		"%s.%016" PRIx64, long_ ? "long" : e->name, hash64(e->text, strlen(e->text), seed));
}

static char *
event_json(const struct kube_events *e)
{
	auto_free char *name = event_name(e);
	bool well = e->text[0] == '\0';
	enum topic topic = topic_of(e->kind);
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	buf_printf(&b,
		"{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"metadata\":{\"name\":\"%s\","
		"\"namespace\":\"%s\"},\"involvedObject\":{\"apiVersion\":\"%s\",\"kind\":"
		"\"%s\",\"namespace\":\"%s\",\"name\":\"%s\",\"uid\":",
		name, e->ns, topics[topic].version, topics[topic].kind, e->ns, e->name);
	json_add_text(&b, e->uid);
	buf_printf(&b, "},\"reason\":\"%s\",\"type\":\"%s\",\"message\":",
		well ? topics[topic].well : e->kind, well ? "Normal" : "Warning");
	json_add_text(&b, well ? topics[topic].well_text : e->text);
	buf_adds(&b, ",\"count\":1,\"firstTimestamp\":");
	add_time(&b);
	buf_adds(&b, ",\"lastTimestamp\":");
	add_time(&b);
	buf_adds(&b,
		",\"source\":{\"component\":\"edgeway-hub\"},\"reportingComponent\":\"edgeway.io/"
		"hub\",\"reportingInstance\":");
	json_add_text(&b, e->host);
	buf_adds(&b, "}");
	return buf_take_str(&b);
}

static char *
count_json(unsigned count)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	buf_printf(&b, "{\"count\":%u,\"lastTimestamp\":", count);
	add_time(&b);
	buf_adds(&b, "}");
	return buf_take_str(&b);
}

static void
wait_ms(struct kube_events *e, uint64_t ms)
{
	timer_start(e->timer, ms, 0);
}

/* Returns the delay of the next Event: lets a burst through, and then one every
 * KUBE_EVENTS_PACE_MS. */
static uint64_t
kube_events_pace(struct kube_events *e)
{
	uint64_t now = loop_now_ms(e->loop), ahead = KUBE_EVENTS_BURST * KUBE_EVENTS_PACE_MS;

	e->paced_ms = MAX(e->paced_ms, now) + KUBE_EVENTS_PACE_MS;
	return e->paced_ms > now + ahead ? e->paced_ms - now - ahead : 1;
}

static void
kube_events_finish(struct kube_events *e, bool sent)
{
	struct told *t = kube_events_find(e, e->ns, e->name, e->kind);

	e->sent += sent;
	if (t != NULL) {
		t->count = t->said != NULL && strcmp(t->said, e->text) == 0 ? t->count + 1 : 1;
		free(t->said);
		t->said = xstrdup(e->text);
		t->said_ms = loop_now_ms(e->loop);
		kube_wait_reset(&t->wait);
	}
	e->problem[0] = '\0';
	kube_wait_reset(&e->wait);
	wait_ms(e, kube_events_pace(e));
}

static int
on_service(void *arg, const char *text, size_t len)
{
	struct kube_events *e = arg;
	struct tree *tree = NULL;

	if (text == NULL || tree_parse(&tree, "services", text, len, NULL) < 0)
		return 0;
	if (tree_count(tree) == 1)
		snprintf(e->uid, sizeof e->uid, "%s",
			tree_text(tree_path(tree_document(tree, 0), "metadata.uid"), ""));
	tree_free(&tree);
	return 0;
}

static int
on_data(void *arg, const char *data, size_t len)
{
	struct kube_events *e = arg;

	return e->step == STEP_UID ? json_stream_feed(&e->split, data, len) : 0;
}

/* For any Event, and not by a quota or an admission webhook for this one. */
static bool
is_forbidden(const struct https_answer *a)
{
	return a->status == 403 && strstr(a->body, "exceeded quota") == NULL &&
		strstr(a->body, "admission webhook") == NULL;
}

static void
kube_events_tell_problem(struct kube_events *e, const struct https_answer *a)
{
	char before[sizeof e->problem];

	memcpy(before, e->problem, sizeof before);
	if (is_forbidden(a))
		snprintf(e->problem, sizeof e->problem,
			"forbidden: give the hub's ClusterRole the verbs create and patch on "
			"events "
			"(apiGroups: [\"\"]); until then only edgewayctl says why a Service cannot "
			"be "
			"reached");
	else if (a->status == 403)
		snprintf(e->problem, sizeof e->problem,
			"the namespace %.63s does not take Events: %.200s", e->ns, a->body);
	else
		snprintf(e->problem, sizeof e->problem, "Events cannot be written: %d %.200s",
			a->status, a->text);
	if (strcmp(before, e->problem) != 0)
		log_limited(LOG_LEVEL_WARN, 6, "kubernetes", "%s", e->problem);
}

/* A refusal may be for this Event alone (a quota of its namespace, its text): others go first. */
static void
kube_events_refused(struct kube_events *e, const struct https_answer *a)
{
	struct told *t = kube_events_find(e, e->ns, e->name, e->kind);
	uint64_t now = loop_now_ms(e->loop), pause_ms = kube_wait_ms(&e->wait, a);

	if (e->sent > 0 && t != NULL && kube_wait_doubts(&t->wait, a, now)) {
		t->again_ms = now + kube_wait_ms(&t->wait, a);
		wait_ms(e, pause_ms);
		return;
	}
	kube_events_tell_problem(e, a);
	if (t != NULL && a->status != 0)
		t->again_ms = now +
			(a->status == 403 ? KUBE_EVENTS_FORBIDDEN_MS : kube_wait_ms(&t->wait, a));
	wait_ms(e, is_forbidden(a) ? KUBE_EVENTS_FORBIDDEN_MS : pause_ms);
}

/* A namespace that is being deleted accepts no Events. */
static bool
is_terminating(const struct https_answer *a)
{
	return a->status == 403 && strstr(a->body, "being terminated") != NULL;
}

static void
on_done(void *arg, const struct https_answer *a)
{
	struct kube_events *e = arg;

	e->request = NULL;
	if (e->step == STEP_CREATE && a->status == 409) {
		e->step = STEP_COUNT;
		kube_events_step(e);
	} else if (a->status == 404 || is_terminating(a) ||
		(e->step == STEP_UID && a->whole && a->status == 200 && e->uid[0] == '\0')) {
		kube_events_finish(e,
			/* the Service or its namespace is gone, or the cluster deleted the Event */
			false);
	} else if (!a->whole || a->status / 100 != 2) {
		kube_events_refused(e, a);
	} else if (e->step == STEP_UID) {
		e->step = STEP_CREATE;
		kube_events_step(e);
	} else {
		kube_events_finish(e, true);
	}
}

static void
send_step(struct kube_events *e, const char *method, const char *path, const char *body)
{
	const struct https_call call = {
		.method = method,
		.path = path,
		.body = body,
		.type = e->step == STEP_COUNT ? "application/merge-patch+json" : "application/json",
		.silence_ms = SILENCE_MS,
		.data = on_data,
		.done = on_done,
		.arg = e,
	};

	e->request = kube_api_start(e->api, &call);
}

static void
kube_events_step(struct kube_events *e)
{
	auto_free char *path = NULL, *body = NULL, *name = NULL;
	const struct told *t;

	switch (e->step) {
	case STEP_UID:
		path = xasprintf("%s/namespaces/%s/%s?fieldSelector=metadata.name%%3D%s",
			topics[topic_of(e->kind)].api, e->ns, topics[topic_of(e->kind)].resource,
			e->name);
		json_stream_fini(&e->split);
		json_stream_init(&e->split, JSON_STREAM_LIST, on_service, e);
		e->uid[0] = '\0';
		send_step(e, NULL, path, NULL);
		break;
	case STEP_CREATE:
		path = xasprintf("/api/v1/namespaces/%s/events", e->ns);
		body = event_json(e);
		send_step(e, "POST", path, body);
		break;
	case STEP_COUNT:
		t = kube_events_find(e, e->ns, e->name, e->kind);
		name = event_name(e);
		path = xasprintf("/api/v1/namespaces/%s/events/%s", e->ns, name);
		body = count_json(t != NULL && t->said != NULL && strcmp(t->said, e->text) == 0
				? t->count + 1
				: 2);
		send_step(e, "PATCH", path, body);
		break;
	}
}

static void
start_next(void *arg)
{
	struct kube_events *e = arg;
	const struct told *t = find_due(e);

	if (t == NULL)
		return;
	free(e->ns);
	free(e->name);
	free(e->text);
	e->ns = xstrdup(t->ns);
	e->name = xstrdup(t->name);
	e->text = xstrdup(t->text);
	e->kind = t->kind;
	e->step = STEP_UID;
	kube_events_step(e);
}

struct kube_events *
kube_events_new(struct loop *loop, struct kube_api *api)
{
	struct kube_events *e = xcalloc(1, sizeof *e);

	e->loop = loop;
	e->api = api;
	e->timer = timer_new(loop, start_next, e);
	json_stream_init(&e->split, JSON_STREAM_LIST, on_service, e);
	if (gethostname(e->host, sizeof e->host - 1) < 0)
		e->host[0] = '\0';
	return e;
}

void
kube_events_free(struct kube_events **out)
{
	struct kube_events *e = take_ptr(out);
	struct table_node *n;
	size_t slot = 0;

	if (e == NULL)
		return;
	https_stop(&e->request);
	timer_free(&e->timer);
	while ((n = table_walk(&e->services, &slot, NULL)) != NULL)
		kube_events_forget(e, container_of(n, struct told, node));
	table_fini(&e->services);
	json_stream_fini(&e->split);
	free(e->ns);
	free(e->name);
	free(e->text);
	free(e);
}

void
kube_events_state(const struct kube_events *e, struct buf *out)
{
	buf_printf(out, "{\"unreachable\":%zu,\"sent\":%" PRIu64 ",\"problem\":", e->n_unreachable,
		e->sent);
	json_add_text(out, e->problem);
	buf_adds(out, "}");
}
