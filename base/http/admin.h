/*
 * The administrative HTTP/1.1 server of both daemons: a TCP listener (loopback) and a Unix socket.
 * It answers small GET and POST requests from a table of routes; one request per connection
 * (Connection: close). Bounded: 32 connections per listener, 8 KiB heads, 64 KiB bodies, 5 s for
 * the request to arrive, a minute for the reply. When a listener is full, a new connection replaces
 * one of the address with the most connections: first one that has its reply, then one whose
 * request is incomplete, the oldest of them. So a probe, which sends its request at once, is
 * answered however many slow clients there are. Over TCP the Host must be an address, localhost or
 * one of `names` (own_host.h), else 421. If another process has the TCP address, that is reported
 * and the bind retried every second; the rest serves.
 */
#ifndef EDGEWAY_BASE_HTTP_ADMIN_H
#define EDGEWAY_BASE_HTTP_ADMIN_H

#include "base/core/buf.h"
#include "base/core/loop.h"
#include "base/core/metric.h"

struct admin;

struct admin_reply {
	int status; /* 200 unless the handler changes it */
	const char *type; /* text/plain; charset=utf-8 unless changed */
	struct buf body;
	/* Appends the next part of a reply that is too large to be built at once; *at: 0 at first,
	 * then what it left there. Nothing appended: that was all. NULL: `body` is all. Only for
	 * routes of a listener, not for admin_ask. */
	void (*more)(void *arg, uint64_t *at, struct buf *out);
};

struct admin_request {
	const char *query; /* after '?', "" when absent */
	const char *body;
	size_t body_len;
	bool local; /* came over the Unix socket */
};

typedef void admin_fn(void *arg, const struct admin_request *req, struct admin_reply *reply);
/* The handler owns the connection: fd is non-blocking and nothing has been answered. query: valid
 * for the call only. */
typedef void admin_take_fn(void *arg, int fd, const char *query);

/* A POST of the path on the Unix socket hands the connection over. A route with the same path
 * serves all other requests. */
struct admin_taken {
	const char *path;
	admin_take_fn *take;
};

struct admin_route {
	const char *method; /* "GET" also serves HEAD */
	const char *path; /* exact */
	admin_fn *fn; /* NULL: taken */
	bool local_only; /* 403 on TCP */
};

struct admin_config {
	const char *key; /* name of `listen` in messages: "admin.listen"; static */
	const char *listen; /* IP:PORT, "" for none */
	/* Host names accepted over TCP, besides the host's own: lists ended by NULL, NULL: none;
	 * all outlive the server. */
	const char *const *names[2];
	const char *name; /* one more; NULL: none */
	const char *socket_path; /* its folder is created; "" for none */
	const struct admin_route *routes; /* end with a NULL method; outlive the server */
	void *arg; /* for the handlers, which must not call admin_stop */
	const struct admin_taken *taken; /* ended by a NULL path; outlives the server; NULL: none */
};

/* Gives the reply that a GET of the target (path and query) would get over TCP; reply->body is
 * initialised, status 200. */
void admin_ask(const struct admin *a, const char *target, struct admin_reply *reply);
/* Answers a connection that was handed over, and closes it. */
void admin_answer(int fd, const struct admin_reply *reply);

int admin_start(
	struct admin **a, struct loop *loop, const struct admin_config *config, struct err *err);
void admin_stop(struct admin **a);
/* True when another process has the TCP address; *why then says which, and the remedy. a NULL:
 * false. */
bool admin_trouble(const struct admin *a, struct buf *why);
/* Writes the metrics of the main server and of the metrics-only one; either may be NULL. */
void admin_metrics(const struct admin *all, const struct admin *metrics, struct metrics *m);

/* Puts the percent-decoded value of `name` in a query string into `to`: 1; 0 when absent (`to` is
 * unchanged); -EINVAL when it is too long or badly encoded. */
int admin_query(const char *query, const char *name, char *to, size_t size);

#endif
