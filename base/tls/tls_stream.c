#include "base/tls/tls_private.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>

#include "base/core/sock.h"
#include "base/tls/pki_tickets.h"
#include "base/tls/pki_tls.h"
#include "base/tls/tls_alpn.h"
#include "base/tls/tls_session.h"

enum {
	/* limits unsent data in the kernel, so that small messages wait less behind bulk */
	NOTSENT_BYTES = 128 * 1024,
	USER_TIMEOUT_MS = 10000, /* unacknowledged for so long: the peer is dead */
	HANDSHAKE_MS = 10000,
};

/* The client's order decides: AES-128 takes a sixth less of the CPU than AES-256. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

/* OpenSSL assigns ex_data indexes once per process; app data belongs to base/tls/pki. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int stream_index;

static void
register_once(void)
{
	stream_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

static int
on_verify(int ok, X509_STORE_CTX *chain)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct tls_stream *s = SSL_get_ex_data(ssl, stream_index);
	enum pki_step step;

	if (s->proof == TLS_HUB)
		step = pki_verify_hub_step(chain, ok == 1, s->why, sizeof s->why);
	else if (s->proof == TLS_NODE)
		step = pki_verify_node_step(chain, ok == 1, s->why, sizeof s->why);
	else if (s->names != NULL)
		step = pki_verify_names_step(chain, ok == 1, s->names, s->why, sizeof s->why);
	else if (s->host != NULL)
		step = pki_verify_step(chain, ok == 1, s->host, s->why, sizeof s->why);
	else
		step = pki_verify_client_step(chain, ok == 1, s->why, sizeof s->why);
	return step != PKI_REFUSED;
}

int
tls_alpn_on_select(SSL *ssl, const unsigned char **out, unsigned char *out_len,
	const unsigned char *in, unsigned in_len, void *arg)
{
	const struct tls_stream *s = SSL_get_ex_data(ssl, stream_index);

	(void)arg;
	if (s != NULL && s->alpn != NULL)
		return tls_alpn_select(s->alpn, out, out_len, in, in_len)
			? SSL_TLSEXT_ERR_OK
			: SSL_TLSEXT_ERR_ALERT_FATAL;
	for (const char *const *at = s != NULL ? s->offers : NULL; at != NULL && *at != NULL; at++)
		if (tls_alpn_select(*at, out, out_len, in, in_len))
			return SSL_TLSEXT_ERR_OK;
	return SSL_TLSEXT_ERR_NOACK;
}

static int
set_protocol(struct tls_stream *s)
{
	const char *const own[] = {s->alpn, NULL};
	unsigned char list[TLS_ALPN_BYTES];
	int n = tls_alpn_write(s->alpn != NULL ? own : s->offers, list);

	if (n < 0)
		return -EINVAL;
	if (s->host == NULL) {
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
tls_stream_ask(struct tls_stream *s)
{
	unsigned interest = (s->held ? 0 : WATCH_READ) | (s->writable ? WATCH_WRITE : 0);

	if (s->watch != NULL)
		set_interest(s, interest != 0 ? interest : WATCH_HUP);
}

/* The handshake is over: its owner may release the preauth slot. */
static void
tls_forget_place(struct tls_stream *s)
{
	struct preauth_conn *place = take_ptr(&s->place);

	if (place != NULL)
		preauth_cancel(place);
}

static int
tls_stream_explain(struct tls_stream *s, const char *why)
{
	if (s->why[0] == '\0' && (s->ssl == NULL || !pki_peer_alert(s->ssl, s->why, sizeof s->why)))
		snprintf(s->why, sizeof s->why, "%s", why);
	ERR_clear_error();
	s->broken = true;
	return -EPROTO;
}

/* Reports the failure; the stream may be freed afterwards. */
static void
tls_stream_fail(struct tls_stream *s, const char *why)
{
	tls_stream_explain(s, why);
	timer_cancel(s->deadline);
	watch_stop(&s->watch);
	tls_forget_place(s);
	s->on(s->arg, TLS_FAILED);
}

bool
tls_stream_busy(const struct tls_stream *s)
{
	return pki_peer_busy(s->ssl);
}

bool
tls_stream_speaks(const struct tls_stream *s, const char *alpn)
{
	const unsigned char *name = NULL;
	unsigned n = 0;

	SSL_get0_alpn_selected(s->ssl, &name, &n);
	return n == strlen(alpn) && memcmp(name, alpn, n) == 0;
}

