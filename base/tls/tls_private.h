/*
 * Shared by the files of a TLS stream: tls_stream.c (creation, handshake, events, end) and
 * tls_records.c (reading and writing). No other file includes it.
 */
#ifndef EDGEWAY_BASE_TLS_TLS_PRIVATE_H
#define EDGEWAY_BASE_TLS_TLS_PRIVATE_H

#include <openssl/ssl.h>

#include "base/tls/tls_socket.h"
#include "base/tls/tls_stream.h"

struct tls_stream {
	struct loop *loop; /* NULL: passive */
	struct watch *watch;
	struct timer *deadline;
	struct preauth_conn *place; /* NULL: handshake steps run without rationing */
	SSL *ssl; /* NULL: a server's, before its first step */
	SSL_CTX *ctx; /* until then */
	bool resumes, patient, tells_cut;
	struct tls_socket socket;
	bool open;
	bool held; /* the owner has suspended reading */
	bool writable; /* the owner has requested TLS_WRITABLE */
	bool broken; /* OpenSSL forbids SSL_shutdown after a fatal error */
	unsigned bulk; /* > 0: buffers are kept between records */
	uint64_t records, key_records; /* records written with this key, and the limit */
	size_t owed; /* plaintext of the last records: reported as written once all are sent */
	unsigned interest;
	enum tls_proof proof;
	const struct pki_names *names;
	char *host; /* NULL: server */
	char *alpn;
	const char *const *offers;
	char *peer;
	char why[256];
	tls_event_fn *on;
	void *arg;
};

#endif
