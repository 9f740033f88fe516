#include "meta/store.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"

enum {
	SCHEMA = 1,
	DAMAGED_MAX = 3, /* copies that are kept for a person to look at */
};

/* One for every statement that is needed again and again. */
#define STATEMENTS(X)                                                                              \
	X(BEGIN, "BEGIN IMMEDIATE")                                                                \
	X(COMMIT, "COMMIT")                                                                        \
	X(ROLLBACK, "ROLLBACK")                                                                    \
	X(PUT,                                                                                     \
		"INSERT OR REPLACE INTO service(key, digest, view, fake_ip) VALUES(?1, ?2, ?3, "   \
		"?4)")                                                                             \
	X(DEL, "DELETE FROM service WHERE key = ?1")                                               \
	X(IP, "UPDATE service SET fake_ip = ?4 WHERE key = ?1")                                    \
	X(REST, "INSERT OR REPLACE INTO address(ip, key, freed_at) VALUES(?4, ?1, ?5)")            \
	X(FORGET, "DELETE FROM address WHERE ip = ?4")                                             \
	X(NOTE, "INSERT OR REPLACE INTO note(key, value) VALUES(?1, ?3)")

enum statement {
#define AS_ENUM(name, sql) SQL_##name,
	STATEMENTS(AS_ENUM) N_STATEMENTS
#undef AS_ENUM
};

static const char *const sql_text[] = {
#define AS_TEXT(name, sql) sql,
	STATEMENTS(AS_TEXT)
#undef AS_TEXT
};

static const char schema_1[] =
	"CREATE TABLE service(key TEXT PRIMARY KEY NOT NULL, digest INTEGER NOT NULL, view BLOB "
	"NOT NULL,"
	" fake_ip INTEGER NOT NULL) STRICT;"
	"CREATE TABLE address(ip INTEGER PRIMARY KEY, key TEXT NOT NULL, freed_at INTEGER NOT "
	"NULL) STRICT;"
	"CREATE TABLE keep(key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT;"
	"CREATE TABLE note(key TEXT PRIMARY KEY NOT NULL, value BLOB NOT NULL) STRICT;"
	"PRAGMA user_version = 1;";

struct store {
	sqlite3 *db;
	sqlite3_stmt *statements[N_STATEMENTS];
};

