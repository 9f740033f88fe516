#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os/sandbox.h"

/* Each of these runs in a process of its own, since a filter stays. The line that fails, or 0; by a
 * signal: 128 and more. */
typedef int child_fn(void);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return __LINE__ % 127 + 1;                                                 \
	} while (0)

static int
in_child(child_fn *fn)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(fn());
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool
refused(long rc)
{
	return rc < 0 && errno == ENOSYS;
}

static bool
next_within(struct sandbox *s, struct sandbox_refusal *r, int ms)
{
	struct pollfd p = {.fd = sandbox_fd(s), .events = POLLIN};

	return poll(&p, 1, ms) == 1 && sandbox_next(s, r);
}

static int
refuse_and_tell(void)
{
	struct sandbox *s;
	struct sandbox_refusal r;

	CHECK(sandbox_enter(&s, SANDBOX_ENFORCE, NULL) == 0);
	CHECK(sandbox_status(s).counted && sandbox_status(s).calls > 100);
	CHECK(refused(syscall(SYS_keyctl, 7, 8, 9)) && refused(syscall(SYS_keyctl, 1, 2, 3)));
	CHECK(refused(syscall(SYS_clone3, NULL, 0)));
	CHECK(refused(syscall(SYS_unshare, 0)));
	CHECK(next_within(s, &r, 10000) && strcmp(r.call, "keyctl") == 0 && r.args[1] == 8);
	CHECK(r.thread == getpid());
	CHECK(next_within(s, &r, 10000) && strcmp(r.call, "unshare") == 0);
	CHECK(!next_within(s, &r, 0));
	CHECK(sandbox_status(s).refused == 3);
	return 0;
}

static void *
from_thread(void *arg)
{
	*(bool *)arg = refused(syscall(SYS_keyctl, 0, 0, 0));
	return NULL;
}

static int
judge_arguments(void)
{
	struct sandbox *s;
	pthread_t thread;
	bool from_it = false;
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(sandbox_enter(&s, SANDBOX_ENFORCE, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, from_thread, &from_it) == 0);
	CHECK(pthread_join(thread, NULL) == 0 && from_it);
	CHECK(refused(fork()));
	CHECK(socket(AF_INET, SOCK_STREAM, 0) >= 0 && refused(socket(AF_PACKET, SOCK_RAW, 0)));
	CHECK(refused(mprotect(page, 4096, PROT_READ | PROT_EXEC)));
	CHECK(mprotect(page, 4096, PROT_READ) == 0);
	CHECK(refused((long)mmap(
		NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)));
	return 0;
}

static int
only_tell(void)
{
	struct sandbox *s;
	struct sandbox_refusal r;

	CHECK(sandbox_enter(&s, SANDBOX_LOG, NULL) == 0);
	CHECK(syscall(SYS_kill, getpid(), 0) == 0);
	CHECK(next_within(s, &r, 10000) && strcmp(r.call, "kill") == 0);
	CHECK(sandbox_status(s).refused == 1);
	return 0;
}

/* Somebody's filter around us has the one listener that there may be: the kernel answers, and
 * nobody counts. */
static int
refuse_below_a_listener(void)
{
	struct sock_filter outer[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_swapon, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_LEN(outer), .filter = outer};
	struct sandbox *s;

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		      &program) >= 0);
	CHECK(sandbox_enter(&s, SANDBOX_ENFORCE, NULL) == 0);
	CHECK(!sandbox_status(s).counted && sandbox_fd(s) == -1);
	CHECK(refused(syscall(SYS_keyctl, 0, 0, 0)) && refused(syscall(SYS_clone3, NULL, 0)));
	return 0;
}

/* Where seccomp(2) itself is refused nothing is, and the reason is told. */
static int
enter_twice(void)
{
	struct sandbox *s;
	struct err err = {0};

	CHECK(sandbox_enter(&s, SANDBOX_ENFORCE, NULL) == 0);
	CHECK(sandbox_enter(&s, SANDBOX_ENFORCE, &err) < 0);
	CHECK(s == NULL && strstr(err.text, "seccomp: ") != NULL);
	return 0;
}

#ifdef __x86_64__
static int
call_as_another_architecture(void)
{
	struct sandbox *s;

	CHECK(sandbox_enter(&s, SANDBOX_ENFORCE, NULL) == 0);
	syscall(0x40000000L | SYS_getpid); /* x32 */
	return 0;
}
#endif

static void
refuses_and_tells(void **state)
{
	(void)state;
	assert_int_equal(in_child(refuse_and_tell), 0);
	assert_int_equal(in_child(only_tell), 0);
}

static void
judges_arguments(void **state)
{
	(void)state;
	assert_int_equal(in_child(judge_arguments), 0);
}

static void
falls_back(void **state)
{
	(void)state;
	assert_int_equal(in_child(refuse_below_a_listener), 0);
	assert_int_equal(in_child(enter_twice), 0);
}

static void
ends_what_is_of_another_architecture(void **state)
{
	(void)state;
#ifdef __x86_64__
	assert_int_equal(in_child(call_as_another_architecture), 128 + SIGSYS);
#else
	skip();
#endif
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_and_tells),
		cmocka_unit_test(judges_arguments),
		cmocka_unit_test(falls_back),
		cmocka_unit_test(ends_what_is_of_another_architecture),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
