#include "base/conf/tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/conf/tree_build.h"

enum { CHUNK_BYTES = 16 * 1024 };

struct tree_chunk {
	struct tree_chunk *next;
	size_t used, size;
	_Alignas(max_align_t) char bytes[];
};

static void *
arena_alloc(struct tree *t, size_t n)
{
	struct tree_chunk *c = t->chunks;
	size_t need = (n + 7) & ~(size_t)7, size = MAX(need, (size_t)CHUNK_BYTES);
	void *p;

	if (c == NULL || c->size - c->used < need) {
		c = xmalloc(sizeof *c + size);
		c->used = 0;
		c->size = size;
		c->next = t->chunks;
		t->chunks = c;
	}
	p = c->bytes + c->used;
	c->used += need;
	return p;
}

struct tree_node *
tree_node_new(struct tree *t, enum tree_kind kind, unsigned line)
{
	struct tree_node *n = arena_alloc(t, sizeof *n);

	memset(n, 0, sizeof *n);
	n->kind = kind;
	n->line = line;
	return n;
}

char *
tree_copy_text(struct tree *t, const char *text, size_t len)
{
	char *copy = arena_alloc(t, len + 1);

	if (len > 0)
		memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

void
tree_set_text(struct tree *t, struct tree_node *n, const char *text, size_t len)
{
	n->text = tree_copy_text(t, text, len);
	n->len = len;
}

void
tree_append(struct tree_tail *tail, struct tree_node *child)
{
	if (tail->next == NULL)
		tail->next = &tail->parent->child;
	*tail->next = child;
	tail->next = &child->next;
}

void
tree_add_document(struct tree *t, struct tree_node *root)
{
	if (tree_is_null(root))
		return;
	if (t->count == t->size) {
		t->size = t->size ? t->size * 2 : 8;
		t->documents = xrealloc(t->documents, t->size * sizeof(struct tree_node *));
	}
	t->documents[t->count++] = root;
}

static int
by_key(const void *a, const void *b)
{
	const struct tree_node *const *x = a, *const *y = b;
	int order = strcmp((*x)->key, (*y)->key);

	if (order != 0)
		return order;
	return ((*x)->line > (*y)->line) - ((*x)->line < (*y)->line);
}

int
tree_check_keys(const struct tree *t, const struct tree_node *map, struct err *err)
{
	auto_free const struct tree_node **sorted = NULL;
	size_t n = 0, i = 0;

	tree_each(map, child)
		n++;
	if (n < 2)
		return 0;
	sorted = xmalloc(n * sizeof(struct tree_node *));
	tree_each(map, child)
		sorted[i++] = child;
	qsort(sorted, n, sizeof(struct tree_node *), by_key);
	for (i = 1; i < n; i++) {
		if (strcmp(sorted[i - 1]->key, sorted[i]->key) == 0)
			return tree_complain(t, sorted[i]->line, err,
				"the key \"%.64s\" stands here a second time (first on line %u)",
				sorted[i]->key, sorted[i - 1]->line);
	}
	return 0;
}

int
tree_complain(const struct tree *t, unsigned line, struct err *err, const char *fmt, ...)
{
	char what[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return err_set(err, EINVAL, "%.100s:%u: %s", t->name, line, what);
}

/* Length of the UTF-8 sequence at s, 0 when it is none (overlong, surrogate, cut off, beyond
 * U+10FFFF). */
static size_t
utf8_length(const unsigned char *s, size_t left)
{
	size_t n = s[0] < 0x80 ? 1
		: s[0] < 0xc2  ? 0
		: s[0] < 0xe0  ? 2
		: s[0] < 0xf0  ? 3
		: s[0] < 0xf5  ? 4
			       : 0;

	if (n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
		(s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

static int
check_bytes(const struct tree *t, const char *text, size_t len, struct err *err)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned line = 1;
	size_t n;

	for (size_t i = 0; i < len; i += n) {
		n = utf8_length(s + i, len - i);
		if (n == 0 || s[i] == '\0')
			return tree_complain(
				t, line, err, "not a text in UTF-8 (byte 0x%02x)", s[i]);
		if (s[i] == '\n')
			line++;
	}
	return 0;
}

static void
forget_documents(struct tree *t)
{
	t->count = 0;
	t->alias_nodes = 0;
}

/* Text that begins like JSON may still be YAML in flow style, or several JSON texts between "---"
 * lines.
 */
static int
parse_either(struct tree *t, const char *text, size_t len, struct err *err)
{
	size_t blank = strspn(text, " \t\r\n");
	struct err as_json = {0};
	int rc;

	if (text[blank] != '{' && text[blank] != '[')
		return tree_parse_yaml(t, text, len, err);
	rc = tree_parse_json(t, text, len, &as_json);
	if (rc < 0) {
		forget_documents(t);
		if (tree_parse_yaml(t, text, len, NULL) == 0)
			return 0;
		if (err != NULL)
			*err = as_json;
	}
	return rc;
}

int
tree_parse(struct tree **out, const char *name, const char *text, size_t len, struct err *err)
{
	struct tree *t = xcalloc(1, sizeof *t);
	auto_free char *copy = NULL;
	int rc;

	t->name = xstrdup(name);
	rc = check_bytes(t, text, len, err);
	if (rc == 0) {
		if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
			text += 3;
			len -= 3;
		}
		/* The caller's bytes need not end in NUL; the parsers may then look one ahead. */
		copy = xmalloc(len + 1);
		memcpy(copy, text, len);
		copy[len] = '\0';
		rc = parse_either(t, copy, len, err);
	}
	if (rc < 0) {
		tree_free(&t);
		return rc;
	}
	*out = t;
	return 0;
}

void
tree_free(struct tree **out)
{
	struct tree *t = take_ptr(out);

	if (t == NULL)
		return;
	while (t->chunks != NULL) {
		struct tree_chunk *c = t->chunks;

		t->chunks = c->next;
		free(c);
	}
	free(t->documents);
	free(t->name);
	free(t);
}

size_t
tree_count(const struct tree *t)
{
	return t->count;
}

const struct tree_node *
tree_document(const struct tree *t, size_t i)
{
	return i < t->count ? t->documents[i] : NULL;
}

const char *
tree_name(const struct tree *t)
{
	return t->name;
}

static const struct tree_node *
find_key(const struct tree_node *map, const char *key, size_t len)
{
	if (map == NULL || map->kind != TREE_MAP)
		return NULL;
	tree_each(map, n) {
		if (strncmp(n->key, key, len) == 0 && n->key[len] == '\0')
			return n;
	}
	return NULL;
}

const struct tree_node *
tree_get(const struct tree_node *map, const char *key)
{
	return find_key(map, key, strlen(key));
}

const struct tree_node *
tree_path(const struct tree_node *map, const char *dotted)
{
	for (;;) {
		size_t len = strcspn(dotted, ".");

		map = find_key(map, dotted, len);
		if (dotted[len] == '\0' || map == NULL)
			return map;
		dotted += len + 1;
	}
}

static bool
is_word(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(text, words[i]) == 0)
			return true;
	}
	return false;
}

bool
tree_is_null(const struct tree_node *n)
{
	static const char *const words[] = {"", "~", "null", "Null", "NULL"};

	if (n == NULL)
		return true;
	return n->kind == TREE_SCALAR && !n->quoted && is_word(n->text, words, ARRAY_LEN(words));
}

const char *
tree_text(const struct tree_node *n, const char *otherwise)
{
	if (tree_is_null(n) || n->kind != TREE_SCALAR)
		return otherwise;
	return n->text;
}

/* YAML 1.1's words, as Kubernetes' own parser accepts them. */
bool
tree_bool(const struct tree_node *n, bool otherwise)
{
	static const char *const yes[] = {
		"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"};
	static const char *const no[] = {
		"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"};

	if (n == NULL || n->kind != TREE_SCALAR || n->quoted)
		return otherwise;
	if (is_word(n->text, yes, ARRAY_LEN(yes)))
		return true;
	return is_word(n->text, no, ARRAY_LEN(no)) ? false : otherwise;
}

int
tree_int(const struct tree_node *n, int64_t min, int64_t max, int64_t *v)
{
	const char *digits;
	char *end;
	long long value;

	if (tree_is_null(n))
		return -ENOENT;
	if (n->kind != TREE_SCALAR || n->quoted)
		return -EINVAL;
	digits = n->text + (n->text[0] == '-' || n->text[0] == '+');
	/* Some parsers read a leading zero as octal, others as decimal. */
	if (digits[0] < '0' || digits[0] > '9' || (digits[0] == '0' && digits[1] != '\0'))
		return -EINVAL;
	errno = 0;
	value = strtoll(n->text, &end, 10);
	if (*end != '\0')
		return -EINVAL;
	if (errno == ERANGE || value < min || value > max)
		return -ERANGE;
	*v = value;
	return 0;
}
