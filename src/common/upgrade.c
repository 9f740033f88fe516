#include "src/common/upgrade.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/http/admin.h"
#include "base/os/notify.h"

void
upgrade_init(struct upgrade *u, struct loop *loop, struct spawner *starter, const char *who,
	const char *program)
{
	*u = (struct upgrade){
		.loop = loop, .starter = starter, .who = who, .program = program, .waiting = -1};
}

void
upgrade_fini(struct upgrade *u)
{
	cleanup_fd(&u->waiting);
}

static char *
upgrade_why_not(const struct upgrade *u, int rc)
{
	int pid = (int)spawner_pid(u->starter);

	switch (rc) {
	case -EBUSY:
		return xasprintf("this %s stops, or another one is being started", u->who);
	case -EOPNOTSUPP:
		return xasprintf("this %s is process 1 of a container: its end would end the new "
				 "one; roll out a new pod, or start another %s with --takeover",
			u->who, u->who);
	case -ECHILD:
		return xasprintf("its process edgeway-starter has ended; start a new %s with "
				 "--takeover, or restart this one",
			u->who);
	case -ETIMEDOUT:
		return xasprintf("its process edgeway-starter (pid %d) does not answer, and will "
				 "start nothing; is it stopped (kill -CONT %d)? Or start a new "
				 "%s with --takeover",
			pid, pid, u->who);
	default:
		return xstrdup(strerror(-rc));
	}
}

static void
upgrade_refuse(const struct upgrade *u, int fd, int rc)
{
	struct admin_reply reply = {.status = rc == -EBUSY || rc == -EOPNOTSUPP ? 409 : 500};
	auto_free char *why = upgrade_why_not(u, rc);

	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body, "cannot start %s: %s\n", u->program, why);
	log_warn(u->who, "cannot start a new %s: %s", u->who, why);
	admin_answer(fd, &reply);
	buf_fini(&reply.body);
}

static void
upgrade_on_started(void *arg, int rc, pid_t pid)
{
	struct upgrade *u = arg;
	struct admin_reply reply = {.status = 200};
	int fd = take_fd(&u->waiting);

	if (pid != 0)
		u->child = pid;
	if (rc < 0) {
		upgrade_refuse(u, fd, rc);
		return;
	}
	log_info(u->who, "started a new %s to hand over to program=%s pid=%d", u->who, u->program,
		(int)pid);
	buf_init(&reply.body, BUF_UNLIMITED);
	buf_printf(&reply.body,
		"started %s as process %d; edgewayctl status tells when it serves\n", u->program,
		(int)pid);
	admin_answer(fd, &reply);
	buf_fini(&reply.body);
}

void
upgrade_asked(struct upgrade *u, int fd, bool busy)
{
	int rc;

	if (getpid() == 1)
		rc = -EOPNOTSUPP;
	else if (busy || u->waiting >= 0)
		rc = -EBUSY;
	else
		rc = spawner_run(u->starter, u->loop, upgrade_on_started, u);
	if (rc < 0)
		upgrade_refuse(u, fd, rc);
	else
		u->waiting = fd;
}

pid_t
upgrade_who_asks(int fd)
{
	struct ucred who = {0};
	socklen_t size = sizeof who;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 ? who.pid : 0;
}

bool
upgrade_is_child(const struct upgrade *u, pid_t pid)
{
	return pid != 0 && u->child == pid;
}

void
upgrade_tell_manager(const struct upgrade *u, pid_t pid)
{
	char line[64];

	if (!upgrade_is_child(u, pid))
		return;
	snprintf(line, sizeof line, "MAINPID=%d", (int)pid);
	if (notify_send(line) < 0)
		log_warn(u->who, "the service manager was not told of the new %s pid=%d", u->who,
			(int)pid);
}
