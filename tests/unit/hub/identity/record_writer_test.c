/* Records on a thread of their own: all are in their files once it has ended, whatever becomes of
 * one of them. Found by tests/mutation. */
#include "hub/identity/record_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/log.h"
#include "tests/unit/patience.h"

enum { RECORDS = 200 }; /* more than one batch */

static char dir[64];
static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;
static unsigned writes; /* read and set while the disk is held, or nothing is written */

int __wrap_file_replace(const char *path, const void *data, size_t len, unsigned mode);
int __real_file_replace(const char *path, const void *data, size_t len, unsigned mode);

int
__wrap_file_replace(const char *path, const void *data, size_t len, unsigned mode)
{
	int rc;

	pthread_mutex_lock(&disk);
	writes++;
	rc = __real_file_replace(path, data, len, mode);
	pthread_mutex_unlock(&disk);
	return rc;
}

int __wrap_pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __real_pthread_create(
	pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
static bool no_threads;

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	return no_threads ? EAGAIN : __real_pthread_create(thread, attr, fn, arg);
}

static struct record_writer *
open_writer(void)
{
	struct record_writer *w = NULL;

	assert_int_equal(record_writer_new(&w, "", NULL), 0);
	return w;
}

static int
set_up(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	snprintf(dir, sizeof dir, "%.40s/records-XXXXXX", tmp != NULL ? tmp : "/tmp");
	assert_non_null(mkdtemp(dir));
	return 0;
}

static int
tear_down(void **state)
{
	(void)state;
	return rmdir(dir);
}

static void
put(struct record_writer *w, unsigned i, const char *folder, const char *text)
{
	auto_free char *name = xasprintf("edge-%u", i),
		       *path = xasprintf("%s%s/%u", dir, folder, i);

	record_writer_put(w,
		&(struct record_put){
			.name = name, .path = path, .text = xasprintf("%s %u", text, i)});
}

static void
check_written(unsigned i, const char *text)
{
	auto_free char *path = xasprintf("%s/%u", dir, i), *want = xasprintf("%s %u", text, i);
	auto_free char *data = NULL;
	size_t len;

	assert_int_equal(file_read(path, 4096, &data, &len), 0);
	assert_string_equal(data, want);
	assert_int_equal(unlink(path), 0);
}

/* The first has no folder: it is given up, and told; all others are written before the end. */
static void
all_are_written(void **state)
{
	struct record_writer *w = open_writer();
	char problem[256];

	(void)state;
	put(w, RECORDS, "/gone", "lost");
	for (unsigned i = 0; i < RECORDS; i++)
		put(w, i, "", "record");
	record_writer_wait(w, "edge-200");
	assert_false(record_writer_has(w, "edge-200"));
	assert_int_equal(record_writer_changes(w), 1);
	record_writer_free(&w);
	assert_null(w);
	for (unsigned i = 0; i < RECORDS; i++)
		check_written(i, "record");
	w = open_writer();
	put(w, 1, "/gone", "lost");
	record_writer_wait(w, "edge-1");
	record_writer_problem(w, problem, sizeof problem);
	assert_string_equal(problem,
		"nodes' certificates cannot be noted under dataDir: No such file or directory");
	put(w, 1, "", "record");
	record_writer_wait(w, "edge-1");
	record_writer_problem(w, problem, sizeof problem);
	assert_string_equal(problem, "");
	check_written(1, "record");
	record_writer_free(&w);
}

static bool
has_problem(struct record_writer *w)
{
	char problem[256];

	record_writer_problem(w, problem, sizeof problem);
	return *problem != '\0';
}

