#include "base/core/privileges.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/core/util.h"

enum { CAPABILITIES_MAX = 64 };

struct sets { /* 64 bits as two words, low word first: _LINUX_CAPABILITY_VERSION_3 */
	struct __user_cap_data_struct half[2];
};

static int
read_sets(struct sets *s)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

	memset(s, 0, sizeof(*s));
	return syscall(SYS_capget, &header, s->half) < 0 ? -errno : 0;
}

static int
write_sets(const struct sets *s)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};

	return syscall(SYS_capset, &header, s->half) < 0 ? -errno : 0;
}

static size_t
thread_count(void)
{
	DIR *dir = opendir("/proc/self/task");
	size_t n = 0;

	if (dir == NULL)
		return 1; /* without /proc, trust the caller */
	for (const struct dirent *e; (e = readdir(dir)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* Without CAP_SETPCAP the bounding set is unchanged: with no_new_privs and nothing inheritable, no
 * program gains anything from it. */
static void
shrink_bounding_set(uint64_t keep)
{
	for (unsigned long cap = 0; cap < CAPABILITIES_MAX; cap++) {
		if ((keep >> cap & 1) == 0 && prctl(PR_CAPBSET_READ, cap) == 1)
			prctl(PR_CAPBSET_DROP, cap);
	}
}

static void
keep_of(struct sets *s, uint64_t keep)
{
	for (unsigned i = 0; i < ARRAY_LEN(s->half); i++) {
		s->half[i].permitted &= (uint32_t)(keep >> 32 * i);
		s->half[i].effective = s->half[i].permitted;
		s->half[i].inheritable = 0;
	}
}

int
privileges_keep(uint64_t keep, struct err *err)
{
	struct sets s;
	int rc;

	if (thread_count() > 1)
		return err_set(err, EBUSY, "threads run already, they would keep what they have");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_set(err, errno, "no_new_privs: %s", strerror(errno));
	if ((rc = read_sets(&s)) < 0)
		return err_set(err, rc, "capget: %s", strerror(-rc));
	shrink_bounding_set(keep);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	keep_of(&s, keep);
	rc = write_sets(&s);
	return rc < 0 ? err_set(err, rc, "capset: %s", strerror(-rc)) : 0;
}

int
privileges_keep_thread(uint64_t keep)
{
	struct sets s;
	int rc = read_sets(&s);

	if (rc == 0) {
		keep_of(&s, keep);
		rc = write_sets(&s);
	}
	return rc;
}

int
privileges_pass_on(void)
{
	const uint64_t held = privileges_held();
	struct sets s;
	int rc = read_sets(&s);

	for (unsigned i = 0; i < ARRAY_LEN(s.half); i++)
		s.half[i].inheritable = s.half[i].effective;
	if (rc == 0)
		rc = write_sets(&s);
	for (unsigned long cap = 0; cap < CAPABILITIES_MAX && rc == 0; cap++) {
		if ((held >> cap & 1) != 0 &&
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			rc = -errno;
	}
	return rc;
}

uint64_t
privileges_held(void)
{
	struct sets s;

	if (read_sets(&s) < 0)
		return 0;
	return s.half[0].effective | (uint64_t)s.half[1].effective << 32;
}

bool
privileges_foreign(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	return st.st_uid != geteuid() || (S_ISDIR(st.st_mode) && (st.st_mode & S_IWUSR) == 0);
}
