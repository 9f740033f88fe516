#include "model/pod_ranges.h"

#include <errno.h>
#include <string.h>

#include "base/core/sock.h"
#include "model/check.h"
#include "model/json.h"

void
pod_ranges_fini(struct pod_ranges *r)
{
	free(r->list);
	*r = (struct pod_ranges){0};
}

void
pod_ranges_add(struct pod_ranges *r, uint32_t first, uint32_t last)
{
	if ((r->n & (r->n - 1)) == 0) /* a power of two: full */
		r->list = xrealloc(r->list, MAX(2 * r->n, (size_t)1) * sizeof *r->list);
	r->list[r->n++] = (struct pod_range){first, last};
}

static int
pod_ranges_compare(const void *a, const void *b)
{
	const struct pod_range *x = a, *y = b;

	return x->first != y->first ? (x->first < y->first ? -1 : 1)
				    : (x->last > y->last) - (x->last < y->last);
}

void
pod_ranges_settle(struct pod_ranges *r)
{
	size_t n = 0;

	if (r->n > 1)
		qsort(r->list, r->n, sizeof *r->list, pod_ranges_compare);
	for (size_t i = 0; i < r->n; i++) {
		struct pod_range *last = n > 0 ? &r->list[n - 1] : NULL;

		if (last == NULL || (last->last != UINT32_MAX && r->list[i].first > last->last + 1))
			r->list[n++] = r->list[i];
		else
			last->last = MAX(last->last, r->list[i].last);
	}
	r->n = n;
}

void
pod_ranges_subtract(struct pod_ranges *r, uint32_t first, uint32_t last)
{
	struct pod_ranges left = {0};

	for (size_t i = 0; i < r->n; i++) {
		struct pod_range at = r->list[i];

		if (at.last < first || at.first > last) {
			pod_ranges_add(&left, at.first, at.last);
			continue;
		}
		if (at.first < first)
			pod_ranges_add(&left, at.first, first - 1);
		if (at.last > last)
			pod_ranges_add(&left, last + 1, at.last);
	}
	free(r->list);
	*r = left;
}

bool
pod_ranges_same(const struct pod_ranges *a, const struct pod_ranges *b)
{
	return a->n == b->n && (a->n == 0 || memcmp(a->list, b->list, a->n * sizeof *a->list) == 0);
}

static void
pod_ranges_put(struct buf *out, uint32_t ip)
{
	buf_printf(out, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
}

void
pod_ranges_build(struct buf *out, const struct pod_ranges *r)
{
	buf_adds(out, "{\"ranges\":[");
	for (size_t i = 0; i < MIN(r->n, (size_t)POD_RANGES_MAX); i++) {
		buf_adds(out, i > 0 ? ",\"" : "\"");
		pod_ranges_put(out, r->list[i].first);
		buf_adds(out, "-");
		pod_ranges_put(out, r->list[i].last);
		buf_adds(out, "\"");
	}
	buf_adds(out, "]}");
}

bool
pod_range_may(uint32_t first, uint32_t last)
{
	static const struct pod_range private[] = {{0x0a000000, 0x0affffff},
		{0x64400000, 0x647fffff}, {0xac100000, 0xac1fffff}, {0xc0a80000, 0xc0a8ffff}};

	for (size_t i = 0; i < ARRAY_LEN(private); i++)
		if (first >= private[i].first && last <= private[i].last)
			return first <= last;
	return false;
}

static bool
pod_ranges_ip(const char *text, size_t len, uint32_t *ip)
{
	char host[INET_ADDRSTRLEN];
	struct in6_addr six;

	if (len >= sizeof host)
		return false;
	memcpy(host, text, len);
	host[len] = '\0';
	if (strchr(host, ':') != NULL || !ip_parse(host, &six))
		return false;
	*ip = ip_to_v4(&six);
	return true;
}

static void
pod_ranges_read_one(struct json *j, void *to)
{
	struct pod_ranges *r = to;
	auto_free char *text = NULL;
	const char *dash;
	uint32_t first, last;

	if (!json_text(j, &text, 2 * INET_ADDRSTRLEN))
		return;
	dash = strchr(text, '-');
	if (dash == NULL || !pod_ranges_ip(text, (size_t)(dash - text), &first) ||
		!pod_ranges_ip(dash + 1, strlen(dash + 1), &last) || !pod_range_may(first, last))
		json_wrong(j, "'%.40s' is no range of addresses that pods may have", text);
	else if (r->n == POD_RANGES_MAX)
		json_wrong(j, "more than %d ranges", POD_RANGES_MAX);
	else
		pod_ranges_add(r, first, last);
}

static void
pod_ranges_read(struct json *j, void *to)
{
	json_list(j, pod_ranges_read_one, to);
}

int
pod_ranges_parse(struct pod_ranges *r, const char *json, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"ranges", FIELD_CUSTOM, 0, 0, NULL, pod_ranges_read},
	};
	struct json j;
	int rc;

	*r = (struct pod_ranges){0};
	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), r);
	rc = json_finish(&j, err);
	if (rc < 0)
		pod_ranges_fini(r);
	else
		pod_ranges_settle(r);
	return rc;
}
