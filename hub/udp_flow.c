#include "hub/udp_maps_private.h"

#include <string.h>

#include "base/log.h"

enum {
	SWEEP_MS = 500, /* at most; for short idle times a quarter of them */
	SWEEP_LEAST_MS = 25,
	STATUS_GONE = 499, /* ended before it was answered */
};

static uint64_t
now_ms(const struct udp_map *m)
{
	return loop_now_ms(m->maps->config.loop);
}

static void
drop(struct udp_flow *f, enum dgram_drop why, unsigned n)
{
	f->tally.dropped[why] += n;
	f->map->tally.dropped[why] += n;
}

static void
count(struct dgram_count *a, struct dgram_count *b, size_t n)
{
	a->datagrams++;
	a->bytes += n;
	b->datagrams++;
	b->bytes += n;
}

static void
fill_caller(const struct udp_flow *f, struct caller *caller)
{
	memset(caller, 0, sizeof *caller);
	caller->addr = f->way.peer;
	caller->local = pktinfo_is_own(&f->way);
}

const char *
udp_flow_caller(const struct udp_flow *f, char to[ACCESS_NAME_MAX + 8])
{
	struct caller caller;

	fill_caller(f, &caller);
	return caller_text(&caller, to);
}

/* --- its end --------------------------------------------------------------------------------------- */

static void
audit(const struct udp_flow *f, unsigned status, const char *end)
{
	char caller[ACCESS_NAME_MAX + 8], target[2 * MESH_NODE_MAX + 64], why[WAYS_REASON_MAX];
	const struct dgram_tally *t = &f->tally;
	auto_free char *line = xasprintf(
		"door=ingress.udp listen=%s caller=%s target=\"%s\" status=%u sent=%llu "
		"received=%llu datagrams_sent=%llu datagrams_received=%llu dropped=%llu ms=%llu "
		"end=\"%s\"",
		f->map->listen, udp_flow_caller(f, caller),
		log_clean(target, sizeof target, f->target != NULL ? f->target : ""), status,
		(unsigned long long)t->to_stream.bytes, (unsigned long long)t->from_stream.bytes,
		(unsigned long long)t->to_stream.datagrams,
		(unsigned long long)t->from_stream.datagrams, (unsigned long long)dgram_dropped(t),
		(unsigned long long)(now_ms(f->map) - f->started_ms),
		log_clean(why, sizeof why, end));

	/* Anybody may send from any address: those that are turned away, or never begin, do not fill the log. */
	if (status == 200)
		log_info("audit", "%s", line);
	else if (status == STATUS_GONE)
		log_limited(LOG_LEVEL_INFO, 60, "audit", "%s", line);
	else
		log_limited(LOG_LEVEL_INFO, 60, "audit", "%s", line);
}

static void
let_go(struct udp_flow *f)
{
	if (f->reaching != NULL) {
		reach_cancel(&f->reaching);
		f->map->dialling--;
	}
	stream_close(&f->stream, STREAM_CANCELLED);
	dgram_reader_fini(&f->reader);
	dgram_kept_fini(&f->kept);
	quota_give(&f->caller_account, now_ms(f->map));
	quota_give(&f->node_account, now_ms(f->map));
	free(take_ptr(&f->where_text[0]));
	free(take_ptr(&f->where_text[1]));
}

static void
flow_free(struct udp_flow *f)
{
	let_go(f);
	flows_remove(f->map->flows, &f->entry);
	if (flows_count(f->map->flows) == 0)
		timer_cancel(f->map->sweep);
	free(f->target);
	free(f);
}

void
udp_flow_end(struct udp_flow *f, const char *why)
{
	drop(f, DROP_DIALLING, f->kept.n);
	if (f->stream != NULL)
		audit(f, 200, why);
	else if (f->reaching != NULL)
		audit(f, STATUS_GONE, why);
	flow_free(f);
}

/* What comes now is dropped; after a while it may be asked for again. */
static void
turn_away(struct udp_flow *f, enum dgram_drop why)
{
	f->refusal = why;
	let_go(f);
	flows_touch(f->map->flows, &f->entry, FLOW_REFUSED, now_ms(f->map));
}

