/*
 *	OFF ──use──► CLAIMING ──nobody has the address──► RUNNING ──bridge gone, use(0)──► OFF
 *	 ▲             │                                    │
 *	 └─────────────┴────somebody else's ARP for it──────┘  then CLAIMING with the next
 *	          address below; after CLAIMS_MOST in a row, a while later
 *
 * While it runs, one timer begins a round and evaluates the previous one; a second timer repeats
 * within the round. Unanswered packets are forgotten at the end of the round: everything received
 * is compared with what the current round has sent.
 */
#include "src/agent/pod_canary.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fnmatch.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "iptables/iptables.h"
#include "model/json.h"
#include "src/agent/dns_selfcheck_frame.h"

enum {
	CLAIM_MS = 1000, /* RFC 5227: time for the owner of the address to object */
	CLAIMS_MOST = 8,
	AGAIN_MS = 1000, /* within a round */
	ROUNDS_OFF = 20, /* until the next attempt to start */
	ROUNDS_FLOODED = 3, /* in a row: then it is switched off */
	BAD_LEAST = 2, /* rounds in a row */
	PORT_FIRST = 32768, /* of our end */
	PORTS = 28000,
	RCODE_NXDOMAIN = 3,
	HEAD_BYTES = 12, /* of a DNS message (RFC 1035 section 4.1.1) */
	QUERY_MOST = 300,
	NUMBER_TEXT = 17, /* as the listener writes it, with its line feed */
	FRAMES_PER_TURN = 64,
	PAUSE_MS = 100, /* when they are used up because a neighbour floods us */
};

enum canary_state { CANARY_OFF, CANARY_CLAIMING, CANARY_RUNNING };

/* One of the two checks of a round. */
struct canary_try {
	bool done; /* answered in this round */
	unsigned bad; /* failed rounds in a row */
	uint64_t good; /* successful rounds */
	char fault[96]; /* of the current round, "" if nothing was heard */
	char last[96]; /* of the last round that failed */
};

struct pod_canary {
	struct pod_canary_config config;
	struct timer *round, *again, *pause;
	struct watch *watch;
	struct bridge_port port; /* fd -1: none */
	char on[IF_NAMESIZE]; /* the bridge that it is on */
	enum canary_state state;
	char off[256]; /* why it does not run; "" if no reason is known */
	unsigned waited; /* rounds since then */
	uint32_t mesh, bridge, address; /* mesh 0: not wanted; the bridge's address; our address */
	uint32_t known, former; /* the bridge's last address, and the one before, 0: none */
	uint32_t stale; /* who last asked ARP for `former`, 0: nobody; when */
	uint64_t stale_ms;
	unsigned claims, conflicts; /* conflicts: in a row, without a complete round between them */
	bool flooded; /* in this round */
	unsigned floods; /* rounds in a row */
	uint8_t mac[FRAME_MAC], bridge_mac[FRAME_MAC];
	bool bridge_known, begun; /* ARP was answered; a round is open */
	unsigned unknown; /* rounds in a row without an ARP answer */
	struct pod_canary_target target;
	bool has_target;
	struct canary_try dns, calls;
	uint16_t own_port;
	uint32_t sent, heard; /* TCP sequence numbers: our next one; the expected one */
	bool connected;
	uint64_t number;
	char got[NUMBER_TEXT + 1];
	size_t n_got;
	uint8_t query[QUERY_MOST];
	size_t query_len;
};

/* --- sending -------------------------------------------------------------------------------- */

static struct frame_path
canary_path(const struct pod_canary *c, uint32_t to)
{
	struct frame_path p = {.from = c->address, .to = to};

	memcpy(p.from_mac, c->mac, FRAME_MAC);
	memcpy(p.to_mac, c->bridge_mac, FRAME_MAC);
	return p;
}

static void
canary_send(struct pod_canary *c, const uint8_t *frame, size_t n)
{
	if (write(c->port.fd, frame, n) < 0)
		log_debug("agent", "cannot send: %s", strerror(errno));
}

