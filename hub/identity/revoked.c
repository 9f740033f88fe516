#include "hub/identity/revoked.h"

#include <errno.h>
#include <string.h>

#include "base/conf/tree.h"
#include "base/tls/pki.h"
#include "hub/manifests/list_file.h"
#include "model/json.h"

struct node {
	char *name;
	int64_t at_s;
	char good[REVOKED_GOOD_MAX][PKI_SERIAL_TEXT]; /* oldest first */
	unsigned n_good;
	/* since the revocation, including those that are no longer in `good`: tells which list is
	 * newer */
	int64_t n_signed;
};

struct revoked {
	struct list_file file;
	struct node *all;
	size_t n;
	struct revoked_hub hubs[REVOKED_HUBS_MAX]; /* oldest first */
	size_t n_hubs;
	uint64_t hub_changes;
};

enum { FILE_MAX = 16 * 1024 * 1024 };

static struct node *
revoked_find(const struct revoked *r, const char *name)
{
	for (size_t i = 0; i < r->n; i++) {
		if (strcmp(r->all[i].name, name) == 0)
			return &r->all[i];
	}
	return NULL;
}

static struct node *
revoked_use(struct revoked *r, const char *name)
{
	struct node *n = revoked_find(r, name);

	if (n != NULL)
		return n;
	r->all = xrealloc(r->all, (r->n + 1) * sizeof *r->all);
	n = &r->all[r->n++];
	*n = (struct node){.name = xstrdup(name)};
	return n;
}

static bool
is_serial(const char *text)
{
	return text[0] != '\0' && strlen(text) < PKI_SERIAL_TEXT &&
		strspn(text, "0123456789abcdef") == strlen(text);
}

static bool
add_good(struct node *n, const char *serial)
{
	if (!is_serial(serial))
		return false;
	if (n->n_good == REVOKED_GOOD_MAX)
		memmove(n->good[0], n->good[1], sizeof n->good[0] * --n->n_good);
	strcpy(n->good[n->n_good++], serial);
	n->n_signed++;
	return true;
}

/* --- hubs ----------------------------------------------------------------------------------- */

bool
revoked_refuses_hub(const struct revoked *r, const char *serial)
{
	for (size_t i = 0; i < r->n_hubs; i++)
		if (strcmp(r->hubs[i].serial, serial) == 0)
			return true;
	return false;
}

/* False: it is there already, or the list is full. */
static bool
revoked_enter_hub(struct revoked *r, const struct revoked_hub *hub)
{
	if (revoked_refuses_hub(r, hub->serial) || r->n_hubs == REVOKED_HUBS_MAX)
		return false;
	r->hubs[r->n_hubs++] = *hub;
	r->hub_changes++;
	return true;
}

/* Expired certificates are refused anyway. */
static void
revoked_drop_ended_hubs(struct revoked *r, int64_t now_s)
{
	size_t kept = 0;

	for (size_t i = 0; i < r->n_hubs; i++)
		if (r->hubs[i].until_s > now_s)
			r->hubs[kept++] = r->hubs[i];
	r->hub_changes += kept != r->n_hubs;
	r->n_hubs = kept;
}

static int
revoked_read_hub(struct revoked *r, const struct tree_node *map, struct err *err)
{
	const char *serial = tree_text(tree_get(map, "serial"), "");
	struct revoked_hub hub = {0};

	if (!is_serial(serial) || tree_int(tree_get(map, "at"), 0, INT64_MAX, &hub.at_s) < 0 ||
		tree_int(tree_get(map, "until"), 0, INT64_MAX, &hub.until_s) < 0)
		return err_set(err, EINVAL, "%s:%u: a hub's entry needs serial, at and until",
			r->file.path, map->line);
	strcpy(hub.serial, serial);
	revoked_enter_hub(r, &hub);
	return 0;
}

/* --- nodes ---------------------------------------------------------------------------------- */

static int
read_node(struct revoked *r, const struct tree_node *map, struct err *err)
{
	const char *name = tree_text(tree_get(map, "node"), "");
	int64_t at_s = 0;
	struct node *n;

	if (name[0] == '\0' || tree_int(tree_get(map, "at"), 0, INT64_MAX, &at_s) < 0)
		return err_set(
			err, EINVAL, "%s:%u: an entry needs node and at", r->file.path, map->line);
	n = revoked_use(r, name);
	n->at_s = at_s;
	tree_each(tree_get(map, "good"), serial) {
		if (!add_good(n, tree_text(serial, "")))
			return err_set(err, EINVAL, "%s:%u: not a serial number", r->file.path,
				serial->line);
	}
	tree_int(tree_get(map, "signed"), 0, INT64_MAX, &n->n_signed);
	return 0;
}

