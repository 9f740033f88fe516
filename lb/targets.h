/*
 * What one worker knows of the endpoints, all of it mutable and its own: a `group` for each service
 * port that has been asked for (by the address that clients dial), a `target` for each endpoint
 * address and namespace (or service: shares_owner), shared by the groups that name it: requests in
 * flight, failures and ejection, idle connections (pool.h). Groups follow the snapshot lazily: the
 * next look-up after a new epoch compares the service's pointer and rebuilds what changed.
 *
 *	g = targets_group(ts, snapshot, epoch, ip, port, 0);	// NULL: no such service port
 *	t = group_pick(g, &ask);				// NULL: none, or all tried
 *	target_begin(t, client, most) && ... target_end(t, client, counted);
 */
#ifndef EDGEWAY_LB_TARGETS_H
#define EDGEWAY_LB_TARGETS_H

#include "lb/balance.h"
#include "lb/budget.h"
#include "lb/list.h"
#include "lb/service_stats.h"
#include "model/snapshot.h"

struct targets;

enum target_fault {
	TARGET_REFUSED, /* ejects at once */
	/* does not answer on the level of TCP: ejects when it happens twice in a row */
	TARGET_SILENT,
	TARGET_RESET, /* reset before an answer, or no answer in time: the same */
	/* too many answers of 5xx in a row, where the service counts them: ejects at once */
	TARGET_ERRORS,
};
/* That it takes connections is no news of such an endpoint: an answer must show that it is back. */
static inline bool
target_fault_needs_answer(enum target_fault fault)
{
	return fault == TARGET_RESET || fault == TARGET_ERRORS;
}
const char *target_fault_text(enum target_fault fault);

struct target {
	struct balance_node node;
	struct target *next; /* in the hash */
	struct targets *all;
	/* the namespace of the services that name it, or the only service: shared.h */
	uint64_t owner;
	struct in6_addr ip; /* IPv4 as ::ffff:a.b.c.d; what stands for a far one */
	struct in6_addr shown; /* the same as people know it */
	uint16_t port;
	struct node idle; /* struct back, the youngest first */
	struct node ejected; /* in targets_ejected() from the ejection until it works again */
	uint64_t ejected_ms, probe_ms; /* since when; when probe.c tries it next */
	unsigned n_idle;
	unsigned era; /* connections of an earlier one are not kept idle */
	unsigned refs;
	uint64_t heard_ms; /* when a connection was made, or an answer began */
	uint16_t n_fresh; /* dials that may still be answered soon */
	uint16_t window; /* most of those at once, 0: any number; see turn.h */
	unsigned failures; /* in a row */
	unsigned errors; /* answers of 5xx in a row, where its service counts them */
	/* the back-off after those, as its service has it; 0: as after others */
	uint32_t outlier_ms;
	unsigned ejections; /* since the last success: exponent of the back-off */
	uint32_t connect_ms; /* moving average of the time that a connection takes */
	uint8_t fault; /* enum target_fault, of the last failure */
	bool connect_known;
	bool probed; /* a probe is under way */
	bool on_trial; /* its back-off is over: what becomes of the next request decides */
};

/* What a port called http was seen to speak: silence.h. */
enum habit { HABIT_UNKNOWN, HABIT_HTTP, HABIT_SERVER_FIRST };

/* There is one for each service port that was asked for within a minute: thousands of them. */
struct group {
	struct group *next; /* in the hash */
	uint32_t ip; /* fake or cluster IP, host byte order */
	uint16_t port;
	/* for clients whom these gates of the service keep out (model/service.h) */
	uint64_t closed;
	uint8_t habit; /* enum habit */
	unsigned refs;
	uint32_t epoch;
	uint64_t used_ms;
	struct service *service; /* NULL: gone */
	const struct service_port *port_of; /* into service, NULL: gone */
	uint64_t habit_of; /* digest of the service that has it */
	uint64_t ask_again_ms; /* not before then */
	struct balance balance; /* nodes are struct target's; each holds a reference */
	struct budget budget; /* of second attempts */
	struct service_stats *tally; /* with a reference; `cell` is this worker's in it */
	struct service_stats_cell *cell;
	struct wait_queue *turn; /* turn.h; NULL: nobody waits */
	struct node checked; /* among those whose endpoints are checked */
};

