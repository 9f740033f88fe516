#include "hub/manifests/manifest_file.h"

#include <errno.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/log.h"

/* The clock of file times has a resolution of up to 10 ms; on some file systems of 2 s. */
enum { SETTLED_S = 3, FRESH_MS = 2000, COMPLAINTS_LOGGED = 20 };

struct manifest_file *
manifest_file_new(const char *name)
{
	struct manifest_file *f = xcalloc(1, sizeof *f);

	f->name = xstrdup(name);
	return f;
}

void
manifest_file_free(struct manifest_file **out, struct cluster *cluster, struct claims *claims)
{
	struct manifest_file *f = take_ptr(out);

	cluster_replace(cluster, f->name, NULL);
	while (f->claims != NULL) {
		struct claim *claim = f->claims;

		f->claims = claim->next;
		claims_drop(claims, &claim);
	}
	manifest_copies_fini(&f->copies);
	free(f->name);
	free(f->problem);
	free(f->twice);
	free(f);
}

bool
manifest_name_ok(const char *name)
{
	const char *dot = strrchr(name, '.');

	return name[0] != '.' && name[0] != '#' && dot != NULL &&
		(strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 ||
			strcmp(dot, ".json") == 0);
}

bool
manifest_file_same(const struct manifest_file *f, const struct stat *st)
{
	return f->settled && f->dev == st->st_dev && f->ino == st->st_ino &&
		f->size == st->st_size && f->mtime.tv_sec == st->st_mtim.tv_sec &&
		f->mtime.tv_nsec == st->st_mtim.tv_nsec;
}

