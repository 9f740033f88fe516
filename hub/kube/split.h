/*
 * Cuts an answer of the API server into JSON values while it arrives, wherever the chunks end, so
 * that memory follows the largest object and not the length of a list:
 *
 *   SPLIT_STREAM   values one after another (a watch); blanks between them do not matter
 *   SPLIT_LIST     one object; the elements of its member "items" come one by one, the rest is kept
 *
 * Only brackets and strings are looked at: whoever parses a value checks it. A value of more than
 * `value_max` bytes is passed over and told as text NULL. One object that no parser takes would
 * spoil the whole list, and with it the work of everybody else's: so what is nested deeper than
 * SPLIT_DEPTH_KEPT (metadata.managedFields may be) is left out, its bracket stays empty, and
 * \u0000, which Kubernetes lets stand in an annotation, becomes \ufffd. Leaf; bytes of the network.
 *
 *	split_init(&s, SPLIT_LIST, on_item, arg);
 *	rc = split_feed(&s, data, len);	// 0, -EBADMSG, or what on_item returned
 *	if (split_whole(&s))
 *		rest = split_rest(&s, &len);	// {"kind":..,"metadata":{..},"items":[]}
 *	split_fini(&s);
 */
#ifndef EDGEWAY_HUB_KUBE_SPLIT_H
#define EDGEWAY_HUB_KUBE_SPLIT_H

#include "base/core/buf.h"

enum {
	SPLIT_VALUE_MAX = 4 << 20, /* etcd takes 1.5 MB; JSON may be some times as long */
	SPLIT_REST_MAX = 64 << 10,
	SPLIT_DEPTH_KEPT = 48, /* of a value; nothing that is read has 20 */
	SPLIT_DEPTH_MAX = 1000, /* outside of values */
};

enum split_mode { SPLIT_STREAM, SPLIT_LIST };

/* Not 0: split_feed stops and returns it. */
typedef int split_fn(void *arg, const char *text, size_t len);

struct split {
	enum split_mode mode;
	split_fn *fn;
	void *arg;
	size_t value_max;
	struct buf value, rest;
	unsigned depth, deep; /* deep: what is within this depth is left out; 0: nothing */
	bool in_string, escaped, in_items, in_value, too_large, ended;
	char word[8]; /* last string at depth 1, cut */
	size_t word_len;
};

void split_init(struct split *s, enum split_mode mode, split_fn *fn, void *arg);
void split_fini(struct split *s);
int split_feed(struct split *s, const char *data, size_t len);
/* Is nothing under way, and, for a list, has it ended? */
bool split_whole(const struct split *s);
const char *split_rest(struct split *s, size_t *len);

#endif
