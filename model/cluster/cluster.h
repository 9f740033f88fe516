/*
 * The cluster as the hub's source tells it: Kubernetes objects by kind, namespace and name, joined
 *into service views. Changing an object marks the services that it can affect, and only those are
 *joined again:
 *
 *	cluster_replace(c, "web.yaml", &batch);
 *	while (cluster_next_change(c, &change)) {
 *		// change.view, change.json (canonical), change.digest; view NULL: the service is
 *gone cluster_change_fini(&change);
 *	}
 *
 * A `source` is whoever says an object: a file of the folder, or "" for the API server. Should two
 * sources say the same object, the one whose name sorts first wins, until it takes the object back.
 * A headless service has a view more for each hostname of its pods, named <hostname>.<service>,
 * which no service can be called.
 *
 * The result depends on the objects alone, not on the order in which they came, so that replicas
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

/* Takes the object; replaces what this source said of it before. */
void cluster_put(struct cluster *c, const char *source, struct kube_object **o);
/* False when this source had no such object. */
bool cluster_remove(struct cluster *c, const char *source, enum kube_kind kind, const char *ns,
	const char *name);
/* What the source says now, all of it: puts the batch's objects (takes them) and removes its
 * others; NULL: it says nothing any more. While the batch has refused objects nothing is removed,
 * so that their last good form serves on. */
void cluster_replace(struct cluster *c, const char *source, struct kube_batch *b);

/* A list of one kind that comes piece by piece: mark, then put or keep each, then sweep what was
 * neither. Other kinds may come in between. keep: what the source said of it before goes on to
 * count; false when it said nothing. */
uint64_t cluster_mark(struct cluster *c);
bool cluster_keep(struct cluster *c, const char *source, enum kube_kind kind, const char *ns,
	const char *name);
size_t cluster_sweep(struct cluster *c, const char *source, enum kube_kind kind, uint64_t mark);

struct cluster_change {
	char *ns, *name;
	struct view *view; /* NULL: gone */
	char *nodes; /* selector of the nodes that are to know of it, "": all; NULL when gone */
	char *json; /* canonical form of the view, NULL when gone */
	size_t json_len;
	uint64_t digest;
};

/* The next service, or name of pods of one, whose view differs from what was told last; false when
 * there is none. */
bool cluster_next_change(struct cluster *c, struct cluster_change *change);
void cluster_change_fini(struct cluster_change *change);

/* Are there services to look at? (cluster_next_change may still find that none differs) */
bool cluster_dirty(const struct cluster *c);

/* A node's site and zone, "" when it says none; -ENOENT when the node is unknown (both "").
 * Borrowed: for the call only. */
int cluster_node(const struct cluster *c, const char *name, const char **site, const char **zone);
/* Who has an address: a node (pod "") or a pod and the node that it runs on. Borrowed: until the
 * next change. */
struct cluster_place {
	const char *node, *ns, *pod;
};
/* Those with this address, or with this name among a node's addresses; at most `room` are put in
 * `places`. How many there are: private addresses repeat. */
size_t cluster_places(
	const struct cluster *c, const char *address, struct cluster_place *places, size_t room);
/* The service with this clusterIP; ns and name as above. */
bool cluster_service_at(
	const struct cluster *c, const char *address, const char **ns, const char **name);
/* The pod with an address of its own, this one, on the node: other nodes may have pods with the
 * same. */
bool cluster_pod_at(const struct cluster *c, const char *node, const char *address,
	struct cluster_place *place);
/* Does the pod itself say that the address is its own, whatever EndpointSlices say of it? */
bool cluster_pod_has(
	const struct cluster *c, const char *ns, const char *name, const char *address);
/* Does the pod itself, whatever EndpointSlices say of it, have this address and, where it is of its
 * host's network, declare the port? */
bool cluster_pod_serves(const struct cluster *c, const struct cluster_place *pod,
	const char *address, uint16_t port, bool udp);
/* A node's addresses, of all kinds, names too; *n: how many. Borrowed. */
const char *const *cluster_node_addresses(const struct cluster *c, const char *name, size_t *n);
/* A node's first IP address, its InternalIP where it says one, "" when it says none. Borrowed. */
const char *cluster_node_address(const struct cluster *c, const char *name);
/* Of a node, for the call only. */
struct cluster_node_facts {
	const char *name;
	const char *const *addresses; /* of all kinds, names too */
	size_t n_addresses;
	bool direct; /* it says that others can dial it: edgeway.io/public, or an ExternalIP */
};
typedef void cluster_node_fn(void *arg, const struct cluster_node_facts *node);
/* All of them, in any order. */
void cluster_each_node(const struct cluster *c, cluster_node_fn *fn, void *arg);
/* The first of IPv4, and of IPv6, as ip_parse has it: how many, 0 to 2. */
size_t cluster_node_ips(const struct cluster *c, const char *name, struct in6_addr ips[2]);
/* A Service's clusterIP, "" when there is none such or it has none. Borrowed. */
const char *cluster_service_ip(const struct cluster *c, const char *ns, const char *name);
struct cluster_source { /* of a node */
	bool site_given; /* by a label */
	bool own; /* the address is one of its own */
	const char *noted; /* its annotation KUBE_SOURCE_ADDRESS, ""; borrowed for the call only */
};
/* What the Node says of the address that the node was seen to come from. -ENOENT when it is unknown
 * or says no address. */
