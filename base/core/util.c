#include "base/core/util.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

void
cleanup_free(void *p)
{
	free(*(void **)p);
}

void
cleanup_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1; /* another open may have reused its number */
}

int
take_fd(int *fd)
{
	int v = *fd;

	*fd = -1;
	return v;
}

static void *
util_checked(void *p)
{
	if (p == NULL) {
		static const char msg[] = "edgeway: out of memory\n";
		ssize_t n = write(STDERR_FILENO, msg, sizeof msg - 1);
		(void)n;
		abort();
	}
	return p;
}

void *
xmalloc(size_t size)
{
	return util_checked(malloc(size ? size : 1));
}

void *
xcalloc(size_t n, size_t size)
{
	return util_checked(calloc(n ? n : 1, size ? size : 1));
}

void *
xrealloc(void *p, size_t size)
{
	return util_checked(realloc(p, size ? size : 1));
}

char *
xstrdup(const char *s)
{
	return util_checked(strdup(s));
}

int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

char *
xstrndup(const char *s, size_t n)
{
	return util_checked(strndup(s, n));
}

void *
xmemdup(const void *p, size_t n)
{
	void *q = xmalloc(n);

	if (n > 0)
		memcpy(q, p, n);
	return q;
}

char *
xasprintf(const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	return util_checked(s);
}

static uint64_t
clock_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t
mono_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

uint64_t
mono_ms(void)
{
	return mono_us() / 1000;
}

uint64_t
wall_ms(void)
{
	return clock_us(CLOCK_REALTIME) / 1000;
}

void
random_bytes(void *p, size_t n)
{
	uint8_t *at = p;

	while (n > 0) {
		ssize_t got = getrandom(at, n, 0);

		if (got < 0) {
			if (errno == EINTR)
				continue;
			abort();
		}
		at += got;
		n -= (size_t)got;
	}
}

int
file_read(const char *path, size_t limit, char **data, size_t *len)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	auto_free char *bytes = NULL;
	size_t used = 0, size = 4096;

	if (fd < 0)
		return -errno;
	bytes = xmalloc(size + 1);
	for (;;) {
		ssize_t n;

		if (used == size) {
			size *= 2;
			bytes = xrealloc(bytes, size + 1);
		}
		n = read(fd, bytes + used, size - used);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (n == 0)
			break;
		used += (size_t)n;
		if (used > limit)
			return -EFBIG;
	}
	bytes[used] = '\0';
	*data = take_ptr(&bytes);
	if (len != NULL)
		*len = used;
	return 0;
}

char *
text_strip(char *text)
{
	static const char blanks[] = " \t\r\n", mark[] = "\xef\xbb\xbf";
	size_t len;

	if (strncmp(text, mark, sizeof mark - 1) == 0)
		text += sizeof mark - 1;
	text += strspn(text, blanks);
	len = strlen(text);
	while (len > 0 && strchr(blanks, text[len - 1]) != NULL)
		len--;
	text[len] = '\0';
	return text;
}

char *
file_in(const char *path, const char *name, const char *other)
{
	auto_free char *named = xasprintf("%s/%s", path, name);
	struct stat st;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return xstrdup(path);
	return access(named, F_OK) == 0 ? take_ptr(&named) : xasprintf("%s/%s", path, other);
}

static int
write_all(int fd, const char *at, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

void
file_sync_folder(const char *path)
{
	auto_free char *copy = xstrdup(path);
	auto_fd int dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir >= 0)
		fsync(dir);
}

int
file_replace(const char *path, const void *data, size_t len, unsigned mode)
{
	auto_free char *temp = xasprintf("%s.tmp.%d", path, (int)getpid());
	auto_fd int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	int rc;

	if (fd < 0)
		return -errno;
	rc = fchmod(fd, mode) < 0 ? -errno : write_all(fd, data, len);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (rc == 0 && rename(temp, path) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(temp);
	return rc;
}

int
file_write(const char *path, const void *data, size_t len, unsigned mode)
{
	int rc = file_replace(path, data, len, mode);

	if (rc == 0)
		file_sync_folder(path);
	return rc;
}

int
file_append(const char *path, const void *data, size_t len, unsigned mode)
{
	auto_fd int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
	struct stat before;
	int rc;

	if (fd < 0 || fstat(fd, &before) < 0)
		return -errno;
	rc = write_all(fd, data, len);
	if (rc == 0 && fsync(fd) < 0)
		rc = -errno;
	if (rc < 0)
		(void)!ftruncate(fd, before.st_size);
	else if (before.st_size == 0)
		file_sync_folder(path);
	return rc;
}

int
mkdir_p(const char *path, unsigned mode)
{
	auto_free char *copy = xstrdup(path);

	for (char *at = copy + 1; *at != '\0'; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return -errno;
		*at = '/';
	}
	if (mkdir(copy, mode) < 0 && errno != EEXIST)
		return -errno;
	return 0;
}

static char
text_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

unsigned
text_distance(const char *a, const char *b)
{
	unsigned row[TEXT_DISTANCE_MAX], above, kept;
	size_t n = MIN(strlen(b), (size_t)TEXT_DISTANCE_MAX - 1);

	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned)j;
	for (size_t i = 0; a[i] != '\0' && i < TEXT_DISTANCE_MAX; i++) {
		above = row[0];
		row[0] = (unsigned)i + 1;
		for (size_t j = 1; j <= n; j++) {
			kept = row[j];
			row[j] = MIN(MIN(row[j], row[j - 1]) + 1,
				above + (text_lower(a[i]) != text_lower(b[j - 1])));
			above = kept;
		}
	}
	return row[n];
}
