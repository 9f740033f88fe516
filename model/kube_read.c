#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/check.h"
#include "model/kube_private.h"
#include "model/mesh.h"

static void printf_like(3, 0)
	kube_read_say(struct decoder *d, const struct tree_node *at, const char *fmt, va_list ap)
{
	char what[384];
	size_t len = strlen(d->err.text);

	vsnprintf(what, sizeof what, fmt, ap);
	/* Notes are concatenated as far as they fit. */
	if (len > 0 && d->rc == 0 && d->noting) {
		snprintf(d->err.text + len, sizeof d->err.text - len, "; %s:%u: %s", d->file,
			at != NULL ? at->line : 0, what);
		return;
	}
	err_set(&d->err, EINVAL, "%s:%u: %s", d->file, at != NULL ? at->line : 0, what);
}

void
kube_wrong(struct decoder *d, const struct tree_node *at, const char *fmt, ...)
{
	va_list ap;

	if (d->rc != 0)
		return;
	va_start(ap, fmt);
	kube_read_say(d, at, fmt, ap);
	va_end(ap);
	d->rc = -EINVAL;
}

void
kube_note(struct decoder *d, const struct tree_node *at, const char *fmt, ...)
{
	va_list ap;

	if (d->rc != 0)
		return;
	va_start(ap, fmt);
	d->noting = true;
	kube_read_say(d, at, fmt, ap);
	d->noting = false;
	va_end(ap);
	d->err.code = 0;
}

static char *
text_of(struct decoder *d, const struct tree_node *n, const char *key, kube_check_fn check)
{
	if (tree_is_null(n))
		return xstrdup("");
	if (n->kind != TREE_SCALAR)
		kube_wrong(d, n, "%s: a text expected", key);
	else if (n->len > MESH_NODE_MAX || strlen(n->text) != n->len)
		kube_wrong(d, n, "%s: longer than %d bytes, or with NUL", key, MESH_NODE_MAX);
	else if (check != NULL && n->len > 0 && !check(n->text, n->len))
		kube_wrong(d, n, "%s: '%s' is not allowed here", key, n->text);
	else
		return xstrdup(n->text);
	return xstrdup("");
}

char *
kube_text(struct decoder *d, const struct tree_node *map, const char *key, kube_check_fn check)
{
	return text_of(d, tree_get(map, key), key, check);
}

uint16_t
kube_port(struct decoder *d, const struct tree_node *map, const char *key)
{
	int64_t v = 0;
	int rc = tree_int(tree_get(map, key), 1, UINT16_MAX, &v);

	if (rc == 0)
		return (uint16_t)v;
	if (rc != -ENOENT)
		kube_wrong(d, tree_get(map, key), "%s: a port from 1 to 65535 expected", key);
	return 0;
}

