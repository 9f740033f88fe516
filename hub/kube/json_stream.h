/*
 * Splits a response of the API server into JSON values while it arrives, wherever the chunks end,
 * so that memory use depends on the largest object and not on the length of a list:
 *
 *   JSON_STREAM_STREAM   values one after another (a watch); blanks between them do not matter
 *   JSON_STREAM_LIST     one object; the elements of its member "items" come one by one, the rest
 *                        is kept
 *
 * It looks only at brackets and strings: whoever parses a value checks it. A value of more than
 * `value_max` bytes is skipped and reported as text NULL. One object that no parser accepts would
 * make the whole list useless, and all other objects with it. So anything nested deeper than
 * JSON_STREAM_DEPTH_KEPT (metadata.managedFields may be) is left out, its bracket stays empty, and
 * \u0000, which Kubernetes allows in an annotation, becomes \ufffd. Leaf; input from the network.
 *
 *	json_stream_init(&s, JSON_STREAM_LIST, on_item, arg);
 *	rc = json_stream_feed(&s, data, len);	// 0, -EBADMSG, or what on_item returned
 *	if (json_stream_whole(&s))
 *		rest = json_stream_rest(&s, &len);	// {"kind":..,"metadata":{..},"items":[]}
 *	json_stream_fini(&s);
 */
#ifndef EDGEWAY_HUB_KUBE_JSON_STREAM_H
#define EDGEWAY_HUB_KUBE_JSON_STREAM_H

#include "base/core/buf.h"

enum {
	/* etcd accepts 1.5 MB; as JSON it may be several times that */
	JSON_STREAM_VALUE_MAX = 4 << 20,
	JSON_STREAM_REST_MAX = 64 << 10,
	JSON_STREAM_DEPTH_KEPT = 48, /* of a value; no value that the hub needs has 20 */
	JSON_STREAM_DEPTH_MAX = 1000, /* outside of values */
};

enum json_stream_mode { JSON_STREAM_STREAM, JSON_STREAM_LIST };

/* If it returns other than 0, json_stream_feed stops and returns that. */
typedef int json_stream_fn(void *arg, const char *text, size_t len);

struct json_stream {
	enum json_stream_mode mode;
	json_stream_fn *fn;
	void *arg;
	size_t value_max;
	struct buf value, rest;
	unsigned depth, deep; /* deep: everything nested at least so deep is left out; 0: nothing */
	bool in_string, escaped, in_items, in_value, too_large, ended;
	char word[8]; /* last string at depth 1, truncated */
	size_t word_len;
};

void json_stream_init(
	struct json_stream *s, enum json_stream_mode mode, json_stream_fn *fn, void *arg);
void json_stream_fini(struct json_stream *s);
int json_stream_feed(struct json_stream *s, const char *data, size_t len);
/* Returns true if no value is incomplete and, for a list, the list has ended. */
bool json_stream_whole(const struct json_stream *s);
const char *json_stream_rest(struct json_stream *s, size_t *len);

#endif
