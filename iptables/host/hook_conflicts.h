/*
 * Lists other programs' chains and rules that may translate or drop packets meant for our tables,
 * as text for a diagnosis; changes nothing. Any loop; the kernel answers at once, but at length
 * where there are thousands of rules.
 */
#ifndef EDGEWAY_IPTABLES_HOST_HOOK_CONFLICTS_H
#define EDGEWAY_IPTABLES_HOST_HOOK_CONFLICTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/core/buf.h"

/* Chains of tables other than `ours` that translate IPv4 or IPv6 addresses (of incoming connections
 * or of this host's own) at this priority or earlier: "TABLE CHAIN (output, priority -150), ...";
 * "" none. */
void hook_conflicts_translating(const char *ours, int32_t priority, bool v6, struct buf *out);
/* Chains that drop incoming packets, for this host or beyond it, unless one of their rules accepts
 * them: "TABLE CHAIN (input)". */
void hook_conflicts_dropping(struct buf *out);
/* Chains of tables other than `ours` with a rule that drops or rejects, whatever it matches: "TABLE
 * CHAIN, ...". */
void hook_conflicts_drop_rules(const char *ours, struct buf *out);
/* Tables of iptables-legacy, which nf_tables does not show: "filter, nat"; "": none, or only root
 * may read them. */
void hook_conflicts_legacy(struct buf *out);

#endif
