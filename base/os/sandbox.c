#include "base/os/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/core/privileges.h"
#include "base/core/thread.h"
#include "base/os/sandbox_table.h"

enum {
	API_NOTIFY = 5, /* libseccomp's API level for user notifications, Linux 5.0 */
	API_CONTINUE = 6, /* and for letting the call continue, Linux 5.7 at the latest */
	NAME_MAX_BYTES = 32,
	NUMBERS = 1024, /* numbers from here on are reported every time */
	STACK_BYTES = 64 * 1024,
};

struct sandbox {
	enum sandbox_mode mode;
	unsigned calls;
	_Atomic uint64_t refused;
	int told[2]; /* pipe of struct sandbox_refusal, `call` holds only the number */
	int listener; /* for the kernel's notifications; -1: none */
	_Atomic bool gone; /* the thread no longer answers */
	sem_t entered; /* listener is known */
	bool seen[NUMBERS]; /* used by the thread only */
};

/* --- the supervisor thread ------------------------------------------------------------------ */

static int
confine_itself(const struct sandbox *s)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	static const int calls[] = {SCMP_SYS(futex), SCMP_SYS(close), SCMP_SYS(exit),
		SCMP_SYS(exit_group), SCMP_SYS(madvise), SCMP_SYS(munmap), SCMP_SYS(rt_sigprocmask),
		SCMP_SYS(rt_sigreturn), SCMP_SYS(restart_syscall)};
	int rc = filter != NULL ? 0 : -ENOMEM;

	for (size_t i = 0; rc == 0 && i < ARRAY_LEN(calls); i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
			SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)s->listener, 0));
	if (rc == 0)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(write), 1,
			SCMP_A0_32(SCMP_CMP_EQ, (uint32_t)s->told[1], 0));
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

/* When the pipe is full, the refusal is not reported, only counted. */
static void
sandbox_tell(struct sandbox *s, const struct seccomp_notif *asked)
{
	struct sandbox_refusal r = {.thread = (int)asked->pid};
	ssize_t n;

	memcpy(r.call, &asked->data.nr, sizeof asked->data.nr);
	memcpy(r.args, asked->data.args, sizeof r.args);
	n = write(s->told[1], &r, sizeof r);
	(void)n;
}

static void
answer_one(struct sandbox *s, const struct seccomp_notif *asked, struct seccomp_notif_resp *reply)
{
	unsigned nr = (unsigned)asked->data.nr;

	reply->id = asked->id;
	if (s->mode == SANDBOX_LOG)
		reply->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	else
		reply->error = -ENOSYS;
	ioctl(s->listener, SECCOMP_IOCTL_NOTIF_SEND, reply); /* fails if the caller has exited */
	atomic_fetch_add(&s->refused, 1);
	if (nr >= NUMBERS || !s->seen[nr])
		sandbox_tell(s, asked);
	if (nr < NUMBERS)
		s->seen[nr] = true;
}

/* Returns when it cannot go on. */
static void
answer_all(struct sandbox *s)
{
	struct seccomp_notif_sizes sizes = {0};
	struct seccomp_notif *asked;
	struct seccomp_notif_resp *reply;

	if (syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0 ||
		privileges_keep_thread(0) < 0)
		return;
	asked = xcalloc(1, MAX(sizes.seccomp_notif, sizeof *asked));
	reply = xcalloc(1, MAX(sizes.seccomp_notif_resp, sizeof *reply));
	if (confine_itself(s) < 0)
		return;
	for (;;) {
		memset(asked, 0, sizes.seccomp_notif); /* required by the kernel */
		if (ioctl(s->listener, SECCOMP_IOCTL_NOTIF_RECV, asked) == 0)
			answer_one(s, asked, reply);
		else if (errno != EINTR && errno != ENOENT) /* the caller has exited */
			return;
	}
}

static void *
sandbox_answer(void *arg)
{
	struct sandbox *s = arg;

	while (sem_wait(&s->entered) < 0)
		;
	if (s->listener >= 0) {
		answer_all(s);
		atomic_store(&s->gone, true);
		close(s->listener); /* from now on the kernel answers ENOSYS */
	}
	return NULL;
}

