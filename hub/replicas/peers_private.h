/*
 * State shared by the files of the peers: peers.c (the list of replicas, opening streams),
 * peer_client.c (a connection to a replica), peer_server.c (a connection from one), peer_forward.c
 * (a stream that one asks for), peer_query.c (a question of one), peers_tell.c (state and metrics).
 * No other file includes it.
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

/* Request header: the receiver may forward the stream to one more replica. */
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
	TAILQ_ENTRY(line) link; /* link in `leaving` */
	struct peer *of;
	struct watch *watch; /* while connecting */
	struct timer *deadline;
	struct tls_stream *tls; /* during the handshake */
	struct session *session;
	struct stream *list; /* stream of the replica's reports; NULL: it has ended */
	struct buf in; /* an incomplete line of that */
	struct tunnel_directory_peer
		*claims; /* NULL before the replica has named itself, and once it leaves */
	int fd; /* while connecting, else -1 */
	bool leaving;
	bool stops; /* the replica says that it stops */
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
	uint64_t names; /* bit mask of the configured names that resolve to it */
	unsigned guests; /* connections from this address */
	enum peer_state state;
	bool tried; /* an attempt has succeeded or failed */
	bool away_told; /* its absence was logged */
	struct line *dialling, *now;
	struct log_queue leaving;
	struct timer *retry;
	uint64_t backoff_ms;
	char name[PEER_NAME_TEXT]; /* the last name it gave; "": never */
	char error[256]; /* "" none */
	char trouble[PRESENCE_WORDS_MAX +
		1]; /* the problem that it reports while it is connected; "": none */
};

/* One connection from another replica. */
struct guest {
	TAILQ_ENTRY(guest) link; /* of handshakes, or of those that are open */
	struct preauth_conn place; /* during the handshake */
	struct peers *of;
	struct tls_handshake *handshake; /* until it is done */
	struct tls_stream *tls; /* then, until there is a session */
	struct session *session;
	struct stream *list; /* stream that reports our nodes to it; NULL: it has not asked */
	struct buf out; /* for that */
	struct peer *from; /* replica at its address; NULL: unknown */
	struct addr addr;
	char address[ADDR_TEXT_MAX];
	char name[PEER_NAME_TEXT];
	uint64_t since_ms;
	int64_t ends_s; /* when its certificate expires */
	char serial[PKI_SERIAL_TEXT];
};

TAILQ_HEAD(guest_ring, guest);
LIST_HEAD(trips, trip);
LIST_HEAD(asked_list, asked);

struct peers {
	struct peers_config config;
	struct session_budget budget;
	uint64_t seed; /* of nodes' slots of its shares */
	struct session_limits limits;
	struct tunnel_directory *roster;
	struct peer_names *names; /* NULL: there are no others */
	char *configured; /* `peers` as last adopted; NULL: never */
	struct ssl_ctx_st *server, *client; /* NULL: not yet */
	struct timer *sweep, *drained;
	TAILQ_HEAD(, peer) all;
	struct guest_ring handshakes, guests;
	struct trips trips;
	struct asked_list asked_here;
	size_t n_all, n_guests, n_trips, n_asked; /* n_guests: without handshakes */
	uint64_t began_ms; /* when there were certificates */
	uint64_t forgot_ms; /* when names were last forgotten */
	uint64_t drain_ms; /* since when it drains; 0: it does not */
	void (*done)(void *arg);
	void *done_arg;
	char id[PEER_ID_TEXT], name[PEER_NAME_TEXT];
	char trouble[PRESENCE_WORDS_MAX + 1]; /* problem of this hub, as last reported */
	uint64_t refused; /* connections from replicas */
	uint64_t asked, misdirected; /* streams opened at others */
	uint64_t passed, not_here, unpassed; /* streams forwarded for others */
};

/* --- peers.c -------------------------------------------------------------------------------- */
/* Finds or creates the peer at this address; NULL: there are too many. */
struct peer *peers_at(struct peers *p, const struct addr *addr);
/* Frees the peer if nothing needs it any more. */
void peers_release(struct peer *peer);
/* Something has ended: checks whether draining is complete. */
void peers_say_drained(struct peers *p);
/* As peers_open, for one replica, which may be NULL; between: it may forward the stream. */
int peers_open_at(struct peers *p, struct line *l, struct peers_ask *ask, bool between);
/* What waits in a stream for this node is charged to the node whose pods call, if the request names
 * one, else to the node that it leads to. */
void peers_charge(const struct peers *p, struct stream *st, const struct stream_request *request,
	const char *node);
/* A claim has been made, withdrawn or changed. */
void peers_changed(struct peers *p, const char *node);

/* --- peer_client.c -------------------------------------------------------------------------- */
void peer_dial(struct peer *peer);
/* Another certificate: a new connection replaces the one in use. */
void peer_renew(struct peer *peer);
/* No new streams; open ones finish. */
void peer_leave(struct peer *peer);
void peer_close(struct peer *peer);
/* Closes connections that were made with certificates that are now revoked. */
void peer_check(struct peer *peer);
unsigned peer_streams(const struct peer *peer);

/* --- peer_server.c -------------------------------------------------------------------------- */
void guest_tell(struct guest *g, const char *node);
void guest_tell_declared(struct guest *g, const char *node);
void guest_tell_joined(struct guest *g, const char *node);
void guest_tell_presence(struct guest *g, const struct presence_row *row);
void guest_tell_trouble(struct guest *g);
void guest_leave(struct guest *g);
void guest_free(struct guest *g);

/* --- peer_forward.c ------------------------------------------------------------------------- */
/* The `opened` callback of session_events. */
unsigned trip_begin(struct guest *g, struct stream *st, const struct stream_request *request,
	const char **reason);
/* Gives up, with 421, the forwarded streams whose tunnel does not answer now. */
void trips_look(struct peers *p);
void trips_free(struct peers *p);
/* --- peer_query.c --------------------------------------------------------------------------- */
/* The `opened` callback of session_events. */
unsigned asked_begin(struct guest *g, struct stream *st, const struct stream_request *request,
	const char **reason);
void asked_free_all(struct peers *p);

#endif
