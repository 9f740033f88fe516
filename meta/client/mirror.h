/*
 * What a CloudHub has told of the cluster, and which stored services differ from it. Whole v1
 * objects come in, one by one or as lists; model/cluster/cluster joins them; out come the changes
 * that make the store agree:
 *
 *	mirror_stored(m, key, digest);		// for each service that the store holds
 *	mirror_listed(m, &list, err);		// or mirror_put, mirror_delete
 *	while (mirror_next(m, &change))		// change.json NULL: delete
 *		...
 *
 * A list is all there is in its scope (all services; the pods of one): what it does not name is
 * gone, unless it is younger than the list. A stored service is left alone until this connection
 * has told what becomes of it: it is deleted only once the list of services has come, and a view
 * without its pods does not take its place. Objects older than what is known
 * (metadata.resourceVersion) are passed over. Pure; one thread.
 */
#ifndef EDGEWAY_META_CLIENT_MIRROR_H
#define EDGEWAY_META_CLIENT_MIRROR_H

#include "model/kube.h"

struct mirror;

enum { MIRROR_OBJECTS_MAX = 250000 };

struct mirror_object {
	enum kube_kind kind;
	const char *ns, *name; /* as the message's resource has them */
	const struct tree_node *content; /* the object; may be NULL for a deletion */
};

struct mirror_list {
	enum kube_kind kind;
	const char *ns, *service; /* of a list of pods; NULL: the whole cluster */
	bool gone; /* of pods: there are none any more, whatever the content */
	const struct tree_node *content; /* a list, or an object with `items` */
};

struct mirror_question {
	enum kube_kind kind; /* KUBE_POD: the pods of the service */
	const char *ns, *service; /* borrowed until the next call */
};

struct mirror_change { /* borrowed until the next call */
	const char *ns, *name;
	const char *json; /* NULL: gone */
	size_t len;
};

struct mirror *mirror_new(void);
void mirror_free(struct mirror **m);

/* A new connection: everything is to be asked again, nothing counts as listed. */
void mirror_begin(struct mirror *m);
/* The store's services anew: first forget, then say each. */
void mirror_forget_stored(struct mirror *m);
void mirror_stored(struct mirror *m, const char *key, uint64_t digest);

/* 0; 1: older than what is known, passed over; -EINVAL with the reason; -ENOSPC: too many
 * objects. */
int mirror_put(struct mirror *m, const struct mirror_object *o, struct err *err);
int mirror_delete(struct mirror *m, const struct mirror_object *o, struct err *err);
/* The number of items that were refused (their last good form counts on; err tells of the first),
 * or -EINVAL: no list. */
int mirror_listed(struct mirror *m, const struct mirror_list *list, struct err *err);

/* What to ask the hub next; false: nothing. */
bool mirror_ask(struct mirror *m, struct mirror_question *q);
/* The hub does not answer this question, or said that there is no such thing. */
void mirror_give_up(struct mirror *m, const struct mirror_question *q);

/* The next change, which then counts as stored. */
bool mirror_next(struct mirror *m, struct mirror_change *change);
/* It could not be taken now: mirror_next gives it again. */
void mirror_again(struct mirror *m);
/* The list of services came on this connection. */
bool mirror_has_list(const struct mirror *m);
size_t mirror_objects(const struct mirror *m);

#endif
