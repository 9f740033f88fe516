#include <arpa/inet.h>
#include <stdio.h>

#include "base/conf/opt_value.h"

static const void *
slot_const(const struct opt *o, const void *values)
{
	return (const char *)values + o->offset;
}

bool
opt_is_secret(const struct opt *o)
{
	static const char *const ends[] = {"token", "Token", "headers"};
	size_t n = strlen(o->key);

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		size_t len = strlen(ends[i]);

		if (n >= len && strcmp(o->key + n - len, ends[i]) == 0)
			return true;
	}
	return false;
}

void
opt_print_duration(uint64_t ms, struct buf *out)
{
	static const struct {
		uint64_t ms;
		const char *name;
	} units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};

	for (size_t i = 0; i < ARRAY_LEN(units) && ms > 0; i++) {
		if (ms % units[i].ms == 0) {
			buf_printf(out, "%llu%s", (unsigned long long)(ms / units[i].ms),
				units[i].name);
			return;
		}
	}
	buf_printf(out, "%llums", (unsigned long long)ms);
}

const char *
opt_word_at(const char *words, int i, size_t *len)
{
	for (; i > 0; i--) {
		words += strcspn(words, "|");
		if (*words++ == '\0')
			return NULL;
	}
	*len = strcspn(words, "|");
	return words;
}

/* Does it parse as the same text without quotes, even inside [] and {}? */
static bool
is_plain(const char *text)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.:*@+-";
	size_t len = strlen(text);

	return len > 0 && strspn(text, safe) == len && strcspn(text, "_.:*@+-") > 0 &&
		text[len - 1] != ':' && strcasecmp(text, "null") != 0;
}

static void
print_text(const char *text, bool quote, struct buf *out)
{
	if (!quote && is_plain(text)) {
		buf_adds(out, text);
		return;
	}
	buf_adds(out, "\"");
	for (; *text != '\0'; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < 0x20 || c == 0x7f)
			buf_printf(out, "\\x%02x", c);
		else
			buf_printf(out, "%s%c", c == '"' || c == '\\' ? "\\" : "", c);
	}
	buf_adds(out, "\"");
}

/* Keeps the password of a URL out of logs and dumps. */
static void
print_url(const char *text, bool hide, struct buf *out)
{
	const char *host = strstr(text, "://"), *at = host != NULL ? strrchr(host, '@') : NULL;
	auto_free char *hidden = NULL;

	if (!hide || at == NULL) {
		print_text(text, false, out);
		return;
	}
	hidden = xasprintf("%.*s://(hidden)%s", (int)(host - text), text, at);
	print_text(hidden, false, out);
}

static void
print_list(char *const *list, bool hide, struct buf *out)
{
	buf_adds(out, "[");
	for (char *const *at = list; at != NULL && *at != NULL; at++) {
		if (at != list)
			buf_adds(out, ", ");
		print_url(*at, hide, out);
	}
	buf_adds(out, "]");
}

static void
print_tree(const struct tree_node *n, struct buf *out)
{
	if (n->kind == TREE_SCALAR) {
		if (n->quoted || !tree_is_null(n))
			print_text(n->text, n->quoted, out);
		else
			buf_adds(out, "null");
		return;
	}
	buf_adds(out, n->kind == TREE_MAP ? "{" : "[");
	tree_each(n, child) {
		if (child != n->child)
			buf_adds(out, ", ");
		if (n->kind == TREE_MAP) {
			print_text(child->key, false, out);
			buf_adds(out, ": ");
		}
		print_tree(child, out);
	}
	buf_adds(out, n->kind == TREE_MAP ? "}" : "]");
}

void
opt_value_print(const struct opt *o, const void *values, bool hide, struct buf *out)
{
	const void *at = slot_const(o, values);
	const struct opt_cidr *cidr = at;
	const struct tree_node *tree;
	char host[INET_ADDRSTRLEN];
	struct in_addr a;
	const char *word;
	size_t len = 0;

	switch (o->type) {
	case OPT_STRING:
	case OPT_ADDRESS:
		if (hide && opt_is_secret(o) && **(char *const *)at != '\0')
			buf_adds(out, "(hidden)");
		else
			print_url(*(char *const *)at, hide, out);
		break;
	case OPT_LIST:
		if (hide && opt_is_secret(o) && **(char **const *)at != NULL)
			buf_adds(out, "(hidden)");
		else
			print_list(*(char **const *)at, hide, out);
		break;
	case OPT_BOOL:
		buf_adds(out, *(const bool *)at ? "true" : "false");
		break;
	case OPT_UINT:
		buf_printf(out, "%u", *(const unsigned *)at);
		break;
	case OPT_DURATION:
		opt_print_duration(*(const uint64_t *)at, out);
		break;
	case OPT_ENUM:
		word = opt_word_at(o->words, *(const int *)at, &len);
		buf_add(out, word, len);
		break;
	case OPT_CIDR:
		a.s_addr = htonl(cidr->address);
		buf_printf(out, "%s/%u", inet_ntop(AF_INET, &a, host, sizeof host), cidr->bits);
		break;
	case OPT_TREE:
		tree = *(const struct tree_node *const *)at;
		if (tree != NULL)
			print_tree(tree, out);
		else
			buf_adds(out, o->standard);
		break;
	}
}
