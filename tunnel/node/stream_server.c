#include "tunnel/node/stream_server.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/core/hops.h"
#include "base/core/log.h"
#include "base/core/page_pool.h"
#include "model/allow_from.h"
#include "model/json.h"
#include "model/pod_name.h"
#include "tunnel/h2/relay.h"
#include "tunnel/node/dial_target.h"
#include "tunnel/node/reachability.h"
#include "tunnel/node/rendezvous_line.h"
#include "tunnel/node/stream_server_udp.h"

enum {
	TEXT_MAX = 200, /* of a caller's name in the log */
	MEANT_MAX = 253,
};

enum result {
	RESULT_OK,
	RESULT_BAD, /* 400 */
	RESULT_DENIED, /* 403 */
	RESULT_UNKNOWN, /* 404 */
	RESULT_REFUSED, /* 502 */
	RESULT_LATE, /* 504 */
	RESULT_LOOP, /* 508 */
	RESULT_CANCELLED, /* by the hub, before there was an answer */
	RESULTS,
};

static const char *const result_names[RESULTS] = {
	"ok", "bad_request", "denied", "unknown", "refused", "timeout", "loop", "cancelled"};

/* What a stream needs until it is joined or refused; in pages of its own. */
struct served_dial {
	struct watch *watch;
	struct timer *timer;
	int fd;
	struct dial_target target;
	size_t at; /* index in its addresses */
	int error; /* of the last one */
	unsigned hops; /* base/core/hops.h, before this node */
	char *pod; /* its service, while it waits for that: stream_server_look; NULL */
	unsigned status; /* what it gets otherwise, and why (static text) */
	const char *why;
};

/* One stream, from its opening until both sides have released it. */
struct served_stream {
	LIST_ENTRY(served_stream) link;
	struct stream_server *of;
	struct stream *stream; /* until it is joined */
	struct relay *relay;
	struct served_dial *dial; /* NULL: it is joined */
	uint64_t since_ms;
	struct trace_span *span; /* NULL: not recorded */
	struct in6_addr ip; /* the address dialled last, or to be dialled first */
	uint16_t port; /* 0: no target was found */
	uint8_t kind; /* enum tunnel_acl_kind, of that target */
	bool by_peer; /* another node's agent asks, not the hub */
	char *authority; /* one block with the next two */
	const char *caller, *meant; /* meant: another node, reached from this one; or "" */
};

struct stream_server {
	struct loop *loop;
	char *node;
	char **bridges;
	struct tunnel_acl *allow;
	struct reachability *declaration;
	unsigned (*invited)(void *arg, struct stream *st, const char *node, const char *id,
		const char **reason);
	void *arg;
	struct agent_queries *queries; /* NULL: the agent answers no queries */
	struct snapshot *snapshot;
	uint32_t mark;
	struct stream_server_udp *udp;
	struct span_source *spans;
	struct ground ground;
	struct addresses *addresses;
	struct address_list *own; /* the list that `ground` was made from; NULL: none yet */
	LIST_HEAD(, served_stream) visits;
	struct page_pool dials;
	unsigned n_dialling, n_joined;
	uint64_t results[RESULTS], to_node, from_node;
	uint64_t beside; /* dials for other machines */
};

/* --- local networks ------------------------------------------------------------------------- */

static bool
is_bridge(const struct stream_server *s, const char *name)
{
	for (char **at = s->bridges; *at != NULL; at++)
		if (fnmatch(*at, name, 0) == 0)
			return true;
	return false;
}

static void
add_net(struct stream_server *s, const struct own_address *own)
{
	struct ground_net *net = &s->ground.nets[s->ground.n_nets];
	const struct endpoint e = {.ip = own->ip};

	if (s->ground.n_nets == GROUND_MAX)
		return;
	net->addr = endpoint_addr(&e);
	net->bits = own->bits - (net->addr.sa.sa_family == AF_INET ? 96 : 0);
	net->bridge = is_bridge(s, own->interface);
	s->ground.n_nets++;
}

static const struct ground *
look_around(struct stream_server *s)
{
	const struct address_list *own = addresses_list(s->addresses);

	s->ground.snapshot = s->snapshot;
	s->ground.vicinity = reachability_vicinity(s->declaration);
	if (own == s->own)
		return &s->ground;
	address_list_unref(&s->own);
	s->ground.own = s->own = address_list_ref(own);
	s->ground.n_nets = 0;
	for (size_t i = 0; i < own->n; i++)
		if (!own->list[i].broadcast)
			add_net(s, &own->list[i]);
	return &s->ground;
}