struct targets *targets_new(struct shares *shares, struct tallies *tallies, size_t worker);
/* Every group and target must have been given back. */
void targets_free(struct targets **ts);
/* With a reference of the caller's. closed: without the endpoints behind these gates. */
struct group *targets_group(struct targets *ts, const struct snapshot *s, uint64_t epoch,
	uint32_t ip, uint16_t port, uint64_t closed);
/* Brings a group up to the snapshot; cheap when the epoch is the same. */
void targets_refresh(struct targets *ts, struct group *g, const struct snapshot *s, uint64_t epoch);
/* The same for all groups whose endpoints are checked: that ends with the service, whether or not
 * anybody still asks for it. */
void targets_follow(struct targets *ts, const struct snapshot *s, uint64_t epoch);
void group_unref(struct group **g, uint64_t now_ms);
/* Forgets groups that nobody has used for a minute. */
void targets_sweep(struct targets *ts, uint64_t now_ms);

/* Whom to ask next; target_try says that it is. */
struct target *group_pick(struct group *g, const struct balance_ask *ask);
/* The one whose address has this hash, where that is usable; NULL. */
struct target *group_find(struct group *g, const struct balance_ask *ask,
	bool (*wanted)(const void *arg, uint64_t hash), const void *arg);
/* A request goes there now. When its back-off is over, the others wait for what comes of that. */
void target_try(struct target *t, uint64_t now_ms);

/* NULL: this worker does not know it. */
struct target *targets_find(
	struct targets *ts, uint64_t owner, const struct in6_addr *ip, uint16_t port);
/* Those of all namespaces: NULL gives the first one; NULL: no more. */
struct target *targets_next(
	struct targets *ts, const struct target *after, const struct in6_addr *ip, uint16_t port);
struct target *target_ref(struct target *t);
/* Where it is dialled. */
struct addr target_addr(const struct target *t);
/* Is it dialled by the hub? */
bool target_is_far(const struct target *t);
const char *target_text(const struct target *t, char to[ADDR_TEXT_MAX]);
void target_unref(struct target **t);
/* One more in flight, of this client's. False: it has `most` (0: any number) with those of other
 * workers, or the client has its part of them; another worker may have taken the last one since
 * group_pick(). */
bool target_begin(struct target *t, uint32_t client, uint32_t most);
/* `counted`: t->node.shared was there when it began. */
void target_end(struct target *t, uint32_t client, bool counted);

/* True when this ejected it: 1 s * 2^n, at most 60 s, with jitter taken from `random`. */
bool target_failed(struct target *t, enum target_fault fault, uint64_t now_ms, uint64_t random);
void target_worked(struct target *t, uint64_t now_ms);
/* Another worker says so (gossip.h). True: it is left out now. */
bool target_told_failed(
	struct target *t, enum target_fault fault, uint64_t now_ms, uint64_t wait_ms);
void target_told_works(struct target *t, bool answered, uint64_t now_ms);
/* A connection was made in took_ms. */
void target_connected(struct target *t, uint64_t took_ms, uint64_t now_ms);
/* The window of dials: may there be one more, one was answered, one was not in time. */
bool target_may_dial(const struct target *t);
void target_widen(struct target *t);
void target_narrow(struct target *t);
/* Is a success of it news? */
static inline bool
target_is_suspect(const struct target *t)
{
	return t->failures > 0 || t->ejections > 0;
}
/* Ring of struct target.ejected. */
struct node *targets_ejected(struct targets *ts);
/* Calls fn for each group. */
void targets_each(struct targets *ts, void (*fn)(void *arg, const struct group *g), void *arg);

#endif
