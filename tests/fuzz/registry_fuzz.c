/*
 * What replicas and earlier runs of a hub have written, in Secrets and files: the lists of revoked
 * nodes and hubs, of joins and of tokens, and the names with their archives. The first byte says
 * which text it is. What is read is written so that another hub reads the same, after which neither
 * has news for the other; and the names that were read can still be signed and forgotten.
 */
#include <assert.h>
#include <string.h>

#include "base/core/gzip.h"
#include "hub/identity/joins.h"
#include "hub/identity/name_archive.h"
#include "hub/identity/revoked.h"
#include "hub/identity/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { NOW_S = 1000, LISTS = 4 };

struct hub {
	struct records lists[LISTS];
	struct name_archive *names;
};

static const struct record_kind *const kinds[LISTS] = {
	&joins_kind, &revoked_kind, &revoked_hub_kind, &tokens_kind};

static void
hub_open(struct hub *h)
{
	*h = (struct hub){.names = name_archive_new()};
	for (int i = 0; i < LISTS; i++)
		h->lists[i].kind = kinds[i];
	name_archive_use_lists(h->names, &h->lists[0], &h->lists[1]);
}

static void
hub_close(struct hub *h)
{
	name_archive_free(&h->names);
	for (int i = 0; i < LISTS; i++)
		records_fini(&h->lists[i]);
}

/* --- one list ------------------------------------------------------------------------------- */

/* Reads the document as another hub's list, and unites it with the i-th one. */
static bool
list_merge(struct hub *h, int i, const char *text, struct registry_heard *heard)
{
	struct records theirs = {.kind = kinds[i]};
	struct tree *tree = NULL;
	struct err err = {0};
	bool read = tree_parse(&tree, "list", text, strlen(text), &err) == 0 &&
		records_read(&theirs, tree_document(tree, 0), "list", &err) == 0;

	assert(read || err.text[0] != '\0');
	if (read) {
		heard->news = records_unite(&h->lists[i], &theirs, NOW_S);
		heard->lacks = records_first_lacks(&theirs, &h->lists[i], NOW_S);
	}
	records_fini(&theirs);
	tree_free(&tree);
	return read;
}

static void
list_text(const struct hub *h, int i, struct buf *out)
{
	buf_init(out, BUF_UNLIMITED);
	buf_adds(out, "{");
	records_text(&h->lists[i], false, out);
	buf_adds(out, "}\n");
}

static void
check_list(struct hub *a, struct hub *b, int i, const char *text)
{
	struct registry_heard heard;
	auto_buf struct buf one = {0}, two = {0};

	if (!list_merge(a, i, text, &heard))
		return;
	list_text(a, i, &one);
	assert(list_merge(b, i, buf_str(&one), &heard));
	list_text(b, i, &two);
	assert(strcmp(buf_str(&one), buf_str(&two)) == 0);
	assert(list_merge(a, i, buf_str(&two), &heard) && !heard.news && !heard.lacks);
}

/* --- names and archives --------------------------------------------------------------------- */

static void
names_text(const struct hub *h, struct buf *out)
{
	buf_adds(out, "{");
	name_archive_text(h->names, out);
	buf_adds(out, "}");
}

static void
check_names(struct hub *a, struct hub *b, const char *text)
{
	struct registry_heard heard = {0};
	struct name_archive_entry entry = {.serial = "abc", .signed_s = NOW_S};
	auto_buf struct buf one, two;
	const char *node;
	size_t at = 0;

	buf_init(&one, BUF_UNLIMITED);
	buf_init(&two, BUF_UNLIMITED);
	if (name_archive_merge(a->names, text, &heard, NULL) < 0)
		return;
	names_text(a, &one);
	assert(name_archive_merge(b->names, buf_str(&one), &heard, NULL) == 0);
	names_text(b, &two);
	heard = (struct registry_heard){0};
	assert(name_archive_merge(a->names, buf_str(&two), &heard, NULL) == 0);
	assert(!heard.news && !heard.lacks);
	node = name_archive_walk(a->names, &at);
	if (node == NULL)
		return;
	name_archive_sign(a->names, node, &entry);
	assert(strcmp(name_archive_find(a->names, node)->serial, "abc") == 0);
	name_archive_forget(a->names, node, NOW_S);
	assert(name_archive_find(a->names, node) == NULL);
}

static void
check_archive(struct hub *a, struct hub *b, unsigned i, const char *text)
{
	struct registry_heard heard = {0};
	auto_buf struct buf one;

	buf_init(&one, BUF_UNLIMITED);
	if (name_archive_merge_archive(a->names, i, text, &heard, NULL) < 0)
		return;
	name_archive_archive_text(a->names, i, &one);
	assert(name_archive_merge_archive(b->names, i, buf_str(&one), &heard, NULL) == 0);
	heard = (struct registry_heard){0};
	assert(name_archive_merge_archive(a->names, i, buf_str(&one), &heard, NULL) == 0);
	assert(!heard.news && !heard.lacks);
}

static void
check_lists(struct hub *a, struct hub *b, unsigned i, const char *text)
{
	struct registry_heard heard = {0};
	auto_buf struct buf packed, one;

	buf_init(&packed, BUF_UNLIMITED);
	buf_init(&one, BUF_UNLIMITED);
	gzip_text(&packed, text, strlen(text));
	if (name_archive_merge_lists(a->names, i, buf_str(&packed), NOW_S, &heard, NULL) < 0)
		return;
	name_archive_lists_text(a->names, i, &one);
	assert(name_archive_merge_lists(b->names, i, buf_str(&one), NOW_S, &heard, NULL) == 0);
	heard = (struct registry_heard){0};
	assert(name_archive_merge_lists(a->names, i, buf_str(&one), NOW_S, &heard, NULL) == 0);
	assert(!heard.news && !heard.lacks);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	auto_free char *text = NULL;
	unsigned archive;
	struct hub a, b;
	int which;

	if (len == 0 || len > 64 * 1024)
		return 0;
	text = xstrndup((const char *)data + 1, len - 1);
	which = data[0] % (LISTS + 3);
	archive = data[0] / (LISTS + 3) % NAME_ARCHIVE_ARCHIVES;
	hub_open(&a);
	hub_open(&b);
	if (which < LISTS)
		check_list(&a, &b, which, text);
	else if (which == LISTS)
		check_names(&a, &b, text);
	else if (which == LISTS + 1)
		check_archive(&a, &b, archive, text);
	else
		check_lists(&a, &b, archive, text);
	hub_close(&b);
	hub_close(&a);
	return 0;
}
