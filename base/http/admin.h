/*
 * The administrative HTTP/1.1 server of both daemons: a TCP listener (loopback) and a Unix socket.
 * Answers small GET and POST requests from a table of routes; one request a connection (Connection:
 * close). Bounded: 32 connections a listener, 8 KiB heads, 64 KiB bodies, 5 s until the request is
 * there, a minute for the reply. Whoever comes when all places are taken gets that of the address
 * that has most: first one that has its reply, then one whose request is not there yet, the oldest
 * of them. So a probe, which sends its request at once, is answered whoever drips. By TCP the Host
 * must be an address, localhost or one of `names` (own_host.h), else 421. A TCP address that
 * another process has is told, and tried again every second; the rest serves.
 */
#ifndef EDGEWAY_BASE_HTTP_ADMIN_H
#define EDGEWAY_BASE_HTTP_ADMIN_H

#include "base/core/buf.h"
#include "base/core/loop.h"
#include "base/core/metric.h"

struct admin;

struct admin_reply {
	int status; /* 200 unless the handler says otherwise */
	const char *type; /* text/plain; charset=utf-8 unless said otherwise */
	struct buf body;
};

struct admin_request {
	const char *path; /* without the query */
	const char *query; /* behind '?', "" when absent */
	const char *body;
	size_t body_len;
	bool local; /* came by the Unix socket */
};

typedef void admin_fn(void *arg, const struct admin_request *req, struct admin_reply *reply);
/* The connection is the handler's from now on: fd is non-blocking and nothing was answered. query:
 * for the call. */
typedef void admin_take_fn(void *arg, int fd, const char *query);

/* POST of the path on the Unix socket gives the connection away. A route of the same path is for
 * the others. */
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
	const char *key; /* names `listen` in what is told: "admin.listen"; static */
	const char *listen; /* IP:PORT, "" for none */
	/* By which it may be asked over TCP, beside the host's own: lists ended by NULL, NULL:
	 * none; all outlive the server. */
	const char *const *names[2];
	const char *name; /* one more; NULL: none */
	const char *socket_path; /* its folder is made, "" for none */
	const struct admin_route *routes; /* end with a NULL method; outlive the server */
	void *arg; /* of the handlers; they must not call admin_stop */
	const struct admin_taken *taken; /* ended by a NULL path; outlives the server; NULL: none */
};

/* What a GET of the target (path and query) would get over TCP; reply->body is initialised, status
 * 200. */
void admin_ask(const struct admin *a, const char *target, struct admin_reply *reply);
/* Answers a connection that was taken, and closes it. */
void admin_answer(int fd, const struct admin_reply *reply);

int admin_start(
	struct admin **a, struct loop *loop, const struct admin_config *config, struct err *err);
void admin_stop(struct admin **a);
/* True, and words that say who and what to do, when another process has the TCP address. a NULL:
 * false. */
bool admin_trouble(const struct admin *a, struct buf *why);
/* Of the server for everything and the one for metrics alone; either may be NULL. */
void admin_metrics(const struct admin *all, const struct admin *metrics, struct metrics *m);

/* Value of `name` in a query string, percent-decoded, into `to`: 1, 0 when absent (`to` stays),
 * -EINVAL when it is too long or badly encoded. */
int admin_query(const char *query, const char *name, char *to, size_t size);

#endif
