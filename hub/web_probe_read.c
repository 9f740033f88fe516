#include "hub/web_probe.h"

#include <errno.h>
#include <string.h>

#include "base/http1.h"
#include "model/json.h"
#include "model/mesh.h"

enum { WORD_MAX = 16 };

struct one {
	char *address, *node, *health;
	uint16_t port;
};

struct reading {
	struct buf *said;
	size_t n;
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
	if (json_ok(j) && r->n++ < PROBE_ENDPOINTS) {
		buf_printf(r->said, "%s{\"port\":%u,\"address\":", r->n > 1 ? "," : "", one.port);
		json_add_text(r->said, one.address);
		buf_adds(r->said, ",\"node\":");
		json_add_text(r->said, one.node);
		buf_adds(r->said, ",\"health\":");
		json_add_text(r->said, one.health);
		buf_adds(r->said, "}");
	}
	free(one.address);
	free(one.node);
	free(one.health);
}

static void
read_list(struct json *j, void *to)
{
	json_list(j, read_one, to);
}

static int
read_body(const char *text, size_t len, struct buf *said)
{
	static const struct field fields[] = {
		{"endpoints", FIELD_CUSTOM, 0, 0, NULL, read_list},
	};
	struct reading r = {said, 0};
	struct err err = {0};
	struct json j;

	buf_adds(said, "[");
	json_init(&j, text, len);
	json_fields(&j, fields, ARRAY_LEN(fields), &r);
	buf_adds(said, "]");
	return json_finish(&j, &err);
}

int
probe_read(const char *data, size_t len, struct buf *said, const char **why)
{
	auto_free struct http1_head *h = xcalloc(1, sizeof *h);
	size_t from = 0;
	ssize_t n = http1_find_end(data, len, &from);

	*why = "its agent does not answer as agents do";
	if (n <= 0 || http1_parse_response(h, data, (size_t)n, false) != 0)
		return -EBADMSG;
	if (h->status == 404)
		*why = "its agent is older, and does not tell";
	if (h->status != 200 || !h->has_length || h->length != len - (size_t)n)
		return -EBADMSG;
	return read_body(data + n, len - (size_t)n, said);
}
