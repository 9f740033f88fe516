#include "hub/hub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/pki.h"
#include "hub/certs.h"
#include "hub/doors.h"
#include "hub/fanout.h"
#include "hub/kubernetes.h"
#include "hub/manifests.h"
#include "hub/nodes.h"
#include "hub/route.h"
#include "hub/tokens.h"
#include "model/cluster.h"
#include "model/json.h"

enum { PORT = 10000, HEARTBEAT_MS = 4000, RENEW_CHECK_MS = 10 * 1000, EXPLAIN_MS = 2000 };

struct hub {
	struct loop *loop;
	struct certs *certs;
	struct tokens *tokens;
	struct cluster *cluster;
	struct fanout *fanout;
	struct manifests *manifests; /* one of these two is the source */
	struct kubernetes *kubernetes;
	struct nodes *nodes;
	struct tunnels *tunnels;
	struct access *access;
	struct ways_finder *ways;
	struct cloud *cloud;
	struct reach *reach;
	struct ingress *ingress;
	struct ssl_ctx_st *tls;
	struct timer *renew, *explain;
	bool ready;
	uint64_t n_changes;
};

static const char *
or_empty(const char *s)
{
	return s != NULL ? s : "";
}

static int64_t
now_s(void)
{
	return (int64_t)(wall_ms() / 1000);
}

/* --- from the source to the nodes ----------------------------------------- */

static bool
source_ready(const struct hub *hub)
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
	struct err err = {0};

	while (cluster_next_change(hub->cluster, &change)) {
		hub->n_changes++;
		if (change.view == NULL)
			fanout_remove(hub->fanout, change.ns, change.name);
		else if (fanout_set(hub->fanout, &change, &err) < 0)
			log_error("hub", "a service stays as it was: %s", err.text);
		cluster_change_fini(&change);
	}
	fanout_settle(hub->fanout);
	/* During manifests_start there are none yet. */
	if (hub->nodes == NULL)
		return;
	nodes_refresh(hub->nodes);
	if (!hub->ready && source_ready(hub)) {
		hub->ready = true;
		nodes_ready(hub->nodes);
	}
}

/* Tells the Kubernetes source what is to be said of its Services. */
static void
on_explain(void *arg)
{
	struct hub *hub = arg;
	struct kube_events *events =
		hub->kubernetes != NULL ? kubernetes_events(hub->kubernetes) : NULL;

	if (events == NULL)
		return;
	kube_events_begin(events);
	for (uint32_t i = 0; i < fanout_slots(hub->fanout); i++) {
		const struct fanout_item *item = fanout_at(hub->fanout, i);
		const char *slash = item != NULL ? strchr(item->key, '/') : NULL;
		auto_free char *ns = NULL;

		/* A name with a dot is of a pod's own view, not of a Service. */
		if (item == NULL || !item->present || strchr(slash, '.') != NULL)
			continue;
		ns = xstrndup(item->key, (size_t)(slash - item->key));
		kube_events_tell(
			events, ns, slash + 1, cluster_reason(hub->cluster, ns, slash + 1));
	}
	kube_events_end(events);
}

/* --- certificates --------------------------------------------------------- */

static void
on_renew(void *arg)
{
	struct hub *hub = arg;
	struct ssl_ctx_st *ctx = NULL;
	struct err err = {0};
	int rc;

	if (!certs_renew_due(hub->certs, now_s()))
		return;
	rc = certs_server_ctx(hub->certs, now_s(), &ctx, &err);
	if (rc == 0 && (rc = nodes_renew(hub->nodes, ctx)) < 0)
		err_set(&err, rc, "%s", strerror(-rc));
	if (rc < 0) {
		log_limited(LOG_LEVEL_ERROR, 1, "hub",
			"the hub's certificate cannot be renewed: %s", err.text);
		pki_ctx_free(&ctx);
		return;
	}
	tunnels_renew(hub->tunnels, ctx);
	pki_ctx_free(&hub->tls);
	hub->tls = ctx;
}

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

