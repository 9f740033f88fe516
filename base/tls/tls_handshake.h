/*
 * A server's TLS handshakes on worker threads: the public-key operations of one, about a
 * millisecond, take no time of the loop that carries the traffic. Once it is done the stream moves
 * to the owner's loop (tls_stream_move), where it is as if it had shaken hands there: records are
 * few and batched, and cost less than passing them on to another thread.
 *
 * A worker's handshakes are rationed as base/core/preauth says: one step each turn of its loop, of
 * one client after the other. Everything here is called on the owner's loop; the pool and both
 * loops outlive the handshake.
 *
 *	pool = tls_handshakes_new(loops, n, preauth);	// before the loops run
 *	h = tls_handshake_new(&(struct tls_handshake_setup){.loop = loop, .pool = pool, .fd = fd,
 *		.ctx = ctx, .alpn = "name/1", .from = &peer, .done = on_done, .arg = me});
 *	tls_handshake_free(&h);	// gives it up; not after on_done
 */
#ifndef EDGEWAY_BASE_TLS_TLS_HANDSHAKE_H
#define EDGEWAY_BASE_TLS_TLS_HANDSHAKE_H

#include "base/core/metric.h"
#include "base/tls/tls_stream.h"

struct tls_handshake;
struct tls_handshakes;

enum { TLS_HANDSHAKES_WORKERS_MAX = 64 };

/* Once, from a turn of the owner's loop; the handshake itself is gone by then. stream: open, to be
 * taken, with tls_stream_use next; NULL: it has failed, and `why` says so. */
typedef void tls_handshake_fn(void *arg, struct tls_stream *stream, const char *why);

struct tls_handshake_setup {
	struct loop *loop; /* the owner's */
	struct tls_handshakes *pool;
	int fd; /* connected; taken */
	struct ssl_ctx_st *ctx; /* the caller may free it once tls_handshake_new returns */
	const char *alpn;
	bool resumes; /* as of tls_setup */ /* copied */
	const struct addr *from; /* the client whose steps these are */
	/* the connection's slot at the owner's preauth, until the handshake is over; NULL: none */
	struct preauth_conn *place;
	tls_handshake_fn *done;
	void *arg;
};

/* Before the workers run; each gets a preauth_branch. */
struct tls_handshakes *tls_handshakes_new(
	struct loop *const *workers, size_t n, const struct preauth *preauth);
/* Once every handshake is over or was given up, and before the workers are stopped. */
void tls_handshakes_free(struct tls_handshakes **pool);
/* NULL: writes nothing. */
void tls_handshakes_metrics(const struct tls_handshakes *pool, struct metrics *m);

struct tls_handshake *tls_handshake_new(const struct tls_handshake_setup *setup);
void tls_handshake_free(struct tls_handshake **h);

#endif
