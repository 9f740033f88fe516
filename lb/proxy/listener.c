#include "lb/proxy/listener.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/descriptors.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "lb/conn/origdst.h"
#include "lb/proxy/proxy.h"
#include "model/pod_name.h"

/*
 * A proxied connection takes two descriptors. If none were left, new clients would wait, kept
 * connections could reach no endpoint, and DNS and metadata would starve as well. So clients share
 * (base/core/fair_share) a smaller number.
 */
enum {
	ACCEPT_BATCH = 64,
	DESCRIPTORS_EACH = 2, /* for one connection, with the endpoint's */
	/* one in so many is reserved for everything else, and for second dials */
	DESCRIPTORS_KEPT = 8,
	PODS_MOST = 256, /* connections that wait for the hub's word on a pod; clients share them */
};

uint64_t
listener_connections(void)
{
	uint64_t limit = descriptors_limit();

	return (limit - limit / DESCRIPTORS_KEPT) / DESCRIPTORS_EACH;
}

struct fair_share *
listener_pod_places(void)
{
	return fair_share_new(PODS_MOST);
}

static void
listener_refuse(int fd, _Atomic uint64_t *counter)
{
	sock_close(&fd, true);
	count(counter, 1);
}

void
lb_canary(struct lb *lb, uint32_t client, uint16_t port, uint64_t number)
{
	uint64_t before;

	if (lb == NULL)
		return;
	before = atomic_load(&lb->canary);
	atomic_store(&lb->canary_number, number);
	atomic_store(&lb->canary,
		(uint64_t)client << 32 | (uint64_t)port << 16 |
			(before >> 32 == client ? before >> 16 & 0xffff : port));
}

/* The service is looked up as for any client, but creates no group: the self-check does not count
 * as use of the service. Its port distinguishes it from a pod that has just been given the same
 * address; a busy worker may see a connection of the previous round. */
static bool
listener_is_canary(const struct worker *w, const struct addr *from, uint32_t ip, uint16_t port)
{
	const uint64_t canary = atomic_load_explicit(&w->lb->canary, memory_order_relaxed);
	const uint16_t own_port = addr_port(from);
	const struct service *s;
	struct in6_addr client;

	if (canary == 0 || !addr_ip(from, &client) || canary >> 32 != ip_to_v4(&client) ||
		(own_port != (canary >> 16 & 0xffff) && own_port != (canary & 0xffff)))
		return false;
	s = snapshot_find_ip(w->snapshot, ip);
	return s != NULL && service_port_find(s, port, false) != NULL;
}

static void
listener_answer_canary(struct worker *w, int fd)
{
	unsigned long long number = atomic_load(&w->lb->canary_number);
	char text[32];
	int n = snprintf(text, sizeof text, "%016llx\n", number);

	(void)send(fd, text, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);
	close(fd);
}

uint32_t
listener_client(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_V4MAPPED(ip) ? ip_to_v4(ip) : (uint32_t)hash64(ip, sizeof *ip, 0);
}

/* What is called by an address and port outside: the service port, at its own address. */
static void
listener_external(
	const struct worker *w, const struct in6_addr *to, uint16_t port, struct group_key *key)
{
	const struct service_port *p;
	const struct service *s = snapshot_find_external(w->snapshot, to, port, false, &p);

	if (s == NULL)
		return;
	key->ip = s->fake_ip != 0 ? s->fake_ip : s->cluster_ip;
	key->port = p->port;
	key->local = s->external_local;
}

/* What was a service's a moment ago leads to no port of another one. */
static bool
listener_is_outside(const struct lb_config *c, const struct in6_addr *to, uint32_t ip)
{
	return (ip & c->mask) != c->subnet &&
		(IN6_IS_ADDR_V4MAPPED(to) || fake6_inner(&c->subnet6, to) == 0);
}

/* The IPv4 address that stands for a service called by any of its addresses; 0: there is none. */
static uint32_t
listener_service(const struct worker *w, const struct in6_addr *to)
{
	const struct service *s;
	uint32_t ip =
		IN6_IS_ADDR_V4MAPPED(to) ? ip_to_v4(to) : fake6_inner(&w->lb->config.subnet6, to);

	if (ip != 0 || (s = snapshot_find_ip6(w->snapshot, to)) == NULL)
		return ip;
	return s->cluster_ip != 0 ? s->cluster_ip : s->fake_ip;
}

