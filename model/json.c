#include "model/json.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "model/json_private.h"

void
json_init(struct json *j, const char *text, size_t len)
{
	const char *stop = text;

	*j = (struct json){0};
	if (!json_guard(j, text, len))
		return;
	j->tree = cJSON_ParseWithLengthOpts(text, len, &stop, false);
	j->at = j->tree;
	if (j->tree == NULL) {
		json_wrong(j, "byte %zu: not JSON", (size_t)(stop - text));
		return;
	}
	for (; stop < text + len; stop++) {
		if (strchr(" \t\r\n", *stop) == NULL) {
			json_wrong(j, "byte %zu: text after the value", (size_t)(stop - text));
			return;
		}
	}
}

int
json_finish(struct json *j, struct err *err)
{
	cJSON_Delete(take_ptr(&j->tree));
	j->at = NULL;
	j->key = NULL;
	return json_ok(j) ? 0 : err_set(err, EBADMSG, "%s", j->wrong);
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
	int n = 0;

	if (!json_ok(j))
		return false;
	if (j->key != NULL)
		n = snprintf(j->wrong, sizeof j->wrong, "%.60s: ", j->key);
	va_start(ap, fmt);
	vsnprintf(j->wrong + n, sizeof j->wrong - (size_t)n, fmt, ap);
	va_end(ap);
	return false;
}

/* Calls fn with the reader at each child of a list or an object. */
static void
each_child(struct json *j, json_fn *fn, void *to)
{
	const struct cJSON *parent = j->at;
	const char *key = j->key;

	for (j->at = parent->child; j->at != NULL && json_ok(j);) {
		const struct cJSON *child = j->at;

		if (child->string != NULL)
			j->key = child->string;
		fn(j, to);
		j->at = child->next;
	}
	j->at = parent;
	j->key = key;
}

void
json_list(struct json *j, json_fn *fn, void *to)
{
	if (json_ok(j) && (cJSON_IsArray(j->at) || json_wrong(j, "a list expected")))
		each_child(j, fn, to);
}

void
json_map(struct json *j, json_fn *fn, void *to)
{
	if (json_ok(j) && (cJSON_IsObject(j->at) || json_wrong(j, "an object expected")))
		each_child(j, fn, to);
}

bool
json_text(struct json *j, char **text, size_t max)
{
	size_t len;

	if (!json_ok(j))
		return false;
	if (!cJSON_IsString(j->at))
		return json_wrong(j, "a string expected");
	len = strlen(j->at->valuestring);
	if (len > max)
		return json_wrong(j, "string of %zu bytes, at most %zu are allowed", len, max);
	*text = xstrndup(j->at->valuestring, len);
	return true;
}

bool
json_uint(struct json *j, uint64_t max, uint64_t *v)
{
	double d;

	max = MIN(max, JSON_NUMBER_MAX);
	if (!json_ok(j))
		return false;
	if (!cJSON_IsNumber(j->at))
		return json_wrong(j, "a number expected");
	d = j->at->valuedouble;
	if (d > (double)max)
		return json_wrong(j, "number greater than %llu", (unsigned long long)max);
	if (!(d >= 0) || (double)(uint64_t)d != d)
		return json_wrong(j, "a whole number, not negative, expected");
	*v = (uint64_t)d;
	return true;
}

bool
json_bool(struct json *j, bool *v)
{
	if (!json_ok(j))
		return false;
	if (!cJSON_IsBool(j->at))
		return json_wrong(j, "true or false expected");
	*v = cJSON_IsTrue(j->at);
	return true;
}

char *
json_print(struct json *j, size_t *len)
{
	char *text;

	*len = 0;
	if (!json_ok(j))
		return NULL;
	text = cJSON_PrintUnformatted(j->at);
	assert(text != NULL); /* fails only without memory */
	*len = strlen(text);
	return text;
}

/* --- objects described by a table ----------------------------------------------------------- */

struct filling {
	const struct field *fields;
	size_t n;
	size_t next; /* likely the next member: writers keep an order too */
	uint64_t seen; /* bit i: fields[i] has come */
	void *to;
};

static void
read_text(struct json *j, const struct field *f, char **to)
{
	auto_free char *text = NULL;

	if (!json_text(j, &text, f->max))
		return;
	if (f->check != NULL && !f->check(text, strlen(text))) {
		json_wrong(j, "'%.60s' is not allowed", text);
		return;
	}
	free(*to);
	*to = take_ptr(&text);
}

static void
read_field(struct json *j, const struct field *f, void *to)
{
	void *at = (char *)to + f->offset;
	uint64_t v = 0;

	if (f->kind >= FIELD_UINT8 && f->kind <= FIELD_UINT64 && !json_uint(j, f->max, &v))
		return;
	switch (f->kind) {
	case FIELD_TEXT:
		read_text(j, f, at);
		break;
	case FIELD_UINT8:
		*(uint8_t *)at = (uint8_t)v;
		break;
	case FIELD_UINT16:
		*(uint16_t *)at = (uint16_t)v;
		break;
	case FIELD_UINT32:
		*(uint32_t *)at = (uint32_t)v;
		break;
	case FIELD_UINT64:
		*(uint64_t *)at = v;
		break;
	case FIELD_BOOL:
		json_bool(j, at);
		break;
	case FIELD_CUSTOM:
		f->custom(j, to);
		break;
	}
}

/* The field's index; n: no field has this name. */
static size_t
find_field(const struct filling *f, const char *key)
{
	size_t at = f->next;

	for (size_t i = 0; i < f->n; i++) {
		if (strcmp(f->fields[at].name, key) == 0)
			return at;
		at = at + 1 < f->n ? at + 1 : 0;
	}
	return f->n;
}

static void
read_member(struct json *j, void *arg)
{
	struct filling *f = arg;
	size_t i = find_field(f, j->key);

	if (i == f->n)
		return;
	f->next = i + 1 < f->n ? i + 1 : 0;
	if (cJSON_IsNull(j->at))
		return;
	if ((f->seen & UINT64_C(1) << i) != 0) {
		json_wrong(j, "member comes twice");
		return;
	}
	f->seen |= UINT64_C(1) << i;
	read_field(j, &f->fields[i], f->to);
}

void
json_fields(struct json *j, const struct field *fields, size_t n, void *to)
{
	struct filling f = {.fields = fields, .n = n, .to = to};

	assert(n <= 64);
	json_map(j, read_member, &f);
}
