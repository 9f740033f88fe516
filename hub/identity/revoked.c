#include "hub/identity/revoked.h"

#include <errno.h>
#include <string.h>

#include "model/json.h"

struct revoked_node {
	struct record record; /* key: the node's name */
	struct revoked_since {
		int64_t at_s;
		char good[REVOKED_GOOD_MAX][PKI_SERIAL_TEXT]; /* oldest first */
		unsigned n_good;
		/* since the revocation, including those that are no longer in `good`: tells which
		 * list is newer */
		int64_t n_signed;
	} since;
};

static struct revoked_node *
revoked_find(const struct registry *r, const char *node)
{
	return records_find(registry_list(r, REGISTRY_REVOKED), node);
}

static bool
is_serial(const char *text)
{
	return text[0] != '\0' && strlen(text) < PKI_SERIAL_TEXT &&
		strspn(text, "0123456789abcdef") == strlen(text);
}

static bool
add_good(struct revoked_since *n, const char *serial)
{
	if (!is_serial(serial))
		return false;
	if (n->n_good == REVOKED_GOOD_MAX)
		memmove(n->good[0], n->good[1], sizeof n->good[0] * --n->n_good);
	strcpy(n->good[n->n_good++], serial);
	n->n_signed++;
	return true;
}

static bool
is_good(const struct revoked_since *n, const char *serial)
{
	for (unsigned i = 0; i < n->n_good; i++) {
		if (strcmp(n->good[i], serial) == 0)
			return true;
	}
	return false;
}

/* --- hubs ----------------------------------------------------------------------------------- */

const struct records *
revoked_hubs(const struct registry *r)
{
	return registry_list(r, REGISTRY_HUBS);
}

bool
revoked_refuses_hub(const struct registry *r, const char *serial)
{
	return records_find(revoked_hubs(r), serial) != NULL;
}

static bool
revoked_hubs_are_full(const struct records *hubs, const void *record, int64_t now_s)
{
	(void)record, (void)now_s;
	return hubs->n == REVOKED_HUBS_MAX;
}

/* Expired certificates are refused anyway. */
static bool
revoked_hub_has_ended(const struct records *hubs, const void *record, int64_t now_s)
{
	(void)hubs;
	return ((const struct revoked_hub *)record)->until_s <= now_s;
}

static int
revoked_read_hub(struct records *to, const struct tree_node *map, const char *name, struct err *err)
{
	const char *serial = tree_text(tree_get(map, "serial"), "");
	struct revoked_hub *hub;
	int64_t at_s, until_s;

	if (!is_serial(serial) || tree_int(tree_get(map, "at"), 0, INT64_MAX, &at_s) < 0 ||
		tree_int(tree_get(map, "until"), 0, INT64_MAX, &until_s) < 0)
		return err_set(err, EINVAL, "%s:%u: a hub's entry needs serial, at and until", name,
			map->line);
	if (records_find(to, serial) != NULL || to->n == REVOKED_HUBS_MAX)
		return 0;
	hub = records_use(to, serial);
	hub->at_s = at_s;
	hub->until_s = until_s;
	return 0;
}

static void
revoked_hub_text(const void *record, struct buf *out)
{
	const struct revoked_hub *hub = record;

	buf_printf(out, "{\"serial\":\"%s\",\"at\":%lld,\"until\":%lld}", hub->record.key,
		(long long)hub->at_s, (long long)hub->until_s);
}

const struct record_kind revoked_hub_kind = {
	.member = "hubs",
	.size = sizeof(struct revoked_hub),
	.read = revoked_read_hub,
	.text = revoked_hub_text,
	.skips = revoked_hubs_are_full,
};

int
revoked_add_hub(
	struct registry *r, const char *serial, int64_t until_s, int64_t now_s, struct err *err)
{
	struct records *hubs = registry_list(r, REGISTRY_HUBS);
	struct revoked_hub *hub;

	if (!is_serial(serial))
		return err_set(err, EINVAL,
			"\"%.80s\" is not the serial number of a certificate: hex digits in lower "
			"case, as `edgewayctl hub list` shows them",
			serial);
	records_drop(hubs, revoked_hub_has_ended, now_s);
	if (!revoked_refuses_hub(r, serial)) {
		if (hubs->n == REVOKED_HUBS_MAX)
			return err_set(err, ENOSPC,
				"%d certificates of hubs are revoked, which is all that nodes "
				"remember: make a new CA (edgeway-hub(8), CERTIFICATES)",
				REVOKED_HUBS_MAX);
		hub = records_use(hubs, serial);
		hub->at_s = now_s;
		hub->until_s = until_s;
	}
	registry_keep(r, REGISTRY_REVOKED);
	return 0;
}

