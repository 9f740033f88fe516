/*
 * One pass over a peer's text before cJSON 1.7 gets it. cJSON accepts raw control characters, a NUL
 * between values, bytes that are not UTF-8, escapes that are not hexadecimal, numbers such as 01
 * and 1e999; it allocates a node of 64 bytes or more for every "0,", recurses 1000 levels, and
 * reads one byte too far when a text ends inside an object (CVE-2023-53154). So none of this
 * reaches it.
 */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "model/json_private.h"

enum { NUMBER_BYTES = 63 }; /* cJSON's buffer holds no more */

/* cJSON reads infinity where a double overflows, and prints the largest doubles so that they do
 * overflow. */
#define NUMBER_MAX 1e300

struct guard {
	const char *at, *end;
	unsigned depth, values; /* values: at least their real number */
};

size_t
json_utf8_len(const char *text, size_t left)
{
	const unsigned char *p = (const unsigned char *)text;
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (left < n)
		return 0;
	if (p[0] == 0xe0)
		low = 0xa0; /* overlong */
	else if (p[0] == 0xed)
		high = 0x9f; /* surrogates */
	else if (p[0] == 0xf0)
		low = 0x90;
	else if (p[0] == 0xf4)
		high = 0x8f; /* beyond U+10FFFF */
	if (p[1] < low || p[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (p[i] < 0x80 || p[i] > 0xbf)
			return 0;
	return n;
}

/* These return the error, NULL when there is none. */

static const char *
guard_escape(struct guard *g)
{
	size_t left = (size_t)(g->end - g->at);

	if (left < 2)
		return "the text ends in a string";
	if (g->at[1] != 'u') {
		g->at += 2;
		return NULL;
	}
	if (left < 6)
		return "the text ends in a string";
	for (int i = 2; i < 6; i++)
		if (!isxdigit((unsigned char)g->at[i]))
			return "four hexadecimal digits expected";
	if (memcmp(g->at + 2, "0000", 4) == 0)
		return "NUL in a string";
	g->at += 6;
	return NULL;
}

/* Skips plain string bytes, which are nearly all of the text. */
static void
skip_plain(struct guard *g)
{
	const char *at = g->at;

	while (at < g->end && *at >= ' ' && *at <= '~' && *at != '"' && *at != '\\')
		at++;
	g->at = at;
}

static const char *
guard_string(struct guard *g)
{
	const char *why = NULL;
	size_t n;

	for (g->at++, skip_plain(g); g->at < g->end && *g->at != '"' && why == NULL;
		skip_plain(g)) {
		if (*g->at == '\\') {
			why = guard_escape(g);
			continue;
		}
		if ((unsigned char)*g->at < ' ')
			return "control character in a string";
		n = json_utf8_len(g->at, (size_t)(g->end - g->at));
		if (n == 0)
			return "string is not UTF-8";
		g->at += n;
	}
	if (why == NULL && g->at++ == g->end)
		return "the text ends in a string";
	return why;
}

static size_t
skip_digits(struct guard *g)
{
	const char *from = g->at;

	while (g->at < g->end && isdigit((unsigned char)*g->at))
		g->at++;
	return (size_t)(g->at - from);
}

/* Only a number with an exponent can exceed NUMBER_MAX. */
static const char *
guard_magnitude(const char *number, size_t len, bool exponent)
{
	char copy[NUMBER_BYTES + 1];

	if (len > NUMBER_BYTES)
		return "number too long";
	if (!exponent)
		return NULL;
	memcpy(copy, number, len);
	copy[len] = '\0';
	return fabs(strtod(copy, NULL)) > NUMBER_MAX ? "number too great" : NULL;
}

/* RFC 8259 section 6. */
static const char *
guard_number(struct guard *g)
{
	const char *from = g->at;
	bool zero, exponent;
	size_t n;

	g->at += *g->at == '-';
	zero = g->at < g->end && *g->at == '0';
	n = skip_digits(g);
	if (n == 0 || (zero && n > 1))
		return "a number with a digit too many or too few";
	if (g->at < g->end && *g->at == '.') {
		g->at++;
		if (skip_digits(g) == 0)
			return "digit expected";
	}
	exponent = g->at < g->end && (*g->at | 0x20) == 'e';
	if (exponent) {
		g->at++;
		g->at += g->at < g->end && (*g->at == '+' || *g->at == '-');
		if (skip_digits(g) == 0)
			return "digit expected";
	}
	return guard_magnitude(from, (size_t)(g->at - from), exponent);
}

static const char *
guard_value(struct guard *g)
{
	switch (*g->at) {
	case '"':
		return guard_string(g);
	case '{':
	case '[':
		g->values++;
		if (++g->depth > JSON_DEPTH_MAX)
			return "nested too deeply";
		break;
	case '}':
	case ']':
		if (g->depth-- == 0)
			return "a bracket too many";
		break;
	case ',':
		g->values++;
		break;
	default:
		if (*g->at == '-' || isdigit((unsigned char)*g->at))
			return guard_number(g);
		if (!isalpha((unsigned char)*g->at) &&
			(*g->at == '\0' || strchr(" \t\r\n:", *g->at) == NULL))
			return "unexpected character";
	}
	g->at++;
	return NULL;
}

bool
json_guard(struct json *j, const char *text, size_t len)
{
	struct guard g = {.at = text, .end = text + len, .values = 1};
	const char *why = NULL;

	while (g.at < g.end && why == NULL) {
		why = guard_value(&g);
		if (why == NULL && g.values > JSON_VALUES_MAX)
			why = "too many values";
	}
	if (why == NULL && g.depth > 0)
		why = "the text ends too early";
	return why == NULL || json_wrong(j, "byte %zu: %s", (size_t)(g.at - text), why);
}

size_t
json_values(const char *text, size_t len)
{
	struct guard g = {.at = text, .end = text + len, .values = 1};

	while (g.at < g.end && guard_value(&g) == NULL) {
	}
	return g.values;
}
