#include "base/core/heap.h"

#include <fcntl.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/util.h"

enum {
	HEAP_MUCH = 1024 * 1024,
	/* mallinfo2 walks free chunks, 9 ms in a heap of 256 MB: the larger, the more calls rest */
	HEAP_LARGE = 32 * HEAP_MUCH,
};

/* Resident memory that is no file's; 0: unknown. malloc does not say how much of what is free has
 * pages. */
static uint64_t
heap_resident(void)
{
	unsigned long size, resident, shared;
	auto_fd int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	char text[128];
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (sscanf(text, "%lu %lu %lu", &size, &resident, &shared) != 3 || resident < shared)
		return 0;
	return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* What is held beyond what is in use. */
static uint64_t
heap_spare(uint64_t *used)
{
	struct mallinfo2 now = mallinfo2();
	uint64_t resident = heap_resident();

	*used = now.uordblks + now.hblkhd;
	return resident == 0 ? now.fordblks : resident - MIN(resident, *used);
}

void
heap_give_back(struct heap_peak *p)
{
	uint64_t used, spare;

	if (p->rests > 0) {
		p->rests--;
		return;
	}
	spare = heap_spare(&used);
	p->rests = (unsigned)(used / HEAP_LARGE);
	p->left = MIN(p->left, spare);
	if (spare < p->left + used / 16 + HEAP_MUCH)
		return;
	malloc_trim(0);
	p->left = heap_spare(&used);
}
