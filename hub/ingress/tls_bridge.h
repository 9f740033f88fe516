/*
 * Bridges a TLS connection and a plain socket, in both directions, with half-close: the rest of the
 * ingress handles plain descriptors only. Buffers at most one record each way; a side that does not
 * read is not read for. On the loop's thread.
 *
 *	setup = (struct tls_bridge_setup){.loop = loop, .fd = fd, .plain = plain, .ctx = ctx, .opened = on_opened};
 *	rc = tls_bridge_new(&setup, &bridge, &err);
 *
 * `opened` comes once, when the handshake is done or has failed; `ended` once, when both sides have
 * ended or one has broken: call tls_bridge_free then, which closes both descriptors. Before `ended`
 * it breaks off both sides. tls_bridge_leave: the user of the plain side has closed it; bytes
 * already written there still go out.
 *
 * A target's FIN without close_notify may be somebody's on the way (RFC 8446 section 6.1), or that
 * of one of the many servers that omit it. So it is no end, but all that came before it is
 * delivered, of which the reader may know by itself that it is complete (RFC 9112 section 9.8).
 */
#ifndef EDGEWAY_HUB_INGRESS_TLS_BRIDGE_H
#define EDGEWAY_HUB_INGRESS_TLS_BRIDGE_H

#include "base/tls/tls_stream.h"

struct tls_bridge;

/* TLS_BRIDGE_CUT: the target has sent no close_notify; the plain side has read all that came. */
enum tls_bridge_end { TLS_BRIDGE_WHOLE, TLS_BRIDGE_BROKEN, TLS_BRIDGE_CUT };

struct tls_bridge_setup {
	struct loop *loop;
	int fd, plain; /* the network side and the plain side: taken, also on failure */
	struct ssl_ctx_st *ctx;
	const char *host; /* client: the server name to request; NULL: server */
	enum tls_proof proof;
	struct preauth_conn *place; /* as in tls_setup */
	/* why: NULL when open. sni, peer: "": none. */
	void (*opened)(void *arg, const char *why, const char *sni, const char *peer);
	void (*ended)(void *arg, enum tls_bridge_end end);
	void *arg;
};

int tls_bridge_new(const struct tls_bridge_setup *setup, struct tls_bridge **out, struct err *err);
void tls_bridge_leave(struct tls_bridge *b);
/* What was read from the plain side is not all: it still goes out, and then a reset. */
void tls_bridge_cut(struct tls_bridge *b);
void tls_bridge_free(struct tls_bridge **b);

#endif
