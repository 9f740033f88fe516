#include <string.h>

#include "base/core/figures.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/tls/pki.h"
#include "model/json.h"
#include "model/mesh.h"
#include "src/agent/agent_private.h"
#include "tunnel/tunnel.h"

enum {
	HEARTBEAT_MOST_MS = 4000,
	INVITATIONS_MOST = 16, /* at a time */
	INVITATIONS_OF_ONE = 4, /* of those, by one node */
	INVITATIONS_A_MINUTE = 60,
	INVITATIONS_OF_ONE_A_MINUTE = 20, /* of those, by one node */
	MINUTE_MS = 60 * 1000,
};

/* The hub introduces a node that wants to meet this one: its attempt, from here. */
struct invitation {
	LIST_ENTRY(invitation) link;
	struct agent_peers *of;
	struct hole_punch *punch;
	struct stream *stream; /* until the hub or this node ends it */
	char node[254];
};

struct agent_peers {
	struct agent *agent;
	LIST_HEAD(, invitation) invitations;
	unsigned n_invitations, n_recent; /* recent: since recent_ms */
	uint64_t recent[INVITATIONS_A_MINUTE]; /* hashes of the askers' names */
	uint64_t recent_ms, uninvited, came, not_come;
	struct meta_hub greeted; /* for hub */
	struct tunnel_client_hub hub; /* that introduces nodes */
	struct node_door *door; /* NULL: closed for good */
	struct node_peers *out; /* NULL: mesh.direct is off */
	struct egress_client *outlet;
	uint64_t certificate; /* of meta_node_certificate, that both use */
	/* meta_revoked_nodes, which counts on while this agent hands over, and has no meta */
	char *revoked_nodes;
	bool has_rules; /* meta_has_node_rules: which only the hub can apply */
};

static const char *
agent_peers_refuses(void *arg, const char *node, const char *serial)
{
	const struct agent_peers *p = arg;

	if (p->has_rules)
		return "the hub's access has rules for nodes: ask it";
	return meta_refuses_node(p->revoked_nodes, node, serial) ? "its certificate was revoked"
								 : NULL;
}

/* NULL: the hub introduces this node to others; else why not, with the remedy. */
static const char *
agent_peers_no_rendezvous(const struct agent_peers *p, struct meta_hub *hub)
{
	if (p->has_rules)
		return "the hub's access has rules for nodes: they reach each other through it";
	if (!meta_hub(p->agent->meta, hub))
		return "no hub is reached that could introduce it";
	return hub->rendezvous ? NULL : "the hub is older than mesh.direct: nat; upgrade it";
}

static const struct tunnel_client_hub *
agent_peers_hub(void *arg, const char **why)
{
	struct agent_peers *p = arg;

	if ((*why = agent_peers_no_rendezvous(p, &p->greeted)) != NULL)
		return NULL;
	p->hub = (struct tunnel_client_hub){
		.addr = p->greeted.addr, .host = p->greeted.host, .tls = p->greeted.tls};
	return &p->hub;
}

/* --- invitations ---------------------------------------------------------------------------- */

static void
invitation_free(struct invitation *i)
{
	LIST_REMOVE(i, link);
	i->of->n_invitations--;
	hole_punch_free(&i->punch);
	stream_close(&i->stream, STREAM_CANCELLED);
	free(i);
}

static void
on_invitation_reset(void *arg, unsigned code)
{
	struct invitation *i = arg;

	(void)code;
	stream_close(&i->stream, STREAM_CANCELLED); /* the attempt goes on */
}

static void
on_met(void *arg, int fd, const struct addr *to, const char *why)
{
	struct invitation *i = arg;
	struct agent_peers *p = i->of;
	char address[ADDR_TEXT_MAX], clean[256];

	p->came += fd >= 0;
	p->not_come += fd < 0;
	log_limited(LOG_LEVEL_INFO, 12, "tunnel", "%s node=%s address=%s error=\"%s\"",
		fd >= 0 ? "another node has got through by NAT"
			: "another node wanted to meet this one, and did not get through",
		i->node, addr_text(to, address), log_clean(clean, sizeof clean, why));
	if (fd >= 0)
		node_door_adopt(p->door, fd, i->node);
	invitation_free(i);
}

