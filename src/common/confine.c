#include "src/common/confine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "model/json.h"

enum { LINES_PER_MINUTE = 20 };

struct confine {
	struct sandbox *sandbox; /* NULL: no filter is active */
	enum sandbox_mode mode; /* the active mode */
	struct watch *watch;
	struct err reason; /* why no filter is active although one was wanted */
	bool trouble; /* and it was not disabled at build time */
	char last[32]; /* the call that was refused last */
};

static const char *const names[] = {"enforce", "log", "off"};

void
confine_enter(struct confine **out, enum sandbox_mode mode)
{
	struct confine *c = xcalloc(1, sizeof *c);
	int rc = mode == SANDBOX_OFF ? 0 : sandbox_enter(&c->sandbox, mode, &c->reason);

	*out = c;
	c->mode = c->sandbox != NULL ? mode : SANDBOX_OFF;
	c->trouble = rc < 0 && rc != -ENOTSUP;
	if (c->trouble)
		log_warn("seccomp",
			"system calls are not filtered, going on without: is seccomp(2) forbidden "
			"here, or not in the kernel? error=\"%s\"",
			c->reason.text);
	else if (rc < 0)
		log_debug("seccomp", "system calls are not filtered: %s", c->reason.text);
	else if (c->sandbox != NULL)
		log_info("seccomp", "system calls are filtered mode=%s calls=%u counted=%s",
			names[mode], sandbox_status(c->sandbox).calls,
			sandbox_status(c->sandbox).counted ? "true" : "false");
}

/* Each call is reported once; but there may be many unknown call numbers, so the log is limited. */
static void
on_refused(void *arg, int fd, unsigned events)
{
	struct confine *c = arg;
	struct sandbox_refusal r;

	(void)fd;
	(void)events;
	while (sandbox_next(c->sandbox, &r)) {
		memcpy(c->last, r.call, sizeof c->last);
		log_limited(LOG_LEVEL_WARN, LINES_PER_MINUTE, "seccomp",
			"%s a system call that this program is not known to need: a library that "
			"has "
			"changed, or somebody inside; edgeway.yaml(5), seccomp; call=%s "
			"args=%#llx,%#llx,%#llx thread=%d",
			c->mode == SANDBOX_LOG ? "would have refused" : "refused", r.call,
			(unsigned long long)r.args[0], (unsigned long long)r.args[1],
			(unsigned long long)r.args[2], r.thread);
	}
}

void
confine_follow(struct confine *c, struct loop *loop)
{
	if (c->sandbox != NULL && sandbox_fd(c->sandbox) >= 0)
		c->watch = watch_start(loop, sandbox_fd(c->sandbox), WATCH_READ, on_refused, c);
}

void
confine_free(struct confine **out)
{
	struct confine *c = take_ptr(out);

	if (c == NULL)
		return;
	watch_stop(&c->watch);
	free(c);
}

void
confine_metrics(const struct confine *c, struct metrics *m)
{
	struct sandbox_status s = {0};

	if (c->sandbox != NULL)
		s = sandbox_status(c->sandbox);
	metric_gauge(m, "edgeway_seccomp_enforced",
		"1 when system calls are filtered, 0 when they are only told or not filtered.",
		NULL, c->mode == SANDBOX_ENFORCE);
	metric_counter(m, "edgeway_seccomp_refused_total",
		"System calls that were refused, or would have been; the log names them.", NULL,
		s.refused);
}

void
confine_state(const struct confine *c, struct buf *out)
{
	struct sandbox_status s = {0};

	if (c->sandbox != NULL)
		s = sandbox_status(c->sandbox);
	buf_printf(out, "{\"mode\":\"%s\",\"calls\":%u,\"counted\":%s,\"refused\":%llu,\"last\":",
		names[c->mode], s.calls, s.counted ? "true" : "false",
		(unsigned long long)s.refused);
	json_add_text(out, c->last);
	buf_adds(out, ",\"reason\":");
	json_add_text(out, c->trouble ? "" : c->reason.text);
	buf_adds(out, ",\"error\":");
	json_add_text(out, c->trouble ? c->reason.text : "");
	buf_adds(out, "}");
}
