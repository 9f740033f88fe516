/*
 * The ways into the hub for those who want to reach the edge: listeners, and the callers that come in by them. What
 * they ask for goes through hub/reach.c; bytes are carried by tunnel/relay. On the hub's loop.
 *
 *	DOOR_HTTP      CONNECT, absolute form, Host: NODE[:PORT], Yurt's X-Tunnel-Proxy-Host and -Dest
 *	DOOR_EGRESS    kube-apiserver's HTTPConnect: CONNECT alone, and no byte in the same read as the 200
 *	DOOR_FIXED     every connection goes to one target
 *
 *	rc = ingress_listen(ingress, &(struct door){.kind = DOOR_HTTP, .listen = addr, .name = "ingress.http"}, &err);
 */
#ifndef EDGEWAY_HUB_INGRESS_H
#define EDGEWAY_HUB_INGRESS_H

#include "base/metric.h"
#include "hub/reach.h"

enum { INGRESS_VISITS_MAX = 20000 };

enum door_kind { DOOR_HTTP, DOOR_EGRESS, DOOR_FIXED };

struct door {
	enum door_kind kind;
	struct addr listen;
	const char *name; /* key of the configuration, for messages */
	const char *host; /* DOOR_FIXED; copied */
	uint16_t port;
	const char *
		dest; /* DOOR_FIXED: IP:port as the node sees it, in place of port; NULL none; copied */
};

struct ingress;

struct ingress_config {
	struct loop *loop;
	struct reach *reach; /* outlives it, as does access */
	const struct access *access;
};

struct ingress *ingress_new(const struct ingress_config *config);
/* Ends all visits. */
void ingress_free(struct ingress **i);
int ingress_listen(struct ingress *i, const struct door *door, struct err *err);
/* A connection that somebody else has accepted (and whose TLS a bridge carries): taken. The door is one that was
 * made by ingress_listen or a static one of the caller's. */
void ingress_take(struct ingress *i, const struct door *door, int fd, const struct caller *caller);
/* No new callers; those that are there go on. */
void ingress_drain(struct ingress *i);
size_t ingress_visits(const struct ingress *i);
void ingress_metrics(const struct ingress *i, struct metrics *m);
/* [{"door","caller","target","age_ms",...}] of the visits that carry bytes. */
void ingress_state(const struct ingress *i, struct buf *out);

#endif
