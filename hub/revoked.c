#include "hub/revoked.h"

#include <errno.h>
#include <string.h>

#include "base/pki.h"
#include "base/tree.h"
#include "model/json.h"

struct node {
	char *name;
	int64_t at_s;
	char good[REVOKED_GOOD_MAX][PKI_SERIAL_TEXT]; /* oldest first */
	unsigned n_good;
	int64_t n_signed; /* since then, those that are no longer in `good` as well: which list is newer */
};

struct revoked {
	char *path;
	struct node *all;
	size_t n;
};

enum { FILE_MAX = 16 * 1024 * 1024 };

static struct node *
find(const struct revoked *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++) {
		if (strcmp(r->all[i].name, name) == 0)
			return &r->all[i];
	}
	return NULL;
}

static struct node *
use(struct revoked *r, const char *name)
{
	struct node *n = find(r, name);

	if (n != NULL)
		return n;
	r->all = xrealloc(r->all, (r->n + 1) * sizeof *r->all);
	n = &r->all[r->n++];
	*n = (struct node){.name = xstrdup(name)};
	return n;
}

static bool
add_good(struct node *n, const char *serial)
{
	if (serial[0] == '\0' || strlen(serial) >= PKI_SERIAL_TEXT ||
		strspn(serial, "0123456789abcdef") != strlen(serial))
		return false;
	if (n->n_good == REVOKED_GOOD_MAX)
		memmove(n->good[0], n->good[1], sizeof n->good[0] * --n->n_good);
	strcpy(n->good[n->n_good++], serial);
	n->n_signed++;
	return true;
}

static int
read_node(struct revoked *r, const struct tree_node *map, struct err *err)
{
	const char *name = tree_text(tree_get(map, "node"), "");
	int64_t at_s = 0;
	struct node *n;

	if (name[0] == '\0' || tree_int(tree_get(map, "at"), 0, INT64_MAX, &at_s) < 0)
		return err_set(
			err, EINVAL, "%s:%u: an entry needs node and at", r->path, map->line);
	n = use(r, name);
	n->at_s = at_s;
	tree_each(tree_get(map, "good"), serial)
	{
		if (!add_good(n, tree_text(serial, "")))
			return err_set(
				err, EINVAL, "%s:%u: not a serial number", r->path, serial->line);
	}
	tree_int(tree_get(map, "signed"), 0, INT64_MAX, &n->n_signed);
	return 0;
}

static int
read_text(struct revoked *r, const char *text, size_t len, struct err *err)
{
	const struct tree_node *list;
	struct tree *tree = NULL;
	int rc = tree_parse(&tree, r->path, text, len, err);

	if (rc < 0)
		return rc;
	list = tree_get(tree_document(tree, 0), "revoked");
	if (list == NULL || list->kind != TREE_LIST)
		rc = err_set(err, EINVAL, "%s: there is no list \"revoked\"", r->path);
	else
		tree_each(list, map)
		{
			if ((rc = read_node(r, map, err)) < 0)
				break;
		}
	tree_free(&tree);
	return rc;
}

int
revoked_open(struct revoked **out, const char *path, struct err *err)
{
	struct revoked *r = xcalloc(1, sizeof *r);
	auto_free char *text = NULL;
	size_t len;
	int rc = file_read(path, FILE_MAX, &text, &len);

	r->path = xstrdup(path);
	if (rc == -ENOENT)
		rc = 0;
	else if (rc < 0)
		rc = err_set(err, rc, "cannot read %s: %s", path, strerror(-rc));
	else
		rc = read_text(r, text, len, err);
	if (rc < 0) {
		rc = err_wrap(err, rc,
			"it cannot be told which nodes are revoked: bring back a copy of the file, "
			"or move it away and revoke them again");
		revoked_close(&r);
	}
	*out = r;
	return rc;
}

static void
pop(struct revoked *r)
{
	free(r->all[--r->n].name);
}

void
revoked_close(struct revoked **out)
{
	struct revoked *r = take_ptr(out);

	if (r == NULL)
		return;
	while (r->n > 0)
		pop(r);
	free(r->all);
	free(r->path);
	free(r);
}

