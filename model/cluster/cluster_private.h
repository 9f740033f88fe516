/*
 * Shared by cluster.c (the objects, and which services a change affects), cluster_join.c (a
 * service's view) and their helpers.
 *
 * A record is an object's name; one or more sources have the object, and the source that sorts
 * first is in force. A joint is a service's name with all that belongs to it; it exists while a
 * record is attached, a view has been sent, or it waits for a check. Links are index entries; they
 * belong to the record of their object and are rebuilt when that changes.
 */
#ifndef EDGEWAY_MODEL_CLUSTER_CLUSTER_PRIVATE_H
#define EDGEWAY_MODEL_CLUSTER_CLUSTER_PRIVATE_H

#include <stddef.h>
#include <string.h>
#include <sys/queue.h>

#include "model/cluster/cluster.h"
#include "model/limits.h"
#include "model/table.h"

struct record;

struct said {
	TAILQ_ENTRY(said) of_source;
	struct said *next; /* of the record */
	struct source *source;
	struct record *record;
	struct kube_object *object;
	uint64_t generation;
};

struct source {
	struct table_node node;
	TAILQ_HEAD(, said) said;
	char name[];
};

/* The lower LINK_TABLE_BITS of the node's tag say in which of the cluster's linked tables it is,
 * the others at which place of its block: a pod has six or more, and pointers would double them. */
struct link {
	struct table_node node;
};
enum { LINK_TABLE_BITS = 5, LINK_ROOM_MAX = 1 << (16 - LINK_TABLE_BITS) };

/* Those of a record: one block, where their number is known beforehand. */
struct links {
	struct links *next;
	struct record *record;
	uint16_t n, room;
	struct link list[];
};

/* Readable explanations of a view; texts are on the heap, NULL when there are none. */
struct reasons {
	enum cluster_problem problem;
	char *text;
	bool refused; /* nodes refuse an address, whichever problem the text describes */
	char *behind; /* why some pods are reached only through the hub */
	/* nodes of those pods, sorted, each with its NUL; only for the service itself */
	char *nodes;
	size_t n_nodes;
};

/* A view as last returned by cluster_next_change. */
struct told {
	char *name; /* of the service, or <hostname>.<service> */
	uint64_t digest, nodes; /* nodes: hash of the selector; 0: nothing returned yet */
	bool restricted; /* who calls matters: allow-from, policies, routes of one namespace */
	struct reasons why;
	size_t reason_len; /* of why.text, without what cluster_look_near has added */
	bool beyond; /* its current form is beyond model/limits.h, and is not sent */
};

/* A log message that cluster_next_note has yet to return. */
struct note {
	TAILQ_ENTRY(note) entry;
	char *text;
};

/* A change that cluster_next_change has yet to return. */
struct pending {
	TAILQ_ENTRY(pending) entry;
	struct cluster_change change;
};

/* What became of a route at one of its parents. */
enum route_verdict {
	ROUTE_TAKEN,
	ROUTE_CONFLICTED, /* a GRPCRoute is for all its ports */
	ROUTE_BEYOND, /* with the older ones beyond model/limits.h */
};

/* A route at its parent Service, as of the Service's last join. */
struct route_place {
	const struct record *route;
	enum route_verdict verdict;
	bool partly; /* conflicted at some ports */
};

/* Of a record that is a route, while it has an object. */
struct route_state {
	TAILQ_ENTRY(route_state) waiting;
	struct record *record;
	bool dirty; /* cluster_next_route has yet to return it */
	char *problem; /* as of the last cluster_next_route; NULL: none */
};

/* A port of a pod that somebody has asked for (cluster_pod_asker). */
struct pod_port {
	uint64_t by;
	uint16_t port;
};