/* NULL: this invitation is within the rations, and counted. The hub has rations, too, but a node
 * does not depend on it for others to get through to it. */
static const char *
agent_peers_ration(struct agent_peers *p, const char *node)
{
	const uint64_t now = loop_now_ms(p->agent->loop), asker = hash64(node, strlen(node), 0);
	const struct invitation *i;
	unsigned at_once = 0, recent = 0;

	if (now - p->recent_ms >= MINUTE_MS) {
		p->recent_ms = now;
		p->n_recent = 0;
	}
	if (p->n_invitations >= INVITATIONS_MOST || p->n_recent >= INVITATIONS_A_MINUTE)
		return "too many want to meet that node";
	LIST_FOREACH(i, &p->invitations, link)
		at_once += strcmp(i->node, node) == 0;
	for (unsigned k = 0; k < p->n_recent; k++)
		recent += p->recent[k] == asker;
	if (at_once >= INVITATIONS_OF_ONE || recent >= INVITATIONS_OF_ONE_A_MINUTE)
		return "this node has asked for that one too often";
	p->recent[p->n_recent++] = asker;
	return NULL;
}

/* NULL: this node may be met. */
static const char *
agent_peers_judge(struct agent_peers *p, const char *node, struct meta_hub *hub, unsigned *status)
{
	const char *why;

	*status = 503;
	if (p->door == NULL || p->agent->stopping)
		return "the agent of that node stops";
	*status = 403;
	if (p->out == NULL || p->agent->options->mesh_direct != DIRECT_NAT)
		return "mesh.direct of that node is not nat";
	*status = 503; /* who it is, and whether it is revoked, the door asks */
	if ((why = agent_peers_no_rendezvous(p, hub)) != NULL)
		return why;
	*status = 429;
	return agent_peers_ration(p, node);
}

unsigned
agent_peers_invited(
	void *arg, struct stream *st, const char *node, const char *id, const char **reason)
{
	static const struct stream_events events = {.reset = on_invitation_reset};
	struct agent *a = arg;
	struct agent_peers *p = a->peers;
	struct tunnel_client_hub to;
	struct invitation *i;
	struct meta_hub hub;
	unsigned status = 403;

	*reason = "mesh.peerPort of that node is 0";
	if (p == NULL)
		return status;
	if ((*reason = agent_peers_judge(p, node, &hub, &status)) != NULL) {
		p->uninvited++;
		return status;
	}
	to = (struct tunnel_client_hub){.addr = hub.addr, .host = hub.host, .tls = hub.tls};
	i = xcalloc(1, sizeof *i);
	i->of = p;
	snprintf(i->node, sizeof i->node, "%s", node);
	i->stream = st;
	LIST_INSERT_HEAD(&p->invitations, i, link);
	p->n_invitations++;
	stream_accept(st, &events, i);
	stream_answer(st, 200, "");
	hole_punch_start(&i->punch,
		&(struct hole_punch_setup){.loop = a->loop,
			.hub = &to,
			.mark = MESH_MARK,
			.id = id,
			.done = on_met,
			.arg = i});
	return 0;
}

static void
agent_peers_uninvite(struct agent_peers *p)
{
	while (!LIST_EMPTY(&p->invitations))
		invitation_free(LIST_FIRST(&p->invitations));
}

/* --- sessions ------------------------------------------------------------------------------- */

static void
on_silent(void *arg)
{
	const struct agent_peers *p = arg;

	egress_client_peer_silent(p->outlet);
}

static void
on_found(void *arg, const char *node)
{
	const struct agent_peers *p = arg;

	egress_client_peer_found(p->outlet, node);
}

