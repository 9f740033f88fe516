#include "src/ctl_findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/json.h"
#include "src/ctl_clean.h"
#include "src/ctl_screen.h"

static const char *const verdicts[] = {
	[VERDICT_OK] = "ok", [VERDICT_NOTE] = "note", [VERDICT_BAD] = "BAD"};

void
findings_fini(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->list[i].found);
	free(f->list);
	*f = (struct findings){0};
}

void
findings_add(struct findings *f, const char *check, enum verdict verdict, const char *remedy,
	const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	f->list = xrealloc(f->list, (f->n + 1) * sizeof *f->list);
	f->list[f->n++] = (struct finding){.check = check,
		.verdict = verdict,
		.found = clean_line(text),
		.remedy = verdict == VERDICT_OK ? NULL : remedy};
}

bool
findings_bad(const struct findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->list[i].verdict == VERDICT_BAD)
			return true;
	}
	return false;
}

static void
print_for_programs(const struct findings *f, enum ctl_format format)
{
	auto_buf struct buf out;
	struct tree *t auto_tree = NULL;

	buf_init(&out, BUF_UNLIMITED);
	buf_adds(&out, "[");
	for (size_t i = 0; i < f->n; i++) {
		buf_printf(&out,
			"%s{\"check\":\"%s\",\"verdict\":\"%s\",\"found\":", i > 0 ? "," : "",
			f->list[i].check, verdicts[f->list[i].verdict]);
		json_add_text(&out, f->list[i].found);
		buf_adds(&out, ",\"remedy\":");
		json_add_text(&out, f->list[i].remedy != NULL ? f->list[i].remedy : "");
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
	static const enum ink inks[] = {
		[VERDICT_OK] = INK_GOOD, [VERDICT_NOTE] = INK_NOTE, [VERDICT_BAD] = INK_BAD};

	if (format != CTL_TABLE) {
		print_for_programs(f, format);
		return;
	}
	for (size_t i = 0; i < f->n; i++) {
		printf("%s%-*s%s%-*s%s\n", screen_ink(inks[f->list[i].verdict]), VERDICT_WIDTH,
			verdicts[f->list[i].verdict], screen_ink(INK_PLAIN), CHECK_WIDTH,
			f->list[i].check, f->list[i].found);
		if (f->list[i].remedy != NULL)
			printf("%*s-> %s\n", VERDICT_WIDTH + CHECK_WIDTH, "", f->list[i].remedy);
	}
}
