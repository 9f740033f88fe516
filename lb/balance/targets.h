/*
 * What one worker knows of the endpoints, all of it mutable and its own: a `group` for each service
 * port in use (by the address that clients dial), and a `target` for each endpoint address and
 * namespace (or service: shares_owner), shared by the groups that name it: requests in flight,
 * failures and ejection, idle connections (pool.h). Groups follow the snapshot lazily: the next
 * lookup after a new epoch compares the service's pointer and rebuilds what changed.
 *
 *	g = targets_group(ts, snapshot, epoch, &key);	// NULL: no such service port
 *	t = group_pick(g, &ask);				// NULL: none, or all tried
 *	target_begin(t, client, most) && ... target_end(t, client, counted);
 */
#ifndef EDGEWAY_LB_BALANCE_TARGETS_H
#define EDGEWAY_LB_BALANCE_TARGETS_H

#include "lb/balance/balance.h"
#include "lb/balance/budget.h"
#include "lb/balance/service_stats.h"
#include "lb/conn/list.h"
#include "model/snapshot.h"

struct targets;
struct upstream_conn;

enum target_fault {
	TARGET_REFUSED, /* ejects at once */
	/* no reply on TCP level: ejects when it happens twice in a row */
	TARGET_SILENT,
	TARGET_RESET, /* reset before a response, or no response in time: ejects as TARGET_SILENT */
	/* too many 5xx responses in a row, if the service counts them: ejects at once */
	TARGET_ERRORS,
	TARGET_TLS, /* the TLS handshake failed: ejects at once */
};
/* For these faults a new connection does not prove that the endpoint is back: it takes a
 * response. */
static inline bool
target_fault_needs_answer(enum target_fault fault)
{
	return fault == TARGET_RESET || fault == TARGET_ERRORS || fault == TARGET_TLS;
}
const char *target_fault_text(enum target_fault fault);

struct target {
	struct balance_node node;
	struct target *next; /* in the hash table */
	struct targets *all;
	/* the namespace of the services that name it, or the only service: shared.h */
	uint64_t owner;
	/* IPv4 as ::ffff:a.b.c.d; for a far endpoint, the address that stands for it */
	struct in6_addr ip;
	struct in6_addr shown; /* the same address as shown to people */
	struct in6_addr other; /* its address of the other family; :: none */
	bool at_other; /* `other` is dialled first: it connected last, or `ip` did not */
	uint16_t port;
	/* TLS is spoken to it, with a reference; NULL: plain. Who speaks another TLS to the same
	 * address has a target of its own (`owner`), with connections of its own. */
	struct backend_tls *tls;
	struct ssl_session_st *session; /* to resume; NULL: none */
	char *tls_why; /* why the last handshake failed; NULL: it did not */
	struct node idle; /* struct back, the youngest first */
	struct node h2; /* struct h2_upstream, the oldest first */
	/* requests that wait for this dial, and what they wait for; NULL: none */
	struct node h2_waiting;
	struct upstream_conn *h2_dial;
	uint64_t no_h2_ms; /* until then it is known to speak HTTP/1 alone */
	uint32_t h2_streams; /* in one session, as it said last; 0: not known */
	unsigned h2_idle; /* sessions without streams */
	struct node ejected; /* in targets_ejected() from its ejection until it works again */
	uint64_t ejected_ms, probe_ms; /* time of the ejection; time of probe.c's next try */
	unsigned n_idle;
	unsigned pool_generation; /* connections of an earlier era are not kept idle */
	unsigned refs;
	uint64_t heard_ms; /* when a connection was last made, or a response last began */
	uint16_t n_fresh; /* dials that may still be answered soon */
	uint16_t window; /* most such dials at once; 0: any number; see wait_queue.h */
	unsigned failures; /* in a row */
	unsigned errors; /* 5xx responses in a row, if its service counts them */
	/* the back-off after those, as its service sets it; 0: as after other faults */
	uint32_t outlier_ms;
	unsigned ejections; /* since the last success: exponent of the back-off */
	uint32_t connect_ms; /* moving average of the connect time */
	uint8_t fault; /* enum target_fault, of the last failure */
	bool connect_known;
	bool probed; /* a probe is in progress */
	bool half_open; /* its back-off is over: the result of the next request decides */
};

/* The protocol seen on a port declared http: server_first.h. */
enum detected_protocol { DETECTED_UNKNOWN, DETECTED_HTTP, DETECTED_SERVER_FIRST };

/* There is one for each service port used within the last minute: thousands of them. */
struct group_key {
	uint32_t ip; /* fake or cluster IP, host byte order */
	uint16_t port;
	bool local; /* only endpoints of this node: a call from outside that asks for it */
	/* for clients that these gates of the service exclude (model/service.h) */
	uint64_t closed;
};

