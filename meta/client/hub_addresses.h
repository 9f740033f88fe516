/*
 * Where the hub may be, and when to try next: plain data and rules, no I/O, no clock. Places are
 * those of hub.url, in turn. Each has addresses: what its name resolves to now, then the one that
 * was good last, then those that a hub told of itself, of which the last two are remembered over
 * restarts and all there is when the name cannot be resolved. Whatever the address, the certificate
 * there must bear the name of hub.url, so remembering gives nobody any trust.
 *
 *	hub_addresses_found(&p, addrs, n);			// n 0: the name cannot be resolved
 *	while (hub_addresses_next(&p, &addr)) ...		// try them one after the other
 *	wait = hub_addresses_failed(&p, random);		// ms; the next place's turn then
 *	...
 *	hub_addresses_lived(&p, ms, synced);			// a connection ended: was it a good one?
 */
#ifndef EDGEWAY_META_CLIENT_HUB_ADDRESSES_H
#define EDGEWAY_META_CLIENT_HUB_ADDRESSES_H

#include "base/core/sock.h"
#include "meta/client/message.h"

enum {
	PLACE_FOUND_MAX = 8, /* addresses of a name */
	PLACE_ADDRS_MAX = PLACE_FOUND_MAX + 1 + MESSAGE_ADDRESSES_MAX,
	HUB_ADDRESSES_FIRST_MS = 100,
	HUB_ADDRESSES_MOST_MS = 30 * 1000,
	HUB_ADDRESSES_GOOD_MS = 30 * 1000, /* a connection that lasted so long, and was in step */
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
	size_t n, now; /* now: whose turn it is */
	struct addr addrs[PLACE_ADDRS_MAX]; /* of that place, in this turn */
	size_t n_addrs, at;
	struct addr avoided;
	bool avoids;
	uint64_t backoff_ms;
};

/* urls: NULL-terminated, at least one. -EINVAL with the reason: no wss URL, a name inside the
 * cluster domain. */
int hub_addresses_init(struct hub_addresses *p, const char *const *urls, const char *cluster_domain,
	struct err *err);
void hub_addresses_fini(struct hub_addresses *p);
/* The place whose turn it is. */
struct place *hub_addresses_now(const struct hub_addresses *p);

/* What is remembered of the i-th place, from an earlier run; told: addresses with blanks between
 * them. NULL: nothing. */
void hub_addresses_recall(
	struct hub_addresses *p, size_t i, const char *last_good, const char *told);
/* Its name resolves to these, at most PLACE_FOUND_MAX are taken; with those that are remembered,
 * how many there are. */
size_t hub_addresses_found(struct hub_addresses *p, const struct addr *found, size_t n);
/* This one comes last, wherever it is found, until the next call; NULL: none does. */
void hub_addresses_avoid(struct hub_addresses *p, const struct addr *a);
/* The next address to try in this turn; false: there is none left. */
bool hub_addresses_next(struct hub_addresses *p, struct addr *to);
bool hub_addresses_left(const struct hub_addresses *p);
/* Is there anything to try but this address: of this place, as far as is known now, or another
 * place? */
bool hub_addresses_elsewhere(const struct hub_addresses *p, const struct addr *at);

/* The address is good (text with port). Is this news? */
bool hub_addresses_good(struct hub_addresses *p, const char *address);
/* A hub of this place says that it can be reached at these as well; what is no IP address does not
 * count. Is this news? None at all is no news: another replica may know less. */
bool hub_addresses_told(struct hub_addresses *p, char (*addresses)[MESSAGE_ADDRESS_TEXT], size_t n);
/* What is to be remembered of the place for hub_addresses_recall's `told`; the caller frees. */
char *hub_addresses_told_text(const struct place *p);

/* The turn failed: ms to wait, anything from 0 to a bound that doubles (full jitter: a thousand
 * nodes that lost their hub at once come back spread), and the next place's turn. */
uint64_t hub_addresses_failed(struct hub_addresses *p, uint64_t random);
/* A connection ended after this time. Only a good one starts the back-off anew: a hub that accepts
 * and cuts at once, or never gets as far as being in step, is not asked more often than one that is
 * away. */
void hub_addresses_lived(struct hub_addresses *p, uint64_t ms, bool synced);
void hub_addresses_reset(struct hub_addresses *p);

#endif
