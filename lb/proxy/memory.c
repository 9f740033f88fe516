#include "lb/proxy/memory.h"

#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/os/cgroup.h"
#include "lb/proxy/access_log.h"
#include "lb/proxy/h2_client.h"
#include "lb/proxy/h2_stream.h"
#include "lb/proxy/h2_upstream.h"
#include "lb/proxy/proxy.h"

/*
 * Counters shared by all workers are touched only when a connection's buffers grow or shrink by
 * MEMORY_SLACK: a request with a head of usual size that is answered at once never touches them.
 * Amounts below the slack are covered by MEMORY_DOWNSTREAM, which every connection is charged with.
 */
enum {
	MEMORY_DOWNSTREAM =
		2048, /* a connection with a request: both connections, exchange, watches */
	MEMORY_SLACK = 3072,
	/* a connection may hold at most one in so many parts of its client's remaining share */
	MEMORY_PARTS = 256,
	MEMORY_PARTS_WIDE = 32, /* of those few streams of HTTP/2 that have a wide window */
	MEMORY_STALLED_MS = 1000,
	/* pause after a search that found nothing: other workers' connections hold it all */
	MEMORY_EVICT_MS = 10,
	/* in one pass: closing connections that hold much takes the kernel time */
	MEMORY_EVICT_MOST = 32,
	/* time in which every connection is checked once */
	MEMORY_LOOK_TICKS = 1000 / EXPIRY_TICK_MS,
	/* A slow download may fill megabytes of kernel memory by itself: it is charged up to this
	 * limit, like any other. */
	MEMORY_SOCKETS_MOST = 256 * 1024,
	MEMORY_SOCKETS_LEAST = 8 * 1024, /* less than this is useless */
	MEMORY_TRIM_MS = 1000,
	MEMORY_WATCH_MS = 1000, /* between looks of a worker without events */
};

static const uint64_t memory_own_most = 48u << 20, memory_own_least = 4u << 20;

enum memory_pass { MEMORY_STALLED, MEMORY_IDLE, MEMORY_ANY };

/* --- limits --------------------------------------------------------------------------------- */

/* Of 128Mi, the limit in deploy/kubernetes, three eighths are for buffers and a quarter for
 * sockets; the rest is for the agent itself. */
void
memory_open(struct lb *lb)
{
	const struct lb_config *c = &lb->config;
	uint64_t all = cgroup_memory_share();
	uint64_t own = MAX(MIN(all / 8 * 3, memory_own_most), memory_own_least);

	random_bytes(&lb->client_seed, sizeof lb->client_seed);
	lb->memory[MEMORY_OWN] = fair_share_new(c->memory_bytes != 0 ? c->memory_bytes : own);
	lb->memory[MEMORY_SOCKETS] =
		fair_share_new(c->socket_bytes != 0 ? c->socket_bytes : all / 4);
}

void
memory_close(struct lb *lb)
{
	for (int i = 0; i < MEMORY_KINDS; i++)
		fair_share_free(&lb->memory[i]);
}

/* --- accounts ------------------------------------------------------------------------------- */

static void
memory_charge(struct downstream *f, enum memory_kind kind, uint32_t n)
{
	struct fair_share *s = f->worker->lb->memory[kind];

	if (n > f->charged[kind])
		fair_share_charge(s, f->slot, n - f->charged[kind]);
	else
		fair_share_give(s, f->slot, f->charged[kind] - n);
	f->charged[kind] = n;
	f->worker->stirred = true;
}

void
memory_enter(struct downstream *f)
{
	memory_charge(f, MEMORY_OWN, MEMORY_DOWNSTREAM);
	f->moved_ms = f->worker->now_ms;
}

void
memory_leave(struct downstream *f)
{
	for (int i = 0; i < MEMORY_KINDS; i++)
		memory_charge(f, (enum memory_kind)i, 0);
}

static size_t
memory_part(const struct downstream *f, unsigned parts, size_t most)
{
	uint64_t part = fair_share_room(f->worker->lb->memory[MEMORY_OWN], f->slot) / parts;

	return (size_t)MIN(MAX(part, (uint64_t)MEMORY_ALLOWANCE_LEAST), (uint64_t)most);
}

size_t
memory_allowance(const struct downstream *f)
{
	return memory_part(f, MEMORY_PARTS, MEMORY_ALLOWANCE_MOST);
}

size_t
memory_window(const struct downstream *f, size_t most)
{
	return memory_part(
		f, most > MEMORY_ALLOWANCE_MOST ? MEMORY_PARTS_WIDE : MEMORY_PARTS, most);
}

