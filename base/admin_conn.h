/*
 * Inside of base/admin: admin.c owns the listeners, admin_conn.c one connection from its accept to its end:
 * head, body, reply, a short wait for the peer. A connection frees itself.
 */
#ifndef EDGEWAY_BASE_ADMIN_CONN_H
#define EDGEWAY_BASE_ADMIN_CONN_H

#include "base/admin.h"

struct admin_conn;

struct admin_listener {
	struct admin *admin;
	struct watch *watch;
	struct timer *pause; /* no descriptors or too many connections: look again later */
	int fd;
	unsigned conns;
	bool local;
};

struct admin {
	struct loop *loop;
	const struct admin_route *routes;
	void *arg;
	const struct admin_taken *taken; /* NULL: none */
	char *socket_path; /* removed at the end, NULL without one */
	struct admin_listener tcp, local;
	struct admin_conn *conns;
};

/* Takes the descriptor over. */
void admin_conn_start(struct admin_listener *l, int fd);
void admin_conn_free(struct admin_conn *c);

#endif
