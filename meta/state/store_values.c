#include "meta/state/store_values.h"

#include <string.h>

#include "base/core/util.h"

static struct store_op *
values_find(const struct store_values *v, enum store_kind kind, const char *key)
{
	for (size_t i = 0; i < v->all.n; i++) {
		struct store_op *op = &v->all.ops[i];

		if (op->kind == kind && strcmp(op->key, key) == 0)
			return op;
	}
	return NULL;
}

static void
values_free(const struct store_op *op)
{
	free((void *)(uintptr_t)op->key);
	free((void *)(uintptr_t)op->data);
}

void
store_values_drop(struct store_values *v, const char *key)
{
	struct store_op *op = values_find(v, STORE_KEEP, key);

	if (op == NULL)
		return;
	values_free(op);
	*op = v->all.ops[--v->all.n];
}

void
store_values_take(struct store_values *v, const struct store_op *op)
{
	const struct store_op copy = {.kind = op->kind, .len = op->len};
	struct store_op *at;

	if ((op->kind != STORE_NOTE && op->kind != STORE_KEEP) ||
		(op->kind == STORE_NOTE && strcmp(op->key, STORE_SYNCED) == 0))
		return;
	at = values_find(v, op->kind, op->key);
	if (at == NULL) {
		store_batch_add(&v->all, &copy);
		at = &v->all.ops[v->all.n - 1];
		at->key = xstrdup(op->key);
	}
	free((void *)(uintptr_t)at->data);
	at->data = xmemdup(op->len > 0 ? op->data : "", op->len);
	at->len = op->len;
}

static void
values_on_row(void *arg, const struct store_op *op)
{
	store_values_take(arg, op);
}

void
store_values_read(struct store_values *v, struct store *store)
{
	store_each_value(store, values_on_row, v);
}

void
store_values_fini(struct store_values *v)
{
	for (size_t i = 0; i < v->all.n; i++)
		values_free(&v->all.ops[i]);
	store_batch_fini(&v->all);
}
