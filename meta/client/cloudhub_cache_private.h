/*
 * Shared by the files of the CloudHub cache: cloudhub_cache_take.c (objects and lists from the
 * hub), cloudhub_cache_names.c (known objects, by name) and cloudhub_cache.c (differences from the
 * store, questions). Not included elsewhere.
 *
 *	objects ─ cloudhub_cache_take ─► cluster, scopes ─► ready entries ─ cloudhub_cache_next
 *							    ─► changes
 */
#ifndef EDGEWAY_META_CLIENT_CLOUDHUB_CACHE_PRIVATE_H
#define EDGEWAY_META_CLIENT_CLOUDHUB_CACHE_PRIVATE_H

#include <sys/queue.h>

#include "meta/client/cloudhub_cache.h"
#include "model/cluster/cluster.h"
#include "model/table.h"

#define node_of(type, entry) container_of(entry, type, node)

/* An object by name with its known version; gone: only the version is left, so that a late message
 * does not bring the object back. */
struct object {
	struct table_node node;
	enum kube_kind kind;
	uint64_t version; /* as told on this connection; 0: unknown */
	uint64_t seen; /* number of the last list that contained it */
	unsigned n_scopes; /* number of pod lists that contain it */
	bool gone;
	char *ns, *name;
};

struct scope;

/* A service, or a pod's name, as it is stored and as it should be. */
struct entry {
	struct table_node node;
	TAILQ_ENTRY(entry) of_scope, ready;
	struct scope *scope;
	bool is_ready, is_stored, is_wanted;
	uint64_t stored, wanted; /* digests */
	char *json; /* the wanted view; kept because a lost store needs it again */
	size_t len;
	char *key; /* "ns/name" */
};

enum question { ASK_PODS, ASK_ENDPOINTS, ASKED };

/* A service with its pods, endpoints and entries. */
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
	struct entry *last; /* last returned by cloudhub_cache_next */
	uint64_t list; /* number of the current list */
	bool listed;
};

/* --- cloudhub_cache_names.c ----------------------------------------------------------------- */
struct object *cloudhub_cache_find_object(
	const struct cloudhub_cache *m, enum kube_kind kind, const char *ns, const char *name);
/* A new object starts as gone. NULL: there are too many. */
struct object *cloudhub_cache_use_object(
	struct cloudhub_cache *m, enum kube_kind kind, const char *ns, const char *name);
/* Forgets the names of gone objects, after a list has confirmed that they are gone. */
void cloudhub_cache_forget_gone(struct cloudhub_cache *m);
struct scope *cloudhub_cache_find_scope(
	const struct cloudhub_cache *m, const char *ns, const char *name);
struct scope *cloudhub_cache_use_scope(struct cloudhub_cache *m, const char *ns, const char *name);
/* Frees the scope if nothing refers to it. */
void cloudhub_cache_release_scope(struct cloudhub_cache *m, struct scope *s);
/* Whether everything that its views need has been reported. */
bool cloudhub_cache_knows_scope(const struct scope *s);
struct entry *cloudhub_cache_use_entry(struct cloudhub_cache *m, const char *key);
/* Frees the entry if it is neither stored nor wanted. */
void cloudhub_cache_release_entry(struct cloudhub_cache *m, struct entry *e);
/* Makes the entry ready for cloudhub_cache_next. */
void cloudhub_cache_look_at(struct cloudhub_cache *m, struct entry *e);
void cloudhub_cache_look_at_scope(struct cloudhub_cache *m, struct scope *s);
void cloudhub_cache_look_at_all(struct cloudhub_cache *m);
/* Queues the scope for cloudhub_cache_ask, unless all its questions were asked. */
void cloudhub_cache_ask_about(struct cloudhub_cache *m, struct scope *s);
void cloudhub_cache_free_names(struct cloudhub_cache *m);

#endif
