#include "hub/hub_private.h"

#include "base/core/log.h"

bool
hub_source_ready(const struct hub *hub)
{
	return hub->manifests != NULL
		? manifests_ready(hub->manifests)
		: hub->kubernetes != NULL && kubernetes_ready(hub->kubernetes);
}

/* What does not count of a route is logged once; the API server's copy of it says the same. */
static void
hub_source_log_route(const struct cluster_route *r)
{
	for (size_t i = 0; i < r->n_parents && r->news; i++) {
		const struct cluster_route_parent *p = &r->parents[i];

		if (cluster_route_problem(p) == NULL)
			continue;
		log_limited(LOG_LEVEL_WARN, 20, "hub",
			"a route does not count as it is kind=%s route=%s/%s service=%s/%s "
			"accepted=%s resolved=%s reason=\"%.300s\"",
			kube_kind_name(r->kind), r->ns, r->name, p->ref->ns, p->ref->name,
			p->accepted_reason, p->resolved_reason, cluster_route_problem(p));
	}
}

static void
hub_source_settle_routes(struct hub *hub)
{
	struct cluster_route route;

	while (cluster_next_route(hub->cluster, &route)) {
		hub_source_log_route(&route);
		if (hub->route_status != NULL)
			route_status_tell(hub->route_status, &route);
		cluster_route_fini(&route);
	}
}

void
hub_source_settle(void *arg)
{
	struct hub *hub = arg;
	struct cluster_change change;
	char *note;

	while (cluster_next_change(hub->cluster, &change)) {
		hub->n_changes++;
		if (change.view == NULL)
			fanout_remove(hub->fanout, change.ns, change.name);
		else
			fanout_set(hub->fanout, &change);
		cluster_change_fini(&change);
	}
	hub_source_settle_routes(hub);
	for (; (note = cluster_next_note(hub->cluster)) != NULL; free(note))
		log_limited(LOG_LEVEL_WARN, 20, "hub", "%s", note);
	if (hub->nodes != NULL)
		nodes_tell_callers(hub->nodes);
	fanout_settle(hub->fanout);
	if (hub->redirect != NULL)
		redirect_poke(hub->redirect);
	/* During manifests_start there are no nodes yet. */
	if (hub->nodes == NULL)
		return;
	nodes_refresh(hub->nodes);
	if (!hub->ready && hub_source_ready(hub)) {
		hub->ready = true;
		nodes_ready(hub->nodes);
	}
}

static bool
hub_source_dials(void *arg, const char *ns, const char *name)
{
	return acl_opens_cloud_service(((struct hub *)arg)->grants.access, ns, name);
}

void
hub_source_use_access(struct hub *hub)
{
	cluster_use_dials(hub->cluster, hub_source_dials, hub);
	hub_source_settle(hub);
}

static const char *
hub_source_namespace(const struct hub *hub, const struct hub_config *config)
{
	const char *ns = or_empty(config->kubernetes_namespace);

	if (*ns == '\0')
		ns = kube_api_namespace(kubernetes_api(hub->kubernetes));
	return *ns != '\0' ? ns : "default";
}

int
hub_source_start(struct hub *hub, const struct hub_config *config, struct err *err)
{
	const struct manifests_config manifests = {
		.folder = or_empty(config->manifests),
		.data_dir = config->data_dir,
		.cluster = hub->cluster,
		.changed = hub_source_settle,
		.arg = hub,
	};
	const struct kubernetes_config kubernetes = {
		.kubeconfig = or_empty(config->kubeconfig),
		.rules = config->kubernetes_rules,
		.policies = config->kubernetes_policies,
		.gateway = (enum kubernetes_gateway)config->kubernetes_gateway,
		.silence_ms = config->kubernetes_silence_ms,
		.cluster = hub->cluster,
		.changed = hub_source_settle,
		.arg = hub,
	};
	int rc;

	if (manifests.folder[0] != '\0')
		return manifests_start(&hub->manifests, hub->loop, &manifests, err);
	rc = kubernetes_start(&hub->kubernetes, hub->loop, &kubernetes, err);
	if (rc == 0)
		hub->route_status = route_status_new(&(struct route_status_config){
			.loop = hub->loop,
			.api = kubernetes_api(hub->kubernetes),
			.ns = hub_source_namespace(hub, config),
		});
	if (rc == 0)
		hub->sites = node_sites_start(&(struct node_sites_config){
			.loop = hub->loop,
			.api = kubernetes_api(hub->kubernetes),
			.cluster = hub->cluster,
			.note = config->kubernetes_sites,
		});
	return rc;
}
