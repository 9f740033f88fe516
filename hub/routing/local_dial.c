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

struct local_dial {
	struct loop *loop;
	struct self_guard *guard;
	uint32_t mark;
	struct session_budget budget;
	uint64_t seed; /* of callers' slots of its shares */
	struct session *near, *far; /* NULL until first used */
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
local_dial_stop(struct local_dial *c)
{
	struct dial *d;

	while ((d = TAILQ_FIRST(&c->dials)) != NULL)
		free_dial(d);
	session_free(&c->near);
	session_free(&c->far);
}

void
local_dial_free(struct local_dial **out)
{
	struct local_dial *c = take_ptr(out);

	if (c == NULL)
		return;
	local_dial_stop(c);
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
	struct local_dial *c = arg;
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

/* Neither end of a socket pair closes by itself: the sessions are made again at the next use. */
static void
on_ended(void *arg, int rc, const char *why)
{
	(void)arg;
	log_error("hub", "the hub's own dials have ended rc=%d reason=\"%s\"", rc, why);
}

static const struct session_events events = {.opened = on_opened, .ended = on_ended};

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
		.events = &events,
		.arg = c};
	int fd[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) < 0)
		return -errno;
	setup.wire = transport_socket(c->loop, fd[0]);
	rc = session_new(&setup, &c->far);
	setup.role = SESSION_CLIENT;
	setup.wire = transport_socket(c->loop, fd[1]);
	if (rc == 0)
		rc = session_new(&setup, &c->near);
	else
		setup.wire->ops->free(setup.wire);
	if (rc < 0)
		local_dial_stop(c);
	return rc;
}

int
local_dial_open(struct local_dial *c, const char *caller, const struct stream_request *request,
	const struct stream_events *stream_events, void *arg, struct stream **out)
{
	struct stream_field fields[STREAM_FIELDS_MAX];
	struct stream_request with = *request;
	int rc = c->near != NULL ? 0 : local_dial_start(c);

	assert(request->n_fields < STREAM_FIELDS_MAX);
	memcpy(fields, request->fields, request->n_fields * sizeof *fields);
	fields[with.n_fields++] = (struct stream_field){LOCAL_DIAL_CALLER, caller};
	with.fields = fields;
	if (rc == 0)
		rc = session_open(c->near, &with, stream_events, arg, out);
	if (rc == 0)
		local_dial_charge(c, *out, caller);
	if (rc == -ESHUTDOWN) {
		local_dial_stop(c);
		rc = -EAGAIN;
	}
	return rc;
}
