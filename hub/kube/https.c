/* libcurl calls back from within its own functions, and a callback may stop any request. A handle
 * must not be removed then: https_stop puts the request into `dead`, and it is freed once libcurl
 * has returned. */
#include "hub/kube/https.h"

#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>

enum {
	CONNECTIONS_KEPT = 8,
	BUFFER_BYTES = 64 * 1024,
	KEEPALIVE_IDLE_S = 10,
	KEEPALIVE_INTERVAL_S = 5,
	USER_TIMEOUT_MS = 25000,
};

struct https {
	struct loop *loop;
	CURLM *multi;
	struct timer *timer;
	unsigned inside; /* depth of calls from libcurl further up the stack */
	struct https_request *dead; /* stopped during such a call; freed later */
	size_t n_requests;
	unsigned unreached; /* requests in a row without a response */
};

struct socket {
	struct https *https;
	struct watch *watch;
	unsigned events;
};

struct https_request {
	struct https *https;
	struct https_request *next; /* in `dead` */
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	struct https_call call; /* after the start only the callbacks and silence_ms are used */
	struct timer *silence; /* also reports an error of the start */
	uint64_t heard_ms;
	int status, ended; /* ended: the return value of `data` */
	bool stopped, opened, silent;
	struct buf body;
	char why[CURL_ERROR_SIZE];
};

static void check_done(struct https *h);

/* --- libcurl on the loop -------------------------------------------------------------------- */

static void
https_bury(struct https_request *r)
{
	struct https *h = r->https;

	curl_multi_remove_handle(h->multi, r->easy);
	curl_easy_cleanup(r->easy);
	curl_slist_free_all(r->headers);
	curl_slist_free_all(r->connect_to);
	timer_free(&r->silence);
	buf_fini(&r->body);
	h->n_requests--;
	free(r);
}

static void
https_act(struct https *h, curl_socket_t fd, int events)
{
	int running;

	h->inside++;
	curl_multi_socket_action(h->multi, fd, events, &running);
	h->inside--;
	while (h->inside == 0 && h->dead != NULL) {
		struct https_request *r = h->dead;

		h->dead = r->next;
		https_bury(r);
	}
	check_done(h);
}

static void
on_timer(void *arg)
{
	https_act(arg, CURL_SOCKET_TIMEOUT, 0);
}

static int
on_curl_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct https *h = arg;

	(void)multi;
	if (timeout_ms < 0)
		timer_cancel(h->timer);
	else
		timer_start(h->timer, (uint64_t)timeout_ms, 0);
	return 0;
}

static void
on_socket(void *arg, int fd, unsigned events)
{
	struct socket *s = arg;
	int bits = 0;

	if (events & WATCH_HUP) {
		/* The watch ends with this event; libcurl itself asks for the error. */
		watch_stop(&s->watch);
		s->watch = watch_start(s->https->loop, fd, s->events, on_socket, s);
		bits |= CURL_CSELECT_ERR;
	}
	if (events & WATCH_READ)
		bits |= CURL_CSELECT_IN;
	if (events & WATCH_WRITE)
		bits |= CURL_CSELECT_OUT;
	https_act(s->https, fd, bits);
}

static int
on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct https *h = arg;
	struct socket *s = socket_arg;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		if (s != NULL) {
			watch_stop(&s->watch);
			curl_multi_assign(h->multi, fd, NULL);
			free(s);
		}
		return 0;
	}
	if (s == NULL) {
		s = xcalloc(1, sizeof *s);
		s->https = h;
		curl_multi_assign(h->multi, fd, s);
	}
	s->events =
		(what & CURL_POLL_IN ? WATCH_READ : 0u) | (what & CURL_POLL_OUT ? WATCH_WRITE : 0u);
	if (s->watch == NULL)
		s->watch = watch_start(h->loop, fd, s->events, on_socket, s);
	else
		watch_set(s->watch, s->events);
	return 0;
}

int
https_new(struct https **out, struct loop *loop, struct err *err)
{
	struct https *h;

	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, EIO, "libcurl cannot be initialised");
	h = xcalloc(1, sizeof *h);
	h->loop = loop;
	h->timer = timer_new(loop, on_timer, h);
	h->multi = curl_multi_init();
	if (h->multi == NULL)
		abort();
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
	curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
	curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
	curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_KEPT);
	*out = h;
	return 0;
}

void
https_free(struct https **out)
{
	struct https *h = take_ptr(out);

	if (h == NULL)
		return;
	/* Closing kept connections calls on_curl_socket and on_curl_timer again. */
	curl_multi_cleanup(h->multi);
	timer_free(&h->timer);
	free(h);
	curl_global_cleanup();
}

/* --- one request ---------------------------------------------------------------------------- */

