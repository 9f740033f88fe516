/*
 * Ranges of IPv4 addresses from which nodes give their pods addresses (Nodes' spec.podCIDRs), where
 * no two nodes have the same ones: sorted, and apart from each other. Plain data.
 *
 *	pod_ranges_add(&r, first, last);	// in any order; then
 *	pod_ranges_settle(&r);
 *	pod_ranges_subtract(&r, first, last);
 */
#ifndef EDGEWAY_MODEL_POD_RANGES_H
#define EDGEWAY_MODEL_POD_RANGES_H

#include "base/core/buf.h"
#include "base/core/err.h"

enum { POD_RANGES_MAX = 8192 };

struct pod_range { /* host byte order, both inclusive */
	uint32_t first, last;
};

struct pod_ranges {
	size_t n;
	struct pod_range *list;
};

void pod_ranges_fini(struct pod_ranges *r);
void pod_ranges_add(struct pod_ranges *r, uint32_t first, uint32_t last);
/* Sorts, and makes one of those that touch. */
void pod_ranges_settle(struct pod_ranges *r);
/* r is settled, and stays so. */
void pod_ranges_subtract(struct pod_ranges *r, uint32_t first, uint32_t last);
bool pod_ranges_same(const struct pod_ranges *a, const struct pod_ranges *b);
/* {"ranges":["10.244.0.0-10.244.255.255"]}; leaves out what is beyond POD_RANGES_MAX. */
#define POD_RANGES_NONE "{\"ranges\":[]}"
void pod_ranges_build(struct buf *out, const struct pod_ranges *r);
/* Private addresses alone (RFC 1918, and RFC 6598's 100.64.0.0/10): nobody's word leads calls
 * of the internet, or of this machine and its link, to a proxy. */
bool pod_range_may(uint32_t first, uint32_t last);
/* *r: empty before; is settled then. A range that may not be makes all of it an error. */
int pod_ranges_parse(struct pod_ranges *r, const char *json, size_t len, struct err *err);

#endif
