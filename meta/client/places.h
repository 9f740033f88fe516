/*
 * Where the hub may be, and when to try next: plain data and rules, no I/O, no clock. Places are
 * those of hub.url, in turn. Each has addresses: what its name resolves to now, then the one that
 * was good last, then those that a hub told of itself, of which the last two are remembered over
 * restarts and all there is when the name cannot be resolved. Whatever the address, the certificate
 * there must bear the name of hub.url, so remembering gives nobody any trust.
 *
 *	places_found(&p, addrs, n);			// n 0: the name cannot be resolved
 *	while (places_next(&p, &addr)) ...		// try them one after the other
 *	wait = places_failed(&p, random);		// ms; the next place's turn then
 *	...
 *	places_lived(&p, ms, synced);			// a connection ended: was it a good one?
 */
#ifndef EDGEWAY_META_CLIENT_PLACES_H
#define EDGEWAY_META_CLIENT_PLACES_H

#include "base/core/sock.h"
#include "meta/client/message.h"

enum {
	PLACE_FOUND_MAX = 8, /* addresses of a name */
	PLACE_ADDRS_MAX = PLACE_FOUND_MAX + 1 + MESSAGE_ADDRESSES_MAX,
	PLACES_FIRST_MS = 100,
	PLACES_MOST_MS = 30 * 1000,
	PLACES_GOOD_MS = 30 * 1000, /* a connection that lasted so long, and was in step */
};

struct place {
	char *url;
	struct message_url at;
	char *last_good; /* "ip:port", NULL none */
	char *told[MESSAGE_ADDRESSES_MAX]; /* "ip" */
	size_t n_told;
};

struct places {
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
int places_init(
	struct places *p, const char *const *urls, const char *cluster_domain, struct err *err);
void places_fini(struct places *p);
/* The place whose turn it is. */
struct place *places_now(const struct places *p);

/* What is remembered of the i-th place, from an earlier run; told: addresses with blanks between
 * them. NULL: nothing. */
void places_recall(struct places *p, size_t i, const char *last_good, const char *told);
/* Its name resolves to these, at most PLACE_FOUND_MAX are taken; with those that are remembered,
 * how many there are. */
size_t places_found(struct places *p, const struct addr *found, size_t n);
/* This one comes last, wherever it is found, until the next call; NULL: none does. */
void places_avoid(struct places *p, const struct addr *a);
/* The next address to try in this turn; false: there is none left. */
bool places_next(struct places *p, struct addr *to);
bool places_left(const struct places *p);
/* Is there anything to try but this address: of this place, as far as is known now, or another
 * place? */
bool places_elsewhere(const struct places *p, const struct addr *at);

/* The address is good (text with port). Is this news? */
bool places_good(struct places *p, const char *address);
/* A hub of this place says that it can be reached at these as well; what is no IP address does not
 * count. Is this news? None at all is no news: another replica may know less. */
bool places_told(struct places *p, char (*addresses)[MESSAGE_ADDRESS_TEXT], size_t n);
/* What is to be remembered of the place for places_recall's `told`; the caller frees. */
char *places_told_text(const struct place *p);

/* The turn failed: ms to wait, anything from 0 to a bound that doubles (full jitter: a thousand
 * nodes that lost their hub at once come back spread), and the next place's turn. */
uint64_t places_failed(struct places *p, uint64_t random);
/* A connection ended after this time. Only a good one starts the back-off anew: a hub that accepts
 * and cuts at once, or never gets as far as being in step, is not asked more often than one that is
 * away. */
void places_lived(struct places *p, uint64_t ms, bool synced);
void places_reset(struct places *p);

#endif
