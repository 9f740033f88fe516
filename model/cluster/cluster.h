/*
 * Joins Kubernetes objects, by kind, namespace and name, into service views for the hub. Changing
 * an object marks the services that it can affect, and only those are joined again:
 *
 *	cluster_replace(c, "web.yaml", &batch);
 *	while (cluster_next_change(c, &change)) {
 *		// change.view, change.json (canonical), change.digest;
 *		// view NULL: the service is gone
 *		cluster_change_fini(&change);
 *	}
 *
 * A `source` is the origin of an object: a file of the folder, or "" for the API server. If two
 * sources have the same object, the source whose name sorts first wins until it removes the object.
 * A headless service has one more view for each hostname of its pods, named <hostname>.<service>,
 * which no Service can be called.
 *
 * The result depends only on the objects, not on the order in which they came, so that replicas
 * agree. Pure; one thread.
 */
#ifndef EDGEWAY_MODEL_CLUSTER_CLUSTER_H
#define EDGEWAY_MODEL_CLUSTER_CLUSTER_H

#include "base/core/finding.h"
#include "model/kube.h"
#include "model/view.h"

struct allow_from;
struct cluster;

struct cluster *cluster_new(void);
void cluster_free(struct cluster **c);
/* Does the hub dial endpoints of a service for nodes that no Pod stands for? Asked when a service
 * is joined; a call joins all again. NULL, the default: never. */
typedef bool cluster_dials_fn(void *arg, const char *ns, const char *name);
void cluster_use_dials(struct cluster *c, cluster_dials_fn *dials, void *arg);

/* Takes the object; replaces this source's previous version of it. */
void cluster_put(struct cluster *c, const char *source, struct kube_object **o);
/* False when this source had no such object. */
bool cluster_remove(struct cluster *c, const char *source, enum kube_kind kind, const char *ns,
	const char *name);
/* Sets the complete content of the source: puts the batch's objects (takes them) and removes the
 * source's others; NULL: removes all. While the batch has refused objects nothing is removed, so
 * that their last good version stays in force. */
void cluster_replace(struct cluster *c, const char *source, struct kube_batch *b);

/* For a list of one kind that arrives in pieces: mark, then put or keep each object, then sweep the
 * others. Other kinds may come in between. keep: the source's previous version stays; false when
 * there was none. */
uint64_t cluster_mark(struct cluster *c);
bool cluster_keep(struct cluster *c, const char *source, enum kube_kind kind, const char *ns,
	const char *name);
size_t cluster_sweep(struct cluster *c, const char *source, enum kube_kind kind, uint64_t mark);

struct cluster_change {
	char *ns, *name;
	struct view *view; /* NULL: gone */
	char *nodes; /* selector of the nodes that should get it, "": all; NULL when gone */
	char *json; /* canonical form of the view, NULL when gone */
	size_t json_len;
	uint64_t digest;
};

/* The next service, or pod name of a service, whose view differs from the last one returned; false
 * when there is none. */
bool cluster_next_change(struct cluster *c, struct cluster_change *change);
void cluster_change_fini(struct cluster_change *change);

/* Are there services to check? (cluster_next_change may still find no difference) */
bool cluster_dirty(const struct cluster *c);

/* A node's site and zone, "" when it names none; -ENOENT when the node is unknown (both "").
 * Borrowed: valid for the call only. */
int cluster_node(const struct cluster *c, const char *name, const char **site, const char **zone);
/* The owner of an address: a node (pod "") or a pod and the node that it runs on. Borrowed: until
 * the next change. */
struct cluster_place {
	const char *node, *ns, *pod;
};
/* Finds the owners of this address, or the nodes with this name among their addresses; puts at most
 * `room` into `places`. Returns the total: private addresses may repeat. */
size_t cluster_places(
	const struct cluster *c, const char *address, struct cluster_place *places, size_t room);
/* The service with this clusterIP; ns and name as above. */
bool cluster_service_at(
	const struct cluster *c, const char *address, const char **ns, const char **name);
/* The pod on the node that has this address as its own; pods on other nodes may have the same
 * address. */
