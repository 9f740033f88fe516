#include "hub/manifests/manifests.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/log.h"
#include "base/os/fswatch.h"
#include "hub/manifests/manifest_file.h"
#include "model/json.h"

#define MANIFESTS_EMPTIED_REMEDY                                                                   \
	"mount or restore the folder; where it is meant, put a file none.yaml there with the "     \
	"line: kind: List"

struct manifests {
	struct manifests_config config;
	char *folder;
	struct loop *loop;
	struct fswatch *watch; /* NULL: waiting for the folder */
	dev_t dev; /* of the watched folder */
	ino_t ino;
	struct timer *settle, *rescan, *copy;
	struct manifest_keep *keep; /* NULL: no copies */
	char *keep_problem; /* why the last copy could not be written; NULL: it was */
	struct claims *claims;
	struct manifest_file **files; /* sorted by name */
	size_t n_files;
	bool everything; /* the next round checks all files */
	bool complete; /* and what it finds has been written to its end */
	bool rewatch; /* and restarts the watch */
	bool pending; /* a round will come within MANIFESTS_SETTLE_MS */
	bool ready;
	char *waiting; /* why the folder cannot be read; NULL: it can */
	char *emptied; /* what is kept although its files have vanished; NULL: nothing */
};

/* --- the list of files ---------------------------------------------------------------------- */

