#include "meta/state/store_private.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static const char *const sql_text[] = {
#define AS_TEXT(name, sql) sql,
	STATEMENTS(AS_TEXT)
#undef AS_TEXT
};

static int
to_errno(int sqlite)
{
	switch (sqlite & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_ERROR: /* our statements are constant, so it is the file: another schema */
		return EUCLEAN;
	case SQLITE_FULL:
		return ENOSPC;
	case SQLITE_READONLY:
		return EROFS;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return EBUSY;
	default:
		return sqlite == SQLITE_IOERR_SHORT_READ ? EUCLEAN : EIO;
	}
}

int
store_fail(struct store *store, struct err *err)
{
	return err_set(err, to_errno(sqlite3_extended_errcode(store->db)), "%s",
		sqlite3_errmsg(store->db));
}

int
store_prepare(struct store *store, const char *sql, sqlite3_stmt **st, struct err *err)
{
	return sqlite3_prepare_v2(store->db, sql, -1, st, NULL) == SQLITE_OK
		? 0
		: store_fail(store, err);
}

void
store_close(struct store **out)
{
	struct store *store = take_ptr(out);

	if (store == NULL)
		return;
	for (size_t i = 0; i < N_STATEMENTS; i++)
		sqlite3_finalize(store->statements[i]);
	sqlite3_close(store->db);
	free(store->path);
	free(store);
}

static void
row_of(sqlite3_stmt *st, store_row_fn *fn, void *arg)
{
	int64_t ip = sqlite3_column_int64(st, 3);
	const char *view = sqlite3_column_blob(st, 2);
	struct store_row row = {
		.key = (const char *)sqlite3_column_text(st, 0),
		.digest = (uint64_t)sqlite3_column_int64(st, 1),
		.view = view != NULL ? view : "",
		.len = (size_t)sqlite3_column_bytes(st, 2),
		.ip = ip > 0 && ip <= UINT32_MAX ? (uint32_t)ip : 0,
	};

	if (row.key != NULL)
		fn(arg, &row);
}

/* Steps through a prepared statement of services and finalizes it. */
static int
each_row(struct store *store, sqlite3_stmt *st, store_row_fn *fn, void *arg, struct err *err)
{
	int step, rc = 0;

	while ((step = sqlite3_step(st)) == SQLITE_ROW)
		row_of(st, fn, arg);
	if (step != SQLITE_DONE)
		rc = store_fail(store, err);
	sqlite3_finalize(st);
	return rc;
}

int
store_load(struct store *store, store_row_fn *fn, void *arg, struct err *err)
{
	sqlite3_stmt *st;
	int rc = store_prepare(store, "SELECT key, digest, view, fake_ip FROM service", &st, err);

	if (rc == 0)
		rc = each_row(store, st, fn, arg, err);
	sqlite3_db_release_memory(store->db);
	return rc;
}

int
store_scan(struct store *store, const char *after, size_t limit, store_row_fn *fn, void *arg,
	struct err *err)
{
	sqlite3_stmt *st;
	int rc = store_prepare(store,
		"SELECT key, digest, view, fake_ip FROM service WHERE key > ?1 ORDER BY key LIMIT "
		"?2",
		&st, err);

	if (rc < 0)
		return rc;
	sqlite3_bind_text(st, 1, after, -1, SQLITE_STATIC);
	sqlite3_bind_int64(st, 2, (int64_t)limit);
	return each_row(store, st, fn, arg, err);
}

int
store_load_resting(struct store *store, store_rest_fn *fn, void *arg, struct err *err)
{
	sqlite3_stmt *st;
	int step,
		rc = store_prepare(store,
			"SELECT key, ip, freed_at FROM address ORDER BY freed_at, ip", &st, err);

	if (rc < 0)
		return rc;
	while ((step = sqlite3_step(st)) == SQLITE_ROW) {
		const char *key = (const char *)sqlite3_column_text(st, 0);
		int64_t ip = sqlite3_column_int64(st, 1), at = sqlite3_column_int64(st, 2);

		if (key != NULL && ip > 0 && ip <= UINT32_MAX)
			fn(arg, key, (uint32_t)ip, at > 0 ? (uint64_t)at : 0);
	}
	if (step != SQLITE_DONE)
		rc = store_fail(store, err);
	sqlite3_finalize(st);
	return rc;
}

static int
store_run(struct store *store, enum statement which, const struct store_op *op, struct err *err)
{
	sqlite3_stmt **st = &store->statements[which];
	int n, rc;

	if (*st == NULL && (rc = store_prepare(store, sql_text[which], st, err)) < 0)
		return rc;
	n = sqlite3_bind_parameter_count(*st);
	if (op != NULL) {
		/* parameters have the same numbers in all statements; binding one that is absent
		 * fails harmlessly */
		sqlite3_bind_text(*st, 1, op->key != NULL ? op->key : "", -1, SQLITE_STATIC);
		if (n >= 3) {
			sqlite3_bind_int64(*st, 2, (int64_t)op->digest);
			sqlite3_bind_blob64(
				*st, 3, op->data != NULL ? op->data : "", op->len, SQLITE_STATIC);
		}
		if (n >= 4)
			sqlite3_bind_int64(*st, 4, op->ip);
		if (n >= 5)
			sqlite3_bind_int64(*st, 5, (int64_t)op->freed_at_ms);
	}
	rc = sqlite3_step(*st) == SQLITE_DONE ? 0 : store_fail(store, err);
	sqlite3_reset(*st);
	sqlite3_clear_bindings(*st);
	return rc;
}

