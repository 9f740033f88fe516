/*
 * Loaded into a daemon (LD_PRELOAD): on SIGUSR1 it tries what somebody would who runs code of his
 * own there, in the thread that gets the signal, and writes a line for each into the file of
 * $INTRUDER: its name, then 0 or errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int out = -1;

static void
told(const char *name, long rc)
{
	char line[64];
	int n = snprintf(line, sizeof line, "%s %d\n", name, rc < 0 ? errno : 0);

	if (write(out, line, (size_t)n) != n)
		abort();
}

/* With $ATTEMPT only the one of that name. */
static int
wanted(const char *name)
{
	const char *only = getenv("ATTEMPT");

	return only == NULL || strcmp(only, name) == 0;
}

#define TRY(name, call)                                                                            \
	do {                                                                                       \
		if (wanted(#name))                                                                 \
			told(#name, call);                                                         \
	} while (0)

static void *
page(int protection)
{
	return mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void
on_signal(int signum)
{
	char *const nothing[] = {NULL};
	char answer[256] = {0};
	void *written = page(PROT_READ | PROT_WRITE);

	(void)signum;
	out = open(getenv("INTRUDER"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	TRY(ptrace, syscall(SYS_ptrace, 0, 0, 0, 0));
	TRY(mount, syscall(SYS_mount, "none", "/", "", 0, 0));
	TRY(bpf, syscall(SYS_bpf, 0, 0, 0));
	TRY(keyctl, syscall(SYS_keyctl, 0, -3, 0));
	TRY(kexec_load, syscall(SYS_kexec_load, 0, 0, 0, 0));
	TRY(init_module, syscall(SYS_init_module, 0, 0, ""));
	TRY(unshare, syscall(SYS_unshare, CLONE_NEWUSER));
	TRY(setns, syscall(SYS_setns, -1, 0));
	TRY(perf_event_open, syscall(SYS_perf_event_open, 0, 0, -1, -1, 0));
	TRY(process_vm_writev, syscall(SYS_process_vm_writev, 1, 0, 0, 0, 0, 0));
	TRY(userfaultfd, syscall(SYS_userfaultfd, 0));
	TRY(io_uring_setup, syscall(SYS_io_uring_setup, 1, 0));
	TRY(execve, syscall(SYS_execve, "/nowhere", nothing, nothing));
	TRY(clone, syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0));
	TRY(clone3, syscall(SYS_clone3, 0, 0));
	TRY(kill, syscall(SYS_kill, 1, 0));
	TRY(socket, socket(AF_PACKET, SOCK_RAW, 0));
	TRY(mmap, page(PROT_WRITE | PROT_EXEC) == MAP_FAILED ? -1 : 0);
	TRY(mprotect, mprotect(written, 4096, PROT_READ | PROT_EXEC));
	TRY(ioctl, ioctl(0, SECCOMP_IOCTL_NOTIF_RECV, answer));
	told("end", 0);
	close(out);
}

__attribute__((constructor)) static void
load(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	if (getenv("INTRUDER") != NULL)
		sigaction(SIGUSR1, &action, NULL);
}
