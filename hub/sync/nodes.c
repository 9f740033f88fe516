#include "hub/sync/nodes_private.h"

#include <errno.h>
#include <string.h>

#include "base/core/descriptors.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/preauth.h"
#include "hub/port/route.h"
#include "hub/sync/admission.h"
#include "model/allow_from.h"
#include "model/bundle.h"
#include "model/health.h"
#include "model/mesh.h"

enum {
	ADDRESSES_MAX = 4, /* as many as a node remembers */
	FILES_PART = 16, /* one of so many descriptors is for files and the admin socket */
	CARRIED_DESCRIPTORS = 2, /* of a tunnel in a websocket, in addition to its own */
};

/* --- letting in ----------------------------------------------------------------------------- */

static uint64_t
nodes_hash(const char *node)
{
	return hash64(node, strlen(node), 0);
}

static struct peer *
nodes_same_name(struct table_node *at, const char *node)
{
	for (; at != NULL; at = table_next(at)) {
		struct peer *p = container_of(at, struct peer, by_node);

		if (strcmp(p->node, node) == 0)
			return p;
	}
	return NULL;
}

/* The node's connections, in any order. */
static struct peer *
nodes_first_of(const struct nodes *n, const char *node)
{
	return nodes_same_name(table_first(&n->by_node, nodes_hash(node)), node);
}

static struct peer *
nodes_next_of(const struct peer *p)
{
	return nodes_same_name(table_next(&p->by_node), p->node);
}

struct node_session *
nodes_find_talk(const struct nodes *n, const char *node)
{
	for (struct peer *p = nodes_first_of(n, node); p != NULL; p = nodes_next_of(p)) {
		if (nodes_talks(p))
			return p->talk;
	}
	return NULL;
}

void
nodes_doubt(struct nodes *n, const char *node)
{
	for (struct peer *p = nodes_first_of(n, node); p != NULL; p = nodes_next_of(p))
		if (nodes_talks(p))
			ws_ask(p->conn);
}

bool
nodes_have(const struct nodes *n, const char *node)
{
	return nodes_find_talk(n, node) != NULL;
}

/* A hub that is full still takes connections: the tunnels of its nodes come by the same port. */
static int
on_accept(void *arg, struct ws_conn *c)
{
	struct nodes *n = arg;
	int status = admission_status(&n->join, c);

	if (status == 0 && n->n_peers >= n->most && !nodes_have(n, ws_peer_name(c))) {
		n->full++;
		status = admission_busy(c,
			"this hub has as many nodes as it takes: add a replica, or raise "
			"LimitNOFILE, up to 65536");
	}
	if (status == 0 && ws_header(c, "edgeway-version")[0] != '\0' &&
		!sync_gate_open(&n->gate, mono_ms()))
		status = admission_busy(
			c, "many nodes are being brought into step; it is told when to come again");
	n->n_resumed += status == 0 && ws_resumed(c);
	if (status == 0 && n->config.liveness != NULL)
		admission_share_life(c, n->config.liveness);
	return status;
}

/* Returns true if the comma-separated list contains the word. */
static bool
names_word(const char *list, const char *word)
{
	size_t len = strlen(word), n;

	for (; *list != '\0'; list += n + (list[n] == ',')) {
		list += strspn(list, " ");
		n = strcspn(list, ", ");
		if (n == len && memcmp(list, word, n) == 0)
			return true;
		n += strspn(list + n, " ");
	}
	return false;
}

/* Records a certificate that this hub did not sign (an operator with the CA did, or a replica that
 * does not share its list), so that no token can give the name away. */
static void
note_certificate(const struct nodes *n, struct ws_conn *c, const char *node)
{
	auto_free char *cert = NULL;
	struct err err = {0};

	if (certs_taken(n->config.certs, node) || (cert = ws_peer_cert(c)) == NULL)
		return;
	if (ledger_note(certs_ledger(n->config.certs), node, cert, &err) < 0)
		log_limited(LOG_LEVEL_WARN, 4, "hub",
			"a node's certificate is good, but not noted, and a token could give its "
			"name "
			"away while it is not connected node=%s error=\"%s\"",
			node, err.text);
	else if (n->config.share != NULL)
		share_tell_nodes(n->config.share);
}