/* --- end of a stream ------------------------------------------------------------------------ */

static enum result
result_of(unsigned status)
{
	switch (status) {
	case 200:
		return RESULT_OK;
	case 400:
		return RESULT_BAD;
	case 403:
		return RESULT_DENIED;
	case 404:
		return RESULT_UNKNOWN;
	case 504:
		return RESULT_LATE;
	case 508:
		return RESULT_LOOP;
	case 0:
		return RESULT_CANCELLED;
	default:
		return RESULT_REFUSED;
	}
}

static const char *
served_stream_kind(const struct served_stream *v)
{
	return v->port != 0 ? tunnel_acl_kind_name((enum tunnel_acl_kind)v->kind) : "-";
}

/* to: "-" if nothing was dialled. */
static void
end_span(struct served_stream *v, const struct relay_report *report, const char *to)
{
	struct trace_carried *c = v->span->carried;

	v->span->status = (uint16_t)report->status;
	v->span->bytes_up = report->to_other;
	v->span->bytes_down = report->to_stream;
	c->broken = report->status == 0 || (report->status == 200 && !report->whole);
	span_copy(c->why, sizeof c->why, report->why, strlen(report->why));
	if (v->port != 0) {
		const char *kind = served_stream_kind(v);

		span_copy(c->kind, sizeof c->kind, kind, strlen(kind));
		span_copy(c->to, sizeof c->to, to, strlen(to));
	}
	span_end(v->of->spans, &v->span, trace_clock_us());
}

/* The audit: one line for each stream, whatever its result; of other nodes' not more than is
 * worth a disk. */
static void
stream_server_tell(struct served_stream *v, const struct relay_report *report)
{
	const struct addr last = addr_of(&v->ip, v->port);
	char to[ADDR_TEXT_MAX] = "-", text[1500];

	if (v->port != 0)
		addr_text(&last, to);
	snprintf(text, sizeof text,
		"stream ended caller=\"%s\" target=\"%s\"%s%s kind=%s to=%s status=%u to_node=%llu "
		"from_node=%llu ms=%llu end=\"%s\"",
		v->caller, v->authority, v->meant[0] != '\0' ? " for=" : "", v->meant,
		served_stream_kind(v), to, report->status, (unsigned long long)report->to_other,
		(unsigned long long)report->to_stream,
		(unsigned long long)(loop_now_ms(v->of->loop) - v->since_ms), report->why);
	if (v->by_peer)
		log_limited(LOG_LEVEL_INFO, STREAM_SERVER_PEER_LINES, "tunnel", "%s", text);
	else
		log_info("tunnel", "%s", text);
	if (v->span != NULL)
		end_span(v, report, to);
}

static void
close_dial(struct served_dial *d)
{
	watch_stop(&d->watch);
	if (d->fd >= 0)
		close(take_fd(&d->fd));
}

static void
served_dial_free(struct served_stream *v)
{
	struct served_dial *d = take_ptr(&v->dial);

	if (d == NULL)
		return;
	close_dial(d);
	timer_free(&d->timer);
	free(d->pod);
	page_pool_give(&v->of->dials, d);
}

static void
served_stream_free(struct served_stream *v)
{
	served_dial_free(v);
	relay_free(&v->relay);
	stream_close(&v->stream, STREAM_CANCELLED);
	LIST_REMOVE(v, link);
	free(v->authority);
	free(v->span);
	free(v);
}

static void
end_dial(struct served_stream *v, unsigned status, const char *why)
{
	struct relay_report report = {.status = status, .why = why};

	v->of->n_dialling--;
	v->of->results[result_of(status)]++;
	stream_server_tell(v, &report);
	served_stream_free(v);
}

static void
on_relay_ended(void *arg, const struct relay_report *report)
{
	struct served_stream *v = arg;
	struct stream_server *s = v->of;

	s->n_joined--;
	s->to_node += report->to_other;
	s->from_node += report->to_stream;
	stream_server_tell(v, report);
	served_stream_free(v);
}

/* --- dialling ------------------------------------------------------------------------------- */

static void
stream_server_refuse(struct served_stream *v)
{
	char why[STREAM_REASON_MAX], to[ADDR_TEXT_MAX];
	const struct addr last = addr_of(&v->ip, v->port);
	int error = v->dial->error;
	bool late = error == ETIMEDOUT;

	snprintf(why, sizeof why, "%s: %s", addr_text(&last, to),
		late ? "no answer in time" : strerror(error));
	stream_answer(v->stream, late ? 504 : 502, why);
	end_dial(v, late ? 504 : 502, late ? "no answer in time" : strerror(error));
}

