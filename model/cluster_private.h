/*
 * Between cluster.c (what is known, who is affected) and cluster_join.c (a service's view from it).
 *
 * A record is an object's name; one or more sources say it, the one sorting first is in force. A joint is a
 * service's name with all that belongs to it; it lives as long as a record is attached, a view is
 * told, or it waits to be looked at. Links are the indexes' entries; they belong to the record whose object they
 * come from and are made anew when it changes.
 */
#ifndef EDGEWAY_MODEL_CLUSTER_PRIVATE_H
#define EDGEWAY_MODEL_CLUSTER_PRIVATE_H

#include <sys/queue.h>

#include "model/cluster.h"
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

struct link {
	struct table_node node;
	struct link *next; /* of the record */
	struct table *in;
	void *target; /* joint or record */
};

struct joint {
	struct table_node node;
	TAILQ_ENTRY(joint) waiting;
	bool dirty, told;
	uint64_t digest; /* of the view told last */
	size_t n_records;
	struct record *slices; /* by next_slice */
	char *reason;
	char *ns, *name;
};

struct record {
	struct table_node node;
	enum kube_kind kind;
	struct said *said;
	const struct kube_object *object; /* in force */
	struct link *links;
	struct joint *joint;
	struct record *next_slice;
	char *ns, *name;
};

struct cluster {
	struct table records, sources, joints;
	struct table joints_by_pod; /* endpoints that name a pod, or a node and an address */
	struct table joints_by_selector; /* first pair of the selector */
	struct table pods_by_label, pods_by_ip;
	TAILQ_HEAD(, joint) waiting;
	uint64_t generation;
	size_t count[KUBE_KINDS];
};

uint64_t cluster_hash(char what, const char *a, const char *b, const char *c);
/* Hashes of the indexes. */
uint64_t cluster_pod_hash(const char *ns, const char *pod);
uint64_t cluster_ip_hash(const char *node, const char *ip);
uint64_t cluster_label_hash(const char *ns, const struct kube_label *l);
const struct kube_object *cluster_find(
	const struct cluster *c, enum kube_kind kind, const char *ns, const char *name);
bool cluster_selects(const struct kube_labels *selector, const struct kube_labels *labels);

/* The joint's view, NULL when it has none; *reason on the heap, NULL when there is nothing to say. */
struct view *cluster_join(const struct cluster *c, const struct joint *joint, char **reason);

/* --- cluster_index.c --- */
struct record *cluster_find_record(
	const struct cluster *c, enum kube_kind kind, const char *ns, const char *name);
uint64_t cluster_record_hash(enum kube_kind kind, const char *ns, const char *name);
struct joint *cluster_find_joint(const struct cluster *c, const char *ns, const char *name);
void cluster_joint_free(struct joint *j);
/* Enters the record's object in force into the indexes, and takes it out. */
void cluster_link(struct cluster *c, struct record *r);
void cluster_unlink(struct record *r);
/* Marks the services that the record's object in force can affect. */
void cluster_mark_affected(struct cluster *c, const struct record *r);
void cluster_mark_all(struct cluster *c);

/* --- cluster_endpoint.c --- */
/* One service being joined, and the port at which we are. */
struct joining {
	const struct cluster *c;
	const char *ns, *name;
	const struct kube_service *service;
	const struct kube_service_port *at;
	struct view_port *port;
	size_t room; /* endpoints of `port` */
	char *reason;
};

/* A pod or address that serves the port. */
struct member {
	const struct kube_object *pod; /* NULL: a bare address */
	const char *ip, *node, *zone, *hostname;
	const struct view_names *hint_zones, *hint_nodes; /* NULL: none */
	uint16_t port;
	uint8_t flags;
};

/* Why the service cannot be reached, for a person: the first reason is kept. */
void join_explain(struct joining *j, const char *fmt, ...) printf_like(2, 3);
void join_add(struct joining *j, const struct member *m);
/* Orders the port's endpoints, and makes one of those that several slices name. */
void join_dedupe(struct joining *j);

#define node_of(type, entry) container_of(entry, type, node)

#endif
