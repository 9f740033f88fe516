/*
 * The text of a hosts file of nodes, as Yurt and SuperEdge keep it in a ConfigMap for the `hosts`
 * plugin of CoreDNS: lines "ADDRESS<tab>NAME", sorted, so that all writers with the same nodes
 * write the same bytes. A leaf.
 *
 * Lines of others may be in it, above the line HOSTS_MARK; without that line all of it is ours,
 * once we have written it. Before that (`ours` is false: the existing text is somebody else's)
 * lines of nodes are replaced and the others kept.
 *
 *	hosts_lines_add(&lines, "10.96.0.9", "edge-1");
 *	made = hosts_text(&out, &lines, old, ours, limit);
 *	hosts_lines_fini(&lines);
 */
#ifndef EDGEWAY_HUB_NAMES_HOSTS_TEXT_H
#define EDGEWAY_HUB_NAMES_HOSTS_TEXT_H

#include "base/core/buf.h"

#define HOSTS_MARK "# edgeway-hub writes what follows"

struct hosts_lines { /* all zero to begin with */
	char **line;
	size_t n, room;
};

struct hosts_made {
	size_t names; /* lines of ours */
	size_t left_out; /* lines that did not fit: the last ones; a comment in the text says so */
	size_t kept; /* lines of others */
};

void hosts_lines_add(struct hosts_lines *l, const char *address, const char *name);
void hosts_lines_fini(struct hosts_lines *l);
/* Appends to `out`, at most `limit` bytes; sorts the lines. `old`: the existing text, may be "". */
struct hosts_made hosts_text(
	struct buf *out, struct hosts_lines *l, const char *old, bool ours, size_t limit);

#endif