static void
canary_ask_arp(struct pod_canary *c, uint32_t from, uint32_t whose)
{
	struct frame_path p = canary_path(c, whose);
	uint8_t frame[FRAME_MAX];

	p.from = from;
	canary_send(c, frame, frame_write_arp(frame, &p, false));
}

static void
canary_send_segment(struct pod_canary *c, uint8_t flags)
{
	const struct frame_path p = canary_path(c, c->target.ip);
	const struct frame_segment s = {.from_port = c->own_port,
		.to_port = c->target.port,
		.seq = c->sent,
		.ack = (flags & FRAME_ACK) != 0 ? c->heard : 0,
		.flags = flags};
	uint8_t frame[FRAME_MAX];

	canary_send(c, frame, frame_write_tcp(frame, &p, &s));
}

static void
canary_send_query(struct pod_canary *c)
{
	const struct frame_path p = canary_path(c, c->mesh);
	const struct frame_segment s = {.from_port = c->own_port,
		.to_port = c->config.dns_port,
		.data = c->query,
		.len = c->query_len};
	uint8_t frame[FRAME_MAX];

	canary_send(c, frame, frame_write_udp(frame, &p, &s));
}

/* Sends again what has no answer yet, from its beginning. */
static void
pod_canary_query(struct pod_canary *c)
{
	if (!c->dns.done)
		canary_send_query(c);
	if (!c->calls.done && c->has_target)
		canary_send_segment(c, c->connected ? FRAME_ACK : FRAME_SYN);
}

static void
canary_again(void *arg)
{
	struct pod_canary *c = arg;

	if (c->bridge_known)
		pod_canary_query(c);
	else
		canary_ask_arp(c, c->address, c->bridge);
}

/* --- a round -------------------------------------------------------------------------------- */

static void
canary_make_query(struct pod_canary *c)
{
	static const uint8_t head[HEAD_BYTES] = {[2] = 1, [5] = 1}, a[] = {0, 0, 1, 0, 1},
			     soa[] = {0, 0, 6, 0, 1};
	char name[POD_CANARY_NAME_MAX + 1];
	const char *at = name;
	uint8_t *to = c->query + HEAD_BYTES;

	snprintf(name, sizeof name, "%s%s%s", c->has_target ? c->target.name : "",
		c->has_target ? "." : "", c->config.domain);
	memcpy(c->query, head, sizeof head);
	random_bytes(c->query, 2);
	while (*at != '\0') {
		size_t len = strcspn(at, ".");

		if (len > 63 || to + 1 + len + sizeof a > c->query + sizeof c->query)
			break;
		*to++ = (uint8_t)len;
		memcpy(to, at, len);
		to += len;
		at += len + (at[len] == '.');
	}
	memcpy(to, c->has_target ? a : soa, sizeof a);
	c->query_len = (size_t)(to - c->query) + sizeof a;
}

static void
canary_judge(struct canary_try *t)
{
	if (t->done) {
		t->bad = 0;
		t->good++;
		return;
	}
	t->bad++;
	snprintf(t->last, sizeof t->last, "%s", t->fault[0] != '\0' ? t->fault : "no answer");
}

static void
canary_begin(struct pod_canary *c)
{
	uint16_t random;

	c->begun = true;
	c->flooded = false;
	c->dns.done = c->calls.done = c->connected = false;
	c->dns.fault[0] = c->calls.fault[0] = '\0';
	c->n_got = 0;
	c->has_target = c->config.choose(c->config.arg, &c->target);
	if (!c->has_target)
		c->calls.bad = 0;
	random_bytes(&random, sizeof random);
	random_bytes(&c->sent, sizeof c->sent);
	random_bytes(&c->number, sizeof c->number);
	c->own_port = (uint16_t)(PORT_FIRST + random % PORTS);
	canary_make_query(c);
	c->config.expect(c->config.arg, c->address, c->own_port, c->number);
	canary_again(c);
	timer_start(c->again, AGAIN_MS, AGAIN_MS);
}

static void
canary_close(struct pod_canary *c)
{
	watch_stop(&c->watch);
	if (c->port.fd >= 0)
		close(take_fd(&c->port.fd));
	timer_cancel(c->again);
	timer_cancel(c->pause);
	if (c->address != 0)
		c->config.expect(c->config.arg, 0, 0, 0);
	c->address = 0;
	c->state = CANARY_OFF;
	c->begun = c->bridge_known = c->flooded = false;
	c->unknown = c->waited = c->floods = 0;
}

