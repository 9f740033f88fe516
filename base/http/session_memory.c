#include "base/http/session_memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/core/util.h"

enum {
	LARGE = 16 * 1024,
	PAGE = 4096,
	SPACE = 24 * 1024, /* nghttp2 1.52 takes 21 370 bytes of it */
	SPACE_LEAST = 1024, /* what is smaller is malloc's */
	ALIGNMENT = 16,
	WORD_BITS = 64,
};

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
session_memory_counted(struct session_memory *m, void *p)
{
	m->bytes += malloc_usable_size(p);
	return p;
}

/* The session and what is made with it, one after the other in a mapping of zeros. NULL: it is not
 * to be there. */
static void *
session_memory_made(struct session_memory *m, size_t size)
{
	char *p;

	if (!m->making || size < SPACE_LEAST || size > SPACE - m->space.used)
		return NULL;
	if (m->space.p == NULL && (m->space.p = session_memory_map(SPACE)) == NULL)
		return NULL;
	p = m->space.p + m->space.used;
	if (size < LARGE)
		m->space.used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return p;
}

/* The buffer of frames is the last that is made; its content need not last. */
static void *
session_memory_get(size_t size, void *arg)
{
	struct session_memory *m = arg;
	void *p = session_memory_made(m, size);

	if (size < LARGE || m->frames.p != NULL)
		return p != NULL ? p : session_memory_counted(m, malloc(size));
	m->making = false;
	m->frames.p = p != NULL ? p : session_memory_map(size);
	m->frames.bytes = size;
	return m->frames.p != NULL ? m->frames.p : session_memory_counted(m, malloc(size));
}

static bool
session_memory_in_space(const struct session_memory *m, const void *p)
{
	const char *at = p;

	return m->space.p != NULL && at > m->space.p && at < m->space.p + SPACE;
}

static void
session_memory_put(void *p, void *arg)
{
	struct session_memory *m = arg;
	bool made = session_memory_in_space(m, p);

	if (p == NULL)
		return;
	if (p == m->space.p) { /* the session, which is the last to go */
		munmap(take_ptr(&m->space.p), SPACE);
	} else if (p == m->frames.p) {
		m->frames.p = NULL;
		if (!made)
			munmap(p, m->frames.bytes);
	} else if (p == m->table.p) {
		munmap(take_ptr(&m->table.p), m->table.bytes);
	} else if (!made) {
		m->bytes -= malloc_usable_size(p);
		free(p);
	}
}

static void *
get_zeroed(size_t n, size_t size, void *arg)
{
	struct session_memory *m = arg;
	void *p = n == 1 ? session_memory_made(m, size) : NULL;

	if (p != NULL)
		return p;
	if (m->table.p != NULL || size == 0 || n > LARGE / size || n * size < PAGE)
		return session_memory_counted(m, calloc(n, size));
	m->table.p = session_memory_map(n * size);
	m->table.bytes = n * size;
	return m->table.p != NULL ? m->table.p : session_memory_counted(m, calloc(n, size));
}

static void *
session_memory_resize(void *p, size_t size, void *arg)
{
	struct session_memory *m = arg;
	size_t have = p == m->frames.p ? m->frames.bytes : m->table.bytes;
	void *to;

	if (p == NULL)
		return session_memory_get(size, m);
	if (p != m->frames.p && p != m->table.p) {
		m->bytes -= malloc_usable_size(p);
		return session_memory_counted(m, realloc(p, size));
	}
	to = session_memory_counted(m, malloc(size));
	if (to == NULL)
		return NULL;
	memcpy(to, p, MIN(size, have));
	session_memory_put(p, m);
	return to;
}

/* Most of what a session is made with is zero: pointers that are not set, rings with few entries.
 * It is kept as a map of the words that are not, and these. */
static void
session_memory_pack(struct session_memory *m)
{
	const uint64_t *word = (const uint64_t *)(void *)m->space.p;
	size_t n = m->space.used / sizeof *word, n_map = (n + WORD_BITS - 1) / WORD_BITS;
	uint64_t *to = xcalloc(n_map + n, sizeof *to), *next = to + n_map;

	for (size_t i = 0; i < n; i++)
		if (word[i] != 0) {
			to[i / WORD_BITS] |= 1ull << i % WORD_BITS;
			*next++ = word[i];
		}
	m->packed = xmalloc((size_t)(next - to) * sizeof *to);
	memcpy(m->packed, to, (size_t)(next - to) * sizeof *to);
	free(to);
	(void)madvise(m->space.p, SPACE, MADV_DONTNEED);
}

void
session_memory_wake(struct session_memory *m)
{
	uint64_t *word = (uint64_t *)(void *)m->space.p;
	size_t n = m->space.used / sizeof *word;
	const uint64_t *map = m->packed, *next;

	if (map == NULL)
		return;
	next = map + (n + WORD_BITS - 1) / WORD_BITS;
	for (size_t i = 0; i < n; i++)
		if (map[i / WORD_BITS] >> i % WORD_BITS & 1)
			word[i] = *next++;
	free(take_ptr(&m->packed));
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
	if (m->space.p != NULL && m->packed == NULL)
		session_memory_pack(m);
}

static void
session_memory_forget_frames(struct session_memory *m)
{
	uintptr_t begin = (uintptr_t)m->frames.p, end = begin + m->frames.bytes;

	begin = (begin + PAGE - 1) / PAGE * PAGE; /* it shares its first page, perhaps */
	(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void
session_memory_rest(struct session_memory *m)
{
	if (m->used && m->frames.p != NULL)
		session_memory_forget_frames(m);
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

size_t
session_memory_held(const struct session_memory *m)
{
	return m->bytes + (m->space.p != NULL && m->packed == NULL ? 3 * PAGE : 0);
}