static void
stream_server_join(struct served_stream *v)
{
	struct relay_setup setup = {.loop = v->of->loop, .ended = on_relay_ended, .arg = v};
	int fd = take_fd(&v->dial->fd);

	served_dial_free(v);
	v->of->n_dialling--;
	v->of->n_joined++;
	v->of->results[RESULT_OK]++;
	stream_answer(v->stream, 200, "");
	setup.stream = take_ptr(&v->stream);
	v->relay = relay_join(&setup, fd);
}

/* Keeps which address the log tells of: the one that is dialled, or the last. */
static void
served_stream_aim(struct served_stream *v)
{
	const struct dial_target *t = &v->dial->target;
	const struct addr *to = &t->addrs[MIN(v->dial->at, MAX(t->n_addrs, (size_t)1) - 1)];

	v->port = t->n_addrs > 0 ? addr_port(to) : 0;
	(void)addr_ip(to, &v->ip);
	v->kind = (uint8_t)t->kind;
}

static void on_dialled(void *arg, int fd, unsigned events);

/* Dials the next address that can be dialled at all; refuses the stream if there is none. */
static void
stream_server_dial(struct served_stream *v)
{
	struct served_dial *d = v->dial;

	for (; d->at < d->target.n_addrs; d->at++) {
		const struct addr *to = &d->target.addrs[d->at];
		int rc = sock_connect_hops(to, v->of->mark, d->hops + 1, false, &d->fd);

		served_stream_aim(v);
		if (rc == 0) {
			d->watch = watch_start(v->of->loop, d->fd, WATCH_WRITE, on_dialled, v);
			return;
		}
		d->error = -rc;
	}
	stream_server_refuse(v);
}

static void
on_dialled(void *arg, int fd, unsigned events)
{
	struct served_stream *v = arg;
	int error = sock_error(fd);

	(void)events;
	if (error == 0) {
		stream_server_join(v);
		return;
	}
	v->dial->error = error;
	close_dial(v->dial);
	v->dial->at++;
	stream_server_dial(v);
}

static void
on_timer(void *arg)
{
	struct served_stream *v = arg;
	const struct served_dial *d = v->dial;

	if (d->pod != NULL) {
		stream_answer(v->stream, d->status, d->why);
		end_dial(v, d->status, d->why);
		return;
	}
	v->dial->error = ETIMEDOUT;
	stream_server_refuse(v);
}

static void
on_reset(void *arg, unsigned code)
{
	end_dial(arg, 0,
		code == STREAM_LOST ? "the tunnel was lost during the dial"
				    : "who asked has gone during the dial");
}

static const struct stream_events stream_events = {.reset = on_reset};

/* --- opening -------------------------------------------------------------------------------- */

/* The hub's span is the parent: the caller of the hub decides on sampling for both. */
static void
begin_span(struct served_stream *v, const struct stream_request *request)
{
	const char *text = stream_field_of(request, "traceparent"),
		   *colon = strrchr(request->authority, ':');
	size_t len =
		colon != NULL ? (size_t)(colon - request->authority) : strlen(request->authority);
	struct trace_context parent;
	struct trace_moment now;
	struct trace_span *s;

	if (!traceparent_parse(&parent, text, strlen(text)))
		return;
	trace_now(&now);
	s = v->span = span_begin(v->of->spans, TRACE_SERVED, &parent, &now);
	if (s == NULL)
		return;
	span_copy(s->method, sizeof s->method, "CONNECT", strlen("CONNECT"));
	span_copy(s->host, sizeof s->host, request->authority, len);
	s->port = colon != NULL ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
	span_copy(s->carried->node, sizeof s->carried->node, v->of->node, strlen(v->of->node));
	span_copy(s->carried->caller, sizeof s->carried->caller, v->caller, strlen(v->caller));
	span_copy(s->carried->meant, sizeof s->carried->meant, v->meant, strlen(v->meant));
}

/* Passes a datagram flow to stream_server_udp. Frees v. */
static void
open_flow(struct served_stream *v, struct stream *st)
{
	unsigned status = stream_server_udp_open(v->of->udp, st,
		&(struct stream_server_udp_ask){.caller = v->caller,
			.authority = v->authority,
			.meant = v->meant,
			.by_peer = v->by_peer,
			.hops = v->dial->hops + 1,
			.target = &v->dial->target});

	v->of->results[result_of(status)]++;
	served_stream_free(v);
}

