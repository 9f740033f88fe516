#include "tests/unit/hub/routing/routes_bed.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

struct cluster *bed_cluster;
struct fanout *bed_fanout;
struct routes_finder *bed_finder;
const char *bed_edges, *bed_tunnels;
bool bed_known, bed_services_known;
struct routes bed_ways;
unsigned bed_wanted;
uint16_t bed_wanted_port;
static struct loop *loop;
static struct addresses *addresses;
struct self_guard *bed_guard;
static struct tree *tree;
static struct acl *rules;
const char *bed_hubs, *bed_replicas;

static bool
listed(const char *list, const char *node)
{
	char name[80];

	snprintf(name, sizeof name, ",%s,", node);
	return strstr(list, name) != NULL;
}

static bool
at_edge(void *arg, const char *node)
{
	(void)arg;
	return listed(bed_edges, node);
}

static bool
edge_known(void *arg)
{
	(void)arg;
	return bed_known;
}

static bool
services_known(void *arg)
{
	(void)arg;
	return bed_services_known;
}

static bool
tunnelled(void *arg, const char *node)
{
	(void)arg;
	return listed(bed_tunnels, node);
}

static bool
is_hubs(void *arg, const struct in6_addr *ip)
{
	char text[INET6_ADDRSTRLEN];

	(void)arg;
	return IN6_IS_ADDR_V4MAPPED(ip) &&
		listed(bed_hubs, inet_ntop(AF_INET, &ip->s6_addr[12], text, sizeof text));
}

static bool
is_replicas(void *arg, const struct in6_addr *ip)
{
	char text[INET6_ADDRSTRLEN];

	(void)arg;
	return IN6_IS_ADDR_V4MAPPED(ip) &&
		listed(bed_replicas, inet_ntop(AF_INET, &ip->s6_addr[12], text, sizeof text));
}

static const char *
refuses(void *arg, const char *node, const char *authority)
{
	(void)arg;
	return strcmp(node, "edge-2") == 0 && strstr(authority, ":10080") != NULL ? "no" : NULL;
}

void
bed_settle(void)
{
	struct cluster_change change;

	while (cluster_next_change(bed_cluster, &change)) {
		if (change.view != NULL)
			fanout_set(bed_fanout, &change);
		else
			fanout_remove(bed_fanout, change.ns, change.name);
		cluster_change_fini(&change);
	}
}

void
bed_say(const char *source, const char *yaml)
{
	kit_say(bed_cluster, source, yaml);
	bed_settle();
}

void
bed_want_pod(void *arg, const char *ns, const char *address, uint16_t port, const char *asker)
{
	(void)arg;
	bed_wanted++;
	bed_wanted_port = port;
	cluster_pod_want(bed_cluster, ns, address, port, cluster_pod_asker(asker, 0));
	bed_settle();
}

int
bed_setup(void **state)
{
	struct routes_config config = {
		.cluster_domain = "cluster.local",
		.suffix = "edge.example",
		.at_edge = at_edge,
		.edge_known = edge_known,
		.services_known = services_known,
		.tunnelled = tunnelled,
		.refuses = refuses,
		.want_pod = bed_want_pod,
	};
	static const char allows[] =
		"[{from: 127.0.0.1, to: ['*', 'cloud/10.0.0.1:10250']}, "
		"{from: 192.0.2.7, to: ['default/*', 'edge-1:9100', 'master:9100']}, "
		"{from: 'node:edge-1', to: ['default/*', 'cloud/default/*']}, "
		"{from: 'node:edge-2', to: ['default/w*', 'default/two:81']}]";
	struct addr listen = addr_ipv4(INADDR_ANY, 10080);

	(void)state;
	bed_wanted = 0;
	bed_known = bed_services_known = true;
	bed_edges = bed_tunnels = ",edge-1,edge-2,";
	config.cluster = bed_cluster = cluster_new();
	config.fanout = bed_fanout = fanout_new();
	bed_hubs = bed_replicas = "";
	assert_int_equal(loop_new(&loop, NULL), 0);
	addresses = addresses_new(loop, NULL, NULL);
	assert_int_equal(tree_parse(&tree, "test", allows, strlen(allows), NULL), 0);
	assert_int_equal(acl_new(tree_document(tree, 0), &rules, NULL), 0);
	bed_guard = self_guard_new(&(struct self_guard_config){
		.addresses = addresses, .access = rules, .named = is_hubs, .replica = is_replicas});
	self_guard_listens(bed_guard, &listen);
	config.access = rules;
	config.guard = bed_guard;
	bed_finder = routes_new(&config);
	bed_say("nodes",
		NODE("edge-1", "", IP("192.168.1.20") ", {type: Hostname, address: box-1}")
			NODE("edge-2", "", IP("192.168.1.20") ", " IP("10.1.0.2"))
				NODE("master", "", IP("10.0.0.1")));
	return 0;
}

int
bed_teardown(void **state)
{
	(void)state;
	routes_free(&bed_finder);
	self_guard_free(&bed_guard);
	acl_free(&rules);
	tree_free(&tree);
	addresses_free(&addresses);
	loop_free(&loop);
	fanout_free(&bed_fanout);
	cluster_free(&bed_cluster);
	return 0;
}

const char *
bed_find(const char *host, uint16_t port)
{
	return bed_find_as(&(struct routes_wish){.host = host, .port = port});
}

const char *
bed_find_as(const struct routes_wish *wish)
{
	static char text[1024];
	unsigned status = routes_find_as(bed_finder, wish, &bed_ways);

	text[0] = '\0';
	if (status != 0)
		snprintf(text, sizeof text, "%u %s", status, bed_ways.reason);
	for (size_t i = 0; i < bed_ways.n; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %s",
			i > 0 ? ", " : "", bed_ways.list[i].node, bed_ways.list[i].authority);
	return text;
}

unsigned
bed_find_endpoint(const char *asker, const char *service, const char *node, const char *at)
{
	const struct routes_endpoint wanted = {asker, service, node, at, false};

	return routes_find_endpoint(bed_finder, &wanted, &bed_ways);
}
