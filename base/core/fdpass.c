#include "base/core/fdpass.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(FDPASS_MOST * sizeof(int))];
};

int
fdpass_send(int sock, const char *text, size_t len, const int *fds, size_t n)
{
	union control control = {0};
	struct iovec piece = {.iov_base = (void *)(uintptr_t)text, .iov_len = len};
	struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
	ssize_t sent;

	assert(n <= FDPASS_MOST && len > 0);
	if (n > 0) {
		m.msg_control = control.room;
		m.msg_controllen = CMSG_SPACE(n * sizeof *fds);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(n * sizeof *fds);
		memcpy(CMSG_DATA(&control.head), fds, n * sizeof *fds);
	}
	do
		sent = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	return (size_t)sent == len ? 0 : -EMSGSIZE;
}

static void
fdpass_take(struct fdpass *to, const struct cmsghdr *head)
{
	size_t n = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
		if (to->n < FDPASS_MOST)
			to->at[to->n++] = fd;
		else
			close(fd);
	}
}

ssize_t
fdpass_receive(int sock, char *text, size_t size, struct fdpass *fds)
{
	union control control;
	struct iovec piece = {.iov_base = text, .iov_len = size};
	struct msghdr m = {.msg_iov = &piece,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof control.room};
	ssize_t n;

	fds->n = 0;
	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h != NULL; h = CMSG_NXTHDR(&m, h))
		if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
			fdpass_take(fds, h);
	if (m.msg_flags & MSG_CTRUNC) {
		fdpass_close(fds);
		return -EBADMSG;
	}
	return n;
}

void
fdpass_close(struct fdpass *fds)
{
	for (size_t i = 0; i < fds->n; i++)
		if (fds->at[i] >= 0)
			close(fds->at[i]);
	fds->n = 0;
}
