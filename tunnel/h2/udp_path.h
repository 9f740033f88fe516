/*
 * Builds and parses the request path that names the target of a datagram stream (RFC 9298 section
 * 2, the default template): /.well-known/masque/udp/HOST/PORT/, with the colons of IPv6 written
 * %3A. Pure.
 *
 *	udp_path_build("[2001:db8::1]:53", path, sizeof path);	// /.well-known/masque/udp/2001%3Adb8%3A%3A1/53/
 *	if (!udp_path_parse(path, authority, sizeof authority))	// 400
 */
#ifndef EDGEWAY_TUNNEL_H2_UDP_PATH_H
#define EDGEWAY_TUNNEL_H2_UDP_PATH_H

#include "base/core/util.h"

enum { UDP_PATH_MAX = 24 + 3 * 255 + 8 };

/* authority: host:port, [IPv6]:port. False: the text has another form, or is too long. */
bool udp_path_build(const char *authority, char *to, size_t size);
bool udp_path_parse(const char *path, char *authority, size_t size);

#endif
