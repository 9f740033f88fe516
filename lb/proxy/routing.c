#include "lb/proxy/routing.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/http/grpc.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/exchange.h"
#include "lb/proxy/session.h"
#include "model/local_callers.h"

/* --- the request's target ------------------------------------------------------------------- */

/* Host without its port; an IPv6 address keeps its brackets. */
static struct http1_str
routing_host(struct http1_str host)
{
	for (size_t i = host.len; i > 0 && host.at[i - 1] != ']'; i--)
		if (host.at[i - 1] == ':')
			return (struct http1_str){host.at, i - 1};
	return host;
}

struct http_route_target
routing_target(const struct http1_head *h, uint16_t port)
{
	const char *mark = memchr(h->target.at, '?', h->target.len);
	struct http_route_target t = {.path = h->target, .scheme = "http", .port = port};

	t.host = routing_host(h->host);
	if (mark != NULL) {
		t.path.len = (size_t)(mark - h->target.at);
		t.query = (struct http1_str){mark + 1, h->target.len - t.path.len - 1};
	}
	if (t.path.len == 0)
		t.path = (struct http1_str){"/", 1};
	return t;
}

/* --- the rule ------------------------------------------------------------------------------- */

static const struct http_route_rule *
routing_match(struct exchange *ex, const struct http1_head *h, const struct http_route_target *t)
{
	struct downstream *f = ex->downstream;
	struct worker *w = f->worker;
	const struct http_routes *routes = f->group->service->routes;
	struct http_route_query q = {.port = f->group->key.port,
		.grpc = routes->grpc && grpc_is_call(h),
		.ns = "",
		.path = t->path,
		.query = t->query.at != NULL ? t->query : (struct http1_str){"", 0},
		.head = h};
	struct allow_caller who = {0};

	if (w->regex_scratch == NULL)
		w->regex_scratch = route_regex_scratch_new();
	q.scratch = w->regex_scratch;
	if (routes->scoped)
		local_callers_find(snapshot_callers(w->snapshot), &f->client, &who);
	if (who.ns != NULL)
		q.ns = who.ns;
	ex->rule = http_routes_find(routes, &q, &ex->match);
	if (ex->rule != NULL)
		ex->routes = http_routes_ref(routes);
	return ex->rule;
}