/* A query without a target: for the reachable networks, or for the agent. */
static unsigned
stream_server_asked(struct stream_server *s, struct stream *st,
	const struct stream_request *request, const char **reason)
{
	if (s->queries == NULL ||
		strcmp(stream_field_of(request, REACHABILITY_ASK), AGENT_QUERY_ASK) != 0)
		return reachability_opened(s->declaration, st, request, reason);
	if (tunnel_acl_agent(s->allow))
		return agent_query_opened(s->queries, st, request, reason);
	*reason = "tunnel.allow of the node does not name agent";
	return 403;
}

/* What the hub checks before it asks for a stream, another node's agent is not believed to have
 * checked. */
static unsigned
stream_server_judge_peer(const struct stream_server *s, const struct dial_target *t,
	const struct stream_request *request, const char **reason)
{
	const char *name = stream_field_of(request, "edgeway-service"), *slash = strchr(name, '/');
	const struct service *service = slash == NULL || s->snapshot == NULL
		? NULL
		: snapshot_find(
			  s->snapshot, name, (size_t)(slash - name), slash + 1, strlen(slash + 1));

	*reason = "other nodes reach endpoints of Services alone";
	if (t->kind != TUNNEL_ACL_SERVICES || service == NULL)
		return 403;
	*reason =
		"the Service is not for everybody, and the node does not say that it enforces that";
	if (service->restricted &&
		strcmp(stream_field_of(request, "edgeway-enforces"), ALLOW_FROM_KIND) != 0)
		return 403;
	return 0;
}

/* --- pods by their address ------------------------------------------------------------------ */

/* The hub tells this node of a pod when another one asks for it, and that one's first call may be
 * here first. */
static bool
stream_server_may_come(const struct dial_target_request *ask, unsigned status)
{
	const char *slash = strchr(ask->service, '/');

	return (status == 403 || status == 404) && !ask->udp && *ask->meant == '\0' &&
		slash != NULL && pod_name_is(slash + 1, strlen(slash + 1));
}

static void
stream_server_look(struct served_stream *v)
{
	const struct dial_target_request ask = {
		.authority = v->authority, .service = v->dial->pod, .meant = ""};
	struct stream_server *s = v->of;
	struct served_dial *d = v->dial;

	memset(&d->target, 0, sizeof d->target);
	d->status = dial_target_find(look_around(s), &ask, &d->target, &d->why);
	if (d->status == 0)
		d->status = dial_target_permit(&d->target, s->allow, &d->why);
	served_stream_aim(v);
	if (d->status != 0)
		return;
	free(take_ptr(&d->pod));
	timer_start(d->timer, STREAM_SERVER_DIAL_MS, 0);
	stream_server_dial(v);
}

static struct served_stream *
served_stream_new(struct stream_server *s, const char *peer, const struct stream_request *request,
	const char *meant)
{
	char authority[300], caller[TEXT_MAX], clean[MEANT_MAX + 1];
	struct served_stream *v = xcalloc(1, sizeof *v);

	log_clean(authority, sizeof authority, request->authority);
	if (peer != NULL)
		snprintf(caller, sizeof caller, "node:%.*s", (int)sizeof caller - 6, peer);
	else
		log_clean(caller, sizeof caller, stream_field_of(request, "edgeway-caller"));
	log_clean(clean, sizeof clean, meant);
	v->authority = xasprintf("%s%c%s%c%s", authority, '\0', caller, '\0', clean);
	v->caller = v->authority + strlen(authority) + 1;
	v->meant = v->caller + strlen(caller) + 1;
	v->of = s;
	v->by_peer = peer != NULL;
	v->since_ms = loop_now_ms(s->loop);
	v->dial = page_pool_take(&s->dials);
	v->dial->fd = -1;
	LIST_INSERT_HEAD(&s->visits, v, link);
	return v;
}

