/*
 * A handshake belongs to its worker from on_start to its end, on_news or on_release; after on_news
 * the owner has it. The loops' posts, which keep their order, are all that the two exchange.
 *
 *	owner    new ------------------------> on_news: done()
 *	worker        on_start, steps, end ----^
 *
 *	owner    free ---------------> (on_news: frees the stream) ---> on_gone
 *	worker          (end of it)              on_release ------------^
 */
#include "base/tls/tls_handshake.h"

#include <stdio.h>
#include <unistd.h>

struct tls_handshake {
	struct loop *loop;
	struct tls_worker *worker; /* NULL: the owner's loop does it */
	tls_handshake_fn *done;
	void *arg;
	struct addr from;
	const char *const *offers;
	enum tls_proof proof;
	bool resumes;
	bool released; /* the owner's */
	struct preauth_conn *owners; /* the owner's `place`; NULL: none any more */
	/* the worker's until on_news */
	int fd; /* until the handshake begins */
	struct ssl_ctx_st *ctx;
	char *alpn;
	struct preauth_conn place;
	struct tls_stream *stream;
	bool over;
	char why[256];
};

static void
handshake_destroy(struct tls_handshake *h)
{
	tls_stream_free(&h->stream);
	pki_ctx_free(&h->ctx);
	if (h->fd >= 0)
		close(h->fd);
	free(h->alpn);
	free(h);
}

/* --- on the owner's loop -------------------------------------------------------------------- */

static void
handshake_leave_place(struct tls_handshake *h)
{
	struct preauth_conn *owners = take_ptr(&h->owners);

	if (owners != NULL)
		owners->branch = NULL;
}

static void
handshake_on_news(void *arg)
{
	struct tls_handshake *h = arg;
	struct tls_stream *stream = take_ptr(&h->stream);

	if (h->released) {
		tls_stream_free(&stream);
		if (h->worker == NULL)
			handshake_destroy(h);
		return; /* else on_gone comes */
	}
	handshake_leave_place(h);
	if (stream != NULL && h->worker != NULL)
		tls_stream_move(stream, h->loop);
	h->done(h->arg, stream, h->why);
	handshake_destroy(h);
}

static void
handshake_on_gone(void *arg)
{
	handshake_destroy(arg);
}

/* Without workers. */
static void
handshake_on_own_tls(void *arg, enum tls_event event)
{
	struct tls_handshake *h = arg;

	if (event != TLS_OPEN) {
		snprintf(h->why, sizeof h->why, "%s", tls_stream_why(h->stream));
		tls_stream_free(&h->stream);
	}
	handshake_on_news(h);
}

static struct tls_setup
handshake_tls(const struct tls_handshake *h, struct loop *loop, tls_event_fn *on)
{
	return (struct tls_setup){.loop = loop,
		.ctx = h->ctx,
		.alpn = h->alpn,
		.offers = h->offers,
		.proof = h->proof,
		.resumes = h->resumes,
		.on = on,
		.arg = (void *)(uintptr_t)h};
}

static void
handshake_begin_here(struct tls_handshake *h, struct preauth_conn *place)
{
	struct tls_setup setup = handshake_tls(h, h->loop, handshake_on_own_tls);
	struct err err = {0};

	setup.place = place;
	setup.fd = take_fd(&h->fd);
	if (tls_stream_new(&setup, &h->stream, &err) == 0)
		return;
	snprintf(h->why, sizeof h->why, "%.255s", err.text);
	loop_post(h->loop, handshake_on_news, h);
}

/* --- on the worker's loop ------------------------------------------------------------------- */

static void
handshake_end(struct tls_handshake *h, enum tls_worker_result result)
{
	h->over = true;
	preauth_leave(&h->place);
	atomic_store(&h->place.waits_for_us, true);
	tls_worker_ended(h->worker, result);
}

static void
handshake_tell(struct tls_handshake *h, const char *why)
{
	if (why != NULL)
		snprintf(h->why, sizeof h->why, "%s", why);
	handshake_end(h, why != NULL ? TLS_WORKER_FAILED : TLS_WORKER_DONE);
	if (why != NULL)
		tls_stream_free(&h->stream);
	else
		tls_stream_move(h->stream, NULL);
	loop_post(h->loop, handshake_on_news, h);
}

static void
handshake_on_tls(void *arg, enum tls_event event)
{
	struct tls_handshake *h = arg;

	handshake_tell(h, event == TLS_OPEN ? NULL : tls_stream_why(h->stream));
}

static void
handshake_on_dropped(void *arg)
{
	handshake_tell(arg, "its place was needed: too many handshakes are under way");
}

static void
handshake_on_start(void *arg)
{
	struct tls_handshake *h = arg;
	struct tls_setup setup = handshake_tls(h, tls_worker_loop(h->worker), handshake_on_tls);
	struct err err = {0};

	if (!preauth_enter(
		    tls_worker_preauth(h->worker), &h->place, &h->from, loop_now_ms(setup.loop))) {
		handshake_tell(h, "too many handshakes are under way");
		return;
	}
	setup.place = &h->place;
	setup.fd = take_fd(&h->fd);
	if (tls_stream_new(&setup, &h->stream, &err) < 0)
		handshake_tell(h, err.text);
}

static void
handshake_on_release(void *arg)
{
	struct tls_handshake *h = arg;

	if (!h->over) {
		handshake_end(h, TLS_WORKER_GIVEN_UP);
		tls_stream_free(&h->stream);
	}
	loop_post(h->loop, handshake_on_gone, h);
}

/* --- handshakes ----------------------------------------------------------------------------- */

struct tls_handshake *
tls_handshake_new(const struct tls_handshake_setup *setup)
{
	struct tls_handshake *h = xcalloc(1, sizeof *h);

	h->loop = setup->loop;
	h->done = setup->done;
	h->arg = setup->arg;
	h->from = *setup->from;
	h->offers = setup->offers;
	h->proof = setup->proof;
	h->resumes = setup->resumes;
	h->fd = setup->fd;
	h->ctx = setup->ctx;
	pki_ctx_ref(h->ctx);
	h->alpn = setup->alpn != NULL ? xstrdup(setup->alpn) : NULL;
	if (setup->workers == NULL) {
		handshake_begin_here(h, setup->place);
		return h;
	}
	h->place =
		(struct preauth_conn){.drop = handshake_on_dropped, .arg = h, .waits_for_us = true};
	h->owners = setup->place;
	if (h->owners != NULL)
		h->owners->branch = &h->place;
	h->worker = tls_workers_next(setup->workers);
	tls_worker_begun(h->worker);
	loop_post(tls_worker_loop(h->worker), handshake_on_start, h);
	return h;
}

void
tls_handshake_free(struct tls_handshake **out)
{
	struct tls_handshake *h = take_ptr(out);

	if (h == NULL)
		return;
	handshake_leave_place(h);
	if (h->worker == NULL && h->stream != NULL) {
		handshake_destroy(h);
		return;
	}
	h->released = true;
	if (h->worker != NULL)
		loop_post(tls_worker_loop(h->worker), handshake_on_release, h);
}
