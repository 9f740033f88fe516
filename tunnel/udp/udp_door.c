#include "tunnel/udp/udp_door.h"

#include <string.h>
#include <unistd.h>

#include "base/core/fair_share.h"

enum {
	SWEEP_MS = 500, /* at most; a quarter of short idle timeouts */
	SWEEP_LEAST_MS = 25,
	DRAIN_QUIET_MS = 500,
};

struct udp_door {
	struct udp_door_setup setup;
	int fd;
	struct watch *watch;
	struct timer *sweep; /* while there are flows */
	struct flows *flows;
	struct fair_share *dials;
	uint64_t seed; /* of the clients' slots there */
	bool draining;
	uint64_t opened;
	struct dgram_tally tally;
};

static uint64_t
now_ms(const struct udp_door *d)
{
	return loop_now_ms(d->setup.loop);
}

static void
udp_door_drop(struct udp_flow *f, enum dgram_drop why, unsigned n)
{
	f->tally.dropped[why] += n;
	f->door->tally.dropped[why] += n;
}

static void
udp_door_count(struct dgram_count *a, struct dgram_count *b, size_t n)
{
	a->datagrams++;
	a->bytes += n;
	b->datagrams++;
	b->bytes += n;
}

static void
udp_door_dialled(struct udp_flow *f)
{
	if (f->dialling)
		fair_share_give(f->door->dials, f->slot, 1);
	f->dialling = false;
}

/* --- end of a flow -------------------------------------------------------------------------- */

/* Tells the owner, if it has one, once. */
static void
let_go(struct udp_flow *f, unsigned status, const char *why)
{
	struct udp_door *d = f->door;
	bool asked = f->dialling || f->stream != NULL;

	udp_door_dialled(f);
	if (asked)
		d->setup.events->over(d->setup.arg, f, status, why);
	stream_close(&f->stream, STREAM_CANCELLED);
	dgram_reader_fini(&f->reader);
	dgram_kept_fini(&f->kept);
	f->own = NULL;
}

void
udp_flow_end(struct udp_flow *f, const char *why)
{
	struct udp_door *d = f->door;

	udp_door_drop(f, DROP_UNREACHABLE, f->kept.n);
	let_go(f, f->stream != NULL ? 200 : UDP_FLOW_GONE, why);
	flows_remove(d->flows, &f->entry);
	if (flows_count(d->flows) == 0)
		timer_cancel(d->sweep);
	free(f);
}

/* Further datagrams are dropped; after a while the flow may be requested again. */
static void
turn_away(struct udp_flow *f, enum dgram_drop why, unsigned status, const char *reason)
{
	f->refusal = why;
	let_go(f, status, reason);
	flows_touch(f->door->flows, &f->entry, FLOW_REFUSED, now_ms(f->door));
}

void
udp_flow_refuse(struct udp_flow *f, enum dgram_drop why, unsigned status, const char *reason)
{
	udp_door_drop(f, why, f->kept.n);
	turn_away(f, why, status, reason);
}

const char *
udp_flow_state(const struct udp_flow *f)
{
	return f->stream != NULL ? "open" : f->dialling ? "dialling" : dgram_drop_name(f->refusal);
}

/* --- bytes ---------------------------------------------------------------------------------- */

static bool
udp_door_spend(struct udp_flow *f, size_t n)
{
	const struct udp_door_setup *s = &f->door->setup;

	return s->events->spend == NULL || s->events->spend(s->arg, f, n);
}

static void
to_stream(struct udp_flow *f, const void *data, size_t n)
{
	if (!udp_door_spend(f, n))
		udp_door_drop(f, DROP_RATE, 1);
	else if (!dgram_put(f->stream, data, n))
		udp_door_drop(f, DROP_QUEUE, 1);
	else
		udp_door_count(&f->tally.to_stream, &f->door->tally.to_stream, n);
}

static void
to_client(struct udp_flow *f, const void *data, size_t n)
{
	int rc;

	if (!udp_door_spend(f, n)) {
		udp_door_drop(f, DROP_RATE, 1);
		return;
	}
	rc = pktinfo_send(f->door->fd, data, n, &f->way);
	if (rc < 0)
		udp_door_drop(f, dgram_send_failed(-rc), 1);
	else
		udp_door_count(&f->tally.from_stream, &f->door->tally.from_stream, n);
}

