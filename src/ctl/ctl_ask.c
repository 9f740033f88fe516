#include "src/ctl/ctl_ask.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/core/sock.h"
#include "base/http/http1.h"

enum { PATIENCE_S = 10 }; /* longer than HUB_ASK_MS of hub/hub_ask.c */

static int
open_socket(const char *path, int *out, struct err *err)
{
	auto_free char *text = xasprintf("unix:%s", path);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct addr addr;

	if (addr_parse(&addr, text, 0, err) < 0)
		return err_wrap(err, err->code, "--socket");
	if (fd < 0)
		return err_set(err, errno, "socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (connect(fd, &addr.sa, addr.len) < 0) {
		const char *why = strerror(errno);

		if (errno == EACCES)
			why = "permission denied; run it as root or as the daemon's user";
		else if (errno == ENOENT || errno == ECONNREFUSED)
			why = "it does not run, or has another admin.socket (--socket)";
		return err_set(err, errno, "cannot reach the daemon at %s: %s", path, why);
	}
	*out = take_fd(&fd);
	return 0;
}

static int
ctl_ask_exchange(int fd, struct buf *request, struct buf *answer, struct err *err)
{
	ssize_t n;

	while (buf_len(request) > 0) {
		if ((n = buf_write(request, fd)) < 0)
			return err_set(
				err, (int)n, "the daemon does not listen: %s", strerror((int)-n));
	}
	while ((n = buf_read(answer, fd, 65536)) > 0)
		;
	if (n < 0)
		return err_set(err, (int)n, "no whole answer from the daemon: %s",
			n == -EAGAIN ? "it is silent" : strerror((int)-n));
	return 0;
}

/* Leaves the body of this head in `answer`, without its framing. */
static int
ctl_ask_body(struct buf *answer, const struct http1_head *head, size_t from, struct err *err)
{
	struct http1_str rest = {buf_at(answer) + from, buf_len(answer) - from}, piece = {0};
	const bool is_node = head->framing == HTTP1_CHUNKED; /* hub/hub_ask.c */
	enum http1_got got = HTTP1_DATA;
	struct http1_body body;
	struct buf plain;

	http1_body_init(&body, (enum http1_framing)head->framing, head->length);
	buf_init(&plain, BUF_UNLIMITED);
	while (got == HTTP1_DATA) {
		size_t used = 0;

		got = http1_body_pass(&body, rest, &used, &piece, false, &plain);
		rest = (struct http1_str){rest.at + used, rest.len - used};
	}
	buf_fini(answer);
	*answer = plain;
	if (http1_body_done(&body) || head->framing == HTTP1_UNTIL_CLOSE)
		return 0;
	return err_set(err, EPROTO, "no whole answer from %s",
		is_node ? "the node: its tunnel broke, or its agent has broken off or is too slow"
			: "the daemon: it has ended the connection; its log says whether it has "
			  "stopped or has too many connections");
}

/* Leaves the body in `answer`. A daemon that dies, or has too many connections, ends this one
 * within its answer. */
static int
ctl_ask_split(struct buf *answer, struct err *err)
{
	static const char begin[] = "HTTP/1.";
	const char *text = buf_str(answer);
	const size_t len = buf_len(answer);
	struct http1_head head = {.framing = HTTP1_LENGTH, .length = 1}; /* none: it is missing */
	size_t from = 0;
	ssize_t n = http1_find_end(text, len, &from);
	int rc;

	if (strncmp(text, begin, MIN(len, strlen(begin))) != 0 || n < 0 ||
		(n > 0 && http1_parse_response(&head, text, (size_t)n, false) != 0))
		return err_set(err, EPROTO,
			"bad answer: not HTTP; is this the admin socket of an Edgeway daemon?");
	if ((rc = ctl_ask_body(answer, &head, n > 0 ? (size_t)n : len, err)) < 0)
		return rc;
	if (head.status / 100 == 2)
		return 0;
	text = buf_str(answer);
	return err_set(err, EREMOTEIO, "%s%.*s",
		head.status == 404 ? "this daemon does not know the command (agent or hub?): " : "",
		(int)strcspn(text, "\n"), text);
}

int
ctl_ask(const char *socket_path, const char *method, const char *target, struct buf *answer,
	struct err *err)
{
	auto_buf struct buf request;
	auto_fd int fd = -1;
	int rc;

	buf_consume(answer, buf_len(answer));
	buf_init(&request, BUF_UNLIMITED);
	buf_printf(&request,
		"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "
		"0\r\n\r\n",
		method, target);
	if ((rc = open_socket(socket_path, &fd, err)) < 0 ||
		(rc = ctl_ask_exchange(fd, &request, answer, err)) < 0)
		return rc;
	return ctl_ask_split(answer, err);
}
