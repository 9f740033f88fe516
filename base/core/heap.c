#include "base/core/heap.h"

#include <malloc.h>
#include <stddef.h>

#include "base/core/util.h"

enum { HEAP_MUCH = 1024 * 1024 };

void
heap_give_back(struct heap_peak *p)
{
	uint64_t used = mallinfo2().uordblks;

	p->most = MAX(p->most, used);
	if (p->most < used + used / 4 + HEAP_MUCH)
		return;
	p->most = used;
	malloc_trim(0);
}
