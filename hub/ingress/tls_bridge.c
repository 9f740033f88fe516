#include "hub/ingress/tls_bridge.h"

#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/buf.h"
#include "base/core/sock.h"

enum {
	TURNS = 8, /* records, before other connections have their turn */
	UNREAD_MS = 20, /* between two looks whether the plain side has been read */
};

struct tls_bridge {
	struct loop *loop;
	struct tls_stream *tls;
	struct watch *watch;
	int plain;
	bool held; /* TLS is not to be read */
	bool left; /* nobody reads the plain side any more */
	bool cut; /* what came from the plain side is not all */
	bool over, reset; /* and then, whether the network side is to be reset */
	struct buf in, out; /* from TLS to the plain side, and back */
	bool in_ended, in_shut; /* TLS has ended; the plain side was told */
	bool in_cut; /* it has ended without close_notify */
	struct timer *unread; /* since then: see tls_bridge_await_reader */
	bool out_ended, out_shut; /* the plain side has ended; TLS was told */
	void (*opened)(void *arg, const char *why, const char *sni, const char *peer);
	void (*ended)(void *arg, enum tls_bridge_end end);
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
	timer_free(&b->unread);
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
tls_bridge_finish(struct tls_bridge *b, bool reset, enum tls_bridge_end end)
{
	b->over = true;
	b->reset = reset;
	watch_stop(&b->watch);
	timer_free(&b->unread);
	tls_stream_move(b->tls, NULL);
	b->ended(b->arg, end);
}

static void
tls_bridge_end(struct tls_bridge *b, bool broken)
{
	tls_bridge_finish(b, broken, broken ? TLS_BRIDGE_BROKEN : TLS_BRIDGE_WHOLE);
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
	else if (n == 0 || n == -ENODATA)
		b->in_ended = true;
	b->in_cut = n == -ENODATA;
	return n >= 0 || n == -EAGAIN || b->in_cut;
}

static bool
write_plain(struct tls_bridge *b)
{
	ssize_t n = buf_len(&b->in) > 0 ? buf_write(&b->in, b->plain) : 0;

	if (n < 0 && n != -EAGAIN)
		return false;
	if (buf_len(&b->in) == 0 && b->in_ended && !b->in_shut && !b->in_cut) {
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
		b->out_shut = b->cut || tls_stream_end(b->tls) == 0;
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

static void tls_bridge_await_reader(struct tls_bridge *b);

static void
on_unread(void *arg)
{
	tls_bridge_await_reader(arg);
}

/* One side is cut off, and all that came from there is written to the other one. The reset that
 * follows would destroy what has not been read yet, of which no event tells. */
static void
tls_bridge_await_reader(struct tls_bridge *b)
{
	int unread = 0;

	if (ioctl(b->cut ? tls_stream_fd(b->tls) : b->plain, SIOCOUTQ, &unread) < 0 ||
		unread == 0) {
		tls_bridge_finish(b, true, b->cut ? TLS_BRIDGE_WHOLE : TLS_BRIDGE_CUT);
		return;
	}
	if (b->unread == NULL)
		b->unread = timer_new(b->loop, on_unread, b);
	timer_start(b->unread, UNREAD_MS, 0);
	b->held = true;
	if (b->cut) {
		tls_stream_hold(b->tls, true);
		tls_stream_want(b->tls, false);
	} else { /* a target that has said all may reset the connection behind it */
		tls_stream_move(b->tls, NULL);
	}
	if (b->watch != NULL)
		watch_set(b->watch, WATCH_HUP);
}

static bool
tls_bridge_move_all(struct tls_bridge *b, bool *more)
{
	if (!b->cut && !move_in(b, more))
		return false;
	if (!b->cut && !b->in_cut && !read_plain(b))
		return false;
	return b->in_cut || write_tls(b);
}

static void
tls_bridge_move(struct tls_bridge *b)
{
	unsigned interest = 0;
	bool more = false;

	if (!tls_bridge_move_all(b, &more)) {
		tls_bridge_end(b, true);
		return;
	}
	if (b->in_cut || (b->cut && b->out_shut)) {
		tls_bridge_await_reader(b);
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
	b->held = buf_len(&b->in) > 0 || b->in_ended || b->cut;
	tls_stream_hold(b->tls, b->held);
	tls_stream_want(b->tls, buf_len(&b->out) > 0 || (b->out_ended && !b->out_shut));
	if (b->watch == NULL)
		return;
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

void
tls_bridge_cut(struct tls_bridge *b)
{
	if (b->over)
		return;
	b->cut = b->out_ended = true;
	watch_stop(&b->watch);
	tls_stream_hurry(b->tls);
	tls_bridge_move(b);
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
		tls_bridge_finish(b, false, TLS_BRIDGE_BROKEN);
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
		.tells_cut = setup->host != NULL,
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