/* Records the CAs that the node reports to have. */
static void
nodes_note_cas(const struct nodes *n, struct ws_conn *c, const char *node)
{
	const char *cas = ws_header(c, CA_LIST_HEADER);
	auto_free char *cert = cas[0] != '\0' ? ws_peer_cert(c) : NULL;
	int rc = cert != NULL ? certs_note_cas(n->config.certs, node, cert, cas) : 0;

	if (rc < 0)
		log_limited(LOG_LEVEL_WARN, 4, "hub",
			"the CAs that a node says it has do not count: the first is not the one "
			"that signed its certificate node=%s peer=%s cas=\"%.80s\"",
			node, ws_peer_addr(c), cas);
	else if (rc > 0 && n->config.share != NULL)
		share_tell_nodes(n->config.share);
}

static void
tell_callers(const struct nodes *n, struct node_session *talk)
{
	auto_buf struct buf callers;

	buf_init(&callers, BUF_UNLIMITED);
	if (!node_session_enforces(talk))
		return;
	cluster_callers(n->config.cluster, node_session_node(talk), &callers);
	node_session_callers(talk, &callers);
}

void
nodes_tell_callers(struct nodes *n)
{
	bool before = n->callers_matter;
	char *node;

	n->callers_matter = cluster_restricted(n->config.cluster) > 0;
	for (; (node = cluster_next_callers(n->config.cluster)) != NULL; free(node)) {
		struct node_session *talk =
			before && n->callers_matter ? nodes_find_talk(n, node) : NULL;

		if (talk != NULL)
			tell_callers(n, talk);
	}
	if (before || !n->callers_matter)
		return;
	for (struct peer *p = n->peers; p != NULL; p = p->next)
		if (nodes_talks(p))
			tell_callers(n, p->talk);
}

static void
nodes_replace(struct nodes *n, struct ws_conn *c, struct node_session *old)
{
	const char *node = node_session_node(old), *newer = ws_peer_addr(c);
	struct presence_row row = {.address = ""};

	presence_find(n->config.presence, node, &row);
	log_limited(LOG_LEVEL_INFO, NODES_LOGGED, "hub",
		"a newer connection replaces that of node=%s peer=%s", node, newer);
	if (twins_note(n->twins, node, row.address, newer, loop_now_ms(n->loop)))
		log_limited(LOG_LEVEL_WARN, 6, "hub",
			"sessions of one node replace each other again and again: two machines "
			"with its certificate? node=%s peer=%s older=%s",
			node, newer, row.address);
	node_session_end(old, 4001, "a newer connection of this node replaces this one");
}

