#include "hub/ingress/tls_bridge.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/buf.h"
#include "base/core/sock.h"

enum { TURNS = 8 /* records, before other connections have their turn */ };

struct tls_bridge {
	struct loop *loop;
	struct tls_stream *tls;
	struct watch *watch;
	int plain;
	bool held; /* TLS is not to be read */
	bool left; /* nobody reads the plain side any more */
	bool over, reset; /* and then, whether the network side is to be reset */
	struct buf in, out; /* from TLS to the plain side, and back */
	bool in_ended, in_shut; /* TLS has ended; the plain side was told */
	bool out_ended, out_shut; /* the plain side has ended; TLS was told */
	void (*opened)(void *arg, const char *why, const char *sni, const char *peer);
	void (*ended)(void *arg, bool broken);
	void *arg;
};

/* Resets the network side, unless it ended cleanly. */
void
tls_bridge_free(struct tls_bridge **out)
{
	struct tls_bridge *b = take_ptr(out);
	bool reset = b != NULL && (!b->over || b->reset);

	if (b == NULL)
		return;
	watch_stop(&b->watch);
	if (reset)
		tls_stream_reset(&b->tls);
	sock_close(&b->plain, reset);
	tls_stream_free(&b->tls);
	buf_fini(&b->in);
	buf_fini(&b->out);
	free(b);
}

/* The descriptors stay open: whoever reads the plain side must not take a break for its end. */
static void
tls_bridge_finish(struct tls_bridge *b, bool reset, bool broken)
{
	b->over = true;
	b->reset = reset;
	watch_stop(&b->watch);
	tls_stream_move(b->tls, NULL);
	b->ended(b->arg, broken);
}

static void
tls_bridge_end(struct tls_bridge *b, bool broken)
{
	tls_bridge_finish(b, broken, broken);
}

/* Each of these four functions moves what it can; false: the bridge has broken. */

static bool
read_tls(struct tls_bridge *b)
{
	ssize_t n;

	if (b->in_ended || buf_len(&b->in) > 0)
		return true;
	n = tls_stream_read(b->tls, buf_reserve(&b->in, TLS_RECORD_BYTES), TLS_RECORD_BYTES);
	if (n > 0)
		buf_commit(&b->in, (size_t)n);
	else if (n == 0)
		b->in_ended = true;
	return n >= 0 || n == -EAGAIN;
}

static bool
write_plain(struct tls_bridge *b)
{
	ssize_t n = buf_len(&b->in) > 0 ? buf_write(&b->in, b->plain) : 0;

	if (n < 0 && n != -EAGAIN)
		return false;
	if (buf_len(&b->in) == 0 && b->in_ended && !b->in_shut) {
		b->in_shut = true;
		shutdown(b->plain, SHUT_WR);
	}
	return true;
}

static bool
read_plain(struct tls_bridge *b)
{
	ssize_t n;

	if (b->out_ended || buf_len(&b->out) > 0)
		return true;
	n = buf_read(&b->out, b->plain, TLS_RECORD_BYTES);
	if (n == 0)
		b->out_ended = true;
	return n >= 0 || n == -EAGAIN;
}

static bool
write_tls(struct tls_bridge *b)
{
	ssize_t n = 0;

	while (buf_len(&b->out) > 0 &&
		(n = tls_stream_write(b->tls, buf_at(&b->out), buf_len(&b->out))) > 0)
		buf_consume(&b->out, (size_t)n);
	if (n < 0 && n != -EAGAIN)
		return false;
	if (buf_len(&b->out) == 0 && b->out_ended && !b->out_shut)
		b->out_shut = tls_stream_end(b->tls) == 0;
	return true;
}

/* From TLS to the plain side: no event announces bytes inside OpenSSL. *more: there may be more of
 * them. */
static bool
move_in(struct tls_bridge *b, bool *more)
{
	unsigned turns = 0;

	do {
		if (!write_plain(b) || !read_tls(b))
			return false;
		*more = buf_len(&b->in) > 0;
		if (!write_plain(b))
			return false;
	} while (*more && buf_len(&b->in) == 0 && ++turns < TURNS);
	return true;
}

static void
tls_bridge_move(struct tls_bridge *b)
{
	unsigned interest = 0;
	bool more = false;

	if (!move_in(b, &more) || !read_plain(b) || !write_tls(b)) {
		tls_bridge_end(b, true);
		return;
	}
	if (b->out_shut && (b->in_shut || b->left)) {
		tls_bridge_end(b, false);
		return;
	}
	if (buf_len(&b->in) == 0)
		buf_release(&b->in);
	if (buf_len(&b->out) == 0)
		buf_release(&b->out);
	b->held = buf_len(&b->in) > 0 || b->in_ended;
	tls_stream_hold(b->tls, b->held);
	tls_stream_want(b->tls, buf_len(&b->out) > 0 || (b->out_ended && !b->out_shut));
	interest |= more ? WATCH_WRITE : 0;
	interest |= buf_len(&b->out) == 0 && !b->out_ended ? WATCH_READ : 0;
	watch_set(b->watch, interest != 0 ? interest : WATCH_HUP);
}

void
tls_bridge_leave(struct tls_bridge *b)
{
	b->left = true;
	if (b->over)
		return;
	tls_stream_hurry(b->tls);
	if (b->out_shut)
		tls_bridge_end(b, false);
}

static void
on_plain(void *arg, int fd, unsigned events)
{
	struct tls_bridge *b = arg;

	(void)fd;
	if (events & WATCH_HUP)
		tls_bridge_end(b, true);
	else
		tls_bridge_move(b);
}

static void
on_tls(void *arg, enum tls_event event)
{
	struct tls_bridge *b = arg;

	if (event == TLS_FAILED) {
		b->opened(b->arg, tls_stream_why(b->tls), "", "");
		/* no reset: it could overtake the alert with the reason */
		tls_bridge_finish(b, false, true);
		return;
	}
	if (event == TLS_OPEN)
		b->opened(b->arg, NULL, tls_stream_sni(b->tls), tls_stream_peer(b->tls));
	/* While held, only a break is reported. */
	if (event == TLS_READABLE && b->held)
		tls_bridge_end(b, true);
	else
		tls_bridge_move(b);
}

int
tls_bridge_new(const struct tls_bridge_setup *setup, struct tls_bridge **out, struct err *err)
{
	struct tls_bridge *b = xcalloc(1, sizeof *b);
	struct tls_setup tls = {
		.loop = setup->loop,
		.fd = setup->fd,
		.ctx = setup->ctx,
		.host = setup->host,
		.proof = setup->proof,
		.place = setup->place,
		.patient = true,
		.on = on_tls,
		.arg = b,
	};
	int rc;

	b->loop = setup->loop;
	b->opened = setup->opened;
	b->ended = setup->ended;
	b->arg = setup->arg;
	if ((rc = tls_stream_new(&tls, &b->tls, err)) < 0) {
		close(setup->plain);
		free(b);
		return rc;
	}
	b->plain = setup->plain;
	/* Until the handshake is done, only a break of the other side matters. */
	b->watch = watch_start(b->loop, b->plain, WATCH_HUP, on_plain, b);
	*out = b;
	return 0;
}