struct joint {
	struct table_node node;
	TAILQ_ENTRY(joint) waiting;
	TAILQ_ENTRY(joint) unmatched; /* while its selector matches no pod with an address */
	bool dirty, is_unmatched;
	struct told *told; /* the service itself, then pod names in order */
	size_t n_told;
	size_t n_records;
	struct record *slices, *rules; /* by next_alike */
	char *noted; /* the last note about its rules; NULL: none */
	struct route_place *places; /* the routes whose parent it is */
	size_t n_places;
	/* a pod by its address, while it is wanted; what was asked for, the last one last */
	TAILQ_ENTRY(joint) pods;
	bool is_pod;
	uint8_t n_asked;
	struct pod_port *asked;
	char *ns, *name;
};

struct record {
	struct table_node node;
	enum kube_kind kind;
	struct said *said;
	const struct kube_object *object; /* in force */
	struct links *links;
	struct joint *joint;
	struct record *next_alike; /* slice or rule of the joint */
	struct route_state *route;
	uint64_t route_told; /* hash of what cluster_next_route returned; 0: nothing yet */
	const char *ns, *name; /* the object's */
};

struct cluster {
	struct table records, sources, joints;
	union { /* of struct link */
		struct table linked[17];
		struct {
			/* endpoints that name a pod, or a node and an address: link_joint */
			struct table joints_by_pod;
			struct table
				joints_by_selector; /* first pair of the selector: link_joint */
			struct table pods_by_label, pods_by_ip, pods_by_namespace;
			struct table pods_by_node; /* those identified by their address */
			struct table by_address; /* nodes, pods and services */
			struct table nodes, rules, namespaces;
			struct table policies; /* NetworkPolicies, by namespace */
			/* the latter by Service */
			struct table routes, routes_by_parent, routes_by_backend;
			struct table grants; /* ReferenceGrants, by namespace */
			/* BackendTLSPolicies, which are among the routes as well; by the ConfigMaps
			 * they name */
			struct table policies_by_service, policies_by_map;
		};
	};
	uint64_t tls_changes;
	TAILQ_HEAD(, route_state) routes_waiting;
	struct table callers_changed; /* nodes, until cluster_next_callers */
	TAILQ_HEAD(, changed_node) callers_waiting;
	size_t n_restricted; /* views sent with restricted callers */
	TAILQ_HEAD(, joint) waiting;
	TAILQ_HEAD(, joint) pods; /* wanted by their address */
	size_t n_pods;
	char *ranges; /* cluster_pod_ranges, as of node_changes == ranges_at; NULL: none yet */
	uint64_t ranges_at;
	TAILQ_HEAD(, joint)
	unmatched; /* the least recently checked by cluster_look_near first */
	TAILQ_HEAD(, pending) pending;
	TAILQ_HEAD(, note) notes;
	uint64_t generation;
	uint64_t node_changes;
	cluster_dials_fn *dials; /* NULL: never */
	void *dials_arg;
	size_t n_refused; /* of the views sent */
	size_t count[KUBE_KINDS];
};

/* --- cluster_netpolicy.c -------------------------------------------------------------------- */
uint64_t cluster_netpolicy_hash(const char *ns);
/* Who may call this port of the pod according to the NetworkPolicies that select it, on the heap;
 * NULL: everybody. */
char *cluster_netpolicy_gate(
	const struct cluster *c, const struct kube_object *pod, uint16_t port, uint8_t protocol);

/* --- cluster_callers.c ---------------------------------------------------------------------- */
uint64_t cluster_callers_hash(const char *node);
/* Pods or labels of this node have changed. */
void cluster_callers_touch(struct cluster *c, const char *node);
void cluster_callers_fini(struct cluster *c);

uint64_t cluster_hash(char what, const char *a, const char *b, const char *c);
/* Hashes of the indexes. */
uint64_t cluster_address_hash(const char *address);
uint64_t cluster_pod_hash(const char *ns, const char *pod);
uint64_t cluster_ip_hash(const char *node, const char *ip);
static inline bool
cluster_is_v6(const char *ip)
{
	return strchr(ip, ':') != NULL;
}
/* Of an address and its like beside an IPv4 one: that of the family, else the only one. */
static inline const char *
cluster_of_family(const char *ip, const char *ip6, bool v6)
{
	return v6 && *ip6 != '\0' ? ip6 : ip;
}
/* In the spelling of the API server. */
static inline bool
cluster_pod_is_at(const struct kube_pod *p, const char *ip)
{
	return strcmp(p->pod_ip, ip) == 0 || (*ip != '\0' && strcmp(p->pod_ip6, ip) == 0);
}
uint64_t cluster_label_hash(const char *ns, const struct kube_label *l);
const struct kube_object *cluster_find(
	const struct cluster *c, enum kube_kind kind, const char *ns, const char *name);
