#include "model/digest.h"

#include <errno.h>

#include "base/core/hash.h"
#include "model/check.h"
#include "model/json.h"

enum { HEX = 16 };

/* While parsing any of the three messages. */
struct parsing {
	char *hex;
	bool *want;
	bool seen_buckets;
	struct digest_entry *entries;
	size_t n, room;
};

unsigned
digest_bucket(const char *key, size_t key_len)
{
	return (unsigned)(hash64(key, key_len, 0) % DIGEST_BUCKETS);
}

void
digest_toggle(struct digests *d, const char *key, size_t key_len, uint64_t view_digest)
{
	d->bucket[digest_bucket(key, key_len)] ^= hash64(key, key_len, view_digest);
}

static bool
hex_parse(const char *text, uint64_t *v)
{
	*v = 0;
	for (int i = 0; i < HEX; i++) {
		char c = text[i];

		if (c >= '0' && c <= '9')
			*v = *v << 4 | (uint64_t)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*v = *v << 4 | (uint64_t)(c - 'a' + 10);
		else
			return false;
	}
	return true;
}

void
digests_build(struct buf *out, const struct digests *d)
{
	buf_adds(out, "{\"buckets\":\"");
	for (size_t i = 0; i < DIGEST_BUCKETS; i++)
		buf_printf(out, "%016llx", (unsigned long long)d->bucket[i]);
	buf_adds(out, "\"}");
}

int
digests_parse(struct digests *d, const char *json, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"buckets", FIELD_TEXT, offsetof(struct parsing, hex), (size_t)HEX * DIGEST_BUCKETS,
			NULL, NULL},
	};
	struct parsing p = {0};
	auto_free char *hex = NULL;
	struct json j;
	int rc;

	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), &p);
	hex = p.hex;
	if ((rc = json_finish(&j, err)) < 0)
		return err_wrap(err, rc, "digests");
	if (hex == NULL || strlen(hex) != (size_t)HEX * DIGEST_BUCKETS)
		return err_set(err, EBADMSG, "digests: %d hexadecimal digits expected",
			HEX * DIGEST_BUCKETS);
	for (size_t i = 0; i < DIGEST_BUCKETS; i++)
		if (!hex_parse(hex + i * HEX, &d->bucket[i]))
			return err_set(err, EBADMSG, "digests: bucket %zu is not hexadecimal", i);
	return 0;
}

static void
want_add(struct buf *out, const bool want[DIGEST_BUCKETS])
{
	const char *comma = "";

	buf_adds(out, "\"buckets\":[");
	for (unsigned i = 0; i < DIGEST_BUCKETS; i++) {
		if (!want[i])
			continue;
		buf_printf(out, "%s%u", comma, i);
		comma = ",";
	}
	buf_adds(out, "]");
}

void
digest_want_build(struct buf *out, const bool want[DIGEST_BUCKETS])
{
	buf_adds(out, "{");
	want_add(out, want);
	buf_adds(out, "}");
}

static void
parse_bucket(struct json *j, void *to)
{
	struct parsing *p = to;
	uint64_t i;

	if (json_uint(j, DIGEST_BUCKETS - 1, &i))
		p->want[i] = true;
}

static void
parse_want(struct json *j, void *to)
{
	struct parsing *p = to;

	p->seen_buckets = true;
	json_list(j, parse_bucket, p);
}

int
digest_want_parse(bool want[DIGEST_BUCKETS], const char *json, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"buckets", FIELD_CUSTOM, 0, 0, NULL, parse_want},
	};
	struct parsing p = {.want = want};
	struct json j;
	int rc;

	memset(want, 0, DIGEST_BUCKETS * sizeof *want);
	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), &p);
	if ((rc = json_finish(&j, err)) < 0)
		return err_wrap(err, rc, "buckets");
	return p.seen_buckets ? 0 : err_set(err, EBADMSG, "buckets: no member buckets");
}

void
digest_entries_build(
	struct buf *out, const bool of[DIGEST_BUCKETS], const struct digest_entry *e, size_t n)
{
	buf_adds(out, "{");
	want_add(out, of);
	buf_adds(out, ",\"services\":{");
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			buf_adds(out, ",");
		json_add_text(out, e[i].key);
		buf_printf(out, ":\"%016llx\"", (unsigned long long)e[i].digest);
	}
	buf_adds(out, "}}");
}

static bool
is_key(const char *key)
{
	const char *slash = strchr(key, '/');

	return slash != NULL && check_label(key, (size_t)(slash - key)) &&
		check_service(slash + 1, strlen(slash + 1));
}

static void
parse_entry(struct json *j, void *to)
{
	struct parsing *p = to;
	auto_free char *hex = NULL;
	uint64_t digest;

	if (!is_key(j->key)) {
		json_wrong(j, "the name is not namespace/name");
		return;
	}
	if (!json_text(j, &hex, HEX))
		return;
	if (strlen(hex) != HEX || !hex_parse(hex, &digest)) {
		json_wrong(j, "16 hexadecimal digits expected");
		return;
	}
	if (p->n == p->room) {
		p->room = MAX(p->room * 2, (size_t)16);
		p->entries = xrealloc(p->entries, p->room * sizeof *p->entries);
	}
	p->entries[p->n++] = (struct digest_entry){xstrdup(j->key), digest};
}

static void
parse_services(struct json *j, void *to)
{
	json_map(j, parse_entry, to);
}

int
digest_entries_parse(bool of[DIGEST_BUCKETS], struct digest_entry **e, size_t *n, const char *json,
	size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"buckets", FIELD_CUSTOM, 0, 0, NULL, parse_want},
		{"services", FIELD_CUSTOM, 0, 0, NULL, parse_services},
	};
	struct parsing p = {.want = of};
	struct json j;
	int rc;

	memset(of, 0, DIGEST_BUCKETS * sizeof *of);
	*e = NULL;
	*n = 0;
	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), &p);
	rc = json_finish(&j, err);
	if (rc == 0 && !p.seen_buckets)
		rc = err_set(err, EBADMSG, "no member buckets");
	if (rc < 0) {
		digest_entries_free(&p.entries, p.n);
		return err_wrap(err, rc, "services");
	}
	*e = p.entries;
	*n = p.n;
	return 0;
}

void
digest_entries_free(struct digest_entry **e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((*e)[i].key);
	free(*e);
	*e = NULL;
}