void
agent_peers_start(struct agent *a, struct stream_server *serve, struct egress_client *outlet)
{
	const struct agent_options *o = a->options;
	const uint16_t port = (uint16_t)o->mesh_peer_port;
	/* hub.heartbeat may be long where each byte to the hub costs */
	const uint64_t heartbeat_ms = MIN((uint64_t)o->hub_heartbeat, (uint64_t)HEARTBEAT_MOST_MS);
	struct agent_peers *p;

	if (port == 0)
		return;
	p = a->peers = xcalloc(1, sizeof *p);
	p->agent = a;
	p->outlet = outlet;
	p->door = node_door_new(&(struct node_door_config){.loop = a->loop,
		.node = o->node,
		.port = port,
		.heartbeat_ms = heartbeat_ms,
		.serve = serve,
		.refuses = agent_peers_refuses,
		.arg = p});
	if (o->mesh_direct == DIRECT_OFF)
		return;
	p->out = node_peers_new(&(struct node_peers_config){.loop = a->loop,
		.heartbeat_ms = heartbeat_ms,
		.mark = MESH_MARK,
		.refuses = agent_peers_refuses,
		.found = on_found,
		.hub = agent_peers_hub,
		.silent = on_silent,
		.arg = p});
	egress_client_use_peers(outlet, p->out, port);
	egress_client_use_nat(outlet, o->mesh_direct == DIRECT_NAT);
}

/* The certificate that the hub's CA signed serves between nodes, too. */
static void
agent_peers_renew(struct agent_peers *p)
{
	const struct meta *meta = p->agent->meta;
	struct ssl_ctx_st *server = NULL, *client = NULL;
	struct err err = {0};

	if (meta_node_ctx(meta, true, &server, &err) < 0 ||
		meta_node_ctx(meta, false, &client, &err) < 0) {
		log_error("tunnel", "no sessions with other nodes: %s", err.text);
	} else {
		node_door_use(p->door, server);
		if (p->out != NULL)
			node_peers_use(p->out, client);
		p->certificate = meta_node_certificate(meta);
	}
	pki_ctx_free(&server);
	pki_ctx_free(&client);
}

static void
agent_peers_heed_rules(struct agent_peers *p)
{
	const bool has = meta_has_node_rules(p->agent->meta);

	if (has == p->has_rules)
		return;
	p->has_rules = has;
	log_info("tunnel", "%s",
		has ? "the hub's access has rules for nodes: they reach each other through the hub "
		      "alone"
		    : "the hub's access has no rules for nodes any more: they dial each other");
	if (p->out != NULL)
		egress_client_use_peers(p->outlet, has ? NULL : p->out,
			(uint16_t)p->agent->options->mesh_peer_port);
}

void
agent_peers_use(struct agent *a)
{
	struct agent_peers *p = a->peers;

	if (p == NULL || p->door == NULL || meta_node_certificate(a->meta) == 0)
		return;
	free(p->revoked_nodes);
	p->revoked_nodes = xstrdup(meta_revoked_nodes(a->meta));
	if (a->stopping)
		return;
	if (p->certificate != meta_node_certificate(a->meta))
		agent_peers_renew(p);
	agent_peers_heed_rules(p);
	node_door_check(p->door);
	if (p->out != NULL)
		node_peers_check(p->out);
}

void
agent_peers_network(struct agent *a)
{
	if (a->peers != NULL && a->peers->out != NULL)
		node_peers_network(a->peers->out);
}

bool
agent_peers_drain(struct agent *a, loop_fn *done, void *arg)
{
	if (a->peers == NULL)
		return false;
	agent_peers_uninvite(a->peers);
	node_door_drain(a->peers->door, done, arg);
	return true;
}

unsigned
agent_peers_cut(struct agent *a)
{
	unsigned n = a->peers != NULL ? node_door_sum(a->peers->door).of.streams : 0;

	if (a->peers != NULL) {
		agent_peers_uninvite(a->peers);
		node_door_free(&a->peers->door);
	}
	return n;
}

