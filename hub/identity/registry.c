#include "hub/identity/registry.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "hub/identity/joins.h"
#include "hub/identity/list_file.h"
#include "hub/identity/revoked.h"
#include "hub/identity/tokens.h"

enum { REGISTRY_FILE_MAX = 64 * 1024 * 1024 };

static const struct registry_row {
	const struct record_kind *kind;
	const char *file; /* under dataDir; NULL: in that of the row before */
	const char *journal; /* its lines count as well; NULL: there is none */
	const char *shared; /* the Secret's text, for errors */
	const char *lost; /* what to do about a file that cannot be read */
} rows[REGISTRY_LISTS] = {
	[REGISTRY_REVOKED] = {&revoked_kind, "revoked.json", NULL, "revoked.json",
		"it cannot be told which nodes are revoked: bring back a copy of the file, or move "
		"it away and revoke them again"},
	[REGISTRY_HUBS] = {&revoked_hub_kind, NULL, NULL, NULL, NULL},
	[REGISTRY_JOINS] = {&joins_kind, "joins.json", JOINS_JOURNAL, "nodes.json",
		"it cannot be told which tokens are used up: bring back a copy of the file, or "
		"move it away and revoke tokens that are not needed (edgewayctl token list)"},
	[REGISTRY_TOKENS] = {&tokens_kind, "tokens.json", NULL, "tokens.json",
		"the join tokens cannot be read: bring back a copy of the file, or move it away "
		"and make new ones (edgewayctl token create)"},
};

struct registry {
	struct list_file files[REGISTRY_LISTS]; /* path NULL: none of its own */
	char *journals[REGISTRY_LISTS]; /* paths, NULL: none */
	bool later[REGISTRY_LISTS]; /* registry_keep_later */
	bool held; /* registry_hold */
	struct records *lists;
};

#define registry_each_of(file, i)                                                                  \
	for (int i = (file); i < REGISTRY_LISTS && (i == (int)(file) || rows[i].file == NULL); i++)

static struct records *
registry_lists_new(void)
{
	struct records *lists = xcalloc(REGISTRY_LISTS, sizeof *lists);

	for (int i = 0; i < REGISTRY_LISTS; i++)
		lists[i].kind = rows[i].kind;
	return lists;
}

static void
registry_lists_free(struct records *lists)
{
	for (int i = 0; i < REGISTRY_LISTS; i++)
		records_fini(&lists[i]);
	free(lists);
}

struct records *
registry_list(const struct registry *r, enum registry_list which)
{
	return &r->lists[which];
}

static int
registry_read(struct records *lists, enum registry_list file, const char *name, const char *text,
	size_t len, struct err *err)
{
	struct tree *tree = NULL;
	int rc = tree_parse(&tree, name, text, len, err);

	registry_each_of(file, i)
	{
		if (rc == 0)
			rc = records_read(&lists[i], tree_document(tree, 0), name, err);
	}
	tree_free(&tree);
	return rc;
}

/* A document of the journal's lines, each of which begins with a comma. One without its end was
 * being written when a hub ended or the disk was full: nobody has had an answer. */
static char *
registry_journal_text(const char *member, char *lines)
{
	const char *comma = "", *line;
	struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	buf_printf(&text, "{\"%s\":[", member);
	while ((line = strsep(&lines, "\n")) != NULL) {
		size_t len = strlen(line);

		if (len > 0 && (line[0] != ',' || line[len - 1] == '}')) {
			buf_adds(&text, comma);
			buf_adds(&text, line + (line[0] == ','));
			comma = ",";
		}
		buf_adds(&text, "\n");
	}
	buf_adds(&text, "]}");
	return buf_take_str(&text);
}

static int
registry_read_file(struct registry *r, enum registry_list file, const char *path, bool is_journal,
	struct err *err)
{
	auto_free char *text = NULL, *lines = NULL;
	size_t len;
	int rc = file_read(path, REGISTRY_FILE_MAX, &text, &len);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return err_set(err, rc, "cannot read %s: %s", path, strerror(-rc));
	if (is_journal) {
		lines = take_ptr(&text);
		text = registry_journal_text(rows[file].kind->member, lines);
	}
	return registry_read(r->lists, file, path, text, strlen(text), err);
}