/* What the disk has refused is tried again, and not what was put or removed since. */
static void
what_was_refused_is_tried_again(void **state)
{
	auto_free char *gone = xasprintf("%s/gone", dir), *one = xasprintf("%s/1", gone),
		       *two = xasprintf("%s/2", gone), *text = NULL;
	struct record_writer *w = open_writer();

	(void)state;
	alarm(60); /* it would wait forever */
	for (unsigned i = 0; i < 3; i++)
		put(w, i, "/gone", "late");
	while (record_writer_changes(w) < 3)
		usleep(1000);
	put(w, 0, "", "later");
	record_writer_wait(w, "edge-0");
	assert_true(has_problem(w));
	record_writer_wait(w, "edge-1"); /* as who removes it does */
	record_writer_retry(w);
	while (record_writer_changes(w) < 5)
		usleep(1000);
	assert_true(has_problem(w));
	assert_int_equal(mkdir(gone, 0700), 0);
	record_writer_retry(w);
	while (has_problem(w))
		usleep(1000);
	alarm(0);
	record_writer_free(&w);
	check_written(0, "later");
	assert_int_equal(access(one, F_OK), -1);
	assert_int_equal(file_read(two, 4096, &text, NULL), 0);
	assert_string_equal(text, "late 2");
	assert_int_equal(unlink(two), 0);
	assert_int_equal(rmdir(gone), 0);
}

static void
on_waiting(void *arg, const char *name, const char *text)
{
	unsigned *sum = arg, i;

	assert_int_equal(sscanf(name, "edge-%u", &i), 1);
	assert_memory_equal(text, "record ", 7);
	*sum += 1 + 10 * i;
}

/* While the disk is slow, what waits is known. */
static void
what_waits_is_known(void **state)
{
	struct record_writer *w = open_writer();
	unsigned sum = 0;

	(void)state;
	pthread_mutex_lock(&disk);
	for (unsigned i = 0; i < 3; i++)
		put(w, i, "", "record");
	for (unsigned i = 0; i < 3; i++) {
		auto_free char *name = xasprintf("edge-%u", i);

		assert_true(record_writer_has(w, name));
	}
	assert_false(record_writer_has(w, "edge-3"));
	record_writer_each(w, on_waiting, &sum);
	assert_int_equal(sum, 33);
	pthread_mutex_unlock(&disk);
	record_writer_wait(w, "edge-2");
	sum = 0;
	record_writer_each(w, on_waiting, &sum);
	assert_int_equal(sum, 0);
	record_writer_free(&w);
	for (unsigned i = 0; i < 3; i++)
		check_written(i, "record");
}

/* Of one name the later record is the one in the file. */
static void
the_later_one_counts(void **state)
{
	struct record_writer *w = open_writer();

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		auto_free char *text = xasprintf("record %u of", i);

		put(w, 1, "", text);
	}
	record_writer_free(&w);
	check_written(1, "record 19 of");
	w = open_writer(); /* of which none is put */
	assert_false(record_writer_has(w, "edge-1"));
	record_writer_wait(w, "edge-1");
	record_writer_free(&w);
	record_writer_free(&w);
}

/* Where no thread can be made the hub does not start, and says why. */
static void
no_thread(void **state)
{
	struct record_writer *w = NULL;
	struct err err = {0};

	(void)state;
	no_threads = true;
	assert_int_equal(record_writer_new(&w, "", &err), -EAGAIN);
	no_threads = false;
	assert_null(w);
	assert_non_null(strstr(err.text, "TasksMax"));
}

static void
on_waiting_last(void *arg, const char *name, const char *text)
{
	unsigned *n = arg;

	assert_string_equal(name, "edge-1");
	assert_string_equal(text, "record 19 of 1");
	++*n;
}

/* Who puts the same name again and again waits for no slow disk, nor writes each of them; the first
 * is queued behind another name, or is being written already. */
static void
what_waits_is_replaced(void **state)
{
	struct record_writer *w = open_writer();
	unsigned n = 0;
	char *text;

	(void)state;
	pthread_mutex_lock(&disk);
	writes = 0;
	alarm(60); /* it would wait forever */
	for (unsigned i = 0; i < 20; i++) {
		text = xasprintf("record %u of", i);
		put(w, 1, "", text);
		free(text);
	}
	text = record_writer_text(w, "edge-1");
	assert_string_equal(text, "record 19 of 1");
	free(text);
	record_writer_each(w, on_waiting_last, &n);
	assert_int_equal(n, 1);
	pthread_mutex_unlock(&disk);
	record_writer_wait(w, "edge-1");
	alarm(0);
	assert_in_range(writes, 1, 2);
	check_written(1, "record 19 of");
	record_writer_free(&w);
}

