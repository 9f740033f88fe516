/*
 * Does a request's Host name this server? A malicious web page can point a name of its own at an
 * address of this machine (DNS rebinding) and make the visitor's browser send requests here; those
 * requests carry that name. Pure; takes untrusted heads.
 *
 *	if (!own_host(head.host, names))
 *		... 421
 */
#ifndef EDGEWAY_BASE_HTTP_OWN_HOST_H
#define EDGEWAY_BASE_HTTP_OWN_HOST_H

#include "base/http/http1.h"

/* An address, localhost, or one of the names (ended by NULL; NULL: none), with or without a
 * port. */
bool own_host(struct http1_str authority, const char *const *names);

#endif
