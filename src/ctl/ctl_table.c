#include "src/ctl/ctl_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/util.h"
#include "src/ctl/ctl_clean.h"
#include "src/ctl/ctl_screen.h"

void
table_init(struct table *t, const char *const *headers)
{
	*t = (struct table){.headers = headers};
	while (headers[t->n_columns] != NULL)
		t->n_columns++;
}

void
table_fini(struct table *t)
{
	for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
		free(t->cells[i]);
	free(t->cells);
	*t = (struct table){0};
}

void
table_row(struct table *t, const char *const *cells)
{
	if (t->n_rows == t->size) {
		t->size = t->size * 2 + 16;
		t->cells = xrealloc(t->cells, t->size * t->n_columns * sizeof *t->cells);
	}
	for (size_t i = 0; i < t->n_columns; i++)
		t->cells[t->n_rows * t->n_columns + i] =
			clean_line(cells[i] != NULL && cells[i][0] != '\0' ? cells[i] : "-");
	t->n_rows++;
}

/* qsort itself is not stable. */
struct place {
	char *const *row;
	size_t at;
};

static int
compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = strcmp(x->row[0], y->row[0]);

	return order != 0 ? order : x->at < y->at ? -1 : x->at > y->at;
}

void
table_sort(struct table *t)
{
	auto_free struct place *places = xcalloc(t->n_rows + 1, sizeof *places);
	char **sorted = xcalloc(t->n_rows * t->n_columns + 1, sizeof *sorted);

	for (size_t i = 0; i < t->n_rows; i++)
		places[i] = (struct place){.row = t->cells + i * t->n_columns, .at = i};
	qsort(places, t->n_rows, sizeof *places, compare_places);
	for (size_t i = 0; i < t->n_rows; i++)
		memcpy(sorted + i * t->n_columns, places[i].row, t->n_columns * sizeof *sorted);
	free(t->cells);
	t->cells = sorted;
	t->size = t->n_rows;
}

/* Width in columns on a terminal; texts from a daemon are UTF-8. */
static int
columns_of(const char *text)
{
	int n = 0;

	for (; *text != '\0'; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static void
print_row(const struct table *t, const char *const *cells, const int *widths, FILE *to)
{
	for (size_t i = 0; i < t->n_columns; i++) {
		bool last = i + 1 == t->n_columns;

		enum ink ink = screen_ink_of(cells[i]);

		fprintf(to, "%s%s%s%*s", ink != INK_PLAIN ? screen_ink(ink) : "", cells[i],
			ink != INK_PLAIN ? screen_ink(INK_PLAIN) : "",
			last ? 0 : widths[i] - columns_of(cells[i]) + 2, "");
	}
	putc('\n', to);
}

void
table_print(const struct table *t, FILE *to)
{
	int widths[TABLE_COLUMNS_MAX] = {0};

	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = columns_of(t->headers[i]);
	for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
		widths[i % t->n_columns] = MAX(widths[i % t->n_columns], columns_of(t->cells[i]));
	print_row(t, t->headers, widths, to);
	for (size_t i = 0; i < t->n_rows; i++)
		print_row(t, (const char *const *)(t->cells + i * t->n_columns), widths, to);
}
