/*
 * Many nodes in one process, for bench_fanout.py and tests/net/metadata/test_fanout.py: each with
 * its own TLS connection and certificate (signed here with the hub's CA), the upgrade, hello,
 * digests, changes and their acknowledgements as in doc/protocol.md. A node's data is kept as keys
 * and digests of the views, so that `check` can ask the hub whether everything is in step.
 *
 *	agents ADDRESS PORT HOSTNAME CA.pem CA.key [plain]
 *
 * plain: no bundles, and the hello does not say that there is no tunnel.
 *
 * Commands on stdin, each answered with one JSON line:
 *	connect N [STAGGER_MS]	N nodes are connected and in step; those that were before stay
 *	mark			counts changes and bytes from here
 *	changes K SECONDS	when all reading nodes had K changes since the mark (monotonic, s)
 *	check			how many nodes that read are in step with the hub, by digests
 *	stall I / read I	node I stops reading, and says pings meanwhile / reads again
 *	hub ADDRESS		where to connect to from now on
 *	bytes			of all connections since the mark, as TCP counts them
 *	drop			closes all; what they hold is kept for the next connect
 */
#include "bench/agents.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "base/core/buf.h"
#include "base/core/hash.h"
#include "base/tls/pki.h"
#include "model/bundle.h"
#include "model/digest.h"
#include "model/envelope.h"
#include "model/mesh.h"
#include "model/view.h"

struct world w;

double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void
die(const char *what)
{
	perror(what);
	exit(1);
}

void
interest(struct node *n)
{
	struct epoll_event e = {
		.events = (n->stalled ? 0u : (unsigned)EPOLLIN) |
			(buf_len(&n->out) > 0 || n->writes ? (unsigned)EPOLLOUT : 0u),
		.data.ptr = n,
	};

	if (epoll_ctl(w.epoll, EPOLL_CTL_MOD, n->fd, &e) < 0)
		die("epoll_ctl");
}

/* --- frames --------------------------------------------------------------------------------- */

static void
close_node(struct node *n, const char *why)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;

	if (n->phase == IDLE)
		return;
	if (getsockopt(n->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0) {
		n->now_in += info.tcpi_bytes_received;
		n->now_out += info.tcpi_bytes_acked;
	}
	if (why != NULL)
		fprintf(stderr, "%s: %s\n", n->name, why);
	if (!n->synced && n->phase != IDLE)
		w.n_connecting--;
	if (n->phase == TLS || n->phase == UPGRADE)
		w.n_under_way--;
	SSL_free(n->ssl);
	close(n->fd);
	buf_fini(&n->in);
	buf_fini(&n->out);
	buf_fini(&n->message);
	buf_fini(&n->lines);
	n->ssl = NULL;
	n->phase = IDLE;
	n->synced = false;
}

/* Returns true if a complete frame was there. */
static bool
take_frame(struct node *n)
{
	const unsigned char *p = (const unsigned char *)buf_at(&n->in);
	size_t have = buf_len(&n->in), head = 2, len;

	if (have < 2)
		return false;
	len = p[1] & 0x7f;
	if (len == 126)
		head = 4;
	else if (len == 127)
		head = 10;
	if (have < head)
		return false;
	if (head > 2) {
		len = 0;
		for (size_t i = 2; i < head; i++)
			len = len << 8 | p[i];
	}
	if (have < head + len)
		return false;
	if ((p[0] & 0x0f) == 9) {
		send_frame(n, 10, (const char *)p + head, len);
	} else if ((p[0] & 0x0f) == 8) {
		fprintf(stderr, "%s: closed: %.*s\n", n->name, (int)(len > 2 ? len - 2 : 0),
			(const char *)p + head + 2);
	} else if ((p[0] & 0x0f) < 2) {
		buf_add(&n->message, p + head, len);
		if (p[0] & 0x80) {
			buf_str(&n->message);
			on_message(n, buf_at(&n->message), buf_len(&n->message));
			buf_consume(&n->message, buf_len(&n->message));
		}
	}
	buf_consume(&n->in, head + len);
	return true;
}

static void
on_upgrade(struct node *n)
{
	const char *end = strstr(buf_str(&n->in), "\r\n\r\n");

	if (end == NULL)
		return;
	if (strncmp(buf_at(&n->in), "HTTP/1.1 101", 12) != 0) {
		close_node(n, buf_str(&n->in));
		return;
	}
	buf_consume(&n->in, (size_t)(end - buf_at(&n->in)) + 4);
	n->phase = OPEN;
	w.n_under_way--;
}

