#include "src/ctl/ctl_tap.h"

#include <stdio.h>
#include <unistd.h>

#include "model/json.h"
#include "src/ctl/ctl_ask.h"
#include "src/ctl/ctl_screen.h"

enum { TAP_ANSWER_MOST = 8 << 20, TAP_PAUSE_MS = 500 };

struct tap_view {
	uint64_t next, skipped; /* as counted by the agent */
	enum ctl_format format;
	bool headed;
};

/* --- output --------------------------------------------------------------------------------- */

static void
tap_print_row(const struct tree_node *r)
{
	const char *when = ctl_text(r, "time"), *request = ctl_text(r, "request");
	const char *end = ctl_text(r, "end");
	bool open = ctl_text(r, "state")[0] == 'o', bad;
	int status = (int)ctl_number(r, "status");

	bad = status >= 500 || (end[0] != '-' && end[0] != '\0');
	/* Only the time is shown: it begins after the T. */
	printf("%.12s  %-21s  %-24s  ", strlen(when) > 11 ? when + 11 : when, ctl_text(r, "client"),
		ctl_text(r, "service"));
	printf("%-21s  %s", ctl_text(r, "endpoint")[0] != '\0' ? ctl_text(r, "endpoint") : "-",
		screen_ink(bad ? INK_BAD : INK_PLAIN));
	if (request[0] != '\0')
		printf("%3d", status);
	else
		printf("%s", open ? "open" : "done");
	printf("%s  %s  ", screen_ink(INK_PLAIN), end);
	if (ctl_text(r, "total_ms")[0] != '\0' && !open)
		printf("%8.1f ms  ", ctl_number(r, "total_ms"));
	else
		printf("%11s  ", "");
	printf("%s\n", request[0] != '\0' ? request : open ? "connection" : "connection ended");
}

/* Members are texts and numbers; one line each, so that a program can read the stream. */
static void
tap_print_json(const struct tree_node *r)
{
	auto_buf struct buf out;
	const char *comma = "";

	buf_init(&out, BUF_UNLIMITED);
	tree_each(r, member) {
		buf_adds(&out, comma);
		json_add_text(&out, member->key);
		buf_adds(&out, ":");
		if (member->quoted)
			json_add_text(&out, tree_text(member, ""));
		else
			buf_adds(&out, tree_text(member, "null"));
		comma = ",";
	}
	printf("{%s}\n", buf_str(&out));
}

static void
tap_print_head(struct tap_view *v)
{
	if (v->headed || v->format != CTL_TABLE)
		return;
	v->headed = true;
	printf("%-12s  %-21s  %-24s  %-21s  %s\n", "TIME", "CLIENT", "SERVICE", "ENDPOINT",
		"STATUS, WHO ENDED IT, TIME, REQUEST");
}

/* Reports dropped records, so that nobody takes a sample for the whole. */
static void
tap_print_lost(struct tap_view *v, const struct tree_node *answer)
{
	uint64_t skipped = (uint64_t)ctl_number(answer, "skipped");
	uint64_t lost = (uint64_t)ctl_number(answer, "missed") + skipped - MIN(v->skipped, skipped);

	v->skipped = skipped;
	if (lost > 0 && v->format == CTL_TABLE)
		printf("... %llu more are not shown\n", (unsigned long long)lost);
	else if (lost > 0)
		printf("{\"not_shown\":%llu}\n", (unsigned long long)lost);
}

static void
tap_print(struct tap_view *v, const struct tree_node *answer)
{
	tree_each(tree_get(answer, "requests"), r) {
		if (v->format == CTL_TABLE)
			tap_print_row(r);
		else
			tap_print_json(r);
	}
	tap_print_lost(v, answer);
	v->next = (uint64_t)ctl_number(answer, "next");
}

/* --- asking --------------------------------------------------------------------------------- */

static int
tap_look(struct tap_view *v, const char *socket, const char *service)
{
	auto_buf struct buf target, answer;
	struct tree *t auto_tree = NULL;
	struct err err = {0};

	buf_init(&target, BUF_UNLIMITED);
	buf_init(&answer, TAP_ANSWER_MOST);
	buf_printf(&target, "/debug/tap?id=tap-%d&after=%llu&service=", (int)getpid(),
		(unsigned long long)v->next);
	for (; service != NULL && *service != '\0'; service++)
		buf_printf(&target, "%%%02X", (unsigned char)*service);
	if (ctl_ask(socket, "GET", buf_str(&target), &answer, &err) < 0) {
		fprintf(stderr, "edgewayctl: %s\n", err.text);
		return 1;
	}
	if ((t = ctl_parse(&answer)) == NULL)
		return 1;
	if (v->format == CTL_TABLE)
		ctl_flatten(tree_document(t, 0));
	tap_print_head(v);
	tap_print(v, tree_document(t, 0));
	return 0;
}

int
ctl_tap(const char *socket, const char *service, enum ctl_format format)
{
	struct tap_view v = {.format = format};
	int rc;

	while ((rc = tap_look(&v, socket, service)) == 0) {
		if (fflush(stdout) != 0)
			return 1; /* the reader is gone */
		usleep(TAP_PAUSE_MS * 1000);
	}
	return rc;
}
