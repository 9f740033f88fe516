/*
 * Shared by the files of meta/client/hub_client: hub_client.c has the connection's states,
 * hub_client_talk.c the protocol on it, hub_client_hub.c the hub's address, reported and stored,
 * hub_client_known.c the addresses of all hubs,
 * hub_client_crl.c the refused hubs, hub_client_refusal.c what the hub's refusals mean,
 * hub_client_why.c why there is no connection, hub_client_join.c how the node gets its certificate,
 * hub_client_renew.c how it renews it while connected, hub_client_answer.c the answers to the hub's
 * questions, cloudhub.c the protocol with a KubeEdge CloudHub. Not included elsewhere.
 */
#ifndef EDGEWAY_META_CLIENT_HUB_CLIENT_PRIVATE_H
#define EDGEWAY_META_CLIENT_HUB_CLIENT_PRIVATE_H

#include "base/core/flapping.h"
#include "base/core/state.h"
#include "base/http/proxy.h"
#include "base/http/ws.h"
#include "base/net/resolve.h"
#include "meta/client/hub_addresses.h"
#include "meta/client/hub_client.h"
#include "meta/client/join.h"
#include "meta/client/message.h"
#include "meta/state/apply.h"
#include "model/ca_list.h"

enum {
	HUB_CLIENT_ERROR_MAX = 512, /* fits the name of a CertificateSigningRequest */
	HUB_CLIENT_KNOWN_MAX = 16,
};

enum state { WAITING, RESOLVING, DIALLING, GREETING, SYNCING, SYNCED };

struct renewal { /* of the certificate, by a second connection */
	struct timer *tick;
	struct ws_conn *conn; /* NULL: no renewal is running */
	char *key; /* its new key */
	char query[37];
	bool done; /* the answer has come */
	bool bundle; /* the hub's CAs differ from ours */
	char bundle_of[PKI_HASH_TEXT]; /* the hub's CAs for which bundle_ms was chosen, "" none */
	/* loop's clock: time from which they are requested, on any connection */
	uint64_t bundle_ms;
	bool expiry_said;
	int64_t due_s; /* seconds since 1970 */
	/* loop's clock: start of this attempt, of the next; back-off */
	uint64_t started_ms, next_ms, wait_ms;
	uint64_t renewals, failures;
	char error[256]; /* of the last attempt, "" none */
};

struct known_hub {
	const struct place *place;
	struct addr addr;
};

struct hub_client;

/* The protocol on the connection: hub_client_talk.c with our own hub, cloudhub.c with
 * KubeEdge's. */
struct hub_client_protocol {
	size_t message_limit; /* bytes */
	int (*begin)(struct hub_client *f, const struct hub_client_config *config, struct err *err);
	void (*end)(struct hub_client *f);
	void (*opened)(struct hub_client *f);
	void (*text)(struct hub_client *f, const char *text, size_t len);
	void (*check)(struct hub_client *f); /* the timer `check` */
	void (*compare)(struct hub_client *f);
	void (*committed)(
		struct hub_client *f, unsigned connection, const char *id, const char *resource);
	/* After an open connection ended: the least ms to wait. */
	uint64_t (*closed)(struct hub_client *f);
	/* What this hub does not report, with the remedy; "". NULL: it reports all. */
	const char *(*untold)(const struct hub_client *f);
};

extern const struct hub_client_protocol feed_edgeway, feed_cloudhub;

struct hub_client {
	const struct hub_client_protocol *protocol;
	struct cloudhub *cloudhub; /* cloudhub.c's */
	struct loop *loop;
	struct apply *apply;
	char *node, *node_id, *cluster_domain;
	struct join_files files;
	struct join_token token;
	char *token_file; /* "" none */
	bool has_token;
	bool own_ca; /* the CA file is under data_dir, so we may replace it */
	bool own_files; /* certificate and key are the files of a join: we renew them */
	struct identity identity; /* empty until joined */
	char cas[CA_LIST_TEXT]; /* its CAs, the signer of its certificate first; "" unknown */
	char *joining_key, *join_ca;
	struct ssl_ctx_st *tls, *join_tls;
	char *refused_hubs; /* serial numbers of hubs' certificates, separated by commas */
	char *revoked_nodes; /* as message_revoked writes it; "": none known */
	struct ws *ws;
	struct resolve *resolve;
	struct timer *retry, *check, *flush, *hurry;