void
agent_peers_end(struct agent *a)
{
	struct agent_peers *p = take_ptr(&a->peers);

	if (p == NULL)
		return;
	agent_peers_uninvite(p);
	node_door_free(&p->door);
	node_peers_free(&p->out);
	free(p->revoked_nodes);
	free(p);
}

const char *
agent_peers_error(const struct agent *a)
{
	return a->peers != NULL && a->peers->door != NULL ? node_door_error(a->peers->door) : "";
}

/* "": mesh.direct is not nat; "ready", or why no node is met across NAT. */
static const char *
agent_peers_nat(const struct agent *a)
{
	struct meta_hub hub;
	const char *why;

	if (a->peers == NULL || a->peers->out == NULL || a->options->mesh_direct != DIRECT_NAT)
		return "";
	why = agent_peers_no_rendezvous(a->peers, &hub);
	return why != NULL ? why : "ready";
}

#define SUM(member, metric, help) FIGURE(struct node_peers_sum, member, metric, NULL, help, NULL)

static const struct figure agent_peers_figures[] = {
	SUM(sessions, "edgeway_peers_sessions", "Sessions with other nodes, by who has dialled."),
	SUM(of.streams, "edgeway_peers_streams", "Streams in these sessions that are open."),
	SUM(of.bytes_in, "edgeway_peers_received_bytes_total",
		"Payload that came in these sessions."),
	SUM(of.bytes_out, "edgeway_peers_sent_bytes_total", "Payload that went in these sessions."),
};

static const struct figure agent_peers_invitations[] = {
	FIGURE(struct agent_peers, came, "edgeway_peers_invitations_total", "result=\"open\"",
		"Nodes that wanted to meet this one across NAT, by what became of it.", NULL),
	FIGURE_ALSO(struct agent_peers, not_come, "result=\"failed\"", NULL),
	FIGURE_ALSO(struct agent_peers, uninvited, "result=\"refused\"", NULL),
};

void
agent_peers_metrics(const struct agent *a, struct metrics *m)
{
	static const char *const labels[] = {"direction=\"in\"", "direction=\"out\""};
	struct node_peers_sum sums[ARRAY_LEN(labels)] = {0};
	const void *const of[] = {&sums[0], &sums[1]};

	if (a->peers == NULL || a->peers->door == NULL)
		return;
	node_door_metrics(a->peers->door, m);
	figures_metrics(FIGURES(agent_peers_invitations), a->peers, m);
	sums[0] = node_door_sum(a->peers->door);
	if (a->peers->out != NULL) {
		node_peers_metrics(a->peers->out, m);
		sums[1] = node_peers_sum(a->peers->out);
	}
	figures_metrics_of(FIGURES(agent_peers_figures), of, labels, ARRAY_LEN(of), m);
}

void
agent_peers_streams(const struct agent *a, const char **comma, struct buf *out)
{
	const char *node = a->options->node;

	if (a->peers != NULL && a->peers->door != NULL)
		node_door_list_streams(a->peers->door, node, comma, out);
	if (a->peers != NULL && a->peers->out != NULL)
		node_peers_streams(a->peers->out, node, comma, out);
}

void
agent_peers_state(const struct agent *a, struct buf *out)
{
	const char *comma = "";

	buf_printf(
		out, "{\"port\":%u,\"error\":", a->peers != NULL ? a->options->mesh_peer_port : 0);
	json_add_text(out, agent_peers_error(a));
	buf_adds(out, ",\"nat\":");
	json_add_text(out, agent_peers_nat(a));
	buf_printf(
		out, ",\"rules\":%s", a->peers != NULL && a->peers->has_rules ? "true" : "false");
	if (a->peers != NULL && a->peers->door != NULL) {
		buf_adds(out, ",\"floods\":");
		node_door_floods(a->peers->door, out);
	}
	buf_adds(out, ",\"peers\":[");
	if (a->peers != NULL && a->peers->out != NULL)
		node_peers_state(a->peers->out, &comma, out);
	if (a->peers != NULL && a->peers->door != NULL)
		node_door_state(a->peers->door, &comma, out);
	buf_adds(out, "]}");
}
