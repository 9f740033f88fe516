#include "base/tls/tls_socket.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include "base/core/util.h"

/* OpenSSL assigns BIO method numbers once per process. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static BIO_METHOD *socket_method;

static int
tls_socket_put(BIO *bio, const char *data, int n)
{
	struct tls_socket *s = BIO_get_data(bio);
	ssize_t rc;

	BIO_clear_retry_flags(bio);
	if (s->gathers || s->batch_start < s->batch_end) {
		if ((size_t)n > tls_socket_room(s)) {
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

int
tls_socket_send(struct tls_socket *s)
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
tls_socket_get(BIO *bio, char *to, int n)
{
	struct tls_socket *s = BIO_get_data(bio);
	ssize_t rc = recv(s->fd, to, (size_t)n, 0);

	BIO_clear_retry_flags(bio);
	if (rc < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_retry_read(bio);
	s->at_end |= rc == 0;
	return (int)rc;
}

static long
tls_socket_control(BIO *bio, int what, long number, void *arg)
{
	const struct tls_socket *s = BIO_get_data(bio);

	(void)number;
	(void)arg;
	return what == BIO_CTRL_EOF ? s->at_end : what == BIO_CTRL_FLUSH;
}

static void
register_once(void)
{
	socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tls_socket");
	if (socket_method == NULL)
		return;
	BIO_meth_set_write(socket_method, tls_socket_put);
	BIO_meth_set_read(socket_method, tls_socket_get);
	BIO_meth_set_ctrl(socket_method, tls_socket_control);
}

bool
tls_socket_attach(struct tls_socket *s, SSL *ssl)
{
	BIO *bio;

	pthread_once(&once, register_once);
	bio = socket_method != NULL ? BIO_new(socket_method) : NULL;
	if (bio == NULL)
		return false;
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	return true;
}

void
tls_socket_make_room(struct tls_socket *s, size_t size)
{
	if (s->batch_size >= size)
		return;
	free(s->batch);
	s->batch = xmalloc(size);
	s->batch_size = size;
}

size_t
tls_socket_room(const struct tls_socket *s)
{
	return s->batch_size - s->batch_end;
}

void
tls_socket_drop_room(struct tls_socket *s)
{
	if (s->batch_end > 0)
		return;
	free(take_ptr(&s->batch));
	s->batch_size = 0;
}

void
tls_socket_fini(struct tls_socket *s)
{
	free(take_ptr(&s->batch));
}