static void
udp_door_touch(struct udp_flow *f)
{
	bool brief = f->tally.to_stream.datagrams == 1 && f->tally.from_stream.datagrams == 1;

	flows_touch(f->door->flows, &f->entry, brief ? FLOW_BRIEF : FLOW_LASTING, now_ms(f->door));
}

static void
drain_stream(struct udp_flow *f)
{
	const void *data;
	size_t n;
	int rc;

	while ((rc = dgram_get(&f->reader, f->stream, &data, &n)) > 0) {
		to_client(f, data, n);
		udp_door_touch(f);
	}
	udp_door_drop(f, DROP_QUEUE, dgram_hear_dropped(&f->reader, f->stream));
	if (rc < 0)
		udp_flow_end(f, "what came is no capsules");
	else if (stream_eof(f->stream))
		udp_flow_end(f, "the node has ended it");
}

static void
on_readable(void *arg)
{
	drain_stream(arg);
}

static void
on_reset(void *arg, unsigned code)
{
	struct udp_flow *f = arg;

	if (code == STREAM_BROKEN)
		turn_away(f, DROP_UNREACHABLE, 200, "port unreachable");
	else
		udp_flow_end(
			f, code == STREAM_LOST ? "the session has ended" : "the node has ended it");
}

static const struct stream_events stream_events = {.readable = on_readable, .reset = on_reset};

static void
send_kept(struct udp_flow *f)
{
	struct dgram_kept kept = f->kept;
	const void *data;
	size_t at = 0, n;

	f->kept = (struct dgram_kept){0};
	while (dgram_kept_next(&kept, &at, &data, &n))
		to_stream(f, data, n);
	dgram_kept_fini(&kept);
}

void
udp_flow_join(struct udp_flow *f, struct stream *stream)
{
	udp_door_dialled(f);
	f->door->opened++;
	f->stream = stream;
	stream_use(f->stream, &stream_events, f);
	send_kept(f);
	drain_stream(f);
}

/* --- datagrams of clients ------------------------------------------------------------------- */

static struct flow_key
key_of(const struct pktinfo_way *way)
{
	struct flow_key key;

	memset(&key, 0, sizeof key);
	key.local = way->local;
	key.port = addr_port(&way->peer);
	addr_ip(&way->peer, &key.client);
	if (way->peer.sa.sa_family == AF_INET6)
		key.scope = way->peer.in6.sin6_scope_id;
	return key;
}

static void
udp_door_begin(struct udp_door *d, const struct flow_key *key, const struct pktinfo_way *way,
	const void *data, size_t n)
{
	uint64_t sweep =
		MIN(MAX(d->setup.idle_ms / 4, (uint64_t)SWEEP_LEAST_MS), (uint64_t)SWEEP_MS);
	uint16_t slot = fair_share_slot_of(&way->peer, d->seed);
	struct flow_entry *victim;
	struct udp_flow *f;

	if (d->draining || !fair_share_take(d->dials, slot, 1)) {
		d->tally.dropped[d->draining ? DROP_UNREACHABLE : DROP_DIALLING]++;
		return;
	}
	while ((victim = flows_victim(d->flows, key)) != NULL)
		udp_flow_end((struct udp_flow *)victim, "made room for another flow");
	f = xcalloc(1, sizeof *f);
	f->door = d;
	f->way = *way;
	f->slot = slot;
	f->started_ms = now_ms(d);
	flows_add(d->flows, &f->entry, key, f->started_ms);
	if (!timer_active(d->sweep))
		timer_start(d->sweep, sweep, sweep);
	dgram_keep(&f->kept, data, n);
	f->dialling = true;
	d->setup.events->begun(d->setup.arg, f);
}

static void
udp_door_take(struct udp_door *d, const struct pktinfo_way *way, const void *data, size_t n)
{
	const struct flow_key key = key_of(way);
	struct udp_flow *f = (struct udp_flow *)flows_find(d->flows, &key);

	if (f == NULL) {
		udp_door_begin(d, &key, way, data, n);
		return;
	}
	if (f->entry.class == FLOW_REFUSED) {
		udp_door_drop(f, f->refusal, 1);
		return;
	}
	if (f->stream != NULL)
		to_stream(f, data, n);
	else if (!dgram_keep(&f->kept, data, n))
		udp_door_drop(f, DROP_DIALLING, 1);
	udp_door_touch(f);
}

