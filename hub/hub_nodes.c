#include "hub/hub_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/hash.h"
#include "base/core/log.h"
#include "model/json.h"
#include "model/selector.h"

enum { AGAIN_MS = 10 * 1000 };

/* The host part of the listen address for the certificate; "" for the wildcard address. */
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
	config->share = authority_share(hub->authority);
	config->approvals = authority_approvals(hub->authority);
	config->bars = hub_bars_node;
	config->bars_arg = hub;
	config->tunnels = hub->tunnels;
	config->outward = hub->outward_tunnels;
	tunnels_renew(hub->tunnels, config->tls);
	tunnels_renew(hub->outward_tunnels, config->tls);
	peers_use(hub->peers, config->tls, authority_peer_tls(hub->authority));
	rendezvous_use(hub->rendezvous, config->tls, hub->peers);
	config->rendezvous = hub->rendezvous;
	config->others = hub->peers;
	config->presence = hub->presence;
	if ((rc = nodes_start(&hub->nodes, hub->loop, config, err)) < 0)
		return rc;
	nodes_hold(hub->nodes, hub->held);
	addr = nodes_addr(hub->nodes);
	log_info("hub", "serving listen=%s services=%zu ca=%s", addr_text(&addr, text),
		fanout_count(hub->fanout), certs_ca_hash(config->certs));
	return 0;
}

/* --- names that a stranger may not get ------------------------------------------------------ */

/* Allows a node if the hub itself connects to no pod by its name: an edge node, or one that is
 * unknown in the cluster. The hub connects to the pods of all other nodes directly, and whoever
 * takes the name gets their traffic. */
int
hub_bars_node(void *arg, const char *node, struct err *err)
{
	const struct hub *hub = arg;
	const struct kube_labels *labels = cluster_node_labels(hub->cluster, node);
	const char *text = hub->join_nodes_text, *service = routes_service(hub->ways, node);
	bool selected =
		text[0] == '\0' || (labels != NULL && selector_matches(hub->join_nodes, labels));

	if (!hub_source_ready(hub))
		return err_set(err, EAGAIN, "the hub has not read its Nodes yet: try again");
	if (tunnels_have(hub->tunnels, node) || peers_claimed(hub->peers, node) != 0 ||
		(hub->nodes != NULL && nodes_have(hub->nodes, node)))
		return err_set(err, EBUSY,
			"a node named %s is connected: stop that one if this is to take its place, "
			"or make a token with `edgewayctl token create --node %s` on the hub",
			node, node);
	/* A name that nobody may ask for (EPERM) comes before one that an operator may decide
	 * about. */
	if (!selected && labels != NULL)
		return err_set(err, EPERM,
			"the Node %s is not one of the edge, by join.nodes (%.100s): label it, or "
			"make "
			"a token with `edgewayctl token create --node %s` on the hub",
			node, text, node);
	if (!selected && hub->kubernetes == NULL && cluster_names_node(hub->cluster, node))
		return err_set(err, EPERM,
			"the hub dials the pods of %s itself: make a token with `edgewayctl token "
			"create --node %s` on the hub, or give it a Node that join.nodes selects",
			node, node);
	if (service != NULL)
		return err_set(err, EEXIST,
			"%s is the name of the Service %.200s, whose calls come to the hub by that "
			"name: choose another one for the node, or make a token with `edgewayctl "
			"token create --node %s` on the hub",
			node, service, node);
	/* Replicas never withdraw the names that they report: these count only if nothing else is
	 * known. */
	if (!certs_shared(authority_certs(hub->authority)) && peers_know(hub->peers, node))
		return err_set(err, EEXIST,
			"another replica of the hub knows a node named %s: make a token with "
			"`edgewayctl token create "
			"--node %s` on the hub",
			node, node);
	if (!selected && hub->kubernetes != NULL)
		return err_set(err, ENOENT,
			"there is no Node %s in the cluster, and it could become one of the cloud: "
			"make "
			"a token with `edgewayctl token create --node %s` on the hub",
			node, node);
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
		rendezvous_use(hub->rendezvous, tls, hub->peers);
		peers_use(hub->peers, tls, authority_peer_tls(hub->authority));
	}
	return rc;
}

static const struct records *
hub_revoked_hubs(const struct hub *hub)
{
	return revoked_hubs(ledger_registry(certs_ledger(authority_certs(hub->authority))));
}

void
hub_tell_revoked(struct hub *hub)
{
	uint64_t hubs = hub_revoked_hubs(hub)->changes;
	auto_buf struct buf nodes;

	buf_init(&nodes, BUF_UNLIMITED);
	nodes_revoked_write(&hub->nodes_config, &nodes);
	hubs = hash64(buf_at(&nodes), buf_len(&nodes), hubs);
	if (hub->nodes == NULL || hub->crl_told == hubs)
		return;
	hub->crl_told = hubs;
	nodes_tell_crl(hub->nodes);
}

