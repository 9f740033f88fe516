#include "src/ctl/ctl_findings.h"

#include <stdio.h>
#include <stdlib.h>

#include "model/json.h"
#include "src/ctl/ctl_clean.h"
#include "src/ctl/ctl_screen.h"

static const char *const verdicts[] = {[VERDICT_OK] = "ok",
	[VERDICT_INFO] = "info",
	[VERDICT_NOTE] = "note",
	[VERDICT_BAD] = "BAD"};

static void
print_for_programs(const struct findings *f, enum ctl_format format)
{
	auto_buf struct buf out;
	struct tree *t auto_tree = NULL;

	buf_init(&out, BUF_UNLIMITED);
	buf_adds(&out, "[");
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->list[i];
		auto_free char *found = clean_line(one->found);

		buf_adds(&out, i > 0 ? ",{\"check\":" : "{\"check\":");
		json_add_text(&out, one->check);
		buf_adds(&out, ",\"what\":");
		json_add_text(&out, one->what);
		buf_printf(&out,
			",\"verdict\":\"%s\",\"class\":\"%s\",\"found\":", verdicts[one->verdict],
			finding_class_word(one->verdict));
		json_add_text(&out, found);
		buf_adds(&out, ",\"remedy\":");
		json_add_text(&out, one->remedy != NULL ? one->remedy : "");
		buf_adds(&out, "}");
	}
	buf_adds(&out, "]");
	if ((t = ctl_parse(&out)) != NULL)
		ctl_print_value(tree_document(t, 0), format, NULL);
}

void
findings_print(const struct findings *f, enum ctl_format format)
{
	enum { CHECK_WIDTH = 13, VERDICT_WIDTH = 6 };
	static const enum ink inks[] = {[VERDICT_OK] = INK_GOOD,
		[VERDICT_INFO] = INK_PLAIN,
		[VERDICT_NOTE] = INK_NOTE,
		[VERDICT_BAD] = INK_BAD};

	if (format != CTL_TABLE) {
		print_for_programs(f, format);
		return;
	}
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->list[i];
		auto_free char *check = clean_line(one->check), *found = clean_line(one->found);

		printf("%s%-*s%s%-*s%s\n", screen_ink(inks[one->verdict]), VERDICT_WIDTH,
			verdicts[one->verdict], screen_ink(INK_PLAIN), CHECK_WIDTH, check, found);
		if (one->remedy != NULL && one->remedy[0] != '\0') {
			auto_free char *remedy = clean_line(one->remedy);

			printf("%*s-> %s\n", VERDICT_WIDTH + CHECK_WIDTH, "", remedy);
		}
	}
}
