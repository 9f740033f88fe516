/*
 * The probe that detects forwarding loops: a question for <16 hex digits>.edgeway-loop-<8 hex
 * digits>. HINFO, random each time. If we receive it back as a question, the upstream that we sent
 * it to returns our queries to us, directly or through others. Pure; any thread.
 */
#ifndef EDGEWAY_DNS_FORWARD_LOOP_PROBE_H
#define EDGEWAY_DNS_FORWARD_LOOP_PROBE_H

#include "base/core/util.h"

enum { LOOP_PROBE_QUERY_BYTES = 12 + 1 + 16 + 1 + 21 + 1 + 4 + 11 };

/* Builds a query that ends in an OPT; loop_probe_parse gives back `mark`, `salt` makes the last
 * label unique. */
void loop_probe_build(uint8_t query[LOOP_PROBE_QUERY_BYTES], uint64_t mark, uint32_t salt);
/* The mark in a query made by dns_forward_build, in any case; 0: not a loop probe. */
uint64_t loop_probe_parse(const uint8_t *query, size_t len);

#endif
