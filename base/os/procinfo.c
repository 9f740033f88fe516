#include "base/os/procinfo.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void
tell_memory(struct metrics *m)
{
	unsigned long virtual, resident;
	double page = (double)sysconf(_SC_PAGESIZE);
	FILE *f = fopen("/proc/self/statm", "re");

	if (f == NULL)
		return;
	if (fscanf(f, "%lu %lu", &virtual, &resident) == 2) {
		metric_gauge(m, "process_resident_memory_bytes", "Resident memory.", NULL,
			(double)resident * page);
		metric_gauge(m, "process_virtual_memory_bytes", "Virtual memory.", NULL,
			(double)virtual * page);
	}
	fclose(f);
}

static void
tell_descriptors(struct metrics *m)
{
	struct rlimit limit;
	struct stat st;
	double n = -3; /* ".", ".." and the folder's own */
	DIR *d = NULL;

	/* Linux 6.2 gives their number at once: do not read tens of thousands of entries on a loop
	 * with traffic. */
	if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
		n = (double)st.st_size;
	else if ((d = opendir("/proc/self/fd")) != NULL)
		while (readdir(d) != NULL)
			n++;
	if (d != NULL)
		closedir(d);
	if (n >= 0)
		metric_gauge(m, "process_open_fds", "Open descriptors.", NULL, n);
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		metric_gauge(m, "process_max_fds", "Most descriptors that may be open.", NULL,
			(double)limit.rlim_cur);
}

static double
procinfo_seconds(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

/* Field 22 of proc(5)'s stat, in ticks since the machine's start; the command in field 2 may hold
 * anything. */
static double
procinfo_started(void)
{
	char text[1024], *at;
	unsigned long long ticks = 0;
	struct timespec up, now;
	FILE *f = fopen("/proc/self/stat", "re");
	size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;

	if (f != NULL)
		fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')');
	for (int field = 2; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at == NULL || sscanf(at, " %llu", &ticks) != 1)
		return 0;
	clock_gettime(CLOCK_BOOTTIME, &up);
	clock_gettime(CLOCK_REALTIME, &now);
	return (double)(now.tv_sec - up.tv_sec) + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

void
procinfo_metrics(struct metrics *m)
{
	struct rusage used;

	tell_memory(m);
	tell_descriptors(m);
	if (getrusage(RUSAGE_SELF, &used) == 0)
		metric_counter_real(m, "process_cpu_seconds_total", "CPU, user and system.", NULL,
			procinfo_seconds(&used.ru_utime) + procinfo_seconds(&used.ru_stime));
	metric_gauge(m, "process_start_time_seconds", "Since the epoch.", NULL, procinfo_started());
}
