#include "src/common/checks.h"

#include "src/common/ctl_answer.h"

void
check_traces(struct findings *f, const struct tree_node *tracing)
{
	const char *error = ctl_text(tracing, "error");

	if (tree_get(tracing, "endpoint") == NULL)
		return;
	findings_add(f, "traces", error[0] != '\0' ? VERDICT_NOTE : VERDICT_OK,
		"spans wait, and are dropped once the queue is full: does the collector run there, "
		"and is tracing.endpoint its OTLP/HTTP port (usually 4318) and path (/v1/traces)?",
		"%s%s%s, %s spans dropped", ctl_text(tracing, "endpoint"),
		error[0] != '\0' ? ": " : "", error, ctl_text(tracing, "dropped"));
}

void
check_admin(struct findings *f, const struct tree_node *admin)
{
	const char *trouble = ctl_text(admin, "trouble");

	if (trouble[0] != '\0')
		findings_add(f, "admin port", VERDICT_BAD,
			"the daemon serves without it and tries it every second; `ss -antp` as "
			"root "
			"names the program",
			"%s", trouble);
}

void
check_seccomp(struct findings *f, const struct tree_node *s)
{
	const char *error = ctl_text(s, "error");

	if (error[0] != '\0')
		findings_add(f, "seccomp", VERDICT_NOTE,
			"the daemon runs without a filter of system calls: allow seccomp(2) where "
			"it runs, or set seccomp: off",
			"%s", error);
	else if (ctl_number(s, "refused") > 0)
		findings_add(f, "seccomp", VERDICT_NOTE,
			"the log names each call; when a function is lost by it set seccomp: log "
			"and report the call, else look for who is inside",
			"refused %s system calls, at last %s", ctl_text(s, "refused"),
			ctl_text(s, "last"));
	else if (ctl_number(s, "calls") > 0)
		findings_add(f, "seccomp", VERDICT_OK, NULL, "%s system calls are allowed",
			ctl_text(s, "calls"));
}