/* peer: the node whose agent asks, and then asks the hub if this node refuses; NULL: the hub. */
static unsigned
stream_server_take(struct stream_server *s, const char *peer, struct stream *st,
	const struct stream_request *request, const char **reason)
{
	const struct dial_target_request ask = {
		.authority = request->authority,
		.service = stream_field_of(request, "edgeway-service"),
		.meant = peer == NULL ? stream_field_of(request, "edgeway-reach") : "",
		.udp = request->udp,
	};
	struct served_stream *v = served_stream_new(s, peer, request, ask.meant);
	struct served_dial *d = v->dial;
	unsigned status;

	s->beside += ask.meant[0] != '\0';
	if (s->spans != NULL && s->spans->on && !request->udp)
		begin_span(v, request);
	d->hops = hops_parse(stream_field_of(request, HOPS_FIELD));
	*reason = HOPS_REASON;
	status = d->hops < HOPS_MAX ? dial_target_find(look_around(s), &ask, &d->target, reason)
				    : 508;
	if (status == 0 && peer != NULL)
		status = stream_server_judge_peer(s, &d->target, request, reason);
	if (status == 0)
		status = dial_target_permit(&d->target, s->allow, reason);
	served_stream_aim(v);
	if (peer == NULL && stream_server_may_come(&ask, status)) {
		d->pod = xstrdup(ask.service);
		d->status = status;
		d->why = *reason;
	} else if (status != 0) {
		struct relay_report report = {.status = status, .why = *reason};

		s->results[result_of(status)]++;
		stream_server_tell(v, &report);
		served_stream_free(v);
		return status;
	}
	if (request->udp) {
		open_flow(v, st);
		return 0;
	}
	v->stream = st;
	d->timer = timer_new(s->loop, on_timer, v);
	s->n_dialling++;
	stream_accept(st, &stream_events, v);
	timer_start(d->timer, d->pod != NULL ? STREAM_SERVER_POD_MS : STREAM_SERVER_DIAL_MS, 0);
	if (d->pod == NULL)
		stream_server_dial(v);
	return 0;
}

static unsigned
stream_server_invited(struct stream_server *s, struct stream *st,
	const struct stream_request *request, const char **reason)
{
	const char *id = stream_field_of(request, RENDEZVOUS_ID);

	*reason = "this is no invitation";
	return s->invited != NULL && rendezvous_id_ok(id)
		? s->invited(s->arg, st, stream_field_of(request, RENDEZVOUS_NODE), id, reason)
		: 400;
}

unsigned
stream_server_opened(
	void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	if (!request->udp && strcmp(request->authority, RENDEZVOUS_AUTHORITY) == 0)
		return stream_server_invited(arg, st, request, reason);
	if (!request->udp && *stream_field_of(request, REACHABILITY_ASK) != '\0')
		return stream_server_asked(arg, st, request, reason);
	return stream_server_take(arg, NULL, st, request, reason);
}

unsigned
stream_server_peer_opened(struct stream_server *s, const char *node, struct stream *st,
	const struct stream_request *request, const char **reason)
{
	return stream_server_take(s, node, st, request, reason);
}

void
stream_server_judge(struct stream_server *s, const char *authority, struct buf *out)
{
	const struct dial_target_request ask = {.authority = authority, .service = "", .meant = ""};
	struct dial_target target = {0};
	const char *reason = "";
	unsigned status = dial_target_find(look_around(s), &ask, &target, &reason);
	auto_buf struct buf rule;

	buf_init(&rule, BUF_UNLIMITED);
	if (status == 0)
		tunnel_acl_explain(s->allow, target.kind, &target.addrs[0], &rule);
	if (status == 0)
		status = dial_target_permit(&target, s->allow, &reason);
	buf_adds(out, "{\"from\":\"hub\",\"to\":");
	json_add_text(out, authority);
	buf_printf(out, ",\"target\":\"%s\",\"allowed\":%s,\"status\":%u,\"rule\":",
		target.n_addrs > 0 ? tunnel_acl_kind_name(target.kind) : "",
		status == 0 ? "true" : "false", status);
	json_add_text(out, buf_str(&rule));
	buf_adds(out, ",\"reason\":");
	json_add_text(out, status == 0 || reason == NULL ? "" : reason);
	buf_adds(out, ",\"ways\":[");
	for (size_t i = 0; status == 0 && i < target.n_addrs; i++) {
		char text[ADDR_TEXT_MAX];

		buf_printf(out, "%s{\"endpoint\":\"%s\",\"node\":", i > 0 ? "," : "",
			addr_text(&target.addrs[i], text));
		json_add_text(out, s->node);
		buf_adds(out, ",\"allowed\":true,\"why\":\"\"}");
	}
	buf_adds(out, "]}\n");
}

/* --- life ----------------------------------------------------------------------------------- */

static char **
copy_list(const char *const *from)
{
	size_t n = 0;
	char **to;

	while (from != NULL && from[n] != NULL)
		n++;
	to = xcalloc(n + 1, sizeof *to);
	for (size_t i = 0; i < n; i++)
		to[i] = xstrdup(from[i]);
	return to;
}