int
kube_find_protocol(const char *word)
{
	static const char *const words[] = {
		[KUBE_TCP] = "TCP", [KUBE_UDP] = "UDP", [KUBE_SCTP] = "SCTP"};

	for (int i = 0; i < (int)ARRAY_LEN(words); i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return -1;
}

uint8_t
kube_protocol(struct decoder *d, const struct tree_node *map)
{
	const char *word = tree_text(tree_get(map, "protocol"), "TCP");
	int found = kube_find_protocol(word);

	if (found < 0)
		kube_wrong(d, tree_get(map, "protocol"),
			"protocol: '%.20s' is not TCP, UDP or SCTP", word);
	return found < 0 ? KUBE_SCTP : (uint8_t)found;
}

const struct tree_node *
kube_list(struct decoder *d, const struct tree_node *map, const char *key)
{
	const struct tree_node *list = tree_get(map, key);

	if (tree_is_null(list))
		return NULL;
	if (list->kind == TREE_LIST)
		return list;
	kube_wrong(d, list, "%s: a list expected", key);
	return NULL;
}

size_t
kube_count(const struct tree_node *list)
{
	size_t n = 0;

	tree_each(list, item)
		n++;
	return n;
}

static int
kube_compare_labels(const void *a, const void *b)
{
	return strcmp(((const struct kube_label *)a)->key, ((const struct kube_label *)b)->key);
}

const char *
kube_labels_find(const struct kube_labels *labels, const char *key)
{
	const struct kube_label wanted = {(char *)(uintptr_t)key, NULL}, *found = NULL;

	if (labels != NULL && labels->n > 0)
		found = bsearch(
			&wanted, labels->list, labels->n, sizeof wanted, kube_compare_labels);
	return found != NULL ? found->value : NULL;
}

struct kube_labels
kube_labels(struct decoder *d, const struct tree_node *map)
{
	struct kube_labels l = {0};

	if (tree_is_null(map))
		return l;
	if (map->kind != TREE_MAP) {
		kube_wrong(d, map, "a map of labels expected");
		return l;
	}
	l.list = xcalloc(kube_count(map) + 1, sizeof *l.list);
	tree_each(map, n)
		l.list[l.n++] = (struct kube_label){xstrdup(n->key), text_of(d, n, n->key, NULL)};
	qsort(l.list, l.n, sizeof *l.list, kube_compare_labels);
	return l;
}

void
kube_ips_add(char **ip, char **ip6, char *add)
{
	bool v4 = ip_v4(add) != 0, has_v4 = ip_v4(*ip) != 0;
	char **to = !v4 && **ip == '\0' ? ip : !v4 && has_v4 && **ip6 == '\0' ? ip6 : NULL;

	if (v4 && !has_v4) {
		free(*ip6);
		*ip6 = *ip;
		*ip = add;
		return;
	}
	free(to != NULL ? *to : add);
	if (to != NULL)
		*to = add;
}

void
kube_ips(struct decoder *d, const struct tree_node *map, const char *const names[3], char **ip,
	char **ip6)
{
	*ip = kube_text(d, map, names[0], check_ip);
	*ip6 = xstrdup("");
	tree_each(tree_get(map, names[1]), n)
		kube_ips_add(ip, ip6, kube_text(d, n, names[2], check_ip));
}

/* --- one object ----------------------------------------------------------------------------- */

static const struct {
	const char *kind;
	const char *api_versions[3]; /* the accepted versions; all mean the same here */
} kinds[KUBE_KINDS] = {
	[KUBE_SERVICE] = {"Service", {"v1"}},
	[KUBE_POD] = {"Pod", {"v1"}},
	[KUBE_SLICE] = {"EndpointSlice", {"discovery.k8s.io/v1"}},
	[KUBE_ENDPOINTS] = {"Endpoints", {"v1"}},
	[KUBE_NODE] = {"Node", {"v1"}},
	[KUBE_RULE] = {"DestinationRule",
		{"networking.istio.io/v1alpha3", "networking.istio.io/v1beta1",
			"networking.istio.io/v1"}},
	[KUBE_NETPOLICY] = {"NetworkPolicy", {"networking.k8s.io/v1"}},
	[KUBE_NAMESPACE] = {"Namespace", {"v1"}},
	[KUBE_HTTPROUTE] = {"HTTPRoute", {KUBE_GATEWAY_GROUP "/v1", KUBE_GATEWAY_GROUP "/v1beta1"}},
	[KUBE_GRPCROUTE] = {"GRPCRoute", {KUBE_GATEWAY_GROUP "/v1"}},
	[KUBE_GRANT] = {"ReferenceGrant",
		{KUBE_GATEWAY_GROUP "/v1", KUBE_GATEWAY_GROUP "/v1beta1"}},
	[KUBE_TLS_POLICY] = {"BackendTLSPolicy",
		{KUBE_GATEWAY_GROUP "/v1", KUBE_GATEWAY_GROUP "/v1alpha3"}},
	[KUBE_CONFIG_MAP] = {"ConfigMap", {"v1"}},
};

const char *
kube_kind_name(enum kube_kind kind)
{
	return kinds[kind].kind;
}

static void
decode_names(struct decoder *d, const struct tree_node *n, struct kube_object *o)
{
	const struct tree_node *meta = tree_get(n, "metadata");
	bool service = o->kind == KUBE_SERVICE;

	o->name = kube_text(d, meta, "name", service ? check_label : check_subdomain);
	if (*o->name == '\0')
		kube_wrong(d, meta != NULL ? meta : n, "%s without metadata.name",
			kinds[o->kind].kind);
	if (o->kind == KUBE_NODE || o->kind == KUBE_NAMESPACE) {
		o->ns = xstrdup("");
		return;
	}
	o->ns = kube_text(d, meta, "namespace", check_label);
	if (*o->ns == '\0') {
		free(o->ns);
		o->ns = xstrdup("default");
	}
}

static void
decode_rest(struct decoder *d, const struct tree_node *n, struct kube_object *o)
{
	switch (o->kind) {
	case KUBE_SERVICE:
		kube_service_decode(d, n, &o->service);
		break;
	case KUBE_POD:
		kube_pod_decode(d, n, &o->pod);
		break;
	case KUBE_SLICE:
		kube_slice_decode(d, n, o->ns, &o->endpoints);
		break;
	case KUBE_ENDPOINTS:
		kube_endpoints_decode(d, n, o->ns, &o->endpoints);
		if (d->rc == 0) {
			free(o->endpoints.service);
			o->endpoints.service = xstrdup(o->name);
		}
		break;
	case KUBE_NODE:
		kube_node_decode(d, n, &o->node);
		break;
	case KUBE_RULE:
		kube_rule_decode(d, n, o->ns, &o->rule);
		break;
	case KUBE_NETPOLICY:
		kube_netpolicy_decode(d, n, &o->netpolicy);
		break;
	case KUBE_NAMESPACE:
		kube_namespace_decode(d, n, &o->namespace);
		break;
	case KUBE_HTTPROUTE:
	case KUBE_GRPCROUTE:
		kube_route_decode(d, n, o);
		break;
	case KUBE_GRANT:
		kube_grant_decode(d, n, &o->grant);
		break;
	case KUBE_TLS_POLICY:
		kube_tls_policy_decode(d, n, o);
		break;
	case KUBE_CONFIG_MAP:
		kube_config_map_decode(d, n, &o->config_map);
		break;
	}
}

static bool
is_version(enum kube_kind kind, const char *api)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds[kind].api_versions); i++)
		if (kinds[kind].api_versions[i] != NULL &&
			strcmp(api, kinds[kind].api_versions[i]) == 0)
			return true;
	return false;
}

