/*
 * A table for people: columns are as wide as their widest cell, which is known only at the end, so
 * rows are kept until then. Empty cells are shown as '-'.
 *
 *	auto_table struct table t;
 *	table_init(&t, (const char *const[]){"NAME", "ADDRESS", NULL});
 *	table_row(&t, (const char *const[]){name, address});
 *	table_print(&t, stdout);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_TABLE_H
#define EDGEWAY_SRC_CTL_CTL_TABLE_H

#include <stddef.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 16 };

struct table {
	const char *const *headers;
	size_t n_columns;
	char **cells; /* row by row */
	size_t n_rows, size;
};

#define auto_table __attribute__((cleanup(table_fini)))

/* Headers end with NULL, TABLE_COLUMNS_MAX at most, and must outlive the table. */
void table_init(struct table *t, const char *const *headers);
void table_fini(struct table *t);
/* As many cells as there are headers, NULL for an empty one; copied. */
void table_row(struct table *t, const char *const *cells);
/* Sorts by the first column; rows with equal ones keep their order. */
void table_sort(struct table *t);
void table_print(const struct table *t, FILE *to);

#endif
