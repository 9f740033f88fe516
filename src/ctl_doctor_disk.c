#include "src/ctl_doctor_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

enum { DISK_LEAST_MB = 64, INODES_LEAST = 100 };

void
doctor_disk(struct findings *f, const char *folder)
{
	struct statvfs fs;
	unsigned long long mb;

	if (statvfs(folder, &fs) < 0) {
		findings_add(f, "disk", VERDICT_NOTE,
			"run the doctor where the daemon runs, as root: its folder cannot be seen",
			"%s: %s", folder, strerror(errno));
		return;
	}
	mb = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
	if ((fs.f_flag & ST_RDONLY) != 0)
		findings_add(f, "disk", VERDICT_BAD,
			"mount it for writing (dmesg tells whether it is broken): changes could "
			"not be kept",
			"%s can only be read", folder);
	else if (fs.f_files > 0 && fs.f_favail < INODES_LEAST)
		findings_add(f, "disk", VERDICT_BAD,
			"remove files, it has no inodes for more (df -i): changes could not be "
			"kept",
			"%s: %llu MB, but only %llu files left", folder, mb,
			(unsigned long long)fs.f_favail);
	else
		findings_add(f, "disk", mb < DISK_LEAST_MB ? VERDICT_BAD : VERDICT_OK,
			"make room: changes could not be kept", "%s: %llu MB left", folder, mb);
}
