#include "tests/unit/dns/dns_bed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dns/forward/loop_probe.h"
#include "tests/unit/patience.h"

/* --- upstreams ------------------------------------------------------------------------------ */

/* An answer that waits for its time. */
struct held {
	struct held *next;
	struct bed_upstream *u;
	struct timer *later;
	struct addr to;
	size_t len;
	uint8_t m[512];
};

static void
held_free(struct held *h)
{
	struct held **at = &h->u->held;

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	timer_free(&h->later);
	free(h);
}

static void
send_held(void *arg)
{
	struct held *h = arg;

	sendto(h->u->fd, h->m, h->len, 0, &h->to.sa, h->to.len);
	held_free(h);
}

/* Asked again meanwhile: no reason to be slower. c-ares since 1.34.6 asks from another port. */
static bool
is_held(const struct bed_upstream *u, const struct held *again)
{
	for (struct held *h = u->held; h != NULL; h = h->next) {
		if (memcmp(h->m, again->m, 2) == 0) {
			h->to = again->to;
			return true;
		}
	}
	return false;
}

static void
answer(struct bed_upstream *u, struct held *h)
{
	static const uint8_t rr[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2};
	size_t end = dns_name_skip(h->m, h->len, DNS_HEADER) + 4;
	uint8_t *m = h->m;

	if (u->mode == ECHO)
		return;
	m[2] |= 0x80;
	m[3] = u->mode == FAIL ? 0x82 : u->mode == REFUSE ? 0x85 : 0x80;
	m[11] = 0;
	if (u->mode == TRUNCATE && m[DNS_HEADER] != 0)
		m[2] |= DNS_FLAG_TC >> 8;
	else if (m[3] == 0x80 && m[DNS_HEADER] != 0) {
		memcpy(m + end, rr, sizeof rr);
		m[end + 9] = u->ttl_s;
		m[end + sizeof rr] = u->mode == FORGE ? 66 : u->ip;
		end += sizeof rr + 1;
		m[7] = 1;
	}
	for (size_t i = DNS_HEADER; (u->mode == FOLD || u->mode == FORGE) && i < end; i++) {
		if (m[i] >= 'A' && m[i] <= 'Z')
			m[i] |= 0x20;
	}
	if (u->mode == LIE)
		m[13] ^= 1; /* another name, or type */
	h->len = end - (u->mode == TORN);
}

/* A dnsmasq that knows nobody but us: what it is asked comes to us, what we say goes back. */
static void
pass_on(struct bed_upstream *u, struct held *h)
{
	struct addr us = addr_ipv4(INADDR_LOOPBACK, *u->port);

	if (addr_port(&h->to) != *u->port) {
		h->u = u;
		h->next = u->held;
		u->held = h;
		sendto(u->fd, h->m, h->len, 0, &us.sa, us.len);
		return;
	}
	for (struct held *to = u->held; to != NULL; to = to->next) {
		if (memcmp(to->m, h->m, 2) != 0)
			continue;
		sendto(u->fd, h->m, h->len, 0, &to->to.sa, to->to.len);
		held_free(to);
		break;
	}
	free(h);
}

/* Pulses (of the root) are answered as the others are, and not counted. */
static void
on_query(void *arg, int fd, unsigned events)
{
	struct bed_upstream *u = arg;
	struct held *h = xcalloc(1, sizeof *h);
	bool pulse, slow;
	ssize_t n;

	(void)events;
	h->to.len = sizeof h->to.in;
	n = recvfrom(fd, h->m, sizeof h->m - 32, 0, &h->to.sa, &h->to.len);
	h->len = n > 0 ? (size_t)n : 0;
	if (n > DNS_HEADER && u->mode == LOOP) {
		pass_on(u, h);
		return;
	}
	pulse = n > DNS_HEADER && h->m[DNS_HEADER] == 0;
	if (n > DNS_HEADER && !pulse && loop_probe_parse(h->m, h->len) == 0) {
		u->asked++;
		u->flags = h->m[2];
		u->ad_cd = h->m[3];
		u->edns_do = h->len >= DNS_OPT_BYTES && (h->m[h->len - 4] & 0x80) != 0;
	}
	slow = u->mode == SLOW || (u->mode == SLOW_NAMES && !pulse);
	if (n <= DNS_HEADER || u->mode == SILENT || (slow && is_held(u, h))) {
		free(h);
		return;
	}
	h->u = u;
	h->next = u->held;
	u->held = h;
	answer(u, h);
	if (!slow) {
		send_held(h);
		return;
	}
	h->later = timer_new(u->loop, send_held, h);
	timer_start(h->later, u->delay_ms, 0);
}