static void
refuse(struct udp_flow *f, unsigned status, const char *reason)
{
	enum dgram_drop why = status == 403 ? DROP_DENIED
		: status == 429             ? DROP_LIMIT
					    : DROP_UNREACHABLE;

	drop(f, why, f->kept.n);
	audit(f, status, reason);
	turn_away(f, why);
}

/* --- bytes ------------------------------------------------------------------------------------------ */

static struct rate *
rate_of(struct account *a)
{
	return a != NULL ? quota_rate(a) : NULL;
}

/* May so many bytes be moved now? They are, then. */
static bool
spend(struct udp_flow *f, size_t n)
{
	struct rate *rates[] = {rate_of(f->caller_account), rate_of(f->node_account)};

	for (size_t i = 0; i < ARRAY_LEN(rates); i++)
		if (rates[i] != NULL && rate_room(rates[i], now_ms(f->map)) == 0)
			return false;
	for (size_t i = 0; i < ARRAY_LEN(rates); i++)
		if (rates[i] != NULL)
			rate_spend(rates[i], n);
	return true;
}

static void
to_edge(struct udp_flow *f, const void *data, size_t n)
{
	if (!spend(f, n))
		drop(f, DROP_RATE, 1);
	else if (!dgram_put(f->stream, data, n))
		drop(f, DROP_QUEUE, 1);
	else
		count(&f->tally.to_stream, &f->map->tally.to_stream, n);
}

static void
to_client(struct udp_flow *f, const void *data, size_t n)
{
	int rc;

	if (!spend(f, n)) {
		drop(f, DROP_RATE, 1);
		return;
	}
	rc = pktinfo_send(f->map->fd, data, n, &f->way);
	if (rc < 0)
		drop(f, dgram_send_failed(-rc), 1);
	else
		count(&f->tally.from_stream, &f->map->tally.from_stream, n);
}

static void
touch(struct udp_flow *f)
{
	bool brief = f->tally.to_stream.datagrams == 1 && f->tally.from_stream.datagrams == 1;

	flows_touch(f->map->flows, &f->entry, brief ? FLOW_BRIEF : FLOW_LASTING, now_ms(f->map));
}

/* False: the flow is gone. */
static bool
drain_stream(struct udp_flow *f)
{
	const void *data;
	size_t n;
	int rc;

	while ((rc = dgram_get(&f->reader, f->stream, &data, &n)) > 0) {
		to_client(f, data, n);
		touch(f);
	}
	if (rc == 0 && !stream_eof(f->stream))
		return true;
	udp_flow_end(f, rc < 0 ? "what came is no capsules" : "the node has ended it");
	return false;
}

static void
on_readable(void *arg)
{
	drain_stream(arg);
}

static void
on_writable(void *arg)
{
	(void)arg; /* what had no room was dropped */
}

static void
on_answered(void *arg, unsigned status, const char *reason)
{
	(void)arg; /* told to hub/reach.c */
	(void)status;
	(void)reason;
}

static void
on_reset(void *arg, unsigned code)
{
	struct udp_flow *f = arg;

	if (code == STREAM_BROKEN) {
		audit(f, 200, "port unreachable");
		turn_away(f, DROP_UNREACHABLE);
		return;
	}
	udp_flow_end(f, code == STREAM_LOST ? "the session has ended" : "the node has ended it");
}

static const struct stream_events stream_events = {on_answered, on_readable, on_writable, on_reset};

/* --- reaching ----------------------------------------------------------------------------------------- */

bool
udp_flow_allowed(const struct udp_flow *f)
{
	struct caller caller;

	fill_caller(f, &caller);
	return access_check(f->map->maps->config.access, &caller, &f->where);
}

