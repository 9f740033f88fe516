#include "src/ctl_ask.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/sock.h"

enum { PATIENCE_S = 10 };

static int
fail(const char *what, const char *why)
{
	fprintf(stderr, "edgewayctl: %s: %s\n", what, why);
	return 1;
}

static int
open_socket(const char *path, int *out)
{
	auto_free char *text = xasprintf("unix:%s", path);
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct addr addr;
	struct err err = {0};

	if (addr_parse(&addr, text, 0, &err) < 0)
		return fail("--socket", err.text);
	if (fd < 0)
		return fail("socket", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (connect(fd, &addr.sa, addr.len) < 0) {
		auto_free char *what = xasprintf("cannot reach the daemon at %s", path);

		if (errno == EACCES)
			return fail(
				what, "permission denied; run it as root or as the daemon's user");
		return fail(what,
			errno == ENOENT || errno == ECONNREFUSED
				? "it does not run, or has another admin.socket (--socket)"
				: strerror(errno));
	}
	*out = take_fd(&fd);
	return 0;
}

static int
exchange(int fd, struct buf *request, struct buf *answer)
{
	ssize_t n;

	while (buf_len(request) > 0) {
		if ((n = buf_write(request, fd)) < 0)
			return fail("the daemon does not listen", strerror((int)-n));
	}
	while ((n = buf_read(answer, fd, 65536)) > 0)
		;
	if (n < 0)
		return fail("no whole answer from the daemon",
			n == -EAGAIN ? "it is silent" : strerror((int)-n));
	return 0;
}

/* Leaves the body in `answer`; the exit status says whether it is a good one. */
static int
split(struct buf *answer)
{
	const char *text = buf_str(answer);
	const char *body = strstr(text, "\r\n\r\n");
	int status = 0;

	if (body == NULL || sscanf(text, "HTTP/1.%*d %d", &status) != 1)
		return fail(
			"bad answer", "not HTTP; is this the admin socket of an Edgeway daemon?");
	buf_consume(answer, (size_t)(body + 4 - text));
	if (status / 100 == 2)
		return 0;
	fprintf(stderr, "edgewayctl: %s",
		status == 404 ? "this daemon does not know the command (agent or hub?): " : "");
	fprintf(stderr, "%s", buf_str(answer));
	return 1;
}

int
ctl_ask(const char *socket_path, const char *method, const char *target, struct buf *answer)
{
	auto_buf struct buf request;
	auto_fd int fd = -1;

	buf_consume(answer, buf_len(answer));
	buf_init(&request, BUF_UNLIMITED);
	buf_printf(&request,
		"%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "
		"0\r\n\r\n",
		method, target);
	if (open_socket(socket_path, &fd) != 0 || exchange(fd, &request, answer) != 0)
		return 1;
	return split(answer);
}
