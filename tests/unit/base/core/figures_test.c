#include "base/core/figures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

struct doors {
	uint64_t opened;
	_Atomic uint64_t failed;
	unsigned waiting;
	size_t tries;
	bool shut;
};

static const struct figure figures[] = {
	FIGURE(struct doors, opened, "edgeway_doors_total", "result=\"open\"", "Doors.", "open"),
	FIGURE_ALSO(struct doors, failed, "result=\"failed\"", NULL),
	FIGURE_JSON(struct doors, tries, "tries"),
	FIGURE(struct doors, waiting, "edgeway_doors_waiting", NULL, "Who waits.", "waiting"),
	FIGURE(struct doors, shut, "edgeway_doors_shut", NULL, "1 while shut.", "shut"),
};
static const struct doors front = {.opened = 3,
				  .failed = 1,
				  .waiting = 2,
				  .tries = 9,
				  .shut = true},
			  back = {.opened = UINT64_C(1) << 40, .waiting = 5};
static const void *const both[] = {&front, &back};

static void
of_one_struct(void **state)
{
	struct metrics m;
	auto_buf struct buf out;

	(void)state;
	metrics_init(&m);
	figures_metrics(FIGURES(figures), &front, &m);
	assert_string_equal(buf_str(&m.out),
		"# HELP edgeway_doors_total Doors.\n# TYPE edgeway_doors_total counter\n"
		"edgeway_doors_total{result=\"open\"} 3\nedgeway_doors_total{result=\"failed\"} 1\n"
		"# HELP edgeway_doors_waiting Who waits.\n# TYPE edgeway_doors_waiting gauge\n"
		"edgeway_doors_waiting 2\n"
		"# HELP edgeway_doors_shut 1 while shut.\n# TYPE edgeway_doors_shut gauge\n"
		"edgeway_doors_shut 1\n");
	metrics_fini(&m);
	buf_init(&out, BUF_UNLIMITED);
	buf_adds(&out, "{");
	figures_json(FIGURES(figures), &front, &out);
	figures_json(FIGURES(figures) - 4, &back, &out);
	assert_string_equal(buf_str(&out),
		"{\"open\":3,\"tries\":9,\"waiting\":2,\"shut\":true,\"open\":1099511627776");
}

static void
of_several_structs(void **state)
{
	const char *const labels[] = {"door=\"front\"", "door=\"back\""};
	struct metrics m;
	auto_buf struct buf out;

	(void)state;
	metrics_init(&m);
	figures_metrics_of(FIGURES(figures) - 1, both, NULL, 2, &m);
	assert_non_null(strstr(buf_str(&m.out), "{result=\"open\"} 1099511627779\n"));
	assert_non_null(strstr(buf_str(&m.out), "edgeway_doors_waiting 7\n"));
	metrics_fini(&m);
	metrics_init(&m);
	figures_metrics_of(figures, 1, both, labels, 2, &m);
	assert_non_null(strstr(buf_str(&m.out),
		"counter\nedgeway_doors_total{door=\"front\"} "
		"3\nedgeway_doors_total{door=\"back\"} 1099511627776\n"));
	metrics_fini(&m);
	buf_init(&out, BUF_UNLIMITED);
	figures_json_sums(FIGURES(figures) - 1, both, 2, &out);
	assert_string_equal(buf_str(&out), ",\"open\":1099511627779,\"tries\":9,\"waiting\":7");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_one_struct),
		cmocka_unit_test(of_several_structs),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
