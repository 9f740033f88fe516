/*
 * Finds the process that uses a port in this network namespace. It only reads /proc. Processes of
 * other users or containers may be invisible.
 *
 *	char who[PORT_HOLDER_TEXT_MAX];
 *
 *	if (port_holder("udp", address, 53, who))
 *		printf("%s has it\n", who);
 */
#ifndef EDGEWAY_BASE_OS_PORT_HOLDER_H
#define EDGEWAY_BASE_OS_PORT_HOLDER_H

#include <stdbool.h>
#include <stdint.h>

enum { PORT_HOLDER_TEXT_MAX = 128 };
#define PORT_HOLDER_UNSEEN "that cannot be seen from here"

/* "dnsmasq (pid 17)" when root's, else "dnsmasq (pid 17, user 1000)", or "a process of user 1000 "
 * PORT_HOLDER_UNSEEN: the process that listens on the port at this address (host byte order) or at
 * the wildcard; protocol "udp" or "tcp". Process 1 only if no other has the socket. False, and "":
 * none does. */
bool port_holder(
	const char *protocol, uint32_t address, uint16_t port, char who[PORT_HOLDER_TEXT_MAX]);

#endif
