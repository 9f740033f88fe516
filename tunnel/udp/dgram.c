#include "tunnel/udp/dgram.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <string.h>
#include <sys/socket.h>

static const char *const names[DROPS] = {"queue", "socket", "size", "send", "dialling", "denied",
	"unreachable", "limit", "loop", "rate"};

const char *
dgram_drop_name(enum dgram_drop why)
{
	return names[why];
}

static void
dgram_add(struct dgram_count *to, const struct dgram_count *c)
{
	to->datagrams += c->datagrams;
	to->bytes += c->bytes;
}

void
dgram_tally_add(struct dgram_tally *to, const struct dgram_tally *t)
{
	dgram_add(&to->to_stream, &t->to_stream);
	dgram_add(&to->from_stream, &t->from_stream);
	for (unsigned i = 0; i < DROPS; i++)
		to->dropped[i] += t->dropped[i];
}

uint64_t
dgram_dropped(const struct dgram_tally *t)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < DROPS; i++)
		n += t->dropped[i];
	return n;
}

/* --- kept ----------------------------------------------------------------------------------- */

bool
dgram_keep(struct dgram_kept *k, const void *data, size_t n)
{
	uint32_t len = (uint32_t)n;

	if (k->n == DGRAM_KEPT || buf_len(&k->bytes) + sizeof len + n > DGRAM_KEPT_BYTES)
		return false;
	buf_add(&k->bytes, &len, sizeof len);
	buf_add(&k->bytes, data, n);
	k->n++;
	return true;
}

bool
dgram_kept_next(const struct dgram_kept *k, size_t *at, const void **data, size_t *n)
{
	const char *p = buf_at(&k->bytes);
	uint32_t len;

	if (*at == buf_len(&k->bytes))
		return false;
	memcpy(&len, p + *at, sizeof len);
	*data = p + *at + sizeof len;
	*n = len;
	*at += sizeof len + len;
	return true;
}

void
dgram_kept_fini(struct dgram_kept *k)
{
	buf_fini(&k->bytes);
	k->n = 0;
}

/* --- on the stream -------------------------------------------------------------------------- */

bool
dgram_put(struct stream *st, const void *data, size_t n)
{
	uint8_t head[CAPSULE_HEAD_MAX];
	size_t len = capsule_head(head, n), queued = stream_queued(st);

	/* The longest datagram fits into an empty queue. */
	if ((queued > 0 && queued + len + n > DGRAM_QUEUE_BYTES) || stream_room(st) < len + n)
		return false;
	stream_write(st, head, len);
	stream_write(st, data, n);
	return true;
}

int
dgram_get(struct dgram_reader *r, struct stream *st, const void **data, size_t *n)
{
	struct capsule_datagram got;

	if (r->held > 0)
		stream_consume(st, r->held);
	r->held = 0;
	for (;;) {
		const void *at;
		size_t len = stream_peek(st, &at), left = len;
		enum capsule_result result;

		if (len == 0)
			return 0;
		result = capsule_read(&r->capsules, &at, &left, &got);
		if (result == CAPSULE_DATAGRAM) {
			r->held = len - left;
			*data = got.data;
			*n = got.len;
			return 1;
		}
		stream_consume(st, len - left);
		if (result == CAPSULE_BAD)
			return -EPROTO;
	}
}

bool
dgram_tell_dropped(struct stream *st, uint64_t n)
{
	uint8_t capsule[CAPSULE_HEAD_MAX];
	size_t len = capsule_dropped(capsule, n);

	if (stream_room(st) < len)
		return false;
	stream_write(st, capsule, len);
	return true;
}

unsigned
dgram_hear_dropped(struct dgram_reader *r, const struct stream *st)
{
	uint64_t n = r->capsules.dropped;

	r->capsules.dropped = 0;
	return stream_is_within(st) ? (unsigned)n : 0;
}

void
dgram_reader_fini(struct dgram_reader *r)
{
	capsule_fini(&r->capsules);
}

/* --- sockets -------------------------------------------------------------------------------- */

enum dgram_drop
dgram_send_failed(int error)
{
	switch (error) {
	case EAGAIN:
	case ENOBUFS:
	case ENOMEM:
		return DROP_SOCKET;
	case EMSGSIZE:
		return DROP_SIZE;
	default:
		return DROP_SEND;
	}
}

void
dgram_widen(int fd)
{
	static const int bytes = DGRAM_SOCKET_BYTES;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

uint32_t
dgram_lost(int fd)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof info;

	if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len) < 0)
		return 0;
	return info[SK_MEMINFO_DROPS];
}
