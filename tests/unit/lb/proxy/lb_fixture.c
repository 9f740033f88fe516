#include "tests/unit/lb/proxy/lb_fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/core/hops.h"
#include "base/os/send_ring.h"
#include "model/view.h"
#include "tests/fake/clock.h"
#include "tests/fake/origdst.h"

enum { WORKERS_MOST = 2 };
enum { SUBNET = 0x09fb0000, MASK = 0xffff0000, FAKE_IP = 0x09fb0102, LOOPBACK = 0x7f000001 };

static struct {
	struct loop *loop, *of_workers[WORKERS_MOST]; /* all the same one */
	struct send_ring *rings[WORKERS_MOST]; /* the same; with EDGEWAY_RING */
	size_t n_workers; /* 0: one */
	pthread_t thread;
	struct lb *lb;
	struct snapshot *snapshot;
	uint16_t port;
	int listen[ENDPOINTS];
	uint16_t ports[ENDPOINTS];
	sem_t gone;
	struct service_lb options;
	uint64_t own_bytes, socket_bytes;
	bool via, both_families, gateway;
	pod_ask_fn *ask_pod;
	char text[64 * 1024];
	struct dial_guard *guard; /* lets endpoints be at loopback */
} fx;

struct call {
	loop_fn *fn;
	void *arg;
	sem_t done;
};

static void
run_call(void *arg)
{
	struct call *c = arg;

	c->fn(c->arg);
	sem_post(&c->done);
}

void
on_loop(loop_fn *fn, void *arg)
{
	struct call c = {.fn = fn, .arg = arg};

	sem_init(&c.done, 0, 0);
	loop_post(fx.loop, run_call, &c);
	sem_wait(&c.done);
	sem_destroy(&c.done);
}

static void *
run(void *arg)
{
	loop_run(arg);
	return NULL;
}

static uint16_t
port_of(int fd)
{
	struct sockaddr_in a;
	socklen_t len = sizeof a;

	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	return ntohs(a.sin_port);
}

