#include "base/core/buf.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

void
buf_init(struct buf *b, size_t limit)
{
	memset(b, 0, sizeof *b);
	b->limit = limit;
}

void
buf_fini(struct buf *b)
{
	free(b->data);
	b->data = NULL;
	b->start = b->end = b->size = 0;
}

void
buf_release(struct buf *b)
{
	assert(buf_len(b) == 0);
	buf_fini(b);
}

char *
buf_reserve(struct buf *b, size_t n)
{
	size_t len = buf_len(b), want, size;

	if (__builtin_add_overflow(len, n, &want) || (b->limit != 0 && want > b->limit))
		return NULL;
	if (b->size - b->end >= n && b->data != NULL)
		return b->data + b->end;
	if (b->start > 0) {
		memmove(b->data, b->data + b->start, len);
		b->start = 0;
		b->end = len;
		if (b->size >= want)
			return b->data + b->end;
	}
	for (size = b->size ? b->size : 256; size < want; size *= 2)
		;
	if (b->limit != 0 && size > b->limit)
		size = b->limit;
	b->data = xrealloc(b->data, size);
	b->size = size;
	return b->data + b->end;
}

void
buf_commit(struct buf *b, size_t n)
{
	assert(n <= b->size - b->end);
	b->end += n;
}

void
buf_consume(struct buf *b, size_t n)
{
	assert(n <= buf_len(b));
	b->start += n;
	if (b->start == b->end)
		b->start = b->end = 0;
}

int
buf_add(struct buf *b, const void *data, size_t n)
{
	char *to = buf_reserve(b, n);

	if (to == NULL)
		return -ENOBUFS;
	if (n > 0)
		memcpy(to, data, n);
	b->end += n;
	return 0;
}

int
buf_adds(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

static char *
reserve_past_limit(struct buf *b, size_t n)
{
	size_t limit = b->limit;
	char *to;

	b->limit = BUF_UNLIMITED;
	to = buf_reserve(b, n);
	b->limit = limit;
	return to;
}

int
buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	char *to;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	if (b->limit != 0 && buf_len(b) + (size_t)n > b->limit)
		return -ENOBUFS;
	to = reserve_past_limit(b, (size_t)n + 1); /* vsnprintf's NUL is not content */
	va_start(ap, fmt);
	vsnprintf(to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->end += (size_t)n;
	return 0;
}

/* Not with gmtime: certificates last beyond 2038, where a 32-bit time_t overflows. */
int
buf_add_utc(struct buf *b, int64_t seconds)
{
	enum { DAY = 86400, DAYS_400 = 146097, DAYS_100 = 36524, DAYS_4 = 1461 };
	int64_t days = seconds / DAY - (seconds % DAY < 0);
	int64_t rest = seconds - days * DAY;
	int64_t since =
		/* from 1 March of year 0, so that a leap day is the last day of its year */
		days + 719468;
	int64_t era = (since < 0 ? since - DAYS_400 + 1 : since) / DAYS_400;
	int64_t day = since - era * DAYS_400;
	int64_t year = (day - day / (DAYS_4 - 1) + day / DAYS_100 - day / (DAYS_400 - 1)) / 365;
	int64_t month; /* counted from March */

	day -= 365 * year + year / 4 - year / 100;
	month = (5 * day + 2) / 153;
	return buf_printf(b, "%04lld-%02d-%02dT%02d:%02d:%02dZ",
		(long long)(year + era * 400 + (month >= 10)),
		(int)(month < 10 ? month + 3 : month - 9), (int)(day - (153 * month + 2) / 5 + 1),
		(int)(rest / 3600), (int)(rest / 60 % 60), (int)(rest % 60));
}

const char *
buf_str(struct buf *b)
{
	*reserve_past_limit(b, 1) = '\0';
	return buf_at(b);
}

char *
buf_take_str(struct buf *b)
{
	char *s = xmemdup(buf_str(b), buf_len(b) + 1);

	buf_fini(b);
	return s;
}

ssize_t
buf_read(struct buf *b, int fd, size_t most)
{
	size_t room = b->limit == 0 ? most : MIN(most, b->limit - MIN(b->limit, buf_len(b)));
	char *to;
	ssize_t n;

	if (room == 0 || (to = buf_reserve(b, room)) == NULL)
		return -ENOBUFS;
	do
		n = read(fd, to, room);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	b->end += (size_t)n;
	return n;
}

ssize_t
buf_write(struct buf *b, int fd)
{
	ssize_t n;

	if (buf_len(b) == 0)
		return 0;
	do {
		n = send(fd, buf_at(b), buf_len(b), MSG_NOSIGNAL);
		if (n < 0 && errno == ENOTSOCK)
			n = write(fd, buf_at(b), buf_len(b));
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	buf_consume(b, (size_t)n);
	return n;
}
