#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/os/netwatch.h"
#include "iptables/iptables.h"
#include "model/mesh.h"
#include "src/agent/agent_private.h"
#include "tunnel/tunnel.h"

enum {
	KICK_MS = 500, /* limits the rate of requests when links of the machine come and go */
	/* how long the second tunnel is tried with one hub before another one's turn */
	STANDBY_MS = 10 * 1000,
	/* how often the paths of connections are looked at, while streams are open and else */
	PATHS_BUSY_MS = 25,
	PATHS_IDLE_MS = 200,
	PATHS_LOST_MS = 3000, /* limits how often one is begun anew */
	PATHS_AGAIN_MS = 130 * 1000, /* the kernel's SYNs end after 127 s */
};
enum step { SERVING, DRAINING, DRAINED, CUT };

struct agent_tunnel {
	struct agent *agent;
	struct stream_server *serve;
	struct tunnel_client *link;
	struct tunnel_client *standby; /* to another hub; NULL: hub.tunnels is 1 */
	struct timer *look; /* whether it is open */
	size_t turn; /* of the other hubs */
	struct egress_client *outlet;
	struct egress_client_udp *udp; /* UDP through the outlet */
	const char **bridges; /* of the mesh, NULL-terminated */
	const char **pods; /* those whose networks are pods */
	struct netwatch *watch;
	struct timer *timer; /* for the steps of the shutdown */
	struct timer *network; /* delays the check after a network change */
	unsigned drains; /* tunnel clients that have not drained yet */
	enum step step;
	uint64_t kicked_ms;
	int uplinks; /* as multipath_announce; negative: not known, and said in the log */
	struct timer *paths; /* looks after the paths of the connections, while there are several */
	uint64_t renew_ms, lost_ms; /* not before: missing ones, lost ones */
	struct in6_addr lost; /* while multipath_renew asks: the path's address */
	uint64_t renewed; /* paths, so far */
	loop_fn *ended; /* NULL: nothing waits for the end yet */
};

static void agent_tunnel_use_standby(struct agent_tunnel *t);

static void
on_up(void *arg)
{
	struct agent_tunnel *t = arg;

	if (t->agent->stopping)
		return;
	meta_kick(t->agent->meta);
	if (t->standby != NULL)
		agent_tunnel_use_standby(t);
}

static bool
agent_tunnel_is_lost(void *arg, const struct in6_addr *ip)
{
	return ip_same(&((const struct agent_tunnel *)arg)->lost, ip);
}

static bool
agent_tunnel_is_missing(void *arg, const struct in6_addr *ip)
{
	return !tunnel_client_paths_use(((const struct agent_tunnel *)arg)->link, ip);
}

static void
agent_tunnel_renew(struct agent_tunnel *t, bool (*which)(void *arg, const struct in6_addr *ip),
	uint64_t again_ms)
{
	struct err err = {0};
	int n = multipath_renew(which, t, &err);

	t->renew_ms = loop_now_ms(t->agent->loop) + again_ms;
	if (n < 0)
		log_limited(
			LOG_LEVEL_WARN, 2, "tunnel", "a path cannot be begun anew: %s", err.text);
	else
		t->renewed += (unsigned)n;
}

/* The kernel gives up a path that is lost only after some time-outs, and one that cannot be opened
 * at the end of its SYNs, for ever. */
static void
on_paths(void *arg)
{
	struct agent_tunnel *t = arg;
	const uint64_t now = loop_now_ms(t->agent->loop);
	const unsigned paths = t->link != NULL ? tunnel_client_paths(t->link) : 0;
	char ip[IP_TEXT_MAX];

	if (t->link == NULL || t->agent->stopping)
		return;
	if ((tunnel_client_paths_lost(t->link, &t->lost) ||
		    (t->standby != NULL && tunnel_client_paths_lost(t->standby, &t->lost)) ||
		    egress_client_paths_lost(t->outlet, &t->lost)) &&
		now >= t->lost_ms) {
		ip_text(&t->lost, ip);
		log_limited(LOG_LEVEL_WARN, 12, "tunnel",
			"an uplink is silent; connections go on by the others address=%s", ip);
		agent_tunnel_renew(t, agent_tunnel_is_lost, PATHS_AGAIN_MS);
		t->lost_ms = now + PATHS_LOST_MS;
	} else if (paths > 0 && paths < (unsigned)t->uplinks && now >= t->renew_ms) {
		agent_tunnel_renew(t, agent_tunnel_is_missing, PATHS_AGAIN_MS);
	}
	timer_start(t->paths,
		tunnel_client_streams(t->link) > 0 || egress_client_busy(t->outlet) ? PATHS_BUSY_MS
										    : PATHS_IDLE_MS,
		0);
}

