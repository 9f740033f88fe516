/*
 * What edgewayctl's doctor looks up on the machine itself, without changing or sending anything.
 * All give false, 0 or "" where it cannot be told.
 */
#ifndef EDGEWAY_SRC_CTL_CTL_MACHINE_H
#define EDGEWAY_SRC_CTL_CTL_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PLACE_TEXT_MAX = 128 };

/* First IPv4 address in host byte order, 0: none. *up: is the interface up? false: there is no such
 * interface. */
bool machine_interface(const char *name, uint32_t *address, bool *up);
/* Of a link, in bytes. */
unsigned machine_mtu(const char *interface);
/* What the kernel knows of the way to this address (as of addr_parse), in bytes; less than the
 * link's where it was told so. */
unsigned machine_path_mtu(const char *towards);
/* The interface by which this address (as of addr_parse) is reached, or else that of the default
 * route. */
void machine_uplink(const char *towards, char name[PLACE_TEXT_MAX]);
/* A number in a file, -1: cannot be read. */
long machine_number(const char *path);
bool machine_clock_is_kept(void);

#endif
