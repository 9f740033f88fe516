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

/* Whose packets are meant; bits. Chains of family inet take those of both. */
enum hook_conflicts_of { HOOK_CONFLICTS_V4 = 1, HOOK_CONFLICTS_V6 = 2 };

/* Chains of tables other than `ours` that translate addresses (of incoming connections or of this
 * host's own) at this priority or earlier: "TABLE CHAIN (output, priority -150), ..."; "" none.
 * Where both families are meant, those of IPv6 alone begin with "ip6". */
void hook_conflicts_translating(const char *ours, int32_t priority, unsigned of, struct buf *out);
/* Chains that drop incoming packets, for this host or beyond it, unless one of their rules accepts
 * them: "TABLE CHAIN (input)". */
void hook_conflicts_dropping(unsigned of, struct buf *out);
/* Chains of tables other than `ours` with a rule that drops or rejects, whatever it matches: "TABLE
 * CHAIN, ...". */
void hook_conflicts_drop_rules(const char *ours, unsigned of, struct buf *out);
/* Tables of iptables-legacy, which nf_tables does not show: "filter, nat"; "": none, or only root
 * may read them. */
void hook_conflicts_legacy(struct buf *out);

#endif
