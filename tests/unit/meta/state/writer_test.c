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

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_look_is_no_commit)};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