/* Connections begin with MPTCP only where there are several uplinks: an idle one costs more bytes,
 * and kernels before Linux 6.10 cannot probe it. */
static void
agent_tunnel_uplinks(struct agent_tunnel *t)
{
	struct err err = {0};
	int n = multipath_announce(tunnel_client_paths(t->link) > 0, &err);

	if (n < 0 && n != -EOPNOTSUPP && t->uplinks >= 0)
		log_warn("tunnel", "connections to the hub use one uplink alone: %s", err.text);
	else if (n > 1 && n != t->uplinks)
		log_info("tunnel", "connections to the hub use MPTCP uplinks=%d", n);
	if (n > 1 && t->uplinks <= 1)
		timer_start(t->paths, PATHS_IDLE_MS, 0);
	else if (n <= 1)
		timer_cancel(t->paths);
	t->uplinks = n;
	tunnel_client_multipath(t->link, n > 1);
	if (t->standby != NULL)
		tunnel_client_multipath(t->standby, n > 1);
	egress_client_multipath(t->outlet, n > 1);
	t->renew_ms = MIN(t->renew_ms, loop_now_ms(t->agent->loop) + PATHS_LOST_MS);
}

static void
on_network(void *arg)
{
	struct agent_tunnel *t = arg;
	uint64_t now = loop_now_ms(t->agent->loop);

	if (t->link == NULL || t->agent->stopping)
		return;
	if (now - t->kicked_ms < KICK_MS) {
		timer_start(t->network, KICK_MS - (now - t->kicked_ms), 0);
		return;
	}
	t->kicked_ms = now;
	agent_tunnel_uplinks(t);
	tunnel_client_network(t->link);
	if (t->standby != NULL)
		tunnel_client_network(t->standby);
	egress_client_network(t->outlet);
	agent_peers_network(t->agent);
	meta_network(t->agent->meta);
}

/* One connection finds that its hub does not answer: probe the others too, and move metadata to
 * another hub first. */
static void
on_doubted(void *arg)
{
	struct agent_tunnel *t = arg;

	if (t->agent->stopping || t->link == NULL)
		return;
	tunnel_client_probe(t->link);
	egress_client_probe(t->outlet);
	meta_move(t->agent->meta);
}

static void
on_asked(void *arg)
{
	const struct agent_tunnel *t = arg;

	if (!t->agent->stopping)
		meta_doubt(t->agent->meta);
}

bool
agent_tunnel_wanted(const struct agent_options *o)
{
	return o->tunnel_enabled && o->hub_protocol != PROTOCOL_CLOUDHUB;
}

/* Serves the hub what the admin port would serve to an authorised client. */
static unsigned
on_hub_asks(void *arg, const char *target, struct buf *out)
{
	const struct agent *a = arg;
	struct admin_reply reply = {.status = 200};

	if (a->admin == NULL) {
		buf_adds(out, "the agent is starting, or hands over");
		return 503;
	}
	reply.body = *out; /* moved, not copied: it may be large */
	admin_ask(a->admin, target, &reply);
	*out = reply.body;
	return (unsigned)reply.status;
}