	enum state state;
	struct hub_addresses places; /* with a proxy all addresses are the proxy's */
	struct proxy proxy; /* host "": none */
	char target[MESH_NODE_MAX + 16]; /* host:port to request from the proxy */
	struct ws_tunnels *carriers; /* NULL: none */
	struct ws_conn *conn;
	unsigned connection; /* number of the current one */
	bool joining, joined;
	bool waits; /* our request is not approved yet */
	uint64_t approval_ms; /* back-off of repeating the request */
	/* the hub refuses our certificate as revoked or expired: use the token */
	bool unwanted;
	/* why this node has to join, although it has joined before; "": no reason known */
	char unusable[256];
	int64_t floor_s; /* lower bound for the current time, seconds since 1970 */
	struct renewal renewal;
	struct addr at; /* address of the current connection */
	const struct place *greeted; /* place of the hub that sent a hello last; NULL: none */
	struct addr greeted_at;
	bool finds_hubs;
	struct known_hub known[HUB_CLIENT_KNOWN_MAX];
	size_t n_known;
	uint64_t certificates; /* number of certificates so far */
	loop_fn *hub_changed;
	void *hub_arg;
	bool nameless; /* the last attempt found no address of the hub */
	uint32_t mark, subnet, mask;
	bool stopping;
	unsigned n_errors;
	bool bundles; /* the hub accepts them (model/bundle.h) */
	bool rendezvous; /* the hub that sent a hello last introduces nodes to each other */
	struct buf lines; /* acknowledgements to be sent together when the loop turns */
	/* when hub_client_move last acted, 0: never; the least time until it acts again */
	uint64_t moved_ms, move_wait_ms;
	uint64_t opened_ms, last_contact_ms, heartbeat_ms;
	struct liveness *liveness; /* NULL: each connection's heartbeats alone tell */
	/* handshake_ms: duration of the last successful handshake; 0: none yet */
	uint64_t dialled_ms, handshake_ms;
	size_t hurried; /* dials given up early since then */
	char query[37]; /* id of the running comparison, "" none */
	bool query_detail;
	struct clock_skew hubtime;
	struct flapping ends; /* of connections that had got the hub's hello */
	uint64_t comparisons[2]; /* with the hub: [0] all equal, [1] something differed */
	uint64_t unserved; /* hash of the last report on this connection, 0: none */
	char error[HUB_CLIENT_ERROR_MAX];
	const struct hub_client_cause *cause; /* of the error, NULL: none */
	struct timer *why_later;
	struct watch *why_watch; /* of hub_client_why.c, on an address that refuses connections */
	struct addr why_addr;
	int why_fd; /* -1: none */
	/* why the hub rejects us: another protocol version, a refusal to sign; "" none */
	char mismatch[400];
	char waits_for[HUB_CLIENT_ERROR_MAX]; /* the approval that we wait for, "" none */
	char address[ADDR_TEXT_MAX];
	uint64_t connects, failures, messages, refused, told_to_wait;
	uint64_t told_wait_ms; /* the hub asked to wait so long; until the next wait */
	bool heeds; /* the wait under way is the hub's wish */
	bool pods; /* the hub answers questions for pods by their address */
	void (*pod_answered)(void *arg, const char *id, const char *json, size_t len);
	int (*pod_ranges)(void *arg, const char *json, size_t len, struct err *err);
	void *pod_arg;
	meta_asked_fn *asked;
	void *asked_arg;
	bool no_tunnel;
	unsigned n_unanswered; /* questions of this connection */
	uint64_t asked_ms; /* start of the second that n_asked counts */
	unsigned n_asked;
};

/* id: receives the message's own id, may be NULL. */
void hub_client_send(struct hub_client *f, const struct message *m, char id[37]);
/* Sends the collected messages together. arg: the hub client. */
void hub_client_flush(void *arg);
/* e: the message that it answers; NULL when that could not be read. */
void hub_client_send_error(struct hub_client *f, const struct envelope *e, const char *reason);
/* Sets the name and the proxy; `d` borrows. */
void hub_client_aim(struct hub_client *f, struct ws_dial *d);
/* The hub's address works: stores it for when its name cannot be resolved, with the addresses that
 * the hub reports. */
