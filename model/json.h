/*
 * Reading and writing JSON (RFC 8259) that a peer sent, without building a tree: memory stays in
 * proportion to what is kept, whatever the peer sends, and a value can be had as raw text. Strict:
 *UTF-8 is checked, nesting is bounded, nothing may follow the value, a known member may come once.
 *
 * Every function does nothing once something was wrong; so check once, at the end:
 *
 *	json_init(&j, text, len);
 *	json_fields(&j, fields, ARRAY_LEN(fields), &thing);
 *	if ((rc = json_finish(&j, err)) < 0)
 *		...free what `thing` holds...
 *
 * Leaf without state of its own; any thread.
 */
#ifndef EDGEWAY_MODEL_JSON_H
#define EDGEWAY_MODEL_JSON_H

#include "base/buf.h"
#include "base/err.h"

enum { JSON_DEPTH_MAX = 63, JSON_KEY_MAX = 255 };

struct json {
	const char *start, *at, *end;
	unsigned depth;
	uint64_t begun; /* bit d: the container at depth d has had a member */
	char wrong[160]; /* first complaint, "" when all is well */
	char key[JSON_KEY_MAX + 1]; /* of the current member */
};

void json_init(struct json *j, const char *text, size_t len);
/* The whole text was one value and nothing was wrong: 0; else -EBADMSG with "byte N: what". */
int json_finish(struct json *j, struct err *err);
bool json_ok(const struct json *j);
/* Says what is wrong, unless something was before; always false. */
bool json_wrong(struct json *j, const char *fmt, ...) printf_like(2, 3);

/* '{' '[' '"' 't' 'f' 'n' '0' for what comes next, 0 at the end or after an error. */
char json_peek(struct json *j);
bool json_open(struct json *j, char bracket); /* '{' or '[' */
bool json_member(struct json *j); /* next member, its name in j->key; false after the last */
bool json_item(struct json *j); /* next item; false after the last */
/* A string of at most max bytes, decoded, on the heap; NUL characters are refused. */
bool json_text(struct json *j, char **text, size_t max);
bool json_uint(struct json *j, uint64_t max, uint64_t *v);
bool json_bool(struct json *j, bool *v);
/* Any value, checked; its raw text. Both pointers may be NULL. */
bool json_raw(struct json *j, const char **at, size_t *len);

enum field_kind {
	FIELD_TEXT,
	FIELD_UINT8,
	FIELD_UINT16,
	FIELD_UINT32,
	FIELD_UINT64,
	FIELD_BOOL,
	FIELD_CUSTOM
};

/* One member of an object. Unknown members and nulls are skipped. */
struct field {
	const char *name;
	enum field_kind kind;
	size_t offset; /* in the structure to fill; FIELD_CUSTOM gets the structure */
	uint64_t max; /* bytes of a text, greatest number */
	bool (*check)(const char *text, size_t len); /* NULL: any text */
	void (*custom)(struct json *j, void *to);
};

/* An object. Texts that were NULL before and are absent stay NULL. */
void json_fields(struct json *j, const struct field *fields, size_t n, void *to);

/* Appends a string with its quotes; bytes that are not UTF-8 become U+FFFD. NULL is "". */
void json_add_text(struct buf *out, const char *text);

#endif
