#include "tunnel/session_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/util.h"

enum { LARGE = 16 * 1024 };

static void *
get(size_t size, void *arg)
{
	struct session_memory *m = arg;
	void *p;

	if (size < LARGE || m->mapped != NULL)
		return malloc(size);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return malloc(size);
	(void)madvise(p, size, MADV_NOHUGEPAGE); /* all of it would be there at the first touch */
	m->mapped = p;
	m->mapped_bytes = size;
	return p;
}

static void
put(void *p, void *arg)
{
	struct session_memory *m = arg;

	if (p == NULL || p != m->mapped)
		free(p);
	else
		munmap(take_ptr(&m->mapped), m->mapped_bytes);
}

static void *
get_zeroed(size_t n, size_t size, void *arg)
{
	(void)arg;
	return calloc(n, size);
}

static void *
resize(void *p, size_t size, void *arg)
{
	struct session_memory *m = arg;
	void *to;

	if (p == NULL)
		return get(size, m);
	if (p != m->mapped)
		return realloc(p, size);
	to = malloc(size);
	if (to == NULL)
		return NULL;
	memcpy(to, p, MIN(size, m->mapped_bytes));
	put(p, m);
	return to;
}

void
session_memory_init(struct session_memory *m)
{
	*m = (struct session_memory){
		.calls =
			{
				.mem_user_data = m,
				.malloc = get,
				.free = put,
				.calloc = get_zeroed,
				.realloc = resize,
			},
	};
}
