/*
 * The real connection or datagram of edgewayctl trace, from this machine, like one of a host
 * process: the node's rules apply to it, too. The port is bound before anything is sent, so that
 * the agent can be told to watch for it.
 *
 *	if (attempt_open(&a, &ask) == 0) {
 *		... a.from_port ...
 *		attempt_run(&a, &ask);	// a.error, a.first_ms, a.said
 *	}
 *	attempt_close(&a);
 */
#ifndef EDGEWAY_SRC_CTL_CTL_ATTEMPT_H
#define EDGEWAY_SRC_CTL_CTL_ATTEMPT_H

#include <stddef.h>
#include <stdint.h>

enum attempt_kind {
	ATTEMPT_HTTP, /* a GET */
	ATTEMPT_TCP, /* a connection, and what the server sends first, if anything */
	ATTEMPT_UDP, /* a datagram, and the response */
	ATTEMPT_GRPC, /* a health check of gRPC, by HTTP/2 in clear text */
};

struct attempt_ask {
	enum attempt_kind kind;
	const char *address; /* IPv4 or IPv6 */
	uint16_t port;
	const char *host, *path; /* ATTEMPT_HTTP; host: ATTEMPT_GRPC too */
};

struct attempt {
	int fd;
	uint16_t from_port;
	double connect_ms, first_ms, total_ms; /* < 0: not reached */
	int status; /* ATTEMPT_HTTP */
	size_t bytes; /* received */
	const char *error; /* static text; NULL: none */
	const char *said; /* the result, static text; "": see status */
};

/* 0, or -errno, and a->error says why. */
int attempt_open(struct attempt *a, const struct attempt_ask *ask);
void attempt_run(struct attempt *a, const struct attempt_ask *ask);
/* At once: an open connection is reset. */
void attempt_close(struct attempt *a);

#endif
