/* Workers on threads of their own: snapshots and upstreams change while queries come in. For
 * TSan. */
#include "dns/dns.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/dns/dns_kit.h"

enum { WORKERS = 2, ROUNDS = 200 };

struct worker {
	struct loop *loop;
	pthread_t thread;
};

static void *
run(void *arg)
{
	loop_run(((struct worker *)arg)->loop);
	return NULL;
}

static void
stop_loop(void *arg)
{
	loop_stop(((struct worker *)arg)->loop);
}

static void
on_stopped(void *arg)
{
	*(bool *)arg = true;
}

static uint16_t
free_port(void)
{
	struct addr any = addr_ipv4(INADDR_LOOPBACK, 0);
	auto_fd int fd = -1, tcp = -1;

	assert_int_equal(sock_udp(&any, 0, &fd, NULL), 0);
	any.len = sizeof any.in;
	assert_int_equal(getsockname(fd, &any.sa, &any.len), 0);
	return sock_listen(&any, 0, &tcp, NULL) == 0 ? addr_port(&any) : free_port();
}

/* Sends from many ports, so that each worker gets some, and counts the answers. */
static unsigned
flood(uint16_t port)
{
	struct addr any = addr_ipv4(INADDR_LOOPBACK, 0), to = addr_ipv4(INADDR_LOOPBACK, port);
	struct timeval wait = {.tv_sec = 2};
	uint8_t m[512], in[512];
	unsigned answered = 0;

	for (unsigned i = 0; i < 8; i++) {
		auto_fd int fd = -1;
		size_t len =
			kit_query(m, "web.default.svc.cluster.local", DNS_A, DNS_FLAG_RD, KIT_EDNS);
		int plain;

		assert_int_equal(sock_udp(&any, 0, &fd, NULL), 0);
		plain = dup(fd);
		setsockopt(plain, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
		sendto(fd, m, len, 0, &to.sa, to.len);
		for (unsigned tries = 0; tries < 60000; tries++) {
			if (recv(plain, in, sizeof in, 0) > 0) {
				answered++;
				break;
			}
			usleep(1000);
		}
		close(plain);
	}
	return answered;
}

static void
snapshots_change_under_load(void **state)
{
	struct worker w[WORKERS];
	struct loop *loops[WORKERS], *main_loop;
	struct snapshot *s = kit_snapshot();
	struct addr nowhere = addr_ipv4(INADDR_LOOPBACK, 1);
	bool stopped = false;
	struct dns *dns;
	struct metrics m;

	(void)state;
	assert_int_equal(loop_new(&main_loop, NULL), 0);
	for (unsigned i = 0; i < WORKERS; i++) {
		assert_int_equal(loop_new(&w[i].loop, NULL), 0);
		loops[i] = w[i].loop;
		assert_int_equal(pthread_create(&w[i].thread, NULL, run, &w[i]), 0);
	}
	const struct dns_config c = {
		.main = main_loop,
		.workers = loops,
		.n_workers = WORKERS,
		.cluster_domain = "cluster.local",
		.port = free_port(),
		.ttl_s = 30,
		.upstreams = &nowhere,
		.n_upstreams = 1,
		.resolv_conf = "/nonexistent/resolv.conf",
	};
	assert_int_equal(dns_open(&dns, &c, NULL), 0);
	dns_use(dns, s);
	assert_int_equal(dns_listen(dns, INADDR_LOOPBACK, NULL), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct snapshot *next = snapshot_next(s, NULL, 0);

		dns_use(dns, next);
		snapshot_unref(&s);
		s = next;
		metrics_init(&m);
		dns_metrics(dns, &m);
		metrics_fini(&m);
		if (i % 10 == 0)
			assert_int_equal(flood(c.port), 8);
	}
	dns_stop(&dns, on_stopped, &stopped);
	while (!stopped)
		loop_turn(main_loop);
	for (unsigned i = 0; i < WORKERS; i++) {
		loop_post(w[i].loop, stop_loop, &w[i]);
		pthread_join(w[i].thread, NULL);
		loop_free(&w[i].loop);
	}
	loop_free(&main_loop);
	snapshot_unref(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(snapshots_change_under_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
