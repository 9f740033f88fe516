#include "hub/kube/lease.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf/tree.h"
#include "base/core/log.h"
#include "hub/kube/follow.h"
#include "hub/kube/json_stream.h"
#include "model/json.h"

enum { ANSWER_MS = 8000, HOLDER_MAX = 128 };

enum lease_step { LEASE_READ, LEASE_CREATE, LEASE_WRITE };

struct lease {
	struct lease_config config;
	char *ns, *name, *rights, *what;
	char self[HOLDER_MAX];
	struct timer *timer;
	struct https_request *request;
	struct json_stream split;
	enum lease_step step;
	bool wanted, was_held;
	/* of the Lease as last read */
	char version[FOLLOW_VERSION_MAX + 1], holder[HOLDER_MAX];
	uint64_t seen_ms; /* since when it has this version */
	uint64_t duration_ms;
	unsigned transitions;
	uint64_t began_ms; /* of the request */
	uint64_t until_ms; /* we hold it until then; 0: we do not */
	struct kube_wait wait;
	char problem[400];
};

static void lease_work(void *arg);

/* --- state ---------------------------------------------------------------------------------- */

bool
lease_held(const struct lease *l)
{
	return l->until_ms > loop_now_ms(l->config.loop);
}

static void
lease_tell(struct lease *l)
{
	bool held = lease_held(l);

	if (held == l->was_held)
		return;
	l->was_held = held;
	log_info("kubernetes", "%s lease=%s/%s", held ? "holds the lease" : "lost the lease", l->ns,
		l->name);
	l->config.changed(l->config.arg);
}

static void
lease_take(struct lease *l, const struct tree_node *object)
{
	const struct tree_node *spec = tree_get(object, "spec");
	char version[FOLLOW_VERSION_MAX + 1];
	int64_t seconds = LEASE_DURATION_S, transitions = 0;

	if (!follow_version(version, object))
		return;
	if (strcmp(version, l->version) != 0)
		l->seen_ms = loop_now_ms(l->config.loop);
	memcpy(l->version, version, sizeof version);
	snprintf(
		l->holder, sizeof l->holder, "%s", tree_text(tree_get(spec, "holderIdentity"), ""));
	tree_int(tree_get(spec, "leaseDurationSeconds"), 1, 3600, &seconds);
	tree_int(tree_get(spec, "leaseTransitions"), 0, INT32_MAX, &transitions);
	l->duration_ms = (uint64_t)seconds * 1000;
	l->transitions = (unsigned)transitions;
}

/* --- responses ------------------------------------------------------------------------------ */

static int
lease_on_value(void *arg, const char *text, size_t len)
{
	struct lease *l = arg;
	struct tree *tree = NULL;

	if (text != NULL && tree_parse(&tree, l->name, text, len, NULL) == 0) {
		if (tree_count(tree) == 1)
			lease_take(l, tree_document(tree, 0));
		tree_free(&tree);
	}
	return 0;
}

static int
lease_on_data(void *arg, const char *data, size_t len)
{
	struct lease *l = arg;

	return json_stream_feed(&l->split, data, len);
}

static bool
lease_is_free(const struct lease *l)
{
	return l->holder[0] == '\0' || strcmp(l->holder, l->self) == 0 ||
		loop_now_ms(l->config.loop) - l->seen_ms > l->duration_ms;
}

static void
lease_failed(struct lease *l, const struct https_answer *a)
{
	char before[sizeof l->problem];

	memcpy(before, l->problem, sizeof before);
	follow_describe(a, l->what, l->rights, l->problem, sizeof l->problem);
	if (strcmp(before, l->problem) != 0)
		log_limited(LOG_LEVEL_WARN, 6, "kubernetes", "%s", l->problem);
	l->step = LEASE_READ;
	timer_start(l->timer, a->status == 403 ? LEASE_FORBIDDEN_MS : kube_wait_ms(&l->wait, a), 0);
}

static void
lease_on_done(void *arg, const struct https_answer *a)
{
	struct lease *l = arg;
	uint64_t next_ms = 0;

	l->request = NULL;
	if (l->step == LEASE_READ && a->status == 404) {
		l->step = LEASE_CREATE;
	} else if (a->status == 409) {
		l->step = LEASE_READ;
		next_ms = kube_wait_ms(&l->wait, NULL);
	} else if (!a->whole || a->status / 100 != 2) {
		lease_failed(l, a);
		lease_tell(l);
		return;
	} else if (l->step == LEASE_READ) {
		l->step = lease_is_free(l) ? LEASE_WRITE : LEASE_READ;
		next_ms = l->step == LEASE_WRITE ? 0 : LEASE_LOOK_MS;
		l->problem[0] = '\0';
	} else {
		l->until_ms = l->began_ms + LEASE_DURATION_S * 1000;
		l->step = LEASE_WRITE;
		l->problem[0] = '\0';
		kube_wait_reset(&l->wait);
		next_ms = LEASE_RENEW_MS;
	}
	lease_tell(l);
	timer_start(l->timer, MAX(next_ms, (uint64_t)1), 0);
}