/* A time to come is that of another clock, and says nothing. */
bool
manifest_file_fresh(const struct stat *st)
{
	int64_t ms = (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
	int64_t age_ms = (int64_t)wall_ms() - ms;

	return age_ms >= 0 && age_ms < FRESH_MS;
}

bool
manifest_file_readable(const struct manifest_file *f)
{
	return f->hash != 0 && f->outcome == 0;
}

static void
manifest_file_remember(struct manifest_file *f, const struct stat *st)
{
	f->dev = st->st_dev;
	f->ino = st->st_ino;
	f->size = st->st_size;
	f->mtime = st->st_mtim;
	f->settled = (int64_t)(wall_ms() / 1000) - st->st_mtim.tv_sec >= SETTLED_S;
}

static int
manifest_file_problem(struct manifest_file *f, int code, const char *what)
{
	log_warn("manifests", "%s; %s", what,
		f->claims != NULL ? "what it said before goes on to count"
				  : "nothing of it is loaded");
	free(f->problem);
	f->problem = xstrdup(what);
	return code;
}

/* --- objects that are invalid now but were good before -------------------------------------- */

/* Keeps the previous version of the object that this node describes, however invalid the node
 * is. */
static void
keep_said(struct manifest_file *f, const struct tree_node *n, const char *list_kind,
	const struct claims *claims)
{
	const char *kind = tree_text(tree_get(n, "kind"), list_kind);
	const char *name = tree_text(tree_path(n, "metadata.name"), "");
	const char *ns = tree_text(tree_path(n, "metadata.namespace"), "default");

	for (unsigned k = 0; k < KUBE_KINDS; k++) {
		struct claim *claim;

		if (!kube_kind_near((enum kube_kind)k, kind))
			continue;
		claim = claims_find(claims, (enum kube_kind)k,
			k == KUBE_NODE || k == KUBE_NAMESPACE ? "" : ns, name, f->name);
		if (claim == NULL || claim->round == f->round)
			continue;
		claim->round = f->round;
		log_warn("manifests",
			"an object stays as it was before its error file=%s object=\"%s %s%s%s\"",
			f->name, kind, claim->ns, claim->ns[0] != '\0' ? "/" : "", name);
	}
}

static void
keep_wrong(struct manifest_file *f, const struct tree_node *n, const struct claims *claims)
{
	const struct tree_node *item;
	char kind[64] = "";

	if (!kube_items(n, &item, kind)) {
		keep_said(f, n, "", claims);
		return;
	}
	for (; item != NULL; item = item->next)
		keep_said(f, item, kind, claims);
}

/* --- a file's new content ------------------------------------------------------------------- */

/* "Service default/web", on the heap. */
static char *
claim_object_text(const struct claim *claim)
{
	return xasprintf("%s %s%s%s", kube_kind_name(claim->kind), claim->ns,
		claim->ns[0] != '\0' ? "/" : "", claim->name);
}

static void
warn_shared(const struct manifest_file *f, const struct claim *claim, const struct claims *claims)
{
	const struct claim *other = claims_other(claims, claim);
	auto_free char *object = NULL;

	if (other == NULL)
		return;
	object = claim_object_text(claim);
	log_warn("manifests",
		"two files define one object, the first by name counts object=\"%s\" "
		"files=%s:%u,%s:%u counts=%s remedy=\"%s\"",
		object, f->name, claim->line, other->file, other->line,
		strcmp(f->name, other->file) < 0 ? f->name : other->file, "leave it in one file");
}

char *
manifest_file_warning(const struct manifest_file *f, const struct claims *claims)
{
	const struct claim *first = NULL, *counts = NULL;
	auto_free char *object = NULL, *more = NULL;
	size_t n = 0;

	for (const struct claim *c = f->claims; c != NULL; c = c->next) {
		const struct claim *other = claims_other(claims, c);

		if (other == NULL || strcmp(other->file, f->name) > 0)
			continue;
		n++;
		if (first == NULL || c->line < first->line) {
			first = c;
			counts = other;
		}
	}
	if (n == 0)
		return f->twice != NULL ? xstrdup(f->twice) : NULL;
	object = claim_object_text(first);
	more = n > 1 ? xasprintf("; and %zu more objects", n - 1) : xstrdup("");
	return xasprintf("%s:%u: %s is defined in %s:%u, too: that one counts, as the first by "
			 "name%s",
		f->name, first->line, object, counts->file, counts->line, more);
}

/* False if the new content has defined the object already. */
static bool
claim_object(struct manifest_file *f, const struct kube_object *o, struct claims *claims)
{
	struct claim *claim = claims_find(claims, o->kind, o->ns, o->name, f->name);

	if (claim != NULL && claim->round == f->round)
		return false;
	if (claim == NULL) {
		claim = claims_add(claims, o->kind, o->ns, o->name, f->name);
		claim->line = o->line;
		claim->next = f->claims;
		f->claims = claim;
		warn_shared(f, claim, claims);
	}
	claim->round = f->round;
	claim->line = o->line;
	return true;
}

static void
tell_twice(struct manifest_file *f, const struct kube_object *o, const struct claims *claims)
{
	const struct claim *first = claims_find(claims, o->kind, o->ns, o->name, f->name);
	auto_free char *object = claim_object_text(first), *what = NULL;

	what = xasprintf("%s:%u: %s is defined in line %u, too: that one counts, as the first",
		f->name, o->line, object, first->line);
	log_warn("manifests", "%s", what);
	if (f->twice == NULL)
		f->twice = take_ptr(&what);
}

static void
put_objects(struct manifest_file *f, struct kube_batch *batch, struct cluster *cluster,
	struct claims *claims)
{
	for (size_t i = 0; i < batch->n; i++) {
		struct kube_object *o = batch->objects[i];

		if (!claim_object(f, o, claims)) {
			tell_twice(f, o, claims);
			continue;
		}
		batch->objects[i] = NULL;
		cluster_put(cluster, f->name, &o);
	}
}

static void
drop_older(struct manifest_file *f, struct cluster *cluster, struct claims *claims)
{
	for (struct claim **at = &f->claims; *at != NULL;) {
		struct claim *claim = *at;

		if (claim->round == f->round) {
			at = &claim->next;
			continue;
		}
		*at = claim->next;
		cluster_remove(cluster, f->name, claim->kind, claim->ns, claim->name);
		claims_drop(claims, &claim);
	}
}

/* Returns whether the content is good as a whole, or in part with the rest as before. */
static enum keep_kind
manifest_file_adopt(struct manifest_file *f, const struct tree *tree, struct cluster *cluster,
	struct claims *claims)
{
	struct kube_batch batch;
	enum keep_kind kind;

	f->round++;
	kube_read(&batch, tree);
	for (size_t i = 0; i < MIN(batch.n_complaints, (size_t)COMPLAINTS_LOGGED); i++)
		log_warn("manifests", "%s", batch.complaints[i]);
	if (batch.n_complaints > COMPLAINTS_LOGGED)
		log_warn("manifests", "and more of the kind file=%s complaints=%zu", f->name,
			batch.n_complaints);
	free(take_ptr(&f->twice));
	put_objects(f, &batch, cluster, claims);
	free(take_ptr(&f->problem));
	if (batch.n_wrong > 0) {
		f->problem =
			xstrdup(batch.n_complaints > 0 ? batch.complaints[0] : "wrong objects");
		for (size_t i = 0; i < tree_count(tree); i++)
			keep_wrong(f, tree_document(tree, i), claims);
	}
	f->n_objects = batch.n;
	if (!batch.unknown)
		drop_older(f, cluster, claims);
	log_info("manifests", "read file=%s objects=%zu wrong=%zu other_kinds=%zu", f->name,
		batch.n, batch.n_wrong, batch.n_skipped);
	kind = batch.n_wrong > 0 || batch.unknown ? KEEP_PART : KEEP_WHOLE;
	kube_batch_fini(&batch);
	return kind;
}

/* Loads the copies from before the hub's start, unless the file still has the same content. True:
 * the copy of the whole is the same. */
static bool
manifest_file_recall(
	struct manifest_file *f, uint64_t hash, struct cluster *cluster, struct claims *claims)
{
	for (unsigned i = 0; i < KEEP_KINDS; i++) {
		auto_free char *text = NULL;
		struct tree *tree = NULL;
		size_t len = 0;

		text = manifest_keep_read(f->keep, f->name, (enum keep_kind)i, &len);
		if (text != NULL && i == KEEP_WHOLE && hash64(text, len, 1) == hash)
			return true;
		if (text == NULL || tree_parse(&tree, f->name, text, len, NULL) < 0)
			continue;
		log_info("manifests", "recalling what a file said before the hub started file=%s",
			f->name);
		manifest_file_adopt(f, tree, cluster, claims);
		tree_free(&tree);
	}
	return false;
}

static void
copy_later(struct manifest_file *f, enum keep_kind kind, bool same, char **text, size_t len)
{
	if (f->keep == NULL)
		return;
	if (same && kind == KEEP_WHOLE)
		manifest_copies_whole(&f->copies);
	else
		manifest_copies_take(&f->copies, kind, text, len);
}

static int
read_content(struct manifest_file *f, const char *path, char **text, size_t *len)
{
	struct stat st;
	int rc;

	if (stat(path, &st) < 0)
		return errno == ENOTDIR ? -ENOENT : -errno;
	if (!S_ISREG(st.st_mode))
		return -EISDIR;
	manifest_file_remember(
		f, &st); /* before reading: so the next scan notices a change during reading */
	rc = file_read(path, MANIFEST_FILE_MAX, text, len);
	return rc;
}

static int
parse_content(
	struct manifest_file *f, const char *path, const char *text, size_t len, struct tree **tree)
{
	auto_free char *what = NULL;
	struct err err = {0};
	int rc = tree_parse(tree, path, text, len, &err);

	if (rc < 0)
		return manifest_file_problem(f, rc, err.text);
	if (tree_count(*tree) > 0)
		return 0;
	tree_free(tree);
	what = xasprintf("%s: empty (delete the file to take its objects back)", path);
	return manifest_file_problem(f, -ENODATA, what);
}

int
manifest_file_load(
	struct manifest_file *f, const char *folder, struct cluster *cluster, struct claims *claims)
{
	auto_free char *path = xasprintf("%s/%s", folder, f->name), *text = NULL, *what = NULL;
	struct tree *tree = NULL;
	uint64_t hash;
	bool same = false;
	size_t len = 0;
	int rc = read_content(f, path, &text, &len);

	hash = rc == 0 ? hash64(text, len, 1) : 0;
	if (f->round == 0 && f->keep != NULL)
		same = manifest_file_recall(f, hash, cluster, claims);
	if (rc == -ENOENT)
		return rc;
	if (rc < 0) {
		what = rc == -EFBIG
			? xasprintf("%s: larger than %d MiB", path, MANIFEST_FILE_MAX >> 20)
			: xasprintf("%s: cannot be read: %s", path, strerror(-rc));
		f->hash = 0;
		/* try again: may be a lack of descriptors, or a short disk error */
		f->settled = false;
		return manifest_file_problem(f, rc, what);
	}
	if (hash == f->hash)
		return f->outcome;
	f->hash = hash;
	f->outcome = parse_content(f, path, text, len, &tree);
	if (f->outcome == 0)
		copy_later(f, manifest_file_adopt(f, tree, cluster, claims), same, &text, len);
	tree_free(&tree);
	return f->outcome;
}