/* Is it `own`, but for a slip of the pen? Short words differ by one letter from others that are
 * meant (Pod, Job). */
static bool
kind_is_near(const char *said, const char *own)
{
	size_t len = strlen(own);

	return strcmp(said, own) == 0 ||
		(len > 2 && strlen(said) < TEXT_DISTANCE_MAX &&
			text_distance(said, own) <= (len > 4 ? 2u : 1u));
}

bool
kube_kind_near(enum kube_kind kind, const char *said)
{
	/* Both are kinds of the Gateway API. */
	return strcmp(said, "TCPRoute") != 0 && kind_is_near(said, kinds[kind].kind);
}

/* As kind_is_near, for the group that an apiVersion begins with; "": the core group. */
static bool
kind_is_near_group(const char *said, const char *own)
{
	auto_free char *a = xstrndup(said, strchr(said, '/') != NULL ? strcspn(said, "/") : 0);
	auto_free char *b = xstrndup(own, strchr(own, '/') != NULL ? strcspn(own, "/") : 0);

	return kind_is_near(a, b);
}

/* Another version of a named group may be yet to come; there is none of the core group. */
static bool
kind_is_yet_to_come(const char *said, const char *own)
{
	const char *slash = strchr(own, '/');

	return slash != NULL && strncmp(said, own, (size_t)(slash - own) + 1) == 0;
}

/* The kind's number; -1: not one of ours (Knative also has Services), or misspelt. */
static int
find_kind(struct decoder *d, const struct tree_node *n, const char *kind)
{
	const char *api = tree_text(tree_get(n, "apiVersion"), NULL);
	const char *own = tree_text(tree_get(n, "kind"), kind);

	if (n->kind != TREE_MAP || own == NULL) {
		kube_wrong(d, n, "a Kubernetes object with kind and apiVersion expected");
		return -1;
	}
	for (int i = 0; i < KUBE_KINDS; i++) {
		if (strcmp(kinds[i].kind, own) != 0)
			continue;
		if (api == NULL && kind == NULL)
			kube_wrong(d, n, "%s without apiVersion", own);
		if (api == NULL || is_version((enum kube_kind)i, api))
			return i;
		if (kind_is_near_group(api, kinds[i].api_versions[0]) &&
			!kind_is_yet_to_come(api, kinds[i].api_versions[0]))
			kube_wrong(d, tree_get(n, "apiVersion"),
				"apiVersion '%s' of a %s is not known: write %s", api, own,
				kinds[i].api_versions[0]);
		return -1;
	}
	for (int i = 0; i < KUBE_KINDS; i++) {
		if (kube_kind_near((enum kube_kind)i, own) &&
			(api == NULL || kind_is_near_group(api, kinds[i].api_versions[0]))) {
			kube_wrong(d, tree_get(n, "kind") != NULL ? tree_get(n, "kind") : n,
				"kind '%s' is not known: is %s meant?", own, kinds[i].kind);
			return -1;
		}
	}
	return -1;
}

int
kube_decode(struct kube_object **o, const char *file, const struct tree_node *n, const char *kind,
	struct err *err)
{
	struct decoder d = {.file = file};
	int found = find_kind(&d, n, kind);

	*o = NULL;
	if (d.rc == 0 && found >= 0) {
		*o = xcalloc(1, sizeof **o);
		(*o)->kind = (enum kube_kind)found;
		(*o)->line = n->line;
		decode_names(&d, n, *o);
		decode_rest(&d, n, *o);
	}
	if (d.rc != 0)
		kube_object_free(o);
	else if (*o != NULL)
		kube_pack(o);
	if (err != NULL)
		*err = d.err;
	return d.rc != 0 ? d.rc : found < 0;
}

