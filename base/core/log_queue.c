#include "base/core/log_queue.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "base/core/privileges.h"
#include "base/core/thread.h"

enum { FAREWELL_S = 1, STACK_BYTES = 64 * 1024 };

struct block {
	struct block *next;
	struct buf bytes;
};

struct log_queue {
	pthread_mutex_t lock;
	pthread_cond_t more, less;
	pthread_t thread;
	struct block *first, **last;
	size_t waiting; /* bytes, including those being written */
	size_t limit;
	int fd;
	bool stop;
	bool abandoned; /* the thread frees the queue when it can */
};

static void
write_all(int fd, struct buf *b)
{
	while (buf_len(b) > 0) {
		struct pollfd p = {.fd = fd, .events = POLLOUT};
		ssize_t n = buf_write(b, fd);

		if (n == -EAGAIN)
			poll(&p, 1, -1);
		else if (n < 0)
			return; /* the error cannot be reported */
	}
}

static void
log_queue_destroy(struct log_queue *l)
{
	pthread_mutex_destroy(&l->lock);
	pthread_cond_destroy(&l->more);
	pthread_cond_destroy(&l->less);
	free(l);
}

static void
write_block(struct log_queue *l, struct block *b)
{
	size_t n = buf_len(&b->bytes);

	write_all(l->fd, &b->bytes);
	buf_fini(&b->bytes);
	free(b);
	pthread_mutex_lock(&l->lock);
	l->waiting -= n;
	if (l->waiting == 0)
		pthread_cond_signal(&l->less);
}

static void *
log_queue_run(void *arg)
{
	struct log_queue *l = arg;
	bool abandoned;

	privileges_keep_thread(0);
	pthread_mutex_lock(&l->lock);
	while (l->first != NULL || !l->stop) {
		struct block *b = l->first;

		if (b == NULL) {
			pthread_cond_wait(&l->more, &l->lock);
			continue;
		}
		l->first = b->next;
		if (l->first == NULL)
			l->last = &l->first;
		pthread_mutex_unlock(&l->lock);
		write_block(l, b); /* locks again */
	}
	abandoned = l->abandoned;
	pthread_mutex_unlock(&l->lock);
	if (abandoned)
		log_queue_destroy(l);
	return NULL;
}

int
log_queue_new(struct log_queue **out, int fd, size_t limit, struct err *err)
{
	struct log_queue *l = xcalloc(1, sizeof *l);
	int rc;

	l->fd = fd;
	l->limit = limit;
	l->last = &l->first;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->more, NULL);
	pthread_cond_init(&l->less, NULL);
	rc = thread_start(&l->thread, "lines", STACK_BYTES, log_queue_run, l, err);
	if (rc < 0)
		log_queue_destroy(l);
	else
		*out = l;
	return rc;
}

bool
log_queue_put(struct log_queue *l, struct buf *bytes)
{
	size_t n = buf_len(bytes);
	struct block *b;
	bool fits;

	if (n == 0)
		return true;
	b = xcalloc(1, sizeof *b);
	b->bytes = *bytes;
	buf_init(bytes, b->bytes.limit);
	pthread_mutex_lock(&l->lock);
	fits = l->waiting + n <= l->limit;
	if (fits) {
		*l->last = b;
		l->last = &b->next;
		l->waiting += n;
		pthread_cond_signal(&l->more);
	}
	pthread_mutex_unlock(&l->lock);
	if (!fits) {
		buf_fini(&b->bytes);
		free(b);
	}
	return fits;
}

void
log_queue_free(struct log_queue **out)
{
	struct log_queue *l = take_ptr(out);
	struct timespec until;
	pthread_t thread;
	bool done;

	if (l == NULL)
		return;
	thread = l->thread;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FAREWELL_S;
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_signal(&l->more);
	while (l->waiting > 0 && pthread_cond_timedwait(&l->less, &l->lock, &until) == 0)
		;
	done = l->waiting == 0;
	l->abandoned = !done;
	pthread_mutex_unlock(&l->lock);
	if (done) {
		pthread_join(thread, NULL);
		log_queue_destroy(l);
	} else {
		pthread_detach(thread);
	}
}
