/*
 * Options of a program from one table: YAML file, environment and flags, in rising precedence.
 * `hub.nodeId` is the flag --hub.nodeId, the variable EDGEWAY_HUB_NODE_ID, the key nodeId under hub.
 * The table is an X-macro in the program (src/agent_options.h) that also gives the struct's members.
 *
 * Complaints name file and line, flag, or variable, what was expected, and come as one struct err.
 * Unknown keys are errors; unknown EDGEWAY_* variables only warn.
 */
#ifndef EDGEWAY_BASE_OPT_H
#define EDGEWAY_BASE_OPT_H

#include "base/err.h"

enum opt_type {
	OPT_STRING,   /* char * */
	OPT_LIST,     /* char ** ended by NULL; YAML list, scalar, or commas */
	OPT_BOOL,     /* bool */
	OPT_UINT,     /* unsigned, min..max */
	OPT_DURATION, /* uint64_t ms: 300ms, 4s, 10m, 2h, 1d; bare numbers are refused */
	OPT_ENUM,     /* int: index in `words` */
	OPT_CIDR,     /* struct opt_cidr (IPv4) */
	OPT_ADDRESS,  /* char *, checked: IP:port or unix:PATH; "" allowed when the default is "" */
	OPT_TREE,     /* const struct tree_node *: structured, kept for later parsing; file only */
};

struct opt_cidr {
	uint32_t address, mask; /* host byte order */
	unsigned bits;
};

struct opt {
	const char *key;     /* "dns.ttl" */
	enum opt_type type;
	size_t offset;       /* in the program's struct */
	const char *standard; /* default, as one would write it */
	const char *help;    /* one line */
	const char *words;   /* OPT_ENUM: "text|json" */
	unsigned min, max;   /* OPT_UINT */
	bool reload;         /* SIGHUP may change it */
};

struct opt_program {
	const char *name, *summary;
	const struct opt *table;
	size_t n;
};

enum opt_result { OPT_RUN, OPT_EXIT_OK, OPT_EXIT_BAD };

/* Fills *values from defaults, --config FILE, the environment and argv; does --help and --version (prints, OPT_EXIT_OK).
 * *check is set by --check. OPT_EXIT_BAD: err says why; exit status 2. */
enum opt_result opt_load(const struct opt_program *p, void *values, int argc, char **argv, bool *check,
	struct err *err);
void opt_free(const struct opt_program *p, void *values);
/* "key: value" lines, secrets (keys ending in token) hidden: for --check and /debug/state. */
struct buf;
void opt_dump(const struct opt_program *p, const void *values, struct buf *out);

#endif
