#include "src/ctl/ctl_legacy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TOLD_MOST = 6, LINE_BYTES = 1024, SAVED_MOST = 8 << 20 };

#define NAMES "/proc/net/ip_tables_names"

static const char *const programs[] = {
	"/usr/sbin/iptables-legacy-save", "/sbin/iptables-legacy-save"};

void
legacy_tables(struct buf *out)
{
	FILE *f = fopen(NAMES, "re");
	char name[32];

	while (f != NULL && fscanf(f, "%31s", name) == 1)
		buf_printf(out, "%s%s", buf_len(out) > 0 ? ", " : "", name);
	if (f != NULL)
		fclose(f);
}

struct reading {
	struct buf *out;
	char table[32];
	unsigned found;
};

static void
ctl_legacy_tell(struct reading *r, const char *chain, const char *what, const char *rule)
{
	bool told = r->found++ < TOLD_MOST;

	if (told)
		buf_printf(r->out, "%s%s %s %s%s%s%s", buf_len(r->out) > 0 ? ", " : "", r->table,
			chain, what, rule[0] != '\0' ? " (" : "", rule, rule[0] != '\0' ? ")" : "");
}

/* The word after -j, as far as `size` allows. */
static bool
find_target(const char *rule, char *to, size_t size)
{
	const char *at = strstr(rule, " -j ");
	size_t n;

	if (at == NULL)
		return false;
	n = strcspn(at + 4, " ");
	snprintf(to, size, "%.*s", (int)n, at + 4);
	return true;
}

/* ":FORWARD DROP [0:0]" */
static void
read_policy(struct reading *r, const char *line)
{
	char chain[64], policy[16];

	if (sscanf(line, ":%63s %15s", chain, policy) == 2 && strcmp(policy, "DROP") == 0 &&
		strcmp(chain, "OUTPUT") != 0)
		ctl_legacy_tell(r, chain, "drops what no rule takes", "");
}

/* "-A FORWARD -i docker0 -j DROP" */
static void
read_rule(struct reading *r, const char *line)
{
	char chain[64], target[32];
	int used = 0;

	if (sscanf(line, "-A %63s%n", chain, &used) != 1 ||
		!find_target(line, target, sizeof target))
		return;
	line += used + strspn(line + used, " ");
	if (strcmp(target, "DROP") == 0 || strcmp(target, "REJECT") == 0)
		ctl_legacy_tell(r, chain, "drops", line);
	else if (strcmp(target, "NOTRACK") == 0 ||
		(strcmp(target, "CT") == 0 && strstr(line, "--notrack") != NULL))
		ctl_legacy_tell(r, chain, "does not track", line);
	else if (strcmp(target, "TPROXY") == 0)
		ctl_legacy_tell(r, chain, "takes", line);
}

void
legacy_read(const char *saved, struct buf *out)
{
	struct reading r = {.out = out};

	while (*saved != '\0') {
		size_t n = strcspn(saved, "\n");
		char line[LINE_BYTES];

		snprintf(line, sizeof line, "%.*s", (int)n, saved);
		if (line[0] == '*')
			snprintf(r.table, sizeof r.table, "%.31s", line + 1);
		else if (line[0] == ':')
			read_policy(&r, line);
		else
			read_rule(&r, line);
		saved += n + (saved[n] == '\n');
	}
	if (r.found > TOLD_MOST)
		buf_printf(out, ", and %u more", r.found - TOLD_MOST);
}

bool
legacy_look(struct buf *out)
{
	auto_buf struct buf saved;
	FILE *f = NULL;
	char part[4096];
	size_t n;

	buf_init(&saved, SAVED_MOST);
	for (size_t i = 0; i < ARRAY_LEN(programs) && f == NULL; i++) {
		if (access(programs[i], X_OK) == 0) {
			auto_free char *command = xasprintf("exec %s 2>/dev/null", programs[i]);

			fflush(NULL);
			f = popen(command, "re");
		}
	}
	if (f == NULL)
		return false;
	while ((n = fread(part, 1, sizeof part, f)) > 0)
		buf_add(&saved, part, n);
	if (pclose(f) != 0)
		return false;
	legacy_read(buf_str(&saved), out);
	return true;
}
