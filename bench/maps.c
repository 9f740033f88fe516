/*
 * The agent's cost of passing services to the kernel: bench/maps SERVICES ROUNDS, as root, in a
 * network namespace of its own with a bridge docker0. Every service has one TCP port with datapath
 * kernel and two endpoints. Prints lines "NAME MILLISECONDS" (load; then medians of adding,
 * changing and removing one service), then "ready", and runs with everything in place until end of
 * input. Whenever a change by another program was undone, it prints when: milliseconds of
 * CLOCK_MONOTONIC.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/log.h"
#include "iptables/iptables.h"
#include "model/view.h"

#define SUBNET 0x09fb0000u
#define ADDRESS 0xac110001u
enum { ROUNDS_MAX = 1000 };

struct bench {
	struct loop *loop;
	struct iptables *ipt;
	struct snapshot *snapshot;
};

static double
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void
must(int rc, const struct err *err)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "bench/maps: %s\n", err->text);
	exit(1);
}

static void
on_address(void *arg, uint32_t address)
{
	(void)arg;
	(void)address;
}

/* Another `last` byte in the second endpoint's address changes the service. */
static struct service *
make(unsigned i, unsigned last)
{
	const struct self self = {.node = "n", .site = "", .zone = ""};
	auto_free char *json =
		xasprintf("{\"ns\":\"default\",\"name\":\"s%u\",\"datapath\":\"kernel\",\"ports\":["
			  "{\"port\":80,"
			  "\"mode\":\"tcp\",\"endpoints\":[{\"flags\":3,\"givenIP\":\"10.%u.%u."
			  "1\",\"givenPort\":8080},"
			  "{\"flags\":3,\"givenIP\":\"10.%u.%u.%u\",\"givenPort\":8080}]}]}",
			i, i >> 8, i & 255, i >> 8, i & 255, last);
	struct view *v = NULL;
	struct err err = {0};
	struct service *s;

	must(view_parse(&v, json, strlen(json), &err), &err);
	s = service_build(v, &self, SUBNET + 1 + i, last);
	view_free(&v);
	return s;
}

/* s NULL: removed. Returns the time to apply the snapshot, including the kernel's answer. */
static double
step(struct bench *b, unsigned i, struct service *s)
{
	auto_free char *name = xasprintf("s%u", i);
	const struct change c = {"default", name, s};
	struct snapshot *next = snapshot_next(b->snapshot, &c, 1);
	double start = now_ms(), end;

	iptables_use(b->ipt, next);
	end = now_ms();
	snapshot_unref(&b->snapshot);
	b->snapshot = next;
	return end - start;
}

static void
load(struct bench *b, unsigned n)
{
	struct change *c = xcalloc(n, sizeof *c);
	struct snapshot *next;
	double start;

	for (unsigned i = 0; i < n; i++)
		c[i] = (struct change){"default", xasprintf("s%u", i), make(i, 2)};
	next = snapshot_next(b->snapshot, c, n);
	for (unsigned i = 0; i < n; i++)
		free((void *)(uintptr_t)c[i].name);
	free(c);
	start = now_ms();
	iptables_use(b->ipt, next);
	printf("load %.3f\n", now_ms() - start);
	snapshot_unref(&b->snapshot);
	b->snapshot = next;
}

/* Checks that the kernel really handles them. */
static void
check(const struct bench *b, unsigned n)
{
	auto_free char *want = xasprintf("\"tcpPorts\":%u,", n);
	auto_buf struct buf state;

	buf_init(&state, BUF_UNLIMITED);
	iptables_state(b->ipt, &state, true);
	if (strstr(buf_str(&state), want) == NULL ||
		strstr(buf_str(&state), "\"failures\":0") == NULL) {
		fprintf(stderr, "bench/maps: not %u ports: %s\n", n, buf_str(&state));
		exit(1);
	}
}

static int
by_number(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void
print_median(const char *name, double *times, unsigned n)
{
	qsort(times, n, sizeof *times, by_number);
	printf("%s %.3f\n", name, times[n / 2]);
}

static void
changes(struct bench *b, unsigned n, unsigned rounds)
{
	static double added[ROUNDS_MAX], changed[ROUNDS_MAX], removed[ROUNDS_MAX];

	for (unsigned r = 0; r < rounds; r++) {
		added[r] = step(b, n, make(n, 2));
		changed[r] = step(b, n, make(n, 3));
		removed[r] = step(b, n, NULL);
	}
	print_median("add", added, rounds);
	print_median("change", changed, rounds);
	print_median("remove", removed, rounds);
}

static unsigned long long
repairs(const struct bench *b)
{
	static const char word[] = "\"repairs\":";
	auto_buf struct buf state;
	const char *at;

	buf_init(&state, BUF_UNLIMITED);
	iptables_state(b->ipt, &state, true);
	at = strstr(buf_str(&state), word);
	return at == NULL ? 0 : strtoull(at + strlen(word), NULL, 10);
}

static void
run(const struct bench *b)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	unsigned long long seen = repairs(b), now;

	while (poll(&in, 1, 0) == 0) {
		loop_turn(b->loop);
		now = repairs(b);
		if (now != seen) {
			printf("%.3f\n", now_ms());
			fflush(stdout);
		}
		seen = now;
		usleep(100);
	}
}

int
main(int argc, char **argv)
{
	struct bench b = {0};
	struct err err = {0};
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
	unsigned rounds = argc > 2 ? (unsigned)atoi(argv[2]) : 50;

	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_TEXT);
	must(loop_new(&b.loop, &err), &err);
	b.snapshot = snapshot_new(true);
	must(iptables_open(&b.ipt,
		     &(struct iptables_config){.loop = b.loop,
			     .interface = "docker0",
			     .subnet = SUBNET,
			     .mask = 0xffff0000,
			     .port = 40001,
			     .dns_port = 53,
			     .mark = 1},
		     on_address, NULL, &err),
		&err);
	for (int i = 0; i < 50; i++) { /* afterwards the bridge is known */
		loop_turn(b.loop);
		usleep(1000);
	}
	must(iptables_install(b.ipt, ADDRESS, &err), &err);
	load(&b, n);
	check(&b, n);
	changes(&b, n, MIN(rounds, (unsigned)ROUNDS_MAX));
	puts("ready");
	fflush(stdout);
	run(&b);
	must(iptables_remove(b.ipt, &err), &err);
	iptables_close(&b.ipt);
	snapshot_unref(&b.snapshot);
	loop_free(&b.loop);
	return 0;
}