size_t
memory_step(const struct peer *to, size_t want)
{
	size_t room;

	if (want <= MEMORY_STEP_LEAST)
		return want;
	if (buf_len(&to->out) > 0)
		return MEMORY_STEP_LEAST;
	/* stored once: MIN and MAX would evaluate it twice, with maybe a larger result */
	room = peer_room(to) / 2;
	return MIN(want, MAX(room, (size_t)MEMORY_STEP_LEAST));
}

bool
memory_full(const struct peer *p)
{
	return buf_len(&p->out) > MEMORY_ALLOWANCE_LEAST;
}

static size_t
memory_held(const struct downstream *f)
{
	const struct exchange *ex = f->ex;
	size_t n = f->base.in.size + f->peer.out.size;

	if (f->h2 != NULL)
		return n + h2_client_held(f);
	if (ex == NULL)
		return n;
	n += ex->head.size + ex->http.trailers_up.size + ex->http.trailers_down.size;
	for (const struct upstream_conn *b = ex->upstream; b != NULL; b = b->rival)
		n += b->base.in.size + b->peer.out.size;
	return n;
}

/* --- which connections to close ------------------------------------------------------------- */

static bool
memory_may_go(const struct downstream *f, enum memory_kind kind, enum memory_pass pass)
{
	bool free_retry = f->worker->now_ms - f->moved_ms < MEMORY_STALLED_MS;
	uint32_t least = kind == MEMORY_OWN ? MEMORY_DOWNSTREAM : 0;

	switch (pass) {
	case MEMORY_STALLED:
		return !free_retry && f->charged[kind] > least;
	case MEMORY_IDLE:
		return !free_retry && f->ex == NULL && (f->h2 == NULL || f->h2->n_streams == 0) &&
			f->charged[kind] > 0;
	case MEMORY_ANY:
		return f->charged[kind] > 0;
	}
	return false;
}

static void
memory_evict_one(struct downstream *f, enum memory_kind kind)
{
	struct worker *w = f->worker;
	char client[IP_TEXT_MAX];

	count(kind == MEMORY_OWN ? &w->counters.evicted : &w->counters.evicted_sockets, 1);
	log_limited(LOG_LEVEL_WARN, 6, "lb",
		"closed a connection: its client's connections hold more %s than its share "
		"client=%s bytes=%u used=%llu limit=%llu",
		kind == MEMORY_OWN ? "memory" : "memory of sockets", ip_text(&f->client, client),
		f->charged[kind], (unsigned long long)fair_share_used(w->lb->memory[kind]),
		(unsigned long long)fair_share_limit(w->lb->memory[kind]));
	if (f->ex != NULL)
		access_log_end(f->ex, "PD");
	downstream_close(f, true);
}

/* At the limit a little extra is freed, so that not every few bytes cause a search. */
static uint64_t
memory_nearly_all(const struct fair_share *s)
{
	return fair_share_limit(s) - fair_share_limit(s) / 64;
}

/* Returns true if enough was freed for now. */
static bool
memory_evict_pass(struct worker *w, enum memory_kind kind, uint16_t slot, enum memory_pass pass)
{
	const struct fair_share *s = w->lb->memory[kind];
	unsigned evicted = 0;

	for (struct node *n = w->downstreams.next, *next; n != &w->downstreams; n = next) {
		struct downstream *f = container_of(n, struct downstream, node);

		next = n->next;
		if (f->slot != slot || !memory_may_go(f, kind, pass))
			continue;
		memory_evict_one(f, kind);
		if (++evicted == MEMORY_EVICT_MOST || fair_share_excess(s, slot) == 0 ||
			(pass == MEMORY_ANY && fair_share_used(s) < memory_nearly_all(s)))
			return true;
	}
	return false;
}

/* Closes connections of this worker; other workers check theirs. */
static void
memory_evict(struct worker *w, enum memory_kind kind)
{
	const struct fair_share *s = w->lb->memory[kind];
	uint16_t slot;

	if (fair_share_used(s) <= fair_share_limit(s) / 2)
		return;
	slot = fair_share_greediest(s);
	if (fair_share_excess(s, slot) == 0 || memory_evict_pass(w, kind, slot, MEMORY_STALLED) ||
		memory_evict_pass(w, kind, slot, MEMORY_IDLE))
		return;
	/* The kernel itself limits sockets that are making progress. */
	if (kind == MEMORY_SOCKETS || fair_share_used(s) < fair_share_limit(s))
		return;
	if (!memory_evict_pass(w, kind, slot, MEMORY_ANY))
		w->evict_ms = w->now_ms;
}