struct group {
	struct group *next; /* in the hash table */
	struct group_key key;
	uint8_t detected_protocol; /* enum habit */
	unsigned refs; /* open connections of clients, which are counted as such */
	unsigned holds; /* requests and relays that use its endpoints */
	uint32_t epoch;
	uint64_t used_ms;
	struct service *service; /* NULL: gone */
	const struct service_port *port_of; /* into service, NULL: gone */
	uint64_t habit_of; /* digest of the service for which `habit` was found */
	uint64_t ask_again_ms; /* server_first.c does not probe before then */
	struct balance balance; /* its nodes are those of struct target; each holds a reference */
	struct budget budget; /* of retries */
	struct service_stats *tally; /* with a reference; `cell` is this worker's part of it */
	struct service_stats_cell *cell;
	struct wait_queue *turn; /* wait_queue.h; NULL: nothing waits */
	struct node checked; /* in the list of groups with health checks */
};

/* Why no endpoint may be called, since the port's BackendTLSPolicy cannot be followed; NULL: they
 * may. */
const char *group_tls_wrong(const struct group *g);

struct targets *targets_new(struct shares *shares, struct tallies *tallies, size_t worker);
/* Every group and target must have been released. */
void targets_free(struct targets **ts);
/* Returns the group with a reference for the caller. */
struct group *targets_group(
	struct targets *ts, const struct snapshot *s, uint64_t epoch, const struct group_key *key);
/* The same for a request, which is no connection of a client: it is held. */
struct group *targets_hold(
	struct targets *ts, const struct snapshot *s, uint64_t epoch, const struct group_key *key);
static inline struct group *
group_hold(struct group *g)
{
	g->holds++;
	return g;
}
void group_release(struct group **g, uint64_t now_ms);
/* Brings a group up to the snapshot; cheap when the epoch is the same. */
void targets_refresh(struct targets *ts, struct group *g, const struct snapshot *s, uint64_t epoch);
/* The same for all groups with health checks: checks end with the service, even if no client uses
 * it any more. */
void targets_follow(struct targets *ts, const struct snapshot *s, uint64_t epoch);
void group_unref(struct group **g, uint64_t now_ms);
/* Forgets groups that nobody has used for a minute. Returns true if there are others. */
bool targets_sweep(struct targets *ts, uint64_t now_ms);

/* The endpoint to try next; target_try says that it is tried. */
struct target *group_pick(struct group *g, const struct balance_ask *ask);
/* The usable endpoint whose address has this hash, or NULL. */
struct target *group_find(struct group *g, const struct balance_ask *ask,
	bool (*wanted)(const void *arg, uint64_t hash), const void *arg);
/* A request goes there now. If its back-off is over, other requests wait for this one's result. */
void target_try(struct target *t, uint64_t now_ms);

/* NULL: this worker does not know it. */
struct target *targets_find(
	struct targets *ts, uint64_t owner, const struct in6_addr *ip, uint16_t port);
/* Iterates over those of all namespaces: `after` NULL gives the first; returns NULL at the end. */
struct target *targets_next(
	struct targets *ts, const struct target *after, const struct in6_addr *ip, uint16_t port);
struct target *target_ref(struct target *t);
/* The address to dial: `ip`, or `other`. */
struct addr target_addr(const struct target *t, bool other);
static inline bool
target_has_other(const struct target *t)
{
	return !IN6_IS_ADDR_UNSPECIFIED(&t->other);
}
/* The address to show to people. */
static inline struct in6_addr
target_shown(const struct target *t, bool other)
{
	return other ? t->other : t->shown;
}
/* Returns whether the hub dials it. */
bool target_is_far(const struct target *t);
const char *target_text(const struct target *t, bool other, char to[ADDR_TEXT_MAX]);
void target_unref(struct target **t);
/* Counts one more in flight, for this client. Returns false if all workers together have `most` (0:
 * any number), or the client has its part of them; another worker may have taken the last one since
 * group_pick(). */
bool target_begin(struct target *t, uint32_t client, uint32_t most);
/* `counted`: t->node.shared existed when it began. */
void target_end(struct target *t, uint32_t client, bool counted);

/* Returns true if this ejected it: for 1 s * 2^n, at most 60 s, with jitter taken from `random`. */
bool target_failed(struct target *t, enum target_fault fault, uint64_t now_ms, uint64_t random);
void target_worked(struct target *t, uint64_t now_ms);
/* Another worker reports the failure (outlier_share.h). Returns true if t is now ejected. */
bool target_told_failed(
	struct target *t, enum target_fault fault, uint64_t now_ms, uint64_t wait_ms);
void target_told_works(struct target *t, bool answered, uint64_t now_ms);
/* A connection was made in took_ms. */
void target_connected(struct target *t, uint64_t took_ms, uint64_t now_ms);
/* The window of dials: whether one more may start; one was answered; one was not answered in
 * time. */
bool target_may_dial(const struct target *t);
void target_widen(struct target *t);
void target_narrow(struct target *t);
/* Returns whether a success of this endpoint would change its state. */
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
