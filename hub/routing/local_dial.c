#include "hub/routing/local_dial.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/core/hops.h"
#include "base/core/log.h"

/* Streams: more than callers and nodes may have, or some would close the way for all. */
enum {
	MEMORY = 64 * 1024 * 1024,
	STREAMS = 1 << 20,
	PING_MS = 4000,
	DEAD_MS = 9000,
};

#define LOCAL_DIAL_CALLER "edgeway-share" /* field: the caller's name, for the other end */

struct dial {
	TAILQ_ENTRY(dial) entry;
	struct local_dial *cloud;
	struct relay *relay;
	struct udp_relay *udp; /* for datagrams, in place of `relay` */
	struct self_dial noted;
};

struct session_pair {
	LIST_ENTRY(session_pair) link;
	struct local_dial *of;
	struct session *near, *far;
};

struct local_dial {
	struct loop *loop;
	struct self_guard *guard;
	uint32_t mark;
	struct session_budget budget;
	uint64_t seed; /* of callers' slots of its shares */
	LIST_HEAD(, session_pair) pairs; /* the first one is in use, others drain */
	TAILQ_HEAD(, dial) dials;
};

struct local_dial *
local_dial_new(struct loop *loop, struct self_guard *guard)
{
	struct local_dial *c = xcalloc(1, sizeof *c);

	c->loop = loop;
	c->guard = guard;
	c->budget = (struct session_budget){.limit = MEMORY, .shares = fair_share_new(MEMORY)};
	random_bytes(&c->seed, sizeof c->seed);
	TAILQ_INIT(&c->dials);
	return c;
}

void
local_dial_mark(struct local_dial *c, uint32_t mark)
{
	c->mark = mark;
}

static void
free_dial(struct dial *d)
{
	TAILQ_REMOVE(&d->cloud->dials, d, entry);
	self_guard_ended(&d->noted);
	relay_free(&d->relay);
	udp_relay_free(&d->udp);
	free(d);
}

static void
session_pair_free(struct session_pair *p)
{
	LIST_REMOVE(p, link);
	session_free(&p->near);
	session_free(&p->far);
	free(p);
}

void
local_dial_free(struct local_dial **out)
{
	struct local_dial *c = take_ptr(out);
	struct dial *d;

	if (c == NULL)
		return;
	while ((d = TAILQ_FIRST(&c->dials)) != NULL)
		free_dial(d);
	while (!LIST_EMPTY(&c->pairs))
		session_pair_free(LIST_FIRST(&c->pairs));
	fair_share_free(&c->budget.shares);
	free(c);
}

static void
on_dial_ended(void *arg, const struct relay_report *report)
{
	(void)report;
	free_dial(arg);
}

static void
on_flow_ended(void *arg, const struct udp_relay_report *report)
{
	(void)report;
	free_dial(arg);
}

static void
local_dial_dial(struct dial *d, struct stream *st, const struct stream_request *request,
	const struct addr *to)
{
	unsigned hops = hops_parse(stream_field_of(request, HOPS_FIELD));
	struct loop *loop = d->cloud->loop;
	struct addr from;

	if (request->udp)
		d->udp = udp_relay_start(&(struct udp_relay_setup){.loop = loop,
			.stream = st,
			.to = to,
			.n_to = 1,
			.mark = d->cloud->mark,
			.hops = hops,
			.ended = on_flow_ended,
			.arg = d});
	else
		d->relay = relay_dial(&(struct relay_setup){.loop = loop,
					      .stream = st,
					      .ended = on_dial_ended,
					      .arg = d,
					      .mark = d->cloud->mark,
					      .hops = hops},
			to, 0);
	if (request->udp ? udp_relay_local(d->udp, &from) : relay_local(d->relay, &from))
		self_guard_begun(d->cloud->guard, &d->noted, &from);
}

static void
local_dial_charge(const struct local_dial *c, struct stream *st, const char *caller)
{
	stream_charge(st, fair_share_slot(caller, strlen(caller), c->seed));
}

