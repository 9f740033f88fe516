#include "base/tls_stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/pki_tls.h"
#include "base/sock.h"

enum {
	NOTSENT_BYTES = 128 * 1024, /* small messages pass what is not yet sent of bulk */
	USER_TIMEOUT_MS = 10000, /* sent and not acknowledged for so long: the peer is gone */
	HANDSHAKE_MS = 10000,
	RECORD_EXTRA = 64, /* more than a record's head and tag, and a new key before it */
	/* Taken off the socket, or given to it, at a time; below malloc's use of mmap. */
	AHEAD_BYTES = 6 * (TLS_RECORD_BYTES + RECORD_EXTRA),
	ALPN_BYTES = 512, /* names that are offered, with their lengths */
	BATCH_BYTES = 8 * (TLS_RECORD_BYTES + RECORD_EXTRA),
	BULK_CALLS = 8, /* small reads or writes after which a connection counts as idle again */
};

struct tls_stream {
	struct loop *loop;
	struct watch *watch;
	struct timer *deadline;
	SSL *ssl;
	int fd;
	bool open;
	bool held; /* the owner wants nothing to read */
	bool writable; /* the owner wants to know when */
	bool broken; /* OpenSSL forbids SSL_shutdown after a fatal error */
	bool gathers; /* records wait for those that follow at once */
	bool at_end; /* of what the socket gives */
	unsigned bulk; /* > 0: buffers are kept from one record to the next */
	char *batch; /* records for the socket; NULL while there are none, but for bulk */
	size_t batch_start, batch_end, batch_size;
	uint64_t records, key_records; /* written by this key, and how many may be */
	size_t owed; /* plaintext of the last of them: said to be written once all are sent */
	unsigned interest;
	enum tls_proof proof;
	char *host; /* NULL: server */
	char *alpn;
	const char *const *offers;
	char *peer;
	char why[256];
	tls_event_fn *on;
	void *arg;
};

/* A client's order counts: AES-128 takes a sixth less of the CPU than AES-256. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

/* OpenSSL numbers such attachments once for the whole process; app data belongs to base/pki. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int stream_index;
static BIO_METHOD *socket_method;

static int put(BIO *bio, const char *data, int n);
static int get(BIO *bio, char *to, int n);
static long control(BIO *bio, int what, long number, void *arg);

static void
register_once(void)
{
	stream_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tls_stream");
	if (socket_method == NULL)
		return;
	BIO_meth_set_write(socket_method, put);
	BIO_meth_set_read(socket_method, get);
	BIO_meth_set_ctrl(socket_method, control);
}

/* --- the socket below OpenSSL: one packet for the records of one write --------------------------------- */

