#include "hub/kube/route_status.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "hub/kube/follow.h"
#include "hub/kube/lease.h"
#include "hub/kube/route_conditions.h"
#include "model/json.h"
#include "model/table.h"

enum { ANSWER_MS = 8000, FORBIDDEN_MS = 30 * 1000 };

/* A status that is to be written. */
struct route_entry {
	bool moved; /* it was not found in one version of its kind: tried in the other */
	struct table_node node;
	TAILQ_ENTRY(route_entry) waiting;
	enum kube_kind kind;
	char *ns, *name, *body;
	uint64_t again_ms; /* it was refused: not asked for before; 0: it was not */
	struct kube_wait wait;
};

struct route_status {
	struct loop *loop;
	struct kube_api *api;
	struct lease *lease;
	struct timer *timer;
	struct https_request *request;
	struct table entries;
	TAILQ_HEAD(, route_entry) waiting; /* the one that is being written is the first */
	bool again; /* its text was replaced meanwhile */
	size_t n_refused; /* of those that wait */
	uint64_t again_ms; /* after a failure: nothing is asked for before */
	struct kube_wait wait;
	bool old_policies; /* the server has BackendTLSPolicies as v1alpha3 */
	uint64_t writes, conflicts;
	char problem[400];
};

static uint64_t
status_hash(enum kube_kind kind, const char *ns, const char *name)
{
	return hash64(name, strlen(name), hash64(ns, strlen(ns), (uint64_t)kind));
}

static struct route_entry *
status_find(const struct route_status *s, enum kube_kind kind, const char *ns, const char *name)
{
	struct table_node *n = table_first(&s->entries, status_hash(kind, ns, name));

	for (; n != NULL; n = table_next(n)) {
		struct route_entry *e = container_of(n, struct route_entry, node);

		if (e->kind == kind && strcmp(e->ns, ns) == 0 && strcmp(e->name, name) == 0)
			return e;
	}
	return NULL;
}

static void
status_forget(struct route_status *s, struct route_entry *e)
{
	table_remove(&s->entries, &e->node);
	TAILQ_REMOVE(&s->waiting, e, waiting);
	s->n_refused -= e->again_ms != 0;
	if (s->n_refused == 0)
		s->problem[0] = '\0';
	free(e->ns);
	free(e->name);
	free(e->body);
	free(e);
}

/* --- writing -------------------------------------------------------------------------------- */

static void
status_wake(struct route_status *s, uint64_t at_ms)
{
	uint64_t now = loop_now_ms(s->loop), at = MAX(at_ms, s->again_ms);

	if (s->request == NULL && !TAILQ_EMPTY(&s->waiting))
		timer_start(s->timer, at > now ? at - now : 1, 0);
}

/* The first one that may be asked for now, or the one that may be next; NULL: there is none. */
static struct route_entry *
status_next(const struct route_status *s)
{
	struct route_entry *e, *next = TAILQ_FIRST(&s->waiting);
	uint64_t now = loop_now_ms(s->loop);

	TAILQ_FOREACH(e, &s->waiting, waiting) {
		if (e->again_ms <= now)
			return e;
		if (e->again_ms < next->again_ms)
			next = e;
	}
	return next;
}

static void
status_tell_problem(
	struct route_status *s, const struct route_entry *e, const struct https_answer *a)
{
	auto_free char *what =
		xasprintf("the status of %s %s/%s", kube_kind_name(e->kind), e->ns, e->name);
	auto_free char *rights = xasprintf("the verb patch on %s (" ROUTE_STATUS_RIGHTS "), for %s",
		e->kind == KUBE_SERVICE ? "services/status"
					: "httproutes/status, grpcroutes/status and "
					  "backendtlspolicies/status",
		what);
	char before[sizeof s->problem];

	memcpy(before, s->problem, sizeof before);
	follow_describe(a, what, rights, s->problem, sizeof s->problem);
	if (strcmp(before, s->problem) != 0)
		log_limited(LOG_LEVEL_WARN, 6, "kubernetes", "%s", s->problem);
}

