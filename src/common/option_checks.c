#include "src/common/option_checks.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/core/sock.h"

bool
option_is_dns_name(const char *name)
{
	size_t label = 0, len = strlen(name);

	if (len == 0 || len > 253)
		return false;
	for (const char *at = name;; at++) {
		bool letter = (*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9');

		if (*at == '.' || *at == '\0') {
			if (label == 0 || label > 63 || at[-1] == '-')
				return false;
			if (*at == '\0')
				return true;
			label = 0;
			continue;
		}
		if (!letter && (*at != '-' || label == 0))
			return false;
		label++;
	}
}

static bool
is_port(const char *text, size_t len)
{
	unsigned v = 0;

	if (len == 0 || len > 5)
		return false;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return false;
		v = v * 10 + (unsigned)(text[i] - '0');
	}
	return v >= 1 && v <= 65535;
}

static bool
is_host(const char *text, size_t len)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

	return len > 0 && len <= 253 && strspn(text, letters) >= len && text[0] != '.' &&
		text[0] != '-';
}

bool
option_is_host_port(const char *text, size_t len)
{
	char ip[INET6_ADDRSTRLEN] = "";
	const char *end = memchr(text, text[0] == '[' ? ']' : ':', len);
	struct in6_addr a;

	if (len == 0 || text[0] != '[')
		return is_host(text, end != NULL ? (size_t)(end - text) : len) &&
			(end == NULL || is_port(end + 1, len - (size_t)(end - text) - 1));
	if (end == NULL || (size_t)(end - text) > sizeof ip)
		return false;
	memcpy(ip, text + 1, (size_t)(end - text) - 1);
	if (inet_pton(AF_INET6, ip, &a) != 1)
		return false;
	end++;
	return end == text + len ||
		(*end == ':' && is_port(end + 1, len - (size_t)(end - text) - 1));
}

int
option_pair(const struct option_check *c, const char *key_a, const char *a, const char *key_b,
	const char *b)
{
	if ((a[0] == '\0') == (b[0] == '\0'))
		return 0;
	if (a[0] == '\0')
		return opt_complain(c->values, key_b, NULL, c->err,
			"needs %s as well: set both or neither", key_a);
	return opt_complain(
		c->values, key_a, NULL, c->err, "needs %s as well: set both or neither", key_b);
}

/* 10250, "10250-10255", or a list of those. */
static bool
is_ports(const struct tree_node *n)
{
	const char *text = tree_text(n, ""), *dash = strchr(text, '-');

	if (n->kind == TREE_LIST) {
		tree_each(n, item) {
			if (item->kind != TREE_SCALAR || !is_ports(item))
				return false;
		}
		return n->child != NULL;
	}
	if (dash == NULL)
		return is_port(text, strlen(text));
	return is_port(text, (size_t)(dash - text)) && is_port(dash + 1, strlen(dash + 1));
}

static bool
is_texts(const struct tree_node *n)
{
	if (n->kind == TREE_SCALAR)
		return !tree_is_null(n);
	tree_each(n, item) {
		if (item->kind != TREE_SCALAR || tree_is_null(item))
			return false;
	}
	return n->kind == TREE_LIST && n->child != NULL;
}

static int
check_member(const struct option_check *c, const char *key, const struct tree_node *n,
	enum shape_kind kind)
{
	struct err why = {0};
	struct addr a;

	switch (kind) {
	case SHAPE_TEXT:
		if (n->kind == TREE_SCALAR)
			return 0;
		return opt_complain(c->values, key, n, c->err, "%.40s: expected a text", n->key);
	case SHAPE_ADDRESS:
		if (addr_parse(&a, tree_text(n, ""), 0, &why) == 0 &&
			(a.sa.sa_family == AF_UNIX || addr_port(&a) != 0))
			return 0;
		return opt_complain(c->values, key, n, c->err,
			"%.40s: expected an address such as 127.0.0.1:8443 or unix:/path", n->key);
	case SHAPE_TEXTS:
		if (is_texts(n))
			return 0;
		return opt_complain(
			c->values, key, n, c->err, "%.40s: expected a list of texts", n->key);
	case SHAPE_PORTS:
		if (is_ports(n))
			return 0;
		return opt_complain(c->values, key, n, c->err,
			"%.40s: expected ports such as [10250, 10255-10260]", n->key);
	}
	abort();
}

static const struct shape *
find_shape(const struct shape *shapes, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(shapes[i].key, key) == 0)
			return &shapes[i];
	}
	return NULL;
}

int
option_map(const struct option_check *c, const char *key, const struct tree_node *map,
	const struct shape *shapes, size_t n)
{
	int rc;

	if (map->kind != TREE_MAP)
		return opt_complain(
			c->values, key, map, c->err, "expected a map with %s, ...", shapes[0].key);
	tree_each(map, member) {
		const struct shape *s = find_shape(shapes, n, member->key);

		if (s == NULL)
			return opt_complain(c->values, key, member, c->err, "unknown key \"%.64s\"",
				member->key);
		if (tree_is_null(member))
			continue;
		if ((rc = check_member(c, key, member, s->kind)) < 0)
			return rc;
	}
	for (size_t i = 0; i < n; i++) {
		if (shapes[i].required && tree_is_null(tree_get(map, shapes[i].key)))
			return opt_complain(
				c->values, key, map, c->err, "%s is missing", shapes[i].key);
	}
	return 0;
}

int
option_list(const struct option_check *c, const char *key, const struct tree_node *list,
	const struct shape *shapes, size_t n)
{
	int rc;

	if (list->kind != TREE_LIST)
		return opt_complain(c->values, key, list, c->err, "expected a list of maps");
	tree_each(list, item) {
		if ((rc = option_map(c, key, item, shapes, n)) < 0)
			return rc;
	}
	return 0;
}
