/*
 * A TLS connection as a non-blocking byte stream on a loop (OpenSSL), with contexts of
 * base/tls/pki. By default both sides must authenticate and agree on one ALPN name; a peer without
 * a certificate of our CA, or with another protocol, never becomes open. The stream owns its
 * socket. Everything on the loop's thread.
 *
 * The owner gets TLS_OPEN once the handshake is done, or TLS_FAILED (tls_stream_why gives the
 * reason; free the stream). After TLS_OPEN it gets TLS_READABLE and, once requested, TLS_WRITABLE.
 * The stream reads several records from the socket at a time, so after TLS_READABLE the owner must
 * read until -EAGAIN, or return later by itself: no event announces data that is buffered here. The
 * stream may be freed within a call of `on`.
 *
 * Without a loop it is passive: the owner owns and watches the socket, has a deadline of its own,
 * calls tls_stream_step until that returns 0, and then reads and writes; no callback comes.
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
#include "base/tls/pki_tls.h"

struct tls_stream;

enum { TLS_KEY_RECORDS = 1 << 23 };
enum { TLS_RECORD_BYTES = 16384 }; /* most that one record holds, RFC 8446 section 5.1 */
/* Must the peer authenticate? TLS_ANYBODY: a server requests no certificate, a client accepts any.
 * TLS_HUB: it must be a hub (pki_cert_is_hub), under any name. TLS_NODE: it must be none, under any
 * name (tls_stream_peer); a client's `host` is then only sent as SNI. */
enum tls_proof { TLS_PROVEN, TLS_ANYBODY, TLS_HUB, TLS_NODE };
enum tls_event { TLS_OPEN, TLS_FAILED, TLS_READABLE, TLS_WRITABLE };

typedef void tls_event_fn(void *arg, enum tls_event event);

struct tls_setup {
	struct loop *loop; /* NULL: passive */
	int fd; /* connected or connecting; taken, also on failure; borrowed by a passive one */
	struct ssl_ctx_st *ctx;
	const char *host; /* client: name or address the certificate must have; NULL: server */
	const char *alpn; /* NULL: no ALPN */
	/* Instead of alpn, ended by NULL, valid until the stream is freed: a client offers all
	 * names, a server selects the first that is offered. The result is not checked. */
	const char *const *offers;
	enum tls_proof proof;
	/* Client, with TLS_PROVEN: the certificate must have one of these names, and `host` is the
	 * SNI alone; outlives the stream. NULL: it must have the name `host`. */
	const struct pki_names *names;
	/* Client, with tls_backend_ctx: see base/tls/tls_session.h. NULL: no session is resumed. */
	struct ssl_session_st **session;
	unsigned deadline_ms; /* of the handshake; 0: 10 s */
	/* Server: the peer's preauth slot, by which each handshake step is rationed; outlives the
	 * handshake, or the stream. NULL, or one without a slot: no step waits. */
	struct preauth_conn *place;
	/* The peer may read nothing for as long as it likes, until tls_stream_hurry; else it is
	 * dead when it acknowledges nothing for 10 s. For streams that are not passive. */
	bool patient;
	bool tells_cut; /* an end without close_notify is told as such, as by a passive stream */
	bool resumes; /* server: takes and gives tickets (base/tls/pki_tickets.h) */
	uint64_t key_records; /* records written with one key; 0: TLS_KEY_RECORDS */
	tls_event_fn *on;
	void *arg;
};

void tls_stream_hurry(struct tls_stream *s);
int tls_stream_new(const struct tls_setup *setup, struct tls_stream **out, struct err *err);
/* Passive: goes on with the handshake. 0: it is done; -EAGAIN: *events are those of the socket to
 * wait for; -EPROTO: it has failed, see tls_stream_why. */
int tls_stream_step(struct tls_stream *s, unsigned *events);
/* Passive: are there bytes read from the socket that tls_stream_read has not returned? No event of
 * the socket will tell. */
bool tls_stream_has_input(const struct tls_stream *s);
/* Does the peer send nothing at the moment, not even a part of a record, and keep the connection?
 * Reads what belongs to TLS alone, such as session tickets. */
bool tls_stream_is_quiet(struct tls_stream *s);
/* Was this the protocol that both agreed on? */
bool tls_stream_speaks(const struct tls_stream *s, const char *alpn);
bool tls_stream_resumed(const struct tls_stream *s);
/* Sends close_notify if that is possible at once, and closes the socket. */
void tls_stream_free(struct tls_stream **s);
/* The same with a reset: the peer sees that the stream is truncated. */
void tls_stream_reset(struct tls_stream **s);
/* To another loop, in two steps: with NULL on the present loop's thread, after which no callback
 * comes, and the stream may only be freed or passed on; then with the other loop, on its thread.
 * After TLS_OPEN. Bytes may be buffered that no event announces. */
void tls_stream_move(struct tls_stream *s, struct loop *loop);
/* Replaces the owner's callback. */
void tls_stream_use(struct tls_stream *s, tls_event_fn *on, void *arg);
/* > 0; 0 at the peer's close_notify or end; -EAGAIN or another -errno. Passive, or with tells_cut:
 * -ENODATA at an end without close_notify, which may be a truncation. */
ssize_t tls_stream_read(struct tls_stream *s, void *to, size_t size);
/* > 0, possibly less than n: the next call must begin with exactly the remaining bytes; -EAGAIN
 * (tls_stream_want) or another -errno. */
ssize_t tls_stream_write(struct tls_stream *s, const void *data, size_t n);
/* Adds a record, of at most TLS_RECORD_BYTES, to the batch for tls_stream_send: n; -EAGAIN: nothing
 * was taken, since the socket is full; or another -errno. Not between the parts of a
 * tls_stream_write. */
ssize_t tls_stream_gather(struct tls_stream *s, const void *data, size_t n);
/* Sends the batch: 0, -EAGAIN (the next call sends the rest) or another -errno. */
int tls_stream_send(struct tls_stream *s);
void tls_stream_want(struct tls_stream *s, bool writable);
/* While held, TLS_READABLE does not come. */
void tls_stream_hold(struct tls_stream *s, bool held);
/* Its socket; borrowed. */
int tls_stream_fd(const struct tls_stream *s);
/* Half-close: sends close_notify; reading goes on (RFC 8446 section 6.1). 0, or -EAGAIN: call again
 * when writable. */
int tls_stream_end(struct tls_stream *s);
/* Server: the client's SNI (RFC 6066 section 3), "" when it sent none. */
const char *tls_stream_sni(const struct tls_stream *s);
/* Name in the peer's certificate; "" before TLS_OPEN. */
const char *tls_stream_peer(const struct tls_stream *s);
/* The peer certificate's serial number (pki_cert_serial) and notAfter, seconds since 1970. After
 * TLS_OPEN. */
int64_t tls_stream_peer_ends(const struct tls_stream *s, char serial[PKI_SERIAL_TEXT]);
const char *tls_stream_why(const struct tls_stream *s);
/* Client, after TLS_FAILED: did the server ask to come later (pki_peer_busy)? */
bool tls_stream_busy(const struct tls_stream *s);

#endif
