/*
 * A TLS connection as a non-blocking stream of bytes on a loop (OpenSSL), for contexts made by
 * base/tls/pki. Both sides must prove who they are and agree on one ALPN name; a peer without a
 * certificate of our CA, or with another protocol, never becomes open. The stream owns its socket.
 * Everything on the loop's thread.
 *
 * The owner is told TLS_OPEN once the handshake is done, or TLS_FAILED (tls_stream_why says what
 * failed; free the stream). After TLS_OPEN it is told TLS_READABLE and, once asked for,
 * TLS_WRITABLE. Records are taken off the socket several at a time, so who is told TLS_READABLE
 * reads until -EAGAIN, or comes back by itself: no event announces what waits in here. Within a
 * call of `on` the stream may be freed.
 *
 *	rc = tls_stream_new(&(struct tls_setup){.loop = loop, .fd = fd, .ctx = ctx, .host = "hub",
 *		.alpn = "name/1", .on = on_tls, .arg = me}, &stream, &err);
 *	n = tls_stream_read(stream, to, sizeof to);
 */
#ifndef EDGEWAY_BASE_TLS_TLS_STREAM_H
#define EDGEWAY_BASE_TLS_TLS_STREAM_H

#include <sys/types.h>

#include "base/core/loop.h"
#include "base/core/preauth.h"
#include "base/tls/pki.h"

struct tls_stream;

enum { TLS_KEY_RECORDS = 1 << 23 };
enum { TLS_RECORD_BYTES = 16384 }; /* most that one record holds, RFC 8446 section 5.1 */
/* Must the other side prove who it is? TLS_ANYBODY: a server asks for no certificate, a client
 * takes any. TLS_HUB: it must be a hub (pki_cert_is_hub), under whatever name. */
enum tls_proof { TLS_PROVEN, TLS_ANYBODY, TLS_HUB };
enum tls_event { TLS_OPEN, TLS_FAILED, TLS_READABLE, TLS_WRITABLE };

typedef void tls_event_fn(void *arg, enum tls_event event);

struct tls_setup {
	struct loop *loop;
	int fd; /* connected or connecting; taken, also on failure */
	struct ssl_ctx_st *ctx;
	const char *host; /* client: name or address the certificate must bear; NULL: server */
	const char *alpn; /* NULL: none is spoken of */
	/* In its place, ended by NULL, good until the stream is gone: names that are offered, or of
	 * which a server selects the first that is. What becomes of it does not matter. */
	const char *const *offers;
	enum tls_proof proof;
	unsigned deadline_ms; /* of the handshake; 0: 10 s */
	/* Server: the peer's place until it has authenticated, whose turn each step of the
	 * handshake waits for; outlives the handshake, or the stream. NULL, or one without a place:
	 * none waits. */
	struct preauth_conn *place;
	uint64_t key_records; /* that are written by one key; 0: TLS_KEY_RECORDS */
	tls_event_fn *on;
	void *arg;
};

int tls_stream_new(const struct tls_setup *setup, struct tls_stream **out, struct err *err);
/* Sends close_notify where it can be sent at once, and closes the socket. */
void tls_stream_free(struct tls_stream **s);
/* The same with a reset: the other side sees that this was not all. */
void tls_stream_reset(struct tls_stream **s);
/* From now on somebody else is told. */
void tls_stream_use(struct tls_stream *s, tls_event_fn *on, void *arg);
/* > 0; 0 at the peer's close_notify or end; -EAGAIN or another -errno. */
ssize_t tls_stream_read(struct tls_stream *s, void *to, size_t size);
/* > 0, perhaps less than n: the next call begins with the very bytes that were left; -EAGAIN
 * (tls_stream_want) or another -errno. */
ssize_t tls_stream_write(struct tls_stream *s, const void *data, size_t n);
/* A record, of at most TLS_RECORD_BYTES, that waits for those that follow at once: n; -EAGAIN:
 * nothing was taken, for the socket takes no more; or another -errno. Not between the parts of a
 * tls_stream_write. */
ssize_t tls_stream_gather(struct tls_stream *s, const void *data, size_t n);
/* Sends what was gathered: 0, -EAGAIN (what is left goes with the next call) or another -errno. */
int tls_stream_send(struct tls_stream *s);
void tls_stream_want(struct tls_stream *s, bool writable);
/* While held, TLS_READABLE does not come. */
void tls_stream_hold(struct tls_stream *s, bool held);
/* Its socket; borrowed. */
int tls_stream_fd(const struct tls_stream *s);
/* Half-close: close_notify, after which reading goes on (RFC 8446 section 6.1). 0, or -EAGAIN: once
 * more when writable. */
int tls_stream_end(struct tls_stream *s);
/* Server: the name that the client asks for (RFC 6066 section 3), "" when it says none. */
const char *tls_stream_sni(const struct tls_stream *s);
/* Name in the peer's certificate; "" before TLS_OPEN. */
const char *tls_stream_peer(const struct tls_stream *s);
/* Its serial number (pki_cert_serial) and its end, seconds since 1970. After TLS_OPEN. */
int64_t tls_stream_peer_ends(const struct tls_stream *s, char serial[PKI_SERIAL_TEXT]);
const char *tls_stream_why(const struct tls_stream *s);

#endif
