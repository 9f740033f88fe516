/*
 * The lower bound for any user-space proxy: accepts, dials one fixed address, and copies bytes in
 * both directions with read, write and epoll, in each of so many processes of one thread. No
 * parsing, no limits, no timeouts: a yardstick for bench/bench_http, not for use.
 *
 *	bench/floor 172.17.0.1:40013 192.0.2.9:8080 [PROCESSES]
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/core/sock.h"

struct side {
	int fd;
	struct side *other;
	bool gone;
};

static void
floor_watch(int epoll, int fd, void *who)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = who};

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev);
}

static void
floor_pair(int epoll, int client, const struct addr *target)
{
	struct side *s = xcalloc(2, sizeof *s);
	int upstream = socket(AF_INET, SOCK_STREAM, 0);

	if (upstream < 0 || connect(upstream, &target->sa, target->len) < 0) {
		close(client);
		if (upstream >= 0)
			close(upstream);
		free(s);
		return;
	}
	sock_nodelay(client);
	sock_nodelay(upstream);
	s[0] = (struct side){.fd = client, .other = &s[1]};
	s[1] = (struct side){.fd = upstream, .other = &s[0]};
	floor_watch(epoll, client, &s[0]);
	floor_watch(epoll, upstream, &s[1]);
}

static void
floor_copy(struct side *s)
{
	char bytes[16384];
	ssize_t n;

	if (s->gone)
		return;
	n = read(s->fd, bytes, sizeof bytes);
	if (n > 0 && write(s->other->fd, bytes, (size_t)n) == n)
		return;
	s->gone = s->other->gone = true; /* the few bytes are leaked until the process ends */
	close(s->fd);
	close(s->other->fd);
}

int
main(int argc, char **argv)
{
	struct addr at, target;
	struct err err = {0};
	struct epoll_event ev[64];
	int listener, epoll, processes = argc == 4 ? atoi(argv[3]) : 1;

	for (; processes > 1; processes--) {
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL); /* the bench kills the first alone */
			break;
		}
	}
	epoll = epoll_create1(0);
	if (argc < 3 || argc > 4 || addr_parse(&at, argv[1], 0, &err) < 0 ||
		addr_parse(&target, argv[2], 0, &err) < 0 ||
		sock_listen(&at, SOCK_REUSEPORT, &listener, &err) < 0) {
		fprintf(stderr, "usage: floor LISTEN:PORT TARGET:PORT [PROCESSES] %s\n", err.text);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	floor_watch(epoll, listener, NULL);
	for (;;) {
		int n = epoll_wait(epoll, ev, 64, -1);

		for (int i = 0; i < n; i++) {
			if (ev[i].data.ptr == NULL)
				floor_pair(epoll, accept(listener, NULL, NULL), &target);
			else
				floor_copy(ev[i].data.ptr);
		}
	}
}
