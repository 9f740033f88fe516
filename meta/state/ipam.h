/*
 * The fake-IP allocator: which name holds which address of the mesh's subnet. Pure: no I/O, no
 * clock; the caller supplies the time and stores the changes. One thread.
 *
 * A name's first choice is a hash of it, so that nodes usually agree; then the next free address.
 * The network address and the last address are never given. A released address rests for
 * IPAM_REST_MS. It returns to the name that held it as long as that is remembered; other names get
 * it only when no fresh address is left, the longest released one first. If the clock jumps
 * backwards, addresses rest anew, but never for ever.
 *
 *	ipam_new(&ipam, 0x09fb0000, 0xffff0000, err);
 *	ipam_put(ipam, "default/web", ip);		// from the database
 *	rc = ipam_take(ipam, "default/api", now_ms, &ip);	// -ENOSPC: exhausted
 */
#ifndef EDGEWAY_META_STATE_IPAM_H
#define EDGEWAY_META_STATE_IPAM_H

#include "base/core/err.h"

struct ipam;

enum {
	IPAM_REST_MS = 10 * 60 * 1000,
	/* remembered at most; beyond that the oldest are forgotten after their rest */
	IPAM_RESTING_MAX = 16384,
};

struct ipam_counts {
	size_t size; /* addresses that can be given */
	size_t used;
	size_t resting;
	size_t free; /* the others */
};

/* Addresses in host byte order. -EINVAL when the subnet holds no address to give. */
int ipam_new(struct ipam **ipam, uint32_t subnet, uint32_t mask, struct err *err);
void ipam_free(struct ipam **ipam);

/* Restores an address that an earlier run gave. -ERANGE: outside the subnet; -EEXIST: the address
 * or the name is taken. */
int ipam_put(struct ipam *ipam, const char *key, uint32_t ip);
/* Restores an address that an earlier run released; call in the order of release. Same errors. */
int ipam_put_resting(
	struct ipam *ipam, const char *key, uint32_t ip, uint64_t freed_at_ms, uint64_t now_ms);

/* Returns the name's address in *ip, allocating one if it has none. 0, or -ENOSPC when every
 * address is in use or rests. */
int ipam_take(struct ipam *ipam, const char *key, uint64_t now_ms, uint32_t *ip);
/* Releases the name's address, which then rests, and returns it; 0: it had none. */
uint32_t ipam_release(struct ipam *ipam, const char *key, uint64_t now_ms);
typedef void ipam_resting_fn(void *arg, const char *key, uint32_t ip, uint64_t freed_at_ms);
/* Calls fn for each address that rests, in the order of release; fn does not change the ipam. */
void ipam_each_resting(const struct ipam *ipam, ipam_resting_fn *fn, void *arg);
/* Forgets one rested address when too many are remembered, and returns it; 0: nothing to forget. */
uint32_t ipam_trim(struct ipam *ipam, uint64_t now_ms);
/* 0: the name has none, or it rests. */
uint32_t ipam_find(const struct ipam *ipam, const char *key);
struct ipam_counts ipam_count(const struct ipam *ipam);

#endif
