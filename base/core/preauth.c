#include "base/core/preauth.h"

#include <assert.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/core/log.h"
#include "base/core/step_pace.h"

TAILQ_HEAD(preauth_ring, preauth_conn);

enum { OLDEST_LOOKED_AT = 64 }; /* a flood of one address must not cost a walk over all of it */

/* Of a preauth and its branches, whose loops other threads run. */
struct preauth_steps {
	pthread_mutex_t lock; /* for all of it */
	unsigned users; /* the last one frees it */
	uint64_t taken, waiting;
	struct step_pace pace;
	uint64_t n_clients; /* slots with any */
	uint32_t waits[FAIR_SHARE_SLOTS]; /* by slot: connections that wait for a step */
};

/* A client. All zeros while it holds no connection. */
struct preauth_slot {
	struct preauth_ring held; /* the oldest first */
	struct preauth_ring waiting; /* for their first step, or for one after the second */
	TAILQ_ENTRY(preauth_slot) turn; /* in `turns` while any waits */
};

struct preauth {
	struct fair_share *places;
	struct preauth_ring all; /* the oldest first */
	uint64_t seed, refused, dropped, turned_away;
	/* Clients whose connections wait for a step, by turns. */
	TAILQ_HEAD(preauth_turns, preauth_slot) turns;
	struct preauth_ring begun; /* connections waiting for their second step */
	struct timer *turn;
	struct preauth_slot *slots; /* FAIR_SHARE_SLOTS; a page is memory once a client is there */
	struct preauth_steps *steps;
	struct loop *loop;
};

/* --- steps ---------------------------------------------------------------------------------- */

static void
preauth_count_wait(const struct preauth_conn *c, int n)
{
	struct preauth_steps *steps = c->of->steps;
	uint32_t *waits = &steps->waits[c->slot];

	pthread_mutex_lock(&steps->lock);
	steps->n_clients += n > 0 && *waits == 0;
	*waits += (uint32_t)n;
	steps->n_clients -= n < 0 && *waits == 0;
	steps->waiting += (uint64_t)n;
	pthread_mutex_unlock(&steps->lock);
}

static struct preauth_slot *
preauth_slot_of(const struct preauth_conn *c)
{
	return &c->of->slots[c->slot];
}

/* One step of each client in turn. A connection's second step, which completes most handshakes,
 * comes before: a handshake that has begun does not wait for all that its address began later. */
static void
preauth_begin_wait(struct preauth_conn *c)
{
	struct preauth_slot *slot = preauth_slot_of(c);

	atomic_store(&c->waits_for_us, true);
	preauth_count_wait(c, 1);
	if (c->n_steps == 1) {
		TAILQ_INSERT_TAIL(&c->of->begun, c, waits);
		return;
	}
	if (TAILQ_EMPTY(&slot->waiting)) {
		TAILQ_INIT(&slot->waiting);
		TAILQ_INSERT_TAIL(&c->of->turns, slot, turn);
	}
	TAILQ_INSERT_TAIL(&slot->waiting, c, waits);
}

static void
preauth_end_wait(struct preauth_conn *c)
{
	struct preauth_slot *slot = preauth_slot_of(c);

	c->step = NULL;
	atomic_store(&c->waits_for_us, false);
	preauth_count_wait(c, -1);
	if (c->n_steps == 1) {
		TAILQ_REMOVE(&c->of->begun, c, waits);
		return;
	}
	TAILQ_REMOVE(&slot->waiting, c, waits);
	if (TAILQ_EMPTY(&slot->waiting))
		TAILQ_REMOVE(&c->of->turns, slot, turn);
}

/* The connection whose step is next, NULL: none waits. Its client's next turn comes after those of
 * all others. */
static struct preauth_conn *
preauth_next(struct preauth *p)
{
	struct preauth_slot *slot = TAILQ_FIRST(&p->turns);

	if (!TAILQ_EMPTY(&p->begun) || slot == NULL)
		return TAILQ_FIRST(&p->begun);
	TAILQ_REMOVE(&p->turns, slot, turn);
	TAILQ_INSERT_TAIL(&p->turns, slot, turn);
	return TAILQ_FIRST(&slot->waiting);
}

static void
preauth_took(struct preauth *p)
{
	struct preauth_steps *steps = p->steps;

	pthread_mutex_lock(&steps->lock);
	steps->taken++;
	step_pace_done(&steps->pace, loop_now_ms(p->loop), steps->waiting);
	pthread_mutex_unlock(&steps->lock);
}

/* What can be told: a copy without the slots. */
struct preauth_told {
	uint64_t taken, waiting, step_us;
};

static struct preauth_told
preauth_tell(const struct preauth *p)
{
	struct preauth_told told;

	pthread_mutex_lock(&p->steps->lock);
	told = (struct preauth_told){p->steps->taken, p->steps->waiting, p->steps->pace.step_us};
	pthread_mutex_unlock(&p->steps->lock);
	return told;
}

