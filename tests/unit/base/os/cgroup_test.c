#include "base/os/cgroup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "/tmp/cgroup_test.XXXXXX";

/* Below `top`, with the folders on the way. */
static void
write_file(const char *name, const char *text)
{
	auto_free char *path = xasprintf("%s/%s", top, name);
	FILE *f;

	for (char *at = path + strlen(top) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static uint64_t
limit(const char *membership)
{
	auto_free char *path = xasprintf("%s/self", top), *mount = xasprintf("%s/fs", top);

	write_file("self", membership);
	return cgroup_memory_limit(path, mount);
}

static int
make_top(void **state)
{
	(void)state;
	return mkdtemp(top) != NULL ? 0 : -1;
}

static int
remove_top(void **state)
{
	auto_free char *command = xasprintf("rm -r %s", top);

	(void)state;
	return system(command);
}

static void
none_is_no_limit(void **state)
{
	auto_free char *nowhere = xasprintf("%s/nowhere", top);

	(void)state;
	assert_true(cgroup_memory_limit(nowhere, nowhere) == UINT64_MAX);
	assert_true(limit("") == UINT64_MAX);
	assert_true(limit("0::/none\n") == UINT64_MAX);
	assert_true(limit("nonsense\n5\n:\n::\n4:memory:\n") == UINT64_MAX);
}

static void
version_2(void **state)
{
	(void)state;
	write_file("fs/system/agent/memory.max", "max\n");
	assert_true(limit("0::/system/agent\n") == UINT64_MAX);
	write_file("fs/system/memory.max", "300000000\n");
	assert_int_equal(limit("0::/system/agent\n"), 300000000);
	write_file("fs/system/agent/memory.max", "134217728\n");
	assert_int_equal(limit("0::/system/agent\n"), 134217728);
	write_file("fs/system/agent/memory.high", "100000000\n");
	assert_int_equal(limit("0::/system/agent\n"), 100000000);
}

/* The group's path is the node's, but what is mounted begins with the container's. */
static void
in_a_container(void **state)
{
	(void)state;
	write_file("fs/memory.max", "200000000\n");
	assert_int_equal(limit("0::/\n"), 200000000);
	assert_int_equal(limit("0::/kubepods/pod7/box\n"), 200000000);
	write_file("fs/memory.max", "max\n");
}

static void
version_1(void **state)
{
	(void)state;
	write_file("fs/memory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_true(limit("4:memory:/box\n") == UINT64_MAX);
	write_file("fs/memory/box/memory.limit_in_bytes", "64000000\n");
	assert_int_equal(limit("5:cpu,cpuacct:/x\n4:hugetlb,memory:/box\n0::/\n"), 64000000);
	assert_true(limit("4:memoryless:/box\n") == UINT64_MAX);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_is_no_limit),
		cmocka_unit_test(version_2),
		cmocka_unit_test(in_a_container),
		cmocka_unit_test(version_1),
	};

	return cmocka_run_group_tests(tests, make_top, remove_top);
}
