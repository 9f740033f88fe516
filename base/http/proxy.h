/*
 * Opens a TCP connection through an HTTP proxy: CONNECT, RFC 9110 section 9.3.6, with Basic
 * credentials (RFC 7617) if the URL has them. The proxy does not see the content: TLS goes end to
 * end. Loop 0 or any other, one thread. Only `authorization` holds the credentials: no error
 * message contains them.
 *
 *	struct proxy proxy = {0};
 *	proxy_parse(&proxy, "http://user:p%40ss@proxy.example:3128", &err);
 *	...				// resolve proxy.host, then
 *	struct proxy_dial *d;
 *	rc = proxy_dial(&d, loop, &(struct proxy_setup){.proxy = &proxy, .addr = addr,
 *		.target = "hub:10000", .timeout_ms = 10000, .done = on_done, .arg = me}, &err);
 *	proxy_cancel(&d);		// before `done` only
 */
#ifndef EDGEWAY_BASE_HTTP_PROXY_H
#define EDGEWAY_BASE_HTTP_PROXY_H

#include "base/core/loop.h"
#include "base/core/sock.h"

struct proxy {
	char host[254]; /* a name, or an address without brackets */
	uint16_t port; /* 80 unless the URL names one */
	char *authorization; /* "Basic ...", NULL: none */
};

/* http://[user:password@]host[:port][/]; percent-escapes in user and password are decoded. -EINVAL
 * with a reason that does not repeat the URL. */
int proxy_parse(struct proxy *to, const char *url, struct err *err);
void proxy_fini(struct proxy *p);

struct proxy_dial;

/* Called once, never from within proxy_dial: fd is a connected, non-blocking socket that the caller
 * now owns, whose next byte comes from the target; or -1 and why (with the remedy, valid for the
 * call). The dial is over. */
typedef void proxy_done_fn(void *arg, int fd, const char *why);

struct proxy_setup {
	const struct proxy *proxy; /* borrowed for the call */
	struct addr addr; /* of the proxy */
	const char *target; /* host:port, [IPv6]:port */
	uint32_t mark; /* SO_MARK, 0: none */
	uint64_t timeout_ms; /* for everything */
	proxy_done_fn *done;
	void *arg;
};

/* -errno when it cannot even start. */
int proxy_dial(
	struct proxy_dial **d, struct loop *loop, const struct proxy_setup *setup, struct err *err);
void proxy_cancel(struct proxy_dial **d);

#endif
