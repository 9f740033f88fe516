#include "base/os/send_ring.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/core/log.h"

enum {
	ENTRIES = 64,
	ONE_BYTES = 4096, /* larger ones gain nothing */
	BYTES = 64 * 1024,
};

struct queued {
	send_ring_fn *fn;
	void *owner;
	struct io_uring_sqe *sqe;
	char *data;
	size_t len;
};

struct send_ring {
	struct io_uring uring;
	atomic_int error; /* of send_ring_error */
	unsigned n;
	size_t used;
	struct queued queued[ENTRIES];
	char bytes[BYTES];
};

/* By number: liburing.so 2.3 does not export its functions for these two. */
static int
ring_restrict(const struct io_uring *uring)
{
	const unsigned fd = (unsigned)uring->ring_fd;
	struct io_uring_restriction send = {
		.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_SEND};
	int rc = io_uring_register(fd, IORING_REGISTER_RESTRICTIONS, &send, 1);

	return rc < 0 ? rc : io_uring_register(fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
}

int
send_ring_new(struct send_ring **out, struct err *err)
{
	struct send_ring *r = xcalloc(1, sizeof *r);
	int rc = io_uring_queue_init(
		ENTRIES, &r->uring, IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL);

	*out = NULL;
	if (rc == 0 && (rc = ring_restrict(&r->uring)) < 0)
		io_uring_queue_exit(&r->uring);
	if (rc == 0) {
		*out = r;
		return 0;
	}
	free(r);
	if (rc == -EPERM)
		return err_set(err, rc,
			"io_uring is forbidden here, by the container's seccomp profile or by the "
			"sysctl kernel.io_uring_disabled");
	if (rc == -ENOSYS || rc == -EINVAL)
		return err_set(err, rc, "this kernel has no io_uring as of Linux 5.18");
	return err_set(err, rc, "io_uring: %s", strerror(-rc));
}

int
send_ring_error(const struct send_ring *r)
{
	return r->error;
}

bool
send_ring_takes(const struct send_ring *r, size_t len)
{
	return r != NULL && r->error == 0 && len <= ONE_BYTES;
}

void
send_ring_free(struct send_ring **out)
{
	struct send_ring *r = take_ptr(out);

	if (r == NULL)
		return;
	assert(r->n == 0);
	io_uring_queue_exit(&r->uring);
	free(r);
}

bool
send_ring_add(
	struct send_ring *r, int fd, const struct iovec *iov, int n, send_ring_fn *fn, void *owner)
{
	struct queued *q;
	size_t len = 0;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	if (!send_ring_takes(r, len))
		return false;
	if (r->n == ENTRIES || r->used + len > sizeof r->bytes)
		send_ring_submit(r);
	if (r->error != 0)
		return false;
	q = &r->queued[r->n];
	/* it has as many as there are of ours */
	*q = (struct queued){fn, owner, io_uring_get_sqe(&r->uring), r->bytes + r->used, len};
	for (int i = 0; i < n; i++) {
		memcpy(r->bytes + r->used, iov[i].iov_base, iov[i].iov_len);
		r->used += iov[i].iov_len;
	}
	io_uring_prep_send(q->sqe, fd, q->data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
	io_uring_sqe_set_data64(q->sqe, r->n++);
	return true;
}

void
send_ring_more(struct send_ring *r, const void *owner)
{
	unsigned i = r->n;

	while (i > 0 && r->queued[--i].owner != owner)
		continue;
	assert(r->queued[i].owner == owner);
	r->queued[i].sqe->msg_flags |= MSG_MORE;
}

static void
ring_tell(const struct queued *q, int sent)
{
	size_t taken = sent > 0 ? (size_t)sent : 0;

	q->fn(q->owner, q->data + taken, q->len - taken);
}

/* What the kernel has left in the ring would be sent by the next call: there is none. */
static void
ring_fail(struct send_ring *r, int error)
{
	r->error = error;
	log_error("lb",
		"the kernel refuses io_uring: a worker sends without it from now on, which costs "
		"more CPU, until the agent is restarted error=\"%s\"",
		strerror(-error));
}

/* A send that must not block has ended when the call returns. */
void
send_ring_submit(void *ring)
{
	struct send_ring *r = ring;
	unsigned n = r->n, taken;
	struct io_uring_cqe *cqe;
	int rc;

	if (n == 0)
		return;
	rc = io_uring_submit_and_wait(&r->uring, n);
	taken = rc < 0 ? 0 : MIN((unsigned)rc, n);
	if (taken < n)
		ring_fail(r, rc < 0 ? rc : -EAGAIN);
	for (unsigned i = 0; i < taken; i++) {
		do
			rc = io_uring_wait_cqe(&r->uring, &cqe);
		while (rc == -EINTR);
		assert(rc == 0);
		ring_tell(&r->queued[cqe->user_data], cqe->res);
		io_uring_cqe_seen(&r->uring, cqe);
	}
	for (unsigned i = taken; i < n; i++)
		ring_tell(&r->queued[i], 0);
	r->n = 0;
	r->used = 0;
}
