#include "kube_kit.h"

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
