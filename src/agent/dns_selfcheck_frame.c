#include "src/agent/dns_selfcheck_frame.h"

#include <assert.h>
#include <string.h>

enum {
	TYPE_IPV4 = 0x0800,
	TYPE_ARP = 0x0806,
	ARP_ETHERNET = 1,
	ARP_ASK = 1,
	ARP_TELL = 2,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	IPV4_HEAD = 20,
	TCP_HEAD = 20,
	UDP_HEAD = 8,
	TTL = 64,
	WINDOW = 4096,
	DO_NOT_FRAGMENT = 0x4000,
	FRAGMENT = 0x3fff, /* "more fragments", or an offset */
};

/* --- writing -------------------------------------------------------------------------------- */

static uint8_t *
frame_put16(uint8_t *at, unsigned v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
	return at + 2;
}

static uint8_t *
frame_put32(uint8_t *at, uint32_t v)
{
	return frame_put16(frame_put16(at, v >> 16), v & 0xffff);
}

static uint8_t *
frame_put(uint8_t *at, const void *data, size_t n)
{
	if (n > 0)
		memcpy(at, data, n);
	return at + n;
}

/* RFC 1071 */
static uint32_t
frame_sum(const uint8_t *at, size_t n, uint32_t sum)
{
	for (; n > 1; at += 2, n -= 2)
		sum += (uint32_t)at[0] << 8 | at[1];
	return n > 0 ? sum + ((uint32_t)at[0] << 8) : sum;
}

static unsigned
frame_fold(uint32_t sum)
{
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum & 0xffff;
}

static uint8_t *
frame_put_head(uint8_t *to, const struct frame_path *path, unsigned type)
{
	uint8_t *at = frame_put(to, path->to_mac, FRAME_MAC);

	return frame_put16(frame_put(at, path->from_mac, FRAME_MAC), type);
}

size_t
frame_write_arp(uint8_t *to, const struct frame_path *path, bool tell)
{
	static const uint8_t all[FRAME_MAC] = {255, 255, 255, 255, 255, 255};
	struct frame_path p = *path;
	uint8_t *at;

	if (!tell)
		memcpy(p.to_mac, all, sizeof all);
	at = frame_put_head(to, &p, TYPE_ARP);
	at = frame_put16(frame_put16(at, ARP_ETHERNET), TYPE_IPV4);
	at = frame_put16(at, FRAME_MAC << 8 | 4);
	at = frame_put16(at, tell ? ARP_TELL : ARP_ASK);
	at = frame_put32(frame_put(at, p.from_mac, FRAME_MAC), p.from);
	if (!tell)
		memset(p.to_mac, 0, FRAME_MAC);
	at = frame_put32(frame_put(at, p.to_mac, FRAME_MAC), p.to);
	return (size_t)(at - to);
}

/* Writes the IPv4 header; returns where the transport's header begins. */
static uint8_t *
frame_put_ipv4(uint8_t *to, const struct frame_path *path, unsigned protocol, size_t len)
{
	uint8_t *head = frame_put_head(to, path, TYPE_IPV4), *at = head;

	at = frame_put16(at, 0x4500);
	at = frame_put16(at, (unsigned)(IPV4_HEAD + len));
	at = frame_put16(frame_put16(at, 0), DO_NOT_FRAGMENT);
	at = frame_put16(at, (unsigned)TTL << 8 | protocol);
	at = frame_put16(at, 0);
	at = frame_put32(frame_put32(at, path->from), path->to);
	frame_put16(head + 10, frame_fold(frame_sum(head, IPV4_HEAD, 0)));
	return at;
}

/* Includes the pseudo header of UDP and TCP. */
static unsigned
frame_transport_sum(
	const uint8_t *head, size_t len, const struct frame_path *path, unsigned protocol)
{
	uint32_t sum = (path->from >> 16) + (path->from & 0xffff) + (path->to >> 16) +
		(path->to & 0xffff) + protocol + (uint32_t)len;

	return frame_fold(frame_sum(head, len, sum));
}

size_t
frame_write_udp(uint8_t *to, const struct frame_path *path, const struct frame_segment *s)
{
	size_t len = UDP_HEAD + s->len;
	uint8_t *head = frame_put_ipv4(to, path, PROTOCOL_UDP, len), *at = head;
	unsigned sum;

	assert(s->len <= FRAME_DATA_MAX);
	at = frame_put16(frame_put16(at, s->from_port), s->to_port);
	at = frame_put16(frame_put16(at, (unsigned)len), 0);
	at = frame_put(at, s->data, s->len);
	sum = frame_transport_sum(head, len, path, PROTOCOL_UDP);
	frame_put16(head + 6, sum == 0 ? 0xffff : sum);
	return (size_t)(at - to);
}