static struct node_session *
start_talk(struct nodes *n, struct ws_conn *c, const char *node)
{
	const char *ca = certs_ca_pem(n->config.certs);
	struct node_session *old = nodes_find_talk(n, node);
	const char *addresses[ADDRESSES_MAX];
	char ca_hash[PKI_HASH_TEXT];
	struct node_session *talk;
	auto_buf struct buf revoked;
	struct node_session_config config = {
		.fanout = n->config.fanout,
		.stats = &n->stats,
		.gate = &n->gate,
		.node = node,
		.ca_hash = ca_hash,
		.addresses = addresses,
		.n_addresses = certs_addresses(n->config.certs, addresses, ADDRESSES_MAX),
		.agent = ws_header(c, "edgeway-agent"),
		.site = "",
		.zone = "",
		.labels = cluster_node_labels(n->config.cluster, node),
		.cluster_domain = n->config.cluster_domain,
		.ready = n->config.ready,
		.bundles = strcmp(ws_header(c, "edgeway-bundles"), BUNDLE_KIND) == 0,
		.cluster = n->config.cluster,
		.settle = n->config.settle,
		.settle_arg = n->config.settle_arg,
		.answers = names_word(ws_header(c, "edgeway-answers"), HEALTH_KIND),
		.crl = certs_crl(n->config.certs),
		.takes_crl = ws_header(c, MESH_CRL_HEADER)[0] != '\0',
		.enforces = names_word(ws_header(c, "edgeway-enforces"), ALLOW_FROM_KIND),
		.routes = names_word(ws_header(c, "edgeway-enforces"), MESH_ROUTES_KIND),
		.no_tunnel = strcmp(ws_header(c, MESH_TUNNEL_HEADER), "off") == 0,
	};

	buf_init(&revoked, BUF_UNLIMITED);
	nodes_revoked_write(&n->config, &revoked);
	config.revoked = buf_str(&revoked);
	note_certificate(n, c, node);
	nodes_note_cas(n, c, node);
	pki_sha256_hex(ca, strlen(ca), ca_hash);
	cluster_node(n->config.cluster, node, &config.site, &config.zone);
	if (ws_accept_hides(ws_peer_addr(c)) && config.site[0] == '\0')
		log_limited(LOG_LEVEL_WARN, 4, "hub",
			"a node comes through a proxy and has no site: where it is cannot be seen; "
			"label its Node edgeway.io/site node=%s peer=%s",
			node, ws_peer_addr(c));
	if (old != NULL) {
		nodes_replace(n, c, old);
	} else {
		log_limited(LOG_LEVEL_INFO, NODES_LOGGED, "hub", "node connected node=%s peer=%s",
			node, ws_peer_addr(c));
	}
	if (n->config.others != NULL)
		peers_tell_joined(n->config.others, node);
	talk = node_session_new(&config, c);
	if (cluster_restricted(n->config.cluster) > 0)
		tell_callers(n, talk);
	return talk;
}

/*
 * A node may have one session, one that is being closed, and one renewal. Its earlier connections
 * are cut without waiting for the node: it would take the places of others for as long as it does
 * not answer a close. A client that has not proven its name cuts off nobody.
 */
static void
nodes_crowd_out(struct nodes *n, bool talks, const char *node)
{
	for (struct peer *p = nodes_first_of(n, node); p != NULL; p = nodes_next_of(p)) {
		bool surplus =
			talks ? p->talk != NULL && node_session_ended(p->talk) : p->join != NULL;

		if (!surplus || p->crowded || !p->proven)
			continue;
		p->crowded = true;
		TAILQ_INSERT_TAIL(&n->crowded, p, cut);
		n->n_cut++;
	}
	if (!TAILQ_EMPTY(&n->crowded))
		timer_start(n->cut, 0, 0);
}

/* Deferred: ws does not allow it within the callback of another connection. */
static void
nodes_on_cut(void *arg)
{
	static const char why[] = "newer connections of this node";
	struct nodes *n = arg;

	for (struct peer *p = TAILQ_FIRST(&n->crowded), *next; p != NULL; p = next) {
		next = TAILQ_NEXT(p, cut);
		ws_close(p->conn, 1008, why);
		ws_give_up(p->conn, why);
	}
}

static void
nodes_note_here(struct nodes *n, struct peer *p)
{
	p->presence = presence_here(n->config.presence,
		&(struct presence_row){.node = p->node,
			.address = ws_peer_addr(p->conn),
			.version = ws_header(p->conn, "edgeway-agent"),
			.since_ms = (int64_t)wall_ms()});
	if (n->config.others != NULL)
		peers_tell_presence(n->config.others, p->node);
}

