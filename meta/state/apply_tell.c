#include "meta/state/apply_private.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "model/mesh.h"

static void
hold_resting(void *arg, const char *key, uint32_t ip, uint64_t freed_at_ms)
{
	struct item *it = xcalloc(1, sizeof(*it));

	it->kind = ITEM_REST;
	it->key = xstrdup(key);
	it->ip = ip;
	it->freed_ms = freed_at_ms;
	apply_add(arg, it);
}

/* The writer had to create a new file, in which the notes are: store names and addresses at once,
 * the hub sends the views again. */
static void
hold_addresses(struct apply *a)
{
	ipam_each_resting(a->ipam, hold_resting, a);
	for (size_t i = 0; i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);
		struct item *it = xcalloc(1, sizeof(*it));

		it->kind = ITEM_HOLD;
		it->key = xasprintf("%s/%s", s->namespace, s->name);
		it->ip = s->fake_ip;
		apply_add(a, it);
	}
}

void
apply_lost(void *arg)
{
	struct apply *a = arg;

	a->lost = true;
	a->synced = a->lost_told = false; /* it answers what was told before */
	hold_addresses(a);
	a->config.resync(a->config.arg);
}

void
apply_digests(const struct apply *a, struct digests *d)
{
	char key[MESH_NAME_MAX + MESH_SERVICE_MAX + 2];

	memset(d, 0, sizeof(*d));
	for (size_t i = 0; i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);
		int len = snprintf(key, sizeof(key), "%s/%s", s->namespace, s->name);

		assert(len > 0 && (size_t)len < sizeof(key));
		digest_toggle(d, key, (size_t)len, a->lost ? 0 : s->digest);
	}
}

void
apply_entries(
	struct apply *a, const bool of[DIGEST_BUCKETS], struct digest_entry **entries, size_t *n)
{
	a->lost_told |= a->lost;
	*entries = NULL;
	*n = 0;
	for (size_t i = 0; i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);
		auto_free char *key = xasprintf("%s/%s", s->namespace, s->name);

		if (!of[digest_bucket(key, strlen(key))])
			continue;
		if ((*n & (*n - 1)) == 0)
			*entries = xrealloc(*entries, MAX(*n * 2, 1u) * sizeof(**entries));
		(*entries)[(*n)++] = (struct digest_entry){
			.key = take_ptr(&key), .digest = a->lost ? 0 : s->digest};
	}
}

static bool
is_without_address(const struct service *s)
{
	return s->fake_ip == 0;
}

static bool
has_refused(const struct service *s)
{
	for (unsigned p = 0; p < s->n_ports; p++)
		if (s->ports[p].n_refused > 0)
			return true;
	return false;
}

/* Appends at most APPLY_UNSERVED_MAX keys; returns how many there are. */
static size_t
add_keys(const struct apply *a, bool (*wanted)(const struct service *s), struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < snapshot_count(a->snapshot); i++) {
		const struct service *s = snapshot_at(a->snapshot, i);

		if (wanted(s) && n++ < APPLY_UNSERVED_MAX)
			buf_printf(out, "%s\"%s/%s\"", n > 1 ? "," : "", s->namespace, s->name);
	}
	return n;
}

size_t
apply_unserved(const struct apply *a, struct buf *out)
{
	size_t n, refused;

	buf_adds(out, "{\"services\":[");
	n = a->counts.exhausted > 0 ? add_keys(a, is_without_address, out) : 0;
	buf_printf(out, "],\"more\":%zu,\"refused\":[", n - MIN(n, (size_t)APPLY_UNSERVED_MAX));
	refused = snapshot_refused(a->snapshot) > 0 ? add_keys(a, has_refused, out) : 0;
	buf_printf(out, "],\"ports\":[%s]}", a->ports != NULL ? a->ports : "");
	return n + refused + (a->ports != NULL && *a->ports != '\0');
}

void
apply_note_ports(struct apply *a, const char *ports)
{
	free(a->ports);
	a->ports = xstrdup(ports);
}

struct apply_counts
apply_count(const struct apply *a)
{
	struct apply_counts counts = a->counts;

	counts.waiting = a->n_waiting;
	counts.without_address = snapshot_counts(a->snapshot)->without_address;
	counts.ipam = ipam_count(a->ipam);
	return counts;
}