bool cluster_selects(const struct kube_labels *selector, const struct kube_labels *labels);

/* A view and its explanations. */
struct joined {
	struct view *view;
	struct reasons why;
	const char *nodes; /* selector, the service's */
	bool beyond; /* beyond model/limits.h, as the reason says; the view is incomplete */
};

/* --- cluster.c ------------------------------------------------------------------------------ */
/* Queues a message for the log; takes the text. */
void cluster_note(struct cluster *c, char *text);
/* --- cluster_limits.c ----------------------------------------------------------------------- */
/* What was last sent for the service or pod name; NULL: nothing. */
const struct told *cluster_find_told(const struct cluster *c, const char *ns, const char *name);
/* Refuses the view, with the reason, when its JSON is beyond model/limits.h. */
void cluster_check_limits(struct joined *now, const struct buf *json);

/* --- cluster_join.c ------------------------------------------------------------------------- */
/* The joint's views, on the heap: the service's own and those of its named pods; 0: none. */
size_t cluster_join(const struct cluster *c, const struct joint *joint, struct joined **views);

/* --- cluster_pod.c -------------------------------------------------------------------------- */
/* The view of the pod; 0: there is no such pod any more. */
size_t cluster_pod_join(const struct cluster *c, const struct joint *joint, struct joined **views);
/* No longer wanted. */
void cluster_pod_forget(struct cluster *c, struct joint *j);
/* Marks the wanted pods that the record's object can affect. */
void cluster_pod_mark(struct cluster *c, const struct record *r);

/* --- cluster_index.c ------------------------------------------------------------------------ */
struct record *cluster_find_record(
	const struct cluster *c, enum kube_kind kind, const char *ns, const char *name);
uint64_t cluster_record_hash(enum kube_kind kind, const char *ns, const char *name);
struct joint *cluster_find_joint(const struct cluster *c, const char *ns, const char *name);
struct joint *cluster_use_joint(struct cluster *c, const char *ns, const char *name);
void cluster_joint_free(struct joint *j);
void cluster_told_free(struct told *told, size_t n);
/* cluster_link adds the record's object to the indexes, cluster_unlink removes it. */
void cluster_link(struct cluster *c, struct record *r);
void cluster_unlink(struct cluster *c, struct record *r);
/* Has the joint joined again; j may be NULL. */
void cluster_index_mark(struct cluster *c, struct joint *j);
/* Marks the services that the record's object can affect. */
void cluster_mark_affected(struct cluster *c, const struct record *r);
void cluster_mark_all(struct cluster *c);

/* --- cluster_rule.c ------------------------------------------------------------------------- */
/* Inserts a rule into a joint's list, in which the rule that applies comes first. */
void cluster_rule_place(struct record **at, struct record *r);
/* Applies the joint's DestinationRules where the service itself sets nothing. */
void cluster_rule_apply(const struct cluster *c, const struct joint *joint,
	const struct kube_service *s, struct view *v);
/* Queues a note about rules that do not apply, once; `there`: the service exists. */
void cluster_rule_look(struct cluster *c, struct joint *joint, bool there);

/* --- cluster_route.c ------------------------------------------------------------------------ */
static inline bool
cluster_is_route(enum kube_kind kind)
{
	return kind == KUBE_HTTPROUTE || kind == KUBE_GRPCROUTE;
}
uint64_t cluster_route_hash(char what, const char *ns, const char *name);
/* Joins the routes whose parent the joint's Service is into its view, and keeps in the joint what
 * became of each. */
