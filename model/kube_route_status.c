/*
 * The status that a route has already. Our own entries are compared with what they are to be, those
 * of other controllers are kept when ours are written: a status has one list for all.
 */
#include <string.h>

#include "base/core/buf.h"
#include "model/json.h"
#include "model/kube_route_private.h"

/* Does JSON write this without quotes? */
static bool
status_is_bare(const struct tree_node *n)
{
	if (n->quoted)
		return false;
	if (strcmp(n->text, "true") == 0 || strcmp(n->text, "false") == 0 ||
		strcmp(n->text, "null") == 0)
		return true;
	return n->len > 0 && strspn(n->text, "0123456789") == n->len && n->len < 16 &&
		(n->len == 1 || n->text[0] != '0');
}

/* Depth is bounded by base/conf/tree. */
static void
status_add(struct buf *out, const struct tree_node *n)
{
	const char *comma = "";

	if (n->kind == TREE_SCALAR) {
		if (status_is_bare(n))
			buf_adds(out, n->text);
		else
			json_add_text(out, n->text);
		return;
	}
	buf_adds(out, n->kind == TREE_MAP ? "{" : "[");
	tree_each(n, child) {
		buf_adds(out, comma);
		comma = ",";
		if (n->kind == TREE_MAP) {
			json_add_text(out, child->key);
			buf_adds(out, ":");
		}
		status_add(out, child);
	}
	buf_adds(out, n->kind == TREE_MAP ? "}" : "]");
}

void
route_read_status(struct kube_route *r, const struct tree_node *list)
{
	auto_buf struct buf own, others;

	/* The API server bounds an object. */
	buf_init(&own, BUF_UNLIMITED);
	buf_init(&others, BUF_UNLIMITED);
	tree_each(list, p) {
		const char *who = tree_text(tree_get(p, "controllerName"), "");
		struct buf *to = strcmp(who, KUBE_GATEWAY_CONTROLLER) == 0 ? &own : &others;

		if (buf_len(to) > 0)
			buf_adds(to, ",");
		status_add(to, p);
	}
	r->status_own = buf_take_str(&own);
	r->status_others = buf_take_str(&others);
}