/* Called before the filter is loaded, so that the thread can answer from the start. */
static int
start_thread(struct sandbox *s)
{
	pthread_t thread;
	int rc;

	if (pipe2(s->told, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	sem_init(&s->entered, 0, 0);
	rc = thread_start(&thread, "seccomp", STACK_BYTES, sandbox_answer, s, NULL);
	if (rc == 0)
		pthread_detach(thread);
	return rc;
}

/* --- the filter ----------------------------------------------------------------------------- */

static const struct sandbox_bound *
bound_of(const char *call)
{
	for (unsigned i = 0; i < sandbox_n_bounds; i++) {
		if (strcmp(sandbox_bounds[i].call, call) == 0)
			return &sandbox_bounds[i];
	}
	return NULL;
}

/* Skips calls that this architecture or library does not have. */
static int
sandbox_add(
	scmp_filter_ctx filter, uint32_t action, const char *name, const struct sandbox_bound *b)
{
	struct scmp_arg_cmp cmp = {0};
	int nr = seccomp_syscall_resolve_name(name);

	if (nr < 0)
		return 0;
	if (b != NULL)
		cmp = SCMP_CMP(b->arg, SCMP_CMP_MASKED_EQ, b->mask, b->value);
	return seccomp_rule_add_array(filter, action, nr, b != NULL, &cmp);
}

static int
add_words(scmp_filter_ctx filter, uint32_t action, const char *words, unsigned *n)
{
	char name[NAME_MAX_BYTES];
	int rc = 0, used;

	for (; rc == 0 && sscanf(words, "%31s%n", name, &used) == 1; words += used) {
		rc = sandbox_add(filter, action, name, NULL);
		*n += seccomp_syscall_resolve_name(name) >= 0;
	}
	return rc;
}

static int
add_bounds(scmp_filter_ctx filter, unsigned *n)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < sandbox_n_bounds; i++) {
		const struct sandbox_bound *b = &sandbox_bounds[i];

		rc = sandbox_add(filter, SCMP_ACT_ALLOW, b->call, b);
		*n += bound_of(b->call) == b && seccomp_syscall_resolve_name(b->call) >= 0;
	}
	return rc;
}

/* `otherwise`: what happens to calls that are not in the table. */
static int
sandbox_load(struct sandbox *s, uint32_t otherwise, int *listener)
{
	scmp_filter_ctx filter = seccomp_init(otherwise);
	unsigned probed = 0;
	int rc = filter != NULL ? 0 : -ENOMEM;

	s->calls = 0;
	if (rc == 0)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (rc == 0)
		rc = add_words(filter, SCMP_ACT_ALLOW, sandbox_running, &s->calls);
	if (rc == 0)
		rc = add_bounds(filter, &s->calls);
	if (rc == 0 &&
		/* libseccomp rejects a rule equal to the default */
		otherwise != SCMP_ACT_ERRNO(ENOSYS))
		rc = add_words(filter, SCMP_ACT_ERRNO(ENOSYS), sandbox_probed, &probed);
	if (rc == 0) {
		/* a binary tree instead of a list (libseccomp 2.5), and logging (2.4), where
		 * supported */
		seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
		if (otherwise != SCMP_ACT_NOTIFY)
			seccomp_attr_set(filter, SCMP_FLTATR_CTL_LOG, 1);
		rc = seccomp_load(filter);
	}
	if (rc == 0 && otherwise == SCMP_ACT_NOTIFY)
		*listener = seccomp_notify_fd(filter);
	seccomp_release(filter);
	return rc;
}

static int
load_with_thread(struct sandbox *s)
{
	unsigned needed = s->mode == SANDBOX_LOG ? API_CONTINUE : API_NOTIFY;
	int rc = seccomp_api_get() >= needed ? start_thread(s) : -EOPNOTSUPP;

	if (rc < 0)
		return rc;
	rc = sandbox_load(s, SCMP_ACT_NOTIFY, &s->listener);
	sem_post(&s->entered);
	return rc;
}

int
sandbox_enter(struct sandbox **out, enum sandbox_mode mode, struct err *err)
{
	struct sandbox *s = xcalloc(1, sizeof *s);
	int rc;

	*out = NULL;
	s->mode = mode;
	s->listener = -1;
	s->told[0] = s->told[1] = -1;
	if (load_with_thread(s) < 0) {
		cleanup_fd(&s->told[0]);
		rc = sandbox_load(
			s, mode == SANDBOX_LOG ? SCMP_ACT_LOG : SCMP_ACT_ERRNO(ENOSYS), NULL);
		if (rc < 0) {
			/* do not free s: the thread, if it was started, still reads it and ends by
			 * itself */
			return err_set(err, rc, "seccomp: %s", strerror(-rc));
		}
	}
	*out = s;
	return 0;
}

/* --- refusals ------------------------------------------------------------------------------- */

int
sandbox_fd(const struct sandbox *s)
{
	return s->listener >= 0 ? s->told[0] : -1;
}

bool
sandbox_next(struct sandbox *s, struct sandbox_refusal *r)
{
	auto_free char *name = NULL;
	int nr;

	if (read(s->told[0], r, sizeof *r) != (ssize_t)sizeof *r)
		return false;
	memcpy(&nr, r->call, sizeof nr);
	name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
	snprintf(r->call, sizeof r->call, "%.31s", name != NULL ? name : "");
	if (name == NULL)
		snprintf(r->call, sizeof r->call, "%d", nr);
	return true;
}

struct sandbox_status
sandbox_status(const struct sandbox *s)
{
	return (struct sandbox_status){.calls = s->calls,
		.counted = s->listener >= 0 && !atomic_load(&s->gone),
		.refused = atomic_load(&s->refused)};
}
