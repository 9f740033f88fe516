#include "src/common/spawner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/privileges.h"
#include "base/core/util.h"

/* A request expires well before its sender gives up: nothing is started after that. */
enum { FIRST_FD = STDERR_FILENO + 1, WISH_MS = SPAWNER_MS - 1000 };

struct wish {
	uint64_t id;
	uint64_t until_ms; /* mono_ms; after that its sender waits no more */
};

struct answer {
	uint64_t id;
	int rc; /* 0 or -errno */
	pid_t pid;
};

struct spawner {
	int fd;
	pid_t pid;
	uint64_t id; /* of the last request */
	struct watch *watch; /* while a reply is awaited */
	struct timer *timer;
	spawner_fn *done; /* NULL: nothing is in progress */
	void *arg;
};

/* --- the process ---------------------------------------------------------------------------- */

extern char **environ;

/* The new program gets EDGEWAY_TAKEOVER=true, and no WATCHDOG_PID: it is another process. */
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

/* Runs until the agent has ended: signals to the whole process group are meant for the agent. */
static void
spawner_serve(int fd, char **argv)
{
	static const int not_ours[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE};
	struct wish wish;
	pid_t child = 0;

	for (size_t i = 0; i < ARRAY_LEN(not_ours); i++)
		signal(not_ours[i], SIG_IGN);
	prctl(PR_SET_NAME, "edgeway-starter");
	/* a program that another user than root executes has no others; where they cannot be passed
	 * on, it says itself what it lacks */
	(void)privileges_pass_on();
	while (recv(fd, &wish, sizeof wish, 0) == (ssize_t)sizeof wish) {
		struct answer a = {.id = wish.id};

		if (child > 0 && waitpid(child, NULL, WNOHANG) != 0)
			child = 0;
		if (mono_ms() >= wish.until_ms)
			continue;
		a.rc = child > 0 ? -EBUSY : start_program(argv, &child);
		if (a.rc < 0 && a.rc != -EBUSY)
			child = 0;
		a.pid = child;
		send(fd, &a, sizeof a, MSG_NOSIGNAL);
	}
}

/* --- the agent's side ----------------------------------------------------------------------- */

int
spawner_new(struct spawner **out, char **argv, struct err *err)
{
	int fds[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return err_set(err, errno, "socketpair: %s", strerror(errno));
	pid = fork();
	if (pid == 0) {
		/* none of the agent's locks may stay open in this process */
		if (dup3(fds[1], FIRST_FD, O_CLOEXEC) < 0 && fds[1] != FIRST_FD)
			_exit(1);
		closefrom(FIRST_FD + 1);
		spawner_serve(FIRST_FD, argv);
		_exit(0);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return err_set(err, errno, "fork: %s", strerror(errno));
	}
	*out = xcalloc(1, sizeof **out);
	(*out)->fd = fds[0];
	(*out)->pid = pid;
	return 0;
}

static void
spawner_end(struct spawner *s, int rc, pid_t pid)
{
	spawner_fn *done = s->done;

	s->done = NULL;
	watch_stop(&s->watch);
	timer_free(&s->timer);
	done(s->arg, rc, pid);
}

static void
on_answer(void *arg, int fd, unsigned events)
{
	struct spawner *s = arg;
	struct answer a;
	ssize_t n = recv(fd, &a, sizeof a, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != (ssize_t)sizeof a)
		spawner_end(s, -ECHILD, 0);
	else if (a.id == s->id) /* otherwise it is a late reply to the previous request */
		spawner_end(s, a.rc, a.pid);
}

static void
on_silence(void *arg)
{
	spawner_end(arg, -ETIMEDOUT, 0);
}

int
spawner_run(struct spawner *s, struct loop *loop, spawner_fn *done, void *arg)
{
	const struct wish wish = {.id = s != NULL ? s->id + 1 : 0, .until_ms = mono_ms() + WISH_MS};

	if (s == NULL)
		return -ECHILD;
	if (s->done != NULL)
		return -EBUSY;
	if (send(s->fd, &wish, sizeof wish, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -ECHILD;
	s->id = wish.id;
	s->done = done;
	s->arg = arg;
	s->watch = watch_start(loop, s->fd, WATCH_READ, on_answer, s);
	s->timer = timer_new(loop, on_silence, s);
	timer_start(s->timer, SPAWNER_MS, 0);
	return 0;
}

pid_t
spawner_pid(const struct spawner *s)
{
	return s != NULL ? s->pid : 0;
}

void
spawner_free(struct spawner **out)
{
	struct spawner *s = take_ptr(out);

	if (s == NULL)
		return;
	watch_stop(&s->watch);
	timer_free(&s->timer);
	close(s->fd);
	free(s);
}