static void
on_ready(void *arg, int fd, unsigned events)
{
	struct udp_door *d = arg;
	const struct udp_door_setup *s = &d->setup;
	size_t bytes = 0;

	/* an error of one client does not end the socket; but the watch stops after it */
	if (events & WATCH_HUP) {
		sock_error(fd);
		watch_stop(&d->watch);
		d->watch = watch_start(s->loop, fd, WATCH_READ, on_ready, d);
	}
	for (unsigned i = 0; i < DGRAM_TURN && bytes < DGRAM_TURN_BYTES; i++) {
		struct pktinfo_way way;
		ssize_t n = pktinfo_recv(fd, s->buffer, DGRAM_BUFFER, &way);

		if (n < 0)
			return;
		bytes += (size_t)n;
		if (s->events->comes == NULL || s->events->comes(s->arg, &way))
			udp_door_take(d, &way, s->buffer, (size_t)n);
		else
			d->tally.dropped[DROP_DENIED]++;
	}
}

static void
on_sweep(void *arg)
{
	struct udp_door *d = arg;
	struct flow_entry *e;

	while ((e = flows_expired(d->flows, now_ms(d))) != NULL)
		udp_flow_end((struct udp_flow *)e, "idle");
}

/* --- life ----------------------------------------------------------------------------------- */

int
udp_door_open(const struct udp_door_setup *setup, struct udp_door **out, struct err *err)
{
	uint64_t idle_ms = setup->idle_ms > 0 ? setup->idle_ms : (uint64_t)UDP_IDLE_MS;
	unsigned flows = setup->flows > 0 ? setup->flows : (unsigned)UDP_FLOWS;
	struct udp_door *d;
	int fd,
		rc = sock_udp(
			setup->listen, SOCK_INTERFACE | SOCK_HOPS | SOCK_TRANSPARENT, &fd, err);

	if (rc < 0)
		return rc;
	dgram_widen(fd);
	d = xcalloc(1, sizeof *d);
	d->setup = *setup;
	d->setup.listen = NULL; /* belongs to the caller */
	d->setup.idle_ms = idle_ms;
	d->fd = fd;
	d->flows = flows_new(&(struct flows_limits){
		.most = flows,
		.of_source = MAX(flows / 4, 1u),
		.idle_ms = {[FLOW_REFUSED] = MIN((uint64_t)UDP_REFUSED_MS, idle_ms),
			[FLOW_BRIEF] = MIN((uint64_t)UDP_BRIEF_MS, idle_ms),
			[FLOW_LASTING] = idle_ms},
	});
	d->dials = fair_share_new(UDP_DIALS);
	random_bytes(&d->seed, sizeof d->seed);
	d->sweep = timer_new(setup->loop, on_sweep, d);
	d->watch = watch_start(setup->loop, fd, WATCH_READ, on_ready, d);
	*out = d;
	return 0;
}

void
udp_door_close(struct udp_door **out, const char *why)
{
	struct udp_door *d = take_ptr(out);
	struct udp_flow *f;

	if (d == NULL)
		return;
	while ((f = udp_door_next(d, NULL)) != NULL)
		udp_flow_end(f, why);
	watch_stop(&d->watch);
	timer_free(&d->sweep);
	flows_free(&d->flows);
	fair_share_free(&d->dials);
	close(d->fd);
	free(d);
}

void
udp_door_drain(struct udp_door *d)
{
	d->draining = true;
	flows_hurry(d->flows, DRAIN_QUIET_MS);
}

/* --- state and metrics ---------------------------------------------------------------------- */

uint16_t
udp_door_port(const struct udp_door *d)
{
	struct addr a = {.len = sizeof a.in6};

	return getsockname(d->fd, &a.sa, &a.len) == 0 ? addr_port(&a) : 0;
}

void *
udp_door_owner(const struct udp_door *d)
{
	return d->setup.arg;
}

unsigned
udp_door_flows(const struct udp_door *d)
{
	return flows_count(d->flows);
}

uint64_t
udp_door_opened(const struct udp_door *d)
{
	return d->opened;
}

struct dgram_tally
udp_door_tally(const struct udp_door *d)
{
	struct dgram_tally t = d->tally;

	t.dropped[DROP_SOCKET] += dgram_lost(d->fd);
	return t;
}

struct udp_flow *
udp_door_next(const struct udp_door *d, const struct udp_flow *f)
{
	return (struct udp_flow *)flows_next(d->flows, f != NULL ? &f->entry : NULL);
}
