/*
 * What the files of the mirror share: mirror_take.c (what the hub tells: objects and lists),
 * mirror_names.c (what is known, by name) and mirror.c (what differs from the store, what is to be
 * asked). Nothing outside of these includes it.
 *
 *	objects ─ mirror_take ─► cluster, scopes ─► entries that are ready ─ cloudhub_cache_next ─► changes
 */
#ifndef EDGEWAY_META_CLIENT_CLOUDHUB_CACHE_PRIVATE_H
#define EDGEWAY_META_CLIENT_CLOUDHUB_CACHE_PRIVATE_H

#include <sys/queue.h>

#include "meta/client/cloudhub_cache.h"
#include "model/cluster/cluster.h"
#include "model/table.h"

#define node_of(type, entry) container_of(entry, type, node)

/* An object by name, of which a version is known; gone: only the version is, so that a late message
 * does not bring it back. */
struct object {
	struct table_node node;
	enum kube_kind kind;
	uint64_t version; /* 0: not said */
	uint64_t seen; /* number of the last list with it */
	unsigned n_scopes; /* lists of pods that have it */
	bool gone;
	char *ns, *name;
};

struct scope;

/* A service, or a name of pods, as it is stored and as it should be. */
struct entry {
	struct table_node node;
	TAILQ_ENTRY(entry) of_scope, ready;
	struct scope *scope;
	bool is_ready, is_stored, is_wanted;
	uint64_t stored, wanted; /* digests */
	char *json; /* wanted; kept, as a lost store wants it again */
	size_t len;
	char *key; /* "ns/name" */
};

enum question { ASK_PODS, ASK_ENDPOINTS, ASKED };

/* A service with all that hangs on it. */
struct scope {
	struct table_node node;
	TAILQ_HEAD(, entry) entries;
	TAILQ_ENTRY(scope) asking;
	bool is_asking;
	bool has_service, selects, plain; /* plain: it needs neither pods nor endpoints */
	bool pods_told, endpoints_told, given_up;
	enum question next;
	struct object **pods; /* of the last list */
	size_t n_pods;
	char *ns, *name;
};

TAILQ_HEAD(entries, entry);

struct cloudhub_cache {
	struct cluster *cluster;
	struct table objects, scopes, entries;
	struct entries ready;
	TAILQ_HEAD(, scope) asking;
	struct entry *last; /* that cloudhub_cache_next gave */
	uint64_t list; /* number of the present list */
	bool listed;
};

/* --- cloudhub_cache_names.c ------------------------------------------------------------------- */
struct object *cloudhub_cache_find_object(
	const struct cloudhub_cache *m, enum kube_kind kind, const char *ns, const char *name);
/* One that is new is gone, so far. NULL: there are too many. */
struct object *cloudhub_cache_use_object(
	struct cloudhub_cache *m, enum kube_kind kind, const char *ns, const char *name);
/* Names that are gone need not be remembered once a list says so. */
void cloudhub_cache_forget_gone(struct cloudhub_cache *m);
struct scope *cloudhub_cache_find_scope(
	const struct cloudhub_cache *m, const char *ns, const char *name);
struct scope *cloudhub_cache_use_scope(struct cloudhub_cache *m, const char *ns, const char *name);
/* Frees it when nothing hangs on it. */
void cloudhub_cache_release_scope(struct cloudhub_cache *m, struct scope *s);
/* Has all been told that its views need? */
bool cloudhub_cache_knows_scope(const struct scope *s);
struct entry *cloudhub_cache_use_entry(struct cloudhub_cache *m, const char *key);
/* Frees it when it is neither stored nor wanted. */
void cloudhub_cache_release_entry(struct cloudhub_cache *m, struct entry *e);
/* It is ready for cloudhub_cache_next. */
void cloudhub_cache_look_at(struct cloudhub_cache *m, struct entry *e);
void cloudhub_cache_look_at_scope(struct cloudhub_cache *m, struct scope *s);
void cloudhub_cache_look_at_all(struct cloudhub_cache *m);
/* It is in line for cloudhub_cache_ask, unless all was asked. */
void cloudhub_cache_ask_about(struct cloudhub_cache *m, struct scope *s);
void cloudhub_cache_free_names(struct cloudhub_cache *m);

#endif