void
revoked_text(const struct revoked *r, struct buf *out)
{
	buf_adds(out, "{\"revoked\":[");
	for (size_t i = 0; i < r->n; i++) {
		const struct node *n = &r->all[i];

		buf_printf(out, "%s\n{\"node\":", i > 0 ? "," : "");
		json_add_text(out, n->name);
		buf_printf(out, ",\"at\":%lld,\"good\":[", (long long)n->at_s);
		for (unsigned k = 0; k < n->n_good; k++)
			buf_printf(out, "%s\"%s\"", k > 0 ? "," : "", n->good[k]);
		buf_printf(out, "],\"signed\":%lld}", (long long)n->n_signed);
	}
	buf_adds(out, "]}\n");
}

static int
save(const struct revoked *r, struct err *err)
{
	auto_buf struct buf b;
	int rc;

	buf_init(&b, BUF_UNLIMITED);
	revoked_text(r, &b);
	rc = file_write(r->path, buf_at(&b), buf_len(&b), 0600);
	return rc < 0 ? err_set(err, rc, "cannot write %s: %s", r->path, strerror(-rc)) : 0;
}

int
revoked_add(struct revoked *r, const char *name, int64_t now_s, struct err *err)
{
	bool known = find(r, name) != NULL;
	struct node *n = use(r, name), before = *n;
	int rc;

	n->at_s = MAX(now_s, n->at_s + 1); /* whatever the clock says: the latest one counts */
	n->n_good = 0;
	n->n_signed = 0;
	rc = save(r, err);
	if (rc == 0)
		return 0;
	if (known)
		*n = before; /* as it will be after a restart */
	else
		pop(r);
	return rc;
}

int
revoked_sign(struct revoked *r, const char *name, const char *serial, struct err *err)
{
	struct node *n = find(r, name), before;
	int rc;

	if (n == NULL)
		return 0;
	before = *n;
	if (!add_good(n, serial))
		return err_set(err, EINVAL, "not a serial number: \"%.50s\"", serial);
	rc = save(r, err);
	if (rc < 0)
		*n = before;
	return rc;
}

static bool
is_good(const struct node *n, const char *serial)
{
	for (unsigned i = 0; i < n->n_good; i++) {
		if (strcmp(n->good[i], serial) == 0)
			return true;
	}
	return false;
}

bool
revoked_refuses(const struct revoked *r, const char *name, const char *serial)
{
	const struct node *n = find(r, name);

	if (n == NULL)
		return false;
	return !is_good(n, serial);
}

/* Adds those of `from` for which there is room. */
static bool
unite(struct node *to, const struct node *from)
{
	int64_t n_signed = to->n_signed;
	bool any = false;

	for (unsigned k = 0; k < from->n_good && to->n_good < REVOKED_GOOD_MAX; k++) {
		if (!is_good(to, from->good[k]))
			any |= add_good(to, from->good[k]);
	}
	to->n_signed = n_signed;
	return any;
}

static bool
merge_node(struct node *ours, const struct node *theirs)
{
	struct node before = *ours;

	if (theirs->at_s < ours->at_s)
		return false;
	if (theirs->at_s == ours->at_s && theirs->n_signed <= ours->n_signed)
		return unite(ours, theirs);
	*ours = *theirs;
	ours->name = before.name;
	if (theirs->at_s == before.at_s)
		unite(ours, &before);
	return true;
}

/* What `from` has and `to` has not. */
static bool
merge_into(struct revoked *to, const struct revoked *from)
{
	bool any = false;

	for (size_t i = 0; i < from->n; i++)
		any |= merge_node(use(to, from->all[i].name), &from->all[i]);
	return any;
}

int
revoked_merge(struct revoked *r, const char *text, bool *news, bool *lacks, struct err *err)
{
	struct revoked *theirs = xcalloc(1, sizeof *theirs);
	int rc = 0;

	theirs->path = xstrdup("revoked.json");
	*news = *lacks = false;
	if (text[0] != '\0')
		rc = read_text(theirs, text, strlen(text), err);
	if (rc == 0) {
		*news = merge_into(r, theirs);
		*lacks = merge_into(theirs, r);
		if (*news)
			rc = save(r, err);
	}
	revoked_close(&theirs);
	return rc;
}

size_t
revoked_count(const struct revoked *r)
{
	return r->n;
}
