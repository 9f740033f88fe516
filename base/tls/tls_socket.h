/*
 * The socket BIO below OpenSSL: batches consecutive records so that they leave in one packet. Part
 * of base/tls/tls_stream, which owns the SSL and the descriptor.
 *
 *	tls_socket_attach(&s, ssl);
 *	tls_socket_make_room(&s, size);
 *	s.gathers = true;	// what SSL_write makes stays in the batch
 *	s.gathers = false;
 *	rc = tls_socket_send(&s);
 */
#ifndef EDGEWAY_BASE_TLS_TLS_SOCKET_H
#define EDGEWAY_BASE_TLS_TLS_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

struct ssl_st;

struct tls_socket {
	int fd; /* borrowed */
	bool gathers; /* records wait in the batch for the next ones */
	bool at_end; /* the socket has reached its end of input */
	char *batch; /* records to send; NULL while none is allocated */
	size_t batch_start, batch_end, batch_size;
};

/* Becomes the BIO of `ssl` until that is freed; *s must not move meanwhile. False: OpenSSL
 * failed. */
bool tls_socket_attach(struct tls_socket *s, struct ssl_st *ssl);
/* Makes the batch hold at least `size` bytes. Only while it is empty. */
void tls_socket_make_room(struct tls_socket *s, size_t size);
/* Free bytes in the batch. */
size_t tls_socket_room(const struct tls_socket *s);
/* 0: all of the batch is sent; -EAGAIN or another -errno. */
int tls_socket_send(struct tls_socket *s);
/* Frees the batch's memory, unless it holds something. */
void tls_socket_drop_room(struct tls_socket *s);
void tls_socket_fini(struct tls_socket *s);

#endif
