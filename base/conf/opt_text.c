#include <stdio.h>

#include "base/conf/opt_value.h"

enum { HELP_COLUMN = 36 };

void
opt_env_name(const char *key, char to[OPT_NAME_MAX])
{
	size_t n = (size_t)snprintf(to, OPT_NAME_MAX, "EDGEWAY_");
	char before = '.';

	for (; *key != '\0' && n + 2 < OPT_NAME_MAX; before = *key++) {
		bool upper = *key >= 'A' && *key <= 'Z', lower = *key >= 'a' && *key <= 'z';

		/* hub.nodeId -> HUB_NODE_ID, catchClusterIPs -> CATCH_CLUSTER_IPS */
		if (upper && ((before >= 'a' && before <= 'z') || (before >= '0' && before <= '9')))
			to[n++] = '_';
		to[n++] = *key == '.' ? '_' : lower ? (char)(*key - 'a' + 'A') : *key;
	}
	to[n] = '\0';
}

static const char *
last_part(const char *key)
{
	const char *dot = strrchr(key, '.');

	return dot != NULL ? dot + 1 : key;
}

const char *
opt_nearest(const struct opt_program *p, const char *key)
{
	const char *best = NULL;
	unsigned least = UINT32_MAX;

	for (size_t i = 0; i < p->n; i++) {
		const char *have = p->table[i].key;
		unsigned d = text_distance(key, have);

		/* The right key in the wrong section: ttl for dns.ttl. */
		if (strcmp(last_part(key), last_part(have)) == 0)
			d = 0;
		if (d < least) {
			least = d;
			best = have;
		}
	}
	return least <= MIN(3u, strlen(key) / 2) ? best : NULL;
}

static const char *
opt_text_placeholder(const struct opt *o)
{
	switch (o->type) {
	case OPT_STRING:
		return "TEXT";
	case OPT_LIST:
		return "A,B,...";
	case OPT_BOOL:
		return "true|false";
	case OPT_UINT:
		return "N";
	case OPT_DURATION:
		return "TIME";
	case OPT_ENUM:
		return o->words;
	case OPT_CIDR:
		return "A.B.C.D/N";
	case OPT_ADDRESS:
		return "IP:PORT";
	case OPT_TREE:
		return "YAML";
	}
	abort();
}

static void
help_line(const char *flag, const char *value, const char *help, const char *standard,
	struct buf *out)
{
	size_t before = buf_len(out), used;

	buf_printf(out, "  --%s%s%s", flag, value[0] != '\0' ? " " : "", value);
	used = buf_len(out) - before;
	if (used + 2 > HELP_COLUMN) {
		buf_adds(out, "\n");
		used = 0;
	}
	buf_printf(out, "%*s%s", (int)(HELP_COLUMN - used), "", help);
	if (standard != NULL && standard[0] != '\0')
		buf_printf(out, " [%s]", standard);
	buf_adds(out, "\n");
}

void
opt_help(const struct opt_program *p, struct buf *out)
{
	buf_printf(out, "Usage: %s [--config FILE] [--check] [--KEY VALUE]...\n\n%s\n\n", p->name,
		p->summary);
	help_line("config", "FILE", "read the keys below from a YAML file", NULL, out);
	help_line("check", "", "validate the configuration and exit", NULL, out);
	if (p->action != NULL)
		help_line(p->action, "", p->action_help, NULL, out);
	help_line("help", "", "print this and exit; also -h", NULL, out);
	help_line("version", "", "print the version and exit", NULL, out);
	buf_adds(out,
		"\nKeys, with defaults in brackets. dns.ttl is the flag --dns.ttl 30 or "
		"--dns.ttl=30, the variable\n"
		"EDGEWAY_DNS_TTL=30, and in the file `ttl: 30` under `dns:`. Flags win over "
		"variables, variables over\n"
		"the file. hub.nodeId is EDGEWAY_HUB_NODE_ID. Times have a unit: 300ms, 4s, 10m, "
		"2h, 1d.\n\n");
	for (size_t i = 0; i < p->n; i++) {
		const struct opt *o = &p->table[i];

		help_line(o->key, opt_text_placeholder(o), o->help,
			o->type == OPT_TREE ? "" : o->standard, out);
	}
}

void
opt_dump(const struct opt_program *p, const void *values, struct buf *out)
{
	for (size_t i = 0; i < p->n; i++) {
		buf_printf(out, "%s: ", p->table[i].key);
		opt_value_print(&p->table[i], values, true, out);
		buf_adds(out, "\n");
	}
}

const struct opt *
opt_changed(const struct opt_program *p, const void *a, const void *b, const struct opt *after)
{
	for (const struct opt *o = after != NULL ? after + 1 : p->table; o < p->table + p->n; o++) {
		struct buf x auto_buf, y auto_buf;

		buf_init(&x, BUF_UNLIMITED);
		buf_init(&y, BUF_UNLIMITED);
		opt_value_print(o, a, false, &x);
		opt_value_print(o, b, false, &y);
		if (strcmp(buf_str(&x), buf_str(&y)) != 0)
			return o;
	}
	return NULL;
}
