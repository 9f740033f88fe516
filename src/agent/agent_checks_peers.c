#include <string.h>

#include "src/agent/agent_checks.h"
#include "src/common/ctl_answer.h"

void
agent_checks_peers(struct findings *f, const struct tree_node *peers)
{
	const struct tree_node *far = NULL;
	const char *error = ctl_text(peers, "error"), *nat = ctl_text(peers, "nat");
	const char *floods = ctl_text(peers, "floods.trouble");
	unsigned n = 0;

	if (error[0] != '\0') {
		findings_add(f, "peers", VERDICT_BAD,
			"give mesh.peerPort, on all nodes, a port that no other program has; until "
			"then the hub carries what other nodes have for pods of this one",
			"other nodes cannot dial this one: %s", error);
		findings_name(f, "peers-door");
	}
	if (*floods != '\0') {
		findings_add(f, "peers", VERDICT_NOTE,
			"update the agent of that node; if its certificate is in other hands: "
			"edgewayctl node revoke, at the hub",
			"%s", floods);
		findings_name(f, "peers-floods");
	}
	if (*nat != '\0' && strcmp(nat, "ready") != 0) {
		findings_add(f, "peers", VERDICT_NOTE,
			"upgrade the hub, or let it be reached, or take the rules `from: node:...` "
			"out of its access; or set mesh.direct: site",
			"no node is met across NAT (mesh.direct: nat): %s", nat);
		findings_name(f, "peers-nat");
	}
	tree_each(tree_get(peers, "peers"), p) {
		/* no address: the hub has not introduced it, which is as it has to be where it
		 * does not want to be met */
		if (strcmp(ctl_text(p, "state"), "resting") != 0 || *ctl_text(p, "address") == '\0')
			continue;
		if (far == NULL || strcmp(ctl_text(far, "path"), "site") != 0)
			far = p;
		n++;
	}
	if (far == NULL)
		return;
	findings_add(f, "peers", VERDICT_NOTE,
		"let the nodes of a site reach each other at TCP mesh.peerPort (10001), if they "
		"are to; across NAT (path nat) both NATs have to keep a port for all "
		"destinations; "
		"until then the hub carries it (edgewayctl peers has all)",
		"%u of the other nodes cannot be dialled; %s at %s: %s", n, ctl_text(far, "peer"),
		ctl_text(far, "address"), ctl_text(far, "error"));
	findings_name(f, "peers-resting");
}
