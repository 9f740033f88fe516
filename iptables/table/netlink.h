/*
 * Netlink sockets for the rest of this folder (libmnl). The kernel answers every request here
 * within sendto(2), so a synchronous exchange on loop 0 takes microseconds and cannot block. A
 * reply that is not there at once will never come; this is an error.
 *
 *	auto_nl struct mnl_socket *nl = NULL;
 *	if ((rc = nl_open(&nl, NETLINK_ROUTE, 0, err)) < 0 || ...
 *	rc = nl_request(nl, nlh, on_message, &state);	// one request: dump or acknowledged
 *	rc = nl_batch(nl, bytes, len, acks);		// many messages, each with NLM_F_ACK
 */
#ifndef EDGEWAY_IPTABLES_TABLE_NETLINK_H
#define EDGEWAY_IPTABLES_TABLE_NETLINK_H

#include <libmnl/libmnl.h>

#include "base/core/err.h"

#define auto_nl __attribute__((cleanup(nl_close)))
enum { NL_READ_BYTES = 65536 };

/* `groups`: bit mask as in sockaddr_nl (groups 1 to 32), 0: none. Non-blocking, close-on-exec. */
int nl_open(struct mnl_socket **nl, int bus, uint32_t groups, struct err *err);
void nl_close(struct mnl_socket **nl);
/* Sends one message and passes every reply to fn (may be NULL). 0 or the kernel's -errno. */
int nl_request(struct mnl_socket *nl, struct nlmsghdr *nlh, mnl_cb_t fn, void *arg);
/* Sends a batch (of some megabytes at most) and expects `acks` acknowledgements; returns the first
 * error. */
int nl_batch(struct mnl_socket *nl, const void *bytes, size_t len, unsigned acks);
/* Sends messages that request no acknowledgement (some ten thousand bytes). Returns 0, or the first
 * error except -ENOENT, which means that the object to delete is already gone. */
int nl_messages(struct mnl_socket *nl, const void *bytes, size_t len);
/* Reads all queued messages of a socket that follows groups: 0, or -ENOBUFS when the kernel dropped
 * messages. */
int nl_drain(struct mnl_socket *nl, mnl_cb_t fn, void *arg);

/* The first attribute of this type, NULL: none. */
const struct nlattr *nl_attr(const struct nlmsghdr *nlh, unsigned offset, uint16_t type);
const struct nlattr *nl_nested(const struct nlattr *nest, uint16_t type);
/* The first attribute of this type behind `offset` bytes of the message's own header, as text or as
 * a number in host byte order; "" and 0 when absent or malformed. */
const char *nl_text(const struct nlmsghdr *nlh, unsigned offset, uint16_t type);
uint32_t nl_u32(const struct nlmsghdr *nlh, unsigned offset, uint16_t type);

#endif
