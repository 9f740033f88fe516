/*
 * Shared by the files of bench/agents: agents.c (commands), agents_dial.c (connections, storms),
 * agents_talk.c (the node's messages and data) and agents_tunnel.c (its tunnel).
 */
#ifndef EDGEWAY_BENCH_AGENTS_H
#define EDGEWAY_BENCH_AGENTS_H

#include <netinet/in.h>

#include <openssl/ssl.h>

#include "base/core/buf.h"
#include "model/digest.h"

enum { MOST = 20000, UNDER_WAY = 64, PING_MS = 2000, HEARTBEAT_MS = 4000, PIECE = 65536 };
enum phase { IDLE, TLS, UPGRADE, OPEN };

struct held {
	const char *key;
	uint64_t digest;
};

enum { RETRY_FIRST_MS = 100, RETRY_MOST_MS = 30000, RETRY_UNANSWERED_MS = 1500, PATIENCE_S = 10 };

/* When to dial again, as an agent does. */
struct retry {
	double due, since; /* since: when the dial under way began */
	unsigned most_ms;
};

/* The tunnel: HTTP/2 with the node as server, no streams. */
struct tunnel {
	bool is_tunnel; /* true, as in struct node; epoll tells them apart by it */
	struct node *of;
	SSL *ssl;
	SSL_SESSION *session; /* the hub's last ticket */
	int fd;
	enum phase phase;
	bool writes, settled;
	bool probes; /* the kernel asks the hub's whether it is there */
	double heard; /* the hub, or its kernel as far as is known */
	struct buf in, out;
	struct retry retry;
};

struct node {
	bool is_tunnel; /* false */
	unsigned number;
	char name[32];
	X509 *cert;
	SSL *ssl;
	SSL_SESSION *session;
	int fd;
	enum phase phase;
	struct retry retry;
	struct tunnel tunnel;
	bool stalled, synced, asked_check, in_step, writes;
	struct buf in, message, out, lines;
	const char *bundle; /* id of the bundle being read */
	struct held *held;
	size_t n_held, room; /* a power of two, at most half full */
	struct digests digests;
	unsigned changes;
	double reached; /* when `changes` reached the number that is waited for */
	uint64_t was_in, was_out, now_in,
		now_out; /* bytes: at the mark, of connections that ended */
};

struct world {
	struct sockaddr_in hub;
	const char *host;
	char *ca, *ca_key;
	X509 *ca_x509;
	char *leaf_key;
	EVP_PKEY *leaf;
	SSL_CTX *tls;
	struct sockaddr_in sources; /* the first local address; n_sources 0: the kernel's choice */
	unsigned n_sources;
	unsigned dials, failed, asked_to_wait, resumed; /* of the storm */
	struct node *nodes;
	unsigned first; /* number of the first node */
	size_t n, n_under_way, n_connecting;
	int epoll;
	unsigned wanted; /* changes after the mark that are waited for */
	bool plain, tunnels, storm;
	bool coming; /* a storm is under way, and losses are a part of it */
	unsigned heartbeat_ms; /* that the hub is asked for; 0: its own, by probes with a tunnel */
	double pinged, looked;
};

extern struct world w;

double now(void);
void die(const char *what) __attribute__((noreturn));
/* Sets the epoll events that the node needs now. */
void interest(struct node *n);

void close_node(struct node *n, const char *why);
void turn(int ms);
/* At least n nodes exist. */
void make_nodes(unsigned n);

/* --- agents_dial.c -------------------------------------------------------------------------- */
void tls_start(void);
void dial(struct node *n);
/* A socket that connects to the hub, in the epoll set with `owner`, and TLS on it. */
SSL *dial_hub(const struct node *n, SSL_SESSION **session, const char *alpn, void *owner, int *fd);
/* The dial or the connection has ended. answered: the hub had said something. */
void retry_later(struct retry *r, bool answered);
/* The hub asks to wait; heeded as an agent does. */
void retry_as_told(struct retry *r, const char *seconds);
/* Has the handshake failed because the hub is busy (doc/protocol.md)? */
bool is_busy_alert(void);
void do_storm(unsigned n, double seconds);

/* --- agents_tunnel.c ------------------------------------------------------------------------ */
void tunnel_dial(struct node *n);
void tunnel_close(struct tunnel *t, const char *why);
void tunnel_ready(struct tunnel *t, unsigned events);
void tunnels_look(void);

/* --- agents_talk.c -------------------------------------------------------------------------- */
void flush(struct node *n);
void send_frame(struct node *n, unsigned opcode, const char *data, size_t len);
void send_buckets(struct node *n);
/* Sends all messages queued since the last call as frames. */
void send_lines(struct node *n);
void on_message(struct node *n, const char *text, size_t len);

#endif
