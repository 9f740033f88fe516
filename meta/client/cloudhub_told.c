#include "meta/client/cloudhub_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"

static const struct {
	const char *type;
	enum kube_kind kind;
	bool list;
} types[] = {
	{"service", KUBE_SERVICE, false},
	{"pod", KUBE_POD, false},
	{"endpoints", KUBE_ENDPOINTS, false},
	{"servicelist", KUBE_SERVICE, true},
	{"podlist", KUBE_POD, true},
	{"endpointslist", KUBE_ENDPOINTS, true},
};

static void
cloudhub_told_refuse(
	struct hub_client *f, const struct told *t, const char *resource, const char *reason)
{
	char id[129], name[1025], parent[] = "";
	struct envelope e = {.id = id, .resource = name, .parent_id = parent};

	snprintf(id, sizeof(id), "%s", t->id);
	snprintf(name, sizeof(name), "%s", resource);
	f->n_errors = 0; /* an object that we cannot read is no reason to disconnect */
	hub_client_send_error(f, &e, reason);
}

static int
take_one(struct hub_client *f, const struct told *t, size_t type, bool gone, struct err *err)
{
	const struct cloudhub_cache_object o = {
		.kind = types[type].kind, .ns = t->ns, .name = t->name, .content = t->content};
	const struct cloudhub_cache_list list = {.kind = o.kind,
		.ns = t->ns,
		.service = o.kind == KUBE_POD ? t->name : NULL,
		.gone = gone,
		.content = t->content};

	if (types[type].list && gone && o.kind != KUBE_POD)
		return err_set(err, EINVAL, "a list of all cannot be deleted");
	if (types[type].list)
		return cloudhub_cache_listed(f->cloudhub->mirror, &list, err);
	if (gone)
		return cloudhub_cache_delete(f->cloudhub->mirror, &o, err);
	return cloudhub_cache_put(f->cloudhub->mirror, &o, err);
}

static bool
is_word(const char *word, const char *one, const char *two, const char *three)
{
	return strcmp(word, one) == 0 || strcmp(word, two) == 0 || strcmp(word, three) == 0;
}

/* Processes a change or an answer. Returns 0, or -errno with the reason. */
static int
cloudhub_told_take(struct hub_client *f, const struct told *t, struct err *err)
{
	bool gone = strcmp(t->operation, "delete") == 0;
	struct asked *a = cloudhub_find_asked(f->cloudhub, t);
	size_t type = 0;
	int rc;

	if (!gone && !is_word(t->operation, "insert", "update", "response"))
		return err_set(err, EOPNOTSUPP, "operation is not known here");
	while (type < ARRAY_LEN(types) && strcmp(types[type].type, t->type) != 0)
		type++;
	if (type == ARRAY_LEN(types))
		return 0; /* for an EdgeCore: secrets, volumes, ... */
	f->cloudhub->n_silent = a != NULL ? 0 : f->cloudhub->n_silent;
	/* A text or an empty content means that there is no such object. */
	if (a != NULL && !types[type].list &&
		(t->content == NULL || t->content->kind == TREE_SCALAR)) {
		cloudhub_give_up(f, a);
		return 0;
	}
	rc = take_one(f, t, type, gone, err);
	if (a != NULL && rc < 0)
		cloudhub_give_up(f, a);
	else if (a != NULL)
		cloudhub_forget(a);
	return rc;
}

/* "<namespace>/<type>/<name>", sometimes preceded by "node/<id>/". Modifies `copy`. */
static bool
cloudhub_told_split(char *copy, struct told *t)
{
	char *rest = copy, *part;

	if (strncmp(rest, "node/", 5) == 0 && (part = strchr(rest + 5, '/')) != NULL &&
		strchr(part + 1, '/') != NULL)
		rest = part + 1;
	t->ns = strsep(&rest, "/");
	t->type = rest != NULL ? strsep(&rest, "/") : "";
	t->name = rest != NULL ? rest : "";
	return *t->ns != '\0' && *t->type != '\0' && *t->name != '\0';
}

static void
on_error(struct hub_client *f, const struct told *t, const char *resource)
{
	struct cloudhub *c = f->cloudhub;
	struct asked *a = cloudhub_find_asked(c, t);

	if (a != NULL)
		cloudhub_give_up(f, a);
	else if (strcmp(t->type, "servicelist") == 0 || strcmp(t->parent, c->list_id) == 0)
		snprintf(c->refusal, sizeof(c->refusal), "\"%.140s\"", tree_text(t->content, "no"));
	else
		log_limited(LOG_LEVEL_WARN, 10, "meta",
			"the CloudHub refused a message resource=\"%.200s\" reason=\"%.200s\"",
			resource, tree_text(t->content, ""));
}

static void
on_message(struct hub_client *f, const struct tree_node *frame)
{
	const struct tree_node *header = tree_get(frame, "header"),
			       *route = tree_get(frame, "route");
	const char *resource = tree_text(tree_get(route, "resource"), "");
	auto_free char *copy = xstrdup(resource);
	struct told t = {.operation = tree_text(tree_get(route, "operation"), ""),
		.id = tree_text(tree_get(header, "msg_id"), ""),
		.parent = tree_text(tree_get(header, "parent_msg_id"), ""),
		.ns = "",
		.type = "",
		.name = "",
		.content = tree_get(frame, "content")};
	bool whole = cloudhub_told_split(copy, &t);
	struct err err = {0};
	int rc = 0;

	if (strcmp(t.operation, "keepalive") == 0)
		return;
	if (strcmp(t.operation, "error") == 0) {
		on_error(f, &t, resource);
	} else if (header == NULL || route == NULL) {
		hub_client_send_error(f, NULL, "message without header or route");
		return;
	} else if (whole) {
		rc = cloudhub_told_take(f, &t, &err);
	}
	if (rc < 0)
		cloudhub_told_refuse(f, &t, resource, err.text);
	else if (rc > 0 && err.code != 0)
		log_limited(LOG_LEVEL_WARN, 10, "meta",
			"a list of the CloudHub has items that cannot be read resource=\"%.200s\" "
			"items=%d first=\"%s\"",
			resource, rc, err.text);
	if (rc >= 0 && is_word(t.operation, "insert", "update", "delete"))
		cloudhub_want_ack(f->cloudhub, t.id, resource);
	cloudhub_judge_list(f);
	cloudhub_ask(f);
	cloudhub_pump(f);
}

void
cloudhub_text(struct hub_client *f, const char *text, size_t len)
{
	struct tree *tree = NULL;
	struct err err = {0};

	if (len == 0 || text[0] != '{')
		err_set(&err, EBADMSG, "not a JSON object");
	else if (tree_parse(&tree, "message", text, len, &err) == 0)
		on_message(f, tree_document(tree, 0));
	if (tree == NULL)
		hub_client_send_error(f, NULL, err.text);
	tree_free(&tree);
}
