/*
 * Finds rules of iptables-legacy (xtables, from before nf_tables), which listing nf_tables does not
 * show, that drop packets, or that exempt them from connection tracking and so from translation,
 * before our rules run. Their nat runs after ours. Changes nothing; needs root.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_LEGACY_H
#define EDGEWAY_SRC_CTL_CTL_LEGACY_H

#include "base/core/buf.h"

/* The tables in use in this network namespace: "filter, nat"; "": none, or they cannot be read. */
void legacy_tables(struct buf *out);
/* From iptables-legacy-save: "filter FORWARD drops what no rule takes, raw PREROUTING does not
 * track (-i docker0 -j NOTRACK)"; nothing if there is no such rule. false: that program is not
 * installed, or failed. */
bool legacy_look(struct buf *out);
/* The same from its output. Pure. */
void legacy_read(const char *saved, struct buf *out);

#endif
