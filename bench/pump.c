/*
 * Load for TCP relays: a target, and a measuring client. The target obeys the first line of each
 * connection: "down BYTES" sends that many and closes, "up BYTES" receives that many and answers
 * with one byte, "echo" returns what arrives, "hold" reads nothing. Bytes are sent from a file in
 * memory and dropped on receipt, so that the load generator uses little CPU.
 *
 *	bench/pump target LISTEN:PORT [FILE]		sends this file repeatedly, instead of zeros
 *	bench/pump down|up ADDRESS:PORT BYTES STREAMS	prints seconds
 *	bench/pump echo ADDRESS:PORT TIMES		prints p50 and p99 in microseconds
 *	bench/pump idle|stall ADDRESS:PORT STREAMS	opens them, prints "ready", waits for EOF
 */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/core/sock.h"

enum { PIECE = 1 << 20, STACK = 64 * 1024 };

static int content = -1; /* a file of content_bytes */
static uint64_t content_bytes = PIECE;
static struct addr peer;
static uint64_t amount;

static void
must(bool good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static bool
send_bytes(int fd, uint64_t n)
{
	while (n > 0) {
		off_t at = 0;
		ssize_t did = sendfile(fd, content, &at, MIN(n, content_bytes));

		if (did <= 0)
			return false;
		n -= (uint64_t)did;
	}
	return true;
}

/* Returns how many bytes arrived before the end, at most n. MSG_TRUNC drops them in the kernel. */
static uint64_t
take_bytes(int fd, uint64_t n)
{
	uint64_t got = 0;

	while (got < n) {
		ssize_t did = recv(fd, NULL, MIN(n - got, (uint64_t)PIECE), MSG_TRUNC);

		if (did <= 0)
			break;
		got += (uint64_t)did;
	}
	return got;
}

static void
echo(int fd)
{
	char bytes[4096];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof bytes)) > 0 && write(fd, bytes, (size_t)n) == n)
		;
}

/* Reads byte by byte: what follows the line belongs to the load. */
static bool
read_line(int fd, char *line, size_t size)
{
	for (size_t i = 0; i + 1 < size && read(fd, line + i, 1) == 1; i++)
		if (line[i] == '\n') {
			line[i] = '\0';
			return true;
		}
	return false;
}

static void *
serve(void *arg)
{
	int fd = (int)(intptr_t)arg;
	char line[64];

	if (read_line(fd, line, sizeof line)) {
		if (strncmp(line, "down ", 5) == 0)
			send_bytes(fd, strtoull(line + 5, NULL, 10));
		else if (strncmp(line, "up ", 3) == 0 &&
			take_bytes(fd, strtoull(line + 3, NULL, 10)) > 0)
			(void)!write(fd, "x", 1);
		else if (strcmp(line, "echo") == 0)
			echo(fd);
		else if (strcmp(line, "hold") == 0)
			pause();
	}
	close(fd);
	return NULL;
}

static void
start(void *(*fn)(void *), intptr_t arg, pthread_t *thread)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	must(pthread_create(thread, &attr, fn, (void *)arg) == 0, "pthread_create");
	pthread_attr_destroy(&attr);
}

static void
open_content(const char *path)
{
	struct stat st;

	content = open(path, O_RDONLY | O_CLOEXEC);
	must(content >= 0 && fstat(content, &st) == 0 && st.st_size > 0, path);
	content_bytes = (uint64_t)st.st_size;
}

static int
target(void)
{
	struct err err = {0};
	int listener;

	if (sock_listen(&peer, 0, &listener, &err) < 0) {
		fprintf(stderr, "pump: %s\n", err.text);
		return 1;
	}
	fcntl(listener, F_SETFL, 0);
	puts("ready");
	fflush(stdout);
	for (;;) {
		pthread_t thread;
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			continue;
		sock_nodelay(fd);
		start(serve, fd, &thread);
		pthread_detach(thread);
	}
}

static int
dial(void)
{
	int fd;

	must(sock_connect(&peer, 0, &fd) == 0 && fcntl(fd, F_SETFL, 0) == 0, "connect");
	return fd;
}

static void *
load(void *arg)
{
	bool down = arg != NULL;
	char line[64];
	int fd = dial();

	dprintf(fd, "%s %llu\n", down ? "down" : "up", (unsigned long long)amount);
	if (down)
		must(take_bytes(fd, amount) == amount, "down: truncated");
	else
		must(send_bytes(fd, amount) && read(fd, line, 1) == 1, "up");
	close(fd);
	return NULL;
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int
measure(bool down, unsigned streams)
{
	pthread_t threads[4096];
	double begin = now();

	must(streams > 0 && streams <= ARRAY_LEN(threads), "streams");
	for (unsigned i = 0; i < streams; i++)
		start(load, down, &threads[i]);
	for (unsigned i = 0; i < streams; i++)
		pthread_join(threads[i], NULL);
	printf("%.6f\n", now() - begin);
	return 0;
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int
measure_echo(size_t times)
{
	double *took = xcalloc(times + 1, sizeof *took);
	int fd = dial();
	char byte = 'e';

	must(times > 0 && write(fd, "echo\n", 5) == 5, "echo");
	for (size_t i = 0; i < times; i++) {
		double begin = now();

		must(write(fd, &byte, 1) == 1 && read(fd, &byte, 1) == 1, "echo");
		took[i] = now() - begin;
	}
	qsort(took, times, sizeof *took, by_size);
	printf("%.1f %.1f\n", took[times / 2] * 1e6, took[times * 99 / 100] * 1e6);
	free(took);
	close(fd);
	return 0;
}

/* idle: each connection has echoed one byte. stall: each was sent as much as fits without a
 * reader. */
static int
hold(bool stall, unsigned streams)
{
	char byte = 'i';

	for (unsigned i = 0; i < streams; i++) {
		int fd = dial();

		if (stall)
			dprintf(fd, "down 1000000000000\n");
		else
			must(write(fd, "echo\ni", 6) == 6 && read(fd, &byte, 1) == 1, "idle");
	}
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	return 0;
}

int
main(int argc, char **argv)
{
	const char *verb = argc >= 3 ? argv[1] : "";
	uint64_t n = argc >= 4 ? strtoull(argv[3], NULL, 10) : 0;
	struct rlimit files;
	struct err err = {0};

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	signal(SIGPIPE, SIG_IGN);
	content = memfd_create("zeros", MFD_CLOEXEC);
	must(content >= 0 && ftruncate(content, PIECE) == 0, "memfd");
	if (argc < 3 || addr_parse(&peer, argv[2], 0, &err) < 0) {
		fprintf(stderr, "usage: see the head of bench/pump.c %s\n", err.text);
		return 2;
	}
	amount = n;
	if (strcmp(verb, "target") == 0 && argc >= 4)
		open_content(argv[3]);
	if (strcmp(verb, "target") == 0)
		return target();
	if (strcmp(verb, "echo") == 0)
		return measure_echo((size_t)n);
	if (strcmp(verb, "idle") == 0 || strcmp(verb, "stall") == 0)
		return hold(*verb == 's', (unsigned)n);
	return measure(
		strcmp(verb, "down") == 0, argc >= 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 1);
}
