/*
 * What the files of meta/client/hub_client share: feed.c is the spine (the connection), feed_talk.c
 * the conversation once it is open, hub_client_hub.c where the hub is, told and remembered,
 * feed_crl.c which hubs are refused, feed_refusal.c what its refusals mean, feed_why.c why there is
 * no connection, feed_join.c how the node comes by its certificate, feed_renew.c how that is
 * renewed while the connection stays, hub_client_answer.c what is answered to its questions,
 * cloudhub.c the conversation with a KubeEdge CloudHub. No other file includes it.
 */
#ifndef EDGEWAY_META_CLIENT_HUB_CLIENT_PRIVATE_H
#define EDGEWAY_META_CLIENT_HUB_CLIENT_PRIVATE_H

#include "base/http/proxy.h"
#include "base/http/ws.h"
#include "base/net/resolve.h"
#include "meta/client/hub_addresses.h"
#include "meta/client/hub_client.h"
#include "meta/client/join.h"
#include "meta/client/message.h"
#include "meta/state/apply.h"
#include "model/ca_list.h"

enum { HUB_CLIENT_ERROR_MAX = 384 }; /* the name of a CertificateSigningRequest fits in */

enum state { WAITING, RESOLVING, DIALLING, GREETING, SYNCING, SYNCED };

struct renewal { /* of the certificate, by a second connection */
	struct timer *tick;
	struct ws_conn *conn; /* NULL: none under way */
	char *key; /* its new key */
	char query[37];
	bool done; /* its answer has come */
	bool bundle; /* the hub's CAs differ from ours */
	char bundle_of[PKI_HASH_TEXT]; /* the hub's CAs that bundle_ms was drawn for, "" none */
	/* loop's clock: from when on they are asked for, on whichever connection */
	uint64_t bundle_ms;
	bool expiry_said;
	int64_t due_s; /* seconds since 1970 */
	uint64_t started_ms, next_ms,
		wait_ms; /* loop's clock: of this attempt, of the next; back-off */
	uint64_t renewals, failures;
	char error[256]; /* of the last attempt, "" none */
};

struct hub_client;

/* What is said on the connection: feed_talk.c with our own hub, cloudhub.c with KubeEdge's. */
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
	/* After an open connection ended: ms to wait at least. */
	uint64_t (*closed)(struct hub_client *f);
	/* What this hub does not tell, with the remedy; "". NULL: it tells all. */
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
	bool own_ca; /* so does the CA */
	bool own_files; /* certificate and key lie where joining puts them: ours to renew */
	struct identity identity; /* empty until joined */
	char cas[CA_LIST_TEXT]; /* its CAs, the one that signed it first; "" not known */
	char *joining_key, *join_ca;
	struct ssl_ctx_st *tls, *join_tls;
	char *refused_hubs; /* serial numbers of their certificates, parted by commas */
	struct ws *ws;
	struct resolve *resolve;
	struct timer *retry, *check, *flush, *hurry;

	enum state state;
	struct hub_addresses places; /* with a proxy all addresses are its own */
	struct proxy proxy; /* host "": none */
	char target[MESH_NODE_MAX + 16]; /* host:port that the proxy is asked for */
	struct ws_tunnels *carriers; /* NULL: none */
	struct ws_conn *conn;
	unsigned connection; /* number of the present one */
	bool joining, joined;
	bool waits; /* nobody has approved our request yet */
	uint64_t approval_ms; /* back-off of asking again */
	/* the hub refuses our certificate as revoked or expired: the token is tried */
	bool unwanted;
	int64_t floor_s; /* no clock of ours may say less: seconds since 1970 */
	struct renewal renewal;
	struct addr at; /* where the present connection goes */
	const struct place *greeted; /* the hub that has greeted last; NULL: none */
	struct addr greeted_at;
	uint64_t certificates; /* how many there have been */
	loop_fn *hub_changed;
	void *hub_arg;
	bool nameless; /* the last attempt ended without an address of the hub */
	uint32_t mark, subnet, mask;
	bool stopping;
	unsigned n_errors;
	bool bundles; /* the hub takes them (model/bundle.h) */
	struct buf lines; /* acknowledgements that leave together once the loop turns */
	uint64_t moved_ms,
		/* when hub_client_move did, 0: never; and how long it does not again */
		move_wait_ms;
	uint64_t opened_ms, last_contact_ms, heartbeat_ms;
	uint64_t dialled_ms,
		handshake_ms; /* the last that was answered took so long; 0: none was */
	size_t hurried; /* dials given up early since then */
	char query[37]; /* id of the comparison under way, "" none */
	bool query_detail;
	struct clock_skew hubtime;
	uint64_t comparisons[2]; /* with the hub: all was the same, something differed */
	uint64_t unserved; /* hash of what was told on this connection, 0: nothing */
	char error[HUB_CLIENT_ERROR_MAX];
	const struct hub_client_cause *cause; /* of it, NULL: none */
	struct timer *why_later;
	struct watch *why_watch; /* feed_why.c's, of an address that does not take connections */
	struct addr why_addr;
	int why_fd; /* -1: none */
	char mismatch
		/* why the hub will not have us: another protocol, a refusal to sign; "" none */
		[400];
	char waits_for[HUB_CLIENT_ERROR_MAX]; /* which approval, "" none */
	char address[ADDR_TEXT_MAX];
	uint64_t connects, failures, messages, refused, acks;
	meta_asked_fn *asked;
	void *asked_arg;
	bool no_tunnel;
	unsigned n_unanswered; /* questions of this connection */
	uint64_t asked_ms; /* the second in which n_asked came */
	unsigned n_asked;
	uint64_t answered, declined;
};