/* A refusal may be for this object alone (its size, its namespace): the others go first. */
static void
status_refused(struct route_status *s, struct route_entry *e, const struct https_answer *a)
{
	uint64_t now = loop_now_ms(s->loop);

	status_tell_problem(s, e, a);
	s->again_ms = now + kube_wait_ms(&s->wait, a);
	if (a->status != 0) {
		s->n_refused += e->again_ms == 0;
		e->again_ms = now + (a->status == 403 ? FORBIDDEN_MS : kube_wait_ms(&e->wait, a));
		TAILQ_REMOVE(&s->waiting, e, waiting);
		TAILQ_INSERT_TAIL(&s->waiting, e, waiting);
	}
	status_wake(s, 0);
}

/* 404: the route is gone. 409: it has changed, and its watch brings the change. 422: the server
 * does not want it, and would not want it later. */
static void
status_on_done(void *arg, const struct https_answer *a)
{
	struct route_status *s = arg;
	struct route_entry *e = TAILQ_FIRST(&s->waiting);
	bool again = s->again;

	s->request = NULL;
	s->again = false;
	if (a->status / 100 == 2 && a->whole) {
		s->writes++;
		kube_wait_reset(&s->wait);
		log_debug("kubernetes", "status written of=%s/%s", e->ns, e->name);
	} else if (a->status == 404 && e->kind == KUBE_TLS_POLICY && !e->moved) {
		s->old_policies = !s->old_policies;
		again = e->moved = true;
	} else if (a->status == 404 || a->status == 409) {
		s->conflicts++;
	} else if (a->status == 422 || a->status == 400) {
		log_limited(LOG_LEVEL_WARN, 6, "kubernetes",
			"the API server does not take a status of=%s/%s "
			"answer=\"%.200s\"",
			e->ns, e->name, a->body);
	} else {
		status_refused(s, e, a);
		return;
	}
	if (!again)
		status_forget(s, e);
	status_wake(s, 0);
}

static int
status_on_data(void *arg, const char *data, size_t len)
{
	(void)arg;
	(void)data;
	(void)len;
	return 0;
}

static void
status_work(void *arg)
{
	struct route_status *s = arg;
	struct route_entry *e = status_next(s);
	auto_free char *path = NULL;
	struct https_call call = {.method = "PATCH",
		.type = "application/merge-patch+json",
		.silence_ms = ANSWER_MS,
		.data = status_on_data,
		.done = status_on_done,
		.arg = s};

	if (e == NULL || s->request != NULL)
		return;
	lease_want(s->lease);
	if (!lease_held(s->lease))
		return; /* status_on_lease */
	if (e->again_ms > loop_now_ms(s->loop)) {
		status_wake(s, e->again_ms);
		return;
	}
	TAILQ_REMOVE(&s->waiting, e, waiting);
	TAILQ_INSERT_HEAD(&s->waiting, e, waiting);
	path = e->kind == KUBE_SERVICE
		? xasprintf("/api/v1/namespaces/%s/services/%s/status", e->ns, e->name)
		: xasprintf("/apis/" KUBE_GATEWAY_GROUP "/%s/namespaces/%s/%s/%s/status",
			  e->kind == KUBE_TLS_POLICY && s->old_policies ? "v1alpha3" : "v1", e->ns,
			  e->kind == KUBE_TLS_POLICY          ? "backendtlspolicies"
				  : e->kind == KUBE_GRPCROUTE ? "grpcroutes"
							      : "httproutes",
			  e->name);
	call.path = path;
	call.body = e->body;
	s->again = false;
	s->request = kube_api_start(s->api, &call);
}

static void
status_on_lease(void *arg)
{
	struct route_status *s = arg;

	if (lease_held(s->lease))
		status_wake(s, 0);
}

/* --- telling -------------------------------------------------------------------------------- */

static bool
status_is_writing(const struct route_status *s, const struct route_entry *e)
{
	return s->request != NULL && e != NULL && e == TAILQ_FIRST(&s->waiting);
}

/* Takes the body. */
static void
status_put(struct route_status *s, enum kube_kind kind, const char *ns, const char *name,
	struct buf *body)
{
	struct route_entry *e = status_find(s, kind, ns, name);
	bool fresh = e == NULL;

