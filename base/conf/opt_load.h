/*
 * Internal to base/conf/opt: one run of opt_load. opt.c holds the values' state and reads file and
 * environment, opt_flags.c reads argv. All functions fill l->err and prepend the place.
 */
#ifndef EDGEWAY_BASE_CONF_OPT_LOAD_H
#define EDGEWAY_BASE_CONF_OPT_LOAD_H

#include "base/conf/opt_value.h"

enum opt_from { OPT_FROM_DEFAULT, OPT_FROM_FILE, OPT_FROM_ENV, OPT_FROM_FLAG };

struct opt_origin {
	enum opt_from from;
	unsigned line; /* OPT_FROM_FILE */
};

struct opt_state {
	const struct opt_program *program;
	char *config; /* path of the file, NULL without one */
	bool action;
	struct tree **trees; /* own the nodes of OPT_TREE values */
	size_t n_trees;
	struct opt_origin origins[]; /* one per row */
};

struct opt_loading {
	const struct opt_program *program;
	void *values;
	struct opt_state *state;
	struct err *err;
};

enum opt_early { OPT_EARLY_RUN, OPT_EARLY_HELP, OPT_EARLY_VERSION };

/* Row of a key, program->n when there is none. */
size_t opt_find_row(const struct opt_program *p, const char *key);
/* Sets a value given as text: from a flag, a variable or the table. `place` names its origin in
 * error messages. */
int opt_set_text(
	struct opt_loading *l, size_t row, const char *text, enum opt_from from, const char *place);
int opt_unknown(struct opt_loading *l, const char *place, const char *key);

/* First pass over argv: syntax, unknown flags, and what is not in the table (--config, --check,
 * --help). */
int opt_scan_flags(
	struct opt_loading *l, int argc, char **argv, bool *check, enum opt_early *early);
/* Second pass: the values. */
int opt_take_flags(struct opt_loading *l, int argc, char **argv);

#endif
