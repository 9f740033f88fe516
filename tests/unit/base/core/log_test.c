#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/err.h"
#include "base/core/log.h"

/* --- err ------------------------------------------------------------------------------------ */

static void
errors_carry_code_and_words(void **state)
{
	struct err err = {0};

	(void)state;
	assert_int_equal(err_set(&err, ENOENT, "open %s", "x"), -ENOENT);
	assert_int_equal(err.code, ENOENT);
	assert_int_equal(err_wrap(&err, -EIO, "cannot start %d", 7), -EIO);
	assert_int_equal(err.code, EIO);
	assert_string_equal(err.text, "cannot start 7: open x");
	assert_int_equal(err_set(&err, 0, "nothing"), -EINVAL);
	assert_int_equal(err_set(NULL, EPERM, "nobody listens"), -EPERM);
	assert_int_equal(err_wrap(NULL, EPERM, "nobody listens"), -EPERM);
}

static void
long_errors_are_cut(void **state)
{
	struct err err = {0};
	char long_text[sizeof err.text + 100];

	(void)state;
	memset(long_text, 'x', sizeof long_text - 1);
	long_text[sizeof long_text - 1] = '\0';
	err_set(&err, EIO, "%s", long_text);
	assert_int_equal(strlen(err.text), sizeof err.text - 1);
	err_wrap(&err, EIO, "%s", "front");
	assert_int_equal(strlen(err.text), sizeof err.text - 1);
	assert_int_equal(strncmp(err.text, "front: xxx", 10), 0);
	err_wrap(&err, EIO, "%s", long_text);
	assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

/* --- log ------------------------------------------------------------------------------------ */

static int saved_stderr, log_pipe[2];

static int
catch_stderr(void **state)
{
	(void)state;
	saved_stderr = dup(STDERR_FILENO);
	return pipe(log_pipe) < 0 || dup2(log_pipe[1], STDERR_FILENO) < 0 ? -1 : 0;
}

static int
release_stderr(void **state)
{
	(void)state;
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(log_pipe[0]);
	close(log_pipe[1]);
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	return 0;
}

/* What was logged since; a marker line makes the read end without waiting. */
static const char *
logged(void)
{
	static char text[65536];
	size_t n = 0;

	assert_int_equal(write(log_pipe[1], "\1", 1), 1);
	while (n == 0 || text[n - 1] != '\1') {
		ssize_t got = read(log_pipe[0], text + n, sizeof text - n - 1);

		assert_true(got > 0);
		n += (size_t)got;
	}
	text[n - 1] = '\0';
	return text;
}

static void
lines_cannot_be_forged(void **state)
{
	const char *text;

	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	log_info("test", "peer says name=%s", "a\n2026 error evil: b\x1b[31m\x7f");
	text = logged();
	assert_non_null(strstr(
		text, "Z info  test: peer says name=a\\x0a2026 error evil: b\\x1b[31m\\x7f\n"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void
nothing_can_leave_its_quotes(void **state)
{
	char word[64], short_word[4];

	(void)state;
	assert_string_equal(log_clean(word, sizeof word, "x\" status=200 caller=cert:admin"),
		"x? status=200 caller=cert:admin");
	assert_string_equal(log_clean(word, sizeof word, "a\\\"b\n\x7f\xc3\xa4~ "), "a??b????~ ");
	assert_string_equal(log_clean(short_word, sizeof short_word, "12\"4"), "12?");
	assert_string_equal(log_clean(word, sizeof word, ""), "");
}

static void
json_is_escaped(void **state)
{
	const char *text;

	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
	log_warn("test", "said \"%s\"", "back\\slash\n");
	text = logged();
	assert_int_equal(text[0], '{');
	assert_non_null(strstr(text,
		"\"level\":\"warn\",\"part\":\"test\",\"msg\":\"said "
		"\\\"back\\\\slash\\u000a\\\"\"}\n"));
}

static void
levels_are_kept(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_WARN, LOG_FORMAT_TEXT);
	log_info("test", "quiet");
	log_debug("test", "quiet");
	assert_string_equal(logged(), "");
	log_error("test", "loud");
	assert_non_null(strstr(logged(), " error test: loud\n"));
	assert_true(log_enabled(LOG_LEVEL_WARN));
	assert_false(log_enabled(LOG_LEVEL_INFO));
}

static void
parts_have_levels_of_their_own(void **state)
{
	(void)state;
	log_setup(LOG_LEVEL_WARN, LOG_FORMAT_TEXT);
	assert_int_equal(log_part_level("dns", LOG_LEVEL_DEBUG), 0);
	assert_true(log_enabled(LOG_LEVEL_DEBUG));
	log_debug("test", "quiet");
	log_limited(LOG_LEVEL_INFO, 5, "test", "quiet");
	log_debug("dns", "loud");
	log_limited(LOG_LEVEL_INFO, 5, "dns", "loud again");
	assert_null(strstr(logged(), "quiet"));
	log_debug("dns", "loud");
	assert_non_null(strstr(logged(), " debug dns: loud\n"));
	assert_int_equal(log_part_level("dns", LOG_LEVEL_ERROR), 0);
	assert_false(log_enabled(LOG_LEVEL_INFO));
	log_warn("dns", "quiet");
	assert_string_equal(logged(), "");
	assert_int_equal(log_part_level("nobody", LOG_LEVEL_DEBUG), -ENOENT);
	/* All parts: what was set for one is forgotten. */
	assert_int_equal(log_part_level("", LOG_LEVEL_INFO), 0);
	assert_int_equal(log_level_of("dns"), LOG_LEVEL_INFO);
	assert_false(log_enabled(LOG_LEVEL_DEBUG));
}

static void
long_lines_stay_whole_lines(void **state)
{
	char long_text[5000];
	const char *text;

	(void)state;
	memset(long_text, '\n', sizeof long_text - 1); /* four times as long when escaped */
	long_text[sizeof long_text - 1] = '\0';
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
	log_info("test", "%s", long_text);
	text = logged();
	assert_true(strlen(text) > 1000 && strlen(text) < 2300);
	assert_string_equal(text + strlen(text) - 3, "\"}\n");
}

static void
floods_are_held_back(void **state)
{
	const char *text;
	unsigned lines = 0;

	(void)state;
	log_setup(LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
	for (int i = 0; i < 1000; i++)
		log_limited(LOG_LEVEL_WARN, 5, "test", "garbage number=%d", i);
	for (text = logged(); *text != '\0'; text++)
		lines += *text == '\n';
	/* a new minute may have begun in between, which also says how many were held back */
	assert_in_range(lines, 5, 11);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_carry_code_and_words),
		cmocka_unit_test(long_errors_are_cut),
		cmocka_unit_test_setup_teardown(
			lines_cannot_be_forged, catch_stderr, release_stderr),
		cmocka_unit_test(nothing_can_leave_its_quotes),
		cmocka_unit_test_setup_teardown(json_is_escaped, catch_stderr, release_stderr),
		cmocka_unit_test_setup_teardown(levels_are_kept, catch_stderr, release_stderr),
		cmocka_unit_test_setup_teardown(
			parts_have_levels_of_their_own, catch_stderr, release_stderr),
		cmocka_unit_test_setup_teardown(
			long_lines_stay_whole_lines, catch_stderr, release_stderr),
		cmocka_unit_test_setup_teardown(floods_are_held_back, catch_stderr, release_stderr),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