bool cluster_pod_at(const struct cluster *c, const char *node, const char *address,
	struct cluster_place *place);
/* Does the Pod object itself have this address, whatever EndpointSlices say? */
bool cluster_pod_has(
	const struct cluster *c, const char *ns, const char *name, const char *address);
/* Does the Pod object itself, whatever EndpointSlices say, have this address and, if it uses its
 * host's network, declare the port? */
bool cluster_pod_serves(const struct cluster *c, const struct cluster_place *pod,
	const char *address, uint16_t port, bool udp);
/* A node's addresses of all kinds, including names; *n: how many. Borrowed. */
const char *const *cluster_node_addresses(const struct cluster *c, const char *name, size_t *n);
/* A node's first IP address, its InternalIP if it has one, "" when it has none. Borrowed. */
const char *cluster_node_address(const struct cluster *c, const char *name);
/* Facts about a node, valid for the call only. */
struct cluster_node_facts {
	const char *name;
	const char *const *addresses; /* of all kinds, including names */
	size_t n_addresses;
	/* it is marked as dialable from elsewhere: edgeway.io/public, or an ExternalIP */
	bool direct;
};
typedef void cluster_node_fn(void *arg, const struct cluster_node_facts *node);
/* All of them, in any order. */
void cluster_each_node(const struct cluster *c, cluster_node_fn *fn, void *arg);
/* The node's first IPv4 and first IPv6 address, as ip_parse gives them; returns how many, 0 to
 * 2. */
size_t cluster_node_ips(const struct cluster *c, const char *name, struct in6_addr ips[2]);
/* A Service's clusterIPs, the IPv4 one first; 0: there is no such Service or it has none. At most
 * 2. */
size_t cluster_service_ips(
	const struct cluster *c, const char *ns, const char *name, struct in6_addr ips[2]);
/* Services of type LoadBalancer with KUBE_GATEWAY_CLASS: the addresses that their status has, and
 * those that it is to have, as "192.0.2.1,192.0.2.2". Borrowed for the call. */
enum { CLUSTER_GATEWAY_ADDRESSES_MAX = 256 };
struct cluster_gateway {
	const char *ns, *name;
	const char *has, *wants;
};
typedef bool cluster_alive_fn(void *arg, const char *node); /* does its agent live? */
typedef void cluster_gateway_fn(void *arg, const struct cluster_gateway *gateway);
/* All of them, in any order. */
void cluster_each_gateway(
	const struct cluster *c, cluster_alive_fn *alive, cluster_gateway_fn *fn, void *arg);
struct cluster_source { /* about a node's source address */
	bool site_given; /* by a label */
	bool own; /* the address is one of its own */
	const char *noted; /* its annotation KUBE_SOURCE_ADDRESS, ""; borrowed for the call only */
};
/* Compares the Node object with the address that the node connects from. -ENOENT when the node is
 * unknown or has no address. */
int cluster_node_source(const struct cluster *c, const char *name, const char *address,
	struct cluster_source *source);
/* The node's labels, borrowed for the call only; NULL when it is unknown. */
const struct kube_labels *cluster_node_labels(const struct cluster *c, const char *name);
/* Does any pod or endpoint name this node? Scans all of them. */
bool cluster_names_node(const struct cluster *c, const char *node);
/* Does any Node name a site? If not, all nodes form one site. Scans all of them. */
bool cluster_has_sites(const struct cluster *c);
/* Counts the relevant changes of Node objects: mostly of labels and addresses. */
uint64_t cluster_node_changes(const struct cluster *c);
enum { CLUSTER_BEHIND_MAX = 64 };

