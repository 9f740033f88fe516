/*
 * The bed of the tests of base/http/ws: a server and a client in one process on the loopback, each
 * on a loop of its own, on ports that the kernel chooses. What happens to either side is counted
 * and noted in a struct side. Every wait has an upper bound (tests/unit/patience.h), ends as soon
 * as its condition holds and fails the test otherwise.
 *
 *	bed_start(w);
 *	bed_open_pair(w);
 *	ws_send(w->at_client.conn, "hello", 5);
 *	bed_wait_for(w, &w->at_server.texts, 1);
 *	bed_stop(w);
 */
#ifndef EDGEWAY_TESTS_WS_BED_H
#define EDGEWAY_TESTS_WS_BED_H

#include "base/core/loop.h"
#include "base/core/sock.h"
#include "base/http/ws.h"
#include "base/tls/pki.h"
#include "tests/unit/patience.h"

enum { LIMIT = 6 * 1024 * 1024, NOTE_MAX = 512 };

struct side {
	int accepts, opens, texts, drains, closes;
	int refuse_with; /* HTTP status */
	unsigned retry_after_s;
	uint64_t asked_to_wait_ms;
	bool echo;
	struct ws_conn *conn; /* the last that opened */
	char why[NOTE_MAX], path[NOTE_MAX], name[NOTE_MAX], node_id[NOTE_MAX], auth[NOTE_MAX];
	char absent[NOTE_MAX];
	char *text;
	size_t len;
};

struct world {
	char *ca, *ca_key, *other_ca, *other_ca_key;
	char *hub, *hub_key, *node, *node_key;
	struct ssl_ctx_st *hub_tls, *node_tls;
	struct loop *loop, *client_loop;
	struct ws *server, *client;
	struct side at_server, at_client;
	struct watch *listener;
	int listen_fd;
	bool frozen; /* the client's loop stands still */
	struct addr addr;
};

/* State of the group of tests: cmocka's setup and teardown. */
int bed_make(void **state);
int bed_free(void **state);
/* A certificate for `key`; the caller frees it. */
char *bed_issue(const char *ca, const char *ca_key, const char *name, bool server, const char *key);

/* Both sides, the server listening on 127.0.0.1. handshake_ms 0: the default. */
void bed_start(struct world *w);
void bed_start_with(struct world *w, uint64_t server_heartbeat_ms, uint64_t handshake_ms);
void bed_stop(struct world *w);
/* Listens on w->addr and notes the port there. */
int bed_listen(struct world *w, struct err *err);
void bed_stop_listening(struct world *w);

void bed_turn(struct world *w);
void bed_turn_some(struct world *w, int turns);
/* Turns the loops until *count reaches `want` or patience ends. */
void bed_wait_for(struct world *w, const int *count, int want);

struct ws_conn *bed_dial(struct world *w, const char *host, struct ssl_ctx_st *tls);
void bed_dial_must_fail(struct world *w, const char *host, struct ssl_ctx_st *tls, const char *why);
/* One connection, open on both sides. */
void bed_open_pair(struct world *w);
/* Connected to the server, blocking; the caller closes it. */
int bed_plain_socket(struct world *w);

#endif