static int
put(BIO *bio, const char *data, int n)
{
	struct tls_stream *s = BIO_get_data(bio);
	ssize_t rc;

	BIO_clear_retry_flags(bio);
	if (s->gathers || s->batch_start < s->batch_end) {
		if ((size_t)n > s->batch_size - s->batch_end) {
			BIO_set_retry_write(bio);
			return -1;
		}
		memcpy(s->batch + s->batch_end, data, (size_t)n);
		s->batch_end += (size_t)n;
		return n;
	}
	rc = send(s->fd, data, (size_t)n, MSG_NOSIGNAL);
	if (rc < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_write(bio);
	return (int)rc;
}

/* 0: all of the batch is sent; -EAGAIN or another -errno. */
static int
send_batch(struct tls_stream *s)
{
	while (s->batch_start < s->batch_end) {
		ssize_t n = send(s->fd, s->batch + s->batch_start, s->batch_end - s->batch_start,
			MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return -errno;
		s->batch_start += n > 0 ? (size_t)n : 0;
	}
	s->batch_start = s->batch_end = 0;
	return 0;
}

static int
get(BIO *bio, char *to, int n)
{
	struct tls_stream *s = BIO_get_data(bio);
	ssize_t rc = recv(s->fd, to, (size_t)n, 0);

	BIO_clear_retry_flags(bio);
	if (rc < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	s->at_end |= rc == 0;
	return (int)rc;
}

static long
control(BIO *bio, int what, long number, void *arg)
{
	const struct tls_stream *s = BIO_get_data(bio);

	(void)number;
	(void)arg;
	return what == BIO_CTRL_EOF ? s->at_end : what == BIO_CTRL_FLUSH;
}

static bool
set_bio(struct tls_stream *s)
{
	BIO *bio = socket_method != NULL ? BIO_new(socket_method) : NULL;

	if (bio == NULL)
		return false;
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	SSL_set_bio(s->ssl, bio, bio);
	return true;
}

static int
on_verify(int ok, X509_STORE_CTX *chain)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct tls_stream *s = SSL_get_ex_data(ssl, stream_index);
	enum pki_step step;

	if (s->proof == TLS_HUB)
		step = pki_verify_hub_step(chain, ok == 1, s->why, sizeof s->why);
	else if (s->host != NULL)
		step = pki_verify_step(chain, ok == 1, s->host, s->why, sizeof s->why);
	else
		step = pki_verify_client_step(chain, ok == 1, s->why, sizeof s->why);
	return step != PKI_REFUSED;
}

/* Is the name in the client's list? */
static bool
select_name(const char *name, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len)
{
	size_t n = strlen(name);

	for (unsigned i = 0; i < in_len && in[i] < in_len - i; i += in[i] + 1u)
		if (in[i] == n && memcmp(in + i + 1, name, n) == 0) {
			*out = in + i + 1;
			*out_len = in[i];
			return true;
		}
	return false;
}

static int
on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
	unsigned in_len, void *arg)
{
	const struct tls_stream *s = SSL_get_ex_data(ssl, stream_index);

	(void)arg;
	if (s != NULL && s->alpn != NULL)
		return select_name(s->alpn, out, out_len, in, in_len) ? SSL_TLSEXT_ERR_OK
								      : SSL_TLSEXT_ERR_ALERT_FATAL;
	for (const char *const *at = s != NULL ? s->offers : NULL; at != NULL && *at != NULL; at++)
		if (select_name(*at, out, out_len, in, in_len))
			return SSL_TLSEXT_ERR_OK;
	return SSL_TLSEXT_ERR_NOACK;
}

/* The names as a ClientHello has them: bytes, or -EINVAL. */
static int
write_names(const struct tls_stream *s, unsigned char list[ALPN_BYTES])
{
	const char *const own[] = {s->alpn, NULL};
	size_t len = 0;

	for (const char *const *at = s->alpn != NULL ? own : s->offers; at != NULL && *at != NULL;
		at++) {
		size_t n = strlen(*at);

		if (n == 0 || n > 255 || n + 1 > ALPN_BYTES - len)
			return -EINVAL;
		list[len] = (unsigned char)n;
		memcpy(list + len + 1, *at, n);
		len += n + 1;
	}
	return (int)len;
}

static int
set_protocol(struct tls_stream *s, SSL_CTX *ctx)
{
	unsigned char list[ALPN_BYTES];
	int n = write_names(s, list);

	if (n < 0)
		return -EINVAL;
	if (s->host == NULL) {
		if (n > 0)
			SSL_CTX_set_alpn_select_cb(ctx, on_alpn, NULL);
		SSL_set_accept_state(s->ssl);
		return 0;
	}
	SSL_set_connect_state(s->ssl);
	(void)SSL_set_ciphersuites(s->ssl, SUITES);
	if (SSL_set_tlsext_host_name(s->ssl, s->host) != 1)
		return -EINVAL;
	if (n == 0)
		return 0;
	return SSL_set_alpn_protos(s->ssl, list, (unsigned)n) == 0 ? 0 : -EINVAL;
}

static void
set_interest(struct tls_stream *s, unsigned interest)
{
	if (interest != s->interest)
		watch_set(s->watch, interest);
	s->interest = interest;
}

static void
ask(struct tls_stream *s)
{
	unsigned interest = (s->held ? 0 : WATCH_READ) | (s->writable ? WATCH_WRITE : 0);

	if (s->watch != NULL)
		set_interest(s, interest != 0 ? interest : WATCH_HUP);
}

/* The last word; the stream may be gone afterwards. */
static void
fail(struct tls_stream *s, const char *why)
{
	if (s->why[0] == '\0' && !pki_peer_alert(s->ssl, s->why, sizeof s->why))
		snprintf(s->why, sizeof s->why, "%s", why);
	ERR_clear_error();
	timer_cancel(s->deadline);
	watch_stop(&s->watch);
	s->broken = true;
	s->on(s->arg, TLS_FAILED);
}

static bool
agreed(const struct tls_stream *s)
{
	const unsigned char *name = NULL;
	unsigned n = 0;

	if (s->alpn == NULL)
		return true;
	SSL_get0_alpn_selected(s->ssl, &name, &n);
	return n == strlen(s->alpn) && memcmp(name, s->alpn, n) == 0;
}

static void
shake(struct tls_stream *s)
{
	int rc, error = sock_error(s->fd);
	char words[200] = "the connection ended during the TLS handshake";

	if (error != 0) {
		fail(s, strerror(error));
		return;
	}
	ERR_clear_error();
	rc = SSL_do_handshake(s->ssl);
	if (rc != 1) {
		int want = SSL_get_error(s->ssl, rc);

		if (want == SSL_ERROR_WANT_READ || want == SSL_ERROR_WANT_WRITE) {
			set_interest(s,
				want == SSL_ERROR_WANT_READ ? WATCH_READ
							    : WATCH_READ | WATCH_WRITE);
			return;
		}
		if (ERR_peek_error() != 0 && ERR_reason_error_string(ERR_peek_error()) != NULL)
			snprintf(words, sizeof words, "the TLS handshake failed: %s",
				ERR_reason_error_string(ERR_peek_error()));
		fail(s, words);
		return;
	}
	if (!agreed(s)) {
		fail(s, "the peer does not speak the tunnel's protocol (ALPN)");
		return;
	}
	timer_cancel(s->deadline);
	s->peer = pki_peer_name(s->ssl);
	s->open = true;
	set_interest(s, WATCH_READ);
	s->on(s->arg, TLS_OPEN);
}

static void
on_late(void *arg)
{
	fail(arg, "the TLS handshake took too long");
}

static void
on_watch(void *arg, int fd, unsigned events)
{
	struct tls_stream *s = arg;

	(void)fd;
	if (!s->open)
		shake(s);
	else if (events & WATCH_WRITE)
		s->on(s->arg, TLS_WRITABLE); /* its owner reads as well, if there is something */
	else
		s->on(s->arg, TLS_READABLE);
}

static void
set_socket(int fd)
{
	int notsent = NOTSENT_BYTES, timeout = USER_TIMEOUT_MS;

	/* A Unix socket has none of these; a kernel without them serves as well. */
	sock_nodelay(fd);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &notsent, sizeof notsent);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
}

