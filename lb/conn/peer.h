/*
 * One socket of a worker, the client's or the upstream's: its watch and the data that could not be
 * written yet. Data is written at once if the socket takes it; only the rest is copied and waits
 * for WATCH_WRITE, so an idle connection owns no buffer. The other side must be paused while much
 * is pending (memory_full).
 *
 * With TLS (peer_start_tls) the same calls read and write its plaintext: nobody above needs to
 * know. Only splicing is impossible then. What TLS has read ahead is announced by a WATCH_READ of
 * our own.
 *
 * Where the caller allows it (`later`), a small piece is sent at the end of the loop's turn with
 * those of other connections. Until then it counts as sent. What the socket does not take then is
 * pending as after any other send; that a connection is broken is told on the next WATCH_WRITE.
 */
#ifndef EDGEWAY_LB_CONN_PEER_H
#define EDGEWAY_LB_CONN_PEER_H

#include <sys/uio.h>

#include "base/core/buf.h"
#include "base/core/loop.h"
#include "base/os/send_ring.h"

struct peer_tls;
struct tls_setup;

struct peer {
	struct watch *watch;
	struct peer_tls *tls; /* NULL: plain TCP */
	struct buf out;
	struct send_ring *later; /* what is sent next may wait in there for the turn's end */
	struct send_ring *in; /* has bytes that count as sent; NULL: there are none */
	int fd; /* -1: closed */
	bool paused; /* not read from */
	bool eof; /* FIN was read */
	bool cut; /* with TLS: a FIN without close_notify before it, so more may have been meant */
	bool shutting; /* FIN is sent once `out` is written */
	bool shut; /* FIN is sent */
	bool mind; /* while paused, the owner wants to know when the connection breaks */
	bool broken; /* a write failed: what was sent is lost */
	bool last; /* peer_close follows what is sent next, whose segment is to carry the FIN */
};

/* Takes fd. A socket that is still connecting is watched for writing first. */
void peer_open(struct peer *p, struct loop *loop, int fd, bool connecting, watch_fn *fn, void *arg);
/* The connection is established. */
void peer_connected(struct peer *p);
/* TLS from now on, as a client: `setup` without loop and fd. The connection is established; fn and
 * arg are those of peer_open. Then peer_shake, at once and on each event, until it returns 0: it
 * gives -EAGAIN, or -EPROTO (peer_tls_why). */
int peer_start_tls(
	struct peer *p, const struct tls_setup *setup, struct loop *loop, watch_fn *fn, void *arg);
int peer_shake(struct peer *p);
const char *peer_tls_why(const struct peer *p);
/* After the handshake: was that agreed on by ALPN? Was a session resumed? */
bool peer_tls_speaks(const struct peer *p, const char *alpn);
bool peer_tls_resumed(const struct peer *p);
/* As read(2): >0; 0 at EOF (reading is then off); -EAGAIN, -errno. */
ssize_t peer_read(struct peer *p, char *to, size_t size);
/* Returns whether there is unread input. Not for TLS. */
bool peer_has_input(const struct peer *p);
/* Returns whether an idle connection is alive and has said nothing. */
bool peer_is_quiet(struct peer *p);
/* Sends, or buffers what the socket does not take. Returns 0, or -errno if the connection is broken
 * and everything is lost. */
int peer_send(struct peer *p, struct iovec *iov, int n);
int peer_send_bytes(struct peer *p, const void *data, size_t len);
/* Has the socket all that was sent? What waits for the turn's end is sent for that. */
bool peer_is_flushed(const struct peer *p);
/* And the other side's kernel? */
bool peer_is_delivered(const struct peer *p);
/* On WATCH_WRITE. 0 or -errno. */
int peer_flush(struct peer *p);
/* Sends FIN after the pending data, in their last segment if they wait for the turn's end. 0 or
 * -errno. */
int peer_shut(struct peer *p);
void peer_pause(struct peer *p);
void peer_resume(struct peer *p);
/* About how many more bytes its socket takes now. */
size_t peer_room(const struct peer *p);
/* How many of the bytes given to peer_send the other side's kernel has not acknowledged; known also
 * after a reset. 0 if this kernel cannot tell (before 4.19). */
uint64_t peer_unacked_bytes(struct peer *p);
/* reset: sends RST instead of FIN. Does nothing if already closed. */
void peer_close(struct peer *p, bool reset);

#endif