static int
read_text(struct revoked *r, const char *text, size_t len, struct err *err)
{
	const struct tree_node *list;
	struct tree *tree = NULL;
	int rc = tree_parse(&tree, r->file.path, text, len, err);

	if (rc < 0)
		return rc;
	list = tree_get(tree_document(tree, 0), "revoked");
	if (list == NULL || list->kind != TREE_LIST)
		rc = err_set(err, EINVAL, "%s: there is no list \"revoked\"", r->file.path);
	else
		tree_each(list, map) {
			if ((rc = read_node(r, map, err)) < 0)
				break;
		}
	tree_each(tree_get(tree_document(tree, 0), "hubs"), map) {
		if (rc < 0 || (rc = revoked_read_hub(r, map, err)) < 0)
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

	list_file_init(&r->file, path);
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
revoked_pop(struct revoked *r)
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
		revoked_pop(r);
	free(r->all);
	list_file_fini(&r->file);
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
	buf_adds(out, "],\"hubs\":[");
	for (size_t i = 0; i < r->n_hubs; i++)
		buf_printf(out, "%s\n{\"serial\":\"%s\",\"at\":%lld,\"until\":%lld}",
			i > 0 ? "," : "", r->hubs[i].serial, (long long)r->hubs[i].at_s,
			(long long)r->hubs[i].until_s);
	buf_adds(out, "]}\n");
}

static int
revoked_save(struct revoked *r, struct err *err)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	revoked_text(r, &b);
	return list_file_write(&r->file, &b, err);
}

void
revoked_keep(struct revoked *r)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	revoked_text(r, &b);
	list_file_keep(&r->file, &b);
}

const char *
revoked_problem(const struct revoked *r)
{
	return r->file.problem;
}

void
revoked_add(struct revoked *r, const char *name, int64_t now_s)
{
	struct node *n = revoked_use(r, name);

	/* the later revocation counts, whatever the clock says */
	n->at_s = MAX(now_s, n->at_s + 1);
	n->n_good = 0;
	n->n_signed = 0;
	revoked_keep(r);
}

int
revoked_add_hub(
	struct revoked *r, const char *serial, int64_t until_s, int64_t now_s, struct err *err)
{
	struct revoked_hub hub = {.at_s = now_s, .until_s = until_s};

	if (!is_serial(serial))
		return err_set(err, EINVAL,
			"\"%.80s\" is not the serial number of a certificate: hex digits in lower "
			"case, as `edgewayctl hub list` shows them",
			serial);
	revoked_drop_ended_hubs(r, now_s);
	strcpy(hub.serial, serial);
	if (!revoked_enter_hub(r, &hub) && !revoked_refuses_hub(r, serial))
		return err_set(err, ENOSPC,
			"%d certificates of hubs are revoked, which is all that nodes remember: "
			"make "
			"a new CA (edgeway-hub(8), CERTIFICATES)",
			REVOKED_HUBS_MAX);
	revoked_keep(r);
	return 0;
}

size_t
revoked_hubs(const struct revoked *r, const struct revoked_hub **hubs)
{
	*hubs = r->hubs;
	return r->n_hubs;
}

uint64_t
revoked_hub_changes(const struct revoked *r)
{
	return r->hub_changes;
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

int
revoked_sign(struct revoked *r, const char *name, const char *serial, struct err *err)
{
	struct node *n = revoked_find(r, name), before;
	int rc;

	if (n == NULL || is_good(n, serial))
		return 0;
	before = *n;
	if (!add_good(n, serial))
		return err_set(err, EINVAL, "not a serial number: \"%.50s\"", serial);
	rc = revoked_save(r, err);
	if (rc < 0)
		*n = before;
	return rc;
}

bool
revoked_refuses(const struct revoked *r, const char *name, const char *serial)
{
	const struct node *n = revoked_find(r, name);

	if (n == NULL)
		return false;
	return !is_good(n, serial);
}

/* Adds the entries of `from`, as far as there is room. */
static bool
revoked_unite(struct node *to, const struct node *from)
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
		return revoked_unite(ours, theirs);
	*ours = *theirs;
	ours->name = before.name;
	if (theirs->at_s == before.at_s)
		revoked_unite(ours, &before);
	return true;
}

/* Adds the entries of `from` that `to` lacks; returns true if there were any. */
static bool
merge_into(struct revoked *to, const struct revoked *from)
{
	bool any = false;

	for (size_t i = 0; i < from->n; i++)
		any |= merge_node(revoked_use(to, from->all[i].name), &from->all[i]);
	for (size_t i = 0; i < from->n_hubs; i++)
		any |= revoked_enter_hub(to, &from->hubs[i]);
	return any;
}

int
revoked_merge(struct revoked *r, const char *text, bool *news, bool *lacks, struct err *err)
{
	struct revoked *theirs = xcalloc(1, sizeof *theirs);
	int rc = 0;

	list_file_init(&theirs->file, "revoked.json");
	*news = *lacks = false;
	if (text[0] != '\0')
		rc = read_text(theirs, text, strlen(text), err);
	if (rc == 0) {
		*news = merge_into(r, theirs);
		*lacks = merge_into(theirs, r);
		if (*news)
			revoked_keep(r);
	}
	revoked_close(&theirs);
	return rc;
}

size_t
revoked_count(const struct revoked *r)
{
	return r->n;
}