size_t
frame_write_tcp(uint8_t *to, const struct frame_path *path, const struct frame_segment *s)
{
	size_t len = TCP_HEAD + s->len;
	uint8_t *head = frame_put_ipv4(to, path, PROTOCOL_TCP, len), *at = head;

	assert(s->len <= FRAME_DATA_MAX);
	at = frame_put16(frame_put16(at, s->from_port), s->to_port);
	at = frame_put32(frame_put32(at, s->seq), s->ack);
	at = frame_put16(at, (unsigned)(TCP_HEAD / 4) << 12 | s->flags);
	at = frame_put32(frame_put16(at, WINDOW), 0);
	at = frame_put(at, s->data, s->len);
	frame_put16(head + 16, frame_transport_sum(head, len, path, PROTOCOL_TCP));
	return (size_t)(at - to);
}

/* --- reading -------------------------------------------------------------------------------- */

struct frame_cursor {
	const uint8_t *at;
	size_t left;
	bool short_of; /* the frame is too short */
};

static const uint8_t *
frame_take(struct frame_cursor *c, size_t n)
{
	static const uint8_t nothing[FRAME_MAC];
	const uint8_t *at = c->at;

	if (n > c->left) {
		c->short_of = true;
		return nothing;
	}
	c->at += n;
	c->left -= n;
	return at;
}

static uint16_t
frame_take16(struct frame_cursor *c)
{
	const uint8_t *at = frame_take(c, 2);

	return (uint16_t)(at[0] << 8 | at[1]);
}

static uint32_t
frame_take32(struct frame_cursor *c)
{
	uint32_t high = frame_take16(c);

	return high << 16 | frame_take16(c);
}

static enum frame_kind
frame_read_arp(struct frame_cursor *c, struct frame *f)
{
	bool known = frame_take16(c) == ARP_ETHERNET && frame_take16(c) == TYPE_IPV4 &&
		frame_take16(c) == (FRAME_MAC << 8 | 4);
	unsigned operation = frame_take16(c);

	memcpy(f->path.from_mac, frame_take(c, FRAME_MAC), FRAME_MAC);
	f->path.from = frame_take32(c);
	frame_take(c, FRAME_MAC);
	f->path.to = frame_take32(c);
	if (!known || (operation != ARP_ASK && operation != ARP_TELL))
		return FRAME_OTHER;
	return operation == ARP_ASK ? FRAME_ARP_ASK : FRAME_ARP_TELL;
}

static enum frame_kind
frame_read_udp(struct frame_cursor *c, struct frame *f)
{
	size_t len;

	f->segment.from_port = frame_take16(c);
	f->segment.to_port = frame_take16(c);
	len = frame_take16(c);
	frame_take16(c);
	if (len < UDP_HEAD || len - UDP_HEAD > c->left)
		return FRAME_OTHER;
	f->segment.data = c->at;
	f->segment.len = len - UDP_HEAD;
	return FRAME_UDP;
}

static enum frame_kind
frame_read_tcp(struct frame_cursor *c, struct frame *f)
{
	unsigned head, options;

	f->segment.from_port = frame_take16(c);
	f->segment.to_port = frame_take16(c);
	f->segment.seq = frame_take32(c);
	f->segment.ack = frame_take32(c);
	head = frame_take16(c);
	frame_take(c, 6);
	f->segment.flags = head & 0x1f;
	options = (head >> 12) * 4;
	if (options < TCP_HEAD)
		return FRAME_OTHER;
	frame_take(c, options - TCP_HEAD);
	f->segment.data = c->at;
	f->segment.len = c->left;
	return FRAME_TCP;
}

static enum frame_kind
frame_read_ipv4(struct frame_cursor *c, struct frame *f)
{
	unsigned first = frame_take16(c), whole = frame_take16(c), fragment, protocol,
		 head = (first >> 8 & 15) * 4;

	frame_take16(c);
	fragment = frame_take16(c);
	protocol = frame_take16(c) & 0xff;
	frame_take16(c);
	f->path.from = frame_take32(c);
	f->path.to = frame_take32(c);
	if (first >> 12 != 4 || head < IPV4_HEAD || whole < head || (fragment & FRAGMENT) != 0)
		return FRAME_OTHER;
	frame_take(c, head - IPV4_HEAD);
	if (c->short_of || whole - head > c->left)
		return FRAME_OTHER;
	c->left = whole - head; /* Ethernet pads short frames */
	if (protocol == PROTOCOL_UDP)
		return frame_read_udp(c, f);
	return protocol == PROTOCOL_TCP ? frame_read_tcp(c, f) : FRAME_OTHER;
}

void
frame_read(const uint8_t *bytes, size_t n, struct frame *f)
{
	struct frame_cursor c = {.at = bytes, .left = n};
	unsigned type;

	*f = (struct frame){0};
	memcpy(f->path.to_mac, frame_take(&c, FRAME_MAC), FRAME_MAC);
	memcpy(f->path.from_mac, frame_take(&c, FRAME_MAC), FRAME_MAC);
	type = frame_take16(&c);
	if (type == TYPE_ARP)
		f->kind = frame_read_arp(&c, f);
	else if (type == TYPE_IPV4)
		f->kind = frame_read_ipv4(&c, f);
	if (c.short_of)
		f->kind = FRAME_OTHER;
}