/* What a client has called, as the kernel says. */
struct listener_call {
	int fd;
	struct addr from;
	struct in6_addr to;
	uint16_t port;
	struct group_key key;
	bool late; /* the worker has all that it was told before the client called */
	bool asked; /* the hub has been asked for it */
};

/* --- pods by their own address -------------------------------------------------------------- */

struct listener_pod {
	struct pod_ask ask; /* first */
	struct worker *worker;
	struct listener_call call;
	uint16_t slot; /* of the client: base/core/fair_share.h */
};

static void listener_connect(struct worker *w, struct listener_call *call);
static void listener_take(struct worker *w, struct listener_call *call);

static void
listener_on_pod(void *arg)
{
	struct listener_pod *p = arg;
	struct worker *w = p->worker;

	fair_share_give(w->lb->pods, p->slot, 1);
	w->calls_waiting--;
	worker_enter(w);
	listener_connect(w, &p->call);
	worker_leave(w);
	free(p);
}

/* Has the client called the listener itself? */
static bool
listener_is_own(const struct listener_call *call)
{
	struct addr own = {.len = sizeof own.in6};
	struct in6_addr ip;

	return getsockname(call->fd, &own.sa, &own.len) < 0 || !addr_ip(&own, &ip) ||
		memcmp(&ip, &call->to, sizeof ip) == 0;
}

/* The pod that is called, by an address that no snapshot knows or at a port that it does not
 * declare. False: it can be no pod, or too many wait. */
static bool
listener_ask_pod(struct worker *w, const struct listener_call *call)
{
	const struct lb_config *c = &w->lb->config;
	const struct service *pod = snapshot_find_ip(w->snapshot, call->key.ip);
	struct in6_addr who = {0};
	struct listener_pod *p;
	char address[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN];
	uint32_t client;
	uint16_t slot;

	if (call->asked || c->ask_pod == NULL || call->port == 0)
		return false;
	if (pod != NULL ? pod->pod_ip == 0 || !pod_name_address(pod->name, address)
			: !listener_is_outside(c, &call->to, call->key.ip) ||
				!IN6_IS_ADDR_V4MAPPED(&call->to) || listener_is_own(call))
		return false;
	if (pod == NULL)
		ip_text(&call->to, address);
	(void)addr_ip(&call->from, &who);
	client = listener_client(&who);
	slot = fair_share_slot(&client, sizeof client, w->lb->client_seed);
	if (!fair_share_take(w->lb->pods, slot, 1)) {
		log_limited(LOG_LEVEL_WARN, 4, "lb",
			"refused a connection to a pod by its address, too many of its client wait "
			"for the hub's word on others client=%s address=%s",
			ip_text(&who, text), address);
		return false;
	}
	p = xcalloc(1, sizeof *p);
	p->worker = w;
	p->slot = slot;
	p->call = *call;
	p->call.asked = true;
	snprintf(p->ask.ns, sizeof p->ask.ns, "%s", pod != NULL ? pod->namespace : "");
	snprintf(p->ask.address, sizeof p->ask.address, "%s", address);
	p->ask.port = call->port;
	p->ask.client = client;
	p->ask.loop = w->loop;
	p->ask.done = listener_on_pod;
	w->calls_waiting++;
	c->ask_pod(c->ask_pod_arg, &p->ask);
	return true;
}

/* --- a connection --------------------------------------------------------------------------- */

struct listener_late {
	struct worker *worker;
	struct listener_call call;
};

static void
listener_on_late(void *arg)
{
	struct listener_late *l = arg;
	struct worker *w = l->worker;

	w->calls_waiting--;
	listener_take(w, &l->call);
	worker_leave(w);
	free(l);
}

/* A client may have the address from another worker's DNS server, which has a snapshot that is
 * still among this loop's posts: a turn tells descriptors before posts. Posts keep their order, so
 * behind them all it is known whether there is such a service. */
static void
listener_look_again(struct worker *w, const struct listener_call *call)
{
	struct listener_late *l = xcalloc(1, sizeof *l);

	l->worker = w;
	l->call = *call;
	l->call.late = true;
	w->calls_waiting++;
	loop_post(w->loop, listener_on_late, l);
}

static struct group *
listener_group(const struct worker *w, struct listener_call *call)
{
	const struct service *pod;

	call->key = (struct group_key){.ip = listener_service(w, &call->to), .port = call->port};
	if (listener_is_outside(&w->lb->config, &call->to, call->key.ip) &&
		snapshot_find_ip(w->snapshot, call->key.ip) == NULL) {
		listener_external(w, &call->to, call->port, &call->key);
		pod = snapshot_find_pod(w->snapshot, call->key.ip);
		if (pod != NULL)
			call->key.ip = pod->fake_ip;
	}
	return targets_group(w->targets, w->snapshot, w->epoch, &call->key);
}

