#include "meta/state/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/buf.h"
#include "base/core/log.h"

enum {
	SCHEMA = 1,
	DAMAGED_MAX = 3, /* copies that are kept for inspection */
};

static const char schema_1[] = "CREATE TABLE service(key TEXT PRIMARY KEY NOT NULL, digest INTEGER "
			       "NOT NULL, view BLOB NOT NULL,"
			       " fake_ip INTEGER NOT NULL) STRICT;CREATE TABLE address(ip INTEGER "
			       "PRIMARY KEY, key TEXT NOT NULL, freed_at INTEGER NOT "
			       "NULL) STRICT;CREATE TABLE keep(key TEXT PRIMARY KEY NOT NULL, "
			       "value BLOB NOT NULL) STRICT;CREATE TABLE note(key TEXT PRIMARY KEY "
			       "NOT NULL, value BLOB NOT NULL) STRICT;PRAGMA user_version = 1;";

static int
store_open_exec(struct store *store, const char *sql, struct err *err)
{
	return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
									   : store_fail(store, err);
}

/* First column of the first row as a number. */
static int
ask_number(struct store *store, const char *sql, int64_t *v, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(store, sql, &st, err);

	if (rc == 0 && sqlite3_step(st) == SQLITE_ROW)
		*v = sqlite3_column_int64(st, 0);
	else if (rc == 0)
		rc = store_fail(store, err);
	sqlite3_finalize(st);
	return rc;
}

static int
store_open_check(struct store *store, struct err *err)
{
	sqlite3_stmt *st = NULL;
	int rc = store_prepare(store, "PRAGMA quick_check(1)", &st, err);
	const char *said;

	if (rc == 0 && sqlite3_step(st) != SQLITE_ROW)
		rc = store_fail(store, err);
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
store_open_migrate(struct store *store, struct store_report *report, struct err *err)
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
	if ((rc = store_open_exec(store, "BEGIN IMMEDIATE", err)) < 0)
		return rc;
	if ((rc = store_open_exec(store, schema_1, err)) == 0)
		rc = store_open_exec(store, "COMMIT", err);
	if (rc < 0)
		store_open_exec(store, "ROLLBACK", NULL);
	report->created = rc == 0;
	return rc;
}

static int
store_open_tune(struct store *store, struct err *err)
{
	return store_open_exec(store,
		"PRAGMA journal_mode = WAL;PRAGMA synchronous = FULL;PRAGMA wal_autocheckpoint = "
		"256;PRAGMA journal_size_limit = 1048576;",
		err);
}

static int
make_folder(const char *path, struct err *err)
{
	auto_free char *folder = xstrdup(path);
	int rc;

	*strrchr(folder, '/') = '\0';
	rc = mkdir_p(folder, 0700);
	return rc < 0 ? err_set(err, rc, "cannot make %s: %s", folder, strerror(-rc)) : 0;
}

/* SQLite would create the file readable for everyone. An existing file loses others'
 * permissions. */
static int
make_private(const char *path, struct err *err)
{
	auto_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	struct stat st;

	if (fd < 0 && errno == EROFS)
		return 0; /* it may still be readable */
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

/* A cleanly closed database on a read-only disk: SQLite cannot create the journal's index there,
 * and must be told that nobody writes. With a journal beside it SQLite reads it as it is. */
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
	int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
	auto_free char *uri = NULL;

	if (nobody_can_write(path)) {
		uri = immutable_uri(path);
		path = uri;
		flags |= SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
	} else {
		flags |= SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
	}
	return sqlite3_open_v2(path, &store->db, flags, NULL) == SQLITE_OK ? 0
									   : store_fail(store, err);
}

/* alone: the journal's index is kept in memory, for a full disk has no room for it (this locks out
 * other processes). */
static int
try_open(struct store **out, const char *path, bool alone, struct store_report *report,
	struct err *err)
{
	struct store *store = xcalloc(1, sizeof(*store));
	int rc = make_private(path, err);

