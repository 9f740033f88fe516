#include "src/ctl/ctl_attempt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/http/grpc_call.h"
#include "src/ctl/ctl_resolve.h"

enum {
	PATIENCE_MS = 10 * 1000,
	GREETING_MS = 500, /* for a server that speaks first */
	DATAGRAM_MS = 2000,
	TAKE_MOST = 16 << 20,
	TAKE_MS = 30 * 1000,
};

int
attempt_open(struct attempt *a, const struct attempt_ask *ask)
{
	bool six = strchr(ask->address, ':') != NULL;
	struct addr any = six ? addr_of(&in6addr_any, 0) : addr_ipv4(INADDR_ANY, 0);
	int type = ask->kind == ATTEMPT_UDP ? SOCK_DGRAM : SOCK_STREAM;
	auto_fd int fd = socket(any.sa.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	*a = (struct attempt){
		.fd = -1, .connect_ms = -1, .first_ms = -1, .total_ms = -1, .said = ""};
	if (fd < 0 || bind(fd, &any.sa, any.len) < 0 || getsockname(fd, &any.sa, &any.len) < 0) {
		a->error = strerror(errno);
		return -errno;
	}
	a->from_port = addr_port(&any);
	a->fd = take_fd(&fd);
	return 0;
}

static bool
attempt_wait(const struct attempt *a, short events, int ms)
{
	struct pollfd p = {.fd = a->fd, .events = events};

	return poll(&p, 1, ms) > 0;
}

static bool
attempt_connect(struct attempt *a, const struct attempt_ask *ask, double began)
{
	struct err err;
	struct addr to;
	int error;

	if (addr_parse(&to, ask->address, ask->port, &err) < 0 ||
		(connect(a->fd, &to.sa, to.len) < 0 && errno != EINPROGRESS)) {
		a->error = strerror(errno);
		return false;
	}
	if (!attempt_wait(a, POLLOUT, PATIENCE_MS)) {
		a->error = "the connection was not made within 10 s";
		return false;
	}
	if ((error = sock_error(a->fd)) != 0) {
		a->error = strerror(error);
		return false;
	}
	if (ask->kind != ATTEMPT_UDP)
		a->connect_ms = ctl_now_ms() - began;
	return true;
}

/* Leaves the first bytes in `head`; returns how many, 0: end of stream, or -1: a->error says
 * why. */
static ssize_t
attempt_first(struct attempt *a, double began, char head[64])
{
	ssize_t n = read(a->fd, head, 63);

	if (n < 0) {
		a->error = strerror(errno);
		return -1;
	}
	head[n] = '\0';
	a->bytes = (size_t)n;
	a->first_ms = a->total_ms = ctl_now_ms() - began;
	return n;
}

/* --- HTTP ----------------------------------------------------------------------------------- */

static void
attempt_receive(struct attempt *a, double began)
{
	char head[64] = "", bytes[65536];
	ssize_t n;

	while (a->bytes < TAKE_MOST && ctl_now_ms() - began < TAKE_MS) {
		if (!attempt_wait(a, POLLIN, PATIENCE_MS)) {
			a->error = "silence for 10 s";
			return;
		}
		n = read(a->fd, bytes, sizeof bytes);
		if (n < 0) {
			a->error = strerror(errno);
			return;
		}
		if (n == 0)
			break;
		if (a->bytes == 0) {
			a->first_ms = ctl_now_ms() - began;
			snprintf(head, sizeof head, "%.*s", (int)MIN(n, (ssize_t)sizeof head - 1),
				bytes);
		}
		a->bytes += (size_t)n;
	}
	a->total_ms = ctl_now_ms() - began;
	if (sscanf(head, "HTTP/1.%*d %d", &a->status) != 1)
		a->error = a->bytes == 0 ? "the connection was closed without an answer"
					 : "no HTTP/1 came back";
}

static void
attempt_http(struct attempt *a, const struct attempt_ask *ask, double began)
{
	bool six = strchr(ask->host, ':') != NULL;
	auto_free char *request = xasprintf("GET %s HTTP/1.1\r\nHost: %s%s%s\r\nUser-Agent: "
					    "edgewayctl-trace\r\nConnection: close\r\n\r\n",
		ask->path, six ? "[" : "", ask->host, six ? "]" : "");

	if (write(a->fd, request, strlen(request)) != (ssize_t)strlen(request))
		a->error = "the request was not taken";
	else
		attempt_receive(a, began);
}

/* --- TCP, gRPC, UDP ------------------------------------------------------------------------- */

/* The agent accepts a connection before it has an endpoint for it; without an endpoint it closes
 * it. */
static void
attempt_tcp(struct attempt *a, double began)
{
	char head[64];
	ssize_t n;

	if (!attempt_wait(a, POLLIN, GREETING_MS)) {
		a->said = "the connection is open; the server waits for the client to speak first";
		return;
	}
	n = attempt_first(a, began, head);
	if (n == 0)
		a->error = "the connection was closed without a byte";
	else if (n > 0)
		a->said = "the connection is open; the server speaks first";
}

static bool
attempt_send_call(struct attempt *a, struct grpc_call *call)
{
	auto_buf struct buf out = {.limit = BUF_UNLIMITED};

	grpc_call_output(call, &out);
	return write(a->fd, buf_at(&out), buf_len(&out)) == (ssize_t)buf_len(&out);
}

static void
attempt_tell_call(struct attempt *a, const struct grpc_result *r)
{
	if (r->http != 200 || r->status < 0)
		a->error = "the server speaks HTTP/2, but its answer to a health check is none of "
			   "gRPC";
	else if (r->status == GRPC_UNAVAILABLE)
		a->error = "a health check was answered UNAVAILABLE: no endpoint, or none that "
			   "answers";
	else if (r->status == GRPC_PERMISSION_DENIED)
		a->error = "a health check was answered PERMISSION_DENIED: who may call?";
	else if (r->status == GRPC_UNIMPLEMENTED)
		a->said = "a server of gRPC answered (it has no health service)";
	else if (r->status != GRPC_OK)
		a->said = "a server of gRPC answered, with an error of its health service";
	else
		a->said = r->serving ? "a server of gRPC answered: SERVING"
				     : "a server of gRPC answered: it does not serve now";
}

/* A call, and not only the preface of HTTP/2, which the agent answers by itself. */
static void
attempt_grpc(struct attempt *a, const struct attempt_ask *ask, double began)
{
	auto_free char *authority = xasprintf("%s:%u", ask->host, ask->port);
	struct grpc_call *call = grpc_call_new(authority, "", 1);
	char bytes[16384];
	int rc = 0;

	if (!attempt_send_call(a, call))
		a->error = "the call was not taken";
	while (rc == 0 && a->error == NULL) {
		ssize_t n;

		if (!attempt_wait(a, POLLIN, PATIENCE_MS)) {
			a->error = "no answer to a health check within 10 s";
			break;
		}
		n = read(a->fd, bytes, sizeof bytes);
		if (a->bytes == 0 && n > 0)
			a->first_ms = ctl_now_ms() - began;
		if (n <= 0)
			a->error = n < 0 ? strerror(errno)
					 : "the connection was closed without an answer";
		else if (a->bytes == 0 && bytes[0] != 0)
			a->error = strncmp(bytes, "HTTP/1.", 7) == 0
				? "the answer is HTTP/1: this port does not speak HTTP/2 in clear "
				  "text"
				: "the answer is no HTTP/2 (perhaps TLS is wanted)";
		if (a->error != NULL)
			break;
		a->bytes += (size_t)n;
		rc = grpc_call_input(call, bytes, (size_t)n, 1);
		if (rc < 0)
			a->error = "the answer is no HTTP/2 (perhaps TLS is wanted)";
		else if (rc == 0 && !attempt_send_call(a, call))
			a->error = "the call was not taken";
	}
	a->total_ms = ctl_now_ms() - began;
	if (rc == 1)
		attempt_tell_call(a, grpc_call_result(call));
	grpc_call_free(&call);
}

static void
attempt_udp(struct attempt *a, double began)
{
	static const char datagram[] = "edgewayctl-trace\n";
	char head[64];

	if (send(a->fd, datagram, sizeof datagram - 1, 0) < 0) {
		a->error = strerror(errno);
		return;
	}
	if (!attempt_wait(a, POLLIN, DATAGRAM_MS))
		a->said = "no answer within 2 s, as of most servers to a datagram that they do not "
			  "understand";
	else if (attempt_first(a, began, head) >= 0)
		a->said = "an answer came";
}

void
attempt_run(struct attempt *a, const struct attempt_ask *ask)
{
	double began = ctl_now_ms();

	if (!attempt_connect(a, ask, began))
		return;
	switch (ask->kind) {
	case ATTEMPT_HTTP:
		attempt_http(a, ask, began);
		break;
	case ATTEMPT_TCP:
		attempt_tcp(a, began);
		break;
	case ATTEMPT_UDP:
		attempt_udp(a, began);
		break;
	case ATTEMPT_GRPC:
		attempt_grpc(a, ask, began);
		break;
	}
}

void
attempt_close(struct attempt *a)
{
	sock_close(&a->fd, true);
}
