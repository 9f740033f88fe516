#include "hub/manifests/manifest_keep.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/core/hash.h"
#include "hub/manifests/manifest_file.h"

struct manifest_keep {
	char *dir;
};

static char *
path_of(const struct manifest_keep *k, const char *file, enum keep_kind kind)
{
	return xasprintf("%s/%s%s", k->dir, file, kind == KEEP_PART ? "~" : "");
}

struct manifest_keep *
manifest_keep_open(const char *data_dir, const char *folder)
{
	struct manifest_keep *k = xcalloc(1, sizeof *k);

	k->dir = xasprintf("%s/manifests/%016" PRIx64, data_dir, hash64(folder, strlen(folder), 0));
	return k;
}

void
manifest_keep_close(struct manifest_keep **out)
{
	struct manifest_keep *k = take_ptr(out);

	if (k == NULL)
		return;
	free(k->dir);
	free(k);
}

/* --- pending copies ------------------------------------------------------------------------- */

static void
put_off(struct manifest_copies *copies, enum keep_kind kind, char *text, size_t len)
{
	free(copies->copy[kind].text);
	copies->copy[kind].text = text;
	copies->copy[kind].len = len;
	copies->copy[kind].waits = true;
}

void
manifest_copies_take(struct manifest_copies *copies, enum keep_kind kind, char **text, size_t len)
{
	put_off(copies, kind, take_ptr(text), len);
	if (kind == KEEP_WHOLE)
		put_off(copies, KEEP_PART, NULL, 0);
}

void
manifest_copies_whole(struct manifest_copies *copies)
{
	put_off(copies, KEEP_PART, NULL, 0);
}

void
manifest_copies_fini(struct manifest_copies *copies)
{
	for (unsigned i = 0; i < KEEP_KINDS; i++)
		free(copies->copy[i].text);
	*copies = (struct manifest_copies){0};
}

bool
manifest_copies_wait(const struct manifest_copies *copies)
{
	return copies->copy[KEEP_WHOLE].waits || copies->copy[KEEP_PART].waits;
}

/* --- files ---------------------------------------------------------------------------------- */

static int
write_one(const struct manifest_keep *k, const char *file, const struct manifest_copies *copies,
	enum keep_kind kind)
{
	auto_free char *path = path_of(k, file, kind);

	if (!copies->copy[kind].waits)
		return 0;
	if (copies->copy[kind].text == NULL)
		return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
	return file_write(path, copies->copy[kind].text, copies->copy[kind].len, 0600);
}

int
manifest_keep_write(const struct manifest_keep *k, const char *file, struct manifest_copies *copies)
{
	int rc = mkdir_p(k->dir, 0700);

	/* A new part is written first: together with the old whole it is still correct. */
	if (rc == 0 && copies->copy[KEEP_PART].text != NULL)
		rc = write_one(k, file, copies, KEEP_PART);
	if (rc == 0)
		rc = write_one(k, file, copies, KEEP_WHOLE);
	if (rc == 0 && copies->copy[KEEP_PART].text == NULL)
		rc = write_one(k, file, copies, KEEP_PART);
	if (rc == 0)
		manifest_copies_fini(copies);
	return rc;
}

char *
manifest_keep_read(
	const struct manifest_keep *k, const char *file, enum keep_kind kind, size_t *len)
{
	auto_free char *path = path_of(k, file, kind);
	char *text = NULL;

	return file_read(path, MANIFEST_FILE_MAX, &text, len) == 0 ? text : NULL;
}

void
manifest_keep_drop(const struct manifest_keep *k, const char *file)
{
	for (unsigned i = 0; i < KEEP_KINDS; i++) {
		auto_free char *path = path_of(k, file, (enum keep_kind)i);

		unlink(path);
	}
}

void
manifest_keep_sweep(
	const struct manifest_keep *k, bool (*known)(void *arg, const char *file), void *arg)
{
	DIR *dir = opendir(k->dir);
	struct dirent *d;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		size_t len = strlen(d->d_name);
		auto_free char *file =
			xstrndup(d->d_name, len - (len > 0 && d->d_name[len - 1] == '~'));

		if (strcmp(file, ".") != 0 && strcmp(file, "..") != 0 && !known(arg, file))
			manifest_keep_drop(k, file);
	}
	if (dir != NULL)
		closedir(dir);
}
