/*
 * Power cuts at any point of what the database writes. SQLite gets a file system (VFS) that notes
 * every write, truncation and sync below it; then images of the disk are made as a cut leaves them:
 * what was synced is there, of what came after it each sector is, or is not. Each image is opened
 * as after a restart: it must be whole, hold every transaction that was reported as committed, at
 * most the one under way in addition, and nothing by halves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "meta/state/store.h"

enum {
	SECTOR = 512,
	KEYS = 60,
	BATCH = 20,
	BATCHES = 90,
	BYTES = 2000, /* of a row: three checkpoints in all */
	CUTS = 200,
	FILES = 2, /* the database, its journal */
};

enum op_kind { OP_WRITE, OP_TRUNCATE, OP_SYNC };

struct op {
	enum op_kind kind;
	int file;
	size_t at, len;
	unsigned char *data;
};

struct image {
	unsigned char *bytes;
	size_t len, size;
};

static char dir[64];
static struct op *ops;
static size_t n_ops;
static size_t acked_at[BATCHES + 1]; /* n_ops when batch i was committed */

/* --- the file system ------------------------------------------------------------------------ */

struct file {
	sqlite3_file base;
	int which; /* -1: nothing that lasts */
	sqlite3_file *real;
};

static sqlite3_vfs *under;

static void
record(const struct file *f, enum op_kind kind, size_t at, const void *data, size_t len)
{
	if (f->which < 0)
		return;
	if ((n_ops & (n_ops - 1)) == 0)
		ops = xrealloc(ops, MAX(n_ops * 2, 1u) * sizeof(*ops));
	ops[n_ops++] = (struct op){.kind = kind,
		.file = f->which,
		.at = at,
		.len = len,
		.data = len > 0 ? xmemdup(data, len) : NULL};
}

static sqlite3_file *
real(sqlite3_file *f)
{
	return ((struct file *)f)->real;
}

static int
on_close(sqlite3_file *f)
{
	return real(f)->pMethods->xClose(real(f));
}

static int
on_read(sqlite3_file *f, void *to, int n, sqlite3_int64 at)
{
	return real(f)->pMethods->xRead(real(f), to, n, at);
}

static int
on_write(sqlite3_file *f, const void *from, int n, sqlite3_int64 at)
{
	record((struct file *)f, OP_WRITE, (size_t)at, from, (size_t)n);
	return real(f)->pMethods->xWrite(real(f), from, n, at);
}

static int
on_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	record((struct file *)f, OP_TRUNCATE, (size_t)size, NULL, 0);
	return real(f)->pMethods->xTruncate(real(f), size);
}

static int
on_sync(sqlite3_file *f, int flags)
{
	record((struct file *)f, OP_SYNC, 0, NULL, 0);
	return real(f)->pMethods->xSync(real(f), flags);
}

static int
on_size(sqlite3_file *f, sqlite3_int64 *size)
{
	return real(f)->pMethods->xFileSize(real(f), size);
}

static int
on_lock(sqlite3_file *f, int kind)
{
	return real(f)->pMethods->xLock(real(f), kind);
}

static int
on_unlock(sqlite3_file *f, int kind)
{
	return real(f)->pMethods->xUnlock(real(f), kind);
}

static int
on_check_lock(sqlite3_file *f, int *held)
{
	return real(f)->pMethods->xCheckReservedLock(real(f), held);
}

static int
on_control(sqlite3_file *f, int what, void *arg)
{
	return real(f)->pMethods->xFileControl(real(f), what, arg);
}

static int
on_sector(sqlite3_file *f)
{
	return real(f)->pMethods->xSectorSize(real(f));
}

static int
on_traits(sqlite3_file *f)
{
	return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static int
on_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **at)
{
	return real(f)->pMethods->xShmMap(real(f), page, size, extend, at);
}

static int
on_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
	return real(f)->pMethods->xShmLock(real(f), at, n, flags);
}

static void
on_shm_barrier(sqlite3_file *f)
{
	real(f)->pMethods->xShmBarrier(real(f));
}

static int
on_shm_unmap(sqlite3_file *f, int remove)
{
	return real(f)->pMethods->xShmUnmap(real(f), remove);
}

