/*
 * HTTPS client of the hub on its loop (libcurl behind it; no other file includes curl.h), for few
 * and long requests to a server whose certificate is checked: the Kubernetes API. HTTP/1.1, so that
 * every watch has a connection and a receive window of its own; connections are kept and used
 * again.
 *
 * The body is told as it comes (2xx only; bodies of errors are collected, cut to
 * HTTPS_ERROR_BYTES), in at most 64 KiB a call; who is slow to take it slows the server. A request
 * ends by `done`, once, unless https_stop came before. It may be stopped from any callback; others
 * are started from none but `done`. Requests borrow nothing after https_start.
 *
 * A connection may take HTTPS_CONNECT_MS. Once one could not be made, three of four attempts are
 * given up after HTTPS_RECONNECT_MS: what the kernel sends again ever more rarely would find a
 * server that is back late.
 *
 *	r = https_start(https, &call);
 *	https_stop(&r);		// no callback comes any more
 */
#ifndef EDGEWAY_HUB_KUBE_HTTPS_H
#define EDGEWAY_HUB_KUBE_HTTPS_H

#include "base/core/buf.h"
#include "base/core/loop.h"

enum {
	HTTPS_ERROR_BYTES = 8192,
	HTTPS_CONNECT_MS = 10000,
	HTTPS_RECONNECT_MS = 2000,
	HTTPS_TOKEN_MAX = 16384
};

struct https;
struct https_request;

/* Whom to talk to and as whom. "" or NULL: none. */
struct https_peer {
	char *server; /* https://HOST[:PORT][/PREFIX] */
	char *ca, *cert, *key; /* PEM; without ca those that the system trusts */
	char *token; /* bearer */
	char *tls_name; /* name in the server's certificate, where it is not HOST */
	char *proxy; /* http://, https:// or socks5:// */
	char *ns; /* namespace that is ours; not of the connection, but said where the rest is */
};

struct https_answer {
	int status; /* 0: none came */
	bool whole; /* the body came to its end */
	unsigned retry_after_s; /* 0: not said */
	int code; /* 0 or -errno, when there is no answer or not all of it */
	const char *text; /* then why, in words */
	const char *body; /* of an answer that is not 2xx; "" */
	size_t body_len;
};

struct https_call {
	const struct https_peer *peer;
	const char *method; /* NULL: GET */
	const char *path; /* /api/v1/services?limit=500 */
	const char *body, *type; /* NULL: none; its media type */
	uint64_t silence_ms; /* no byte for so long: ended with -ETIMEDOUT */
	loop_fn *open; /* the head of a 2xx answer has come; may be NULL */
	/* Not 0: the request is ended, `done` follows with this code and the text "". */
	int (*data)(void *arg, const char *data, size_t len);
	void (*done)(void *arg, const struct https_answer *answer);
	void *arg;
};

int https_new(struct https **h, struct loop *loop, struct err *err);
/* Every request must have ended or been stopped. */
void https_free(struct https **h);
/* Never fails at once: an error is told by `done`, later. */
struct https_request *https_start(struct https *h, const struct https_call *call);
void https_stop(struct https_request **r);

#endif
