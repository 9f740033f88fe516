/*
 * Services, pods and endpoints are what a cluster has most of, and consist of small texts, many of
 * them empty or alike: once decoded, such an object moves into one block of memory. The functions
 * run twice: first over the decoded object, to learn how large its parts are, then over its
 * copy.
 */
#include <stddef.h>
#include <string.h>

#include "model/kube_private.h"

enum { PACK_SEEN = 8 }; /* texts that another one is compared with */

struct pack {
	char *block; /* NULL: while the sizes are summed up */
	size_t parts, texts; /* bytes so far; all texts stand behind all parts */
	size_t n_seen;
	struct {
		const char *from;
		char *to;
	} seen[PACK_SEEN];
};

static void
pack_text(struct pack *p, char **text)
{
	size_t len = strlen(*text) + 1, i;
	const char *from = *text;

	for (i = 0; i < MIN(p->n_seen, (size_t)PACK_SEEN); i++)
		if (strcmp(p->seen[i].from, from) == 0)
			break;
	if (i < MIN(p->n_seen, (size_t)PACK_SEEN)) {
		if (p->block != NULL)
			*text = p->seen[i].to;
	} else {
		if (p->block != NULL)
			*text = memcpy(p->block + p->texts, from, len);
		p->texts += len;
	}
	p->seen[p->n_seen++ % PACK_SEEN].from = from;
	p->seen[(p->n_seen - 1) % PACK_SEEN].to = *text;
}

/* Returns where the part is from now on. */
static void *
pack_part(struct pack *p, void *from, size_t bytes)
{
	void *to = p->block != NULL ? p->block + p->parts : from;

	if (p->block != NULL && bytes > 0)
		memcpy(to, from, bytes);
	p->parts += (bytes + sizeof(void *) - 1) & ~(sizeof(void *) - 1); /* none needs more */
	return to;
}

static void
pack_names(struct pack *p, struct view_names *names)
{
	names->list = pack_part(p, names->list, names->n * sizeof *names->list);
	for (size_t i = 0; i < names->n; i++)
		pack_text(p, &names->list[i]);
}

static void
pack_labels(struct pack *p, struct kube_labels *labels)
{
	labels->list = pack_part(p, labels->list, labels->n * sizeof *labels->list);
	for (size_t i = 0; i < labels->n; i++) {
		pack_text(p, &labels->list[i].key);
		pack_text(p, &labels->list[i].value);
	}
}

static void
pack_service(struct pack *p, struct kube_service *s)
{
	char **texts[] = {&s->cluster_ip, &s->external_name, &s->cluster_ip6, &s->hash_key,
		&s->health_path, &s->ingress, &s->nodes, &s->nodes_wrong, &s->allow_from,
		&s->allow_from_wrong};

	s->ports = pack_part(p, s->ports, s->n_ports * sizeof *s->ports);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		pack_text(p, texts[i]);
	for (size_t i = 0; i < s->n_ports; i++) {
		pack_text(p, &s->ports[i].name);
		pack_text(p, &s->ports[i].app_protocol);
		pack_text(p, &s->ports[i].target_name);
	}
	pack_names(p, &s->external_ips);
	pack_labels(p, &s->selector);
}

static void
pack_pod(struct pack *p, struct kube_pod *pod)
{
	char **texts[] = {&pod->node, &pod->hostname, &pod->subdomain, &pod->pod_ip, &pod->host_ip,
		&pod->pod_ip6, &pod->host_ip6};

	pack_labels(p, &pod->labels);
	pod->ports = pack_part(p, pod->ports, pod->n_ports * sizeof *pod->ports);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		pack_text(p, texts[i]);
	for (size_t i = 0; i < pod->n_ports; i++) {
		pack_text(p, &pod->ports[i].name);
		pack_text(p, &pod->ports[i].host_ip);
	}
}

static void
pack_subset(struct pack *p, struct kube_subset *s)
{
	s->ports = pack_part(p, s->ports, s->n_ports * sizeof *s->ports);
	s->endpoints = pack_part(p, s->endpoints, s->n_endpoints * sizeof *s->endpoints);
	for (size_t i = 0; i < s->n_ports; i++) {
		pack_text(p, &s->ports[i].name);
		pack_text(p, &s->ports[i].app_protocol);
	}
	for (size_t i = 0; i < s->n_endpoints; i++) {
		struct kube_endpoint *e = &s->endpoints[i];
		char **texts[] = {&e->hostname, &e->zone, &e->node, &e->ip, &e->pod};

		for (size_t k = 0; k < ARRAY_LEN(texts); k++)
			pack_text(p, texts[k]);
		pack_names(p, &e->hint_zones);
		pack_names(p, &e->hint_nodes);
	}
}

static void
pack_endpoints(struct pack *p, struct kube_endpoints *e)
{
	pack_text(p, &e->service);
	e->subsets = pack_part(p, e->subsets, e->n_subsets * sizeof *e->subsets);
	for (size_t i = 0; i < e->n_subsets; i++)
		pack_subset(p, &e->subsets[i]);
}

/* 0: objects of this kind stay as they are. */
static size_t
pack_size(enum kube_kind kind)
{
	switch (kind) {
	case KUBE_SERVICE:
		return sizeof(struct kube_service);
	case KUBE_POD:
		return sizeof(struct kube_pod);
	case KUBE_SLICE:
	case KUBE_ENDPOINTS:
		return sizeof(struct kube_endpoints);
	default:
		return 0;
	}
}

/* The block begins with the object, of which only the kind's member of the union is there. */
static struct kube_object *
pack_object(struct pack *p, struct kube_object *from)
{
	size_t size = offsetof(struct kube_object, service) + pack_size(from->kind);
	struct kube_object *o = pack_part(p, from, size);

	pack_text(p, &o->name);
	pack_text(p, &o->ns);
	if (o->kind == KUBE_SERVICE)
		pack_service(p, &o->service);
	else if (o->kind == KUBE_POD)
		pack_pod(p, &o->pod);
	else
		pack_endpoints(p, &o->endpoints);
	return o;
}

void
kube_pack(struct kube_object **object)
{
	struct kube_object *from = *object, *packed;
	struct pack sizes = {0}, p = {0};

	if (pack_size(from->kind) == 0)
		return;
	pack_object(&sizes, from);
	p.texts = sizes.parts;
	p.block = xmalloc(sizes.parts + sizes.texts);
	packed = pack_object(&p, from);
	packed->packed = true;
	kube_object_free(object);
	*object = packed;
}