static int
registry_load(struct registry *r, enum registry_list file, const char *dir, struct err *err)
{
	auto_free char *path = xasprintf("%s/%s", dir, rows[file].file);
	int rc = registry_read_file(r, file, path, false, err);

	list_file_init(&r->files[file], path);
	if (rc == 0 && rows[file].journal != NULL) {
		r->journals[file] = xasprintf("%s/%s", dir, rows[file].journal);
		rc = registry_read_file(r, file, r->journals[file], true, err);
	}
	return rc < 0 ? err_wrap(err, rc, "%s", rows[file].lost) : 0;
}

static void
registry_free(struct registry **out)
{
	struct registry *r = take_ptr(out);

	for (int i = 0; i < REGISTRY_LISTS; i++) {
		list_file_fini(&r->files[i]);
		free(r->journals[i]);
	}
	registry_lists_free(r->lists);
	free(r);
}

/* So that the files are whole for a hub of before, and the journals do not grow. */
static void
registry_make_whole(struct registry *r)
{
	for (int i = 0; i < REGISTRY_LISTS; i++)
		if (r->later[i] || (r->journals[i] != NULL && access(r->journals[i], F_OK) == 0))
			registry_keep(r, i);
}

int
registry_open(struct registry **out, const char *dir, struct err *err)
{
	struct registry *r = xcalloc(1, sizeof *r);
	int rc = 0;

	r->lists = registry_lists_new();
	for (int i = 0; i < REGISTRY_LISTS && rc == 0; i++) {
		if (rows[i].file != NULL)
			rc = registry_load(r, i, dir, err);
	}
	if (rc < 0)
		registry_free(&r);
	else
		registry_make_whole(r);
	*out = r;
	return rc;
}

void
registry_close(struct registry **r)
{
	if (*r == NULL)
		return;
	registry_make_whole(*r);
	registry_free(r);
}

/* --- the files ------------------------------------------------------------------------------ */

void
registry_text(const struct registry *r, enum registry_list file, bool first, struct buf *out)
{
	registry_each_of(file, i)
	{
		buf_adds(out, i == (int)file ? "{" : ",");
		records_text(&r->lists[i], first, out);
	}
	buf_adds(out, "}\n");
}

/* The file has what its journal had. */
static void
registry_end_journal(const struct registry *r, enum registry_list file)
{
	if (r->journals[file] != NULL && r->files[file].problem[0] == '\0')
		unlink(r->journals[file]);
}

int
registry_save(struct registry *r, enum registry_list file, struct err *err)
{
	auto_buf struct buf b;
	int rc;

	buf_init(&b, BUF_UNLIMITED);
	registry_text(r, file, false, &b);
	rc = list_file_write(&r->files[file], &b, err);
	if (rc == 0)
		registry_end_journal(r, file);
	return rc;
}

void
registry_keep(struct registry *r, enum registry_list file)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	if (r->held && r->journals[file] != NULL) {
		r->later[file] = true;
		return;
	}
	registry_text(r, file, false, &b);
	list_file_keep(&r->files[file], &b);
	registry_end_journal(r, file);
	r->later[file] = false;
}

void
registry_keep_later(struct registry *r, enum registry_list file)
{
	r->later[file] = true;
}

void
registry_hold(struct registry *r, bool held)
{
	r->held = held;
}

void
registry_retry(struct registry *r)
{
	for (int i = 0; i < REGISTRY_LISTS; i++)
		if (r->files[i].problem[0] != '\0' || r->later[i])
			registry_keep(r, i);
}

const char *
registry_problem(const struct registry *r)
{
	int i = 0;

	while (i < REGISTRY_LISTS - 1 && r->files[i].problem[0] == '\0')
		i++;
	return r->files[i].problem;
}

/* --- replicas ------------------------------------------------------------------------------- */

int
registry_merge(struct registry *r, enum registry_list file, const char *text, int64_t now_s,
	struct registry_heard *heard, struct err *err)
{
	struct records *theirs = registry_lists_new();
	bool news = false;
	int rc = 0;

	if (text[0] != '\0')
		rc = registry_read(theirs, file, rows[file].shared, text, strlen(text), err);
	registry_each_of(file, i)
	{
		if (rc < 0)
			break;
		news |= records_unite(&r->lists[i], &theirs[i], now_s);
		heard->lacks |= records_first_lacks(&theirs[i], &r->lists[i], now_s);
	}
	if (news && file == REGISTRY_JOINS)
		registry_keep_later(r, file); /* at the rate at which nodes join elsewhere */
	else if (news)
		registry_keep(r, file);
	heard->news |= news;
	registry_lists_free(theirs);
	return rc;
}