	store->path = xstrdup(path);
	if (rc == 0)
		rc = open_file(store, path, err);
	if (rc == 0 && alone) /* before anything is read, as setting cache_size does */
		rc = store_open_exec(store, "PRAGMA locking_mode = EXCLUSIVE", err);
	if (rc == 0) {
		sqlite3_busy_timeout(store->db, 1000);
		rc = store_open_exec(
			store, "PRAGMA cache_size = -256; PRAGMA temp_store = MEMORY", err);
	}
	if (rc == 0)
		rc = store_open_check(store, err);
	report->read_only = rc == 0 && sqlite3_db_readonly(store->db, "main") == 1;
	if (rc == 0 && !report->read_only && (rc = store_open_tune(store, err)) == -EROFS) {
		report->read_only = true;
		rc = 0;
	}
	if (rc == -ENOSPC && alone)
		rc = 0; /* its content can be read */
	if (rc == 0)
		rc = store_open_migrate(store, report, err);
	if (rc == 0 && stat(store->path, &store->seen) < 0)
		rc = err_set(err, errno, "%s", strerror(errno));
	if (rc < 0)
		store_close(&store);
	*out = store;
	return rc;
}

/* Keep only the last copies: a node that damages its file at every start must not fill its disk. */
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

static int
store_open_set_aside(const char *path, const char *base, struct err *err)
{
	/* the file itself last: until then the move is not complete */
	static const char *const tails[] = {"-wal", "-shm", ""};

	for (size_t i = 0; i < ARRAY_LEN(tails); i++) {
		auto_free char *from = xasprintf("%s%s", path, tails[i]);
		auto_free char *to = xasprintf("%s%s", base, tails[i]);

		if (rename(from, to) < 0 && errno != ENOENT)
			return err_set(
				err, errno, "cannot move %s aside: %s", from, strerror(errno));
	}
	forget_old_copies(path);
	return 0;
}

int
store_move_aside(const char *path, const char *why, struct err *err)
{
	auto_free char *base = xasprintf("%s.damaged-%013llu", path, (unsigned long long)wall_ms());
	int rc = store_open_set_aside(path, base, err);

	if (rc < 0)
		return rc;
	log_error("meta",
		"the database cannot be used and was moved aside; a new one is filled from the hub "
		"file=%s "
		"kept_as=%s why=\"%s\"",
		path, base, why);
	return 0;
}

bool
store_moved(struct store *store)
{
	struct stat st;

	if (stat(store->path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR;
	return st.st_dev != store->seen.st_dev || st.st_ino != store->seen.st_ino;
}

bool
store_overwritten(struct store *store)
{
	const struct stat *seen = &store->seen;
	struct stat st;

	return stat(store->path, &st) == 0 && st.st_ino == seen->st_ino &&
		(st.st_size != seen->st_size || st.st_mtim.tv_sec != seen->st_mtim.tv_sec ||
			st.st_mtim.tv_nsec != seen->st_mtim.tv_nsec);
}

static int
store_open_copy(struct store *store, const char *to, struct err *err)
{
	auto_fd int fd = -1;
	sqlite3_stmt *st = NULL;
	int rc;

	unlink(to);
	if ((rc = make_private(to, err)) < 0 ||
		(rc = store_prepare(store, "VACUUM INTO ?1", &st, err)) < 0)
		return rc;
	sqlite3_bind_text(st, 1, to, -1, SQLITE_STATIC);
	if (sqlite3_step(st) != SQLITE_DONE)
		rc = store_fail(store, err);
	sqlite3_finalize(st);
	if (rc == 0 && ((fd = open(to, O_RDWR | O_CLOEXEC)) < 0 || fsync(fd) < 0))
		rc = err_set(err, errno, "%s", strerror(errno));
	return rc;
}

int
store_rewrite(struct store *store, const char *path, struct err *err)
{
	auto_free char *to = xasprintf("%s.new", path), *wal = xasprintf("%s-wal", path),
		       *shm = xasprintf("%s-shm", path),
		       *base = xasprintf("%s.damaged-%013llu", path, (unsigned long long)wall_ms());
	bool other;
	int rc;

	if ((rc = make_folder(path, err)) < 0)
		return rc;
	if ((rc = store_open_copy(store, to, err)) < 0) {
		unlink(to);
		return rc;
	}
	other = access(path, F_OK) == 0;
	if (other && (rc = store_open_set_aside(path, base, err)) < 0)
		return rc;
	/* they would be read into the new file */
	unlink(wal);
	unlink(shm);
	if (rename(to, path) < 0)
		return err_set(err, errno, "cannot make %s: %s", path, strerror(errno));
	log_warn("meta",
		"another program removed or replaced the database while it was in use: it was "
		"written again, complete; stop the agent before dataDir is changed file=%s "
		"kept_as=%s",
		path, other ? base : "");
	return 0;
}

int
store_open(struct store **store, const char *path, struct store_report *report, struct err *err)
{
	struct err why = {0};
	int rc;

	*report = (struct store_report){0};
	if ((rc = make_folder(path, err)) < 0)
		return rc;
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
