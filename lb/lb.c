#include "lb/lb.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/inherited.h"
#include "base/core/log.h"
#include "base/os/port_holder.h"
#include "lb/balance/affinity.h"
#include "lb/proxy/listener.h"
#include "lb/proxy/memory.h"
#include "lb/proxy/outlier_share.h"
#include "lb/proxy/permit.h"
#include "lb/proxy/proxy.h"
#include "lb/proxy/tap.h"
#include "lb/proxy/worker.h"

enum { ACCESS_WAITING_BYTES = 4 * 1024 * 1024 };

/* --- messages to the workers ---------------------------------------------------------------- */

struct message {
	struct worker *worker;
	struct snapshot *snapshot;
	struct dial_guard *guard;
	bool six;
	int fd;
	uint64_t drain_ms;
	bool successor; /* a successor has the sockets */
	enum lb_access_mode access;
	uint32_t access_sample;
	struct lb_tracing tracing;
};

static void
on_use(void *arg)
{
	struct message *m = arg;
	struct worker *w = m->worker;

	worker_enter(w);
	snapshot_unref(&w->snapshot);
	w->snapshot = m->snapshot;
	w->epoch++;
	w->stirred = true;
	targets_follow(w->targets, w->snapshot, w->epoch);
	permit_recheck(w);
	free(m);
}

static void
on_guard(void *arg)
{
	struct message *m = arg;

	dial_guard_unref(&m->worker->guard);
	m->worker->guard = m->guard;
	free(m);
}

static void
on_listen(void *arg)
{
	struct message *m = arg;

	worker_enter(m->worker);
	listener_use(m->worker, m->six, m->fd);
	free(m);
}

static void
on_access(void *arg)
{
	struct message *m = arg;
	struct worker *w = m->worker;

	w->access_mode = m->access;
	w->access_sample = m->access_sample;
	w->access_skip = 0;
	w->lines = w->lb->lines; /* exists since before the post, and outlives the worker */
	free(m);
}

static void
on_trace(void *arg)
{
	struct message *m = arg;

	m->worker->tracing = m->tracing;
	m->worker->traces = true;
	free(m);
}

static void
on_stop(void *arg)
{
	struct message *m = arg;
	struct worker *w = m->worker;

	worker_enter(w);
	for (int six = 0; six < 2 && m->successor; six++)
		listener_use(w, six, -1);
	if (!m->successor)
		listener_finish(w);
	w->draining = true;
	w->has_successor = m->successor;
	w->drain_until_ms = w->now_ms + m->drain_ms;
	/* A client of HTTP/1 may have been promised that its connection stays; one of HTTP/2 is
	 * told to open another. */
	for (struct node *n = w->downstreams.next, *next; n != &w->downstreams; n = next) {
		struct downstream *f = container_of(n, struct downstream, node);

		next = n->next;
		if (!m->successor || f->state == DOWNSTREAM_HTTP2)
			downstream_drain(f);
	}
	free(m);
	worker_leave(w);
}

static void
lb_tell(struct worker *w, loop_fn *fn, const struct message *what)
{
	struct message *m = xmemdup(what, sizeof *what);

	m->worker = w;
	loop_post(w->loop, fn, m);
}

/* --- public interface ----------------------------------------------------------------------- */

/* On loop 0, once for each worker: nothing is posted to that worker any more. */
static void
on_worker_quiet(void *arg)
{
	struct lb *lb = arg;

	if (--lb->n_running > 0)
		return;
	for (size_t i = 0; i < lb->config.n_workers; i++)
		free(lb->workers[i]);
	log_queue_free(&lb->lines);
	tap_free(lb);
	lb->on_stopped(lb->stopped_arg);
	affinity_free(&lb->affinity);
	fair_share_free(&lb->connections);
	fair_share_free(&lb->pods);
	memory_close(lb);
	shares_fini(&lb->shares);
	tallies_free(&lb->tallies);
	snapshot_unref(&lb->snapshot);
	free(lb->sockets[0]);
	free(lb->sockets[1]);
	free(lb->workers);
	free(lb);
}

/* Runs after everything that other workers have posted. */
static void
on_last(void *arg)
{
	struct worker *w = arg;

	loop_post(w->lb->config.main, on_worker_quiet, w->lb);
}

/* On loop 0, once for each worker; workers that still run may post to the others
 * (outlier_share.h). */
