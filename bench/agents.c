/*
 * Many nodes in one process, for bench_fanout.py and tests/net/metadata/test_fanout.py: each with
 * its own TLS connection and certificate (signed here with the hub's CA), the upgrade, hello,
 * digests, changes and their acknowledgements as in doc/protocol.md. A node's data is kept as keys
 * and digests of the views, so that `check` can ask the hub whether everything is in step.
 *
 *	agents ADDRESS PORT HOSTNAME CA.pem CA.key [plain | tunnels]
 *
 * plain: no bundles, and the hello does not say that there is no tunnel. tunnels: each node has a
 * tunnel as well (HTTP/2 without streams), dialled once its websocket is open, and keeps both by
 * the kernel's probes as agents do (doc/protocol.md, "Liveness").
 *
 * Commands on stdin, each answered with one JSON line:
 *	connect N [STAGGER_MS]	N nodes are connected and in step; those that were before stay
 *	storm N SECONDS		N nodes come by themselves as agents do, all at once, with an agent's
 *				patience and back-off; ends when all are in step and have their tunnels
 *	first NUMBER		of the nodes that are made, when several processes have a part each
 *	make N			N nodes exist, with certificates
 *	sources ADDRESS COUNT	nodes dial from these local addresses in turn
 *	heartbeat MS		what nodes ask the hub for from now on
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

#include <openssl/err.h>
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

void
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
	if (why != NULL && !w.coming)
		fprintf(stderr, "%s: %s\n", n->name, why);
	if (!n->synced && !w.storm)
		w.n_connecting--;
	w.failed += n->phase < OPEN;
	if (n->phase == TLS || n->phase == UPGRADE)
		w.n_under_way--;
	SSL_free(n->ssl);
	close(n->fd);
	buf_fini(&n->in);
	buf_fini(&n->out);
	buf_fini(&n->message);
	buf_fini(&n->lines);
	n->ssl = NULL;
	retry_later(&n->retry, n->phase > TLS);
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
	const char *end = strstr(buf_str(&n->in), "\r\n\r\n"), *wait;
	auto_free char *said = NULL;

	if (end == NULL)
		return;
	if (strncmp(buf_at(&n->in), "HTTP/1.1 101", 12) != 0) {
		said = xstrdup(buf_str(&n->in));
		wait = strstr(said, "\r\nretry-after: ");
		w.failed -= wait != NULL;
		close_node(n, said);
		if (wait != NULL)
			retry_as_told(&n->retry, wait + 15);
		return;
	}
	buf_consume(&n->in, (size_t)(end - buf_at(&n->in)) + 4);
	n->phase = OPEN;
	n->retry.most_ms = RETRY_FIRST_MS;
	w.n_under_way--;
	w.resumed += SSL_session_reused(n->ssl);
	if (w.tunnels)
		tunnel_dial(n);
}

static void
on_readable(struct node *n)
{
	char piece[PIECE];
	int len;

	while (n->phase >= UPGRADE && !n->stalled) {
		ERR_clear_error(); /* SSL_get_error reads also what other connections left */
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
	char heartbeat[48] = "";
	int rc, why;
	bool busy;

	ERR_clear_error();
	rc = SSL_do_handshake(n->ssl);

	if (rc != 1) {
		why = SSL_get_error(n->ssl, rc);
		n->writes = why == SSL_ERROR_WANT_WRITE;
		if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) {
			busy = is_busy_alert();
			w.failed -= busy;
			close_node(n, "TLS failed");
			if (busy)
				retry_as_told(&n->retry, "2");
		} else
			interest(n);
		return;
	}
	n->writes = false;
	n->phase = UPGRADE;
	if (w.heartbeat_ms > 0)
		snprintf(heartbeat, sizeof heartbeat, "edgeway-heartbeat: %u\r\n", w.heartbeat_ms);
	else if (w.tunnels)
		snprintf(heartbeat, sizeof heartbeat, "edgeway-upkeep: probes\r\n");
	buf_printf(&n->out,
		"GET /" MESH_PROJECT "/%s/events HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		"Sec-WebSocket-Version: 13\r\nnode_id: %s\r\nproject_id: " MESH_PROJECT "\r\n"
		"ConnectionUse: msg\r\nedgeway-version: 1\r\nedgeway-agent: bench\r\n%s%s\r\n",
		n->name, w.host, n->name, heartbeat,
		w.plain             ? ""
			: w.tunnels ? "edgeway-bundles: " BUNDLE_KIND "\r\n"
				    : "edgeway-bundles: " BUNDLE_KIND "\r\n" MESH_TUNNEL_HEADER
				      ": off\r\n");
	flush(n);
}

