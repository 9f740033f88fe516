/*
 * What the files of a TLS stream share: tls_stream.c (beginning, handshake, events, end) and
 * tls_records.c (what is read and written). Nothing outside of these includes it.
 */
#ifndef EDGEWAY_BASE_TLS_TLS_PRIVATE_H
#define EDGEWAY_BASE_TLS_TLS_PRIVATE_H

#include <openssl/ssl.h>

#include "base/tls/tls_socket.h"
#include "base/tls/tls_stream.h"

struct tls_stream {
	struct loop *loop;
	struct watch *watch;
	struct timer *deadline;
	struct preauth_conn *place; /* NULL: no step of the handshake waits for its turn */
	SSL *ssl;
	struct tls_socket socket;
	bool open;
	bool held; /* the owner wants nothing to read */
	bool writable; /* the owner wants to know when */
	bool broken; /* OpenSSL forbids SSL_shutdown after a fatal error */
	unsigned bulk; /* > 0: buffers are kept from one record to the next */
	uint64_t records, key_records; /* written by this key, and how many may be */
	size_t owed; /* plaintext of the last of them: said to be written once all are sent */
	unsigned interest;
	enum tls_proof proof;
	char *host; /* NULL: server */
	char *alpn;
	const char *const *offers;
	char *peer;
	char why[256];
	tls_event_fn *on;
	void *arg;
};

#endif