static void
tcp_close_peer(struct bed_upstream *u)
{
	watch_stop(&u->tcp_peer_watch);
	if (u->tcp_peer >= 0)
		close(take_fd(&u->tcp_peer));
}

/* One question a connection, which comes in one piece on the loopback. */
static void
on_tcp_query(void *arg, int fd, unsigned events)
{
	struct bed_upstream *u = arg;
	enum bed_mode mode = u->mode;
	struct held h;
	uint8_t prefix[2];
	ssize_t n = recv(fd, prefix, sizeof prefix, 0);

	(void)events;
	n = n == sizeof prefix ? recv(fd, h.m, sizeof h.m - 32, 0) : 0;
	if (n > DNS_HEADER) {
		u->tcp_asked++;
		h.len = (size_t)n;
		if (mode == FORGE)
			u->mode = ANSWER; /* it is the upstream itself */
		answer(u, &h);
		u->mode = mode;
		dns_put16(prefix, (uint16_t)h.len);
		assert_int_equal(send(fd, prefix, sizeof prefix, MSG_MORE), sizeof prefix);
		assert_int_equal(send(fd, h.m, h.len, 0), h.len);
	}
	tcp_close_peer(u);
}

static void
on_tcp_connection(void *arg, int fd, unsigned events)
{
	struct bed_upstream *u = arg;

	(void)events;
	tcp_close_peer(u);
	u->tcp_peer = accept(fd, NULL, NULL);
	assert_true(u->tcp_peer >= 0);
	u->tcp_peer_watch = watch_start(u->loop, u->tcp_peer, WATCH_READ, on_tcp_query, u);
}

void
bed_upstream_tcp(struct bed_upstream *u)
{
	assert_int_equal(sock_listen(&u->addr, 0, &u->tcp, NULL), 0);
	u->tcp_watch = watch_start(u->loop, u->tcp, WATCH_READ, on_tcp_connection, u);
}

/* A port that is free for UDP and TCP alike, and that the kernel gives nobody meanwhile: below
 * those that it chooses from. Tests beside this one begin elsewhere. */
static uint16_t
free_port(void)
{
	enum { FIRST_PORT = 10240, PORTS = 20480, STRIDE = 97 };
	static unsigned n;

	for (unsigned i = 0; i < 100; i++) {
		uint16_t port =
			(uint16_t)(FIRST_PORT + ((unsigned)getpid() * STRIDE + n++) % PORTS);
		struct addr at = addr_ipv4(INADDR_LOOPBACK, port);
		auto_fd int udp = -1, tcp = -1;

		if (sock_udp(&at, 0, &udp, NULL) == 0 && sock_listen(&at, 0, &tcp, NULL) == 0)
			return port;
	}
	fail_msg("no port is free for UDP and TCP");
	return 0;
}

static void
upstream_open(struct bed *f, struct bed_upstream *u, uint8_t ip)
{
	struct addr any = addr_ipv4(INADDR_LOOPBACK, free_port());

	u->ip = ip;
	u->ttl_s = 60;
	u->tcp = u->tcp_peer = -1;
	u->delay_ms = 300;
	assert_int_equal(sock_udp(&any, 0, &u->fd, NULL), 0);
	u->addr.len = sizeof u->addr.in;
	assert_int_equal(getsockname(u->fd, &u->addr.sa, &u->addr.len), 0);
	u->loop = f->loop;
	u->port = &f->port;
	u->watch = watch_start(f->loop, u->fd, WATCH_READ, on_query, u);
}

void
bed_upstream_close(struct bed_upstream *u)
{
	watch_stop(&u->watch);
	watch_stop(&u->tcp_watch);
	tcp_close_peer(u);
	if (u->tcp >= 0)
		close(take_fd(&u->tcp));
	while (u->held != NULL)
		held_free(u->held);
	if (u->fd >= 0)
		close(u->fd);
	u->fd = -1;
}

/* --- fixture -------------------------------------------------------------------------------- */