static int
start_serve(struct agent_tunnel *t, struct err *err)
{
	const struct agent_options *o = t->agent->options;
	struct stream_server_config config = {
		.loop = t->agent->loop,
		.node = o->node,
		.allow = (const char *const *)o->tunnel_allow,
		.addresses = t->agent->addresses,
		.mark = MESH_MARK,
		.spans = &t->agent->spans,
	};
	size_t n = 0;

	config.answer = on_hub_asks;
	config.invited = agent_peers_invited;
	config.arg = t->agent;
	while (o->pod_interfaces[n] != NULL)
		n++;
	t->bridges = xcalloc(n + 2, sizeof *t->bridges);
	t->pods = xcalloc(o->n_pod_bridges + 2, sizeof *t->pods);
	t->pods[0] = o->bridge;
	memcpy(t->pods + 1, o->pod_interfaces, o->n_pod_bridges * sizeof *t->pods);
	t->bridges[0] = o->bridge;
	for (size_t i = 0; i < n; i++)
		t->bridges[i + 1] = o->pod_interfaces[i];
	config.bridges = t->pods;
	return stream_server_new(&config, &t->serve, err);
}

void
agent_tunnel_reach(struct agent *a, const struct agent_options *o)
{
	struct reachable_nets *vicinity;

	if (a->tunnel == NULL || a->tunnel->serve == NULL || a->stopping ||
		reachable_nets_new((const char *const *)o->tunnel_reach, &vicinity, NULL) < 0)
		return;
	if (!stream_server_declare(a->tunnel->serve, &vicinity))
		return;
	if (a->tunnel->link != NULL)
		tunnel_client_ask_anew(a->tunnel->link);
	if (a->tunnel->standby != NULL)
		tunnel_client_ask_anew(a->tunnel->standby);
}

/* The endpoint's node stops, and waits for connections that others hold open; or the route to it is
 * lost. */
static void
on_fading(void *arg, const struct egress_client_ask *ask, bool doubted)
{
	const struct agent *a = arg;
	struct in6_addr ip, there;
	struct addr addr;

	if (a->lb == NULL || addr_parse(&addr, ask->authority, 0, NULL) < 0 ||
		!addr_ip(&addr, &there))
		return;
	ip = endpoint_far(ask->node, &there);
	lb_let_go(a->lb, &ip, addr_port(&addr), doubted);
}

static void
on_rerouted(void *arg)
{
	const struct agent *a = arg;

	if (a->lb != NULL)
		lb_reroute(a->lb);
}

static void on_step(void *arg);

/* --- the second tunnel ---------------------------------------------------------------------- */

static struct tunnel_client_hub
agent_tunnel_to(const struct meta_hub *hub)
{
	return (struct tunnel_client_hub){
		hub->addr, hub->host, hub->tls, hub->certificate, hub->proxy, hub->target};
}

/* Returns true if it is open to a known hub that the first tunnel is not for. */
static bool
agent_tunnel_has_standby(const struct agent_tunnel *t)
{
	struct meta_hub hub;

	for (size_t i = 0; meta_known_hub(t->agent->meta, i, &hub); i++)
		if (tunnel_client_open_to(t->standby, &hub.addr) &&
			!tunnel_client_is_for(t->link, &hub.addr))
			return true;
	return false;
}

/* It stays where it is well. Else the hubs' addresses take turns, without that of the first tunnel;
 * where no other is known, agent_checks tells. */
static void
agent_tunnel_use_standby(struct agent_tunnel *t)
{
	const struct meta *meta = t->agent->meta;
	const bool stays = agent_tunnel_has_standby(t);
	struct tunnel_client_hub to;
	struct meta_hub hub;
	size_t n = 0, nth = 0;

	for (size_t i = 0; meta_known_hub(meta, i, &hub); i++)
		n += !tunnel_client_is_for(t->link, &hub.addr);
	for (size_t i = 0; n > 0 && meta_known_hub(meta, i, &hub); i++) {
		if (tunnel_client_is_for(t->link, &hub.addr))
			continue;
		if (stays ? !tunnel_client_open_to(t->standby, &hub.addr) : nth++ != t->turn % n)
			continue;
		to = agent_tunnel_to(&hub);
		tunnel_client_use(t->standby, &to);
		return;
	}
}

static void
on_look(void *arg)
{
	struct agent_tunnel *t = arg;

	if (t->agent->stopping || t->standby == NULL || agent_tunnel_has_standby(t))
		return;
	t->turn++;
	meta_find_hubs(t->agent->meta);
	agent_tunnel_use_standby(t);
}

