#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/privileges.h"

/* Each of these runs in a process of its own: what is given up does not come back. */
typedef int child_fn(void);

static int
in_child(child_fn *fn)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static uint64_t
line_of_status(const char *name)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	unsigned long long value = ~0ULL;

	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		if (strncmp(line, name, strlen(name)) == 0)
			value = strtoull(line + strlen(name) + 1, NULL, 16);
	}
	if (f != NULL)
		fclose(f);
	return value;
}

static int
keep_two(void)
{
	const uint64_t two = PRIVILEGE_NET_ADMIN | PRIVILEGE_NET_BIND;
	uint64_t before = privileges_held();
	bool may_shrink = (before >> CAP_SETPCAP & 1) != 0;

	if (privileges_keep(two, NULL) != 0)
		return 1;
	if (privileges_held() != (before & two))
		return 2;
	if (line_of_status("CapEff:") != (before & two) ||
		line_of_status("CapPrm:") != (before & two))
		return 3;
	if (line_of_status("CapInh:") != 0 || line_of_status("CapAmb:") != 0)
		return 4;
	if (may_shrink && (line_of_status("CapBnd:") & ~two) != 0)
		return 5;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 6;
	/* nothing is gained by asking for more later */
	if (privileges_keep(two | PRIVILEGE_FOREIGN_FILES, NULL) != 0)
		return 7;
	return privileges_held() == (before & two) ? 0 : 8;
}

/* A user who is not root executes a program: it has what is passed on, and nothing else. */
static int
pass_on(void)
{
	const uint64_t two = PRIVILEGE_NET_ADMIN | PRIVILEGE_NET_BIND;
	char wanted[64];

	if (geteuid() != 0 || (privileges_held() & two) != two)
		return 0;
	snprintf(wanted, sizeof wanted, "CapEff:\t%016llx", (unsigned long long)two);
	if (prctl(PR_SET_KEEPCAPS, 1) != 0 || setuid(12345) != 0 ||
		privileges_keep(two, NULL) != 0 || privileges_pass_on() != 0)
		return 1;
	execlp("grep", "grep", "-qx", wanted, "/proc/self/status", NULL);
	return 2;
}

static int
keep_nothing(void)
{
	return privileges_keep(0, NULL) == 0 && privileges_held() == 0 ? 0 : 1;
}

static void *
wait_for_end(void *arg)
{
	pthread_mutex_lock(arg);
	pthread_mutex_unlock(arg);
	return NULL;
}

static int
keep_with_thread(void)
{
	pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
	uint64_t before = privileges_held();
	struct err err = {0};
	pthread_t thread;
	int rc;

	pthread_mutex_lock(&held);
	if (pthread_create(&thread, NULL, wait_for_end, &held) != 0)
		return 1;
	rc = privileges_keep(0, &err);
	pthread_mutex_unlock(&held);
	pthread_join(thread, NULL);
	return rc == -EBUSY && privileges_held() == before && strstr(err.text, "threads") != NULL
		? 0
		: 2;
}

static void *
give_up(void *arg)
{
	*(uint64_t *)arg = privileges_keep_thread(0) == 0 ? privileges_held() : 1;
	return NULL;
}

static int
keep_in_one_thread(void)
{
	uint64_t before = privileges_held(), there = 1;
	pthread_t thread;

	if (pthread_create(&thread, NULL, give_up, &there) != 0 || pthread_join(thread, NULL) != 0)
		return 1;
	return there == 0 && privileges_held() == before ? 0 : 2;
}

static void
keeps_what_is_named(void **state)
{
	(void)state;
	assert_int_equal(in_child(keep_two), 0);
	assert_int_equal(in_child(keep_nothing), 0);
	assert_int_equal(in_child(pass_on), 0);
}

static void
refuses_beside_threads(void **state)
{
	(void)state;
	assert_int_equal(in_child(keep_with_thread), 0);
	assert_int_equal(in_child(keep_in_one_thread), 0);
}

static void
knows_foreign_paths(void **state)
{
	char dir[] = "/tmp/privileges-XXXXXX";

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_false(privileges_foreign(dir));
	assert_int_equal(chmod(dir, 0500), 0);
	assert_true(privileges_foreign(dir));
	if (geteuid() == 0) {
		assert_int_equal(chmod(dir, 0700), 0);
		assert_int_equal(chown(dir, 12345, 0), 0);
		assert_true(privileges_foreign(dir));
	}
	assert_int_equal(rmdir(dir), 0);
	assert_false(privileges_foreign(dir));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_what_is_named),
		cmocka_unit_test(refuses_beside_threads),
		cmocka_unit_test(knows_foreign_paths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