/* --- requests ------------------------------------------------------------------------------- */

static void
lease_add_now(struct buf *out, const char *member)
{
	uint64_t now = wall_ms();
	auto_buf struct buf seconds;

	buf_init(&seconds, BUF_UNLIMITED);
	buf_add_utc(&seconds, (int64_t)(now / 1000));
	/* MicroTime of the API: 2026-11-21T20:45:05.000000Z */
	buf_printf(out, ",\"%s\":\"%.19s.%03u000Z\"", member, buf_str(&seconds),
		(unsigned)(now % 1000));
}

static char *
lease_body(const struct lease *l)
{
	bool renews = strcmp(l->holder, l->self) == 0;
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	buf_printf(&b,
		"{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"metadata\":{"
		"\"name\":\"%s\",\"namespace\":\"%s\"",
		l->name, l->ns);
	if (l->step == LEASE_WRITE)
		buf_printf(&b, ",\"resourceVersion\":\"%s\"", l->version);
	buf_adds(&b, "},\"spec\":{\"holderIdentity\":");
	json_add_text(&b, l->self);
	buf_printf(&b, ",\"leaseDurationSeconds\":%d", LEASE_DURATION_S);
	if (!renews || l->step == LEASE_CREATE) {
		buf_printf(&b, ",\"leaseTransitions\":%u",
			l->step == LEASE_CREATE ? 0 : l->transitions + 1);
		lease_add_now(&b, "acquireTime");
	}
	lease_add_now(&b, "renewTime");
	buf_adds(&b, "}}");
	return buf_take_str(&b);
}

static void
lease_work(void *arg)
{
	struct lease *l = arg;
	auto_free char *path = NULL, *body = NULL;
	struct https_call call = {
		.silence_ms = ANSWER_MS, .data = lease_on_data, .done = lease_on_done, .arg = l};

	lease_tell(l);
	path = xasprintf("/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s", l->ns,
		l->step == LEASE_CREATE ? "" : "/", l->step == LEASE_CREATE ? "" : l->name);
	if (l->step != LEASE_READ) {
		call.method = l->step == LEASE_CREATE ? "POST" : "PATCH";
		call.type = l->step == LEASE_CREATE ? "application/json"
						    : "application/merge-patch+json";
		call.body = body = lease_body(l);
	}
	call.path = path;
	json_stream_fini(&l->split);
	json_stream_init(&l->split, JSON_STREAM_STREAM, lease_on_value, l);
	l->began_ms = loop_now_ms(l->config.loop);
	l->request = kube_api_start(l->config.api, &call);
}

/* --- start and stop ------------------------------------------------------------------------- */

static void
lease_name_self(struct lease *l)
{
	char host[65] = "";
	uint32_t r;

	random_bytes(&r, sizeof r);
	if (gethostname(host, sizeof host - 1) < 0)
		host[0] = '\0';
	/* A hub that starts again is another one: nothing of what it held is known. */
	snprintf(l->self, sizeof l->self, "%s_%08x", host, r);
}

struct lease *
lease_new(const struct lease_config *config)
{
	struct lease *l = xcalloc(1, sizeof *l);

	l->config = *config;
	l->ns = xstrdup(config->ns);
	l->name = xstrdup(config->name);
	l->rights = xstrdup(config->rights);
	l->what = xasprintf("the Lease %s/%s", l->ns, l->name);
	l->timer = timer_new(config->loop, lease_work, l);
	json_stream_init(&l->split, JSON_STREAM_STREAM, lease_on_value, l);
	lease_name_self(l);
	return l;
}

void
lease_free(struct lease **out)
{
	struct lease *l = take_ptr(out);

	if (l == NULL)
		return;
	https_stop(&l->request);
	timer_free(&l->timer);
	json_stream_fini(&l->split);
	free(l->ns);
	free(l->name);
	free(l->rights);
	free(l->what);
	free(l);
}

void
lease_want(struct lease *l)
{
	if (l->wanted)
		return;
	l->wanted = true;
	timer_start(l->timer, 1, 0);
}

const char *
lease_problem(const struct lease *l)
{
	return l->problem;
}

void
lease_state(const struct lease *l, struct buf *out)
{
	buf_printf(out, "{\"name\":\"%s/%s\",\"wanted\":%s,\"held\":%s,\"holder\":", l->ns, l->name,
		l->wanted ? "true" : "false", lease_held(l) ? "true" : "false");
	json_add_text(out, l->holder);
	buf_adds(out, ",\"problem\":");
	json_add_text(out, l->problem);
	buf_adds(out, "}");
}
