/*
 * Is dataDir writable? A hub serves without it, so that a full or read-only disk would be noticed
 * only when a node joins, a certificate is renewed, or the hub restarts. The file system is asked;
 * a small file is written only when something else could not be written, until that succeeds: a
 * disk that hangs would stop the loop.
 */
#include "hub/hub_private.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/core/log.h"
#include "model/json.h"

enum { DISK_TRY_MS = 2 * 1000 };

static const char disk_remedy[] =
	"make room (df -h, df -i), or mount it for writing (dmesg tells whether it is broken): "
	"nodes cannot join, and tokens, certificates and revocations are not kept";

static void
disk_tell(struct hub *hub, int rc)
{
	if (rc < 0 && hub->disk_problem == NULL)
		log_error("hub", "dataDir cannot be written folder=%s error=\"%s\" remedy=\"%s\"",
			hub->data_dir, strerror(-rc), disk_remedy);
	else if (rc == 0 && hub->disk_problem != NULL)
		log_info("hub", "dataDir can be written again folder=%s", hub->data_dir);
	free(take_ptr(&hub->disk_problem));
	if (rc < 0)
		hub->disk_problem =
			xasprintf("%s cannot be written: %s", hub->data_dir, strerror(-rc));
}

static int
disk_look(const char *folder)
{
	struct statvfs st;

	if (statvfs(folder, &st) < 0)
		return -errno;
	if (st.f_flag & ST_RDONLY)
		return -EROFS;
	/* Some file systems have no number of files. */
	return st.f_bavail == 0 || (st.f_files > 0 && st.f_favail == 0) ? -ENOSPC : 0;
}

void
hub_disk_look(struct hub *hub)
{
	bool bad = hub->disk_problem != NULL || hub_unwritten(hub)[0] != '\0' ||
		(hub->manifests != NULL && manifests_copies_problem(hub->manifests)[0] != '\0');
	uint64_t now = mono_ms();
	auto_free char *path = xasprintf("%s/written", hub->data_dir);

	/* Another hub uses the disk while this one is held. */
	if (hub->held || (hub->disk_tried_ms != 0 && now - hub->disk_tried_ms < DISK_TRY_MS))
		return;
	hub->disk_tried_ms = now;
	disk_tell(hub, bad ? file_write(path, "\n", 1, 0600) : disk_look(hub->data_dir));
}

void
hub_disk_state(const struct hub *hub, struct buf *out)
{
	buf_adds(out, "{\"problem\":");
	json_add_text(out, hub->disk_problem);
	buf_adds(out, ",\"remedy\":");
	json_add_text(out, hub->disk_problem != NULL ? disk_remedy : "");
	buf_adds(out, "}");
}
