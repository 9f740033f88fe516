/*
 * Bodies of an API server: the first byte says list or stream and where the chunks end, the rest is
 * the body. However it is cut, the same values come, and each of them and the rest of a list goes
 * on to the parser.
 */
#include <stdlib.h>
#include <string.h>

#include "base/conf/tree.h"
#include "hub/kube/json_stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct got {
	struct buf text;
	size_t n;
};

static int
on_value(void *arg, const char *text, size_t len)
{
	struct got *g = arg;
	struct tree *t = NULL;

	if (text == NULL) {
		buf_adds(&g->text, "too large");
		return 0;
	}
	buf_add(&g->text, text, len);
	buf_adds(&g->text, "|");
	if (tree_parse(&t, "value", text, len, NULL) == 0)
		tree_free(&t);
	return ++g->n == 100 ? -1 : 0;
}

static int
run(enum json_stream_mode mode, const char *text, size_t len, size_t piece, struct got *g)
{
	struct json_stream s;
	const char *rest;
	size_t rest_len;
	int rc = 0;

	json_stream_init(&s, mode, on_value, g);
	s.value_max = 1000;
	for (size_t i = 0; i < len && rc == 0; i += piece)
		rc = json_stream_feed(&s, text + i, MIN(piece, len - i));
	rest = json_stream_rest(&s, &rest_len);
	if (rc == 0)
		buf_add(&g->text, rest, rest_len);
	if (rc == 0 && json_stream_whole(&s))
		buf_adds(&g->text, " whole");
	json_stream_fini(&s);
	return rc;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct got once = {0}, cut = {0};
	enum json_stream_mode mode;
	size_t piece;
	int a, b;

	if (size < 1)
		return 0;
	mode = data[0] & 1 ? JSON_STREAM_LIST : JSON_STREAM_STREAM;
	piece = (size_t)(data[0] >> 1) + 1;
	buf_init(&once.text, BUF_UNLIMITED);
	buf_init(&cut.text, BUF_UNLIMITED);
	a = run(mode, (const char *)data + 1, size - 1, size, &once);
	b = run(mode, (const char *)data + 1, size - 1, piece, &cut);
	if (a != b || strcmp(buf_str(&once.text), buf_str(&cut.text)) != 0)
		abort();
	buf_fini(&once.text);
	buf_fini(&cut.text);
	return 0;
}
