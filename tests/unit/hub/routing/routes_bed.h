/*
 * The finder of routes over a cluster of two nodes at the edge and one that the hub dials itself,
 * and a guard of the hub's own listeners. cmocka's setup and teardown are here.
 */
#ifndef EDGEWAY_TESTS_UNIT_HUB_ROUTING_ROUTES_BED_H
#define EDGEWAY_TESTS_UNIT_HUB_ROUTING_ROUTES_BED_H

#include "hub/routing/routes.h"
#include "tests/unit/model/kube_kit.h"

#define IP(address) "{type: InternalIP, address: " address "}"
#define PORTS "{name: http, port: 8080}"
#define RUNNING_AT(name, node, ip, more)                                                           \
	"---\napiVersion: v1\nkind: Pod\nmetadata: {name: " name ", labels: {app: web}}\n"         \
	"spec: {nodeName: " node "}\n"                                                             \
	"status: {phase: Running, podIP: " ip ", podIPs: [{ip: " ip "}" more                       \
	"], conditions: [{type: Ready, status: 'True'}]}\n"
#define RUNNING(name, node, ip) RUNNING_AT(name, node, ip, "")
#define AT(ip, node) "{addresses: [" ip "], nodeName: " node "}"

extern struct cluster *bed_cluster;
extern struct fanout *bed_fanout;
extern struct routes_finder *bed_finder;
extern struct self_guard *bed_guard;
extern const char *bed_edges, *bed_tunnels; /* names between commas */
extern const char *bed_hubs, *bed_replicas; /* addresses between commas */
extern bool bed_known; /* which nodes are at the edge */
extern bool bed_services_known;
extern struct routes bed_ways; /* what was found last */
extern unsigned bed_wanted; /* how often a pod was wanted */
extern uint16_t bed_wanted_port; /* the last time */

int bed_setup(void **state);
int bed_teardown(void **state);
/* `source` says these objects now, and no others. */
void bed_say(const char *source, const char *yaml);
/* What the cluster has changed reaches the fanout. */
void bed_settle(void);
/* want_pod of routes_config. */
void bed_want_pod(void *arg, const char *ns, const char *address, uint16_t port, const char *asker);
/* "node authority" of each way, or status and reason. */
const char *bed_find_as(const struct routes_wish *wish);
/* The status. */
unsigned bed_find_endpoint(
	const char *asker, const char *service, const char *node, const char *at);
/* As bed_find_as, for any name. */
const char *bed_find(const char *host, uint16_t port);

#endif
