/*
 * A bound UDP socket whose datagrams are carried over streams. All datagrams from one client
 * address and port to one local address form a flow, for which the owner finds a stream. Answers
 * leave from the address that the client sent to. Only a few datagrams are queued while the stream
 * is being found; datagrams for which there is no room are dropped and counted by reason. Flows end
 * when they are idle. Their number is limited, and one source address may have a quarter of them;
 * at the limit, a flow makes room: of the socket's flows first a refused one, else the one that was
 * idle longest. A refused flow is not requested again within UDP_REFUSED_MS. On the loop's thread.
 *
 *	rc = udp_door_open(&(struct udp_door_setup){.loop = loop, .listen = &addr, .buffer = buffer, .events = &events, .arg = me},
 *		&door, &err);
 *	static void begun(void *arg, struct udp_flow *f) { f->own = ...; }	// asks for a stream, and then:
 *	udp_flow_join(f, stream);	// or udp_flow_refuse(f, DROP_DENIED, 403, reason);
 *
 * `begun` and `over` come once each, in this order, for each flow. After `over` the flow may stay
 * in the table as one that is turned away; the owner need not care. A flow may be refused within
 * `begun`.
 */
#ifndef EDGEWAY_TUNNEL_UDP_UDP_DOOR_H
#define EDGEWAY_TUNNEL_UDP_UDP_DOOR_H

#include "base/os/pktinfo.h"
#include "tunnel/udp/dgram.h"
#include "tunnel/udp/flows.h"

enum {
	UDP_IDLE_MS = 60 * 1000,
	UDP_BRIEF_MS = 10 * 1000, /* idle timeout of a query that has its answer */
	UDP_REFUSED_MS = 1000,
	UDP_FLOWS = 1024,
	UDP_DIALS = 128, /* pending for one door; of these one client has a half at most */
	UDP_FLOW_GONE = 499, /* status: the flow ended before it had a stream */
};

struct udp_door;

struct udp_flow { /* read-only for the owner, except `own` */
	struct flow_entry entry; /* first */
	struct udp_door *door;
	void *own;
	struct pktinfo_way way; /* path back to the client */
	uint16_t slot; /* of the client, among those that dial */
	bool dialling; /* until it has a stream or is refused */
	struct dgram_kept kept; /* datagrams that came meanwhile */
	struct stream *stream; /* NULL: not yet, or refused */
	struct dgram_reader reader;
	enum dgram_drop refusal;
	uint64_t started_ms;
	struct dgram_tally tally;
};

struct udp_door_events {
	/* Whether to accept a datagram that came by this path. NULL: all are accepted. */
	bool (*comes)(void *arg, const struct pktinfo_way *way);
	void (*begun)(void *arg, struct udp_flow *f);
	/* Whether n bytes may pass now; if so, they are charged. NULL: no limit. */
	bool (*spend)(void *arg, struct udp_flow *f, size_t n);
	/* The owner releases f->own. status: 200 if it had a stream, UDP_FLOW_GONE, or the status
	 * given to udp_flow_refuse. */
	void (*over)(void *arg, struct udp_flow *f, unsigned status, const char *why);
};

struct udp_door_setup {
	struct loop *loop;
	const struct addr *listen; /* port 0: any */
	uint8_t *buffer; /* DGRAM_BUFFER bytes, shared by the readers of a thread; outlives it */
	uint64_t idle_ms; /* 0: UDP_IDLE_MS */
	unsigned flows; /* 0: UDP_FLOWS */
	const struct udp_door_events *events;
	void *arg;
};

int udp_door_open(const struct udp_door_setup *setup, struct udp_door **out, struct err *err);
/* Ends all flows. */
void udp_door_close(struct udp_door **d, const char *why);
/* No new flows; existing ones end once they are idle. */
void udp_door_drain(struct udp_door *d);
uint16_t udp_door_port(const struct udp_door *d);
/* `arg` of the setup. */
void *udp_door_owner(const struct udp_door *d);
unsigned udp_door_flows(const struct udp_door *d);
/* Flows that got their stream. */
uint64_t udp_door_opened(const struct udp_door *d);
struct dgram_tally udp_door_tally(const struct udp_door *d);
/* Iterates over all flows, in no particular order; start with NULL. */
struct udp_flow *udp_door_next(const struct udp_door *d, const struct udp_flow *f);

/* Takes the stream. For a flow that is dialling; the flow may be gone afterwards. */
void udp_flow_join(struct udp_flow *f, struct stream *stream);
/* The same when there is no stream; `over` reports it. Datagrams from this client are dropped for a
 * while and counted as `why`. */
void udp_flow_refuse(struct udp_flow *f, enum dgram_drop why, unsigned status, const char *reason);
void udp_flow_end(struct udp_flow *f, const char *why);
/* "open", "dialling", or why it is turned away. */
const char *udp_flow_state(const struct udp_flow *f);

#endif