static void
canary_set_off(struct pod_canary *c, const char *why)
{
	canary_close(c);
	c->dns = c->calls = (struct canary_try){0}; /* results of rounds long ago are void */
	if (strcmp(c->off, why) != 0)
		log_info("agent", "the mesh is not tried from the pods' side reason=\"%s\"", why);
	snprintf(c->off, sizeof c->off, "%s", why);
}

/* --- receiving ------------------------------------------------------------------------------ */

static bool
canary_is_finished(const struct pod_canary *c)
{
	return c->dns.done && (c->calls.done || !c->has_target);
}

static void
canary_note(struct pod_canary *c, struct canary_try *t, const char *fault)
{
	t->done = fault == NULL;
	snprintf(t->fault, sizeof t->fault, "%s", fault != NULL ? fault : "");
	if (canary_is_finished(c))
		timer_cancel(c->again);
}

static void
canary_on_answer(struct pod_canary *c, const struct frame *f)
{
	const struct frame_segment *s = &f->segment;
	uint8_t ip[4] = {(uint8_t)(c->target.ip >> 24), (uint8_t)(c->target.ip >> 16),
		(uint8_t)(c->target.ip >> 8), (uint8_t)c->target.ip};

	if (f->path.from != c->mesh || s->from_port != c->config.dns_port ||
		s->len < c->query_len || memcmp(s->data, c->query, 2) != 0 ||
		(s->data[2] & 0x80) == 0)
		return;
	/* Errors reach pods as other answers do. But we know the service's name: who does not is
	 * somebody else. */
	if ((s->data[3] & 15) != 0)
		canary_note(c, &c->dns,
			c->has_target && (s->data[3] & 15) == RCODE_NXDOMAIN
				? "the answer is that the service's name does not exist"
				: NULL);
	else if (c->has_target &&
		memmem(s->data + c->query_len, s->len - c->query_len, ip, sizeof ip) == NULL)
		canary_note(c, &c->dns, "the answer is another address than the service's");
	else
		canary_note(c, &c->dns, NULL);
}

static void
canary_take_number(struct pod_canary *c, const struct frame_segment *s)
{
	char expected[NUMBER_TEXT + 1];
	size_t n = MIN(s->len, NUMBER_TEXT - c->n_got);

	memcpy(c->got + c->n_got, s->data, n);
	c->n_got += n;
	snprintf(expected, sizeof expected, "%016llx\n", (unsigned long long)c->number);
	if (c->n_got < NUMBER_TEXT && (s->flags & FRAME_FIN) == 0)
		return;
	canary_note(c, &c->calls,
		c->n_got == NUMBER_TEXT && memcmp(c->got, expected, NUMBER_TEXT) == 0
			? NULL
			: "somebody else answers");
}

static void
canary_on_segment(struct pod_canary *c, const struct frame *f)
{
	const struct frame_segment *s = &f->segment;

	if (!c->has_target || c->calls.done || f->path.from != c->target.ip ||
		s->from_port != c->target.port)
		return;
	if ((s->flags & FRAME_RST) != 0) {
		canary_note(c, &c->calls, "the connection is refused");
		return;
	}
	if ((s->flags & FRAME_SYN) != 0) {
		if (c->connected || (s->flags & FRAME_ACK) == 0 || s->ack != c->sent + 1)
			return;
		c->connected = true;
		c->sent++;
		c->heard = s->seq + 1;
		snprintf(c->calls.fault, sizeof c->calls.fault,
			"a connection is made, but not to our listener");
	} else if (c->connected && s->seq == c->heard && (s->len > 0 || (s->flags & FRAME_FIN))) {
		c->heard += (uint32_t)s->len;
		canary_take_number(c, s);
	}
	canary_send_segment(c, c->calls.done ? FRAME_RST | FRAME_ACK : FRAME_ACK);
}

/* Another host has the address (RFC 5227 section 2.4), or probes for it (section 2.1.1), which
 * according to the RFC the owner should answer. But a pod needs that address, and this check can
 * use any: it gives way in both cases. */