/* id: the message's own, may be NULL. */
void hub_client_send(struct hub_client *f, const struct message *m, char id[37]);
/* Sends what waits to leave together. arg: the feed. */
void hub_client_flush(void *arg);
/* e: what is answered; NULL when it could not be read. */
void hub_client_send_error(struct hub_client *f, const struct envelope *e, const char *reason);
/* Name, and the way through the proxy; `d` borrows. */
void hub_client_aim(struct hub_client *f, struct ws_dial *d);
/* The hub's address is good: to be tried when its name cannot be resolved; so are those that it
 * tells. */
void hub_client_remember_addresses(struct hub_client *f, struct message_hello *hello);

/* The present hub has greeted. */
void hub_client_note_hub(struct hub_client *f);
/* hub_client_hub says something new. */
void hub_client_tell_hub(struct hub_client *f);

/* --- hub_client_answer.c -------------------------------------------------------------------- */
void hub_client_on_question(struct hub_client *f, const struct envelope *e);

/* An attempt to join begins: hub.tokenFile may have another token by now. What was read before
 * serves while it cannot be read. */
void hub_client_read_token(struct hub_client *f);
/* Reads the token and the certificate of an earlier join. */
int hub_client_take_identity(
	struct hub_client *f, const struct hub_client_config *config, struct err *err);
/* Takes over; certificate and connections from now on. */
int hub_client_use_identity(struct hub_client *f, struct identity *id, struct err *err);
int hub_client_prepare_join(struct hub_client *f, struct err *err);
void hub_client_ask_join(struct hub_client *f);
void hub_client_on_join(struct hub_client *f, const struct envelope *e);
/* Is hub.token no secret but the request for an operator's approval? */
bool hub_client_by_approval(const struct hub_client *f);
/* How long to wait before the next question, each time longer, with jitter. */
uint64_t hub_client_ask_again_ms(struct hub_client *f);

/* Seconds since 1970, never less than what is known to have passed. */
int64_t hub_client_now_s(const struct hub_client *f);
void hub_client_raise_floor(struct hub_client *f, int64_t floor_s);
bool hub_client_expired(const struct hub_client *f);
/* The hub says that it is this late (ms since 1970). */
void hub_client_note_time(struct hub_client *f, uint64_t hub_ms);
/* hash: sha256 of the hub's CAs (PEM), "" when it did not say. */
void hub_client_compare_bundle(struct hub_client *f, const char *hash);
void hub_client_renew_init(struct hub_client *f);
void hub_client_renew_fini(struct hub_client *f);
/* Events of the second connection. */
void hub_client_renew_open(struct hub_client *f);
void hub_client_renew_text(struct hub_client *f, const char *text, size_t len);
void hub_client_renew_closed(struct hub_client *f, const char *why);

/* --- hub_client_crl.c ------------------------------------------------------------------------- */
/* The hub's list of revoked certificates, if the message has one. */
void hub_client_take_crl(struct hub_client *f, const struct envelope *e);
/* A new context refuses what is known to be revoked; NULL: nothing. */
void hub_client_use_refused(const struct hub_client *f, struct ssl_ctx_st *tls);
size_t hub_client_count_refused(const struct hub_client *f);

/* --- hub_client_why.c ------------------------------------------------------------------------- */
/* The error that says WS_REFUSED_OR_UNREACHABLE says before long which of both. */
void hub_client_why_ask(struct hub_client *f, const struct addr *to);
void hub_client_why_end(struct hub_client *f);
void hub_client_why_dial(void *feed); /* the timer's */

/* --- hub_client_refusal.c --------------------------------------------------------------------- */
/* What stands behind the words with which a connection, or an attempt, ended; never NULL. */
struct hub_client_cause {
	const char *words; /* that are in them */
	const char *problem; /* a label, the same for ever */
	const char *remedy;
};
const struct hub_client_cause *hub_client_cause(const char *why);
/* Does the connection's last word say that our certificate counts no more? */
bool hub_client_certificate_refused(const char *why);
/* The hub answered, and said no: words that tell what to do about it. NULL: it did not. */
const char *hub_client_remedy(const struct hub_client *f, const char *why);

#endif
