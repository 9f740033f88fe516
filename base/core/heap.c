#include "base/core/heap.h"

#include <malloc.h>
#include <stddef.h>

#include "base/core/util.h"

enum { HEAP_MUCH = 1024 * 1024 };

void
heap_give_back(struct heap_peak *p)
{
	struct mallinfo2 now = mallinfo2();

	p->given = MIN(p->given, now.fordblks);
	if (now.fordblks < p->given + now.uordblks / 16 + HEAP_MUCH)
		return;
	p->given = now.fordblks;
	malloc_trim(0);
}