static void
agent_tunnel_start_standby(struct agent_tunnel *t, struct tunnel_client_config config)
{
	config.standby = true;
	config.up = config.doubted = config.asked =
		NULL; /* it says nothing about the first one's hub */
	t->standby = tunnel_client_new(&config);
	t->look = timer_new(config.loop, on_look, t);
	timer_start(t->look, STANDBY_MS, STANDBY_MS);
}

int
agent_tunnel_start(struct agent *a, struct err *err)
{
	const struct agent_options *o = a->options;
	struct tunnel_client_config config = {
		.loop = a->loop,
		.heartbeat_ms = o->hub_heartbeat,
		.liveness = a->liveness,
		.mark = MESH_MARK,
		.carriers = a->carriers,
		.opened = stream_server_opened,
		.to_be_asked = stream_server_to_be_asked,
		.up = on_up,
		.doubted = on_doubted,
		.asked = on_asked,
	};
	struct agent_tunnel *t;
	struct err why = {0};

	if (!agent_tunnel_wanted(o))
		return 0;
	t = xcalloc(1, sizeof *t);
	t->agent = a;
	a->tunnel = t;
	t->timer = timer_new(a->loop, on_step, t);
	t->network = timer_new(a->loop, on_network, t);
	t->paths = timer_new(a->loop, on_paths, t);
	if (start_serve(t, err) < 0)
		return err_wrap(err, err->code, "tunnel.allow");
	stream_server_use(t->serve, a->snapshot);
	agent_tunnel_reach(a, o);
	config.arg = t->serve;
	config.up_arg = t;
	t->link = tunnel_client_new(&config);
	if (o->hub_tunnels > 1)
		agent_tunnel_start_standby(t, config);
	t->outlet = egress_client_new(&config);
	agent_peers_start(a, t->serve, t->outlet);
	egress_client_on_fading(t->outlet, on_fading, a);
	egress_client_on_rerouted(t->outlet, on_rerouted, a);
	t->udp = egress_client_udp_new(&(struct egress_client_udp_config){
		.loop = a->loop, .outlet = t->outlet, .interfaces = t->bridges});
	agent_tunnel_adopt(a, NULL);
	agent_tunnel_uplinks(t);
	if (netwatch_start(&t->watch, a->loop, on_network, t, &why) < 0)
		log_warn("tunnel", "a tunnel that was lost may come back later than it could: %s",
			why.text);
	return 0;
}

void
agent_tunnel_hub(struct agent *a)
{
	struct meta_hub hub;
	struct tunnel_client_hub to;

	agent_peers_use(a);
	if (a->tunnel == NULL || a->stopping || !meta_hub(a->meta, &hub))
		return;
	to = agent_tunnel_to(&hub);
	tunnel_client_use(a->tunnel->link, &to);
	egress_client_use(a->tunnel->outlet, &to);
	if (a->tunnel->standby != NULL)
		agent_tunnel_use_standby(a->tunnel);
}

void
agent_tunnel_use(struct agent *a)
{
	if (a->tunnel != NULL && a->tunnel->serve != NULL)
		stream_server_use(a->tunnel->serve, a->snapshot);
}

/* --- UDP that the hub reaches --------------------------------------------------------------- */

void
agent_tunnel_listen(struct agent *a, uint32_t address)
{
	if (a->tunnel != NULL && a->tunnel->udp != NULL)
		egress_client_udp_listen(a->tunnel->udp, address);
}

void
agent_tunnel_adopt(struct agent *a, const struct snapshot *old)
{
	if (a->tunnel != NULL && a->tunnel->udp != NULL)
		egress_client_udp_use(a->tunnel->udp, old, a->snapshot);
}

void
agent_tunnel_settle(struct agent *a)
{
	if (a->tunnel != NULL && a->tunnel->udp != NULL)
		egress_client_udp_settle(a->tunnel->udp);
}