static bool
canary_is_conflict(const struct pod_canary *c, const struct frame *f)
{
	return memcmp(f->path.from_mac, c->mac, FRAME_MAC) != 0 &&
		(f->path.from == c->address || (f->path.from == 0 && f->path.to == c->address));
}

/* From now on the listener does not respond to this address; the next one is claimed. */
static void
canary_leave_address(struct pod_canary *c)
{
	const struct addr left = addr_ipv4(c->address, 0);
	char text[ADDR_TEXT_MAX];

	c->claims++;
	if (++c->conflicts == CLAIMS_MOST) {
		c->conflicts = 0;
		canary_set_off(c,
			"others have the last addresses of the bridge's range, or one neighbour "
			"answers "
			"ARP for all");
		return;
	}
	log_limited(LOG_LEVEL_INFO, 6, "agent",
		"somebody else has the canary's address, it takes another address=%.*s",
		(int)strcspn(addr_text(&left, text), ":"), text);
	canary_close(c);
	c->waited = ROUNDS_OFF;
	timer_start(c->round, 0, POD_CANARY_EVERY_MS);
}

static void
canary_on_arp(struct pod_canary *c, const struct frame *f)
{
	struct frame_path p = canary_path(c, f->path.from);
	uint8_t frame[FRAME_MAX];

	if (canary_is_conflict(c, f)) {
		canary_leave_address(c);
		return;
	}
	if (f->path.from != 0 && f->path.from == c->former) {
		c->former = c->stale = 0; /* it is somebody else's now */
	} else if (f->kind == FRAME_ARP_ASK && f->path.to == c->former && c->former != 0 &&
		f->path.from != 0 && f->path.from != c->bridge) {
		c->stale = f->path.from;
		c->stale_ms = mono_ms();
	}
	if (f->kind == FRAME_ARP_ASK && f->path.to == c->address && c->state == CANARY_RUNNING) {
		memcpy(p.to_mac, f->path.from_mac, FRAME_MAC);
		canary_send(c, frame, frame_write_arp(frame, &p, true));
	}
	if (f->path.from != c->bridge || c->bridge_known || c->state != CANARY_RUNNING)
		return;
	memcpy(c->bridge_mac, f->path.from_mac, FRAME_MAC);
	c->bridge_known = true;
	c->unknown = 0;
	pod_canary_query(c);
}

static void
canary_on_frame(struct pod_canary *c, const uint8_t *bytes, size_t n)
{
	struct frame f;

	frame_read(bytes, n, &f);
	if (f.kind == FRAME_ARP_ASK || f.kind == FRAME_ARP_TELL)
		canary_on_arp(c, &f);
	else if (!c->begun || f.path.to != c->address || f.segment.to_port != c->own_port)
		return;
	else if (f.kind == FRAME_UDP && !c->dns.done)
		canary_on_answer(c, &f);
	else if (f.kind == FRAME_TCP)
		canary_on_segment(c, &f);
}

static void
canary_end_pause(void *arg)
{
	struct pod_canary *c = arg;

	watch_set(c->watch, WATCH_READ);
}

/* During the pause packets wait in the device or are dropped there: loop 0 has other work. */
static void
canary_on_readable(void *arg, int fd, unsigned events)
{
	struct pod_canary *c = arg;
	uint8_t frame[FRAME_MAX];

	(void)events;
	for (int i = 0; i < FRAMES_PER_TURN; i++) {
		ssize_t n = read(fd, frame, sizeof frame);

		if (n <= 0)
			return;
		canary_on_frame(c, frame, (size_t)n);
		if (c->port.fd != fd)
			return;
	}
	c->flooded = true;
	watch_set(c->watch, 0);
	timer_start(c->pause, PAUSE_MS, 0);
}

/* --- the address ---------------------------------------------------------------------------- */

struct canary_bridge {
	char name[IF_NAMESIZE];
	uint32_t address, mask; /* its first address with a range; 0: none */
	bool known; /* it has the address that our bridge had last */
};

