/* Frames of the websocket: what parses builds and parses again to the same; so do the digests in
 * them. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "model/digest.h"
#include "model/envelope.h"
#include "model/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
envelope(const char *text, size_t len)
{
	struct envelope e, back;
	struct err err = {0};
	struct buf out;
	int rc = envelope_parse(&e, text, len, &err);

	if (rc < 0) {
		assert(err.text[0] != '\0');
		assert(rc == -EOPNOTSUPP || e.id == NULL);
		envelope_fini(&e);
		assert(envelope_head(&e, text, len) == (e.id != NULL));
		envelope_fini(&e);
		return;
	}
	buf_init(&out, BUF_UNLIMITED);
	envelope_build(&out, &e);
	assert(envelope_parse(&back, buf_at(&out), buf_len(&out), NULL) == 0);
	assert(strcmp(e.id, back.id) == 0 && strcmp(e.parent_id, back.parent_id) == 0);
	assert(strcmp(e.resource, back.resource) == 0 && e.operation == back.operation);
	assert(e.content_len == back.content_len && strcmp(e.content, back.content) == 0);
	assert(e.timestamp_ms == back.timestamp_ms && e.sync == back.sync);
	envelope_fini(&back);
	envelope_fini(&e);
	buf_fini(&out);
}

static void
digests(const char *text, size_t len)
{
	bool of[DIGEST_BUCKETS], again[DIGEST_BUCKETS];
	struct digest_entry *e, *f;
	struct digests d;
	struct buf out;
	size_t n, m;

	digests_parse(&d, text, len, NULL);
	digest_want_parse(of, text, len, NULL);
	if (digest_entries_parse(of, &e, &n, text, len, NULL) < 0)
		return;
	buf_init(&out, BUF_UNLIMITED);
	digest_entries_build(&out, of, e, n);
	assert(digest_entries_parse(again, &f, &m, buf_at(&out), buf_len(&out), NULL) == 0);
	assert(n == m && memcmp(of, again, sizeof of) == 0);
	for (size_t i = 0; i < n; i++)
		assert(strcmp(e[i].key, f[i].key) == 0 && e[i].digest == f[i].digest);
	digest_entries_free(&e, n);
	digest_entries_free(&f, m);
	buf_fini(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	envelope((const char *)data, len);
	digests((const char *)data, len);
	return 0;
}