static int
listen_somewhere(uint16_t port)
{
	struct addr a = addr_ipv4(LOOPBACK, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	assert_int_equal(bind(fd, &a.sa, a.len), 0);
	assert_int_equal(listen(fd, 64), 0);
	return fd;
}

static void
open_lb(void *arg)
{
	struct lb_config c = {
		.main = fx.loop,
		.workers = fx.of_workers,
		.n_workers = MAX(fx.n_workers, (size_t)1),
		.port = fx.port,
		.policy = LB_LEAST_REQUEST,
		.subnet = SUBNET,
		.mask = MASK,
		.metric_services = 1,
		.guard = fx.guard,
		.connect_ms = 300,
		.head_ms = 500,
		.answer_ms = 800,
		.idle_ms = 1500,
		.upstream_idle_ms = 1000,
		.memory_bytes = fx.own_bytes,
		.socket_bytes = fx.socket_bytes,
		.via = fx.via,
		.ask_pod = fx.ask_pod,
	};
	struct err err;

	(void)arg;
	for (size_t i = 0; i < WORKERS_MOST; i++)
		fx.of_workers[i] = fx.loop;
	if (fx.rings[0] == NULL && getenv("EDGEWAY_RING") != NULL &&
		send_ring_new(&fx.rings[0], &err) < 0)
		abort();
	for (size_t i = 1; i < WORKERS_MOST; i++)
		fx.rings[i] = fx.rings[0];
	c.rings = fx.rings[0] != NULL ? fx.rings : NULL;
	if (lb_open(&fx.lb, &c, &err) < 0 || lb_listen(fx.lb, LOOPBACK, &err) < 0) {
		print_error("%s\n", err.text);
		abort();
	}
}

static void
nothing(void *arg)
{
	(void)arg;
}

void
time_passes(unsigned ms)
{
	while (ms-- > 0) {
		clock_pass(1000);
		on_loop(nothing, NULL);
	}
}

void
start_lb(void)
{
	on_loop(open_lb, NULL);
	on_loop(nothing, NULL); /* the listener is handed to the worker by a post */
}

void
fixture_budget(uint64_t own_bytes, uint64_t socket_bytes)
{
	fx.own_bytes = own_bytes;
	fx.socket_bytes = socket_bytes;
}

void
fixture_via(bool via)
{
	fx.via = via;
}

void
fixture_ask_pod(pod_ask_fn *ask)
{
	fx.ask_pod = ask;
}

void
fixture_workers(size_t n)
{
	fx.n_workers = n;
}

int
fixture_start(void **state)
{
	static const char *const allowed[] = {"127.0.0.0/8", "::1", NULL};
	struct err err;
	int fd;

	(void)state;
	signal(SIGPIPE, SIG_IGN); /* as the agent does: splice knows no MSG_NOSIGNAL */
	for (int i = 0; i < ENDPOINTS; i++) {
		fx.listen[i] = listen_somewhere(0);
		fx.ports[i] = port_of(fx.listen[i]);
	}
	fd = listen_somewhere(0);
	fx.port = port_of(fd);
	close(fd);
	sem_init(&fx.gone, 0, 0);
	service_options(NULL);
	assert_int_equal(dial_guard_new(allowed, &fx.guard, &err), 0);
	assert_int_equal(loop_new(&fx.loop, &err), 0);
	assert_int_equal(pthread_create(&fx.thread, NULL, run, fx.loop), 0);
	start_lb();
	return 0;
}

void
lb_on_gone(void *arg)
{
	(void)arg;
	sem_post(&fx.gone);
}

void
stop_lb_here(void *arg)
{
	lb_stop(&fx.lb, *(uint64_t *)arg, lb_on_gone, NULL);
}

void
begin_stop_lb(uint64_t drain_ms)
{
	on_loop(stop_lb_here, &drain_ms);
}

bool
lb_is_gone(int wait_ms)
{
	while (sem_trywait(&fx.gone) < 0) {
		if (wait_ms-- <= 0)
			return false;
		time_passes(1);
	}
	return true;
}

void
stop_lb(uint64_t drain_ms)
{
	begin_stop_lb(drain_ms);
	assert_true(lb_is_gone(WAIT_MS + (int)drain_ms));
}

static void
stop_loop(void *arg)
{
	loop_stop(arg);
}

int
fixture_stop(void **state)
{
	(void)state;
	if (fx.lb != NULL)
		stop_lb(0);
	loop_post(fx.loop, stop_loop, fx.loop);
	pthread_join(fx.thread, NULL);
	loop_free(&fx.loop);
	send_ring_free(&fx.rings[0]);
	snapshot_unref(&fx.snapshot);
	dial_guard_unref(&fx.guard);
	for (int i = 0; i < ENDPOINTS; i++)
		endpoint_down(i);
	return 0;
}

const struct dial_guard *
the_guard(void)
{
	return fx.guard;
}

struct lb **
the_lb(void)
{
	return &fx.lb;
}

struct loop *
the_loop(void)
{
	return fx.loop;
}

int
endpoint_listen(int i)
{
	if (fx.listen[i] < 0)
		fx.listen[i] = listen_somewhere(fx.ports[i]);
	return fx.listen[i];
}

void
endpoint_down(int i)
{
	if (fx.listen[i] >= 0)
		close(fx.listen[i]);
	fx.listen[i] = -1;
}

void
endpoint_new(int i)
{
	endpoint_down(i);
	fx.listen[i] = listen_somewhere(0);
	fx.ports[i] = port_of(fx.listen[i]);
}

uint16_t
endpoint_port(int i)
{
	return fx.ports[i];
}

void
service_both_families(bool both)
{
	fx.both_families = both;
}

void
service_is_gateway(bool gateway)
{
	fx.gateway = gateway;
}

enum { NOWHERE = 61001 }; /* the first port that is no ephemeral one */

static char empty[] = "";
static char self_node[] = "n1";
static char loopback[] = "127.0.0.1", loopback6[] = "::1";

static struct service *
make_service(enum port_mode mode, enum lb_policy policy, int n)
{
	static char ns[] = "default", name[] = "web";
	struct view_endpoint e[ENDPOINTS];
	struct view_port port = {.name = empty,
		.port = 80,
		.mode = (uint8_t)mode,
		.n_endpoints = (size_t)n,
		.endpoints = e};
	struct view v = {.ns = ns,
		.name = name,
		.cluster_ip = empty,
		.external_name = empty,
		.gateway = fx.gateway,
		.lb = fx.options,
		.n_ports = 1,
		.ports = &port};
	const struct self self = {.node = self_node, .site = "", .zone = "", .guard = fx.guard};

	v.lb.policy = (uint8_t)policy;
	memset(e, 0, sizeof e);
	for (int i = 0; i < n; i++) {
		e[i].node = self_node;
		e[i].site = e[i].zone = e[i].hostname = e[i].pod = e[i].host_ip = e[i].given_ip =
			empty;
		e[i].flags = ENDPOINT_READY | ENDPOINT_SERVING;
		e[i].pod_ip = loopback;
		e[i].other_pod_ip = fx.both_families ? loopback6 : NULL;
		e[i].pod_port = fx.ports[i];
	}
	return service_build(&v, &self, FAKE_IP, (uint64_t)random());
}

static struct service *
make_wide_service(int n)
{
	static char ns[] = "default", name[] = "web";
	auto_free struct view_endpoint *e = xcalloc((size_t)n, sizeof *e);
	struct view_port ports[2] = {0};
	struct view v = {.ns = ns,
		.name = name,
		.cluster_ip = empty,
		.external_name = empty,
		.lb = fx.options,
		.n_ports = 2,
		.ports = ports};
	const struct self self = {.node = self_node, .site = "", .zone = "", .guard = fx.guard};

	for (int i = 0; i < n; i++)
		e[i] = (struct view_endpoint){.node = self_node,
			.site = empty,
			.zone = empty,
			.hostname = empty,
			.pod = empty,
			.host_ip = empty,
			.given_ip = empty,
			.flags = ENDPOINT_READY | ENDPOINT_SERVING,
			.pod_ip = loopback,
			.pod_port = (uint16_t)(NOWHERE + i)};
	for (int p = 0; p < 2; p++)
		ports[p] = (struct view_port){.name = empty,
			.port = (uint16_t)(80 + p),
			.mode = PORT_HTTP,
			.n_endpoints = (size_t)n,
			.endpoints = e};
	return service_build(&v, &self, FAKE_IP, (uint64_t)random());
}

static void
adopt(void *arg)
{
	const struct call *then = arg;

	lb_use(fx.lb, fx.snapshot);
	if (then != NULL)
		then->fn(then->arg);
}

static void
use_then(struct service *s, struct call *then)
{
	struct change c = {.ns = "default", .name = "web", .service = s};
	struct snapshot *base = fx.snapshot != NULL ? fx.snapshot : snapshot_new(true);

	fx.snapshot = snapshot_next(base, &c, 1);
	snapshot_unref(&base);
	fake_origdst_set(FAKE_IP, 80);
	on_loop(adopt, then);
	on_loop(nothing, NULL);
}

static void
use(struct service *s)
{
	use_then(s, NULL);
}

void
service_use_late(loop_fn *fn, void *arg)
{
	use_then(make_service(PORT_HTTP, LB_ROUND_ROBIN, 1), &(struct call){.fn = fn, .arg = arg});
}

void
service_use_wide(int n)
{
	use(make_wide_service(n));
}

void
calls_are_for(uint16_t port)
{
	fake_origdst_set(FAKE_IP, port);
}

void
service_use(enum port_mode mode, enum lb_policy policy, int n)
{
	/* Gone and back: no group of an earlier test is left with its cursor. */
	for (int i = 0; i < ENDPOINTS; i++) {
		while (fx.listen[i] >= 0 && endpoint_called(i, 0))
			close(accept(fx.listen[i], NULL, NULL));
	}
	use(make_service(mode, policy, n));
}

void
service_options(const struct service_lb *options)
{
	fx.options = options != NULL ? *options : (struct service_lb){.retries = RETRIES_DEFAULT};
}

void
service_gone(void)
{
	use(NULL);
}

static int
at_once(int fd)
{
	assert_true(fd >= 0);
	sock_nodelay(fd);
	return fd;
}

int
client_open(void)
{
	return client_open_as(LOOPBACK);
}

static int
open_client(uint32_t ip, unsigned hops)
{
	struct addr a = addr_ipv4(LOOPBACK, fx.port), from = addr_ipv4(ip, 0);
	int fd = at_once(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));

	assert_int_equal(bind(fd, &from.sa, from.len), 0);
	hops_mark(fd, AF_INET, hops);
	assert_int_equal(connect(fd, &a.sa, a.len), 0);
	return fd;
}

