/*
 * Shared by the files of the store: store.c (reading, writing) and store_open.c (opening, whatever
 * state the file is in). Not included elsewhere.
 */
#ifndef EDGEWAY_META_STATE_STORE_PRIVATE_H
#define EDGEWAY_META_STATE_STORE_PRIVATE_H

#include <sqlite3.h>
#include <sys/stat.h>

#include "meta/state/store.h"

/* One for every statement that is used repeatedly. */
#define STATEMENTS(X)                                                                              \
	X(BEGIN, "BEGIN IMMEDIATE")                                                                \
	X(COMMIT, "COMMIT")                                                                        \
	X(ROLLBACK, "ROLLBACK")                                                                    \
	X(PUT,                                                                                     \
		"INSERT OR REPLACE INTO service(key, digest, view, fake_ip) VALUES(?1, ?2, ?3, "   \
		"?4)")                                                                             \
	X(DEL, "DELETE FROM service WHERE key = ?1")                                               \
	X(IP,                                                                                      \
		"INSERT INTO service(key, digest, view, fake_ip) VALUES(?1, 0, x'', ?4) "          \
		"ON CONFLICT(key) DO UPDATE SET fake_ip = excluded.fake_ip")                       \
	X(REST, "INSERT OR REPLACE INTO address(ip, key, freed_at) VALUES(?4, ?1, ?5)")            \
	X(FORGET, "DELETE FROM address WHERE ip = ?4")                                             \
	X(NOTE, "INSERT OR REPLACE INTO note(key, value) VALUES(?1, ?3)")                          \
	X(KEEP, "INSERT OR REPLACE INTO keep(key, value) VALUES(?1, ?3)")                          \
	X(UNKEEP, "DELETE FROM keep WHERE key = ?1")

enum statement {
#define AS_ENUM(name, sql) SQL_##name,
	STATEMENTS(AS_ENUM) N_STATEMENTS
#undef AS_ENUM
};

struct store {
	sqlite3 *db;
	sqlite3_stmt *statements[N_STATEMENTS]; /* NULL: not needed yet */
	char *path;
	struct stat seen; /* the file, after our last write */
};

/* SQLite's last error, as -errno. */
int store_fail(struct store *store, struct err *err);
int store_prepare(struct store *store, const char *sql, sqlite3_stmt **st, struct err *err);

#endif
