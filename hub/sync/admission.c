#include "hub/sync/admission.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/log.h"
#include "base/http/retry_after.h"
#include "base/http/ws_tunnels.h"
#include "hub/port/route.h"
#include "model/mesh.h"

enum { HEARTBEAT_LEAST_MS = 100, HEARTBEAT_MOST_MS = 5 * 60 * 1000 };

static int
admission_refused(const struct ws_conn *c, const char *node, int status, const char *why)
{
	log_limited(LOG_LEVEL_WARN, 20, "hub",
		"connection refused node=%s peer=%s status=%d reason=\"%s\"", node, ws_peer_addr(c),
		status, why);
	return status;
}

static bool
speaks_our_protocol(const char *said)
{
	char ours[12];

	snprintf(ours, sizeof ours, "%d", MESH_PROTOCOL);
	return strcmp(said, ours) == 0;
}

/* A node on a metered link chooses how often the hub sends heartbeats. */
static void
heed_heartbeat(struct ws_conn *c, const char *said)
{
	char *end;
	unsigned long ms = strtoul(said, &end, 10);

	if (said[0] >= '0' && said[0] <= '9' && *end == '\0' && ms >= HEARTBEAT_LEAST_MS &&
		ms <= HEARTBEAT_MOST_MS)
		ws_set_heartbeat(c, ms);
}

static int
accept_events(const struct join_config *with, struct ws_conn *c, const char *node)
{
	const char *peer = ws_peer_name(c);

	if (peer[0] == '\0')
		return admission_refused(c, node, 403, "no client certificate of a node");
	if (strcmp(peer, node) != 0)
		return admission_refused(c, node, 403, "the certificate is for another node");
	if (certs_refuses(with->certs, node, ws_peer_serial(c)))
		return admission_refused(c, node, 410, "the certificate was revoked");
	if (strcmp(ws_header(c, "node_id"), node) != 0)
		return admission_refused(c, node, 400, "the header node_id says otherwise");
	if (strcmp(ws_header(c, "project_id"), MESH_PROJECT) != 0)
		return admission_refused(c, node, 400, "another project_id");
	if (ws_header(c, "edgeway-version")[0] == '\0')
		return admission_refused(c, node, 400, "no edgeway-version: not an edgeway-agent");
	if (!speaks_our_protocol(ws_header(c, "edgeway-version")))
		return admission_refused(c, node, 426,
			"the agent speaks another protocol than this hub: upgrade the older one of "
			"the two");
	heed_heartbeat(c, ws_header(c, "edgeway-heartbeat"));
	return 0;
}

int
admission_busy(struct ws_conn *c, const char *why)
{
	uint64_t random;

	random_bytes(&random, sizeof random);
	ws_ask_to_wait(c, retry_after_s(random));
	return admission_refused(c, ws_peer_name(c), 503, why);
}

void
admission_share_life(struct ws_conn *c, struct liveness *all)
{
	struct route route;

	/* behind a proxy that ends TCP the probes would come from the proxy */
	if (route_parse(&route, ws_path(c)) == 0 && route.kind == ROUTE_EVENTS &&
		strcmp(ws_header(c, MESH_UPKEEP_HEADER), MESH_UPKEEP_PROBES) == 0 &&
		!ws_is_proxied(c))
		ws_share_life(c, all, route.node, false);
}

const char *
admission_proven_name(const struct certs *certs, const struct ws_conn *c)
{
	const char *name = ws_peer_name(c);

	return certs_refuses(certs, name, ws_peer_serial(c)) ? "" : name;
}

int
admission_status(const struct join_config *with, struct ws_conn *c)
{
	struct route route;
	int rc = route_parse(&route, ws_path(c));

	if (rc == -EINVAL)
		return admission_refused(c, "?", 400, "not a node's name");
	if (rc < 0)
		return admission_refused(c, "?", 404, "unknown path");
	if (route.kind == ROUTE_CARRIER)
		return admission_refused(c, route.node, 421,
			"a proxy in front of this hub speaks TLS that looks like a node's own: let "
			"it speak plain HTTP to this port, or ask for the server "
			"name " CARRIER_SNI);
	if (route.kind == ROUTE_EVENTS)
		return accept_events(with, c, route.node);
	return join_allow(with, route.node, route_bearer(ws_header(c, "authorization")),
		admission_proven_name(with->certs, c), ws_peer_addr(c));
}