void cluster_route_attach(struct cluster *c, struct joint *j, struct view *v);
/* The ports of the Service that the parentRef means, into a bitmap of its `ports`. */
struct route_ports {
	uint64_t bits[MESH_PORTS_MAX / 64];
};
/* By its name and appProtocol. */
enum port_mode cluster_port_mode(const struct kube_service_port *p);
struct route_ports cluster_route_ports(
	const struct kube_service *s, const struct kube_route_parent *p);
static inline bool
cluster_route_has_port(const struct route_ports *p, size_t i)
{
	return i < MESH_PORTS_MAX && (p->bits[i / 64] >> (i % 64) & 1) != 0;
}
bool cluster_route_any_port(const struct route_ports *p);
/* Can the Service be a parent? NULL: yes, else why not. */
const char *cluster_route_refuses(const struct kube_service *s);
/* The status of the route has to be computed again. */
void cluster_route_touch(struct cluster *c, struct record *r);
/* Begins and ends a record's state as a route. */
void cluster_route_link(struct cluster *c, struct record *r);
void cluster_route_unlink(struct cluster *c, struct record *r);

/* --- cluster_backend_tls.c ------------------------------------------------------------------ */
/* Says at which of the view's ports TLS is spoken to the endpoints. */
void cluster_backend_tls_attach(const struct cluster *c, const struct joint *j, struct joined *now);
/* The status of the Service's policies has to be computed again. */
void cluster_backend_tls_touch(struct cluster *c, const char *ns, const char *service);
/* The policy has changed; a ConfigMap that policies may name has. */
void cluster_backend_tls_mark(struct cluster *c, const struct record *r);
void cluster_backend_tls_mark_map(struct cluster *c, const char *ns, const char *name);
/* What the status says of one target. */
void cluster_backend_tls_status(
	const struct cluster *c, const struct record *r, struct cluster_route_parent *p);

/* --- cluster_route_order.c ------------------------------------------------------------------ */
/* A match of one of several routes, which are in order of age. */
struct route_match {
	const struct http_route_match *match;
	size_t route; /* by age */
	uint32_t rule; /* in the view's list */
	uint32_t nth; /* in its route */
};
void cluster_route_sort(struct route_match *list, size_t n, bool grpc);
/* Older routes first, then by namespace/name. */
int cluster_route_compare_age(const struct record *a, const struct record *b);

/* --- cluster_route_ref.c -------------------------------------------------------------------- */
enum route_ref_fault {
	ROUTE_REF_WELL,
	ROUTE_REF_NOT_PERMITTED,
	ROUTE_REF_INVALID_KIND,
	ROUTE_REF_NOT_FOUND,
	ROUTE_REF_PROTOCOL,
};
/* Does the backendRef of the route, attached to a Service of namespace parent_ns, lead to a port of
 * a Service? If not, *why gets a sentence on the heap, unless why is NULL. kind: "", or what it
 * names instead of a Service. */
struct route_backend {
	const char *ns, *name, *kind;
	uint16_t port;
};
enum route_ref_fault cluster_route_resolve(const struct cluster *c, const struct record *route,
	const char *parent_ns, const struct route_backend *b, char **why);

/* --- cluster_member.c ----------------------------------------------------------------------- */
/* A pod or address that belongs to the service; a pod of both families is two members, which
 * join_dedupe makes one endpoint. */
struct member {
	const struct kube_object *pod; /* NULL: a bare address */
	const char *ip, *node, *zone, *hostname; /* zone: NULL or "" when unknown */
	const struct view_names *hint_zones, *hint_nodes; /* NULL: none */
	/* the subset whose ports it serves; NULL: its pod decides */
	const struct kube_subset *subset;
	/* the subset's target ports, by port of the service (0: none); j->targets owns them */
	const uint16_t *targets;
	uint8_t flags;
};

struct members {
	const struct member **list;
	size_t n;
};