int
client_open_as(uint32_t ip)
{
	return open_client(ip, 0);
}

int
client_open_hops(unsigned hops)
{
	return open_client(LOOPBACK, hops);
}

static bool
readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (poll(&p, 1, 0) != 1) {
		if (ms-- <= 0)
			return false;
		time_passes(1);
	}
	return true;
}

/* As recv, of what comes within WAIT_MS. */
static ssize_t
receive(int fd, void *to, size_t n)
{
	if (readable(fd, WAIT_MS))
		return recv(fd, to, n, 0);
	errno = ETIMEDOUT;
	return -1;
}

bool
endpoint_called(int i, int ms)
{
	return readable(endpoint_listen(i), ms);
}

int
endpoint_accept(int i)
{
	if (!endpoint_called(i, WAIT_MS))
		fail_msg("endpoint %d is not called", i);
	return at_once(accept(fx.listen[i], NULL, NULL));
}

void
put_bytes(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len > 0) {
		ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			fail_msg("send: %s", strerror(errno));
		at += n;
		len -= (size_t)n;
	}
}

void
put(int fd, const char *text)
{
	put_bytes(fd, text, strlen(text));
}

void
expect(int fd, const char *text)
{
	size_t want = strlen(text), got = 0;

	while (got < want) {
		ssize_t n = receive(fd, fx.text + got, want - got);

		if (n <= 0) {
			fx.text[got] = '\0';
			fail_msg("wanted \"%s\", got \"%s\" and then %s", text, fx.text,
				n == 0 ? "EOF" : strerror(errno));
		}
		got += (size_t)n;
	}
	fx.text[got] = '\0';
	assert_string_equal(fx.text, text);
}

