#include "src/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"

enum { FIRST_FD = STDERR_FILENO + 1 };

enum word { START, LOOK };

struct answer {
	int rc; /* START: 0 or -errno; LOOK: does it run? */
	pid_t pid;
};

struct starter {
	int fd;
};

/* --- the process ---------------------------------------------------------------- */

extern char **environ;

/* The new one is another process to the watchdog, and takes over. */
static char **
its_environment(void)
{
	size_t n = 0, kept = 0;
	char **to;

	while (environ[n] != NULL)
		n++;
	to = xcalloc(n + 2, sizeof *to);
	for (size_t i = 0; i < n; i++)
		if (strncmp(environ[i], "WATCHDOG_PID=", 13) != 0 &&
			strncmp(environ[i], "EDGEWAY_TAKEOVER=", 17) != 0)
			to[kept++] = environ[i];
	to[kept] = (char *)(uintptr_t) "EDGEWAY_TAKEOVER=true";
	return to;
}

static int
start_program(char **argv, pid_t *child)
{
	auto_free char **env = its_environment();
	posix_spawnattr_t attr;
	sigset_t none, all;
	int rc;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawnp(child, argv[0], NULL, &attr, argv, env);
	posix_spawnattr_destroy(&attr);
	return -rc;
}

/* Until the agent has gone: signals to the whole group are the agent's. */
static void
serve(int fd, char **argv)
{
	static const int not_ours[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE};
	enum word word;
	pid_t child = 0;

	for (size_t i = 0; i < ARRAY_LEN(not_ours); i++)
		signal(not_ours[i], SIG_IGN);
	prctl(PR_SET_NAME, "edgeway-starter");
	while (recv(fd, &word, sizeof word, 0) == (ssize_t)sizeof word) {
		struct answer a = {0};

		if (child > 0 && waitpid(child, NULL, WNOHANG) != 0)
			child = 0;
		if (word == LOOK)
			a.rc = child > 0;
		else
			a.rc = child > 0 ? -EBUSY : start_program(argv, &child);
		if (a.rc < 0 && a.rc != -EBUSY)
			child = 0;
		a.pid = child;
		send(fd, &a, sizeof a, MSG_NOSIGNAL);
	}
}

/* --- the agent's side -------------------------------------------------------------- */

int
starter_new(struct starter **out, char **argv, struct err *err)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(err, errno, "socketpair: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		/* none of the agent's locks may outlive it here */
		if (dup3(fds[1], FIRST_FD, O_CLOEXEC) < 0 && fds[1] != FIRST_FD)
			_exit(1);
		closefrom(FIRST_FD + 1);
		serve(FIRST_FD, argv);
		_exit(0);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return err_set(err, errno, "fork: %s", strerror(errno));
	}
	*out = xcalloc(1, sizeof **out);
	(*out)->fd = fds[0];
	return 0;
}

static int
ask(struct starter *s, enum word word, struct answer *a)
{
	if (s == NULL || send(s->fd, &word, sizeof word, MSG_NOSIGNAL) < 0 ||
		recv(s->fd, a, sizeof *a, 0) != (ssize_t)sizeof *a)
		return -ECHILD;
	return a->rc;
}

int
starter_run(struct starter *s, pid_t *pid)
{
	struct answer a = {0};
	int rc = ask(s, START, &a);

	*pid = a.pid;
	return rc;
}

bool
starter_runs(struct starter *s)
{
	struct answer a = {0};

	return ask(s, LOOK, &a) > 0;
}

void
starter_free(struct starter **out)
{
	struct starter *s = take_ptr(out);

	if (s == NULL)
		return;
	close(s->fd);
	free(s);
}
