#include "base/os/dbus_message.h"

#include <endian.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#define ERROR "org.freedesktop.DBus.Error."

enum {
	ORDER = BYTE_ORDER == LITTLE_ENDIAN ? 'l' : 'B',
	TYPE_RETURN = 2,
	TYPE_ERROR = 3,
	VERSION = 1,
	FIELD_ERROR_NAME = 4,
	FIELD_SIGNATURE = 8,
	HEAD_BYTES = 16, /* before the fields */
	ALIGN = 8,
};

/* A message's bytes; `bad` once something would have been beyond their end. */
struct dbus_cursor {
	const char *at;
	size_t len, pos;
	bool bad;
};

static const char *
dbus_take(struct dbus_cursor *c, size_t align, size_t n)
{
	size_t pos = (c->pos + align - 1) / align * align;

	if (c->bad || pos > c->len || n > c->len - pos) {
		c->bad = true;
		return NULL;
	}
	c->pos = pos + n;
	return c->at + pos;
}

static uint32_t
dbus_take_u32(struct dbus_cursor *c)
{
	const char *at = dbus_take(c, sizeof(uint32_t), sizeof(uint32_t));
	uint32_t n = 0;

	if (at != NULL)
		memcpy(&n, at, sizeof n);
	return n;
}

/* "" where there is none. */
static const char *
dbus_take_string(struct dbus_cursor *c, bool is_signature)
{
	const char *one = is_signature ? dbus_take(c, 1, 1) : NULL, *text;
	size_t len = one != NULL ? (uint8_t)*one : is_signature ? 0 : dbus_take_u32(c);

	c->bad |= len >= c->len; /* of 32 bits len + 1 might be 0 */
	text = dbus_take(c, 1, len + 1);
	c->bad |= text != NULL && text[len] != '\0';
	return c->bad ? "" : text;
}

/* The values of the fields that a reply may have. */
static void
dbus_read_fields(struct dbus_cursor *c, const char **error, const char **signature)
{
	*error = *signature = "";
	while (!c->bad && c->pos < c->len) {
		const char *code = dbus_take(c, ALIGN, 1);
		const char *type = dbus_take_string(c, true);
		const char *value = "";

		if (strcmp(type, "u") == 0)
			dbus_take_u32(c);
		else if (strcmp(type, "s") == 0 || strcmp(type, "o") == 0)
			value = dbus_take_string(c, false);
		else if (strcmp(type, "g") == 0)
			value = dbus_take_string(c, true);
		else
			c->bad = true;
		if (code != NULL && *code == FIELD_ERROR_NAME)
			*error = value;
		else if (code != NULL && *code == FIELD_SIGNATURE)
			*signature = value;
	}
}

/* The fields end at `fields`. False: it makes no sense. */
static bool
dbus_message_parse(struct dbus_message *m, const char *at, size_t fields)
{
	struct dbus_cursor head = {.at = at, .len = fields, .pos = HEAD_BYTES};
	struct dbus_cursor body = {.at = at, .len = m->size, .pos = fields};
	const char *error, *signature;

	dbus_read_fields(&head, &error, &signature);
	if (head.bad)
		return false;
	m->error = at[1] == TYPE_ERROR;
	m->reply = m->error || at[1] == TYPE_RETURN;
	if (!m->error)
		return true;
	m->absent = strcmp(error, ERROR "ServiceUnknown") == 0 ||
		strcmp(error, ERROR "NameHasNoOwner") == 0;
	dbus_take(&body, ALIGN, 0);
	if (signature[0] == 's')
		m->text = dbus_take_string(&body, false);
	if (m->text[0] == '\0')
		m->text = error;
	return !body.bad;
}

int
dbus_message_read(struct dbus_message *m, const char *at, size_t len)
{
	struct dbus_cursor c = {.at = at, .len = HEAD_BYTES, .pos = 4};
	uint32_t body, fields;

	*m = (struct dbus_message){.text = ""};
	if (len < HEAD_BYTES)
		return 0;
	body = dbus_take_u32(&c);
	dbus_take_u32(&c); /* serial */
	fields = dbus_take_u32(&c);
	if (at[0] != ORDER || at[3] != VERSION || body > DBUS_MESSAGE_MAX ||
		fields > DBUS_MESSAGE_MAX)
		return -EBADMSG;
	m->size = HEAD_BYTES + (fields + ALIGN - 1u) / ALIGN * ALIGN + body;
	if (m->size > DBUS_MESSAGE_MAX)
		return -EBADMSG;
	if (len < m->size)
		return 0;
	return dbus_message_parse(m, at, HEAD_BYTES + fields) ? 1 : -EBADMSG;
}