uint16_t
agent_tunnel_relay(void *arg, const struct service *s, const struct service_port *p)
{
	struct agent *a = arg;

	return a->tunnel != NULL && a->tunnel->udp != NULL
		? egress_client_udp_door(a->tunnel->udp, s, p)
		: 0;
}

/* --- endpoints that the hub reaches --------------------------------------------------------- */

struct errand {
	struct agent *agent;
	int fd;
	struct lb_forward to;
	/* to.service with a reference; NULL: any service that has the endpoint */
	struct service *service;
};

static const struct endpoint *
find_in(const struct service *s, const struct errand *e)
{
	for (unsigned p = 0; p < s->n_ports; p++) {
		const struct service_port *port = &s->ports[p];

		for (unsigned i = 0; i < port->n_endpoints; i++)
			if (port->endpoints[i].port == e->to.port &&
				memcmp(&port->endpoints[i].ip, &e->to.ip, sizeof e->to.ip) == 0)
				return &port->endpoints[i];
	}
	return NULL;
}

static const struct service *
find_any(const struct snapshot *all, const struct errand *e)
{
	for (size_t i = 0; i < snapshot_count(all); i++)
		if (find_in(snapshot_at(all, i), e) != NULL)
			return snapshot_at(all, i);
	return NULL;
}

static void
on_errand(void *arg)
{
	struct errand *e = arg;
	struct agent_tunnel *t = e->agent->tunnel;
	const struct service *s = e->service;
	const struct endpoint *to = NULL;
	struct egress_client_ask ask;

	/* Otherwise the agent is stopping, and there may be no snapshot. */
	if (t != NULL && t->outlet != NULL) {
		if (s == NULL)
			s = find_any(e->agent->snapshot, e);
		to = s != NULL ? find_in(s, e) : NULL;
	}
	if (to != NULL) {
		egress_client_ask_of(t->outlet, &ask, s, to, e->to.hops);
		egress_client_open(t->outlet, e->fd, &ask);
	} else {
		close(e->fd);
	}
	service_unref(&e->service);
	free(e);
}

int
agent_tunnel_forward(void *arg, const struct lb_forward *to, int *fd)
{
	struct agent *a = arg;
	struct errand *e;
	int fds[2], rc = sock_pair(fds);

	if (rc < 0)
		return rc;
	e = xcalloc(1, sizeof *e);
	*e = (struct errand){.agent = a, .fd = fds[1], .to = *to};
	if (to->service != NULL)
		e->service = service_ref(to->service);
	loop_post(a->loop, on_errand, e);
	*fd = fds[0];
	return 0;
}

/* --- shutdown: streams finish, or are cut at drainTimeout and then reported ----------------- */

static void
agent_tunnel_cut(struct agent_tunnel *t)
{
	unsigned n = tunnel_client_streams(t->link);

	if (t->standby != NULL)
		n += tunnel_client_streams(t->standby);
	n += agent_peers_cut(t->agent);
	if (n > 0)
		log_warn("tunnel", "streams are cut: drainTimeout is over streams=%u", n);
	t->step = CUT;
	tunnel_client_free(&t->link);
	tunnel_client_free(&t->standby);
	timer_start(t->timer, 0, 0); /* later, after the cut streams have been reported */
}

static void
agent_tunnel_finish(struct agent_tunnel *t)
{
	struct agent *a = t->agent;
	loop_fn *ended = t->ended;

	if (t->watch != NULL)
		netwatch_stop(&t->watch);
	stream_server_free(&t->serve);
	egress_client_udp_free(&t->udp);
	egress_client_free(&t->outlet);
	agent_peers_end(a);
	free(t->bridges);
	free(t->pods);
	timer_free(&t->timer);
	timer_free(&t->network);
	timer_free(&t->paths);
	timer_free(&t->look);
	free(take_ptr(&a->tunnel));
	ended(a);
}

static void
on_step(void *arg)
{
	struct agent_tunnel *t = arg;

	if (t->step == DRAINING || t->step == DRAINED)
		agent_tunnel_cut(t);
	else if (t->step == CUT && t->ended != NULL)
		agent_tunnel_finish(t);
}

