/*
 * Internal to base/http/admin: admin.c owns the listeners, admin_conn.c decides about a request
 * that base/http/http_server has read.
 */
#ifndef EDGEWAY_BASE_HTTP_ADMIN_CONN_H
#define EDGEWAY_BASE_HTTP_ADMIN_CONN_H

#include <limits.h>

#include "base/core/sock.h"
#include "base/http/admin.h"
#include "base/http/http_server.h"
#include "base/os/port_holder.h"

struct admin_listener {
	struct admin *admin;
	const char *key; /* configuration key, for messages; static */
	struct addr address;
	struct watch *watch; /* NULL: another process has the address */
	struct timer *pause; /* retry: no descriptors, or the address is taken */
	int fd;
	struct http_server server;
	bool local;
	char holder[PORT_HOLDER_TEXT_MAX]; /* which process has the address, "" when we have it */
	uint64_t evicted, misnamed;
};

struct admin {
	struct loop *loop;
	const struct admin_route *routes;
	void *arg;
	const struct admin_taken *taken; /* NULL: none */
	const char *const *names[2];
	const char *own[3]; /* ended by NULL */
	char host_name[HOST_NAME_MAX + 1];
	char *socket_path; /* removed at the end, NULL without one */
	struct admin_listener tcp, local;
};

void admin_conn_server(struct admin_listener *l);
/* Takes over the descriptor, and reads what has already arrived. */
void admin_conn_start(struct admin_listener *l, int fd, const struct addr *peer);

#endif
