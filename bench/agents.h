/*
 * Shared by the files of bench/agents: agents.c (connections, commands) and agents_talk.c (the
 * node's messages and data).
 */
#ifndef EDGEWAY_BENCH_AGENTS_H
#define EDGEWAY_BENCH_AGENTS_H

#include <netinet/in.h>

#include <openssl/ssl.h>

#include "base/core/buf.h"
#include "model/digest.h"

enum { MOST = 20000, UNDER_WAY = 64, PING_MS = 2000, PIECE = 65536 };
enum phase { IDLE, TLS, UPGRADE, OPEN };

struct held {
	const char *key;
	uint64_t digest;
};

struct node {
	unsigned number;
	char name[32];
	char *cert, *key;
	SSL *ssl;
	int fd;
	enum phase phase;
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
	struct node *nodes;
	size_t n, n_under_way, n_connecting;
	int epoll;
	unsigned wanted; /* changes after the mark that are waited for */
	bool plain;
	double pinged;
};

extern struct world w;

double now(void);
void die(const char *what) __attribute__((noreturn));
/* Sets the epoll events that the node needs now. */
void interest(struct node *n);

/* --- agents_talk.c -------------------------------------------------------------------------- */
void flush(struct node *n);
void send_frame(struct node *n, unsigned opcode, const char *data, size_t len);
void send_buckets(struct node *n);
/* Sends all messages queued since the last call as frames. */
void send_lines(struct node *n);
void on_message(struct node *n, const char *text, size_t len);

#endif