static void
on_open(void *arg, struct ws_conn *c)
{
	struct nodes *n = arg;
	struct peer *p;
	struct route route;

	if (route_parse(&route, ws_path(c)) < 0)
		return; /* cannot happen: it was let in */
	p = xcalloc(1, sizeof *p);
	p->conn = c;
	p->proven = strcmp(admission_proven_name(n->join.certs, c), route.node) == 0;
	if (p->proven)
		nodes_crowd_out(n, route.kind == ROUTE_EVENTS, route.node);
	if (route.kind == ROUTE_EVENTS) {
		p->talk = start_talk(n, c, route.node);
		p->node = node_session_node(p->talk);
		nodes_note_here(n, p);
	} else {
		p->join = join_new(&n->join, c, route.node,
			route_bearer(ws_header(c, "authorization")), p->proven ? route.node : "");
		p->node = join_node(p->join);
	}
	p->next = n->peers;
	p->at = &n->peers;
	if (p->next != NULL)
		p->next->at = &p->next;
	n->peers = p;
	table_add(&n->by_node, &p->by_node, nodes_hash(p->node));
	n->n_peers++;
	ws_set_arg(c, p);
}

/* --- received messages ---------------------------------------------------------------------- */

static void
on_text(void *arg, struct ws_conn *c, const char *text, size_t len)
{
	struct peer *p = ws_arg(c);

	(void)arg;
	if (p != NULL && p->talk != NULL)
		node_session_text(p->talk, text, len);
	else if (p != NULL)
		join_text(p->join, text, len);
}

static void
on_drained(void *arg, struct ws_conn *c)
{
	struct peer *p = ws_arg(c);

	(void)arg;
	if (p != NULL && p->talk != NULL)
		node_session_drained(p->talk);
}

static void
peer_free(struct nodes *n, struct peer *p)
{
	*p->at = p->next;
	if (p->next != NULL)
		p->next->at = p->at;
	table_remove(&n->by_node, &p->by_node);
	if (p->crowded)
		TAILQ_REMOVE(&n->crowded, p, cut);
	n->n_peers--;
	node_session_free(&p->talk);
	join_free(&p->join);
	free(p);
}

static void
on_closed(void *arg, struct ws_conn *c, const char *why)
{
	struct nodes *n = arg;
	struct peer *p = ws_arg(c);

	if (p == NULL)
		return; /* it was let in, but closed before it was open */
	ws_set_arg(c, NULL);
	if (p->talk != NULL)
		log_limited(LOG_LEVEL_INFO, NODES_LOGGED, "hub",
			"node disconnected node=%s peer=%s why=\"%s\"", node_session_node(p->talk),
			ws_peer_addr(c), why);
	if (p->talk != NULL &&
		presence_gone(n->config.presence, node_session_node(p->talk), p->presence, why,
			(int64_t)wall_ms()) &&
		n->config.others != NULL)
		peers_tell_presence(n->config.others, node_session_node(p->talk));
	if (p->talk != NULL && n->config.tunnels != NULL)
		tunnels_ask_anew(n->config.tunnels, node_session_node(p->talk));
	peer_free(n, p);
}

static void
on_known(void *arg, int fd, enum client_hello kind, const char *from)
{
	struct nodes *n = arg;
	int rc;

	if (kind == CLIENT_HELLO_REVERSE || kind == CLIENT_HELLO_STANDBY) {
		tunnels_adopt(n->config.tunnels, fd, from, kind == CLIENT_HELLO_STANDBY);
		return;
	}
	if (kind == CLIENT_HELLO_FORWARD) {
		tunnels_adopt(n->config.outward, fd, from, false);
		return;
	}
	if (kind == CLIENT_HELLO_PEER) {
		peers_adopt(n->config.others, fd);
		return;
	}
	if (kind == CLIENT_HELLO_RENDEZVOUS) {
		rendezvous_adopt(n->config.rendezvous, fd);
		return;
	}
	if (kind != CLIENT_HELLO_OTHER) {
		ws_accept_take(n->carried, fd, kind);
		return;
	}
	/* ws_adopt owns the descriptor from here on, even if it fails. */
	rc = ws_adopt(n->ws, fd, from);
	if (rc < 0)
		log_limited(LOG_LEVEL_WARN, 6, "hub", "a connection was turned away: %s",
			rc == -EBUSY ? "too many handshakes are under way" : "it ended at once");
}

