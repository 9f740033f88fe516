#include "hub/kube/secret.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/base64.h"
#include "hub/kube/follow.h"
#include "hub/kube/json_stream.h"
#include "model/json.h"

struct secret {
	struct secret_config config;
	struct follow *follow;
	char *path, *what, *rights; /* of `follow` */
	struct https_request *write;
	struct json_stream written_split;
	unsigned found; /* round of the list in which it was last found */
	bool known, exists;
	char version[FOLLOW_VERSION_MAX + 1]; /* of the object: a write is based on it */
	char *values[SECRET_KEYS_MAX];
	secret_written_fn *written;
	void *written_arg;
};

/* --- responses ------------------------------------------------------------------------------ */

static void
forget_values(struct secret *s)
{
	for (size_t i = 0; i < SECRET_KEYS_MAX; i++) {
		if (s->values[i] != NULL)
			explicit_bzero(s->values[i], strlen(s->values[i]));
		free(take_ptr(&s->values[i]));
	}
}

static void
take_object(struct secret *s, const struct tree_node *object)
{
	const struct tree_node *data = tree_get(object, "data");

	if (strcmp(tree_text(tree_path(object, "metadata.name"), ""), s->config.name) != 0 ||
		!follow_version(s->version, object))
		return;
	forget_values(s);
	for (size_t i = 0; s->config.keys[i] != NULL; i++)
		s->values[i] = base64_text(tree_text(tree_get(data, s->config.keys[i]), ""));
	s->exists = true;
	s->known = true;
}

static void
take_absence(struct secret *s)
{
	forget_values(s);
	s->exists = false;
	s->known = true;
}

static void
on_object(void *arg, const struct tree_node *object, bool gone)
{
	struct secret *s = arg;

	s->found = follow_round(s->follow);
	if (gone)
		take_absence(s);
	else
		take_object(s, object);
}

static void
on_listed(void *arg)
{
	struct secret *s = arg;

	if (s->found != follow_round(s->follow))
		take_absence(s);
}

static void
on_told(void *arg)
{
	struct secret *s = arg;

	s->config.changed(s->config.arg);
}

/* --- writing -------------------------------------------------------------------------------- */

static int
on_write_value(void *arg, const char *text, size_t len)
{
	struct secret *s = arg;
	struct tree *tree = NULL;

	if (text != NULL && tree_parse(&tree, s->config.name, text, len, NULL) == 0) {
		if (tree_count(tree) == 1)
			take_object(s, tree_document(tree, 0));
		tree_free(&tree);
	}
	return 0;
}

static int
on_write_data(void *arg, const char *data, size_t len)
{
	struct secret *s = arg;

	return json_stream_feed(&s->written_split, data, len);
}

static void
on_write_done(void *arg, const struct https_answer *a)
{
	struct secret *s = arg;
	char why[400] = "";
	int rc = 0;

	s->write = NULL;
	if (a->status == 409 || (a->status == 404 && s->exists)) {
		rc = -ESTALE;
		follow_anew(s->follow);
	} else if (a->status / 100 != 2 || !a->whole) {
		follow_describe(a, s->what, s->rights, why, sizeof why);
		rc = a->status == 403 ? -EACCES : -EIO;
	}
	s->written(s->written_arg, rc, why);
}

static void
add_data(const struct secret *s, struct buf *b, const char *const *values)
{
	buf_adds(b, "\"data\":{");
	for (size_t i = 0; s->config.keys[i] != NULL; i++) {
		buf_printf(b, "%s\"%s\":\"", i > 0 ? "," : "", s->config.keys[i]);
		base64_add(b, values[i], strlen(values[i]));
		buf_adds(b, "\"");
	}
	buf_adds(b, "}");
}

void
secret_write(struct secret *s, const char *const *values, secret_written_fn *written, void *arg)
{
	auto_free char *path = NULL;
	struct https_call call = {
		.method = s->exists ? "PATCH" : "POST",
		.type = s->exists ? "application/merge-patch+json" : "application/json",
		.silence_ms = SECRET_ANSWER_MS,
		.data = on_write_data,
		.done = on_write_done,
		.arg = s,
	};
	struct buf b;

	assert(s->known && s->write == NULL);
	s->written = written;
	s->written_arg = arg;
	buf_init(&b, BUF_UNLIMITED);
	if (s->exists) {
		path = xasprintf("/api/v1/namespaces/%s/secrets/%s", s->config.ns, s->config.name);
		buf_printf(&b, "{\"metadata\":{\"resourceVersion\":\"%s\"},", s->version);
	} else {
		path = xasprintf("/api/v1/namespaces/%s/secrets", s->config.ns);
		buf_printf(&b,
			"{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"%s\","
			"\"namespace\":\"%s\",\"labels\":{\"app.kubernetes.io/"
			"managed-by\":\"edgeway-hub\"}},\"type\":\"%s\",",
			s->config.name, s->config.ns, s->config.type);
	}
	add_data(s, &b, values);
	buf_adds(&b, "}");
	json_stream_fini(&s->written_split);
	json_stream_init(&s->written_split, JSON_STREAM_STREAM, on_write_value, s);
	call.path = path;
	call.body = buf_str(&b);
	s->write = kube_api_start(s->config.api, &call);
	explicit_bzero(buf_at(&b), buf_len(&b));
	buf_fini(&b);
}

/* --- start, stop, state --------------------------------------------------------------------- */

struct secret *
secret_start(const struct secret_config *config)
{
	struct secret *s = xcalloc(1, sizeof *s);
	struct follow_config follow = {
		.loop = config->loop,
		.api = config->api,
		.object = on_object,
		.listed = on_listed,
		.told = on_told,
		.arg = s,
	};

	s->config = *config;
	json_stream_init(&s->written_split, JSON_STREAM_STREAM, on_write_value, s);
	s->path = xasprintf("/api/v1/namespaces/%s/secrets?fieldSelector=metadata.name%%3D%s",
		config->ns, config->name);
	s->what = xasprintf("the Secret %s/%s", config->ns, config->name);
	s->rights = xasprintf("the verbs list, watch and patch on %s, and create on secrets "
			      "(deploy/kubernetes/rbac.yaml)",
		s->what);
	follow.path = s->path;
	follow.what = s->what;
	follow.rights = s->rights;
	s->follow = follow_start(&follow);
	return s;
}

void
secret_stop(struct secret **out)
{
	struct secret *s = take_ptr(out);

	if (s == NULL)
		return;
	follow_stop(&s->follow);
	https_stop(&s->write);
	json_stream_fini(&s->written_split);
	forget_values(s);
	free(s->path);
	free(s->what);
	free(s->rights);
	free(s);
}

bool
secret_known(const struct secret *s)
{
	return s->known;
}

bool
secret_exists(const struct secret *s)
{
	return s->exists;
}

const char *
secret_value(const struct secret *s, size_t key)
{
	return s->values[key] != NULL ? s->values[key] : "";
}

bool
secret_writing(const struct secret *s)
{
	return s->write != NULL;
}

const char *
secret_problem(const struct secret *s)
{
	return follow_problem(s->follow);
}

void
secret_state(const struct secret *s, const char *problem, struct buf *out)
{
	buf_printf(out,
		"{\"name\":\"%s\",\"known\":%s,\"exists\":%s,\"version\":\"%s\",\"problem\":",
		s->config.name, s->known ? "true" : "false", s->exists ? "true" : "false",
		s->version);
	json_add_text(out, problem);
	buf_adds(out, "}");
}
