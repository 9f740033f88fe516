#include "tests/unit/model/kube_kit.h"

#include <string.h>

void
kit_read(struct kube_batch *b, const char *source, const char *yaml)
{
	struct err err = {0};
	struct tree *t;

	if (tree_parse(&t, source, yaml, strlen(yaml), &err) < 0)
		fail_msg("%s", err.text);
	kube_read(b, t);
	tree_free(&t);
}

void
kit_read_data(struct kube_batch *b, const char *name)
{
	const char *top = getenv("top_srcdir");
	auto_free char *path = xasprintf("%s/tests/data/kube/%s", top != NULL ? top : ".", name);
	auto_free char *text = NULL;
	size_t len;

	assert_int_equal(file_read(path, 1 << 20, &text, &len), 0);
	kit_read(b, name, text);
}

void
kit_say(struct cluster *c, const char *source, const char *yaml)
{
	struct kube_batch b;

	kit_read(&b, source, yaml);
	if (b.n_complaints > 0)
		fail_msg("%s", b.complaints[0]);
	cluster_replace(c, source, &b);
	kube_batch_fini(&b);
}

size_t
kit_drop_changes(struct cluster *c)
{
	struct cluster_change change;
	size_t n = 0;

	for (; cluster_next_change(c, &change); n++)
		cluster_change_fini(&change);
	return n;
}

struct cluster *kit_cluster;

int
kit_setup(void **state)
{
	(void)state;
	kit_cluster = cluster_new();
	return 0;
}

int
kit_teardown(void **state)
{
	(void)state;
	cluster_free(&kit_cluster);
	return 0;
}
