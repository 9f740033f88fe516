#include "base/tls/tls_private.h"

#include <assert.h>
#include <errno.h>

#include <openssl/err.h>

enum {
	RECORD_EXTRA = 64, /* more than a record's header and tag, and a KeyUpdate before it */
	/* Read from the socket at once. Of more, some would have left the cache before they are
	 * decrypted. */
	AHEAD_BYTES = 3 * (TLS_RECORD_BYTES + RECORD_EXTRA),
	/* Written at once: as many records as one packet of segmentation offload carries (64 KiB).
	 * Of more, BBR sends the rest by a timer, whose interrupts cost more than the system
	 * call. */
	BATCH_BYTES = 3 * (TLS_RECORD_BYTES + RECORD_EXTRA),
	BULK_CALLS = 8, /* small reads or writes after which a connection counts as idle again */
};

/* SSL_get_error reads the thread's error queue; clearing an empty queue costs as much as a small
 * record. */
static void
forget_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* Translates a failed call: 0 at the end of stream, else -errno. */
static ssize_t
tls_records_refused(struct tls_stream *s, int rc)
{
	int saved = errno;

	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN: /* of which only close_notify leaves the socket's end unread */
		if (!s->tells_cut || !s->socket.at_end)
			return 0;
		s->broken = true;
		return -ENODATA;
	case SSL_ERROR_SYSCALL:
		s->broken = true;
		return saved != 0 ? -saved : -ECONNRESET;
	default:
		s->broken = true;
		return -EPROTO;
	}
}

/* Bulk transfer keeps large buffers; handshakes and idle connections use small ones, freed when
 * empty. */
static void
tell_bulk(struct tls_stream *s, bool bulk)
{
	if (bulk && s->bulk == 0) {
		SSL_set_read_ahead(s->ssl, 1);
		SSL_set_default_read_buffer_len(s->ssl, AHEAD_BYTES);
	} else if (bulk) {
		/* the small buffer is freed by now */
		SSL_clear_mode(s->ssl, SSL_MODE_RELEASE_BUFFERS);
	}
	if (bulk) {
		s->bulk = BULK_CALLS;
	} else if (s->bulk > 0 && --s->bulk == 0) {
		SSL_set_mode(s->ssl, SSL_MODE_RELEASE_BUFFERS);
		SSL_set_read_ahead(s->ssl, s->loop == NULL);
		SSL_set_default_read_buffer_len(s->ssl, 0);
		tls_socket_drop_room(&s->socket);
	}
}

ssize_t
tls_stream_read(struct tls_stream *s, void *to, size_t size)
{
	int n;

	if (s->broken)
		return -ECONNRESET;
	forget_errors();
	errno = 0;
	n = SSL_read(s->ssl, to, (int)MIN(size, (size_t)1 << 30));
	if (n > 0)
		tell_bulk(s, n >= TLS_RECORD_BYTES / 2);
	return n > 0 ? n : tls_records_refused(s, n);
}

bool
tls_stream_has_input(const struct tls_stream *s)
{
	return !s->broken && SSL_has_pending(s->ssl) == 1;
}

bool
tls_stream_is_quiet(struct tls_stream *s)
{
	char byte;
	int n;

	if (s->broken)
		return false;
	forget_errors();
	errno = 0;
	n = SSL_peek(s->ssl, &byte, 1);
	return n <= 0 && tls_records_refused(s, n) == -EAGAIN && !tls_stream_has_input(s);
}

/* RFC 8446 section 5.5: AES-GCM is safe for 2^24.5 full records per key, which bulk traffic through
 * a tunnel reaches; OpenSSL does not update the key by itself. While a record is half written the
 * key cannot be updated: then before the next one. TLS 1.2 has no key update. */
