#include "hub/identity/joins.h"

#include <errno.h>
#include <string.h>

#include "hub/port/route.h"

struct join_record {
	struct record record; /* key: join_key */
	struct joins_entry entry;
};

static char *
join_key(const struct joins_entry *e)
{
	return xasprintf("%s/%s/%s", e->token, e->key, e->node);
}

static struct join_record *
join_find(const struct registry *r, const struct joins_entry *e)
{
	auto_free char *key = join_key(e);

	return records_find(registry_list(r, REGISTRY_JOINS), key);
}

static bool
join_enter(struct records *to, const struct joins_entry *e)
{
	auto_free char *key = join_key(e);
	struct join_record *j = records_find(to, key);

	if (j != NULL)
		return false;
	j = records_use(to, key);
	j->entry = *e;
	return true;
}

static bool
join_has_ended(const struct records *list, const void *record, int64_t now_s)
{
	(void)list;
	return ((const struct join_record *)record)->entry.until_s <= now_s;
}

static void
join_text(const void *record, struct buf *out)
{
	const struct joins_entry *e = &((const struct join_record *)record)->entry;

	buf_printf(out, "{\"token\":\"%s\",\"node\":\"%s\",\"key\":\"%s\",\"until\":%lld}",
		e->token, e->node, e->key, (long long)e->until_s);
}

static bool
join_copy_hex(char *to, size_t size, const struct tree_node *from)
{
	const char *text = tree_text(from, "");

	if (strlen(text) != size - 1 || strspn(text, "0123456789abcdef") != size - 1)
		return false;
	memcpy(to, text, size);
	return true;
}

static int
join_read(struct records *to, const struct tree_node *map, const char *name, struct err *err)
{
	const char *node = tree_text(tree_get(map, "node"), "");
	struct joins_entry e = {0};

	if (!join_copy_hex(e.token, sizeof e.token, tree_get(map, "token")) ||
		!join_copy_hex(e.key, sizeof e.key, tree_get(map, "key")) || !node_name_ok(node) ||
		strlen(node) >= sizeof e.node ||
		tree_int(tree_get(map, "until"), 0, INT64_MAX, &e.until_s) < 0)
		return err_set(err, EINVAL,
			"%s:%u: a join needs token, node, key and until; move the file away to "
			"forget which tokens are used up, and revoke those",
			name, map->line);
	strcpy(e.node, node);
	join_enter(to, &e);
	return 0;
}

const struct record_kind joins_kind = {
	.member = "joins",
	.size = sizeof(struct join_record),
	.grouped = true,
	.read = join_read,
	.text = join_text,
	.skips = join_has_ended,
};

bool
joins_has(const struct registry *r, const struct joins_entry *e)
{
	return join_find(r, e) != NULL;
}

size_t
joins_count(const struct registry *r, const char *token)
{
	return records_count(registry_list(r, REGISTRY_JOINS), token);
}

char *
joins_line(const struct joins_entry *e)
{
	const struct join_record j = {.entry = *e};
	struct buf line;

	buf_init(&line, BUF_UNLIMITED);
	buf_adds(&line, "\n,");
	join_text(&j, &line);
	return buf_take_str(&line);
}

bool
joins_enter(struct registry *r, const struct joins_entry *e)
{
	return join_enter(registry_list(r, REGISTRY_JOINS), e);
}

void
joins_claim(struct registry *r, const struct joins_entry *e, bool pending)
{
	struct join_record *j = join_find(r, e);

	if (j != NULL)
		records_claim(&j->record, pending);
}

void
joins_withdraw(struct registry *r, const struct joins_entry *e)
{
	struct join_record *j = join_find(r, e);

	if (j != NULL)
		records_remove(registry_list(r, REGISTRY_JOINS), j);
}

bool
joins_drop_ended(struct registry *r, int64_t now_s)
{
	struct records *list = registry_list(r, REGISTRY_JOINS);
	size_t before = list->n;

	records_drop(list, join_has_ended, now_s);
	return list->n < before;
}