void hub_client_remember_addresses(struct hub_client *f, struct message_hello *hello);

/* The current hub has sent its hello. */
/* Every change of the state goes through this (doc/states/hub-client.dot). */
void hub_client_enter(struct hub_client *f, enum state to);
void hub_client_note_hub(struct hub_client *f);
/* Sets the names that a hub at this place has. */
void hub_client_aim_at(const struct place *place, struct hub_client_hub *to);
/* hub_client_hub has changed. */
void hub_client_tell_hub(struct hub_client *f);

/* --- hub_client_answer.c -------------------------------------------------------------------- */
void hub_client_on_question(struct hub_client *f, const struct envelope *e);

/* Before an attempt to join: hub.tokenFile may have another token by now. While it cannot be read,
 * the last token is used. */
void hub_client_read_token(struct hub_client *f);
/* Reads the token and the certificate of an earlier join. */
int hub_client_take_identity(
	struct hub_client *f, const struct hub_client_config *config, struct err *err);
/* Takes ownership; used as certificate and for connections from now on. */
int hub_client_use_identity(struct hub_client *f, struct identity *id, struct err *err);
int hub_client_prepare_join(struct hub_client *f, struct err *err);
void hub_client_ask_join(struct hub_client *f);
void hub_client_on_join(struct hub_client *f, const struct envelope *e);
/* Whether hub.token is not a secret but the request for an operator's approval. */
bool hub_client_by_approval(const struct hub_client *f);
/* How long to wait before asking again; grows each time, with jitter. */
uint64_t hub_client_ask_again_ms(struct hub_client *f);

/* Seconds since 1970, never less than the known lower bound. */
int64_t hub_client_now_s(const struct hub_client *f);
void hub_client_raise_floor(struct hub_client *f, int64_t floor_s);
bool hub_client_expired(const struct hub_client *f);
/* The hub's time (ms since 1970). */
void hub_client_note_time(struct hub_client *f, uint64_t hub_ms);
/* hash: sha256 of the hub's CAs (PEM), "" when not given. */
void hub_client_compare_bundle(struct hub_client *f, const char *hash);
void hub_client_renew_init(struct hub_client *f);
void hub_client_renew_fini(struct hub_client *f);
/* Events of the second connection. */
void hub_client_renew_open(struct hub_client *f);
void hub_client_renew_text(struct hub_client *f, const char *text, size_t len);
void hub_client_renew_closed(struct hub_client *f, const char *why);

/* --- hub_client_crl.c ----------------------------------------------------------------------- */
/* Processes the hub's lists of revoked certificates, of hubs and of nodes, if the message has such.
 */
void hub_client_take_crl(struct hub_client *f, const struct envelope *e);
/* Makes a new context refuse the revoked certificates known so far; NULL: does nothing. */
void hub_client_use_refused(const struct hub_client *f, struct ssl_ctx_st *tls);
size_t hub_client_count_refused(const struct hub_client *f);

/* --- hub_client_why.c ----------------------------------------------------------------------- */
/* Finds out which of both the error WS_REFUSED_OR_UNREACHABLE was, and soon replaces it with the
 * reason. */
void hub_client_why_ask(struct hub_client *f, const struct addr *to);
void hub_client_why_end(struct hub_client *f);
void hub_client_why_dial(void *feed); /* called by the timer */

/* --- hub_client_refusal.c ------------------------------------------------------------------- */
/* The cause behind the error text with which a connection or an attempt ended; never NULL. */
struct hub_client_cause {
	const char *words; /* part of the error text */
	const char *problem; /* a label that never changes */
	const char *remedy;
};
const struct hub_client_cause *hub_client_cause(const char *why);
/* Whether another connection of this node replaced the last one. */
bool hub_client_is_twin(const struct hub_client *f);
/* Whether the hub ended the connection on purpose: it stops, hands over, or has news for the hello.
 */
bool hub_client_end_is_planned(const char *why);
/* Whether the error says that our certificate is no longer accepted. */
bool hub_client_certificate_refused(const char *why);
/* If the hub answered with a refusal: what to do about it. NULL: it did not refuse. */
const char *hub_client_remedy(const struct hub_client *f, const char *why);

#endif