static bool routing_fails(const struct exchange *ex, struct routing *r, unsigned status,
	const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Returns false, for the caller to return. */
static bool
routing_fails(const struct exchange *ex, struct routing *r, unsigned status, const char *fmt, ...)
{
	const struct group *g = ex->downstream->group;
	va_list ap;
	int n;

	r->status = (uint16_t)status;
	n = snprintf(r->text, HTTP1_TARGET_MAX,
		"routes of service %s/%s port %u: ", g->service->namespace, g->service->name,
		g->key.port);
	va_start(ap, fmt);
	vsnprintf(r->text + n, HTTP1_TARGET_MAX - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

/* --- the backend ---------------------------------------------------------------------------- */

/* As permit_check() does for the Service that was called. */
struct group *
routing_group(const struct downstream *f, const struct service *s, uint16_t port, bool *denied)
{
	struct worker *w = f->worker;
	struct group_key key = {.ip = s->fake_ip != 0 ? s->fake_ip : s->cluster_ip, .port = port};
	struct group *g;

	*denied = !permit_backend(f, s, &key.closed);
	if (*denied || key.ip == 0)
		return NULL;
	g = targets_hold(w->targets, w->snapshot, w->epoch, &key);
	if (g == NULL || key.closed == 0 || balance_count(&g->balance) > 0 ||
		g->port_of->n_endpoints == 0)
		return g;
	*denied = true;
	group_release(&g, w->now_ms);
	return NULL;
}

static bool
routing_hold(struct exchange *ex, const struct service *s, uint16_t port, struct routing *r)
{
	struct downstream *f = ex->downstream;
	bool denied;
	struct group *g = routing_group(f, s, port, &denied);

	if (denied) {
		r->status = 403;
		permit_refused(f, s, port, r->text);
		return false;
	}
	if (g == NULL)
		return routing_fails(ex, r, 500,
			"rule %u of %s leads to service %s/%s, which has no port %u, or no address "
			"at this node",
			ex->rule->index, ex->rule->route, s->namespace, s->name, port);
	exchange_use(ex, g);
	group_release(&g, f->worker->now_ms);
	return true;
}

/* A session counts more than weights. */
static const struct http_route_backend *
routing_pick(struct exchange *ex, const struct http1_head *h)
{
	const struct http_route_session *s = ex->rule->session;
	const struct http_route_backend *b = NULL;

	if (s != NULL && session_find(s, h, wall_ms() / 1000, &ex->session))
		b = session_backend(ex->rule, &ex->session);
	if (b != NULL)
		return b;
	ex->session.endpoint = 0;
	return http_route_pick(ex->rule, (uint32_t)(worker_random(ex->downstream->worker) >> 32));
}

/* Mostly a route leads some of a Service's requests back to it. */
static const struct service *
routing_service(const struct downstream *f, const struct http_route_backend *b)
{
	const struct service *own = f->group->service;

	if (strcmp(own->name, b->name) == 0 && strcmp(own->namespace, b->ns) == 0)
		return own;
	return snapshot_find(f->worker->snapshot, b->ns, strlen(b->ns), b->name, strlen(b->name));
}

static bool
routing_choose(struct exchange *ex, const struct http1_head *h, struct routing *r)
{
	struct downstream *f = ex->downstream;
	const struct http_route_backend *b = routing_pick(ex, h);
	const struct service *s;

	if (b == NULL || b->invalid)
		return routing_fails(ex, r, 500,
			"rule %u of %s has no valid backend: see the route's status",
			ex->rule->index, ex->rule->route);
	ex->backend = b;
	s = routing_service(f, b);
	if (s == NULL)
		return routing_fails(ex, r, 500,
			"rule %u of %s leads to service %s/%s, which this node does not have",
			ex->rule->index, ex->rule->route, b->ns, b->name);
	/* The Service that was called: permit_check() has been there. */
	if (s == f->group->service && b->port == f->group->key.port)
		return true;
	return routing_hold(ex, s, b->port, r);
}

/* --- the head ------------------------------------------------------------------------------- */

static bool
routing_rewrite(struct exchange *ex, struct http1_head *h, const struct http_route_target *t,
	struct routing *r)
{
	const struct http_route_modifier *to = ex->rule->rewrite;
	struct worker *w = ex->downstream->worker;
	ssize_t n;

	if (to == NULL)
		return true;
	if (*to->host != '\0')
		h->host = (struct http1_str){to->host, strlen(to->host)};
	if (to->kind == HTTP_ROUTE_PATH_KEPT || t->path.at[0] != '/')
		return true;
	n = http_route_rewrite(ex->rule, t, w->target, sizeof w->target);
	if (n < 0)
		return routing_fails(ex, r, 414, "rule %u of %s makes the path too long",
			ex->rule->index, ex->rule->route);
	h->target = (struct http1_str){w->target, (size_t)n};
	return true;
}

static int
routing_edit(const struct http_header_edits *rule, const struct http_header_edits *backend,
	struct http1_head *h)
{
	int rc = rule != NULL ? http_route_edit(rule, h) : 0;

	return rc == 0 && backend != NULL ? http_route_edit(backend, h) : rc;
}

/* Of several fields with a session's name the client would not know which one to repeat. */
static int
routing_tell_session(const struct exchange *ex, struct http1_head *h)
{
	const struct http_route_session *s = ex->rule->session;
	struct session_token now = {.endpoint = exchange_target(ex)->node.hash,
		.backend = session_hash(ex->backend),
		.used_s = (uint32_t)(wall_ms() / 1000)};
	struct http_route_pair p;
	struct http_header_edits e = {
		.n_set = s->header, .n_add = !s->header, .set = &p, .add = &p};

	if (!session_answer(s, &ex->session, &now, ex->downstream->worker->own_text, &p))
		return 0;
	return http_route_edit(&e, h);
}

int
routing_edit_response(const struct exchange *ex, struct http1_head *h)
{
	int rc;

	if (ex->backend == NULL)
		return 0;
	rc = routing_edit(ex->rule->response, ex->backend->response, h);
	return rc == 0 && ex->rule->session != NULL ? routing_tell_session(ex, h) : rc;
}

/* --- the whole ------------------------------------------------------------------------------ */

static bool
routing_is_limit(uint32_t ms)
{
	return ms != 0 && ms != HTTP_ROUTE_MS_DEFAULT;
}

static bool
routing_answers(struct exchange *ex, const struct http_route_target *t, struct routing *r)
{
	const struct http_route_rule *rule = ex->rule;
	ssize_t n;

	if (rule->status == 404)
		return !routing_fails(ex, r, 404, "no rule is for this request");
	if (rule->status != 0)
		return !routing_fails(ex, r, rule->status,
			"rule %u of %s cannot be followed: see the route's status", rule->index,
			rule->route);
	if (rule->redirect == NULL)
		return false;
	n = http_route_location(rule, t, r->text, HTTP1_TARGET_MAX - 1);
	if (n < 0)
		return !routing_fails(ex, r, 414, "rule %u of %s makes the path too long",
			rule->index, rule->route);
	r->text[n] = '\0';
	r->status = rule->redirect->status;
	r->location = true;
	return true;
}

bool
routing_apply(struct exchange *ex, struct http1_head *h, struct routing *r)
{
	struct worker *w = ex->downstream->worker;
	const struct http_route_target t = routing_target(h, ex->downstream->group->key.port);
	const struct http_route_rule *rule = routing_match(ex, h, &t);

	*r = (struct routing){.text = w->own_text};
	if (rule == NULL)
		return true;
	if (routing_answers(ex, &t, r) || !routing_choose(ex, h, r) ||
		!routing_rewrite(ex, h, &t, r))
		return false;
	if (routing_edit(rule->request, ex->backend->request, h) < 0)
		return routing_fails(
			ex, r, 431, "rule %u of %s adds too many fields", rule->index, rule->route);
	if (routing_is_limit(rule->request_ms))
		ex->whole_ms = w->now_ms + rule->request_ms;
	return true;
}

void
routing_refuse(struct exchange *ex, struct routing *r)
{
	if (r->location)
		ex->location = r->text;
	else
		access_log_end(ex, "PR");
	ex->kind->refuse(ex, r->status, r->location ? "see Location" : r->text);
}

/* --- attempts and time ---------------------------------------------------------------------- */

bool
routing_retries(const struct exchange *ex, unsigned status, unsigned bit)
{
	const struct service *s = ex->group->service;

	if (ex->rule != NULL && ex->rule->retry != NULL)
		return http_route_retries(ex->rule->retry, status);
	return s != NULL && (s->lb.retry_on & bit) != 0;
}

bool
routing_limits(const struct exchange *ex)
{
	return ex->rule != NULL &&
		(ex->again_ms != 0 || ex->rule->request_ms != HTTP_ROUTE_MS_DEFAULT ||
			ex->rule->backend_ms != HTTP_ROUTE_MS_DEFAULT);
}

bool
routing_backs_off(struct exchange *ex)
{
	const struct http_route_retry *retry = ex->rule != NULL ? ex->rule->retry : NULL;

	if (retry == NULL || retry->backoff_ms == 0 || ex->http.upgrade)
		return false;
	ex->again_ms = ex->downstream->worker->now_ms + retry->backoff_ms;
	exchange_go(ex, EXCHANGE_DIALLING);
	return true;
}

bool
routing_is_due_again(struct exchange *ex)
{
	if (ex->again_ms == 0 || (ex->whole_ms != 0 && ex->whole_ms < ex->again_ms))
		return false;
	ex->again_ms = 0;
	return true;
}

/* An attempt counts from the request's last byte: a slow client is not its endpoint's fault. */
uint64_t
routing_due_ms(struct exchange *ex)
{
	uint64_t due = ex->whole_ms;

	if (ex->again_ms != 0)
		return due == 0 ? ex->again_ms : MIN(due, ex->again_ms);
	if (ex->rule == NULL || !routing_is_limit(ex->rule->backend_ms) || !ex->http.request_done ||
		ex->state == EXCHANGE_ANSWERING)
		return due;
	if (ex->try_ms == 0)
		ex->try_ms = ex->downstream->worker->now_ms + ex->rule->backend_ms;
	return due == 0 ? ex->try_ms : MIN(due, ex->try_ms);
}

uint64_t
routing_service_due_ms(struct exchange *ex)
{
	if (ex->wait_ms == 0)
		ex->wait_ms = ex->downstream->worker->now_ms + ex->group->service->lb.request_ms;
	return ex->wait_ms;
}

bool
routing_is_over(const struct exchange *ex)
{
	return ex->whole_ms != 0 && ex->downstream->worker->now_ms >= ex->whole_ms;
}

bool
routing_try_is_over(const struct exchange *ex)
{
	return ex->try_ms != 0 && ex->downstream->worker->now_ms >= ex->try_ms &&
		ex->state != EXCHANGE_ANSWERING && !routing_is_over(ex);
}