static void
listener_refuse_call(struct worker *w, const struct listener_call *call)
{
	const struct lb_config *c = &w->lb->config;
	const struct addr asked = addr_of(&call->to, call->port);
	char text[ADDR_TEXT_MAX];

	log_limited(LOG_LEVEL_WARN, 10, "lb", "refused a connection to %s to=%s",
		(call->key.ip & c->mask) == c->subnet ? "no service port"
			: call->asked ? "an address that is no pod's, as far as the hub says"
				      : "an address that is not in the mesh",
		addr_text(&asked, text));
	listener_refuse(call->fd, &w->counters.refused);
}

static void
listener_connect(struct worker *w, struct listener_call *call)
{
	struct group *g = call->port != 0 ? listener_group(w, call) : NULL;
	struct in6_addr who = {0};
	uint32_t client;
	uint16_t slot;
	char text[ADDR_TEXT_MAX];

	if (g == NULL) {
		if (!call->late)
			listener_look_again(w, call);
		else if (!listener_ask_pod(w, call))
			listener_refuse_call(w, call);
		return;
	}
	(void)addr_ip(&call->from, &who);
	client = listener_client(&who);
	slot = fair_share_slot(&client, sizeof client, w->lb->client_seed);
	if (!fair_share_take(w->lb->connections, slot, 1)) {
		log_limited(LOG_LEVEL_WARN, 10, "lb",
			"refused a connection, its client has too many; raise LimitNOFILE if it "
			"needs them "
			"client=%s",
			ip_text(&who, text));
		listener_refuse(call->fd, &w->counters.over_quota);
		group_unref(&g, w->now_ms);
		return;
	}
	downstream_open(w, call->fd, g, &call->from);
}

/* A canary leaves nothing behind that a tick would have to look at. */
static void
listener_take(struct worker *w, struct listener_call *call)
{
	if (call->port != 0 &&
		listener_is_canary(w, &call->from, listener_service(w, &call->to), call->port)) {
		listener_answer_canary(w, call->fd);
		return;
	}
	worker_enter(w);
	listener_connect(w, call);
}

static void
listener_admit(struct worker *w, int fd, const struct addr *from)
{
	struct listener_call call = {.fd = fd, .from = *from};

	if (origdst_get(fd, &call.to, &call.port) < 0)
		call.port = 0;
	listener_take(w, &call);
}

static void
listener_pause(struct worker *w, bool paused)
{
	w->listen_paused = paused;
	for (int six = 0; six < 2; six++)
		if (w->listen_watch[six] != NULL)
			watch_set(w->listen_watch[six], paused ? 0 : WATCH_READ);
}

static void
listener_accept(struct worker *w, int fd)
{
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		struct addr from = {.len = sizeof from.in6};
		int c = accept4(fd, &from.sa, &from.len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (c >= 0) {
			listener_admit(w, c, &from);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			log_limited(LOG_LEVEL_ERROR, 1, "lb", "cannot accept connections: %s",
				strerror(errno));
			listener_pause(w, true);
			worker_enter(w); /* whose tick accepts again */
			return;
		}
		if (errno == EAGAIN)
			return;
	}
}

static void
on_listener(void *arg, int fd, unsigned events)
{
	struct worker *w = arg;

	(void)events;
	listener_accept(w, fd);
	worker_leave(w);
}

void
listener_use(struct worker *w, bool six, int fd)
{
	if (w->listen_fd[six] >= 0) {
		watch_stop(&w->listen_watch[six]);
		close(w->listen_fd[six]);
	}
	w->listen_fd[six] = fd;
	listener_pause(w, false);
	if (fd >= 0) {
		sock_nodelay(fd); /* inherited by what is accepted */
		w->listen_watch[six] = watch_start(w->loop, fd, WATCH_READ, on_listener, w);
	}
}

void
listener_finish(struct worker *w)
{
	for (int six = 0; six < 2; six++) {
		if (w->listen_fd[six] >= 0)
			listener_accept(w, w->listen_fd[six]);
		listener_use(w, six, -1);
	}
}

void
listener_tick(struct worker *w)
{
	if (w->listen_paused)
		listener_pause(w, false);
}
