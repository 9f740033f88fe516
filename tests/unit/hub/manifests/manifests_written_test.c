/* A manifest that is written in place, and that the scan finds before its event comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/log.h"
#include "hub/manifests/manifests.h"
#include "tests/unit/patience.h"

#define SERVICE(name)                                                                              \
	"apiVersion: v1\nkind: Service\nmetadata: {name: " name "}\nspec: {ports: [{port: 1}]}\n"

static char dir[64];

static void
on_changed(void *arg)
{
	(void)arg;
}

/* A folder m in place of the former one, which is `aside` from now on, with this in its only file.
 * That is written to now by the test's clock, and still open. */
static FILE *
swap_folder(const char *aside, const char *text)
{
	auto_free char *folder = xasprintf("%s/m", dir), *other = xasprintf("%s/%s", dir, aside);
	auto_free char *path = xasprintf("%s/m/a.yaml", dir);
	const struct timespec now = {.tv_sec = (time_t)(wall_ms() / 1000),
		.tv_nsec = (long)(wall_ms() % 1000) * 1000000};
	FILE *f;

	(void)rename(folder, other);
	assert_int_equal(mkdir(folder, 0755), 0);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fflush(f);
	assert_int_equal(futimens(fileno(f), (const struct timespec[2]){now, now}), 0);
	return f;
}

static bool
has(const struct manifests *m, unsigned objects)
{
	auto_free char *want = xasprintf("\"file\":\"a.yaml\",\"objects\":%u,", objects);
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	manifests_state(m, &out);
	return strstr(buf_str(&out), want) != NULL;
}

/* What is there of it parses. It counts when it is closed, or when nobody writes any more. */
static void
half_a_file_is_left_alone(void **state)
{
	auto_free char *folder = NULL;
	struct manifests_config config = {.changed = on_changed};
	struct manifests *m = NULL;
	struct loop *loop = NULL;
	struct cluster *cluster = cluster_new();
	struct err err = {0};
	uint64_t end;
	FILE *f;

	(void)state;
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	snprintf(dir, sizeof dir, "/tmp/manifests-written-XXXXXX");
	assert_non_null(mkdtemp(dir));
	config.folder = folder = xasprintf("%s/m", dir);
	config.cluster = cluster;
	assert_int_equal(loop_new(&loop, &err), 0);
	fclose(swap_folder("none", SERVICE("one") "---\n" SERVICE("two")));
	assert_int_equal(manifests_start(&m, loop, &config, &err), 0);
	assert_true(has(m, 2)); /* at the start it is read as it is */
	f = swap_folder("first", SERVICE("one"));
	for (end = mono_ms() + 1500; mono_ms() < end;)
		patience_turn(loop);
	assert_true(has(m, 2));
	fputs("---\n" SERVICE("two") "---\n" SERVICE("three"), f);
	fclose(f);
	patience_until(patience_turn(loop), has(m, 3));
	f = swap_folder("second", SERVICE("one"));
	patience_until(patience_turn(loop), has(m, 1));
	fclose(f);
	manifests_stop(&m);
	cluster_free(&cluster);
	loop_free(&loop);
	for (size_t i = 0; i < 3; i++) {
		static const char *const names[] = {"m", "first", "second"};
		auto_free char *file = xasprintf("%s/%s/a.yaml", dir, names[i]);
		auto_free char *inner = xasprintf("%s/%s", dir, names[i]);

		unlink(file);
		rmdir(inner);
	}
	assert_int_equal(rmdir(dir), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(half_a_file_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
