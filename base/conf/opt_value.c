#include "base/conf/opt_value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "base/core/sock.h"

static void *
opt_value_slot(const struct opt *o, void *values)
{
	return (char *)values + o->offset;
}

static void
set_string(char **to, char *value)
{
	free(*to);
	*to = value;
}

static void
free_list(char **list)
{
	if (list == NULL)
		return;
	for (char **at = list; *at != NULL; at++)
		free(*at);
	free(list);
}

static void
set_list(char ***to, char **value)
{
	free_list(*to);
	*to = value;
}

/* "a, b" without the blanks; empty items are left out, so "" is the empty list. */
static char **
split_commas(const char *text)
{
	size_t n = 1, i = 0;
	char **list;

	for (const char *at = text; *at != '\0'; at++)
		n += *at == ',';
	list = xcalloc(n + 1, sizeof(char *));
	for (;;) {
		size_t len, used;

		text += strspn(text, " \t");
		len = used = strcspn(text, ",");
		while (used > 0 && (text[used - 1] == ' ' || text[used - 1] == '\t'))
			used--;
		if (used > 0)
			list[i++] = xstrndup(text, used);
		if (text[len] == '\0')
			return list;
		text += len + 1;
	}
}

static int
parse_bool(const char *text, bool *v, struct err *err)
{
	if (strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 || strcmp(text, "on") == 0)
		*v = true;
	else if (strcmp(text, "false") == 0 || strcmp(text, "no") == 0 || strcmp(text, "off") == 0)
		*v = false;
	else
		return err_set(err, EINVAL, "expected true or false, not \"%.64s\"", text);
	return 0;
}

/* Digits at the front of text; false when there are none or too many. */
static bool
parse_digits(const char **text, uint64_t *v)
{
	const char *at = *text;

	for (*v = 0; *at >= '0' && *at <= '9' && at - *text < 16; at++)
		*v = *v * 10 + (uint64_t)(*at - '0');
	if (at == *text || (*at >= '0' && *at <= '9'))
		return false;
	*text = at;
	return true;
}

static int
parse_uint(const struct opt *o, const char *text, unsigned *v, struct err *err)
{
	unsigned max = o->max != 0 ? o->max : UINT32_MAX;
	const char *at = text;
	uint64_t n;

	if (!parse_digits(&at, &n) || *at != '\0' || n < o->min || n > max)
		return err_set(err, EINVAL, "expected a whole number from %u to %u, not \"%.64s\"",
			o->min, max, text);
	*v = (unsigned)n;
	return 0;
}

static int
check_duration(const struct opt *o, uint64_t ms, const char *text, struct err *err)
{
	struct buf min auto_buf, max auto_buf;

	buf_init(&min, BUF_UNLIMITED);
	buf_init(&max, BUF_UNLIMITED);
	opt_print_duration(o->min, &min);
	opt_print_duration(o->max, &max);
	if (ms < o->min || (o->max != 0 && ms > o->max))
		return err_set(err, EINVAL, "expected a time from %s to %s, not \"%.64s\"",
			buf_str(&min), o->max != 0 ? buf_str(&max) : "any", text);
	return 0;
}

static int
parse_duration(const struct opt *o, const char *text, uint64_t *v, struct err *err)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
	const char *at = text;
	uint64_t n;
	int rc;

	if (!parse_digits(&at, &n) || n > 1000000000)
		return err_set(err, EINVAL,
			"expected a time such as 300ms, 4s, 10m, 2h or 1d, not \"%.64s\"", text);
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (strcmp(at, units[i].name) != 0)
			continue;
		rc = check_duration(o, n * units[i].ms, text, err);
		if (rc == 0)
			*v = n * units[i].ms;
		return rc;
	}
	if (*at == '\0' && n == 0 && o->min == 0) {
		*v = 0;
		return 0;
	}
	if (*at == '\0')
		return err_set(err, EINVAL,
			"expected a time with its unit, such as %.20ss or %.20sms, not \"%.20s\"",
			text, text, text);
	return err_set(err, EINVAL,
		"expected a time such as 300ms, 4s, 10m, 2h or 1d, not \"%.64s\"", text);
}

static int
parse_enum(const struct opt *o, const char *text, int *v, struct err *err)
{
	const char *word;
	size_t len;

	for (int i = 0; (word = opt_word_at(o->words, i, &len)) != NULL; i++) {
		if (strlen(text) == len && memcmp(word, text, len) == 0) {
			*v = i;
			return 0;
		}
	}
	return err_set(err, EINVAL, "expected one of %s, not \"%.64s\"", o->words, text);
}

