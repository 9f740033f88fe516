/*
 * What every node should hold now: one item for each service, with the text frame that tells it,
 * built once for a change and shared by all sessions; a session only puts a msg_id of its own into
 * its copy on the way out. Whoever watches is told of every change, in order.
 *
 * An item of a service that is gone stays, as a deletion to be told, for as long as a session
 * holds it. Items have small numbers (`index`), so that a session can keep its state of them in an
 * array; a number is used again once its item is gone.
 *
 * On the hub's loop. Items belong to the fanout; fanout_hold keeps one alive.
 *
 *	fanout_set(f, &change);		// tells the watchers
 *	fanout_remove(f, "default", "web");
 *	fanout_settle(f);		// those were all for now: what they make of it may leave together
 */
#ifndef EDGEWAY_HUB_SYNC_FANOUT_H
#define EDGEWAY_HUB_SYNC_FANOUT_H

#include "base/core/metric.h"
#include "model/cluster/cluster.h"
#include "model/digest.h"
#include "model/selector.h"

enum {
	FANOUT_ID_LEN = 36, /* a UUID */
	FANOUT_IDLE_TOLD = 200, /* services without endpoints that have series of their own */
};

struct fanout;

/* Of a view, for lists and metrics. */
struct fanout_counts {
	uint16_t ports, endpoints,
		ready; /* endpoints: places that serve or might, at the port that has most */
	bool headless, external;
	bool idle; /* it has ports, and no endpoint at any of them serves */
};

struct fanout_item {
	const char *key; /* "ns/name" */
	uint32_t index;
	bool present; /* else: to be deleted */
	uint64_t digest; /* of the view, 0 when not present */
	const char *frame; /* whole envelope with FANOUT_ID_LEN bytes to fill in at id_at */
	size_t frame_len, id_at;
	const char *content; /* the view's JSON within the frame */
	size_t content_len;
	struct fanout_counts counts;
	const struct selector *nodes; /* who is to know of it; NULL: all */
	bool restricted; /* not everybody may call it: only for agents that enforce that */
	/* What it was before this change; only while `changed` tells of it. */
	bool was_present;
	const struct selector *was_nodes;
	bool was_restricted;
};

typedef void fanout_fn(void *arg, struct fanout_item *item);
typedef void fanout_settled_fn(void *arg);

/* Embedded in who watches. */
struct fanout_watch {
	struct fanout_watch *next, **at;
	fanout_fn *changed;
	fanout_settled_fn *settled;
	void *arg;
};

/* A whole frame with FANOUT_ID_LEN bytes to fill in at id_at. */
struct fanout_frame {
	const char *frame;
	size_t len, id_at;
};

struct fanout *fanout_new(void);
/* Nobody may watch or hold any more. */
void fanout_free(struct fanout **f);

void fanout_watch_start(struct fanout *f, struct fanout_watch *w, fanout_fn *changed,
	fanout_settled_fn *settled, void *arg);
void fanout_watch_stop(struct fanout_watch *w);

/* Takes up a view (change->view is not NULL). False: the same as before. */
bool fanout_set(struct fanout *f, const struct cluster_change *change);
/* False when there was none. */
bool fanout_remove(struct fanout *f, const char *ns, const char *name);
/* To be called after every series of the two above. */
void fanout_settle(struct fanout *f);

const struct digests *fanout_digests(const struct fanout *f);
size_t fanout_count(const struct fanout *f); /* services present */
uint32_t fanout_slots(const struct fanout *f); /* every index is below */
struct fanout_item *fanout_find(const struct fanout *f, const char *key);
/* The item of a key, made as a deletion when there is none: hold it at once. */
struct fanout_item *fanout_use(struct fanout *f, const char *key);
struct fanout_item *fanout_at(const struct fanout *f, uint32_t index); /* NULL: not in use */
/* Items of a bucket (model/digest.h) one by one, NULL to begin and at the end. */
struct fanout_item *fanout_in_bucket(
	const struct fanout *f, unsigned bucket, struct fanout_item *last);

/* The item's frame as a bundle, made once for all who ask in a row: good until another item is
 * asked for, or the item changes, or fanout_settle returns. False when that is no smaller. */
bool fanout_bundle(struct fanout *f, const struct fanout_item *item, struct fanout_frame *to);

/* Items present that not all nodes are to know of, one by one, NULL to begin and at the end. */
struct fanout_item *fanout_narrowed(const struct fanout *f, struct fanout_item *last);
/* Appends the frame that tells that the service is gone. */
void fanout_say_gone(struct buf *out, const struct fanout_item *item, const char *id);

void fanout_hold(struct fanout_item *item);
void fanout_release(struct fanout *f, struct fanout_item *item);

void fanout_metrics(const struct fanout *f, struct metrics *m);

#endif