static const sqlite3_io_methods methods = {.iVersion = 2,
	.xClose = on_close,
	.xRead = on_read,
	.xWrite = on_write,
	.xTruncate = on_truncate,
	.xSync = on_sync,
	.xFileSize = on_size,
	.xLock = on_lock,
	.xUnlock = on_unlock,
	.xCheckReservedLock = on_check_lock,
	.xFileControl = on_control,
	.xSectorSize = on_sector,
	.xDeviceCharacteristics = on_traits,
	.xShmMap = on_shm_map,
	.xShmLock = on_shm_lock,
	.xShmBarrier = on_shm_barrier,
	.xShmUnmap = on_shm_unmap};

static int
on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *out, int flags, int *out_flags)
{
	struct file *f = (struct file *)out;
	int rc;

	(void)vfs;
	f->real = (sqlite3_file *)(void *)(f + 1);
	f->which = (flags & SQLITE_OPEN_MAIN_DB) != 0 ? 0 : (flags & SQLITE_OPEN_WAL) != 0 ? 1 : -1;
	rc = under->xOpen(under, name, f->real, flags, out_flags);
	f->base.pMethods = f->real->pMethods != NULL ? &methods : NULL;
	return rc;
}

/* --- the transactions ----------------------------------------------------------------------- */

/* Which of the keys batch i (from 1) writes. */
static int
key_of(int i, int k)
{
	return (i * 7 + k * 3) % KEYS;
}

/* The batch that wrote the key last, of the first n; 0: none. */
static int
last_of(int key, int n)
{
	for (int i = n; i > 0; i--)
		for (int k = 0; k < BATCH; k++)
			if (key_of(i, k) == key)
				return i;
	return 0;
}

static void
fill(char data[BYTES], int i, int key)
{
	memset(data, 'a' + (i + key) % 26, BYTES);
	snprintf(data, 32, "%d", i);
}

static void
commit(struct store *store, int i)
{
	static char data[BATCH][BYTES], names[BATCH][16];
	struct store_batch batch = {0};
	struct err err = {0};

	for (int k = 0; k < BATCH; k++) {
		struct store_op op = {
			.kind = STORE_PUT, .key = names[k], .data = data[k], .len = BYTES};

		snprintf(names[k], sizeof(names[k]), "a/k%d", key_of(i, k));
		fill(data[k], i, key_of(i, k));
		op.ip = (uint32_t)(1 + key_of(i, k));
		op.digest = (uint64_t)i;
		store_batch_add(&batch, &op);
	}
	assert_int_equal(store_commit(store, &batch, &err), 0);
	store_batch_fini(&batch);
	acked_at[i] = n_ops;
}

static void
write_all(void)
{
	auto_free char *path = xasprintf("%s/edgeway.db", dir);
	struct store_report report;
	struct store *store;
	sqlite3_vfs vfs;

	under = sqlite3_vfs_find(NULL);
	vfs = *under;
	vfs.zName = "power";
	vfs.szOsFile = (int)sizeof(struct file) + under->szOsFile;
	vfs.xOpen = on_open;
	vfs.pNext = NULL;
	assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
	assert_int_equal(store_open(&store, path, &report, NULL), 0);
	for (int i = 1; i <= BATCHES; i++)
		commit(store, i);
	store_close(&store);
	assert_int_equal(sqlite3_vfs_unregister(&vfs), SQLITE_OK);
	assert_int_equal(sqlite3_vfs_register(under, 1), SQLITE_OK);
}

/* --- the disk after a cut ------------------------------------------------------------------- */

static uint32_t
chance(uint32_t below)
{
	static uint64_t state = 88172645463325252u; /* the same cuts each time */

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 33) % below;
}

static void
resize(struct image *image, size_t len)
{
	if (len > image->size) {
		image->size = MAX(len, image->size * 2);
		image->bytes = xrealloc(image->bytes, image->size);
	}
	if (len > image->len)
		memset(image->bytes + image->len, 0, len - image->len);
	image->len = len;
}

/* lost: of 4 sectors so many do not reach the disk. */
static void
apply(struct image *image, const struct op *op, unsigned lost)
{
	if (op->kind == OP_TRUNCATE && chance(4) >= lost)
		resize(image, op->at);
	if (op->kind != OP_WRITE)
		return;
	for (size_t at = 0; at < op->len; at += SECTOR - (op->at + at) % SECTOR) {
		size_t n = MIN(op->len - at, SECTOR - (op->at + at) % SECTOR);

		if (chance(4) < lost)
			continue;
		if (op->at + at + n > image->len)
			resize(image, op->at + at + n);
		memcpy(image->bytes + op->at + at, op->data + at, n);
	}
}