static int
to_errno(int sqlite)
{
	switch (sqlite & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
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

static int
fail(struct store *store, struct err *err)
{
	return err_set(err, to_errno(sqlite3_extended_errcode(store->db)), "%s",
		sqlite3_errmsg(store->db));
}

static int
exec(struct store *store, const char *sql, struct err *err)
{
	return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(store, err);
}

static int
prepare(struct store *store, const char *sql, sqlite3_stmt **st, struct err *err)
{
	return sqlite3_prepare_v2(store->db, sql, -1, st, NULL) == SQLITE_OK ? 0 : fail(store, err);
}

/* First column of the first row as a number. */
static int
ask_number(struct store *store, const char *sql, int64_t *v, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = prepare(store, sql, &st, err);

	if (rc == 0 && sqlite3_step(st) == SQLITE_ROW)
		*v = sqlite3_column_int64(st, 0);
	else if (rc == 0)
		rc = fail(store, err);
	sqlite3_finalize(st);
	return rc;
}

static int
check(struct store *store, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = prepare(store, "PRAGMA quick_check(1)", &st, err);
	const char *said;

	if (rc == 0 && sqlite3_step(st) != SQLITE_ROW)
		rc = fail(store, err);
	if (rc == 0) {
		said = (const char *)sqlite3_column_text(st, 0);
		if (said == NULL || strcmp(said, "ok") != 0)
			rc = err_set(
				err, EUCLEAN, "%s", said != NULL ? said : "quick_check failed");
	}
	sqlite3_finalize(st);
	return rc;
}

static int
migrate(struct store *store, struct err *err)
{
	int64_t version = 0, tables = 0;
	int rc = ask_number(store, "PRAGMA user_version", &version, err);

	if (rc < 0)
		return rc;
	if (version > SCHEMA || version < 0)
		return err_set(err, EUCLEAN, "the file has version %lld, this program knows %d",
			(long long)version, SCHEMA);
	if (version == SCHEMA) {
		/* the version alone proves nothing */
		rc = ask_number(store,
			"SELECT count(*) FROM sqlite_schema WHERE name IN ('service', 'address', "
			"'keep', 'note')",
			&tables, err);
		return rc < 0 || tables == 4 ? rc : err_set(err, EUCLEAN, "tables are missing");
	}
	if ((rc = exec(store, "BEGIN IMMEDIATE", err)) < 0)
		return rc;
	if ((rc = exec(store, schema_1, err)) == 0)
		rc = exec(store, "COMMIT", err);
	if (rc < 0)
		exec(store, "ROLLBACK", NULL);
	return rc;
}

static int
tune(struct store *store, struct err *err)
{
	return exec(store,
		"PRAGMA journal_mode = WAL;"
		"PRAGMA synchronous = FULL;"
		"PRAGMA wal_autocheckpoint = 256;"
		"PRAGMA journal_size_limit = 1048576;",
		err);
}

/* SQLite would create it for everyone to read. A file that is there already keeps nobody else's rights. */
static int
make_private(const char *path, struct err *err)
{
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct stat st;

	if (fd < 0 && errno == EROFS)
		return 0; /* may still be read */
	if (fd < 0 && (errno == EISDIR || errno == ELOOP || errno == ENXIO))
		return err_set(err, EUCLEAN, "not a regular file");
	if (fd < 0)
		return err_set(err, errno, "%s", strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, EUCLEAN, "not a regular file");
	if ((st.st_mode & 077) != 0 && fchmod(fd, 0600) < 0)
		return err_set(err, errno, "%s", strerror(errno));
	return 0;
}

/* A database that was closed well and lies on a read-only disk: SQLite cannot make the journal's index there, and has
 * to be told that nobody writes. With a journal beside it it reads it as it is. */
static bool
nobody_can_write(const char *path)
{
	auto_free char *wal = xasprintf("%s-wal", path);

	return access(path, W_OK) < 0 && errno == EROFS && access(wal, F_OK) < 0;
}

static char *
immutable_uri(const char *path)
{
	struct buf uri;

	buf_init(&uri, BUF_UNLIMITED);
	buf_adds(&uri, "file:");
	for (const char *at = path; *at != '\0'; at++) {
		if (strchr("?#%", *at) != NULL)
			buf_printf(&uri, "%%%02x", (unsigned)*at);
		else
			buf_add(&uri, at, 1);
	}
	buf_adds(&uri, "?immutable=1");
	return buf_take_str(&uri);
}

static int
open_file(struct store *store, const char *path, struct err *err)
{
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW;
	auto_free char *uri = NULL;

	if (nobody_can_write(path)) {
		uri = immutable_uri(path);
		path = uri;
		flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
	} else {
		flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
	}
	return sqlite3_open_v2(path, &store->db, flags, NULL) == SQLITE_OK ? 0 : fail(store, err);
}

/* alone: the journal's index is kept in memory, where a full disk has no room for it (and nobody else may look). */
static int
try_open(struct store **out, const char *path, bool alone, struct store_report *report,
	struct err *err)
{
	struct store *store = xcalloc(1, sizeof(*store));
	int rc = make_private(path, err);

	if (rc == 0)
		rc = open_file(store, path, err);
	if (rc == 0 && alone) /* before anything is read, as cache_size does it */
		rc = exec(store, "PRAGMA locking_mode = EXCLUSIVE", err);
	if (rc == 0) {
		sqlite3_busy_timeout(store->db, 1000);
		rc = exec(store, "PRAGMA cache_size = -256; PRAGMA temp_store = MEMORY", err);
	}
	if (rc == 0)
		rc = check(store, err);
	report->read_only = rc == 0 && sqlite3_db_readonly(store->db, "main") == 1;
	if (rc == 0 && !report->read_only && (rc = tune(store, err)) == -EROFS) {
		report->read_only = true;
		rc = 0;
	}
	if (rc == -ENOSPC && alone)
		rc = 0; /* what is in it can be read */
	if (rc == 0)
		rc = migrate(store, err);
	if (rc < 0)
		store_close(&store);
	*out = store;
	return rc;
}

/* The last copies are enough: a node that damages its file at every start must not fill its disk. */
static void
forget_old_copies(const char *path)
{
	auto_free char *pattern = xasprintf("%s.damaged-*[0-9]", path);
	glob_t found;

	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i + DAMAGED_MAX < found.gl_pathc; i++) {
		auto_free char *wal = xasprintf("%s-wal", found.gl_pathv[i]);
		auto_free char *shm = xasprintf("%s-shm", found.gl_pathv[i]);

		unlink(found.gl_pathv[i]);
		unlink(wal);
		unlink(shm);
	}
	globfree(&found);
}

int
store_move_aside(const char *path, const char *why, struct err *err)
{
	static const char *const tails[] = {
		"-wal", "-shm", ""}; /* the file itself last: it is the mark */
	auto_free char *base = xasprintf("%s.damaged-%013llu", path, (unsigned long long)wall_ms());

	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		auto_free char *from = xasprintf("%s%s", path, tails[i]);
		auto_free char *to = xasprintf("%s%s", base, tails[i]);

		if (rename(from, to) < 0 && errno != ENOENT)
			return err_set(
				err, errno, "cannot move %s aside: %s", from, strerror(errno));
	}
	log_error("meta",
		"the database cannot be used and was moved aside; a new one is filled from the hub "
		"file=%s "
		"kept_as=%s why=\"%s\"",
		path, base, why);
	forget_old_copies(path);
	return 0;
}