static int
tls_stream_make(struct tls_stream *s)
{
	s->ssl = SSL_new(s->ctx);
	if (s->ssl == NULL || SSL_set_ex_data(s->ssl, stream_index, s) != 1 ||
		!tls_socket_attach(&s->socket, s->ssl) || set_protocol(s) < 0)
		return -EINVAL;
	pki_ctx_free(&s->ctx);
	if (s->resumes)
		pki_tickets_allow(s->ssl);
	SSL_set_mode(s->ssl,
		SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
			SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* A killed peer sends no close_notify; the tunnel's protocol knows by other means what is
	 * complete, which HTTP/1 does not always (RFC 9112 section 9.8): see tells_cut. As an
	 * error it would be told by an alert, to which a closed socket answers with a reset, which
	 * overtakes what was sent before. */
	SSL_set_options(s->ssl, SSL_OP_IGNORE_UNEXPECTED_EOF);
	if (s->proof != TLS_ANYBODY)
		SSL_set_verify(
			s->ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_verify);
	else
		SSL_set_verify(s->ssl, SSL_VERIFY_NONE, NULL);
	return 0;
}

int
tls_stream_step(struct tls_stream *s, unsigned *events)
{
	int rc, error = sock_error(s->socket.fd);
	char words[200] = "the connection ended during the TLS handshake";

	if (error != 0)
		return tls_stream_explain(s, strerror(error));
	if (s->ssl == NULL && tls_stream_make(s) < 0)
		return tls_stream_explain(s, "cannot make a TLS connection");
	ERR_clear_error();
	rc = SSL_do_handshake(s->ssl);
	if (rc != 1) {
		int want = SSL_get_error(s->ssl, rc);

		if (want == SSL_ERROR_WANT_READ || want == SSL_ERROR_WANT_WRITE) {
			*events =
				want == SSL_ERROR_WANT_READ ? WATCH_READ : WATCH_READ | WATCH_WRITE;
			return -EAGAIN;
		}
		if (ERR_peek_error() != 0 && ERR_reason_error_string(ERR_peek_error()) != NULL)
			snprintf(words, sizeof words, "the TLS handshake failed: %s",
				ERR_reason_error_string(ERR_peek_error()));
		return tls_stream_explain(s, words);
	}
	if (s->alpn != NULL && !tls_stream_speaks(s, s->alpn))
		return tls_stream_explain(s, "the peer does not speak the protocol (ALPN)");
	s->open = true;
	return 0;
}

static void
tls_stream_shake(struct tls_stream *s)
{
	unsigned events = 0;
	int rc = tls_stream_step(s, &events);

	if (rc == -EAGAIN) {
		set_interest(s, events);
		return;
	}
	if (rc < 0) {
		tls_stream_fail(s, s->why);
		return;
	}
	timer_cancel(s->deadline);
	tls_forget_place(s);
	s->peer = pki_peer_name(s->ssl);
	set_interest(s, WATCH_READ);
	s->on(s->arg, TLS_OPEN);
}

static void
tls_on_step(void *arg)
{
	tls_stream_shake(arg);
}

/* A handshake step costs as much as many requests: preauth schedules it fairly among clients. */
static void
tls_shake_in_turn(struct tls_stream *s, unsigned events)
{
	if (s->place != NULL && events == WATCH_HUP)
		preauth_cancel(s->place);
	if (s->place == NULL || events == WATCH_HUP || !preauth_step(s->place, tls_on_step, s))
		tls_stream_shake(s);
	else
		set_interest(s, WATCH_HUP);
}

static void
on_late(void *arg)
{
	tls_stream_fail(arg, "the TLS handshake took too long");
}

static void
on_watch(void *arg, int fd, unsigned events)
{
	struct tls_stream *s = arg;

	(void)fd;
	if (!s->open)
		tls_shake_in_turn(s, events);
	else if (events & WATCH_WRITE)
		s->on(s->arg, TLS_WRITABLE); /* the owner also reads, if there is data */
	else
		s->on(s->arg, TLS_READABLE);
}

/* Errors are ignored here: Unix sockets and old kernels lack these options. */
void
tls_stream_hurry(struct tls_stream *s)
{
	const int timeout = USER_TIMEOUT_MS;

	(void)setsockopt(s->socket.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
}

static void
set_socket(struct tls_stream *s)
{
	const int notsent = NOTSENT_BYTES;

	sock_nodelay(s->socket.fd);
	(void)setsockopt(s->socket.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &notsent, sizeof notsent);
	if (!s->patient)
		tls_stream_hurry(s);
}

/* The owner's own watch and deadline do that for a passive stream, and its read buffer is worth its
 * memory: a record then needs one system call instead of two. */
static void
tls_stream_begin(struct tls_stream *s, unsigned deadline_ms)
{
	if (s->loop == NULL) {
		SSL_set_read_ahead(s->ssl, 1);
		return;
	}
	set_socket(s);
	s->deadline = timer_new(s->loop, on_late, s);
	timer_start(s->deadline, deadline_ms != 0 ? deadline_ms : HANDSHAKE_MS, 0);
	/* The client sends first, and only once it is connected. */
	s->interest = s->host != NULL ? WATCH_READ | WATCH_WRITE : WATCH_READ;
	s->watch = watch_start(s->loop, s->socket.fd, s->interest, on_watch, s);
}

int
tls_stream_new(const struct tls_setup *setup, struct tls_stream **out, struct err *err)
{
	struct tls_stream *s = xcalloc(1, sizeof *s);

	pthread_once(&once, register_once);
	s->loop = setup->loop;
	s->socket.fd = setup->fd;
	s->proof = setup->proof;
	s->names = setup->names;
	s->on = setup->on;
	s->arg = setup->arg;
	s->alpn = setup->alpn != NULL ? xstrdup(setup->alpn) : NULL;
	s->offers = setup->offers;
	s->place = setup->place;
	s->key_records = setup->key_records > 0 ? setup->key_records : (uint64_t)TLS_KEY_RECORDS;
	s->host = setup->host != NULL ? xstrdup(setup->host) : NULL;
	s->resumes = setup->resumes;
	s->patient = setup->patient;
	s->tells_cut = setup->tells_cut || setup->loop == NULL;
	s->ctx = setup->ctx;
	pki_ctx_ref(s->ctx);
	/* A server's waits for the client's turn: strangers who say nothing, or stand in a queue,
	 * cost little memory. */
	if ((s->host != NULL || s->loop == NULL) && tls_stream_make(s) < 0) {
		s->broken = true;
		tls_stream_free(&s);
		ERR_clear_error();
		return err_set(err, EINVAL, "cannot make a TLS connection");
	}
	if (s->ssl != NULL)
		tls_session_use(s->ssl, setup->session);
	tls_stream_begin(s, setup->deadline_ms);
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
	tls_forget_place(s);
	if (s->deadline != NULL)
		timer_free(&s->deadline);
	if (s->watch != NULL)
		watch_stop(&s->watch);
	SSL_free(s->ssl);
	pki_ctx_free(&s->ctx);
	if (s->loop != NULL)
		close(s->socket.fd);
	free(s->host);
	free(s->alpn);
	free(s->peer);
	tls_socket_fini(&s->socket);
	free(s);
}

void
tls_stream_reset(struct tls_stream **stream)
{
	struct linger now = {.l_onoff = 1};

	if (*stream == NULL)
		return;
	(*stream)->broken = true;
	(void)setsockopt((*stream)->socket.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
	tls_stream_free(stream);
}

void
tls_stream_use(struct tls_stream *s, tls_event_fn *on, void *arg)
{
	s->on = on;
	s->arg = arg;
}

void
tls_stream_move(struct tls_stream *s, struct loop *loop)
{
	if (loop == NULL) {
		timer_free(&s->deadline);
		watch_stop(&s->watch);
		return;
	}
	s->loop = loop;
	s->interest = WATCH_READ;
	s->watch = watch_start(loop, s->socket.fd, WATCH_READ, on_watch, s);
}

void
tls_stream_want(struct tls_stream *s, bool writable)
{
	s->writable = writable;
	tls_stream_ask(s);
}

void
tls_stream_hold(struct tls_stream *s, bool held)
{
	s->held = held;
	tls_stream_ask(s);
}

int
tls_stream_fd(const struct tls_stream *s)
{
	return s->socket.fd;
}

bool
tls_stream_resumed(const struct tls_stream *s)
{
	return SSL_session_reused(s->ssl) == 1;
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
