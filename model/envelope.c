#include "model/envelope.h"

#include <errno.h>
#include <stdio.h>

#include "model/json.h"

enum { ID_MAX = 128, RESOURCE_MAX = 1024, OTHER_MAX = 256, HEAD_MAX = 8192 };

static const char *const operations[] = {
	[OP_INSERT] = "insert",
	[OP_UPDATE] = "update",
	[OP_DELETE] = "delete",
	[OP_QUERY] = "query",
	[OP_RESPONSE] = "response",
	[OP_ERROR] = "error",
	[OP_KEEPALIVE] = "keepalive",
};

/* While parsing: which parts came, and the operation's name. */
struct parsing {
	struct envelope e;
	char *operation;
	bool header, route;
};

const char *
operation_name(enum operation op)
{
	return operations[op];
}

void
envelope_fini(struct envelope *e)
{
	free(e->id);
	free(e->parent_id);
	free(e->source);
	free(e->group);
	free(e->resource);
	free(e->resource_version);
	free(e->content);
	*e = (struct envelope){0};
}

static void
parse_header(struct json *j, void *to)
{
	static const struct field fields[] = {
		{"msg_id", FIELD_TEXT, offsetof(struct parsing, e.id), ID_MAX, NULL, NULL},
		{"parent_msg_id", FIELD_TEXT, offsetof(struct parsing, e.parent_id), ID_MAX, NULL,
			NULL},
		{"timestamp", FIELD_UINT64, offsetof(struct parsing, e.timestamp_ms),
			JSON_NUMBER_MAX, NULL, NULL},
		{"resourceversion", FIELD_TEXT, offsetof(struct parsing, e.resource_version),
			OTHER_MAX, NULL, NULL},
		{"sync", FIELD_BOOL, offsetof(struct parsing, e.sync), 0, NULL, NULL},
	};
	struct parsing *p = to;

	p->header = true;
	json_fields(j, fields, ARRAY_LEN(fields), to);
}

static void
parse_route(struct json *j, void *to)
{
	static const struct field fields[] = {
		{"source", FIELD_TEXT, offsetof(struct parsing, e.source), OTHER_MAX, NULL, NULL},
		{"group", FIELD_TEXT, offsetof(struct parsing, e.group), OTHER_MAX, NULL, NULL},
		{"operation", FIELD_TEXT, offsetof(struct parsing, operation), OTHER_MAX, NULL,
			NULL},
		{"resource", FIELD_TEXT, offsetof(struct parsing, e.resource), RESOURCE_MAX, NULL,
			NULL},
	};
	struct parsing *p = to;

	p->route = true;
	json_fields(j, fields, ARRAY_LEN(fields), to);
}

static void
parse_content(struct json *j, void *to)
{
	struct parsing *p = to;

	p->e.content = json_print(j, &p->e.content_len);
}

static void
fill_empty(struct envelope *e)
{
	char **texts[] = {&e->id, &e->parent_id, &e->source, &e->group, &e->resource,
		&e->resource_version, &e->content};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (*texts[i] == NULL)
			*texts[i] = xstrdup("");
}

static int
find_operation(struct envelope *e, const char *name, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
		if (strcmp(operations[i], name) == 0) {
			e->operation = (enum operation)i;
			return 0;
		}
	}
	return err_set(err, EOPNOTSUPP, "operation '%.40s' is not known here", name);
}

