#include "lb/proxy/h2_link.h"

#include <errno.h>

enum { LINK_WRITE_BYTES = 64 * 1024 }; /* frames built for one write */

void
h2_link_open(struct h2_link *l, struct worker *w, struct peer *peer, const struct h2_setup *setup,
	void (*flushed)(struct h2_link *, bool))
{
	list_init(&l->touched);
	l->worker = w;
	l->peer = peer;
	l->h2 = h2_new(setup, w->now_ms);
	l->flushed = flushed;
	h2_link_touch(l);
}

void
h2_link_close(struct h2_link *l)
{
	list_del(&l->touched);
	h2_free(&l->h2);
}

void
h2_link_touch(struct h2_link *l)
{
	struct worker *w = l->worker;

	if (!list_empty(&l->touched))
		return;
	if (list_empty(&w->h2_touched))
		timer_start(w->h2_kick, 0, 0);
	list_add_before(&w->h2_touched, &l->touched);
}

int
h2_link_input(struct h2_link *l, const char *bytes, size_t n)
{
	h2_link_touch(l);
	return h2_input(l->h2, bytes, n, l->worker->now_ms);
}

int
h2_link_read(struct h2_link *l, unsigned events)
{
	struct worker *w = l->worker;
	ssize_t n;
	int rc;

	for (int round = 0; round < READ_ROUNDS || events & WATCH_HUP; round++) {
		n = peer_read(l->peer, w->scratch, sizeof w->scratch);
		if (n == -EAGAIN)
			return events & WATCH_HUP ? -ECONNRESET : 0;
		if (n <= 0)
			return n < 0 ? (int)n : -ECONNRESET;
		rc = h2_link_input(l, w->scratch, (size_t)n);
		if (rc < 0 || ((size_t)n < sizeof w->scratch && !(events & WATCH_HUP)))
			return rc;
	}
	return 0;
}

int
h2_link_writable(struct h2_link *l)
{
	h2_link_touch(l);
	return peer_flush(l->peer);
}

/* A connection whose socket takes nothing waits for WATCH_WRITE; its streams wait with it. */
static void
link_flush(struct h2_link *l)
{
	struct worker *w = l->worker;
	bool more = true;

	while (more && buf_len(&l->peer->out) == 0 && !l->peer->broken) {
		more = h2_output(l->h2, &w->h2_out, LINK_WRITE_BYTES);
		if (buf_len(&w->h2_out) == 0)
			break;
		(void)peer_send_bytes(l->peer, buf_at(&w->h2_out), buf_len(&w->h2_out));
		buf_consume(&w->h2_out, buf_len(&w->h2_out));
	}
	l->flushed(l, l->peer->broken || (buf_len(&l->peer->out) == 0 && h2_is_over(l->h2)));
}

void
h2_links_flush(void *worker)
{
	struct worker *w = worker;

	worker_enter(w);
	while (!list_empty(&w->h2_touched)) {
		struct h2_link *l = container_of(w->h2_touched.next, struct h2_link, touched);

		list_del(&l->touched);
		link_flush(l);
	}
	worker_leave(w);
}
