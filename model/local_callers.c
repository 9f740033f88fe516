#include "model/local_callers.h"

#include <stdatomic.h>
#include <string.h>

#include "model/check.h"
#include "model/json.h"
#include "model/mesh.h"
#include "model/selector.h"

enum { CALLERS_KEY_MAX = 253 + 1 + 63, CALLERS_VALUE_MAX = 253 };

struct callers_pod {
	struct in6_addr address, other; /* other: :: none */
	char *ns, *name, *ip, *other_ip;
	struct kube_labels labels;
};

struct callers_address {
	struct in6_addr ip;
	const struct callers_pod *pod;
};

struct local_callers {
	_Atomic unsigned refs;
	struct kube_labels node;
	size_t n;
	struct callers_pod *pods; /* by address */
	size_t n_addresses;
	struct callers_address *addresses; /* of all pods, sorted, each once */
};

/* --- reading -------------------------------------------------------------------------------- */

static void
callers_add_label(struct json *j, void *to)
{
	struct kube_labels *labels = to;
	auto_free char *value = NULL;

	if (labels->n == LOCAL_CALLERS_LABELS_MAX) {
		json_wrong(j, "more than %d labels", (int)LOCAL_CALLERS_LABELS_MAX);
		return;
	}
	if (strlen(j->key) > CALLERS_KEY_MAX) {
		json_wrong(j, "the label's name is too long");
		return;
	}
	if (!json_text(j, &value, CALLERS_VALUE_MAX))
		return;
	labels->list = xrealloc(labels->list, (labels->n + 1) * sizeof *labels->list);
	labels->list[labels->n++] = (struct kube_label){xstrdup(j->key), take_ptr(&value)};
}

static void
callers_read_labels(struct json *j, void *to)
{
	struct callers_pod *p = to;

	json_map(j, callers_add_label, &p->labels);
}

static void
callers_read_node(struct json *j, void *to)
{
	struct local_callers *c = to;

	json_map(j, callers_add_label, &c->node);
}

static void
callers_add_pod(struct json *j, void *to)
{
	static const struct field fields[] = {
		{"ns", FIELD_TEXT, offsetof(struct callers_pod, ns), MESH_NAME_MAX, check_label,
			NULL},
		{"name", FIELD_TEXT, offsetof(struct callers_pod, name), MESH_NODE_MAX,
			check_subdomain, NULL},
		{"ip", FIELD_TEXT, offsetof(struct callers_pod, ip), INET6_ADDRSTRLEN, check_ip,
			NULL},
		{"otherIP", FIELD_TEXT, offsetof(struct callers_pod, other_ip), INET6_ADDRSTRLEN,
			check_ip_or_empty, NULL},
		{"labels", FIELD_CUSTOM, 0, 0, NULL, callers_read_labels},
	};
	struct local_callers *c = to;
	struct callers_pod *p;

	if (c->n == LOCAL_CALLERS_MAX) {
		json_wrong(j, "more than %d pods", (int)LOCAL_CALLERS_MAX);
		return;
	}
	c->pods = xrealloc(c->pods, (c->n + 1) * sizeof *c->pods);
	p = &c->pods[c->n++];
	*p = (struct callers_pod){0};
	json_fields(j, fields, ARRAY_LEN(fields), p);
	if (p->ns == NULL || p->name == NULL || p->ip == NULL || !ip_parse(p->ip, &p->address))
		json_wrong(j, "a pod without ns, name or ip");
	if (p->other_ip == NULL)
		p->other_ip = xstrdup("");
	ip_parse(p->other_ip, &p->other);
}

static void
callers_read_pods(struct json *j, void *to)
{
	json_list(j, callers_add_pod, to);
}

static int
callers_compare(const void *a, const void *b)
{
	const struct callers_pod *x = a, *y = b;

	return memcmp(&x->address, &y->address, sizeof x->address);
}

static void
callers_pod_fini(struct callers_pod *p)
{
	free(p->ns);
	free(p->name);
	free(p->ip);
	free(p->other_ip);
	kube_labels_free(&p->labels);
}

static int
callers_compare_addresses(const void *a, const void *b)
{
	const struct callers_address *x = a, *y = b;

	return memcmp(&x->ip, &y->ip, sizeof x->ip);
}

/* An address that two pods claim identifies neither of them. */
static void
callers_index(struct local_callers *c)
{
	struct callers_address *list = xrealloc(c->addresses, (2 * c->n + 1) * sizeof *list);
	size_t kept = 0, all = 0, n;

	for (size_t i = 0; i < c->n; i++) {
		const struct callers_pod *p = &c->pods[i];

		list[all++] = (struct callers_address){p->address, p};
		if (*p->other_ip != '\0' && memcmp(&p->other, &p->address, sizeof p->other) != 0)
			list[all++] = (struct callers_address){p->other, p};
	}
	qsort(list, all, sizeof *list, callers_compare_addresses);
	for (size_t i = 0; i < all; i += n) {
		for (n = 1; i + n < all && callers_compare_addresses(&list[i], &list[i + n]) == 0;)
			n++;
		if (n == 1)
			list[kept++] = list[i];
	}
	c->addresses = list;
	c->n_addresses = kept;
}

static const struct callers_pod *
callers_find(const struct local_callers *c, const struct in6_addr *ip)
{
	const struct callers_address wanted = {.ip = *ip}, *found = NULL;

	if (c != NULL && c->n_addresses > 0)
		found = bsearch(&wanted, c->addresses, c->n_addresses, sizeof *c->addresses,
			callers_compare_addresses);
	return found != NULL ? found->pod : NULL;
}

