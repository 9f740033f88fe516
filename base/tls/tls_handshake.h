/*
 * A server's TLS handshakes on worker threads (base/tls/tls_workers.h): the public-key operations
 * of one, about a millisecond, take no time of the loop that carries the traffic. Once it is done
 * the stream moves to the owner's loop (tls_stream_move), where it is as if it had shaken hands
 * there: records are few and batched, and cost less than passing them on to another thread. Without
 * workers the handshake is done on the owner's loop.
 *
 * Everything here is called on the owner's loop; the workers and both loops outlive the handshake.
 *
 *	h = tls_handshake_new(&(struct tls_handshake_setup){.loop = loop, .workers = workers, .fd = fd,
 *		.ctx = ctx, .alpn = "name/1", .from = &peer, .place = &place, .done = on_done, .arg = me});
 *	tls_handshake_free(&h);	// gives it up; not after on_done
 */
#ifndef EDGEWAY_BASE_TLS_TLS_HANDSHAKE_H
#define EDGEWAY_BASE_TLS_TLS_HANDSHAKE_H

#include "base/tls/tls_stream.h"
#include "base/tls/tls_workers.h"

struct tls_handshake;

/* Once, from a turn of the owner's loop; the handshake itself is gone by then. stream: open, to be
 * taken, with tls_stream_use next; NULL: it has failed, and `why` says so. */
typedef void tls_handshake_fn(void *arg, struct tls_stream *stream, const char *why);

struct tls_handshake_setup {
	struct loop *loop; /* the owner's */
	struct tls_workers *workers; /* NULL: there are none */
	int fd; /* connected; taken */
	struct ssl_ctx_st *ctx; /* the caller may free it once tls_handshake_new returns */
	const char *alpn, *const *offers; /* these three as in tls_setup */
	enum tls_proof proof;
	bool resumes;
	const struct addr *from; /* the client whose steps these are */
	/* its slot on the owner's loop, which rations the steps if there are no workers; or NULL */
	struct preauth_conn *place;
	tls_handshake_fn *done;
	void *arg;
};

struct tls_handshake *tls_handshake_new(const struct tls_handshake_setup *setup);
void tls_handshake_free(struct tls_handshake **h);

#endif
