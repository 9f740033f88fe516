#include <assert.h>
#include <string.h>

#include "model/json.h"

static void
text_field(struct json *j, const struct field *f, char **to)
{
	auto_free char *text = NULL;

	if (!json_text(j, &text, f->max))
		return;
	if (f->check != NULL && !f->check(text, strlen(text))) {
		json_wrong(j, "%s: '%.60s' is not allowed", f->name, text);
		return;
	}
	free(*to);
	*to = take_ptr(&text);
}

static void
field_value(struct json *j, const struct field *f, void *to)
{
	void *at = (char *)to + f->offset;
	uint64_t v = 0;

	if (f->kind >= FIELD_UINT8 && f->kind <= FIELD_UINT64 && !json_uint(j, f->max, &v))
		return;
	switch (f->kind) {
	case FIELD_TEXT:
		text_field(j, f, at);
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

void
json_fields(struct json *j, const struct field *fields, size_t n, void *to)
{
	uint64_t seen = 0;

	assert(n <= 64);
	if (!json_open(j, '{'))
		return;
	while (json_member(j)) {
		size_t i = 0;

		while (i < n && strcmp(fields[i].name, j->key) != 0)
			i++;
		if (i == n || json_peek(j) == 'n') {
			json_raw(j, NULL, NULL);
			continue;
		}
		if ((seen & UINT64_C(1) << i) != 0) {
			json_wrong(j, "member %s twice", fields[i].name);
			return;
		}
		seen |= UINT64_C(1) << i;
		field_value(j, &fields[i], to);
	}
}
