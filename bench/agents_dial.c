#include "bench/agents.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/core/util.h"

static int session_slot;

/* The newest ticket of each connection's owner. */
static int
on_new_session(SSL *ssl, SSL_SESSION *session)
{
	SSL_SESSION **slot = SSL_get_ex_data(ssl, session_slot);

	SSL_SESSION_free(*slot);
	*slot = SSL_SESSION_dup(session); /* that of a killed hub's connection is given up */
	return 0;
}

/* One context for all: each connection sets its own certificate. */
void
tls_start(void)
{
	BIO *bio = BIO_new_mem_buf(w.leaf_key, -1);

	w.leaf = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	BIO_free(bio);
	session_slot = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
	w.tls = SSL_CTX_new(TLS_client_method());
	X509_STORE_add_cert(SSL_CTX_get_cert_store(w.tls), w.ca_x509);
	SSL_CTX_set_verify(w.tls, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(
		w.tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL_STORE);
	SSL_CTX_sess_set_new_cb(w.tls, on_new_session);
	SSL_CTX_set_mode(w.tls,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			SSL_MODE_RELEASE_BUFFERS);
}

static int
dial_socket(const struct node *n, void *owner)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = owner};
	struct sockaddr_in from = w.sources;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		die("socket");
	if (w.n_sources > 0) {
		from.sin_addr.s_addr = htonl(ntohl(from.sin_addr.s_addr) + n->number % w.n_sources);
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
		if (bind(fd, (struct sockaddr *)&from, sizeof from) < 0)
			die("bind");
	}
	if (connect(fd, (struct sockaddr *)&w.hub, sizeof w.hub) < 0 && errno != EINPROGRESS)
		die("connect");
	if (epoll_ctl(w.epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		die("epoll_ctl");
	return fd;
}

SSL *
dial_hub(const struct node *n, SSL_SESSION **session, const char *alpn, void *owner, int *fd)
{
	auto_free char *host = xstrdup(w.host);
	unsigned char offer[64];
	SSL *ssl = SSL_new(w.tls);

	if (SSL_use_certificate(ssl, n->cert) != 1 || SSL_use_PrivateKey(ssl, w.leaf) != 1)
		die("certificate");
	*fd = dial_socket(n, owner);
	SSL_set_fd(ssl, *fd);
	/* The macro would cast const away. */
	SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host);
	SSL_set_ex_data(ssl, session_slot, session);
	if (*session != NULL)
		SSL_set_session(ssl, *session);
	if (alpn != NULL) {
		offer[0] = (unsigned char)strlen(alpn);
		memcpy(offer + 1, alpn, offer[0]);
		SSL_set_alpn_protos(ssl, offer, offer[0] + 1u);
	}
	SSL_set_connect_state(ssl);
	w.dials++;
	return ssl;
}

void
dial(struct node *n)
{
	n->ssl = dial_hub(n, &n->session, NULL, n, &n->fd);
	buf_init(&n->in, BUF_UNLIMITED);
	buf_init(&n->out, BUF_UNLIMITED);
	buf_init(&n->message, BUF_UNLIMITED);
	buf_init(&n->lines, BUF_UNLIMITED);
	n->phase = TLS;
	n->writes = true;
	n->stalled = n->synced = false;
	n->retry.since = now();
	w.n_under_way++;
}

/* --- storms --------------------------------------------------------------------------------- */

void
retry_later(struct retry *r, bool answered)
{
	const unsigned most = answered ? RETRY_MOST_MS : RETRY_UNANSWERED_MS;

	r->most_ms = r->most_ms == 0 ? (unsigned)RETRY_FIRST_MS : r->most_ms;
	r->due = now() + (double)((unsigned)random() % (r->most_ms + 1)) / 1000;
	r->most_ms = MIN(MAX(r->most_ms * 2, (unsigned)RETRY_FIRST_MS), most);
}

void
retry_as_told(struct retry *r, const char *seconds)
{
	r->due = now() + MIN(atof(seconds), 300.0) + (double)(random() % 4000) / 1000;
	w.asked_to_wait++;
}

bool
is_busy_alert(void)
{
	return ERR_GET_REASON(ERR_peek_error()) == SSL_R_TLSV1_ALERT_INTERNAL_ERROR;
}

static void
storm_look(struct node *n, double at)
{
	struct tunnel *t = &n->tunnel;

	if (n->phase == IDLE && at >= n->retry.due)
		dial(n);
	else if ((n->phase == TLS || n->phase == UPGRADE) && at - n->retry.since > PATIENCE_S)
		close_node(n, "no answer in time");
	if (!w.tunnels)
		return;
	if (t->phase == IDLE && n->phase == OPEN && at >= t->retry.due)
		tunnel_dial(n);
	else if (t->phase != IDLE && !t->settled && at - t->retry.since > PATIENCE_S)
		tunnel_close(t, "no answer in time");
}

void
do_storm(unsigned n, double seconds)
{
	double start = now(), looked = 0;
	unsigned ready = 0, tunnels = 0;

	make_nodes(n);
	w.storm = w.coming = true;
	w.dials = w.failed = w.asked_to_wait = w.resumed = 0;
	n = (unsigned)MIN((size_t)n, w.n);
	for (size_t i = 0; i < n; i++) {
		if (w.nodes[i].phase == IDLE) {
			w.nodes[i].retry.most_ms = RETRY_FIRST_MS;
			retry_later(&w.nodes[i].retry, false);
		}
	}
	while ((ready < n || (w.tunnels && tunnels < n)) && now() - start < seconds) {
		turn(10);
		if (now() - looked < 0.02)
			continue;
		looked = now();
		ready = tunnels = 0;
		for (size_t i = 0; i < n; i++) {
			storm_look(&w.nodes[i], looked);
			ready += w.nodes[i].synced;
			tunnels += w.nodes[i].tunnel.settled;
		}
	}
	w.coming = false;
	printf("{\"connected\":%u,\"tunnels\":%u,\"seconds\":%.4f,\"dials\":%u,\"failed\":%u,"
	       "\"asked_to_wait\":%u,\"resumed\":%u}\n",
		ready, tunnels, now() - start, w.dials, w.failed, w.asked_to_wait, w.resumed);
}
