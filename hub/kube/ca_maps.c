#include "hub/kube/ca_maps.h"

#include <string.h>
#include <sys/queue.h>

#include "base/core/log.h"
#include "hub/kube/follow.h"
#include "model/check.h"

struct ca_map {
	TAILQ_ENTRY(ca_map) entry;
	struct ca_maps *of;
	struct follow *follow;
	char *ns, *name, *path, *what;
	unsigned seen; /* the round in which it came last */
	bool listed, wanted;
};

struct ca_maps {
	struct ca_maps_config config;
	TAILQ_HEAD(, ca_map) list;
	size_t n;
	uint64_t changes; /* of the policies, as last followed */
	bool beyond;
};

static void
ca_map_object(void *arg, const struct tree_node *object, bool gone)
{
	struct ca_map *m = arg;
	struct kube_object *o = NULL;

	m->seen = follow_round(m->follow);
	if (gone) {
		cluster_remove(m->of->config.cluster, "", KUBE_CONFIG_MAP, m->ns, m->name);
		return;
	}
	/* a server that ignores the selector sends others */
	if (kube_decode(&o, m->what, object, "ConfigMap", NULL) == 0 && strcmp(o->ns, m->ns) == 0 &&
		strcmp(o->name, m->name) == 0)
		cluster_put(m->of->config.cluster, "", &o);
	kube_object_free(&o);
}

static void
ca_map_listed(void *arg)
{
	struct ca_map *m = arg;

	m->listed = true;
	if (m->seen != follow_round(m->follow))
		cluster_remove(m->of->config.cluster, "", KUBE_CONFIG_MAP, m->ns, m->name);
}

static void
ca_map_told(void *arg)
{
	struct ca_map *m = arg;

	m->of->config.changed(m->of->config.arg);
}

static void
ca_map_free(struct ca_map *m)
{
	struct ca_maps *maps = m->of;

	TAILQ_REMOVE(&maps->list, m, entry);
	maps->n--;
	follow_stop(&m->follow);
	cluster_remove(maps->config.cluster, "", KUBE_CONFIG_MAP, m->ns, m->name);
	free(m->ns);
	free(m->name);
	free(m->path);
	free(m->what);
	free(m);
}

static struct ca_map *
ca_maps_find(const struct ca_maps *maps, const char *ns, const char *name, size_t *n_of_ns)
{
	struct ca_map *m;

	*n_of_ns = 0;
	TAILQ_FOREACH(m, &maps->list, entry) {
		if (strcmp(m->ns, ns) != 0)
			continue;
		if (strcmp(m->name, name) == 0)
			return m;
		(*n_of_ns)++;
	}
	return NULL;
}

static void
ca_maps_mark(void *arg, const char *ns, const char *name)
{
	size_t n;
	struct ca_map *m = ca_maps_find(arg, ns, name, &n);

	if (m != NULL)
		m->wanted = true;
}

static void
ca_maps_want(void *arg, const char *ns, const char *name)
{
	struct ca_maps *maps = arg;
	struct follow_config follow = {.loop = maps->config.loop,
		.api = maps->config.api,
		.object = ca_map_object,
		.listed = ca_map_listed,
		.told = ca_map_told};
	size_t n_of_ns;
	struct ca_map *m = ca_maps_find(maps, ns, name, &n_of_ns);

	if (m != NULL || !check_label(ns, strlen(ns)) || !check_subdomain(name, strlen(name)))
		return;
	if (maps->n >= CA_MAPS_MAX || n_of_ns >= CA_MAPS_OF_NAMESPACE) {
		maps->beyond = true;
		return;
	}
	m = xcalloc(1, sizeof *m);
	m->of = maps;
	m->ns = xstrdup(ns);
	m->name = xstrdup(name);
	m->path = xasprintf(
		"/api/v1/namespaces/%s/configmaps?fieldSelector=metadata.name%%3D%s", ns, name);
	m->what = xasprintf("the ConfigMap %s/%s", ns, name);
	follow.path = m->path;
	follow.what = m->what;
	follow.rights = maps->config.rights;
	follow.arg = m;
	TAILQ_INSERT_TAIL(&maps->list, m, entry);
	maps->n++;
	m->follow = follow_start(&follow);
}

void
ca_maps_use(struct ca_maps *maps)
{
	struct ca_map *m, *next;

	if (maps->changes == cluster_tls_changes(maps->config.cluster))
		return;
	maps->beyond = false;
	TAILQ_FOREACH(m, &maps->list, entry)
		m->wanted = false;
	cluster_each_config_map(maps->config.cluster, ca_maps_mark, maps);
	for (m = TAILQ_FIRST(&maps->list); m != NULL; m = next) {
		next = TAILQ_NEXT(m, entry);
		if (!m->wanted)
			ca_map_free(m);
	}
	cluster_each_config_map(maps->config.cluster, ca_maps_want, maps);
	maps->changes = cluster_tls_changes(maps->config.cluster);
}

bool
ca_maps_settled(const struct ca_maps *maps)
{
	const struct ca_map *m;

	TAILQ_FOREACH(m, &maps->list, entry)
		if (!m->listed)
			return false;
	return true;
}

const char *
ca_maps_problem(const struct ca_maps *maps)
{
	const struct ca_map *m;

	if (maps->beyond)
		return "BackendTLSPolicies name more ConfigMaps than the hub follows (256, of "
		       "one namespace 32): let them share some";
	TAILQ_FOREACH(m, &maps->list, entry)
		if (follow_problem(m->follow)[0] != '\0')
			return follow_problem(m->follow);
	return "";
}

size_t
ca_maps_count(const struct ca_maps *maps)
{
	return maps->n;
}

struct ca_maps *
ca_maps_new(const struct ca_maps_config *config)
{
	struct ca_maps *maps = xcalloc(1, sizeof *maps);

	maps->config = *config;
	TAILQ_INIT(&maps->list);
	return maps;
}

void
ca_maps_free(struct ca_maps **out)
{
	struct ca_maps *maps = take_ptr(out);

	if (maps == NULL)
		return;
	while (!TAILQ_EMPTY(&maps->list))
		ca_map_free(TAILQ_FIRST(&maps->list));
	free(maps);
}
