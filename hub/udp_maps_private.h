/*
 * What the files of UDP maps share: udp_maps.c (sockets, limits, what is told) and udp_flow.c (a flow's life). Nothing outside of these
 * includes it.
 */
#ifndef EDGEWAY_HUB_UDP_MAPS_PRIVATE_H
#define EDGEWAY_HUB_UDP_MAPS_PRIVATE_H

#include "base/pktinfo.h"
#include "hub/flows.h"
#include "hub/udp_maps.h"

struct udp_map {
	TAILQ_ENTRY(udp_map) entry;
	struct udp_maps *maps;
	char *host, *dest, *listen;
	uint16_t port;
	int fd;
	struct watch *watch;
	struct timer *sweep; /* while there are flows */
	struct flows *flows;
	unsigned dialling;
	uint64_t opened; /* flows that reached their target */
	struct dgram_tally tally;
};

struct udp_maps {
	struct udp_maps_config config;
	TAILQ_HEAD(, udp_map) list;
	bool draining;
	uint8_t *buffer; /* DGRAM_BUFFER, of whoever reads */
};

struct udp_flow {
	struct flow_entry entry; /* first */
	struct udp_map *map;
	struct pktinfo_way way; /* back to the client */
	struct reaching *reaching; /* until it is reached */
	struct dgram_kept kept; /* meanwhile */
	struct stream *stream; /* NULL: not yet, or refused */
	struct dgram_reader reader;
	enum dgram_drop refusal;
	struct account *caller_account, *node_account;
	struct access_target where; /* what the rules have opened; the texts follow */
	char *where_text[2];
	char *target; /* for the audit */
	uint64_t started_ms;
	struct dgram_tally tally;
};

/* --- udp_flow.c --- */
/* The first datagram of a flow: begins it, or drops the datagram. */
void udp_flow_begin(struct udp_map *m, const struct flow_key *key, const struct pktinfo_way *way,
	const void *data, size_t n);
/* Another one. */
void udp_flow_take(struct udp_flow *f, const void *data, size_t n);
void udp_flow_end(struct udp_flow *f, const char *why);
/* Do the rules open it, as they are now? Of one that is open. */
bool udp_flow_allowed(const struct udp_flow *f);
const char *udp_flow_caller(const struct udp_flow *f, char to[ACCESS_NAME_MAX + 8]);

#endif