int
store_open(struct store **store, const char *path, struct store_report *report, struct err *err)
{
	struct err why = {0};
	int rc;

	*report = (struct store_report){0};
	rc = try_open(store, path, false, report, &why);
	if (rc == -EIO || rc == -ENOSPC)
		rc = try_open(store, path, true, report, &why);
	if (rc == -EUCLEAN && (rc = store_move_aside(path, why.text, err)) == 0) {
		report->moved_aside++;
		rc = try_open(store, path, false, report, &why);
	}
	if (rc < 0 && why.code == -rc)
		return err_set(err, rc, "database %s: %s", path, why.text);
	return rc;
}

const char *
store_remedy(int error)
{
	switch (error) {
	case ENOSPC:
		return "make room on its disk";
	case EROFS:
		return "mount its disk for writing";
	default:
		return "look after its disk";
	}
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
		rc = fail(store, err);
	sqlite3_finalize(st);
	return rc;
}

int
store_load(struct store *store, store_row_fn *fn, void *arg, struct err *err)
{
	sqlite3_stmt *st;
	int rc = prepare(store, "SELECT key, digest, view, fake_ip FROM service", &st, err);

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
	int rc = prepare(store,
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
		rc = prepare(store, "SELECT key, ip, freed_at FROM address ORDER BY freed_at, ip",
			&st, err);

	if (rc < 0)
		return rc;
	while ((step = sqlite3_step(st)) == SQLITE_ROW) {
		const char *key = (const char *)sqlite3_column_text(st, 0);
		int64_t ip = sqlite3_column_int64(st, 1), at = sqlite3_column_int64(st, 2);

		if (key != NULL && ip > 0 && ip <= UINT32_MAX)
			fn(arg, key, (uint32_t)ip, at > 0 ? (uint64_t)at : 0);
	}
	if (step != SQLITE_DONE)
		rc = fail(store, err);
	sqlite3_finalize(st);
	return rc;
}

static int
run(struct store *store, enum statement which, const struct store_op *op, struct err *err)
{
	sqlite3_stmt **st = &store->statements[which];
	int n, rc;

	if (*st == NULL && (rc = prepare(store, sql_text[which], st, err)) < 0)
		return rc;
	n = sqlite3_bind_parameter_count(*st);
	if (op != NULL) {
		/* numbers of parameters are the same in all statements; binding one that is absent fails harmlessly */
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
	rc = sqlite3_step(*st) == SQLITE_DONE ? 0 : fail(store, err);
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
		rc = run(store, SQL_PUT, op, err);
		return rc == 0 && op->ip != 0 ? run(store, SQL_FORGET, op, err) : rc;
	case STORE_IP:
		rc = run(store, SQL_IP, op, err);
		return rc == 0 && op->ip != 0 ? run(store, SQL_FORGET, op, err) : rc;
	case STORE_DEL:
		return run(store, SQL_DEL, op, err);
	case STORE_REST:
		return run(store, SQL_REST, op, err);
	case STORE_FORGET:
		return run(store, SQL_FORGET, op, err);
	case STORE_NOTE:
		return run(store, SQL_NOTE, op, err);
	}
	assert(!"kind of a store_op");
	return -EINVAL;
}

int
store_commit(struct store *store, const struct store_batch *batch, struct err *err)
{
	int rc = run(store, SQL_BEGIN, NULL, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < batch->n && rc == 0; i++)
		rc = run_op(store, &batch->ops[i], err);
	if (rc == 0)
		rc = run(store, SQL_COMMIT, NULL, err);
	if (rc < 0 && sqlite3_get_autocommit(store->db) == 0)
		run(store, SQL_ROLLBACK, NULL, NULL);
	return rc;
}

static int
get_value(struct store *store, const char *sql, const char *key, char **data, size_t *len)
{
	sqlite3_stmt *st;
	int step, rc = prepare(store, sql, &st, NULL);

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
		rc = step == SQLITE_DONE ? -ENOENT : fail(store, NULL);
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
change_value(struct store *store, const char *sql, const char *key, const void *data, size_t len)
{
	sqlite3_stmt *st;
	int rc = prepare(store, sql, &st, NULL);

	if (rc < 0)
		return rc;
	sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
	if (sqlite3_bind_parameter_count(st) >= 2)
		sqlite3_bind_blob64(st, 2, data, len, SQLITE_STATIC);
	rc = sqlite3_step(st) == SQLITE_DONE ? 0 : fail(store, NULL);
	sqlite3_finalize(st);
	return rc;
}

int
store_keep_put(struct store *store, const char *key, const void *data, size_t len)
{
	auto_free char *old = NULL;
	size_t old_len = 0;

	/* also where nothing can be written: an agent that was killed finds what it put there */
	if (store_keep_get(store, key, &old, &old_len) == 0 && old_len == len &&
		(len == 0 || memcmp(old, data, len) == 0))
		return 0;
	return change_value(store, "INSERT OR REPLACE INTO keep(key, value) VALUES(?1, ?2)", key,
		len > 0 ? data : "", len);
}

int
store_keep_del(struct store *store, const char *key)
{
	return change_value(store, "DELETE FROM keep WHERE key = ?1", key, NULL, 0);
}

void
store_batch_add(struct store_batch *batch, const struct store_op *op)
{
	if (batch->n == batch->size) {
		batch->size = MAX(batch->size * 2, 16);
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
