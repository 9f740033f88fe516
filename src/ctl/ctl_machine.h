/*
 * What edgewayctl's doctor reads from the machine itself, without changing or sending anything. All
 * functions return false, 0 or "" if the value is unknown.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_MACHINE_H
#define EDGEWAY_SRC_CTL_CTL_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PLACE_TEXT_MAX = 128 };

/* First IPv4 address in host byte order, 0: none. *up: whether the interface is up. false: no such
 * interface. */
bool machine_interface(const char *name, uint32_t *address, bool *up);
/* Of a link, in bytes. */
unsigned machine_mtu(const char *interface);
/* The path MTU that the kernel knows to this address (as for addr_parse), in bytes; less than the
 * link's if the kernel was told so. */
unsigned machine_path_mtu(const char *towards);
/* The interface that leads to this address (as for addr_parse), or else that of the default
 * route. */
void machine_uplink(const char *towards, char name[PLACE_TEXT_MAX]);
/* The number in a file, -1: cannot be read. */
long machine_number(const char *path);
bool machine_clock_is_kept(void);

#endif
