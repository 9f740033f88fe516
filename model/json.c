#include "model/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "model/json_private.h"

void
json_init(struct json *j, const char *text, size_t len)
{
	*j = (struct json){.start = text, .at = text, .end = text + len};
}

bool
json_ok(const struct json *j)
{
	return j->wrong[0] == '\0';
}

bool
json_wrong(struct json *j, const char *fmt, ...)
{
	va_list ap;

	if (!json_ok(j))
		return false;
	va_start(ap, fmt);
	vsnprintf(j->wrong, sizeof j->wrong, fmt, ap);
	va_end(ap);
	return false;
}

static void
skip_space(struct json *j)
{
	while (j->at < j->end &&
		(*j->at == ' ' || *j->at == '\n' || *j->at == '\r' || *j->at == '\t'))
		j->at++;
}

int
json_finish(struct json *j, struct err *err)
{
	skip_space(j);
	if (json_ok(j) && j->at != j->end)
		json_wrong(j, "text after the value");
	if (json_ok(j))
		return 0;
	return err_set(err, EBADMSG, "byte %zu: %s", (size_t)(j->at - j->start), j->wrong);
}

char
json_peek(struct json *j)
{
	if (!json_ok(j))
		return 0;
	skip_space(j);
	if (j->at == j->end)
		return 0;
	return (*j->at >= '0' && *j->at <= '9') || *j->at == '-' ? '0' : *j->at;
}

bool
json_take(struct json *j, char c, const char *what)
{
	if (json_peek(j) == 0 || *j->at != c)
		return json_wrong(j, "%s expected", what);
	j->at++;
	return true;
}

bool
json_open(struct json *j, char bracket)
{
	if (!json_take(j, bracket, bracket == '{' ? "an object" : "a list"))
		return false;
	if (j->depth == JSON_DEPTH_MAX)
		return json_wrong(j, "nested too deeply");
	j->depth++;
	j->begun &= ~(UINT64_C(1) << j->depth);
	return true;
}

/* Is there another element? Eats the comma before it, or the closing bracket. */
static bool
more(struct json *j, char close)
{
	uint64_t bit = UINT64_C(1) << j->depth;

	if (json_peek(j) == 0)
		return json_wrong(j, "the text ends too early");
	if (*j->at == close) {
		j->at++;
		j->depth--;
		return false;
	}
	if ((j->begun & bit) != 0 && !json_take(j, ',', "a comma"))
		return false;
	j->begun |= bit;
	return true;
}

bool
json_item(struct json *j)
{
	return more(j, ']');
}

bool
json_member(struct json *j)
{
	const char *begin;
	size_t len;
	bool nul;

	if (!json_ok(j) || !more(j, '}'))
		return false;
	json_peek(j);
	begin = j->at;
	len = json_string(j, NULL, &nul);
	if (!json_ok(j))
		return false;
	if (len > JSON_KEY_MAX || nul)
		return json_wrong(j, "member name too long or with NUL");
	j->at = begin;
	json_string(j, j->key, &nul);
	j->key[len] = '\0';
	return json_take(j, ':', "a colon");
}

static bool
digits(struct json *j)
{
	if (j->at == j->end || *j->at < '0' || *j->at > '9')
		return json_wrong(j, "digit expected");
	while (j->at < j->end && *j->at >= '0' && *j->at <= '9')
		j->at++;
	return true;
}

static bool
number(struct json *j)
{
	if (*j->at == '-')
		j->at++;
	if (j->at < j->end && *j->at == '0')
		j->at++;
	else if (!digits(j))
		return false;
	if (j->at < j->end && *j->at == '.') {
		j->at++;
		if (!digits(j))
			return false;
	}
	if (j->at < j->end && (*j->at | 0x20) == 'e') {
		j->at++;
		if (j->at < j->end && (*j->at == '+' || *j->at == '-'))
			j->at++;
		return digits(j);
	}
	return true;
}

bool
json_uint(struct json *j, uint64_t max, uint64_t *v)
{
	const char *p;

	if (json_peek(j) != '0')
		return json_wrong(j, "a number expected");
	p = j->at;
	if (!number(j))
		return false;
	*v = 0;
	for (; p < j->at; p++) {
		unsigned digit = (unsigned)(*p - '0');

		if (digit > 9)
			return json_wrong(j, "a whole number, not negative, expected");
		if (*v > (max - MIN(max, digit)) / 10 || *v * 10 + digit > max)
			return json_wrong(j, "number greater than %llu", (unsigned long long)max);
		*v = *v * 10 + digit;
	}
	return true;
}

static bool
word(struct json *j, const char *text)
{
	size_t len = strlen(text);

	if (json_peek(j) == 0 || (size_t)(j->end - j->at) < len || memcmp(j->at, text, len) != 0)
		return json_wrong(j, "a value expected");
	j->at += len;
	return true;
}

bool
json_bool(struct json *j, bool *v)
{
	char c = json_peek(j);

	if (c != 't' && c != 'f')
		return json_wrong(j, "true or false expected");
	*v = c == 't';
	return word(j, *v ? "true" : "false");
}

/* Recursion is bounded by JSON_DEPTH_MAX, which json_open holds. */
static bool
skip(struct json *j)
{
	bool nul;

	switch (json_peek(j)) {
	case '{':
		json_open(j, '{');
		while (json_ok(j) && more(j, '}')) {
			json_string(j, NULL, &nul);
			json_take(j, ':', "a colon");
			skip(j);
		}
		return json_ok(j);
	case '[':
		json_open(j, '[');
		while (json_ok(j) && more(j, ']'))
			skip(j);
		return json_ok(j);
	case '"':
		json_string(j, NULL, &nul);
		return json_ok(j);
	case '0':
		return number(j);
	case 't':
		return word(j, "true");
	case 'f':
		return word(j, "false");
	default:
		return word(j, "null");
	}
}

bool
json_raw(struct json *j, const char **at, size_t *len)
{
	const char *begin;

	json_peek(j);
	begin = j->at;
	if (!json_ok(j) || !skip(j))
		return false;
	if (at != NULL)
		*at = begin;
	if (len != NULL)
		*len = (size_t)(j->at - begin);
	return true;
}