static void
cut_power(size_t cut, struct image images[FILES])
{
	unsigned lost = chance(5); /* from nothing to everything */

	for (int f = 0; f < FILES; f++) {
		size_t synced = 0;

		for (size_t i = 0; i < cut; i++)
			if (ops[i].file == f && ops[i].kind == OP_SYNC)
				synced = i;
		for (size_t i = 0; i < cut; i++)
			if (ops[i].file == f)
				apply(&images[f], &ops[i], i < synced ? 0 : lost);
	}
}

/* --- after the restart ---------------------------------------------------------------------- */

struct found {
	int batch[KEYS]; /* that wrote the key; 0: not there */
};

static void
on_row(void *arg, const struct store_row *row)
{
	struct found *found = arg;
	char data[BYTES];
	int key = atoi(row->key + 3);

	assert_in_range(key, 0, KEYS - 1);
	assert_int_equal(row->len, BYTES);
	found->batch[key] = atoi(row->view);
	fill(data, found->batch[key], key);
	assert_memory_equal(data, row->view, BYTES);
	assert_int_equal(row->digest, found->batch[key]);
	assert_int_equal(row->ip, 1 + key);
}

static bool
holds(const struct found *found, int batches)
{
	for (int key = 0; key < KEYS; key++)
		if (found->batch[key] != last_of(key, batches))
			return false;
	return true;
}

static void
restart(const char *path, size_t cut)
{
	struct found found = {0};
	struct store_report report;
	struct store *store;
	struct err err = {0};
	int acked = 0;

	while (acked < BATCHES && acked_at[acked + 1] <= cut)
		acked++;
	if (store_open(&store, path, &report, &err) < 0)
		fail_msg("cut %zu: %s", cut, err.text);
	assert_int_equal(report.moved_aside, 0);
	assert_int_equal(store_load(store, on_row, &found, &err), 0);
	if (!holds(&found, acked) && (acked == BATCHES || !holds(&found, acked + 1)))
		fail_msg("cut %zu of %zu: not what %d batches leave", cut, n_ops, acked);
	store_close(&store);
}

static void
try_cut(size_t cut)
{
	static const char *const tails[] = {"", "-wal", "-shm"};
	auto_free char *path = xasprintf("%s/cut.db", dir);
	struct image images[FILES] = {{0}};

	cut_power(cut, images);
	for (unsigned i = 0; i < ARRAY_LEN(tails); i++) {
		auto_free char *name = xasprintf("%s%s", path, tails[i]);

		unlink(name);
		if (i < FILES && images[i].len > 0)
			assert_int_equal(file_write(name, images[i].bytes, images[i].len, 0600), 0);
	}
	restart(path, cut);
	for (int f = 0; f < FILES; f++)
		free(images[f].bytes);
}

static void
power_fails_at_any_point(void **state)
{
	size_t checkpoints = 0, syncs = 0;

	(void)state;
	write_all();
	for (size_t i = 0; i < n_ops; i++) {
		syncs += ops[i].kind == OP_SYNC;
		checkpoints += ops[i].kind == OP_SYNC && ops[i].file == 0;
	}
	assert_true(syncs >= BATCHES && checkpoints >= 3);
	for (int i = 0; i < CUTS; i++)
		try_cut(chance((uint32_t)n_ops + 1));
	/* and where most is at stake: around each sync of the database itself */
	for (size_t i = 1; i < n_ops; i++)
		for (size_t near = 0; ops[i].kind == OP_SYNC && ops[i].file == 0 && near < 3;
			near++)
			try_cut(i - 1 + near);
	printf("# %zu writes and syncs, %zu of them syncs, %zu of the database\n", n_ops, syncs,
		checkpoints);
	for (size_t i = 0; i < n_ops; i++)
		free(ops[i].data);
	free(ops);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(power_fails_at_any_point)};
	auto_free char *command = NULL;
	int rc;

	/* what a sync does to a real disk is not what is tested */
	snprintf(dir, sizeof(dir), "%s/edgeway-power-XXXXXX",
		access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (mkdtemp(dir) == NULL)
		return 99;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	rc = cmocka_run_group_tests_name("store_power", tests, NULL, NULL);
	command = xasprintf("rm -rf %s", dir);
	return system(command) == 0 ? rc : 99;
}
