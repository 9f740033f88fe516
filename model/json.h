/*
 * Reads JSON (RFC 8259) from peers with cJSON, and writes texts as cJSON writes them. What cJSON
 * wrongly accepts, or needs too much memory for, is refused before cJSON sees it (json_guard.c):
 * invalid UTF-8, NUL and control characters, more than JSON_DEPTH_MAX levels or JSON_VALUES_MAX
 * values, which limits the tree to some 35 MB. Nothing may follow the value; a known member may
 * occur only once.
 *
 * A reader points at one value, at first the whole text. After the first error all functions do
 * nothing; so check once, with json_finish, which also frees the tree:
 *
 *	json_init(&j, text, len);
 *	json_fields(&j, fields, ARRAY_LEN(fields), &thing);
 *	if ((rc = json_finish(&j, err)) < 0)
 *		...free what `thing` holds...
 *
 * Numbers are doubles in cJSON, so none that we read may be greater than JSON_NUMBER_MAX. Leaf
 * without state of its own; any thread.
 */
#ifndef EDGEWAY_MODEL_JSON_H
#define EDGEWAY_MODEL_JSON_H

#include "base/core/buf.h"
#include "base/core/err.h"
#include "model/limits.h"

/* Up to here a double represents every integer exactly. */
#define JSON_NUMBER_MAX ((UINT64_C(1) << 53) - 1)

struct cJSON;

struct json {
	struct cJSON *tree;
	const struct cJSON *at; /* the value to read */
	const char *key; /* name of the member that the value is, or is in; NULL at the top */
	char wrong[160]; /* first complaint, "" when all is well */
};

typedef void json_fn(struct json *j, void *to);

/* The text is not needed afterwards. */
void json_init(struct json *j, const char *text, size_t len);
/* 0 when nothing was wrong, else -EBADMSG. */
int json_finish(struct json *j, struct err *err);
bool json_ok(const struct json *j);
/* Records an error, prefixed with the member's name, unless there was one before; always false. */
bool json_wrong(struct json *j, const char *fmt, ...) printf_like(2, 3);

/* Calls fn with the reader at each item in turn. */
void json_list(struct json *j, json_fn *fn, void *to);
/* Calls fn with the reader at each member in turn, its name in j->key. */
void json_map(struct json *j, json_fn *fn, void *to);
/* Reads a string of at most max bytes, on the heap. */
bool json_text(struct json *j, char **text, size_t max);
bool json_uint(struct json *j, uint64_t max, uint64_t *v);
bool json_bool(struct json *j, bool *v);
/* Any value as cJSON writes it, without blanks; heap, NULL after an error. */
char *json_print(struct json *j, size_t *len);

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
	json_fn *custom;
};

/* Reads an object. Absent texts that were NULL before stay NULL. */
void json_fields(struct json *j, const struct field *fields, size_t n, void *to);

/* Number of values in a text that we wrote: peers accept at most JSON_VALUES_MAX. */
size_t json_values(const char *text, size_t len);

/* Appends a quoted string exactly as json_print would write it; bytes that are not UTF-8 become
 * U+FFFD. NULL is "". */
void json_add_text(struct buf *out, const char *text);

#endif
