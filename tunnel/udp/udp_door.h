/*
 * A bound UDP socket whose datagrams go over streams: who sends to it from one address and port, to
 * one address of ours, has a flow, for which the owner finds a stream. Answers leave from the
 * address that was asked. Nothing is queued but what comes while the stream is found, a handful;
 * what there is no room for is dropped and counted by reason. Flows end when they are idle; they
 * are bounded, and a quarter of that for one source address: then the one that was idle longest
 * ends. What was refused is not asked for again within UDP_REFUSED_MS. On the loop's thread.
 *
 *	rc = udp_door_open(&(struct udp_door_setup){.loop = loop, .listen = &addr, .buffer = buffer, .events = &events, .arg = me},
 *		&door, &err);
 *	static void begun(void *arg, struct udp_flow *f) { f->own = ...; }	// asks for a stream, and then:
 *	udp_flow_join(f, stream);	// or udp_flow_refuse(f, DROP_DENIED, 403, reason);
 *
 * `begun` and `over` come once each, in this order, for each flow; after `over` it may stay as one
 * that is turned away, which is none of the owner's business. A flow may be refused within `begun`.
 */
#ifndef EDGEWAY_TUNNEL_UDP_UDP_DOOR_H
#define EDGEWAY_TUNNEL_UDP_UDP_DOOR_H

#include "base/os/pktinfo.h"
#include "tunnel/udp/dgram.h"
#include "tunnel/udp/flows.h"

enum {
	UDP_IDLE_MS = 60 * 1000,
	UDP_BRIEF_MS = 10 * 1000, /* idle time of a question that has its answer */
	UDP_REFUSED_MS = 1000,
	UDP_FLOWS = 1024,
	UDP_DIALS = 64, /* of one door, under way */
	UDP_FLOW_GONE = 499, /* status: ended before there was a stream */
};

struct udp_door;

struct udp_flow { /* for the owner to read, but for `own` */
	struct flow_entry entry; /* first */
	struct udp_door *door;
	void *own;
	struct pktinfo_way way; /* back to the client */
	bool dialling; /* until there is a stream, or it is refused */
	struct dgram_kept kept; /* meanwhile */
	struct stream *stream; /* NULL: not yet, or refused */
	struct dgram_reader reader;
	enum dgram_drop refusal;
	uint64_t started_ms;
	struct dgram_tally tally;
};

struct udp_door_events {
	/* Is what came by this way to be taken? NULL: all is. */
	bool (*comes)(void *arg, const struct pktinfo_way *way);
	void (*begun)(void *arg, struct udp_flow *f);
	/* May so many bytes be moved now? They are, then. NULL: any number. */
	bool (*spend)(void *arg, struct udp_flow *f, size_t n);
	/* What belongs to f->own goes. status: 200 it had a stream, UDP_FLOW_GONE, or what
	 * udp_flow_refuse was told. */
	void (*over)(void *arg, struct udp_flow *f, unsigned status, const char *why);
};

struct udp_door_setup {
	struct loop *loop;
	const struct addr *listen; /* port 0: any */
	uint8_t *buffer; /* DGRAM_BUFFER, of whoever reads; outlives it */
	uint64_t idle_ms; /* 0: UDP_IDLE_MS */
	unsigned flows; /* 0: UDP_FLOWS */
	const struct udp_door_events *events;
	void *arg;
};

int udp_door_open(const struct udp_door_setup *setup, struct udp_door **out, struct err *err);
/* Ends all flows. */
void udp_door_close(struct udp_door **d, const char *why);
/* No new flows; those that are there end once they are quiet. */
void udp_door_drain(struct udp_door *d);
uint16_t udp_door_port(const struct udp_door *d);
/* Its owner's, of the setup. */
void *udp_door_owner(const struct udp_door *d);
unsigned udp_door_flows(const struct udp_door *d);
/* Those that got their stream. */
uint64_t udp_door_opened(const struct udp_door *d);
struct dgram_tally udp_door_tally(const struct udp_door *d);
/* All of them, in no particular order; begin with NULL. */
struct udp_flow *udp_door_next(const struct udp_door *d, const struct udp_flow *f);

/* The stream is taken. Of one that is dialling; it may be gone afterwards. */
void udp_flow_join(struct udp_flow *f, struct stream *stream);
/* The same when there is none; `over` tells it. What comes from this client is dropped for a while,
 * counted as `why`. */
void udp_flow_refuse(struct udp_flow *f, enum dgram_drop why, unsigned status, const char *reason);
void udp_flow_end(struct udp_flow *f, const char *why);
/* "open", "dialling", or why it is turned away. */
const char *udp_flow_state(const struct udp_flow *f);

#endif