/* More than are written at once, or a disk that hangs: nobody should wait for all of them. */
static void
a_disk_that_is_behind_is_known(void **state)
{
	struct record_writer *w = open_writer();

	(void)state;
	assert_int_equal(record_writer_behind(w), 0);
	pthread_mutex_lock(&disk);
	alarm(60); /* it would wait forever */
	put(w, 0, "", "record");
	while (record_writer_behind(w) == 0)
		usleep(1000);
	assert_int_equal(record_writer_behind(w), 1);
	for (unsigned i = 1; i < 65; i++)
		put(w, i, "", "record");
	assert_int_equal(record_writer_behind(w), 65);
	pthread_mutex_unlock(&disk);
	record_writer_wait(w, NULL);
	alarm(0);
	assert_int_equal(record_writer_behind(w), 0);
	record_writer_free(&w);
	for (unsigned i = 0; i < 65; i++)
		check_written(i, "record");
}

static void
on_answer(void *arg)
{
	((struct record_answer *)arg)->fn = NULL;
}

/* Returns the rc of its answer. */
static int
put_and_hear(struct record_writer *w, struct loop *loop, const char *line)
{
	struct record_answer answer = {.loop = loop, .fn = on_answer, .rc = 1};
	auto_free char *path = xasprintf("%s/1", dir);

	record_writer_put(w,
		&(struct record_put){.name = "edge-1",
			.path = path,
			.text = xstrdup("record 1"),
			.line = xstrdup(line),
			.answer = &answer});
	patience_until(patience_turn(loop), answer.fn == NULL);
	return answer.rc;
}

/* Who waits for a record's line and file is told, and tells others: no log does. The journal is
 * what is wrong, so that it is tried before it is right again. */
static void
who_waits_is_told(void **state)
{
	auto_free char *gone = xasprintf("%s/gone", dir), *journal = xasprintf("%s/journal", gone),
		       *lines = NULL;
	struct record_writer *w = NULL;
	struct loop *loop = NULL;
	char log[1024] = "";
	int log_pipe[2], saved = dup(STDERR_FILENO);

	(void)state;
	assert_int_equal(pipe2(log_pipe, O_NONBLOCK | O_CLOEXEC), 0);
	assert_int_equal(loop_new(&loop, NULL), 0);
	assert_int_equal(record_writer_new(&w, journal, NULL), 0);
	writes = 0;
	log_setup(LOG_LEVEL_WARN, LOG_FORMAT_TEXT);
	dup2(log_pipe[1], STDERR_FILENO);
	assert_int_equal(put_and_hear(w, loop, "one\n"), -ENOENT);
	assert_int_equal(read(log_pipe[0], log, sizeof log - 1), -1);
	put(w, 2, "/gone", "record");
	record_writer_wait(w, "edge-2");
	assert_true(read(log_pipe[0], log, sizeof log - 1) > 0);
	dup2(saved, STDERR_FILENO);
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	assert_non_null(strstr(log, "node=edge-2 "));
	assert_int_equal(writes, 1);
	assert_int_equal(put_and_hear(w, loop, "one\n"), -ENOENT);
	assert_false(record_writer_has(w, "edge-1"));
	record_writer_retry(w);
	record_writer_free(&w); /* once it has tried */
	assert_int_equal(writes, 1);

	assert_int_equal(record_writer_new(&w, journal, NULL), 0);
	assert_int_equal(put_and_hear(w, loop, "one\n"), -ENOENT);
	assert_int_equal(mkdir(gone, 0700), 0);
	assert_true(has_problem(w));
	record_writer_retry(w);
	patience_until(patience_turn(loop), !has_problem(w));
	assert_int_equal(put_and_hear(w, loop, "two\n"), 0);
	assert_int_equal(file_read(journal, 4096, &lines, NULL), 0);
	assert_string_equal(lines, "two\n");
	record_writer_free(&w);
	check_written(1, "record");
	assert_int_equal(unlink(journal), 0);
	assert_int_equal(rmdir(gone), 0);
	loop_free(&loop);
	close(saved);
	close(log_pipe[0]);
	close(log_pipe[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_are_written, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_was_refused_is_tried_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_waits_is_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_later_one_counts, set_up, tear_down),
		cmocka_unit_test(no_thread),
		cmocka_unit_test_setup_teardown(what_waits_is_replaced, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_disk_that_is_behind_is_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_waits_is_told, set_up, tear_down),
	};

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
