/*
 * Checks of what pods of this node have of the cloud through the hub. Two sides have to open it:
 * the hub by a rule, and for the API server this node by tunnel.apiserver.
 */
#include <arpa/inet.h>
#include <string.h>

#include "model/snapshot.h"
#include "src/agent/agent_checks.h"
#include "src/common/ctl_answer.h"

#define CLOUD_RULE                                                                                 \
	"at the hub: access: [{from: 'node:NAME', to: ['cloud/NAMESPACE/SERVICE:PORT']}] "         \
	"(edgeway-hub(8)), and reload it"

static bool
cloud_has_hub(const struct service *s)
{
	for (unsigned p = 0; p < s->n_ports; p++)
		for (unsigned i = 0; i < s->ports[p].n_endpoints; i++)
			if (s->ports[p].endpoints[i].via == VIA_TUNNEL)
				return true;
	return false;
}

/* Where tunnel.apiserver is on. why: the hub's rules refuse this node; "": they do not. */
static void
check_apiserver_on(struct findings *f, const struct service *s, const char *why)
{
	if (s == NULL)
		findings_add(f, "apiserver", VERDICT_NOTE,
			"a hub that reads the API server knows it; with manifests write the "
			"Service and its EndpointSlice",
			"tunnel.apiserver is on, and the hub has told of no Service "
			"default/kubernetes");
	else if (*why != '\0')
		findings_add(f, "apiserver", VERDICT_BAD, CLOUD_RULE,
			"the hub refuses this node: %s", why);
	else if (!cloud_has_hub(s))
		findings_add(f, "apiserver", VERDICT_NOTE,
			"at the hub: access: [{from: 'node:NAME', to: "
			"['cloud/default/kubernetes:443']}], and reload it",
			"tunnel.apiserver is on, and no rule of the hub opens default/kubernetes "
			"to nodes: its endpoints are dialled directly");
	else
		findings_add(f, "apiserver", VERDICT_OK, NULL,
			"default/kubernetes is reached through the hub");
}

#define CLOUD_APISERVER                                                                            \
	"where pods here are to call the API server: tunnel.apiserver: true, and at the "          \
	"hub access: [{from: 'node:NAME', to: ['cloud/default/kubernetes:443']}]"

static void
check_apiserver(struct findings *f, const struct tree_node *top, const struct service *s, bool on,
	const char *asker)
{
	const struct tree_node *closed = tree_path(top, "tunnel.outward.closed");
	bool refused = strcmp(ctl_text(closed, "service"), "default/kubernetes") == 0;
	struct in_addr ip = {.s_addr = s != NULL ? htonl(s->cluster_ip) : 0};
	char text[INET_ADDRSTRLEN];

	if (on) {
		check_apiserver_on(f, s, refused ? ctl_text(closed, "why") : "");
		return;
	}
	if (s != NULL && *asker != '\0') {
		findings_add(f, "apiserver", VERDICT_NOTE, CLOUD_APISERVER,
			"tunnel.apiserver is off, and a pod at %s got no answer from "
			"default/kubernetes at %s",
			asker, inet_ntop(AF_INET, &ip, text, sizeof text));
		return;
	}
	if (s == NULL || s->cluster_ip == 0 ||
		(!s->cloud &&
			strcmp(ctl_text(top, "iptables.kernel.clusterIPsServedBy"), "edgeway") !=
				0))
		return;
	findings_add(f, "apiserver", VERDICT_INFO, CLOUD_APISERVER,
		"tunnel.apiserver is off: what pods send to default/kubernetes at %s is left to "
		"the network of this node",
		inet_ntop(AF_INET, &ip, text, sizeof text));
}

void
agent_check_cloud(struct findings *f, const struct tree_node *top, const struct snapshot *snapshot,
	bool apiserver, const char *asker)
{
	const struct service *s = snapshot_find(snapshot, "default", 7, "kubernetes", 10);
	const char *closed = ctl_text(top, "tunnel.outward.closed.service");
	const size_t before = f->n;

	if (ctl_true(top, "tunnel.enabled"))
		check_apiserver(f, top, s, apiserver, asker);
	if (f->n > before)
		findings_name(f, "apiserver");
	if (*closed != '\0' && strcmp(closed, "default/kubernetes") != 0) {
		findings_add(f, "cloud", VERDICT_NOTE, CLOUD_RULE,
			"the hub refuses this node endpoints of %s: %s", closed,
			ctl_text(top, "tunnel.outward.closed.why"));
		findings_name(f, "cloud-closed");
	}
	if (ctl_true(top, "tunnel.peers.rules")) {
		findings_add(f, "peers", VERDICT_INFO,
			"only the hub can apply those rules: without any (of other kinds than to "
			"cloud/...) nodes of a site dial each other",
			"access of the hub has rules for nodes: this node dials no other one, and "
			"asks the hub alone");
		findings_name(f, "peers-rules");
	}
}
