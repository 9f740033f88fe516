/*
 * Introduces two nodes that are to connect to each other through their NATs (agents'
 * mesh.direct: nat; doc/protocol.md, "Across NAT"). Each comes by a connection of its own (ALPN
 * edgeway-rendezvous/1), from the local port that it will connect from: the hub tells each the
 * address and port by which it sees the other, and when to begin. A node is invited by a stream of
 * its tunnel, here or at another replica; it may come to any replica, which passes on that it has.
 *
 *   asker ─meet B─► hub ─invitation, by B's tunnel─► B
 *                   hub ◄──────────come ID────────── B, by a connection of its own
 *   asker ◄── go ── hub ── go ──► B
 *
 * No node is told an address that is not that of an authenticated node which has come itself, so
 * nobody can be made to connect to a third party. Who asks is rationed, by node and by pair, at the
 * hub that it asks and again at the one that has the other node's tunnel, which all replicas'
 * invitations of that node pass. On the hub's loop.
 *
 *	rendezvous_adopt(r, fd);	// a socket whose ClientHello asks for TUNNEL_ALPN_RENDEZVOUS
 */
#ifndef EDGEWAY_HUB_REPLICAS_RENDEZVOUS_H
#define EDGEWAY_HUB_REPLICAS_RENDEZVOUS_H

#include "base/core/metric.h"
#include "base/core/preauth.h"
#include "hub/port/grant.h"
#include "hub/replicas/peers.h"
#include "hub/replicas/tunnels.h"

struct rendezvous;

enum {
	RENDEZVOUS_MOST = 1024, /* connections of nodes at a time */
	RENDEZVOUS_OF_A_NODE = 16, /* of those */
	RENDEZVOUS_MS = 8000, /* until the other node has come; and again until all is over */
	RENDEZVOUS_RECENT_MS = 60 * 1000, /* what follows is for this time */
	RENDEZVOUS_OF_A_PAIR = 20, /* attempts by one node to meet a certain other one */
	RENDEZVOUS_ASKED_MOST = 120, /* by one node; and invitations of one node */
	RENDEZVOUS_REMEMBERED = 8192, /* attempts in all */
};

struct rendezvous_config { /* copied; what it points to outlives it, but for tls */
	struct loop *loop;
	struct tunnels *tunnels;
	struct preauth *preauth;
	struct tls_workers *workers; /* as of peers_config */
	const struct grants *grants;
	/* As in tunnels_setup. */
	bool (*refuses)(void *arg, const char *node, const char *serial);
	void *arg;
};

struct rendezvous *rendezvous_new(const struct rendezvous_config *config);
void rendezvous_free(struct rendezvous **r);
/* The server context, borrowed until the next call; and the other replicas. All connections are
 * refused before the first call. */
void rendezvous_use(struct rendezvous *r, struct ssl_ctx_st *tls, struct peers *peers);
/* fd: accepted, nothing read yet; taken. */
void rendezvous_adopt(struct rendezvous *r, int fd);
/* As `came` of peers_config. */
unsigned rendezvous_came(struct rendezvous *r, struct stream *st,
	const struct stream_request *request, const char **reason);
/* A replica passes on that `node` wants to meet `other`, whose tunnel is here. NULL: this attempt
 * is within the rations, and counted; else why not. */
const char *rendezvous_ration(struct rendezvous *r, const char *node, const char *other);
void rendezvous_metrics(const struct rendezvous *r, struct metrics *m);

#endif
