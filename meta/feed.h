/*
 * The spine of the connection to the hub (doc/protocol.md): joins if it must, resolves, connects, stays connected, tells
 * what this node holds, hands changes to meta/apply, and acknowledges them. One connection at a time. Loop 0 only.
 *
 *   WAITING ─timer─► RESOLVING ─► DIALLING ─► GREETING ─hello─► SYNCING ─synced─► SYNCED
 *      ▲                 │            │           │                │                │
 *      └──── back-off: 100 ms doubling to 30 s, full jitter; addresses and hub.url take turns (meta/places)
 *
 * The join takes the same way as far as GREETING, with the other path, and ends in WAITING with a certificate.
 */
#ifndef EDGEWAY_META_FEED_H
#define EDGEWAY_META_FEED_H

#include "base/buf.h"
#include "base/loop.h"
#include "base/sock.h"

struct apply;
struct feed;

struct feed_config { /* copied */
	struct loop *loop;
	struct apply *apply;
	bool cloudhub; /* hub.protocol: the hub is a KubeEdge CloudHub */
	const char *node, *node_id; /* node_id "" = node */
	const char *data_dir, *ca, *cert, *key, *token;
	int64_t floor_s; /* the last time stored, seconds since 1970 */
	const char *cluster_domain;
	uint32_t subnet, mask; /* of fake IPs, host byte order: no hub is there */
	const char *const *urls; /* NULL-terminated */
	/* For each of urls, or NULL: address of the last connection as text; those that the hub told. */
	const char *const *last_good, *const *told;
	const char *proxy; /* hub.proxy, "" none */
	const char *proxy_good; /* its address of the last connection as text, or NULL */
	uint64_t heartbeat_ms;
	uint32_t mark;
	const struct addr *upstreams;
	size_t n_upstreams;
};

struct feed_status {
	bool connected, synced, joined;
	const char *url;
	const char *address; /* "" when not connected; the proxy's if there is one */
	const char *proxy; /* host of hub.proxy, "" none */
	const char *error; /* why the last attempt failed, "" none */
	int64_t certificate_not_after; /* seconds since 1970, 0: none */
	const char *certificate_error; /* why it was not renewed, "" none */
	uint64_t renewals, renewal_failures;
	uint64_t last_contact_ms; /* loop's clock; 0: never */
	uint64_t connects, failures, messages, refused, acks;
};

int feed_new(struct feed **feed, const struct feed_config *config, struct err *err);
void feed_free(struct feed **feed);
/* Who is asked for the hub's name from now on. */
void feed_use_upstreams(struct feed *feed, const struct addr *upstreams, size_t n);
/* Does an EdgeCore on this machine go by this node id? A CloudHub would cut one of the two off. -EEXIST with the reason. */
int feed_check_id(const char *node_id, struct err *err);
/* The change is committed. Said only on the connection that it came by. */
void feed_ack(struct feed *feed, unsigned connection, const char *id, const char *resource);
/* Compare with the hub now. */
void feed_resync(struct feed *feed);
struct feed_status feed_status(const struct feed *feed);
/* JSON list: hub.url with the addresses that are remembered. */
void feed_places(const struct feed *feed, struct buf *out);

#endif