static int
start_certs(struct hub *hub, const struct hub_config *config, const struct addr *listen,
	struct err *err)
{
	char host[INET6_ADDRSTRLEN];
	const struct certs_config certs = {
		.data_dir = config->data_dir,
		.cert = or_empty(config->cert),
		.key = or_empty(config->key),
		.ca = or_empty(config->ca),
		.ca_key = or_empty(config->ca_key),
		.names = config->names,
		.listen = listen_host(listen, host),
		.node_life_s = config->node_life_s,
	};
	auto_free char *path = xasprintf("%s/tokens.json", config->data_dir);
	int rc = mkdir_p(config->data_dir, 0700);

	if (rc < 0)
		return err_set(err, rc,
			"cannot make the data folder %s: %s; set dataDir to a folder that can be "
			"written",
			config->data_dir, strerror(-rc));
	if ((rc = certs_open(&hub->certs, &certs, err)) < 0 ||
		(rc = certs_server_ctx(hub->certs, now_s(), &hub->tls, err)) < 0)
		return rc;
	return tokens_open(&hub->tokens, path, err);
}

/* --- start and stop ------------------------------------------------------- */

static bool
refuses(void *arg, const char *node, const char *serial)
{
	const struct hub *hub = arg;

	return certs_refuses(hub->certs, node, serial);
}

static void
start_tunnels(struct hub *hub, uint64_t heartbeat_ms)
{
	struct rlimit limit = {.rlim_cur = 1024};
	struct tunnels_setup setup = {
		.loop = hub->loop,
		.tls = hub->tls,
		.heartbeat_ms = heartbeat_ms,
		.refuses = refuses,
		.arg = hub,
	};

	getrlimit(RLIMIT_NOFILE, &limit);
	setup.most = (size_t)MIN(limit.rlim_cur / 4, (rlim_t)TUNNELS_MOST);
	hub->tunnels = tunnels_new(&setup);
}

static bool
at_edge(void *arg, const char *node)
{
	const struct hub *hub = arg;

	return tunnels_have(hub->tunnels, node) || certs_taken(hub->certs, node);
}

static bool
tunnelled(void *arg, const char *node)
{
	const struct hub *hub = arg;

	return tunnels_have(hub->tunnels, node);
}

static int
start_ingress(struct hub *hub, const struct hub_ways_in *config, const char *cluster_domain,
	struct err *err)
{
	const struct ways_config ways = {
		.cluster = hub->cluster,
		.fanout = hub->fanout,
		.cluster_domain = cluster_domain,
		.suffix = or_empty(config->zone),
		.at_edge = at_edge,
		.tunnelled = tunnelled,
		.arg = hub,
	};
	int rc = access_new(config->access, &hub->access, err);

	if (rc < 0)
		return rc;
	hub->ways = ways_new(&ways);
	hub->cloud = cloud_new(hub->loop);
	hub->reach = reach_new(&(struct reach_config){
		.loop = hub->loop,
		.ways = hub->ways,
		.access = hub->access,
		.tunnels = hub->tunnels,
		.cloud = hub->cloud,
	});
	hub->ingress = ingress_new(&(struct ingress_config){
		.loop = hub->loop,
		.reach = hub->reach,
		.access = hub->access,
	});
	return doors_open(hub->ingress, config, err);
}

static int
start_source(struct hub *hub, const struct hub_config *config, struct err *err)
{
	const struct manifests_config manifests = {
		.folder = or_empty(config->manifests),
		.cluster = hub->cluster,
		.changed = on_changed,
		.arg = hub,
	};
	const struct kubernetes_config kubernetes = {
		.kubeconfig = or_empty(config->kubeconfig),
		.silence_ms = config->kubernetes_silence_ms,
		.cluster = hub->cluster,
		.changed = on_changed,
		.arg = hub,
	};

	if (manifests.folder[0] != '\0')
		return manifests_start(&hub->manifests, hub->loop, &manifests, err);
	return kubernetes_start(&hub->kubernetes, hub->loop, &kubernetes, err);
}