static size_t
on_header(char *line, size_t size, size_t n, void *arg)
{
	struct https_request *r = arg;
	long status = 0;

	r->heard_ms = loop_now_ms(r->https->loop);
	if (r->stopped)
		return size * n;
	curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
	r->status = (int)status;
	if (size * n <= 2 && line[0] == '\r' && status / 100 == 2 && !r->opened) {
		r->opened = true;
		if (r->call.open != NULL)
			r->call.open(r->call.arg);
	}
	return size * n;
}

static size_t
on_body(char *data, size_t size, size_t n, void *arg)
{
	struct https_request *r = arg;

	r->heard_ms = loop_now_ms(r->https->loop);
	n *= size;
	if (r->stopped)
		return 0;
	if (r->status / 100 != 2) {
		buf_add(&r->body, data, MIN(n, HTTPS_ERROR_BYTES - buf_len(&r->body)));
		return n;
	}
	if (r->call.data != NULL)
		r->ended = r->call.data(r->call.arg, data, n);
	return r->ended == 0 && !r->stopped ? n : 0;
}

/* The kernel detects a dead server within USER_TIMEOUT_MS, unless a proxy hides it; then silence_ms
 * does. */
static int
on_sockopt(void *arg, curl_socket_t fd, curlsocktype purpose)
{
	unsigned timeout = USER_TIMEOUT_MS;

	(void)arg;
	(void)purpose;
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
	return CURL_SOCKOPT_OK;
}

static void
https_tell(struct https_request *r, const struct https_answer *answer)
{
	const struct https_call call = r->call;
	bool stopped = r->stopped;

	/* The request's data stays until the owner's callback has returned. */
	r->stopped = true;
	if (!stopped && call.done != NULL)
		call.done(call.arg, answer);
	https_bury(r);
}

static int
errno_of(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return -ETIMEDOUT;
	case CURLE_COULDNT_CONNECT:
		return -ECONNREFUSED;
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return -ENOENT;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
		return -EACCES;
	default:
		return -EIO;
	}
}

static void
https_finish(struct https_request *r, CURLcode code)
{
	struct https_answer answer = {.status = r->status, .whole = code == CURLE_OK, .text = ""};
	curl_off_t retry = 0;

	r->https->unreached = r->status != 0 ? 0 : r->https->unreached + 1;

	curl_easy_getinfo(r->easy, CURLINFO_RETRY_AFTER, &retry);
	answer.retry_after_s = (unsigned)MIN(MAX(retry, 0), 3600);
	answer.body = buf_str(&r->body);
	answer.body_len = buf_len(&r->body);
	if (r->ended != 0) {
		answer.code = r->ended;
	} else if (r->silent) {
		answer.code = -ETIMEDOUT;
		answer.text = "no byte came for too long";
	} else if (code == CURLE_OK && r->status / 100 == 2 && !r->opened) {
		answer.code = -EIO;
		answer.text = "the answer ended within its head";
		answer.whole = false;
	} else if (code != CURLE_OK) {
		answer.code = errno_of(code);
		answer.text = r->why[0] != '\0' ? r->why : curl_easy_strerror(code);
	}
	https_tell(r, &answer);
}

static void
check_done(struct https *h)
{
	CURLMsg *msg;
	int left;

	while (h->inside == 0 && (msg = curl_multi_info_read(h->multi, &left)) != NULL) {
		CURLcode code = msg->data.result;
		char *request = NULL;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &request);
		https_finish((struct https_request *)(void *)request, code);
	}
}

static void
on_silence(void *arg)
{
	struct https_request *r = arg;
	uint64_t now = loop_now_ms(r->https->loop), end = r->heard_ms + r->call.silence_ms;

	if (now < end) {
		timer_start(r->silence, end - now, 0);
		return;
	}
	r->silent = true;
	https_finish(r, CURLE_OPERATION_TIMEDOUT);
}

static void
set_blob(CURL *easy, CURLoption option, const char *text)
{
	struct curl_blob blob = {.flags = CURL_BLOB_COPY};

	if (text == NULL || text[0] == '\0')
		return;
	/* libcurl copies it, although its type is `void *` */
	memcpy(&blob.data, &text, sizeof text);
	blob.len = strlen(text);
	curl_easy_setopt(easy, option, &blob);
}

static bool
https_given(const char *text)
{
	return text != NULL && text[0] != '\0';
}

/* If the certificate has another name than the server's address: libcurl requests that name and
 * connects to the address. */
static void
set_url(struct https_request *r, const struct https_peer *peer, const char *path)
{
	const char *host = strstr(peer->server, "://") + 3;
	size_t authority = strcspn(host, "/");
	const char *colon = memrchr(host, ':', authority);
	auto_free char *url = NULL, *route = NULL;

	if (!https_given(peer->tls_name)) {
		url = xasprintf("%s%s", peer->server, path);
	} else {
		bool port = colon != NULL &&
			memchr(colon, ']', (size_t)(host + authority - colon)) == NULL;

		url = xasprintf("%.*s%s%.*s%s", (int)(host - peer->server), peer->server,
			peer->tls_name, port ? (int)strlen(colon) : (int)strlen(host + authority),
			port ? colon : host + authority, path);
		route = port ? xasprintf("::%.*s", (int)authority, host)
			     : xasprintf("::%.*s:", (int)authority, host);
		r->connect_to = curl_slist_append(NULL, route);
		curl_easy_setopt(r->easy, CURLOPT_CONNECT_TO, r->connect_to);
	}
	curl_easy_setopt(r->easy, CURLOPT_URL, url);
}

