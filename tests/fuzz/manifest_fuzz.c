/* Manifests: parse, decode, join; every view made is one that a node accepts, in canonical form.
 * A route's status can be parsed, and once it is there nothing is to change. */
#include <assert.h>
#include <string.h>

#include "hub/kube/route_conditions.h"
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

static void
check_status(const struct cluster_route *route)
{
	struct kube_route object = *route->route;
	struct cluster_route again = *route;
	auto_buf struct buf status, alone;
	char none[] = "";
	struct tree *tree = NULL;

	buf_init(&status, BUF_UNLIMITED);
	buf_init(&alone, BUF_UNLIMITED);
	(void)route_conditions_build(&status, route, 0);
	assert(tree_parse(&tree, "status", buf_str(&status), buf_len(&status), NULL) == 0);
	assert(tree_count(tree) == 1);
	tree_free(&tree);
	object.status_others = object.status_own = none;
	again.route = &object;
	(void)route_conditions_build(&alone, &again, 0);
	object.status_own = xstrndup(buf_str(&alone) + 1, buf_len(&alone) - 2);
	assert(!route_conditions_build(&status, &again, 0));
	free(object.status_own);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct cluster_change change;
	struct cluster_route route;
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
	while (cluster_next_route(c, &route)) {
		check_status(&route);
		cluster_route_fini(&route);
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
