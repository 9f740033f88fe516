/*
 * Objects of one size that are needed for a moment, each in pages of its own. From malloc, many at
 * once would leave holes between what was allocated meanwhile and lives longer, and the heap would
 * keep most of their pages. The pages of freed objects go back to the system, except those of a
 * few, which are used again first. Not thread-safe.
 *
 *	page_pool_init(&p, sizeof(struct dial));
 *	d = page_pool_take(&p);		// all zero
 *	page_pool_give(&p, d);
 *	page_pool_fini(&p);		// everything was given back
 */
#ifndef EDGEWAY_BASE_CORE_PAGE_POOL_H
#define EDGEWAY_BASE_CORE_PAGE_POOL_H

#include "base/core/util.h"

struct page_pool {
	size_t bytes; /* of an object; whole pages */
	void **free; /* the first `cold` have no pages, the last is used next */
	size_t n_free, cold, size; /* size: allocated entries */
	size_t taken;
};

void page_pool_init(struct page_pool *p, size_t bytes);
void page_pool_fini(struct page_pool *p);
void *page_pool_take(struct page_pool *p);
/* NULL: does nothing. */
void page_pool_give(struct page_pool *p, void *object);

#endif
