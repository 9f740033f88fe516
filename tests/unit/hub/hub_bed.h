/*
 * A whole hub in this process and real websocket clients on the same loop, for the tests of hub/.
 * Files in a folder of its own under TMPDIR. Everything asserts: a helper that returns has
 * succeeded.
 *
 *	bed_start_hub(b);
 *	id = bed_join(b, "edge-1");
 *	c = bed_connect(b, "edge-1", &id);	// hello has come
 *	bed_send(c, OP_QUERY, ...);
 *	e = bed_next(b, c);			// the next message from the hub
 */
#ifndef EDGEWAY_TESTS_HUB_BED_H
#define EDGEWAY_TESTS_HUB_BED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/http/ws.h"
#include "hub/hub.h"
#include "model/envelope.h"
#include "tests/unit/patience.h"

enum { MESSAGES_MAX = 4096 };

struct client {
	struct ws_conn *conn;
	bool open, closed;
	char why[256];
	struct envelope in[MESSAGES_MAX]; /* what came and was not looked at yet */
	size_t n_in, at;
	unsigned frames, bundles;
};

struct bed {
	char dir[64];
	char *folder, *data;
	struct loop *loop;
	struct hub *hub;
	struct ws *ws;
	struct client *clients[32];
	size_t n_clients;
	struct ssl_ctx_st *contexts[32];
	char *cas[32];
	size_t n_contexts;
	bool bundles; /* nodes say from now on that they take them */
	const char *protocol; /* that nodes say from now on; NULL: this one */
};

struct identity {
	char *key, *cert, *ca;
};

#define wait_for(b, condition) patience_until(bed_turn(b), condition)

void bed_turn(struct bed *b);
/* Lets things happen that should not. */
void bed_idle(struct bed *b, unsigned ms);
void bed_send_text(struct client *c, const char *text);
void bed_send(struct client *c, enum operation op, const char *resource, const char *id,
	const char *parent, const char *content);
struct envelope *bed_next(struct bed *b, struct client *c);
void bed_ack(struct client *c, const struct envelope *e);
void bed_write(struct bed *b, const char *name, const char *text);
/* Services s<first>, s<first + 1>, ... of namespace default with this port. */
void bed_write_services(struct bed *b, const char *file, unsigned first, unsigned n, unsigned port);
void bed_start_hub(struct bed *b);
int bed_setup(void **state);
int bed_teardown(void **state);
char *bed_token(struct bed *b, const char *node, unsigned ttl_s);
struct client *bed_dial_join(struct bed *b, const char *node, const char *token);
void bed_request_cert(struct client *c, const char *node, const char *key);
/* What the hub says to a request with this token for this key. */
struct envelope *bed_ask_cert(struct bed *b, const char *node, const char *token, const char *key);
/* A token made as it says. */
char *bed_token_of(struct bed *b, const struct hub_token *token);
/* Joins with a token made for the node. */
struct identity bed_join(struct bed *b, const char *node);
void identity_fini(struct identity *id);
/* cert NULL: without a certificate. */
struct client *bed_dial_events(
	struct bed *b, const char *node, const struct identity *id, const char *cert);
/* Connected, and hello has come. */
struct client *bed_connect(struct bed *b, const char *node, const struct identity *id);
/* Joins with the certificate alone. */
struct client *bed_dial_renew(struct bed *b, const char *node, const struct identity *id);

#endif
