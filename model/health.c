#include "model/health.h"

#include <errno.h>
#include <string.h>

#include "base/core/sock.h"
#include "model/json.h"
#include "model/mesh.h"

enum { WORD_MAX = 16 };

/* --- writing -------------------------------------------------------------------------------- */

static void
add_one(struct buf *out, const char *comma, const struct health_of *one)
{
	buf_printf(out, "%s{\"port\":%u,\"address\":", comma, one->port);
	json_add_text(out, one->address);
	buf_adds(out, ",\"node\":");
	json_add_text(out, one->node);
	buf_adds(out, ",\"health\":");
	json_add_text(out, one->health);
	buf_adds(out, "}");
}

void
health_begin(struct health_text *t, struct buf *out, bool known)
{
	*t = (struct health_text){.out = out};
	buf_printf(out, "{\"known\":%s,\"endpoints\":[", known ? "true" : "false");
}

void
health_add(struct health_text *t, const struct health_of *one)
{
	if (t->n >= HEALTH_ENDPOINTS_MAX) {
		t->more++;
		return;
	}
	add_one(t->out, t->n > 0 ? "," : "", one);
	t->n++;
}

void
health_end(struct health_text *t)
{
	buf_printf(t->out, "],\"more\":%u}", t->more);
}

/* --- reading -------------------------------------------------------------------------------- */

struct one {
	char *address, *node, *health;
	uint16_t port;
};

struct reading {
	struct health_said *to;
	unsigned n;
};

static bool
is_health(const char *text, size_t len)
{
	static const char *const words[] = {"up", "ill", "ejected", "unused"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
			return true;
	return false;
}

static const char *
or_empty(const char *text)
{
	return text != NULL ? text : "";
}

static void
read_one(struct json *j, void *to)
{
	static const struct field fields[] = {
		{"address", FIELD_TEXT, offsetof(struct one, address), ADDR_TEXT_MAX, NULL, NULL},
		{"node", FIELD_TEXT, offsetof(struct one, node), MESH_NODE_MAX, NULL, NULL},
		{"health", FIELD_TEXT, offsetof(struct one, health), WORD_MAX, is_health, NULL},
		{"port", FIELD_UINT16, offsetof(struct one, port), UINT16_MAX, NULL, NULL},
	};
	struct reading *r = to;
	struct one one = {0};

	json_fields(j, fields, ARRAY_LEN(fields), &one);
	if (json_ok(j) && one.health == NULL)
		json_wrong(j, "an endpoint without health");
	else if (json_ok(j) && r->n >= HEALTH_ENDPOINTS_MAX)
		json_wrong(j, "more than %d endpoints", HEALTH_ENDPOINTS_MAX);
	else if (json_ok(j))
		add_one(&r->to->list, r->n++ > 0 ? "," : "",
			&(struct health_of){
				one.port, or_empty(one.address), or_empty(one.node), one.health});
	free(one.address);
	free(one.node);
	free(one.health);
}

static void
read_list(struct json *j, void *to)
{
	struct reading r = {to, 0};

	json_list(j, read_one, &r);
}

int
health_read(struct health_said *to, const char *json, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"known", FIELD_BOOL, offsetof(struct health_said, known), 0, NULL, NULL},
		{"more", FIELD_UINT32, offsetof(struct health_said, more), UINT32_MAX, NULL, NULL},
		{"endpoints", FIELD_CUSTOM, 0, 0, NULL, read_list},
	};
	struct json j;

	*to = (struct health_said){0};
	buf_init(&to->list, BUF_UNLIMITED);
	if (len == 0 || len > HEALTH_BYTES_MAX)
		return err_set(err, EBADMSG, "an answer of %zu bytes", len);
	buf_adds(&to->list, "[");
	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), to);
	buf_adds(&to->list, "]");
	return json_finish(&j, err);
}

void
health_fini(struct health_said *said)
{
	buf_fini(&said->list);
}
