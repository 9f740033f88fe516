#include "lb/conn/gather.h"

void
gather_init(struct gather *g, struct peer *to)
{
	g->to = to;
	g->rc = 0;
	g->n = 0;
	g->n_chunks = 0;
	g->payload = 0;
	g->merged_from = g->merged = 0;
}

int
gather_flush(struct gather *g)
{
	if (g->n > 0 && g->to != NULL && g->rc == 0)
		g->rc = peer_send(g->to, g->iov, g->n);
	g->n = 0;
	g->n_chunks = 0;
	if (g->merged_from == g->merged)
		g->merged_from = g->merged = 0;
	return g->rc;
}

void
gather_add(struct gather *g, const void *data, size_t len)
{
	if (g->to == NULL || len == 0)
		return;
	if (g->n == GATHER_IOV)
		gather_flush(g);
	memcpy(&g->iov[g->n].iov_base, &data, sizeof data); /* iovec has no const */
	g->iov[g->n++].iov_len = len;
}

static void
add_chunk(struct gather *g, const struct http1_str *piece)
{
	char *head;

	if (g->n_chunks == GATHER_CHUNKS || g->n + 3 > GATHER_IOV)
		gather_flush(g);
	head = g->chunks[g->n_chunks++];
	gather_add(g, head, http1_chunk_head(head, piece->len));
	gather_add(g, piece->at, piece->len);
	gather_add(g, HTTP1_CHUNK_TAIL, sizeof HTTP1_CHUNK_TAIL - 1);
}

static void
add_piece(struct gather *g, const struct http1_str *piece, bool chunked_out)
{
	if (chunked_out)
		add_chunk(g, piece);
	else
		gather_add(g, piece->at, piece->len);
}

static void
add_merged(struct gather *g, bool chunked_out)
{
	const struct http1_str piece = {g->small + g->merged_from, g->merged - g->merged_from};

	if (piece.len == 0)
		return;
	add_piece(g, &piece, chunked_out); /* it may flush the preceding pieces */
	g->merged_from = g->merged;
}

static void
merge_piece(struct gather *g, const struct http1_str *piece, bool chunked_out)
{
	if (g->merged + piece->len > sizeof g->small) {
		add_merged(g, chunked_out);
		gather_flush(g);
	}
	memcpy(g->small + g->merged, piece->at, piece->len);
	g->merged += piece->len;
}

enum http1_got
gather_body(struct gather *g, struct http1_body *body, bool chunked_out, const char *data,
	size_t len, size_t *used)
{
	enum http1_got got;
	struct http1_str piece, last;
	size_t at = 0, n;

	while ((got = http1_body_next(body, data + at, len - at, &n, &piece)) == HTTP1_DATA) {
		at += n;
		g->payload += piece.len;
		if (piece.len < GATHER_SMALL && body->framing == HTTP1_CHUNKED) {
			merge_piece(g, &piece, chunked_out);
		} else {
			add_merged(g, chunked_out);
			add_piece(g, &piece, chunked_out);
		}
		/* A body of known length is complete with its last byte; no further call is
		 * needed. */
		if (http1_body_done(body)) {
			got = HTTP1_DONE;
			n = 0;
			break;
		}
	}
	add_merged(g, chunked_out);
	*used = at + n;
	if (got == HTTP1_DONE && chunked_out) {
		last = http1_last_chunk(body);
		gather_add(g, last.at, last.len);
	}
	return got;
}