static void
set_peer(struct https_request *r, const struct https_peer *peer)
{
	curl_easy_setopt(r->easy, CURLOPT_PROTOCOLS_STR, "https,http");
	curl_easy_setopt(r->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(r->easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(r->easy, CURLOPT_SSL_VERIFYHOST, 2L);
	set_blob(r->easy, CURLOPT_CAINFO_BLOB, peer->ca);
	set_blob(r->easy, CURLOPT_SSLCERT_BLOB, peer->cert);
	set_blob(r->easy, CURLOPT_SSLKEY_BLOB, peer->key);
	if (https_given(peer->proxy))
		curl_easy_setopt(r->easy, CURLOPT_PROXY, peer->proxy);
	else if (strncmp(peer->server, "http:", 5) == 0)
		curl_easy_setopt(r->easy, CURLOPT_NOPROXY, "*"); /* the server is this machine */
	if (https_given(peer->token)) {
		auto_free char *header = xasprintf("Authorization: Bearer %s", peer->token);

		r->headers = curl_slist_append(r->headers, header);
	}
}

static void
set_call(struct https_request *r, const struct https_call *call)
{
	r->headers = curl_slist_append(r->headers, "Accept: application/json");
	/* If the name began with curl, the server would indent its JSON. */
	curl_easy_setopt(r->easy, CURLOPT_USERAGENT, "edgeway-hub/" EDGEWAY_VERSION);
	curl_easy_setopt(r->easy, CURLOPT_ACCEPT_ENCODING, "gzip");
	if (call->body != NULL) {
		auto_free char *type = xasprintf("Content-Type: %s", call->type);

		r->headers = curl_slist_append(r->headers, type);
		r->headers = curl_slist_append(r->headers, "Expect:");
		curl_easy_setopt(r->easy, CURLOPT_POSTFIELDSIZE, (long)strlen(call->body));
		curl_easy_setopt(r->easy, CURLOPT_COPYPOSTFIELDS, call->body);
	}
	if (call->method != NULL)
		curl_easy_setopt(r->easy, CURLOPT_CUSTOMREQUEST, call->method);
	curl_easy_setopt(r->easy, CURLOPT_HTTPHEADER, r->headers);
}

static void
set_transport(struct https_request *r)
{
	curl_easy_setopt(r->easy, CURLOPT_PRIVATE, r);
	curl_easy_setopt(r->easy, CURLOPT_ERRORBUFFER, r->why);
	curl_easy_setopt(r->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(r->easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(r->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(r->easy, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
	curl_easy_setopt(r->easy, CURLOPT_CONNECTTIMEOUT_MS,
		r->https->unreached % 4 == 0 ? (long)HTTPS_CONNECT_MS : (long)HTTPS_RECONNECT_MS);
	curl_easy_setopt(r->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(r->easy, CURLOPT_TCP_KEEPIDLE, (long)KEEPALIVE_IDLE_S);
	curl_easy_setopt(r->easy, CURLOPT_TCP_KEEPINTVL, (long)KEEPALIVE_INTERVAL_S);
	curl_easy_setopt(r->easy, CURLOPT_SOCKOPTFUNCTION, on_sockopt);
	curl_easy_setopt(r->easy, CURLOPT_HEADERFUNCTION, on_header);
	curl_easy_setopt(r->easy, CURLOPT_HEADERDATA, r);
	curl_easy_setopt(r->easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(r->easy, CURLOPT_WRITEDATA, r);
}

struct https_request *
https_start(struct https *h, const struct https_call *call)
{
	struct https_request *r = xcalloc(1, sizeof *r);

	r->https = h;
	r->call = *call;
	buf_init(&r->body, BUF_UNLIMITED);
	r->easy = curl_easy_init();
	if (r->easy == NULL)
		abort();
	r->heard_ms = loop_now_ms(h->loop);
	r->silence = timer_new(h->loop, on_silence, r);
	if (call->silence_ms > 0)
		timer_start(r->silence, call->silence_ms, 0);
	set_transport(r);
	set_url(r, call->peer, call->path);
	set_peer(r, call->peer);
	set_call(r, call);
	h->n_requests++;
	curl_multi_add_handle(h->multi, r->easy);
	return r;
}

void
https_stop(struct https_request **out)
{
	struct https_request *r = take_ptr(out);

	if (r == NULL || r->stopped)
		return;
	r->stopped = true;
	if (r->https->inside == 0) {
		https_bury(r);
		return;
	}
	r->next = r->https->dead;
	r->https->dead = r;
}
