/*
 * Is a request's Host one by which this server may be asked? A page of somebody else can point a
 * name of its own at an address of this machine (DNS rebinding) and have the visitor's browser ask
 * here; such a request carries that name. Pure; fed with heads of strangers.
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
