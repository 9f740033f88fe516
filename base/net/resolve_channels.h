/*
 * The c-ares channels of base/net/resolve, with their sockets and timeouts on the loop. c-ares 1.18
 * keeps one UDP source port while a channel has any open query. So each channel takes a few
 * queries, then a new one is made, and the old one is freed when its last query is done. Only
 * base/net/resolve includes it.
 *
 *	channels_enter(&all);
 *	c = channels_pick(&all);
 *	c->open++;	// when answered: c->open--
 *	ares_send(c->ares, ...);
 *	channels_leave(&all, c);
 */
#ifndef EDGEWAY_BASE_NET_RESOLVE_CHANNELS_H
#define EDGEWAY_BASE_NET_RESOLVE_CHANNELS_H

/* For c-ares 1.34: the replacement of ares_send works on parsed messages, which we neither have nor
 * want. */
#define CARES_NO_DEPRECATED
#include <ares.h>

#include "base/net/resolve.h"

struct channel {
	struct channel *next;
	struct channels *all;
	ares_channel ares;
	struct timer *timeout; /* when c-ares wants to be called */
	struct sock *socks;
	unsigned used, open;
	bool touched; /* its timeout may have changed */
	uint64_t born_ms;
};

struct channels {
	struct loop *loop;
	const struct resolve_config *config; /* its servers are copied */
	struct ares_addr_port_node *servers;
	struct channel *first; /* newest first */
	unsigned n;
	unsigned outcomes; /* answers to queries, and connections by TCP since one was truncated */
	uint64_t stray_ms; /* as resolve_stray_ms */
	/* depth of calls from and into c-ares; while > 0 no channel may be destroyed */
	unsigned inside;
	bool dying; /* set by the owner, which no longer needs the channels */
	loop_fn *dead; /* called when `dying` and no call is inside; may call channels_fini */
	void *arg;
};

/* `config` is borrowed: it must not move. */
void channels_init(struct channels *all, struct loop *loop, const struct resolve_config *config,
	loop_fn *dead, void *arg);
/* Only when no call is inside. Open queries are answered (ARES_EDESTRUCTION). */
void channels_fini(struct channels *all);
/* Adds a channel: ARES_SUCCESS or another status of c-ares. */
int channels_add(struct channels *all);
/* Picks the channel for one more query: the newest until it has served its number of queries. When
 * all are busy, a random one. NULL: none can be made. */
struct channel *channels_pick(struct channels *all);
/* Call it around every call into c-ares, and around every other callback that may end in one. */
void channels_enter(struct channels *all);
/* Every return from c-ares (from c, NULL: none) ends here; afterwards all channels, c included, may
 * be freed. */
void channels_leave(struct channels *all, struct channel *c);

#endif