void
bed_turn(struct bed *f)
{
	patience_turn(f->loop);
}

static void
on_stopped(void *arg)
{
	((struct bed *)arg)->stopped = true;
}

void
bed_begin_stop(struct bed *f)
{
	dns_stop(&f->dns, on_stopped, f);
}

void
bed_stop(struct bed *f)
{
	bed_begin_stop(f);
	patience_until(bed_turn(f), f->stopped);
}

void
bed_start(struct bed *f)
{
	struct dns_config c = {
		.main = f->loop,
		.workers = f->workers,
		.n_workers = 2,
		.cluster_domain = "cluster.local",
		.port = f->port,
		.ttl_s = 30,
		.upstreams = f->upstreams,
		.resolv_conf = f->path,
		.manage_resolv_conf = false,
		.ask_pod = f->ask_pod,
		.ask_pod_arg = f,
	};
	struct err err;

	f->upstreams[f->n_upstreams++] = f->up[0].addr;
	f->upstreams[f->n_upstreams++] = f->up[1].addr;
	c.n_upstreams = f->n_upstreams;
	assert_int_equal(dns_open(&f->dns, &c, &err), 0);
	dns_use(f->dns, f->snapshot);
	if (dns_listen(f->dns, INADDR_LOOPBACK, &err) < 0)
		fail_msg("%s", err.text);
	assert_true(dns_listening(f->dns));
	for (unsigned i = 0; i < 5; i++)
		bed_turn(f);
}

int
bed_setup(void **state)
{
	struct bed *f = xcalloc(1, sizeof *f);
	struct addr any = addr_ipv4(INADDR_LOOPBACK, 0);

	assert_int_equal(loop_new(&f->loop, NULL), 0);
	f->workers[0] = f->workers[1] = f->loop;
	upstream_open(f, &f->up[0], 1);
	upstream_open(f, &f->up[1], 2);
	assert_int_equal(sock_udp(&any, 0, &f->client, NULL), 0);
	f->port = free_port();
	strcpy(f->folder, "/tmp/edgeway-dns-XXXXXX");
	assert_non_null(mkdtemp(f->folder));
	sprintf(f->path, "%s/resolv.conf", f->folder);
	f->snapshot = kit_snapshot();
	buf_init(&f->text, BUF_UNLIMITED);
	*state = f;
	return 0;
}

int
bed_teardown(void **state)
{
	struct bed *f = *state;

	if (f->dns != NULL)
		bed_stop(f);
	bed_upstream_close(&f->up[0]);
	bed_upstream_close(&f->up[1]);
	close(f->client);
	loop_free(&f->loop);
	snapshot_unref(&f->snapshot);
	buf_fini(&f->text);
	unlink(f->path);
	assert_int_equal(rmdir(f->folder), 0);
	free(f);
	return 0;
}

/* --- a client ------------------------------------------------------------------------------- */

void
bed_send(struct bed *f, const uint8_t *m, size_t len)
{
	struct addr to = addr_ipv4(INADDR_LOOPBACK, f->port);

	assert_int_equal(sendto(f->client, m, len, 0, &to.sa, to.len), len);
}

const char *
bed_receive(struct bed *f, uint64_t wait_ms)
{
	uint64_t until = mono_ms() + wait_ms;
	struct addr from = {.len = sizeof from.in};
	uint8_t m[2048];

	while (mono_ms() < until) {
		ssize_t n = recvfrom(f->client, m, sizeof m, MSG_DONTWAIT, &from.sa, &from.len);

		if (n > 0) {
			assert_int_equal(addr_port(&from), f->port);
			assert_int_equal(dns_get16(m), 0xbeef);
			return kit_describe(&f->text, m, (size_t)n);
		}
		bed_turn(f);
	}
	return "nothing";
}

const char *
bed_ask(struct bed *f, const char *name, uint64_t wait_ms)
{
	uint8_t m[512];

	bed_send(f, m, kit_query(m, name, DNS_A, DNS_FLAG_RD, KIT_PLAIN));
	return bed_receive(f, wait_ms);
}

const char *
bed_fresh(struct bed *f)
{
	/* So many letters that nobody guesses their case: of 11 one in 2048 is all small. */
	snprintf(
		f->name, sizeof f->name, "h%u.the.quick.brown.fox.jumps.example.org", ++f->n_names);
	return f->name;
}
