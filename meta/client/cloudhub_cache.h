/*
 * What a CloudHub has reported about the cluster, and which stored services differ from it. Input
 * are whole v1 objects, one by one or as lists; model/cluster/cluster combines them; output are the
 * changes that bring the store up to date:
 *
 *	cloudhub_cache_stored(m, key, digest);		// for each service that the store holds
 *	cloudhub_cache_listed(m, &list, err);		// or cloudhub_cache_put, ..._delete
 *	while (cloudhub_cache_next(m, &change))		// change.json NULL: delete
 *		...
 *
 * A list is complete for its scope (all services; the pods of one): an object that is missing from
 * it is gone, unless it is newer than the list. A stored service stays unchanged until this
 * connection has reported enough about it: it is deleted only after the list of services has come,
 * and a view without its pods does not replace it. Objects older than the version
 * (metadata.resourceVersion) that the connection has told are ignored. Pure; one thread.
 */
#ifndef EDGEWAY_META_CLIENT_CLOUDHUB_CACHE_H
#define EDGEWAY_META_CLIENT_CLOUDHUB_CACHE_H

#include "model/kube.h"

struct cloudhub_cache;

enum { CLOUDHUB_CACHE_OBJECTS_MAX = 250000 };

struct cloudhub_cache_object {
	enum kube_kind kind;
	const char *ns, *name; /* as given in the message's resource */
	const struct tree_node *content; /* the object; may be NULL for a deletion */
};

struct cloudhub_cache_list {
	enum kube_kind kind;
	const char *ns, *service; /* of a list of pods; NULL: the whole cluster */
	bool gone; /* of pods: none are left, whatever the content */
	const struct tree_node *content; /* a list, or an object with `items` */
};

struct cloudhub_cache_question {
	enum kube_kind kind; /* KUBE_POD: asks for the pods of the service */
	const char *ns, *service; /* borrowed until the next call */
};

struct cloudhub_cache_change { /* borrowed until the next call */
	const char *ns, *name;
	const char *json; /* NULL: deleted */
	size_t len;
};

struct cloudhub_cache *cloudhub_cache_new(void);
void cloudhub_cache_free(struct cloudhub_cache **m);

/* A new connection: everything must be asked again, nothing counts as listed, and no version is
 * known: those of a cluster that was restored from an older etcd are lower. */
void cloudhub_cache_begin(struct cloudhub_cache *m);
/* Sets the services that the store holds anew: call forget once, then stored for each. */
void cloudhub_cache_forget_stored(struct cloudhub_cache *m);
void cloudhub_cache_stored(struct cloudhub_cache *m, const char *key, uint64_t digest);

/* Returns 0; 1: older than the known version, ignored; -EINVAL with the reason; -ENOSPC: too many
 * objects. */
int cloudhub_cache_put(
	struct cloudhub_cache *m, const struct cloudhub_cache_object *o, struct err *err);
int cloudhub_cache_delete(
	struct cloudhub_cache *m, const struct cloudhub_cache_object *o, struct err *err);
/* Returns the number of refused items (their last valid version stays in use; err describes the
 * first), or -EINVAL: not a list. */
int cloudhub_cache_listed(
	struct cloudhub_cache *m, const struct cloudhub_cache_list *list, struct err *err);

/* The next question for the hub; false: none. */
bool cloudhub_cache_ask(struct cloudhub_cache *m, struct cloudhub_cache_question *q);
/* The hub did not answer this question, or reported that there is no such object. */
void cloudhub_cache_give_up(struct cloudhub_cache *m, const struct cloudhub_cache_question *q);

/* The next change, which then counts as stored. */
bool cloudhub_cache_next(struct cloudhub_cache *m, struct cloudhub_cache_change *change);
/* The last change could not be taken now: cloudhub_cache_next returns it again. */
void cloudhub_cache_again(struct cloudhub_cache *m);
/* Whether the list of services has come on this connection. */
bool cloudhub_cache_has_list(const struct cloudhub_cache *m);
size_t cloudhub_cache_objects(const struct cloudhub_cache *m);

#endif