/* NULL, or why it is not opened; *status is set then. */
static const char *
objection(struct udp_flow *f, const struct reach_answer *answer, unsigned *status)
{
	f->where = *answer->where;
	f->where_text[0] = xstrdup(answer->where->node); /* the same text as ns and host, ways.h */
	f->where_text[1] = xstrdup(answer->where->name);
	f->where.node = f->where.ns = f->where.host = f->where_text[0];
	f->where.name = f->where_text[1];
	*status = 403;
	if (!udp_flow_allowed(f))
		return "the rules of access have changed";
	if (*answer->via == '\0')
		return NULL;
	f->node_account =
		quota_take(f->map->maps->config.quota, QUOTA_NODE, answer->via, now_ms(f->map));
	*status = 429;
	return f->node_account != NULL ? NULL : "the node has as many streams as it may";
}

static void
send_kept(struct udp_flow *f)
{
	struct dgram_kept kept = f->kept;
	const void *data;
	size_t at = 0, n;

	f->kept = (struct dgram_kept){0};
	while (dgram_kept_next(&kept, &at, &data, &n))
		to_edge(f, data, n);
	dgram_kept_fini(&kept);
}

static void
on_reached(void *arg, const struct reach_answer *answer)
{
	struct udp_flow *f = arg;
	unsigned status = answer->status;
	const char *why = answer->reason;

	f->reaching = NULL;
	f->map->dialling--;
	f->target = xstrdup(answer->target);
	if (status == 200) {
		f->stream = answer->stream;
		stream_use(f->stream, &stream_events, f);
		why = objection(f, answer, &status);
	}
	if (why != NULL) {
		refuse(f, status, why);
		return;
	}
	f->map->opened++;
	send_kept(f);
	drain_stream(f);
}

/* --- datagrams of the client ------------------------------------------------------------------------- */

void
udp_flow_take(struct udp_flow *f, const void *data, size_t n)
{
	if (f->entry.class == FLOW_REFUSED) {
		drop(f, f->refusal, 1);
		return;
	}
	if (f->stream != NULL)
		to_edge(f, data, n);
	else if (!dgram_keep(&f->kept, data, n))
		drop(f, DROP_DIALLING, 1);
	touch(f);
}

static struct udp_flow *
make(struct udp_map *m, const struct flow_key *key, const struct pktinfo_way *way)
{
	uint64_t sweep =
		MIN(MAX(m->maps->config.idle_ms / 4, (uint64_t)SWEEP_LEAST_MS), (uint64_t)SWEEP_MS);
	struct udp_flow *f = xcalloc(1, sizeof *f);

	f->map = m;
	f->way = *way;
	f->started_ms = now_ms(m);
	flows_add(m->flows, &f->entry, key, f->started_ms);
	if (!timer_active(m->sweep))
		timer_start(m->sweep, sweep, sweep);
	return f;
}

void
udp_flow_begin(struct udp_map *m, const struct flow_key *key, const struct pktinfo_way *way,
	const void *data, size_t n)
{
	char name[ACCESS_NAME_MAX + 8];
	struct flow_entry *victim;
	struct caller caller;
	struct udp_flow *f;

	if (m->dialling >= UDP_DIALS || m->maps->draining) {
		m->tally.dropped[m->maps->draining ? DROP_UNREACHABLE : DROP_DIALLING]++;
		return;
	}
	while ((victim = flows_victim(m->flows, key)) != NULL)
		udp_flow_end((struct udp_flow *)victim, "made room for another flow");
	f = make(m, key, way);
	fill_caller(f, &caller);
	f->caller_account = quota_take(
		m->maps->config.quota, QUOTA_CALLER, caller_name(&caller, name), now_ms(m));
	if (f->caller_account == NULL)
		log_limited(LOG_LEVEL_WARN, 6, "ingress",
			"a caller has as many streams as ingress.limits.callerStreams allows "
			"caller=%s",
			name);
	dgram_keep(&f->kept, data, n);
	m->dialling++;
	f->reaching = reach_start(m->maps->config.reach,
		&(struct reach_request){
			.caller = &caller,
			.host = m->host,
			.port = m->port,
			.dest = m->dest,
			.udp = true,
			.full = f->caller_account != NULL
				? NULL
				: "this caller has as many streams as it may",
		},
		on_reached, f);
}
