/*
 * The channels of c-ares below base/net/resolve, with their sockets and timeouts on the loop.
 * c-ares 1.18 keeps one UDP source port for as long as a channel has anything open. So a channel
 * takes a few queries, then the next one is made and the old one is freed when its last query is
 * over. Only base/net/resolve includes it.
 *
 *	channels_enter(&all);
 *	c = channels_pick(&all);
 *	c->open++;	// until its answer: c->open--
 *	ares_send(c->ares, ...);
 *	channels_leave(&all, c);
 */
#ifndef EDGEWAY_BASE_NET_RESOLVE_CHANNELS_H
#define EDGEWAY_BASE_NET_RESOLVE_CHANNELS_H

/* Of 1.34: what stands in for ares_send takes and gives parsed messages, which we neither have nor
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
	bool touched; /* its timeout may be another now */
	uint64_t born_ms;
};

struct channels {
	struct loop *loop;
	const struct resolve_config *config; /* its servers are copied */
	struct ares_addr_port_node *servers;
	struct channel *first; /* newest first */
	unsigned n;
	unsigned inside; /* depth of calls from and into c-ares: no channel may be destroyed */
	bool dying; /* the owner's: nobody needs them any more */
	loop_fn *dead; /* `dying`, and nobody is inside: may call channels_fini */
	void *arg;
};

/* `config` stays where it is. */
void channels_init(struct channels *all, struct loop *loop, const struct resolve_config *config,
	loop_fn *dead, void *arg);
/* Nobody is inside. What is open is answered (ARES_EDESTRUCTION). */
void channels_fini(struct channels *all);
/* One more: ARES_SUCCESS or another status of c-ares. */
int channels_add(struct channels *all);
/* For one more query: the newest until it is worn. With all of them busy any will do, by lot. NULL:
 * none can be made. */
struct channel *channels_pick(struct channels *all);
/* Around every call into c-ares, and every callback from elsewhere that may end in one. */
void channels_enter(struct channels *all);
/* Every way back out of c-ares (from c, NULL: none) ends here; all of them and c may be gone
 * afterwards. */
void channels_leave(struct channels *all, struct channel *c);

#endif