static bool
on_socket(void *arg, int fd)
{
	struct nodes *n = arg;

	if (!descriptors_left(fd, FILES_PART)) {
		log_limited(LOG_LEVEL_WARN, 6, "hub",
			"a connection was turned away: the descriptors that are left are for files "
			"and the API; raise LimitNOFILE, up to 65536, or add a replica");
		return false;
	}
	alpn_mux_take(n->peek, fd, NULL);
	return true;
}

static void
on_carried(void *arg, int fd, const char *from)
{
	struct nodes *n = arg;

	alpn_mux_take(n->peek, fd, from);
}

void
nodes_again(struct nodes *n, const char *why)
{
	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		if (nodes_talks(p))
			node_session_end(p->talk, 1012, why);
	}
}

void
nodes_revoked_write(const struct nodes_config *c, struct buf *out)
{
	certs_revoked_write(c->certs, out);
	if (c->grants != NULL && acl_names_nodes(c->grants->access))
		buf_adds(out, ",\"nodeRules\":true");
}

void
nodes_tell_crl(struct nodes *n)
{
	const char *crl = certs_crl(n->config.certs);
	auto_buf struct buf revoked;

	buf_init(&revoked, BUF_UNLIMITED);
	nodes_revoked_write(&n->config, &revoked);
	for (struct peer *p = n->peers; p != NULL; p = p->next)
		if (nodes_talks(p))
			node_session_say_crl(p->talk, crl, buf_str(&revoked));
}

void
nodes_hold(struct nodes *n, bool held)
{
	n->join.held = held;
}

void
nodes_leave(struct nodes *n, const char *why)
{
	n->not_accepted = listen_failed(n->listen);
	listen_stop(&n->listen); /* new connections are refused at once, and try another replica */
	nodes_again(n, why);
}

static const char nodes_why_revoked[] = "the certificate of this node was revoked";

void
nodes_check(struct nodes *n)
{
	int64_t now_s = (int64_t)(wall_ms() / 1000);

	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		bool refused = certs_refuses(n->config.certs, p->node, ws_peer_serial(p->conn));

		if (p->join != NULL && p->proven && refused)
			join_end(p->join, nodes_why_revoked); /* a renewal */
		if (!nodes_talks(p))
			continue;
		if (refused)
			node_session_end(p->talk, 4003, nodes_why_revoked);
		else if (ws_peer_expires(p->conn) <= now_s)
			node_session_end(
				p->talk, 4004, "the certificate of this connection has expired");
	}
}

static void
on_tick(void *arg)
{
	struct nodes *n = arg;
	uint64_t now = mono_ms();

	nodes_check(n);

	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		if (p->talk != NULL)
			node_session_tick(p->talk, now);
	}
}

/* --- start and stop ------------------------------------------------------------------------- */

int
nodes_start(
	struct nodes **out, struct loop *loop, const struct nodes_config *config, struct err *err)
{
	static const struct ws_events events = {
		.accept = on_accept,
		.open = on_open,
		.text = on_text,
		.drained = on_drained,
		.closed = on_closed,
	};
	struct nodes *n = xcalloc(1, sizeof *n);
	struct ws_config ws = {
		.events = &events,
		.arg = n,
		.server_tls = config->tls,
		.heartbeat_ms = config->heartbeat_ms,
		.preauth = config->preauth,
		.message_limit = ENVELOPE_MAX_BYTES,
		.high_water = NODE_SESSION_QUEUE_BYTES,
	};
	int rc, fd;