static int
parse_cidr(const char *text, struct opt_cidr *v, struct err *err)
{
	const char *slash = strchr(text, '/'), *at = slash != NULL ? slash + 1 : "";
	char host[INET_ADDRSTRLEN] = "", fixed[INET_ADDRSTRLEN];
	struct in_addr a;
	uint64_t bits;

	if (slash != NULL && (size_t)(slash - text) < sizeof host)
		memcpy(host, text, (size_t)(slash - text));
	if (inet_pton(AF_INET, host, &a) != 1 || !parse_digits(&at, &bits) || *at != '\0' ||
		bits > 32)
		return err_set(err, EINVAL,
			"expected an IPv4 network such as 9.251.0.0/16, not \"%.64s\"", text);
	v->bits = (unsigned)bits;
	v->mask = bits == 0 ? 0 : UINT32_MAX << (32 - bits);
	v->address = ntohl(a.s_addr);
	if ((v->address & ~v->mask) == 0)
		return 0;
	a.s_addr = htonl(v->address & v->mask);
	return err_set(err, EINVAL, "\"%.64s\" has bits set behind its prefix: write %s/%u", text,
		inet_ntop(AF_INET, &a, fixed, sizeof fixed), v->bits);
}

static int
set_address(char **to, const char *text, struct err *err)
{
	struct addr a;
	int rc;

	if (text[0] != '\0') {
		rc = addr_parse(&a, text, 0, err);
		if (rc == 0 && a.sa.sa_family != AF_UNIX && addr_port(&a) == 0)
			rc = err_set(err, EINVAL,
				"expected IP:PORT with a port from 1 to 65535, not \"%.64s\"",
				text);
		if (rc < 0)
			return rc;
	}
	set_string(to, xstrdup(text));
	return 0;
}

int
opt_value_text(const struct opt *o, void *values, const char *text, struct err *err)
{
	void *to = opt_value_slot(o, values);
	struct opt_cidr cidr;
	int rc;

	switch (o->type) {
	case OPT_STRING:
		set_string(to, xstrdup(text));
		return 0;
	case OPT_LIST:
		set_list(to, split_commas(text));
		return 0;
	case OPT_BOOL:
		return parse_bool(text, to, err);
	case OPT_UINT:
		return parse_uint(o, text, to, err);
	case OPT_DURATION:
		return parse_duration(o, text, to, err);
	case OPT_ENUM:
		return parse_enum(o, text, to, err);
	case OPT_CIDR:
		rc = parse_cidr(text, &cidr, err);
		if (rc == 0)
			*(struct opt_cidr *)to = cidr;
		return rc;
	case OPT_ADDRESS:
		return set_address(to, text, err);
	case OPT_TREE:
		*(const struct tree_node **)to = NULL;
		return 0;
	}
	abort();
}

static int
list_from_node(char ***to, const struct tree_node *node, struct err *err)
{
	size_t n = 0, i = 0;
	char **list;

	tree_each(node, item) {
		if (item->kind != TREE_SCALAR || tree_is_null(item))
			return err_set(err, EINVAL,
				"expected a list of texts; item %zu is not a text", n + 1);
		n++;
	}
	list = xcalloc(n + 1, sizeof(char *));
	tree_each(node, item)
		list[i++] = xstrdup(item->text);
	set_list(to, list);
	return 0;
}

int
opt_value_node(const struct opt *o, void *values, const struct tree_node *node, struct err *err)
{
	if (tree_is_null(node))
		return opt_value_text(o, values, o->standard, err);
	if (o->type == OPT_TREE) {
		bool empty = node->kind == TREE_SCALAR ? node->len == 0 : node->child == NULL;

		*(const struct tree_node **)opt_value_slot(o, values) = empty ? NULL : node;
		return 0;
	}
	if (node->kind == TREE_LIST && o->type == OPT_LIST)
		return list_from_node(opt_value_slot(o, values), node, err);
	if (node->kind != TREE_SCALAR)
		return err_set(err, EINVAL, "expected a %s, not a %s",
			o->type == OPT_LIST ? "text or a list of texts" : "single value",
			node->kind == TREE_MAP ? "map" : "list");
	return opt_value_text(o, values, node->text, err);
}

void
opt_value_free(const struct opt *o, void *values)
{
	void *at = opt_value_slot(o, values);

	if (o->type == OPT_STRING || o->type == OPT_ADDRESS)
		set_string(at, NULL);
	else if (o->type == OPT_LIST)
		set_list(at, NULL);
	else if (o->type == OPT_TREE)
		*(const struct tree_node **)at = NULL;
}
