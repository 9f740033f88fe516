/*
 * Bridges a TLS connection and a plain socket, in both directions, with half-close: the rest of the
 * ingress handles plain descriptors only. Buffers at most one record each way; a side that does not
 * read is not read for. On the loop's thread.
 *
 *	setup = (struct tls_bridge_setup){.loop = loop, .fd = fd, .ctx = ctx, .opened = on_opened};
 *	rc = tls_bridge_new(&setup, &bridge, &plain, &err);
 *
 * `opened` comes once, when the handshake is done or has failed. The bridge frees itself when both
 * sides have ended or one has broken, and calls `ended`. tls_bridge_leave: the user of the plain
 * side has closed it; bytes already written there still go out. tls_bridge_free breaks off both
 * sides, without calling `ended`.
 */
#ifndef EDGEWAY_HUB_INGRESS_TLS_BRIDGE_H
#define EDGEWAY_HUB_INGRESS_TLS_BRIDGE_H

#include "base/tls/tls_stream.h"

struct tls_bridge;

struct tls_bridge_setup {
	struct loop *loop;
	int fd; /* the network side: taken, also on failure */
	/* the plain side: taken; -1: a socket pair is made, and tls_bridge_new returns its other
	 * end */
	int plain;
	struct ssl_ctx_st *ctx;
	const char *host; /* client: the server name to request; NULL: server */
	enum tls_proof proof;
	struct preauth_conn *place; /* as in tls_setup */
	/* why: NULL when open. sni, peer: "": none. */
	void (*opened)(void *arg, const char *why, const char *sni, const char *peer);
	void (*ended)(void *arg, bool broken);
	void *arg;
};

int tls_bridge_new(
	const struct tls_bridge_setup *setup, struct tls_bridge **out, int *other, struct err *err);
void tls_bridge_leave(struct tls_bridge *b);
void tls_bridge_free(struct tls_bridge **b);

#endif
