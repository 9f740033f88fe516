#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/fdpass.h"
#include "base/core/util.h"
#include "base/os/notify.h"

/* A manager's socket at `name` ("/path" or "@abstract"), which $NOTIFY_SOCKET tells from now on. */
static int
manager(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	size_t n = strlen(name);

	assert_true(fd >= 0);
	memcpy(at.sun_path, name, n);
	if (name[0] == '@')
		at.sun_path[0] = '\0';
	assert_int_equal(bind(fd, (struct sockaddr *)&at,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
		0);
	setenv("NOTIFY_SOCKET", name, 1);
	return fd;
}

static void
assert_told(int fd, const char *lines)
{
	char got[256];
	ssize_t n = recv(fd, got, sizeof got - 1, 0);

	assert_true(n >= 0);
	got[n] = '\0';
	assert_string_equal(got, lines);
}

static void
tells_by_path_and_abstract_name(void **state)
{
	char folder[] = "/tmp/notify_test.XXXXXX";
	auto_free char *path = NULL, *name = xasprintf("@edgeway-notify-test-%d", (int)getpid());
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	path = xasprintf("%s/s", folder);
	fd = manager(path);
	assert_true(notify_wanted());
	assert_int_equal(notify_send("READY=1\nSTATUS=well"), 0);
	assert_told(fd, "READY=1\nSTATUS=well");
	close(fd);
	assert_int_equal(notify_send("READY=1"), -ECONNREFUSED);
	unlink(path);
	rmdir(folder);
	assert_int_equal(notify_send("READY=1"), -ENOENT);
	fd = manager(name);
	assert_int_equal(notify_send("STOPPING=1"), 0);
	assert_told(fd, "STOPPING=1");
	close(fd);
}

/* A manager that hangs must not hang us. */
static void
never_waits(void **state)
{
	auto_free char *name = xasprintf("@edgeway-notify-test-%d", (int)getpid());
	int fd = manager(name), rc = 0;

	(void)state;
	for (int i = 0; i < 100000 && rc == 0; i++)
		rc = notify_send("WATCHDOG=1");
	assert_int_equal(rc, -EAGAIN);
	close(fd);
}

static void
without_a_manager(void **state)
{
	char far[200];

	(void)state;
	unsetenv("NOTIFY_SOCKET");
	setenv("WATCHDOG_USEC", "30000000", 1);
	assert_false(notify_wanted());
	assert_int_equal(notify_send("READY=1"), 0);
	assert_int_equal(notify_watchdog_ms(), 0);
	setenv("NOTIFY_SOCKET", "", 1);
	assert_false(notify_wanted());
	setenv("NOTIFY_SOCKET", "relative", 1);
	assert_int_equal(notify_send("READY=1"), -EINVAL);
	setenv("NOTIFY_SOCKET", "@", 1);
	assert_int_equal(notify_send("READY=1"), -EINVAL);
	memset(far, 'a', sizeof far - 1);
	far[0] = '/';
	far[sizeof far - 1] = '\0';
	setenv("NOTIFY_SOCKET", far, 1);
	assert_int_equal(notify_send("READY=1"), -EINVAL);
}

static void
knows_the_watchdog(void **state)
{
	auto_free char *me = xasprintf("%d", (int)getpid());

	(void)state;
	setenv("NOTIFY_SOCKET", "/nobody", 1);
	unsetenv("WATCHDOG_PID");
	setenv("WATCHDOG_USEC", "30000000", 1);
	assert_int_equal(notify_watchdog_ms(), 30000);
	setenv("WATCHDOG_PID", me, 1);
	assert_int_equal(notify_watchdog_ms(), 30000);
	setenv("WATCHDOG_PID", "1", 1); /* meant for our parent */
	assert_int_equal(notify_watchdog_ms(), 0);
	setenv("WATCHDOG_PID", me, 1);
	setenv("WATCHDOG_USEC", "-1", 1);
	assert_int_equal(notify_watchdog_ms(), 0);
	setenv("WATCHDOG_USEC", "30s", 1);
	assert_int_equal(notify_watchdog_ms(), 0);
	unsetenv("WATCHDOG_USEC");
	assert_int_equal(notify_watchdog_ms(), 0);
}

static void
gives_descriptors(void **state)
{
	auto_free char *name = xasprintf("@edgeway-notify-test-%d", (int)getpid());
	struct fdpass got = {0};
	struct stat mine, theirs;
	char text[64] = "";
	int ends[2], fd;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	fd = manager(name);
	assert_int_equal(notify_send_fds("FDSTORE=1\nFDNAME=a", ends, 2), 0);
	assert_int_equal(fdpass_receive(fd, text, sizeof text - 1, &got), 18);
	assert_string_equal(text, "FDSTORE=1\nFDNAME=a");
	assert_int_equal(got.n, 2);
	assert_int_equal(fstat(ends[1], &mine), 0);
	assert_int_equal(fstat(got.at[1], &theirs), 0);
	assert_true(mine.st_ino == theirs.st_ino);
	fdpass_close(&got);
	close(ends[0]);
	close(ends[1]);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_by_path_and_abstract_name),
		cmocka_unit_test(never_waits),
		cmocka_unit_test(without_a_manager),
		cmocka_unit_test(knows_the_watchdog),
		cmocka_unit_test(gives_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