/* The first interface that the glob matches and that has a range of addresses. */
static void
canary_look(const struct pod_canary *c, const struct ifaddrs *all, const char *glob,
	struct canary_bridge *found)
{
	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
		struct sockaddr_in in, of;

		if (i->ifa_addr == NULL || i->ifa_netmask == NULL ||
			i->ifa_addr->sa_family != AF_INET || fnmatch(glob, i->ifa_name, 0) != 0)
			continue;
		if (found->address != 0 && strcmp(found->name, i->ifa_name) != 0)
			continue;
		memcpy(&in, i->ifa_addr, sizeof in);
		memcpy(&of, i->ifa_netmask, sizeof of);
		found->known |= ntohl(in.sin_addr.s_addr) == c->known;
		if (found->address != 0 || ~ntohl(of.sin_addr.s_addr) < CLAIMS_MOST)
			continue;
		snprintf(found->name, sizeof found->name, "%s", i->ifa_name);
		found->address = ntohl(in.sin_addr.s_addr);
		found->mask = ntohl(of.sin_addr.s_addr);
	}
}

/* Finds the bridge's own address and the last one of its range that may be free; false: there is
 * none. */
static bool
canary_choose_address(struct pod_canary *c)
{
	uint32_t mask;
	bool known;
	const char *const *other = c->config.others;
	struct ifaddrs *all = NULL;
	struct canary_bridge found = {0};

	if (getifaddrs(&all) < 0)
		return false;
	canary_look(c, all, c->config.interface, &found);
	for (; found.address == 0 && other != NULL && *other != NULL; other++)
		canary_look(c, all, *other, &found);
	freeifaddrs(all);
	c->bridge = found.address;
	if (c->bridge == 0)
		return false;
	if (strcmp(c->on, found.name) != 0)
		c->known = c->former = c->stale = 0;
	strcpy(c->on, found.name);
	mask = found.mask;
	known = found.known;
	c->address = (c->bridge | ~mask) - 1 - c->claims % CLAIMS_MOST;
	c->address -= c->address == c->bridge;
	if (c->known != c->bridge) {
		c->former = known ? 0 : c->known; /* it may have become its second address */
		c->known = c->bridge;
		c->stale = 0;
	}
	return true;
}

static void
canary_claim(struct pod_canary *c)
{
	struct err err = {0};

	if (!canary_choose_address(c)) {
		canary_set_off(c, "no range of addresses on the bridge");
		return;
	}
	random_bytes(c->mac, sizeof c->mac);
	c->mac[0] = (uint8_t)((c->mac[0] & 0xfc) | 2); /* locally administered, unicast */
	if (bridge_port_open(&c->port, c->on, c->address, c->former, c->mac, &err) < 0) {
		c->address = 0;
		c->port.fd = -1;
		canary_set_off(c, err.text);
		return;
	}
	c->state = CANARY_CLAIMING;
	c->watch = watch_start(c->config.loop, c->port.fd, WATCH_READ, canary_on_readable, c);
	canary_ask_arp(c, 0, c->address);
	timer_start(c->round, CLAIM_MS, POD_CANARY_EVERY_MS);
}

/* The bridge may have been re-created: then our port is not attached to it any more. */
static void
canary_check_bridge(struct pod_canary *c)
{
	if (c->bridge_known)
		return;
	if (++c->unknown > BAD_LEAST)
		canary_set_off(c, "the bridge does not answer ARP on a port of ours");
}

static void
canary_on_round(void *arg)
{
	struct pod_canary *c = arg;

	if (c->state == CANARY_OFF) {
		if (++c->waited >= ROUNDS_OFF)
			canary_claim(c);
		return;
	}
	c->floods = c->flooded ? c->floods + 1 : 0;
	if (c->floods == ROUNDS_FLOODED) {
		canary_set_off(c, "a neighbour on the bridge floods its address");
	} else if (c->flooded) {
		c->bridge_known = false; /* missing packets may have been dropped: no result */
	} else if (c->begun && !c->bridge_known) {
		canary_check_bridge(c);
	} else if (c->begun) {
		canary_judge(&c->dns);
		if (c->has_target)
			canary_judge(&c->calls);
		c->conflicts = 0;
		c->bridge_known = canary_is_finished(c); /* else its address is resolved again */
	}
	if (c->state == CANARY_OFF)
		return;
	c->state = CANARY_RUNNING;
	c->off[0] = '\0';
	canary_begin(c);
}

