/*
 * What the files of the peers share: peers.c (who they are, what is asked of them), peer_line.c (a
 * connection to one), peer_guest.c (a connection from one), peer_trip.c (a stream that one asks
 * for), peer_ask.c (a question that one has), peers_tell.c (state and metrics). Nothing outside of
 * these includes it.
 *
 *   peer  WAITING ─timer─► DIALLING ─list is whole─► OPEN
 *            ▲                 │  │                   │
 *            └── back-off ─────┘  └─► ITSELF, TWIN    └─ lost, leaving ─► WAITING
 */
#ifndef EDGEWAY_HUB_REPLICAS_PEERS_PRIVATE_H
#define EDGEWAY_HUB_REPLICAS_PEERS_PRIVATE_H

#include <sys/queue.h>

#include "base/core/preauth.h"
#include "hub/port/peer_proto.h"
#include "hub/replicas/peer_names.h"
#include "hub/replicas/peers.h"

/* A field of a request: whoever gets it may pass it on to one more replica. */
#define PEER_BETWEEN "edgeway-between"

enum peer_state {
	PEER_WAITING,
	PEER_DIALLING,
	PEER_OPEN,
	PEER_ITSELF, /* the address is our own */
	PEER_TWIN, /* another address of a replica that is open */
	PEER_STATES,
};

struct peer;

/* One connection to a replica. */
struct line {
	TAILQ_ENTRY(line) link; /* of those that leave */
	struct peer *of;
	struct watch *watch; /* while it connects */
	struct timer *deadline;
	struct tls_stream *tls; /* while it shakes hands */
	struct session *session;
	struct stream *list; /* what the replica tells; NULL: it has ended */
	struct buf in; /* of that, less than a line */
	struct tunnel_directory_peer
		*claims; /* NULL: none, before it says who it is and when it leaves */
	int fd; /* while it connects, else -1 */
	bool leaving;
	bool stops; /* the replica says so */
	uint64_t since_ms;
	char id[PEER_ID_TEXT], name[PEER_NAME_TEXT];
	char serial[PKI_SERIAL_TEXT]; /* of its certificate */
};

TAILQ_HEAD(log_queue, line);

/* An address where a replica may be. */
struct peer {
	TAILQ_ENTRY(peer) link;
	struct peers *of;
	struct addr addr;
	char address[ADDR_TEXT_MAX];
	uint64_t names; /* a bit for each configured name that it is an address of */
	unsigned guests; /* connections from there */
	enum peer_state state;
	bool tried; /* it has answered, or failed to */
	bool away_told; /* in the log */
	struct line *dialling, *now;
	struct log_queue leaving;
	struct timer *retry;
	uint64_t backoff_ms;
	char name[PEER_NAME_TEXT]; /* as it last called itself; "" never */
	char error[256]; /* "" none */
	char trouble[PRESENCE_WORDS_MAX +
		1]; /* what it says of itself, while it is connected; "" none */
};

/* One connection of another replica. */
struct guest {
	TAILQ_ENTRY(guest) link; /* of handshakes, or of those that are open */
	struct preauth_conn place; /* while it shakes hands */
	struct peers *of;
	struct tls_stream *tls;
	struct session *session;
	struct stream *list; /* where it is told of our nodes; NULL: it has not asked */
	struct buf out; /* for that */
	struct peer *from; /* its own address; NULL: not known */
	struct addr addr;
	char address[ADDR_TEXT_MAX];
	char name[PEER_NAME_TEXT];
	uint64_t since_ms;
	int64_t ends_s; /* its certificate */
	char serial[PKI_SERIAL_TEXT];
};

TAILQ_HEAD(guest_ring, guest);
LIST_HEAD(trips, trip);
LIST_HEAD(asked_list, asked);

struct peers {
	struct peers_config config;
	struct session_budget budget;
	struct session_limits limits;
	struct tunnel_directory *roster;
	struct peer_names *names; /* NULL: there are no others */
	char *configured; /* `peers`, as they were adopted last; NULL: never */
	struct ssl_ctx_st *server, *client; /* NULL: not yet */
	struct quota *quota;
	struct timer *sweep, *drained;
	TAILQ_HEAD(, peer) all;
	struct guest_ring handshakes, guests;
	struct trips trips;
	struct asked_list asked_here;
	size_t n_all, n_guests, n_trips, n_asked; /* n_guests: without handshakes */
	uint64_t began_ms; /* when there were certificates */
	uint64_t forgot_ms; /* when names were looked at last */
	uint64_t drain_ms; /* since when it drains; 0: it does not */
	void (*done)(void *arg);
	void *done_arg;
	char id[PEER_ID_TEXT], name[PEER_NAME_TEXT];
	char trouble[PRESENCE_WORDS_MAX + 1]; /* of this hub, as others were told */
	struct session_stats past; /* of lines that have ended */
	uint64_t lost, failed, refused; /* lines, guests */
	uint64_t asked, misdirected; /* streams to others */
	uint64_t passed, not_here, unpassed; /* streams of others */
};

/* --- peers.c -------------------------------------------------------------------------------- */
/* The peer at this address, made when it is not known; NULL: there are too many. */
struct peer *peers_at(struct peers *p, const struct addr *addr);
/* Nobody may want it any more: then it is freed. */
void peers_release(struct peer *peer);
/* Something has ended: is all that drains at its end? */
void peers_say_drained(struct peers *p);
/* As peers_open, of a replica that may be NULL; between: it may pass it on. */
int peers_open_at(struct peers *p, struct line *l, struct peers_ask *ask, bool between);
/* A claim has come, gone or changed. */
void peers_changed(struct peers *p, const char *node);

/* --- peer_line.c ---------------------------------------------------------------------------- */
void peer_dial(struct peer *peer);
/* Another certificate: a new line takes the place of the one in use. */
void peer_renew(struct peer *peer);
/* No new streams; what is open finishes. */
void peer_leave(struct peer *peer);
void peer_close(struct peer *peer);
/* Cuts connections that were made with certificates that are revoked. */
void peer_check(struct peer *peer);
unsigned peer_streams(const struct peer *peer);

/* --- peer_guest.c --------------------------------------------------------------------------- */
void guest_tell(struct guest *g, const char *node);
void guest_tell_declared(struct guest *g, const char *node);
void guest_tell_joined(struct guest *g, const char *node);
void guest_tell_presence(struct guest *g, const struct presence_row *row);
void guest_tell_trouble(struct guest *g);
void guest_leave(struct guest *g);
void guest_free(struct guest *g);

/* --- peer_trip.c ---------------------------------------------------------------------------- */
/* As `opened` of session_events. */
unsigned trip_begin(struct guest *g, struct stream *st, const struct stream_request *request,
	const char **reason);
/* Those whose answer is to come from where nothing is answered now are given back. */
void trips_look(struct peers *p);
void trips_free(struct peers *p);
/* --- peer_ask.c ----------------------------------------------------------------------------- */
/* As `opened` of session_events. */
unsigned asked_begin(struct guest *g, struct stream *st, const struct stream_request *request,
	const char **reason);
void asked_free_all(struct peers *p);

const char *peer_field(const struct stream_request *r, const char *name);

#endif
