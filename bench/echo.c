/*
 * The lower bound for any DNS server in user space: receives packets with recvmmsg, sets the QR
 * bit, sends them back with sendmmsg. No parsing, no answer: a yardstick for bench/bench_dns, not
 * for use. One process per worker, all on one port.
 *
 *	bench/echo 172.17.0.1:5304 2
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/sock.h"

enum { BATCH = 32, BYTES = 1472 };

static void
echo(int fd)
{
	static uint8_t bytes[BATCH][BYTES];
	struct sockaddr_in from[BATCH];
	struct mmsghdr m[BATCH] = {0};
	struct iovec vec[BATCH];

	for (unsigned i = 0; i < BATCH; i++) {
		m[i].msg_hdr.msg_name = &from[i];
		m[i].msg_hdr.msg_iov = &vec[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	for (;;) {
		int n;

		for (unsigned i = 0; i < BATCH; i++) {
			vec[i] = (struct iovec){bytes[i], BYTES};
			m[i].msg_hdr.msg_namelen = sizeof from[i];
		}
		n = recvmmsg(fd, m, BATCH, MSG_WAITFORONE, NULL);
		for (int i = 0; i < n; i++) {
			vec[i].iov_len = m[i].msg_len;
			bytes[i][2] |= 0x80;
		}
		for (int sent = 0, rc; sent < n; sent += rc) {
			rc = sendmmsg(fd, m + sent, (unsigned)(n - sent), 0);
			if (rc <= 0)
				rc = 1;
		}
	}
}

int
main(int argc, char **argv)
{
	unsigned workers = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	struct err err = {0};
	struct addr at;

	if (workers == 0 || addr_parse(&at, argv[1], 0, &err) < 0) {
		fprintf(stderr, "usage: echo LISTEN:PORT WORKERS %s\n", err.text);
		return 2;
	}
	for (unsigned i = 0; i < workers; i++) {
		int fd;

		if (sock_udp(&at, SOCK_REUSEPORT, &fd, &err) < 0) {
			fprintf(stderr, "echo: %s\n", err.text);
			return 1;
		}
		fcntl(fd, F_SETFL, 0);
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			echo(fd);
		}
		close(fd);
	}
	while (wait(NULL) > 0)
		;
	return 0;
}
