/*
 * The socket below OpenSSL: records that follow each other at once leave in one packet. Part of
 * base/tls/tls_stream, which owns the SSL and the descriptor.
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
	bool gathers; /* records wait for those that follow at once */
	bool at_end; /* of what the socket gives */
	char *batch; /* records for the socket; NULL while there is no room for any */
	size_t batch_start, batch_end, batch_size;
};

/* Below `ssl` from now on, until that is freed; does not move meanwhile. False: OpenSSL cannot. */
bool tls_socket_attach(struct tls_socket *s, struct ssl_st *ssl);
/* The batch takes `size` bytes at least. Not while it holds any. */
void tls_socket_make_room(struct tls_socket *s, size_t size);
/* How many more bytes the batch takes. */
size_t tls_socket_room(const struct tls_socket *s);
/* 0: all of the batch is sent; -EAGAIN or another -errno. */
int tls_socket_send(struct tls_socket *s);
/* Gives the batch's memory back, unless it holds something. */
void tls_socket_drop_room(struct tls_socket *s);
void tls_socket_fini(struct tls_socket *s);

#endif