static void
on_worker_gone(void *arg)
{
	struct worker *w = arg;
	struct lb *lb = w->lb;

	if (--lb->n_running > 0)
		return;
	lb->n_running = lb->config.n_workers;
	for (size_t i = 0; i < lb->config.n_workers; i++)
		loop_post(lb->config.workers[i], on_last, lb->workers[i]);
}

int
lb_open(struct lb **out, const struct lb_config *config, struct err *err)
{
	struct lb *lb;

	if (config->n_workers == 0)
		return err_set(err, EINVAL, "the proxy needs at least one worker");
	lb = xcalloc(1, sizeof *lb);
	lb->config = *config;
	lb->n_running = config->n_workers;
	lb->on_worker_gone = on_worker_gone;
	lb->affinity = affinity_new();
	lb->connections = fair_share_new(listener_connections());
	lb->pods = listener_pod_places();
	memory_open(lb);
	shares_init(&lb->shares);
	lb->tallies = tallies_new(config->n_workers, config->metric_services);
	lb->workers = xcalloc(config->n_workers, sizeof(struct worker *));
	for (int six = 0; six < 2; six++)
		lb->sockets[six] = xcalloc(config->n_workers, sizeof(int));
	for (size_t i = 0; i < config->n_workers; i++) {
		lb->workers[i] = worker_new(lb, config->workers[i], i);
		loop_post(config->workers[i], worker_start, lb->workers[i]);
	}
	*out = lb;
	return 0;
}

void
lb_use(struct lb *lb, const struct snapshot *snapshot)
{
	snapshot_unref(&lb->snapshot);
	lb->snapshot = snapshot_ref(snapshot);
	tallies_use(lb->tallies, lb->snapshot);
	for (size_t i = 0; i < lb->config.n_workers; i++)
		lb_tell(lb->workers[i], on_use,
			&(struct message){.snapshot = snapshot_ref(snapshot)});
}

void
lb_guard(struct lb *lb, const struct dial_guard *guard)
{
	for (size_t i = 0; i < lb->config.n_workers; i++)
		lb_tell(lb->workers[i], on_guard,
			&(struct message){.guard = dial_guard_ref(guard)});
}

void
lb_let_go(struct lb *lb, const struct in6_addr *ip, uint16_t port, bool doubted)
{
	outlier_share_let_go(lb, ip, port, doubted);
}

void
lb_reroute(struct lb *lb)
{
	outlier_share_reroute(lb);
}

int
lb_access_log(struct lb *lb, enum lb_access_mode mode, uint32_t sample, struct err *err)
{
	const struct message m = {.access = mode, .access_sample = sample};
	int rc;

	assert(sample > 0);
	if (lb == NULL || (mode == ACCESS_OFF && lb->lines == NULL))
		return 0;
	if (lb->lines == NULL) {
		rc = log_queue_new(&lb->lines, STDERR_FILENO, ACCESS_WAITING_BYTES, err);
		if (rc < 0)
			return rc;
	}
	for (size_t i = 0; i < lb->config.n_workers; i++)
		lb_tell(lb->workers[i], on_access, &m);
	return 0;
}

void
lb_trace(struct lb *lb, const struct lb_tracing *tracing)
{
	if (lb == NULL || lb->config.take_spans == NULL)
		return;
	for (size_t i = 0; i < lb->config.n_workers; i++)
		lb_tell(lb->workers[i], on_trace, &(struct message){.tracing = *tracing});
}

/* Port 0: a free one, the same for all. The first bind is tried without SO_REUSEPORT, which would
 * let us share the port with another process of our user; a predecessor's sockets are ours. */
static int
lb_bind_sockets(const struct lb *lb, const struct addr *at, int *fds, struct err *err)
{
	unsigned flags = at->sa.sa_family == AF_INET6 ? SOCK_FREEBIND : 0;
	struct addr a = *at;
	int rc = 0;

	for (size_t i = 0; i < lb->config.n_workers; i++)
		fds[i] = -1;
	if (inherited_count(at, SOCK_STREAM) == 0)
		rc = sock_listen(at, flags, &fds[0], err);
	cleanup_fd(&fds[0]);
	for (size_t i = 0; i < lb->config.n_workers && rc == 0; i++) {
		rc = sock_listen(&a, flags | SOCK_REUSEPORT | SOCK_TRANSPARENT, &fds[i], err);
		if (rc == 0)
			a = addr_with_port(&a, sock_port(fds[i]));
	}
	for (size_t i = 0; i < lb->config.n_workers && rc < 0; i++)
		cleanup_fd(&fds[i]);
	return rc;
}