/* The subject of a service's reason. Of several problems, the first in this order is reported. */
enum cluster_problem {
	CLUSTER_LIMITS, /* beyond model/limits.h */
	CLUSTER_NODES_SELECTOR, /* edgeway.io/nodes is not a valid selector */
	CLUSTER_ALLOW_FROM, /* edgeway.io/allow-from is invalid */
	CLUSTER_REFUSED, /* nodes refuse an address of some endpoint (model/dial_guard.h) */
	CLUSTER_TARGET_PORT, /* targetPort names no container port */
	CLUSTER_NO_ENDPOINTS,
	CLUSTER_PARTLY, /* something of it is left out */
	CLUSTER_WELL,
	CLUSTER_PROBLEMS = CLUSTER_WELL,
};
/* The problem's name in JSON and metric labels; "" for CLUSTER_WELL. */
const char *cluster_problem_word(enum cluster_problem problem);
enum finding_class cluster_problem_class(enum cluster_problem problem);
enum cluster_problem cluster_problem(const struct cluster *c, const char *ns, const char *name);
/* The problem as a sentence; "" when all is well or unknown. As of the service's last
 * cluster_next_change. */
const char *cluster_reason(const struct cluster *c, const char *ns, const char *name);
/* Why other nodes than their own reach some pods of the service only through the hub: information,
 * as a sentence; "": all have a hostPort, or nothing is known. nodes: the nodes of those pods,
 * sorted, each with its NUL, at most CLUSTER_BEHIND_MAX; none for a pod name. Borrowed until the
 * next change. */
struct cluster_behind {
	const char *text;
	const char *nodes;
	size_t n_nodes;
};
struct cluster_behind cluster_behind(const struct cluster *c, const char *ns, const char *name);
/* For services without pods, adds to the reason which label of the selector no pod has, and the
 * most similar label that one has. Checks a bounded number of pods per call, newest problems first:
 * call it again and again. */
void cluster_look_near(struct cluster *c);
/* Number of services and pod names with the problem CLUSTER_REFUSED. */
size_t cluster_count_refused(const struct cluster *c);
/* Is the service's reason a limit of model/limits.h? Then nodes keep the last view that was sent,
 * if any. */
bool cluster_beyond(const struct cluster *c, const char *ns, const char *name);
typedef void cluster_beyond_fn(void *arg, const char *ns, const char *name, const char *reason);
/* All of them, in any order. */
void cluster_each_beyond(const struct cluster *c, cluster_beyond_fn *fn, void *arg);
size_t cluster_count(const struct cluster *c, enum kube_kind kind);

/* --- pods by their own address: model/cluster/cluster_pod.c --------------------------------- */
enum cluster_pod_found { CLUSTER_POD_NONE, CLUSTER_POD_ONE, CLUSTER_POD_MANY };
/* The pod with this address; ns "": of any namespace. Of several, that of `node`; "": none of them.
 * Pods of the host's network do not count. Borrowed as cluster_place. */
enum cluster_pod_found cluster_pod_find(const struct cluster *c, const char *ns,
	const char *address, const char *node, struct cluster_place *place);
/* The name of the pod under the cluster's domain: that which a headless service gives it, else by
 * its address. On the heap. */
char *cluster_pod_dns_name(
	const struct cluster *c, const struct cluster_place *pod, const char *address);
/* A node asks for the pod: from now on, until cluster_pod_unwant, and as long as a pod of the
 * namespace has the address, it has a view, named as model/pod_name.h says, with this port besides
 * those that it declares (0: none). cluster_next_change returns it. Of the ports that were asked
 * for, CLUSTER_POD_PORTS_MAX are kept; nodes share these, and so do the clients of each node. */
enum { CLUSTER_POD_PORTS_MAX = 32 };
void cluster_pod_want(
	struct cluster *c, const char *ns, const char *address, uint16_t port, uint64_t by);
void cluster_pod_unwant(struct cluster *c, const char *ns, const char *name);
/* Who asks: a client, by a number that the node gives it, of a node. */
uint64_t cluster_pod_asker(const char *node, uint16_t client);
/* The nodes' ranges of pods' addresses of which no address is in two nodes' ranges, as
 * pod_ranges_build writes them. Borrowed until a Node changes. */
const char *cluster_pod_ranges(struct cluster *c);
size_t cluster_pods_wanted(const struct cluster *c);

/* --- who calls: model/cluster/cluster_callers.c --------------------------------------------- */
/* Number of views for which a node must know its callers (allow-from, policies, routes for the
 * callers of one namespace), among those returned by cluster_next_change. */