int
tls_stream_new(const struct tls_setup *setup, struct tls_stream **out, struct err *err)
{
	struct tls_stream *s = xcalloc(1, sizeof *s);

	pthread_once(&once, register_once);
	s->loop = setup->loop;
	s->fd = setup->fd;
	s->proof = setup->proof;
	s->on = setup->on;
	s->arg = setup->arg;
	s->alpn = setup->alpn != NULL ? xstrdup(setup->alpn) : NULL;
	s->offers = setup->offers;
	s->key_records = setup->key_records > 0 ? setup->key_records : (uint64_t)TLS_KEY_RECORDS;
	s->host = setup->host != NULL ? xstrdup(setup->host) : NULL;
	s->ssl = SSL_new(setup->ctx);
	if (s->ssl == NULL || SSL_set_ex_data(s->ssl, stream_index, s) != 1 || !set_bio(s) ||
		set_protocol(s, setup->ctx) < 0) {
		s->broken = true;
		tls_stream_free(&s);
		ERR_clear_error();
		return err_set(err, EINVAL, "cannot make a TLS connection");
	}
	SSL_set_mode(s->ssl,
		SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
			SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* A peer that was killed says no close_notify; whoever reads knows by other means what is complete. */
	SSL_set_options(s->ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
	if (setup->proof != TLS_ANYBODY)
		SSL_set_verify(
			s->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verify);
	else
		SSL_set_verify(s->ssl, SSL_VERIFY_NONE, NULL);
	set_socket(s->fd);
	s->deadline = timer_new(s->loop, on_late, s);
	timer_start(s->deadline, setup->deadline_ms != 0 ? setup->deadline_ms : HANDSHAKE_MS, 0);
	/* A client speaks first, and not before it is connected. */
	s->interest = s->host != NULL ? WATCH_READ | WATCH_WRITE : WATCH_READ;
	s->watch = watch_start(s->loop, s->fd, s->interest, on_watch, s);
	*out = s;
	return 0;
}

void
tls_stream_free(struct tls_stream **stream)
{
	struct tls_stream *s = take_ptr(stream);

	if (s == NULL)
		return;
	if (s->open && !s->broken)
		SSL_shutdown(s->ssl);
	ERR_clear_error();
	if (s->deadline != NULL)
		timer_free(&s->deadline);
	if (s->watch != NULL)
		watch_stop(&s->watch);
	SSL_free(s->ssl);
	close(s->fd);
	free(s->host);
	free(s->alpn);
	free(s->peer);
	free(s->batch);
	free(s);
}

void
tls_stream_reset(struct tls_stream **stream)
{
	struct linger now = {.l_onoff = 1};

	if (*stream == NULL)
		return;
	(*stream)->broken = true;
	(void)setsockopt((*stream)->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	tls_stream_free(stream);
}

void
tls_stream_use(struct tls_stream *s, tls_event_fn *on, void *arg)
{
	s->on = on;
	s->arg = arg;
}

/* SSL_get_error looks at the thread's queue; clearing an empty one takes as long as a small record. */
static void
forget_errors(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/* What a call that did not move a byte means: 0 at the end, else -errno. */
static ssize_t
refused(struct tls_stream *s, int rc)
{
	int saved = errno;

	switch (SSL_get_error(s->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
	case SSL_ERROR_WANT_WRITE:
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		s->broken = true;
		return saved != 0 ? -saved : -ECONNRESET;
	default:
		s->broken = true;
		return -EPROTO;
	}
}

static void
make_batch(struct tls_stream *s, size_t size)
{
	if (s->batch_size >= size)
		return;
	free(s->batch);
	s->batch = xmalloc(size);
	s->batch_size = size;
}

static void
drop_batch(struct tls_stream *s)
{
	if (s->batch_end > 0)
		return;
	free(take_ptr(&s->batch));
	s->batch_size = 0;
}

/* Large buffers, which stay while whole records go; handshakes and idle connections have small ones that come and go. */
static void
tell_bulk(struct tls_stream *s, bool bulk)
{
	if (bulk && s->bulk == 0) {
		SSL_set_read_ahead(s->ssl, 1);
		SSL_set_default_read_buffer_len(s->ssl, AHEAD_BYTES);
	} else if (bulk) {
		SSL_clear_mode(s->ssl, SSL_MODE_RELEASE_BUFFERS); /* the small one has gone */
	}
	if (bulk) {
		s->bulk = BULK_CALLS;
	} else if (s->bulk > 0 && --s->bulk == 0) {
		SSL_set_mode(s->ssl, SSL_MODE_RELEASE_BUFFERS);
		SSL_set_read_ahead(s->ssl, 0);
		SSL_set_default_read_buffer_len(s->ssl, 0);
		drop_batch(s);
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
	return n > 0 ? n : refused(s, n);
}

/* RFC 8446 section 5.5: AES-GCM is good for 2^24.5 full records by one key, which bulk through a tunnel reaches; OpenSSL does not
 * change it by itself. While a record is half written it cannot be changed: then before the next one. TLS 1.2 knows no such thing. */
static void
mind_the_key(struct tls_stream *s)
{
	if (++s->records < s->key_records)
		return;
	if (SSL_version(s->ssl) != TLS1_3_VERSION ||
		SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
		s->records = 0;
}

/* > 0: of the plaintext that is in records now; or as refused(). */
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
	done = (int)refused(s, done);
	return done == 0 ? -EPIPE : done;
}

/* Several records, one system call. Of what the socket does not take at once, the last record is said to be unwritten still. */
static ssize_t
write_records(struct tls_stream *s, const char *data, size_t n)
{
	size_t total = 0, last = 0;
	ssize_t did = 0;
	int rc;

	make_batch(s, BATCH_BYTES);
	s->gathers = true;
	while (total < n && s->batch_size - s->batch_end >= TLS_RECORD_BYTES + RECORD_EXTRA) {
		did = write_record(s, data + total, MIN(n - total, (size_t)TLS_RECORD_BYTES));
		if (did < 0)
			break;
		last = (size_t)did;
		total += last;
	}
	s->gathers = false;
	if (total == 0)
		return did;
	rc = send_batch(s);
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
	rc = send_batch(s);
	if (rc < 0) {
		s->broken |= rc != -EAGAIN;
		return rc;
	}
	assert(paid <= n); /* what was not said to be written comes again */
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
	int rc = s->broken ? -EPIPE : send_batch(s);

	s->broken |= rc < 0 && rc != -EAGAIN;
	if (rc == 0 && s->bulk == 0)
		drop_batch(s);
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
	if (s->broken || s->batch_size - s->batch_end < need) {
		rc = tls_stream_send(s);
		if (rc < 0)
			return rc;
		make_batch(s, s->bulk > 0 ? (size_t)BATCH_BYTES : need);
	}
	s->gathers = true;
	did = write_record(s, data, n);
	s->gathers = false;
	if (did == (ssize_t)n)
		return did;
	s->broken = true; /* there was room: nothing else can be the matter */
	return did < 0 && did != -EAGAIN ? did : -EPROTO;
}

void
tls_stream_want(struct tls_stream *s, bool writable)
{
	s->writable = writable;
	ask(s);
}

void
tls_stream_hold(struct tls_stream *s, bool held)
{
	s->held = held;
	ask(s);
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

const char *
tls_stream_sni(const struct tls_stream *s)
{
	const char *name = SSL_get_servername(s->ssl, TLSEXT_NAMETYPE_host_name);

	return name != NULL ? name : "";
}

const char *
tls_stream_peer(const struct tls_stream *s)
{
	return s->peer != NULL ? s->peer : "";
}

int64_t
tls_stream_peer_ends(const struct tls_stream *s, char serial[PKI_SERIAL_TEXT])
{
	pki_peer_serial(s->ssl, serial);
	return pki_peer_not_after(s->ssl);
}

const char *
tls_stream_why(const struct tls_stream *s)
{
	return s->why;
}
