/*
 * What a CloudHub has told of the cluster, and which stored services differ from it. Whole v1
 * objects come in, one by one or as lists; model/cluster/cluster joins them; out come the changes
 * that make the store agree:
 *
 *	cloudhub_cache_stored(m, key, digest);		// for each service that the store holds
 *	cloudhub_cache_listed(m, &list, err);		// or cloudhub_cache_put, cloudhub_cache_delete
 *	while (cloudhub_cache_next(m, &change))		// change.json NULL: delete
 *		...
 *
 * A list is all there is in its scope (all services; the pods of one): what it does not name is
 * gone, unless it is younger than the list. A stored service is left alone until this connection
 * has told what becomes of it: it is deleted only once the list of services has come, and a view
 * without its pods does not take its place. Objects older than what is known
 * (metadata.resourceVersion) are passed over. Pure; one thread.
 */
#ifndef EDGEWAY_META_CLIENT_CLOUDHUB_CACHE_H
#define EDGEWAY_META_CLIENT_CLOUDHUB_CACHE_H

#include "model/kube.h"

struct cloudhub_cache;

enum { CLOUDHUB_CACHE_OBJECTS_MAX = 250000 };

struct cloudhub_cache_object {
	enum kube_kind kind;
	const char *ns, *name; /* as the message's resource has them */
	const struct tree_node *content; /* the object; may be NULL for a deletion */
};

struct cloudhub_cache_list {
	enum kube_kind kind;
	const char *ns, *service; /* of a list of pods; NULL: the whole cluster */
	bool gone; /* of pods: there are none any more, whatever the content */
	const struct tree_node *content; /* a list, or an object with `items` */
};

struct cloudhub_cache_question {
	enum kube_kind kind; /* KUBE_POD: the pods of the service */
	const char *ns, *service; /* borrowed until the next call */
};

struct cloudhub_cache_change { /* borrowed until the next call */
	const char *ns, *name;
	const char *json; /* NULL: gone */
	size_t len;
};

struct cloudhub_cache *cloudhub_cache_new(void);
void cloudhub_cache_free(struct cloudhub_cache **m);

/* A new connection: everything is to be asked again, nothing counts as listed. */
void cloudhub_cache_begin(struct cloudhub_cache *m);
/* The store's services anew: first forget, then say each. */
void cloudhub_cache_forget_stored(struct cloudhub_cache *m);
void cloudhub_cache_stored(struct cloudhub_cache *m, const char *key, uint64_t digest);

/* 0; 1: older than what is known, passed over; -EINVAL with the reason; -ENOSPC: too many
 * objects. */
int cloudhub_cache_put(
	struct cloudhub_cache *m, const struct cloudhub_cache_object *o, struct err *err);
int cloudhub_cache_delete(
	struct cloudhub_cache *m, const struct cloudhub_cache_object *o, struct err *err);
/* The number of items that were refused (their last good form counts on; err tells of the first),
 * or -EINVAL: no list. */
int cloudhub_cache_listed(
	struct cloudhub_cache *m, const struct cloudhub_cache_list *list, struct err *err);

/* What to ask the hub next; false: nothing. */
bool cloudhub_cache_ask(struct cloudhub_cache *m, struct cloudhub_cache_question *q);
/* The hub does not answer this question, or said that there is no such thing. */
void cloudhub_cache_give_up(struct cloudhub_cache *m, const struct cloudhub_cache_question *q);

/* The next change, which then counts as stored. */
bool cloudhub_cache_next(struct cloudhub_cache *m, struct cloudhub_cache_change *change);
/* It could not be taken now: cloudhub_cache_next gives it again. */
void cloudhub_cache_again(struct cloudhub_cache *m);
/* The list of services came on this connection. */
bool cloudhub_cache_has_list(const struct cloudhub_cache *m);
size_t cloudhub_cache_objects(const struct cloudhub_cache *m);

#endif
