#include "hub/sync/unserved.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"
#include "model/mesh.h"

static void
take_key(struct json *j, void *to)
{
	struct unserved_keys *k = to;
	char *key = NULL;

	if (!json_text(j, &key, MESH_NAME_MAX + MESH_SERVICE_MAX + 1))
		return;
	if (k->list == NULL)
		k->list = xcalloc(UNSERVED_KEYS_MAX, sizeof *k->list);
	if (k->n < UNSERVED_KEYS_MAX)
		k->list[k->n++] = key;
	else
		free(key);
}

static void
take_keys(struct json *j, void *to)
{
	json_list(j, take_key, &((struct unserved *)to)->keys);
}

static void
take_refused(struct json *j, void *to)
{
	json_list(j, take_key, &((struct unserved *)to)->refused);
}

static void
take_ports(struct json *j, void *to)
{
	json_list(j, take_key, &((struct unserved *)to)->ports);
}

int
unserved_read(struct unserved *u, const char *text, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"services", FIELD_CUSTOM, 0, 0, NULL, take_keys},
		{"refused", FIELD_CUSTOM, 0, 0, NULL, take_refused},
		{"ports", FIELD_CUSTOM, 0, 0, NULL, take_ports},
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
	for (size_t i = 0; i < u->keys.n; i++)
		if (strcmp(u->keys.list[i], key) == 0)
			return true;
	return false;
}

static void
keys_fini(struct unserved_keys *k)
{
	while (k->n > 0)
		free(k->list[--k->n]);
	free(take_ptr(&k->list));
}

void
unserved_fini(struct unserved *u)
{
	keys_fini(&u->keys);
	keys_fini(&u->refused);
	keys_fini(&u->ports);
}
