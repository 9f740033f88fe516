#include "lb/proxy/listener.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/descriptors.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "lb/conn/origdst.h"
#include "lb/proxy/proxy.h"

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
};

uint64_t
listener_connections(void)
{
	uint64_t limit = descriptors_limit();

	return (limit - limit / DESCRIPTORS_KEPT) / DESCRIPTORS_EACH;
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

static void
listener_admit(struct worker *w, int fd, const struct addr *from)
{
	const struct lb_config *c = &w->lb->config;
	struct group *g = NULL;
	struct in6_addr to = {0}, who = {0};
	struct group_key key = {0};
	uint32_t client;
	uint16_t port = 0, slot;
	char text[ADDR_TEXT_MAX];

	(void)addr_ip(from, &who);
	client = listener_client(&who);
	slot = fair_share_slot(&client, sizeof client, w->lb->client_seed);
	if (origdst_get(fd, &to, &port) == 0) {
		key.ip = listener_service(w, &to);
		key.port = port;
		if (listener_is_canary(w, from, key.ip, port)) {
			listener_answer_canary(w, fd);
			return;
		}
		if (listener_is_outside(c, &to, key.ip) &&
			snapshot_find_ip(w->snapshot, key.ip) == NULL)
			listener_external(w, &to, port, &key);
		g = targets_group(w->targets, w->snapshot, w->epoch, &key);
	}
	if (g == NULL) {
		const struct addr asked = addr_of(&to, port);

		log_limited(LOG_LEVEL_WARN, 10, "lb", "refused a connection to %s to=%s",
			(key.ip & c->mask) == c->subnet ? "no service port"
							: "an address that is not in the mesh",
			addr_text(&asked, text));
		listener_refuse(fd, &w->counters.refused);
		return;
	}
	if (!fair_share_take(w->lb->connections, slot, 1)) {
		log_limited(LOG_LEVEL_WARN, 10, "lb",
			"refused a connection, its client has too many; raise LimitNOFILE if it "
			"needs them "
			"client=%s",
			ip_text(&who, text));
		listener_refuse(fd, &w->counters.over_quota);
		group_unref(&g, w->now_ms);
		return;
	}
	downstream_open(w, fd, g, from);
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
on_listener(void *arg, int fd, unsigned events)
{
	struct worker *w = arg;

	(void)events;
	worker_enter(w);
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
			return;
		}
		if (errno == EAGAIN)
			return;
	}
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
	if (fd >= 0)
		sock_nodelay(fd); /* inherited by what is accepted */
	if (fd >= 0)
		w->listen_watch[six] = watch_start(w->loop, fd, WATCH_READ, on_listener, w);
}

void
listener_finish(struct worker *w)
{
	for (int six = 0; six < 2; six++) {
		if (w->listen_fd[six] >= 0)
			on_listener(w, w->listen_fd[six], WATCH_READ);
		listener_use(w, six, -1);
	}
}

void
listener_tick(struct worker *w)
{
	if (w->listen_paused)
		listener_pause(w, false);
}