void
kube_labels_default(struct kube_labels *l, const char *key, const char *value)
{
	if (kube_labels_find(l, key) != NULL)
		return;
	l->list = xrealloc(l->list, (l->n + 1) * sizeof *l->list);
	l->list[l->n++] = (struct kube_label){xstrdup(key), xstrdup(value)};
	qsort(l->list, l->n, sizeof *l->list, kube_compare_labels);
}

void
kube_labels_fini(struct kube_labels *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->list[i].key);
		free(l->list[i].value);
	}
	free(l->list);
}

void
kube_object_free(struct kube_object **o)
{
	struct kube_object *gone = take_ptr(o);

	if (gone == NULL)
		return;
	if (gone->packed) {
		free(gone);
		return;
	}
	switch (gone->kind) {
	case KUBE_SERVICE:
		kube_service_fini(&gone->service);
		break;
	case KUBE_POD:
		kube_pod_fini(&gone->pod);
		break;
	case KUBE_SLICE:
	case KUBE_ENDPOINTS:
		kube_endpoints_fini(&gone->endpoints);
		break;
	case KUBE_NODE:
		kube_node_fini(&gone->node);
		break;
	case KUBE_RULE:
		kube_rule_fini(&gone->rule);
		break;
	case KUBE_NETPOLICY:
		kube_netpolicy_fini(&gone->netpolicy);
		break;
	case KUBE_NAMESPACE:
		kube_labels_fini(&gone->namespace.labels);
		break;
	case KUBE_HTTPROUTE:
	case KUBE_GRPCROUTE:
		kube_route_fini(&gone->route);
		break;
	case KUBE_GRANT:
		kube_grant_fini(&gone->grant);
		break;
	case KUBE_TLS_POLICY:
		kube_tls_policy_fini(&gone->tls_policy);
		break;
	case KUBE_CONFIG_MAP:
		kube_config_map_fini(&gone->config_map);
		break;
	}
	free(gone->ns);
	free(gone->name);
	free(gone);
}

/* --- a file --------------------------------------------------------------------------------- */

bool
kube_items(const struct tree_node *n, const struct tree_node **first, char kind[64])
{
	const char *own = tree_text(tree_get(n, "kind"), "");
	const struct tree_node *items = tree_get(n, "items");
	size_t len = strlen(own);

	if (len < 4 || len - 4 >= 64 || strcmp(own + len - 4, "List") != 0)
		return false;
	*first = items != NULL && items->kind == TREE_LIST ? items->child : NULL;
	memcpy(kind, own, len - 4);
	kind[len - 4] = '\0';
	return true;
}

static void
kube_read_complain(struct kube_batch *b, const char *text)
{
	b->complaints = xrealloc(b->complaints, (b->n_complaints + 1) * sizeof *b->complaints);
	b->complaints[b->n_complaints++] = xstrdup(text);
}

/* Handles nested lists: depth is bounded by base/conf/tree. */
static void
read_node(struct kube_batch *b, const char *file, const struct tree_node *n, const char *kind)
{
	const struct tree_node *item;
	struct kube_object *o;
	struct err err = {0};
	char items[64];
	int rc;

	if (kube_items(n, &item, items)) {
		if (item == NULL && !tree_is_null(tree_get(n, "items")) &&
			tree_get(n, "items")->kind != TREE_LIST) {
			err_set(&err, EINVAL, "%s:%u: items: a list expected", file, n->line);
			kube_read_complain(b, err.text);
			b->n_wrong++;
			b->unknown = true;
		}
		for (; item != NULL; item = item->next)
			read_node(b, file, item, items[0] != '\0' ? items : NULL);
		return;
	}
	rc = kube_decode(&o, file, n, kind, &err);
	if (err.text[0] != '\0')
		kube_read_complain(b, err.text);
	if (rc < 0)
		b->n_wrong++;
	else if (rc > 0)
		b->n_skipped++;
	if (o == NULL)
		return;
	if (b->n == b->room) {
		b->room = MAX(b->room * 2, (size_t)8);
		b->objects = xrealloc(b->objects, b->room * sizeof *b->objects);
	}
	b->objects[b->n++] = o;
}

void
kube_read(struct kube_batch *b, const struct tree *t)
{
	*b = (struct kube_batch){0};
	for (size_t i = 0; i < tree_count(t); i++)
		read_node(b, tree_name(t), tree_document(t, i), NULL);
}

void
kube_batch_fini(struct kube_batch *b)
{
	for (size_t i = 0; i < b->n; i++)
		kube_object_free(&b->objects[i]);
	for (size_t i = 0; i < b->n_complaints; i++)
		free(b->complaints[i]);
	free(b->objects);
	free(b->complaints);
	*b = (struct kube_batch){0};
}
