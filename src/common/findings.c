#include "src/common/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf/tree.h"
#include "base/core/log.h"
#include "model/json.h"

enum { FOUND_MOST = 640, LINES_PER_MINUTE = 12 };

static const enum finding_class classes[] = {[VERDICT_INFO] = FINDING_INFO,
	[VERDICT_NOTE] = FINDING_WARNING,
	[VERDICT_BAD] = FINDING_FAULT};

void
findings_fini(struct findings *f)
{
	for (size_t i = 0; i < f->n; i++) {
		free(f->list[i].found);
		free(f->list[i].own);
	}
	free(f->list);
	*f = (struct findings){0};
}

static void
finding_append(struct findings *f, const struct finding *one)
{
	f->list = xrealloc(f->list, (f->n + 1) * sizeof *f->list);
	f->list[f->n++] = *one;
}

void
findings_add(struct findings *f, const char *check, enum verdict verdict, const char *remedy,
	const char *fmt, ...)
{
	char text[FOUND_MOST];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	finding_append(f,
		&(struct finding){.what = check,
			.check = check,
			.verdict = verdict,
			.found = xstrdup(text),
			.remedy = verdict == VERDICT_OK ? NULL : remedy});
}

void
findings_copy(struct findings *f, const struct finding *one)
{
	const char *remedy = one->remedy != NULL ? one->remedy : "";
	size_t what = strlen(one->what) + 1, check = strlen(one->check) + 1,
	       rest = strlen(remedy) + 1;
	char *own = xmalloc(what + check + rest);

	memcpy(own, one->what, what);
	memcpy(own + what, one->check, check);
	memcpy(own + what + check, remedy, rest);
	finding_append(f,
		&(struct finding){.what = own,
			.check = own + what,
			.verdict = one->verdict,
			.found = xstrdup(one->found),
			.remedy = own + what + check,
			.own = own});
}

void
findings_name(struct findings *f, const char *what)
{
	if (f->list[f->n - 1].verdict != VERDICT_OK)
		f->list[f->n - 1].what = what;
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

unsigned
findings_count(const struct findings *f, const char *what)
{
	unsigned n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->list[i].verdict != VERDICT_OK && strcmp(f->list[i].what, what) == 0;
	return n;
}

/* --- as JSON -------------------------------------------------------------------------------- */

const char *
finding_class_word(enum verdict v)
{
	return v == VERDICT_OK ? "ok" : finding_word(classes[v]);
}

static enum verdict
finding_verdict(const char *word)
{
	for (int v = VERDICT_INFO; v <= VERDICT_BAD; v++) {
		if (strcmp(word, finding_class_word((enum verdict)v)) == 0)
			return (enum verdict)v;
	}
	return VERDICT_OK;
}

void
findings_write(const struct findings *f, struct buf *out)
{
	buf_adds(out, "[");
	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->list[i];

		buf_printf(out, "%s{\"what\":\"%s\",\"check\":\"%s\",\"class\":\"%s\",\"found\":",
			i > 0 ? "," : "", one->what, one->check, finding_class_word(one->verdict));
		json_add_text(out, one->found);
		buf_adds(out, ",\"remedy\":");
		json_add_text(out, one->remedy != NULL ? one->remedy : "");
		buf_adds(out, "}");
	}
	buf_adds(out, "]");
}

void
findings_read(struct findings *f, const struct tree_node *list)
{
	tree_each(list, row)
		finding_append(f,
			&(struct finding){.what = tree_text(tree_get(row, "what"), ""),
				.check = tree_text(tree_get(row, "check"), ""),
				.verdict = finding_verdict(tree_text(tree_get(row, "class"), "")),
				.found = xstrdup(tree_text(tree_get(row, "found"), "")),
				.remedy = tree_text(tree_get(row, "remedy"), "")});
}

/* --- metrics and log ------------------------------------------------------------------------ */

static bool
finding_is_first(const struct findings *f, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (f->list[k].verdict == f->list[i].verdict &&
			strcmp(f->list[k].what, f->list[i].what) == 0)
			return false;
	}
	return true;
}

static unsigned
findings_alike(const struct findings *f, const struct finding *one)
{
	unsigned n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->list[i].verdict == one->verdict && strcmp(f->list[i].what, one->what) == 0;
	return n;
}

void
findings_metrics(const struct findings *f, struct metrics *m)
{
	unsigned of_class[FINDING_CLASSES] = {0};
	char labels[128];

	for (size_t i = 0; i < f->n; i++) {
		const struct finding *one = &f->list[i];

		if (one->verdict == VERDICT_OK)
			continue;
		of_class[classes[one->verdict]]++;
		if (!finding_is_first(f, i))
			continue;
		snprintf(labels, sizeof labels, "what=\"%s\",class=\"%s\"", one->what,
			finding_class_word(one->verdict));
		metric_gauge(m, "edgeway_problem",
			"What is wrong now, as status and doctor tell it: how many of it.", labels,
			findings_alike(f, one));
	}
	for (int i = 0; i < FINDING_CLASSES; i++) {
		snprintf(
			labels, sizeof labels, "class=\"%s\"", finding_word((enum finding_class)i));
		metric_gauge(m, "edgeway_problems", "How much is wrong now, by class.", labels,
			of_class[i]);
	}
}

void
findings_log(const struct findings *before, const struct findings *now, const char *part)
{
	for (size_t i = 0; i < now->n; i++) {
		const struct finding *one = &now->list[i];

		if (one->verdict >= VERDICT_NOTE && finding_is_first(now, i) &&
			findings_count(before, one->what) == 0)
			log_limited(one->verdict == VERDICT_BAD ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN,
				LINES_PER_MINUTE, part,
				"a problem has begun what=%s class=%s found=\"%s\" remedy=\"%s\"",
				one->what, finding_class_word(one->verdict), one->found,
				one->remedy);
	}
	for (size_t i = 0; i < before->n; i++) {
		const struct finding *one = &before->list[i];

		if (one->verdict >= VERDICT_NOTE && finding_is_first(before, i) &&
			findings_count(now, one->what) == 0)
			log_limited(LOG_LEVEL_INFO, LINES_PER_MINUTE, part,
				"a problem has ended what=%s class=%s", one->what,
				finding_class_word(one->verdict));
	}
}