/* --- connecting ----------------------------------------------------------------------------- */

static void
make_node(struct node *n, unsigned number)
{
	struct pki_issue issue = {
		.ca_cert_pem = w.ca, .ca_key_pem = w.ca_key, .client = true, .days = 30};
	auto_free char *pem = NULL;
	struct err err;
	BIO *bio;

	number += w.first;
	n->number = number;
	snprintf(n->name, sizeof n->name, "node-%u", number);
	issue.common_name = n->name;
	if (pki_sign_key(&issue, w.leaf_key, &pem, &err) < 0)
		die(err.text);
	bio = BIO_new_mem_buf(pem, -1);
	n->cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	n->tunnel.is_tunnel = true;
	n->tunnel.of = n;
}

/* --- time ----------------------------------------------------------------------------------- */

/* Nodes that read answer the hub's pings; stalled nodes send pings, so that the hub finds them
 * slow, not dead. */
static void
ping_stalled(void)
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

void
turn(int ms)
{
	struct epoll_event events[256];
	int n = epoll_wait(w.epoll, events, 256, ms);

	for (int i = 0; i < n; i++) {
		struct node *node = events[i].data.ptr;

		if (node->is_tunnel)
			tunnel_ready(events[i].data.ptr, events[i].events);
		else if (node->phase == TLS)
			on_handshake(node);
		else if (node->phase != IDLE &&
			(events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !node->stalled)
			on_readable(node);
		else if (node->phase != IDLE)
			flush(node);
	}
	ping_stalled();
	tunnels_look();
}

/* --- commands ------------------------------------------------------------------------------- */

void
make_nodes(unsigned n)
{
	for (; w.n < MIN(n, (unsigned)MOST); w.n++)
		make_node(&w.nodes[w.n], (unsigned)w.n);
}

static void
do_connect(unsigned n, double stagger_ms)
{
	double start = now();

	w.storm = false;
	make_nodes(n);
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
do_sources(const char *address, unsigned n)
{
	w.sources.sin_family = AF_INET;
	w.n_sources = n;
	if (inet_pton(AF_INET, address, &w.sources.sin_addr) != 1)
		die("address");
	printf("{}\n");
}

static void
do_first(unsigned number)
{
	w.first = number;
	printf("{}\n");
}

static void
do_make(unsigned n)
{
	make_nodes(n);
	printf("{\"nodes\":%zu}\n", w.n);
}

static void
do_heartbeat(unsigned ms)
{
	w.heartbeat_ms = ms;
	printf("{}\n");
}

static void
do_drop(void)
{
	for (size_t i = 0; i < w.n; i++) {
		close_node(&w.nodes[i], NULL);
		tunnel_close(&w.nodes[i].tunnel, NULL);
	}
	printf("{}\n");
}

static void
on_command(const char *line)
{
	unsigned n = 0;
	char address[32];
	double x = 0;

	if (sscanf(line, "storm %u %lf", &n, &x) == 2)
		do_storm(n, x);
	else if (sscanf(line, "sources %31s %u", address, &n) == 2)
		do_sources(address, n);
	else if (sscanf(line, "first %u", &n) == 1)
		do_first(n);
	else if (sscanf(line, "make %u", &n) == 1)
		do_make(n);
	else if (sscanf(line, "heartbeat %u", &n) == 1)
		do_heartbeat(n);
	else if (sscanf(line, "connect %u %lf", &n, &x) >= 1)
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
		fprintf(stderr,
			"usage: agents ADDRESS PORT HOSTNAME CA.pem CA.key [plain | tunnels]\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN); /* a hub that has cut a connection */
	w.hub = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
	if (inet_pton(AF_INET, argv[1], &w.hub.sin_addr) != 1)
		die("address");
	w.host = argv[3];
	w.tunnels = argc > 6 && strcmp(argv[6], "tunnels") == 0;
	w.plain = argc > 6 && strcmp(argv[6], "plain") == 0;
	if (file_read(argv[4], PIECE, &w.ca, NULL) < 0 ||
		file_read(argv[5], PIECE, &w.ca_key, NULL) < 0)
		die("CA");
	bio = BIO_new_mem_buf(w.ca, -1);
	w.ca_x509 = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	if (pki_key_new(&w.leaf_key, &err) < 0)
		die(err.text);
	tls_start();
	w.nodes = xcalloc(MOST, sizeof *w.nodes);
	w.epoll = epoll_create1(EPOLL_CLOEXEC);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	signal(SIGPIPE, SIG_IGN);
	fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	printf("{\"ready\":true}\n");
	fflush(stdout);
	while (next_command()) {
	}
	return 0;
}
