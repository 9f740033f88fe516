/*
 * Elements of our table's sets and maps, written directly into a batch, as many per message as fit.
 * Keys and data are bytes as the kernel compares them: parts padded to four bytes, addresses and
 * ports big-endian.
 *
 *	elements_open(&e, &batch, NFT_MSG_NEWSETELEM, "upstreams");
 *	elements_add(&e, &(struct element){.key = &ip, .key_len = 4, .timeout_ms = 10000});
 *	elements_close(&e);
 */
#ifndef EDGEWAY_IPTABLES_TABLE_ELEMENTS_H
#define EDGEWAY_IPTABLES_TABLE_ELEMENTS_H

#include <libmnl/libmnl.h>

#include "iptables/table/batch.h"

struct elements {
	struct batch *batch;
	const char *set;
	uint16_t type;
	struct nlmsghdr *nlh; /* NULL: no message begun */
	struct nlattr *list;
};

struct element {
	const void *key;
	uint16_t key_len;
	uint16_t data_len;
	const void *data; /* in a map, NULL: none */
	bool end; /* in a set of intervals: the first key behind one */
	const char *chain; /* in a verdict map: goto this chain; NULL: none */
	uint64_t timeout_ms; /* 0: none */
};

/* type: NFT_MSG_NEWSETELEM (existing elements stay unchanged) or NFT_MSG_DELSETELEM (a missing
 * element makes the kernel reject the whole batch). */
void elements_open(struct elements *e, struct batch *b, uint16_t type, const char *set);
void elements_add(struct elements *e, const struct element *one);
void elements_close(struct elements *e);
/* Deletes all elements; succeeds if there are none. */
void elements_flush(struct batch *b, const char *set);

#endif