/* Leaves out the pods that no address identifies. */
static void
callers_sort(struct local_callers *c)
{
	size_t kept = 0;

	callers_index(c);
	for (size_t i = 0; i < c->n; i++) {
		struct callers_pod p = c->pods[i];

		if (*p.other_ip != '\0' && callers_find(c, &p.other) == NULL)
			p.other_ip[0] = '\0';
		if (callers_find(c, &p.address) == NULL) {
			if (*p.other_ip == '\0') {
				callers_pod_fini(&p);
				continue;
			}
			free(p.ip);
			p.ip = p.other_ip;
			p.address = p.other;
			p.other_ip = xstrdup("");
		}
		c->pods[kept++] = p;
	}
	c->n = kept;
	if (kept > 0)
		qsort(c->pods, kept, sizeof *c->pods, callers_compare);
	callers_index(c);
}

int
local_callers_parse(struct local_callers **out, const char *json, size_t len, struct err *err)
{
	static const struct field fields[] = {
		{"node", FIELD_CUSTOM, 0, 0, NULL, callers_read_node},
		{"pods", FIELD_CUSTOM, 0, 0, NULL, callers_read_pods},
	};
	struct local_callers *c = xcalloc(1, sizeof *c);
	struct json j;
	int rc;

	*out = NULL;
	atomic_init(&c->refs, 1);
	json_init(&j, json, len);
	json_fields(&j, fields, ARRAY_LEN(fields), c);
	rc = json_finish(&j, err);
	if (rc < 0) {
		local_callers_unref(&c);
		return err_wrap(err, rc, "callers");
	}
	callers_sort(c);
	*out = c;
	return 0;
}

struct local_callers *
local_callers_ref(const struct local_callers *c)
{
	struct local_callers *counted = (struct local_callers *)(uintptr_t)c;

	if (counted != NULL)
		atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
	return counted;
}

void
local_callers_unref(struct local_callers **out)
{
	struct local_callers *c = take_ptr(out);

	if (c == NULL || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < c->n; i++)
		callers_pod_fini(&c->pods[i]);
	free(c->pods);
	free(c->addresses);
	kube_labels_free(&c->node);
	free(c);
}

/* --- looking up ----------------------------------------------------------------------------- */

void
local_callers_find(
	const struct local_callers *c, const struct in6_addr *ip, struct allow_caller *who)
{
	const struct callers_pod *found = callers_find(c, ip);

	*who = (struct allow_caller){.on_node = true, .node = local_callers_node(c), .address = ip};
	if (found == NULL)
		return;
	who->ns = found->ns;
	who->labels = &found->labels;
}

size_t
local_callers_count(const struct local_callers *c)
{
	return c != NULL ? c->n : 0;
}

struct local_pod
local_callers_at(const struct local_callers *c, size_t i)
{
	const struct callers_pod *p = &c->pods[i];

	return (struct local_pod){p->ns, p->name, p->ip, p->other_ip, &p->labels};
}

const struct kube_labels *
local_callers_node(const struct local_callers *c)
{
	return c != NULL ? &c->node : NULL;
}

/* --- writing -------------------------------------------------------------------------------- */

static bool
callers_labels_fit(const struct kube_labels *labels)
{
	if (labels == NULL)
		return true;
	for (size_t i = 0; i < labels->n; i++)
		if (strlen(labels->list[i].key) > CALLERS_KEY_MAX ||
			strlen(labels->list[i].value) > CALLERS_VALUE_MAX)
			return false;
	return labels->n <= LOCAL_CALLERS_LABELS_MAX;
}

static void
callers_write_labels(struct buf *out, const char *name, const struct kube_labels *labels)
{
	buf_printf(out, "\"%s\":{", name);
	for (size_t i = 0; labels != NULL && i < labels->n; i++) {
		buf_adds(out, i > 0 ? "," : "");
		json_add_text(out, labels->list[i].key);
		buf_adds(out, ":");
		json_add_text(out, labels->list[i].value);
	}
	buf_adds(out, "}");
}

void
local_callers_begin(struct buf *out, const struct kube_labels *node)
{
	buf_adds(out, "{");
	callers_write_labels(out, "node", callers_labels_fit(node) ? node : NULL);
	buf_adds(out, ",\"pods\":[");
}

/* A pod beyond the limits is left out whole: with only some of its labels it could be permitted
 * where all labels would exclude it. */
void
local_callers_add(struct buf *out, const struct local_pod *pod)
{
	auto_buf struct buf one;

	buf_init(&one, BUF_UNLIMITED);
	if (!callers_labels_fit(pod->labels))
		return;
	buf_adds(&one, buf_at(out)[buf_len(out) - 1] == '}' ? ",{\"ns\":" : "{\"ns\":");
	json_add_text(&one, pod->ns);
	buf_adds(&one, ",\"name\":");
	json_add_text(&one, pod->name);
	buf_adds(&one, ",\"ip\":");
	json_add_text(&one, pod->ip);
	if (pod->other_ip != NULL && *pod->other_ip != '\0') {
		buf_adds(&one, ",\"otherIP\":");
		json_add_text(&one, pod->other_ip);
	}
	buf_adds(&one, ",");
	callers_write_labels(&one, "labels", pod->labels);
	buf_adds(&one, "}");
	if (buf_len(&one) <= LOCAL_CALLERS_POD_BYTES)
		buf_add(out, buf_at(&one), buf_len(&one));
}

void
local_callers_end(struct buf *out)
{
	buf_adds(out, "]}");
}
