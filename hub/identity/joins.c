#include "hub/identity/joins.h"

#include <errno.h>
#include <string.h>

#include "base/conf/tree.h"
#include "hub/manifests/list_file.h"
#include "hub/port/route.h"
#include "model/json.h"

enum { JOINS_FILE_MAX = 16 * 1024 * 1024 };

struct joins {
	struct list_file file;
	struct joins_entry *all;
	size_t n;
};

static struct joins_entry *
joins_find(const struct joins *j, const struct joins_entry *e)
{
	for (size_t i = 0; i < j->n; i++) {
		struct joins_entry *at = &j->all[i];

		if (strcmp(at->token, e->token) == 0 && strcmp(at->key, e->key) == 0 &&
			strcmp(at->node, e->node) == 0)
			return at;
	}
	return NULL;
}

bool
joins_has(const struct joins *j, const struct joins_entry *e)
{
	return joins_find(j, e) != NULL;
}

size_t
joins_count(const struct joins *j, const char *token)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++)
		n += strcmp(j->all[i].token, token) == 0;
	return n;
}

bool
joins_enter(struct joins *j, const struct joins_entry *e)
{
	if (joins_find(j, e) != NULL)
		return false;
	j->all = xrealloc(j->all, (j->n + 1) * sizeof *j->all);
	j->all[j->n++] = *e;
	return true;
}

void
joins_withdraw(struct joins *j, const struct joins_entry *e)
{
	struct joins_entry *at = joins_find(j, e);

	if (at != NULL)
		*at = j->all[--j->n];
}

static void
joins_drop_ended(struct joins *j, int64_t now_s)
{
	for (size_t i = j->n; i-- > 0;)
		if (j->all[i].until_s <= now_s)
			j->all[i] = j->all[--j->n];
}

/* --- text ----------------------------------------------------------------------------------- */

void
joins_text(const struct joins *j, struct buf *out)
{
	buf_adds(out, "\"joins\":[");
	for (size_t i = 0; i < j->n; i++) {
		const struct joins_entry *e = &j->all[i];

		buf_printf(out,
			"%s\n{\"token\":\"%s\",\"node\":\"%s\",\"key\":\"%s\",\"until\":%lld}",
			i > 0 ? "," : "", e->token, e->node, e->key, (long long)e->until_s);
	}
	buf_adds(out, "]");
}

static bool
joins_copy_hex(char *to, size_t size, const struct tree_node *from)
{
	const char *text = tree_text(from, "");

	if (strlen(text) != size - 1 || strspn(text, "0123456789abcdef") != size - 1)
		return false;
	memcpy(to, text, size);
	return true;
}

static int
joins_read_entry(struct joins *j, const char *name, const struct tree_node *map, struct err *err)
{
	const char *node = tree_text(tree_get(map, "node"), "");
	struct joins_entry e = {0};

	if (!joins_copy_hex(e.token, sizeof e.token, tree_get(map, "token")) ||
		!joins_copy_hex(e.key, sizeof e.key, tree_get(map, "key")) || !node_name_ok(node) ||
		strlen(node) >= sizeof e.node ||
		tree_int(tree_get(map, "until"), 0, INT64_MAX, &e.until_s) < 0)
		return err_set(err, EINVAL,
			"%s:%u: a join needs token, node, key and until; move the file away to "
			"forget which tokens are used up, and revoke those",
			name, map->line);
	strcpy(e.node, node);
	joins_enter(j, &e);
	return 0;
}

static int
joins_read_text(struct joins *j, const char *name, const char *text, size_t len, struct err *err)
{
	struct tree *tree = NULL;
	int rc = tree_parse(&tree, name, text, len, err);

	if (rc < 0)
		return rc;
	tree_each(tree_get(tree_document(tree, 0), "joins"), map) {
		if ((rc = joins_read_entry(j, name, map, err)) < 0)
			break;
	}
	tree_free(&tree);
	return rc;
}

/* --- the file ------------------------------------------------------------------------------- */

int
joins_open(struct joins **out, const char *path, struct err *err)
{
	struct joins *j = xcalloc(1, sizeof *j);
	auto_free char *text = NULL;
	size_t len;
	int rc = file_read(path, JOINS_FILE_MAX, &text, &len);

	list_file_init(&j->file, path);
	if (rc == 0)
		rc = joins_read_text(j, path, text, len, err);
	else
		rc = rc == -ENOENT ? 0
				   : err_set(err, rc, "cannot read %s: %s", path, strerror(-rc));
	if (rc < 0) {
		rc = err_wrap(err, rc,
			"it cannot be told which tokens are used up: bring back a copy of the "
			"file, or move it away and revoke tokens that are not needed (edgewayctl "
			"token list)");
		joins_close(&j);
	}
	*out = j;
	return rc;
}

void
joins_close(struct joins **out)
{
	struct joins *j = take_ptr(out);

	if (j == NULL)
		return;
	list_file_fini(&j->file);
	free(j->all);
	free(j);
}

static void
joins_file_text(const struct joins *j, struct buf *out)
{
	buf_adds(out, "{");
	joins_text(j, out);
	buf_adds(out, "}\n");
}

int
joins_add(struct joins *j, const struct joins_entry *e, int64_t now_s, struct err *err)
{
	auto_buf struct buf b;
	int rc;

	buf_init(&b, BUF_UNLIMITED);
	joins_drop_ended(j, now_s);
	if (!joins_enter(j, e) && j->file.problem[0] == '\0')
		return 0;
	joins_file_text(j, &b);
	if ((rc = list_file_write(&j->file, &b, err)) < 0)
		joins_withdraw(j, e);
	return rc;
}

void
joins_keep(struct joins *j, int64_t now_s)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	joins_drop_ended(j, now_s);
	joins_file_text(j, &b);
	list_file_keep(&j->file, &b);
}

const char *
joins_problem(const struct joins *j)
{
	return j->file.problem;
}

/* --- replicas ------------------------------------------------------------------------------- */

/* Adds the entries of `from` that `to` lacks; returns true if there were any. */
static bool
joins_unite(struct joins *to, const struct joins *from, int64_t now_s)
{
	bool any = false;

	for (size_t i = 0; i < from->n; i++)
		if (from->all[i].until_s > now_s)
			any |= joins_enter(to, &from->all[i]);
	return any;
}

int
joins_merge(
	struct joins *j, const char *text, int64_t now_s, bool *news, bool *lacks, struct err *err)
{
	struct joins *theirs = xcalloc(1, sizeof *theirs);
	int rc = text[0] != '\0' ? joins_read_text(theirs, "nodes.json", text, strlen(text), err)
				 : 0;

	*news = *lacks = false;
	if (rc == 0) {
		*news = joins_unite(j, theirs, now_s);
		*lacks = joins_unite(theirs, j, now_s);
		if (*news)
			joins_keep(j, now_s);
	}
	joins_close(&theirs);
	return rc;
}
