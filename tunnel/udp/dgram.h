/*
 * Datagrams over a stream that was opened for them (stream_request.udp), at either end: what the
 * stream has no room for now is dropped, never queued beyond DGRAM_QUEUE_BYTES, since a datagram
 * that comes late is worth less than the next one. What comes is taken at once, so that one flow
 * never holds up its tunnel. Datagrams keep their boundaries and their order.
 *
 *	if (!dgram_put(stream, data, n))
 *		tally.dropped[DROP_QUEUE]++;
 *	while ((rc = dgram_get(&reader, stream, &data, &n)) > 0)	// -EPROTO: no datagrams; break the stream off
 *		send(fd, data, n, 0);
 */
#ifndef EDGEWAY_TUNNEL_UDP_DGRAM_H
#define EDGEWAY_TUNNEL_UDP_DGRAM_H

#include "tunnel/h2/session.h"
#include "tunnel/udp/capsule.h"

enum {
	DGRAM_QUEUE_BYTES = 128 * 1024,
	DGRAM_TURN = 32, /* read from a socket at a time: */
	DGRAM_TURN_BYTES = 64 * 1024, /* what the queue takes, and others have their turn */
	DGRAM_BUFFER = 64 * 1024, /* no datagram of IP is longer */
	DGRAM_KEPT = 16, /* until it is known whereto */
	DGRAM_KEPT_BYTES = 128 * 1024,
	DGRAM_SOCKET_BYTES =
		1024 * 1024, /* asked for a socket's buffers; the kernel may give less */
};

/* Why a datagram was dropped. */
enum dgram_drop {
	DROP_QUEUE, /* the stream had no room: the tunnel is slow */
	DROP_SOCKET, /* the buffer of a socket had no room */
	DROP_SIZE, /* too long for the way behind the socket */
	DROP_SEND, /* the socket did not take it for another reason */
	DROP_DIALLING, /* too many came before the target was reached */
	DROP_DENIED, /* no rule of access opens the target to this caller */
	DROP_UNREACHABLE, /* no way to the target */
	DROP_LIMIT, /* too many flows, or ingress.limits */
	DROP_LOOP, /* it goes round: base/core/hops.h */
	DROP_RATE, /* ingress.limits, bytes */
	DROPS,
};

struct dgram_count {
	uint64_t datagrams, bytes;
};

struct dgram_tally {
	struct dgram_count to_stream, from_stream;
	uint64_t dropped[DROPS];
};

struct dgram_reader { /* all zero at first */
	struct capsule_reader capsules;
	size_t held; /* of the stream, under the datagram that was given last */
};

/* Some that are to be sent once it is known whereto. All zero at first; empty after
 * dgram_kept_fini. */
struct dgram_kept {
	struct buf bytes;
	unsigned n;
};

/* False: it keeps as many as it may. */
bool dgram_keep(struct dgram_kept *k, const void *data, size_t n);
/* The datagram at *at, which begins with 0 and is moved on. False: there is none. */
bool dgram_kept_next(const struct dgram_kept *k, size_t *at, const void **data, size_t *n);
void dgram_kept_fini(struct dgram_kept *k);

const char *dgram_drop_name(enum dgram_drop why);
void dgram_tally_add(struct dgram_tally *to, const struct dgram_tally *t);
uint64_t dgram_dropped(const struct dgram_tally *t);

/* False: there is no room. n: at most DATAGRAM_MAX. */
bool dgram_put(struct stream *st, const void *data, size_t n);
/* 1: a datagram, good until the next call or the stream's end; 0: no more now; -EPROTO. */
int dgram_get(struct dgram_reader *r, struct stream *st, const void **data, size_t *n);
void dgram_reader_fini(struct dgram_reader *r);

/* What a failed send means, errno. */
enum dgram_drop dgram_send_failed(int error);
/* Larger buffers, as far as the kernel gives them. */
void dgram_widen(int fd);
/* Datagrams that the socket's buffer had no room for, since it was opened. */
uint32_t dgram_lost(int fd);

#endif
