/*
 * Rules of iptables-legacy (xtables, from before nf_tables), which no look at nf_tables shows: what
 * of them drops packets, or keeps them from being tracked and so from being translated, before ours
 * have their say. Their nat comes after ours. Nothing is changed; needs root.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_LEGACY_H
#define EDGEWAY_SRC_CTL_CTL_LEGACY_H

#include "base/core/buf.h"

/* The tables that are in use in this network namespace: "filter, nat"; "" none, or they cannot be
 * seen. */
void legacy_tables(struct buf *out);
/* By iptables-legacy-save: "filter FORWARD drops what no rule takes, raw PREROUTING does not track
 * (-i docker0 -j NOTRACK)"; nothing when nothing is in the way. false: that program is not
 * installed, or failed. */
bool legacy_look(struct buf *out);
/* The same of what it has said. Pure. */
void legacy_read(const char *saved, struct buf *out);

#endif
