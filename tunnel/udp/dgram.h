/*
 * Sends and receives datagrams over a stream that was opened for them (stream_request.udp), at
 * either end. A datagram for which the stream has no room is dropped, never queued beyond
 * DGRAM_QUEUE_BYTES, since a late datagram is worth less than the next one. Received datagrams are
 * taken at once, so that one flow never holds up its tunnel. Datagrams keep their boundaries and
 * their order.
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
	DGRAM_TURN = 32, /* datagrams read from a socket in one go: */
	/* as many bytes as the queue takes; then others have their turn */
	DGRAM_TURN_BYTES = 64 * 1024,
	DGRAM_BUFFER = 64 * 1024, /* no IP datagram is longer */
	DGRAM_KEPT = 16, /* kept until the destination is known */
	DGRAM_KEPT_BYTES = 128 * 1024,
	DGRAM_SOCKET_BYTES =
		1024 * 1024, /* requested for a socket's buffers; the kernel may give less */
};

/* Why a datagram was dropped. */
enum dgram_drop {
	DROP_QUEUE, /* the stream had no room: the tunnel is slow */
	DROP_SOCKET, /* a socket buffer had no room */
	DROP_SIZE, /* longer than the path MTU beyond the socket */
	DROP_SEND, /* the socket refused it for another reason */
	DROP_DIALLING, /* too many came before the target was reached */
	DROP_DENIED, /* no access rule opens the target to this caller */
	DROP_UNREACHABLE, /* no route to the target */
	DROP_LIMIT, /* too many flows, or ingress.limits */
	DROP_LOOP, /* a loop: base/core/hops.h */
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
	size_t held; /* bytes of the stream that the last returned datagram points into */
};

/* Datagrams kept until their destination is known. All zero at first; empty after
 * dgram_kept_fini. */
struct dgram_kept {
	struct buf bytes;
	unsigned n;
};

/* False: it already keeps as many as it may. */
bool dgram_keep(struct dgram_kept *k, const void *data, size_t n);
/* Returns the datagram at *at, which starts at 0, and advances *at. False: there is none. */
bool dgram_kept_next(const struct dgram_kept *k, size_t *at, const void **data, size_t *n);
void dgram_kept_fini(struct dgram_kept *k);

const char *dgram_drop_name(enum dgram_drop why);
void dgram_tally_add(struct dgram_tally *to, const struct dgram_tally *t);
uint64_t dgram_dropped(const struct dgram_tally *t);

/* False: there is no room. n: at most DATAGRAM_MAX. */
bool dgram_put(struct stream *st, const void *data, size_t n);
/* 1: a datagram, valid until the next call or the stream's end; 0: none now; -EPROTO. */
int dgram_get(struct dgram_reader *r, struct stream *st, const void **data, size_t *n);
/* Tells the other end, which is this hub's, that so many datagrams of those that came from there
 * were dropped behind the stream. False: there is no room. */
bool dgram_tell_dropped(struct stream *st, uint64_t n);
/* How many the other end has told of since the last call; of an end that is not this hub's: 0. */
unsigned dgram_hear_dropped(struct dgram_reader *r, const struct stream *st);
void dgram_reader_fini(struct dgram_reader *r);

/* Maps the errno of a failed send. */
enum dgram_drop dgram_send_failed(int error);
/* Enlarges the socket buffers, as far as the kernel allows. */
void dgram_widen(int fd);
/* Datagrams dropped because the socket's buffer was full, since it was opened. */
uint32_t dgram_lost(int fd);

#endif