static int
run_op(struct store *store, const struct store_op *op, struct err *err)
{
	int rc;

	switch (op->kind) {
	case STORE_PUT:
		rc = store_run(store, SQL_PUT, op, err);
		return rc == 0 && op->ip != 0 ? store_run(store, SQL_FORGET, op, err) : rc;
	case STORE_IP:
		rc = store_run(store, SQL_IP, op, err);
		return rc == 0 && op->ip != 0 ? store_run(store, SQL_FORGET, op, err) : rc;
	case STORE_DEL:
		return store_run(store, SQL_DEL, op, err);
	case STORE_REST:
		return store_run(store, SQL_REST, op, err);
	case STORE_FORGET:
		return store_run(store, SQL_FORGET, op, err);
	case STORE_NOTE:
		return store_run(store, SQL_NOTE, op, err);
	case STORE_KEEP:
		return store_run(store, SQL_KEEP, op, err);
	}
	assert(!"kind of a store_op");
	return -EINVAL;
}

int
store_commit(struct store *store, const struct store_batch *batch, struct err *err)
{
	int rc = store_run(store, SQL_BEGIN, NULL, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < batch->n && rc == 0; i++)
		rc = run_op(store, &batch->ops[i], err);
	if (rc == 0)
		rc = store_run(store, SQL_COMMIT, NULL, err);
	if (rc < 0 && sqlite3_get_autocommit(store->db) == 0)
		store_run(store, SQL_ROLLBACK, NULL, NULL);
	stat(store->path, &store->seen);
	return rc;
}

static int
get_value(struct store *store, const char *sql, const char *key, char **data, size_t *len)
{
	sqlite3_stmt *st;
	int step, rc = store_prepare(store, sql, &st, NULL);

	if (rc < 0)
		return rc;
	sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
	step = sqlite3_step(st);
	if (step == SQLITE_ROW) {
		const void *bytes = sqlite3_column_blob(st, 0);

		*len = (size_t)sqlite3_column_bytes(st, 0);
		*data = xmalloc(*len + 1);
		if (*len > 0)
			memcpy(*data, bytes, *len);
		(*data)[*len] = '\0';
	} else {
		rc = step == SQLITE_DONE ? -ENOENT : store_fail(store, NULL);
	}
	sqlite3_finalize(st);
	return rc;
}

char *
store_note(struct store *store, const char *key)
{
	char *text = NULL;
	size_t len;

	return get_value(store, "SELECT value FROM note WHERE key = ?1", key, &text, &len) == 0
		? text
		: NULL;
}

int
store_keep_get(struct store *store, const char *key, char **data, size_t *len)
{
	return get_value(store, "SELECT value FROM keep WHERE key = ?1", key, data, len);
}

static int
change_value(struct store *store, enum statement which, const struct store_op *op)
{
	int rc = store_run(store, which, op, NULL);

	stat(store->path, &store->seen);
	return rc;
}

static void
each_value(
	struct store *store, const char *sql, enum store_kind kind, store_value_fn *fn, void *arg)
{
	sqlite3_stmt *st;

	if (store_prepare(store, sql, &st, NULL) < 0)
		return;
	while (sqlite3_step(st) == SQLITE_ROW) {
		const char *key = (const char *)sqlite3_column_text(st, 0),
			   *data = sqlite3_column_blob(st, 1);
		const struct store_op op = {.kind = kind,
			.key = key,
			.data = data != NULL ? data : "",
			.len = (size_t)sqlite3_column_bytes(st, 1)};

		if (key != NULL)
			fn(arg, &op);
	}
	sqlite3_finalize(st);
}

void
store_each_value(struct store *store, store_value_fn *fn, void *arg)
{
	each_value(store, "SELECT key, value FROM note", STORE_NOTE, fn, arg);
	each_value(store, "SELECT key, value FROM keep", STORE_KEEP, fn, arg);
}

int
store_keep_put(struct store *store, const char *key, const void *data, size_t len)
{
	auto_free char *old = NULL;
	size_t old_len = 0;

	/* skips the write, so it also works on a read-only disk: a restarted agent finds the value
	 * it put */
	if (store_keep_get(store, key, &old, &old_len) == 0 && old_len == len &&
		(len == 0 || memcmp(old, data, len) == 0))
		return 0;
	return change_value(
		store, SQL_KEEP, &(struct store_op){.key = key, .data = data, .len = len});
}

int
store_keep_del(struct store *store, const char *key)
{
	return change_value(store, SQL_UNKEEP, &(struct store_op){.key = key});
}

void
store_batch_add(struct store_batch *batch, const struct store_op *op)
{
	if (batch->n == batch->size) {
		batch->size = MAX(batch->size * 2, 16u);
		batch->ops = xrealloc(batch->ops, batch->size * sizeof(*batch->ops));
	}
	batch->ops[batch->n++] = *op;
}

void
store_batch_fini(struct store_batch *batch)
{
	free(batch->ops);
	*batch = (struct store_batch){0};
}