static void
on_drained(void *arg)
{
	struct agent_tunnel *t = arg;

	if (--t->drains > 0)
		return;
	t->step = DRAINED;
	timer_start(t->timer, 0, 0);
}

void
agent_tunnel_hold(struct agent *a, bool held)
{
	if (a->tunnel == NULL)
		return;
	tunnel_client_hold(a->tunnel->link, held);
	if (a->tunnel->standby != NULL)
		tunnel_client_hold(a->tunnel->standby, held);
}

void
agent_tunnel_drain(struct agent *a)
{
	struct agent_tunnel *t = a->tunnel;

	if (t == NULL)
		return;
	t->step = DRAINING;
	timer_start(t->timer, a->options->drain_timeout, 0);
	stream_server_drain(t->serve);
	egress_client_udp_drain(t->udp);
	t->drains = t->standby != NULL ? 2 : 1;
	t->drains += agent_peers_drain(a, on_drained, t);
	tunnel_client_drain(t->link, on_drained, t);
	if (t->standby != NULL)
		tunnel_client_drain(t->standby, on_drained, t);
}

void
agent_tunnel_end_spans(struct agent *a)
{
	if (a->tunnel != NULL && a->tunnel->serve != NULL)
		stream_server_end_spans(a->tunnel->serve);
}

void
agent_tunnel_end(struct agent *a, loop_fn *ended)
{
	if (a->tunnel == NULL) {
		ended(a);
		return;
	}
	a->tunnel->ended = ended;
	if (a->tunnel->step == CUT && !timer_active(a->tunnel->timer))
		timer_start(a->tunnel->timer, 0, 0);
}

/* --- state and metrics ---------------------------------------------------------------------- */

void
agent_tunnel_metrics(const struct agent *a, struct metrics *m)
{
	if (a->tunnel == NULL || a->tunnel->link == NULL)
		return;
	tunnel_client_metrics(a->tunnel->link, a->tunnel->standby, m);
	stream_server_metrics(a->tunnel->serve, m);
	egress_client_metrics(a->tunnel->outlet, m);
	egress_client_udp_metrics(a->tunnel->udp, m);
	agent_peers_metrics(a, m);
	metric_counter(m, "edgeway_tunnel_paths_renewed_total",
		"Paths begun anew, since they were silent or missing (MPTCP).", NULL,
		a->tunnel->renewed);
}

void
agent_tunnel_judge(const struct agent *a, const char *authority, struct buf *out)
{
	stream_server_judge(a->tunnel->serve, authority, out);
}

void
agent_tunnel_state(const struct agent *a, struct buf *out)
{
	if (a->tunnel == NULL || a->tunnel->link == NULL) {
		buf_printf(out, "{\"enabled\":false}");
		return;
	}
	buf_adds(out, "{\"enabled\":true,");
	tunnel_client_state(a->tunnel->link, out);
	buf_printf(out, ",\"uplinks\":%d", MAX(a->tunnel->uplinks, 0));
	stream_server_state(a->tunnel->serve, out);
	if (a->tunnel->standby != NULL) {
		buf_adds(out, ",\"standby\":{");
		tunnel_client_state(a->tunnel->standby, out);
		buf_adds(out, "}");
	}
	buf_adds(out, ",\"outward\":");
	egress_client_state(a->tunnel->outlet, out);
	buf_adds(out, ",\"outwardUdp\":");
	egress_client_udp_state(a->tunnel->udp, out);
	buf_adds(out, ",\"peers\":");
	agent_peers_state(a, out);
	buf_adds(out, "}");
}

void
agent_tunnel_streams(const struct agent *a, struct buf *out)
{
	const char *comma = "";

	buf_adds(out, "{\"streams\":[");
	if (a->tunnel != NULL && a->tunnel->link != NULL) {
		tunnel_client_streams_state(a->tunnel->link, a->options->node, &comma, out);
		if (a->tunnel->standby != NULL)
			tunnel_client_streams_state(
				a->tunnel->standby, a->options->node, &comma, out);
		egress_client_streams(a->tunnel->outlet, a->options->node, &comma, out);
		agent_peers_streams(a, &comma, out);
	}
	buf_adds(out, "\n]}\n");
}