size_t cluster_restricted(const struct cluster *c);
/* The next node whose pods or labels have changed, on the heap; NULL: none. */
char *cluster_next_callers(struct cluster *c);
/* Writes the node's callers for sending (model/local_callers.h); equal callers give equal bytes. */
void cluster_callers(const struct cluster *c, const char *node, struct buf *out);
/* May any pod of the node, or the node itself, call? The node itself decides which; conditions on
 * addresses are not checked here. */
bool cluster_node_may_call(
	const struct cluster *c, const char *node, const struct allow_from *allow_from);

/* The next message for the log: about a service beyond model/limits.h, about addresses that nodes
 * refuse, about DestinationRules that do not apply because another does or because their Service
 * does not exist; on the heap, NULL: none. Updated by cluster_next_change. kube_read reports
 * unsupported parts of a rule. */
char *cluster_next_note(struct cluster *c);

/* --- DestinationRules: model/cluster/cluster_rule.c. Of several for one Service the oldest
 * applies. */
/* Which parts of the Service's rules do not apply, as readable text on the heap; "" when all
 * apply. */
char *cluster_rule_problem(const struct cluster *c, const char *ns, const char *service);
struct cluster_rule { /* for the call only */
	const char *ns, *name, *service; /* service "": none here */
	bool counts; /* at least in part */
	const char *problem;
};
typedef void cluster_rule_fn(void *arg, const struct cluster_rule *rule);
/* All of them, in any order. */
void cluster_each_rule(const struct cluster *c, cluster_rule_fn *fn, void *arg);

/* --- BackendTLSPolicies: model/cluster/cluster_backend_tls.c -------------------------------- */
/* Those with a status are among the routes below, their targets as parents. */
typedef void cluster_config_map_fn(void *arg, const char *ns, const char *name);
/* The ConfigMaps that policies name, perhaps several times; as read when cluster_tls_changes
 * changes. */
void cluster_each_config_map(const struct cluster *c, cluster_config_map_fn *fn, void *arg);
uint64_t cluster_tls_changes(const struct cluster *c);

/* --- HTTPRoutes and GRPCRoutes: model/cluster/cluster_route.c ------------------------------- */
/* What the status of a route says about one parent. Messages are on the heap. */
struct cluster_route_parent {
	const struct kube_route_parent *ref;
	bool accepted, resolved;
	const char *accepted_reason, *resolved_reason; /* the API's words */
	char *accepted_message, *resolved_message;
	char *partly; /* message of the condition PartiallyInvalid; NULL: it is not set */
};
struct cluster_route {
	enum kube_kind kind;
	const char *ns, *name;
	const struct kube_route *route;
	bool api; /* it comes from an API server, which wants a status */
	bool news; /* conditions or messages differ from those last returned for it */
	size_t n_parents;
	struct cluster_route_parent *parents;
};
/* What does not count as it is; NULL: all does. Borrowed. */
static inline const char *
cluster_route_problem(const struct cluster_route_parent *p)
{
	if (!p->accepted)
		return p->accepted_message;
	if (p->partly != NULL)
		return p->partly;
	return p->resolved ? NULL : p->resolved_message;
}
/* The next route whose status may have changed; false: none. Valid until the next change. Call it
 * when cluster_next_change has returned false. */
bool cluster_next_route(struct cluster *c, struct cluster_route *route);
void cluster_route_fini(struct cluster_route *route);
typedef void cluster_route_fn(void *arg, const struct cluster_route *route);
/* All of them that have a Service as parent, in any order. */
void cluster_each_route(const struct cluster *c, cluster_route_fn *fn, void *arg);
/* What does not count of those from an API server, "" if all does: as cluster_next_route last gave
 * it, so that asking again and again costs little. */
typedef void cluster_route_problem_fn(
	void *arg, enum kube_kind kind, const char *ns, const char *name, const char *problem);
void cluster_each_route_problem(const struct cluster *c, cluster_route_problem_fn *fn, void *arg);

#endif
