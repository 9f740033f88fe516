#include "base/tls/tls_session.h"

#include <pthread.h>
#include <time.h>

#include <openssl/ssl.h>

#include "base/core/util.h"
#include "base/tls/pki.h"

/* A certificate is not looked at again when its session is resumed: so not for ever. */
enum { RESUME_S = 3600 };

/* OpenSSL assigns ex_data indexes once per process. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int slot_index, full_index; /* of the SSL; of the SSL_SESSION: time of its full handshake */

static void
register_once(void)
{
	slot_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	full_index = SSL_SESSION_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

static time_t
tls_session_full(const SSL_SESSION *session)
{
	return (time_t)(intptr_t)SSL_SESSION_get_ex_data(session, full_index);
}

/* TLS 1.3 servers send their tickets after the handshake, several in a row. 1: we keep it. One of a
 * resumed connection is a copy of the session before it, with its ex_data. */
static int
tls_session_on_new(SSL *ssl, SSL_SESSION *session)
{
	SSL_SESSION **slot = SSL_get_ex_data(ssl, slot_index);

	if (slot == NULL || SSL_SESSION_is_resumable(session) != 1)
		return 0;
	if (SSL_session_reused(ssl) != 1)
		(void)SSL_SESSION_set_ex_data(session, full_index, (void *)(intptr_t)time(NULL));
	tls_session_free(slot);
	*slot = session;
	return 1;
}

int
tls_backend_ctx(const char *ca_pem, SSL_CTX **ctx, struct err *err)
{
	int rc = pki_backend_ctx(ca_pem, ctx, err);

	pthread_once(&once, register_once);
	if (rc == 0)
		SSL_CTX_sess_set_new_cb(*ctx, tls_session_on_new);
	return rc;
}

void
tls_session_use(SSL *ssl, SSL_SESSION **slot)
{
	if (slot == NULL)
		return;
	if (*slot != NULL && time(NULL) - tls_session_full(*slot) > (time_t)RESUME_S)
		tls_session_free(slot);
	if (*slot != NULL)
		(void)SSL_set_session(ssl, *slot);
	(void)SSL_set_ex_data(ssl, slot_index, slot);
}

void
tls_session_free(SSL_SESSION **slot)
{
	SSL_SESSION_free(take_ptr(slot));
}
