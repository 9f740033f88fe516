/*
 * Ethernet frames as a pod sends and receives them, for the self-check on the pods' bridge
 * (pod_canary.h): ARP (RFC 826), and UDP (RFC 768) and TCP (RFC 9293) in IPv4 without options.
 * Reading accepts anything that a neighbour on the bridge may send. Pure. Addresses and ports in
 * host byte order.
 *
 *	s = (struct frame_segment){.from_port = 4000, .to_port = 53, .data = query, .len = 30};
 *	n = frame_write_udp(frame, &path, &s);
 *	frame_read(frame, n, &f);	// f.kind FRAME_UDP
 */
#ifndef EDGEWAY_SRC_AGENT_DNS_SELFCHECK_FRAME_H
#define EDGEWAY_SRC_AGENT_DNS_SELFCHECK_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_MAX = 1514,
	FRAME_MAC = 6,
	FRAME_DATA_MAX = 512, /* in a written frame */
};

enum { FRAME_FIN = 1, FRAME_SYN = 2, FRAME_RST = 4, FRAME_PSH = 8, FRAME_ACK = 16 };

enum frame_kind { FRAME_OTHER, FRAME_ARP_ASK, FRAME_ARP_TELL, FRAME_UDP, FRAME_TCP };

struct frame_path {
	uint8_t from_mac[FRAME_MAC], to_mac[FRAME_MAC];
	uint32_t from, to;
};

struct frame_segment {
	uint16_t from_port, to_port;
	uint32_t seq, ack; /* TCP */
	uint8_t flags; /* TCP */
	const uint8_t *data;
	size_t len;
};

struct frame {
	enum frame_kind kind;
	struct frame_path path;
	struct frame_segment segment; /* data: points into the frame that was read */
};

/* `to` has room for FRAME_MAX. An ARP request is broadcast. */
size_t frame_write_arp(uint8_t *to, const struct frame_path *path, bool tell);
size_t frame_write_udp(uint8_t *to, const struct frame_path *path, const struct frame_segment *s);
size_t frame_write_tcp(uint8_t *to, const struct frame_path *path, const struct frame_segment *s);
/* FRAME_OTHER: not for us, a fragment, or with wrong lengths; the kernel checks checksums. */
void frame_read(const uint8_t *bytes, size_t n, struct frame *f);

#endif