static size_t
manifests_place(const struct manifests *m, const char *name)
{
	size_t low = 0, high = m->n_files;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (strcmp(m->files[mid]->name, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The file of this name, added if it is new. */
static struct manifest_file *
use_file(struct manifests *m, const char *name)
{
	size_t at = manifests_place(m, name);

	if (at < m->n_files && strcmp(m->files[at]->name, name) == 0)
		return m->files[at];
	m->files = xrealloc(m->files, (m->n_files + 1) * sizeof *m->files);
	memmove(m->files + at + 1, m->files + at, (m->n_files - at) * sizeof *m->files);
	m->files[at] = manifest_file_new(name);
	m->files[at]->keep = m->keep;
	m->n_files++;
	return m->files[at];
}

static void
forget_file(struct manifests *m, size_t at)
{
	if (m->files[at]->claims != NULL)
		log_info("manifests", "file is gone file=%s", m->files[at]->name);
	if (m->keep != NULL)
		manifest_keep_drop(m->keep, m->files[at]->name);
	manifest_file_free(&m->files[at], m->config.cluster, m->claims);
	m->n_files--;
	memmove(m->files + at, m->files + at + 1, (m->n_files - at) * sizeof *m->files);
}

static bool
manifests_any_readable(const struct manifests *m)
{
	for (size_t i = 0; i < m->n_files; i++) {
		if (m->files[i]->gone_ms == 0 && manifest_file_readable(m->files[i]))
			return true;
	}
	return false;
}

/* --- reading -------------------------------------------------------------------------------- */

static void
manifests_load(struct manifests *m, struct manifest_file *f)
{
	int rc = manifest_file_load(f, m->folder, m->config.cluster, m->claims);

	if (rc == -ENOENT) {
		if (f->gone_ms == 0)
			f->gone_ms = mono_ms();
		return;
	}
	f->gone_ms = 0;
}

/* --- copies --------------------------------------------------------------------------------- */

/* Clears the problem if no file has one. */
static void
forget_problem(struct manifests *m)
{
	for (size_t i = 0; i < m->n_files; i++) {
		if (m->files[i]->copies.again_ms != 0)
			return;
	}
	free(take_ptr(&m->keep_problem));
}

static void
copy_file(struct manifests *m, struct manifest_file *f)
{
	int rc = manifest_keep_write(m->keep, f->name, &f->copies);

	if (rc == 0) {
		forget_problem(m);
		return;
	}
	f->copies.again_ms = mono_ms() + MANIFESTS_KEEP_AGAIN_MS;
	free(m->keep_problem);
	m->keep_problem = xasprintf("no copy of %s can be kept under dataDir: %s; should it be "
				    "broken when the hub starts again, nothing of it counts",
		f->name, strerror(-rc));
	log_limited(LOG_LEVEL_WARN, 6, "manifests", "%s", m->keep_problem);
}

/* One file per turn, so that the loop does not wait long for a disk. */
static void
on_copy(void *arg)
{
	struct manifests *m = arg;
	uint64_t now = mono_ms();
	bool any_later = false;

	forget_problem(m); /* it may belong to a deleted file */
	for (size_t i = 0; i < m->n_files; i++) {
		if (!manifest_copies_wait(&m->files[i]->copies))
			continue;
		any_later = true;
		if (m->files[i]->copies.again_ms > now)
			continue;
		copy_file(m, m->files[i]);
		timer_start(m->copy, 1, 0);
		return;
	}
	if (any_later)
		timer_start(m->copy, MANIFESTS_KEEP_MS, 0);
}

static bool
is_file(void *arg, const char *name)
{
	const struct manifests *m = arg;
	size_t at = manifests_place(m, name);

	return at < m->n_files && strcmp(m->files[at]->name, name) == 0;
}

/* For the sweep: adds a file of which only a copy is left, so that it counts as vanished. */
static bool
recall_file(void *arg, const char *name)
{
	struct manifests *m = arg;

	if (!manifest_name_ok(name))
		return false;
	manifests_load(m, use_file(m, name));
	return true;
}

/* After a round: schedules copies of the changes, and removes copies of files that were deleted
 * while no hub ran. */
static void
keep_copies(struct manifests *m)
{
	if (m->keep == NULL)
		return;
	if (!m->ready)
		manifest_keep_sweep(m->keep, is_file, m);
	if (!timer_active(m->copy))
		timer_start(m->copy, MANIFESTS_KEEP_MS, 0);
}

/* Marks every file that may differ from the content that was read, and every deleted file. One that
 * is being written in place is left for a later scan, unless its event comes before that: the half
 * of it that is there may parse, and would take back what the other half says. */
static int
manifests_scan(struct manifests *m)
{
	DIR *dir = opendir(m->folder);
	struct dirent *d;

	if (dir == NULL)
		return -errno;
	for (size_t i = 0; i < m->n_files; i++)
		m->files[i]->scanned = false;
	while ((d = readdir(dir)) != NULL) {
		struct manifest_file *f;
		struct stat st;

		if (!manifest_name_ok(d->d_name))
			continue;
		f = use_file(m, d->d_name);
		f->scanned = true;
		if (fstatat(dirfd(dir), d->d_name, &st, 0) < 0 || f->gone_ms != 0)
			f->dirty = true;
		else if (f->dirty || manifest_file_same(f, &st))
			continue;
		else if (m->ready && !m->complete && manifest_file_fresh(&st))
			m->everything = true;
		else
			f->dirty = true;
	}
	closedir(dir);
	for (size_t i = 0; i < m->n_files; i++) {
		if (!m->files[i]->scanned)
			m->files[i]->dirty = true;
	}
	return 0;
}

/* --- deleted files -------------------------------------------------------------------------- */

/* A failed mount, `git clean` or a copy that is half done must not take every Service from every
 * node: while no manifest can be read, those that have vanished go on to count. Returns how many
 * Services they hold, 0: files are deleted as usual. A single file is deleted on purpose, unless
 * the folder is on another file system than it was, or it is the last of several: the others have
 * returned and cannot be read. */
static size_t
manifests_vanished(const struct manifests *m)
{
	size_t n = 0, files = 0, before;
	bool moved = false;
	struct stat st;

	/* what is told of a folder that is not there: manifests_folder_problem */
	if (manifests_any_readable(m) || stat(m->folder, &st) < 0)
		return 0;
	for (size_t i = 0; i < m->n_files; i++) {
		const struct manifest_file *f = m->files[i];

		if (f->gone_ms == 0)
			continue;
		before = n;
		for (const struct claim *c = f->claims; c != NULL; c = c->next)
			n += c->kind == KUBE_SERVICE;
		files += n > before;
		moved |= f->dev != st.st_dev;
	}
	return files > 1 || moved || m->emptied != NULL ? n : 0;
}

static void
manifests_tell_emptied(struct manifests *m, size_t n)
{
	if (m->emptied != NULL)
		return;
	m->emptied = xasprintf("all manifests have vanished from the folder; their %zu Services go "
			       "on to count",
		n);
	log_warn("manifests", "%s folder=%s remedy=\"%s\"", m->emptied, m->folder,
		MANIFESTS_EMPTIED_REMEDY);
}

/* A manifest can be read again: the other files may follow it one by one. */
static void
manifests_end_emptied(struct manifests *m, uint64_t now)
{
	if (m->emptied == NULL)
		return;
	free(take_ptr(&m->emptied));
	log_info("manifests", "the folder holds manifests again folder=%s", m->folder);
	for (size_t i = 0; i < m->n_files; i++)
		if (m->files[i]->gone_ms != 0)
			m->files[i]->gone_ms = now + MANIFESTS_RETURN_MS;
}

/* Returns when to check again, 0: never. */
static uint64_t
drop_gone(struct manifests *m, uint64_t now)
{
	size_t vanished = manifests_vanished(m);
	uint64_t next = 0;

	if (vanished == 0)
		manifests_end_emptied(m, now);
	for (size_t i = m->n_files; i-- > 0;) {
		struct manifest_file *f = m->files[i];

		if (f->gone_ms == 0)
			continue;
		if (f->gone_ms + MANIFESTS_GRACE_MS > now) {
			if (next == 0 || f->gone_ms + MANIFESTS_GRACE_MS < next)
				next = f->gone_ms + MANIFESTS_GRACE_MS;
		} else if (vanished > 0) {
			manifests_tell_emptied(m, vanished);
		} else {
			forget_file(m, i);
		}
	}
	return next;
}

static void on_event(void *arg, const char *name);

static void
wait_for_folder(struct manifests *m, const char *why)
{
	if (m->waiting == NULL) {
		m->waiting = xasprintf("the folder cannot be read: %s%s", why,
			m->ready ? "; what was read before goes on to count" : "");
		log_warn("manifests", "waiting for the folder %s: %s", m->folder, m->waiting);
	}
	fswatch_stop(&m->watch);
	m->everything = true;
	timer_start(m->settle, MANIFESTS_WAIT_MS, 0);
}

/* Watches the folder that has the name now, before anything in it is read, so that no change is
 * missed. */
static bool
watch_folder(struct manifests *m)
{
	struct err err = {0};
	struct stat st;

	if (stat(m->folder, &st) < 0) {
		wait_for_folder(m, strerror(errno));
		return false;
	}
	if (m->watch != NULL && !m->rewatch && st.st_dev == m->dev && st.st_ino == m->ino)
		return true;
	fswatch_stop(&m->watch);
	m->rewatch = false;
	if (fswatch_start(&m->watch, m->loop, m->folder, on_event, m, &err) < 0) {
		/* No watch is available: scan repeatedly instead. */
		log_limited(LOG_LEVEL_WARN, 1, "manifests", "%s; looking every %d ms instead",
			err.text, MANIFESTS_WAIT_MS);
		m->everything = true;
		return true;
	}
	m->dev = st.st_dev;
	m->ino = st.st_ino;
	m->everything = true;
	log_info("manifests", "watching folder=%s", m->folder);
	return true;
}

/* One round: loads every file that events or the scan have marked; then calls `changed`. */
static void
on_settled(void *arg)
{
	struct manifests *m = arg;
	uint64_t now = mono_ms(), next;
	int rc;

	m->pending = false;
	if (!watch_folder(m))
		return;
	if (m->everything) {
		m->everything = false;
		if ((rc = manifests_scan(m)) < 0) {
			wait_for_folder(m, strerror(-rc));
			return;
		}
		m->complete = false;
	}
	for (size_t i = 0; i < m->n_files; i++) {
		if (!m->files[i]->dirty)
			continue;
		m->files[i]->dirty = false;
		manifests_load(m, m->files[i]);
	}
	if (!m->ready && m->keep != NULL && !manifests_any_readable(m))
		manifest_keep_sweep(m->keep, recall_file, m);
	next = drop_gone(m, now);
	if ((m->watch == NULL || m->everything) && (next == 0 || next > now + MANIFESTS_WAIT_MS))
		next = now + MANIFESTS_WAIT_MS;
	if (next != 0)
		timer_start(m->settle, next - now + 1, 0);
	keep_copies(m);
	free(take_ptr(&m->waiting));
	m->ready = true;
	m->config.changed(m->config.arg);
}

static void
look_soon(struct manifests *m)
{
	/* Further events do not postpone it: a busy folder, too, is read from time to time. */
	if (m->pending)
		return;
	m->pending = true;
	timer_start(m->settle, MANIFESTS_SETTLE_MS, 0);
}

static void
on_event(void *arg, const char *name)
{
	struct manifests *m = arg;

	if (name == NULL) {
		m->everything = true;
		m->rewatch = true;
	} else if (strncmp(name, "..", 2) == 0) {
		/* a ConfigMap's links are replaced: every file may have changed */
		m->everything = m->complete = true;
	} else if (manifest_name_ok(name)) {
		struct manifest_file *f = use_file(m, name);

		f->dirty = true;
	} else {
		return;
	}
	look_soon(m);
}

static void
on_rescan(void *arg)
{
	struct manifests *m = arg;

	m->everything = true;
	look_soon(m);
}

int
manifests_start(struct manifests **out, struct loop *loop, const struct manifests_config *config,
	struct err *err)
{
	struct manifests *m;

	if (config->folder[0] == '\0')
		return err_set(err, EINVAL, "source.manifests needs the name of a folder");
	m = xcalloc(1, sizeof *m);
	m->config = *config;
	m->folder = xstrdup(config->folder);
	m->loop = loop;
	m->claims = claims_new();
	m->settle = timer_new(loop, on_settled, m);
	m->rescan = timer_new(loop, on_rescan, m);
	m->copy = timer_new(loop, on_copy, m);
	if (config->data_dir != NULL && config->data_dir[0] != '\0')
		m->keep = manifest_keep_open(config->data_dir, config->folder);
	timer_start(m->rescan, MANIFESTS_RESCAN_MS, MANIFESTS_RESCAN_MS);
	*out = m;
	on_settled(m);
	return 0;
}

void
manifests_stop(struct manifests **out)
{
	struct manifests *m = take_ptr(out);

	if (m == NULL)
		return;
	fswatch_stop(&m->watch);
	timer_free(&m->settle);
	timer_free(&m->rescan);
	timer_free(&m->copy);
	for (size_t i = 0; i < m->n_files; i++) {
		if (manifest_copies_wait(&m->files[i]->copies))
			copy_file(m, m->files[i]);
	}
	while (m->n_files > 0)
		manifest_file_free(&m->files[--m->n_files], m->config.cluster, m->claims);
	claims_free(&m->claims);
	manifest_keep_close(&m->keep);
	free(m->keep_problem);
	free(m->waiting);
	free(m->emptied);
	free(m->files);
	free(m->folder);
	free(m);
}

bool
manifests_ready(const struct manifests *m)
{
	return m->ready;
}

const char *
manifests_copies_problem(const struct manifests *m)
{
	return m->keep_problem != NULL ? m->keep_problem : "";
}

/* NULL: none. */
static const char *
manifests_folder_problem(const struct manifests *m)
{
	return m->waiting != NULL ? m->waiting : m->emptied;
}

void
manifests_each_problem(const struct manifests *m,
	void (*fn)(void *arg, const char *file, const char *problem), void *arg)
{
	if (manifests_folder_problem(m) != NULL)
		fn(arg, m->folder, manifests_folder_problem(m));
	for (size_t i = 0; i < m->n_files; i++)
		if (m->files[i]->problem != NULL)
			fn(arg, m->files[i]->name, m->files[i]->problem);
}

void
manifests_state(const struct manifests *m, struct buf *out)
{
	buf_adds(out, "{\"folder\":");
	json_add_text(out, m->folder);
	buf_adds(out, ",\"problem\":");
	json_add_text(out, manifests_folder_problem(m));
	buf_adds(out, ",\"remedy\":");
	json_add_text(
		out, m->waiting == NULL && m->emptied != NULL ? MANIFESTS_EMPTIED_REMEDY : "");
	buf_printf(out, ",\"ready\":%s,\"watching\":%s,\"files\":[", m->ready ? "true" : "false",
		m->watch != NULL ? "true" : "false");
	for (size_t i = 0; i < m->n_files; i++) {
		auto_free char *warning = manifest_file_warning(m->files[i], m->claims);

		buf_adds(out, i > 0 ? ",{\"file\":" : "{\"file\":");
		json_add_text(out, m->files[i]->name);
		buf_printf(out, ",\"objects\":%zu,\"problem\":", m->files[i]->n_objects);
		json_add_text(out, m->files[i]->problem);
		buf_adds(out, ",\"warning\":");
		json_add_text(out, warning);
		buf_adds(out, "}");
	}
	buf_adds(out, "],\"copies_problem\":");
	json_add_text(out, m->keep_problem);
	buf_adds(out, "}");
}

size_t
manifests_broken(const struct manifests *m)
{
	size_t bad = manifests_folder_problem(m) != NULL;

	for (size_t i = 0; i < m->n_files; i++)
		bad += m->files[i]->problem != NULL;
	return bad;
}

void
manifests_metrics(const struct manifests *m, struct metrics *to)
{
	metric_gauge(to, "edgeway_hub_manifest_files_bad",
		"Files whose last content did not load as it stands; one more while the folder "
		"cannot be read, or all its manifests have vanished.",
		NULL, (double)manifests_broken(m));
}
