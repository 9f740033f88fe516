/* Bundles: as a peer's envelope, as the bytes that it packed, and as the text of what is packed. */
#include <assert.h>
#include <string.h>

#include "base/core/gzip.h"
#include "model/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
open_bundle(const struct envelope *e)
{
	struct err err = {0};
	struct buf lines;
	const char *text;
	size_t len, sum = 0, have;

	if (bundle_open(&lines, e, &err) < 0) {
		assert(err.text[0] != '\0');
	} else {
		have = buf_len(&lines);
		assert(have <= ENVELOPE_MAX_BYTES);
		while ((text = bundle_next(&lines, &len)) != NULL) {
			assert(text[len] == '\0');
			sum += len + 1;
		}
		assert(sum == have);
	}
	buf_fini(&lines);
}

static void
frame(const char *text, size_t len)
{
	struct envelope e;

	if (envelope_parse(&e, text, len, NULL) == 0 && bundle_is(&e))
		open_bundle(&e);
	envelope_fini(&e);
}

/* What a peer packs reaches the lines, which no mutation of base64 would. */
static void
packed(const char *data, size_t len)
{
	struct envelope e = {0};
	struct buf content, back;

	buf_init(&content, BUF_UNLIMITED);
	buf_adds(&content, "\"");
	gzip_text(&content, data, len);
	buf_adds(&content, "\"");
	e.content_len = buf_len(&content);
	e.content = buf_at(&content);
	open_bundle(&e);
	buf_init(&back, len > 0 ? len : 1);
	assert(unpack_text(&back, e.content + 1, e.content_len - 2, NULL) == 0);
	assert(buf_len(&back) == len && memcmp(buf_str(&back), data, len) == 0);
	buf_fini(&back);
	buf_fini(&content);
}

static void
content(const char *data, size_t len)
{
	struct envelope e = {.content = (char *)(uintptr_t)data, .content_len = len};

	open_bundle(&e);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = xstrndup((const char *)data, len);

	frame((const char *)data, len);
	packed((const char *)data, len);
	content(text, strlen(text));
	free(text);
	return 0;
}