static void
on_readable(struct node *n)
{
	char piece[PIECE];
	int len;

	while (n->phase >= UPGRADE && !n->stalled) {
		len = SSL_read(n->ssl, piece, sizeof piece);
		if (len <= 0) {
			if (SSL_get_error(n->ssl, len) != SSL_ERROR_WANT_READ)
				close_node(n, "the hub ended the connection");
			break;
		}
		buf_add(&n->in, piece, (size_t)len);
		if (n->phase == UPGRADE)
			on_upgrade(n);
		while (n->phase == OPEN && take_frame(n)) {
		}
	}
	if (n->phase == IDLE)
		return;
	send_lines(n);
	flush(n);
}

static void
on_handshake(struct node *n)
{
	int rc = SSL_do_handshake(n->ssl), why;

	if (rc != 1) {
		why = SSL_get_error(n->ssl, rc);
		n->writes = why == SSL_ERROR_WANT_WRITE;
		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE)
			close_node(n, "TLS failed");
		else
			interest(n);
		return;
	}
	n->writes = false;
	n->phase = UPGRADE;
	buf_printf(&n->out,
		"GET /" MESH_PROJECT "/%s/events HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		"Sec-WebSocket-Version: 13\r\nnode_id: %s\r\nproject_id: " MESH_PROJECT "\r\n"
		"ConnectionUse: msg\r\nedgeway-version: 1\r\nedgeway-agent: bench\r\n%s\r\n",
		n->name, w.host, n->name,
		w.plain ? ""
			: "edgeway-bundles: " BUNDLE_KIND "\r\n" MESH_TUNNEL_HEADER ": off\r\n");
	flush(n);
}

/* --- connecting ----------------------------------------------------------------------------- */

static SSL_CTX *
context(struct node *n)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	BIO *cert_bio = BIO_new_mem_buf(n->cert, -1), *key_bio = BIO_new_mem_buf(w.leaf_key, -1);
	X509 *cert = PEM_read_bio_X509(cert_bio, NULL, NULL, NULL);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(key_bio, NULL, NULL, NULL);

	X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), w.ca_x509);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(ctx,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			SSL_MODE_RELEASE_BUFFERS);
	if (SSL_CTX_use_certificate(ctx, cert) != 1 || SSL_CTX_use_PrivateKey(ctx, key) != 1)
		die("certificate");
	X509_free(cert);
	EVP_PKEY_free(key);
	BIO_free(cert_bio);
	BIO_free(key_bio);
	return ctx;
}

static void
dial(struct node *n)
{
	auto_free char *host = xstrdup(w.host);
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = n};
	SSL_CTX *ctx = context(n);

	n->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (n->fd < 0 ||
		(connect(n->fd, (struct sockaddr *)&w.hub, sizeof w.hub) < 0 &&
			errno != EINPROGRESS))
		die("connect");
	if (epoll_ctl(w.epoll, EPOLL_CTL_ADD, n->fd, &e) < 0)
		die("epoll_ctl");
	n->ssl = SSL_new(ctx);
	SSL_CTX_free(ctx);
	SSL_set_fd(n->ssl, n->fd);
	/* The macro would cast const away. */
	SSL_ctrl(n->ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host);
	SSL_set_connect_state(n->ssl);
	buf_init(&n->in, BUF_UNLIMITED);
	buf_init(&n->out, BUF_UNLIMITED);
	buf_init(&n->message, BUF_UNLIMITED);
	buf_init(&n->lines, BUF_UNLIMITED);
	n->phase = TLS;
	n->writes = true;
	n->stalled = n->synced = false;
	w.n_under_way++;
}

static void
make_node(struct node *n, unsigned number)
{
	struct pki_issue issue = {
		.ca_cert_pem = w.ca, .ca_key_pem = w.ca_key, .client = true, .days = 30};
	struct err err;

	n->number = number;
	snprintf(n->name, sizeof n->name, "node-%u", number);
	issue.common_name = n->name;
	if (pki_sign_key(&issue, w.leaf_key, &n->cert, &err) < 0)
		die(err.text);
}

/* --- time ----------------------------------------------------------------------------------- */

