#include "src/ctl/ctl_doctor.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "src/ctl/ctl_doctor_machine.h"
#include "src/ctl/ctl_doctor_parts.h"

/* The default of dataDir. */
#define AGENT_FOLDER "/var/lib/edgeway"
#define HUB_FOLDER "/var/lib/edgeway-hub"

/* The agent's own findings (agent_checks.h), and the disk that it writes to. */
static void
doctor_agent(struct findings *f, const struct tree_node *top)
{
	const char *file = ctl_text(top, "meta.database.file"), *slash = strrchr(file, '/');

	findings_read(f, tree_get(top, "findings"));
	if (slash != NULL) {
		auto_free char *folder = xstrndup(file, (size_t)MAX(slash - file, 1));

		doctor_disk(f, folder);
	}
}

/* A full disk may be the reason why no daemon answers. */
static void
check_silent_disks(struct findings *f)
{
	static const char *const folders[] = {AGENT_FOLDER, HUB_FOLDER};

	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		if (access(folders[i], F_OK) == 0)
			doctor_disk(f, folders[i]);
	}
}

static void
check_silence(struct findings *f, const struct doctor_ask *ask)
{
	if (ask->error == EACCES || ask->error == EPERM)
		findings_add(f, "daemon", VERDICT_NOTE,
			"run the doctor as root or as the daemon's user: what the daemon itself "
			"knows is missing here",
			"%s", ask->silent);
	else if (ask->error == EAGAIN || ask->error == ETIMEDOUT)
		findings_add(f, "daemon", VERDICT_BAD,
			"it is there and hangs, or is stopped (State: in /proc/PID/status, kill "
			"-CONT): keep its log and a backtrace (gdb -p PID), then restart it",
			"%s", ask->silent);
	else
		findings_add(f, "daemon", VERDICT_BAD,
			"systemctl status edgeway-agent edgeway-hub, and their journal, tell why "
			"it ended",
			"%s", ask->silent);
}

int
ctl_doctor(const struct tree_node *answer, const struct doctor_ask *ask, enum ctl_format format)
{
	bool is_hub = tree_get(answer, "hub") != NULL, bad;
	struct findings f = {0};

	if (answer == NULL)
		check_silent_disks(&f);
	if (answer == NULL)
		check_silence(&f, ask);
	if (is_hub) {
		doctor_hub(&f, answer);
	} else {
		if (answer != NULL)
			doctor_agent(&f, answer);
		doctor_machine(&f, answer, ask->socket);
	}
	doctor_clock(&f, tree_get(answer, "meta"));
	findings_print(&f, format);
	bad = findings_bad(&f);
	findings_fini(&f);
	return bad ? 1 : 0;
}
