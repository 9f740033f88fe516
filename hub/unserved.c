#include "hub/unserved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"
#include "model/mesh.h"

static void
take_key(struct json *j, void *to)
{
	struct unserved *u = to;
	char *key = NULL;

	if (!json_text(j, &key, MESH_NAME_MAX + MESH_SERVICE_MAX + 1))
		return;
	if (u->keys == NULL)
		u->keys = xcalloc(UNSERVED_KEYS_MAX, sizeof *u->keys);
	if (u->n < UNSERVED_KEYS_MAX)
		u->keys[u->n++] = key;
	else
		free(key);
}

static void
take_keys(struct json *j, void *to)
{
	json_list(j, take_key, to);
}

int
unserved_read(struct unserved *u, const char *text, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"services", FIELD_CUSTOM, 0, 0, NULL, take_keys},
	};
	struct json j;
	int rc;

	unserved_fini(u);
	if (len == 0)
		return err_set(err, EINVAL, "nothing is said");
	json_init(&j, text, len);
	json_fields(&j, fields, ARRAY_LEN(fields), u);
	rc = json_finish(&j, err);
	if (rc < 0)
		unserved_fini(u);
	return rc;
}

bool
unserved_has(const struct unserved *u, const char *key)
{
	for (size_t i = 0; i < u->n; i++)
		if (strcmp(u->keys[i], key) == 0)
			return true;
	return false;
}

void
unserved_fini(struct unserved *u)
{
	while (u->n > 0)
		free(u->keys[--u->n]);
	free(take_ptr(&u->keys));
}
