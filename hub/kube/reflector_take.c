#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "hub/kube/reflector_private.h"

void
reflector_trouble(struct reflector *r, enum log_level level, const char *fmt, ...)
{
	char text[sizeof r->problem];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (strcmp(text, r->problem) == 0)
		return;
	memcpy(r->problem, text, sizeof text);
	log_limited(level, 30, "kubernetes", "%s resource=%s", text, r->config.resource);
}

void
reflector_well(struct reflector *r)
{
	kube_wait_reset(&r->wait);
	if (r->problem[0] == '\0')
		return;
	r->problem[0] = '\0';
	log_limited(LOG_LEVEL_INFO, 30, "kubernetes", "all is well again resource=%s",
		r->config.resource);
}

static void
names_of(const struct tree_node *n, const char **ns, const char **name)
{
	const struct tree_node *meta = tree_get(n, "metadata");

	*ns = tree_text(tree_get(meta, "namespace"), "");
	*name = tree_text(tree_get(meta, "name"), "");
}

/* A version is opaque, and is put into a query as received. */
static bool
take_version(char to[VERSION_MAX + 1], const struct tree_node *object)
{
	const char *text = tree_text(tree_path(object, "metadata.resourceVersion"), "");
	size_t len = strlen(text);

	if (len == 0 || len > VERSION_MAX || strspn(text, "0123456789") != len)
		return false;
	memcpy(to, text, len + 1);
	return true;
}

static void
reflector_take_put(struct reflector *r, const struct tree_node *n)
{
	struct kube_object *o = NULL;
	struct err err = {0};
	const char *ns, *name;
	int rc = kube_decode(&o, r->config.resource, n, kube_kind_name(r->config.kind), &err);

	names_of(n, &ns, &name);
	if (o != NULL && o->kind == r->config.kind) {
		if (err.text[0] != '\0')
			log_limited(LOG_LEVEL_WARN, 20, "kubernetes", "%s object=%s/%s", err.text,
				ns, name);
		cluster_put(r->config.cluster, "", &o);
		return;
	}
	kube_object_free(&o);
	r->stats.refused++;
	log_limited(LOG_LEVEL_WARN, 20, "kubernetes",
		"an object is not understood, its last good form counts: %s object=%s/%s",
		rc < 0 ? err.text : "of another kind", ns, name);
	cluster_keep(r->config.cluster, "", r->config.kind, ns, name);
}

/* Handles an ERROR event: its code 410 means what the status 410 does, another code an error of the
 * server. */
static int
on_error_event(struct reflector *r, const struct tree_node *status)
{
	int64_t code = 0;

	tree_int(tree_get(status, "code"), 0, 999, &code);
	err_set(&r->wrong, EAGAIN, "the watch ended with an error: %.200s",
		tree_text(tree_get(status, "message"), "it says none"));
	return code == 410 ? -ESTALE : -EAGAIN;
}

static int
on_event(struct reflector *r, const struct tree_node *event)
{
	const struct tree_node *object = tree_get(event, "object");
	const char *type = tree_text(tree_get(event, "type"), "");
	const char *ns, *name;
	char version[VERSION_MAX + 1];

	if (strcmp(type, "ERROR") == 0)
		return on_error_event(r, object);
	if (!take_version(version, object))
		return err_set(&r->wrong, EBADMSG, "an event without a resourceVersion");
	r->stats.events++;
	r->spoke = true;
	r->error_events = 0;
	names_of(object, &ns, &name);
	if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0)
		reflector_take_put(r, object);
	else if (strcmp(type, "DELETED") == 0)
		r->stats.removed += cluster_remove(r->config.cluster, "", r->config.kind, ns, name);
	else if (strcmp(type, "BOOKMARK") != 0)
		return err_set(&r->wrong, EBADMSG, "an event of unknown type \"%.40s\"", type);
	memcpy(r->version, version, sizeof version);
	reflector_well(r);
	if (strcmp(type, "BOOKMARK") != 0)
		r->config.changed(r->config.arg);
	return 0;
}

static int
on_too_large(struct reflector *r)
{
	r->stats.refused++;
	err_set(&r->wrong, EMSGSIZE, "an object of more than %d MB is passed over",
		JSON_STREAM_VALUE_MAX >> 20);
	log_limited(LOG_LEVEL_ERROR, 6, "kubernetes",
		"%s: what was known of it goes on to count resource=%s", r->wrong.text,
		r->config.resource);
	r->unknown = true;
	return r->step == STEP_WATCH ? -EMSGSIZE : 0;
}

int
reflector_take(void *arg, const char *text, size_t len)
{
	struct reflector *r = arg;
	struct tree *tree = NULL;
	int rc;

	if (text == NULL)
		return on_too_large(r);
	if (r->step == STEP_PROBE)
		return 0;
	rc = tree_parse(&tree, r->config.resource, text, len, &r->wrong);
	if (rc == 0 && tree_count(tree) != 1)
		rc = err_set(&r->wrong, EBADMSG, "an empty object");
	if (rc < 0)
		return -EBADMSG;
	if (r->step == STEP_WATCH)
		rc = on_event(r, tree_document(tree, 0));
	else
		reflector_take_put(r, tree_document(tree, 0));
	tree_free(&tree);
	return rc;
}

/* Reads the metadata of a list: its version and the continue token. */
int
reflector_take_rest(struct reflector *r, char version[VERSION_MAX + 1], char **next)
{
	struct tree *tree = NULL;
	const char *text;
	size_t len;
	int rc;

	*next = NULL;
	if (!json_stream_whole(&r->split))
		return err_set(&r->wrong, EBADMSG, "the list is cut off");
	text = json_stream_rest(&r->split, &len);
	if ((rc = tree_parse(&tree, r->config.resource, text, len, &r->wrong)) < 0)
		return rc;
	if (tree_count(tree) == 1 && take_version(version, tree_document(tree, 0)))
		*next = xstrdup(
			tree_text(tree_path(tree_document(tree, 0), "metadata.continue"), ""));
	else
		rc = err_set(&r->wrong, EBADMSG, "a list without a resourceVersion");
	tree_free(&tree);
	if (*next != NULL && strlen(*next) > CONTINUE_MAX)
		rc = err_set(&r->wrong, EBADMSG, "a list with an endless continue");
	return rc;
}
