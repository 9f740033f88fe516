#include "base/http/traceparent.h"

#include <string.h>
#include <time.h>

enum { VERSION_AT = 0, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, VERSION_BAD = 0xff };

static int
traceparent_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool
traceparent_bytes(uint8_t *to, const char *hex, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int high = traceparent_digit(hex[2 * i]), low = traceparent_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		to[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static bool
all_zero(const uint8_t *at, size_t n)
{
	uint8_t any = 0;

	for (size_t i = 0; i < n; i++)
		any |= at[i];
	return any == 0;
}

/* A later version may append fields after a dash. */
static bool
ends_well(const char *text, size_t len, uint8_t version)
{
	if (version == 0)
		return len == TRACEPARENT_LEN;
	return len == TRACEPARENT_LEN || text[TRACEPARENT_LEN] == '-';
}

bool
traceparent_parse(struct trace_context *to, const char *text, size_t len)
{
	uint8_t version;

	if (len < TRACEPARENT_LEN || text[TRACE_AT - 1] != '-' || text[SPAN_AT - 1] != '-' ||
		text[FLAGS_AT - 1] != '-')
		return false;
	if (!traceparent_bytes(&version, text + VERSION_AT, 1) || version == VERSION_BAD ||
		!ends_well(text, len, version))
		return false;
	if (!traceparent_bytes(to->trace, text + TRACE_AT, sizeof to->trace) ||
		!traceparent_bytes(to->span, text + SPAN_AT, sizeof to->span) ||
		!traceparent_bytes(&to->flags, text + FLAGS_AT, 1))
		return false;
	to->flags &= version == 0 ? TRACE_SAMPLED | TRACE_RANDOM : TRACE_SAMPLED;
	return !all_zero(to->trace, sizeof to->trace) && !all_zero(to->span, sizeof to->span);
}

void
trace_hex(char *to, const uint8_t *from, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		*to++ = digits[from[i] >> 4];
		*to++ = digits[from[i] & 15];
	}
	*to = '\0';
}

void
traceparent_text(char to[TRACEPARENT_LEN + 1], const struct trace_context *c)
{
	memcpy(to, "00-", TRACE_AT);
	trace_hex(to + TRACE_AT, c->trace, sizeof c->trace);
	to[SPAN_AT - 1] = '-';
	trace_hex(to + SPAN_AT, c->span, sizeof c->span);
	to[FLAGS_AT - 1] = '-';
	trace_hex(to + FLAGS_AT, &c->flags, 1);
}

uint64_t
trace_clock_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void
trace_now(struct trace_moment *to)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	to->unix_ns = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
	to->us = trace_clock_us();
	random_bytes(to->random, sizeof to->random);
}