/* --- nodes ---------------------------------------------------------------------------------- */

static int
revoked_read_node(
	struct records *to, const struct tree_node *map, const char *name, struct err *err)
{
	const char *node = tree_text(tree_get(map, "node"), "");
	struct revoked_node *n;
	int64_t at_s;

	if (node[0] == '\0' || tree_int(tree_get(map, "at"), 0, INT64_MAX / 2, &at_s) < 0)
		return err_set(err, EINVAL, "%s:%u: an entry needs node and at", name, map->line);
	n = records_use(to, node);
	n->since.at_s = at_s;
	tree_each(tree_get(map, "good"), serial) {
		if (!add_good(&n->since, tree_text(serial, "")))
			return err_set(
				err, EINVAL, "%s:%u: not a serial number", name, serial->line);
	}
	tree_int(tree_get(map, "signed"), 0, INT64_MAX / 2, &n->since.n_signed);
	return 0;
}

static void
revoked_node_text(const void *record, struct buf *out)
{
	const struct revoked_node *n = record;

	buf_adds(out, "{\"node\":");
	json_add_text(out, n->record.key);
	buf_printf(out, ",\"at\":%lld,\"good\":[", (long long)n->since.at_s);
	for (unsigned k = 0; k < n->since.n_good; k++)
		buf_printf(out, "%s\"%s\"", k > 0 ? "," : "", n->since.good[k]);
	buf_printf(out, "],\"signed\":%lld}", (long long)n->since.n_signed);
}

/* Adds the entries of `from`, as far as there is room. */
static bool
revoked_unite(struct revoked_since *to, const struct revoked_since *from)
{
	int64_t n_signed = to->n_signed;
	bool any = false;

	for (unsigned k = 0; k < from->n_good && to->n_good < REVOKED_GOOD_MAX; k++) {
		if (!is_good(to, from->good[k]))
			any |= add_good(to, from->good[k]);
	}
	to->n_signed = n_signed;
	return any;
}

static bool
revoked_merge_node(struct records *to, void *record, const void *other)
{
	struct revoked_since *ours = &((struct revoked_node *)record)->since, before = *ours;
	const struct revoked_since *theirs = &((const struct revoked_node *)other)->since;

	(void)to;
	if (theirs->at_s < ours->at_s)
		return false;
	if (theirs->at_s == ours->at_s && theirs->n_signed <= ours->n_signed)
		return revoked_unite(ours, theirs);
	*ours = *theirs;
	if (theirs->at_s == before.at_s)
		revoked_unite(ours, &before);
	return true;
}

const struct record_kind revoked_kind = {
	.member = "revoked",
	.size = sizeof(struct revoked_node),
	.needed = true,
	.read = revoked_read_node,
	.text = revoked_node_text,
	.merge = revoked_merge_node,
};

void
revoked_add(struct registry *r, const char *node, int64_t now_s)
{
	struct revoked_node *n = records_use(registry_list(r, REGISTRY_REVOKED), node);

	/* the later revocation counts, whatever the clock says */
	n->since = (struct revoked_since){.at_s = MAX(now_s, n->since.at_s + 1)};
	records_touch(&n->record);
	registry_keep(r, REGISTRY_REVOKED);
}

int
revoked_sign(struct registry *r, const char *node, const char *serial, struct err *err)
{
	struct revoked_node *n = revoked_find(r, node);
	struct revoked_since before;
	int rc;

	if (n == NULL || is_good(&n->since, serial))
		return 0;
	before = n->since;
	if (!add_good(&n->since, serial))
		return err_set(err, EINVAL, "not a serial number: \"%.50s\"", serial);
	records_touch(&n->record);
	rc = registry_save(r, REGISTRY_REVOKED, err);
	if (rc < 0)
		n->since = before;
	return rc;
}

bool
revoked_refuses(const struct registry *r, const char *node, const char *serial)
{
	const struct revoked_node *n = revoked_find(r, node);

	return n != NULL && !is_good(&n->since, serial);
}

void
revoked_write(const struct registry *r, struct buf *out)
{
	const struct records *nodes = registry_list(r, REGISTRY_REVOKED);

	buf_adds(out, "[");
	for (size_t i = 0; i < nodes->n; i++) {
		const struct revoked_node *n = nodes->all[i];

		buf_adds(out, i > 0 ? ",{\"node\":" : "{\"node\":");
		json_add_text(out, n->record.key);
		buf_adds(out, ",\"valid\":\"");
		for (unsigned k = 0; k < n->since.n_good; k++)
			buf_printf(out, "%s%s", k > 0 ? "," : "", n->since.good[k]);
		buf_adds(out, "\"}");
	}
	buf_adds(out, "]");
}
