#include "tracing/otlp.h"

#include <string.h>

#include "base/core/log.h"
#include "model/json.h"
#include "tracing/otlp_span.h"
#include "tracing/reply.h"

#define SCHEMA "\"schemaUrl\":\"https://opentelemetry.io/schemas/1.26.0\""

void
otlp_begin(struct otlp *o, const struct otlp_resource *who)
{
	struct otlp_list l = {&o->out, ""};

	o->scope = NULL;
	buf_adds(&o->out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
	otlp_text(&l, "service.name", who->program);
	otlp_text(&l, "service.version", EDGEWAY_VERSION);
	otlp_text(&l, "service.instance.id", who->name);
	otlp_text(&l, "host.name", who->name);
	if (who->is_node)
		otlp_text(&l, "k8s.node.name", who->name);
	buf_adds(&o->out, "]},\"scopeSpans\":[");
}

/* Successive spans of one part of the program share a scope. */
static void
begin_scope(struct otlp *o, const char *scope)
{
	if (o->scope != NULL)
		buf_adds(&o->out, "]," SCHEMA "},");
	buf_printf(&o->out,
		"{\"scope\":{\"name\":\"%s\",\"version\":\"" EDGEWAY_VERSION "\"},\"spans\":[",
		scope);
	o->scope = scope;
}

void
otlp_add(struct otlp *o, const struct trace_span *s)
{
	const char *scope = otlp_scope(s);

	if (o->scope == NULL || strcmp(o->scope, scope) != 0)
		begin_scope(o, scope);
	else
		buf_adds(&o->out, ",");
	otlp_span(&o->out, s);
}

void
otlp_end(struct otlp *o)
{
	if (o->scope != NULL)
		buf_adds(&o->out, "]," SCHEMA "}");
	buf_adds(&o->out, "]," SCHEMA "}]}");
}

/* --- the response --------------------------------------------------------------------------- */

struct partial {
	char *rejected, *message;
};

/* A 64-bit number is a string in this mapping; a plain number is accepted as well. */
static void
read_rejected(struct json *j, void *to)
{
	struct partial *p = to;
	size_t len;
	char *printed = json_print(j, &len);

	free(p->rejected);
	p->rejected = printed;
}

static void
read_partial(struct json *j, void *to)
{
	static const struct field fields[] = {
		{"rejectedSpans", FIELD_CUSTOM, 0, 0, NULL, read_rejected},
		{"errorMessage", FIELD_TEXT, offsetof(struct partial, message), REPLY_MAX, NULL,
			NULL},
	};

	json_fields(j, fields, ARRAY_LEN(fields), to);
}

uint64_t
otlp_rejected(const char *body, size_t len, char *why, size_t size)
{
	static const struct field fields[] = {
		{"partialSuccess", FIELD_CUSTOM, 0, 0, NULL, read_partial},
	};
	struct partial p = {0};
	struct json j;
	uint64_t n = 0;

	why[0] = '\0';
	json_init(&j, body, len);
	json_fields(&j, fields, ARRAY_LEN(fields), &p);
	if (json_finish(&j, NULL) == 0) {
		const char *digits = p.rejected != NULL ? p.rejected + (p.rejected[0] == '"') : "";

		if (*digits >= '0' && *digits <= '9')
			n = strtoull(digits, NULL, 10);
		if (p.message != NULL)
			log_clean(why, size, p.message);
	}
	free(p.rejected);
	free(p.message);
	return n;
}
