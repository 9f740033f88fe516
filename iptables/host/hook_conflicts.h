/*
 * Chains and rules of others that have their say about packets before our tables have: for the text
 * of a diagnosis, nothing is changed. Any loop; the kernel answers at once, but has much to say
 * where there are thousands of rules.
 */
#ifndef EDGEWAY_IPTABLES_HOST_HOOK_CONFLICTS_H
#define EDGEWAY_IPTABLES_HOST_HOOK_CONFLICTS_H

#include <stdint.h>

#include "base/core/buf.h"

/* Chains of another table than `ours` that translate addresses (of connections that come in or are
 * this host's own) at this priority or earlier: "TABLE CHAIN (output, priority -150), ..."; ""
 * none. */
void hook_conflicts_translating(const char *ours, int32_t priority, struct buf *out);
/* Chains that drop what comes in, for this host or beyond it, unless a rule of theirs takes it:
 * "TABLE CHAIN (input)". */
void hook_conflicts_dropping(struct buf *out);
/* Chains of other tables than `ours` that have a rule which drops or rejects, whatever it looks
 * for: "TABLE CHAIN, ...". */
void hook_conflicts_drop_rules(const char *ours, struct buf *out);
/* Tables of iptables-legacy, which nf_tables knows nothing of: "filter, nat"; "": none, or only
 * root may know. */
void hook_conflicts_legacy(struct buf *out);

#endif