static int
start(struct hub *hub, const struct hub_config *config, struct err *err)
{
	struct nodes_config nodes = {
		.heartbeat_ms = config->heartbeat_ms > 0 ? config->heartbeat_ms : HEARTBEAT_MS,
		.cluster_domain = or_empty(config->cluster_domain),
		.fanout = hub->fanout,
		.cluster = hub->cluster,
	};
	char text[ADDR_TEXT_MAX];
	struct addr addr;
	int rc = addr_parse(&nodes.listen, config->listen, PORT, err);

	if (rc < 0)
		return err_wrap(err, rc, "listen");
	if ((rc = start_certs(hub, config, &nodes.listen, err)) < 0 ||
		(rc = start_source(hub, config, err)) < 0)
		return rc;
	if (nodes.cluster_domain[0] == '\0')
		nodes.cluster_domain = "cluster.local";
	hub->ready = source_ready(hub);
	nodes.ready = hub->ready;
	nodes.tls = hub->tls;
	nodes.certs = hub->certs;
	nodes.tokens = hub->tokens;
	start_tunnels(hub, nodes.heartbeat_ms);
	nodes.tunnels = hub->tunnels;
	if ((rc = nodes_start(&hub->nodes, hub->loop, &nodes, err)) < 0 ||
		(rc = start_ingress(hub, &config->ways_in, nodes.cluster_domain, err)) < 0)
		return rc;
	hub->renew = timer_new(hub->loop, on_renew, hub);
	timer_start(hub->renew, RENEW_CHECK_MS, RENEW_CHECK_MS);
	hub->explain = timer_new(hub->loop, on_explain, hub);
	timer_start(hub->explain, EXPLAIN_MS, EXPLAIN_MS);
	addr = nodes_addr(hub->nodes);
	log_info("hub", "serving listen=%s services=%zu ca=%s", addr_text(&addr, text),
		fanout_count(hub->fanout), certs_ca_hash(hub->certs));
	return 0;
}

int
hub_start(struct hub **out, struct loop *loop, const struct hub_config *config, struct err *err)
{
	struct hub *hub = xcalloc(1, sizeof *hub);
	int rc;

	hub->loop = loop;
	hub->cluster = cluster_new();
	hub->fanout = fanout_new();
	rc = start(hub, config, err);
	if (rc < 0)
		hub_stop(&hub);
	*out = hub;
	return rc;
}

void
hub_drain(struct hub *hub, void (*done)(void *arg), void *arg)
{
	ingress_drain(hub->ingress);
	tunnels_drain(hub->tunnels, done, arg);
}

void
hub_stop(struct hub **out)
{
	struct hub *hub = take_ptr(out);

	if (hub == NULL)
		return;
	timer_free(&hub->renew);
	timer_free(&hub->explain);
	manifests_stop(&hub->manifests);
	kubernetes_stop(&hub->kubernetes);
	nodes_stop(&hub->nodes);
	ingress_free(&hub->ingress);
	reach_free(&hub->reach);
	cloud_free(&hub->cloud);
	ways_free(&hub->ways);
	access_free(&hub->access);
	tunnels_free(&hub->tunnels);
	fanout_free(&hub->fanout);
	cluster_free(&hub->cluster);
	tokens_close(&hub->tokens);
	certs_close(&hub->certs);
	pki_ctx_free(&hub->tls);
	free(hub);
}

/* --- telling -------------------------------------------------------------- */

bool
hub_ready(const struct hub *hub)
{
	return hub->ready;
}

struct addr
hub_addr(const struct hub *hub)
{
	return nodes_addr(hub->nodes);
}

void
hub_metrics(const struct hub *hub, struct metrics *m)
{
	metric_gauge(m, "edgeway_hub_services", "Services that nodes are told of.", NULL,
		(double)fanout_count(hub->fanout));
	metric_counter(m, "edgeway_hub_service_changes_total", "Changes of service views.", NULL,
		hub->n_changes);
	metric_gauge(m, "edgeway_hub_tokens", "Tokens that have not been removed.", NULL,
		(double)tokens_count(hub->tokens));
	if (hub->manifests != NULL)
		manifests_metrics(hub->manifests, m);
	else
		kubernetes_metrics(hub->kubernetes, m);
	nodes_metrics(hub->nodes, m);
	tunnels_metrics(hub->tunnels, m);
	ingress_metrics(hub->ingress, m);
	reach_metrics(hub->reach, m);
}

static void
add_reason(const struct hub *hub, const char *key, const char *slash, struct buf *out)
{
	auto_free char *ns = xstrndup(key, (size_t)(slash - key));

	json_add_text(out, cluster_reason(hub->cluster, ns, slash + 1));
}

