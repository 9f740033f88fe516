#include "src/ctl/ctl_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STATUS_NOT_FOUND = 127, PIECE = 65536 };

static void
run_in_child(const char *const *argv, int to)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (dup2(nothing, STDIN_FILENO) < 0 || dup2(to, STDOUT_FILENO) < 0 ||
		dup2(to, STDERR_FILENO) < 0)
		_exit(STATUS_NOT_FOUND);
	/* The locations of these programs are known; do not depend on the operator's PATH. */
	setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin", 1);
	setenv("LC_ALL", "C", 1);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(STATUS_NOT_FOUND);
}

/* 0 at the end of output, -ETIMEDOUT, or -ENOBUFS: there is more output than room. */
static int
run_read(int from, struct buf *out)
{
	uint64_t until = mono_ms() + CTL_RUN_MS, now;
	struct pollfd p = {.fd = from, .events = POLLIN};
	ssize_t n;

	while ((now = mono_ms()) < until) {
		if (poll(&p, 1, (int)(until - now)) <= 0)
			continue;
		if ((n = buf_read(out, from, PIECE)) <= 0)
			return (int)n;
	}
	return -ETIMEDOUT;
}

int
ctl_run(const char *const *argv, struct buf *out)
{
	int fds[2], status = 0, rc;
	pid_t child;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	if ((child = fork()) == 0)
		run_in_child(argv, fds[1]);
	close(fds[1]);
	rc = child < 0 ? -errno : run_read(fds[0], out);
	close(fds[0]);
	if (child < 0)
		return rc;
	if (rc < 0)
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (rc < 0)
		return rc;
	if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_NOT_FOUND)
		return -ENOENT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}
