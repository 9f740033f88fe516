#include "src/ctl/ctl_doctor_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

/*
 * Free space is judged by the volume's size: a daemon writes only some megabytes, and a small
 * volume made for it alone, such as the hub's emptyDir of 16 MiB, is not full at a level that would
 * be low for a large one.
 */
enum { DISK_LEAST_MB = 64, DISK_LEAST_PART = 8, DISK_NEED_KB = 2048, INODES_LEAST = 100 };

void
doctor_disk(struct findings *f, const char *folder)
{
	struct statvfs fs;
	unsigned long long kb, least_kb;

	if (statvfs(folder, &fs) < 0) {
		findings_add(f, "disk", VERDICT_NOTE,
			"run the doctor where the daemon runs, as root: its folder cannot be seen",
			"%s: %s", folder, strerror(errno));
		return;
	}
	kb = (unsigned long long)fs.f_bavail * fs.f_frsize >> 10;
	least_kb = MIN((unsigned long long)fs.f_blocks * fs.f_frsize / 1024 / DISK_LEAST_PART,
		DISK_LEAST_MB * 1024ull);
	least_kb = MAX(least_kb, (unsigned long long)DISK_NEED_KB);
	if ((fs.f_flag & ST_RDONLY) != 0)
		findings_add(f, "disk", VERDICT_BAD,
			"mount it for writing (dmesg tells whether it is broken): changes could "
			"not be kept",
			"%s can only be read", folder);
	else if (fs.f_files > 0 && fs.f_favail < INODES_LEAST)
		findings_add(f, "disk", VERDICT_BAD,
			"remove files, it has no inodes for more (df -i): changes could not be "
			"kept",
			"%s: %llu MB, but only %llu files left", folder, kb >> 10,
			(unsigned long long)fs.f_favail);
	else
		findings_add(f, "disk", kb < least_kb ? VERDICT_BAD : VERDICT_OK,
			"make room: changes could not be kept", "%s: %llu MB left of %llu", folder,
			kb >> 10, (unsigned long long)fs.f_blocks * fs.f_frsize >> 20);
}
