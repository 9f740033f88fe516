/* Manifests: parse, decode, join; every view made is one that a node accepts, in canonical form. */
#include <assert.h>
#include <string.h>

#include "model/cluster/cluster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
check(const struct cluster_change *change)
{
	struct view *back;
	struct err err = {0};
	struct buf again;

	assert(change->view != NULL);
	assert(view_parse(&back, change->json, change->json_len, &err) == 0);
	buf_init(&again, BUF_UNLIMITED);
	assert(view_build(&again, back) == change->digest);
	assert(buf_len(&again) == change->json_len);
	view_free(&back);
	buf_fini(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct cluster_change change;
	struct kube_batch b;
	struct cluster *c;
	struct tree *t;
	size_t told = 0, gone = 0;

	if (len > 64 * 1024 || tree_parse(&t, "m", (const char *)data, len, NULL) < 0)
		return 0;
	kube_read(&b, t);
	tree_free(&t);
	assert(b.n_wrong <= b.n_complaints);
	for (size_t i = 0; i < b.n_complaints; i++)
		assert(strncmp(b.complaints[i], "m:", 2) == 0);
	c = cluster_new();
	cluster_replace(c, "m", &b);
	kube_batch_fini(&b);
	for (; cluster_next_change(c, &change); told++) {
		check(&change);
		cluster_change_fini(&change);
	}
	cluster_replace(c, "m", NULL);
	for (; cluster_next_change(c, &change); gone++) {
		assert(change.view == NULL);
		cluster_change_fini(&change);
	}
	assert(told == gone);
	cluster_free(&c);
	return 0;
}