int
envelope_parse(struct envelope *e, const char *text, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"header", FIELD_CUSTOM, 0, 0, NULL, parse_header},
		{"route", FIELD_CUSTOM, 0, 0, NULL, parse_route},
		{"content", FIELD_CUSTOM, 0, 0, NULL, parse_content},
	};
	struct parsing p = {0};
	struct json j;
	int rc;

	*e = (struct envelope){0};
	if (len > ENVELOPE_MAX_BYTES)
		return err_set(err, EMSGSIZE, "message of %zu bytes, at most %d are allowed", len,
			(int)ENVELOPE_MAX_BYTES);
	json_init(&j, text, len);
	json_fields(&j, fields, ARRAY_LEN(fields), &p);
	rc = json_finish(&j, err);
	if (rc == 0 && (!p.header || !p.route || p.operation == NULL))
		rc = err_set(err, EBADMSG, "message without header, route or operation");
	if (rc == 0)
		rc = find_operation(&p.e, p.operation, err);
	free(p.operation);
	if (rc < 0 && rc != -EOPNOTSUPP) {
		envelope_fini(&p.e);
		return err_wrap(err, rc, "envelope");
	}
	fill_empty(&p.e);
	*e = p.e;
	return rc;
}

/* Length of the text up to the end of the second object inside the outer one; 0: there are not
 * two. */
static size_t
envelope_head_len(const char *text, size_t len)
{
	unsigned depth = 0, ended = 0;
	bool in_string = false;

	for (size_t i = 0; i < len; i++) {
		if (in_string && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_string = !in_string;
		else if (!in_string && text[i] == '{')
			depth++;
		else if (!in_string && text[i] == '}' && depth-- == 2 && ++ended == 2)
			return i + 1;
	}
	return 0;
}

bool
envelope_head(struct envelope *e, const char *text, size_t len)
{
	size_t n = envelope_head_len(text, MIN(len, (size_t)HEAD_MAX));
	auto_buf struct buf head;
	int rc = -EBADMSG;

	*e = (struct envelope){0};
	buf_init(&head, BUF_UNLIMITED);
	if (n > 0) {
		buf_add(&head, text, n);
		buf_adds(&head, "}");
		rc = envelope_parse(e, buf_at(&head), buf_len(&head), NULL);
	}
	return rc == 0 || rc == -EOPNOTSUPP;
}

static void
add_member(struct buf *out, const char *before, const char *text)
{
	buf_adds(out, before);
	json_add_text(out, text);
}

void
envelope_build(struct buf *out, const struct envelope *e)
{
	add_member(out, "{\"header\":{\"msg_id\":", e->id);
	add_member(out, ",\"parent_msg_id\":", e->parent_id);
	buf_printf(out, ",\"timestamp\":%llu", (unsigned long long)e->timestamp_ms);
	add_member(out, ",\"resourceversion\":", e->resource_version);
	buf_printf(out, ",\"sync\":%s", e->sync ? "true" : "false");
	add_member(out, "},\"route\":{\"source\":", e->source);
	add_member(out, ",\"group\":", e->group);
	add_member(out, ",\"operation\":", operation_name(e->operation));
	add_member(out, ",\"resource\":", e->resource);
	buf_adds(out, "}");
	if (e->content != NULL && e->content_len > 0) {
		buf_adds(out, ",\"content\":");
		buf_add(out, e->content, e->content_len);
	}
	buf_adds(out, "}");
}

void
envelope_say(struct buf *out, const struct saying *s, const char *id)
{
	char resource[RESOURCE_MAX + 1], parent[ID_MAX + 1], group[] = "resource";
	const struct envelope e = {
		.id = (char *)(uintptr_t)id,
		.parent_id = parent,
		.timestamp_ms = wall_ms(),
		.source = (char *)(uintptr_t)s->source,
		.group = group,
		.resource = resource,
		.operation = s->operation,
		.content = (char *)(uintptr_t)s->content,
		.content_len = s->content != NULL ? s->content_len : 0,
	};

	/* Texts from a peer may be long; the protocol has no id or resource of this length. */
	snprintf(resource, sizeof resource, "%s", s->resource);
	snprintf(parent, sizeof parent, "%s", s->parent != NULL ? s->parent : "");
	envelope_build(out, &e);
}

void
envelope_new_id(char id[37])
{
	unsigned char b[16];

	random_bytes(b, sizeof b);
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(id, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
		b[13], b[14], b[15]);
}