static void
mind_the_key(struct tls_stream *s)
{
	if (++s->records < s->key_records)
		return;
	if (SSL_version(s->ssl) != TLS1_3_VERSION ||
		SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
		s->records = 0;
}

/* > 0: bytes of plaintext now in records; or as tls_records_refused(). */
static ssize_t
write_record(struct tls_stream *s, const char *data, size_t n)
{
	int done;

	mind_the_key(s);
	forget_errors();
	errno = 0;
	done = SSL_write(s->ssl, data, (int)n);
	if (done > 0)
		return done;
	done = (int)tls_records_refused(s, done);
	return done == 0 ? -EPIPE : done;
}

/* Several records, one system call. If the socket does not take all, the last record is reported as
 * not yet written. */
static ssize_t
write_records(struct tls_stream *s, const char *data, size_t n)
{
	size_t total = 0, last = 0;
	ssize_t did = 0;
	int rc;

	tls_socket_make_room(&s->socket, BATCH_BYTES);
	s->socket.gathers = true;
	while (total < n && tls_socket_room(&s->socket) >= TLS_RECORD_BYTES + RECORD_EXTRA) {
		did = write_record(s, data + total, MIN(n - total, (size_t)TLS_RECORD_BYTES));
		if (did < 0)
			break;
		last = (size_t)did;
		total += last;
	}
	s->socket.gathers = false;
	if (total == 0)
		return did;
	rc = tls_socket_send(&s->socket);
	if (rc == 0)
		return (ssize_t)total;
	s->owed = last;
	s->broken |= rc != -EAGAIN;
	return total > last ? (ssize_t)(total - last) : rc;
}

ssize_t
tls_stream_write(struct tls_stream *s, const void *data, size_t n)
{
	const char *from = data;
	size_t paid = s->owed;
	ssize_t did;
	int rc;

	if (s->broken)
		return -EPIPE;
	rc = tls_socket_send(&s->socket);
	if (rc < 0) {
		s->broken |= rc != -EAGAIN;
		return rc;
	}
	assert(paid <= n); /* the caller repeats what was reported as not written */
	s->owed = 0;
	if (paid == n)
		return (ssize_t)n;
	tell_bulk(s, n > TLS_RECORD_BYTES);
	did = n - paid > TLS_RECORD_BYTES ? write_records(s, from + paid, n - paid)
					  : write_record(s, from + paid, n - paid);
	if (did < 0)
		return paid > 0 ? (ssize_t)paid : did;
	return (ssize_t)paid + did;
}

int
tls_stream_send(struct tls_stream *s)
{
	int rc = s->broken ? -EPIPE : tls_socket_send(&s->socket);

	s->broken |= rc < 0 && rc != -EAGAIN;
	if (rc == 0 && s->bulk == 0)
		tls_socket_drop_room(&s->socket);
	return rc;
}

ssize_t
tls_stream_gather(struct tls_stream *s, const void *data, size_t n)
{
	size_t need = n + RECORD_EXTRA;
	ssize_t did;
	int rc;

	assert(n > 0 && n <= TLS_RECORD_BYTES && s->owed == 0);
	tell_bulk(s, n > TLS_RECORD_BYTES / 2);
	if (s->broken || tls_socket_room(&s->socket) < need) {
		rc = tls_stream_send(s);
		if (rc < 0)
			return rc;
		tls_socket_make_room(&s->socket, s->bulk > 0 ? (size_t)BATCH_BYTES : need);
	}
	s->socket.gathers = true;
	did = write_record(s, data, n);
	s->socket.gathers = false;
	if (did == (ssize_t)n)
		return did;
	s->broken = true; /* there was room, so this is a fatal error */
	return did < 0 && did != -EAGAIN ? did : -EPROTO;
}

int
tls_stream_end(struct tls_stream *s)
{
	int rc;

	if (s->broken || (SSL_get_shutdown(s->ssl) & SSL_SENT_SHUTDOWN) != 0)
		return 0;
	ERR_clear_error();
	rc = SSL_shutdown(s->ssl);
	return rc < 0 && SSL_get_error(s->ssl, rc) == SSL_ERROR_WANT_WRITE ? -EAGAIN : 0;
}
