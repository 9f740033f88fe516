/*
 * One socket of a worker, client's or upstream's: its watch and what could not be written yet. Data
 * is written at once where the socket takes it; only the rest is copied and waits for WATCH_WRITE.
 * So a connection without work owns no buffer. The other side must be paused while much is pending
 * (memory_full).
 */
#ifndef EDGEWAY_LB_PEER_H
#define EDGEWAY_LB_PEER_H

#include <sys/uio.h>

#include "base/core/buf.h"
#include "base/core/loop.h"

struct peer {
	struct watch *watch;
	struct buf out;
	int fd; /* -1: closed */
	bool paused; /* not read from */
	bool eof; /* FIN was read */
	bool shutting; /* FIN is due when `out` is written */
	bool shut; /* FIN is sent */
	bool mind; /* while it is not read from, its owner wants to know when it breaks */
	bool broken; /* a write failed: what is sent is lost */
};

/* Takes fd. A socket that is still connecting is watched for writing first. */
void peer_open(struct peer *p, struct loop *loop, int fd, bool connecting, watch_fn *fn, void *arg);
/* The connection is made. */
void peer_connected(struct peer *p);
/* As read(2): >0; 0 at EOF (reading is then off); -EAGAIN, -errno. */
ssize_t peer_read(struct peer *p, char *to, size_t size);
/* Is there something to read, that was not? */
bool peer_has_input(const struct peer *p);
/* Sends, or keeps what the socket does not take. 0 or -errno, then everything is lost. */
int peer_send(struct peer *p, struct iovec *iov, int n);
int peer_send_bytes(struct peer *p, const void *data, size_t len);
/* On WATCH_WRITE. 0 or -errno. */
int peer_flush(struct peer *p);
/* FIN behind what is pending. 0 or -errno */
int peer_shut(struct peer *p);
void peer_pause(struct peer *p);
void peer_resume(struct peer *p);
/* About how many bytes more its socket takes now. */
size_t peer_room(const struct peer *p);
/* How many of the bytes sent the other side's kernel has not acknowledged, told also after a reset;
 * 0 where this kernel cannot tell (before 4.19). */
uint64_t peer_unacked_bytes(const struct peer *p);
/* reset: RST instead of FIN. Nothing happens when closed already. */
void peer_close(struct peer *p, bool reset);

#endif
