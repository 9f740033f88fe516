#include "base/http/session_memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/core/util.h"

enum { LARGE = 16 * 1024, PAGE = 4096 };

static void *
session_memory_map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, size, MADV_NOHUGEPAGE); /* else the first touch would populate all of it */
	return p;
}

static void *
session_memory_get(size_t size, void *arg)
{
	struct session_memory *m = arg;

	if (size < LARGE || m->frames.p != NULL)
		return malloc(size);
	m->frames.p = session_memory_map(size);
	m->frames.bytes = size;
	return m->frames.p != NULL ? m->frames.p : malloc(size);
}

static void
session_memory_put(void *p, void *arg)
{
	struct session_memory *m = arg;

	if (p != NULL && p == m->frames.p)
		munmap(take_ptr(&m->frames.p), m->frames.bytes);
	else if (p != NULL && p == m->table.p)
		munmap(take_ptr(&m->table.p), m->table.bytes);
	else
		free(p);
}

static void *
get_zeroed(size_t n, size_t size, void *arg)
{
	struct session_memory *m = arg;

	if (m->table.p != NULL || size == 0 || n > LARGE / size || n * size < PAGE)
		return calloc(n, size);
	m->table.p = session_memory_map(n * size);
	m->table.bytes = n * size;
	return m->table.p != NULL ? m->table.p : calloc(n, size);
}

static void *
session_memory_resize(void *p, size_t size, void *arg)
{
	struct session_memory *m = arg;
	size_t have = p == m->frames.p ? m->frames.bytes : m->table.bytes;
	void *to;

	if (p == NULL)
		return session_memory_get(size, m);
	if (p != m->frames.p && p != m->table.p)
		return realloc(p, size);
	to = malloc(size);
	if (to == NULL)
		return NULL;
	memcpy(to, p, MIN(size, have));
	session_memory_put(p, m);
	return to;
}

static bool
session_memory_is_zero(const void *p, size_t bytes)
{
	const char *at = p;

	return bytes > 0 && at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

void
session_memory_idle(struct session_memory *m)
{
	session_memory_rest(m);
	if (m->table.p != NULL && session_memory_is_zero(m->table.p, m->table.bytes))
		(void)madvise(m->table.p, m->table.bytes, MADV_DONTNEED);
}

void
session_memory_rest(struct session_memory *m)
{
	if (m->used && m->frames.p != NULL)
		(void)madvise(m->frames.p, m->frames.bytes, MADV_DONTNEED);
	m->used = false;
}

void
session_memory_init(struct session_memory *m)
{
	*m = (struct session_memory){
		.calls =
			{
				.mem_user_data = m,
				.malloc = session_memory_get,
				.free = session_memory_put,
				.calloc = get_zeroed,
				.realloc = session_memory_resize,
			},
	};
}
