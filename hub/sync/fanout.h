/*
 * The services that every node should hold now: one item for each service, with its text frame,
 * built once per change and shared by all sessions; a session only writes its own msg_id into its
 * copy when sending. Watchers get every change, in order.
 *
 * The item of a removed service stays, as a pending deletion, as long as a session holds it. Items
 * have small numbers (`index`), so that a session can keep its state for them in an array; a number
 * is reused once its item is gone.
 *
 * On the hub's loop. Items belong to the fanout; fanout_hold keeps one alive.
 *
 *	fanout_set(f, &change);		// tells the watchers
 *	fanout_remove(f, "default", "web");
 *	fanout_settle(f);		// no more changes for now: watchers may send
 */
#ifndef EDGEWAY_HUB_SYNC_FANOUT_H
#define EDGEWAY_HUB_SYNC_FANOUT_H

#include "base/core/metric.h"
#include "model/cluster/cluster.h"
#include "model/digest.h"
#include "model/selector.h"

enum {
	FANOUT_ID_LEN = 36, /* a UUID */
	FANOUT_IDLE_TOLD = 200, /* services without endpoints that get metric series of their own */
};

struct fanout;

/* Numbers of a view, for lists and metrics. */
struct fanout_counts {
	uint16_t ports, endpoints,
		ready; /* endpoints: those that serve or might, at the port that has most */
	bool headless, external;
	bool idle; /* it has ports, and no endpoint that serves at any of them */
};

struct fanout_item {
	const char *key; /* "ns/name" */
	uint32_t index;
	bool present; /* else: to be deleted */
	uint64_t digest; /* of the view, 0 when not present */
	/* whole envelope; the FANOUT_ID_LEN bytes at id_at are to be filled in */
	const char *frame;
	size_t frame_len, id_at;
	const char *content; /* the view's JSON within the frame */
	size_t content_len;
	struct fanout_counts counts;
	const struct selector *nodes; /* nodes that get it; NULL: all */
	bool restricted; /* not every client may connect: only for agents that enforce that */
	/* a pod by its address (model/pod_name.h): only for the nodes that have asked for it, and
	 * for its own, "" when unknown */
	bool pod;
	const char *pod_node;
	/* State before this change; valid only within `changed`. */
	bool was_present;
	const struct selector *was_nodes;
	bool was_restricted;
	const char *was_pod_node;
};

typedef void fanout_fn(void *arg, struct fanout_item *item);
typedef void fanout_settled_fn(void *arg);

/* Embedded in the watcher. */
struct fanout_watch {
	struct fanout_watch *next, **at;
	fanout_fn *changed;
	fanout_settled_fn *settled;
	void *arg;
};

/* A whole frame; the FANOUT_ID_LEN bytes at id_at are to be filled in. */
struct fanout_frame {
	const char *frame;
	size_t len, id_at;
};

struct fanout *fanout_new(void);
/* There must be no watcher and no hold any more. */
void fanout_free(struct fanout **f);

void fanout_watch_start(struct fanout *f, struct fanout_watch *w, fanout_fn *changed,
	fanout_settled_fn *settled, void *arg);
void fanout_watch_stop(struct fanout_watch *w);

/* Adds or updates a view (change->view is not NULL). False: unchanged. */
bool fanout_set(struct fanout *f, const struct cluster_change *change);
/* False if there was none. */
bool fanout_remove(struct fanout *f, const char *ns, const char *name);
/* To be called after every series of the two calls above. */
void fanout_settle(struct fanout *f);

const struct digests *fanout_digests(const struct fanout *f);
size_t fanout_count(const struct fanout *f); /* services present */
uint32_t fanout_slots(const struct fanout *f); /* every index is below */
struct fanout_item *fanout_find(const struct fanout *f, const char *key);
/* The item of a key, created as a deletion if there is none: hold it at once. */
struct fanout_item *fanout_use(struct fanout *f, const char *key);
struct fanout_item *fanout_at(const struct fanout *f, uint32_t index); /* NULL: not in use */
/* Iterates over the items of a bucket (model/digest.h): NULL to begin and at the end. */
struct fanout_item *fanout_in_bucket(
	const struct fanout *f, unsigned bucket, struct fanout_item *last);

/* The item's frame as a bundle, built once for consecutive callers: valid until another item is
 * requested, the item changes, or fanout_settle returns. False if the bundle is not smaller. */
bool fanout_bundle(struct fanout *f, const struct fanout_item *item, struct fanout_frame *to);

/* Iterates over the present items that are not for all nodes: NULL to begin and at the end. */
struct fanout_item *fanout_narrowed(const struct fanout *f, struct fanout_item *last);
/* Appends the frame that deletes the service. */
void fanout_say_gone(struct buf *out, const struct fanout_item *item, const char *id);

/* A pod by its address is wanted by one more node, or by one less. */
void fanout_want_pod(struct fanout *f, struct fanout_item *item);
void fanout_unwant_pod(struct fanout *f, struct fanout_item *item);
/* It was of use to a node that has asked another replica. */
void fanout_touch_pod(struct fanout *f, struct fanout_item *item);
/* The cluster forgets the pods that no node wants, but for the FANOUT_PODS_UNWANTED that were of
 * use last; they are removed when it settles. */
enum { FANOUT_PODS_UNWANTED = 1024 };
void fanout_forget_pods(struct fanout *f, struct cluster *c);

void fanout_hold(struct fanout_item *item);
void fanout_release(struct fanout *f, struct fanout_item *item);

void fanout_metrics(const struct fanout *f, struct metrics *m);

#endif
