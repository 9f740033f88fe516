/*
 * All services of a node at one moment: immutable, atomically reference-counted, indexed by
 * namespace/name and by fake IP. An update makes a new snapshot that shares every unchanged
 * service:
 *
 *	struct change c[] = {{ .ns = "default", .name = "web", .service = s }};	// NULL: deleted
 *	struct snapshot *next = snapshot_next(old, c, 1);	// takes over the references in c
 *	dns_use(dns, next);	// each adopter takes a reference of its own
 *	snapshot_unref(&next);
 *
 * Readers on other loops hold a reference; look-ups never allocate.
 */
#ifndef EDGEWAY_MODEL_SNAPSHOT_H
#define EDGEWAY_MODEL_SNAPSHOT_H

#include "base/core/special_addr.h"
#include "model/service.h"

struct snapshot;
struct local_callers;

struct snapshot_counts {
	size_t restricted; /* services with restricted callers */
	size_t external; /* services that are called from outside */
	size_t without_address; /* services that have no fake IP */
	size_t health_ports; /* services with a healthCheckNodePort */
	size_t refused[SPECIAL_CLASSES]; /* endpoints that are not dialled, by why */
};

struct change {
	const char *ns, *name;
	struct service *service;
};

/* An empty snapshot. `synced`: metadata has arrived at least once (from the hub or SQLite);
 * otherwise DNS answers SERVFAIL. */
struct snapshot *snapshot_new(bool synced);
struct snapshot *snapshot_next(const struct snapshot *base, const struct change *changes, size_t n);
struct snapshot *snapshot_ref(const struct snapshot *s);
void snapshot_unref(struct snapshot **s);

/* The same services, with other callers of this node (model/local_callers.h); takes over the
 * reference. */
struct snapshot *snapshot_with_callers(const struct snapshot *base, struct local_callers *callers);
/* NULL: the hub has sent none. */
const struct local_callers *snapshot_callers(const struct snapshot *s);
/* Of all its services: no reader walks over them for a sum. */
const struct snapshot_counts *snapshot_counts(const struct snapshot *s);
size_t snapshot_refused(const struct snapshot *s); /* of all classes */

bool snapshot_synced(const struct snapshot *s);
uint64_t snapshot_version(const struct snapshot *s); /* grows by one with each snapshot_next */
size_t snapshot_count(const struct snapshot *s);
/* Names are compared without case (DNS); they need not end in NUL. */
const struct service *snapshot_find(
	const struct snapshot *s, const char *ns, size_t ns_len, const char *name, size_t name_len);
const struct service *snapshot_find_ip(const struct snapshot *s, uint32_t fake_or_cluster_ip);
/* The pod by its own address; NULL: none, or several. */
const struct service *snapshot_find_pod(const struct snapshot *s, uint32_t ip);
const struct service *snapshot_find_ip6(
	const struct snapshot *s, const struct in6_addr *cluster_ip);
/* The service that is called from outside by this address and port, and which port of it: of
 * several the one whose namespace/name is the least. Its external addresses come first; with ip
 * NULL, or of no service, it is called at this node's own addresses. */
const struct service *snapshot_find_external(const struct snapshot *s, const struct in6_addr *ip,
	uint16_t port, bool udp, const struct service_port **p);
/* Does any service live in this namespace? (empty non-terminals, RFC 8020) */
bool snapshot_has_namespace(const struct snapshot *s, const char *ns, size_t ns_len);
/* Calls fn for each service that is not the same object in both: `old` NULL: new, `now` NULL: gone.
 * `base` NULL: everything is new. If `s` came from `base` in few steps, the cost depends on the
 * changes, not on the total. */
typedef void snapshot_diff_fn(void *arg, const struct service *old, const struct service *now);
void snapshot_diff(
	const struct snapshot *base, const struct snapshot *s, snapshot_diff_fn *fn, void *arg);
/* i in [0, snapshot_count): in no particular order. */
const struct service *snapshot_at(const struct snapshot *s, size_t i);

#endif
