#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/conf/opt_load.h"

struct flag {
	char name[OPT_NAME_MAX]; /* without the dashes */
	const char *value; /* after '=', or NULL */
};

static int
split_flag(const char *arg, struct flag *f, struct err *err)
{
	const char *equals;
	size_t len;

	if (strcmp(arg, "-h") == 0)
		arg = "--help";
	equals = strchr(arg, '=');
	len = equals != NULL ? (size_t)(equals - arg) : strlen(arg);
	if (strncmp(arg, "--", 2) != 0 || len < 3)
		return err_set(err, EINVAL,
			"unexpected argument \"%.80s\": options look like --dns.ttl 30", arg);
	if (len - 2 >= sizeof f->name)
		return err_set(err, EINVAL, "unknown option \"%.80s...\"", arg);
	memcpy(f->name, arg + 2, len - 2);
	f->name[len - 2] = '\0';
	f->value = equals != NULL ? equals + 1 : NULL;
	return 0;
}

static bool
is_bool_word(const char *text)
{
	return text != NULL && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0);
}

/* The flag's value: after '=', or the next argument, which *i then skips. */
static int
value_of_flag(struct flag *f, bool boolean, char **argv, int *i, struct err *err)
{
	const char *next = argv[*i + 1];

	if (f->value != NULL)
		return 0;
	if (boolean && !is_bool_word(next)) {
		f->value = "true";
		return 0;
	}
	if (next == NULL || strncmp(next, "--", 2) == 0)
		return err_set(err, EINVAL, "--%s needs a value (--%s=VALUE)", f->name, f->name);
	f->value = next;
	(*i)++;
	return 0;
}

static bool
is_action(const struct opt_program *p, const char *name)
{
	return p->action != NULL && strcmp(name, p->action) == 0;
}

static bool
is_switch(const struct opt_program *p, const char *name)
{
	return is_action(p, name) || strcmp(name, "check") == 0 || strcmp(name, "help") == 0 ||
		strcmp(name, "version") == 0;
}

int
opt_scan_flags(struct opt_loading *l, int argc, char **argv, bool *check, enum opt_early *early)
{
	struct flag f;
	int rc;

	for (int i = 1; i < argc; i++) {
		size_t row;
		bool config;

		if ((rc = split_flag(argv[i], &f, l->err)) < 0)
			return rc;
		if (is_switch(l->program, f.name)) {
			if (f.value != NULL)
				return err_set(l->err, EINVAL, "--%s takes no value", f.name);
			if (is_action(l->program, f.name)) {
				l->state->action = true;
				continue;
			}
			*check = *check || f.name[0] == 'c';
			*early = f.name[0] == 'h'  ? OPT_EARLY_HELP
				: f.name[0] == 'v' ? OPT_EARLY_VERSION
						   : *early;
			continue;
		}
		config = strcmp(f.name, "config") == 0;
		row = opt_find_row(l->program, f.name);
		if (!config && row == l->program->n)
			return opt_unknown(l, "command line", f.name);
		rc = value_of_flag(
			&f, !config && l->program->table[row].type == OPT_BOOL, argv, &i, l->err);
		if (rc < 0)
			return rc;
		if (config) {
			free(l->state->config);
			l->state->config = xstrdup(f.value);
		}
	}
	return 0;
}

int
opt_take_flags(struct opt_loading *l, int argc, char **argv)
{
	char place[OPT_NAME_MAX + 2];
	struct flag f;
	int rc;

	for (int i = 1; i < argc; i++) {
		size_t row;

		if ((rc = split_flag(argv[i], &f, l->err)) < 0)
			return rc;
		if (is_switch(l->program, f.name))
			continue;
		row = opt_find_row(l->program, f.name);
		rc = value_of_flag(&f,
			row < l->program->n && l->program->table[row].type == OPT_BOOL, argv, &i,
			l->err);
		if (rc < 0)
			return rc;
		if (row == l->program->n)
			continue; /* --config */
		snprintf(place, sizeof place, "--%s", f.name);
		if ((rc = opt_set_text(l, row, f.value, OPT_FROM_FLAG, place)) < 0)
			return rc;
	}
	return 0;
}

/* --- secrets -------------------------------------------------------------------------------- */

/* /proc/PID/cmdline and environ show the memory in which the kernel put arguments and variables: so
 * the text is replaced by a copy on the heap, and the original overwritten. */
static char *
opt_move_text(char *text, char *secret)
{
	char *copy = xstrdup(text);

	explicit_bzero(secret, strlen(secret));
	return copy;
}

static bool
opt_shows_secret(const struct opt *o, const char *value)
{
	const char *host = strstr(value, "://");

	return value[0] != '\0' &&
		(opt_is_secret(o) || (host != NULL && strchr(host, '@') != NULL));
}

static void
opt_hide_flag(const struct opt *o, char **argv, int i)
{
	size_t len = strlen(o->key);
	char *arg = argv[i];

	if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, o->key, len) != 0)
		return;
	if (arg[2 + len] == '=' && opt_shows_secret(o, arg + 3 + len))
		argv[i] = opt_move_text(arg, arg + 3 + len);
	else if (arg[2 + len] == '\0' && argv[i + 1] != NULL && opt_shows_secret(o, argv[i + 1]))
		argv[i + 1] = opt_move_text(argv[i + 1], argv[i + 1]);
}

static void
opt_hide_variable(const struct opt *o)
{
	char name[OPT_NAME_MAX];
	size_t len;

	opt_env_name(o->key, name);
	len = strlen(name);
	for (char **at = environ; at != NULL && *at != NULL; at++)
		if (strncmp(*at, name, len) == 0 && (*at)[len] == '=' &&
			opt_shows_secret(o, *at + len + 1))
			*at = opt_move_text(*at, *at + len + 1);
}

void
opt_hide_secrets(const struct opt_program *p, int argc, char **argv)
{
	for (size_t row = 0; row < p->n; row++) {
		const struct opt *o = &p->table[row];

		for (int i = 1; i < argc; i++)
			opt_hide_flag(o, argv, i);
		opt_hide_variable(o);
	}
}