/* One service being joined, with the current view and port. */
struct joining {
	const struct cluster *c;
	const struct joint *joint;
	const char *ns, *name;
	const struct kube_service *service;
	struct member *members;
	size_t n_members, members_room;
	uint16_t **targets; /* of each subset */
	size_t n_targets;
	bool nobody; /* nothing defines the members */
	/* the first pod by name that endpoints name, and that does not exist */
	const char *missing;
	bool dual; /* members have addresses of both families */
	struct joined *views;
	size_t n_views;
	struct view *view;
	size_t ports_room; /* of `view` */
	const struct kube_service_port *at;
	bool declared; /* `at` is a port that some pod declares, not one of the service */
	struct view_port *port;
	size_t room; /* endpoints of `port` */
	/* Cache of the last pod's gate in this view: most of a service's pods are alike. */
	const struct kube_object *gate_pod; /* NULL: none yet */
	uint16_t gate_port;
	uint8_t gate_protocol, gate;
	size_t n_endpoints; /* of all ports of `view` */
	char *beyond; /* the limit that `view` exceeds; NULL: it may be sent */
	struct reasons why; /* of `view` */
	bool quiet; /* record no reasons */
};

/* cluster_join.c: adds sp as an extra port if its number is unused, with the members that have
 * it. */
void cluster_join_extra(struct joining *j, const struct kube_service_port *sp, uint16_t number,
	const struct members *members);
void cluster_join_declared(struct joining *j, const struct members *members);
struct view *cluster_join_new_view(struct joining *j, const char *hostname);
/* Fills j->members, at most VIEW_MAX_MEMBERS. */
void join_gather(struct joining *j, const struct joint *joint);
/* Adds the pod itself, by its addresses. */
void join_gather_pod(struct joining *j, const struct kube_object *o);
void join_members_free(struct joining *j);
/* The container port that the service's port targets; 0: the pod has none with this name. */
uint16_t join_find_target(const struct kube_pod *p, const struct kube_service_port *sp);
/* Where the member serves sp; 0: nowhere. */
uint16_t join_member_port(
	struct joining *j, const struct member *m, const struct kube_service_port *sp);

/* --- cluster_reason.c ----------------------------------------------------------------------- */
void cluster_reasons_fini(struct reasons *why);
/* Takes the text, unless a problem of equal or higher rank is already recorded. */
void cluster_reasons_set(struct reasons *why, enum cluster_problem problem, char *text);
/* The same, for the current port. */
void join_explain(struct joining *j, enum cluster_problem problem, const char *fmt, ...)
	printf_like(3, 4);
/* Records a pod of `node` without a hostPort for this container port. */
void join_behind(struct joining *j, const char *pod, const char *node, uint16_t port);
/* Records that no container of the members' pods has a port with the name that sp targets. False:
 * this is not the reason. */
bool join_explain_target(
	struct joining *j, const struct kube_service_port *sp, const struct members *members);
/* Marks the view as beyond a limit, not to be sent. The first reason is kept. */
void join_beyond(struct joining *j, const char *fmt, ...) printf_like(2, 3);

/* --- cluster_near.c ------------------------------------------------------------------------- */
/* Called after a joint was checked: updates whether its selector matches no pod. */
void cluster_near_mark(struct cluster *c, struct joint *j);
void cluster_near_forget(struct cluster *c, struct joint *j);
uint64_t cluster_namespace_hash(const char *ns);

/* --- cluster_endpoint.c --------------------------------------------------------------------- */
const struct kube_container_port *join_find_number(
	const struct kube_pod *p, uint16_t port, uint8_t protocol);
void join_add(struct joining *j, const struct member *m, uint16_t port);
/* Puts the view's gates in order. */
void join_sort_gates(struct view *v);
/* Sorts the port's endpoints, and merges duplicates from several slices. */
void join_dedupe(struct joining *j);

#define node_of(type, entry) container_of(entry, type, node)

static inline struct record *
link_record(const struct table_node *n)
{
	const struct link *l = (const struct link *)n - (n->tag >> LINK_TABLE_BITS);

	return ((const struct links *)((const char *)l - offsetof(struct links, list)))->record;
}

static inline struct joint *
link_joint(const struct table_node *n)
{
	return link_record(n)->joint;
}

#endif
