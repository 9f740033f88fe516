/*
 * An authoritative DNS server of one zone whose names its owner looks up: the hub's zone of node
 * names. UDP and TCP on one loop, on which every query is answered at once; nothing is forwarded.
 * Part of the public interface of dns/.
 *
 *	query ► parse ► name_zone_read ► find (the owner) ► name_zone_write ► answer
 *
 *	rc = zone_server_start(&s, &(struct zone_server_config){.loop = loop, .listen = addr,
 *		.zone = "nodes.example", .ttl_s = 10, .find = on_find, .arg = me}, &err);
 *	zone_server_stop(&s);
 *
 * Limits as in dns/front/udp.h, dns/forward/limit.h and dns/front/tcp.h. `find` is called with a
 * name below the zone, "" for the zone itself, and fills in the current state of that name; it must
 * not stop the server.
 */
#ifndef EDGEWAY_DNS_FRONT_ZONE_SERVER_H
#define EDGEWAY_DNS_FRONT_ZONE_SERVER_H

#include "base/core/loop.h"
#include "base/core/metric.h"
#include "base/core/sock.h"
#include "dns/answer/zone_answer.h"

struct zone_server;

typedef void zone_server_find_fn(void *arg, const char *name, struct name_found *found);

struct zone_server_config {
	struct loop *loop;
	struct addr listen; /* with a port; [::] is every address of either family */
	const char *zone; /* no dot at the end */
	uint32_t ttl_s;
	zone_server_find_fn *find;
	void *arg;
};

int zone_server_start(
	struct zone_server **s, const struct zone_server_config *config, struct err *err);
void zone_server_stop(struct zone_server **s);
const struct name_zone *zone_server_zone(const struct zone_server *s);
/* name: of the counter of queries. */
void zone_server_metrics(const struct zone_server *s, const char *name, struct metrics *m);
/* Queries answered, and how many of the answers held an address. */
void zone_server_counts(const struct zone_server *s, uint64_t *answered, uint64_t *found);

#endif
