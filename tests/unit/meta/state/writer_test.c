#include "meta/state/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/patience.h"

static void
ignore(void *arg)
{
	(void)arg;
}

/* That nothing can be written in its folder is noticed by a look, and so is the end of that. */
static void
a_look_is_no_commit(void **state)
{
	char dir[] = "/tmp/edgeway-writer-XXXXXX", away[64], path[64], clean[160];
	struct store_report report;
	struct store *store = NULL;
	struct writer *writer;
	struct loop *loop;
	struct err err = {0};

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(away, sizeof away, "%s.away", dir);
	snprintf(path, sizeof path, "%s/db", dir);
	assert_int_equal(loop_new(&loop, &err), 0);
	assert_int_equal(store_open(&store, path, &report, &err), 0);
	assert_int_equal(
		writer_start(&writer,
			&(struct writer_config){
				.loop = loop, .path = path, .lost = ignore, .rewritten = ignore},
			&store, &err),
		0);
	/* in one step: a look that finds no folder makes one */
	assert_int_equal(close(open(away, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
	assert_int_equal(renameat2(AT_FDCWD, dir, AT_FDCWD, away, RENAME_EXCHANGE), 0);
	patience_until(patience_turn(loop), writer_count(writer).failing);
	assert_int_equal(unlink(dir), 0);
	assert_true(mkdir(dir, 0700) == 0 || errno == EEXIST);
	patience_until(patience_turn(loop), !writer_count(writer).failing);
	assert_true(writer_count(writer).failures > 0);
	assert_int_equal(writer_count(writer).rewritten, 1);
	assert_int_equal(writer_count(writer).commits, 0);
	assert_true(writer_stop(&writer));
	loop_turn(loop);
	loop_free(&loop);
	snprintf(clean, sizeof clean, "rm -rf %s %s", dir, away);
	assert_int_equal(system(clean), 0);
}

static void
count(void *arg)
{
	++*(unsigned *)arg;
}

static void
on_opened(void *arg)
{
	++((unsigned *)arg)[0];
}

static void
on_lost(void *arg)
{
	++((unsigned *)arg)[1];
}

static void
on_done(void *arg, int status)
{
	assert_int_equal(status, 0);
	count(arg);
}

static void
count_row(void *arg, const struct store_row *row)
{
	(void)row;
	count(arg);
}

static void
fill(struct store *store, const char *service, const char *revoked)
{
	const struct store_op ops[] = {{.kind = STORE_PUT, .key = service, .data = "{}", .len = 2},
		{.kind = STORE_NOTE,
			.key = "refused_hubs",
			.data = revoked,
			.len = strlen(revoked)},
		{.kind = STORE_NOTE, .key = STORE_SYNCED, .data = "1", .len = 1}};
	const struct store_batch batch = {
		.ops = (struct store_op *)(uintptr_t)ops, .n = ARRAY_LEN(ops)};
	struct err err = {0};

	if (store_commit(store, &batch, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(store_keep_put(store, "early", "e", 1), 0);
	assert_int_equal(store_keep_put(store, "gone", "g", 1), 0);
}

static struct store *
store_at(const char *path)
{
	struct store_report report;
	struct store *store;
	struct err err = {0};

	if (store_open(&store, path, &report, &err) < 0)
		fail_msg("%s", err.text);
	assert_int_equal(report.moved_aside, 0);
	return store;
}

static void
assert_kept(struct store *store, const char *key, const char *want)
{
	auto_free char *value = NULL;
	size_t len;

	assert_int_equal(store_keep_get(store, key, &value, &len), 0);
	assert_string_equal(value, want);
}

static void
assert_note(struct store *store, const char *key, const char *want)
{
	auto_free char *value = store_note(store, key);

	assert_string_equal(value, want);
}

/* A backup, or anything, is copied over the open file: its services are not of our time, and what
 * no hub tells again is written into the new file. */
static void
a_file_that_is_written_into(void **state)
{
	char dir[] = "/tmp/edgeway-writer-XXXXXX", path[64], other[64], clean[80];
	const struct store_op late = {
		.kind = STORE_NOTE, .key = "refused_hubs", .data = "0a,0b", .len = 5};
	const struct store_batch batch = {.ops = (struct store_op *)(uintptr_t)&late, .n = 1};
	unsigned done = 0, lost = 0, rows;
	struct writer *writer;
	struct store *store;
	struct loop *loop;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/db", dir);
	snprintf(other, sizeof other, "%s/other", dir);
	store = store_at(other);
	fill(store, "shop/deleted", "");
	store_close(&store);
	assert_int_equal(file_write(path, "", 0, 0600), 0);
	assert_int_equal(loop_new(&loop, NULL), 0);
	for (unsigned rubbish = 0; rubbish < 2; rubbish++) {
		auto_free char *backup = NULL, *gone = NULL;
		size_t len = 0;
		int fd;

		store = store_at(path);
		fill(store, "shop/web", "0a");
		store_close(&store); /* with its journal, which would be written over the other */
		store = store_at(path);
		assert_int_equal(writer_start(&writer,
					 &(struct writer_config){.loop = loop,
						 .path = path,
						 .lost = count,
						 .rewritten = ignore,
						 .arg = &lost},
					 &store, NULL),
			0);
		writer_commit(writer, &batch, on_done, &done);
		assert_int_equal(writer_keep_put(writer, "resolv.conf", "original", 8), 0);
		assert_int_equal(writer_keep_del(writer, "gone"), 0);
		patience_until(patience_turn(loop), done == rubbish + 1);
		assert_int_equal(file_read(other, 1 << 20, &backup, &len), 0);
		if (rubbish)
			memset(backup, 'x', len);
		assert_true((fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC)) >= 0);
		assert_int_equal(write(fd, backup, len), len);
		assert_int_equal(close(fd), 0);
		patience_until(patience_turn(loop), lost == rubbish + 1);
		assert_int_equal(writer_count(writer).rewritten, 1);
		assert_true(writer_stop(&writer));
		store = store_at(path);
		rows = 0;
		assert_int_equal(store_load(store, count_row, &rows, NULL), 0);
		assert_int_equal(rows, 0);
		assert_note(store, "refused_hubs", "0a,0b");
		assert_null(store_note(store, STORE_SYNCED));
		assert_kept(store, "early", "e");
		assert_kept(store, "resolv.conf", "original");
		assert_int_equal(store_keep_get(store, "gone", &gone, &len), -ENOENT);
		store_close(&store);
	}
	loop_turn(loop);
	loop_free(&loop);
	snprintf(clean, sizeof clean, "rm -rf %s", dir);
	assert_int_equal(system(clean), 0);
}

/* By then others than its services are in use. */
static void
a_file_that_comes_too_late(void **state)
{
	char dir[] = "/tmp/edgeway-writer-XXXXXX", away[64], path[64], clean[160];
	unsigned calls[2] = {0}, rows = 0;
	struct store *store = NULL;
	struct writer *writer;
	struct loop *loop;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(away, sizeof away, "%s.away", dir);
	snprintf(path, sizeof path, "%s/db", dir);
	store = store_at(path);
	fill(store, "shop/web", "0a");
	store_close(&store);
	assert_int_equal(file_write(away, "", 0, 0600), 0);
	assert_int_equal(renameat2(AT_FDCWD, dir, AT_FDCWD, away, RENAME_EXCHANGE), 0);
	assert_int_equal(loop_new(&loop, NULL), 0);
	assert_int_equal(writer_start(&writer,
				 &(struct writer_config){.loop = loop,
					 .path = path,
					 .lost = on_lost,
					 .rewritten = ignore,
					 .opened = on_opened,
					 .arg = calls},
				 &store, NULL),
		0);
	patience_until(patience_turn(loop), writer_count(writer).failing);
	assert_int_equal(renameat2(AT_FDCWD, dir, AT_FDCWD, away, RENAME_EXCHANGE), 0);
	patience_until(patience_turn(loop), calls[0] == 1);
	assert_int_equal(writer_discard(writer), 0);
	patience_until(patience_turn(loop), calls[1] == 1);
	assert_int_equal(writer_count(writer).moved_aside, 1);
	assert_true(writer_stop(&writer));
	store = store_at(path);
	assert_int_equal(store_load(store, count_row, &rows, NULL), 0);
	assert_int_equal(rows, 0);
	assert_note(store, "refused_hubs", "0a");
	assert_kept(store, "early", "e");
	store_close(&store);
	assert_int_equal(calls[0], 1);
	loop_turn(loop);
	loop_free(&loop);
	snprintf(clean, sizeof clean, "rm -rf %s %s", dir, away);
	assert_int_equal(system(clean), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_look_is_no_commit),
		cmocka_unit_test(a_file_that_is_written_into),
		cmocka_unit_test(a_file_that_comes_too_late),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
