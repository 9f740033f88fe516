#include "hub/hub_private.h"

#include "base/core/log.h"

bool
hub_source_ready(const struct hub *hub)
{
	return hub->manifests != NULL
		? manifests_ready(hub->manifests)
		: hub->kubernetes != NULL && kubernetes_ready(hub->kubernetes);
}

static void
on_changed(void *arg)
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

int
hub_source_start(struct hub *hub, const struct hub_config *config, struct err *err)
{
	const struct manifests_config manifests = {
		.folder = or_empty(config->manifests),
		.data_dir = config->data_dir,
		.cluster = hub->cluster,
		.changed = on_changed,
		.arg = hub,
	};
	const struct kubernetes_config kubernetes = {
		.kubeconfig = or_empty(config->kubeconfig),
		.rules = config->kubernetes_rules,
		.policies = config->kubernetes_policies,
		.silence_ms = config->kubernetes_silence_ms,
		.cluster = hub->cluster,
		.changed = on_changed,
		.arg = hub,
	};
	int rc;

	if (manifests.folder[0] != '\0')
		return manifests_start(&hub->manifests, hub->loop, &manifests, err);
	rc = kubernetes_start(&hub->kubernetes, hub->loop, &kubernetes, err);
	if (rc == 0)
		hub->sites = node_sites_start(&(struct node_sites_config){
			.loop = hub->loop,
			.api = kubernetes_api(hub->kubernetes),
			.cluster = hub->cluster,
			.note = config->kubernetes_sites,
		});
	return rc;
}
