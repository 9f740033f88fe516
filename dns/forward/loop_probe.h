/*
 * The question that finds loops: <16 hex digits>.edgeway-loop-<8 hex digits>. HINFO, random each
 * time. An upstream that we asked it and that brings it back to us as a question sends our queries
 * to ourselves, by whatever detour. Pure; any thread.
 */
#ifndef EDGEWAY_DNS_FORWARD_LOOP_PROBE_H
#define EDGEWAY_DNS_FORWARD_LOOP_PROBE_H

#include "base/core/util.h"

enum { LOOP_PROBE_QUERY_BYTES = 12 + 1 + 16 + 1 + 21 + 1 + 4 + 11 };

/* A query that ends in an OPT; `mark` comes back from loop_probe_parse, `salt` makes the last label
 * new. */
void loop_probe_build(uint8_t query[LOOP_PROBE_QUERY_BYTES], uint64_t mark, uint32_t salt);
/* The mark in a query as dns_forward_build makes it, in any case; 0: not such a question. */
uint64_t loop_probe_parse(const uint8_t *query, size_t len);

#endif
