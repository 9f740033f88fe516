/*
 * A hub for feed_test: base/http/ws on a thread and loop of its own, with a handful of services.
 * Plays doc/protocol.md as written; the test can make it refuse, say garbage, or go away. Functions
 * are for the test's thread unless marked; what the hub saw is read with hub_saw.
 */
#ifndef EDGEWAY_TESTS_FEED_HUB_H
#define EDGEWAY_TESTS_FEED_HUB_H

#include "base/core/util.h"

struct hub;

struct hub_saw {
	unsigned joins, opens, closes, updates_sent, deletes_sent, acks, errors, buckets, synced;
	unsigned answers; /* to questions */
	unsigned acks_too_early; /* the row was not in the database when the ack came */
	char error[256]; /* content of the last error message */
};

struct hub *hub_new(void);
void hub_free(struct hub **hub);
/* Listens (on the same port every time) or stops listening and drops the connection. */
void hub_start(struct hub *hub);
void hub_stop(struct hub *hub);
uint16_t hub_port(const struct hub *hub);
const char *hub_token(const struct hub *hub);
void hub_refuse(struct hub *hub, int status); /* joins, with 426 all; 0: no more */
void hub_protocol(struct hub *hub, int protocol); /* said in the next hello */
void hub_site(struct hub *hub, const char *site); /* said in the next hello */
void hub_address(struct hub *hub, const char *address); /* said in the next hello; "" none */
/* From the next hello on: it says these CAs (a SHA-256, "" none), and the connection is closed
 * behind it. */
void hub_other_cas(struct hub *hub, const char *hash, bool drops);
/* Looks into this database when an ack comes; NULL: no more. */
void hub_check_database(struct hub *hub, const char *path);
/* version makes the view's bytes differ; sent at once when a node is connected. */
void hub_put(struct hub *hub, const char *key, unsigned version);
void hub_delete(struct hub *hub, const char *key);
void hub_raw(struct hub *hub, const char *text);
void hub_send(struct hub *hub, const char *operation, const char *resource, const char *content);
void hub_drop(struct hub *hub);
struct hub_saw hub_saw(struct hub *hub);

#endif
