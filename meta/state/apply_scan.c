#include "meta/state/apply_private.h"

#include <string.h>

#include "base/core/log.h"
#include "meta/state/load.h"

enum { SCAN_ROWS = 256 };

static void scan_next(struct apply *a, const char *after);

static const struct service *
scan_find(const struct apply *a, const char *key)
{
	const char *slash = strchr(key, '/');

	return snapshot_find(a->snapshot, key, (size_t)(slash - key), slash + 1, strlen(slash + 1));
}

/* Its row may be older than what is in use, or than a change before it in the same batch. */
bool
apply_wants_address(const struct apply *a, const struct run *run, const struct item *it)
{
	const struct service *s = scan_find(a, it->key);

	if (s == NULL || s->fake_ip != 0 || s->digest != it->digest)
		return false;
	for (const struct item *other = run->items; other != it; other = other->next) {
		if ((other->kind == ITEM_UPDATE || other->kind == ITEM_DELETE) &&
			strcmp(other->key, it->key) == 0)
			return false;
	}
	return true;
}

static void
scan_ask_address(struct apply *a, const struct store_row *row, struct view *view)
{
	struct item *it = xcalloc(1, sizeof(*it));

	it->kind = ITEM_ADDRESS;
	it->key = xstrdup(row->key);
	it->digest = row->digest;
	it->view = view;
	apply_add(a, it);
}

static bool
scan_row(struct apply *a, const struct store_row *row, struct change *c)
{
	uint32_t ip = ipam_find(a->ipam, row->key);
	struct self self = self_of(a);
	const struct service *s;
	struct view *view;

	if ((ip != 0 && !a->scan_all) || load_row(row, &view) < 0)
		return false;
	s = ip == 0 ? scan_find(a, row->key) : NULL;
	if (ip == 0 && (s == NULL || s->fake_ip != 0)) { /* it is being deleted */
		view_free(&view);
		return false;
	}
	if (a->scan_all) {
		c->service = service_build(view, &self, ip, row->digest);
		apply_tell_refused(c->service);
		c->ns = c->service->namespace;
		c->name = c->service->name;
	}
	if (ip == 0)
		scan_ask_address(a, row, view);
	else
		view_free(&view);
	return a->scan_all;
}

static void
on_scanned(void *arg, int status, const struct store_row *rows, size_t n)
{
	struct apply *a = arg;
	struct change *changes;
	size_t found = 0;

	if (apply_behind(a)) { /* rows are older than what is in use */
		a->scan_later = true;
		a->scanning = a->scan_again = false;
		return;
	}
	changes = xcalloc(n + 1, sizeof(*changes));
	for (size_t i = 0; status == 0 && i < n; i++)
		found += scan_row(a, &rows[i], &changes[found]);
	if (found > 0)
		apply_adopt(a, snapshot_next(a->snapshot, changes, found));
	free(changes);
	a->scanning = false;
	if (status < 0)
		log_error("meta",
			"cannot read the services again; endpoints keep the addresses of before");
	else if (n == SCAN_ROWS && !a->scan_again)
		scan_next(a, rows[n - 1].key);
	else if (a->scan_again)
		scan_next(a, "");
}

static void
scan_next(struct apply *a, const char *after)
{
	a->scanning = true;
	a->scan_again = false;
	writer_scan(a->writer, after, SCAN_ROWS, on_scanned, a);
}

void
apply_scan(struct apply *a, bool all)
{
	if (apply_behind(a)) {
		a->scan_later |= all;
		return;
	}
	if (!a->scanning)
		a->scan_all = all;
	a->scan_all |= all;
	if (a->scanning)
		a->scan_again |= all;
	else
		scan_next(a, "");
}

void
apply_retry_addresses(void *arg)
{
	struct apply *a = arg;

	if (snapshot_counts(a->snapshot)->without_address > 0)
		apply_scan(a, false);
}