	/* Strangers and callers share with the files what nodes and tunnels leave (hub.c). */
	n->most = (size_t)MIN(
		descriptors_limit() * NODES_EIGHTHS / 8, (uint64_t)NODES_CONNECTIONS_MAX);
	n->config = *config;
	n->config.cluster_domain = xstrdup(config->cluster_domain);
	n->loop = loop;
	n->join = (struct join_config){
		.loop = loop,
		.certs = config->certs,
		.share = config->share,
		.approvals = config->approvals,
		.stats = &n->join_stats,
		.bars = config->bars,
		.bars_arg = config->bars_arg,
	};
	n->started_ms = wall_ms();
	n->twins = twins_new();
	TAILQ_INIT(&n->crowded);
	n->tick = timer_new(loop, on_tick, n);
	n->cut = timer_new(loop, nodes_on_cut, n);
	timer_start(n->tick, NODES_TICK_MS, NODES_TICK_MS);
	n->peek = alpn_mux_new(loop, config->preauth, on_known, n);
	n->carried = ws_accept_new(&(struct ws_accept_config){
		.loop = loop,
		.tls = config->tls,
		.most = n->most / CARRIED_DESCRIPTORS,
		.preauth = config->preauth,
		.workers = config->workers,
		.fn = on_carried,
		.arg = n,
	});
	rc = ws_new(&n->ws, loop, &ws, err);
	/* transparent as all listeners; multipath: for nodes with several uplinks */
	if (rc == 0)
		rc = sock_listen(&config->listen, SOCK_TRANSPARENT | SOCK_MULTIPATH, &fd, err);
	if (rc == 0)
		n->listen = listen_take(loop, fd, on_socket, n);
	if (rc < 0)
		nodes_stop(&n);
	*out = n;
	return rc;
}

void
nodes_stop(struct nodes **out)
{
	struct nodes *n = take_ptr(out);

	if (n == NULL)
		return;
	listen_stop(&n->listen);
	alpn_mux_free(&n->peek);
	ws_accept_free(&n->carried);
	timer_free(&n->tick);
	ws_free(&n->ws);
	timer_free(&n->cut);
	while (n->peers != NULL) /* normally none: all were closed */
		peer_free(n, n->peers);
	table_fini(&n->by_node);
	free((void *)(uintptr_t)n->config.cluster_domain);
	twins_free(&n->twins);
	free(n);
}

int
nodes_renew(struct nodes *n, struct ssl_ctx_st *tls)
{
	ws_accept_renew(n->carried, tls);
	return ws_renew(n->ws, tls);
}

void
nodes_ready(struct nodes *n)
{
	n->config.ready = true;
	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		if (p->talk != NULL)
			node_session_ready(p->talk);
	}
}

/* A node chooses its endpoints by its site, which it learns from hello: so it has to connect
 * again. */
void
nodes_refresh(struct nodes *n)
{
	uint64_t changes = cluster_node_changes(n->config.cluster);

	if (n->node_changes == changes)
		return;
	n->node_changes = changes;
	for (struct peer *p = n->peers; p != NULL; p = p->next) {
		const char *site = "", *zone = "";

		if (!nodes_talks(p))
			continue;
		cluster_node(n->config.cluster, node_session_node(p->talk), &site, &zone);
		if (!node_session_lives_in(p->talk, site, zone))
			node_session_end(
				p->talk, 1012, "site or zone of the node changed, connect again");
		else
			node_session_relabel(p->talk,
				cluster_node_labels(n->config.cluster, node_session_node(p->talk)));
		node_session_ranges(p->talk);
	}
}

unsigned
nodes_revoked(struct nodes *n, const char *node)
{
	unsigned ended = 0;

	for (struct peer *p = nodes_first_of(n, node); p != NULL; p = nodes_next_of(p)) {
		if (nodes_talks(p)) {
			node_session_end(p->talk, 4003, nodes_why_revoked);
			ended++;
		} else if (p->join != NULL) {
			join_end(p->join, nodes_why_revoked);
			ended++;
		}
	}
	return ended;
}
