/*
 * Bytes of a peer to one end of a carrier: the first byte says which end and how the bytes are cut,
 * and whether they are a head (the request, the answer) or frames. Payload is never more than what
 * came, answers are bounded, and after a refusal nothing counts.
 */
#include <assert.h>
#include <errno.h>

#include "base/http/ws_tunnel_head.h"
#include "base/http/wsframe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
read_heads(const char *data, size_t size)
{
	struct ws_tunnel_request request;
	struct ws_tunnel_answer answer;
	ssize_t n = ws_tunnel_read_request(data, size, &request);

	assert(n <= (ssize_t)size && (n >= 0 || (n == -EPROTO && request.status >= 400)));
	n = ws_tunnel_read_answer(data, size, "AAECAwQFBgcICQoLDA0ODw==", &answer);
	assert(n <= (ssize_t)size && (n >= 0 || (n == -EPROTO && answer.why[0] != '\0')));
}

static void
read_frames(const uint8_t *data, size_t size, bool client, size_t piece)
{
	struct wsframe *f = wsframe_new(client);
	struct buf in, out;
	size_t taken = 0;
	int rc = 0;

	buf_init(&in, BUF_UNLIMITED);
	buf_init(&out, BUF_UNLIMITED);
	while (taken < size) {
		size_t n = MIN(piece, size - taken), before = buf_len(&in);
		int now = wsframe_take(f, data + taken, n, &in);

		assert(buf_len(&in) - before <= n && now <= 1 && (now >= 0 || now == -EPROTO));
		assert(rc == 0 || (now == rc && buf_len(&in) == before));
		wsframe_emit(f, &out);
		assert(now == 0 || wsframe_words(wsframe_closed(f))[0] != '\0');
		rc = now;
		taken += n;
		wsframe_put(f, "x", 1, &out);
	}
	assert(buf_len(&out) <=
		16 * size + 256); /* a pong is a ping and a mask, and ours of one byte each time */
	wsframe_close(f, WSFRAME_NORMAL);
	wsframe_emit(f, &out);
	wsframe_free(&f);
	buf_fini(&in);
	buf_fini(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t pieces[] = {1, 7, 4096, 1 << 20};

	if (size == 0 || size > 200000)
		return 0;
	if (data[0] & 8)
		read_heads((const char *)data + 1, size - 1);
	else
		read_frames(data + 1, size - 1, data[0] & 1, pieces[data[0] >> 1 & 3]);
	return 0;
}