static unsigned
on_opened(void *arg, struct stream *st, const struct stream_request *request, const char **reason)
{
	static const struct stream_events none = {0};
	struct local_dial *c = ((const struct session_pair *)arg)->of;
	struct dial *d;
	struct addr to;

	local_dial_charge(c, st, stream_field_of(request, LOCAL_DIAL_CALLER));
	if (stream_exceeds(st)) {
		stream_close(&st, STREAM_REFUSED);
		return 0;
	}
	if (addr_parse(&to, request->authority, 0, NULL) < 0) {
		*reason = "not an address";
		return 400;
	}
	/* Checked again, whatever route was chosen: this is the last check before the kernel
	 * dials. */
	if ((*reason = tunnel_acl_never(&to)) != NULL ||
		(*reason = self_guard_refuses(c->guard, &to, NULL)) != NULL)
		return 403;
	d = xcalloc(1, sizeof *d);
	d->cloud = c;
	TAILQ_INSERT_TAIL(&c->dials, d, entry);
	stream_accept(st, &none, d);
	local_dial_dial(d, st, request, &to);
	return 0;
}

/* The far end hears of it, behind what it has yet to tell of. */
static void
on_near_ended(void *arg, int rc, const char *why)
{
	(void)arg, (void)rc, (void)why;
}

/* 0: the numbers of streams were used up, and the last one has ended. */
static void
on_far_ended(void *arg, int rc, const char *why)
{
	if (rc != 0)
		log_error("hub", "the hub's own dials have ended rc=%d reason=\"%s\"", rc, why);
	session_pair_free(arg);
}

static const struct session_events near_events = {.ended = on_near_ended};
static const struct session_events far_events = {.opened = on_opened, .ended = on_far_ended};

static int
local_dial_start(struct local_dial *c)
{
	static const struct session_limits limits = {
		.max_streams = STREAMS, .ping_ms = PING_MS, .dead_ms = DEAD_MS};
	struct session_setup setup = {.loop = c->loop,
		.role = SESSION_SERVER,
		.budget = &c->budget,
		.limits = &limits,
		.udp = true,
		.within = true, /* on_opened refuses whose share is used up */
		.events = &far_events};
	struct session_pair *p;
	int fd[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
		return -errno;
	setup.arg = p = xcalloc(1, sizeof *p);
	p->of = c;
	LIST_INSERT_HEAD(&c->pairs, p, link);
	setup.wire = transport_socket(c->loop, fd[0]);
	rc = session_new(&setup, &p->far);
	setup.role = SESSION_CLIENT;
	setup.events = &near_events;
	setup.wire = transport_socket(c->loop, fd[1]);
	if (rc == 0)
		rc = session_new(&setup, &p->near);
	else
		setup.wire->ops->free(setup.wire);
	if (rc < 0)
		session_pair_free(p);
	return rc;
}

int
local_dial_open(struct local_dial *c, const char *caller, const struct stream_request *request,
	const struct stream_events *stream_events, void *arg, struct stream **out)
{
	struct stream_field fields[STREAM_FIELDS_MAX];
	struct stream_request with = *request;
	const struct session_pair *p = LIST_FIRST(&c->pairs);
	int rc = -ESHUTDOWN;

	assert(request->n_fields < STREAM_FIELDS_MAX);
	memcpy(fields, request->fields, request->n_fields * sizeof *fields);
	fields[with.n_fields++] = (struct stream_field){LOCAL_DIAL_CALLER, caller};
	with.fields = fields;
	if (p != NULL)
		rc = session_open(p->near, &with, stream_events, arg, out);
	if (rc == -ESHUTDOWN && (rc = local_dial_start(c)) == 0)
		rc = session_open(LIST_FIRST(&c->pairs)->near, &with, stream_events, arg, out);
	if (rc == 0)
		local_dial_charge(c, *out, caller);
	return rc;
}