/* --- public interface ----------------------------------------------------------------------- */

void
pod_canary_start(struct pod_canary **out, const struct pod_canary_config *config)
{
	struct pod_canary *c = xcalloc(1, sizeof *c);

	c->config = *config;
	c->port.fd = -1;
	c->round = timer_new(config->loop, canary_on_round, c);
	c->again = timer_new(config->loop, canary_again, c);
	c->pause = timer_new(config->loop, canary_end_pause, c);
	*out = c;
}

void
pod_canary_use(struct pod_canary *c, uint32_t address)
{
	if (c == NULL || (c->mesh == address && address != 0))
		return;
	canary_close(c);
	timer_cancel(c->round);
	c->mesh = address;
	c->waited = ROUNDS_OFF;
	c->conflicts = 0;
	c->off[0] = '\0';
	c->dns = c->calls = (struct canary_try){0};
	if (address != 0)
		timer_start(c->round, 0, POD_CANARY_EVERY_MS);
}

void
pod_canary_stop(struct pod_canary **out)
{
	struct pod_canary *c = take_ptr(out);

	if (c == NULL)
		return;
	canary_close(c);
	timer_free(&c->round);
	timer_free(&c->again);
	timer_free(&c->pause);
	free(c);
}

bool
pod_canary_failing(const struct pod_canary *c)
{
	return c != NULL && (c->dns.bad >= BAD_LEAST || c->calls.bad >= BAD_LEAST);
}

static const char *
canary_dotted(uint32_t address, char to[INET_ADDRSTRLEN])
{
	const struct in_addr in = {.s_addr = htonl(address)};

	return inet_ntop(AF_INET, &in, to, INET_ADDRSTRLEN);
}

static void
canary_try_state(const struct canary_try *t, const char *name, struct buf *out)
{
	buf_printf(out, ",\"%s\":{\"state\":\"%s\",\"good\":%llu,\"bad\":%u,\"fault\":", name,
		t->bad >= BAD_LEAST   ? "failing"
			: t->good > 0 ? "ok"
				      : "unknown",
		(unsigned long long)t->good, t->bad);
	json_add_text(out, t->bad >= BAD_LEAST ? t->last : "");
	buf_adds(out, "}");
}

void
pod_canary_state(const struct pod_canary *c, struct buf *out)
{
	static const char *const states[] = {
		[CANARY_OFF] = "off", [CANARY_CLAIMING] = "claiming", [CANARY_RUNNING] = "running"};
	struct addr mesh, service;
	char text[ADDR_TEXT_MAX];

	if (c == NULL || c->mesh == 0) {
		buf_adds(out, "null");
		return;
	}
	mesh = addr_ipv4(c->mesh, c->config.dns_port);
	service = addr_ipv4(c->target.ip, c->target.port);
	buf_printf(out,
		"{\"state\":\"%s\",\"address\":\"%s\",\"asks\":\"%s\",\"off\":", states[c->state],
		canary_dotted(c->address, (char[INET_ADDRSTRLEN]){0}),
		addr_text(&mesh, (char[ADDR_TEXT_MAX]){0}));
	json_add_text(out, c->off);
	buf_printf(out, ",\"bridge\":\"%s\",\"service\":", c->on);
	json_add_text(out, c->has_target ? c->target.name : "");
	if (c->stale != 0)
		buf_printf(out, ",\"former\":\"%s\",\"stale\":\"%s\",\"stale_ms_ago\":%llu",
			canary_dotted(c->former, (char[INET_ADDRSTRLEN]){0}),
			canary_dotted(c->stale, (char[INET_ADDRSTRLEN]){0}),
			(unsigned long long)(mono_ms() - c->stale_ms));
	buf_printf(out, ",\"calls_to\":\"%s\"", c->has_target ? addr_text(&service, text) : "");
	canary_try_state(&c->dns, "dns", out);
	canary_try_state(&c->calls, "calls", out);
	buf_adds(out, "}");
}
