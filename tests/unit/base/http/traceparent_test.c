/* traceparent as W3C Trace Context has it, Level 1 and 2. */
#include "base/http/traceparent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define T "4bf92f3577b34da6a3ce929d0e0e4736"
#define S "00f067aa0ba902b7"
#define ZERO16 "0000000000000000"

static void
what_is_read(void **state)
{
	static const struct {
		const char *text, *again; /* NULL: refused */
	} rows[] = {
		{"00-" T "-" S "-01", "00-" T "-" S "-01"},
		{"00-" T "-" S "-00", "00-" T "-" S "-00"},
		{"00-" T "-" S "-02", "00-" T "-" S "-02"},
		{"00-" T "-" S "-03", "00-" T "-" S "-03"},
		{"00-" T "-" S "-ff", "00-" T "-" S "-03"}, /* bits that nobody knows are cleared */
		{"00-" T "-" S "-0c", "00-" T "-" S "-00"},
		{"00-" ZERO16 "0000000000000001-0000000000000001-00",
			"00-" ZERO16 "0000000000000001-0000000000000001-00"},
		/* versions to come: the known beginning, and of the flags sampled */
		{"01-" T "-" S "-01", "00-" T "-" S "-01"},
		{"cc-" T "-" S "-03", "00-" T "-" S "-01"},
		{"fe-" T "-" S "-01-what-the-future-will-be-like", "00-" T "-" S "-01"},
		{"cc-" T "-" S "-01-", "00-" T "-" S "-01"},
		{"cc-" T "-" S "-01.what", NULL},
		{"cc-" T "-" S "-01a", NULL},
		{"cc-" T "-" S "-0", NULL},
		{"00-" T "-" S "-01-", NULL},
		{"00-" T "-" S "-01-more", NULL},
		{"00-" T "-" S "-01 ", NULL},
		{" 00-" T "-" S "-01", NULL},
		{"ff-" T "-" S "-01", NULL},
		{"00-" ZERO16 ZERO16 "-" S "-01", NULL},
		{"00-" T "-" ZERO16 "-01", NULL},
		{"00-4BF92F3577B34DA6A3CE929D0E0E4736-" S "-01", NULL},
		{"00-" T "-00F067AA0BA902B7-01", NULL},
		{"00-" T "-" S "-0A", NULL},
		{"0A-" T "-" S "-01", NULL},
		{"0-" T "-" S "-01", NULL},
		{"00_" T "-" S "-01", NULL},
		{"00-" T "_" S "-01", NULL},
		{"00-" T "-" S "_01", NULL},
		{"00-" T "-" S "-0", NULL},
		{"00-" T "-" S "-", NULL},
		{"00-" T "-" S, NULL},
		{"00-" T "-" S "-1x", NULL},
		{"00-.bf92f3577b34da6a3ce929d0e0e4736-" S "-01", NULL},
		{"00-" T "-" S "-01,00-" T "-" S "-01", NULL}, /* two fields that somebody joined */
		{"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct trace_context c;
		char again[TRACEPARENT_LEN + 1];
		bool taken = traceparent_parse(&c, rows[i].text, strlen(rows[i].text));

		if (taken != (rows[i].again != NULL))
			fail_msg("%s \"%s\"", taken ? "took" : "refused", rows[i].text);
		if (!taken)
			continue;
		traceparent_text(again, &c);
		assert_string_equal(again, rows[i].again);
	}
}

static void
no_byte_can_be_left_out_or_changed(void **state)
{
	static const char good[] = "00-" T "-" S "-01";
	struct trace_context c;
	char text[sizeof good];

	(void)state;
	for (size_t len = 0; len < TRACEPARENT_LEN; len++)
		assert_false(traceparent_parse(&c, good, len));
	for (size_t at = 0; at < TRACEPARENT_LEN; at++) {
		memcpy(text, good, sizeof good);
		text[at] = good[at] == '-' ? '0' : 'g';
		assert_false(traceparent_parse(&c, text, TRACEPARENT_LEN));
		text[at] = '\0';
		assert_false(traceparent_parse(&c, text, TRACEPARENT_LEN));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_read),
		cmocka_unit_test(no_byte_can_be_left_out_or_changed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