int
stream_server_new(
	const struct stream_server_config *config, struct stream_server **out, struct err *err)
{
	struct tunnel_acl *allow;
	struct stream_server *s;
	size_t n = 0;
	int rc;

	while (config->allow != NULL && config->allow[n] != NULL)
		n++;
	if ((rc = tunnel_acl_new(config->allow, n, &allow, err)) < 0)
		return rc;
	s = xcalloc(1, sizeof *s);
	s->loop = config->loop;
	s->node = xstrdup(config->node);
	s->bridges = copy_list(config->bridges);
	s->allow = allow;
	s->declaration = reachability_new(config->loop);
	s->invited = config->invited;
	s->arg = config->arg;
	if (config->answer != NULL)
		s->queries = agent_queries_new(config->loop, config->answer, config->arg);
	s->addresses = config->addresses;
	s->mark = config->mark;
	s->udp = stream_server_udp_new(s->loop, s->mark);
	s->spans = config->spans;
	s->ground.node = s->node;
	LIST_INIT(&s->visits);
	page_pool_init(&s->dials, sizeof(struct served_dial));
	*out = s;
	return 0;
}

void
stream_server_free(struct stream_server **out)
{
	struct stream_server *s = take_ptr(out);

	if (s == NULL)
		return;
	while (!LIST_EMPTY(&s->visits))
		served_stream_free(LIST_FIRST(&s->visits));
	page_pool_fini(&s->dials);
	stream_server_udp_free(&s->udp);
	snapshot_unref(&s->snapshot);
	address_list_unref(&s->own);
	agent_queries_free(&s->queries);
	reachability_free(&s->declaration);
	tunnel_acl_free(&s->allow);
	for (char **at = s->bridges; *at != NULL; at++)
		free(*at);
	free(s->bridges);
	free(s->node);
	free(s);
}

void
stream_server_end_spans(struct stream_server *s)
{
	const struct relay_report report = {
		.status = 200, .why = "goes on while the agent stops", .whole = true};
	struct served_stream *v;

	LIST_FOREACH(v, &s->visits, link)
		if (v->span != NULL)
			end_span(v, &report, "");
}

void
stream_server_drain(struct stream_server *s)
{
	stream_server_udp_drain(s->udp);
}

void
stream_server_use(struct stream_server *s, const struct snapshot *snapshot)
{
	struct served_stream *v, *next;

	snapshot_unref(&s->snapshot);
	s->snapshot = snapshot_ref(snapshot);
	for (v = LIST_FIRST(&s->visits); v != NULL; v = next) {
		next = LIST_NEXT(v, link);
		if (v->dial != NULL && v->dial->pod != NULL)
			stream_server_look(v);
	}
}

bool
stream_server_to_be_asked(void *arg)
{
	return reachability_vicinity(((struct stream_server *)arg)->declaration)->n > 0;
}

bool
stream_server_declare(struct stream_server *s, struct reachable_nets **vicinity)
{
	bool other = !reachable_nets_same(*vicinity, reachability_vicinity(s->declaration));

	if (other)
		reachability_use(s->declaration, vicinity);
	reachable_nets_free(vicinity);
	return other;
}

/* --- state and metrics ---------------------------------------------------------------------- */

void
stream_server_metrics(const struct stream_server *s, struct metrics *m)
{
	char label[64];

	for (unsigned i = 0; i < RESULTS; i++)
		metric_counter(m, "edgeway_tunnel_dials_total",
			"Streams of the hub and of other nodes by what became of their dial.",
			metric_label(label, sizeof label, "result", result_names[i]),
			s->results[i]);
	metric_counter(m, "edgeway_tunnel_beside_total",
		"Streams of the hub for machines beside this node (tunnel.reach).", NULL,
		s->beside);
	reachability_metrics(s->declaration, m);
	stream_server_udp_metrics(s->udp, m);
}

void
stream_server_state(const struct stream_server *s, struct buf *out)
{
	buf_printf(out, ",\"dialling\":%u,\"joined\":%u,\"dials\":{", s->n_dialling, s->n_joined);
	for (unsigned i = 0; i < RESULTS; i++)
		buf_printf(out, "%s\"%s\":%llu", i > 0 ? "," : "", result_names[i],
			(unsigned long long)s->results[i]);
	buf_adds(out, "},\"udp\":");
	stream_server_udp_state(s->udp, out);
	buf_printf(out, ",\"beside\":%llu,\"reach\":", (unsigned long long)s->beside);
	reachability_state(s->declaration, out);
}
