/*
 * What a CloudHub tells: messages up to a NUL each. The first byte of each says what it is (a kind
 * of object; put, deleted, a list of all, the pods of a service; a new connection; questions that
 * are given up), the rest is the content. Every change is a view that the store takes, and who asks
 * and applies until there is nothing left comes to an end.
 */
#include <assert.h>
#include <string.h>

#include "meta/client/cloudhub_cache.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { STEPS_MAX = 10000 };

static const enum kube_kind kinds[] = {KUBE_SERVICE, KUBE_POD, KUBE_ENDPOINTS};

static void
tell_object(struct cloudhub_cache *c, enum kube_kind kind, bool gone, const struct tree_node *n)
{
	const struct cloudhub_cache_object o = {.kind = kind,
		.ns = tree_text(tree_path(n, "metadata.namespace"), "default"),
		.name = tree_text(tree_path(n, "metadata.name"), "web"),
		.content = n};
	struct err err = {0};
	int rc = gone ? cloudhub_cache_delete(c, &o, &err) : cloudhub_cache_put(c, &o, &err);

	assert(rc >= 0 || err.text[0] != '\0');
}

static void
tell_list(struct cloudhub_cache *c, enum kube_kind kind, bool gone, const struct tree_node *n)
{
	const struct cloudhub_cache_list list = {.kind = kind,
		.ns = "default",
		.service = kind == KUBE_POD ? "web" : NULL,
		.gone = gone && kind == KUBE_POD,
		.content = n};
	struct err err = {0};
	int rc = cloudhub_cache_listed(c, &list, &err);

	assert(rc == 0 || err.text[0] != '\0');
}

static void
settle(struct cloudhub_cache *c, bool answers)
{
	struct cloudhub_cache_question q;
	struct cloudhub_cache_change change;
	unsigned steps = 0;
	struct view *v;

	while (cloudhub_cache_ask(c, &q)) {
		assert(steps++ < STEPS_MAX && q.ns[0] != '\0' && q.service[0] != '\0');
		if (!answers)
			cloudhub_cache_give_up(c, &q);
	}
	while (cloudhub_cache_next(c, &change)) {
		assert(steps++ < STEPS_MAX && change.ns[0] != '\0' && change.name[0] != '\0');
		if (change.json == NULL)
			continue;
		assert(view_parse(&v, change.json, change.len, NULL) == 0);
		view_free(&v);
	}
}

static void
tell(struct cloudhub_cache *c, const char *text, size_t len)
{
	unsigned what = len > 0 ? (unsigned char)text[0] : 0;
	enum kube_kind kind = kinds[what % 3];
	struct tree *tree = NULL;
	const struct tree_node *n = NULL;

	if (what & 64)
		cloudhub_cache_begin(c);
	if (len > 1 && tree_parse(&tree, "message", text + 1, len - 1, NULL) == 0)
		n = tree_document(tree, 0);
	if (what & 8)
		tell_list(c, kind, what & 16, n);
	else
		tell_object(c, kind, what & 16, n);
	tree_free(&tree);
	settle(c, what & 32);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct cloudhub_cache *c = cloudhub_cache_new();
	const char *at = (const char *)data, *end = at + len;

	cloudhub_cache_stored(c, "default/old", 1);
	cloudhub_cache_begin(c);
	while (len <= 64 * 1024 && at < end) {
		const char *stop = memchr(at, '\0', (size_t)(end - at));
		size_t n = (size_t)((stop != NULL ? stop : end) - at);

		tell(c, at, n);
		at += n + 1;
	}
	cloudhub_cache_free(&c);
	return 0;
}