static void
on_revoked(void *arg)
{
	struct hub *hub = arg;

	peers_check(hub->peers);
	if (hub->nodes != NULL)
		nodes_check(hub->nodes);
	hub_tell_revoked(hub);
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
				.cluster_domain = hub->nodes_config.cluster_domain,
				.ca_force = config->ca_force,
			},
		.ns = "",
		.service = or_empty(config->service),
		.approval = config->approval,
		.bars = hub_bars_node,
		.cluster_domain = hub->nodes_config.cluster_domain,
		.ready = on_authority_ready,
		.renewed = on_renewed,
		.revoked = on_revoked,
		.ca_changed = on_ca_changed,
		.arg = hub,
	};
	int rc;

	hub->data_dir = xstrdup(config->data_dir);
	hub->join_nodes_text = xstrdup(or_empty(config->join_nodes));
	if ((rc = selector_parse(&hub->join_nodes, hub->join_nodes_text, err)) < 0)
		return err_wrap(err, rc, "join.nodes");
	rc = mkdir_p(config->data_dir, 0700);
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

/* --- tokens and nodes ----------------------------------------------------------------------- */

int
hub_token_create(struct hub *hub, const struct hub_token *token, struct buf *out, struct err *err)
{
	const struct tokens_wish wish = {
		.node = or_empty(token->node), .uses = token->uses, .ttl_s = token->ttl_s};

	return authority_token_create(hub->authority, &wish, out, err);
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

static int
hub_end_node(struct hub *hub, const char *node, bool forget, struct err *err)
{
	int rc = forget ? authority_node_forget(hub->authority, node, err)
			: authority_node_revoke(hub->authority, node, err);
	unsigned ended = 0;

	if (hub->nodes == NULL)
		return MIN(rc, 0);
	if (rc >= 0) {
		ended = nodes_revoked(hub->nodes, node) + tunnels_revoked(hub->tunnels, node) +
			tunnels_revoked(hub->outward_tunnels, node);
		log_info("hub", "node %s node=%s connections=%u tokens=%d",
			forget ? "forgotten" : "revoked", node, ended, rc);
		if (forget)
			presence_forget(hub->presence, node);
	}
	return MIN(rc, 0);
}

int
hub_node_revoke(struct hub *hub, const char *node, struct err *err)
{
	return hub_end_node(hub, node, false, err);
}

int
hub_node_forget(struct hub *hub, const char *node, struct err *err)
{
	return hub_end_node(hub, node, true, err);
}

int
hub_ca_use(struct hub *hub, bool force, struct err *err)
{
	return authority_ca_use(hub->authority, force, err);
}

void
hub_ca_list(const struct hub *hub, struct buf *out)
{
	authority_ca_list(hub->authority, out);
}

const char *
hub_unwritten(const struct hub *hub)
{
	return authority_unwritten(hub->authority);
}

/* --- certificates of hubs ------------------------------------------------------------------- */

/* Finds the serial number for a name: this hub's name at other replicas, that of a connected
 * replica, or the serial number itself. */
static int
find_serial(const struct hub *hub, const char *name, char serial[PKI_SERIAL_TEXT], struct err *err)
{
	struct certs_term ca, own;

	certs_terms(authority_certs(hub->authority), &ca, &own);
	if (strcmp(name, peers_own_name(hub->peers)) == 0) {
		memcpy(serial, own.serial, sizeof own.serial);
		return 0;
	}
	if (peers_serial(hub->peers, name, serial))
		return 0;
	if (strlen(name) >= PKI_SERIAL_TEXT || strspn(name, "0123456789abcdef") != strlen(name))
		return err_set(err, ENOENT,
			"\"%.80s\" is neither the name of a hub that is connected nor a serial "
			"number: "
			"see `edgewayctl hub list`",
			name);
	strcpy(serial, name);
	return 0;
}

int
hub_hub_revoke(struct hub *hub, const char *name, struct buf *out, struct err *err)
{
	char serial[PKI_SERIAL_TEXT];
	int rc = authority_ready(hub->authority)
		? 0
		: err_set(err, EAGAIN, "the hub is not ready: %.300s", hub_waits(hub));

	if (rc == 0)
		rc = find_serial(hub, name, serial, err);
	if (rc == 0)
		rc = authority_hub_revoke(hub->authority, serial, err);
	if (rc < 0)
		return rc;
	on_revoked(hub);
	buf_adds(out, serial);
	return 0;
}

void
hub_hubs(const struct hub *hub, struct buf *out)
{
	struct certs_term ca, own;

	buf_adds(out, "{\"hubs\":[");
	if (authority_ready(hub->authority)) {
		certs_terms(authority_certs(hub->authority), &ca, &own);
		buf_adds(out, "{\"hub\":");
		json_add_text(out, peers_own_name(hub->peers));
		buf_printf(out, ",\"address\":\"\",\"state\":\"this one\",\"serial\":\"%s\"}",
			own.serial);
		peers_serials(hub->peers, out);
		for (size_t i = 0; i < hub_revoked_hubs(hub)->n; i++) {
			const struct revoked_hub *revoked = hub_revoked_hubs(hub)->all[i];

			buf_printf(out,
				",{\"hub\":\"\",\"address\":\"\",\"state\":\"revoked\",\"serial\":"
				"\"%s\",\"since\":\"",
				revoked->record.key);
			buf_add_utc(out, revoked->at_s);
			buf_adds(out, "\"}");
		}
	}
	buf_adds(out, "]}\n");
}
