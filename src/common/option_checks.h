/*
 * Checks for options of both programs: names, files that belong together, shapes of structured
 * keys. All report through opt_complain, so with the place where the value was given and with the
 * remedy.
 */
#ifndef EDGEWAY_SRC_COMMON_OPTION_CHECKS_H
#define EDGEWAY_SRC_COMMON_OPTION_CHECKS_H

#include "base/conf/opt.h"
#include "base/conf/tree.h"

struct option_check {
	const void *values;
	struct err *err;
};

/* A member of a structured key. */
enum shape_kind { SHAPE_TEXT, SHAPE_ADDRESS, SHAPE_TEXTS, SHAPE_PORTS };
struct shape {
	const char *key;
	enum shape_kind kind;
	bool required;
};

/* Lower-case DNS name of labels [a-z0-9-], 1..253 characters. */
bool option_is_dns_name(const char *name);
/* HOST[:PORT] or [IPv6][:PORT]; the host may be a name or an address. */
bool option_is_host_port(const char *text, size_t len);
/* Both files or neither. */
int option_pair(const struct option_check *c, const char *key_a, const char *a, const char *key_b,
	const char *b);
/* A map with these members and no others; n entries in `shapes`. */
int option_map(const struct option_check *c, const char *key, const struct tree_node *map,
	const struct shape *shapes, size_t n);
int option_list(const struct option_check *c, const char *key, const struct tree_node *list,
	const struct shape *shapes, size_t n);

#endif