/* The process at our port may stay for ever, and gets no traffic of ours (iptables/maps/rules.h):
 * we use another port, the one that a predecessor had to use. */
static int
lb_move_listener(struct lb *lb, const struct addr *at, int *fds, struct err *err)
{
	char who[PORT_HOLDER_TEXT_MAX];
	const struct addr other = addr_with_port(at, inherited_tcp_port(at));
	int rc = lb_bind_sockets(lb, &other, fds, err);

	if (rc < 0)
		return rc;
	if (!port_holder("tcp", ntohl(at->in.sin_addr.s_addr), lb->config.port, who))
		snprintf(who, sizeof who, "a connection or a socket that does not listen");
	snprintf(lb->moved, sizeof lb->moved,
		"mesh.listenPort %u is held by %s: the proxy listens on port %u until a restart; "
		"stop "
		"that program (`ss -antp sport = :%u` names it), then restart the agent, and let a "
		"firewall pass both",
		lb->config.port, who, sock_port(fds[0]), lb->config.port);
	log_warn("lb", "%s", lb->moved);
	return 0;
}

/* Opens each worker's socket: at the configured port, else at another one. */
static int
open_sockets(struct lb *lb, uint32_t address, int *fds, struct err *err)
{
	const struct addr at = addr_ipv4(address, lb->config.port);
	int rc = lb_bind_sockets(lb, &at, fds, err);

	return rc == -EADDRINUSE ? lb_move_listener(lb, &at, fds, err) : rc;
}

size_t
lb_sockets(const struct lb *lb, bool six, int *fds)
{
	if (six ? IN6_IS_ADDR_UNSPECIFIED(&lb->address6) : lb->address == 0)
		return 0;
	memcpy(fds, lb->sockets[six], lb->config.n_workers * sizeof *fds);
	return lb->config.n_workers;
}

/* The workers take the sockets; closes: there are none. */
static void
lb_use_sockets(struct lb *lb, bool six, bool closes)
{
	for (size_t i = 0; i < lb->config.n_workers; i++)
		lb_tell(lb->workers[i], on_listen,
			&(struct message){.six = six, .fd = closes ? -1 : lb->sockets[six][i]});
}

int
lb_listen(struct lb *lb, uint32_t address, struct err *err)
{
	int rc = 0;

	if (address == lb->address)
		return 0;
	lb->moved[0] = '\0';
	if (address != 0)
		rc = open_sockets(lb, address, lb->sockets[0], err);
	if (rc < 0)
		return err_wrap(err, rc, "the proxy's listener");
	lb_use_sockets(lb, false, address == 0);
	lb->address = address;
	lb->port = address != 0 ? sock_port(lb->sockets[0][0]) : 0;
	return 0;
}

int
lb_listen6(struct lb *lb, const struct in6_addr *address, struct err *err)
{
	const struct addr at = addr_of(address, lb->port);
	bool closes = IN6_IS_ADDR_UNSPECIFIED(address);
	int rc = 0;

	if (memcmp(address, &lb->address6, sizeof *address) == 0)
		return 0;
	if (!closes)
		rc = lb_bind_sockets(lb, &at, lb->sockets[1], err);
	if (rc < 0)
		return err_wrap(err, rc, "the proxy's listener");
	lb_use_sockets(lb, true, closes);
	lb->address6 = *address;
	return 0;
}

uint16_t
lb_port(const struct lb *lb)
{
	return lb->port;
}

bool
lb_listening(const struct lb *lb)
{
	return lb->address != 0;
}

static void
lb_stop_workers(struct lb *lb, const struct message *how, loop_fn *on_stopped, void *arg)
{
	if (lb == NULL)
		return;
	tap_stop(lb);
	lb->on_stopped = on_stopped;
	lb->stopped_arg = arg;
	for (size_t i = 0; i < lb->config.n_workers; i++)
		lb_tell(lb->workers[i], on_stop, how);
}

void
lb_stop(struct lb **lb, uint64_t drain_ms, loop_fn *on_stopped, void *arg)
{
	lb_stop_workers(take_ptr(lb), &(struct message){.drain_ms = drain_ms}, on_stopped, arg);
}

void
lb_hand_over(struct lb **lb, uint64_t drain_ms, loop_fn *on_stopped, void *arg)
{
	lb_stop_workers(take_ptr(lb), &(struct message){.drain_ms = drain_ms, .successor = true},
		on_stopped, arg);
}