/* Nodes that read answer the hub's pings; stalled nodes send pings, so that the hub finds them
 * slow, not dead. */
static void
ping(void)
{
	if (now() - w.pinged < PING_MS / 1000.0)
		return;
	w.pinged = now();
	for (size_t i = 0; i < w.n; i++) {
		if (w.nodes[i].phase == OPEN && w.nodes[i].stalled) {
			send_frame(&w.nodes[i], 9, "", 0);
			flush(&w.nodes[i]);
		}
	}
}

static void
turn(int ms)
{
	struct epoll_event events[256];
	int n = epoll_wait(w.epoll, events, 256, ms);

	for (int i = 0; i < n; i++) {
		struct node *node = events[i].data.ptr;

		if (node->phase == TLS)
			on_handshake(node);
		else if (node->phase != IDLE &&
			(events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !node->stalled)
			on_readable(node);
		else if (node->phase != IDLE)
			flush(node);
	}
	ping();
}

/* --- commands ------------------------------------------------------------------------------- */

static void
do_connect(unsigned n, double stagger_ms)
{
	double start = now();

	for (; w.n < n; w.n++)
		make_node(&w.nodes[w.n], (unsigned)w.n);
	for (size_t i = 0; i < n; i++) {
		if (w.nodes[i].phase != IDLE)
			continue;
		w.n_connecting++;
		while (w.n_under_way >= UNDER_WAY)
			turn(100);
		dial(&w.nodes[i]);
		for (double until = now() + stagger_ms / 1000; stagger_ms > 0 && now() < until;)
			turn(1);
	}
	while (w.n_connecting > 0)
		turn(100);
	n = 0;
	for (size_t i = 0; i < w.n; i++)
		n += w.nodes[i].synced;
	printf("{\"connected\":%u,\"seconds\":%.4f}\n", n, now() - start);
}

static void
count_bytes(struct node *n, uint64_t *in, uint64_t *out)
{
	struct tcp_info info = {0};
	socklen_t len = sizeof info;

	*in = n->now_in;
	*out = n->now_out;
	if (n->phase != IDLE && getsockopt(n->fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0) {
		*in += info.tcpi_bytes_received;
		*out += info.tcpi_bytes_acked;
	}
}

static void
do_mark(void)
{
	for (size_t i = 0; i < w.n; i++) {
		w.nodes[i].changes = 0;
		w.nodes[i].reached = 0;
		count_bytes(&w.nodes[i], &w.nodes[i].was_in, &w.nodes[i].was_out);
	}
	printf("{\"at\":%.6f}\n", now());
}

static void
do_bytes(void)
{
	uint64_t in = 0, out = 0;

	for (size_t i = 0; i < w.n; i++) {
		uint64_t a, b;

		count_bytes(&w.nodes[i], &a, &b);
		in += a - w.nodes[i].was_in;
		out += b - w.nodes[i].was_out;
	}
	printf("{\"received\":%llu,\"sent\":%llu}\n", (unsigned long long)in,
		(unsigned long long)out);
}

static int
by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void
do_changes(unsigned k, double seconds)
{
	double end = now() + seconds, *times = xcalloc(w.n + 1, sizeof *times);
	size_t n, waits;

	w.wanted = k;
	for (size_t i = 0; i < w.n; i++)
		w.nodes[i].reached = w.nodes[i].changes < k ? 0
			: w.nodes[i].reached > 0            ? w.nodes[i].reached
							    : now();
	do {
		turn(10);
		n = waits = 0;
		for (size_t i = 0; i < w.n; i++) {
			if (w.nodes[i].phase != OPEN || w.nodes[i].stalled)
				continue;
			if (w.nodes[i].reached > 0)
				times[n++] = w.nodes[i].reached;
			else
				waits++;
		}
	} while (waits > 0 && now() < end);
	qsort(times, n, sizeof *times, by_time);
	printf("{\"reached\":%zu,\"waiting\":%zu,\"p50\":%.6f,\"p99\":%.6f,\"last\":%.6f}\n", n,
		waits, n > 0 ? times[n / 2] : 0, n > 0 ? times[n * 99 / 100] : 0,
		n > 0 ? times[n - 1] : 0);
	free(times);
}

static void
do_check(void)
{
	double end = now() + 30;
	size_t waits, n;

	for (size_t i = 0; i < w.n; i++) {
		struct node *node = &w.nodes[i];

		node->in_step = false;
		node->asked_check = node->phase == OPEN && !node->stalled;
		if (node->asked_check) {
			send_buckets(node);
			send_lines(node);
			flush(node);
		}
	}
	do {
		turn(10);
		waits = n = 0;
		for (size_t i = 0; i < w.n; i++) {
			waits += w.nodes[i].phase == OPEN && w.nodes[i].asked_check;
			n += w.nodes[i].in_step;
		}
	} while (waits > 0 && now() < end);
	printf("{\"in_step\":%zu,\"holds\":%zu}\n", n, w.n > 0 ? w.nodes[0].n_held : 0);
}

static void
do_stall(unsigned i, bool stalled)
{
	int small = 4096;

	if (i < w.n && w.nodes[i].phase == OPEN) {
		w.nodes[i].stalled = stalled;
		if (stalled) /* limits what the kernel would buffer meanwhile */
			setsockopt(w.nodes[i].fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
		interest(&w.nodes[i]);
		if (!stalled)
			on_readable(&w.nodes[i]);
	}
	printf("{\"connected\":%s}\n", i < w.n && w.nodes[i].phase == OPEN ? "true" : "false");
}

static void
do_hub(const char *address)
{
	if (inet_pton(AF_INET, address, &w.hub.sin_addr) != 1)
		die("address");
	printf("{}\n");
}

static void
do_drop(void)
{
	for (size_t i = 0; i < w.n; i++)
		close_node(&w.nodes[i], NULL);
	printf("{}\n");
}

static void
on_command(const char *line)
{
	unsigned n = 0;
	double x = 0;

	if (sscanf(line, "connect %u %lf", &n, &x) >= 1)
		do_connect(MIN(n, (unsigned)MOST), x);
	else if (sscanf(line, "changes %u %lf", &n, &x) == 2)
		do_changes(n, x);
	else if (sscanf(line, "stall %u", &n) == 1)
		do_stall(n, true);
	else if (sscanf(line, "read %u", &n) == 1)
		do_stall(n, false);
	else if (strncmp(line, "hub ", 4) == 0)
		do_hub(line + 4);
	else if (strncmp(line, "mark", 4) == 0)
		do_mark();
	else if (strncmp(line, "bytes", 5) == 0)
		do_bytes();
	else if (strncmp(line, "check", 5) == 0)
		do_check();
	else if (strncmp(line, "drop", 4) == 0)
		do_drop();
	else
		printf("{\"error\":\"no such command\"}\n");
	fflush(stdout);
}

/* While waiting for a command the nodes continue. */
static bool
next_command(void)
{
	static char line[256];
	static size_t have;
	ssize_t len;
	char *end;

	turn(5);
	len = read(STDIN_FILENO, line + have, sizeof line - 1 - have);
	if (len == 0)
		return false;
	if (len > 0)
		have += (size_t)len;
	line[have] = '\0';
	while ((end = strchr(line, '\n')) != NULL) {
		*end = '\0';
		on_command(line);
		have -= (size_t)(end + 1 - line);
		memmove(line, end + 1, have + 1);
	}
	return true;
}

int
main(int argc, char **argv)
{
	struct rlimit limit;
	struct err err;
	BIO *bio;

	if (argc < 6) {
		fprintf(stderr, "usage: agents ADDRESS PORT HOSTNAME CA.pem CA.key [plain]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN); /* a hub that has cut a connection */
	w.hub = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
	if (inet_pton(AF_INET, argv[1], &w.hub.sin_addr) != 1)
		die("address");
	w.host = argv[3];
	w.plain = argc > 6 && strcmp(argv[6], "plain") == 0;
	if (file_read(argv[4], PIECE, &w.ca, NULL) < 0 ||
		file_read(argv[5], PIECE, &w.ca_key, NULL) < 0)
		die("CA");
	bio = BIO_new_mem_buf(w.ca, -1);
	w.ca_x509 = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	if (pki_key_new(&w.leaf_key, &err) < 0)
		die(err.text);
	w.nodes = xcalloc(MOST, sizeof *w.nodes);
	w.epoll = epoll_create1(EPOLL_CLOEXEC);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	printf("{\"ready\":true}\n");
	fflush(stdout);
	while (next_command()) {
	}
	return 0;
}
