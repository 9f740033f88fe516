/*
 * HTTP requests at a fixed rate over kept connections, whether or not earlier ones are answered
 * (open loop): each is timed from when it was due, so that a stall counts for all requests that it
 * delays, not for one (coordinated omission).
 *
 *	openloop ADDRESS PORT HOST RATE SECONDS CONNECTIONS
 *
 * Prints the answered requests and p50, p99, p99.9 and the most, in microseconds.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MOST = 1000, ANSWER_MOST = 64 * 1024, PATIENCE_S = 10 };

struct conn {
	int fd;
	long first, n; /* of its requests: the oldest unanswered one, how many are unanswered */
	size_t left; /* bytes of the answer that is being read */
};

static struct conn conns[CONNECTIONS_MOST];
static long n_conns, n_all, answered;
static unsigned long long start_ns, gap_ns, *took_us;
static char request[512];
static size_t answer_bytes;

static unsigned long long
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec;
}

static void
fail_with_errno(const char *what)
{
	perror(what);
	exit(1);
}

/* Head and body of all answers are the same size: the first one, read alone, tells it. */
static size_t
answer_size(int fd)
{
	char text[ANSWER_MOST + 1], *body;
	size_t have = 0, want = 0;
	const char *length;

	while (want == 0 || have < want) {
		ssize_t n = recv(fd, text + have, ANSWER_MOST - have, 0);

		if (n <= 0)
			fail_with_errno("the first answer");
		have += (size_t)n;
		text[have] = '\0';
		body = strstr(text, "\r\n\r\n");
		length = strcasestr(text, "\r\nContent-Length:");
		if (body != NULL && length != NULL)
			want = (size_t)(body + 4 - text) + strtoul(length + 17, NULL, 10);
	}
	if (strncmp(text, "HTTP/1.1 200", 12) != 0) {
		fprintf(stderr, "not a 200: %.60s\n", text);
		exit(1);
	}
	return want;
}

static void
send_due(long number)
{
	struct conn *c = &conns[number % n_conns];

	if (send(c->fd, request, strlen(request), MSG_NOSIGNAL) != (ssize_t)strlen(request))
		fail_with_errno("send");
	if (c->n++ == 0)
		c->first = number;
}

static void
receive_answers(struct conn *c)
{
	char text[ANSWER_MOST];
	ssize_t n = recv(c->fd, text, sizeof text, MSG_DONTWAIT);
	unsigned long long now = now_ns();

	if (n <= 0)
		fail_with_errno("a connection ended");
	for (size_t have = (size_t)n; have > 0;) {
		size_t part = have < c->left ? have : c->left;

		have -= part;
		c->left -= part;
		if (c->left > 0)
			continue;
		if (c->n-- == 0) {
			fprintf(stderr, "more bytes than answers\n");
			exit(1);
		}
		took_us[answered++] =
			(now - (start_ns + (unsigned long long)c->first * gap_ns)) / 1000;
		c->first += n_conns;
		c->left = answer_bytes;
	}
}

static int
compare_took(const void *a, const void *b)
{
	const unsigned long long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static unsigned long long
took_quantile(double q)
{
	return took_us[(long)(q * (double)(answered - 1))];
}

static void
connect_all(const char *address, int port, int poll_fd)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	struct epoll_event e = {.events = EPOLLIN};
	const int yes = 1;

	if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
		fail_with_errno(address);
	for (long i = 0; i < n_conns; i++) {
		struct conn *c = &conns[i];

		c->fd = socket(AF_INET, SOCK_STREAM, 0);
		if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0)
			fail_with_errno("connect");
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
		if (send(c->fd, request, strlen(request), 0) < 0)
			fail_with_errno("send");
		answer_bytes = c->left = answer_size(c->fd);
		e.data.ptr = c;
		epoll_ctl(poll_fd, EPOLL_CTL_ADD, c->fd, &e);
	}
}

static int
wake_each(unsigned long long ns, int poll_fd)
{
	struct itimerspec every = {{0, (long)ns}, {0, (long)ns}};
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	if (fd < 0 || timerfd_settime(fd, 0, &every, NULL) < 0 ||
		epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		fail_with_errno("timerfd");
	return fd;
}

static void
send_all(int poll_fd)
{
	struct epoll_event list[64];
	char ticks[8];
	int timer = wake_each(gap_ns, poll_fd);

	start_ns = now_ns();
	for (long sent = 0; answered < n_all;) {
		int n = epoll_wait(poll_fd, list, 64, PATIENCE_S * 1000);

		if (n <= 0) {
			fprintf(stderr, "no answer for %d s\n", PATIENCE_S);
			exit(1);
		}
		for (int i = 0; i < n; i++) {
			if (list[i].data.ptr != NULL)
				receive_answers(list[i].data.ptr);
			else if (read(timer, ticks, sizeof ticks) < 0)
				continue;
		}
		while (sent < n_all && now_ns() >= start_ns + (unsigned long long)sent * gap_ns)
			send_due(sent++);
		if (now_ns() > start_ns + ((unsigned long long)n_all * gap_ns) +
				PATIENCE_S * 1000000000ull) {
			fprintf(stderr, "%ld of %ld were answered\n", answered, n_all);
			exit(1);
		}
	}
}

int
main(int argc, char **argv)
{
	int poll_fd = epoll_create1(0);
	double rate;

	if (argc != 7 || (rate = atof(argv[4])) <= 0 || (n_conns = atol(argv[6])) < 1 ||
		n_conns > CONNECTIONS_MOST || atol(argv[5]) < 1) {
		fprintf(stderr, "openloop ADDRESS PORT HOST RATE SECONDS CONNECTIONS\n");
		return 2;
	}
	snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", argv[3]);
	gap_ns = (unsigned long long)(1e9 / rate);
	n_all = (long)(rate * (double)atol(argv[5]));
	took_us = calloc((size_t)n_all, sizeof *took_us);
	connect_all(argv[1], atoi(argv[2]), poll_fd);
	send_all(poll_fd);
	qsort(took_us, (size_t)answered, sizeof *took_us, compare_took);
	printf("%ld %llu %llu %llu %llu\n", answered, took_quantile(0.5), took_quantile(0.99),
		took_quantile(0.999), took_us[answered - 1]);
	return 0;
}
