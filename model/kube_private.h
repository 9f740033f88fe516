/*
 * Shared by the files of the Kubernetes decoder: typed access to a document's members. It records
 * the first error with file and line, and returns a harmless value, so that decoders need no error
 * paths.
 */
#ifndef EDGEWAY_MODEL_KUBE_PRIVATE_H
#define EDGEWAY_MODEL_KUBE_PRIVATE_H

#include "model/kube.h"

struct decoder {
	const char *file;
	int rc; /* 0 or the first complaint's -errno */
	struct err err; /* the error, else a note */
	bool noting;
};

/* `at` gives the line. kube_wrong refuses the object, kube_note only reports. */
void kube_wrong(struct decoder *d, const struct tree_node *at, const char *fmt, ...)
	printf_like(3, 4);
void kube_note(struct decoder *d, const struct tree_node *at, const char *fmt, ...)
	printf_like(3, 4);

/* A text on the heap, "" when absent. check NULL: any text of at most 253 bytes. */
typedef bool (*kube_check_fn)(const char *text, size_t len);
char *kube_text(
	struct decoder *d, const struct tree_node *map, const char *key, kube_check_fn check);
/* 1..65535; 0 when absent. */
uint16_t kube_port(struct decoder *d, const struct tree_node *map, const char *key);
/* enum kube_protocol; -1: none of them. */
int kube_find_protocol(const char *word);
uint8_t kube_protocol(struct decoder *d, const struct tree_node *map);
struct kube_labels kube_labels(struct decoder *d, const struct tree_node *map);
/* Adds the label unless there is one with that key. */
void kube_labels_default(struct kube_labels *l, const char *key, const char *value);
/* The list map.key; NULL when absent, or when it is not a list, which makes the object invalid. */
const struct tree_node *kube_list(struct decoder *d, const struct tree_node *map, const char *key);
size_t kube_count(const struct tree_node *list);
/* Adds an address to a pair: *ip is the first IPv4 address, else the first; *ip6 the first IPv6 one
 * beside an IPv4 one. Takes `add`; all on the heap. */
void kube_ips_add(char **ip, char **ip6, char *add);
/* The pair of the text names[0] and the members names[2] of the list names[1]; "" when none. */
void kube_ips(struct decoder *d, const struct tree_node *map, const char *const names[3], char **ip,
	char **ip6);

/* Annotations, session affinity and locality. */
void kube_policy_decode(struct decoder *d, const struct tree_node *n, struct kube_service *s);
void kube_service_decode(struct decoder *d, const struct tree_node *n, struct kube_service *s);
void kube_pod_decode(struct decoder *d, const struct tree_node *n, struct kube_pod *p);
void kube_slice_decode(
	struct decoder *d, const struct tree_node *n, const char *ns, struct kube_endpoints *e);
void kube_endpoints_decode(
	struct decoder *d, const struct tree_node *n, const char *ns, struct kube_endpoints *e);
void kube_node_decode(struct decoder *d, const struct tree_node *n, struct kube_node *node);
/* ns: the object's. */
void kube_rule_decode(
	struct decoder *d, const struct tree_node *n, const char *ns, struct kube_rule *r);

void kube_netpolicy_decode(struct decoder *d, const struct tree_node *n, struct kube_netpolicy *p);
void kube_namespace_decode(struct decoder *d, const struct tree_node *n, struct kube_namespace *ns);

/* kind: KUBE_HTTPROUTE or KUBE_GRPCROUTE; ns, name: the object's. */
void kube_route_decode(struct decoder *d, const struct tree_node *n, struct kube_object *o);
/* Age, version and status; list: "status.parents", with what other controllers wrote there. */
void kube_route_decode_meta(const struct tree_node *object, struct kube_route *r, const char *list);
void kube_tls_policy_decode(struct decoder *d, const struct tree_node *n, struct kube_object *o);
void kube_config_map_decode(
	struct decoder *d, const struct tree_node *n, struct kube_config_map *m);
void kube_grant_decode(struct decoder *d, const struct tree_node *n, struct kube_grant *g);
/* metadata.creationTimestamp on the heap: 2026-11-21T20:45:05Z, which sorts as text; any other form
 * counts as absent. */
char *kube_created(const struct tree_node *n);

/* Moves a decoded Service, pod, slice or Endpoints into one block of memory; nothing in it may
 * change from then on. Other kinds stay as they are. */
void kube_pack(struct kube_object **object);

void kube_route_fini(struct kube_route *r);
void kube_tls_policy_fini(struct kube_tls_policy *p);
void kube_config_map_fini(struct kube_config_map *m);
void kube_grant_fini(struct kube_grant *g);
void kube_netpolicy_fini(struct kube_netpolicy *p);
void kube_service_fini(struct kube_service *s);
void kube_pod_fini(struct kube_pod *p);
void kube_endpoints_fini(struct kube_endpoints *e);
void kube_node_fini(struct kube_node *n);
void kube_rule_fini(struct kube_rule *r);
void kube_labels_fini(struct kube_labels *l);

#endif
