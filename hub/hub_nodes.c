#include "hub/hub_private.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"

enum { AGAIN_MS = 10 * 1000 };

/* The host part of the listen address for the certificate; "" when it is any. */
static const char *
listen_host(const struct addr *a, char to[INET6_ADDRSTRLEN])
{
	to[0] = '\0';
	if (a->sa.sa_family == AF_INET && a->in.sin_addr.s_addr != htonl(INADDR_ANY))
		inet_ntop(AF_INET, &a->in.sin_addr, to, INET6_ADDRSTRLEN);
	else if (a->sa.sa_family == AF_INET6 && !IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr))
		inet_ntop(AF_INET6, &a->in6.sin6_addr, to, INET6_ADDRSTRLEN);
	return to;
}

int
hub_nodes_start(struct hub *hub, struct err *err)
{
	struct nodes_config *config = &hub->nodes_config;
	char text[ADDR_TEXT_MAX];
	struct addr addr;
	int rc;

	hub->ready = hub_source_ready(hub);
	config->ready = hub->ready;
	config->tls = authority_tls(hub->authority);
	config->certs = authority_certs(hub->authority);
	config->tokens = authority_tokens(hub->authority);
	config->share = authority_share(hub->authority);
	config->approvals = authority_approvals(hub->authority);
	config->tunnels = hub->tunnels;
	config->outward = hub->outward_tunnels;
	tunnels_renew(hub->tunnels, config->tls);
	tunnels_renew(hub->outward_tunnels, config->tls);
	peers_use(hub->peers, config->tls, authority_peer_tls(hub->authority));
	config->others = hub->peers;
	if ((rc = nodes_start(&hub->nodes, hub->loop, config, err)) < 0)
		return rc;
	addr = nodes_addr(hub->nodes);
	log_info("hub", "serving listen=%s services=%zu ca=%s", addr_text(&addr, text),
		fanout_count(hub->fanout), certs_ca_hash(config->certs));
	return 0;
}

static void
on_authority_ready(void *arg)
{
	struct hub *hub = arg;
	struct err err = {0};

	if (hub_nodes_start(hub, &err) < 0) {
		log_error("hub", "nodes cannot be served, trying again in 10 s: %s", err.text);
		timer_start(hub->again, AGAIN_MS, 0);
	}
}

static int
on_renewed(void *arg, struct ssl_ctx_st *tls)
{
	struct hub *hub = arg;

	int rc = hub->nodes != NULL ? nodes_renew(hub->nodes, tls) : 0;

	if (rc == 0) {
		hub->nodes_config.tls = tls;
		tunnels_renew(hub->tunnels, tls);
		tunnels_renew(hub->outward_tunnels, tls);
		peers_use(hub->peers, tls, authority_peer_tls(hub->authority));
	}
	return rc;
}

static void
on_revoked(void *arg)
{
	struct hub *hub = arg;

	if (hub->nodes != NULL)
		nodes_check(hub->nodes);
	tunnels_check(hub->tunnels);
	tunnels_check(hub->outward_tunnels);
}

static void
on_ca_changed(void *arg)
{
	struct hub *hub = arg;

	if (hub->nodes != NULL)
		nodes_again(hub->nodes, "the hub's CA changed, connect again");
}

int
hub_authority_start(struct hub *hub, const struct hub_config *config, struct err *err)
{
	struct authority_config authority = {
		.certs =
			{
				.data_dir = config->data_dir,
				.cert = or_empty(config->cert),
				.key = or_empty(config->key),
				.ca = or_empty(config->ca),
				.ca_key = or_empty(config->ca_key),
				.names = config->names,
				.listen = listen_host(&hub->nodes_config.listen, hub->listen_host),
				.node_life_s = config->node_life_s,
			},
		.ns = "",
		.service = or_empty(config->service),
		.approval = config->approval,
		.cluster_domain = hub->nodes_config.cluster_domain,
		.ready = on_authority_ready,
		.renewed = on_renewed,
		.revoked = on_revoked,
		.ca_changed = on_ca_changed,
		.arg = hub,
	};
	int rc = mkdir_p(config->data_dir, 0700);

	if (rc < 0)
		return err_set(err, rc,
			"cannot make the data folder %s: %s; set dataDir to a folder that can be "
			"written",
			config->data_dir, strerror(-rc));
	hub->again = timer_new(hub->loop, on_authority_ready, hub);
	if (hub->kubernetes != NULL)
		authority.api = kubernetes_api(hub->kubernetes);
	if (hub->kubernetes != NULL && !config->kubernetes_alone) {
		authority.ns = or_empty(config->kubernetes_namespace);
		if (authority.ns[0] == '\0')
			authority.ns = kube_api_namespace(authority.api);
		if (authority.ns[0] == '\0')
			authority.ns = "edgeway";
	}
	return authority_start(&hub->authority, hub->loop, &authority, err);
}

/* --- tokens and nodes ------------------------------------------------------- */

int
hub_token_create(
	struct hub *hub, const char *node, uint64_t ttl_s, struct buf *out, struct err *err)
{
	return authority_token_create(hub->authority, node, ttl_s, out, err);
}

void
hub_token_list(const struct hub *hub, struct buf *out)
{
	authority_token_list(hub->authority, out);
}

int
hub_token_revoke(struct hub *hub, const char *id, struct err *err)
{
	return authority_token_revoke(hub->authority, id, err);
}

int
hub_node_revoke(struct hub *hub, const char *node, struct err *err)
{
	int rc = authority_node_revoke(hub->authority, node, err);
	unsigned ended = 0;

	if (hub->nodes == NULL)
		return MIN(rc, 0);
	if (rc >= 0) {
		ended = nodes_revoked(hub->nodes, node) + tunnels_revoked(hub->tunnels, node) +
			tunnels_revoked(hub->outward_tunnels, node);
		log_info("hub", "node revoked node=%s connections=%u tokens=%d", node, ended, rc);
	} else {
		on_revoked(hub); /* the certificates may be revoked all the same */
	}
	return MIN(rc, 0);
}