	s->again = s->again || status_is_writing(s, e);
	if (fresh) {
		e = xcalloc(1, sizeof *e);
		e->kind = kind;
		e->ns = xstrdup(ns);
		e->name = xstrdup(name);
		table_add(&s->entries, &e->node, status_hash(kind, ns, name));
		TAILQ_INSERT_TAIL(&s->waiting, e, waiting);
	}
	free(e->body);
	e->body = buf_take_str(body);
	if (fresh || !timer_active(s->timer))
		status_wake(s, e->again_ms);
}

void
route_status_tell(struct route_status *s, const struct cluster_route *r)
{
	struct route_entry *e = status_find(s, r->kind, r->ns, r->name);
	auto_buf struct buf body;

	buf_init(&body, BUF_UNLIMITED);
	if (!r->api)
		return;
	buf_printf(&body, "{\"metadata\":{\"resourceVersion\":\"%s\"},\"status\":{\"%s\":",
		r->route->resource_version, r->kind == KUBE_TLS_POLICY ? "ancestors" : "parents");
	if (!route_conditions_build(&body, r, (int64_t)(wall_ms() / 1000))) {
		if (e != NULL && !status_is_writing(s, e))
			status_forget(s, e);
		return;
	}
	buf_adds(&body, "}}");
	status_put(s, r->kind, r->ns, r->name, &body);
}

void
route_status_tell_gateway(
	struct route_status *s, const char *ns, const char *name, const char *addresses)
{
	struct route_entry *e = status_find(s, KUBE_SERVICE, ns, name);
	auto_buf struct buf body;

	buf_init(&body, BUF_UNLIMITED);
	buf_adds(&body, "{\"status\":{\"loadBalancer\":{\"ingress\":[");
	for (const char *at = addresses; *at != '\0';) {
		size_t len = strcspn(at, ",");

		buf_printf(&body, "%s{\"ip\":\"%.*s\"}", at == addresses ? "" : ",", (int)len, at);
		at += len;
		at += *at == ',';
	}
	buf_adds(&body, "]}}}");
	if (e == NULL || strcmp(e->body, buf_str(&body)) != 0)
		status_put(s, KUBE_SERVICE, ns, name, &body);
}

void
route_status_drop_gateway(struct route_status *s, const char *ns, const char *name)
{
	struct route_entry *e = status_find(s, KUBE_SERVICE, ns, name);

	if (e != NULL && !status_is_writing(s, e))
		status_forget(s, e);
}

/* --- start and stop ------------------------------------------------------------------------- */

struct route_status *
route_status_new(const struct route_status_config *config)
{
	struct route_status *s = xcalloc(1, sizeof *s);

	s->loop = config->loop;
	s->api = config->api;
	s->timer = timer_new(config->loop, status_work, s);
	s->lease = lease_new(&(struct lease_config){
		.loop = config->loop,
		.api = config->api,
		.ns = config->ns,
		.name = ROUTE_STATUS_LEASE,
		.rights = "the verbs get, create and patch on leases (apiGroups: "
			  "[\"coordination.k8s.io\"]) in the hub's namespace (" ROUTE_STATUS_RIGHTS
			  ")",
		.changed = status_on_lease,
		.arg = s,
	});
	TAILQ_INIT(&s->waiting);
	return s;
}

void
route_status_free(struct route_status **out)
{
	struct route_status *s = take_ptr(out);

	if (s == NULL)
		return;
	https_stop(&s->request);
	timer_free(&s->timer);
	lease_free(&s->lease);
	while (!TAILQ_EMPTY(&s->waiting))
		status_forget(s, TAILQ_FIRST(&s->waiting));
	table_fini(&s->entries);
	free(s);
}

bool
route_status_leads(struct route_status *s)
{
	lease_want(s->lease);
	return lease_held(s->lease);
}

const char *
route_status_problem(const struct route_status *s)
{
	const char *lease = lease_problem(s->lease);

	return lease[0] != '\0' ? lease : s->problem;
}

void
route_status_state(const struct route_status *s, struct buf *out)
{
	buf_printf(out,
		"{\"waiting\":%zu,\"writes\":%" PRIu64 ",\"conflicts\":%" PRIu64 ",\"lease\":",
		s->entries.n, s->writes, s->conflicts);
	lease_state(s->lease, out);
	buf_adds(out, ",\"problem\":");
	json_add_text(out, route_status_problem(s));
	buf_adds(out, "}");
}
