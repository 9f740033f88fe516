#include "base/http/frame_budget.h"

/* Types and flags of RFC 9113 section 6. */
enum {
	DATA = 0x0,
	HEADERS = 0x1,
	PRIORITY = 0x2,
	RST_STREAM = 0x3,
	SETTINGS = 0x4,
	PUSH_PROMISE = 0x5,
	PING = 0x6,
	GOAWAY = 0x7,
	WINDOW_UPDATE = 0x8,
	CONTINUATION = 0x9,
	FADING = 0xf1, /* our own, doc/protocol.md */
};
enum { END_STREAM = 0x1, PADDED = 0x8 };

enum {
	STREAM_CREDIT = 8, /* a reset, a FADING frame, window updates for its last bytes */
	MESSAGE_CREDIT = 2, /* a window update of the stream and one of the connection */
	STREAM_FADINGS = 2, /* one for "stops soon", one for "the target does not answer" */
	/* bytes; well-behaved peers reopen their windows in steps of tens of kilobytes */
	SENT_A_CREDIT = 512,
	CREDIT_MOST = 1 << 20,
	/* of a larger header section: fields may be one byte each, and all are
	 * decompressed */
	HEAD_BYTES_A_FRAME = 16,
};

void
frame_budget_init(struct frame_budget *b, size_t preface, size_t head_free, uint64_t now_ms)
{
	*b = (struct frame_budget){.left = FRAME_BUDGET_BURST,
		.skip = preface,
		.head_free = head_free,
		.filled_ms = now_ms};
}

static void
frame_budget_fill(struct frame_budget *b, uint64_t now_ms)
{
	uint64_t due = (now_ms - b->filled_ms) * FRAME_BUDGET_RATE / 1000;

	if (due == 0)
		return;
	b->left = (unsigned)MIN(b->left + due, (uint64_t)FRAME_BUDGET_BURST);
	b->filled_ms = now_ms;
}

bool
frame_budget_spend(struct frame_budget *b, unsigned n, uint64_t now_ms)
{
	frame_budget_fill(b, now_ms);
	b->useless += n;
	if (n > b->left)
		return false;
	b->left -= n;
	return true;
}

static const char *
frame_budget_kind(uint8_t type)
{
	static const char *const names[] = {[DATA] = "empty DATA",
		[HEADERS] = "large HEADERS",
		[PRIORITY] = "PRIORITY",
		[RST_STREAM] = "RST_STREAM",
		[SETTINGS] = "SETTINGS",
		[PUSH_PROMISE] = "PUSH_PROMISE",
		[PING] = "PING",
		[GOAWAY] = "GOAWAY",
		[WINDOW_UPDATE] = "WINDOW_UPDATE",
		[CONTINUATION] = "CONTINUATION"};

	return type < ARRAY_LEN(names) ? names[type] : "of a type that is not known";
}

/* What `len` more bytes of the header section cost. */
static unsigned
frame_budget_section(struct frame_budget *b, unsigned len)
{
	size_t before = MAX(b->head_bytes, b->head_free);

	b->head_bytes += len;
	return b->head_bytes > before ? (unsigned)(b->head_bytes - before) / HEAD_BYTES_A_FRAME : 0;
}

/* How many useless frames this frame counts as. */
static unsigned
frame_budget_cost(struct frame_budget *b)
{
	const uint8_t *head = b->head;
	unsigned len = (unsigned)head[0] << 16 | (unsigned)head[1] << 8 | head[2];
	unsigned flags = head[4];

	switch (head[3]) {
	case DATA:
		return (flags & PADDED) != 0 || (len == 0 && (flags & END_STREAM) == 0);
	case HEADERS:
		b->head_bytes = 0;
		return frame_budget_section(b, len);
	case CONTINUATION:
		return 1 + frame_budget_section(b, len);
	default:
		return 1;
	}
}

static bool
frame_budget_take(struct frame_budget *b, uint64_t now_ms)
{
	unsigned type = b->head[3], cost = frame_budget_cost(b);
	bool earned = type == RST_STREAM || type == WINDOW_UPDATE || type == FADING;

	if (type == FADING && b->fadings > 0) {
		b->fadings--;
		return true;
	}
	if (type == PING && b->pings > 0) {
		b->pings--;
		return true;
	}
	if (earned && b->credit > 0) {
		b->credit--;
		return true;
	}
	return cost == 0 || frame_budget_spend(b, cost, now_ms);
}

const char *
frame_budget_read(struct frame_budget *b, const uint8_t *bytes, size_t n, uint64_t now_ms)
{
	const char *kind = NULL;

	while (n > 0) {
		size_t skipped = MIN(b->skip, n);

		b->skip -= skipped;
		bytes += skipped;
		n -= skipped;
		while (n > 0 && b->have < FRAME_BUDGET_HEAD) {
			b->head[b->have++] = *bytes++;
			n--;
		}
		if (b->have < FRAME_BUDGET_HEAD)
			continue;
		b->have = 0;
		b->skip = (size_t)b->head[0] << 16 | (size_t)b->head[1] << 8 | b->head[2];
		if (!frame_budget_take(b, now_ms))
			kind = frame_budget_kind(b->head[3]);
	}
	return kind;
}

static void
frame_budget_earn(struct frame_budget *b, unsigned n)
{
	b->credit = MIN(b->credit + n, (unsigned)CREDIT_MOST);
}

void
frame_budget_stream(struct frame_budget *b)
{
	frame_budget_earn(b, STREAM_CREDIT);
	b->fadings = MIN(b->fadings + STREAM_FADINGS, (unsigned)CREDIT_MOST);
}

void
frame_budget_sent(struct frame_budget *b, size_t bytes, bool whole)
{
	size_t sent = b->sent_bytes + bytes;

	b->pings = MIN(b->pings + 1, (unsigned)CREDIT_MOST);
	frame_budget_earn(b, (unsigned)MIN(sent / SENT_A_CREDIT, (size_t)CREDIT_MOST));
	if (whole)
		frame_budget_earn(b, MESSAGE_CREDIT);
	b->sent_bytes = (unsigned)(sent % SENT_A_CREDIT);
}
