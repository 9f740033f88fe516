/* YAML and JSON: whatever parses can be walked, stays within its bounds and names a line in every
 * complaint. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/tree_build.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
walk(const struct tree_node *n, unsigned depth, bool in_map)
{
	int64_t v;

	assert(depth <= TREE_DEPTH_MAX);
	assert(n->line > 0);
	assert(in_map == (n->key != NULL));
	tree_bool(n, true);
	tree_int(n, -10, 10, &v);
	if (n->kind == TREE_SCALAR) {
		assert(strlen(n->text) == n->len && n->child == NULL);
		return;
	}
	tree_each(n, child) {
		walk(child, depth + 1, n->kind == TREE_MAP);
		if (n->kind == TREE_MAP && strlen(child->key) < 8)
			assert(tree_get(n, child->key) == child);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct tree *t = NULL;
	struct err err = {0};

	if (len > 64 * 1024)
		return 0;
	if (tree_parse(&t, "fuzz", (const char *)data, len, &err) < 0) {
		unsigned line = 0;

		assert(t == NULL);
		assert(sscanf(err.text, "fuzz:%u: ", &line) == 1 && line > 0);
		return 0;
	}
	for (size_t i = 0; i < tree_count(t); i++)
		walk(tree_document(t, i), 1, false);
	tree_free(&t);
	return 0;
}