unsigned
segments_in(int fd)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;

	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	return info.tcpi_segs_in;
}

const char *
read_until(int fd, const char *text)
{
	size_t got = 0;

	do {
		ssize_t n = receive(fd, fx.text + got, 1);

		if (n <= 0)
			fail_msg("wanted \"%s\", got \"%s\" and then %s", text, fx.text,
				n == 0 ? "EOF" : strerror(errno));
		fx.text[++got] = '\0';
	} while (strstr(fx.text, text) == NULL && got + 1 < sizeof fx.text);
	return fx.text;
}

const char *
head_at(int fd)
{
	return read_until(fd, "\r\n\r\n");
}

void
expect_eof(int fd)
{
	ssize_t n = receive(fd, fx.text, sizeof fx.text - 1);

	fx.text[MAX(n, 0)] = '\0';
	if (n != 0)
		fail_msg("wanted EOF, got %s", n < 0 ? strerror(errno) : fx.text);
}

void
expect_reset(int fd)
{
	ssize_t n = receive(fd, fx.text, sizeof fx.text - 1);

	fx.text[MAX(n, 0)] = '\0';
	if (n >= 0 || errno != ECONNRESET)
		fail_msg("wanted a reset, got %s",
			n == 0          ? "EOF"
				: n < 0 ? strerror(errno)
					: fx.text);
}

void
expect_silence(int fd, int ms)
{
	ssize_t n;

	if (!readable(fd, ms))
		return;
	n = recv(fd, fx.text, sizeof fx.text - 1, 0);
	fx.text[MAX(n, 0)] = '\0';
	fail_msg("wanted silence, got %zd bytes: %s", n, fx.text);
}

void
shut(int fd)
{
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
}

void
close_hard(int fd)
{
	const struct linger now = {.l_onoff = 1};

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	close(fd);
}

static void
write_metrics(void *arg)
{
	lb_metrics(fx.lb, arg);
}

static void
write_state(void *arg)
{
	lb_state(fx.lb, arg, false);
}

uint64_t
counted(const char *name)
{
	char member[64];
	const char *at;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	on_loop(write_state, &out);
	snprintf(member, sizeof member, "\"%s\":", name);
	at = strstr(buf_str(&out), member);
	assert_non_null(at);
	return strtoull(at + strlen(member), NULL, 10);
}

uint64_t
metric(const char *line_start)
{
	struct metrics m;
	const char *at;
	uint64_t v = 0;

	metrics_init(&m);
	on_loop(write_metrics, &m);
	for (at = strstr(buf_str(&m.out), line_start); at != NULL && at[-1] != '\n';)
		at = strstr(at + 1, line_start); /* the HELP line has it too */
	assert_non_null(at);
	v = strtoull(at + strlen(line_start), NULL, 10);
	metrics_fini(&m);
	return v;
}