static void
add_services(const struct hub *hub, struct buf *out)
{
	const char *comma = "";

	for (uint32_t i = 0; i < fanout_slots(hub->fanout); i++) {
		const struct fanout_item *item = fanout_at(hub->fanout, i);
		const char *slash;

		if (item == NULL || !item->present)
			continue;
		slash = strchr(item->key, '/');
		buf_printf(out,
			"%s{\"namespace\":\"%.*s\",\"name\":\"%s\",\"digest\":\"%016llx\","
			"\"reason\":",
			comma, (int)(slash - item->key), item->key, slash + 1,
			(unsigned long long)item->digest);
		add_reason(hub, item->key, slash, out);
		buf_adds(out, ",\"view\":");
		buf_add(out, item->content, item->content_len);
		buf_adds(out, "}");
		comma = ",";
	}
}

void
hub_state(const struct hub *hub, struct buf *out)
{
	buf_printf(out, "{\"ca\":\"%s\",\"source\":", certs_ca_hash(hub->certs));
	if (hub->manifests != NULL)
		manifests_state(hub->manifests, out);
	else
		kubernetes_state(hub->kubernetes, out);
	buf_adds(out, ",\"nodes\":");
	nodes_state(hub->nodes, false, out);
	buf_adds(out, ",\"tunnels\":");
	tunnels_state(hub->tunnels, out);
	buf_adds(out, ",\"visits\":");
	ingress_state(hub->ingress, out);
	buf_adds(out, ",\"services\":[");
	add_services(hub, out);
	buf_adds(out, "]}");
}

void
hub_nodes(const struct hub *hub, struct buf *out)
{
	buf_adds(out, "{\"nodes\":");
	nodes_state(hub->nodes, true, out);
	buf_adds(out, "}\n");
}

void
hub_tunnels(const struct hub *hub, struct buf *out)
{
	buf_adds(out, "{\"tunnels\":");
	tunnels_state(hub->tunnels, out);
	buf_adds(out, "}\n");
}

/* --- tokens --------------------------------------------------------------- */

int
hub_token_create(
	struct hub *hub, const char *node, uint64_t ttl_s, struct buf *out, struct err *err)
{
	char secret[TOKEN_SECRET_LEN + 1];
	int rc;

	if (!certs_can_sign(hub->certs))
		return err_set(err, ENOTSUP,
			"this hub signs no certificates: tls.ca is set and tls.caKey is not");
	if (node[0] != '\0' && !node_name_ok(node))
		return err_set(err, EINVAL,
			"\"%.80s\" cannot be the name of a node: a-z, 0-9, '-' and '.' only", node);
	rc = tokens_create(hub->tokens, node, ttl_s, now_s(), secret, err);
	if (rc < 0)
		return rc;
	log_info("hub", "token made id=%.*s node=%s ttl_s=%llu", TOKEN_ID_LEN, secret,
		node[0] != '\0' ? node : "(any)", (unsigned long long)ttl_s);
	buf_printf(out, "%s.%s", certs_ca_hash(hub->certs), secret);
	return 0;
}

void
hub_token_list(const struct hub *hub, struct buf *out)
{
	buf_adds(out, "{\"tokens\":");
	tokens_list(hub->tokens, now_s(), out);
	buf_adds(out, "}\n");
}

int
hub_token_revoke(struct hub *hub, const char *id, struct err *err)
{
	int rc = tokens_revoke(hub->tokens, id, err);

	if (rc == 0)
		log_info("hub", "token revoked id=%s", id);
	return rc;
}

/* --- nodes ---------------------------------------------------------------- */

int
hub_node_revoke(struct hub *hub, const char *node, struct err *err)
{
	unsigned ended;
	int rc;

	if (!node_name_ok(node))
		return err_set(err, EINVAL, "\"%.80s\" cannot be the name of a node", node);
	if ((rc = certs_revoke(hub->certs, node, now_s(), err)) < 0)
		return rc;
	ended = nodes_revoked(hub->nodes, node) + tunnels_revoked(hub->tunnels, node);
	if ((rc = tokens_revoke_node(hub->tokens, node, err)) < 0)
		err_wrap(err, rc,
			"the certificates are revoked, the tokens made for the node are not");
	log_info("hub", "node revoked node=%s connections=%u tokens=%d", node, ended, MAX(rc, 0));
	return MIN(rc, 0);
}
