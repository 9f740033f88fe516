#include "lb/proxy/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

enum { FLAGS = SPLICE_F_NONBLOCK | SPLICE_F_MOVE };

static bool
splice_ready(struct worker *w)
{
	if (w->pipe[0] >= 0)
		return true;
	if (w->no_splice || pipe2(w->pipe, O_NONBLOCK | O_CLOEXEC) < 0)
		return false;
	/* If that is not allowed, the pipe and the steps stay smaller. */
	(void)fcntl(w->pipe[1], F_SETPIPE_SZ, SPLICE_BYTES);
	return true;
}

void
splice_fini(struct worker *w)
{
	if (w->pipe[0] < 0)
		return;
	close(take_fd(&w->pipe[0]));
	close(take_fd(&w->pipe[1]));
}

/* What is in the pipe is lost with it. */
static ssize_t
splice_broken(struct worker *w, struct peer *to, int error)
{
	splice_fini(w);
	to->broken = true;
	return -error;
}

static ssize_t
keep_rest(struct worker *w, struct peer *to, size_t left)
{
	while (left > 0) {
		ssize_t n = read(w->pipe[0], w->scratch, MIN(left, sizeof w->scratch));
		int rc;

		if (n <= 0)
			return splice_broken(w, to, EIO);
		rc = peer_send_bytes(to, w->scratch, (size_t)n);
		if (rc < 0)
			return splice_broken(w, to, -rc);
		left -= (size_t)n;
	}
	return 0;
}

static ssize_t
splice_fill(struct worker *w, const struct peer *from, size_t most)
{
	ssize_t n = splice(from->fd, NULL, w->pipe[1], NULL, most, FLAGS);

	if (n > 0)
		return n;
	if (n < 0 && errno == EINVAL)
		w->no_splice = true;
	if (n == 0 || errno == EINVAL)
		return -ENOSYS;
	return errno == EINTR ? -EAGAIN : -errno;
}

ssize_t
splice_move(struct worker *w, struct peer *from, struct peer *to, size_t most)
{
	ssize_t n, sent, rc;
	size_t left;

	if (from->tls != NULL || to->tls != NULL || !peer_is_flushed(to) || !splice_ready(w))
		return -ENOSYS;
	n = splice_fill(w, from, most);
	if (n < 0)
		return n;
	for (left = (size_t)n; left > 0; left -= (size_t)sent) {
		sent = splice(w->pipe[0], NULL, to->fd, NULL, left, FLAGS);
		if (sent > 0)
			continue;
		if (sent == 0 || (errno != EAGAIN && errno != EINTR))
			return splice_broken(w, to, sent == 0 ? EIO : errno);
		rc = keep_rest(w, to, left);
		return rc < 0 ? rc : n;
	}
	return n;
}

uint32_t
splice_first(ssize_t n, size_t most)
{
	return (size_t)n >= MIN(most, (size_t)SCRATCH_BYTES / 4) ? SCRATCH_BYTES : 0;
}

uint32_t
splice_next(uint32_t step, ssize_t n, const struct peer *to)
{
	if (n < SCRATCH_BYTES / 4)
		return 0;
	return buf_len(&to->out) > 0 ? SCRATCH_BYTES : MIN(2 * step, (uint32_t)SPLICE_BYTES);
}
