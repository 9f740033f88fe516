/*
 * HTTPS client of the hub on its loop (uses libcurl; no other file includes curl.h), for few, long
 * requests to a server whose certificate is verified: the Kubernetes API. HTTP/1.1, so that every
 * watch has its own connection and receive window; connections are kept alive and reused.
 *
 * The body is passed on as it arrives (2xx only; error bodies are collected, cut to
 * HTTPS_ERROR_BYTES), in at most 64 KiB per call; a slow `data` callback slows the server down. A
 * request ends with one call of `done`, unless https_stop came before. It may be stopped from any
 * callback; other requests may be started only from `done`. Requests borrow nothing after
 * https_start.
 *
 * A connection attempt may take HTTPS_CONNECT_MS. After one has failed, three of four attempts are
 * limited to HTTPS_RECONNECT_MS: the kernel retransmits SYNs ever more rarely, so a long attempt
 * would notice late that the server is back.
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

/* The server and our credentials. "" or NULL: none. */
struct https_peer {
	char *server; /* https://HOST[:PORT][/PREFIX] */
	char *ca, *cert, *key; /* PEM; without ca the system's trusted CAs */
	char *token; /* bearer */
	char *tls_name; /* name in the server's certificate, where it is not HOST */
	char *proxy; /* http://, https:// or socks5:// */
	/* our namespace; does not concern the connection, but comes from the same source */
	char *ns;
};

struct https_answer {
	int status; /* 0: no response */
	bool whole; /* the body is complete */
	unsigned retry_after_s; /* 0: not said */
	int code; /* 0 or -errno, if there is no response or not all of it */
	const char *text; /* in this case the reason, in words */
	const char *body; /* of a response that is not 2xx; "" */
	size_t body_len;
};

struct https_call {
	const struct https_peer *peer;
	const char *method; /* NULL: GET */
	const char *path; /* /api/v1/services?limit=500 */
	const char *body, *type; /* NULL: none; its media type */
	uint64_t silence_ms; /* timeout without a byte: ends with -ETIMEDOUT */
	loop_fn *open; /* the head of a 2xx response has come; may be NULL */
	/* Not 0: the request is ended, `done` follows with this code and the text "". */
	int (*data)(void *arg, const char *data, size_t len);
	void (*done)(void *arg, const struct https_answer *answer);
	void *arg;
};

int https_new(struct https **h, struct loop *loop, struct err *err);
/* Every request must have ended or been stopped. */
void https_free(struct https **h);
/* Never fails at once: `done` reports an error later. */
struct https_request *https_start(struct https *h, const struct https_call *call);
void https_stop(struct https_request **r);

#endif
