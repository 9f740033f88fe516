#include "src/common/ctl_answer.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/json.h"

struct tree *
ctl_parse(struct buf *answer)
{
	struct tree *t = NULL;
	struct err err = {0};

	if (tree_parse(&t, "answer", buf_str(answer), buf_len(answer), &err) < 0 ||
		tree_count(t) == 0) {
		fprintf(stderr, "edgewayctl: bad answer from the daemon: %s\n", err.text);
		tree_free(&t);
	}
	return t;
}

void
ctl_flatten(const struct tree_node *n)
{
	char *text = (char *)(uintptr_t)n->text;

	for (; n->kind == TREE_SCALAR && text != NULL && *text != '\0'; text++) {
		if (*text == '\n')
			*text = ' ';
	}
	tree_each(n, c)
		ctl_flatten(c);
}

const char *
ctl_text(const struct tree_node *map, const char *path)
{
	return tree_text(tree_path(map, path), "");
}

double
ctl_number(const struct tree_node *map, const char *path)
{
	return strtod(ctl_text(map, path), NULL);
}

bool
ctl_true(const struct tree_node *map, const char *path)
{
	return tree_bool(tree_path(map, path), false);
}

unsigned
ctl_count(const struct tree_node *list)
{
	unsigned n = 0;

	tree_each(list, c)
		n += c != NULL;
	return n;
}

bool
ctl_is_wanted(const struct tree_node *row, const char *wanted)
{
	auto_free char *name = NULL;

	if (wanted == NULL)
		return true;
	name = xasprintf("%s/%s", ctl_text(row, "namespace"), ctl_text(row, "name"));
	return strcmp(name, wanted) == 0 || strcmp(ctl_text(row, "service"), wanted) == 0;
}

/* --- JSON ----------------------------------------------------------------------------------- */

static void
add_indent(struct buf *out, int depth)
{
	buf_printf(out, "\n%*s", depth * 2, "");
}

static void
add_json(struct buf *out, const struct tree_node *n, int depth)
{
	const char *ends = n->kind == TREE_MAP ? "{}" : "[]";
	unsigned rows = 0;

	if (n->kind == TREE_SCALAR && n->quoted) {
		json_add_text(out, n->text);
		return;
	}
	if (n->kind == TREE_SCALAR) {
		buf_adds(out, n->text != NULL && n->text[0] != '\0' ? n->text : "null");
		return;
	}
	buf_printf(out, "%c", ends[0]);
	tree_each(n, c) {
		buf_adds(out, rows++ > 0 ? "," : "");
		add_indent(out, depth + 1);
		if (c->key != NULL) {
			json_add_text(out, c->key);
			buf_adds(out, ": ");
		}
		add_json(out, c, depth + 1);
	}
	if (rows > 0)
		add_indent(out, depth);
	buf_printf(out, "%c", ends[1]);
}

/* The wanted rows of a list, as a list of shallow copies, which the caller frees. */
static struct tree_node *
ctl_answer_choose(const struct tree_node *value, const char *wanted, struct tree_node *list)
{
	struct tree_node *rows = xcalloc(ctl_count(value) + 1, sizeof *rows);
	size_t n = 0;

	*list = *value;
	list->child = NULL;
	tree_each(value, row) {
		if (!ctl_is_wanted(row, wanted))
			continue;
		rows[n] = *row;
		rows[n].next = NULL;
		if (n > 0)
			rows[n - 1].next = &rows[n];
		list->child = rows;
		n++;
	}
	return rows;
}

void
ctl_print_value(const struct tree_node *value, enum ctl_format format, const char *wanted)
{
	struct tree_node list;
	auto_free struct tree_node *rows = NULL;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	if (wanted != NULL) {
		rows = ctl_answer_choose(value, wanted, &list);
		value = &list;
	}
	if (format == CTL_YAML) {
		tree_write_yaml(value, stdout);
		return;
	}
	add_json(&out, value, 0);
	puts(buf_str(&out));
}

/* --- for people ----------------------------------------------------------------------------- */

void
ctl_add_duration(struct buf *out, double seconds)
{
	static const struct {
		unsigned seconds;
		const char *name;
	} units[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
	uint64_t left = (uint64_t)(seconds < 0 ? 0 : seconds);

	if (seconds < 10) {
		buf_printf(out, "%.1f s", seconds);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (left < units[i].seconds)
			continue;
		buf_printf(out, "%llu %s", (unsigned long long)(left / units[i].seconds),
			units[i].name);
		left %= units[i].seconds;
		if (i + 1 < ARRAY_LEN(units) && left >= units[i + 1].seconds)
			buf_printf(out, " %llu %s",
				(unsigned long long)(left / units[i + 1].seconds),
				units[i + 1].name);
		return;
	}
}

void
ctl_add_amount(struct buf *out, double amount)
{
	static const char units[] = "kMGT";
	int unit = -1;

	while (amount >= 9999.5 && unit + 1 < (int)sizeof units - 1) {
		amount /= 1000;
		unit++;
	}
	if (unit < 0)
		buf_printf(out, amount == (double)(uint64_t)amount ? "%.0f" : "%.1f", amount);
	else
		buf_printf(out, "%.1f %c", amount, units[unit]);
}
