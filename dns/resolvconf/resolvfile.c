#include "dns/resolvconf/resolvfile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dns/resolvconf/resolvtext.h"

enum { FORGET_MS = 300 };
#define LEAVING "# edgeway: on its way out\nnameserver 127.0.0.53\n"

static int
write_all(int fd, const char *text, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = pwrite(fd, text + done, len - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

static int
fill_temporary(int fd, const struct resolv_original *like, const char *text, size_t len)
{
	int rc = write_all(fd, text, len);

	/* Without CAP_CHOWN the new file belongs to us; its mode stays the same. */
	if (rc == 0 && fchown(fd, like->uid, like->gid) < 0 && errno != EPERM)
		rc = -errno;
	if (rc == 0 && fchmod(fd, like->mode) < 0)
		rc = -errno;
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	return rc;
}

static int
rename_over(const char *path, const struct resolv_original *like, const char *text, size_t len)
{
	auto_free char *temporary = xasprintf("%s.edgeway-new", path);
	auto_fd int fd = -1;
	int rc;

	unlink(temporary);
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	rc = fill_temporary(fd, like, text, len);
	if (rc == 0 && rename(temporary, path) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(temporary);
	else
		file_sync_folder(path); /* or the next record could be on the disk before it */
	return rc;
}

/* The file is truncated to a shorter text first: a crash in between leaves the beginning of the
 * longer one, which resolvfile_is_ours recognises, and never a mixture. */
static int
write_in_place(const char *path, const char *text, size_t len)
{
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	int rc;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((size_t)st.st_size > len && ftruncate(fd, (off_t)len) < 0)
		return -errno;
	rc = write_all(fd, text, len);
	return rc == 0 && fsync(fd) < 0 && errno != EINVAL ? -errno : rc;
}

int
resolvfile_replace(
	const char *path, const struct resolv_original *like, const char *text, size_t len)
{
	int rc = rename_over(path, like, text, len);

	if (rc == -EBUSY || rc == -EXDEV || rc == -EROFS || rc == -EACCES || rc == -EPERM) {
		int second = write_in_place(path, text, len);

		return second == -ENOENT || second == -ELOOP ? rc : second;
	}
	return rc;
}

static int
make_link(const char *path, const char *target)
{
	auto_free char *temporary = xasprintf("%s.edgeway-new", path);
	int rc = 0;

	unlink(temporary);
	if (symlink(target, temporary) < 0)
		return -errno;
	if (rename(temporary, path) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(temporary);
	else
		file_sync_folder(path); /* before the record is forgotten */
	return rc;
}

int
resolvfile_read(const char *path, struct resolv_original *o)
{
	char link[4096];
	struct stat st;
	ssize_t n;
	int rc;

	*o = (struct resolv_original){.mode = 0644};
	if (lstat(path, &st) < 0) {
		if (errno != ENOENT)
			return -errno;
		o->kind = RESOLV_MISSING;
		o->text = xstrdup("");
		return 0;
	}
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, link, sizeof link);
		if (n <= 0)
			return n < 0 ? -errno : -EINVAL;
		o->kind = RESOLV_LINK;
		o->link = xstrndup(link, (size_t)n);
		if (stat(path, &st) < 0)
			st.st_mode = S_IFREG; /* file_read reports the reason */
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		resolv_original_fini(o);
		return -ENOTSUP;
	}
	rc = file_read(path, RESOLVTEXT_MAX, &o->text, &o->len);
	if (rc == -ENOENT && o->kind == RESOLV_LINK) {
		o->text = xstrdup("");
	} else if (rc < 0 || stat(path, &st) < 0) {
		rc = rc < 0 ? rc : -errno;
		resolv_original_fini(o);
		return rc;
	} else {
		o->mode = st.st_mode & 07777;
		o->uid = st.st_uid;
		o->gid = st.st_gid;
	}
	return 0;
}

static bool
resolvfile_begins(const struct resolv_original *now, const char *text, size_t len)
{
	if (len == 0 || now->len > len || memcmp(now->text, text, now->len) != 0)
		return false;
	return now->len == len || resolvtext_is_ours(now->text, now->len);
}

bool
resolvfile_is_whole(const struct resolv_original *o, const struct resolv_original *now)
{
	return now->kind == RESOLV_FILE && o->ours_len > 0 && now->len == o->ours_len &&
		memcmp(now->text, o->ours, now->len) == 0;
}

bool
resolvfile_is_ours(const struct resolv_original *o, const struct resolv_original *now)
{
	if (now->kind != RESOLV_FILE)
		return false;
	if (o->kind == RESOLV_LINK && strcmp(now->text, LEAVING) == 0)
		return true; /* killed on its way out */
	return resolvfile_begins(now, o->ours, o->ours_len) ||
		resolvfile_begins(now, o->before, o->before_len);
}

bool
resolved_owns(const char *link)
{
	return strstr(link, "run/systemd/resolve/") != NULL;
}

/* systemd-resolved takes the servers and the search list of a resolv.conf that is not its own for
 * settings of the host, and keeps them when its own is there again: it reads the file before it
 * looks for a server, and only then. So it is shown a file that names nobody but itself, and asked.
 * Whether it knows the answer does not matter. */
static void
resolved_forget(const char *path, const struct resolv_original *o)
{
	static const uint8_t query[] = "\x45\x57\x01\0\0\1\0\0\0\0\0\0\7edgeway\4test\0\0\1\0";
	struct pollfd p = {.fd = -1, .events = POLLIN};
	struct addr stub = addr_ipv4(RESOLVED_STUB, 53);

	if (!resolved_owns(o->link) || resolvfile_replace(path, o, LEAVING, strlen(LEAVING)) < 0 ||
		sock_connect_udp(&stub, 0, 0, &p.fd) < 0)
		return;
	if (send(p.fd, query, sizeof query, MSG_NOSIGNAL) == (ssize_t)sizeof query)
		poll(&p, 1, FORGET_MS);
	close(p.fd);
}

int
resolvfile_put_back(const char *path, const struct resolv_original *o)
{
	if (o->kind == RESOLV_LINK) {
		resolved_forget(path, o);
		return make_link(path, o->link);
	}
	if (o->kind == RESOLV_MISSING)
		return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
	return resolvfile_replace(path, o, o->text, o->len);
}

/* --- concurrent writers --------------------------------------------------------------------- */

int
replaced_read(int fd, char **text, size_t *len)
{
	auto_free char *path = xasprintf("/proc/self/fd/%d", fd);

	return file_read(path, RESOLVTEXT_MAX, text, len);
}

void
replaced_fini(struct replaced *r)
{
	if (r->fd >= 0)
		close(r->fd);
	free(r->text);
	*r = (struct replaced){.fd = -1};
}

struct replaced
replaced_open(const char *path)
{
	struct replaced r = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};

	if (r.fd >= 0 && replaced_read(r.fd, &r.text, &r.len) < 0)
		replaced_fini(&r);
	return r;
}

bool
replaced_is_at(int fd, const char *path)
{
	struct stat a, b;

	return fstat(fd, &a) == 0 && lstat(path, &b) == 0 && a.st_dev == b.st_dev &&
		a.st_ino == b.st_ino;
}
