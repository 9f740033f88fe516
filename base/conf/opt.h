/*
 * Options of a program from one table: YAML file, environment and flags, in rising precedence.
 * `hub.nodeId` is the flag --hub.nodeId, the variable EDGEWAY_HUB_NODE_ID, the key nodeId under
 * hub. The table is an X-macro in the program (src/agent/agent_options.h) that also gives the
 * struct's members:
 *
 *	#define AGENT_OPTIONS(X) \
 *		X(UINT, dns_ttl, "dns.ttl", "30", "seconds that clients may keep an answer", \
 *			.max = 86400) ...
 *	struct agent_options { struct opt_head head; AGENT_OPTIONS(OPT_MEMBER) };
 *	#define ROW(type, member, ...) \
 *		OPT_ROW(struct agent_options, type, member, __VA_ARGS__)
 *	static const struct opt table[] = { AGENT_OPTIONS(ROW) };
 *
 * One struct err holds all that is reported: it names file and line, flag, or variable, and what
 * was expected. Unknown keys are errors; unknown EDGEWAY_* variables only warn. The last value of a
 * key wins.
 */
#ifndef EDGEWAY_BASE_CONF_OPT_H
#define EDGEWAY_BASE_CONF_OPT_H

#include "base/core/err.h"

struct buf;
struct tree_node;
struct opt_state;

enum opt_type {
	OPT_STRING, /* char * */
	OPT_LIST, /* char ** ended by NULL; YAML list, scalar, or commas */
	OPT_BOOL, /* bool */
	OPT_UINT, /* unsigned, min..max */
	OPT_DURATION, /* uint64_t ms, min..max: 300ms, 4s, 10m, 2h, 1d; bare numbers are refused */
	OPT_ENUM, /* int: index in `words` */
	OPT_CIDR, /* struct opt_cidr (IPv4) */
	OPT_ADDRESS, /* char *, checked: IP:port or unix:PATH; "" is none */
	OPT_TREE, /* const struct tree_node *: structured, kept for later parsing; NULL when empty.
		     A flag or variable gives it as YAML in flow style. */
};

struct opt_cidr {
	uint32_t address, mask; /* host byte order */
	unsigned bits;
};

/* First member of every struct of values. */
struct opt_head {
	struct opt_state *state;
};

struct opt {
	const char *key; /* "dns.ttl" */
	enum opt_type type;
	size_t offset; /* in the program's struct */
	const char *standard; /* the default, as written in a configuration */
	const char *help; /* one line */
	const char *words; /* OPT_ENUM: "text|json" */
	unsigned min, max; /* OPT_UINT, OPT_DURATION (ms); max 0: no limit */
	bool reload; /* SIGHUP may change it */
};

#define OPT_C_STRING char *
#define OPT_C_LIST char **
#define OPT_C_BOOL bool
#define OPT_C_UINT unsigned
#define OPT_C_DURATION uint64_t
#define OPT_C_ENUM int
#define OPT_C_CIDR struct opt_cidr
#define OPT_C_ADDRESS char *
#define OPT_C_TREE const struct tree_node *
#define OPT_MEMBER(type, member, ...) OPT_C_##type member;
#define OPT_ROW(owner, type_, member, key_, standard_, help_, ...)                                 \
	{.key = key_,                                                                              \
		.type = OPT_##type_,                                                               \
		.offset = offsetof(owner, member),                                                 \
		.standard = standard_,                                                             \
		.help = help_,                                                                     \
		__VA_ARGS__},

struct opt_program {
	const char *name, *summary;
	const struct opt *table;
	size_t n;
	const char *action; /* a flag of this program alone, without dashes; NULL: none */
	const char *action_help;
};

enum opt_result { OPT_RUN, OPT_EXIT_OK, OPT_EXIT_BAD };
enum { OPT_FILE_BYTES_MAX = 1024 * 1024 };

/* Call it first of all, with one thread. Values of secret keys (opt_dump) and URLs with a password,
 * given as flags or variables, are overwritten where other users see them (/proc/PID/cmdline) and
 * where the process's own user does (environ). argv and environ then point to unchanged copies on
 * the heap, which stay until the process ends, for later reads. */
void opt_hide_secrets(const struct opt_program *p, int argc, char **argv);
/* Fills *values (zeroed by the caller) from defaults, --config FILE, the environment and argv;
 * handles --help and --version (prints, OPT_EXIT_OK). *check is set by --check. OPT_EXIT_BAD: err
 * says why; exit status 2. Call opt_free afterwards in every case. To re-read on SIGHUP, load into
 * a second struct.
 */
enum opt_result opt_load(const struct opt_program *p, void *values, int argc, char **argv,
	bool *check, struct err *err);
void opt_free(const struct opt_program *p, void *values);

/* Was the program's action flag given? */
bool opt_action(const void *values);
/* Was the key set anywhere (also to its default)? An empty map sets the keys below it. */
bool opt_given(const void *values, const char *key);
/* Returns -EINVAL and sets err to "<file:line, flag or variable>: key: <message>"; `at`: a node
 * inside the key's tree, or NULL. */
int opt_complain(const void *values, const char *key, const struct tree_node *at, struct err *err,
	const char *fmt, ...) printf_like(5, 6);
/* The next row after `after` (NULL: the first) whose value differs, NULL at the end. */
const struct opt *opt_changed(
	const struct opt_program *p, const void *a, const void *b, const struct opt *after);
/* "key: value" lines, secrets (keys ending in token or headers, passwords in URLs) hidden: for
 * --check and /debug/state. */
void opt_dump(const struct opt_program *p, const void *values, struct buf *out);

#endif
