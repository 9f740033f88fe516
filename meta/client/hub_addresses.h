/*
 * The addresses of the hub, and when to try the next: plain data and rules, no I/O, no clock. The
 * places are the entries of hub.url, used in turn. Each has addresses: those that its name resolves
 * to now, beginning with those of the last good one's family, then the last good one, then those
 * that a hub reported about itself. The latter two are stored across restarts, and are all there is
 * when the name cannot be resolved. Whatever the address, the certificate there must carry the name
 * in hub.url, so a stored address gains no trust.
 *
 *	hub_addresses_found(&p, addrs, n);			// n 0: the name cannot be resolved
 *	while (hub_addresses_next(&p, &addr)) ...		// try them one after the other
 *	wait = hub_addresses_failed(&p, random);		// ms; then the next place's turn
 *	...
 *	hub_addresses_lived(&p, ms, synced);			// a connection has ended
 */
#ifndef EDGEWAY_META_CLIENT_HUB_ADDRESSES_H
#define EDGEWAY_META_CLIENT_HUB_ADDRESSES_H

#include "base/core/sock.h"
#include "meta/client/message.h"

enum {
	PLACE_FOUND_MAX = 8, /* resolved addresses of a name */
	PLACE_ADDRS_MAX = PLACE_FOUND_MAX + 1 + MESSAGE_ADDRESSES_MAX,
	HUB_ADDRESSES_FIRST_MS = 100,
	HUB_ADDRESSES_MOST_MS = 30 * 1000,
	/* a connection that lasted this long and was in step is good */
	HUB_ADDRESSES_GOOD_MS = 30 * 1000,
};

struct place {
	char *url;
	struct message_url at;
	char *last_good; /* "ip:port", NULL none */
	char *told[MESSAGE_ADDRESSES_MAX]; /* "ip" */
	size_t n_told;
};

struct hub_addresses {
	struct place *place;
	size_t n, now; /* now: index of the current place */
	struct addr addrs[PLACE_ADDRS_MAX]; /* of the current place, for this attempt */
	size_t n_addrs, at;
	struct addr avoided;
	bool avoids;
	uint64_t backoff_ms;
};

/* urls: NULL-terminated, at least one. -EINVAL with the reason: no wss URL, or a name inside the
 * cluster domain. */
int hub_addresses_init(struct hub_addresses *p, const char *const *urls, const char *cluster_domain,
	struct err *err);
void hub_addresses_fini(struct hub_addresses *p);
/* The current place. */
struct place *hub_addresses_now(const struct hub_addresses *p);

/* Restores what an earlier run stored for the i-th place; told: addresses separated by blanks.
 * NULL: nothing. */
void hub_addresses_recall(
	struct hub_addresses *p, size_t i, const char *last_good, const char *told);
/* Sets the current place's resolved addresses, at most PLACE_FOUND_MAX. Returns how many there are
 * together with the stored ones. */
size_t hub_addresses_found(struct hub_addresses *p, const struct addr *found, size_t n);
/* From now on this address is tried last, until the next call; NULL: none. */
void hub_addresses_avoid(struct hub_addresses *p, const struct addr *a);
/* Address and port are the same. */
bool hub_addresses_same(const struct addr *a, const struct addr *b);
/* The next address to try; false: none is left. */
bool hub_addresses_next(struct hub_addresses *p, struct addr *to);
bool hub_addresses_left(const struct hub_addresses *p);
/* Whether there is anything to try other than this address: another known address of this place, or
 * another place. */
bool hub_addresses_elsewhere(const struct hub_addresses *p, const struct addr *at);

/* The address works (text with port). Returns whether it is new. */
bool hub_addresses_good(struct hub_addresses *p, const char *address);
/* A hub of this place reports that it can also be reached at these addresses; texts that are not IP
 * addresses are ignored. Returns whether this is new. An empty list changes nothing: another
 * replica may know less. */
bool hub_addresses_told(struct hub_addresses *p, char (*addresses)[MESSAGE_ADDRESS_TEXT], size_t n);
/* The text to store for hub_addresses_recall's `told`; the caller frees it. */
char *hub_addresses_told_text(const struct place *p);

/* All addresses failed: returns the ms to wait, random between 0 and a bound that doubles (full
 * jitter, so that a thousand nodes that lost their hub at once reconnect spread out), and moves to
 * the next place. */
uint64_t hub_addresses_failed(struct hub_addresses *p, uint64_t random);
/* A connection ended after this time. Only a good one resets the back-off: a hub that accepts and
 * closes at once, or never gets in step, is not dialled more often than an unreachable one. */
void hub_addresses_lived(struct hub_addresses *p, uint64_t ms, bool synced);
void hub_addresses_reset(struct hub_addresses *p);

#endif