void
preauth_cancel(struct preauth_conn *c)
{
	if (c->step != NULL)
		preauth_end_wait(c);
}

static void
preauth_on_turn(void *arg)
{
	struct preauth *p = arg;
	struct preauth_conn *c = preauth_next(p);
	loop_fn *step;

	if (c == NULL)
		return;
	step = c->step;
	preauth_end_wait(c);
	c->n_steps += c->n_steps < 2;
	preauth_took(p);
	if (!TAILQ_EMPTY(&p->begun) || !TAILQ_EMPTY(&p->turns))
		timer_start(p->turn, 0, 0);
	step(c->step_arg);
}

/* Its step comes after those of its own client, and as many of each other client that waits. */
bool
preauth_turns_away(struct preauth_conn *c)
{
	struct preauth *p = c->of;
	uint64_t mine, ahead, wait_ms;
	struct preauth_steps *steps;

	if (p == NULL || c->step != NULL || c->n_steps > 0)
		return false;
	steps = p->steps;
	pthread_mutex_lock(&steps->lock);
	mine = steps->waits[c->slot] + 1;
	ahead = MIN(steps->waiting, mine * MAX(steps->n_clients, (uint64_t)1));
	wait_ms = step_pace_wait_ms(&steps->pace, ahead);
	pthread_mutex_unlock(&steps->lock);
	if (wait_ms <= PREAUTH_STEP_MS)
		return false;
	p->turned_away++;
	log_limited(LOG_LEVEL_WARN, 6, "hub",
		"more connections come than handshakes can be finished: those that would wait too "
		"long are asked to come later wait_ms=%llu before=%llu",
		(unsigned long long)wait_ms, (unsigned long long)ahead);
	return true;
}

bool
preauth_step(struct preauth_conn *c, loop_fn *step, void *arg)
{
	struct preauth *p = c->of;

	if (p == NULL)
		return false;
	assert(c->step == NULL);
	c->step = step;
	c->step_arg = arg;
	preauth_begin_wait(c);
	if (!timer_active(p->turn))
		timer_start(p->turn, 0, 0);
	return true;
}

/* --- slots ---------------------------------------------------------------------------------- */

static struct preauth *
preauth_make(struct loop *loop, uint64_t places, uint64_t seed, struct preauth_steps *steps)
{
	struct preauth *p = xcalloc(1, sizeof *p);

	p->steps = steps;
	pthread_mutex_lock(&steps->lock);
	steps->users++;
	pthread_mutex_unlock(&steps->lock);
	p->places = fair_share_new(places);
	p->seed = seed;
	TAILQ_INIT(&p->all);
	TAILQ_INIT(&p->turns);
	TAILQ_INIT(&p->begun);
	p->turn = timer_new(loop, preauth_on_turn, p);
	p->slots = xcalloc(FAIR_SHARE_SLOTS, sizeof *p->slots);
	p->loop = loop;
	return p;
}

struct preauth *
preauth_new(struct loop *loop, uint64_t places, uint64_t seed)
{
	struct preauth_steps *steps = xcalloc(1, sizeof *steps);

	pthread_mutex_init(&steps->lock, NULL);
	step_pace_init(&steps->pace);
	return preauth_make(loop, places, seed, steps);
}

struct preauth *
preauth_branch(const struct preauth *p, struct loop *loop)
{
	return preauth_make(loop, fair_share_limit(p->places), p->seed, p->steps);
}

static void
preauth_steps_leave(struct preauth_steps *steps)
{
	bool last;

	pthread_mutex_lock(&steps->lock);
	last = --steps->users == 0;
	pthread_mutex_unlock(&steps->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&steps->lock);
	free(steps);
}

void
preauth_free(struct preauth **out)
{
	struct preauth *p = take_ptr(out);

	if (p == NULL)
		return;
	assert(TAILQ_EMPTY(&p->all));
	timer_free(&p->turn);
	free(p->slots);
	fair_share_free(&p->places);
	preauth_steps_leave(p->steps);
	free(p);
}

void
preauth_leave(struct preauth_conn *c)
{
	struct preauth *p = c->of;

	if (p == NULL)
		return;
	preauth_cancel(c);
	TAILQ_REMOVE(&p->all, c, link);
	TAILQ_REMOVE(&preauth_slot_of(c)->held, c, held);
	c->of = NULL;
	fair_share_give(p->places, c->slot, 1);
}

/* The first of the oldest that does not wait for a step: that delay is ours. */
static struct preauth_conn *
preauth_oldest_of(const struct preauth_slot *slot)
{
	unsigned n = 0;
	struct preauth_conn *c;

	TAILQ_FOREACH(c, &slot->held, held) {
		if (n++ == OLDEST_LOOKED_AT)
			break;
		if (!atomic_load(&c->waits_for_us) &&
			(c->branch == NULL || !atomic_load(&c->branch->waits_for_us)))
			return c;
	}
	return NULL;
}