int cluster_node_source(const struct cluster *c, const char *name, const char *address,
	struct cluster_source *source);
/* Its labels, borrowed for the call only; NULL when it is unknown. */
const struct kube_labels *cluster_node_labels(const struct cluster *c, const char *name);
/* Does a pod or an endpoint say that it is on the node? Looks at all of them. */
bool cluster_names_node(const struct cluster *c, const char *node);
/* Does any Node name a site? Else all nodes are one. Looks at all of them. */
bool cluster_has_sites(const struct cluster *c);
/* Changes of Node objects that mattered, ever: their labels and addresses above all. */
uint64_t cluster_node_changes(const struct cluster *c);
enum { CLUSTER_BEHIND_MAX = 64 };

/* What a service's reason is about. Of several problems the one that stands first here is told. */
enum cluster_problem {
	CLUSTER_LIMITS, /* beyond model/limits.h */
	CLUSTER_NODES_SELECTOR, /* edgeway.io/nodes is no selector */
	CLUSTER_ALLOW_FROM, /* edgeway.io/allow-from cannot be read */
	CLUSTER_REFUSED, /* nodes refuse an address of some endpoint (model/dial_guard.h) */
	CLUSTER_TARGET_PORT, /* targetPort is the name of no container port */
	CLUSTER_NO_ENDPOINTS,
	CLUSTER_PARTLY, /* something of it is left out */
	CLUSTER_WELL,
	CLUSTER_PROBLEMS = CLUSTER_WELL,
};
/* The word in JSON and in labels of metrics; "" of CLUSTER_WELL. */
const char *cluster_problem_word(enum cluster_problem problem);
enum finding_class cluster_problem_class(enum cluster_problem problem);
enum cluster_problem cluster_problem(const struct cluster *c, const char *ns, const char *name);
/* The problem as a sentence; "" when all is well or unknown. As of the service's last
 * cluster_next_change. */
const char *cluster_reason(const struct cluster *c, const char *ns, const char *name);
/* Why others than their own nodes reach some pods of the service through the hub alone:
 * information, a sentence; "": all have a hostPort, or nothing is known. nodes: of those pods in
 * order, each with its NUL, CLUSTER_BEHIND_MAX at most; none for the name of a pod. Borrowed until
 * the next change. */
struct cluster_behind {
	const char *text;
	const char *nodes;
	size_t n_nodes;
};
struct cluster_behind cluster_behind(const struct cluster *c, const char *ns, const char *name);
/* Adds to the reasons of services that have no pod which label of their selector no pod has, and
 * the nearest that one has. Looks at a bounded number of pods, at the newest problems first: to be
 * called again and again. */
void cluster_look_near(struct cluster *c);
/* Services, and names of pods, of which that is so. */
size_t cluster_count_refused(const struct cluster *c);
/* Is that reason a bound of model/limits.h? Then nodes keep what they were told before, if anything
 * was. */
bool cluster_beyond(const struct cluster *c, const char *ns, const char *name);
typedef void cluster_beyond_fn(void *arg, const char *ns, const char *name, const char *reason);
/* All of them, in any order. */
void cluster_each_beyond(const struct cluster *c, cluster_beyond_fn *fn, void *arg);
size_t cluster_count(const struct cluster *c, enum kube_kind kind);

/* --- who calls: model/cluster/cluster_callers.c --------------------------------------------- */
/* Views that not everybody may call, among those told by cluster_next_change. */
size_t cluster_restricted(const struct cluster *c);
/* The next node whose pods or labels are others now, on the heap; NULL: none. */
char *cluster_next_callers(struct cluster *c);
/* What the node is told of them (model/local_callers.h); equal callers give equal bytes. */
void cluster_callers(const struct cluster *c, const char *node, struct buf *out);
/* May any pod of the node, or the node itself, call? The node judges which of them; it is asked for
 * an address by none. */
bool cluster_node_may_call(
	const struct cluster *c, const char *node, const struct allow_from *allow_from);

/* The next sentence for the log: about a service beyond model/limits.h, about addresses that nodes
 * refuse, about DestinationRules that do not count since another does, or that are for a Service
 * that is not there; on the heap, NULL: none. As of cluster_next_change. What of a rule is not
 * supported kube_read says. */
char *cluster_next_note(struct cluster *c);

/* --- DestinationRules: model/cluster/cluster_rule.c. Of several for one Service the oldest
 * counts. */
/* What of the Service's rules does not count, on the heap, for a person; "" when all does. */
char *cluster_rule_problem(const struct cluster *c, const char *ns, const char *service);
struct cluster_rule { /* for the call only */
	const char *ns, *name, *service; /* service "": of nobody here */
	bool counts; /* at least in part */
	const char *problem;
};
typedef void cluster_rule_fn(void *arg, const struct cluster_rule *rule);
/* All of them, in any order. */
void cluster_each_rule(const struct cluster *c, cluster_rule_fn *fn, void *arg);

#endif