void
memory_settle(struct downstream *f)
{
	struct worker *w = f->worker;
	const struct fair_share *s = w->lb->memory[MEMORY_OWN];
	size_t n;

	if (f->base.ended)
		return;
	f->moved_ms = w->now_ms;
	n = MEMORY_DOWNSTREAM + memory_held(f);
	if (n + MEMORY_SLACK >= f->charged[MEMORY_OWN] &&
		n <= f->charged[MEMORY_OWN] + MEMORY_SLACK)
		return;
	memory_charge(f, MEMORY_OWN, (uint32_t)MIN(n, (size_t)UINT32_MAX));
	if (fair_share_used(s) >= fair_share_limit(s) && w->now_ms - w->evict_ms >= MEMORY_EVICT_MS)
		memory_evict(w, MEMORY_OWN);
}

/* --- the kernel's buffers ------------------------------------------------------------------- */

static uint32_t
memory_of_socket(const struct peer *p)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof info;

	if (getsockopt(p->fd, SOL_SOCKET, SO_MEMINFO, info, &len) < 0)
		return 0;
	return info[SK_MEMINFO_RMEM_ALLOC] + info[SK_MEMINFO_WMEM_QUEUED];
}

/* Its streams' parts of the sessions that carry them. */
static uint32_t
memory_of_sessions(const struct h2_client *c)
{
	const struct h2_upstream *last = NULL;
	uint32_t n = 0, each = 0;

	for (struct node *at = c->streams.next; at != &c->streams; at = at->next) {
		const struct h2_upstream *u = container_of(at, struct h2_stream, node)->up;

		if (u != NULL && u != last) {
			each = memory_of_socket(&u->conn->peer);
			each = MIN(each, (uint32_t)MEMORY_SOCKETS_MOST) / u->n_streams;
		}
		n += u != NULL ? each : 0;
		last = u;
	}
	return n;
}

static void
memory_look_at(struct downstream *f)
{
	uint32_t n = memory_of_socket(&f->peer);

	if (f->ex != NULL && f->ex->upstream != NULL && !f->ex->upstream->connecting)
		n += memory_of_socket(&f->ex->upstream->peer);
	n = MIN(n, (uint32_t)MEMORY_SOCKETS_MOST);
	if (f->h2 != NULL)
		n += memory_of_sessions(f->h2);
	memory_charge(f, MEMORY_SOCKETS, n < MEMORY_SOCKETS_LEAST ? 0 : n);
}

/* If all together could not fill half of the budget, none is checked. */
static bool
memory_may_look(const struct worker *w)
{
	const struct fair_share *s = w->lb->memory[MEMORY_SOCKETS];

	return fair_share_used(w->lb->connections) * MEMORY_SOCKETS_MOST >
		fair_share_limit(s) / 2 ||
		fair_share_used(s) > 0;
}

/* Checks a part of the connections at each tick, so that thousands of them delay nothing. */
static void
memory_look(struct worker *w)
{
	uint64_t all = fair_share_used(w->lb->connections);

	if (!memory_may_look(w))
		return;
	for (uint64_t n = all / MEMORY_LOOK_TICKS + 1; n > 0; n--) {
		w->looked_at = w->looked_at->next; /* from the head to the oldest */
		if (w->looked_at != &w->downstreams)
			memory_look_at(container_of(w->looked_at, struct downstream, node));
	}
}

/* --- giving memory back --------------------------------------------------------------------- */

/* Gives back memory that clients held, or that described removed services. On the loop that carries
 * no traffic. */
static void
memory_trim(void *arg)
{
	heap_give_back(&((struct lb *)arg)->heap);
}

/* Shared by the workers: they look at the heap once in MEMORY_TRIM_MS while what they hold changes,
 * and once afterwards. */
static uint64_t
memory_trim_tick(struct worker *w)
{
	_Atomic uint64_t *last = &w->lb->trimmed_ms;
	uint64_t due_ms = atomic_load_explicit(last, memory_order_relaxed) + MEMORY_TRIM_MS;

	if (!w->stirred)
		return UINT64_MAX;
	if (w->now_ms < due_ms)
		return due_ms;
	atomic_store_explicit(last, w->now_ms, memory_order_relaxed);
	w->stirred = false;
	loop_post(w->lb->config.main, memory_trim, w->lb);
	return UINT64_MAX;
}

/* Without connections of its own there is nothing to look at or to close. With some, others' may
 * use up what all share while this worker has no event. */
static uint64_t
memory_watch_ms(const struct worker *w)
{
	if (list_empty(&w->downstreams))
		return UINT64_MAX;
	for (int i = 0; i < MEMORY_KINDS; i++)
		if (fair_share_used(w->lb->memory[i]) > fair_share_limit(w->lb->memory[i]) / 4)
			return w->now_ms;
	return memory_may_look(w) ? w->now_ms : w->now_ms + MEMORY_WATCH_MS;
}

uint64_t
memory_tick(struct worker *w)
{
	memory_look(w);
	for (int i = 0; i < MEMORY_KINDS; i++)
		memory_evict(w, (enum memory_kind)i);
	return MIN(memory_trim_tick(w), memory_watch_ms(w));
}
