#include "base/core/page_pool.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE_POOL_WARM = 4 }; /* freed objects that keep their pages */

void
page_pool_init(struct page_pool *p, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	*p = (struct page_pool){.bytes = (bytes + page - 1) / page * page};
}

void
page_pool_fini(struct page_pool *p)
{
	assert(p->taken == 0);
	for (size_t i = 0; i < p->n_free; i++)
		munmap(p->free[i], p->bytes);
	free(p->free);
	*p = (struct page_pool){.bytes = p->bytes};
}

/* Mappings that follow each other count as one in the kernel, since all have the same flags. */
static void *
page_pool_map(size_t bytes)
{
	void *object =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (object == MAP_FAILED) {
		fputs("edgeway: out of memory\n", stderr);
		abort();
	}
	(void)madvise(object, bytes, MADV_NOHUGEPAGE);
	return object;
}

void *
page_pool_take(struct page_pool *p)
{
	void *object;

	p->taken++;
	if (p->n_free == 0)
		return page_pool_map(p->bytes);
	object = p->free[--p->n_free];
	if (p->n_free < p->cold)
		p->cold = p->n_free;
	else
		memset(object, 0, p->bytes);
	return object;
}

/* Not unmapped: holes would divide the mapping, and the kernel bounds the number of its parts. */
void
page_pool_give(struct page_pool *p, void *object)
{
	if (object == NULL)
		return;
	p->taken--;
	if (p->n_free == p->size) {
		p->size = MAX(2 * p->size, (size_t)2 * PAGE_POOL_WARM);
		p->free = xrealloc(p->free, p->size * sizeof *p->free);
	}
	p->free[p->n_free++] = object;
	if (p->n_free - p->cold <= PAGE_POOL_WARM)
		return;
	(void)madvise(object, p->bytes, MADV_DONTNEED);
	p->free[p->n_free - 1] = p->free[p->cold];
	p->free[p->cold++] = object;
}