/* The connection to drop for a new one of this client. If another has clearly more, that one's
 * newest, whose step would come last. Else one of its own; if all have one, the oldest of all.
 * NULL: none may be dropped yet. */
static struct preauth_conn *
preauth_victim(struct preauth *p, uint16_t slot, uint64_t now_ms)
{
	uint16_t greediest = fair_share_greediest(p->places);
	uint64_t mine = fair_share_held(p->places, slot);
	struct preauth_conn *c;

	if (fair_share_held(p->places, greediest) > mine + 1)
		return TAILQ_LAST(&p->slots[greediest].held, preauth_ring);
	c = mine > 0 ? preauth_oldest_of(&p->slots[slot]) : TAILQ_FIRST(&p->all);
	return c != NULL && now_ms - c->since_ms >= PREAUTH_LEAST_MS ? c : NULL;
}

static bool
preauth_make_room(struct preauth *p, uint16_t slot, const struct addr *from, uint64_t now_ms)
{
	struct preauth_conn *victim = preauth_victim(p, slot, now_ms);
	char text[ADDR_TEXT_MAX];

	log_limited(LOG_LEVEL_WARN, 6, "hub",
		"too many connections have not authenticated yet: some are closed, or new ones "
		"refused client=%s places=%llu",
		addr_text(from, text), (unsigned long long)fair_share_limit(p->places));
	if (victim == NULL) {
		p->refused++;
		return false;
	}
	p->dropped++;
	preauth_leave(victim);
	victim->drop(victim->arg);
	return true;
}

bool
preauth_enter(struct preauth *p, struct preauth_conn *c, const struct addr *from, uint64_t now_ms)
{
	uint16_t slot;

	if (p == NULL)
		return true;
	slot = fair_share_slot_of(from, p->seed);
	if (fair_share_used(p->places) >= fair_share_limit(p->places) &&
		!preauth_make_room(p, slot, from, now_ms))
		return false;
	fair_share_charge(p->places, slot, 1);
	c->of = p;
	c->slot = slot;
	c->since_ms = now_ms;
	atomic_store(&c->waits_for_us, false);
	TAILQ_INSERT_TAIL(&p->all, c, link);
	if (TAILQ_EMPTY(&p->slots[slot].held))
		TAILQ_INIT(&p->slots[slot].held);
	TAILQ_INSERT_TAIL(&p->slots[slot].held, c, held);
	return true;
}

struct addr
preauth_from(int fd, const char *from)
{
	struct addr a = {.len = sizeof a.un};
	struct err err;

	if (from != NULL) {
		while (*from >= 'a' && *from <= 'z')
			from++;
		if (addr_parse(&a, *from == ':' ? from + 1 : from, 1, &err) < 0)
			a.sa.sa_family = AF_UNSPEC;
	} else if (getpeername(fd, &a.sa, &a.len) < 0)
		a.sa.sa_family = AF_UNSPEC;
	return a;
}

uint64_t
preauth_waiting(const struct preauth *p)
{
	return fair_share_used(p->places);
}

void
preauth_metrics(const struct preauth *p, struct metrics *m)
{
	const struct preauth_told told = preauth_tell(p);

	metric_gauge(m, "edgeway_hub_unauthenticated_connections",
		"Connections that have not authenticated yet.", NULL, (double)preauth_waiting(p));
	metric_counter(m, "edgeway_hub_unauthenticated_refused_total",
		"Connections without a place for one that has not authenticated.",
		"outcome=\"dropped\"", p->dropped);
	metric_counter(m, "edgeway_hub_unauthenticated_refused_total",
		"Connections without a place for one that has not authenticated.",
		"outcome=\"refused\"", p->refused);
	metric_counter(m, "edgeway_hub_handshake_steps_total",
		"Steps of handshakes, of which each turn of a loop takes one.", NULL, told.taken);
	metric_gauge(m, "edgeway_hub_handshake_steps_waiting",
		"Connections that wait for one, of all addresses in turn.", NULL,
		(double)told.waiting);
	metric_gauge(m, "edgeway_hub_handshake_step_seconds",
		"Time per step, measured while some waited.", NULL, (double)told.step_us / 1e6);
	metric_counter(m, "edgeway_hub_handshakes_turned_away_total",
		"Connections asked to come later, since their turn would have come too late.", NULL,
		p->turned_away);
}

void
preauth_state(const struct preauth *p, struct buf *out)
{
	const struct preauth_told told = preauth_tell(p);

	buf_printf(out,
		"{\"waiting\":%llu,\"places\":%llu,\"refused\":%llu,\"dropped\":%llu,\"steps\":%"
		"llu,\"step_us\":%llu,\"turned_away\":%llu}",
		(unsigned long long)preauth_waiting(p),
		(unsigned long long)fair_share_limit(p->places), (unsigned long long)p->refused,
		(unsigned long long)p->dropped, (unsigned long long)told.waiting,
		(unsigned long long)told.step_us, (unsigned long long)p->turned_away);
}
